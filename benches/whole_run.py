#!/usr/bin/env python3
"""Five epochs of MNIST from the start of a process to its end, beside a bare start of the device and beside JAX.

Usage: whole_run.py OURS SCRATCH        OURS is a folder with mnist-128.json as `engine bench --json` prints it; what is
measured is written there as mnist-whole.json, for ops_table.py. SCRATCH is an empty folder for what the programs cache.
The first run finds no compiled kernels and is given apart. JAX's row is printed as ops_table.py reads it.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

N_WARM = 5
N_WARM_PEER = 2
ENGINE = ["./engine", "run", "graphs/mnist.ron", "--device", "cuda", "--set", "matmul=Tf32", "--quiet"]


def main():
    ours, scratch = map(pathlib.Path, sys.argv[1:3])
    report = scratch / "mnist-whole.json"
    environment = os.environ | {"ENGINE_CACHE_DIR": str(scratch / "whole")}
    cold, *_ = wall(ENGINE, environment)
    warm, bare, ending = [], [], []
    # In turn, so that what the machine does meanwhile meets all.
    for _ in range(N_WARM):
        warm.append(wall(ENGINE, environment)[0])
        whole, printed = wall([sys.executable, "bare_start.py"], environment)
        bare.append(float(printed.split()[0]))
        # What a process takes to let go of the device, which ours are timed with.
        ending.append(whole - bare[-1] - wall([sys.executable, "-c", "import ctypes, time"], environment)[0])
    wall([*ENGINE, "--report", str(report)], environment)
    train = next(stage for stage in json.loads(report.read_text())["stages"] if stage["kind"] == "train")
    steps_ms = train["steps"] * step_us(ours / "mnist-128.json") * 1e-3
    print(f"ours: first {cold:.0f} ms, then {listed(warm)} ms; bare start {listed(bare)} ms, and its end {listed(ending)} ms; "
          f"{train['steps']} steps {steps_ms:.1f} ms; train {train['metrics']}")
    row = dict(name="whole", median_us=statistics.median(warm) * 1e3, first_ms=round(cold, 1),
               bare_start_ms=round(statistics.median(bare), 2), bare_end_ms=round(statistics.median(ending), 2), steps_ms=round(steps_ms, 2),
               bound_us=(statistics.median(bare) + steps_ms) * 1e3)
    row["above_bare_start_and_steps_ms"] = round((row["median_us"] - row["bound_us"]) * 1e-3, 1)
    (ours / "mnist-whole.json").write_text(json.dumps({"stages": [row]}))
    peer(scratch)


def peer(scratch):
    """JAX's whole training with its own caches, which the first run fills."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(scratch / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
             "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "jax_whole_run.py", os.environ["ENGINE_DATA_DIR"] + "/mnist"]
    cold, text = wall(command, os.environ | cache)
    warm = [wall(command, os.environ | cache)[0] for _ in range(N_WARM_PEER)]
    print(f"JAX: first {cold:.0f} ms, then {listed(warm)} ms; {text.strip()}")
    print(json.dumps(dict(op="mnist_whole", shape=[5, 128], dtype="tf32", mode="scan", ms=statistics.median(warm))))


def wall(command, environment):
    """Milliseconds from the start of a process to its end, and what it printed."""
    start = time.perf_counter()
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    end = time.perf_counter()
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ran.returncode}: {ran.stderr[-2000:]}")
    return (end - start) * 1e3, ran.stdout


def step_us(path):
    return json.loads(path.read_text())["stages"][0]["median_us"]


def listed(times):
    return ", ".join(f"{ms:.0f}" for ms in times)


if __name__ == "__main__":
    main()
