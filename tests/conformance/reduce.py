"""Cases of reductions, scans and losses: `python tests/conformance/reduce.py` writes reduce.json."""

import torch
import torch.nn.functional as F

from peers import FLOATS, INTS, SIGNED, TRANSPOSED, UNSIGNED, case, grid, inf, ints, more, nan, op, t, truths, write

HOLES = t([[1.0, nan, 2.0], [inf, 1.0, 0.5], [-inf, 0.5, -1.0], [inf, -inf, 0.0]])
# Squares of these are within single precision.
LARGE = t([[2.0**60, -(2.0**59), 1.0], [2.0**-60, 2.0**-61, 0.0]])
TIES = t([[1.0, 2.0, 2.0, -1.0], [0.5, 0.5, 0.5, 0.5]])


def along(function, multiple=True):
    """A reduction of PyTorch along an axis, several axes or all."""

    def of(x, axis=None, keepdim=False, **more):
        if axis is None:
            found = function(x, tuple(range(x.dim())) if multiple else None, keepdim, **more)
            return found
        return function(x, tuple(axis) if isinstance(axis, list) else axis, keepdim, **more)

    return of


def reduction(name, peer, function, low=-2.0, empty=True, integers=(), whole=True, multiple=True, **options):
    of, numbers = along(function, multiple), dict(low=low, **options)
    cases = [
        case("last axis", grid(3, 5, **numbers), axis=1, whole=whole),
        case("first axis, kept", grid(3, 5, **numbers), axis=0, keepdim=True, whole=whole),
        case("all", grid(2, 3, 4, **numbers), whole=whole),
        case("inner axis", grid(2, 3, 4, seed=1, **numbers), axis=1, whole=whole),
        case("scalar", grid(**numbers)),
        case("transposed", grid(3, 5, seed=2, **numbers), axis=1, view=TRANSPOSED, whole=whole),
        case("long rows", grid(2, 100, **numbers), axis=1, whole=whole),
        case("no rows", grid(0, 3), axis=1),
    ]
    if multiple:
        cases.append(case("two axes", grid(2, 3, 4, seed=3, **numbers), axis=[0, -1], whole=whole))
    if empty:
        cases.append(case("empty rows", grid(3, 0), axis=1, grad=False))
    cases.append(case("NaN and infinities", HOLES, axis=1, grad=False))
    cases.append(case("large and small", LARGE, axis=1, grad=False, whole=True, types=("f32", "f64", "bf16")))
    if integers:
        cases += [
            case("integers", ints(3, 4, high=5), axis=1, types=integers, grad=False),
            case(
                "negative integers", ints(3, 4, low=-9), axis=0, types=[x for x in integers if x[0] == "i"], grad=False
            ),
        ]
    op(name, peer, of, *cases)


reduction("sum", "torch.sum", lambda x, d, k: x.sum(d, k), integers=INTS[:3])
reduction("mean", "torch.mean", lambda x, d, k: x.mean(d, k))
reduction("amax", "torch.amax", lambda x, d, k: x.amax(d, k), empty=False, step=1 / 32, integers=INTS)
reduction("amin", "torch.amin", lambda x, d, k: x.amin(d, k), empty=False, step=1 / 32, integers=INTS)
reduction("var", "torch.var", lambda x, d, k: x.var(d, correction=0, keepdim=k))
reduction("std", "torch.std", lambda x, d, k: x.std(d, correction=0, keepdim=k))
reduction("log_sum_exp", "torch.logsumexp", lambda x, d, k: x.logsumexp(d, k), empty=False)


def whole_prod(x, axis=None, keepdim=False):
    return x.prod() if axis is None else x.prod(axis, keepdim)


op(
    "prod",
    "torch.prod",
    whole_prod,
    case("last axis", grid(3, 5), axis=1, whole=True),
    case("first axis, kept", grid(3, 5, seed=1), axis=0, keepdim=True, whole=True),
    case("all", grid(2, 3, avoid=(0,))),
    case("zeros", t([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0]]), axis=1),
    case("empty rows", grid(3, 0), axis=1),
    case("scalar", grid()),
    case("transposed", grid(3, 4), axis=1, view=TRANSPOSED, whole=True),
    case("NaN and infinities", HOLES, axis=1, grad=False),
    case("integers", ints(3, 3, high=5), axis=1, types=INTS[:3], grad=False),
)

