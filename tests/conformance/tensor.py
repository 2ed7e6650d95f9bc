"""Cases of products, views and recurrent cells: `python tests/conformance/tensor.py` writes tensor.json."""

import torch
import torch.nn.functional as F

from peers import BACKWARDS, FLOATS, INTS, SIGNED, TRANSPOSED, case, grid, inf, ints, more, nan, op, t, truths, write

SPECIAL = t([[nan, inf, -inf], [0.0, -0.0, 1.5]])


def made(name, peer, function, *calls, types=FLOATS):
    """Ops without operands. A call is its settings, as text and for the peer."""
    op(
        name,
        peer,
        None,
        *[
            case(
                text or "plain",
                call=f"{name}({text})",
                reference=lambda more=more: function(**more).double(),
                types=types,
                grad=False,
                results=[more.get("kind", "T")],
            )
            for text, more in calls
        ],
    )


def shaped(fill):
    return lambda shape, kind=None: torch.full(shape, fill)


for name, fill in (("zeros", 0.0), ("ones", 1.0)):
    made(
        name,
        f"torch.{name}",
        shaped(fill),
        ("shape=[2, 3], dtype=$T", {"shape": [2, 3]}),
        ("shape=[0, 3], dtype=$T", {"shape": [0, 3]}),
        ("shape=[], dtype=$T", {"shape": []}),
        types=(*FLOATS, *INTS),
    )
made(
    "full",
    "torch.full",
    lambda value, shape: torch.full(shape, value, dtype=torch.float64),
    ("value=1.5, shape=[2, 3], dtype=$T", {"value": 1.5, "shape": [2, 3]}),
    ("value=nan, shape=[2], dtype=$T", {"value": nan, "shape": [2]}),
    ("value=-inf, shape=[], dtype=$T", {"value": -inf, "shape": []}),
)
made(
    "arange",
    "torch.arange",
    lambda start, stop, step: torch.arange(start, stop, step),
    ("start=-2, stop=7, step=2, dtype=$T", {"start": -2, "stop": 7, "step": 2}),
    ("start=3, stop=-2, step=-1, dtype=$T", {"start": 3, "stop": -2, "step": -1}),
    ("start=0, stop=0, dtype=$T", {"start": 0, "stop": 0, "step": 1}),
    types=(*SIGNED, "f32", "f64", "f16", "bf16"),
)
made(
    "iota",
    "torch.arange",
    lambda shape, axis: (
        torch.arange(shape[axis]).reshape([n if i == axis else 1 for i, n in enumerate(shape)]).expand(shape)
    ),
    ("shape=[2, 3], axis=1, dtype=$T", {"shape": [2, 3], "axis": 1}),
    ("shape=[2, 3], axis=0, dtype=$T", {"shape": [2, 3], "axis": 0}),
    ("shape=[2, 0], axis=1, dtype=$T", {"shape": [2, 0], "axis": 1}),
    types=(*SIGNED, "u32", "u16"),
)
made(
    "eye",
    "torch.eye",
    lambda n, m: torch.eye(n, m),
    ("n=3, dtype=$T", {"n": 3, "m": 3}),
    ("n=3, m=2, dtype=$T", {"n": 3, "m": 2}),
    ("n=0, dtype=$T", {"n": 0, "m": 0}),
    types=(*FLOATS, "i32"),
)

T = grid(2, 3, 4)


def moved(name, peer, *calls):
    """Views and copies. A call is its settings as text, its meaning, and its operand if that is not a block of 24."""
    cases = []
    for text, function, *rest in calls:
        shape = rest[0] if rest else (2, 3, 4)
        call = f"{name}($0{', ' if text else ''}{text})"
        cases.append(case(text or "plain", grid(*shape), call=call, reference=function))
    text, function, *rest = calls[0]
    shape = rest[0] if rest else (2, 3, 4)
    comma = ", " if text else ""
    cases.append(
        case(
            "transposed",
            grid(*shape[:-2], shape[-1], shape[-2]),
            call=f"{name}(transpose($0){comma}{text})",
            reference=lambda x: function(x.mT),
        )
    )
    cases.append(
        case(
            "backwards",
            grid(*shape, seed=1),
            call=f"{name}(slice($0, axis=-1, step=-1){comma}{text})",
            reference=lambda x: function(x.flip(-1)),
        )
    )
    cases.append(
        case("integers", ints(*shape), call=f"{name}($0{comma}{text})", reference=function, types=INTS, grad=False)
    )
    cases.append(
        case(
            "truth values",
            truths(*shape),
            call=f"{name}($0{comma}{text})",
            reference=function,
            types=["bool"],
            grad=False,
        )
    )
    op(name, peer, None, *cases)


