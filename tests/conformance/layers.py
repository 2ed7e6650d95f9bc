"""Cases of layers and functions: `python tests/conformance/layers.py` writes layers.json.

Parameters of layers are f32, and have these values instead of random ones.
"""

import torch
import torch.nn.functional as F

from peers import WIDE, case, grid, op, t, write


def p(*shape, seed=0, low=-1.0, high=1.0):
    return "f32", grid(*shape, low=low, high=high, seed=seed)[1]


def whole(title, *operands, types=("f32",), **more):
    return case(title, *operands, whole=True, types=types, **more)


# ---- Layers.

IMAGE = grid(2, 4, 3, 2)
SPATIAL = ("a signal", grid(2, 4, 5)), ("a volume", grid(2, 4, 2, 3, 2))
op(
    "Linear",
    "F.linear",
    None,
    whole(
        "a bias",
        grid(2, 3, 4),
        params={"w": p(4, 2), "b": p(2, seed=1)},
        call="Linear($0, width=2)",
        reference=lambda x, w, b: x @ w + b,
    ),
    whole(
        "no bias",
        grid(3, 4),
        params={"w": p(4, 2)},
        call="Linear($0, width=2, bias=false)",
        reference=lambda x, w: x @ w,
    ),
)
op(
    "Embedding",
    "F.embedding",
    None,
    whole(
        "tokens that occur again",
        t([[1, 0, 1], [2, 1, 0]], "i32"),
        params={"w": p(3, 4)},
        call="Embedding($0, rows=3, width=4)",
        reference=lambda i, w: F.embedding(i.long(), w),
    ),
)
op(
    "LayerNorm",
    "F.layer_norm",
    None,
    whole(
        "plain",
        grid(2, 3, 4),
        params={"g": p(4), "b": p(4, seed=1)},
        call="LayerNorm($0)",
        reference=lambda x, g, b: F.layer_norm(x, (4,), g, b),
    ),
)
op(
    "RMSNorm",
    "F.rms_norm",
    None,
    whole(
        "plain",
        grid(2, 3, 4),
        params={"g": p(4)},
        call="RMSNorm($0)",
        reference=lambda x, g: F.rms_norm(x, (4,), g, 1e-6),
    ),
)
STATISTICS = {"g": p(4), "b": p(4, seed=1), "mean": p(4, seed=2), "var": p(4, seed=3, low=0.25, high=2.0)}
normed = lambda x, g, b, mean, var: F.batch_norm(x, mean.detach(), var.detach(), g, b)
# Gradients by statistics are not compared: PyTorch has none.
for name, rows in (("BatchNorm", grid(5, 4)), ("BatchNorm2d", IMAGE)):
    op(
        name,
        "F.batch_norm",
        None,
        whole("not training", rows, params=STATISTICS, call=f"{name}($0)", reference=normed, grad=False),
    )
op(
    "GroupNorm",
    "F.group_norm",
    None,
    *[
        whole(
            f"{n} groups",
            IMAGE,
            params={"g": p(4), "b": p(4, seed=1)},
            call=f"GroupNorm($0, groups={n})",
            reference=lambda x, g, b, n=n: F.group_norm(x, n, g, b),
        )
        for n in (1, 2, 4)
    ],
    *[
        whole(
            title,
            x,
            params={"g": p(4), "b": p(4, seed=1)},
            call="GroupNorm($0, groups=2)",
            reference=lambda x, g, b: F.group_norm(x, 2, g, b),
        )
        for title, x in SPATIAL
    ],
)
op(
    "InstanceNorm",
    "F.instance_norm",
    None,
    *[
        whole(title, x, call="InstanceNorm($0)", reference=lambda x: F.instance_norm(x))
        for title, x in (*SPATIAL, ("an image", IMAGE))
    ],
    *[
        whole(
            f"{title}, weights and a bias",
            x,
            params={"g": p(4), "b": p(4, seed=1)},
            call="InstanceNorm($0, affine=true)",
            reference=lambda x, g, b: F.instance_norm(x, weight=g, bias=b),
        )
        for title, x in SPATIAL
    ],
)
op(
    "InstanceNorm2d",
    "F.instance_norm",
    None,
    whole("plain", IMAGE, call="InstanceNorm2d($0)", reference=lambda x: F.instance_norm(x)),
    whole(
        "weights and a bias",
        IMAGE,
        params={"g": p(4), "b": p(4, seed=1)},
        call="InstanceNorm2d($0, affine=true)",
        reference=lambda x, g, b: F.instance_norm(x, weight=g, bias=b),
    ),
)
for name, peer, of_rows in (
    ("global_avg_pool", "torch.mean", lambda x: x.mean(-1)),
    ("global_max_pool", "torch.amax", lambda x: x.amax(-1)),
):
    op(
        name,
        peer,
        lambda x, of_rows=of_rows: of_rows(x.flatten(2)),
        *[whole(title, x, types=WIDE) for title, x in (*SPATIAL, ("an image", IMAGE))],
    )
