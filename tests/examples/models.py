#!/usr/bin/env python3
"""Twenty steps of an LSTM, a GRU, a small GPT and a network with batch norm by PyTorch, from the weights and in the
batches of tests/models/*.ron:

    python tests/examples/models.py

`models.safetensors` holds the weights that training starts from, `models.npz` the rows, `models.json` the loss of every
step, and after every epoch the loss of all rows outside training. Losses are computed in double precision from those
weights, which are single."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).parent
SEED, ROWS, BATCH, EPOCHS = 5, 32, 8, 5


def philox(counter, key):
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def words(epoch):
    block = 0
    while True:
        yield from philox([block, 0x53485546, epoch, 0], [SEED, 0])
        block += 1


def order(epoch):
    """The engine's order of rows: Fisher and Yates by Philox, without bias (Lemire 2019)."""
    rows, stream = list(range(ROWS)), words(epoch)
    for last in range(ROWS - 1, 0, -1):
        bound = last + 1
        product = next(stream) * bound
        while product & 0xFFFFFFFF < (1 << 32) % bound:
            product = next(stream) * bound
        other = product >> 32
        rows[last], rows[other] = rows[other], rows[last]
    return rows


class Recurrent(nn.Module):
    def __init__(self, cells):
        super().__init__()
        self.cells, self.head = cells(3, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, rows):
        return ((self.head(self.cells(rows["x"])[0][:, -1]) - rows["y"]) ** 2).mean()


class Block(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, n, width = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (part.reshape(batch, n, self.n_heads, -1).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, n, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(12, 16), nn.Embedding(6, 16)
        self.blocks = nn.ModuleList([Block(16, 2), Block(16, 2)])
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 12, bias=False)

    def forward(self, rows):
        x = self.letters(rows["token"]) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), rows["next"].flatten())


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(15, 8, bias=False), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, rows):
        h = self.norm(self.first(rows["x"].flatten(1))).relu()
        return ((self.head(h) - rows["y"]) ** 2).mean()


def losses(model, weights, rows, optimizer):
    model.load_state_dict(weights)
    model.double()
    stepper, found, evaluated = optimizer(model.parameters()), [], []
    for epoch in range(EPOCHS):
        visited = order(epoch)
        for first in range(0, ROWS, BATCH):
            picked = visited[first:first + BATCH]
            loss = model({name: tensor[picked] for name, tensor in rows.items()})
            stepper.zero_grad()
            loss.backward()
            stepper.step()
            found.append(loss.item())
        with torch.no_grad():
            evaluated.append(model.eval()(rows).item())
        model.train()
    return {"losses": found, "evaluated": evaluated}


OPTIMIZERS = {
    "Momentum(lr: 0.1, momentum: 0.9)": lambda params: torch.optim.SGD(params, 0.1, momentum=0.9),
    "AdamW(lr: 0.01, weight_decay: 0.1)": lambda params: torch.optim.AdamW(params, 0.01, weight_decay=0.1),
}

torch.manual_seed(11)
models = {"lstm": Recurrent(nn.LSTM), "gru": Recurrent(nn.GRU), "gpt": Gpt()}
with torch.no_grad():
    for name, tensor in models["gpt"].named_parameters():
        tensor.add_(0.02 * torch.randn_like(tensor))
        if name in ("letters.weight", "places.weight"):
            tensor.mul_(0.5)

x = torch.randn(ROWS, 5, 3)
y = torch.stack([x[:, :, 0].sum(1).tanh(), x[:, 1, 1] * x[:, 3, 2]], dim=1)
letters = torch.randint(12, (ROWS, 7), dtype=torch.int32)
letters[:, 1::2] = (letters[:, 0:-1:2] * 5 + 1) % 12
arrays = {"x": x, "y": y, "token": letters[:, :-1].contiguous(), "next": letters[:, 1:].contiguous()}
np.savez_compressed(HERE / "models.npz", **{name: tensor.numpy() for name, tensor in arrays.items()})

models["normed"] = Normed()
initial = {name: {key: t.clone() for key, t in model.state_dict().items()} for name, model in models.items()}
named = dict(initial["gpt"])
for name in ("lstm", "gru"):
    named |= {key.replace("cells.", f"{name}.").replace("head.", f"{name}_head."): t
              for key, t in initial[name].items()}
named |= {f"normed.{key}": t for key, t in initial["normed"].items() if t.dim()}
save_file(named, HERE / "models.safetensors")

wide = {name: tensor.double() if tensor.is_floating_point() else tensor.long() for name, tensor in arrays.items()}
cases = [
    {"model": name, "optimizer": optimizer, **losses(models[name], initial[name], wide, make)}
    for name in models
    for optimizer, make in OPTIMIZERS.items()
]
(HERE / "models.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
