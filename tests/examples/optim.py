#!/usr/bin/env python3
"""Expected numbers of the optimizers' examples, and of the straight-through choice, by PyTorch in double precision:
python tests/examples/optim.py"""
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

# The straight-through estimator: hard forward, the gradient of the operand is that of the result, here 1, 2, 3, ...
x = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]], dtype=torch.float64, requires_grad=True)
hard = torch.nn.functional.one_hot(x.argmax(dim=-1), 3).to(x.dtype)
y = hard + x - x.detach()
y.backward(torch.arange(1, 7, dtype=torch.float64).reshape(2, 3))
print("one_hot_argmax", hard.flatten().tolist(), x.grad.flatten().tolist())
