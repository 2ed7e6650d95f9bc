#!/usr/bin/env python3
"""Results and gradients of the standard layers by PyTorch, in double precision:

    python tests/examples/layers.py

Operands and parameters follow from a formula (`values`), which tests/numbers/layers.rs has, too. The gradients are those
of the sum of the result times such values."""

import json
from pathlib import Path

import torch
from torch.nn import functional as F
from transformers.models.llama.modeling_llama import (
    LlamaConfig,
    LlamaDecoderLayer,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
    repeat_kv,
)

torch.set_default_dtype(torch.float64)


def values(shape, seed):
    """sin(0.7 i + seed) / 2, in single precision."""
    n = torch.Size(shape).numel()
    flat = torch.tensor([0.7 * i + seed for i in range(n)]).sin() / 2
    return flat.float().double().reshape(shape)


def linear(x, p, path):
    bias = p.get(f"{path}.b")
    return F.linear(x, p[f"{path}.w"].T, bias)


def attention(x, p, path="m", heads=4, groups=2, rotary=True):
    batch, length, width = x.shape
    size = width // heads
    z = linear(x, p, f"{path}.qkv")
    q, k, v = z.split([heads * size, groups * size, groups * size], -1)
    q, k, v = (t.reshape(batch, length, -1, size).transpose(1, 2) for t in (q, k, v))
    if rotary:
        pairs = torch.arange(0, size, 2) / size
        angles = torch.arange(length)[:, None] * 10000.0**-pairs
        angles = torch.cat([angles, angles], -1)[None]
        q, k = apply_rotary_pos_emb(q, k, angles.cos(), angles.sin())
    k, v = repeat_kv(k, heads // groups), repeat_kv(v, heads // groups)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return linear(y.transpose(1, 2).reshape(x.shape), p, f"{path}.out")


def mlp(x, p, path="m", act=F.silu):
    return linear(act(linear(x, p, f"{path}.up")), p, f"{path}.down")


def block(x, p):
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], p[f"m.{name}.g"], p[f"m.{name}.b"])
    h = x + attention(norm(x, "ln1"), p, "m.attn", 2, 2, False)
    return h + mlp(norm(h, "ln2"), p, "m.mlp", lambda x: F.gelu(x, approximate="tanh"))


def llama_block(x, p):
    """The layer of the package transformers. Its queries, keys and values have matrices of their own."""
    config = LlamaConfig(
        hidden_size=8, intermediate_size=6, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5,
        attn_implementation="eager",
    )
    layer, rotary = LlamaDecoderLayer(config, 0), LlamaRotaryEmbedding(config)
    q, k, v = p["m.attn.qkv.w"].split([8, 4, 4], -1)
    weights = {
        "self_attn.q_proj": q, "self_attn.k_proj": k, "self_attn.v_proj": v, "self_attn.o_proj": p["m.attn.out.w"],
        "mlp.gate_proj": p["m.mlp.gate.w"], "mlp.up_proj": p["m.mlp.up.w"], "mlp.down_proj": p["m.mlp.down.w"],
    }
    weights = {f"{name}.weight": weight.T for name, weight in weights.items()}
    weights |= {"input_layernorm.weight": p["m.ln1.g"], "post_attention_layernorm.weight": p["m.ln2.g"]}
    positions = torch.arange(x.shape[1])[None]
    hidden = torch.full((x.shape[1],) * 2, -torch.inf).triu(1)[None, None]
    given = {"position_embeddings": rotary(x, positions), "attention_mask": hidden}
    y = torch.func.functional_call(layer, weights, (x,), given)
    return y[0] if isinstance(y, tuple) else y


def gru(x, h, p):
    return torch.gru_cell(x, h, p["m.w"].T, p["m.u"].T, p["m.b"], p["m.c"])


def lstm(x, h, c, p):
    return torch.lstm_cell(x, (h, c), p["m.w"].T, p["m.u"].T, p["m.b"], p["m.d"])


