"""Cases of norms, attention, images and matrix factors: `python tests/conformance/blocks.py` writes blocks.json."""

import torch
import torch.nn.functional as F
import torchvision.transforms.functional as TF

from peers import INTS, TRANSPOSED, WIDE, case, grid, inf, ints, more, nan, op, t, truths, write


def whole(title, *operands, **more):
    return case(title, *operands, whole=True, **more)


# ---- Norms. `W` is the type under test, at least f32.

X, T, G, H = grid(3, 4), grid(2, 3, 4), grid(4, seed=1), grid(4, seed=2)
HOLES = t([[nan, 1.0, 2.0], [inf, 1.0, 0.5]])
root = lambda x, eps=1e-6: (x.square().mean(-1, keepdim=True) + eps).rsqrt()


def rms(x, w=None, b=None, eps=1e-6):
    return F.rms_norm(x, (x.shape[-1],), w, eps) + (0 if b is None else b), root(x, eps)


TW, TWW = ["T", "W"], ["T", "W", "W"]
op(
    "rms_norm",
    "F.rms_norm",
    rms,
    whole("plain", T, results=TW),
    whole("weights", X, G, results=TW),
    whole("weights and a bias", X, G, H, eps=0.01, results=TW),
    whole("zeros", t([[0.0] * 4]), results=TW),
    whole("no rows", grid(0, 4), results=TW),
    whole("transposed", grid(4, 3), view=TRANSPOSED, results=TW),
    case("NaN and infinities", t([[nan, 1.0, 2.0]]), grad=False, results=TW),
)
op(
    "residual_rms_norm",
    "F.rms_norm",
    lambda x, r, w: (F.rms_norm(x + r, (4,), w, 1e-6), x + r),
    whole("weights", X, grid(3, 4, seed=3), G),
    whole("transposed", grid(4, 3), grid(3, 4, seed=3), G, view=TRANSPOSED),
)


def layer(x, w=None, b=None, eps=1e-5):
    return (
        F.layer_norm(x, (x.shape[-1],), w, b, eps),
        x.mean(-1, keepdim=True),
        (x.var(-1, correction=0, keepdim=True) + eps).rsqrt(),
    )


op(
    "layer_norm",
    "F.layer_norm",
    layer,
    whole("plain", T, results=TWW),
    whole("weights", X, G, eps=0.01, results=TWW),
    whole("weights and a bias", X, G, H, results=TWW),
    whole("far from 0", t([[128.0, 129.0, 130.0, 131.0]]), results=TWW, grad=False),
    whole("no rows", grid(0, 4), results=TWW),
    whole("transposed", grid(4, 3), view=TRANSPOSED, results=TWW),
    whole("long rows", grid(2, 100), results=TWW),
    case("NaN and infinities", HOLES, grad=False, results=TWW),
    whole("large", t([[2.0**60, -(2.0**59), 1.0]]), grad=False, results=TWW, types=("f32", "f64", "bf16")),
)


def batch(x, gamma, beta, mean, var, train=True):
    kept = mean.detach().clone(), var.detach().clone()
    y = F.batch_norm(x, *kept, gamma, beta, train, 0.1, 1e-5)
    return (y, *kept)


CHANNELS = [
    grid(3, seed=1),
    grid(3, seed=2),
    ("W", torch.tensor([0.5, -1.0, 0.25]).double()),
    ("W", torch.tensor([1.0, 0.5, 2.0]).double()),
]
op(
    "batch_norm",
    "F.batch_norm",
    batch,
    *[
        whole(f"{name}, {word}", x, *CHANNELS, train=train, grad=False, results=TWW)
        for name, x in (("rows", grid(5, 3)), ("positions", grid(2, 3, 4)))
        for train, word in ((True, "training"), (False, "not training"))
    ],
    *[
        whole(
            f"gradients, {word}",
            grid(2, 3, 4),
            CHANNELS[0],
            CHANNELS[1],
            ("W", torch.tensor([0, -1, 1])),
            ("W", torch.tensor([1, 2, 3])),
            call=f"batch_norm($0, $1, $2, $3, $4, train={str(train).lower()})",
            reference=lambda x, g, b, m, v, train=train: batch(x, g, b, m.double(), v.double(), train),
            weigh=[0],
            results=TWW,
        )
        for train, word in ((True, "training"), (False, "not training"))
    ],
)


