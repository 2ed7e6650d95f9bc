"""The peer of benches/retrieval.ron: the same searches by faiss, of rows drawn from the same law.

    python benches/retrieval_faiss.py [THREADS]          milliseconds, five times each

The OpenBLAS in the wheel of faiss takes a generic kernel on processors that it does not know: see search_faiss.py.
"""

import sys
import time

import faiss
import numpy as np

ROWS, WIDTH, PLACES, CENTRES, SPREAD = 1_000_000, 128, 2000, 1024, 0.35


def timed(name, run):
    times = []
    for _ in range(5):
        start = time.perf_counter()
        result = run()
        times.append((time.perf_counter() - start) * 1e3)
    print(f"{name:12} median {sorted(times)[2]:8.1f} ms of {', '.join(f'{ms:.0f}' for ms in times)}", flush=True)
    return result


def assigned(rows, centres):
    index = faiss.IndexFlatL2(WIDTH)
    index.add(centres)
    return index.search(rows, 1)


faiss.omp_set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
draw = np.random.default_rng(1)
places = draw.standard_normal((PLACES, WIDTH), dtype=np.float32)
base = places[np.arange(ROWS) * 7919 % PLACES] + SPREAD * draw.standard_normal((ROWS, WIDTH), dtype=np.float32)
queries = places + SPREAD * draw.standard_normal((PLACES, WIDTH), dtype=np.float32)
index = faiss.IndexFlatL2(WIDTH)
index.add(base)
timed("ten of all", lambda: index.search(queries, 10))
lims, _, _ = timed("range", lambda: index.range_search(queries[:500], 24.0))
print(f"{lims[-1] / 500:.1f} rows within the radius of a query")
timed("one query", lambda: index.search(queries[:1], 10))
timed("assignment", lambda: assigned(base, base[:CENTRES].copy()))
# A step of k-means: assignment and means. The first training has no step to compare with, so two lengths are compared.
took = []
for steps in (1, 4):
    start = time.perf_counter()
    kmeans = faiss.Kmeans(WIDTH, CENTRES, niter=steps, max_points_per_centroid=10**9)
    kmeans.train(base, init_centroids=base[:CENTRES].copy())
    took.append(time.perf_counter() - start)
print(f"kmeans step         {(took[1] - took[0]) / 3 * 1e3:8.1f} ms")
