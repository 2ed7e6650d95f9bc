"""Figures of the nodes of graphs/ops_sweep.ron, from NumPy and SciPy in double precision.

Run `python tests/examples/ops_sweep.py` to write ops_sweep.json beside this file. It holds the values of each node.
Gradients are central differences of the same formulas. Means of random numbers are those of their laws.
"""

import json
import pathlib

import numpy as np
from scipy import special

X = np.array([[-7.0, -2.5, -1.5, -0.75], [-0.5, 0.0, 0.25, 0.5], [1.5, 2.5, 3.25, 7.0]])
Y = np.array([[1.5, -2.0, 0.5, -0.75], [4.0, 2.0, 0.25, -1.0], [1.5, -3.0, 8.0, 0.125]])
P = np.array([[0.25, 0.5, 0.75, 1.0], [1.5, 2.0, 2.5, 3.0], [3.5, 4.0, 6.0, 9.0]])
V = np.array([0.5, -1.0, 2.0, 0.25])
INDEX = np.array([2, 0, 2, 1])
MASK = X > 0


def sigmoid(x):
    return special.expit(x)


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def softplus(x):
    return np.logaddexp(0, x)


def threshold(x, at, value):
    return np.where(x > at, x, value)


ALPHA, LAMBDA = 1.6732632423543772, 1.0507009873554805
ORDER = np.argsort(-X, axis=1, kind="stable")
BUFFER = np.arange(5.0)
PUSHED = BUFFER.copy()
PUSHED[7 % 5] = 9.0

NODES = {
    "add": X + Y, "sub": X - Y, "mul": X * Y, "hadamard": X * V, "div": X / Y, "pow": P ** Y, "neg": -X, "abs": abs(X),
    "exp": np.exp(X), "log": np.log(P), "sqrt": np.sqrt(P), "rsqrt": 1 / np.sqrt(P), "sin": np.sin(X), "cos": np.cos(X),
    "tanh": np.tanh(X), "sigmoid": sigmoid(X), "square": np.square(X), "floor": np.floor(X), "ceil": np.ceil(X),
    "trunc": np.trunc(X), "round": np.round(X), "frac": X - np.trunc(X), "reciprocal": 1 / P, "sign": np.sign(X),
    "copy": X, "clone": X, "full": np.full((2, 2), 0.75), "full_like": np.full_like(X, -1.5),
    "eq": X == Y, "ne": X != Y, "lt": X < Y, "gt": X > Y, "le": X <= Y, "ge": X >= Y,
    "addcmul": X + 0.5 * Y * P, "addcdiv": X + 0.5 * Y / P, "lerp": X + 0.25 * (Y - X),
    "elementwise_lerp": X + 0.75 * (Y - X), "where": np.where(MASK, X, Y), "elementwise_where": np.where(MASK, Y, X),
    "clamp": np.clip(X, -1, 2), "threshold": threshold(X, 0.3, -9.0), "threshold_backward": Y * (X > 0.3),
    "elementwise_add": X + V, "elementwise_mul": X * P, "apply_corrections": P + Y, "cast": np.trunc(X),
    "relu": np.maximum(X, 0), "relu6": np.clip(X, 0, 6), "silu": X * sigmoid(X),
    "gelu": X * special.ndtr(X), "gelu_tanh": X * sigmoid(2 * np.sqrt(2 / np.pi) * (X + 0.044715 * X ** 3)),
    "mish": X * np.tanh(softplus(X)), "selu": LAMBDA * elu(X, ALPHA), "softplus": softplus(X),
    "hardtanh": np.clip(X, -1, 1), "hardsigmoid": np.clip(X / 6 + 0.5, 0, 1), "celu": elu(X / 2) * 2, "elu": elu(X, 0.5),
    "relu_squared": np.maximum(X, 0) ** 2, "softcap_tanh_projection": X * V / (1 + abs(X * V)),
    "dropout": X, "Dropout": X,
    "sum": X.sum(), "mean": X.mean(axis=0), "max": X.max(axis=1), "min": X.min(axis=0), "amax": X.max(axis=0),
    "amin": X.min(axis=1), "prod": P.prod(axis=1), "argmax": X.argmax(axis=0), "argmin": Y.argmin(axis=1),
    "rowwise_l2_norm": np.linalg.norm(X, axis=1), "log_sum_exp": special.logsumexp(X, axis=1), "statistics": X.mean(),
    "var": X.var(axis=1), "std": X.std(axis=0), "cumsum": X.cumsum(axis=1), "bincount": np.bincount(INDEX, minlength=4),
    "sort": np.sort(Y, axis=1), "argsort": np.argsort(Y, axis=0, kind="stable"),
    "topk": np.take_along_axis(X, ORDER[:, :2], axis=1),
    "reshape": X.reshape(4, 3), "view": X.reshape(2, 6), "transpose": X.T, "permute": X.reshape(3, 2, 2).transpose(2, 0, 1),
    "contiguous": X.T, "select": X[:, 1], "slice": X[::2, 1:3], "zeros": np.zeros((2, 3)), "ones": np.ones(3),
    "arange": np.arange(1, 10, 2), "uniform": 0.5, "normal": 1.0, "concat": np.concatenate([X, Y], axis=1),
    "stack": np.stack([X, Y], axis=1), "one_hot": np.eye(3)[INDEX], "ring_push": PUSHED,
}


def slope(f, x):
    """The gradient of the sum of f over all elements, whose pieces do not mix."""
    step = 1e-6
    return (f(x + step) - f(x - step)) / (2 * step)


NODES["d.x"] = (
    slope(lambda x: np.tanh(x) * Y + sigmoid(x) + x * special.ndtr(x) + np.where(MASK, x, Y), X)
    + np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)
    + X / np.linalg.norm(X, axis=1, keepdims=True)
    + 2 * (X - X.mean(axis=1, keepdims=True)) / 4
)

values = {name: np.asarray(value, dtype=float).ravel().tolist() for name, value in NODES.items()}
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")
