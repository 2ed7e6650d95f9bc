"""Expected numbers of sorting and selecting, from PyTorch: python tests/examples/order.py

PyTorch's sort is stable on request and puts NaN above all numbers; ours puts it last in both directions, so cases with
NaN state the order by a key."""

import math

import numpy as np
import torch
from recording import Recording

inf, nan = math.inf, math.nan
record = Recording("order")
case = record.case

X = [[0.5, -1.0, 2.0, 1.25], [3.0, 0.25, -0.5, 3.0], [-2.0, 1.0, 0.0, 0.75]]
T = [[[0.5, -1.0, 2.0], [2.0, 2.0, -3.0]], [[0.25, 4.0, 1.5], [-0.5, -2.0, 0.75]]]
HOLES = [[1.0, nan, 3.0, -inf], [-inf, 2.0, nan, inf], [nan, nan, -0.0, 0.0]]
INTS = [[5, -7, 3, 5], [2147483647, -2147483648, 0, -1]]


def stable(x, dim=-1, descending=False):
    values, indices = torch.sort(x, dim=dim, descending=descending, stable=True)
    return values, indices


def nan_last(x, descending):
    """A stable sort of the last axis by (is NaN, value)."""
    key = -x if descending else x
    order = torch.sort(torch.where(key.isnan(), torch.full_like(key, inf), key), dim=-1, stable=True).indices
    late = torch.gather(x.isnan().int(), -1, order)
    order = torch.gather(order, -1, torch.sort(late, dim=-1, stable=True).indices)
    return torch.gather(x, -1, order), order


def first(pair, k):
    return tuple(part[..., :k] for part in pair)


def sorts():
    for descending in (False, True):
        flag = str(descending).lower()
        case("along the last axis", f"sort(a, descending={flag})", [("f32", X)],
             lambda x: stable(x, -1, descending), ["f32", "i32"])
        case("along an inner axis", f"sort(a, axis=1, descending={flag})", [("f32", T)],
             lambda x: stable(x, 1, descending), ["f32", "i32"])
        case("along the first axis", f"sort(a, axis=-3, descending={flag})", [("f64", T)],
             lambda x: stable(x, 0, descending), ["f64", "i32"])
        case("NaN and infinities", f"sort(a, descending={flag})", [("f32", HOLES)],
             lambda x: nan_last(x, descending), ["f32", "i32"], grad=False)
        for dtype in ("i32", "i64"):
            case("of integers", f"sort(a, descending={flag})", [(dtype, INTS)],
                 lambda x: stable(x, -1, descending), [dtype, "i32"], grad=False)
        case("of bytes", f"argsort(a, descending={flag})", [("u8", [[255, 0, 7, 255, 0]])],
             lambda x: stable(x, -1, descending)[1], ["i32"], grad=False)
        case("of truth values", f"argsort(a, descending={flag})", [("bool", [1, 0, 1, 0])],
             lambda x: stable(x.int(), -1, descending)[1], ["i32"], grad=False)
        for dtype in ("f16", "bf16"):
            case("in half precision", f"sort(a, descending={flag})", [(dtype, X)],
                 lambda x: stable(x, -1, descending), [dtype, "i32"], grad=False)
    case("of no elements", "sort(a)", [("f32", torch.zeros(2, 0))], lambda x: stable(x), ["f32", "i32"], grad=False)
    case("of no rows", "sort(a)", [("f32", torch.zeros(0, 3))], lambda x: stable(x), ["f32", "i32"], grad=False)


