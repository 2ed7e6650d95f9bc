#!/usr/bin/env python3
"""Expected numbers of the optimizers' examples, by PyTorch in double precision: python tests/examples/optim.py"""
import torch


def run(make, p, g, state=None, steps=1):
    param = torch.tensor(p, dtype=torch.float64, requires_grad=True)
    optimizer = make([param])
    if state:
        optimizer.state[param].update({k: torch.tensor(v, dtype=torch.float64) for k, v in state.items()})
    param.grad = torch.tensor(g, dtype=torch.float64)
    optimizer.step()
    kept = {k: v.tolist() for k, v in optimizer.state[param].items() if k != "step" and v is not None}
    print(make([torch.zeros(1, requires_grad=True)]).__class__.__name__, param.tolist(), kept)


run(lambda p: torch.optim.SGD(p, 0.1), [1.0, -2.0], [0.5, 4.0])
run(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), [1.0], [0.5], {"momentum_buffer": [2.0]})
run(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True), [1.0], [0.5], {"momentum_buffer": [2.0]})
run(lambda p: torch.optim.Adam(p, 0.1), [1.0, -2.0], [0.5, -4.0])
run(lambda p: torch.optim.AdamW(p, 0.1), [1.0, -2.0], [0.5, -4.0])
