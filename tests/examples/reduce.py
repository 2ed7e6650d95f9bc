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


def truths():
    mask, numbers = ("bool", [[1, 0, 1], [1, 1, 1], [0, 0, 0]]), ("f32", [[1.0, 0.0, nan], [inf, -1.0, 2.0], [0.0, -0.0, 0.0]])
    for name in ("any", "all"):
        op = getattr(torch, name)
        for operand in (mask, numbers):
            case("along rows", f"{name}(a, axis=1)", [operand], lambda x: op(x, dim=1), ["bool"], grad=False)
            case("over both axes, kept", f"{name}(a, axis=[0, 1], keepdim=true)", [operand],
                 lambda x: op(op(x, dim=0, keepdim=True), dim=1, keepdim=True), ["bool"], grad=False)
        case("of integers", f"{name}(a)", [("i32", [0, -7])], op, ["bool"], grad=False)
        case("of no elements", f"{name}(a, axis=0)", [("f32", torch.zeros(0, 2))], lambda x: op(x, dim=0), ["bool"],
             grad=False)


def scans():
    zeros = [[2.0, 0.0, 3.0, 0.5], [-1.5, 2.0, 0.0, 0.0], [1.0, 0.5, -3.0, 2.0]]
    case("of truth values", "cumsum(a)", [("bool", [1, 0, 1])], lambda x: x.cumsum(0), ["i32"], grad=False)
    case("along columns", "cumprod(a, axis=0)", [("f32", X)], lambda x: x.cumprod(0))
    case("zeros", "cumprod(a)", [("f32", zeros)], lambda x: x.cumprod(-1))
    case("NaN stays", "cumprod(a)", [("f32", HOLES)], lambda x: x.cumprod(-1), grad=False)
    case("of integers", "cumprod(a)", [("i32", [3, -2, 7])], lambda x: x.cumprod(0), grad=False)
    case("in bf16", "cumprod(a)", [("bf16", X)], lambda x: x.cumprod(-1), grad=False)
    for name in ("cummax", "cummin"):
        op, results = getattr(torch, name), ["f32", "i32"]
        case("along rows", f"{name}(a)", [("f32", X)], lambda x: tuple(op(x, 1)), results)
        case("along an inner axis", f"{name}(a, axis=1)", [("f32", T)], lambda x: tuple(op(x, 1)), results)
        case("NaN and infinities", f"{name}(a)", [("f32", HOLES)], lambda x: tuple(op(x, 1)), results, grad=False)
        case("of integers", f"{name}(a)", [("i32", [3, 3, -2, 7])], lambda x: tuple(op(x, 0)), ["i32", "i32"], grad=False)
        case("in f16", f"{name}(a)", [("f16", X)], lambda x: tuple(op(x, 1)), ["f16", "i32"], grad=False)
        case("of no elements", f"{name}(a)", [("f32", torch.zeros(2, 0))], lambda x: tuple(op(x, 1)), results, grad=False)
    far = [[1000.0, -1000.0, 999.0, 1000.5, -inf], [-inf, -inf, 0.5, -1.0, 2.0]]
    case("along rows", "logcumsumexp(a)", [("f32", X)], lambda x: x.logcumsumexp(1))
    case("along an inner axis", "logcumsumexp(a, axis=1)", [("f32", T)], lambda x: x.logcumsumexp(1))
    case("far apart", "logcumsumexp(a)", [("f32", far)], lambda x: x.logcumsumexp(1), grad=False)
    # A small element before a large one keeps its own sums.
    case("from far below", "logcumsumexp(a)", [("f32", [-800.0, -799.0, 900.0, 3.0])], lambda x: x.logcumsumexp(0))
    case("NaN and infinities", "logcumsumexp(a)", [("f32", HOLES)], lambda x: x.logcumsumexp(1), grad=False)
    case("in f16", "logcumsumexp(a)", [("f16", X)], lambda x: x.logcumsumexp(1), grad=False)
    # Equal sums meet in every pass, also of the gradient.
    case("of zeros", "logcumsumexp(a)", [("f32", [0.0] * 8)], lambda x: x.logcumsumexp(0))
    case("of one element", "logcumsumexp(a)", [("f32", [0.5])], lambda x: x.logcumsumexp(0))


