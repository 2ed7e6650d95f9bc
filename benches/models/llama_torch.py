"""The training step of benches/models/llama.ron in PyTorch, on random tokens: python llama_torch.py [eager]

Prints the median and the least milliseconds of a step, of five times ten steps, and the peak of memory."""

import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

T, L, H, G, D, V, W, B = 1024, 12, 12, 4, 768, 32000, 2048, 8
HEAD = D // H


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(torch.bfloat16)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.RMSNorm(D, 1e-5), nn.RMSNorm(D, 1e-5)
        self.qkv, self.out = nn.Linear(D, (H + 2 * G) * HEAD, bias=False), nn.Linear(D, D, bias=False)
        self.gate, self.up = nn.Linear(D, W, bias=False), nn.Linear(D, W, bias=False)
        self.down = nn.Linear(W, D, bias=False)

    def forward(self, x, cos, sin):
        split = self.qkv(self.ln1(x)).split([H * HEAD, G * HEAD, G * HEAD], -1)
        q, k, v = (z.view(*z.shape[:2], -1, HEAD).transpose(1, 2) for z in split)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        h = x + self.out(y.transpose(1, 2).reshape(x.shape))
        z = self.ln2(h)
        return h + self.down(F.silu(self.gate(z)) * self.up(z))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.norm = nn.Embedding(V, D), nn.RMSNorm(D, 1e-5)
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(L)), nn.Linear(D, V, bias=False)
        angles = torch.arange(T)[:, None] * 1e4 ** (-torch.arange(0, HEAD, 2) / HEAD)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens, targets):
        x = self.wte(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).view(-1, V).float(), targets.view(-1))


def main():
    torch.set_float32_matmul_precision("high")
    model = Llama().cuda()
    forward = model if "eager" in sys.argv else torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens, targets = (torch.randint(0, 256, (B, T), device="cuda") for _ in range(2))

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    times = []
    for turn in range(6):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 100)
    times = sorted(times[1:])
    print(f"median {times[2]:.2f} ms, least {times[0]:.2f} ms, {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
