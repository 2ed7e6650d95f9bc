"""Writes onnx/*.onnx and onnx_models.json: models as PyTorch exports them, with the results of onnxruntime.

    python tests/examples/onnx_models.py               # needs torch, torchvision, transformers, onnx, onnxruntime, onnxscript
    python tests/examples/onnx_models.py --large DIR   # the same architectures in their published sizes, never committed

Weights are random, with a fixed seed. Each architecture is exported by one or both exporters of PyTorch: `torchscript`
and `dynamo`. Extents of inputs are open.
"""

import json
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import torchvision
import transformers
from torch import nn

HERE = pathlib.Path(__file__).parent
warnings.filterwarnings("ignore")


class Output(nn.Module):
    """One result of a model of transformers."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, tokens):
        options = {"use_cache": False} if self.name == "logits" else {}
        return getattr(self.model(tokens, **options), self.name)


class Block(nn.Module):
    """Attention of PyTorch's own, in a block with norms."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Last(nn.Module):
    """A recurrent network, and a layer on its last state."""

    def __init__(self, cell, width):
        super().__init__()
        self.cell = cell(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


class Both(nn.Module):
    """A recurrent network in both directions."""

    def __init__(self, width):
        super().__init__()
        self.cell = nn.LSTM(width, width, bidirectional=True)

    def forward(self, x):
        y, (h, c) = self.cell(x)
        return y, h, c


def mlp(sizes):
    layers = [layer for n, m in zip(sizes, sizes[1:]) for layer in [nn.Linear(n, m), nn.ReLU()]]
    return nn.Sequential(*layers[:-1], nn.Softmax(dim=-1))


def transformers_models(is_large):
    eager = {"attn_implementation": "eager"}
    small = dict(vocab_size=31, **eager)
    gpt2 = {} if is_large else dict(n_positions=12, n_embd=16, n_layer=1, n_head=2, **small)
    bert = {} if is_large else dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=12, **small)
    llama = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=12, **small)
    if is_large:
        llama = dict(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4, **eager)
    return {
        "gpt2": (Output(transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**eager, **gpt2})), "logits"), ["dynamo"]),
        "bert": (Output(transformers.BertModel(transformers.BertConfig(**{**eager, **bert})), "last_hidden_state"), ["torchscript", "dynamo"]),
        "llama": (Output(transformers.LlamaForCausalLM(transformers.LlamaConfig(**llama)), "logits"), ["dynamo"]),
    }