def unit(x, eps=1e-8):
    n = x.norm(dim=-1, keepdim=True)
    return x / (n + eps), n


cosine = lambda x, y: unit(x)[0].mul(unit(y)[0]).sum(-1)
op(
    "l2_normalize",
    "torch.linalg.vector_norm",
    unit,
    whole("rows", X, results=TW),
    whole("no rows", grid(0, 4), results=TW),
    whole("zeros", t([[0.0, 0.0]]), grad=False, results=TW),
    whole("transposed", grid(4, 3), view=TRANSPOSED, results=TW),
)
op(
    "cosine_similarity",
    "F.cosine_similarity",
    cosine,
    whole("pairs", X, grid(3, 4, seed=3)),
    whole("a row against all", grid(1, 4), X),
    whole("vectors", G, H),
    whole("no rows", grid(0, 4), grid(0, 4)),
    whole("transposed", grid(4, 3), X, view=TRANSPOSED),
)
op(
    "cosine_matrix",
    "F.cosine_similarity",
    lambda x, y: cosine(x[:, None], y[None]),
    whole("plain", X, grid(2, 4, seed=3)),
    whole("no rows", X, grid(0, 4)),
    whole("transposed", grid(4, 3), X, view=TRANSPOSED),
)
op(
    "embedding_rms_norm",
    "F.embedding, F.rms_norm",
    lambda x, i, w=None: F.rms_norm(F.embedding(i, x), (4,), w, 1e-6),
    whole("tokens that occur again", X, t([[1, 0], [1, 1]], "i64"), G),
    whole("no weights", X, t([2, 2], "i64")),
    whole("none", X, ("i64", torch.zeros(0, dtype=torch.int64))),
)

# ---- Attention.


def attend(q, k, v, mask=None, causal=False, scale=None):
    group = q.shape[-3] // k.shape[-3] if q.dim() > 2 else 1
    k, v = (x.repeat_interleave(group, -3) if group > 1 else x for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        a, b = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(a, b, dtype=torch.bool).tril(b - a), -inf)
    return finish(scores, v.unsqueeze(-3))


def finish(scores, v):
    lse = torch.logsumexp(scores, -1)
    weights = torch.where(lse.isinf().unsqueeze(-1), 0.0, (scores - lse.nan_to_num(neginf=0.0).unsqueeze(-1)).exp())
    return (weights.unsqueeze(-1) * v).sum(-2), lse


def selected(q, k, v, idx, scale=None):
    rows = lambda x: torch.take_along_dim(x.unsqueeze(-3), idx.long().unsqueeze(-1), -2)
    scores = (rows(k) * q.unsqueeze(-2)).sum(-1) * q.shape[-1] ** -0.5
    return finish(scores, rows(v))


Q, K, V = grid(2, 3, 4), grid(2, 5, 4, seed=1), grid(2, 5, 2, seed=2)
op(
    "attention",
    "F.scaled_dot_product_attention",
    attend,
    whole("two heads", Q, K, V, results=TW),
    whole("causal, fewer queries than keys", Q, K, V, causal=True, results=TW),
    whole("a scale", Q, K, V, scale=0.25, results=TW),
    whole("a bias", Q, K, V, grid(3, 5, seed=3), results=TW),
    whole(
        "a query that sees nothing",
        Q,
        K,
        V,
        t(
            [[[1, 0, 0, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]], [[0, 1, 0, 1, 1], [1, 0, 0, 0, 0], [1, 1, 0, 1, 0]]],
            "bool",
        ),
        grad=False,
        results=TW,
    ),
    whole(
        "two heads of queries for one of keys",
        grid(2, 4, 3, 2),
        grid(2, 2, 3, 2),
        grid(2, 2, 3, 5),
        causal=True,
        results=TW,
    ),
    whole("no queries", grid(2, 0, 4), K, V, results=TW),
    whole(
        "large scores",
        grid(1, 2, 8, low=-128.0, high=128.0, step=1.0),
        grid(1, 2, 8, low=-128.0, high=128.0, step=1.0, seed=1),
        grid(1, 2, 3),
        grad=False,
        results=TW,
    ),
)
op(
    "gather_attention",
    "torch.take_along_dim, torch.softmax",
    selected,
    whole(
        "two keys of six",
        Q,
        grid(2, 6, 4, seed=1),
        grid(2, 6, 2, seed=2),
        t([[[0, 5], [2, 2], [3, 1]], [[4, 4], [5, 0], [1, 2]]], "i32"),
        results=TW,
    ),
)
merged = lambda a, b, c, d: (
    (a * b.exp()[:, None] + c * d.exp()[:, None]) / (b.exp() + d.exp())[:, None],
    torch.logaddexp(b, d),
)
op(
    "merge_state",
    "torch.logaddexp",
    merged,
    whole("parts", grid(3, 2), grid(3, seed=1), grid(3, 2, seed=2), grid(3, seed=3), types=WIDE),
)


