"""Cases of elementwise ops and activations: `python tests/conformance/elementwise.py` writes elementwise.json."""

import numpy
import torch
import torch.nn.functional as F

from peers import BACKWARDS, FLOATS, INTS, SIGNED, TRANSPOSED, UNSIGNED, WIDE
from peers import case, grid, inf, ints, more, nan, op, t, truths, write

SPECIAL = [nan, inf, -inf, 0.0, -0.0]
LARGE = {"f32": 2.0**100, "f64": 2.0**1000, "f16": 2.0**15, "bf16": 2.0**100}
# The smallest number, and one in the middle of the subnormal ones.
SUBNORMAL = {
    "f32": (2.0**-149, 2.0**-130),
    "f64": (2.0**-1074, 2.0**-1030),
    "f16": (2.0**-24, 2.0**-18),
    "bf16": (2.0**-133, 2.0**-130),
}


def unary(
    name,
    peer,
    function,
    low=-4.0,
    high=4.0,
    avoid=(),
    grad=True,
    step=1 / 16,
    extremes=True,
    subnormal=True,
    whole=False,
    special=SPECIAL,
    **settings,
):
    """`special` are the values of a case without a gradient. `whole` is as in `case`."""
    numbers = dict(low=low, high=high, avoid=avoid, step=step)
    middle = 0.5 if low < 0.5 and 0.5 not in avoid else 1.5
    settings["whole"] = whole
    cases = [
        case("plain", grid(4, 6, **numbers), grad=grad, **settings),
        case("scalar", t(middle), grad=grad, **settings),
        case("zero-sized axis", grid(0, 3), grad=grad, **settings),
        case("transposed", grid(2, 3, seed=1, **numbers), view=TRANSPOSED, grad=grad, **settings),
        case("every second from the back", grid(5, 2, seed=2, **numbers), view=BACKWARDS, grad=grad, **settings),
        case("NaN, infinities, zeros", t(special), grad=False, **settings),
    ]
    for dtype in FLOATS if extremes else ():
        big = LARGE[dtype]
        cases.append(case("extremes", t([big, -big, 1 / big, -1 / big]), types=[dtype], grad=False, **settings))
        tiny = SUBNORMAL[dtype]
        if subnormal:
            cases.append(
                case("subnormal", t([*tiny, -tiny[0], -tiny[1]]), types=[dtype], grad=False, only=["cpu"], **settings)
            )
    op(name, peer, function, *cases)


def pairs(values):
    return t([x for x in values for _ in values]), t([y for _ in values for y in values])


def binary(
    name,
    peer,
    function,
    a={},
    b={},
    grad=True,
    integers=None,
    special=True,
    extremes=True,
    truth=False,
    floats=True,
    signed=SIGNED,
):
    """`a` and `b` are options of `grid`.

    `integers` are the ranges of integer operands, and `signed` the types that hold the results of negative ones.
    """
    cases = []
    if floats:
        cases += [
            case("plain", grid(3, 4, **a), grid(3, 4, seed=1, **b), grad=grad),
            case("broadcast", grid(2, 1, 3, **a), grid(4, 1, seed=1, **b), grad=grad, whole=True),
            case("scalar and tensor", grid(**a), grid(2, 3, seed=1, **b), grad=grad, whole=True),
            case("scalars", grid(**a), grid(seed=1, **b), grad=grad),
            case("zero-sized axis", grid(0, 3, **a), grid(1, 3, seed=1, **b), grad=grad),
            case("transposed", grid(2, 3, **a), grid(3, 2, seed=1, **b), grad=grad, view=TRANSPOSED),
        ]
    if floats and special:
        cases.append(case("NaN, infinities, zeros", *pairs([*SPECIAL, 1.5, -2.0]), grad=False))
        for dtype in FLOATS if extremes else ():
            big = LARGE[dtype]
            cases.append(case("extremes", *pairs([big, -big, 1 / big, 1.0]), types=[dtype], grad=False))
    if integers:
        first, second = integers
        cases += [
            case("integers", ints(3, 4, **first), ints(3, 4, seed=1, **second), types=INTS, grad=False),
            case("integers, broadcast", ints(2, 1, 3, **first), ints(4, 1, seed=1, **second), types=INTS, grad=False),
            case("integers, zero-sized axis", ints(0, 3), ints(1, 3), types=INTS, grad=False),
            case(
                "negative integers",
                ints(3, 4, **{**first, "low": -9}),
                ints(3, 4, seed=1, **second),
                types=signed,
                grad=False,
            ),
        ]
    if truth:
        pair = t([False, False, True, True], "bool"), t([False, True, False, True], "bool")
        cases.append(case("truth values", *pair, types=["bool"], grad=False))
    op(name, peer, function, *cases)


