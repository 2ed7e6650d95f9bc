"""Expected numbers of indexing ops, from PyTorch and NumPy: python tests/examples/index.py"""

import math

import torch
import torch.nn.functional as F
from recording import Recording

inf, nan = float("inf"), float("nan")
record = Recording("index")
case = record.case

A = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]
B = [[1.0, 0.5, -2.0, 3.0], [0.0, 1.25, 1.0, -1.0], [2.0, -0.5, 0.75, 0.25]]
T = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4).sin().float().tolist()


def indexing():
    i = ("i32", [2, 0, 2])
    case("twice the same", "index_select(a, b, axis=1)", [("f32", T), i], lambda x, i: x.index_select(1, i))
    case("clamped", "index_select(a, b, axis=1, oob=\"clamp\")", [("f32", T), ("i64", [5, -3])],
         lambda x, i: x.index_select(1, i.clamp(0, 2)))
    case("skipped", "index_select(a, b, axis=1, oob=\"skip\")", [("f32", T), ("i64", [1, -3])],
         lambda x, i: torch.stack([x[:, 1], 0 * x[:, 1]], 1))
    case("from the end", "index_select(a, b, axis=2, wrap_negative=true)", [("f32", T), ("i32", [-1, 0])],
         lambda x, i: x[..., [3, 0]])
    g = ("i64", [[[2, 0, 0, 1]], [[1, 1, 2, 0]]])
    case("elements of an inner axis", "gather(a, b, axis=1)", [("f32", T), g], lambda x, i: x.gather(1, i))
    case("elements of the last axis", "gather(a, b)", [("f32", B), ("i64", [[3, 3], [0, 1], [2, 2]])],
         lambda x, i: x.gather(1, i))
    case("rows of a batch", "batch_gather(a, b)", [("f32", T), ("i64", [[2, 2], [0, 1]])],
         lambda x, i: torch.stack([x[k][i[k]] for k in range(2)]))
    case("slices that meet", "scatter_add(a, b, c)", [("f32", B), i, ("f32", B[::-1])], lambda x, i, u: x.index_add(0, i, u))
    case("columns that meet", "scatter_add(a, b, c, axis=1)", [("f32", A), ("i32", [1, 1]), ("f32", [[1.0, 2.0], [3.0, 5.0]])],
         lambda x, i, u: x.index_add(1, i, u))
    case("elements that meet", "scatter_add(a, b, c)", [("f32", B), ("i64", [[0, 1, 2, 0], [0, 1, 1, 2]]), ("f32", B[:2])],
         lambda x, i, u: x.scatter_add(0, i, u))
    case("no updates", "scatter_add(a, b, c)", [("f32", B), ("i32", []), ("f32", torch.zeros(0, 4))], lambda x, i, u: x + 0 * u.sum())
    case("classes", "one_hot(a, classes=4)", [("i64", [[3, 0], [1, 1]])],
         lambda i: torch.nn.functional.one_hot(i, 4), ["f32"], grad=False)


def several_numbers():
    """Each position by a loop over rows."""
    for n in range(1, 9):
        extents = [2] + [3, 2, 2, 2, 1, 2, 1, 2][:n]
        x = torch.arange(math.prod(extents), dtype=torch.float64).reshape(extents).sin().float().tolist()
        idx = [[(b + 2 * j) % extents[j + 1] for j in range(n)] for b in range(2)]
        case(f"{n} numbers", "multi_index_gather(a, b)", [("f32", x), ("i32", idx)],
             lambda x, i: torch.stack([x[(b, *i[b].tolist())] for b in range(2)]))
    case("rows that are kept", "batch_gather_with_k(a, b)", [("f32", T), ("i64", [[2], [0]])],
         lambda x, i: torch.stack([x[b, i[b, 0]] for b in range(2)]))
    case("clamped", "multi_index_gather(a, b, oob=\"clamp\")", [("f32", T), ("i64", [[5, -1], [0, 9]])],
         lambda x, i: torch.stack([x[0, 2, 0], x[1, 0, 3]]))
    case("skipped", "multi_index_gather(a, b, oob=\"skip\")", [("f32", T), ("i64", [[5, 1], [0, 3]])],
         lambda x, i: torch.stack([0 * x[0, 0, 0], x[1, 0, 3]]))


