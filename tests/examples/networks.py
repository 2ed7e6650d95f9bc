#!/usr/bin/env python3
"""Twenty steps of three kinds of networks by PyTorch, in the batches of tests/examples/models.py:

    python tests/examples/networks.py

- `mixed`: the GPT and the network with batch norm of models.py under `torch.autocast` in bfloat16, with losses in f32.
- `recurrent`: two layers of a GRU and of an LSTM from initial states that depend on the input, in double precision.
- `averaged`: the network with batch norm by AdamW with groups and a moving average of its weights, in double precision.

`networks.safetensors` holds the weights of the recurrent networks, `networks.json` the losses of all steps."""

import copy
import json
import re
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).parent
# The networks and the order of rows of models.py, without its run.
source = (HERE / "models.py").read_text()
exec(compile(source[:source.index("def losses(")], "models.py", "exec"))

arrays = np.load(HERE / "models.npz")
rows = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
rows = {name: t if t.is_floating_point() else t.long() for name, t in rows.items()}
wide = {name: t.double() if t.is_floating_point() else t for name, t in rows.items()}
named = load_file(HERE / "models.safetensors")


def weights(prefix, model):
    own = {key: named[prefix + key] for key in model.state_dict() if prefix + key in named}
    model.load_state_dict(own, strict=False)
    return model


def batches():
    for epoch in range(EPOCHS):
        visited = order(epoch)
        for first in range(0, ROWS, BATCH):
            yield visited[first:first + BATCH]


def train(model, rows, stepper, autocast=False, average=None):
    found = []
    for picked in batches():
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model({name: tensor[picked] for name, tensor in rows.items()})
        stepper.zero_grad()
        loss.backward()
        if average:
            average.update_parameters(model)
        stepper.step()
        found.append(loss.item())
    return found


class Stacked(nn.Module):
    """Two recurrent layers whose initial states are linear in the first position."""

    def __init__(self, cells):
        super().__init__()
        self.first = nn.Linear(3, 8)
        self.cells, self.head = cells(3, 8, num_layers=2, batch_first=True), nn.Linear(8, 2)

    def forward(self, rows):
        h = self.first(rows["x"][:, 0]).expand(2, -1, -1).contiguous()
        state = (h, h * 0.5) if isinstance(self.cells, nn.LSTM) else h
        return ((self.head(self.cells(rows["x"], state)[0]).mean(1) - rows["y"]) ** 2).mean()


momentum = lambda params: torch.optim.SGD(params, 0.1, momentum=0.9)
result = {"mixed": {}, "recurrent": {}}
for name, model in {"gpt_layers": weights("", Gpt()), "normed_layers": weights("normed.", Normed())}.items():
    result["mixed"][name] = train(model, rows, momentum(model.parameters()), autocast=True)

torch.manual_seed(23)
saved = {}
for name, cells in {"gru": nn.GRU, "lstm": nn.LSTM}.items():
    model = Stacked(cells)
    saved |= {f"{name}.{key}": t.clone() for key, t in model.state_dict().items()}
    model.double()
    result["recurrent"][name] = train(model, wide, momentum(model.parameters()))
save_file(saved, HERE / "networks.safetensors")

model = weights("normed.", Normed()).double()
biases = [model.norm.bias, model.head.bias]
others = [model.first.weight, model.norm.weight, model.head.weight]
stepper = torch.optim.AdamW([{"params": biases, "weight_decay": 0.0, "lr": 0.02}, {"params": others}], 0.01, weight_decay=0.1)
average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
averaged = {"losses": train(model, wide, stepper, average=average)}
with torch.no_grad():
    final = average.module
    for buffer in ("running_mean", "running_var"):
        getattr(final.norm, buffer).copy_(getattr(model.norm, buffer))
    averaged["evaluated"] = final.eval()(wide).item()
    averaged["weight"] = final.head.weight.t().flatten().tolist()
result["averaged"] = averaged
(HERE / "networks.json").write_text(json.dumps(result, indent=1) + "\n")
