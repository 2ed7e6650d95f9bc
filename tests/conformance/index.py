"""Cases of indexing and search: `python tests/conformance/index.py` writes index.json."""

import torch
import torch.nn.functional as F

from peers import FLOATS, INTS, SIGNED, TRANSPOSED, UNSIGNED, case, grid, inf, ints, more, nan, op, t, truths, write

B, T = grid(3, 4), grid(2, 3, 4)
SPECIAL = t([[nan, inf, -inf], [0.0, -0.0, 1.5]])


def number(values, dtype="i32"):
    return t(values, dtype)


TWICE = number([2, 0, 2])
NONE = ("i64", torch.zeros(0, dtype=torch.int64))
select = lambda x, i, axis=0: x.index_select(axis, i.long())
op(
    "index_select",
    "torch.index_select",
    select,
    case("twice the same", B, TWICE),
    case("inner axis", T, TWICE, axis=1),
    case("none", B, NONE),
    case("transposed", grid(4, 3), TWICE, view=TRANSPOSED),
    case("NaN, infinities, zeros", SPECIAL, number([1, 0, 0]), grad=False),
    case("one", B, number(1), reference=lambda x, i: x[1]),
    case(
        "from the end",
        B,
        number([-1, 0]),
        call="index_select($0, $1, wrap_negative=true)",
        reference=lambda x, i: x[[2, 0]],
    ),
    case(
        "clamped", B, number([5, -3], "i64"), call='index_select($0, $1, oob="clamp")', reference=lambda x, i: x[[2, 0]]
    ),
    case(
        "skipped",
        B,
        number([1, 7]),
        call='index_select($0, $1, oob="skip")',
        reference=lambda x, i: torch.stack([x[1], 0 * x[1]]),
    ),
    case("integers", ints(3, 4), TWICE, types=INTS, grad=False),
)
op(
    "gather",
    "torch.gather",
    lambda x, i, axis=-1: x.gather(axis, i),
    case("last axis", B, number([[3, 3], [0, 1], [2, 2]], "i64")),
    case("inner axis", T, number([[[2, 0, 0, 1]], [[1, 1, 2, 0]]], "i64"), axis=1),
    case("fewer rows", B, number([[2, 0], [1, 1]], "i64"), axis=0),
    case("none", B, ("i64", torch.zeros(3, 0, dtype=torch.int64))),
    case("transposed", grid(4, 3), number([[3, 3], [0, 1], [2, 2]], "i64"), view=TRANSPOSED),
    case("integers", ints(3, 4), number([[3, 3], [0, 1], [2, 2]], "i64"), types=INTS, grad=False),
)
op(
    "batch_gather",
    "indexing of torch.Tensor",
    lambda x, i: torch.stack([x[k][i[k]] for k in range(len(x))]),
    case("plain", T, number([[2, 2], [0, 1]], "i64")),
    case("transposed", grid(2, 4, 3), number([[2, 2], [0, 1]], "i64"), view=TRANSPOSED),
)
op(
    "multi_index_gather",
    "indexing of torch.Tensor",
    lambda x, i: x[(torch.arange(len(x)), *i.T.unbind(0))],
    case("two numbers", T, number([[2, 0], [1, 3]], "i64")),
    case("one number", B, number([[3], [3], [0]], "i64")),
    case("transposed", grid(2, 4, 3), number([[2, 0], [1, 3]], "i64"), view=TRANSPOSED),
)
op(
    "batch_gather_with_k",
    "indexing of torch.Tensor",
    lambda x, i: torch.stack([x[b, i[b, 0]] for b in range(len(x))]),
    case("plain", T, number([[2], [0]], "i64")),
)
op(
    "index",
    "indexing of torch.Tensor",
    None,
    case(
        "leading axes",
        T,
        number([1, 0], "i64"),
        number([2, -1], "i64"),
        call="index($0, $1, $2)",
        reference=lambda x, i, j: x[i, j],
    ),
    case(
        "a matrix of indices",
        T,
        number([[2, 0], [1, 1]], "i64"),
        call='index($0, $1, at=":, #")',
        reference=lambda x, i: x[:, i],
    ),
    case(
        "together at the end",
        T,
        number([2, 0, -1], "i64"),
        number([[1], [-4]], "i64"),
        call='index($0, $1, $2, at="..., #, #")',
        reference=lambda x, i, j: x[:, i, j],
    ),
    case(
        "apart, so in front",
        T,
        number([1, 0], "i64"),
        number([3, -1], "i64"),
        call='index($0, $1, $2, at="#, :, #")',
        reference=lambda x, i, j: x[i, :, j],
    ),
    case(
        "a range",
        T,
        number([1, 1], "i64"),
        call='index($0, $1, at="#, 2:0:-1, 1:4:2")',
        reference=lambda x, i: x[i][:, [2, 1]][:, :, [1, 3]],
    ),
    case("none", T, NONE, call='index($0, $1, at=":, #")', reference=lambda x, i: x[:, i]),
    case(
        "transposed", grid(4, 3), number([2, 2], "i64"), call="index(transpose($0), $1)", reference=lambda x, i: x.mT[i]
    ),
)