def writes():
    """PyTorch does not say which of several writes wins; here the last one does, so it is written in a loop."""
    def rows(x, i, u):
        y = x.clone()
        for k, at in enumerate(i.tolist()):
            y[at] = u[k]
        return y

    def elements(x, i, u):
        y = x.clone()
        for r in range(i.shape[0]):
            for c in range(i.shape[1]):
                y[i[r, c], c] = u[r, c]
        return y

    case("rows that meet", "scatter(a, b, c)", [("f32", B), ("i32", [2, 0, 2]), ("f32", B[::-1])], rows)
    case("elements that meet", "scatter(a, b, c)",
         [("f32", B), ("i64", [[0, 1, 2, 0], [0, 1, 1, 2]]), ("f32", B[:2])], elements)
    case("one skipped after one that counts", "scatter(a, b, c, oob=\"skip\")",
         [("f32", B), ("i32", [2, 3, -1]), ("f32", B[::-1])], lambda x, i, u: torch.stack([x[0], x[1], u[0]]))
    case("to a transposed base", "scatter_add(a, b, c, axis=1)",
         [("f32", A), ("i32", [0, 0]), ("f32", [[1.0, 2.0], [3.0, 5.0]])], lambda x, i, u: x.T.index_add(0, i, u.T).T)
    case("1 from the class", "subtract_at_indices(a, b, c)", [("f32", B), ("i64", [1, 3, 0]), ("f32", 1.5)],
         lambda x, i, v: x - v * torch.nn.functional.one_hot(i, 4))
    case("a number per row", "subtract_at_indices(a, b, c)", [("f32", B), ("i64", [1, 3, 0]), ("f32", [1.0, 2.0, 3.0])],
         lambda x, i, v: x - v[:, None] * torch.nn.functional.one_hot(i, 4))


def combined(word, include_self, axis):
    """PyTorch's gradient of an extreme passes a share to a base that does not count; ours goes to the updates alone."""
    if include_self or word not in ("amax", "amin"):
        return lambda x, i, u: x.scatter_reduce(axis, i, u, word, include_self=include_self)

    def alone(x, i, u):
        lowest = (-inf if word == "amax" else inf) if x.is_floating_point() else (-99 if word == "amax" else 99)
        return x.scatter(axis, i, lowest).scatter_reduce(axis, i, u, word)

    return alone