def selections():
    generator = torch.Generator().manual_seed(7)
    long = torch.randn(3, 300, generator=generator).tolist()
    tied = torch.randint(0, 9, (2, 200), generator=generator).tolist()
    for largest in (True, False):
        flag = str(largest).lower()
        case("along the last axis", f"topk(a, k=2, largest={flag})", [("f32", X)],
             lambda x: first(stable(x, -1, largest), 2), ["f32", "i32"])
        case("along an inner axis", f"topk(a, k=2, axis=1, largest={flag})", [("f32", T)],
             lambda x: stable(x, 1, largest), ["f32", "i32"])
        case("as torch.topk", f"topk(a, k=10, largest={flag})", [("f32", long)],
             lambda x: tuple(torch.topk(x, 10, largest=largest)), ["f32", "i32"])
        case("k of hundreds", f"topk(a, k=150, largest={flag})", [("f64", long)],
             lambda x: first(stable(x, -1, largest), 150), ["f64", "i32"], grad=False)
        case("many ties", f"topk(a, k=50, largest={flag})", [("i32", tied)],
             lambda x: first(stable(x, -1, largest), 50), ["i32", "i32"], grad=False)
        case("many ties of i64", f"topk(a, k=50, largest={flag})", [("i64", tied)],
             lambda x: first(stable(x, -1, largest), 50), ["i64", "i32"], grad=False)
        case("NaN is last", f"topk(a, k=3, largest={flag})", [("f32", HOLES)],
             lambda x: first(nan_last(x, largest), 3), ["f32", "i32"], grad=False)
        case("in bf16", f"topk(a, k=3, largest={flag})", [("bf16", X)],
             lambda x: first(stable(x, -1, largest), 3), ["bf16", "i32"], grad=False)
        worst = -inf if largest else inf
        case("padded", f"topk(a, k=5, largest={flag}, pad=true)", [("f32", X)],
             lambda x: tuple(torch.nn.functional.pad(part, (0, 1), value=fill) for part, fill in
                             zip(stable(x, -1, largest), (worst, -1))), ["f32", "i32"])


def places():
    generator = torch.Generator().manual_seed(13)
    long = torch.randn(2, 101, generator=generator).tolist()
    pair, one_nan = ["f32", "i32"], [[1.0, nan, 3.0, -inf], [-inf, 2.0, 0.5, inf]]
    distinct = [[0.5, -1.0, 2.0, 1.25], [3.0, 0.25, -0.5, 3.5], [-2.0, 1.0, 0.0, 0.75]]
    for k in (1, 3, 4):
        case(f"k = {k}", f"kthvalue(a, k={k})", [("f32", distinct)], lambda x: tuple(x.kthvalue(k)), pair)
    case("along columns, kept", "kthvalue(a, k=2, axis=0, keepdim=true)", [("f32", distinct)],
         lambda x: tuple(x.kthvalue(2, 0, True)), pair)
    case("NaN is last", "kthvalue(a, k=4)", [("f32", one_nan)], lambda x: tuple(x.kthvalue(4)), pair, grad=False)
    case("of integers", "kthvalue(a, k=2)", [("i32", [5, -7, 3])], lambda x: tuple(x.kthvalue(2)), ["i32", "i32"], grad=False)
    for axis in (0, 1):
        case(f"along axis {axis}", f"median(a, axis={axis})", [("f32", distinct)], lambda x: tuple(x.median(axis)), pair)
    case("of many", "median(a, axis=1, keepdim=true)", [("f32", long)], lambda x: tuple(x.median(1, True)), pair)
    case("NaN wins", "median(a, axis=1)", [("f32", one_nan)], lambda x: tuple(x.median(1)), pair, grad=False)
    case("of all", "median(a)", [("f32", distinct)], lambda x: tuple(x.flatten().median(0)), pair)
    case("of integers", "median(a, axis=0)", [("i32", [5, -7, 3, 4])], lambda x: tuple(x.median(0)), ["i32", "i32"],
         grad=False)
    case("in f16", "median(a, axis=1)", [("f16", distinct)], lambda x: tuple(x.median(1)), ["f16", "i32"], grad=False)
    for word in ("linear", "lower", "higher", "midpoint", "nearest"):
        for q in (0.0, 0.3, 0.5, 0.9, 1.0):
            case(f"{word}, {q}", f"quantile(a, q={q}, axis=1, interpolation=\"{word}\")", [("f32", distinct)],
                 lambda x: x.quantile(q, 1, interpolation=word))
    case("of many, kept", "quantile(a, q=0.123, axis=-1, keepdim=true)", [("f32", long)], lambda x: x.quantile(0.123, -1, True))
    case("of all", "quantile(a, q=0.7)", [("f32", distinct)], lambda x: x.quantile(0.7))
    case("NaN wins", "quantile(a, q=0.1, axis=1)", [("f32", [[1.0, nan, 3.0], [3.0, 1.0, 2.0]])],
         lambda x: x.quantile(0.1, 1), grad=False)