def comparison(name):
    function = getattr(torch, name)
    binary(
        name,
        f"torch.{name}",
        function,
        a={"step": 1.0, "low": -1.0, "high": 1.0},
        b={"step": 1.0, "low": -1.0, "high": 1.0},
        grad=False,
        integers=({"high": 2}, {"high": 2}),
    )


RANGE = ({"high": 9}, {"low": 1, "high": 9})
BITS = ({"high": 31}, {"high": 31})
binary("add", "torch.add", torch.add, integers=RANGE, truth=True)
binary("sub", "torch.sub", torch.sub, integers=({"low": 9, "high": 20}, {"high": 9}))
binary("mul", "torch.mul", torch.mul, integers=RANGE, truth=True)
binary("div", "torch.div", torch.div, b={"low": 0.25})
# Away from whole quotients, where the remainder jumps.
binary(
    "rem",
    "torch.fmod",
    torch.fmod,
    extremes=False,
    a={"low": 1.0625, "high": 1.9375},
    b={"low": 1.0625, "high": 1.9375, "step": 0.0625},
    integers=RANGE,
)
binary(
    "floor_divide",
    "torch.floor_divide",
    torch.floor_divide,
    a={"low": -8.0, "high": 8.0},
    b={"low": 0.25},
    grad=False,
    integers=RANGE,
)
binary(
    "remainder",
    "torch.remainder",
    torch.remainder,
    extremes=False,
    a={"low": 1.0625, "high": 1.9375},
    b={"low": 1.0625, "high": 1.9375},
    integers=RANGE,
)
# No ties, of which PyTorch gives each side half a gradient.
binary(
    "maximum",
    "torch.maximum",
    torch.maximum,
    b={"step": 1 / 32, "avoid": [k / 16 for k in range(-32, 33)]},
    integers=RANGE,
)
binary(
    "minimum",
    "torch.minimum",
    torch.minimum,
    b={"step": 1 / 32, "avoid": [k / 16 for k in range(-32, 33)]},
    integers=RANGE,
)
binary(
    "pow",
    "torch.pow",
    torch.pow,
    a={"low": 0.25, "high": 3.0},
    integers=({"low": 0, "high": 3}, {"high": 4}),
    signed=[dtype for dtype in SIGNED if dtype != "i8"],
)
binary("atan2", "torch.atan2", torch.atan2, a={"avoid": (0,)}, b={"avoid": (0,)})
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    comparison(name)
for name in ("and", "or", "xor"):
    bits = getattr(torch, f"bitwise_{name}")
    binary(name, f"torch.bitwise_{name}", bits, grad=False, floats=False, integers=BITS, truth=True)
for name, of in (("left_shift", "bitwise_left_shift"), ("right_shift", "bitwise_right_shift")):
    binary(name, f"torch.{of}", getattr(torch, of), floats=False, grad=False, integers=({"high": 9}, {"high": 3}))

unary("neg", "torch.neg", torch.neg)
unary("abs", "torch.abs", torch.abs, avoid=(0,))
unary("sign", "numpy.sign", lambda x: torch.as_tensor(numpy.sign(x.numpy())), grad=False)
unary("square", "torch.square", torch.square)
unary("reciprocal", "torch.reciprocal", torch.reciprocal, avoid=(0,))
unary("exp", "torch.exp", torch.exp)
unary("expm1", "torch.expm1", torch.expm1)
unary("exp2", "torch.exp2", torch.exp2)
unary("log", "torch.log", torch.log, low=0.0625)
unary("log1p", "torch.log1p", torch.log1p, low=-0.9375)
unary("log2", "torch.log2", torch.log2, low=0.0625)
unary("log10", "torch.log10", torch.log10, low=0.0625)
unary("sqrt", "torch.sqrt", torch.sqrt, low=0.0625)
unary("rsqrt", "torch.rsqrt", torch.rsqrt, low=0.0625)
unary("sin", "torch.sin", torch.sin, extremes=False)
unary("cos", "torch.cos", torch.cos, extremes=False)
unary("tan", "torch.tan", torch.tan, low=-1.5, high=1.5, extremes=False)
unary("asin", "torch.asin", torch.asin, low=-0.9375, high=0.9375)
unary("acos", "torch.acos", torch.acos, low=-0.9375, high=0.9375)
unary("atan", "torch.atan", torch.atan)
unary("sinh", "torch.sinh", torch.sinh)
unary("cosh", "torch.cosh", torch.cosh)
unary("tanh", "torch.tanh", torch.tanh)
unary("asinh", "torch.asinh", torch.asinh)
unary("acosh", "torch.acosh", torch.acosh, low=1.0625)
unary("atanh", "torch.atanh", torch.atanh, low=-0.9375, high=0.9375)
unary("erf", "torch.erf", torch.erf)
unary("erfinv", "torch.erfinv", torch.erfinv, low=-0.9375, high=0.9375)
unary("lgamma", "torch.lgamma", torch.lgamma, low=0.0625, subnormal=False)
unary("digamma", "torch.digamma", torch.digamma, low=0.0625, special=SPECIAL[:-1])
for name in ("floor", "ceil", "trunc", "round"):
    unary(name, f"torch.{name}", getattr(torch, name), step=1 / 8, grad=False)
