"""The rational functions of `lgamma` and `atan`, fitted to mpmath's values with the least relative error.

Run `python tests/examples/rationals.py` (with mpmath installed) to print their errors and coefficients.
"""

import mpmath as mp

mp.mp.dps = 50


def fit(function, m, n, a, b):
    """Least squares, reweighted by the last denominator and by the errors, so that the errors become even."""
    count = 6 * (m + n + 1)
    xs = [(a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    values, weights, below, best = [function(x) for x in xs], [mp.mpf(1)] * count, [mp.mpf(1)] * count, None
    for _ in range(14):
        scale = [w / (q * f) for w, q, f in zip(weights, below, values)]
        rows = mp.matrix([[s * x**k for k in range(m + 1)] + [-s * f * x**k for k in range(1, n + 1)]
                          for s, x, f in zip(scale, xs, values)])
        found = list(mp.lu_solve(rows, mp.matrix([s * f for s, f in zip(scale, values)])))
        upper, lower = found[m::-1], found[:m:-1] + [mp.mpf(1)]
        below = [mp.polyval(lower, x) for x in xs]
        errors = [abs(mp.polyval(upper, x) / q / f - 1) for x, q, f in zip(xs, below, values)]
        best = min(best or (mp.inf,), (max(errors), upper, lower))
        weights = [w * mp.sqrt(error) for w, error in zip(weights, errors)]
        weights = [w * count / sum(weights) for w in weights]
    return best


def beside_roots(x):
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def of_square(z):
    return mp.atan(mp.sqrt(z)) / mp.sqrt(z)


for name, *task in (("ln gamma(x) / ((x - 1)(x - 2))", beside_roots, 4, 5, mp.mpf("0.5"), mp.mpf(3)),
                    ("atan(√z) / √z", of_square, 4, 4, mp.mpf(0), mp.mpf(1))):
    error, upper, lower = fit(*task)
    print(name, mp.nstr(error, 3), *([float(x) for x in part] for part in (upper, lower)), sep="\n")