def turned(x, positions=None, inverse=False, layout="half"):
    n = x.shape[-1]
    positions = (
        torch.arange(x.shape[-2]) + (positions if positions is not None and positions.dim() == 0 else 0)
        if positions is None or positions.dim() == 0
        else positions
    )
    angles = (
        positions[..., None] * 10000.0 ** -(torch.arange(0, n, 2, dtype=torch.float64) / n) * (-1 if inverse else 1)
    )
    return by_angles(x, angles.cos(), angles.sin(), layout)


def by_angles(x, c, s, layout="half"):
    n = 2 * c.shape[-1]
    u, v = x[..., :n].chunk(2, -1) if layout == "half" else x[..., :n].unflatten(-1, (-1, 2)).unbind(-1)
    pair = (u * c - v * s, v * c + u * s)
    y = torch.cat(pair, -1) if layout == "half" else torch.stack(pair, -1).flatten(-2)
    return torch.cat((y, x[..., n:]), -1)


AT = t([5, 0, 2], "i32")
op(
    "rotary",
    "cos and sin of torch",
    turned,
    *[whole(f"from 0, {word}", grid(3, 6), layout=word) for word in ("half", "interleaved")],
    whole("from an offset", grid(3, 6), t(17, "i32")),
    whole("at positions, backwards", grid(2, 3, 6), AT, inverse=True),
    whole("no rows", grid(0, 4)),
    whole("transposed", grid(4, 3), view=TRANSPOSED),
)
op(
    "apply_rotary_embedding",
    "torch.mul",
    lambda x, c, s, p, layout="half": by_angles(x, c[p.long()], s[p.long()], layout),
    *[
        whole(word, grid(3, 6), grid(8, 2, seed=1), grid(8, 2, seed=2), AT, layout=word)
        for word in ("half", "interleaved")
    ],
)
insert = lambda cache, rows, p: torch.cat((cache[..., :p, :], rows, cache[..., p + rows.shape[-2] :, :]), -2)
op(
    "kv_insert",
    "torch.cat",
    insert,
    *[case(f"at {p}", grid(2, 5, 3), grid(2, 2, 3, seed=1), t(p, "i32")) for p in (0, 1, 3)],
    case("no rows", grid(2, 5, 3), grid(2, 0, 3), t(5, "i32")),
)

# ---- Images.