moved(
    "reshape",
    "torch.reshape",
    ("shape=[4, 6]", lambda x: x.reshape(4, 6)),
    ("shape=[]", lambda x: x.reshape([]), (1, 1)),
    ("shape=[3, 0]", lambda x: x.reshape(3, 0), (0, 2)),
)
moved(
    "flatten",
    "torch.flatten",
    ("", lambda x: x.flatten(1)),
    ("start=0", lambda x: x.flatten()),
    ("start=0", lambda x: x.flatten(), (0, 3)),
)
op(
    "reshape_as",
    "torch.Tensor.reshape_as",
    lambda x, like: x.reshape_as(like),
    *[
        case(title, x, ("i32", torch.zeros(shape, dtype=torch.int32)), **more)
        for title, x, shape, more in (
            ("other rows", grid(4, 6), (3, 2, 4), {}),
            ("an element", grid(1, 1), (), {}),
            ("transposed", grid(2, 3), (6,), {"view": TRANSPOSED}),
            ("no elements", grid(0, 2), (3, 0), {}),
        )
    ],
)
moved(
    "transpose",
    "torch.transpose",
    ("", lambda x: x.mT),
    ("axis0=0, axis1=2", lambda x: x.transpose(0, 2)),
    ("", lambda x: x.mT, (0, 3)),
)
moved(
    "permute",
    "torch.permute",
    ("axes=[-1, 0, 1]", lambda x: x.permute(2, 0, 1)),
    ("axes=[1, 0]", lambda x: x.mT, (0, 3)),
)
moved(
    "broadcast_to",
    "torch.broadcast_to",
    ("shape=[2, 2, 3]", lambda x: x.expand(2, 2, 3), (1, 3)),
    ("shape=[2, 3]", lambda x: x.expand(2, 3), ()),
    ("shape=[0, 3]", lambda x: x.expand(0, 3), (1, 3)),
)
moved(
    "repeat",
    "torch.Tensor.repeat",
    ("repeats=[2, 1, 3]", lambda x: x.repeat(2, 1, 3), (2, 3)),
    ("repeats=[1, 0]", lambda x: x.repeat(1, 0), (2, 3)),
    ("repeats=[3]", lambda x: x.repeat(3), ()),
)
moved(
    "tile",
    "torch.tile",
    ("repeats=2", lambda x: x.tile(2)),
    ("repeats=[2, 1, 1, 2]", lambda x: x.tile(2, 1, 1, 2)),
    ("repeats=2", lambda x: x.tile(2), (0, 2)),
)
moved(
    "repeat_interleave",
    "torch.repeat_interleave",
    ("repeats=3, axis=1", lambda x: x.repeat_interleave(3, 1)),
    ("repeats=2", lambda x: x.repeat_interleave(2)),
    ("repeats=2, axis=0", lambda x: x.repeat_interleave(2, 0), (0, 2)),
)
moved(
    "roll",
    "torch.roll",
    ("shifts=[1, -2], axis=[0, 1]", lambda x: x.roll((1, -2), (0, 1))),
    ("shifts=-3", lambda x: x.roll(-3)),
    ("shifts=1", lambda x: x.roll(1), (0,)),
)
for name in ("tril", "triu"):
    function = getattr(torch, name)
    moved(
        name,
        f"torch.{name}",
        *[(f"diagonal={d}", lambda x, f=function, d=d: f(x, d)) for d in (0, -1, 2)],
        ("", function, (0, 3)),
    )
