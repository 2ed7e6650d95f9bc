#!/usr/bin/env python3
"""Expected numbers of the optimizers' examples, and of the straight-through choice, by PyTorch and optax in double
precision: python tests/examples/optim.py"""
import jax
import optax
import torch

jax.config.update("jax_enable_x64", True)


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
run(lambda p: torch.optim.RMSprop(p, 0.01), [1.0, -2.0], [0.5, -4.0])
run(lambda p: torch.optim.Adagrad(p, 0.1), [1.0, -2.0], [3.0, 0.0], {"sum": [16.0, 0.25]})


def step(name, transformation, p, g, **kept):
    p, g = jax.numpy.array(p), jax.numpy.array(g)
    state = transformation.init(p)
    kept = {slot: jax.numpy.array(value) for slot, value in kept.items()}
    updates, state = transformation.update(g, (state[0]._replace(**kept), *state[1:]), p)
    print(name, optax.apply_updates(p, updates).tolist(), jax.tree.map(lambda x: x.tolist(), state[0]))


step("Lion", optax.lion(0.1), [1.0, -2.0], [0.5, -4.0], mu=[-0.25, -0.5])
step("LAMB", optax.lamb(0.1), [3.0, -4.0], [0.5, -4.0])

# The straight-through estimator: hard forward, the gradient of the operand is that of the result, here 1, 2, 3, ...
x = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]], dtype=torch.float64, requires_grad=True)
hard = torch.nn.functional.one_hot(x.argmax(dim=-1), 3).to(x.dtype)
y = hard + x - x.detach()
y.backward(torch.arange(1, 7, dtype=torch.float64).reshape(2, 3))
print("one_hot_argmax", hard.flatten().tolist(), x.grad.flatten().tolist())
