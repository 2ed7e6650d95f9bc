"""Expected numbers of the elementwise and activation ops, from PyTorch in double precision.

Run `python tests/examples/math_ops.py` (with PyTorch installed) to write math.json beside this file. A case holds a
call, its operands, its results, and, where the op has a gradient, the gradients for the upstream gradients 1, 2, 3, ...
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F

inf, nan = math.inf, math.nan
TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
         "bool": torch.bool, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8}
FLOATS = ("f16", "bf16", "f32", "f64")
CASES = []


def kind_of(reference, dtype):
    """Truth values are of their own type."""
    return "bool" if reference(tensor(dtype, [])).dtype == torch.bool else dtype


def case(title, call, operands, reference, grad=True, dtype=None):
    """Adds a case. `operands` are (dtype, nested list); `dtype` is that of the results if it differs from the first."""
    tensors = [tensor(*operand) for operand in operands]
    results = reference(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    dtype = dtype or operands[0][0]
    CASES.append({
        "title": title,
        "call": call,
        "inputs": [described(name, t) for (name, _), t in zip(operands, tensors)],
        "outputs": [described(dtype, rounded(dtype, result)) for result in results],
        "grads": gradients(operands, tensors, results) if grad and dtype in FLOATS else None,
    })


def tensor(dtype, values):
    """Floats are rounded to their type and computed with in double precision."""
    if dtype in FLOATS:
        return torch.as_tensor(values, dtype=TORCH[dtype]).to(torch.float64).requires_grad_()
    return torch.tensor(values, dtype=TORCH[dtype])


def rounded(dtype, result):
    return result.detach().to(TORCH[dtype]) if dtype in FLOATS else result.detach()


def described(dtype, t):
    shape = ", ".join(str(n) for n in t.shape)
    return [f"{dtype}[{shape}]", [spelled(x) for x in t.detach().to(torch.float64).flatten().tolist()]]


def spelled(x):
    """JSON has no NaN and no infinities."""
    return x if math.isfinite(x) else str(x)


def gradients(operands, tensors, results):
    upstream = [torch.arange(1, r.numel() + 1, dtype=torch.float64).reshape(r.shape) for r in results]
    wanted = [t for t in tensors if t.requires_grad]
    grads = torch.autograd.grad(results, wanted, upstream, allow_unused=True)
    grads = iter(grads)
    return [flat_gradient(next(grads), t) if t.requires_grad else None for t in tensors]


def flat_gradient(grad, like):
    grad = torch.zeros_like(like) if grad is None else grad
    return [spelled(x) for x in grad.flatten().tolist()]


EDGES = [-inf, -100.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 100.0, inf, nan]
# Where the gradient at infinities or NaN is a matter of taste, it is not asked for.
PLAIN = [-100.0, -1.5, -0.5, 0.25, 1.5, 100.0]


# The largest number of single precision.
LARGEST = 2.0**128 - 2.0**104


def unary(name, reference, values=EDGES, smooth=PLAIN, integers=False):
    of = lambda title, ty, x, **more: case(title, f"{name}(a)", [(ty, x)], reference, dtype=kind_of(reference, ty), **more)
    of("edge cases", "f32", values, grad=False)
    of("gradients", "f32", smooth)
    of("in f16", "f16", [0.5, 1.5, 2.0], grad=False)
    of("in bf16", "bf16", [0.5, 1.5, 2.0], grad=False)
    of("of no elements", "f32", [])
    if integers:
        case("of integers", f"{name}(a)", [("i32", [-7, -1, 0, 1, 7])], reference)


def unary_ops():
    positive = [0.25, 0.5, 1.0, 1.5, 100.0]
    unary("neg", torch.neg, integers=True)
    unary("abs", torch.abs, smooth=PLAIN + [0.0], integers=True)
    # PyTorch's sign of NaN is 0.
    unary("sign", lambda x: torch.where(x.isnan(), x, torch.sign(x)), integers=True)
    unary("square", torch.square, integers=True)
    unary("reciprocal", torch.reciprocal)
    unary("exp", torch.exp, values=EDGES + [1000.0], smooth=[-100.0, -1.5, 0.0, 1.5, 10.0])
    unary("expm1", torch.expm1, values=EDGES + [1e-6, 1000.0], smooth=[-100.0, -1.5, 0.0, 1.5, 10.0])
    unary("log", torch.log, smooth=positive)
    unary("log1p", torch.log1p, values=EDGES + [1e-6], smooth=[-0.5] + positive)
    unary("sqrt", torch.sqrt, smooth=positive + [0.0])
    unary("rsqrt", torch.rsqrt, smooth=positive)
    unary("sin", torch.sin, values=EDGES + [1e5])
    unary("cos", torch.cos, values=EDGES + [1e5])
    unary("tanh", torch.tanh)
    unary("erf", torch.erf)
    for name in ("floor", "ceil", "trunc", "round"):
        halves = [-2.5, -1.5, 2.5, 3.5, 1e10]
        unary(name, getattr(torch, name), values=EDGES + halves, integers=True)
    unary("frac", torch.frac)
    unary("copy", torch.clone, integers=True)
    # Adding 0·x gives the constant a gradient, which is 0.
    case("a constant", "detach(a)", [("f32", [1.5, -2.0, 0.25])], lambda x: x.detach() + 0 * x)


def special_functions():
    inside, far = [-0.9, -0.5, 0.25, 0.545, 0.7, 0.95], [-1e6, -7.5, -1.5, -0.7, 0.3, 0.6, 2.0, 3.5, 1e6]
    positive = [1e-3, 0.25, 1.0, 1.5, 100.0, 1e6]
    unary("exp2", torch.exp2, values=EDGES + [1000.0], smooth=[-100.0, -1.5, 0.0, 1.5, 10.0])
    unary("log2", torch.log2, values=EDGES + [8.0, 0.125, 7.0], smooth=positive)
    unary("log10", torch.log10, values=EDGES + [1000.0, 0.01, 7.0], smooth=positive)
    unary("tan", torch.tan, values=EDGES + [1e5], smooth=[-2.5, -1.5, 0.25, 1.5])
    unary("asin", torch.asin, values=EDGES + inside, smooth=inside)
    unary("acos", torch.acos, values=EDGES + inside, smooth=inside)
    unary("atan", torch.atan, values=EDGES + far, smooth=far)
    unary("sinh", torch.sinh, values=EDGES + [1e-4, 89.0, -89.0], smooth=[-5.0, -0.5, 0.0, 0.25, 3.0])
    unary("cosh", torch.cosh, values=EDGES + [1e-4, 89.0, -89.0], smooth=[-5.0, -0.5, 0.0, 0.25, 3.0])
    unary("asinh", torch.asinh, values=EDGES + [1e-4, 1e12, -1e12, 1e30], smooth=[-5.0, -0.5, 0.0, 0.25, 1e6])
    unary("acosh", torch.acosh, values=EDGES + [1.0001, 1e12, 1e30], smooth=[1.0001, 1.5, 4.0, 1e6])
    unary("atanh", torch.atanh, values=EDGES + inside + [1e-4], smooth=inside)
    unary("erfinv", torch.erfinv, values=EDGES + inside + [1e-4, 0.86, -0.999, 0.9999999], smooth=inside + [0.9999])
    # The roots of both functions show errors that are small beside other values.
    gamma = [-100.5, -7.25, -2.25, -0.75, -1e-3, -1e-10, 1e-10, 1e-3, 0.25, 0.75, 1.25, 1.9990234375, 4.5, 100.0, 1e6]
    unary("lgamma", torch.lgamma, values=[-inf, -1.0, 0.0, 0.5, 1.0, 2.0, inf, nan, 1e30] + gamma, smooth=gamma)
    case("at poles", "lgamma(a)", [("f32", [-1.0, -2.0])], torch.lgamma)
    unary("digamma", torch.digamma, values=[-1.0, 0.0, 0.5, 1.0, inf, nan, 1e30] + gamma, smooth=gamma)
    unary("isinf", torch.isinf)
    unary("isfinite", torch.isfinite)
    unary("nan_to_num", lambda x: torch.nan_to_num(x, posinf=LARGEST, neginf=-LARGEST), smooth=PLAIN)
    x = ("f32", EDGES)
    case("given numbers", "nan_to_num(a, nan=-1.0, posinf=2.0, neginf=3.0)", [x],
         lambda x: torch.nan_to_num(x, -1.0, 2.0, 3.0))
    signs = [0.0, 0.0, 1.0, 1.0, -1.0, -1.0, 3.0, -2.0, inf, -inf, inf, 1.0, nan, 1.0]
    others = [0.0, 1.0, 0.0, 2.0, 2.0, -1.5, -0.5, 0.25, inf, -inf, 1.0, -inf, 1.0, nan]
    case("at the origin", "atan2(a, b)", [("f32", [0.0, 2.0]), ("f32", [0.0, -1.25])], torch.atan2)
    binary("atan2", torch.atan2, signs, others, integers=False)
    case("all octants", "atan2(a, b)", [("f32", [1.0, 2.0, 2.0, 1.0, -1.0, -2.0, -2.0, -1.0]),
                                        ("f32", [2.0, 1.0, -1.0, -2.0, -2.0, -1.0, 1.0, 2.0])], torch.atan2)
    a = [inf, -inf, nan, 1.0, 0.0, 1.0, 0.0, 1.0, -1.0, 7.5, -7.5]
    b = [1.0, 2.0, 1.0, nan, 3.0, 0.0, 0.0, inf, inf, -2.0, 2.0]
    case("edge cases", "floor_divide(a, b)", [("f32", a), ("f32", b)], torch.floor_divide, grad=False)
    case("a row against a column", "floor_divide(a, b)", [("f32", [[1.5, -2.5, 3.5]]), ("f32", [[2.0], [-0.5]])],
         torch.floor_divide, grad=False)
    case("of bytes", "floor_divide(a, b)", [("u8", [7, 200, 255]), ("u8", [2, 3, 255])], torch.floor_divide)
    case("of integers", "floor_divide(a, b)", [("i32", [7, -7, 7, -7]), ("i32", [2, 2, -2, -2])], torch.floor_divide)
    binary("remainder", torch.remainder, a, b)
    whole, by = ("i32", [1, -8, 2147483647, -1]), ("i32", [3, 1, 1, 31])
    case("to the left", "left_shift(a, b)", [whole, by], torch.bitwise_left_shift)
    case("to the right", "right_shift(a, b)", [whole, by], torch.bitwise_right_shift)
    wide = ("i64", [3, -5, 9, -9])
    case("as wide as the type", "left_shift(a, b)", [wide, ("i64", [40, 2, 64, -1])], torch.bitwise_left_shift)
    case("as wide as the type", "right_shift(a, b)", [wide, ("i64", [1, 1, 64, 64])], torch.bitwise_right_shift)
    for dtype, bits in (("u8", 8), ("i32", 32), ("i64", 64)):
        low, high = (0, 2**bits - 1) if dtype == "u8" else (-2**(bits - 1), 2**(bits - 1) - 1)
        if bits == 64:  # Longer numbers are rounded in the file.
            low, high = -2**53, 2**53
        numbers = [low, low + 1, 0, 1, 12, 100, high // 2, high - 1, high]
        ones = torch.tensor([(n % 2**bits).bit_count() for n in numbers], dtype=TORCH[dtype])
        case(f"of {dtype}", "popcount(a)", [(dtype, numbers)], lambda _, ones=ones: ones)
    case("a mask for each column", "masked_fill(a, b, value=-inf)",
         [("f32", [[1.5, nan], [0.5, 3.0]]), ("bool", [True, False])], lambda x, m: x.masked_fill(m, -inf))
    case("of integers", "masked_fill(a, b, value=7)", [("i32", [1, 2]), ("bool", [True, False])],
         lambda x, m: x.masked_fill(m, 7))


def truth_values():
    """Sums and products of truth values are those of logic."""
    for name in ("add", "mul", "maximum", "minimum"):
        case("of truth values", f"{name}(a, b)",
             [("bool", [False, False, True, True]), ("bool", [False, True, False, True])], getattr(torch, name))


def binary(name, reference, a, b, smooth_a=None, smooth_b=None, integers=True):
    case("edge cases", f"{name}(a, b)", [("f32", a), ("f32", b)], reference, grad=False)
    case("gradients", f"{name}(a, b)", [("f32", smooth_a or [1.5, -0.5, 2.0]), ("f32", smooth_b or [0.5, 3.0, -4.0])],
         reference)
    case("a row against a column", f"{name}(a, b)", [("f32", [[1.5, 2.5, 3.5]]), ("f32", [[2.0], [3.0]])], reference)
    case("a scalar on the left", f"{name}(a, b)", [("f32", 2.0), ("f32", [[1.5, 3.0]])], reference)
    case("nothing against a row", f"{name}(a, b)", [("f32", torch.zeros(0, 2)), ("f32", [1.0, 2.0])], reference)
    case("in f16", f"{name}(a, b)", [("f16", [1.5, 2.0]), ("f16", [0.5, 3.0])], reference, grad=False)
    if integers:
        case("of integers", f"{name}(a, b)", [("i32", [7, -7, 7, -7]), ("i32", [2, 2, -2, -2])], reference)


def binary_ops():
    a, b = [inf, -inf, nan, 1.0, 0.0, 1.0, inf, 0.0], [1.0, 2.0, 1.0, nan, 3.0, 0.0, inf, 0.0]
    binary("add", torch.add, a, b)
    binary("sub", torch.sub, a, b)
    binary("mul", torch.mul, a, b)
    binary("div", lambda x, y: torch.div(x, y, rounding_mode=None if x.is_floating_point() else "trunc"), a, b)
    binary("rem", torch.fmod, a, b)
    binary("maximum", torch.maximum, a, b)
    binary("minimum", torch.minimum, a, b)
    bases, exponents = [0.0, 0.0, -2.0, -2.0, nan, 1.0, inf, 0.0], [0.0, -1.0, 3.0, 0.5, 0.0, nan, 2.0, 2.0]
    binary("pow", torch.pow, bases, exponents, [2.0, 1.5, 0.0, 0.0], [3.0, -0.5, 0.0, 2.0], integers=False)
    case("of integers", "pow(a, b)", [("i32", [2, -3, 0, 7]), ("i32", [10, 3, 0, 1])], torch.pow)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        reference = getattr(torch, name)
        case("NaN and ties", f"{name}(a, b)", [("f32", [1.0, 2.0, 2.0, nan, nan]), ("f32", [2.0, 2.0, 1.0, nan, 1.0])],
             reference, dtype="bool")
        case("of integers", f"{name}(a, b)", [("i32", [[1], [2]]), ("i32", [1, 2])], reference, dtype="bool")
    for name in ("and", "or", "xor"):
        logical, bitwise = getattr(torch, f"logical_{name}"), getattr(torch, f"bitwise_{name}")
        case("all pairs", f"{name}(a, b)", [("bool", [False, False, True, True]), ("bool", [False, True, False, True])],
             logical)
        case("of integers", f"{name}(a, b)", [("i32", [12, -1]), ("i32", [10, 5])], bitwise)
    case("of truth values", "not(a)", [("bool", [False, True])], torch.logical_not)
    case("of integers", "not(a)", [("i32", [0, 12, -1])], torch.bitwise_not)
    case("infinities are numbers", "isnan(a)", [("f32", [1.0, nan, inf])], torch.isnan, dtype="bool")


def clamp(x, low, high):
    """The gradient passes at the bounds, which is left open by PyTorch and differs between its versions."""
    return torch.where((x < low) | (x > high), torch.clamp(x, low, high).detach(), x)


def fused_ops():
    a, b = ("f32", [[1.5, -2.0], [0.5, 3.0]]), ("f32", [2.0, -4.0])
    case("a row", "addcmul(a, b, c, value=-0.5)", [a, a, b], lambda x, y, z: torch.addcmul(x, y, z, value=-0.5))
    case("of integers", "addcmul(a, b, c, value=3)", [("i32", [1, 2]), ("i32", [3, 4]), ("i32", [5, -6])],
         lambda x, y, z: torch.addcmul(x, y, z, value=3))
    case("a row", "addcdiv(a, b, c, value=-0.5)", [a, a, b], lambda x, y, z: torch.addcdiv(x, y, z, value=-0.5))
    case("by zero", "addcdiv(a, b, c)", [("f32", [1.0, 1.0]), ("f32", [2.0, 0.0]), ("f32", 0.0)], torch.addcdiv,
         grad=False)
    weights = ("f32", [-0.5, 0.0, 0.25, 0.75, 1.0, 1.5])
    case("by a tensor", "lerp(a, b, c)", [("f32", 1.5), ("f32", [[2.0], [-1.0]]), weights],
         lambda x, y, w: torch.lerp(x, y, w.expand(2, 6)))
    case("exact at the ends", "lerp(a, b, c)", [("f32", 1e8), ("f32", 1.0), ("f32", 1.0)], torch.lerp, grad=False)
    condition = ("bool", [True, False, True])
    case("NaN in what is not chosen", "where(a, b, c)", [condition, ("f32", [1.0, nan, 3.0]), ("f32", [nan, 2.0, inf])],
         torch.where, dtype="f32")
    case("a condition for each row", "where(a, b, c)", [("bool", [[True], [False]]), ("f32", [1.0, 2.0]), ("f32", 7.0)],
         torch.where, dtype="f32")
    case("of integers", "where(a, b, c)", [condition, ("i32", [1, 2, 3]), ("i32", [4, 5, 6])], torch.where, dtype="i32")
    x = ("f32", [-inf, -2.0, -1.0, 0.0, 1.0, 2.0, inf])
    case("the ends belong to it", "clamp(a, min=-1.0, max=1.0)", [x], lambda x: clamp(x, -1, 1))
    case("from below", "clamp(a, min=-1.0)", [x], lambda x: clamp(x, -1, inf))
    case("from above", "clamp(a, max=1.0)", [x], lambda x: clamp(x, -inf, 1))
    case("bounds in the wrong order", "clamp(a, min=1.0, max=-1.0)", [x], lambda x: clamp(x, 1, -1))
    case("NaN stays", "clamp(a, min=-1.0, max=1.0)", [("f32", [nan])], lambda x: torch.clamp(x, -1, 1), grad=False)
    case("of integers", "clamp(a, min=-1, max=1)", [("i32", [-5, 0, 5])], lambda x: torch.clamp(x, -1, 1))
    case("the threshold itself is replaced", "threshold(a, threshold=1.0, value=-5.0)", [x],
         lambda x: F.threshold(x, 1.0, -5.0))
    case("NaN stays", "threshold(a, threshold=1.0, value=-5.0)", [("f32", [nan])],
         lambda x: F.threshold(x, 1.0, -5.0), grad=False)
    case("at the threshold", "threshold_backward(a, b, threshold=1.0)",
         [("f32", [10.0, 20.0, 30.0]), ("f32", [0.5, 1.0, 1.5])], lambda g, x: g * (x > 1.0))
    case("a negative zero", "full_like(a, value=-0.0)", [("f32", [3.0, nan])], lambda x: torch.full_like(x, -0.0),
         grad=False)
    case("NaN", "full_like(a, value=nan)", [("f32", [3.0])], lambda x: torch.full_like(x, nan), grad=False)
    case("predictions", "apply_corrections(a, b)", [a, a], torch.add)
    case("under its other name", "elementwise_add(a, b)", [a, b], torch.add)
    case("under its other name", "elementwise_mul(a, b)", [a, b], torch.mul)
    case("under its other name", "hadamard(a, b)", [a, b], torch.mul)
    case("under its other name", "clone(a)", [a], torch.clone)
    case("under its other name", "contiguous(a)", [a], torch.clone)
    case("under its other name", "elementwise_where(a, b, c)", [("bool", [True, False]), a, b], torch.where, dtype="f32")
    case("under its other name", "elementwise_lerp(a, b, c)", [a, ("f32", 1.0), ("f32", 0.25)],
         lambda x, y, w: torch.lerp(x, y.expand(2, 2), w.expand(2, 2)))


def casts():
    case("to double precision", "cast(a, dtype=f64)", [("f32", [1.5, nan, -inf])], torch.clone, dtype="f64")
    ties = [1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, 65520.0, 65519.0, 1e-8, nan]
    case("ties to even and overflow", "cast(a, dtype=f16)", [("f32", ties)], torch.clone, grad=False, dtype="f16")
    case("ties to even", "cast(a, dtype=bf16)", [("f32", ties)], torch.clone, grad=False, dtype="bf16")
    case("saturated", "cast(a, dtype=f16, saturate=true)", [("f32", [1e6, -1e6, inf, 1.0])],
         lambda x: x.clamp(-65504, 65504), grad=False, dtype="f16")
    case("towards zero", "cast(a, dtype=i32)", [("f32", [1.9, -1.9, 0.5])], torch.trunc, grad=False, dtype="i32")
    case("ends of the range, no NaN", "cast(a, dtype=i32)", [("f32", [1e10, -1e10, inf, nan])],
         lambda x: torch.nan_to_num(x.clamp(-2.0**31, 2.0**31 - 1)), grad=False, dtype="i32")
    case("truth values", "cast(a, dtype=bool)", [("f32", [0.0, -0.0, 0.5, nan])], lambda x: x != 0, dtype="bool")
    case("of truth values", "cast(a, dtype=f32)", [("bool", [False, True])], lambda x: x.double(), grad=False,
         dtype="f32")
    case("of integers", "cast(a, dtype=f32)", [("i32", [-3, 0, 7])], lambda x: x.double(), grad=False, dtype="f32")
    case("f32 stays", "widen(a)", [("f32", [1.5, nan, -inf])], torch.clone)
    case("halves", "widen(a)", [("f16", [1.5, nan, -inf])], torch.clone, grad=False, dtype="f32")
    halves = [1.0625, 1.1875, -0.3, 2.0**-10, 3 * 2.0**-10, 2.0**-17, -3 * 2.0**-17, 0.7, 100.0, -230.0, 0.0, nan]
    for name, kind in [("e4m3fn", torch.float8_e4m3fn), ("e4m3fnuz", torch.float8_e4m3fnuz),
                       ("e5m2", torch.float8_e5m2), ("e5m2fnuz", torch.float8_e5m2fnuz)]:
        # PyTorch also rounds the gradient.
        case(f"in {name}", f"small_float(a, format='{name}')", [("f32", halves)], lambda x: x.float().to(kind).double(),
             grad=False)
    case("beyond the largest", "small_float(a, format='e5m2', saturate=false)", [("f32", [61439.0, 61441.0, -1e30, inf])],
         lambda x: x.float().to(torch.float8_e5m2).double())


def activations():
    kink = PLAIN + [0.0]
    unary("relu", F.relu, smooth=kink, integers=True)
    unary("relu6", F.relu6, values=EDGES + [6.0, 7.0], smooth=[-1.0, 0.0, 3.0, 6.0, 7.0])
    unary("relu_squared", lambda x: F.relu(x).square(), smooth=kink)
    unary("leaky_relu", F.leaky_relu, smooth=kink)
    unary("hardswish", F.hardswish, values=[-100.0, -4.0, -3.0, -1.5, 0.0, 1.5, 3.0, 100.0, inf, nan],
          smooth=[-4.0, -3.0, -1.5, 0.0, 2.0, 3.0, 4.0])
    case("settings", "leaky_relu(a, negative_slope=0.25)", [("f32", kink)], lambda x: F.leaky_relu(x, 0.25))
    x = ("f32", [[[0.5, -1.0], [0.0, -2.0]], [[2.0, 3.0], [-50.0, -0.25]]])
    case("a slope for each channel", "prelu(a, b)", [x, ("f32", [0.25, -2.0])], F.prelu)
    case("one slope", "prelu(a, b)", [x, ("f32", [0.25])], F.prelu)
    case("slopes along the last axis", "prelu(a, b, axis=-1)", [x, ("f32", [0.25, -2.0])],
         lambda x, w: F.prelu(x.transpose(1, 2), w).transpose(1, 2))
    case("rows", "glu(a)", [("f32", [[0.5, -1.0, 0.0, 2.0], [2.0, 3.0, -1.5, -0.25]])], F.glu)
    case("gates far out", "glu(a)", [("f32", [1.5, 2.5, -1000.0, 1000.0])], F.glu)
    case("halves of the first axis", "glu(a, axis=0)", [("f32", [[0.5, -1.0], [2.0, 3.0]])], lambda x: F.glu(x, 0))
    unary("sigmoid", torch.sigmoid, smooth=kink + [-1000.0, 1000.0])
    unary("hardsigmoid", F.hardsigmoid, values=EDGES + [-3.0, 3.0], smooth=kink + [-3.0, 3.0])
    unary("silu", F.silu, values=[-100.0, -1.5, 0.0, 1.5, 100.0, inf, nan], smooth=kink + [-1000.0, 1000.0])
    unary("mish", F.mish, values=[-100.0, -1.5, 0.0, 1.5, 100.0, inf, nan], smooth=kink + [-1000.0, 1000.0])
    unary("gelu", F.gelu, values=[-100.0, -1.5, 0.0, 1.5, 100.0, nan], smooth=kink)
    unary("selu", F.selu, smooth=kink + [1000.0])
    unary("softplus", F.softplus, smooth=kink + [19.0, 21.0])
    unary("elu", F.elu, smooth=kink + [1000.0])
    unary("celu", F.celu, smooth=kink + [1000.0])
    unary("hardtanh", F.hardtanh, smooth=[-2.0, -1.0, 0.5, 1.0, 2.0])
    x = ("f32", kink)
    case("by a hyperbolic tangent", "gelu(a, approximate='tanh')", [x], lambda x: F.gelu(x, approximate="tanh"))
    case("settings", "softplus(a, beta=2.0, threshold=1.0)", [("f32", [-1.0, 0.25, 0.75, 3.0])],
         lambda x: F.softplus(x, 2.0, 1.0))
    case("settings", "elu(a, alpha=2.0)", [x], lambda x: F.elu(x, 2.0))
    case("settings", "celu(a, alpha=2.0)", [x], lambda x: F.celu(x, 2.0))
    case("settings", "hardtanh(a, min_val=-2.0, max_val=0.5)", [("f32", [-3.0, -2.0, 0.25, 0.5, 1.0])],
         lambda x: F.hardtanh(x, -2.0, 0.5))
    x, w = ("f32", [[0.5, -1.0, 0.0], [2.0, 3.0, -50.0]]), ("f32", [2.0, -0.5, 4.0])
    case("two rows", "softcap_tanh_projection(a, b)", [x, w],
         lambda x, w: (x * w / (1 + (x * w).abs()), torch.tanh(x * w)))
    case("outside training", "dropout(a, p=0.5, train=false)", [x], torch.clone)
    case("with probability 0", "dropout(a, p=0.0)", [x], torch.clone)
    case("with certainty", "dropout(a, p=1.0)", [x], lambda x: x * 0.0)


def main():
    unary_ops()
    binary_ops()
    special_functions()
    truth_values()
    fused_ops()
    casts()
    activations()
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in CASES)
    path = pathlib.Path(__file__).with_name("math.json")
    path.write_text(f"[\n{lines}\n]\n")
    print(f"{len(CASES)} cases in {path.name}")


if __name__ == "__main__":
    main()
