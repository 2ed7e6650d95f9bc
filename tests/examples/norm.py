"""Expected numbers of norms, normalisation and similarity, from PyTorch: python tests/examples/norm.py"""

import torch
import torch.nn.functional as F
from recording import Recording

record = Recording("norm")
case = record.case

T = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4).sin().float().tolist()
X = [[0.5, -1.0, 2.0, 1.25], [3.0, 0.25, -0.5, 3.0], [-2.0, 1.0, 0.0, 0.75]]
Y = [[1.0, 0.5, -2.0, 3.0], [0.0, 1.25, 1.0, -1.0], [2.0, -0.5, 0.75, 0.25]]
W, B = [0.5, 2.0, -1.5, 0.75], [0.1, -0.2, 0.3, 0.0]


def root(x, eps=1e-6, dim=-1):
    return (x.square().mean(dim, keepdim=True) + eps).rsqrt()


def rms():
    two = ["f32", "f32"]
    case("without weights", "rms_norm(a)", [("f32", T)], lambda x: (F.rms_norm(x, (4,), eps=1e-6), root(x)), two)
    case("with weights", "rms_norm(a, b)", [("f32", X), ("f32", W)],
         lambda x, w: (F.rms_norm(x, (4,), w, 1e-6), root(x)), two)
    case("with a bias", "rms_norm(a, b, c, eps=0.01)", [("f32", T), ("f32", W), ("f32", B)],
         lambda x, w, b: (F.rms_norm(x, (4,), w, 1e-2) + b, root(x, 1e-2)), two)
    case("along columns", "rms_norm(a, b, axis=0)", [("f32", X), ("f32", W[:3])],
         lambda x, w: (F.rms_norm(x.T, (3,), w, 1e-6).T, root(x, dim=0)), two)
    case("zeros", "rms_norm(a)", [("f32", [[0.0] * 4])], lambda x: (F.rms_norm(x, (4,), eps=1e-6), root(x)), two)
    case("large squares in f16", "rms_norm(a)", [("f16", [[300.0, -400.0]])],
         lambda x: (F.rms_norm(x, (2,), eps=1e-6), root(x)), ["f16", "f32"], grad=False)
    case("no rows", "rms_norm(a)", [("f32", torch.zeros(0, 4))], lambda x: (x + 0, root(x)), two)
    case("empty rows", "rms_norm(a)", [("f32", torch.zeros(2, 0))], lambda x: (x + 0, root(x)), two, grad=False)
    case("with weights", "residual_rms_norm(a, b, c)", [("f32", X), ("f32", Y), ("f32", W)],
         lambda x, r, w: (F.rms_norm(x + r, (4,), w, 1e-6), x + r), two)


def layers():
    three = ["f32"] * 3

    def all_three(x, w=None, b=None, eps=1e-5):
        rstd = (x.var(-1, correction=0, keepdim=True) + eps).rsqrt()
        return F.layer_norm(x, (x.shape[-1],), w, b, eps), x.mean(-1, keepdim=True), rstd

    case("without weights", "layer_norm(a)", [("f32", T)], all_three, three)
    case("with weights", "layer_norm(a, b, eps=0.01)", [("f32", X), ("f32", W)],
         lambda x, w: all_three(x, w, eps=1e-2), three)
    case("with a bias", "layer_norm(a, b, c)", [("f32", T), ("f32", W), ("f32", B)], all_three, three)
    case("along columns", "layer_norm(a, b, axis=0)", [("f32", X), ("f32", W[:3])],
         lambda x, w: tuple(y.T for y in all_three(x.T, w)), three)
    case("far from 0", "layer_norm(a)", [("f32", [[4096.0, 4097.0, 4098.0, 4099.0]])], all_three, three, grad=False)
    case("in bf16", "layer_norm(a)", [("bf16", X)], all_three, ["bf16", "f32", "f32"], grad=False)