def searches():
    rows, values = [[1.0, 3.0, 3.0, 5.0], [-inf, 0.0, 2.0, inf]], [[3.0, 0.0, 9.0, 4.0, -1.0], [2.0, inf, -inf, 1.0, 3.0]]
    generator = torch.Generator().manual_seed(17)
    long = torch.randn(100, generator=generator).sort().values.tolist()
    some = torch.randn(3, 7, generator=generator).tolist()
    for right in (False, True):
        flag = str(right).lower()
        op = lambda a, v: torch.searchsorted(a.detach(), v.detach(), right=right)
        case("a row for each row", f"searchsorted(a, b, right={flag})", [("f32", rows), ("f32", values)], op, ["i32"], grad=False)
        case("one row", f"searchsorted(a, b, right={flag})", [("f32", rows[0]), ("f32", values)], op, ["i32"], grad=False)
        case("a long row", f"searchsorted(a, b, right={flag})", [("f32", long), ("f32", some)], op, ["i32"], grad=False)
        case("its own elements", f"searchsorted(a, b, right={flag})", [("f32", long), ("f32", long)], op, ["i32"], grad=False)
        case("a scalar", f"searchsorted(a, b, right={flag})", [("f32", rows[0]), ("f32", 3.0)], op, ["i32"], grad=False)
        case("an empty row", f"searchsorted(a, b, right={flag})", [("f32", []), ("f32", [1.0])], op, ["i32"], grad=False)
        case("no values", f"searchsorted(a, b, right={flag})", [("f32", rows[0]), ("f32", [])], op, ["i32"], grad=False)
        case("of integers", f"searchsorted(a, b, right={flag})", [("i32", [1, 3, 3]), ("i32", [0, 3, 4])], op, ["i32"], grad=False)
        # NumPy, like us, holds NaN larger than all numbers.
        last, odd = [1.0, 3.0, nan, nan], [0.0, 3.0, 5.0, inf, nan]
        side = torch.from_numpy(np.searchsorted(np.array(last), np.array(odd), side="right" if right else "left"))
        case("NaN is last", f"searchsorted(a, b, right={flag})", [("f32", last), ("f32", odd)], lambda a, v: side, ["i32"],
             grad=False)
        last, odd = long + [nan] * 60, long[::9] + [nan, -inf, inf]
        places = np.searchsorted(np.array(last), np.array(odd), side="right" if right else "left")
        case("NaN is last in a long row", f"searchsorted(a, b, right={flag})", [("f32", last), ("f32", odd)],
             lambda a, v: torch.from_numpy(places), ["i32"], grad=False)
        case("NaN is the last boundary", f"bucketize(a, b, right={flag})", [("f32", odd), ("f32", last)],
             lambda v, a: torch.from_numpy(places), ["i32"], grad=False)
        case("between boundaries", f"bucketize(a, b, right={flag})", [("f32", values), ("f32", rows[0])],
             lambda v, a: torch.bucketize(v.detach(), a.detach(), right=right), ["i32"], grad=False)


