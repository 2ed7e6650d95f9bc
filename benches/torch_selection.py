#!/usr/bin/env python3
"""PyTorch's sorting, selection and exact search: one line of JSON each, as ops_table.py reads them."""
import json
import statistics

import torch

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = True


def bench(op, shape, call, n_times=20):
    for _ in range(3):
        call()
    times = []
    for _ in range(n_times):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    print(json.dumps(dict(op=op, shape=shape, dtype="float32", mode="eager", ms=statistics.median(times))), flush=True)


x = torch.randn(8192, 32768, device="cuda")
bench("topk64", [8192, 32768], lambda: x.topk(64))
bench("topk32", [8192, 32768], lambda: x.topk(32))
bench("sort", [8192, 32768], lambda: x.sort(stable=True), 5)
x = torch.randn(1024, 65536, device="cuda")
bench("topk32", [1024, 65536], lambda: x.topk(32))
del x

base, queries = torch.randn(1_000_000, 128, device="cuda"), torch.randn(10_000, 128, device="cuda")
squares = (base * base).sum(1)


def search(scores):
    for some in queries.split(1000):
        scores(some).topk(10, largest=False)


bench("search_l2", [1_000_000, 128, 10_000], lambda: search(lambda some: squares - 2 * (some @ base.T)), 5)
bench("search_ip", [1_000_000, 128, 10_000], lambda: search(lambda some: -(some @ base.T)), 5)
