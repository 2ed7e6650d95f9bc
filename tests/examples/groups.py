#!/usr/bin/env python3
"""Twenty steps with groups of parameters, by PyTorch in double precision: python tests/examples/groups.py"""

import json
import math
import pathlib

import torch

X = [[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5], [1.0, 1.0]]
T = [[1.0, 0.0, -1.0], [0.5, 2.0, 0.0], [-1.5, 0.5, 1.0], [0.0, -0.5, 2.0]]
START = {
    "embed.w": [[0.1, -0.2, 0.3], [0.4, 0.05, -0.5]],
    "embed.bias": [0.25, -0.75, 0.5],
    "head.w": [[0.3, 0.1, -0.4], [-0.2, 0.6, 0.2], [0.5, -0.1, 0.35]],
    "head.bias": [0.2, -0.3, 0.1],
}
STEPS = 20


def case(title, optimizer, make, clip_value=None, schedules=None):
    x, t = torch.tensor(X, dtype=torch.float64), torch.tensor(T, dtype=torch.float64)
    params = {name: torch.tensor(v, dtype=torch.float64, requires_grad=True) for name, v in START.items()}
    stepper, losses = make(params), []
    schedule = schedules and torch.optim.lr_scheduler.LambdaLR(stepper, schedules)
    for _ in range(STEPS):
        stepper.zero_grad()
        h = torch.tanh(x @ params["embed.w"] + params["embed.bias"])
        loss = ((h @ params["head.w"] + params["head.bias"] - t) ** 2).mean()
        loss.backward()
        if clip_value:
            torch.nn.utils.clip_grad_value_(params.values(), clip_value)
        stepper.step()
        if schedule:
            schedule.step()
        losses.append(loss.item())
    return {"title": title, "optimizer": optimizer, "clip_value": clip_value, "losses": losses,
            **{name: p.flatten().tolist() for name, p in params.items()}}


Adam, AdamW, SGD = torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD
CASES = [
    case("no decay of biases, another rate",
         'AdamW(lr: 0.02, weight_decay: 0.1, groups: [(params: "*.bias", weight_decay: 0), '
         '(params: ["embed.*"], lr: 0.005)])',
         lambda p: AdamW([
             {"params": [p["embed.bias"], p["head.bias"]], "weight_decay": 0.0},
             {"params": [p["embed.w"]], "lr": 0.005},
             {"params": [p["head.w"]]},
         ], 0.02, weight_decay=0.1)),
    case("frozen",
         'Adam(lr: 0.05, groups: [(params: "embed.*", frozen: true), (params: "head.w", beta1: 0.5, eps: 1e-3)])',
         lambda p: Adam([{"params": [p["head.w"]], "betas": (0.5, 0.999), "eps": 1e-3},
                         {"params": [p["head.bias"]]}], 0.05)),
    case("schedules",
         'Momentum(lr: Exp(start: 0.1, rate: 0.05), momentum: 0.8, groups: [(params: "head.*", '
         'lr: Steps(start: 0.2, factor: 0.5, every: 6)), (params: "*.bias", momentum: 0)])',
         lambda p: SGD([
             {"params": [p["head.w"], p["head.bias"]], "lr": 0.2},
             {"params": [p["embed.bias"]], "momentum": 0.0},
             {"params": [p["embed.w"]]},
         ], 0.1, momentum=0.8),
         schedules=[lambda s: 0.5 ** (s // 6), lambda s: math.exp(-0.05 * s), lambda s: math.exp(-0.05 * s)]),
    case("expressions of the step",
         'Adam(lr: "0.1 / sqrt(step + 1.0)", groups: [(params: "*.bias", lr: "0.02 * minimum(1.0, (step + 1) / 5)")])',
         lambda p: Adam([{"params": [p["embed.bias"], p["head.bias"]], "lr": 0.02},
                         {"params": [p["embed.w"], p["head.w"]]}], 0.1),
         schedules=[lambda s: min(1.0, (s + 1) / 5), lambda s: 1 / math.sqrt(s + 1)]),
    case("clamped", "Sgd(lr: 0.3)", lambda p: SGD(p.values(), 0.3), clip_value=0.05),
]

START = {name: torch.tensor(v, dtype=torch.float64).flatten().tolist() for name, v in START.items()}
pathlib.Path(__file__).with_suffix(".json").write_text(
    json.dumps({"x": sum(X, []), "t": sum(T, []), **START})[:-1]
    + ', "cases": [\n' + ",\n".join(json.dumps(case) for case in CASES) + "\n]}\n")