def neighbours():
    generator = torch.Generator().manual_seed(11)
    q = torch.randn(4, 6, generator=generator).tolist()
    x = torch.randn(30, 6, generator=generator).tolist()
    # Close together and far from the origin: |q|² - 2·q·x + |x|² cancels.
    far_q, far_x = (torch.tensor(q) / 64 + 100).tolist(), (torch.tensor(x) / 64 + 100).tolist()
    zero_x = [[0.0] * 6] + x[:4]
    l2 = lambda q, x: ((q[:, None] - x[None]) ** 2).sum(2)
    cosine = lambda q, x: 1 - torch.nn.functional.cosine_similarity(q[:, None], x[None], dim=2)
    results = ["f32", "i32"]

    def search(title, call, inputs, found, results, **rest):
        # All rows are compared, so every query is certain.
        # A few rows are all compared.
        case(title, call, inputs, lambda q, x: (*found(q, x), torch.ones(len(q), dtype=torch.bool),
                                                torch.full((len(q),), len(x))),
             [*results, "bool", "i32"], **rest)

    search("squared distances", "nearest(a, b, k=3)", [("f32", q), ("f32", x)],
         lambda q, x: first(stable(l2(q, x)), 3), results)
    search("without a margin", "nearest(a, b, k=30, margin=0)", [("f32", q), ("f32", x)],
         lambda q, x: stable(l2(q, x)), results)
    # All distances differ by less than the error of that form, so that every row has to be a candidate.
    search("far from the origin", "nearest(a, b, k=5, margin=25)", [("f32", far_q), ("f32", far_x)],
         lambda q, x: first(stable(l2(q, x)), 5), results, grad=False)
    search("in f64", "nearest(a, b, k=5)", [("f64", q), ("f64", x)],
         lambda q, x: first(stable(l2(q, x)), 5), ["f64", "i32"])
    search("inner products", 'nearest(a, b, k=4, metric="ip")', [("f32", q), ("f32", x)],
         lambda q, x: first(stable(q @ x.T, descending=True), 4), results)
    search("cosines", 'nearest(a, b, k=4, metric="cosine")', [("f32", q), ("f32", x)],
         lambda q, x: first(stable(cosine(q, x)), 4), results)
    search("cosines of a zero vector", 'nearest(a, b, k=5, metric="cosine")', [("f32", q), ("f32", zero_x)],
         lambda q, x: stable(cosine(q, x)), results, grad=False)
    twice = x[:3] + x[:3]
    search("equal distances by index", "nearest(a, b, k=6)", [("f32", q), ("f32", twice)],
         lambda q, x: stable(l2(q, x)), results, grad=False)
    search("padded", "nearest(a, b, k=4, pad=true)", [("f32", q), ("f32", x[:3])],
         lambda q, x: tuple(torch.nn.functional.pad(part, (0, 1), value=fill) for part, fill in
                            zip(stable(l2(q, x)), (inf, -1))), results)
    search("no rows", "nearest(a, b, k=2, pad=true)", [("f32", q), ("f32", torch.zeros(0, 6))],
         lambda q, x: (torch.full((4, 2), inf), torch.full((4, 2), -1)), results, grad=False)


def scalars():
    """A scalar has the axes 0 and -1."""
    x = [("f32", -2.5)]
    case("of a scalar", "sort(a)", x, lambda x: stable(x, 0), ["f32", "i32"])
    case("of a scalar", "argsort(a, axis=0)", x, lambda x: x.argsort(0), ["i32"], grad=False)
    case("of a scalar", "topk(a, k=1)", x, lambda x: tuple(x.topk(1)), ["f32", "i32"])
    case("of a scalar", "kthvalue(a, k=1)", x, lambda x: tuple(x.kthvalue(1)), ["f32", "i32"])
    case("of a scalar", "median(a, axis=-1)", x, lambda x: tuple(x.median(-1)), ["f32", "i32"])
    case("of a scalar", "quantile(a, q=0.3, axis=0)", x, lambda x: x.quantile(0.3, 0))


sorts()
selections()
places()
searches()
neighbours()
scalars()
record.write()
