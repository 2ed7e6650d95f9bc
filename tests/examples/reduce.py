"""Expected numbers of reductions, softmax and losses, from PyTorch: python tests/examples/reduce.py"""

import math

import torch
import torch.nn.functional as F
from recording import Recording

inf, nan = math.inf, math.nan
record = Recording("reduce")
case = record.case

T = [[[0.5, -1.0, 2.0], [2.0, 2.0, -3.0]], [[0.25, 4.0, 1.5], [-0.5, -2.0, 0.75]]]
X = [[0.5, -1.0, 2.0, 1.25], [3.0, 0.25, -0.5, 3.0], [-2.0, 1.0, 0.0, 0.75]]
HOLES = [[1.0, nan, 3.0], [-inf, 2.0, inf], [-inf, -inf, -inf]]


def reductions():
    for name in ("sum", "mean", "amax", "amin", "prod", "var", "std", "log_sum_exp"):
        torch_name = {"log_sum_exp": "logsumexp"}.get(name, name)
        more = {"correction": 0} if name in ("var", "std") else {}
        op = getattr(torch, torch_name)
        case("along the last axis", f"{name}(a, axis=-1)", [("f32", T)], lambda x: op(x, dim=-1, **more))
        case("along an inner axis, kept", f"{name}(a, axis=1, keepdim=true)", [("f32", T)],
             lambda x: op(x, dim=1, keepdim=True, **more))
        case("NaN and infinities", f"{name}(a, axis=1)", [("f32", HOLES)], lambda x: op(x, dim=1, **more), grad=False)
        case("in bf16", f"{name}(a, axis=1)", [("bf16", X)], lambda x: op(x, dim=1, **more), grad=False)
        if name != "prod":
            case("over two axes", f"{name}(a, axis=[0, -1])", [("f32", T)], lambda x: op(x, dim=(0, 2), **more))
            case("over all", f"{name}(a)", [("f32", T)], lambda x: op(x, dim=(0, 1, 2), **more))
    case("with two zeros in a row", "prod(a, axis=1)", [("f32", [[2.0, 0.0, 3.0], [0.0, 0.0, 5.0]])],
         lambda x: x.prod(dim=1))
    case("of truth values", "sum(a, axis=0)", [("bool", [[1, 0], [1, 0]])], lambda x: x.sum(0), ["i32"], grad=False)
    case("of integers", "sum(a)", [("i32", [5, -7, 3])], torch.sum, grad=False)
    case("of truth values", "mean(a, axis=0)", [("bool", [[1, 0], [1, 1]])], lambda x: x.double().mean(0), ["f32"],
         grad=False)
    case("of bytes", "mean(a)", [("u8", [255, 254])], lambda x: x.double().mean(), ["f32"], grad=False)
    case("of a sample", "std(a, axis=1, correction=1)", [("f32", X)], lambda x: x.std(dim=1))
    case("norms", "rowwise_l2_norm(a)", [("f32", X + [[0.0] * 4])], lambda x: x.norm(dim=1))
    case("along columns", "rowwise_l2_norm(a, axis=0)", [("f32", X)], lambda x: x.norm(dim=0))
    case("large squares in f16", "rowwise_l2_norm(a)", [("f16", [[300.0, 400.0]])], lambda x: x.norm(dim=1), grad=False)


def indices():
    for name in ("max", "min"):
        op = getattr(torch, name)
        case("value and index", f"{name}(a, axis=1)", [("f32", X)], lambda x: tuple(op(x, dim=1)), ["f32", "i32"])
        case("kept, along columns", f"{name}(a, axis=0, keepdim=true)", [("f32", X)],
             lambda x: tuple(op(x, dim=0, keepdim=True)), ["f32", "i32"])
        case("NaN and infinities", f"{name}(a, axis=1)", [("f32", HOLES)], lambda x: tuple(op(x, dim=1)),
             ["f32", "i32"], grad=False)
        arg = getattr(torch, "arg" + name)
        case("NaN and infinities", f"arg{name}(a, axis=1)", [("f32", HOLES)], lambda x: arg(x, dim=1), ["i32"],
             grad=False)
        case("of all", f"arg{name}(a)", [("f32", X)], arg, ["i32"], grad=False)
    case("along columns", "cumsum(a, axis=0)", [("f32", X)], lambda x: x.cumsum(0))
    case("NaN stays", "cumsum(a)", [("f32", HOLES)], lambda x: x.cumsum(-1), grad=False)


