"""Sums of rows by label in PyTorch, as `ops/labels.ron` has them: `python benches/torch_labels.py`. Medians in microseconds."""

import torch


def timed(name, function):
    for _ in range(3):
        function()
    times = []
    for _ in range(7):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    print(f"{name:<16}{sorted(times)[3]:10.1f}")


def main():
    n, k = 1 << 20, 128
    u = torch.rand(n, device="cuda")
    label = (u * k).long()
    uneven = torch.where(u < 0.9, 0, label)
    for name, width in [("wide", 128), ("eight", 8), ("one", 1)]:
        x, sums = torch.randn(n, width, device="cuda"), torch.zeros(k, width, device="cuda")
        timed(name, lambda: sums.zero_().index_add_(0, label, x))
        timed(name + "_uneven", lambda: sums.zero_().index_add_(0, uneven, x))
    timed("counts", lambda: torch.bincount(label, minlength=k))
    row, weight = torch.randint(0, 65, (8192,), device="cuda"), torch.randn(8192, 768, device="cuda")
    timed("table_gradient", lambda: torch.ops.aten.embedding_dense_backward(weight, row, 65, -1, False))


main()
