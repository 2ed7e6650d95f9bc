#!/usr/bin/env python3
"""Twenty steps of every optimizer on a small regression in double precision, by PyTorch, by optax, and by the formulas of
Muon's authors: python tests/examples/training.py"""

import json
import pathlib

import jax
import numpy
import optax
import torch
from muon import muon

jax.config.update("jax_enable_x64", True)

X = [[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5], [1.0, 1.0]]
T = [[1.0, 0.0, -1.0], [0.5, 2.0, 0.0], [-1.5, 0.5, 1.0], [0.0, -0.5, 2.0]]
W = [[0.1, -0.2, 0.3], [0.4, 0.0, -0.5]]
B = [0.25, -0.75, 1.25]
STEPS = 20


class Optax:
    """A transformation of optax as an optimizer of PyTorch."""

    def __init__(self, params, transformation):
        self.params, self.transformation = params, transformation
        self.state = transformation.init([p.detach().numpy() for p in params])

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        grads, params = [p.grad.numpy() for p in self.params], [p.detach().numpy() for p in self.params]
        updates, self.state = self.transformation.update(grads, self.state, params)
        with torch.no_grad():
            for p, update in zip(self.params, updates):
                p += torch.from_numpy(numpy.array(update))


class Muon:
    """The formulas of `muon.py` for matrices, and a step along the running sum for vectors."""

    def __init__(self, params, lr):
        self.params, self.lr = params, lr
        self.buffers = [torch.zeros_like(p) for p in params]

    zero_grad = Optax.zero_grad

    def step(self):
        with torch.no_grad():
            for i, p in enumerate(self.params):
                if p.dim() > 1:
                    after, self.buffers[i] = muon(p, p.grad, self.lr, self.buffers[i])
                else:
                    self.buffers[i] = 0.95 * self.buffers[i] + p.grad
                    after = p - self.lr * (p.grad + 0.95 * self.buffers[i])
                p.copy_(after)


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
RMSprop, Adagrad = torch.optim.RMSprop, torch.optim.Adagrad
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
    case("RMSprop", "RMSprop(lr: 0.01)", lambda w, b: RMSprop([w, b], 0.01)),
    case("RMSprop with a penalty", "RMSprop(lr: 0.02, alpha: 0.9, eps: 1e-4, weight_decay: 0.1)",
         lambda w, b: RMSprop([w, b], 0.02, alpha=0.9, eps=1e-4, weight_decay=0.1)),
    case("RMSprop with momentum", "RMSprop(lr: 0.01, momentum: 0.8)", lambda w, b: RMSprop([w, b], 0.01, momentum=0.8)),
    case("RMSprop, centered", "RMSprop(lr: 0.01, centered: true)", lambda w, b: RMSprop([w, b], 0.01, centered=True)),
    case("RMSprop, centered with momentum", "RMSprop(lr: 0.01, alpha: 0.9, momentum: 0.5, centered: true)",
         lambda w, b: RMSprop([w, b], 0.01, alpha=0.9, momentum=0.5, centered=True)),
    case("Adagrad", "Adagrad(lr: 0.2)", lambda w, b: Adagrad([w, b], 0.2)),
    case("Adagrad with all settings",
         "Adagrad(lr: 0.2, lr_decay: 0.1, initial_accumulator_value: 0.5, eps: 1e-3, weight_decay: 0.1)",
         lambda w, b: Adagrad([w, b], 0.2, lr_decay=0.1, initial_accumulator_value=0.5, eps=1e-3, weight_decay=0.1)),
    case("Lion", "Lion(lr: 0.05)", lambda w, b: Optax([w, b], optax.lion(0.05))),
    case("Lion with decay", "Lion(lr: 0.03, beta1: 0.8, beta2: 0.95, weight_decay: 0.2)",
         lambda w, b: Optax([w, b], optax.lion(0.03, 0.8, 0.95, weight_decay=0.2))),
    case("LAMB", "Lamb(lr: 0.05)", lambda w, b: Optax([w, b], optax.lamb(0.05))),
    case("LAMB with decay", "Lamb(lr: 0.05, beta1: 0.8, beta2: 0.95, eps: 1e-4, weight_decay: 0.1)",
         lambda w, b: Optax([w, b], optax.lamb(0.05, 0.8, 0.95, 1e-4, weight_decay=0.1))),
    case("Muon", "Muon(lr: 0.05, compute: f32)", lambda w, b: Muon([w, b], 0.05)),
]

pathlib.Path(__file__).with_suffix(".json").write_text(
    json.dumps({"x": sum(X, []), "t": sum(T, []), "w": sum(W, []), "b": B}, indent=None)[:-1]
    + ', "cases": [\n' + ",\n".join(json.dumps(case) for case in CASES) + "\n]}\n")
