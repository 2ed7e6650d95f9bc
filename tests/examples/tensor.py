"""Expected numbers of shape and matrix ops, from PyTorch: python tests/examples/tensor.py"""

import math

import torch
from recording import Recording

record = Recording("tensor")
case = record.case

A = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]
B = [[1.0, 0.5, -2.0, 3.0], [0.0, 1.25, 1.0, -1.0], [2.0, -0.5, 0.75, 0.25]]
A2 = [[0.5, -1.0, 2.0, 0.25]]
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


def triangles():
    for name in ("tril", "triu"):
        op = getattr(torch, name)
        for diagonal in (-2, -1, 0, 1, 5):
            case(f"diagonal {diagonal}", f"{name}(a, diagonal={diagonal})", [("f32", T)], lambda x: op(x, diagonal))
        case("of truth values", f"{name}(a)", [("bool", [[1, 1], [1, 1]])], op, grad=False)
        case("NaN is cleared too", f"{name}(a)", [("f32", [[1.0, math.nan], [math.nan, 2.0]])], op, grad=False)
    case("more rows than columns", "eye(n=3, m=2, dtype=i32)", [], lambda: torch.eye(3, 2), ["i32"], grad=False)
    case("empty", "eye(n=0)", [], lambda: torch.eye(0), ["f32"], grad=False)
    for diagonal in (-1, 0, 2):
        case(f"of a vector, {diagonal}", f"diag(a, diagonal={diagonal})", [("f32", A[0])], lambda x: x.diag(diagonal))
    for diagonal in (-2, -1, 0, 1, 3):
        case(f"of a matrix, {diagonal}", f"diag(a, diagonal={diagonal})", [("f32", B)], lambda x: x.diag(diagonal))
    case("below a tall matrix", "diag(a, diagonal=-1)", [("f32", T[0] + A2 + T[1])], lambda x: x.diag(-1))
    case("of no elements", "diag(a)", [("f32", [])], torch.diag)


def repeats():
    case("more axes", "repeat(a, repeats=[2, 1, 3])", [("f32", A)], lambda x: x.repeat(2, 1, 3))
    case("not at all", "repeat(a, repeats=[1, 0])", [("f32", A)], lambda x: x.repeat(1, 0))
    case("a scalar", "repeat(a, repeats=[3])", [("f32", 2.5)], lambda x: x.repeat(3))
    case("the last axis", "tile(a, repeats=2)", [("f32", T)], lambda x: x.tile(2))
    case("more axes", "tile(a, repeats=[2, 1, 1, 2])", [("f32", T)], lambda x: x.tile(2, 1, 1, 2))
    case("inner", "repeat_interleave(a, repeats=3, axis=1)", [("f32", T)], lambda x: x.repeat_interleave(3, 1))
    case("last", "repeat_interleave(a, repeats=2, axis=-1)", [("f32", A)], lambda x: x.repeat_interleave(2, -1))
    case("all", "repeat_interleave(a, repeats=2)", [("f32", A)], lambda x: x.repeat_interleave(2))
    for axis in (0, 1, -1):
        counts = [3, 0, 1, 2][: torch.tensor(T).shape[axis]]
        case("as often as numbers say", f"repeat_interleave(a, b, axis={axis}, total={sum(counts)})",
             [("f32", T), ("i64", counts)], lambda x, n, axis=axis: x.repeat_interleave(n, axis))
    case("all as often as numbers say", "repeat_interleave(a, b, total=6)", [("f32", A), ("i32", [2, 0, 3, 0, 1, 0])],
         lambda x, n: x.repeat_interleave(n))
    case("none of them", "repeat_interleave(a, b, total=0)", [("f32", A[0]), ("u8", [0, 0, 0])],
         lambda x, n: x.repeat_interleave(n.int()))
    case("no elements", "repeat_interleave(a, b, total=0)", [("f32", []), ("i32", [])],
         lambda x, n: x.repeat_interleave(n))
    case("all axes", "roll(a, shifts=[1, -2, 7], axis=[0, 1, -1])", [("f32", T)], lambda x: x.roll((1, -2, 7), (0, 1, -1)))
    case("in row-major order", "roll(a, shifts=-3)", [("f32", A)], lambda x: x.roll(-3))
    case("an axis twice", "roll(a, shifts=[1, 1], axis=[1, 1])", [("f32", A)], lambda x: x.roll((1, 1), (1, 1)))
    case("of no elements", "roll(a, shifts=1)", [("f32", [])], lambda x: x.roll(1))
    x, y, z = ("f32", A[0]), ("f32", B[0]), ("f32", [7.0, -8.0])
    case("three vectors", "meshgrid(a, b, c)", [x, y, z], lambda *v: torch.meshgrid(*v, indexing="ij"), ["f32"] * 3)
    case("exchanged", "meshgrid(a, b, c, indexing='xy')", [x, y, z], lambda *v: torch.meshgrid(*v, indexing="xy"),
         ["f32"] * 3)
    case("of two types", "meshgrid(a, b)", [x, ("i32", [1, 2])], lambda x, y: torch.meshgrid(x, y.double(), indexing="ij"),
         ["f32", "i32"], grad=False)


