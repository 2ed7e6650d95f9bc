#!/usr/bin/env python3
"""Ten steps of every optimizer on a small regression, by PyTorch in double precision: python tests/examples/training.py"""

import json
import pathlib

import torch

X = [[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5], [1.0, 1.0]]
T = [[1.0, 0.0, -1.0], [0.5, 2.0, 0.0], [-1.5, 0.5, 1.0], [0.0, -0.5, 2.0]]
W = [[0.1, -0.2, 0.3], [0.4, 0.0, -0.5]]
B = [0.25, -0.75, 1.25]
STEPS = 10


def case(title, optimizer, make, clip=None):
    x, t = torch.tensor(X, dtype=torch.float64), torch.tensor(T, dtype=torch.float64)
    w = torch.tensor(W, dtype=torch.float64, requires_grad=True)
    b = torch.tensor(B, dtype=torch.float64, requires_grad=True)
    stepper, losses = make(w, b), []
    for _ in range(STEPS):
        stepper.zero_grad()
        loss = ((x @ w + b - t) ** 2).mean()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_([w, b], clip)
        stepper.step()
        losses.append(loss.item())
    return {"title": title, "optimizer": optimizer, "clip_norm": clip, "losses": losses,
            "w": w.flatten().tolist(), "b": b.tolist()}


SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
CASES = [
    case("plain", "Sgd(lr: 0.2)", lambda w, b: SGD([w, b], 0.2)),
    case("with an L2 penalty", "Sgd(lr: 0.2, weight_decay: 0.1)", lambda w, b: SGD([w, b], 0.2, weight_decay=0.1)),
    case("clipped", "Sgd(lr: 0.2)", lambda w, b: SGD([w, b], 0.2), clip=0.5),
    case("with momentum", "Momentum(lr: 0.1)", lambda w, b: SGD([w, b], 0.1, momentum=0.9)),
    case("damped", "Momentum(lr: 0.1, momentum: 0.8, dampening: 0.5)",
         lambda w, b: SGD([w, b], 0.1, momentum=0.8, dampening=0.5)),
    case("looking ahead", "Momentum(lr: 0.1, nesterov: true, weight_decay: 0.05)",
         lambda w, b: SGD([w, b], 0.1, momentum=0.9, nesterov=True, weight_decay=0.05)),
    case("Adam", "Adam(lr: 0.05)", lambda w, b: Adam([w, b], 0.05)),
    case("Adam with a penalty", "Adam(lr: 0.05, beta1: 0.8, beta2: 0.95, eps: 1e-6, weight_decay: 0.1)",
         lambda w, b: Adam([w, b], 0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    case("AdamW", "AdamW(lr: 0.05, weight_decay: 0.2)", lambda w, b: AdamW([w, b], 0.05, weight_decay=0.2)),
    case("AdamW that spares the bias", "AdamW(lr: 0.05, weight_decay: 0.2, decay_bias: false)",
         lambda w, b: AdamW([{"params": [w], "weight_decay": 0.2}, {"params": [b], "weight_decay": 0.0}], 0.05)),
]

pathlib.Path(__file__).with_suffix(".json").write_text(
    json.dumps({"x": sum(X, []), "t": sum(T, []), "w": sum(W, []), "b": B}, indent=None)[:-1]
    + ', "cases": [\n' + ",\n".join(json.dumps(case) for case in CASES) + "\n]}\n")
