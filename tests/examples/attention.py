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


def by_angles(x, angles, layout="half", inverse=False):
    """Hugging Face's way for halves, Meta's for neighbours: a product of complex numbers."""
    n = 2 * angles.shape[-1]
    turning, rest = x[..., :n], x[..., n:]
    if angles.dim() == 3:
        angles = angles.reshape(angles.shape[0], *[1] * (x.dim() - 3), *angles.shape[1:])
    angles = -angles if inverse else angles
    if layout == "half":
        both = torch.cat((angles, angles), -1)
        u, v = turning.chunk(2, -1)
        turned = turning * both.cos() + torch.cat((-v, u), -1) * both.sin()
    else:
        pairs = torch.view_as_complex(turning.unflatten(-1, (-1, 2)))
        turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    return torch.cat((turned, rest), -1)


def turned(x, positions=None, dims=None, base=10000.0, **more):
    n = dims or x.shape[-1]
    if positions is None or positions.dim() == 0:
        positions = torch.arange(x.shape[-2]) + (0 if positions is None else positions)
    slower = base ** -(torch.arange(0, n, 2, dtype=torch.float64) / n)
    return by_angles(x, positions[..., None] * slower, **more)


def rotations():
    x, four = some(3, 6), some(2, 2, 3, 4)
    each, per_sequence = ("i32", [5, 0, 2]), ("i64", [[3, 4, 5], [0, 7, 1]])
    for layout in ("half", "interleaved"):
        word = f"layout=\"{layout}\""
        case("from 0", f"rotary(a, {word})", [("f32", x)], lambda x: turned(x, layout=layout))
        case("from an offset", f"rotary(a, b, {word})", [("f32", x), ("i32", 17)], lambda x, p: turned(x, p, layout=layout))
        case("at positions", f"rotary(a, b, {word}, base=100.0)", [("f32", x), each],
             lambda x, p: turned(x, p, base=100.0, layout=layout))
        case("at positions of each sequence", f"rotary(a, b, {word})", [("f32", four), per_sequence],
             lambda x, p: turned(x, p, layout=layout))
        case("a part of each row", f"rotary(a, b, {word}, dims=4)", [("f32", x), each],
             lambda x, p: turned(x, p, dims=4, layout=layout))
        case("backwards", f"rotary(a, b, {word}, inverse=true)", [("f32", x), each],
             lambda x, p: turned(x, p, layout=layout, inverse=True))
    case("nothing turns", "rotary(a, dims=0)", [("f32", x)], lambda x: x + 0)
    case("in bf16", "rotary(a, b)", [("bf16", x), each], turned, grad=False)
    case("far away, in f64", "rotary(a, b)", [("f64", x), ("i32", 100_000)], turned)

    angles = torch.tensor(some(8, 2))
    tables = [("f32", angles.cos()), ("f32", angles.sin())]

    def looked_up(x, cos, sin, p=None, **more):
        p = torch.arange(x.shape[-2]) if p is None else p if p.dim() else torch.arange(x.shape[-2]) + p
        # Angles follow from tables in a way that gives both a gradient.
        c, s = cos[p.long()], sin[p.long()]
        if c.dim() == 3:
            c, s = (t.reshape(t.shape[0], *[1] * (x.dim() - 3), *t.shape[1:]) for t in (c, s))
        s = -s if more.get("inverse") else s
        n = 2 * c.shape[-1]
        u, v = x[..., :n].chunk(2, -1) if more.get("layout") != "interleaved" else x[..., :n].unflatten(-1, (-1, 2)).unbind(-1)
        pair = (u * c - v * s, v * c + u * s)
        y = torch.cat(pair, -1) if more.get("layout") != "interleaved" else torch.stack(pair, -1).flatten(-2)
        return torch.cat((y, x[..., n:]), -1)

    for layout in ("half", "interleaved"):
        word = f"layout=\"{layout}\""
        for title, rows, more, positions in (("from 0", x, "", []), ("from an offset", x, "", [("i32", 4)]),
                                             ("at positions", x, ", inverse=true", [each]),
                                             ("at positions of each sequence", four, "", [per_sequence])):
            names = "a, b, c" + (", d" if positions else "")
            case(title, f"apply_rotary_embedding({names}, {word}{more})", [("f32", rows), *tables, *positions],
                 lambda *operands: looked_up(*operands, layout=layout, inverse=bool(more)))


def caches():
    def insert(cache, rows, p, axis=-2):
        cache, rows = cache.transpose(0, axis), rows.transpose(0, axis)
        return torch.cat((cache[:p], rows, cache[p + rows.shape[0]:])).transpose(0, axis)

    cache, rows = some(2, 5, 3), some(2, 2, 3)
    for p in (0, 1, 3):
        case(f"at {p}", "kv_insert(a, b, c)", [("f32", cache), ("f32", rows), ("i32", p)], insert)
    case("along the first axis", "kv_insert(a, b, c, axis=0)", [("f32", some(4, 3)), ("f32", some(1, 3)), ("i64", 2)],
         lambda *x: insert(*x, axis=0))
    case("in each cache", "kv_insert(a, b, c)", [("f32", cache), ("f32", rows), ("i32", [3, 1])],
         lambda c, r, p: torch.stack([insert(c[i], r[i], p[i]) for i in range(2)]))
    case("the whole cache", "kv_insert(a, b, c)", [("f32", cache), ("f32", some(2, 5, 3)), ("i32", 0)], insert)
    case("no rows", "kv_insert(a, b, c)", [("f32", cache), ("f32", torch.zeros(2, 0, 3)), ("i32", 5)], insert)


dense()
sparse()
merging()
rotations()
caches()
record.write()
