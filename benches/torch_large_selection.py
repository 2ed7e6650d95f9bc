#!/usr/bin/env python3
"""PyTorch's selections of many elements, as in ops/large_selection.ron: microseconds, the median of seven."""
import statistics

import torch

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = True
base, queries = torch.randn(131072, 128, device="cuda"), torch.randn(4096, 128, device="cuda")
x = torch.randn(2048, 131072, device="cuda")
norms = (base * base).sum(1)


def bench(name, call):
    times = []
    for _ in range(9):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * start.elapsed_time(end))
    print(f"{name:20} {statistics.median(times[2:]):10.1f}")


bench("top2048_of_product", lambda: (queries @ base.T).topk(2048))
bench("nearest2048", lambda: (norms - 2 * (queries @ base.T)).topk(2048, largest=False))
for k in (128, 512, 1500):
    bench(f"top{k}", lambda: x.topk(k))
