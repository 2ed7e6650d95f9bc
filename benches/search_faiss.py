"""The peer of graphs/search.ron: faiss IndexFlatL2 on Fashion-MNIST.

    python benches/search_faiss.py DATA_DIR OUT_DIR          writes OUT_DIR/base.npy, queries.npy, truth.npy (exact, f64)
    python benches/search_faiss.py --time OUT_DIR [THREADS]  seconds of one search, k = 10

The OpenBLAS in the wheel of faiss takes a generic kernel on processors that it does not know, a quarter as fast. Set
OPENBLAS_CORETYPE=SkylakeX where a processor has AVX-512.
"""

import gzip
import pathlib
import sys
import time

import numpy as np


def images(path):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32)


def write(data, out):
    base = images(data / "fashion-mnist/train-images-idx3-ubyte.gz")
    queries = images(data / "fashion-mnist/t10k-images-idx3-ubyte.gz")
    truth = np.empty((len(queries), 10), np.int32)
    wide, squares = base.astype(np.float64), (base.astype(np.float64) ** 2).sum(1)
    for first in range(0, len(queries), 500):
        # Whole numbers: exact in f64. What does not depend on the row is left out.
        distances = squares - 2 * (queries[first:first + 500].astype(np.float64) @ wide.T)
        truth[first:first + 500] = np.argsort(distances, axis=1, kind="stable")[:, :10]
    for name, array in (("base", base), ("queries", queries), ("truth", truth)):
        np.save(out / f"{name}.npy", array)


def timed(out, threads):
    import faiss

    faiss.omp_set_num_threads(threads)
    base, queries, truth = (np.load(out / f"{name}.npy") for name in ("base", "queries", "truth"))
    index = faiss.IndexFlatL2(base.shape[1])
    index.add(base)
    for _ in range(3):
        start = time.perf_counter()
        _, ids = index.search(queries, 10)
        seconds = time.perf_counter() - start
        recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(ids, truth)])
        print(f"{seconds:.3f} s, recall@10 {recall:.6f}")


if sys.argv[1] == "--time":
    timed(pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 2)
else:
    write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
