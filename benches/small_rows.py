#!/usr/bin/env python3
"""Small gathers and scatters, ours and PyTorch's in turn: what leads by some percent must do so in every turn.

Usage: small_rows.py [TURNS]        Prints a line of JSON a row, then a table: medians, and the median and range of the
ratios by turn, peer over ours. The peer's time of a turn is the best that it has by any way of running, in
processes of its own: `torch_ops.py` (graphs of 20 calls) and `torch_small_rows.py` (graphs of 320).
"""
import json
import statistics
import subprocess
import sys

SHAPES = [(1024, 256, 128), (4096, 1024, 512), (16384, 1024, 2048)]
ROWS = {"gather_rows": "float16", "scatter_add_rows": "float32"}


def main():
    n_turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    ours, peers = [], []
    for turn in range(n_turns):
        # Who runs second finds a warmer GPU, so they take turns in that too.
        for measure, times in [(our_times, ours), (peer_times, peers)][:: 1 if turn % 2 == 0 else -1]:
            times.append(measure())
    rows = [row(key, ours, peers) for key in ours[0]]
    for each in rows:
        print(json.dumps(each))
    print(f"\n{n_turns} turns, medians; ratios by turn, peer / ours")
    print(f"{'':40} {'ours us':>8} {'peer us':>8} {'of':12} {'median':>7} {'range':>13}")
    for each in rows:
        print(f"{each['name']:40} {each['us']:8.2f} {each['peer_us']:8.2f} {each['peer_mode']:12} "
              f"{each['times_as_fast']:6.3f}x {each['lowest']:.3f} to {each['highest']:.3f}")
    if any(each["times_as_fast"] < 1 for each in rows):
        sys.exit("the peer is faster")


def row(key, ours, peers):
    """Ours and the peer's of one row over all turns."""
    op, shape = key
    mine, theirs = [turn[key] for turn in ours], [min(turn[key]) for turn in peers]
    ratios = [peer / our for our, (peer, _) in zip(mine, theirs)]
    rows, columns, n = shape
    return dict(name=f"{op} {ROWS[op]} {rows}x{columns}, {n}", us=round(statistics.median(mine), 3),
                peer_us=round(statistics.median(us for us, _ in theirs), 3), peer_mode=statistics.mode(mode for _, mode in theirs),
                times_as_fast=round(statistics.median(ratios), 3), lowest=round(min(ratios), 3), highest=round(max(ratios), 3),
                all_us=[round(us, 3) for us in mine], all_peer_us=[round(us, 3) for us, _ in theirs])


def our_times():
    """Microseconds by op and shape."""
    times = {}
    for shape in SHAPES:
        dims = [f"--set=dims.{name}={extent}" for name, extent in zip("RCM", shape)]
        # 200 times of 320 steps: long enough for the clock of the GPU to have settled.
        text = output(["./engine", "bench", "--device", "cuda", "--json", "--warmup", "20", "--at-once", "320",
                       "--steps", "200", "ops/indices.ron", *dims])
        stages = {stage["name"]: stage["median_us"] for stage in json.loads(text)["stages"]}
        times |= {(op, shape): stages[op] for op in ROWS}
    return times


def peer_times():
    """(microseconds, way of running) of each way, by op and shape."""
    # What both names end in picks these ops and no others.
    text = output([sys.executable, "torch_ops.py", "--only", "_rows", "--no-compile"])
    text += output([sys.executable, "torch_small_rows.py"])
    times = {}
    for line in text.splitlines():
        found = json.loads(line) if line.startswith("{") else {}
        key = found.get("op"), tuple(found.get("shape", []))
        if "ms" in found and key[1] in SHAPES and ROWS.get(key[0]) == found["dtype"]:
            times.setdefault(key, []).append((found["ms"] * 1e3, found["mode"]))
    return times


def output(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
