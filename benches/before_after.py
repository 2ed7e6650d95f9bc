#!/usr/bin/env python3
"""Times of two versions of the engine in turn: before_after.py BEFORE AFTER [--device D] [--turns N] [--small].

Each graph of benches/ops and the MNIST step is timed by `engine bench` with both programs, one after the other, in every
turn. Of each stage the table has the medians, and the median of the ratios after / before by turn with its interval of 95 %.
Exit code 1 if an interval lies above 1.03, the criterion of `engine bench --compare`. --small is for processors.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
AT_ONCE = {"search": 1, "selection": 1, "indices": 4, "products": 4, "square": 4}
# Extents for processors.
SMALL = {
    "attention": {"H": 8, "D": 64, "N": 8192, "S": 64},
    "indices": {"R": 16384, "C": 64, "M": 16384},
    "losses": {"R": 512, "C": 8000},
    "maps": {"N": 4194304},
    "narrow": {"M": 1024, "K": 256, "N": 10},
    "norms": {"R": 1024, "C": 1024},
    "optimizer": {"N": 4194304},
    "products": {"M": 512, "K": 512, "N": 512},
    "rows": {"R": 512, "C": 4096},
    "search": {"N": 50000, "M": 100, "D": 128},
    "selection": {"R": 256, "C": 4096},
    "short_rows": {"R": 20000, "C": 100},
    "square": {"N": 512},
}


def calls(root, is_small):
    for graph in sorted((root / "ops").glob("*.ron")):
        name = graph.stem
        at_once = AT_ONCE.get(name, 16)
        steps = ["--at-once", str(at_once), "--steps", "10" if at_once > 1 else "5"]
        if is_small:
            steps = ["--steps", "10", "--set", f"dims={json.dumps(SMALL[name])}"]
        yield name, [str(graph), *steps]
    mnist = str(next(path for path in (root / "graphs/mnist.ron", root.parent / "graphs/mnist.ron") if path.exists()))
    for batch in (128, 1024):
        yield f"mnist-{batch}", [mnist, "--stage", "train", "--steps", "40", "--set", f"train.batch={batch}"]


def timed(engine, device, arguments):
    command = [engine, "bench", "--device", device, "--warmup", "3", "--json", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if ended.returncode != 0:
        print(f"{' '.join(command)}: {ended.stderr.strip()[-300:]}", file=sys.stderr)
        return {}
    return {stage["name"]: stage["median_us"] for stage in json.loads(ended.stdout)["stages"]}


def interval(numbers):
    """The interval of 95 % of the median by order statistics; of fewer than six numbers, all of them."""
    ordered, n, k, total = sorted(numbers), len(numbers), 0, 0.0
    while k < n // 2 and (total := total + math.comb(n, k) / 2**n) <= 0.025:
        k += 1
    return ordered[max(k, 1) - 1], ordered[n - max(k, 1)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    slower = []
    print("| graph | stage | before, us | after, us | after / before | interval |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, arguments in calls(HERE, options.small):
        if options.only not in name:
            continue
        pairs = {}
        for turn in range(options.turns):
            # Whoever comes first in a turn comes second in the next.
            order = [options.before, options.after][:: 1 if turn % 2 == 0 else -1]
            times = {engine: timed(engine, options.device, arguments) for engine in order}
            for stage, before in times[options.before].items():
                after = times[options.after].get(stage)
                if after is not None:
                    pairs.setdefault(stage, []).append((before, after))
        for stage, both in pairs.items():
            ratios = [after / before for before, after in both]
            ratio = statistics.median(ratios)
            low, high = interval(ratios)
            if low > 1.03:
                slower.append(f"{name} {stage}")
            before, after = (statistics.median(side) for side in zip(*both))
            print(f"| {name} | {stage} | {before:.1f} | {after:.1f} | {ratio:.3f} | {low:.3f} to {high:.3f} |", flush=True)
    print(f"\nslower: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