moved(
    "diag",
    "torch.diag",
    ("", lambda x: x.diag(), (3, 4)),
    ("diagonal=1", lambda x: x.diag(1), (3, 4)),
    ("diagonal=-1", lambda x: x.diag(-1), (3,)),
    ("", lambda x: x.diag(), (0,)),
)
moved(
    "slice",
    "indexing of torch.Tensor",
    ("axis=1, start=1, stop=100", lambda x: x[:, 1:]),
    ("axis=-1, start=-1, stop=0, step=-2", lambda x: x[..., [3, 1]]),
    ("start=1, stop=1", lambda x: x[1:1]),
    ("axis=1, step=2", lambda x: x[:, ::2], (0, 3)),
)
moved(
    "select",
    "torch.select",
    ("axis=1, index=-2", lambda x: x[:, -2]),
    ("index=1", lambda x: x[1]),
    ("axis=1, index=0", lambda x: x[:, 0], (0, 3)),
)
moved(
    "flip",
    "torch.flip",
    ("axis=[1, 2]", lambda x: x.flip(1, 2)),
    ("axis=0", lambda x: x.flip(0)),
    ("axis=1", lambda x: x.flip(1), (0, 3)),
)

for name, function in (("concat", torch.cat), ("stack", torch.stack)):
    of = lambda *x, axis=0, f=function: f(x, axis)
    op(
        name,
        f"torch.{name}",
        of,
        case("two", grid(2, 3), grid(2, 3, seed=1)),
        case("last axis", grid(2, 3), grid(2, 3, seed=1), grid(2, 3, seed=2), axis=-1),
        case(
            "the same twice", grid(2, 3), call=f"{name}($0, $0, axis=1)", reference=lambda x, f=function: f((x, x), 1)
        ),
        case("one", grid(2, 3)),
        case("zero-sized axis", grid(0, 3), grid(0, 3), axis=1),
        case("transposed", grid(3, 2), grid(2, 3), view=TRANSPOSED, axis=1),
        case("NaN, infinities, zeros", SPECIAL, SPECIAL, grad=False),
        case("integers", ints(2, 3), ints(2, 3, seed=1), types=INTS, grad=False),
        *([case("of different extents", grid(2, 1), grid(2, 3), axis=1)] if name == "concat" else []),
    )
op(
    "meshgrid",
    "torch.meshgrid",
    None,
    *[
        case(
            f"{len(extents)} vectors, {word}",
            *[grid(n, seed=i) for i, n in enumerate(extents)],
            whole=True,
            call=f'meshgrid({", ".join(f"${i}" for i in range(len(extents)))}, indexing="{word}")',
            reference=lambda *x, word=word: torch.meshgrid(*x, indexing=word),
        )
        for extents in ((2, 3), (2, 3, 4), (0, 2))
        for word in ("ij", "xy")
    ],
)


def ring(buffer, item, count):
    at = int(count) % len(buffer)
    return torch.cat([buffer[:at], item[None], buffer[at + 1 :]]), count + 1


op(
    "ring_push",
    "indexing of torch.Tensor",
    ring,
    *[case(f"item {n}", grid(3, 4), grid(4, seed=1), t(n, "i32"), results=["T", "i32"]) for n in (0, 2, 7)],
    case("transposed", grid(4, 3), grid(4, seed=1), t(1, "i32"), view=TRANSPOSED, results=["T", "i32"]),
)

# ---- Products. Sums cancel, so errors are measured against the largest element.

A, B, C = grid(2, 3), grid(3, 4, seed=1), grid(2, 3, 4, seed=2)


def product(name, peer, function, *cases):
    op(name, peer, function, *cases)


def whole(title, *operands, **more):
    return case(title, *operands, whole=True, **more)