def norms():
    vector_norm = torch.linalg.vector_norm
    for p in (2.0, 1.0, 0.0, 3.0, 0.5, 1.5, -1.0, inf, -inf):
        word = f"{p}"
        case(f"p = {word}", f"norm(a, p={word}, axis=1)", [("f32", [X[0], X[1], [4.0, -4.0, 4.0, 0.5]])],
             lambda x: vector_norm(x, p, dim=1))
        case(f"p = {word}, NaN", f"norm(a, p={word}, axis=1)", [("f32", HOLES)], lambda x: vector_norm(x, p, dim=1),
             grad=False)
        case(f"p = {word}, in f16", f"norm(a, p={word})", [("f16", X[0])], lambda x: vector_norm(x, p), grad=False)
    for p in (2.0, 1.0, 0.0, 3.0, 1.5):
        case("zeros", f"norm(a, p={p}, axis=1)", [("f32", [[0.0, 0.0], [0.0, -2.0]])], lambda x: vector_norm(x, p, dim=1))
    case("over two axes, kept", "norm(a, axis=[0, -1], keepdim=true)", [("f32", T)],
         lambda x: vector_norm(x, 2, dim=(0, 2), keepdim=True))
    case("over all", "norm(a, p=3)", [("f32", T)], lambda x: vector_norm(x, 3))
    case("large squares in f16", "norm(a)", [("f16", [300.0, 400.0])], vector_norm, grad=False)
    case("of no elements", "norm(a, axis=1)", [("f32", torch.zeros(2, 0))], lambda x: vector_norm(x, 2, dim=1), grad=False)


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
    case("a row of nothing but -inf", "row_log_sum_exp(a)", [("f32", [[-inf, -inf], [0.5, -1.0]])], guarded)
    case("NaN and infinities", "row_log_sum_exp(a)", [("f32", HOLES)], lambda x: x.logsumexp(1), grad=False)
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
    # Gradients by the weights are none in PyTorch.
    weighed = lambda x, t, w, **more: F.cross_entropy(x, t if t.is_floating_point() else t.long(), weight=w.detach(), **more)
    shares = torch.tensor(X).double().flip(1).softmax(1).float().tolist()
    for reduction in ("mean", "sum", "none"):
        more = {"reduction": reduction}
        word = f"reduction=\"{reduction}\""
        case(f"class weights, {reduction}", f"cross_entropy(a, b, c, ignore_index=-1, {word})", [("f32", X), some, ("f32", w)],
             lambda x, t, w: weighed(x, t, w, ignore_index=-1, **more), grad=False)
        case(f"smoothed, {reduction}", f"cross_entropy(a, b, ignore_index=-1, label_smoothing=0.3, {word})",
             [("f32", X), some], lambda x, t: F.cross_entropy(x, t.long(), ignore_index=-1, label_smoothing=0.3, **more))
        case(f"smoothed, class weights, {reduction}", f"cross_entropy(a, b, c, ignore_index=-1, label_smoothing=0.3, {word})",
             [("f32", X), some, ("f32", w)], lambda x, t, w: weighed(x, t, w, ignore_index=-1, label_smoothing=0.3, **more),
             grad=False)
        case(f"shares of classes, {reduction}", f"cross_entropy(a, b, {word})", [("f32", X), ("f32", shares)],
             lambda x, t: F.cross_entropy(x, t, **more))
        case(f"smoothed shares, class weights, {reduction}", f"cross_entropy(a, b, c, label_smoothing=0.3, {word})",
             [("f32", X), ("f32", shares), ("f32", w)], lambda x, t, w: weighed(x, t, w, label_smoothing=0.3, **more),
             grad=False)
    case("wholly smoothed", "cross_entropy(a, b, label_smoothing=1.0)", [("f32", X), t],
         lambda x, t: F.cross_entropy(x, t.long(), label_smoothing=1.0))
    case("shares in bf16", "cross_entropy(a, b, label_smoothing=0.25)", [("bf16", X), ("bf16", shares)],
         lambda x, t: F.cross_entropy(x, t, label_smoothing=0.25), grad=False)
    case("class weights", "nll_loss(a, b, c, ignore_index=-1)", [("f32", X), some, ("f32", w)],
         lambda x, t, w: F.nll_loss(x, t.long(), weight=w.detach(), ignore_index=-1), grad=False)

    def byte_mean(x, t, n):
        weight = torch.where(t >= 0, n[t.long().clamp(min=0)], 0).double()
        rows = F.cross_entropy(x, t.long(), ignore_index=-1, reduction="none")
        return (rows * weight).sum() / weight.sum().clamp(min=1)

    case("bytes", "cross_entropy(a, b, c, ignore_index=-1, reduction=\"byte_mean\")",
         [("f32", X), some, ("i32", [1, 2, 3, 4])], byte_mean)
    case("no bytes", "cross_entropy(a, b, c, reduction=\"byte_mean\")", [("f32", X), t, ("i32", [0, 0, 0, 0])], byte_mean)


