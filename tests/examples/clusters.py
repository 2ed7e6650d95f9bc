"""The costs of scikit-learn's k-means, for tests/retrieval/clusters.rs and tests/cli/graphs.rs: python tests/examples/clusters.py [MNIST]

MNIST is the file of training images. Its first 3,000 rows are grouped around 64 centres."""

import gzip
import sys

import numpy as np
from sklearn.cluster import KMeans


def best(rows, k, **settings):
    """The least of three costs."""
    return min(KMeans(k, n_init=1, random_state=seed, **settings).fit(rows).inertia_ for seed in range(3))


i, j = np.arange(2000)[:, None], np.arange(6)[None, :]
rows = i % 12 * (i % 12 + 5 * j) * 37 % 101 / 2 + (i * i * 31 + j * 1013 + i * j * 7) % 257 / 64
print("generated rows", best(rows, 12, tol=0.0))
if sys.argv[1:]:
    with gzip.open(sys.argv[1]) as file:
        pictures = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    print("pictures", best(pictures[:3000].astype(np.float32) / 255, 64, max_iter=100))