FOLDS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
spread = lambda n: n if isinstance(n, int) else tuple(n)
conv = lambda x, w, b=None, stride=1, padding=0, dilation=1, groups=1: FOLDS[x.dim()](
    x, w, b, spread(stride), spread(padding), spread(dilation), groups
)
BACK = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}
transposed = lambda x, w, b=None, stride=1, padding=0, dilation=1, extra=0, groups=1: BACK[x.dim()](
    x, w, b, spread(stride), spread(padding), spread(extra), groups, spread(dilation)
)
op(
    "conv",
    "F.conv1d to conv3d",
    conv,
    whole("an image", grid(1, 3, 5, 4), grid(2, 3, 3, 2, seed=1)),
    whole(
        "a bias, steps and a border",
        grid(1, 3, 5, 4),
        grid(2, 3, 3, 2, seed=1),
        grid(2, seed=2),
        stride=[2, 1],
        padding=[1, 2],
    ),
    whole("holes", grid(1, 2, 6, 5), grid(2, 2, 3, 2, seed=1), dilation=2, padding=1, stride=2),
    whole("groups", grid(1, 4, 4, 4), grid(4, 2, 2, 3, seed=1), groups=2),
    whole("a window for each channel", grid(1, 4, 4, 3), grid(4, 1, 3, 3, seed=1), groups=4, padding=1),
    whole("a signal", grid(2, 2, 7), grid(3, 2, 3, seed=1), stride=2, padding=1),
    whole("a volume", grid(1, 2, 3, 3, 3), grid(2, 2, 2, 3, 2, seed=1), padding=1),
    whole("a border wider than the window", grid(1, 2, 4), grid(1, 2, 2, seed=1), padding=4),
    whole("no images", grid(0, 2, 4), grid(1, 2, 2)),
    case("NaN and infinities", t([[[nan, 1.0, 2.0, inf, 1.0]]]), t([[[1.0, 2.0]]]), grad=False),
)
op(
    "conv_transpose",
    "F.conv_transpose1d to conv_transpose3d",
    transposed,
    whole("an image", grid(1, 4, 3, 3), grid(4, 2, 3, 2, seed=1), grid(2, seed=2)),
    whole(
        "steps, a border and extra", grid(1, 2, 3, 4), grid(2, 3, 3, 3, seed=1), stride=[3, 2], padding=1, extra=[1, 0]
    ),
    whole("holes, groups", grid(2, 4, 4), grid(4, 3, 2, seed=1), dilation=2, groups=2),
    whole("a volume", grid(1, 2, 3, 2, 2), grid(2, 3, 2, 3, 2, seed=1), grid(3, seed=2), stride=[2, 1, 2], padding=1),
    whole(
        "a volume, groups, holes, extra",
        grid(1, 2, 2, 2, 3),
        grid(2, 2, 2, 2, 2, seed=1),
        stride=2,
        extra=[1, 0, 1],
        dilation=2,
        groups=2,
    ),
)
POOL, SIGNAL, VOLUME = grid(1, 2, 6, 5), grid(2, 2, 7), grid(1, 2, 4, 3, 5)
by_rank = lambda name: lambda x, *settings, **more: getattr(F, f"{name}{x.dim() - 2}d")(x, *settings, **more)
max_pool, avg_pool = by_rank("max_pool"), by_rank("avg_pool")
op(
    "max_pool",
    "F.max_pool1d to max_pool3d",
    lambda x, size, stride=None, padding=0, dilation=1: max_pool(x, spread(size), stride, padding, dilation),
    case("plain", POOL, size=2),
    case("overlapping, a border", POOL, size=3, stride=2, padding=1, whole=True),
    case("holes", POOL, size=2, stride=1, dilation=2, whole=True),
    case("a signal", SIGNAL, size=3, stride=2, padding=1, whole=True),
    case("a signal, holes", SIGNAL, size=2, stride=1, dilation=3, whole=True),
    case("a volume", VOLUME, size=2),
    case("a volume, overlapping, a border", VOLUME, size=[3, 2, 3], stride=[1, 1, 2], padding=1, whole=True),
    case("NaN and infinities", t([[[[nan, 1.0, 2.0, -inf]], [[inf, 1.0, -inf, -inf]]]]), size=[1, 2], grad=False),
)
op(
    "avg_pool",
    "F.avg_pool1d to avg_pool3d",
    lambda x, size, stride=None, padding=0, count_padding=True: avg_pool(
        x, size, stride, padding, count_include_pad=count_padding
    ),
    whole("plain", POOL, size=2),
    whole("a border counts", POOL, size=3, stride=2, padding=1),
    whole("a border does not count", POOL, size=3, stride=2, padding=1, count_padding=False),
    *[
        whole(f"{title}, {word}", x, size=size, stride=stride, padding=1, count_padding=counts)
        for title, x, size, stride in (("a signal", SIGNAL, 3, 2), ("a volume", VOLUME, [3, 2, 2], [2, 1, 2]))
        for word, counts in (("a border counts", True), ("a border does not count", False))
    ],
)
op(
    "adaptive_avg_pool",
    "F.adaptive_avg_pool1d to adaptive_avg_pool3d",
    lambda x, size: by_rank("adaptive_avg_pool")(x, spread(size)),
    whole("even windows", POOL, size=[3, 5]),
    whole("uneven windows", POOL, size=[4, 3]),
    whole("one window", POOL, size=[1, 1]),
    whole("a signal, uneven windows", SIGNAL, size=3),
    whole("a volume, uneven windows", VOLUME, size=[3, 2, 3]),
    whole("a volume, one window", VOLUME, size=1),
)
op(
    "adaptive_max_pool",
    "F.adaptive_max_pool1d to adaptive_max_pool3d",
    lambda x, size: by_rank("adaptive_max_pool")(x, spread(size)),
    case("even windows", POOL, size=[3, 5], whole=True),
    case("uneven windows", POOL, size=[4, 3], whole=True),
    case("one window", POOL, size=[1, 1], whole=True),
    case("a signal, uneven windows", SIGNAL, size=3, whole=True),
    case("a volume, uneven windows", VOLUME, size=[3, 2, 3], whole=True),
    case("a volume, one window", VOLUME, size=1, whole=True),
)
MODES = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}
op(
    "pad",
    "F.pad",
    None,
    *[
        case(
            mode,
            grid(1, 2, 4, 3),
            call=f'pad($0, before=[0, 0, 2, 1], after=[0, 0, 1, 2], mode="{mode}")',
            reference=lambda x, m=m: F.pad(x, (1, 2, 2, 1), mode=m),
            whole=True,
        )
        for mode, m in MODES.items()
    ],
    case(
        "a value",
        grid(2, 3),
        call="pad($0, before=[1, 0], value=-2)",
        reference=lambda x: F.pad(x, (0, 0, 1, 1), value=-2.0),
    ),
    case(
        "zero-sized axis",
        grid(0, 3),
        call="pad($0, before=[1, 0], value=1)",
        reference=lambda x: F.pad(x, (0, 0, 1, 1), value=1.0),
    ),
    case("transposed", grid(2, 3), call="pad(transpose($0), before=[0, 1])", reference=lambda x: F.pad(x.mT, (1, 1))),
)
CROPS = {
    "inside": (1, 2, 3, 2),
    "all": (0, 0, 6, 5),
    "over the upper left corner": (-2, -1, 4, 3),
    "over the lower right corner": (4, 3, 4, 4),
    "over all edges": (-1, -2, 8, 9),
    "outside": (7, 0, 2, 3),
}
op(
    "crop",
    "torchvision's crop",
    lambda x, top, left, height, width: TF.crop(x, top, left, height, width),
    *[
        case(title, POOL, **dict(zip(("top", "left", "height", "width"), place)), grad=title != "outside")
        for title, place in CROPS.items()
    ],
    case("a matrix, transposed", grid(4, 3), top=1, left=0, height=2, width=3, view=TRANSPOSED),
    case("no images", grid(0, 4, 3), top=1, left=0, height=2, width=2),
)
op(
    "center_crop",
    "torchvision's center_crop",
    lambda x, size: TF.center_crop(x, size),
    *[
        case(f"{size} of 6 × 5", POOL, size=size)
        for size in ([6, 5], [4, 3], [3, 4], [1, 2], [5, 2], [8, 7], [7, 8], [3, 9], [9, 2])
    ],
    *[case(f"3 of {n}", grid(2, n, n), size=3) for n in (4, 5, 6, 8, 10)],
)
op(
    "resize",
    "F.interpolate",
    None,
    *[
        whole(
            f"{title}, {mode}",
            grid(1, 2, 4, 3),
            call=f'resize($0, size=[{a}, {b}], mode="{mode}"{corners})',
            reference=lambda x, a=a, b=b, mode=mode, corners=corners: F.interpolate(
                x,
                (a, b),
                mode="nearest" if mode == "nearest" else "bilinear",
                align_corners=None if mode == "nearest" else bool(corners),
            ),
        )
        for title, a, b, mode, corners in (
            ("larger", 7, 5, "nearest", ""),
            ("smaller", 3, 2, "nearest", ""),
            ("larger", 7, 5, "linear", ""),
            ("smaller", 3, 2, "linear", ""),
            ("corners", 7, 5, "linear", ", corners=true"),
        )
    ],
)

