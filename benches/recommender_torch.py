"""The recipe of graphs/recommender.ron in PyTorch, on the same rows:

    cargo run --release -p engine-laws --example write DIR
    python benches/recommender_torch.py DIR [SEEDS]

Prints a JSON line for each seed: NDCG@10 over the rows of the test, each with one relevant item among all 1,000, and that
of the law itself."""

import json
import math
import pathlib
import sys

import numpy
import torch
import torch.nn as nn

USERS, ITEMS, WIDTH, NEGATIVES, TOP = 2000, 1000, 16, 16, 10
BATCH, EPOCHS, START, END = 1000, 6, 2e-2, 2e-4


def load(folder, split):
    return [torch.from_numpy(numpy.load(folder / f"choices_{split}_{name}.npy")).long() for name in ["user", "item", "true_rank"]]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, WIDTH), nn.Embedding(ITEMS, WIDTH)
        self.bias = nn.Parameter(torch.zeros(ITEMS))
        nn.init.normal_(self.users.weight, 0, 0.1)
        nn.init.normal_(self.items.weight, 0, 0.1)

    def loss(self, user, item):
        drawn = torch.randint(ITEMS - 1, (len(user), NEGATIVES))
        negative = drawn + (drawn >= item[:, None]).long()
        candidates = torch.cat([item[:, None], negative], dim=1)
        scores = (self.users(user)[:, None, :] * self.items(candidates)).sum(2) + self.bias[candidates]
        return nn.functional.cross_entropy(scores, torch.zeros_like(item))

    def ndcg(self, user, item):
        found = (self.users(user) @ self.items.weight.T + self.bias).topk(TOP).indices
        gain = 1 / torch.log2(torch.arange(TOP) + 2.0)
        return ((found == item[:, None]) * gain).sum(1).mean().item()


def main(folder, n_seeds):
    folder = pathlib.Path(folder)
    train, test = load(folder, "train"), load(folder, "test")
    best = torch.where(test[2] <= TOP, 1 / torch.log2(test[2] + 1.0), 0.0).mean().item()
    for seed in range(1, n_seeds + 1):
        torch.manual_seed(seed)
        model = Model()
        n_steps = EPOCHS * math.ceil(len(train[0]) / BATCH)
        rate = lambda step: (END + (START - END) * (1 + math.cos(math.pi * step / (n_steps - 1))) / 2) / START
        optimizer = torch.optim.Adam(model.parameters(), lr=START)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(train[0])).split(BATCH):
                optimizer.zero_grad()
                model.loss(train[0][rows], train[1][rows]).backward()
                optimizer.step()
                schedule.step()
        with torch.no_grad():
            ndcg = model.ndcg(*test[:2])
        print(json.dumps({"seed": seed, "ndcg": round(ndcg, 5), "best": round(best, 5)}), flush=True)


main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3)
