#!/usr/bin/env python3
"""PyTorch's small gathers and scatters inside one captured graph of as many calls as the engine is given steps at once.

Usage: torch_small_rows.py        One line of JSON a row, as ops_table.py reads them. `torch_ops.py` replays 20 calls,
over which what a replay itself takes is spread less thinly than over our 320 steps.
"""
import json
import statistics

import torch

N_CALLS = 320
N_TIMES = 50


def graph_ms(call):
    """One call inside a replayed graph: the median of some replays."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(N_CALLS):
            call()
    return statistics.median(replayed_ms(graph) for _ in range(N_TIMES)) / N_CALLS


def replayed_ms(graph):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def main():
    torch.manual_seed(0)
    for rows, columns, n in ((1024, 256, 128), (4096, 1024, 512), (16384, 1024, 2048)):
        table = torch.randn(rows, columns, device="cuda").half()
        indices = torch.randint(0, rows, (n,), device="cuda")
        sums, updates = torch.zeros(rows, columns, device="cuda"), torch.randn(n, columns, device="cuda")
        calls = {
            ("gather_rows", "float16"): lambda: table.index_select(0, indices),
            ("scatter_add_rows", "float32"): lambda: sums.index_add_(0, indices, updates),
        }
        for (op, dtype), call in calls.items():
            row = dict(op=op, shape=[rows, columns, n], dtype=dtype, mode=f"graph of {N_CALLS}", ms=graph_ms(call))
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
