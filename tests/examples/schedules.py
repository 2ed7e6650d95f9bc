#!/usr/bin/env python3
"""Learning rates by PyTorch's schedulers in double precision: python tests/examples/schedules.py"""

import json
import math
import pathlib

import torch

OneCycle, Plateau = torch.optim.lr_scheduler.OneCycleLR, torch.optim.lr_scheduler.ReduceLROnPlateau


def optimizer(lr):
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr)


def one_cycle(n_steps, **settings):
    stepper = optimizer(1.0)
    schedule, rates = OneCycle(stepper, total_steps=n_steps, **settings), []
    for step in range(n_steps):
        rates.append(stepper.param_groups[0]["lr"])
        stepper.step()
        if step < n_steps - 1:
            schedule.step()
    ordered = [settings["max_lr"], settings.get("pct_start", 0.3), settings.get("div_factor", 25.0),
               settings.get("final_div_factor", 1e4)]
    return {"settings": ordered, "rates": rates}


def plateau(start, mode, metrics, **settings):
    """The rate after each epoch."""
    stepper, rates = optimizer(start), []
    schedule = Plateau(stepper, mode=mode, eps=0.0, **settings)
    for metric in metrics:
        stepper.step()
        schedule.step(metric)
        rates.append(stepper.param_groups[0]["lr"])
    ordered = [start, settings.get("factor", 0.1), settings.get("patience", 10), settings.get("threshold", 1e-4),
               settings.get("cooldown", 0), settings.get("min_lr", 0.0)]
    metrics = [None if math.isnan(metric) else metric for metric in metrics]
    return {"settings": ordered, "mode": mode, "metrics": metrics, "rates": rates}


NAN = math.nan
FALLING = [1.0, 0.8, 0.8, 0.79999, 0.81, 0.9, 0.5, 0.5, NAN, 0.5, 0.5, 0.5, 0.6, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4]
RISING = [0.1, 0.5, 0.5, 0.50001, 0.45, 0.7, 0.7, 0.7, 0.7, 0.9, 0.2, 0.2, 0.2, 0.2, 0.91]
RECORDED = {
    "one_cycle": [
        one_cycle(20, max_lr=0.1),
        one_cycle(12, max_lr=1.0, pct_start=0.5, div_factor=10.0, final_div_factor=100.0),
        one_cycle(7, max_lr=0.3, pct_start=0.1),
        one_cycle(15, max_lr=0.02, pct_start=1.0, div_factor=4.0),
    ],
    "plateau": [
        plateau(0.1, "min", FALLING, patience=1),
        plateau(1.0, "min", FALLING, factor=0.5, patience=0, threshold=0.01, cooldown=2, min_lr=0.1),
        plateau(0.2, "max", RISING, factor=0.5, patience=2),
        plateau(0.2, "max", RISING, factor=0.25, patience=1, threshold=0.2, cooldown=1, min_lr=0.004),
        plateau(0.5, "min", [NAN, NAN, 1.0, 1.0], factor=0.5, patience=1),
    ],
}
lists = [f'"{name}": [\n' + ",\n".join(map(json.dumps, cases)) + "\n]" for name, cases in RECORDED.items()]
pathlib.Path(__file__).with_suffix(".json").write_text("{" + ",\n".join(lists) + "}\n")