unary("frac", "torch.frac", torch.frac, step=1 / 8, avoid=range(-4, 5))
unary("copy", "torch.clone", torch.clone)
unary("full_like", "torch.full_like", lambda x, value: torch.full_like(x, value), grad=False, extremes=False, value=1.5)
for name in ("isnan", "isinf", "isfinite"):
    unary(name, f"torch.{name}", getattr(torch, name), grad=False)
unary(
    "nan_to_num",
    "torch.nan_to_num",
    lambda x, nan, posinf, neginf: torch.nan_to_num(x, nan, posinf, neginf),
    nan=-1.0,
    posinf=2.0,
    neginf=3.0,
)
unary("relu", "torch.relu", torch.relu, avoid=(0,))
unary("relu6", "F.relu6", F.relu6, avoid=(0, 6), high=8.0)
unary("relu_squared", "torch.relu, squared", lambda x: torch.relu(x) ** 2)
unary("leaky_relu", "F.leaky_relu", F.leaky_relu, avoid=(0,), negative_slope=0.25)
unary("sigmoid", "torch.sigmoid", torch.sigmoid)
# The slope of F.hardsigmoid is rounded to single precision.
unary("hardsigmoid", "F.relu6", lambda x: F.relu6(x + 3) / 6, avoid=(-3, 3), whole=True)
# Where x becomes -∞, PyTorch computes -∞ · 0.
TAIL = dict(special=[nan, inf, 0.0, -0.0], whole=True)
unary("silu", "F.silu", F.silu, **TAIL)
unary("hardswish", "F.hardswish", F.hardswish, avoid=(-3, 3), **TAIL)
unary("mish", "F.mish", F.mish, **TAIL)
unary("gelu", "F.gelu", F.gelu, **TAIL)
unary("gelu_tanh", "F.gelu", lambda x: F.gelu(x, approximate="tanh"), **TAIL)
unary("selu", "F.selu", F.selu, avoid=(0,))
unary("softplus", "F.softplus", F.softplus)
unary("hardtanh", "F.hardtanh", F.hardtanh, avoid=(-1, 1))
unary("elu", "F.elu", F.elu, avoid=(0,))
unary("celu", "F.celu", F.celu, avoid=(0,), alpha=0.5)
unary("clamp", "torch.clamp", lambda x, min, max: torch.clamp(x, min, max), avoid=(-1, 1), min=-1.0, max=1.0)
unary("threshold", "F.threshold", F.threshold, avoid=(1,), threshold=1.0, value=-5.0)

op(
    "detach",
    "torch.Tensor.detach",
    lambda x: x.detach(),
    case("plain", grid(2, 3), grad=False),
    case("of a sum", grid(3), call="detach($0) + $0", reference=lambda x: x.detach() + x),
    case("NaN, infinities, zeros", t(SPECIAL), grad=False),
    case("zero-sized axis", grid(0, 3), grad=False),
)
op(
    "not",
    "torch.bitwise_not",
    torch.bitwise_not,
    case("truth values", t([False, True], "bool"), types=["bool"], grad=False),
    case("integers", ints(2, 3, low=-9), types=SIGNED, grad=False),
    case("bytes", ints(2, 3, high=255, dtype="u8"), types=["u8"], grad=False, results=["u8"]),
    case("zero-sized axis", truths(0, 3), types=["bool"], grad=False),
)