def last_wins(x, i, u):
    y = x.clone()
    for k, at in enumerate(i.tolist()):
        y[at] = u[k]
    return y


U = grid(3, 4, seed=3)
op(
    "scatter_add",
    "torch.index_add, scatter_add",
    lambda x, i, u, axis=0: x.index_add(axis, i, u) if i.dim() == 1 else x.scatter_add(axis, i, u),
    case("rows that meet", B, TWICE, U, whole=True),
    case("columns that meet", grid(2, 3), number([1, 1]), grid(2, 2, seed=3), axis=1, whole=True),
    case("elements that meet", B, number([[0, 1, 2, 0], [0, 1, 1, 2]], "i64"), grid(2, 4, seed=3), whole=True),
    case("none", B, NONE, grid(0, 4)),
    case("transposed", grid(4, 3), TWICE, U, view=TRANSPOSED, whole=True),
    case("NaN and infinities", t([1.0, inf, 0.0]), number([0, 1, 1]), t([nan, -inf, 1.0]), grad=False),
    case("integers", ints(3, 4), TWICE, ints(3, 4, seed=3), types=(*SIGNED, "u32", "u16"), grad=False),
)
op(
    "scatter",
    "indexing of torch.Tensor, the last write wins",
    last_wins,
    case("rows that meet", B, TWICE, U),
    case("apart", B, number([1, 0]), grid(2, 4, seed=3)),
    case("none", B, NONE, grid(0, 4)),
    case("transposed", grid(4, 3), TWICE, U, view=TRANSPOSED),
    case("integers", ints(3, 4), TWICE, ints(3, 4, seed=3), types=(*SIGNED, "u32", "u16"), grad=False),
)
AT = number([[2, 0, 2, 1], [0, 0, 2, 1], [2, 1, 2, 2]], "i64")
op(
    "scatter_reduce",
    "torch.scatter_reduce",
    lambda x, i, u, reduce="sum", axis=0, include_self=True: x.scatter_reduce(
        axis, i, u, reduce, include_self=include_self
    ),
    *[
        case(
            f"{word}, {'with' if include else 'without'} the base",
            B,
            AT,
            grid(3, 4, seed=3, step=1 / 32),
            reduce=word,
            include_self=include,
            whole=True,
            grad=include or word not in ("amax", "amin"),
        )
        for word in ("sum", "mean", "prod", "amax", "amin")
        for include in (True, False)
    ],
    *[
        case(
            f"{word}, NaN",
            t([1.0, nan, 2.0, nan]),
            number([0, 0, 1, 3], "i64"),
            t([nan, 1.0, 2.0, 5.0]),
            reduce=word,
            grad=False,
        )
        for word in ("sum", "mean", "prod", "amax", "amin")
    ],
    case(
        "along rows",
        B,
        number([[3, 0, 3], [1, 1, 1], [0, 2, 0]], "i64"),
        grid(3, 3, seed=3),
        axis=1,
        reduce="sum",
        whole=True,
    ),
    case("none", grid(4), NONE, grid(0), reduce="prod"),
    *[
        case(
            f"{word} of integers",
            ints(4),
            number([0, 0, 2, 0], "i64"),
            ints(4, seed=3),
            reduce=word,
            types=SIGNED,
            grad=False,
        )
        for word in ("sum", "prod", "amax", "amin")
    ],
)
op(
    "index_put",
    "torch.index_put",
    None,
    case("nothing", B, t(1.5), NONE, call="index_put($0, $1, $2)", reference=lambda x, v, i: x + 0 * v),
    case(
        "added up, broadcast",
        B,
        grid(2, 1, seed=3),
        number([[0, 2, 0], [1, 1, 1]], "i64"),
        number([3, 3, -4], "i64"),
        call="index_put($0, $1, $2, $3, accumulate=true)",
        reference=lambda x, v, i, j: x.index_put((i, j), v, accumulate=True),
        whole=True,
    ),
    case(
        "rows",
        B,
        grid(2, 4, seed=3),
        number([2, 0], "i64"),
        call="index_put($0, $1, $2)",
        reference=lambda x, v, i: x.index_put((i,), v),
    ),
    case(
        "where a mask holds",
        T,
        grid(4, seed=3),
        truths(2, 3),
        call="index_put($0, $1, $2)",
        reference=lambda x, v, m: torch.where(m[..., None], v, x),
        whole=True,
    ),
)
op(
    "subtract_at_indices",
    "torch.sub, F.one_hot",
    lambda x, i, v: x - v.reshape(-1, 1) * F.one_hot(i, 4),
    case("a number", B, number([1, 3, 0], "i64"), t(1.5), whole=True),
    case("a number per row", B, number([1, 3, 0], "i64"), t([1.0, 2.0, 3.0])),
)
op(
    "one_hot",
    "F.one_hot",
    lambda i: F.one_hot(i, 4).double(),
    case(
        "classes",
        number([[3, 0], [1, 1]], "i64"),
        call="one_hot($0, classes=4, dtype=$T)",
        reference=lambda i: F.one_hot(i, 4).double(),
        grad=False,
        types=(*FLOATS, "i32"),
        results=["T"],
    ),
    case(
        "none",
        NONE,
        call="one_hot($0, classes=4, dtype=$T)",
        reference=lambda i: F.one_hot(i, 4).double(),
        grad=False,
        results=["T"],
    ),
)
TOKENS = number([[1, 0, 1], [2, 1, 0]], "i64")
op(
    "embedding",
    "F.embedding",
    lambda w, i, **more: F.embedding(i, w, **more),
    case("tokens that occur again", B, TOKENS, whole=True),
    case("none", B, NONE),
    case("a padding row", B, TOKENS, padding_idx=1, whole=True),
    case("transposed", grid(4, 3), TOKENS, view=TRANSPOSED, whole=True),
)
op(
    "embedding_renorm",
    "torch.embedding_renorm_",
    lambda w, i, max_norm, norm_type: torch.embedding_renorm_(w.clone(), i, max_norm, norm_type),
    *[
        case(f"the {p:g}-norm", grid(3, 4), number([2, 0, 2], "i64"), max_norm=2.0, norm_type=p, grad=False)
        for p in (1.0, 2.0, 3.0)
    ],
)
PAGES = grid(4, 2, 3)
TABLE = number([[3, 1, 2], [0, 2, 1]], "i64")