def reductions():
    base, idx = ("f32", B), ("i64", [[2, 0, 2, 1], [0, 0, 2, 1], [2, 1, 2, 2]])
    updates = ("f32", [[0.5, -2.0, 3.0, 0.0], [1.5, 0.25, 3.0, -1.0], [0.0, 4.0, -0.5, 2.0]])
    for word in ("sum", "mean", "prod", "amax", "amin"):
        for include in (True, False):
            flag = f"include_self={str(include).lower()}"
            op, along = combined(word, include, 0), combined(word, include, 1)
            case(f"{word}, {flag}", f"scatter_reduce(a, b, c, reduce=\"{word}\", {flag})", [base, idx, updates], op)
            case(f"{word}, {flag}, along rows", f"scatter_reduce(a, b, c, axis=1, reduce=\"{word}\", {flag})",
                 [base, ("i64", [[3, 0, 3], [1, 1, 1], [0, 2, 0]]), ("f32", [row[:3] for row in updates[1]])], along)
            case(f"{word}, {flag}, zeros", f"scatter_reduce(a, b, c, reduce=\"{word}\", {flag})",
                 [("f32", [0.0, 0.5, 0.0, 3.0]), ("i64", [0, 1, 1, 1, 2, 2]), ("f32", [2.0, 0.0, 3.0, -1.0, 0.0, 0.0])], op)
            case(f"{word}, {flag}, no updates", f"scatter_reduce(a, b, c, reduce=\"{word}\", {flag})",
                 [("f32", B[0]), ("i64", []), ("f32", [])], op)
            case(f"{word}, {flag}, NaN", f"scatter_reduce(a, b, c, reduce=\"{word}\", {flag})",
                 [("f32", [1.0, nan, 2.0, nan]), ("i64", [0, 0, 1, 3]), ("f32", [nan, 1.0, 2.0, 5.0])], op, grad=False)
            if word != "mean":
                case(f"{word}, {flag}, of integers", f"scatter_reduce(a, b, c, reduce=\"{word}\", {flag})",
                     [("i32", [1, -2, 3]), ("i64", [0, 0, 2, 0]), ("i32", [5, -3, 2, 7])], op, grad=False)
            case(f"{word}, {flag}, in bf16", f"scatter_reduce(a, b, c, reduce=\"{word}\", {flag})",
                 [("bf16", B[0]), ("i64", [0, 0, 2, 0]), ("bf16", B[1])], op, grad=False)
    for flag in ("", ", include_self=false"):
        case("skipped", f"scatter_reduce(a, b, c, reduce=\"prod\", oob=\"skip\"{flag})",
             [("f32", [2.0, 3.0, 0.0, 0.0, 0.5, 7.0]), ("i64", [0, 9, -1, 0, 1, 2, 3, 1, 3, 6, 4, 4]),
              ("f32", [5.0, 7.0, 0.0, 4.0, 0.0, 1.5, 0.0, -2.0, 2.5, 3.0, 2.0, -3.0])],
             lambda x, i, u: torch.stack([(x[k] if not flag or k == 5 else 1 + 0 * x[k]) * torch.stack(
                 [u[j] if i[j] == k else 1 + 0 * u[j] for j in range(len(u))]).prod() for k in range(6)]))
    case("skipped", "scatter_reduce(a, b, c, reduce=\"amax\", oob=\"skip\")",
         [("f32", [2.0, 3.0]), ("i64", [0, 2, -1, 0]), ("f32", [5.0, 7.0, 9.0, 4.0])],
         lambda x, i, u: torch.stack([u[0] + 0 * u.sum(), x[1]]))
    case("fewer indices than rows and columns", "gather(a, b, axis=1)", [("f32", T), ("i64", [[[2, 0], [1, 1]]])],
         lambda x, i: x.gather(1, i))
    case("fewer columns", "gather(a, b, axis=0)", [("f32", B), ("i64", [[2, 0], [1, 1]])], lambda x, i: x.gather(0, i))
    few = ("i64", [[2, 0], [1, 1]])
    # PyTorch takes unused updates, too, but has no gradient for them.
    used = lambda u, i: u[tuple(map(slice, i.shape))]
    for axis in (0, 1):
        for op in ("scatter", "scatter_add"):
            case("fewer indices than elements and updates", f"{op}(a, b, c, axis={axis})",
                 [("f32", B), few if op == "scatter_add" else ("i64", [[2, 0], [1, 2]]), ("f32", B[::-1])],
                 lambda x, i, u, op=op, axis=axis: getattr(x, op)(axis, i, used(u, i)))
        for word in ("sum", "mean", "prod", "amax"):
            case("fewer indices than elements and updates", f'scatter_reduce(a, b, c, axis={axis}, reduce="{word}")',
                 [("f32", B), few, ("f32", [[x + 0.25 for x in row] for row in B[::-1]])],
                 lambda x, i, u, word=word, axis=axis: x.scatter_reduce(axis, i, used(u, i), word))
    case("fewer indices than updates", "scatter_add(a, b, c)", [("f32", B[0]), ("i64", [1, 1]), ("f32", B[1])],
         lambda x, i, u: x.scatter_add(0, i, used(u, i)))
    case("more updates than rows and columns", "scatter(a, b, c)",
         [("f32", B), ("i64", [[2, 0]]), ("f32", torch.arange(30.0).reshape(6, 5))], lambda x, i, u: x.scatter(0, i, used(u, i)))


