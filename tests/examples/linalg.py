"""Expected numbers of linear algebra, from PyTorch: python tests/examples/linalg.py"""

import math

import torch
from recording import Recording

record = Recording("linalg")
case = record.case


def wave(*shape, seed=0.0):
    """sin(2.3 i + 0.37 i² + seed), to two digits. Without the square, the rank would be two."""
    n = torch.arange(math.prod(shape), dtype=torch.float64)
    return (n * 2.3 + n * n * 0.37 + seed).sin().mul(100).round().div(100).reshape(shape)


def definite(*shape, seed=0.0):
    x = wave(*shape, seed=seed)
    return x @ x.mT + torch.eye(shape[-1], dtype=torch.float64)


def dominant(*shape, seed=0.0):
    """Far from singular; the largest elements are not on the diagonal."""
    return wave(*shape, seed=seed) + 3 * torch.eye(shape[-1], dtype=torch.float64).roll(1, -1)


def cholesky():
    for dtype in ("f32", "f64"):
        case("of one matrix", "cholesky(a)", [(dtype, definite(4, 4))], torch.linalg.cholesky)
    case("of a batch", "cholesky(a)", [("f32", definite(2, 3, 3))], torch.linalg.cholesky)
    case("of a number", "cholesky(a)", [("f32", [[6.25]])], torch.linalg.cholesky)
    case("of more rows than a warp has threads", "cholesky(a)", [("f32", definite(33, 33))], torch.linalg.cholesky,
         grad=False)


def triangular():
    for lower in (True, False):
        flag = str(lower).lower()
        solve = lambda a, b, lower=lower: torch.linalg.solve_triangular(a, b, upper=not lower)
        for dtype in ("f32", "f64"):
            case("of one matrix", f"solve_triangular(a, b, lower={flag})",
                 [(dtype, definite(3, 3)), (dtype, wave(3, 2, seed=1))], solve)
        case("of a batch", f"solve_triangular(a, b, lower={flag})",
             [("f32", definite(2, 3, 3)), ("f32", wave(2, 3, 1, seed=1))], solve)


def solve():
    for dtype in ("f32", "f64"):
        case("of one matrix", "solve(a, b)", [(dtype, dominant(4, 4)), (dtype, wave(4, 2, seed=1))], torch.linalg.solve)
    case("of one right-hand side", "solve(a, b)", [("f32", dominant(4, 4)), ("f32", wave(4, seed=1))],
         torch.linalg.solve)
    case("of a batch", "solve(a, b)", [("f32", dominant(2, 3, 3)), ("f32", wave(2, 3, 2, seed=1))], torch.linalg.solve)
    case("of a batch of right-hand sides", "solve(a, b)", [("f32", dominant(2, 3, 3)), ("f32", wave(2, 3, seed=1))],
         lambda a, b: torch.linalg.solve(a, b[..., None])[..., 0])
    case("of more rows than a warp has threads", "solve(a, b)", [("f32", dominant(33, 33)), ("f32", wave(33, 1))],
         torch.linalg.solve, grad=False)


def inverse():
    for dtype in ("f32", "f64"):
        case("of one matrix", "inverse(a)", [(dtype, dominant(4, 4))], torch.linalg.inv)
    case("of a batch", "inverse(a)", [("f32", dominant(2, 2, 2))], torch.linalg.inv)
    case("of a number", "inverse(a)", [("f32", [[-8.0]])], torch.linalg.inv)


def signed(columns, *others):
    """The element of largest magnitude in each column becomes positive; columns of others are turned alike."""
    place = columns.abs().argmax(-2, keepdim=True)
    sign = columns.gather(-2, place).sign().detach()
    return (columns * sign, *(other * sign for other in others))


def svd_of(x, rank=None):
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    u, v = signed(u, v.mT)
    return u[..., :rank], s[..., :rank], v[..., :rank].mT


def svd():
    for dtype in ("f32", "f64"):
        for shape in ((3, 3), (4, 2), (2, 4)):
            case("of all singular values", "svd(a)", [(dtype, wave(*shape, seed=1))], svd_of, [dtype] * 3)
    case("of the largest singular value", "svd(a, rank=1)", [("f32", wave(4, 3, seed=1))], lambda x: svd_of(x, 1),
         ["f32"] * 3)
    case("of a batch", "svd(a)", [("f32", wave(2, 3, 2, seed=1))], svd_of, ["f32"] * 3)
    # The last singular value is rounding alone, so it and its vector on the longer side are 0.
    def of_rank_two(x):
        u, s, v = svd_of(x)
        keep = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
        return u, s * keep, v * keep[:, None]

    case("of rank two", "svd(a)", [("f32", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])], of_rank_two,
         ["f32"] * 3, grad=False)
    case("of a number", "svd(a)", [("f32", [[-3.0]])], lambda x: (x * 0 + 1, x[0].abs(), x * 0 - 1), ["f32"] * 3,
         grad=False)
    case("of rows that one thread does not turn alone", "svd(a)", [("f32", wave(34, 9))], svd_of, ["f32"] * 3,
         grad=False)