def narrowed(model, factor):
    """The model with so many times fewer channels, for files that are small."""
    for name, layer in model.named_children():
        if isinstance(layer, nn.Conv2d):
            n = layer.in_channels if layer.in_channels == 3 else layer.in_channels // factor
            layer = nn.Conv2d(n, layer.out_channels // factor, layer.kernel_size, layer.stride, layer.padding, bias=layer.bias is not None)
        elif isinstance(layer, nn.BatchNorm2d):
            layer = nn.BatchNorm2d(layer.num_features // factor)
        elif isinstance(layer, nn.Linear):
            layer = nn.Linear(layer.in_features // factor, layer.out_features)
        setattr(model, name, narrowed(layer, factor))
    return model


def vision_models(is_large):
    zoo = torchvision.models
    if is_large:
        models = {"resnet18": zoo.resnet18(), "resnet50": zoo.resnet50(), "mobilenet_v3": zoo.mobilenet_v3_large(), "vit_b_16": zoo.vit_b_16()}
    else:
        settings, _ = zoo.mobilenetv3._mobilenet_v3_conf("mobilenet_v3_small", width_mult=0.1)
        models = {
            "resnet18": narrowed(zoo.resnet18(num_classes=5), 32),
            "resnet50": narrowed(zoo.ResNet(zoo.resnet.Bottleneck, [1, 1, 1, 1], num_classes=5), 32),
            "mobilenet_v3": zoo.MobileNetV3(settings[::2], last_channel=16, num_classes=5),
            "vit_b_16": zoo.VisionTransformer(16, 8, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=16, num_classes=5),
        }
    for model in models.values():
        for layer in model.modules():
            if isinstance(layer, nn.BatchNorm2d):
                # As after training. A new norm passes its operand on.
                nn.init.normal_(layer.running_mean, std=0.1)
                nn.init.uniform_(layer.running_var, 0.5, 1.5)
                nn.init.uniform_(layer.weight, 0.5, 1.0)
            elif isinstance(layer, (nn.Conv2d, nn.Linear)):
                # Some heads start at 0, and would hide everything before them.
                nn.init.kaiming_normal_(layer.weight)
                if layer.bias is not None:
                    nn.init.normal_(layer.bias, std=0.1)
    return models


def export(model, example, names, path, exporter):
    inputs, outputs = names
    if exporter == "dynamo":
        extents = tuple(torch.export.Dim(name, min=2, max=4096) if name else None for name in inputs["x"])
        torch.onnx.export(model, (example,), path, dynamo=True, dynamic_shapes=({i: dim for i, dim in enumerate(extents) if dim is not None},),
                          input_names=["x"], output_names=outputs, external_data=False, verbose=False)
    else:
        axes = {i: name for i, name in enumerate(inputs["x"]) if name}
        torch.onnx.export(model, (example,), path, dynamo=False, input_names=["x"], output_names=outputs, dynamic_axes={"x": axes}, opset_version=17)
    strip(path)


def strip(path):
    """Leaves out what only debuggers read."""
    model = onnx.load(path)
    del model.metadata_props[:], model.graph.metadata_props[:], model.graph.value_info[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in [*model.graph.input, *model.graph.output, *model.graph.initializer]:
        del value.metadata_props[:]
        value.doc_string = ""
    onnx.save(model, path)


def recorded(path, x):
    session = onnxruntime.InferenceSession(str(path))
    names = [output.name for output in session.get_outputs()]
    def written(array):
        elements = [float(f"{v:.7g}") for v in array.ravel().tolist()] if array.dtype.kind == "f" else array.ravel().tolist()
        return {"dtype": str(array.dtype), "shape": list(array.shape), "elements": elements}
    found = session.run(None, {"x": x})
    assert all(np.abs(y).max() > 0.05 for y in found), path
    return {"model": path.name, "inputs": {"x": written(x)}, "outputs": dict(zip(names, map(written, found)))}


def main(folder, is_large):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    width, vocabulary, length = (64, 30000, 128) if is_large else (8, 31, 5)
    cases = []
    rows = (["batch", None], (3, 6), "float")
    sequences = (["batch", "time", None], (2, 5, width), "float")
    fixed = (["batch", None, None], (2, 5, width), "float")
    models = {
        "mlp": (mlp([6, 8, 8, 3]), ["torchscript", "dynamo"], rows),
        "block": (Block(width, 2), ["torchscript", "dynamo"], sequences),
        "lstm": (Last(nn.LSTM, width), ["torchscript"], fixed),
        "gru": (Last(nn.GRU, width), ["torchscript"], fixed),
        "both": (Both(4), ["torchscript"], ([None, "batch", None], (5, 2, 4), "float")),
    }
    tokens = (["batch", "time"], (2, length), "tokens")
    models |= {name: (model, exporters, tokens) for name, (model, exporters) in transformers_models(is_large).items()}
    size = 224 if is_large else 16
    for name, model in vision_models(is_large).items():
        images = (["batch", None, None, None], (2, 3, size, size), "float")
        exporters = {"resnet18": ["torchscript", "dynamo"], "resnet50": ["dynamo"]}.get(name, ["torchscript"])
        models[name] = (model, ["torchscript", "dynamo"] if is_large else exporters, images)
    for name, (model, exporters, (extents, shape, kind)) in models.items():
        x = rng.integers(0, vocabulary, shape) if kind == "tokens" else rng.normal(size=shape).astype(np.float32).round(3)
        for exporter in exporters:
            path = folder / f"{name}_{exporter}.onnx"
            outputs = ["y", "h", "c"] if name == "both" else ["y"]
            # TorchScript writes the length of a sequence into the attention of PyTorch.
            open_extents = fixed[0] if path.name == "block_torchscript.onnx" else extents
            export(model.eval(), torch.from_numpy(x), ({"x": open_extents}, outputs), str(path), exporter)
            cases.append(recorded(path, x))
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (folder.parent / "onnx_models.json" if not is_large else folder / "onnx_models.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--large"]:
        main(pathlib.Path(sys.argv[2]), True)
    else:
        (HERE / "onnx").mkdir(exist_ok=True)
        main(HERE / "onnx", False)