def buffers():
    def four(x):
        return x.mean(), x.std(correction=0), x.min(), x.max()

    four_floats = ["f32"] * 4
    case("of all", "statistics(a)", [("f32", X)], four, four_floats, grad=False)
    for n in (1, 5, 12):
        case(f"of the first {n}", "statistics(a, b)", [("f32", X), ("i32", n)], lambda x, n: four(x.flatten()[:n]),
             four_floats, grad=False)
    case("of more than there are", "statistics(a, b)", [("f32", X), ("i32", 99)], lambda x, n: four(x), four_floats,
         grad=False)


def softmaxes():
    # PyTorch's gradient of a row of nothing but -inf is NaN; ours is 0.
    def guarded(x):
        empty = (x == -inf).all(dim=1, keepdim=True)
        return torch.where(empty[:, 0], -inf, torch.where(empty, 0.0, x).logsumexp(1))

    case("a row of nothing but -inf", "log_sum_exp(a, axis=1)", [("f32", [[-inf, -inf], [0.5, -1.0]])], guarded)
    for name in ("softmax", "log_softmax"):
        op = getattr(torch, name)
        case("along the last axis", f"{name}(a)", [("f32", X)], lambda x: op(x, dim=-1))
        case("along an inner axis", f"{name}(a, axis=1)", [("f32", T)], lambda x: op(x, dim=1))
        case("large logits", f"{name}(a)", [("f32", [[1000.0, 999.0, -1000.0]])], lambda x: op(x, dim=1))
        case("NaN and infinities", f"{name}(a)", [("f32", HOLES)], lambda x: op(x, dim=1), grad=False)
        case("in f16", f"{name}(a)", [("f16", X)], lambda x: op(x, dim=1), grad=False)


def losses():
    t = ("i32", [2, 0, 3])
    some = ("i64", [2, -1, 3])
    for name, op, x in (("cross_entropy", F.cross_entropy, X),
                        ("nll_loss", F.nll_loss, torch.tensor(X).double().log_softmax(1).float().tolist())):
        for reduction in ("mean", "sum", "none"):
            case(reduction, f"{name}(a, b, reduction=\"{reduction}\")", [("f32", x), t],
                 lambda x, t: op(x, t.long(), reduction=reduction))
            case(reduction + ", a row ignored", f"{name}(a, b, ignore_index=-1, reduction=\"{reduction}\")",
                 [("f32", x), some], lambda x, t: op(x, t.long(), reduction=reduction, ignore_index=-1))
        # PyTorch's mean of nothing is NaN; ours is 0 unless asked for NaN.
        none = ("i32", [-1, -1, -1])
        case("all rows ignored", f"{name}(a, b, ignore_index=-1)", [("f32", x), none], lambda x, t: (x * 0).sum())
        case("all rows ignored", f"{name}(a, b, ignore_index=-1, empty=\"nan\")", [("f32", x), none],
             lambda x, t: op(x, t.long(), ignore_index=-1), grad=False)
        case("in bf16", f"{name}(a, b)", [("bf16", x), t], lambda x, t: op(x, t.long()), grad=False)
    case("large logits, a target of bytes", "cross_entropy(a, b)", [("f32", [[1000.0, 0.0], [-1000.0, 1000.0]]),
         ("u8", [1, 1])], lambda x, t: F.cross_entropy(x, t.long()))
    w = [0.5, 2.0, 1.0, 3.0]
    case("class weights", "nll_loss(a, b, c, ignore_index=-1)", [("f32", X), some, ("f32", w)],
         lambda x, t, w: F.nll_loss(x, t.long(), weight=w.detach(), ignore_index=-1), grad=False)

    def byte_mean(x, t, n):
        weight = torch.where(t >= 0, n[t.long().clamp(min=0)], 0).double()
        rows = F.cross_entropy(x, t.long(), ignore_index=-1, reduction="none")
        return (rows * weight).sum() / weight.sum().clamp(min=1)

    case("bytes", "cross_entropy(a, b, c, ignore_index=-1, reduction=\"byte_mean\")",
         [("f32", X), some, ("i32", [1, 2, 3, 4])], byte_mean)
    case("no bytes", "cross_entropy(a, b, c, reduction=\"byte_mean\")", [("f32", X), t, ("i32", [0, 0, 0, 0])], byte_mean)


reductions()
indices()
buffers()
softmaxes()
losses()
record.write()
