#!/usr/bin/env python3
"""PyTorch's products of a classifier's last layer, TF32, inside one captured graph of as many calls as the engine is given
steps at once.

Usage: torch_narrow.py        One line of JSON a row, as ops_table.py reads them.
"""
import json

import torch

from torch_small_rows import graph_ms


def main():
    torch.backends.cuda.matmul.allow_tf32 = True
    k, n = 256, 10
    for m in (128, 1024, 8192):
        x, g = torch.randn(m, k, device="cuda"), torch.randn(m, n, device="cuda")
        w, b = torch.randn(k, n, device="cuda"), torch.randn(n, device="cuda")
        calls = {"narrow": lambda: torch.addmm(b, x, w), "short": lambda: g @ w.T, "tall": lambda: x.T @ g}
        for op, call in calls.items():
            print(json.dumps(dict(op=op, shape=[m, k, n], dtype="tf32", mode="graph", ms=graph_ms(call))), flush=True)


if __name__ == "__main__":
    main()