for name in ("any", "all"):
    function = getattr(torch, name)
    op(
        name,
        f"torch.{name}",
        lambda x, axis=None, f=function: f(x) if axis is None else f(x, dim=axis),
        case("truth values", truths(3, 4), axis=1, types=["bool"], grad=False),
        case("all of them", truths(3, 4), types=["bool"], grad=False),
        case("floats", t([[1.0, 0.0, nan], [inf, -1.0, 2.0], [0.0, -0.0, 0.0]]), axis=1, grad=False),
        case("integers", ints(3, 4, high=1), axis=0, types=INTS, grad=False),
        case("empty rows", truths(3, 0), axis=1, types=["bool"], grad=False),
        case("no rows", truths(0, 3), axis=1, types=["bool"], grad=False),
        case("transposed", truths(3, 4), axis=1, types=["bool"], grad=False, view=TRANSPOSED),
    )

for name in ("max", "min"):
    function, of_all = getattr(torch, name), getattr(torch, "arg" + name)

    def both(x, axis=None, keepdim=False, f=function, a=of_all):
        return (f(x), a(x)) if axis is None else tuple(f(x, axis, keepdim))

    number = lambda x, axis=None, keepdim=False, a=of_all: a(x, axis, keepdim)
    op(
        name,
        f"torch.{name}",
        both,
        case("last axis", grid(3, 5, step=1 / 32), axis=1),
        case("all", grid(2, 7, step=1 / 32)),
        case("first axis, kept", grid(3, 5, step=1 / 32), axis=0, keepdim=True),
        case("transposed", grid(3, 5), axis=1, view=TRANSPOSED),
        case("ties", TIES, axis=1, grad=False),
        case("NaN and infinities", HOLES, axis=1, grad=False),
        case("no rows", grid(0, 3), axis=1),
        case("integers", ints(3, 4), axis=1, types=INTS, grad=False, results=["T", "i32"]),
    )
    op(
        "arg" + name,
        f"torch.arg{name}",
        number,
        case("last axis", grid(3, 5), axis=1, grad=False),
        case("all", grid(2, 7), grad=False),
        case("kept", grid(3, 5), axis=0, keepdim=True, grad=False),
        case("ties", TIES, axis=1, grad=False),
        case("NaN and infinities", HOLES, axis=1, grad=False),
        case("no rows", grid(0, 3), axis=1, grad=False),
        case("transposed", grid(3, 5), axis=1, view=TRANSPOSED, grad=False),
        case("integers", ints(3, 4), axis=1, types=INTS, grad=False, results=["i32"]),
    )
    running = getattr(torch, "cum" + name)
    op(
        "cum" + name,
        f"torch.cum{name}",
        lambda x, axis=-1, f=running: tuple(f(x, axis)),
        case("last axis", grid(3, 6)),
        case("inner axis", grid(2, 4, 3, step=1 / 32), axis=1),
        case("NaN and infinities", HOLES, grad=False),
        case("transposed", grid(3, 5), axis=1, view=TRANSPOSED),
        case("empty rows", grid(2, 0), grad=False),
        case("ties", TIES, grad=False),
        case("integers", ints(3, 4), types=INTS, grad=False, results=["T", "i32"]),
    )

for name in ("cumsum", "cumprod", "logcumsumexp"):
    function = getattr(torch, name)
    cases = [
        case("last axis", grid(3, 6), whole=True),
        case("inner axis", grid(2, 4, 3), axis=1, whole=True),
        case("NaN and infinities", HOLES, grad=False),
        case("transposed", grid(3, 5), axis=1, view=TRANSPOSED, whole=True),
        case("empty rows", grid(2, 0)),
        case("no rows", grid(0, 3)),
        case("long rows", grid(2, 40, low=-1, high=1), whole=True),
    ]
    if name == "cumprod":
        cases.append(case("zeros", t([[2.0, 0.0, 3.0, 0.5], [-1.5, 2.0, 0.0, 0.0]]), whole=True))
    if name != "logcumsumexp":
        cases.append(case("integers", ints(3, 4, high=5), types=INTS[:3], grad=False))
    op(name, f"torch.{name}", lambda x, axis=-1, f=function: f(x, axis), *cases)