def advanced():
    """Positions beside index operands are written as vectors: PyTorch places the axes of single numbers
    otherwise than NumPy."""
    i, j = ("i64", [2, 0, -1]), ("i64", [[1], [-4]])
    zero = torch.tensor([0])
    case("leading axes", "index(a, b, c)", [("f32", T), ("i64", [1, 0]), ("i64", [2, -1])], lambda x, i, j: x[i, j])
    case("a matrix of indices", "index(a, b, at=\":, #\")", [("f32", T), ("i32", [[2, 0], [1, 1]])],
         lambda x, i: x[:, i.long()])
    case("together at the end", "index(a, b, c, at=\"..., #, #\")", [("f32", T), i, j], lambda x, i, j: x[:, i, j])
    case("apart, so in front", "index(a, b, c, at=\"#, :, #\")", [("f32", T), ("i64", [1, 0]), ("i64", [3, -1])],
         lambda x, i, j: x[i, :, j])
    case("a position beside an operand", "index(a, b, at=\"0, :, #\")", [("f32", T), i], lambda x, i: x[zero, :, i])
    case("a position next to an operand", "index(a, b, at=\":, -1, #\")", [("f32", T), i],
         lambda x, i: x[:, zero - 1, i])
    case("a range beside an operand", "index(a, b, at=\"#, 2:0:-1, 1:4:2\")", [("f32", T), ("i64", [1, 1])],
         lambda x, i: x[i][:, [2, 1]][:, :, [1, 3]])
    case("new axes", "index(a, b, at=\"new, #, ..., new\")", [("f32", T), ("i64", [1, 1])], lambda x, i: x[None, i, ..., None])
    case("an ellipsis without axes", "index(a, b, c, at=\"#, ..., #\")", [("f32", A), ("i64", [1, 0]), ("i64", [[2], [-1]])],
         lambda x, i, j: x[i, j])
    case("an ellipsis without axes, which keeps apart", "index(a, b, c, at=\":, #, ..., #\")", [("f32", T), ("i64", [0, 2]), ("i64", [3, 1])],
         lambda x, i, j: x[:, i, j].T)
    case("no index", "index(a, b, at=\":, #\")", [("f32", T), ("i64", [])], lambda x, i: x[:, i])
    case("skipped", "index(a, b, oob=\"skip\")", [("f32", A), ("i64", [-1, 2])], lambda x, i: torch.stack([x[1], 0 * x[0]]))


def puts():
    case("nothing", "index_put(a, b, c)", [("f32", B), ("f32", 7.0), ("i64", [])], lambda x, v, i: x + 0 * v)
    case("added up, broadcast", "index_put(a, b, c, d, accumulate=true)",
         [("f32", B), ("f32", [[0.5], [2.0]]), ("i64", [[0, 2, 0], [1, 1, 1]]), ("i64", [3, 3, -4])],
         lambda x, v, i, j: x.index_put((i, j), v, accumulate=True))
    case("a column range", "index_put(a, b, c, at=\"#, 1:3\")",
         [("f32", B), ("f32", [[9.0, 8.0], [7.0, 6.0]]), ("i64", [2, 0])],
         lambda x, v, i: torch.stack([torch.cat([x[0, :1], v[1], x[0, 3:]]), x[1], torch.cat([x[2, :1], v[0], x[2, 3:]])]))
    case("where indices meet", "index_put(a, b, c, d)",
         [("f32", B), ("f32", [1.0, 2.0, 3.0]), ("i64", [1, 1, 0]), ("i64", [2, -2, 0])],
         lambda x, v, i, j: torch.stack([torch.cat([v[2:], x[0, 1:]]), torch.cat([x[1, :2], v[1:2], x[1, 3:]]), x[2]]))
    case("rows in the middle", "index_put(a, b, c, at=\":, #\")", [("f32", T), ("f32", B[0]), ("i64", [-1])],
         lambda x, v, i: torch.cat([x[:, :2], v.expand(2, 1, 4)], 1))
    case("where a mask holds", "index_put(a, b, c)", [("f32", T), ("f32", B[0]), ("bool", [[1, 0, 1], [0, 0, 1]])],
         lambda x, v, m: torch.where(m[..., None], v, x))
    case("added where a mask holds", "index_put(a, b, c, accumulate=true)", [("f32", A), ("f32", 1.5), ("bool", [[1, 0, 1], [0, 0, 1]])],
         lambda x, v, m: x + m * v)


