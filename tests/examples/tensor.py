"""Expected numbers of shape, indexing and matrix ops, from PyTorch: python tests/examples/tensor.py"""

import torch
from recording import Recording

record = Recording("tensor")
case = record.case

A = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]
B = [[1.0, 0.5, -2.0, 3.0], [0.0, 1.25, 1.0, -1.0], [2.0, -0.5, 0.75, 0.25]]
T = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4).sin().float().tolist()
U = torch.arange(40, dtype=torch.float64).reshape(2, 4, 5).cos().float().tolist()


def products():
    case("two matrices", "matmul(a, b)", [("f32", A), ("f32", B)], torch.matmul)
    case("two stacks", "matmul(a, b)", [("f32", T), ("f32", U)], torch.matmul)
    case("a stack and a matrix", "matmul(a, b)", [("f32", T), ("f32", U[0])], torch.matmul)
    case("a matrix and a stack", "matmul(a, b)", [("f32", A), ("f32", [B, B])], torch.matmul)
    case("a stack that repeats", "matmul(a, b)", [("f32", T[:1]), ("f32", U)], torch.matmul)
    case("a row and a matrix", "matmul(a, b)", [("f32", A[0]), ("f32", B)], torch.matmul)
    case("a stack and a column", "matmul(a, b)", [("f32", T), ("f32", B[0])], torch.matmul)
    case("two vectors", "matmul(a, b)", [("f32", B[0]), ("f32", B[1])], torch.matmul)
    case("nothing to sum", "matmul(a, b)", [("f32", [[], []]), ("f32", torch.zeros(0, 3))], torch.matmul)
    case("both transposed", "gemm(a, b, trans_a=true, trans_b=true)", [("f32", B), ("f32", A)], lambda a, b: a.T @ b.T)
    case("scaled, with a bias", "gemm(a, b, c, alpha=0.5, beta=2.0)", [("f32", A), ("f32", B), ("f32", B[0])],
         lambda a, b, c: torch.addmm(c, a, b, alpha=0.5, beta=2))
    case("scaled", "addmm(a, b, c, alpha=0.5, beta=2.0)", [("f32", B[0]), ("f32", A), ("f32", B)],
         lambda c, a, b: torch.addmm(c, a, b, alpha=0.5, beta=2))
    case("transposed weights", "linear(a, b, c, trans_w=true)", [("f32", T), ("f32", B), ("f32", A[0])],
         torch.nn.functional.linear)
    case("by row", "weighted_sum(a, b)", [("f32", B[:2]), ("f32", U)], lambda w, v: torch.einsum("bn,bnd->bd", w, v))


def views():
    case("backwards", "slice(a, axis=-1, start=-1, stop=0, step=-2)", [("f32", T)], lambda x: x[..., [3, 1]])
    case("clipped", "slice(a, axis=1, start=1, stop=100)", [("f32", T)], lambda x: x[:, 1:100])
    case("empty", "slice(a, start=1, stop=1)", [("f32", T)], lambda x: x[1:1])
    case("one of the inner axis", "select(a, axis=1, index=-2)", [("f32", T)], lambda x: x[:, -2])
    case("three parts", "concat(a, b, a, axis=1)", [("f32", A), ("f32", [[-0.0], [7.0]])],
         lambda a, b: torch.cat([a, b, a], 1))
    case("a new last axis", "stack(a, b, axis=-1)", [("f32", A), ("f32", B[:2])][:1] + [("f32", A[::-1])],
         lambda a, b: torch.stack([a, b], -1))
    case("all axes", "permute(a, axes=[-1, 0, 1])", [("f32", T)], lambda x: x.permute(2, 0, 1))
    case("two axes", "transpose(a, axis0=0, axis1=2)", [("f32", T)], lambda x: x.transpose(0, 2))
    case("to rows", "flatten(a)", [("f32", T)], lambda x: x.flatten(1))
    case("repeated", "broadcast_to(a, shape=[2, 2, 3])", [("f32", [A[0]])], lambda x: x.expand(2, 2, 3))


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


products()
views()
indexing()
record.write()