HOLED = t([[nan, 1.0, 0.0], [inf, 1.0, -2.0], [0.5, -inf, 1.0]])
product(
    "matmul",
    "torch.matmul",
    torch.matmul,
    whole("matrices", A, B),
    whole("stacks", C, grid(2, 4, 3)),
    whole("a stack and a matrix", C, grid(4, 2)),
    whole("a matrix and a stack", A, grid(2, 3, 2)),
    whole("a stack that repeats", grid(1, 2, 3), grid(4, 3, 2)),
    whole("a row and a matrix", grid(3), B),
    whole("a matrix and a column", A, grid(3)),
    whole("two vectors", grid(3), grid(3, seed=1)),
    whole("nothing to sum", grid(2, 0), grid(0, 3)),
    whole("no rows", grid(0, 3), B),
    whole("transposed", grid(3, 2), B, view=TRANSPOSED),
    whole("long sums", grid(3, 100), grid(100, 2, seed=1)),
    case("NaN and infinities", HOLED, grid(3, 2, low=0.25), grad=False),
    whole(
        "large and small",
        t([[2.0**100, 1.0], [2.0**-60, 2.0**-100]]),
        t([[1.0, 2.0**-100], [2.0**20, 1.0]]),
        grad=False,
        types=("f32", "f64", "bf16"),
    ),
    case("integers", ints(2, 3), ints(3, 4), types=(*SIGNED, "u32", "u16"), grad=False),
)
product(
    "mm",
    "torch.mm",
    torch.mm,
    whole("plain", A, B),
    whole("transposed", grid(3, 2), B, view=TRANSPOSED),
    whole("no columns", A, grid(3, 0)),
)
gemm = lambda a, b, c=0.0, trans_a=False, trans_b=False, alpha=1.0, beta=1.0: (
    alpha * ((a.mT if trans_a else a) @ (b.mT if trans_b else b)) + beta * c
)
product(
    "gemm",
    "torch.addmm",
    gemm,
    whole("plain", A, B),
    whole("both transposed", B, A, trans_a=True, trans_b=True),
    whole("with a bias", A, B, grid(4, seed=3), alpha=0.5, beta=2.0),
    whole("no rows", grid(0, 3), B),
)
product(
    "addmm",
    "torch.addmm",
    torch.addmm,
    whole("plain", grid(2, 4, seed=3), A, B),
    whole("a row, scaled", grid(4, seed=3), A, B, alpha=0.5, beta=2.0),
)
ACTS = {"none": lambda x: x, "relu": torch.relu, "silu": F.silu, "gelu": F.gelu}
linear = lambda x, w, b=None, trans_w=False, act="none": ACTS[act](F.linear(x, w if trans_w else w.mT, b))
product(
    "linear",
    "F.linear",
    linear,
    whole("plain", C, grid(4, 2)),
    whole("transposed weights, a bias", C, grid(2, 4), grid(2), trans_w=True),
    whole("no rows", grid(0, 3), B),
)
product(
    "weighted_sum",
    "torch.einsum",
    lambda w, v: torch.einsum("bn,bnd->bd", w, v),
    whole("plain", grid(2, 3), C),
    whole("no rows", grid(0, 3), grid(0, 3, 4)),
    whole("transposed", grid(3, 2), C, view=TRANSPOSED),
)


def einsum(equation, *operands):
    names = ", ".join(f"${i}" for i in range(len(operands)))
    return whole(
        equation,
        *operands,
        call=f"einsum({names}, equation='{equation}')",
        reference=lambda *x: torch.einsum(equation, *x),
    )


S = grid(3, 3)
op(
    "einsum",
    "torch.einsum",
    None,
    einsum("ij,jk->ki", A, B),
    einsum("bij,bjk->ikb", C, grid(2, 4, 3)),
    einsum("bij,bjk->ik", C, grid(2, 4, 3)),
    einsum("bij,bij->", C, C),
    einsum("i,j->ij", grid(2), grid(3)),
    einsum("i,i->", grid(3), grid(3, seed=1)),
    einsum("ij->j", A),
    einsum("ii->i", S),
    einsum("ii", S),
    einsum("...ij,jk->i...k", C, grid(4, 2)),
    einsum("bij,bij,bjk->ik", C, C, grid(2, 4, 2)),
    einsum("ij,jk->ik", grid(2, 0), grid(0, 3)),
    einsum(",ij->ij", grid(), A),
)

# ---- Cells.