for name, reference in (
    ("real", lambda z: z[..., 0]),
    ("imag", lambda z: z[..., 1]),
    ("conj", lambda z: z * torch.tensor([1.0, -1.0])),
    ("complex_abs", lambda z: torch.view_as_complex(z.contiguous()).abs()),
    ("angle", lambda z: torch.view_as_complex(z.contiguous()).angle()),
):
    op(name, f"torch.{name}", None, whole("plain", grid(3, 2, avoid=(0.0,)), call=f"{name}($0)", reference=reference))
op(
    "complex",
    "torch.complex",
    None,
    whole(
        "plain",
        grid(3),
        grid(3, seed=1),
        call="complex($0, $1)",
        reference=lambda re, im: torch.stack([re, im], -1),
    ),
)
op(
    "Conv2d",
    "F.conv2d",
    None,
    whole(
        "a bias",
        grid(1, 2, 5, 4),
        params={"w": p(4, 2, 3, 3), "b": p(4, seed=1)},
        call="Conv2d($0, width=4, stride=2, padding=1)",
        reference=lambda x, w, b: F.conv2d(x, w, b, 2, 1),
    ),
    whole(
        "groups, no bias",
        grid(1, 4, 3, 3),
        params={"w": p(2, 2, 2, 2)},
        call="Conv2d($0, width=2, size=2, groups=2, bias=false)",
        reference=lambda x, w: F.conv2d(x, w, groups=2),
    ),
)
op(
    "MLP",
    "F.linear, F.gelu",
    None,
    whole(
        "plain",
        grid(3, 4),
        params={"up.w": p(4, 6), "up.b": p(6, seed=1), "down.w": p(6, 4, seed=2), "down.b": p(4, seed=3)},
        call="MLP($0, width=6)",
        reference=lambda x, w, b, v, c: F.gelu(x @ w + b) @ v + c,
    ),
)


def recurrent(kind, cell, x, states, w, u, b, c):
    """PyTorch's layer with these weights, transposed."""
    made = kind(w.shape[0], u.shape[0], **({} if cell else {"batch_first": True})).double()
    end = "" if cell else "_l0"
    names = {f"weight_ih{end}": w.T, f"weight_hh{end}": u.T, f"bias_ih{end}": b, f"bias_hh{end}": c}
    return torch.func.functional_call(made, names, (x, states) if states is not None else (x,))


def gates(n, last):
    return {"w": p(3, 2 * n), "u": p(2, 2 * n, seed=1), "b": p(2 * n, seed=2), last: p(2 * n, seed=3)}


op(
    "GRUCell",
    "torch.nn.GRUCell",
    None,
    whole(
        "plain",
        grid(4, 3),
        grid(4, 2, seed=1),
        params=gates(3, "c"),
        call="GRUCell($0, $1)",
        reference=lambda x, h, *w: recurrent(torch.nn.GRUCell, True, x, h, *w),
    ),
)
op(
    "LSTMCell",
    "torch.nn.LSTMCell",
    None,
    whole(
        "plain",
        grid(4, 3),
        grid(4, 2, seed=1),
        grid(4, 2, seed=2),
        params=gates(4, "d"),
        call="LSTMCell($0, $1, $2)",
        reference=lambda x, h, c, *w: recurrent(torch.nn.LSTMCell, True, x, (h, c), *w),
    ),
)
op(
    "GRU",
    "torch.nn.GRU",
    None,
    whole(
        "from zeros",
        grid(2, 4, 3),
        params=gates(3, "c"),
        call="GRU($0, width=2)",
        reference=lambda x, *w: recurrent(torch.nn.GRU, False, x, None, *w)[0],
    ),
    whole(
        "from a state",
        grid(2, 4, 3),
        grid(2, 2, seed=1),
        params=gates(3, "c"),
        call="GRU($0, $1, width=2)",
        reference=lambda x, h, *w: recurrent(torch.nn.GRU, False, x, h[None], *w)[0],
    ),
)
op(
    "LSTM",
    "torch.nn.LSTM",
    None,
    whole(
        "from zeros",
        grid(2, 4, 3),
        params=gates(4, "d"),
        call="LSTM($0, width=2)",
        reference=lambda x, *w: recurrent(torch.nn.LSTM, False, x, None, *w)[0],
    ),
    whole(
        "from states",
        grid(2, 4, 3),
        grid(2, 2, seed=1),
        grid(2, 2, seed=2),
        params=gates(4, "d"),
        call="LSTM($0, $1, $2, width=2)",
        reference=lambda x, h, c, *w: recurrent(torch.nn.LSTM, False, x, (h[None], c[None]), *w)[0],
    ),
)

# ---- Functions: parts of cells.

H, Z, U, C = grid(3, 2), grid(3, 6, seed=1), grid(2, 6, seed=2), grid(6, seed=3)
op(
    "gate_of",
    "torch.split",
    None,
    case("the last", Z, call="gate_of($0, number=2, width=2)", reference=lambda z: z.split(2, 1)[2]),
)
op(
    "heads_of",
    "torch.transpose",
    None,
    case(
        "plain",
        grid(2, 3, 4),
        call="heads_of($0, heads=2)",
        reference=lambda x: x.unflatten(-1, (2, 2)).transpose(1, 2),
    ),
)