def embeddings():
    tokens = ("i64", [[1, 0, 1], [2, 1, 0]])
    case("tokens that occur again", "embedding(a, b)", [("f32", B), tokens], lambda w, i: F.embedding(i, w))
    case("a padding row", "embedding(a, b, padding_idx=-2)", [("f32", B), tokens], lambda w, i: F.embedding(i, w, padding_idx=1))
    case("no tokens", "embedding(a, b, scale_grad_by_freq=true)", [("f32", B), ("i64", [])], lambda w, i: F.embedding(i, w))
    # PyTorch scales by frequency outside of autograd's reach in double precision too, so it is spelled out: each
    # occurrence passes on its share.
    count = torch.tensor([2.0, 3.0, 1.0], dtype=torch.float64)

    def by_frequency(w, i):
        y = F.embedding(i, w)
        share = y / count[i][..., None]
        return share + (y - share).detach()

    case("scaled by frequency", "embedding(a, b, scale_grad_by_freq=true)", [("f32", B), tokens], by_frequency)
    own = torch.nn.Embedding(3, 4, scale_grad_by_freq=True, dtype=torch.float64)
    own(torch.tensor(tokens[1])).backward(torch.arange(1, 25, dtype=torch.float64).reshape(2, 3, 4))
    w = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    by_frequency(w, torch.tensor(tokens[1])).backward(torch.arange(1, 25, dtype=torch.float64).reshape(2, 3, 4))
    assert torch.allclose(own.weight.grad, w.grad), "PyTorch's own rule"
    for p in (1.0, 2.0, 3.0):
        case(f"the {p:g}-norm", f"embedding_renorm(a, b, max_norm=2.0, norm_type={p})", [("f32", B), ("i64", [2, 0, 2])],
             lambda w, i: renormed(w, i, p), grad=False)


def renormed(weight, tokens, p):
    weight = weight.detach().clone()
    return torch.embedding_renorm_(weight, tokens, 2.0, p)


def lists():
    pages = torch.arange(24, dtype=torch.float64).reshape(4, 2, 3).cos().float().tolist()
    table = ("i64", [[3, 1, 99], [0, 99, 99]])

    def packed(x, table, lengths):
        rows = [torch.stack([x[table[b, t // 2], t % 2] if t < lengths[b] else 0 * x[0, 0] for t in range(6)]) for b in range(2)]
        return torch.stack(rows)

    case("of different lengths", "paged_gather(a, b, c)", [("f32", pages), table, ("i32", [3, 1])], packed)
    case("of nothing", "paged_gather(a, b, c)", [("f32", pages), table, ("i32", [0, 0])], packed)

    def written(x, table, at, v):
        y = x.clone()
        for b in range(2):
            y[table[b, at[b] // 2], at[b] % 2] = v[b]
        return y

    case("one position each", "paged_scatter(a, b, c, d)",
         [("f32", pages), table, ("i64", [3, 0]), ("f32", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])], written)

    def ragged(x, lims, ids):
        rows = [[x[ids[lims[r] + j]] if lims[r] + j < lims[r + 1] else 0 * x[0] for j in range(3)] for r in range(4)]
        return torch.stack([torch.stack(row) for row in rows]), torch.tensor([[lims[r] + j < lims[r + 1] for j in range(3)] for r in range(4)])

    case("unsorted, with an empty one", "ragged_gather(a, b, c, width=3)",
         [("f32", B), ("i32", [0, 2, 2, 5, 6]), ("i64", [2, 0, 1, 1, 0, 2])], ragged, ["f32", "bool"])
    case("nothing at all", "ragged_gather(a, b, c, width=3)", [("f32", B), ("i32", [0, 0, 0, 0, 0]), ("i64", [])], ragged,
         ["f32", "bool"])


def segments():
    """Sums by `index_add`; means of labels that all have rows."""
    label = ("i32", [2, 0, 2, 1])
    x = ("f32", [*B, [0.25, -3.0, 1.5, 0.75]])

    def summed(x, i):
        return torch.zeros(4, 4, dtype=x.dtype).index_add(0, i, x), torch.bincount(i, minlength=4)

    def averaged(x, i, c, w=None):
        w = torch.ones(4, dtype=x.dtype) if w is None else w
        sums = torch.zeros(3, 4, dtype=x.dtype).index_add(0, i, x * w[:, None])
        totals = torch.zeros(3, dtype=x.dtype).index_add(0, i, w)
        return sums / totals[:, None] + 0 * c.sum(), torch.bincount(i, minlength=3)

    c = ("f32", B[::-1])
    case("sums by label", "segment_sum(a, b, segments=4)", [x, label], summed, ["f32", "i32"])
    case("means by label", "segment_mean(a, b, c)", [x, label, c], averaged, ["f32", "i32"])
    case("with weights", "segment_mean(a, b, c, d)", [x, label, c, ("f32", [1.0, 0.5, 3.0, 0.25])], averaged, ["f32", "i32"])


indexing()
several_numbers()
writes()
reductions()
advanced()
puts()
embeddings()
lists()
segments()
record.write()
