"""Values and derivatives of the unary float ops near zero and far out, from mpmath with 60 digits.

Run `python tests/examples/extremes.py` (with mpmath installed) to write extremes.json beside this file: by call, rows of
an operand, the result, and the derivative or null where it is a convention. At infinity both are limits.
"""

import json
import math
import pathlib
import struct

from mpmath import mp, mpf

mp.dps = 60
INF, NAN = math.inf, math.nan
ONE = mpf(1)


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


SIZES = [0.0, 2.0**-24, 2.0**-20, 2.0**-133, 2.0**-149, 2.0**-127, single(1e-30), single(1e-4), 0.25, 1.0, 10.0, 88.0,
         89.0, 100.0, 10000.0, 9984.0, 65504.0, single(1e30), 2.0**100, 2.0**128 - 2.0**120, 2.0**128 - 2.0**104]


def sigmoid(x):
    return ONE / (ONE + mp.exp(-x))


def softplus(x):
    return mp.log1p(mp.exp(x)) if x < 200 else x + mp.exp(-x)


def phi(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2 if x > -1e6 else mpf(0)


def tanh_gelu(x):
    k, c = mp.sqrt(2 / mp.pi), mpf("0.044715")
    u = k * (x + c * x**3)
    if abs(u) > 1e6:
        return (x, ONE) if x > 0 else (mpf(0), mpf(0))
    t = mp.tanh(u)
    return x * (1 + t) / 2, (1 + t) / 2 + x * (1 - t * t) * k * (1 + 3 * c * x * x) / 2


def mish(x):
    if x < -1e6:
        return mpf(0), mpf(0)
    s = softplus(x)
    if s > 1e4:
        return x, ONE
    t = mp.tanh(s)
    return x * t, t + x * (1 - t * t) * sigmoid(x)


def silu(x):
    if abs(x) > 1e6:
        return (x, ONE) if x > 0 else (mpf(0), mpf(0))
    s = sigmoid(x)
    return x * s, s * (1 + x * (1 - s))


def bent(x, scale=ONE, bound=ONE, width=ONE):
    if x > 0:
        return scale * x, scale
    if x / width < -1e6:
        return -scale * bound, mpf(0)
    return scale * bound * mp.expm1(x / width), scale * bound / width * mp.exp(x / width)


def gelu(x):
    return (x * normal(x), normal(x) + x * phi(x)) if abs(x) < 1e6 else ((x, ONE) if x > 0 else (mpf(0), mpf(0)))


def sech2(x):
    return 1 / mp.cosh(x)**2 if abs(x) < 1e6 else mpf(0)


def within(low, high, f, df):
    """Beyond the ends there is no number. At the ends, derivatives are a matter of taste."""
    def value(x):
        if not low <= x <= high:
            return NAN, None
        return f(x), df(x) if low < x < high else None

    return value


def log_gamma(x):
    if x <= 0 and x == mp.floor(x):
        return INF, None
    if abs(x) < mpf(2)**-126:
        return None, None  # A multiple of a subnormal number has few digits.
    return mp.log(abs(mp.gamma(x))) if abs(x) < 100 else mp.loggamma(x), mp.digamma(x)


def cosh(x):
    return (mp.exp(x) + mp.exp(-x)) / 2 if abs(x) < 1e6 else INF


def sinh(x):
    return mp.sinh(x) if abs(x) < 1e6 else mp.sign(x) * INF


SELU = mpf("1.0507009873554804934193349852946"), mpf("1.6732632423543772848170429916717")
STEP = lambda f: lambda x: (f(x), mpf(0))

# Value and derivative at x, then at -infinity and at +infinity; None where there is no such number.
OPS = {
    "neg(a)": (lambda x: (-x, -ONE), (INF, -1), (-INF, -1)),
    "abs(a)": (lambda x: (abs(x), mp.sign(x) if x else None), (INF, -1), (INF, 1)),
    "sign(a)": (STEP(mp.sign), (-1, 0), (1, 0)),
    "square(a)": (lambda x: (x * x, 2 * x), (INF, -INF), (INF, INF)),
    "reciprocal(a)": (lambda x: (1 / x, -1 / x**2) if x else (None, None), (0, 0), (0, 0)),
    "exp(a)": (lambda x: (mp.exp(x),) * 2, (0, 0), (INF, INF)),
    "expm1(a)": (lambda x: (mp.expm1(x), mp.exp(x)), (-1, 0), (INF, INF)),
    "log(a)": (lambda x: (mp.log(x), 1 / x) if x > 0 else (NAN if x else -INF, None), (NAN, None), (INF, 0)),
    "log1p(a)": (lambda x: (mp.log1p(x), 1 / (1 + x)) if x > -1 else (NAN if x < -1 else -INF, None), (NAN, None), (INF, 0)),
    "sqrt(a)": (lambda x: (mp.sqrt(x), 1 / (2 * mp.sqrt(x))) if x > 0 else (NAN if x else 0, None), (NAN, None), (INF, 0)),
    "rsqrt(a)": (lambda x: (1 / mp.sqrt(x), -1 / (2 * x * mp.sqrt(x))) if x > 0 else (NAN if x else None, None), (NAN, None),
                 (0, 0)),
    "sin(a)": (lambda x: (mp.sin(x), mp.cos(x)), (NAN, None), (NAN, None)),
    "cos(a)": (lambda x: (mp.cos(x), -mp.sin(x)), (NAN, None), (NAN, None)),
    "tanh(a)": (lambda x: (mp.tanh(x) if abs(x) < 1e6 else mp.sign(x), sech2(x)), (-1, 0), (1, 0)),
    "erf(a)": (lambda x: (mp.erf(x), 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)), (-1, 0), (1, 0)),
    "exp2(a)": (lambda x: (mpf(2)**x, mpf(2)**x * mp.log(2)) if abs(x) < 1e6 else ((INF, INF) if x > 0 else (mpf(0), mpf(0))), (0, 0),
                (INF, INF)),
    "log2(a)": (lambda x: (mp.log(x, 2), 1 / (x * mp.log(2))) if x > 0 else (NAN if x else -INF, None), (NAN, None), (INF, 0)),
    "log10(a)": (lambda x: (mp.log10(x), 1 / (x * mp.log(10))) if x > 0 else (NAN if x else -INF, None), (NAN, None), (INF, 0)),
    "tan(a)": (lambda x: (mp.tan(x), 1 + mp.tan(x)**2), (NAN, None), (NAN, None)),
    "asin(a)": (within(-1, 1, mp.asin, lambda x: 1 / mp.sqrt(1 - x * x)), (NAN, None), (NAN, None)),
    "acos(a)": (within(-1, 1, mp.acos, lambda x: -1 / mp.sqrt(1 - x * x)), (NAN, None), (NAN, None)),
    "atan(a)": (lambda x: (mp.atan(x), 1 / (1 + x * x)), (-math.pi / 2, 0), (math.pi / 2, 0)),
    "sinh(a)": (lambda x: (sinh(x), cosh(x)), (-INF, INF), (INF, INF)),
    "cosh(a)": (lambda x: (cosh(x), sinh(x)), (INF, -INF), (INF, INF)),
    "asinh(a)": (lambda x: (mp.asinh(x), 1 / mp.sqrt(1 + x * x) if abs(x) < 1e15 else None), (-INF, 0), (INF, 0)),
    "acosh(a)": (within(1, INF, mp.acosh, lambda x: 1 / mp.sqrt(x * x - 1) if x < 1e15 else None), (NAN, None), (INF, 0)),
    "atanh(a)": (within(-1, 1, lambda x: mp.atanh(x) if abs(x) < 1 else mp.sign(x) * INF, lambda x: 1 / (1 - x * x)), (NAN, None),
                 (NAN, None)),
    "erfinv(a)": (within(-1, 1, lambda x: mp.erfinv(x) if abs(x) < 1 else mp.sign(x) * INF,
                         lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x)**2)), (NAN, None), (NAN, None)),
    "lgamma(a)": (log_gamma, (INF, None), (INF, INF)),
    "floor(a)": (STEP(mp.floor), (-INF, 0), (INF, 0)),
    "ceil(a)": (STEP(mp.ceil), (-INF, 0), (INF, 0)),
    "trunc(a)": (STEP(lambda x: mp.sign(x) * mp.floor(abs(x))), (-INF, 0), (INF, 0)),
    "round(a)": (STEP(lambda x: mpf(round(float(x))) if abs(x) < 2**52 else x), (-INF, 0), (INF, 0)),
    "relu(a)": (lambda x: (max(x, 0), (ONE if x > 0 else mpf(0)) if x else None), (0, 0), (INF, 1)),
    "relu6(a)": (lambda x: (min(max(x, 0), 6), mpf(0 < x < 6) if x else None), (0, 0), (6, 0)),
    "relu_squared(a)": (lambda x: (max(x, 0)**2, 2 * max(x, 0)), (0, 0), (INF, INF)),
    "sigmoid(a)": (lambda x: (sigmoid(x), sigmoid(x) * sigmoid(-x)) if abs(x) < 1e6 else (mpf(x > 0), mpf(0)), (0, 0), (1, 0)),
    "hardsigmoid(a)": (lambda x: (min(max(x / 6 + mpf("0.5"), 0), 1), mpf(-3 < x < 3) / 6), (0, 0), (1, 0)),
    "leaky_relu(a, negative_slope=0.25)": (lambda x: (x if x > 0 else x / 4, (ONE if x > 0 else ONE / 4) if x else None), (-INF, 0.25),
                                           (INF, 1)),
    "hardswish(a)": (lambda x: (x * min(max(x + 3, 0), 6) / 6, mpf(x >= 3) if abs(x) >= 3 else x / 3 + mpf("0.5")), (0, 0), (INF, 1)),
    "silu(a)": (silu, (0, 0), (INF, 1)),
    "mish(a)": (mish, (0, 0), (INF, 1)),
    "gelu(a)": (gelu, (0, 0), (INF, 1)),
    "gelu(a, approximate='tanh')": (tanh_gelu, (0, 0), (INF, 1)),
    "selu(a)": (lambda x: bent(x, *SELU) if x else (mpf(0), None), (-float(SELU[0] * SELU[1]), 0), (INF, float(SELU[0]))),
    "softplus(a)": (lambda x: (softplus(x), sigmoid(x)) if abs(x) < 1e6 else ((x, ONE) if x > 0 else (mpf(0), mpf(0))), (0, 0),
                    (INF, 1)),
    "hardtanh(a)": (lambda x: (min(max(x, -1), 1), mpf(-1 < x < 1) if abs(x) != 1 else None), (-1, 0), (1, 0)),
    "elu(a)": (lambda x: bent(x), (-1, 0), (INF, 1)),
    "celu(a, alpha=2.0)": (lambda x: bent(x, ONE, mpf(2), mpf(2)), (-2, 0), (INF, 1)),
}


def number(x):
    """JSON has no NaN and no infinities."""
    if x is None:
        return None
    value = float(x) if not isinstance(x, mpf) or abs(x) < mpf(2)**1023 else math.copysign(INF, x)
    return value if math.isfinite(value) else str(value)


def rows(reference, low, high):
    found = []
    for size in SIZES:
        for x in (size, -size):
            found.append([x, *map(number, reference(mpf(x)))])
    return found + [["-inf", *map(number, low)], ["inf", *map(number, high)]]


table = {call: rows(*op) for call, op in OPS.items()}
ROWS = {call: ",\n".join(json.dumps(row) for row in found) for call, found in table.items()}
lines = [json.dumps(call) + ": [\n" + found + "\n]" for call, found in ROWS.items()]
pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