norm = torch.linalg.vector_norm
op(
    "norm",
    "torch.linalg.vector_norm",
    lambda x, axis=None, keepdim=False, p=2.0: norm(x, p, tuple(axis) if isinstance(axis, list) else axis, keepdim),
    case("Euclidean", grid(3, 5), axis=1),
    *[case(f"p = {p}", grid(3, 5, avoid=(0,)), axis=1, p=p) for p in (1.0, 0.0, 3.0, 0.5, -1.0)],
    *[case(f"p = {p}", grid(3, 5, avoid=(0,), step=1 / 32), axis=1, p=p) for p in (inf, -inf)],
    case("two axes, kept", grid(2, 3, 2), axis=[0, 2], keepdim=True),
    case("all", grid(2, 5)),
    case("zeros", t([[0.0, 0.0], [0.0, -2.0]]), axis=1),
    case("large and small", LARGE, axis=1, types=("f32", "f64", "bf16")),
    case("empty rows", grid(3, 0), axis=1, grad=False),
    case("no rows", grid(0, 3), axis=1),
    case("NaN and infinities", HOLES, axis=1, grad=False),
    case("transposed", grid(3, 4), axis=1, view=TRANSPOSED),
)
op(
    "rowwise_l2_norm",
    "torch.linalg.vector_norm",
    lambda x, axis=-1: norm(x, 2, axis),
    case("rows", grid(3, 5)),
    case("columns", grid(3, 5), axis=0),
    case("zeros", t([[0.0, 0.0], [0.0, -2.0]])),
    case("no rows", grid(0, 3)),
    case("NaN and infinities", HOLES, grad=False),
    case("transposed", grid(3, 4), view=TRANSPOSED),
)
four = lambda x, n=None: (lambda y: (y.mean(), y.std(correction=0), y.min(), y.max()))(x.flatten()[:n])
op(
    "statistics",
    "torch.mean, std, min, max",
    four,
    case("all", grid(3, 5), grad=False, whole=True, types=["f32"]),
    case("the first", grid(3, 5), t(7, "i32"), grad=False, whole=True, types=["f32"]),
    case("transposed", grid(3, 5), grad=False, whole=True, view=TRANSPOSED, types=["f32"]),
)
op(
    "bincount",
    "torch.bincount",
    lambda x, bins: torch.bincount(x.flatten().long(), minlength=bins).int(),
    case("repeated bins", ints(3, 7, high=5), bins=6, types=SIGNED, grad=False, results=["i32"]),
    case("none", ints(0), bins=3, types=SIGNED, grad=False, results=["i32"]),
    case("transposed", ints(3, 4, high=3), bins=5, types=SIGNED, grad=False, results=["i32"], view=TRANSPOSED),
)

for name in ("softmax", "log_softmax"):
    function = getattr(torch, name)
    op(
        name,
        f"torch.{name}",
        lambda x, axis=-1, f=function: f(x, axis),
        case("rows", grid(3, 5), whole=True),
        case("inner axis", grid(2, 3, 4), axis=1, whole=True),
        case("large logits", t([[1000.0, 992.0, -1000.0], [-1000.0, -1000.0, -1000.0]]), whole=True),
        case("NaN and infinities", HOLES, grad=False),
        case("no rows", grid(0, 3)),
        case("one element", grid(3, 1)),
        case("large and small", LARGE, types=("f32", "f64", "bf16")),
        case("transposed", grid(3, 4), view=TRANSPOSED, whole=True),
        case("long rows", grid(2, 100), whole=True),
    )

REDUCTIONS = ("mean", "sum", "none")
CLASSES = t([2, 0, 3], "i32")
SOME = t([2, -1, 3], "i64")
X = grid(3, 4)
SHARES = t([[0.25, 0.5, 0.125, 0.125], [0.0, 1.0, 0.0, 0.0], [0.5, 0.25, 0.25, 0.0]])
CLASS_WEIGHTS = t([0.5, 2.0, 1.0, 3.0])


