#!/usr/bin/env python3
"""Twenty steps with state beside the optimizer, by PyTorch in double precision: python tests/examples/state.py

A batch norm keeps running statistics, and torch.optim.swa_utils keeps an exponential average of the weights. The average
is updated before the step of the optimizer, so it sees the weights before that step."""

import json
import pathlib

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

X = [[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5], [1.0, 1.0], [-2.0, 0.5], [0.25, -0.5], [1.5, -1.25], [-0.5, 2.0]]
T = [1.0, 0.5, -1.5, 0.0, 2.0, -0.5, 1.25, -1.0]
W = [[0.1, -0.2, 0.3], [0.4, 0.05, -0.5]]
V = [0.6, -0.3, 0.2]
STEPS = 20


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(W, dtype=torch.float64))
        self.v = torch.nn.Parameter(torch.tensor(V, dtype=torch.float64))
        self.norm = torch.nn.BatchNorm1d(3, affine=False, dtype=torch.float64)

    def forward(self, x):
        return torch.tanh(self.norm(x @ self.w)) @ self.v


def case(batches):
    """Each step averages the gradients of so many batches of four rows."""
    x, t = torch.tensor(X, dtype=torch.float64), torch.tensor(T, dtype=torch.float64)
    model = Model()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    # The first call copies the weights.
    average.update_parameters(model)
    optimizer, losses = torch.optim.Adam([model.w, model.v], 0.05), []
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(batches):
            first = 4 * ((step * batches + part) % 2)
            loss = ((model(x[first:first + 4]) - t[first:first + 4]) ** 2).mean()
            (loss / batches).backward()
            losses.append(loss.item())
        average.update_parameters(model)
        optimizer.step()
    kept = {"w": model.w, "v": model.v, "mean": model.norm.running_mean, "var": model.norm.running_var,
            "w_average": average.module.w, "v_average": average.module.v}
    return {"accumulate": batches, "losses": losses, **{name: t.flatten().tolist() for name, t in kept.items()}}


pathlib.Path(__file__).with_suffix(".json").write_text(
    json.dumps({"x": sum(X, []), "t": T, "w": sum(W, []), "v": V})[:-1]
    + ', "cases": [\n' + ",\n".join(json.dumps(case(batches)) for batches in (1, 2)) + "\n]}\n")