def comparisons():
    # The first difference is 0, the second exactly the bend of Huber's loss.
    y = [[0.5, 0.0, -2.0, 1.0], [0.0, 1.25, 1.0, -1.0], [2.0, -0.5, 0.75, 0.25]]
    for name, op, more in (("mse_loss", F.mse_loss, {}), ("l1_loss", F.l1_loss, {}), ("huber_loss", F.huber_loss, {}),
                           ("huber_loss", F.huber_loss, {"delta": 0.25})):
        settings = "".join(f", {key}={value}" for key, value in more.items())
        for reduction in ("mean", "sum", "none"):
            case(reduction, f"{name}(a, b, reduction=\"{reduction}\"{settings})", [("f32", X), ("f32", y)],
                 lambda x, t: op(x, t, reduction=reduction, **more))
        case("in bf16", f"{name}(a, b{settings})", [("bf16", X), ("bf16", y)], lambda x, t: op(x, t, **more), grad=False)
    case("of nothing", "mse_loss(a, b)", [("f32", []), ("f32", [])], F.mse_loss)

    side = [[1.0, -1.0, 1.0, 1.0], [-1.0, -1.0, 1.0, 1.0], [1.0, 1.0, -1.0, -1.0]]
    for margin in (1.0, 0.25):
        for reduction in ("mean", "sum", "none"):
            case(reduction, f"hinge_loss(a, b, margin={margin}, reduction=\"{reduction}\")", [("f32", X), ("f32", side)],
                 lambda x, t: reduced((margin - t * x).clamp(min=0), reduction))


def reduced(losses, reduction):
    return {"mean": losses.mean, "sum": losses.sum, "none": losses.clone}[reduction]()


def probabilities():
    logits = [[0.0, -1.0, 2.0, 1000.0], [3.0, -1000.0, 20.0, -20.0], [-2.0, 1000.0, -1000.0, 0.75]]
    p = [[0.25, 0.5, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.75, 0.0, 1.0, 0.125]]
    bce = F.binary_cross_entropy_with_logits
    for reduction in ("mean", "sum", "none"):
        case(reduction, f"bce_with_logits(a, b, reduction=\"{reduction}\")", [("f32", logits), ("f32", p)],
             lambda x, t: bce(x, t, reduction=reduction))
    case("in f16", "bce_with_logits(a, b)", [("f16", X), ("f16", p)], lambda x, t: bce(x, t), grad=False)

    def weighed(x, t, w):
        losses = w * t * F.softplus(-x, threshold=1e4) + (1 - t) * F.softplus(x, threshold=1e4)
        assert torch.allclose(losses, bce(x, t, pos_weight=w.detach(), reduction="none"))
        return losses

    case("a weight for each class", "bce_with_logits(a, b, c, reduction=\"none\")",
         [("f32", X), ("f32", p), ("f32", [0.5, 2.0, 1.0, 3.0])], weighed)
    case("one weight, averaged", "bce_with_logits(a, b, c)", [("f32", X), ("f32", p), ("f32", 3.0)],
         lambda *operands: weighed(*operands).mean())

    log_p = torch.tensor(X).double().log_softmax(1).float().tolist()
    q = torch.tensor(X).double().flip(1).softmax(1).float().tolist()
    log_q = torch.tensor(X).double().flip(1).log_softmax(1).float().tolist()
    for reduction in ("mean", "sum", "none", "batchmean"):
        case(reduction, f"kl_div(a, b, reduction=\"{reduction}\")", [("f32", log_p), ("f32", q)],
             lambda x, t: F.kl_div(x, t, reduction=reduction))
        case(reduction + ", of logarithms", f"kl_div(a, b, log_target=true, reduction=\"{reduction}\")",
             [("f32", log_p), ("f32", log_q)], lambda x, t: F.kl_div(x, t, log_target=True, reduction=reduction))
    # PyTorch's gradient by a target of 0 is NaN; ours is -x.
    case("a target of 0", "kl_div(a, b, reduction=\"sum\")", [("f32", [[-0.25, -1.5]]), ("f32", [[1.0, 0.0]])],
         lambda x, t: F.kl_div(x, t, reduction="sum"), grad=False)