X, A, B = grid(2, 3), grid(2, 3, seed=1), grid(2, 3, seed=2, low=0.5)
for name in ("addcmul", "addcdiv"):
    function = getattr(torch, name)
    op(
        name,
        f"torch.{name}",
        lambda x, a, b, value=1.0, f=function: f(x, a, b, value=value),
        case("plain", X, A, B),
        case("scaled", X, A, B, value=-0.5),
        case("broadcast", grid(2, 1), grid(3, seed=1), grid(2, 3, seed=2, low=0.5), whole=True),
        case("scalar", grid(), A, B, whole=True),
        case("zero-sized axis", grid(0, 3), grid(3), grid(0, 1)),
        case("transposed", grid(3, 2), A, B, view=TRANSPOSED),
        case("NaN, infinities, zeros", t(SPECIAL), t(SPECIAL[::-1]), t(1.5), grad=False),
    )
op(
    "lerp",
    "torch.lerp",
    torch.lerp,
    case("plain", X, A, B),
    case("a number", X, A, t(0.25)),
    case("broadcast", grid(2, 1), grid(3, seed=1), grid(seed=2, low=0.5), whole=True),
    case("zero-sized axis", grid(0, 3), grid(0, 3), grid(1, 3)),
    case("transposed", grid(3, 2), A, B, view=TRANSPOSED),
    case("NaN and infinities", t([nan, inf, 1.0, 1.0]), t([1.0, 1.0, nan, -inf]), t(0.25), grad=False),
)
op(
    "where",
    "torch.where",
    torch.where,
    case("plain", truths(2, 3), X, A),
    case("broadcast", truths(2, 1), grid(3), grid(), whole=True),
    case("NaN in what is not chosen", t([True, False], "bool"), t([1.0, nan]), t([nan, 2.0])),
    case("zero-sized axis", truths(0, 3), grid(0, 3), grid(3)),
    case("transposed", truths(3, 2), X, A, view=TRANSPOSED),
    case("integers", truths(2, 3), ints(2, 3), ints(3, seed=1), types=INTS, grad=False),
)
op(
    "masked_fill",
    "torch.masked_fill",
    lambda x, mask, value: x.masked_fill(mask, value),
    case("plain", X, truths(2, 3), value=1.5),
    case("broadcast", X, truths(3), value=-2.0),
    case("infinite", X, truths(2, 1), value=-inf),
    case("NaN, infinities, zeros", t(SPECIAL), truths(5), value=0.5, grad=False),
    case("zero-sized axis", grid(0, 3), truths(3), value=1.0),
    case("transposed", grid(3, 2), truths(2, 3), value=0.5, view=TRANSPOSED),
    case("integers", ints(2, 3), truths(2, 3), value=7, types=INTS, grad=False),
)
op(
    "threshold_backward",
    "torch.ops.aten.threshold_backward",
    torch.ops.aten.threshold_backward,
    case("plain", X, A, threshold=0.5, grad=False),
    case("at the threshold", t([1.5, 2.5]), t([0.5, 0.75]), threshold=0.5, grad=False),
    case("zero-sized axis", grid(0, 3), grid(0, 3), threshold=0.0, grad=False),
    case("transposed", grid(3, 2), A, threshold=0.0, grad=False, view=TRANSPOSED),
)
op(
    "apply_corrections",
    "torch.add",
    torch.add,
    case("plain", X, A),
    case("zero-sized axis", grid(0, 3), grid(0, 3)),
    case("transposed", grid(3, 2), A, view=TRANSPOSED),
)
op(
    "prelu",
    "F.prelu",
    F.prelu,
    case("plain", grid(2, 3, 2, avoid=(0,)), grid(3, seed=1), whole=True),
    case("one slope", grid(2, 3, avoid=(0,)), grid(1, seed=1), whole=True),
    case("zero-sized axis", grid(0, 3), grid(3)),
    case("NaN, infinities", t([[nan, inf, -inf]]), t([0.5]), grad=False),
)
op(
    "glu",
    "F.glu",
    F.glu,
    case("plain", grid(3, 4)),
    case("first axis", grid(4, 3), reference=lambda x: F.glu(x, 0), call="glu($0, axis=0)"),
    case("zero-sized axis", grid(0, 4)),
    case("transposed", grid(4, 3), view=TRANSPOSED),
    case("NaN, infinities", t([[nan, inf, -inf, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, nan, inf, -inf]]), grad=False),
)
op(
    "softcap_tanh_projection",
    "F.softsign, torch.tanh",
    lambda x, w: (x * w / (1 + (x * w).abs()), torch.tanh(x * w)),
    case("plain", grid(3, 4), grid(4, seed=1), whole=True),
    case("zero-sized axis", grid(0, 4), grid(4)),
    case("transposed", grid(4, 3), grid(4, seed=1), view=TRANSPOSED, whole=True),
)


