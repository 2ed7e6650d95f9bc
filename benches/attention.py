"""The peer of benches/attention.ron: PyTorch's fused attention, and gather + softmax + sum. µs per call, 2 threads."""

import time

import torch
import torch.nn.functional as F

torch.set_num_threads(2)
B, H, T, D, S = 4, 8, 512, 64, 64
q, k, v = (torch.randn(B, H, T, D) for _ in range(3))
selected = torch.randint(0, T, (B, H, T, S))


def sparse():
    """Rows by one index into the flattened heads: the fastest way to gather them in PyTorch."""
    at = (selected + torch.arange(B * H).view(B, H, 1, 1) * T).flatten()
    keys = k.reshape(-1, D).index_select(0, at).view(B * H * T, S, D)
    values = v.reshape(-1, D).index_select(0, at).view(B * H * T, S, D)
    scores = torch.bmm(keys, q.reshape(-1, D, 1)).squeeze(-1) * D**-0.5
    return torch.bmm(scores.softmax(-1).unsqueeze(1), values).view(B, H, T, D)


def spelled():
    return (q @ k.transpose(-1, -2) * D**-0.5).softmax(-1) @ v


def per_call(f, n=30):
    for _ in range(3):
        f()
    times = []
    for _ in range(n):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return sorted(times)[n // 2] * 1e6


with torch.inference_mode():
    print(f"dense   {per_call(lambda: F.scaled_dot_product_attention(q, k, v)):9.0f}")
    print(f"causal  {per_call(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)):9.0f}")
    print(f"spelled {per_call(spelled):9.0f}")
    print(f"sparse  {per_call(sparse, 10):9.0f}")