def eigh():
    def of(x):
        w, v = torch.linalg.eigh((x + x.mT) / 2)
        return w, signed(v)[0]

    for dtype in ("f32", "f64"):
        case("of a symmetric part", "eigh(a)", [(dtype, wave(4, 4, seed=1))], of, [dtype] * 2)
    case("of a batch", "eigh(a)", [("f32", definite(2, 3, 3) - 1.5)], of, ["f32"] * 2)


def qr():
    def of(x):
        q, r = torch.linalg.qr(x)
        sign = r.diagonal(dim1=-2, dim2=-1).sign().detach()
        return q * sign[..., None, :], r * sign[..., :, None]

    for dtype in ("f32", "f64"):
        for shape in ((3, 3), (5, 2)):
            case("of one matrix", "qr(a)", [(dtype, wave(*shape, seed=1))], of, [dtype] * 2)
    case("of a batch", "qr(a)", [("f32", wave(2, 4, 3, seed=1))], of, ["f32"] * 2)


def fft():
    def complex_of(name, **settings):
        transform = getattr(torch.fft, name)
        return lambda x: torch.view_as_real(transform(torch.view_as_complex(x), **settings))

    def spelled(settings):
        words = {"dim": "axis", "n": "n", "s": "n", "norm": "norm"}
        shown = lambda v: f'"{v}"' if isinstance(v, str) else str(v)
        return "".join(f", {words[key]}={shown(value)}" for key, value in settings.items())

    for n in (1, 2, 3, 4, 5, 8, 12, 14):
        for name in ("fft", "ifft"):
            case(f"of {n} numbers", f"{name}(a)", [("f64", wave(n, 2, seed=1))], complex_of(name))
    case("of a prime number of numbers", "fft(a)", [("f64", wave(67, 2, seed=1))], complex_of("fft"))
    for dtype in ("f32", "f64"):
        case("of 100 numbers", "fft(a)", [(dtype, wave(100, 2, seed=1))], complex_of("fft"), grad=False)
    case("of two times a prime", "ifft(a)", [("f32", wave(2, 134, 2, seed=1))], complex_of("ifft"), grad=False)
    for settings in ({"norm": "ortho"}, {"norm": "forward"}, {"n": 6}, {"n": 3}, {"dim": 0}, {"dim": -2, "n": 4}):
        for name in ("fft", "ifft"):
            case("of a batch", f"{name}(a{spelled(settings)})", [("f32", wave(3, 4, 2, seed=2))],
                 complex_of(name, **settings))
    for settings in ({"dim": [0, 1]}, {"dim": [1, 2], "norm": "ortho"}, {"dim": [0, 2], "s": [4, 3]}):
        case("of several axes", f"fft(a{spelled(settings)})", [("f32", wave(2, 3, 4, 2, seed=3))],
             complex_of("fftn", **settings))
        case("of several axes", f"ifft(a{spelled(settings)})", [("f32", wave(2, 3, 4, 2, seed=3))],
             complex_of("ifftn", **settings))
        case("of real numbers", f"rfft(a{spelled(settings)})", [("f32", wave(2, 3, 4, seed=3))],
             lambda x, settings=settings: torch.view_as_real(torch.fft.rfftn(x, **settings)))
    for settings in ({}, {"n": 6}, {"n": 5}, {"n": 2}, {"norm": "ortho"}, {"dim": 0}, {"dim": 0, "norm": "forward"}):
        case("of a batch of real numbers", f"rfft(a{spelled(settings)})", [("f32", wave(5, 4, seed=3))],
             lambda x, settings=settings: torch.view_as_real(torch.fft.rfft(x, **settings)))
        case("a batch of real numbers", f"irfft(a{spelled(settings)})", [("f32", wave(5, 4, 2, seed=3))],
             lambda x, settings=settings: torch.fft.irfft(torch.view_as_complex(x), **settings))
    for settings in ({"dim": [0, 1]}, {"dim": [1, 0], "norm": "ortho"}, {"dim": [0, 1], "s": [4, 3]}):
        case("real numbers along several axes", f"irfft(a{spelled(settings)})", [("f64", wave(3, 4, 2, seed=4))],
             lambda x, settings=settings: torch.fft.irfftn(torch.view_as_complex(x), **settings))
    case("of a prime number of real numbers", "rfft(a)", [("f32", wave(71, seed=1))],
         lambda x: torch.view_as_real(torch.fft.rfft(x)), grad=False)
    case("that broadcast", "complex_mul(a, b)", [("f32", wave(3, 1, 2)), ("f32", wave(2, 2, seed=1))],
         lambda a, b: torch.view_as_real(torch.view_as_complex(a) * torch.view_as_complex(b)))


for write in (cholesky, triangular, solve, inverse, qr, svd, eigh, fft):
    write()
record.write()
