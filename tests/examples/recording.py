"""Cases of ops whose numbers come from PyTorch, written as JSON. Floats are rounded to their type and computed with in
double precision. Gradients are for the upstream gradients 1, 2, 3, ... of every float result."""

import json
import math
import pathlib

import torch

TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
         "bool": torch.bool, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8}


class Recording:
    def __init__(self, name):
        self.path = pathlib.Path(__file__).with_name(f"{name}.json")
        self.cases = []

    def case(self, title, call, operands, reference, results=None, grad=True):
        """`operands` are (type, nested list), `results` the types of the results: by default that of the first operand."""
        tensors = [tensor(*operand) for operand in operands]
        outputs = reference(*tensors)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        results = results or [operands[0][0]]
        self.cases.append({
            "title": title,
            "call": call,
            "inputs": [described(name, t) for (name, _), t in zip(operands, tensors)],
            "outputs": [described(name, t) for name, t in zip(results, outputs)],
            "grads": gradients(tensors, outputs) if grad else None,
        })

    def write(self):
        self.path.write_text("[\n" + ",\n".join(json.dumps(case) for case in self.cases) + "\n]\n")


def tensor(dtype, values):
    t = torch.as_tensor(values).to(TORCH[dtype])
    return t.to(torch.float64).requires_grad_() if t.is_floating_point() else t


def described(dtype, t):
    t = t.detach().to(TORCH[dtype])
    extents = ", ".join(str(n) for n in t.shape)
    return [f"{dtype}[{extents}]", spelled(t)]


def spelled(t):
    """JSON has no NaN and no infinities."""
    return [x if math.isfinite(x) else str(x) for x in t.to(torch.float64).flatten().tolist()]


def gradients(tensors, outputs):
    outputs = [y for y in outputs if y.is_floating_point()]
    upstream = [torch.arange(1, y.numel() + 1, dtype=torch.float64).reshape(y.shape) for y in outputs]
    wanted = [t for t in tensors if t.requires_grad]
    grads = iter(torch.autograd.grad(outputs, wanted, upstream, allow_unused=True))
    return [flat(next(grads), t) if t.requires_grad else None for t in tensors]


def flat(grad, like):
    return spelled(torch.zeros_like(like) if grad is None else grad)
