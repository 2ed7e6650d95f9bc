"""The recipe of graphs/houses.ron in PyTorch and scikit-learn, on the same rows:

    cargo run --release -p engine-laws --example write DIR
    python benches/houses_torch.py DIR [SEEDS]

Prints a JSON line for each seed: the loss over the rows of the test, and the loss of the law itself."""

import copy
import csv
import json
import math
import pathlib
import sys

import numpy
import torch
import torch.nn as nn
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

BATCH, EPOCHS, START, END, DECAY, PATIENCE = 64, 60, 3e-3, 3e-5, 1e-4, 10


def read(path):
    with open(path) as file:
        rows = list(csv.DictReader(file))
    number = lambda cell: float(cell) if cell else math.nan
    names = numpy.array([[row["city"], row["heating"] or None] for row in rows], dtype=object)
    numbers = numpy.array([[number(row[name]) for name in ["area", "rooms", "year", "distance"]] for row in rows])
    return numbers, names, *(torch.tensor([float(row[name]) for row in rows]) for name in ["price", "law"])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cities, self.heatings = nn.Embedding(12, 4), nn.Embedding(4, 2)
        self.layers = nn.Sequential(
            nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1),
        )

    def forward(self, x):
        numbers, names, heating_missing, _ = x
        x = [numbers, self.cities(names[:, 0]), self.heatings(names[:, 1]), heating_missing]
        return self.layers(torch.cat(x, dim=1))[:, 0] + 7


def main(folder, n_seeds):
    folder = pathlib.Path(folder)
    train, test = read(folder / "houses_train.csv"), read(folder / "houses_test.csv")
    is_kept = numpy.ones(len(train[0]), dtype=bool)
    is_kept[numpy.load(folder / "houses_validation.npy")] = False
    numbers = make_union(
        make_pipeline(SimpleImputer(), StandardScaler()), MissingIndicator(features="missing-only", error_on_new=False),
    ).fit(train[0][is_kept])
    names = make_pipeline(SimpleImputer(strategy="most_frequent", missing_values=None), OrdinalEncoder())
    names.fit(train[1][is_kept])

    def fed(rows, is_taken):
        return (
            torch.tensor(numbers.transform(rows[0][is_taken]), dtype=torch.float32),
            torch.tensor(names.transform(rows[1][is_taken]).astype("int64")),
            torch.tensor([[row[1] is None] for row in rows[1][is_taken]], dtype=torch.float32),
            rows[2][torch.from_numpy(is_taken)].log(),
        )

    parts = fed(train, is_kept), fed(train, ~is_kept), fed(test, numpy.ones(len(test[0]), dtype=bool))
    noise = nn.functional.mse_loss(test[3].log(), test[2].log()).item()
    for seed in range(1, n_seeds + 1):
        print(json.dumps({"seed": seed, **trained(seed, *parts), "noise": round(noise, 6)}), flush=True)


def trained(seed, train, validation, test):
    torch.manual_seed(seed)
    model, loss = Model(), nn.functional.mse_loss
    n_rows = len(train[3])
    n_steps = EPOCHS * math.ceil(n_rows / BATCH)
    rate = lambda step: (END + (START - END) * (1 + math.cos(math.pi * step / (n_steps - 1))) / 2) / START
    optimizer = torch.optim.AdamW(model.parameters(), lr=START, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    best, best_epoch, state = math.inf, 0, None
    for epoch in range(EPOCHS):
        order = torch.randperm(n_rows)
        for rows in order.split(BATCH):
            batch = [field[rows] for field in train]
            optimizer.zero_grad()
            loss(model(batch), batch[3]).backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            now = loss(model(validation), validation[3]).item()
        if now < best:
            best, best_epoch, state = now, epoch, copy.deepcopy(model.state_dict())
        if epoch - best_epoch >= PATIENCE:
            break
    model.load_state_dict(state)
    with torch.no_grad():
        return {"loss": round(loss(model(test), test[3]).item(), 6), "best_epoch": best_epoch + 1}


main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)
