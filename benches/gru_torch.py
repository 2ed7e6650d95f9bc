"""The recipe of graphs/gru.ron in PyTorch: python gru_torch.py TEXT [SEEDS].

Prints a JSON line for each seed: the loss and the accuracy over all windows of the last tenth of the text."""

import json
import math
import pathlib
import sys

import torch
import torch.nn as nn

T, D, H, V, B, STEPS = 32, 48, 128, 256, 64, 600
START, END, WARMUP, STRIDE = 4e-3, 1e-4, 30, 8


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(V, D), nn.GRU(D, H, num_layers=2, batch_first=True)
        self.out = nn.Linear(H, V)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


def windows(tokens, stride):
    rows = tokens.unfold(0, T + 1, stride)
    return rows[:, :-1], rows[:, 1:]


def run(seed, train, test):
    torch.manual_seed(seed)
    model = Model()
    stepper = torch.optim.AdamW(model.parameters(), START, weight_decay=0.01)

    def rate(step):
        share = (step - WARMUP) / (STEPS - 1 - WARMUP)
        cosine = END + (START - END) * (1 + math.cos(math.pi * share)) / 2
        return step / WARMUP if step < WARMUP else cosine / START

    schedule = torch.optim.lr_scheduler.LambdaLR(stepper, rate)
    inputs, targets = train
    order = torch.randperm(len(inputs))
    for step in range(STEPS):
        picked = order[step * B:(step + 1) * B]
        loss = nn.functional.cross_entropy(model(inputs[picked]).flatten(0, 1), targets[picked].flatten())
        stepper.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        stepper.step()
        schedule.step()
    with torch.no_grad():
        logits = torch.cat([model(part) for part in test[0].split(256)])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), test[1].flatten())
    accuracy = (logits.argmax(2) == test[1]).float().mean()
    return {"seed": seed, "loss": round(float(loss), 5), "accuracy": round(float(accuracy), 5)}


if __name__ == "__main__":
    tokens = torch.tensor(list(pathlib.Path(sys.argv[1]).read_bytes()))
    end = int(0.9 * len(tokens))
    train, test = windows(tokens[:int(0.95 * end)], STRIDE), windows(tokens[end:], T)
    for seed in range(1, int(sys.argv[2]) + 1 if len(sys.argv) > 2 else 4):
        print(json.dumps(run(seed, train, test)), flush=True)