def gru_cell(x, h, w, u, a=None, b=None):
    cell = torch.nn.GRUCell(w.shape[0], u.shape[0]).double()
    zero = torch.zeros(w.shape[1], dtype=torch.float64)
    names = {
        "weight_ih": w.T,
        "weight_hh": u.T,
        "bias_ih": zero if a is None else a,
        "bias_hh": zero if b is None else b,
    }
    return torch.func.functional_call(cell, names, (x, h))


def lstm_cell(x, h, c, w, u, a=None, b=None):
    cell = torch.nn.LSTMCell(w.shape[0], u.shape[0]).double()
    zero = torch.zeros(w.shape[1], dtype=torch.float64)
    names = {
        "weight_ih": w.T,
        "weight_hh": u.T,
        "bias_ih": zero if a is None else a,
        "bias_hh": zero if b is None else b,
    }
    return torch.func.functional_call(cell, names, (x, (h, c)))


def cell(gates, states, rows=4):
    extents = [(rows, 3), *[(rows, 2)] * states, (3, gates * 2), (2, gates * 2), (gates * 2,), (gates * 2,)]
    return [grid(*extent, low=-1.0, high=1.0, seed=i) for i, extent in enumerate(extents)]


op(
    "gru_cell",
    "torch.nn.GRUCell",
    gru_cell,
    whole("biases", *cell(3, 1)),
    whole("no biases", *cell(3, 1)[:-2]),
    whole("one row", *cell(3, 1, 1)),
)
op(
    "lstm_cell",
    "torch.nn.LSTMCell",
    lstm_cell,
    whole("biases", *cell(4, 2)),
    whole("no biases", *cell(4, 2)[:-2]),
    whole("one row", *cell(4, 2, 1)),
)

# ---- Other types.

TRUTH = dict(types=["bool"], grad=False)
WHOLE = dict(types=INTS, grad=False)
more("concat stack", case("truth values", truths(2, 3), truths(2, 3, seed=1), **TRUTH))
for dtype, types in (("bool", ["bool"]), ("T", ["u8", "i64", "u32", "i8", "i16", "u16"])):
    for name, fill in (("zeros", 0), ("ones", 1)):
        more(
            name,
            case(
                f"of {dtype}",
                call=f"{name}(shape=[2, 3], dtype=$T)",
                reference=lambda fill=fill: torch.full((2, 3), float(fill)),
                results=[dtype],
                types=types,
                grad=False,
            ),
        )
    more(
        "eye",
        case(
            f"of {dtype}",
            call="eye(n=3, dtype=$T)",
            reference=lambda: torch.eye(3),
            results=[dtype],
            types=types,
            grad=False,
        ),
    )
more(
    "iota",
    case(
        "of floats",
        call="iota(shape=[2, 3], axis=1, dtype=$T)",
        reference=lambda: torch.arange(3.0).expand(2, 3),
        grad=False,
    ),
)
more(
    "meshgrid",
    case(
        "integers",
        ints(2),
        ints(3),
        call="meshgrid($0, $1)",
        reference=lambda x, y: torch.meshgrid(x, y, indexing="ij"),
        **WHOLE,
    ),
)
more("ring_push", case("integers", ints(3, 4), ints(4, seed=1), t(2, "i32"), results=["T", "i32"], **WHOLE))
more("matmul", case("bytes", ints(2, 3, high=5), ints(3, 4, high=5), types=["u8"], grad=False))
more("mm gemm linear", case("integers", ints(2, 3, high=5), ints(3, 4, high=5, seed=1), **WHOLE))
more("addmm", case("integers", ints(4), ints(2, 3, high=5), ints(3, 4, high=5, seed=1), alpha=1, beta=1, **WHOLE))
more("weighted_sum", case("integers", ints(2, 3, high=3), ints(2, 3, 4, high=5, seed=1), **WHOLE))
more(
    "einsum",
    case(
        "integers",
        ints(2, 3, high=5),
        ints(3, 4, high=5, seed=1),
        call="einsum($0, $1, equation='ij,jk->ik')",
        reference=lambda x, y: torch.einsum("ij,jk->ik", x, y),
        **WHOLE,
    ),
)

write(__file__)
