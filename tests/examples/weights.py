"""Writes what PyTorch and NumPy make of a small network: its weights as files, and its results for some rows.

    python tests/examples/weights.py

`weights.safetensors` and `weights.npz` hold the same tensors under PyTorch's names, `weights_f16.safetensors` and its like
those tensors in another type; `weights.json` has rows, and results in single precision of the weights of each file.
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


def results():
    with torch.no_grad():
        return network(rows).flatten().tolist()


weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
save_file(weights, HERE / "weights.safetensors")
np.savez_compressed(HERE / "weights.npz", **{name: tensor.numpy() for name, tensor in weights.items()})
recorded = {"rows": rows.flatten().tolist(), "results": results()}
for name, dtype in [("f16", torch.float16), ("bf16", torch.bfloat16), ("f64", torch.float64)]:
    converted = {key: tensor.to(dtype) for key, tensor in weights.items()}
    save_file(converted, HERE / f"weights_{name}.safetensors")
    network.load_state_dict({key: tensor.float() for key, tensor in converted.items()})
    recorded[f"results_{name}"] = results()
(HERE / "weights.json").write_text(json.dumps(recorded) + "\n")
