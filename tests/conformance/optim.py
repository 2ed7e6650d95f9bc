"""Cases of optimizers: `python tests/conformance/optim.py` writes optim.json.

A case is the first step of training, with state from before.
"""

import torch

from peers import WIDE, case, grid, more, op, t, write

LR = t(0.125, "f32")
P, G, M, S = grid(2, 3), grid(2, 3, seed=1), grid(2, 3, seed=2), grid(2, 3, low=0.25, seed=3)


def stepped(make, names):
    """A step of an optimizer of PyTorch. `names` are the entries of its state, in the order of operands."""

    def of(p, g, lr, *state, **settings):
        parameter = torch.nn.Parameter(p.clone())
        optimizer = make([parameter], lr.item(), **settings)
        optimizer.state[parameter] |= {name: x.clone() for name, x in zip(names, state)}
        if names != ["momentum_buffer"]:
            optimizer.state[parameter]["step"] = torch.tensor(0.0)
        parameter.grad = g.clone()
        optimizer.step()
        return (parameter.detach(), *(optimizer.state[parameter][name] for name in names))

    return of


def optimizer(name, peer, function, state, *settings):
    op(
        name,
        peer,
        function,
        *[
            case(
                "plain" if not more else ", ".join(f"{key} = {value}" for key, value in more.items()),
                P,
                G,
                LR,
                *state,
                grad=False,
                types=WIDE,
                whole=True,
                **more,
            )
            for more in ({}, *settings)
        ],
        case("no elements", grid(0), grid(0), LR, *[grid(0) for _ in state], grad=False, types=WIDE, whole=True),
    )


torch_optim = torch.optim
optimizer(
    "sgd",
    "torch.optim.SGD",
    stepped(lambda p, lr, **more: torch_optim.SGD(p, lr, **more), []),
    [],
    {"weight_decay": 0.25},
    {"maximize": True},
)
optimizer(
    "momentum",
    "torch.optim.SGD",
    stepped(lambda p, lr, momentum=0.9, **more: torch_optim.SGD(p, lr, momentum, **more), ["momentum_buffer"]),
    [M],
    {"nesterov": True},
    {"weight_decay": 0.25},
)
optimizer(
    "adagrad",
    "torch.optim.Adagrad",
    stepped(lambda p, lr, **more: torch_optim.Adagrad(p, lr, **more), ["sum"]),
    [S],
    {"weight_decay": 0.25},
)
optimizer(
    "adam",
    "torch.optim.Adam",
    stepped(lambda p, lr, **more: torch_optim.Adam(p, lr, **more), ["exp_avg", "exp_avg_sq"]),
    [M, S],
    {"weight_decay": 0.25},
    {"maximize": True},
)
optimizer(
    "adamw",
    "torch.optim.AdamW",
    stepped(lambda p, lr, **more: torch_optim.AdamW(p, lr, **more), ["exp_avg", "exp_avg_sq"]),
    [M, S],
    {"weight_decay": 0.25},
)


def rmsprop(p, g, lr, square, mean, velocity, momentum=0.0, centered=False):
    names = ["square_avg"] + ["grad_avg"] * centered + ["momentum_buffer"] * (momentum > 0)
    given = {"square_avg": square, "grad_avg": mean, "momentum_buffer": velocity}
    run = stepped(lambda p, lr: torch_optim.RMSprop(p, lr, momentum=momentum, centered=centered), names)
    found, *kept = run(p, g, lr, *[given[name] for name in names])
    given |= dict(zip(names, kept))
    return (found, *given.values())


optimizer(
    "rmsprop",
    "torch.optim.RMSprop",
    rmsprop,
    [S, ("T", M[1] / 8), grid(2, 3, seed=4)],
    {"momentum": 0.875, "centered": True},
)


def lion(p, g, lr, m, beta1=0.9, beta2=0.99, weight_decay=0.001):
    return p - lr * ((beta1 * m + (1 - beta1) * g).sign() + weight_decay * p), beta2 * m + (1 - beta2) * g


def lamb(p, g, lr, m, v, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0):
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    u = (m / (1 - beta1)) / ((v / (1 - beta2)).sqrt() + eps) + weight_decay * p
    return p - lr * p.norm() / u.norm() * u, m, v


op(
    "lion",
    "the formula of optax",
    lion,
    case("plain", P, G, LR, M, grad=False, types=WIDE, whole=True),
    case("decay", P, G, LR, M, weight_decay=0.25, grad=False, types=WIDE, whole=True),
)
op(
    "lamb",
    "the formula of optax",
    lamb,
    case("plain", P, G, LR, M, S, grad=False, types=WIDE, whole=True),
    case("decay", P, G, LR, M, S, weight_decay=0.25, grad=False, types=WIDE, whole=True),
)

# ---- Halves.

for names, state in (("sgd", []), ("momentum lion", [M]), ("adagrad", [S]), ("adam adamw lamb", [M, S])):
    more(names, case("halves", P, G, LR, *state, types=["f16", "bf16"], grad=False, whole=True))

write(__file__)
