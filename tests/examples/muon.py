"""Expected numbers of Muon, by the formulas of its authors in double precision: python tests/examples/muon.py"""

import torch
from recording import Recording

X = [[0.5, -1.0, 2.0, 1.25], [3.0, 0.25, -0.5, 3.0], [-2.0, 1.0, 0.0, 0.75]]
Y = [[1.0, 0.5, -2.0, 3.0], [0.0, 1.25, 1.0, -1.0], [2.0, -0.5, 0.75, 0.25]]
Z = [[0.25, 0.0, 1.0, -0.5], [1.5, -1.25, 0.5, 1.0], [0.0, 0.5, -0.75, 2.0]]


def orthogonalised(g, steps):
    x = g / (g.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return x.T if tall else x


def muon(p, g, lr, buffer, nesterov=True, decay=0.01):
    buffer = 0.95 * buffer + g
    u = g + 0.95 * buffer if nesterov else buffer
    o = orthogonalised(u.flatten(1), 5).reshape(p.shape)
    size = max(1, p.shape[0] / u.flatten(1).shape[1]) ** 0.5
    return p * (1 - lr * decay) - lr * size * o, buffer


def transposed(x):
    return torch.tensor(x).T.tolist()


def record():
    recording = Recording("muon")
    case, two = recording.case, ["f32", "f32"]
    case("wide", "newton_schulz(a, compute=f32)", [("f32", X)], lambda x: orthogonalised(x, 5))
    case("tall", "newton_schulz(a, steps=2, compute=f32)", [("f32", transposed(X))], lambda x: orthogonalised(x, 2))
    case("no steps", "newton_schulz(a, steps=0, compute=f32)", [("f32", X)], lambda x: orthogonalised(x, 0))
    case("wide", "muon(a, b, c, d, compute=f32)", [("f32", X), ("f32", Y), ("f32", 0.1), ("f32", Z)], muon, two, grad=False)
    case("tall", "muon(a, b, c, d, compute=f32)",
         [("f32", transposed(X)), ("f32", transposed(Y)), ("f32", 0.1), ("f32", transposed(Z))], muon, two, grad=False)
    case("without looking ahead", "muon(a, b, c, d, nesterov=false, weight_decay=0.5, compute=f32)",
         [("f32", X), ("f32", Y), ("f32", 0.1), ("f32", Z)], lambda *x: muon(*x, nesterov=False, decay=0.5), two, grad=False)
    case("three axes", "muon(a, b, c, d, compute=f32)", [("f32", [[x] for x in X]), ("f32", [[x] for x in Y]), ("f32", 0.1),
         ("f32", [[x] for x in Z])], muon, two, grad=False)
    recording.write()


if __name__ == "__main__":
    record()