def classified(function):
    def of(x, t, w=None, reduction="mean", **more):
        t = t if t.is_floating_point() else t.long()
        return function(x, t, None if w is None else w.detach(), reduction=reduction, **more)

    return of


def loss(name, peer, function, operands, *cases, reductions=REDUCTIONS):
    plain = [case(f"reduced: {word}", *operands, reduction=word, whole=True) for word in reductions]
    op(name, peer, function, *plain, *cases)


for name, function in (("cross_entropy", F.cross_entropy), ("nll_loss", F.nll_loss)):
    further = (
        []
        if name == "nll_loss"
        else [
            case("shares of classes", X, SHARES, whole=True),
            case("smoothed", X, CLASSES, label_smoothing=0.25, whole=True),
            case("large logits", t([[1000.0, 0.0], [-1000.0, 1000.0]]), t([1, 1], "i32"), whole=True),
            case("infinite logits", t([[-inf, 0.0], [1.0, -inf]]), t([1, 0], "i32"), grad=False),
        ]
    )
    loss(
        name,
        f"F.{name}",
        classified(function),
        [X, CLASSES],
        case("a row ignored", X, SOME, ignore_index=-1, whole=True),
        case("class weights", X, CLASSES, CLASS_WEIGHTS, grad=False, whole=True),
        case("the same class", X, t([1, 1, 1], "i32"), whole=True),
        case("transposed", grid(4, 3), CLASSES, view=TRANSPOSED, whole=True),
        *further,
    )
op(
    "cross_entropy_rows",
    "F.cross_entropy, torch.logsumexp",
    lambda x, t: (F.cross_entropy(x, t.long(), reduction="none"), x.logsumexp(-1)),
    case("rows", X, CLASSES, weigh=[0], whole=True, results=["W", "W"]),
    case(
        "large logits",
        t([[1000.0, 0.0], [-1000.0, 1000.0]]),
        t([1, 1], "i32"),
        whole=True,
        weigh=[0],
        results=["W", "W"],
    ),
    case("transposed", grid(4, 3), CLASSES, view=TRANSPOSED, whole=True, weigh=[0], results=["W", "W"]),
)

Y = grid(3, 4, seed=1)
for name in ("mse_loss", "l1_loss", "huber_loss"):
    function = getattr(F, name)
    loss(
        name,
        f"F.{name}",
        function,
        [X, Y],
        case("no elements", grid(0), grid(0), reduction="sum"),
        case("equal", X, X),
        case("transposed", grid(4, 3), Y, view=TRANSPOSED, whole=True),
        case("NaN and infinities", t([nan, inf, -inf, inf]), t([1.0, 1.0, 1.0, inf]), reduction="none", grad=False),
    )
loss(
    "bce_with_logits",
    "F.binary_cross_entropy_with_logits",
    F.binary_cross_entropy_with_logits,
    [X, SHARES],
    case("large logits", t([1000.0, -1000.0, 1000.0, -1000.0]), t([1.0, 0.0, 0.0, 1.0]), whole=True, reduction="none"),
    case(
        "weighted",
        X,
        SHARES,
        CLASS_WEIGHTS,
        whole=True,
        grad=False,
        reference=lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, pos_weight=w),
    ),
    case("transposed", grid(4, 3), SHARES, view=TRANSPOSED, whole=True),
    case("NaN and infinities", t([nan, inf, -inf]), t([0.5, 1.0, 0.0]), reduction="none", grad=False),
)
reduced = lambda losses, reduction: {"mean": losses.mean, "sum": losses.sum, "none": losses.clone}[reduction]()
SIDES = t([[1.0, -1.0, 1.0, 1.0], [-1.0, -1.0, 1.0, 1.0], [1.0, 1.0, -1.0, -1.0]])
loss(
    "hinge_loss",
    "max(0, margin - t·x)",
    lambda x, t, reduction="mean": reduced((1 - t * x).clamp(min=0), reduction),
    [X, SIDES],
    case("transposed", grid(4, 3, seed=3), SIDES, view=TRANSPOSED, whole=True),
)
LOGS = grid(3, 4, low=-4.0, high=-0.25)
loss(
    "kl_div",
    "F.kl_div",
    F.kl_div,
    [LOGS, grid(3, 4, low=0.0625, high=1.0, seed=1)],
    case("of logarithms", LOGS, grid(3, 4, low=-4.0, high=-0.25, seed=2), log_target=True, whole=True),
    case("a target of 0", t([[-0.25, -1.5]]), t([[1.0, 0.0]]), grad=False),
    case(
        "transposed",
        grid(4, 3, low=-4.0, high=-0.25),
        grid(3, 4, low=0.0625, high=1.0, seed=1),
        view=TRANSPOSED,
        whole=True,
    ),
    reductions=("mean", "sum", "none", "batchmean"),
)
ROWS = [X, grid(3, 4, seed=4), grid(3, 4, seed=5)]
loss(
    "triplet_loss",
    "F.triplet_margin_loss",
    F.triplet_margin_loss,
    ROWS,
    case("transposed", grid(4, 3), *ROWS[1:], view=TRANSPOSED, whole=True),
)


