"""The tokens of the stage `write` of benches/models/llama.ron in PyTorch: python llama_decode_torch.py

Parameters are bf16, the cache holds all 1,024 tokens, and the step is compiled with CUDA graphs. Prints the median and the least
microseconds of a token, of five texts of 200 tokens. Each token is drawn at a temperature of 0.8 on the GPU."""

import time

import torch
import torch.nn.functional as F

from llama_torch import G, H, HEAD, T, Llama, rotate


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Llama().bfloat16()
        self.model.cos, self.model.sin = self.model.cos.float(), self.model.sin.float()
        for block in self.model.blocks:
            block.register_buffer("keys", torch.zeros(1, G, T, HEAD, dtype=torch.bfloat16))
            block.register_buffer("values", torch.zeros(1, G, T, HEAD, dtype=torch.bfloat16))
        self.register_buffer("places", torch.arange(T))

    def block(self, block, x, place):
        split = block.qkv(block.ln1(x)).split([H * HEAD, G * HEAD, G * HEAD], -1)
        q, k, v = (z.view(1, 1, -1, HEAD).transpose(1, 2) for z in split)
        cos, sin = self.model.cos[place], self.model.sin[place]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        block.keys[:, :, place] = k
        block.values[:, :, place] = v
        mask = (self.places <= place).view(1, 1, 1, T)
        y = F.scaled_dot_product_attention(q, block.keys, block.values, attn_mask=mask, enable_gqa=True)
        h = x + block.out(y.transpose(1, 2).reshape(x.shape))
        z = block.ln2(h)
        return h + block.down(F.silu(block.gate(z)) * block.up(z))

    def forward(self, token, place):
        x = self.model.wte(token)
        for block in self.model.blocks:
            x = self.block(block, x, place)
        logits = self.model.head(self.model.norm(x))[0, -1].float() / 0.8
        noise = torch.empty_like(logits).exponential_(1)
        return torch.argmax(torch.softmax(logits, -1) / noise).view(1, 1)


@torch.inference_mode()
def main():
    decoder = Decoder().cuda()
    step = torch.compile(decoder, mode="reduce-overhead", fullgraph=True)
    times = []
    for _ in range(6):
        token, place = torch.zeros(1, 1, dtype=torch.long, device="cuda"), torch.zeros(1, dtype=torch.long, device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            token = step(token, place).clone()
            token.item()
            place += 1
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e6 / 200)
    times = sorted(times[1:])
    print(f"median {times[2]:.0f} us, least {times[0]:.0f} us a token")


if __name__ == "__main__":
    main()