ATTENTION = {"m.qkv.w": [8, 16], "m.qkv.b": [16], "m.out.w": [8, 8], "m.out.b": [8]}
BLOCK = {
    "m.ln1.g": [6], "m.ln1.b": [6], "m.attn.qkv.w": [6, 18], "m.attn.qkv.b": [18], "m.attn.out.w": [6, 6],
    "m.attn.out.b": [6], "m.ln2.g": [6], "m.ln2.b": [6], "m.mlp.up.w": [6, 12], "m.mlp.up.b": [12],
    "m.mlp.down.w": [12, 6], "m.mlp.down.b": [6],
}
LLAMA = {
    "m.ln1.g": [8], "m.attn.qkv.w": [8, 16], "m.attn.out.w": [8, 8], "m.ln2.g": [8], "m.mlp.gate.w": [8, 6],
    "m.mlp.up.w": [8, 6], "m.mlp.down.w": [6, 8],
}
CASES = [
    ("Linear(x, width=3)", [[2, 4]], {"m.w": [4, 3], "m.b": [3]}, lambda x, p: linear(x, p, "m")),
    ("Linear(x, width=3, bias=false)", [[2, 2, 4]], {"m.w": [4, 3]}, lambda x, p: linear(x, p, "m")),
    ("LayerNorm(x)", [[3, 5]], {"m.g": [5], "m.b": [5]}, lambda x, p: F.layer_norm(x, [5], p["m.g"], p["m.b"])),
    ("RMSNorm(x)", [[3, 5]], {"m.g": [5]}, lambda x, p: F.rms_norm(x, [5], p["m.g"], 1e-6)),
    ("MLP(x, width=6, act=silu)", [[2, 4]], {"m.up.w": [4, 6], "m.up.b": [6], "m.down.w": [6, 4], "m.down.b": [4]}, mlp),
    ("MultiHeadAttention(x, heads=4, kv_heads=2, causal=true, rotary=true)", [[2, 5, 8]], ATTENTION, attention),
    ("TransformerBlock(x, heads=2, causal=true, ratio=2, act=gelu_tanh)", [[2, 3, 6]], BLOCK, block),
    ("GatedMLP(x, width=6)", [[2, 4]], {"m.gate.w": [4, 6], "m.up.w": [4, 6], "m.down.w": [6, 4]},
     lambda x, p: linear(F.silu(linear(x, p, "m.gate")) * linear(x, p, "m.up"), p, "m.down")),
    ("LlamaBlock(x, heads=4, kv_heads=2, width=6)", [[2, 5, 8]], LLAMA, llama_block),
    ("GRUCell(x, h)", [[2, 3], [2, 4]], {"m.w": [3, 12], "m.u": [4, 12], "m.b": [12], "m.c": [12]}, gru),
    ("LSTMCell(x, h, c)", [[2, 3], [2, 4], [2, 4]], {"m.w": [3, 16], "m.u": [4, 16], "m.b": [16], "m.d": [16]}, lstm),
    ("InstanceNorm2d(x)", [[2, 3, 2, 4]], {}, lambda x, p: F.instance_norm(x)),
    ("InstanceNorm2d(x, affine=true)", [[2, 3, 2, 4]], {"m.g": [3], "m.b": [3]},
     lambda x, p: F.instance_norm(x, weight=p["m.g"], bias=p["m.b"])),
    ("Dropout(x, p=0.3)", [[2, 3]], {}, lambda x, p: F.dropout(x, 0.3, training=False)),
]


def recorded(call, inputs, params, layer):
    seeds = iter(range(1, 99))
    operands = {name: values(shape, next(seeds)).requires_grad_() for name, shape in zip("xhc", inputs)}
    weights = {name: values(shape, next(seeds)).requires_grad_() for name, shape in params.items()}
    results = layer(*operands.values(), weights)
    results = results if isinstance(results, tuple) else (results,)
    sum((y * values(y.shape, next(seeds))).sum() for y in results).backward()
    arrays = lambda tensors: {name: tensor.shape for name, tensor in tensors.items()}
    flat = lambda tensor: [float(f"{x:.10g}") for x in tensor.flatten().tolist()]
    gradients = {f"d.{name}": flat(t.grad) for name, t in {**operands, **weights}.items()}
    return {
        "call": call,
        "inputs": arrays(operands),
        "params": arrays(weights),
        "results": [{"shape": y.shape, "values": flat(y)} for y in results],
        "gradients": gradients,
    }


if __name__ == "__main__":
    cases = [recorded(*case) for case in CASES]
    text = ",\n".join(json.dumps(case) for case in cases)
    (Path(__file__).parent / "layers.json").write_text(f"[\n{text}\n]\n")
