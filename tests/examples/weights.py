"""Writes what PyTorch and NumPy make of a small network: its weights as files, and its results for some rows.

    python tests/examples/weights.py

`weights.safetensors` and `weights.npz` hold the same tensors under PyTorch's names, `weights.json` rows and results.
"""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent

torch.manual_seed(7)
network = torch.nn.Sequential()
network.add_module("fc1", torch.nn.Linear(3, 4))
network.add_module("act", torch.nn.GELU())
network.add_module("fc2", torch.nn.Linear(4, 2))
rows = torch.randn(5, 3)
with torch.no_grad():
    results = network(rows)

weights = network.state_dict()
save_file(weights, HERE / "weights.safetensors")
np.savez_compressed(HERE / "weights.npz", **{name: tensor.numpy() for name, tensor in weights.items()})
recorded = {"rows": rows.flatten().tolist(), "results": results.flatten().tolist()}
(HERE / "weights.json").write_text(json.dumps(recorded) + "\n")
