#!/usr/bin/env python3
"""Our times of single ops beside a peer's: each row as JSON, then all as a table.

Usage: ops_table.py OURS PEER.jsonl [DEVICES.log], where OURS is a folder of `NAME.json` as `engine bench --json` prints
them (recall.json there is what search_recall.py wrote) and PEER.jsonl has the lines {"op", "shape", "dtype", "mode",
"ms"} of a peer in the same sitting. `bound` is the time to move the bytes that must move at the speed of a copy, or to do
the arithmetic at that of a large product: the higher of what the peer reached and of what `engine devices --measure`
says in DEVICES.log. Of data that the second-level cache may hold no share of that bound is given.
"""
import json
import pathlib
import re
import sys

MI = 1 << 20
MILLION = 1_000_000
# An H200's. What is read again from here is not bound by the memory behind it.
SECOND_LEVEL_CACHE = 50 * MI
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
    file = f"products-{m}-{k}-{n}"
    ROWS[f"GEMM + bias + ReLU bf16 {m}x{k}x{n}"] = (
        file, "gemm_bias_relu", "gemm_bias_relu", [m, k, n], "bfloat16", 2 * (m * k + k * n + m * n), 2 * m * k * n)
for m in 128, 1024, 8192:
    k, n = 256, 10
    for stage in "narrow", "short", "tall":
        ROWS[f"product TF32, {stage}, {m}x{k}x{n}"] = (
            f"narrow-{m}", stage, stage, [m, k, n], "tf32", 4 * (m * k + k * n + m * n), 2 * m * k * n)
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

# Its bound is measured: a bare start of the device, and the steps.
ROWS["MNIST 5 epochs from process start"] = ("mnist-whole", "whole", "mnist_whole", [5, 128], "tf32", 0, 0)

# Where nobody asks to be ahead, or other turns decide (products from a rest).
NOT_WANTED = ("sort ", "GEMM ")


def main():
    ours, peer = pathlib.Path(sys.argv[1]), read_peer(sys.argv[2])
    ceilings = read_ceilings(peer, sys.argv[3:])
    print(json.dumps({"copy_gbps": ceilings[0] * 1e-9, "product_tflops": ceilings[1] * 1e-12}))
    recall = json.loads((ours / "recall.json").read_text()) if (ours / "recall.json").exists() else None
    table = []
    for name, (file, stage, op, shape, dtype, *work) in ROWS.items():
        if not (ours / f"{file}.json").exists():
            continue
        measured = next(s for s in json.loads((ours / f"{file}.json").read_text())["stages"] if s["name"] == stage)
        times = [(r["ms"], r["mode"]) for r in peer if (r["op"], r["shape"], r["dtype"]) == (op, shape, dtype)]
        row = {"name": name, **times_of(measured, times), **bound_of(measured, work, ceilings)}
        if file == "search":
            row |= recall_of(recall, stage)
        if file == "mnist-whole":
            row["remark"] = (f"first run {measured['first_ms']:.0f} ms; bare start {measured['bare_start_ms']:.0f} ms, steps "
                             f"{measured['steps_ms']:.0f} ms, {measured['above_bare_start_and_steps_ms']:.0f} ms above both")
        print(json.dumps(row))
        table.append(row)
    if print_table(table):
        sys.exit(1)


def read_peer(path):
    rows = [json.loads(line) for line in open(path) if line.startswith("{")]
    return [row for row in rows if "ms" in row]


def read_ceilings(peer, logs):
    """Bytes a second of a copy and operations a second of a product."""
    text = "".join(pathlib.Path(path).read_text() for path in logs)
    copies = [row["gbps"] for row in peer if row["op"] == "ceiling_copy"]
    copies += map(float, re.findall(r"copy: ([0-9.]+) GB/s", text))
    products = [row["tflops"] for row in peer if row["op"] == "ceiling_gemm"]
    products += map(float, re.findall(r"product in bf16: ([0-9.]+) TFLOP/s", text))
    if not copies or not products:
        sys.exit("neither the peer nor `engine devices --measure` says how fast the device copies and multiplies")
    return max(copies) * 1e9, max(products) * 1e12


def times_of(measured, times):
    ms = measured["median_us"] * 1e-3
    best, mode = min(times, default=(None, "none"))
    further = {key: value for key, value in measured.items() if key.endswith("_ms")}
    return {"ms": round(ms, 6), "peer_ms": best, "peer_mode": mode, "times_as_fast": round(best / ms, 3) if best else None, **further}


def bound_of(measured, work, ceilings):
    """The bound and our share of it, or why there is none."""
    ms = measured["median_us"] * 1e-3
    moving, computing = (amount / rate * 1e3 for amount, rate in zip(work, ceilings))
    bound = measured["bound_us"] * 1e-3 if "bound_us" in measured else max(moving, computing)
    row = {"bound_ms": round(bound, 6), "share_of_bound": round(bound / ms, 3)}
    if bound == moving and work[0] <= SECOND_LEVEL_CACHE:
        row |= {"share_of_bound": None, "note": "in L2"}
    return row


def recall_of(recall, stage):
    if recall is None:
        return {"recall_at_10": None, "remark": "recall not measured"}
    found = recall["recall"][stage]
    return {"recall_at_10": found, "remark": f"recall@10 {found:.4f} of {recall['n_queries']} queries"}


def print_table(table):
    print(f"\n{'':42} {'ours':>11} {'peer':>11} {'':8} {'bound':>11} {'share':>6} {'faster':>7}")
    for row in table:
        share, faster = row["share_of_bound"], row["times_as_fast"]
        print(f"{row['name']:42} {time_text(row['ms']):>11} {time_text(row['peer_ms']):>11} {row['peer_mode']:8} "
              f"{time_text(row['bound_ms']):>11} {row['note'] if share is None else f'{share:.0%}':>6} "
              f"{'-' if faster is None else f'{faster:.2f}x':>7} {row.get('remark', '')}".rstrip())
    behind = [row for row in table if (row["times_as_fast"] or 1.0) < 1.0]
    said = [f"{row['name']} ({row['times_as_fast']:.3f}x)" for row in behind]
    print(f"behind the peer: {'; '.join(said) or 'none'}")
    alone = [row["name"] for row in table if row["times_as_fast"] is None]
    if alone:
        print(f"without a peer in this sitting: {'; '.join(alone)}")
    return [row["name"] for row in behind if not row["name"].startswith(NOT_WANTED)]


def time_text(ms):
    """Short times in µs with two decimals, where launches take about one."""
    if ms is None:
        return "-"
    if ms < 0.1:
        return f"{ms * 1e3:.2f} us"
    return f"{ms:.4f} ms" if ms < 100 else f"{ms:.1f} ms"


if __name__ == "__main__":
    main()