# ---- Matrix factors. Rows are far from dependent; the largest elements are not on the diagonal.


def dominant(*shape, seed=0):
    x = grid(*shape, low=-1.0, high=1.0, seed=seed)[1]
    return "T", x + 3 * torch.eye(shape[-1], dtype=torch.float64).roll(1, -1)


def definite(*shape, seed=0):
    x = grid(*shape, low=-1.0, high=1.0, step=1 / 4, seed=seed)[1]
    return "T", x @ x.mT + torch.eye(shape[-1], dtype=torch.float64)


def factor(title, *operands, **more):
    return whole(title, *operands, types=WIDE, **more)


op(
    "cholesky",
    "torch.linalg.cholesky",
    torch.linalg.cholesky,
    factor("one matrix", definite(4, 4)),
    factor("a batch", definite(2, 3, 3)),
    factor("a number", t([[6.25]])),
    factor("no matrices", ("T", torch.zeros(0, 3, 3).double()), grad=False),
)
op(
    "solve_triangular",
    "torch.linalg.solve_triangular",
    lambda a, b, lower=True: torch.linalg.solve_triangular(a, b, upper=not lower),
    *[
        factor(f"{word} batch", definite(2, 3, 3), grid(2, 3, 2, seed=1), lower=lower)
        for word, lower in (("lower", True), ("upper", False))
    ],
)
# ---- Fourier transforms. A complex number is a pair along a trailing axis of 2, which `dim` does not count.