def rows():
    p = [[0.5, -0.5, 2.0, 1.0], [1.0, 0.25, 0.5, 1.0], [2.0, -0.5, 0.75, 0.25]]
    n = [[1.0, 0.5, -2.0, 3.0], [3.0, 1.25, -0.5, 2.0], [-1.0, 1.5, 0.0, 0.25]]
    triplet = [("f32", X), ("f32", p), ("f32", n)]
    for reduction in ("mean", "sum", "none"):
        case(reduction, f"triplet_loss(a, b, c, reduction=\"{reduction}\")", triplet,
             lambda a, p, n: F.triplet_margin_loss(a, p, n, reduction=reduction))
    case("another margin", "triplet_loss(a, b, c, margin=4.0, eps=0.125)", triplet,
         lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=4.0, eps=0.125))
    case("equal rows", "triplet_loss(a, b, c, eps=0.25)", [("f32", X), ("f32", X), ("f32", p)],
         lambda a, p, n: F.triplet_margin_loss(a, p, n, eps=0.25))
    case("in bf16", "triplet_loss(a, b, c)", [("bf16", t) for _, t in triplet], F.triplet_margin_loss, grad=False)

    def pairs(x, y, t, margin=1.0, reduction="mean"):
        d = F.pairwise_distance(x, y)
        return reduced(0.5 * (t * d ** 2 + (1 - t) * (margin - d).clamp(min=0) ** 2), reduction)

    pair = [("f32", X), ("f32", p), ("f32", [1.0, 0.0, 0.0])]
    for reduction in ("mean", "sum", "none"):
        case(reduction, f"contrastive_loss(a, b, c, margin=5.0, reduction=\"{reduction}\")", pair,
             lambda x, y, t: pairs(x, y, t, 5.0, reduction))
    case("beyond the margin", "contrastive_loss(a, b, c)", pair, pairs)


def scalars():
    """A scalar has the axes 0 and -1."""
    x = [("f32", -2.5)]
    plain = {"sum": torch.sum, "mean": torch.mean, "prod": torch.prod, "amax": torch.amax, "amin": torch.amin,
             "log_sum_exp": torch.logsumexp, "softmax": torch.softmax, "log_softmax": torch.log_softmax,
             "cumsum": torch.cumsum, "cumprod": torch.cumprod, "logcumsumexp": torch.logcumsumexp}
    for name, op in plain.items():
        for axis in (0, -1):
            case("of a scalar", f"{name}(a, axis={axis})", x, lambda x, op=op, axis=axis: op(x, axis))
    for name in ("sum", "amax"):
        case("of a scalar, kept", f"{name}(a, axis=0, keepdim=true)", x,
             lambda x, name=name: getattr(torch, name)(x, 0, keepdim=True))
    for name in ("max", "min", "cummax", "cummin"):
        case("of a scalar", f"{name}(a, axis=0)", x, lambda x, name=name: tuple(getattr(torch, name)(x, 0)), ["f32", "i32"])
    for name in ("argmax", "argmin"):
        case("of a scalar", f"{name}(a, axis=-1)", x, lambda x, name=name: getattr(torch, name)(x, -1), ["i32"], grad=False)
    case("of a scalar", "norm(a, axis=0)", x, lambda x: torch.linalg.vector_norm(x, dim=0))
    case("of a scalar", "var(a, axis=0, correction=0)", x, lambda x: torch.var(x, 0, correction=0))


reductions()
indices()
truths()
scans()
norms()
buffers()
softmaxes()
losses()
comparisons()
probabilities()
rows()
scalars()
record.write()