def batches():
    three = ["f32"] * 3
    channels = [("f32", W[:3]), ("f32", B[:3]), ("f32", [0.5, -1.0, 0.25]), ("f32", [1.0, 0.5, 2.0])]

    def norm(x, gamma, beta, mean, var, axis=1, momentum=0.1, eps=1e-5, train=True):
        """PyTorch's batch norm, with running statistics that have gradients."""
        x = x.movedim(axis, 1)
        kept = mean.detach().clone(), var.detach().clone()
        y = F.batch_norm(x, *kept, gamma, beta, train, momentum, eps)
        if train:
            rows = x.movedim(1, 0).flatten(1)
            mean = mean * (1 - momentum) + rows.mean(1) * momentum
            var = var * (1 - momentum) + rows.var(1) * momentum
        else:
            y = (x.movedim(1, -1) - mean) * gamma / (var + eps).sqrt() + beta
            y = y.movedim(-1, 1)
            assert torch.allclose(y, F.batch_norm(x, *kept, gamma, beta, False, momentum, eps))
        assert torch.allclose(mean, kept[0]) and torch.allclose(var, kept[1])
        return y.movedim(1, axis), mean, var

    rows = torch.tensor(X).T.tolist()
    for train in (True, False):
        mode = f"train={str(train).lower()}"
        case(f"rows, {mode}", f"batch_norm(a, b, c, d, e, {mode})", [("f32", rows), *channels],
             lambda *x: norm(*x, train=train), three)
        case(f"positions, {mode}", f"batch_norm(a, b, c, d, e, {mode}, eps=0.01)", [("f32", T), *channels],
             lambda *x: norm(*x, train=train, eps=0.01), three)
        case(f"channels last, {mode}", f"batch_norm(a, b, c, d, e, {mode}, axis=-1, momentum=0.75)",
             [("f32", torch.tensor(T).transpose(1, 2)), *channels],
             lambda *x: norm(*x, axis=-1, train=train, momentum=0.75), three)
        case(f"in bf16, {mode}", f"batch_norm(a, b, c, d, e, {mode})",
             [("bf16", rows), *(("bf16", w) for _, w in channels[:2]), *channels[2:]], lambda *x: norm(*x, train=train),
             ["bf16", "f32", "f32"], grad=False)
    case("channels of equal values", "batch_norm(a, b, c, d, e)", [("f32", [[1.0, 2.0, 3.0]] * 2), *channels], norm, three)


def lengths():
    def unit(x, dim=-1, eps=1e-8):
        n = x.norm(dim=dim, keepdim=True)
        return x / (n + eps), n

    two = ["f32", "f32"]
    case("rows", "l2_normalize(a)", [("f32", X)], unit, two)
    case("columns", "l2_normalize(a, axis=1, eps=0.5)", [("f32", T)], lambda x: unit(x, 1, 0.5), two)
    case("of 0", "l2_normalize(a)", [("f32", [[0.0, 0.0]])], unit, two, grad=False)

    def cosine(x, y):
        return unit(x)[0].mul(unit(y)[0]).sum(-1)

    assert torch.allclose(cosine(torch.tensor(X), torch.tensor(Y)), F.cosine_similarity(torch.tensor(X), torch.tensor(Y)))
    case("pairs", "cosine_similarity(a, b)", [("f32", X), ("f32", Y)], cosine)
    case("one against many", "cosine_similarity(a, b)", [("f32", X[:2]), ("f32", T)], lambda x, y: cosine(x[:, None], y))
    case("many against one", "cosine_similarity(a, b)", [("f32", T), ("f32", X[:2])], lambda x, y: cosine(x, y[:, None]))
    case("a row against all", "cosine_similarity(a, b)", [("f32", X[:1]), ("f32", Y)], cosine)
    case("a vector against a vector", "cosine_similarity(a, b)", [("f32", W), ("f32", B)], cosine)
    case("empty rows", "cosine_similarity(a, b)", [("f32", torch.zeros(2, 0)), ("f32", torch.zeros(2, 0))], cosine)
    case("no rows", "cosine_matrix(a, b)", [("f32", X), ("f32", torch.zeros(0, 4))], lambda x, y: x @ y.T)
    case("large squares in f16", "cosine_similarity(a, b)", [("f16", [[300.0, -400.0]]), ("f16", [[400.0, 300.0]])],
         cosine, grad=False)
    case("a matrix", "cosine_matrix(a, b)", [("f32", X), ("f32", Y[:2])], lambda x, y: cosine(x[:, None], y[None]))
    case("stacks", "cosine_matrix(a, b)", [("f32", T), ("f32", [X, Y])],
         lambda x, y: cosine(x[:, :, None], y[:, None]))
    case("with lengths", "cosine_matrix(a, b, c)", [("f32", X), ("f32", Y[:2]), ("f32", [[2.0], [0.5]])],
         lambda x, y, n: x @ y.T / ((x.norm(dim=1, keepdim=True) + 1e-8) * (n.T + 1e-8)))


def embeddings():
    case("tokens that occur again", "embedding_rms_norm(a, b, c)", [("f32", X), ("i64", [[1, 0], [1, 1]]), ("f32", W)],
         lambda t, i, w: F.rms_norm(F.embedding(i, t), (4,), w, 1e-6))
    case("no tokens", "embedding_rms_norm(a, b)", [("f32", X), ("i64", [])], lambda t, i: F.embedding(i, t))
    case("without weights", "embedding_rms_norm(a, b)", [("f32", X), ("i32", [2, 2])],
         lambda t, i: F.rms_norm(F.embedding(i, t), (4,), eps=1e-6))


rms()
layers()
batches()
lengths()
embeddings()
record.write()