to_complex, to_pairs = torch.view_as_complex, torch.view_as_real


def axes(axis, n):
    pairs = zip(axis, n) if isinstance(axis, list) else [(axis, n)]
    return [(count, along) for along, count in pairs]


def transformed(name, into, out):
    """A transform of one axis, or of several in turn: `fft2` and `fftn` are such chains."""

    def transform(x, axis=-1, n=None, norm="backward"):
        y = into(x)
        for count, along in axes(axis, n or ([None] * len(axis) if isinstance(axis, list) else None)):
            y = getattr(torch.fft, name)(y, count, along, norm)
        return out(y)

    return transform


same = lambda x: x
PAIRS = lambda x: to_complex(x.contiguous())
TRANSFORMS = {"fft": (PAIRS, to_pairs), "ifft": (PAIRS, to_pairs), "rfft": (same, to_pairs), "irfft": (PAIRS, same)}
for name, (into, out) in TRANSFORMS.items():
    part = (2,) if into is PAIRS else ()
    op(
        name,
        f"torch.fft.{name}",
        transformed(name, into, out),
        factor("a power of two", grid(2, 8, *part)),
        factor("a prime", grid(7, *part)),
        factor("scaled, along the first axis", grid(6, 3, *part), axis=0, norm="ortho"),
        factor("cut", grid(9, *part), n=5),
        factor("padded", grid(5, *part), n=12, norm="forward"),
    )
    more(name, factor("a length that takes a chirp", grid(67, *part), grad=False))
op(
    "complex_mul",
    "torch.mul of complex",
    lambda a, b: to_pairs(PAIRS(a) * PAIRS(b)),
    factor("plain", grid(3, 2), grid(3, 2, seed=1)),
)
op(
    "solve",
    "torch.linalg.solve",
    torch.linalg.solve,
    factor("one matrix", dominant(4, 4), grid(4, 2, seed=1)),
    factor("one right-hand side", dominant(4, 4), grid(4, seed=1)),
    factor("a batch", dominant(2, 3, 3), grid(2, 3, 2, seed=1)),
    factor("transposed", dominant(4, 4), grid(4, 2, seed=1), view=TRANSPOSED),
)
op(
    "inverse",
    "torch.linalg.inv",
    torch.linalg.inv,
    factor("one matrix", dominant(4, 4)),
    factor("a batch", dominant(2, 3, 3)),
    factor("a number", t([[-8.0]])),
)


