#!/usr/bin/env python3
"""How many of the true nearest vectors the search of ops/search.ron finds, by NumPy in double precision.

Usage: search_recall.py SCRATCH OUT.json [OPTION...]        Runs the engine with further options (`--set dims.N=20000`),
which writes the data that it draws and the rows that it finds to SCRATCH, 0.5 GB of them; then looks 200 of the queries
up in all of the data. Writes recall@10 by stage to OUT.json. Exit code 1 if one is below 0.999.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np

K = 10
N_QUERIES = 200
ROWS_AT_ONCE = 1 << 16
WANTED = 0.999
# The node that each stage finds; lower scores are nearer.
FOUND = {"search_l2": "near", "search_bf16": "half", "search_ip": "like", "search_cosine": "alike"}
COSINE = ["--set", 'nodes.alike="nearest(queries, base, k=10, metric=\\"cosine\\")"',
          "--set", 'stages.search_cosine=Run(outputs: ["alike", "alike.indices"])']


def main():
    folder, out = map(pathlib.Path, sys.argv[1:3])
    nodes = ["drawn_base", "drawn_queries", *(f"{node}.indices" for node in FOUND.values())]
    dumps = [option for node in nodes for option in ("--dump", node)]
    subprocess.run(["./engine", "run", "ops/search.ron", "--device", "cuda", "--quiet", *COSINE, *dumps,
                    "--dump-dir", str(folder), *sys.argv[3:]], check=True, stdout=subprocess.DEVNULL)
    base = np.load(folder / "draw.drawn_base.npy", mmap_mode="r")
    queries = np.load(folder / "draw.drawn_queries.npy")
    # All over the queries, as they are searched in blocks.
    picked = np.linspace(0, len(queries) - 1, min(N_QUERIES, len(queries))).astype(int)
    truth = true_rows(queries[picked].astype(np.float64), base)
    recall = {stage: recall_of(np.load(folder / f"{stage}.{FOUND[stage]}.indices.npy")[picked], truth[stage]) for stage in FOUND}
    print(json.dumps(recall), f"recall@{K} of {len(picked)} of {len(queries)} queries in {len(base)} vectors")
    out.write_text(json.dumps({"n_queries": len(picked), "recall": recall}))
    if min(recall.values()) < WANTED:
        sys.exit(f"less than {WANTED}")


def true_rows(queries, base):
    """Rows of the K lowest scores of each query, by stage."""
    n = len(queries)
    best = {stage: (np.full((n, K), np.inf), np.zeros((n, K), np.int64)) for stage in FOUND}
    for start in range(0, len(base), ROWS_AT_ONCE):
        block = base[start : start + ROWS_AT_ONCE].astype(np.float64)
        product, squares = queries @ block.T, (block * block).sum(1)
        scores = {"search_l2": squares - 2 * product, "search_ip": -product, "search_cosine": -product / np.sqrt(squares)}
        best = {stage: merged(*best[stage], scores[stage], start) for stage in FOUND}
    return {stage: rows for stage, (_, rows) in best.items()}


def merged(scores, rows, more, start):
    """The K lowest of those so far and of a block that starts at some row."""
    more_rows = np.broadcast_to(np.arange(start, start + more.shape[1]), more.shape)
    scores, rows = np.concatenate([scores, more], 1), np.concatenate([rows, more_rows], 1)
    lowest = np.argpartition(scores, K, 1)[:, :K]
    return np.take_along_axis(scores, lowest, 1), np.take_along_axis(rows, lowest, 1)


def recall_of(found, truth):
    hits = [len(np.intersect1d(mine, theirs)) for mine, theirs in zip(found, truth)]
    return sum(hits) / truth.size


if __name__ == "__main__":
    main()
