#!/usr/bin/env python3
"""The recipe of graphs/classifier_bn.ron by PyTorch on a CPU:

    python benches/classifier_bn_torch.py DIR/mnist 3

Prints, for each of so many seeds, the accuracy on the test set of the averaged weights and of the last ones."""

import gzip
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

BATCH, EPOCHS, WARMUP, START, END, DECAY = 128, 10, 100, 2e-3, 2e-5, 0.995


def idx(path):
    packed = path.with_name(path.name + ".gz")
    data = gzip.open(packed).read() if packed.exists() else path.read_bytes()
    n_axes = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(n_axes)]
    return np.frombuffer(data[4 + 4 * n_axes:], np.uint8).reshape(shape)


def split(folder, name):
    images = idx(folder / f"{name}-images-idx3-ubyte").reshape(-1, 784)
    labels = idx(folder / f"{name}-labels-idx1-ubyte")
    return torch.tensor(images / 255.0, dtype=torch.float32), torch.tensor(labels.astype(np.int64))


def accuracy(model, images, labels):
    with torch.no_grad():
        return (model.eval()(images).argmax(1) == labels).float().mean().item()


def run(seed, images, labels, test):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(784, 256, bias=False), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 10))
    nn.init.kaiming_uniform_(model[0].weight, nonlinearity="relu")
    nn.init.xavier_uniform_(model[3].weight)
    nn.init.zeros_(model[3].bias)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
    vectors = [model[1].weight, model[1].bias, model[3].bias]
    groups = [{"params": vectors, "weight_decay": 0.0}, {"params": [model[0].weight, model[3].weight]}]
    stepper = torch.optim.AdamW(groups, START, weight_decay=0.05)
    n_steps = len(images) // BATCH * EPOCHS

    def rate(step):
        share = (step - WARMUP) / (n_steps - 1 - WARMUP)
        cosine = END + (START - END) * (1 + math.cos(math.pi * share)) / 2
        return step / WARMUP if step < WARMUP else cosine / START

    schedule = torch.optim.lr_scheduler.LambdaLR(stepper, rate)
    for _ in range(EPOCHS):
        order = torch.randperm(len(images))
        for first in range(0, len(images) - BATCH + 1, BATCH):
            picked = order[first:first + BATCH]
            loss = nn.functional.cross_entropy(model(images[picked]), labels[picked])
            stepper.zero_grad()
            loss.backward()
            average.update_parameters(model)
            stepper.step()
            schedule.step()
    for buffer in ("running_mean", "running_var"):
        getattr(average.module[1], buffer).copy_(getattr(model[1], buffer))
    return accuracy(average.module, *test), accuracy(model, *test)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    train, test = split(folder, "train"), split(folder, "t10k")
    for seed in range(1, int(sys.argv[2]) + 1):
        print(seed, *run(seed, *train, test), flush=True)
