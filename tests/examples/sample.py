"""Expected numbers of draws from given uniform numbers, from PyTorch: python tests/examples/sample.py"""

import math

import torch
from recording import Recording

inf, nan = math.inf, math.nan
record = Recording("sample")
case = record.case

X = [[0.5, -1.0, 2.0, 1.25], [3.0, 0.25, -0.5, 3.0], [-2.0, 1.0, 0.0, 0.75]]
U = [[0.9, 0.2, 0.6, 0.5], [0.3, 0.7, 0.99, 0.4], [0.01, 0.5, 0.75, 0.625]]
ENDS = [[0.5 / 2**23, 1 - 0.5 / 2**23, 0.5, 0.25]]


def gumbel(u):
    return -(-u.log()).log()


def through(value, expectation):
    """The value of the one with the gradient of the other."""
    return expectation + (value - expectation).detach()


def choices():
    case("noise from given numbers", "gumbel_argmax(a, b)", [("f32", X), ("f32", U)],
         lambda x, u: (x + gumbel(u)).argmax(-1), ["i32"], grad=False)
    case("numbers at both ends", "gumbel_argmax(a, b)", [("f32", [[0.0] * 4]), ("f32", ENDS)],
         lambda x, u: (x + gumbel(u)).argmax(-1), ["i32"], grad=False)
    case("logits of -inf", "categorical_sample(a, b)", [("f32", [[-inf, 0.0, -inf, 0.5]]), ("f32", U[:1])],
         lambda x, u: (x + gumbel(u)).argmax(-1), ["i32"], grad=False)
    case("soft", "gumbel_softmax(a, b, c)", [("f32", X), ("f32", 0.7), ("f32", U)],
         lambda x, t, u: ((x + gumbel(u)) / t).softmax(-1))
    case("numbers at both ends", "gumbel_softmax(a, b, c)", [("f32", [[0.0] * 4]), ("f32", 0.7), ("f32", ENDS)],
         lambda x, t, u: ((x + gumbel(u)) / t).softmax(-1), grad=False)

    def hard(x, t, u):
        y = ((x + gumbel(u)) / t).softmax(-1)
        return through(torch.nn.functional.one_hot(y.argmax(-1), 4).double(), y)

    case("hard", "gumbel_softmax(a, b, c, hard=true)", [("f32", X), ("f32", 0.7), ("f32", U)], hard)


def two_values():
    def bits(scale, spins=False):
        def draw(x, u):
            p = (scale * x).sigmoid()
            bit = torch.where(p.isnan(), nan, (u < p).double())
            return through(2 * bit - 1, 2 * p - 1) if spins else through(bit, p)
        # The uniform numbers decide, but nothing is differentiated with respect to them.
        return lambda x, u: draw(x, u.detach())

    case("spins in their field", "sigmoid_bernoulli(a, b)", [("f32", X), ("f32", U)], bits(2))
    case("plain logits", "sigmoid_bernoulli(a, b, scale=1.0)", [("f32", X), ("f32", U)], bits(1))
    case("-1 and 1", "sigmoid_bernoulli(a, b, out=\"spins\")", [("f32", X), ("f32", U)], bits(2, spins=True))
    case("large logits", "sigmoid_bernoulli(a, b)", [("f32", [[100.0, -100.0, inf, -inf]]), ("f32", ENDS)], bits(2))
    case("in bf16", "sigmoid_bernoulli(a, b)", [("bf16", X), ("f32", U)], bits(2), grad=False)
    case("NaN", "sigmoid_bernoulli(a, b)", [("f32", [nan]), ("f32", [0.5])], bits(2), grad=False)
    case("half a gradient", "sigmoid_bernoulli(a, b)", [("f32", [0.0]), ("f32", [0.75])], bits(2))


choices()
two_values()
record.write()