def contrastive(x, y, t, margin=5.0, reduction="mean"):
    d = F.pairwise_distance(x, y)
    return reduced(0.5 * (t * d**2 + (1 - t) * (margin - d).clamp(min=0) ** 2), reduction)


PAIRS = t([1.0, 0.0, 0.0])
op(
    "contrastive_loss",
    "F.pairwise_distance",
    contrastive,
    *[case(f"reduced: {word}", X, ROWS[1], PAIRS, margin=5.0, reduction=word, whole=True) for word in REDUCTIONS],
    case("transposed", grid(4, 3), ROWS[1], PAIRS, margin=5.0, view=TRANSPOSED, whole=True),
)

# ---- Other types.

more("amax amin", case("truth values", truths(3, 4), axis=1, types=["bool"], grad=False))
more(
    "max min cummax cummin",
    case("truth values", truths(3, 4), axis=1, types=["bool"], grad=False, results=["bool", "i32"]),
    reference=None,
)
for name in ("argmax", "argmin"):
    # PyTorch refuses truth values.
    number = lambda x, axis, f=getattr(torch, name): f(x.int(), axis)
    more(
        name,
        case(
            "truth values",
            truths(3, 4),
            call=f"{name}($0, axis=1)",
            reference=lambda x, f=number: f(x, 1),
            types=["bool"],
            grad=False,
            results=["i32"],
        ),
    )
for name in ("sum", "prod", "cumsum", "cumprod"):
    function = getattr(torch, name)
    for title, x, types, result in (
        ("truth values", truths(3, 4), ["bool"], "i32"),
        ("bytes", ints(3, 4, high=3), ["u8"], "T"),
    ):
        more(
            name,
            case(
                title,
                x,
                call=f"{name}($0, axis=1)",
                reference=lambda x, f=function: f(x, 1),
                types=types,
                grad=False,
                results=[result],
            ),
        )
for title, x, types in (("truth values", truths(3, 4), ["bool"]), ("integers", ints(3, 4), INTS)):
    more(
        "mean",
        case(
            title,
            x,
            call="mean($0, axis=1)",
            reference=lambda x: x.double().mean(1),
            types=types,
            grad=False,
            results=["f32"],
        ),
    )
more("statistics", case("of other floats", grid(3, 5), grad=False, whole=True, types=["f64", "f16", "bf16"]))
more("bincount", case("other numbers", ints(3, 7, high=5), bins=6, types=UNSIGNED, grad=False, results=["i32"]))

# Sums and products of small integers have their type, and wrap. PyTorch's and NumPy's are 64 bits wide unless told.
for kind, of in (("i8", torch.int8), ("i16", torch.int16), ("u8", torch.uint8), ("u16", None)):
    most = {"i8": 127, "i16": 32767, "u8": 255, "u16": 65535}[kind]
    x = "T", torch.tensor([[most, 1, 2, 3], [most, most, most, 5]])
    wrap = (lambda y, of=of: y.to(of).long()) if of else lambda y: y % 65536
    for name in ("sum", "prod", "cumsum", "cumprod"):
        function = getattr(torch, name)
        more(
            name,
            case(
                f"wrapped {kind}",
                x,
                call=f"{name}($0, axis=1)",
                reference=lambda x, function=function, wrap=wrap: wrap(function(x, 1)),
                types=[kind],
                grad=False,
            ),
        )

write(__file__)