def casts():
    ties = [
        1.0 + 2.0**-9,
        1.0 + 3 * 2.0**-9,
        1.0 + 2.0**-12,
        70000.0,
        65519.0,
        65520.0,
        -65520.0,
        2.0**-25,
        3e38,
        nan,
        inf,
        -inf,
    ]
    wide = torch.tensor(ties, dtype=torch.float32)
    whole = torch.tensor([1.9, -1.9, 0.5, -0.5, 100.0, 0.0])
    truth = lambda x: x != 0
    to = lambda kind: lambda x: x.to(kind).to(torch.float64)
    exact = dict(grad=False, types=["f32"])
    return [
        case(
            "to f16", ("f32", wide), call="cast($0, dtype=f16)", reference=to(torch.float16), results=["f16"], **exact
        ),
        case(
            "to bf16",
            ("f32", wide),
            call="cast($0, dtype=bf16)",
            reference=to(torch.bfloat16),
            results=["bf16"],
            **exact,
        ),
        case(
            "to f64", ("f32", wide), call="cast($0, dtype=f64)", reference=to(torch.float64), results=["f64"], **exact
        ),
        case(
            "to i32", ("f32", whole), call="cast($0, dtype=i32)", reference=lambda x: x.int(), results=["i32"], **exact
        ),
        case("to bool", t(SPECIAL + [0.5]), call="cast($0, dtype=bool)", reference=truth, grad=False),
        case(
            "of integers",
            ints(2, 3, low=-9),
            types=SIGNED,
            call="cast($0, dtype=f32)",
            reference=lambda x: x.double(),
            results=["f32"],
            grad=False,
        ),
        case("of truth values", truths(2, 3), call="cast($0, dtype=$T)", reference=lambda x: x.double(), grad=False),
        case(
            "wrapped",
            t([-1, 256, 511], "i32"),
            call="cast($0, dtype=u8)",
            reference=lambda x: x.to(torch.uint8),
            results=["u8"],
            **exact,
        ),
        case("to f32", grid(2, 3), call="cast($0, dtype=f32)", reference=lambda x: x * 1.0, results=["f32"]),
        case("zero-sized axis", grid(0, 3), call="cast($0, dtype=f32)", reference=lambda x: x * 1.0, results=["f32"]),
        case(
            "transposed",
            grid(2, 3),
            call="cast(transpose($0), dtype=f32)",
            reference=lambda x: x.mT * 1.0,
            results=["f32"],
        ),
    ]


op("cast", "torch.Tensor.to", None, *casts())

same = dict(call="widen($0)", reference=lambda x: x * 1.0)
op(
    "widen",
    "torch.Tensor.float",
    None,
    case("halves", grid(2, 3), types=["f16", "bf16"], results=["f32"], **same),
    case("wide floats", grid(2, 3), types=["f32", "f64"], **same),
    case("integers", ints(2, 3, low=-9), types=SIGNED, grad=False, **same),
    case("zero-sized axis", grid(0, 3), types=["f16"], results=["f32"], **same),
)


def small_floats():
    numbers = torch.tensor([0.0, 0.3, -1.1, 3.3, 17.0, 18.0, 0.0017, 0.001, 300.0, 239.0, nan], dtype=torch.float32)
    kinds = {
        "e4m3fn": torch.float8_e4m3fn,
        "e4m3fnuz": torch.float8_e4m3fnuz,
        "e5m2": torch.float8_e5m2,
        "e5m2fnuz": torch.float8_e5m2fnuz,
    }
    return [
        case(
            name,
            ("f32", numbers if name != "e4m3fnuz" else numbers.clamp(max=240)),
            call=f'small_float($0, format="{name}")',
            reference=lambda x, kind=kind: x.to(kind).double(),
            results=["f32"],
            grad=False,
            types=["f32"],
        )
        for name, kind in kinds.items()
    ]


op("small_float", "torch.float8 types", None, *small_floats())

# ---- Integers and truth values.