def lu_solve(a, b):
    _, lu, upper = torch.linalg.lu(a)
    return torch.linalg.solve(a, b), lu.tril(-1) + upper


op("lu_solve", "torch.linalg.solve, lu", lu_solve, factor("one matrix", dominant(4, 4), grid(4, 2, seed=1), grad=False))


def signed(columns, *others):
    """The element of largest magnitude in each column becomes positive; columns of others are turned alike."""
    place = columns.abs().argmax(-2, keepdim=True)
    sign = columns.gather(-2, place).sign().detach()
    return (columns * sign, *(other * sign for other in others))


def svd(x):
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    u, v = signed(u, v.mT)
    return u, s, v.mT


def qr(x):
    q, r = torch.linalg.qr(x)
    sign = r.diagonal(dim1=-2, dim2=-1).sign().detach()
    return q * sign[..., None, :], r * sign[..., :, None]


def eigh(x):
    w, v = torch.linalg.eigh((x + x.mT) / 2)
    return w, signed(v)[0]


op(
    "qr",
    "torch.linalg.qr",
    qr,
    factor("square", dominant(3, 3)),
    factor("tall", grid(5, 2, seed=1)),
    factor("a batch", grid(2, 4, 3, seed=1)),
)
op(
    "svd",
    "torch.linalg.svd",
    svd,
    factor("tall", grid(4, 2, seed=1)),
    factor("wide", grid(2, 4, seed=1)),
    factor("a batch", grid(2, 3, 2, seed=1)),
)
op(
    "eigh",
    "torch.linalg.eigh",
    eigh,
    factor("one matrix", ("T", torch.tensor([[1.0, 0.5, -0.25], [0.5, 3.0, 0.75], [-0.25, 0.75, 6.0]]).double())),
    factor("a batch", definite(2, 3, 3)),
)

# ---- Draws by given numbers.

L = grid(3, 4, low=-3.0, high=3.0)
U = grid(3, 4, low=0.0625, high=0.9375, seed=1)
gumbel = lambda u: -(-u.log()).log()
op("gumbel_argmax", "torch.argmax", lambda x, u: (x + gumbel(u)).argmax(-1), case("given numbers", L, U, grad=False))
op(
    "gumbel_softmax",
    "torch.softmax",
    lambda x, tau, u: ((x + gumbel(u)) / tau).softmax(-1),
    whole("given numbers", L, ("T", torch.tensor(0.75).double()), U, weigh=[0]),
)
op(
    "one_hot_argmax",
    "F.one_hot, straight through",
    lambda x: F.one_hot(x.argmax(-1), 4) + x - x.detach(),
    case("rows", grid(3, 4)),
)


bernoulli = lambda x, u: (u < (2 * x).sigmoid()).double()
op("sigmoid_bernoulli", "torch.sigmoid", bernoulli, case("given numbers", L, U, grad=False))

# ---- Other types.

for title, make, options in (
    ("integers", ints, dict(types=INTS, grad=False)),
    ("truth values", truths, dict(types=["bool"], grad=False)),
):
    more("kv_insert", case(title, make(2, 5, 3), make(2, 2, 3, seed=1), t(1, "i32"), **options))
    more(
        "pad",
        case(
            title,
            make(1, 2, 4, 3),
            call='pad($0, before=[0, 0, 2, 1], mode="reflect")',
            reference=lambda x: F.pad(x.double(), (1, 1, 2, 2), mode="reflect").to(x.dtype),
            **options,
        ),
    )
    more(
        "resize",
        case(
            title,
            make(1, 2, 4, 3),
            call="resize($0, size=[7, 5])",
            reference=lambda x: F.interpolate(x.double(), (7, 5)).to(x.dtype),
            **options,
        ),
    )

write(__file__)
