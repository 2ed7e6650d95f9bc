#!/usr/bin/env python3
"""Our times of single ops beside a peer's: each row as JSON, then all as a table.

Usage: ops_table.py OURS PEER.jsonl, where OURS is a folder of `NAME.json` as `engine bench --json` prints them and
PEER.jsonl has the lines {"op", "shape", "dtype", "mode", "ms"} of a peer in the same sitting. `bound` is the time to move
the bytes that must move at the peer's copy speed, or to do the arithmetic at the speed of its largest product.
"""
import json
import pathlib
import sys

MI = 1 << 20
MILLION = 1_000_000
# name: (our file, our stage, peer's op, shape and type, bytes that must move, floating-point operations)
ROWS = {
    "map chain f32": ("maps", "map_chain", "map_chain", [64 * MI], "float32", 12 * 64 * MI, 0),
    "softmax f32 8192x32768": ("rows", "softmax", "softmax", [8192, 32768], "float32", 8 * 8192 * 32768, 0),
    "log-softmax f32 8192x32768": ("rows", "log_softmax", "log_softmax", [8192, 32768], "float32", 8 * 8192 * 32768, 0),
    "Gumbel-softmax f32 8192x32768": ("rows", "gumbel_softmax", "gumbel_softmax", [8192, 32768], "float32", 8 * 8192 * 32768, 0),
    "Gumbel-softmax f32 100000x100": ("short_rows", "gumbel_softmax_short", "gumbel_softmax", [100000, 100], "float32", 8 * 10**7, 0),
    "Gumbel-softmax hard 8192x32768": ("rows", "gumbel_softmax_hard", "gumbel_softmax_hard", [8192, 32768], "float32", 8 * 8192 * 32768, 0),
    "Gumbel-argmax 8192x32768": ("rows", "gumbel_argmax", "gumbel_argmax", [8192, 32768], "float32", 4 * 8192 * 32768, 0),
    "RMSNorm bf16 8192x4096": ("norms", "rms_norm", "rms_norm", [8192, 4096], "bfloat16", 4 * 8192 * 4096, 0),
    "LayerNorm bf16 8192x4096": ("norms", "layer_norm", "layer_norm", [8192, 4096], "bfloat16", 4 * 8192 * 4096, 0),
    "cross-entropy, gradient f32": ("losses", "cross_entropy", "cross_entropy_fwd_bwd", [8192, 32000], "float32", 8 * 8192 * 32000, 0),
    "cross-entropy, gradient bf16": ("losses", "cross_entropy_bf16", "cross_entropy_fwd_bwd", [8192, 32000], "bfloat16", 4 * 8192 * 32000, 0),
    "gather rows f16 1Mi x 256": ("indices", "gather_rows", "gather_rows", [MI, 256, MI], "float16", 4 * MI * 256, 0),
    "scatter-add rows f32 1Mi x 256": ("indices", "scatter_add_rows", "scatter_add_rows", [MI, 256, MI], "float32", 12 * MI * 256, 0),
    "gather + softmax + weighted sum": (
        "attention", "gather_attention", "gather_softmax_weighted_sum", [64, 16, 128, 1 << 17, 512], "bfloat16",
        2 * (2 * 64 * 16 * 512 * 128 + 2 * 64 * 16 * 128), 0),
    "top-64 f32 8192x32768": ("selection", "top_64", "topk64", [8192, 32768], "float32", 4 * 8192 * 32768, 0),
    "top-32 f32 8192x32768": ("selection", "top_32", "topk32", [8192, 32768], "float32", 4 * 8192 * 32768, 0),
    "top-32 f32 1024x65536": (
        "selection-1024-65536", "top_32", "topk32", [1024, 65536], "float32", 4 * 1024 * 65536, 0),
    "sort f32 8192x32768": ("selection", "sort", "sort", [8192, 32768], "float32", 12 * 8192 * 32768, 0),
    "search L2, 10 of 1M x 128, 10k": (
        "search", "search_l2", "search_l2", [MILLION, 128, 10_000], "float32", 4 * 128 * MILLION, 2 * 128 * 10_000 * MILLION),
    "search inner product, 10 of 1M x 128, 10k": (
        "search", "search_ip", "search_ip", [MILLION, 128, 10_000], "float32", 4 * 128 * MILLION, 2 * 128 * 10_000 * MILLION),
    "AdamW f32 124M": ("optimizer", "adamw", "adamw", [124_000_000], "float32", 28 * 124_000_000, 0),
}
for m, k, n in ([8192, 8192, 8192], [4096, 4096, 4096], [8192, 1024, 4096]):
    file = "products" if k == 8192 else f"products-{m}-{k}-{n}"
    ROWS[f"GEMM + bias + ReLU bf16 {m}x{k}x{n}"] = (
        file, "gemm_bias_relu", "gemm_bias_relu", [m, k, n], "bfloat16", 2 * (m * k + k * n + m * n), 2 * m * k * n)
for rows, columns, n in ([1024, 256, 128], [4096, 1024, 512], [16384, 1024, 2048]):
    file = f"indices-{rows}-{columns}-{n}"
    shape = [rows, columns, n]
    ROWS[f"gather rows f16 {rows}x{columns}, {n}"] = (
        file, "gather_rows", "gather_rows", shape, "float16", 4 * n * columns, 0)
    ROWS[f"scatter-add rows f32 {rows}x{columns}, {n}"] = (
        file, "scatter_add_rows", "scatter_add_rows", shape, "float32", 12 * n * columns, 0)
for batch in 128, 1024, 8192:
    # Each parameter is read with its moments and gradient and written with its moments; three products a layer.
    ROWS[f"MNIST step TF32, batch {batch}"] = (
        f"mnist-{batch}", "train", "mnist_step", [batch], "tf32", 28 * 203_530 + 784 * batch, 6 * 203_264 * batch)


def main():
    ours, peer = pathlib.Path(sys.argv[1]), [json.loads(line) for line in open(sys.argv[2]) if line.startswith("{")]
    peer = [row for row in peer if "ms" in row]
    copy = max(row["gbps"] for row in peer if row["op"] == "ceiling_copy") * 1e9
    product = max(row["tflops"] for row in peer if row["op"] == "ceiling_gemm") * 1e12
    table = []
    for name, (file, stage, op, shape, dtype, n_bytes, n_flops) in ROWS.items():
        if not (ours / f"{file}.json").exists():
            continue
        stages = json.load(open(ours / f"{file}.json"))["stages"]
        ms = next(s["median_us"] for s in stages if s["name"] == stage) * 1e-3
        times = [(r["ms"], r["mode"]) for r in peer if (r["op"], r["shape"], r["dtype"]) == (op, shape, dtype)]
        best, mode = min(times, default=(float("nan"), "none"))
        bound = max(n_bytes / copy, n_flops / product) * 1e3
        row = dict(name=name, ms=round(ms, 5), peer_ms=best, peer_mode=mode, bound_ms=round(bound, 5),
                   share_of_bound=round(bound / ms, 3), times_as_fast=round(best / ms, 2))
        print(json.dumps(row))
        table.append(row)
    print(f"\n{'':36} {'ours ms':>9} {'peer ms':>9} {'':8} {'bound':>9} {'share':>6} {'faster':>7}")
    for row in table:
        print(f"{row['name']:36} {row['ms']:9.4f} {row['peer_ms']:9.4f} {row['peer_mode']:8} {row['bound_ms']:9.4f} "
              f"{row['share_of_bound']:6.0%} {row['times_as_fast']:6.2f}x")


if __name__ == "__main__":
    main()