NEGATIVE = case("integers", ints(3, 4, low=-9), types=SIGNED, grad=False)
POSITIVE = case("positive integers", ints(3, 4), types=UNSIGNED, grad=False)
BITS = t([False, False, True, True], "bool"), t([False, True, False, True], "bool")
more("abs sign square floor ceil trunc round relu relu6 relu_squared copy detach", NEGATIVE, POSITIVE)
more("neg", NEGATIVE)
more("clamp", case("integers", ints(3, 4, low=-9), types=SIGNED, grad=False, min=-2, max=3))
more("clamp", case("positive integers", ints(3, 4), types=UNSIGNED, grad=False, min=2, max=5))
more("hardtanh", case("integers", ints(3, 4, low=-9), types=SIGNED, grad=False, min_val=-2, max_val=3))
more("threshold", case("integers", ints(3, 4, low=-9), types=SIGNED, grad=False, threshold=1, value=-5))
more("copy detach", case("truth values", truths(2, 3), types=["bool"], grad=False))
more("maximum minimum eq ne lt le gt ge apply_corrections", case("truth values", *BITS, types=["bool"], grad=False))
more("where", case("truth values", truths(4), *BITS, types=["bool"], grad=False))
more("apply_corrections", case("integers", ints(2, 3), ints(2, 3, seed=1), types=INTS, grad=False))
more("addcmul", case("integers", ints(2, 3), ints(2, 3, seed=1), ints(3, seed=2), types=INTS, grad=False))
more(
    "div",
    case("integers", ints(3, 4), ints(3, 4, low=1, seed=1), types=INTS, grad=False),
    case("negative integers", ints(3, 4, low=-9), ints(3, 4, low=1, seed=1), types=SIGNED, grad=False),
    reference=lambda a, b: torch.div(a, b, rounding_mode="trunc"),
)


def wrapping(function, kind):
    """A function of NumPy on small integers, whose results wrap."""

    def wrapped(*operands):
        with numpy.errstate(all="ignore"):
            found = function(*(x.numpy().astype(kind) for x in operands))
        return torch.from_numpy(numpy.asarray(found, kind).astype(numpy.int64))

    return wrapped


# Pairs of numbers at the ends of small types. NumPy's shifts by a type's width or more leave the sign, as here.
FUNCTIONS = {"add": 2, "subtract": 2, "multiply": 2, "floor_divide": 2, "remainder": 2, "square": 1, "bitwise_not": 1}
FUNCTIONS |= {"left_shift": 2, "right_shift": 2, "power": 2, "negative": 1, "absolute": 1}
NAMES = {"power": "pow", "subtract": "sub", "multiply": "mul", "bitwise_not": "not", "negative": "neg", "absolute": "abs"}
for kind in ("i8", "i16", "u8", "u16"):
    dtype = numpy.dtype({"i": "int", "u": "uint"}[kind[0]] + kind[1:])
    ends = numpy.iinfo(dtype)
    numbers = [ends.min, ends.min + 1, 3, 7, 9, 100, ends.max - 1, ends.max] + ([-1, -7] if ends.min else [])
    column = [[x] for x in numbers if x]
    for function, arity in FUNCTIONS.items():
        is_counted = function in ("left_shift", "right_shift", "power")
        operands = [t(numbers), t([[1], [7], [8], [100]] if is_counted else column)][:arity]
        if not ends.min and function == "negative":
            continue
        made = case(
            f"wrapped {kind}",
            *[(named, x.long()) for named, x in operands],
            types=[kind],
            grad=False,
            reference=wrapping(getattr(numpy, function), dtype),
        )
        more(NAMES.get(function, function), made)


def ends_of(kind, bits):
    """Numbers at the ends of a type, up to those that a file holds exactly. NumPy counts bits of the absolute value."""
    signed = kind[0] == "i"
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    low, high = max(low, -(2**53)), min(high, 2**53)
    numbers = [low, low + 1, 0, 1, 12, 100, high // 2, high - 1, high]
    counted = wrapping(numpy.bitwise_count, f"uint{bits}")
    return case(f"ends of {kind}", ("T", torch.tensor(numbers)), types=[kind], grad=False, reference=counted)


op(
    "popcount",
    "numpy.bitwise_count",
    wrapping(numpy.bitwise_count, "uint64"),
    case("positive integers", ("T", torch.tensor([[0, 1, 2], [7, 100, 127]])), types=INTS, grad=False),
    case("zero-sized axis", ints(0, 3), types=INTS, grad=False),
    *[ends_of(kind, int(kind[1:])) for kind in INTS],
)

write(__file__)