def paged(x, table, lengths):
    rows = [[x[table[b, k // 2], k % 2] if k < lengths[b] else 0 * x[0, 0] for k in range(6)] for b in range(2)]
    return torch.stack([torch.stack(row) for row in rows])


def page_written(x, table, at, v):
    y = x.clone()
    for b in range(2):
        y[table[b, at[b] // 2], at[b] % 2] = v[b]
    return y


def ragged(x, lims, ids, width):
    rows = [
        [x[ids[lims[r] + j]] if lims[r] + j < lims[r + 1] else 0 * x[0] for j in range(width)]
        for r in range(len(lims) - 1)
    ]
    there = [[bool(lims[r] + j < lims[r + 1]) for j in range(width)] for r in range(len(lims) - 1)]
    return torch.stack([torch.stack(row) for row in rows]), torch.tensor(there)


op(
    "paged_gather",
    "indexing of torch.Tensor",
    paged,
    case("different lengths", PAGES, TABLE, number([3, 1])),
    case("none", PAGES, TABLE, number([0, 0])),
)
op(
    "paged_scatter",
    "indexing of torch.Tensor",
    page_written,
    case("one position each", PAGES, TABLE, number([3, 0], "i64"), grid(2, 3, seed=3)),
)
op(
    "ragged_gather",
    "indexing of torch.Tensor",
    ragged,
    case("unsorted, one empty", B, number([0, 2, 2, 5, 6]), number([2, 0, 1, 1, 0, 2], "i64"), width=3, whole=True),
)


def summed(x, label, segments):
    """The sums of each head by `torch.index_add`, and the numbers of rows."""
    heads = label.dim() - 1
    if heads:
        both = [summed(a, b, segments) for a, b in zip(x, label)]
        return torch.stack([a for a, _ in both]), torch.stack([n for _, n in both])
    zeros = torch.zeros(segments, *x.shape[1:], dtype=x.dtype)
    return torch.index_add(zeros, 0, label.long(), x), torch.bincount(label.long(), minlength=segments)


def averaged(x, label, c, w=None, empty="keep"):
    """Labels without weight by loops."""
    if x.dim() == 3:
        weights = [None] * len(x) if w is None else w
        both = [averaged(*operands, empty) for operands in zip(x, label, c, weights)]
        return torch.stack([m for m, _ in both]), torch.stack([n for _, n in both])
    k = len(c)
    weight = torch.ones(len(x), dtype=x.dtype) if w is None else w
    sums, counts = summed(x * weight[:, None], label, k)
    totals = summed(weight, label, k)[0]
    full = totals > 0
    means = [sums[i] / totals[i] if full[i] else c[i] for i in range(k)]
    missing = [i for i in range(k) if not full[i]]
    if empty == "farthest":
        far = ((x - c[label.long()]) ** 2).sum(1).detach()
        far = torch.where(weight > 0, far, torch.full_like(far, -1.0))
        for i, row in zip(missing, torch.sort(far, descending=True, stable=True).indices):
            means[i] = x[row]
    if empty == "split":
        heavy = sorted((i for i in range(k) if full[i]), key=lambda i: -float(totals[i]))
        signs = torch.tensor([1.0 if j % 2 == 0 else -1.0 for j in range(x.shape[1])], dtype=x.dtype) / 1024
        for i, other in zip(missing, heavy):
            mean = means[other]
            means[i], means[other] = mean * (1 + signs), mean * (1 - signs)
    return torch.stack(means), counts


LABELS = number([2, 0, 2, 5, 0])
op(
    "segment_sum",
    "torch.index_add, torch.bincount",
    summed,
    case("with empty ones", grid(5, 3), LABELS, segments=6, results=["T", "i32"]),
    case("numbers", grid(5), LABELS, segments=6, results=["T", "i32"]),
    case("matrices", grid(5, 2, 2), LABELS, segments=6, results=["T", "i32"]),
    case("heads", grid(2, 3, 2), number([[1, 1, 0], [0, 2, 2]], "i64"), segments=3, results=["T", "i32"]),
    case("none", grid(0, 3), NONE, segments=2, results=["T", "i32"]),
    case("transposed", grid(3, 5), LABELS, segments=6, view=TRANSPOSED, results=["T", "i32"]),
    case("integers", ints(5, 3), LABELS, segments=6, types=SIGNED, grad=False, results=["T", "i32"]),
)
MEANS = (grid(5, 3), LABELS, grid(6, 3, seed=3))
op(
    "segment_mean",
    "torch.index_add, loops",
    averaged,
    *[
        case(rule, *MEANS, call=f'segment_mean($0, $1, $2, empty="{rule}")', results=["T", "i32"],
             reference=lambda x, i, c, rule=rule: averaged(x, i, c, empty=rule))
        for rule in ("keep", "farthest", "split")
    ],
    case("no empty one", grid(5, 3), number([1, 0, 1, 2, 0]), grid(3, 3, seed=3), results=["T", "i32"],
         call='segment_mean($0, $1, $2, empty="error")', reference=averaged, grad=False),
    case("heads", grid(2, 3, 2), number([[1, 1, 0], [0, 2, 2]], "i64"), grid(2, 3, 2, seed=3), results=["T", "i32"]),
    case("weights", *MEANS, t([1.0, 0.5, 2.0, 0.25, 1.0]), results=["T", "i32"]),
)

# ---- Order.

HOLES = t([[1.0, nan, 2.0, 0.5], [inf, 1.0, 0.5, -inf]])
TIES = t([[1.0, 2.0, 2.0, -1.0], [0.5, 0.5, 0.5, 0.5]])
X, L = grid(3, 6), grid(2, 40, low=-4.0, high=4.0)
ordered = lambda x, axis=-1, descending=False: tuple(torch.sort(x, dim=axis, descending=descending, stable=True))
op(
    "sort",
    "torch.sort",
    ordered,
    case("rows", X),
    case("columns", X, axis=0),
    case("descending", X, descending=True),
    case("ties", TIES, grad=False),
    case("ties, descending", TIES, descending=True, grad=False),
    case("NaN and infinities", HOLES, grad=False),
    case("long rows", L),
    case("no rows", grid(0, 3)),
    case("empty rows", grid(3, 0)),
    case("transposed", grid(3, 4), view=TRANSPOSED),
    case("integers", ints(3, 6), types=INTS, grad=False, results=["T", "i32"]),
)
op(
    "argsort",
    "torch.argsort",
    lambda x, axis=-1, descending=False: torch.argsort(x, dim=axis, descending=descending, stable=True),
    case("rows", X, grad=False),
    case("columns", X, axis=0, grad=False),
    case("ties, descending", TIES, descending=True, grad=False),
    case("NaN and infinities", HOLES, grad=False),
    case("transposed", grid(3, 4), view=TRANSPOSED, grad=False),
    case("integers", ints(3, 6), types=INTS, grad=False, results=["i32"]),
)
op(
    "sort_rows",
    "torch.sort",
    lambda x, descending=False: ordered(x, -1, descending),
    case("rows", X),
    case("descending", X, descending=True),
    case("ties", TIES, grad=False),
    case("empty rows", grid(3, 0)),
)


def top(x, k, axis=-1, largest=True):
    """Ties by index, which torch.topk leaves open."""
    values, places = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, k), places.narrow(axis, 0, k)


NUMBERS = t([[1.0, inf, 2.0, 0.5], [inf, 1.0, 0.5, -inf]])
op(
    "topk",
    "torch.sort, its first k",
    top,
    case("rows", X, k=2),
    case("columns", X, k=2, axis=0),
    case("smallest", X, k=3, largest=False),
    case("ties", TIES, k=2, grad=False),
    case("infinities", NUMBERS, k=3, grad=False),
    case("long rows", L, k=5),
    case("no rows", grid(0, 3), k=2),
    case("transposed", grid(3, 4), view=TRANSPOSED, k=2),
    case("integers", ints(3, 6), k=3, types=INTS, grad=False, results=["T", "i32"]),
)
op(
    "topk_rows",
    "torch.sort, its first k",
    top,
    case("rows", X, k=2),
    case("smallest", X, k=3, largest=False),
    case("ties", TIES, k=2, grad=False),
    case("long rows", L, k=5),
)
op(
    "kthvalue",
    "torch.kthvalue",
    lambda x, k, axis=-1, keepdim=False: tuple(torch.kthvalue(x, k, axis, keepdim)),
    case("rows", X, k=2),
    case("columns, kept", X, k=3, axis=0, keepdim=True),
    case("no rows", grid(0, 3), k=2),
    case("transposed", grid(3, 4), view=TRANSPOSED, k=2),
)


def median(x, axis=None, keepdim=False):
    return tuple(torch.median(x.flatten(), 0)) if axis is None else tuple(torch.median(x, axis, keepdim))


op(
    "median",
    "torch.median",
    median,
    case("rows", X, axis=1),
    case("columns, kept", grid(5, 3), axis=0, keepdim=True),
    case("all", grid(3, 5)),
    case("NaN", HOLES, axis=1, grad=False),
    case("transposed", grid(3, 4), view=TRANSPOSED, axis=1),
)
op(
    "quantile",
    "torch.quantile",
    lambda x, q, axis=None, keepdim=False, interpolation="linear": torch.quantile(
        x, q, axis, keepdim, interpolation=interpolation
    ),
    *[
        case(word, grid(3, 6), q=0.375, axis=1, interpolation=word)
        for word in ("linear", "lower", "higher", "midpoint", "nearest")
    ],
    case("all", grid(3, 5), q=0.25),
    case("the ends", X, q=1.0, axis=0, keepdim=True),
    case("NaN", HOLES, q=0.5, axis=1, grad=False),
    case("transposed", grid(3, 4), view=TRANSPOSED, q=0.5, axis=1),
)
EDGES = t([-1.0, 0.0, 0.0, 1.5])
SOUGHT = t([[-2.0, -1.0, 0.0], [0.25, 1.5, 3.0]])
op(
    "searchsorted",
    "torch.searchsorted",
    lambda s, v, right=False: torch.searchsorted(s, v, right=right),
    case("left", EDGES, SOUGHT, grad=False),
    case("right", EDGES, SOUGHT, right=True, grad=False),
    case("none", EDGES, grid(0), grad=False),
    case("infinities", EDGES, t([inf, -inf]), grad=False),
)
op(
    "bucketize",
    "torch.bucketize",
    lambda v, s, right=False: torch.bucketize(v, s, right=right),
    case("left", SOUGHT, EDGES, grad=False),
    case("right", SOUGHT, EDGES, right=True, grad=False),
    case("none", grid(0), EDGES, grad=False),
)


def nearest(q, b, k, metric="l2"):
    unit = lambda x: x / x.norm(dim=1, keepdim=True)
    d = {
        "l2": lambda: (q[:, None] - b).square().sum(-1),
        "ip": lambda: q @ b.mT,
        "cosine": lambda: 1 - unit(q) @ unit(b).mT,
    }[metric]()
    values, places = torch.sort(d, dim=1, descending=metric == "ip", stable=True)
    return values[:, :k], places[:, :k]


op(
    "nearest",
    "torch.cdist, sorted",
    nearest,
    *[
        case(metric, grid(3, 4), grid(20, 4, seed=7), k=3, metric=metric, whole=True, types=("f32", "f64"))
        for metric in ("l2", "ip", "cosine")
    ],
    case("no queries", grid(0, 4), grid(5, 4, seed=7), k=2, types=("f32", "f64")),
)

# ---- Other types.

TRUTH = dict(types=["bool"], grad=False)
WHOLE = dict(types=INTS, grad=False)
ROWS = number([2, 0, 2], "i64")
more("index_select", case("truth values", truths(3, 4), ROWS, **TRUTH))
more("gather", case("truth values", truths(3, 4), number([[3, 3], [0, 1], [2, 2]], "i64"), **TRUTH))
for title, x, options in (("integers", ints(2, 3, 4), WHOLE), ("truth values", truths(2, 3, 4), TRUTH)):
    more("batch_gather", case(title, x, number([[2, 2], [0, 1]], "i64"), **options))
    more("multi_index_gather", case(title, x, number([[2, 0], [1, 3]], "i64"), **options))
    more("batch_gather_with_k", case(title, x, number([[2], [0]], "i64"), **options))
    more(
        "index",
        case(
            title,
            x,
            number([2, 0], "i64"),
            call='index($0, $1, at=":, #")',
            reference=lambda x, i: x[:, i],
            **options,
        ),
    )
for title, make, options in (("integers", ints, WHOLE), ("truth values", truths, TRUTH)):
    more(
        "index_put",
        case(
            title,
            make(3, 4),
            make(2, 4, seed=3),
            number([2, 0], "i64"),
            call="index_put($0, $1, $2)",
            reference=lambda x, v, i: x.index_put((i,), v),
            **options,
        ),
    )
    more("paged_gather", case(title, make(4, 2, 3), TABLE, number([3, 1]), **options))
    more("paged_scatter", case(title, make(4, 2, 3), TABLE, number([3, 0], "i64"), make(2, 3, seed=3), **options))
more("scatter", case("truth values", truths(3, 4), TWICE, truths(3, 4, seed=3), **TRUTH))
more("scatter", case("bytes", ints(3, 4), TWICE, ints(3, 4, seed=3), types=["u8"], grad=False))
more("scatter_add", case("bytes", ints(3, 4), TWICE, ints(3, 4, seed=3), types=["u8"], grad=False))
for word in ("sum", "prod", "amax", "amin"):
    updates = ints(4, high=5, seed=3)
    at = number([0, 0, 2, 0], "i64")
    more("scatter_reduce", case(f"{word} of bytes", ints(4), at, updates, reduce=word, types=UNSIGNED, grad=False))
more(
    "subtract_at_indices",
    case(
        "integers",
        ints(3, 4, low=5),
        number([1, 3, 0], "i64"),
        ints(3, high=5, seed=3),
        types=SIGNED,
        grad=False,
    ),
)
more(
    "one_hot",
    case(
        "other numbers",
        number([[3, 0], [1, 1]], "i64"),
        call="one_hot($0, classes=4, dtype=$T)",
        reference=lambda i: F.one_hot(i, 4),
        results=["T"],
        **WHOLE,
    ),
)
PLACES = dict(types=["bool"], grad=False, results=["bool", "i32"])
more("sort sort_rows", case("truth values", truths(3, 6), **PLACES))
more("topk topk_rows", case("truth values", truths(3, 6), k=3, **PLACES))
more("argsort", case("truth values", truths(3, 6), types=["bool"], grad=False, results=["i32"]))
more("sort_rows", case("integers", ints(3, 6), results=["T", "i32"], **WHOLE))
more("topk_rows", case("integers", ints(3, 6), k=3, results=["T", "i32"], **WHOLE))
DISTINCT = "T", torch.tensor([[5, 2, 9, 1, 7], [4, 8, 0, 3, 6]])
more("kthvalue", case("integers", DISTINCT, k=2, results=["T", "i32"], **WHOLE))
more("median", case("integers", DISTINCT, axis=1, results=["T", "i32"], **WHOLE))
SORTED = "T", torch.tensor([1, 3, 3, 8])
more("searchsorted", case("integers", SORTED, ints(5), results=["i32"], **WHOLE))
more("bucketize", case("integers", ints(5), SORTED, results=["i32"], **WHOLE))

write(__file__)
