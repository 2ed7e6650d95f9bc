"""The recipe of graphs/gpt.ron in PyTorch: python gpt_torch.py TEXT [SEEDS] [STEPS] [DEVICE].

Prints a JSON line for each seed: the loss over all windows of the last tenth of the text, and milliseconds per step."""

import json
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

T, L, H, D, V, B = 64, 4, 4, 128, 256, 12
START, END, WARMUP = 1e-3, 1e-4, 100


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        for linear, std in [(self.qkv, 0.02), (self.up, 0.02), (self.out, OUT), (self.down, OUT)]:
            nn.init.normal_(linear.weight, 0, std)
            nn.init.zeros_(linear.bias)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, H, D // H).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, D)
        h = x + self.out(y)
        return h + self.down(F.gelu(self.up(self.ln2(h))))


OUT = 0.02 * (2 * L) ** -0.5


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, D), nn.Embedding(T, D)
        nn.init.normal_(self.wte.weight, 0, 0.02)
        nn.init.normal_(self.wpe.weight, 0, 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(L))
        self.norm = nn.LayerNorm(D)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(T, device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.wte.weight.t()
        return F.cross_entropy(logits.reshape(-1, V), targets.reshape(-1))


def rate(step, n_steps):
    if step < WARMUP:
        return START * step / WARMUP
    part = (step - WARMUP) / (n_steps - 1 - WARMUP)
    return END + (START - END) * (1 + math.cos(math.pi * part)) / 2


def train(data, seed, n_steps, device):
    torch.manual_seed(seed)
    model = Gpt().to(device)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=START, betas=(0.9, 0.99), eps=1e-8)
    n_train = len(data) - round(len(data) * 0.1)
    train_data, test = data[:n_train], data[n_train:]
    offsets = torch.arange(T + 1, device=device)
    start = time.perf_counter()
    for step in range(n_steps):
        rows = train_data[torch.randint(0, n_train - T, (B,), device=device)[:, None] + offsets]
        for group in optimizer.param_groups:
            group["lr"] = rate(step, n_steps)
        optimizer.zero_grad(set_to_none=True)
        loss = model(rows[:, :-1], rows[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    loss.item()
    seconds = time.perf_counter() - start
    starts = torch.arange(0, len(test) - T, T, device=device)
    with torch.no_grad():
        total = 0.0
        for part in starts.split(96):
            rows = test[part[:, None] + offsets]
            total += model(rows[:, :-1], rows[:, 1:]).item() * len(part)
    return {"seed": seed, "test_loss": total / len(starts), "ms_per_step": seconds / n_steps * 1e3}


def main():
    text = open(sys.argv[1], "rb").read()
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    n_steps = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    device = sys.argv[4] if len(sys.argv) > 4 else ("cuda" if torch.cuda.is_available() else "cpu")
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long().to(device)
    for seed in range(1, seeds + 1):
        print(json.dumps({**train(data, seed, n_steps, device), "device": device, "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