def einsums():
    square, one = [row[:3] for row in B], [[t[0]] for t in T]

    def einsum(equation, *operands):
        names = ", ".join("abcdefgh"[i] for i in range(len(operands)))
        case(equation, f"einsum({names}, equation='{equation}')", [("f32", x) for x in operands],
             lambda *x: torch.einsum(equation, *x))

    einsum("ij,jk->ik", A, B)
    einsum("ij,jk->ki", A, B)
    einsum("ij,jk", A, B)
    einsum("bij,bjk->bik", T, U)
    einsum("bij,bjk->ikb", T, U)
    einsum("bij,bjk->ik", T, U)
    einsum("bij,bkj->", T, T)
    einsum("bhi,bhj->bhij", T, T)
    einsum("i,j->ij", A[0], B[0])
    einsum("i,i->", A[0], A[1])
    einsum("i,i->i", A[0], A[1])
    einsum("ij,j->i", A, A[0])
    einsum("ij->ji", A)
    einsum("ij->", A)
    einsum("ij->j", A)
    einsum("ii->", square)
    einsum("ii->i", square)
    einsum("ii", square)
    einsum("iji->j", [square, square, square])
    einsum("ba", A)
    einsum("bA", A)
    einsum("...ij,...jk->...ik", T, U)
    einsum("...ij,jk->i...k", T, U[0])
    einsum("...j,...j->...", T, B)
    einsum("...ij->...", T)
    einsum("b...->...", T)
    einsum("bij,bij,bjk->ik", T, T, U)
    einsum("ij,jk,kl,ml->im", A, B, U[0], [[1.0, -2.0, 0.5, 0.25, 3.0]])
    einsum("bij,bjk->bik", one, U)
    einsum("bij,bjk->bik", T[:1], U)
    einsum(",ij->ij", 2.5, A)
    einsum("ij , jk -> ik", A, B)
    einsum("ij,jk->ik", torch.zeros(2, 0), torch.zeros(0, 3))
    case("integers", "einsum(a, b, equation='ij,j->i')", [("i32", [[1, 2], [3, 4]]), ("i32", [5, -6])],
         lambda x, y: torch.einsum("ij,j->i", x, y), grad=False)


def rings():
    def push(buffer, item, count):
        at = int(count) % len(buffer)
        return torch.cat([buffer[:at], item[None], buffer[at + 1:]]), count + 1

    for count in (0, 2, 7):
        case(f"item {count}", "ring_push(a, b, c)", [("f32", B), ("f32", [9.0, 8.0, 7.0, 6.0]), ("i32", count)], push,
             ["f32", "i32"])


def cells():
    def waves(*extents, by):
        n = math.prod(extents)
        return torch.arange(n, dtype=torch.float64).mul(by).cos().reshape(extents).float().tolist()

    for op, kind, n_gates, n_states in (("gru_cell", torch.nn.GRUCell, 3, 1), ("lstm_cell", torch.nn.LSTMCell, 4, 2)):
        def step(*operands, lead=(4,)):
            """PyTorch's cell with these weights, transposed. A missing bias is zero."""
            x, states, (w, u, *biases) = operands[0], operands[1:1 + n_states], operands[1 + n_states:]
            names = dict(zip(("bias_ih", "bias_hh"), biases + [torch.zeros(n_gates * 2).double()] * (2 - len(biases))))
            cell = kind(3, 2).double()
            states = [state.reshape(-1, 2) for state in states]
            given = (x.reshape(-1, 3), states[0] if n_states == 1 else tuple(states))
            found = torch.func.functional_call(cell, {"weight_ih": w.T, "weight_hh": u.T, **names}, given)
            found = found if isinstance(found, tuple) else (found,)
            return tuple(y.reshape(*lead, 2) for y in found)

        def operands(dtype="f32", lead=(4,), biases=2):
            extents = [(*lead, 3), *[(*lead, 2)] * n_states, (3, n_gates * 2), (2, n_gates * 2), *[(n_gates * 2,)] * biases]
            return [(dtype, waves(*extent, by=i + 1)) for i, extent in enumerate(extents)]

        names = ", ".join("abcdefg"[:5 + n_states])
        case("with biases", f"{op}({names})", operands(), step, ["f32"] * n_states)
        case("with a bias of the input", f"{op}({names[:-3]})", operands(biases=1), step, ["f32"] * n_states)
        case("without biases", f"{op}({names[:-6]})", operands(biases=0), step, ["f32"] * n_states)
        case("several leading axes", f"{op}({names})", operands(lead=(2, 2)), lambda *x: step(*x, lead=(2, 2)),
             ["f32"] * n_states)
        case("one row", f"{op}({names})", operands(lead=()), lambda *x: step(*x, lead=()), ["f32"] * n_states)
        case("in bf16", f"{op}({names})", operands("bf16"), step, ["bf16"] * n_states, grad=False)


products()
views()
triangles()
repeats()
einsums()
rings()
cells()
record.write()
