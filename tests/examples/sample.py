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


def tokens():
    """Cut down and decided one candidate after the other, in falling order."""
    def kept(row, top_k, top_p, min_p):
        order = sorted(range(len(row)), key=lambda t: (-row[t], t))[:top_k or len(row)]
        share = [math.exp(row[t] - row[order[0]]) for t in order]
        share = [s / sum(share) for s in share]
        if (top_k or len(row)) >= len(row) and top_p == 1 and min_p == 0:
            order, share = zip(*sorted(zip(order, share)))
        before = 0.0
        out = []
        for i, (t, s) in enumerate(zip(order, share)):
            if (before < top_p or i == 0) and s >= min_p * share[0]:
                out.append((t, s))
            before += s
        return out

    def draw(temperature=1.0, top_k=None, top_p=1.0, min_p=0.0):
        def reference(x, u):
            picked = []
            for row, numbers in zip(x.tolist(), u.tolist()):
                left = kept([v / temperature for v in row], top_k, top_p, min_p)
                total = sum(s for _, s in left)
                for number in numbers:
                    so_far = 0.0
                    for t, s in left:
                        so_far += s
                        if so_far > number * total:
                            break
                    picked.append(t)
            return torch.tensor(picked).reshape(u.shape)
        return reference

    n = [[0.05 + 0.1 * i for i in range(10)]] * 3
    for call, settings in (("", {}), ("temperature=0.5, ", {"temperature": 0.5}), ("top_k=2, ", {"top_k": 2}),
                           ("top_k=99, ", {"top_k": 99}), ("top_p=0.6, ", {"top_p": 0.6}), ("top_p=0.0, ", {"top_p": 0.0}),
                           ("min_p=0.4, ", {"min_p": 0.4}),
                           ("temperature=2.0, top_k=3, top_p=0.7, min_p=0.1, ",
                            {"temperature": 2.0, "top_k": 3, "top_p": 0.7, "min_p": 0.1})):
        case("ten draws", f"sample_logits(a, b, {call}num_samples=10)", [("f32", X), ("f32", n)], draw(**settings), ["i32"],
             grad=False)
    case("greedy", "sample_logits(a, b, temperature=0.0, num_samples=10)", [("f32", X), ("f32", n)],
         lambda x, u: x.argmax(1, keepdim=True).expand(3, 10), ["i32"], grad=False)
    case("some tokens at -inf", "sample_logits(a, b, num_samples=10)", [("f32", [[-inf, 0.5, -inf, 1.0, -inf]]), ("f32", n[:1])],
         draw(), ["i32"], grad=False)
    case("numbers at both ends", "sample_logits(a, b, num_samples=4)", [("f32", [[-inf, 0.5, -inf, 1.0, -inf]]), ("f32", ENDS)],
         draw(), ["i32"], grad=False)


choices()
two_values()
tokens()
record.write()