def gru_step(h, z, u, c):
    (a, b, d), (r, k, n) = (h @ u + c).split(2, 1), z.split(2, 1)
    r, k = (r + a).sigmoid(), (k + b).sigmoid()
    return (1 - k) * (n + r * d).tanh() + k * h


def gru_reset_step(h, z, u, c):
    a, b, d = u.split(2, 1)
    (r, k, n), (e, f, g) = z.split(2, 1), c.split(2)
    r, k = (r + h @ a + e).sigmoid(), (k + h @ b + f).sigmoid()
    return (1 - k) * (n + (r * h) @ d + g).tanh() + k * h


def lstm_step(h, c, z, u, d):
    i, f, g, o = (z + h @ u + d).split(2, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_update_step(h, z, u):
    (a, b, n), (k, r, own) = z.split(2, -1), u.split(2, -1)
    k, r = (a + h @ k).sigmoid(), (b + h @ r).sigmoid()
    return (1 - k) * h + k * (n + (r * h) @ own).tanh()


op("gru_step", "torch.sigmoid, torch.tanh", gru_step, whole("plain", H, Z, U, C, types=WIDE))
op("gru_reset_step", "torch.sigmoid, torch.tanh", gru_reset_step, whole("plain", H, Z, U, C, types=WIDE))
op(
    "lstm_step",
    "torch.sigmoid, torch.tanh",
    lstm_step,
    whole("plain", H, grid(3, 2, seed=4), grid(3, 8), grid(2, 8), grid(8), types=WIDE),
)
op(
    "rnn_step",
    "torch.tanh, torch.relu",
    None,
    *[
        whole(
            word,
            H,
            grid(3, 2, seed=1),
            grid(2, 2, seed=2),
            grid(2, seed=3),
            call=f"rnn_step($0, $1, $2, $3, rectify={word})",
            types=WIDE,
            reference=lambda h, z, u, c, word=word: (torch.relu if word == "true" else torch.tanh)(z + h @ u + c),
        )
        for word in ("false", "true")
    ],
)
op("gru_update_step", "torch.sigmoid, torch.tanh", gru_update_step, whole("plain", H, Z, U, types=WIDE))
op(
    "gru_update_cell",
    "torch.sigmoid, torch.tanh",
    lambda h, x, w, b: gru_update_step(h, x @ w[:3] + b, w[3:]),
    whole("plain", H, grid(3, 3), grid(5, 6, seed=2), grid(6, seed=3), types=WIDE),
)
op(
    "encode_state",
    "F.relu",
    lambda x, w, b: F.relu(x @ w + b),
    whole("plain", grid(3, 4), grid(4, 2, seed=1), grid(2, seed=2), types=WIDE),
)
op("positive_head", "torch.exp", lambda x, w: (x @ w).exp(), whole("plain", grid(3, 4), grid(4, 1, seed=1), types=WIDE))
op(
    "reconstruct",
    "torch.matmul",
    lambda u, s, v: u * s @ v,
    whole("plain", grid(4, 2), grid(1, 2, seed=1), grid(2, 3, seed=2), types=WIDE),
)

# ---- Energies, and statistics of an ensemble.

SPINS = t([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
J = t([[0.0, 0.5, -1.0], [0.5, 0.0, 0.25], [-1.0, 0.25, 0.0]])
moments = lambda s: (s.mean(0), s.T @ s / len(s))
op(
    "ising_energy",
    "torch.einsum",
    lambda s, b, j: -(s @ b) - 0.5 * torch.einsum("bi,ij,bj->b", s, j, s),
    whole("plain", SPINS, grid(3), J, types=WIDE),
)
op("ising_moments", "torch.mean", moments, whole("plain", SPINS, types=WIDE))
op(
    "ising_gradient",
    "torch.mean",
    lambda d, m: tuple(b - a for a, b in zip(moments(d), moments(m))),
    whole("plain", SPINS, t([[1.0, 1.0, -1.0], [1.0, -1.0, -1.0], [1.0, 1.0, 1.0]]), types=WIDE),
)
HOT = t([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
op(
    "potts_energy",
    "torch.einsum",
    lambda x, a, w: -torch.einsum("bik,ik->b", x, a) - 0.5 * torch.einsum("bik,ikjl,bjl->b", x, w, x),
    whole("plain", HOT, grid(2, 2), grid(2, 2, 2, 2, seed=1), types=WIDE),
)


def spread(losses):
    mean, std = losses.mean(0), losses.std(0, correction=0)
    sigma, last = std[-1] * (1 + 0.1 * losses.shape[1] ** 0.5), mean[-1]
    return mean, std, sigma, last - 2 * sigma, last + 2 * sigma, 1 / (1 + sigma)


op("ensemble_statistics", "torch.mean, torch.std", spread, whole("plain", grid(5, 3, 2), types=WIDE))

write(__file__)
