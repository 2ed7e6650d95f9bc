"""Expected numbers of attention, from PyTorch: python tests/examples/attention.py"""

import math

import torch
from recording import Recording

inf = math.inf
record = Recording("attention")
case = record.case
torch.manual_seed(5)


def some(*extents):
    return torch.randn(*extents).mul(8).round().div(8).tolist()


def attend(q, k, v, mask=None, causal=False, scale=None):
    """Softmax in plain PyTorch; a query that sees nothing yields 0."""
    group = q.shape[-3] // k.shape[-3] if q.dim() > 2 else 1
    if group > 1:
        k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        t, s = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(t, s, dtype=torch.bool).tril(s - t), -inf)
    return finish(scores, v.unsqueeze(-3))


def select(q, k, v, idx, scale=None, unique=False):
    group = q.shape[-3] // k.shape[-3] if q.dim() > 2 else 1
    if group > 1:
        k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    at = idx.long().clamp(0, k.shape[-2] - 1)
    rows = lambda x: torch.take_along_dim(x.unsqueeze(-3), at.unsqueeze(-1), -2)
    scores = (rows(k) * q.unsqueeze(-2)).sum(-1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    counts = (idx >= 0) & (idx < k.shape[-2])
    if unique:
        same = (idx.unsqueeze(-1) == idx.unsqueeze(-2)).tril(-1)
        counts &= ~same.any(-1)
    return finish(scores.masked_fill(~counts, -inf), rows(v))


def finish(scores, v):
    lse = torch.logsumexp(scores, -1)
    weights = torch.where(lse.isinf().unsqueeze(-1), 0.0, (scores - lse.nan_to_num(neginf=0.0).unsqueeze(-1)).exp())
    return (weights.unsqueeze(-1) * v).sum(-2), lse


def dense():
    q, k, v = some(2, 3, 4), some(2, 5, 4), some(2, 5, 2)
    case("two heads", "attention(a, b, c)", [("f32", q), ("f32", k), ("f32", v)], attend, ["f32", "f32"])
    case("with a scale", "attention(a, b, c, scale=0.3)", [("f32", q), ("f32", k), ("f32", v)],
         lambda q, k, v: attend(q, k, v, scale=0.3), ["f32", "f32"])
    case("causal, fewer queries than keys", "attention(a, b, c, causal=true)", [("f32", q), ("f32", k), ("f32", v)],
         lambda q, k, v: attend(q, k, v, causal=True), ["f32", "f32"])
    bias = some(3, 5)
    case("with a bias", "attention(a, b, c, d)", [("f32", q), ("f32", k), ("f32", v), ("f32", bias)],
         lambda q, k, v, m: attend(q, k, v, m), ["f32", "f32"])
    mask = [[[1, 0, 0, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]], [[0, 1, 0, 1, 1], [1, 0, 0, 0, 0], [1, 1, 0, 1, 0]]]
    case("with a mask that hides everything from one query", "attention(a, b, c, d)",
         [("f32", q), ("f32", k), ("f32", v), ("bool", mask)], lambda q, k, v, m: attend(q, k, v, m),
         ["f32", "f32"], grad=False)
    q = some(2, 4, 3, 2)
    k, v = some(2, 2, 3, 2), some(2, 2, 3, 5)
    case("two heads of queries for one of keys", "attention(a, b, c, causal=true)",
         [("f32", q), ("f32", k), ("f32", v)], lambda q, k, v: attend(q, k, v, causal=True), ["f32", "f32"])
    far = torch.tensor(some(1, 2, 8)).mul(200).tolist()
    case("large scores", "attention(a, b, c)", [("f32", far), ("f32", far), ("f32", some(1, 2, 3))], attend,
         ["f32", "f32"])


def sparse():
    q, k, v = some(2, 3, 4), some(2, 6, 4), some(2, 6, 2)
    idx = [[[0, 5], [2, 2], [3, 1]], [[4, 4], [5, 0], [1, 2]]]
    case("two keys of six", "gather_attention(a, b, c, d)", [("f32", q), ("f32", k), ("f32", v), ("i32", idx)],
         select, ["f32", "f32"])
    case("twice is once", "gather_attention(a, b, c, d, unique=true)",
         [("f32", q), ("f32", k), ("f32", v), ("i64", idx)], lambda *x: select(*x, unique=True), ["f32", "f32"])
    short = [[[0, -1], [-1, -1], [3, 1]], [[4, 7], [5, 0], [1, 2]]]
    case("lists of any length", "gather_attention(a, b, c, d, oob=\"skip\")",
         [("f32", q), ("f32", k), ("f32", v), ("i32", short)], select, ["f32", "f32"], grad=False)
    every = [[[0, 1, 2, 3, 4, 5]] * 3] * 2
    case("all keys", "gather_attention(a, b, c, d)", [("f32", q), ("f32", k), ("f32", v), ("i32", every)],
         lambda q, k, v, i: attend(q, k, v), ["f32", "f32"])
    q, k, v = some(1, 4, 2, 2), some(1, 2, 3, 2), some(1, 2, 3, 1)
    idx = torch.randint(0, 3, (1, 4, 2, 2)).tolist()
    case("two heads of queries for one of keys", "gather_attention(a, b, c, d, scale=1.5)",
         [("f32", q), ("f32", k), ("f32", v), ("i32", idx)], lambda *x: select(*x, scale=1.5), ["f32", "f32"])


def merging():
    q, k, v = (torch.tensor(some(*e), dtype=torch.float64) for e in [(3, 4), (7, 4), (7, 2)])
    first, second = attend(q, k[:3], v[:3]), attend(q, k[3:], v[3:])
    operands = [("f64", x.tolist()) for x in (*first, *second)]
    case("parts make the whole", "merge_state(a, b, c, d)", operands, lambda *_: attend(q, k, v), ["f64", "f64"],
         grad=False)
    merge = lambda y1, l1, y2, l2: (
        (y1 * l1.exp()[:, None] + y2 * l2.exp()[:, None]) / (l1.exp() + l2.exp())[:, None],
        (l1.exp() + l2.exp()).log(),
    )
    case("gradients reach both parts", "merge_state(a, b, c, d)", operands, merge, ["f64", "f64"])


dense()
sparse()
merging()
record.write()
