#!/usr/bin/env python3
"""The fastest of all algorithms that cuBLASLt offers for a bf16 product with bias and ReLU.

What benches/README.md holds the linear layers of the engine against. Prints a line of JSON for each shape: the algorithms
that ran, the time of the fastest in ms (the median of some bursts after a rest, as `engine bench` has it), its least time
while all were tried, and that of the library's own first choice. Needs the libraries alone.

    cublaslt_best.py [M,K,N ...]
"""

import ctypes
import json
import random
import struct
import sys
import time
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p

WORKSPACE_BYTES = 32 << 20
MOST_ALGORITHMS = 1000
BURST, ROUNDS = 4, 3
# As many as the engine is asked for: products before the clock starts, and bursts of which the median is taken.
WARMUP, BURSTS, REST_SECONDS = 7, 3, 1

BF16, F32 = 14, 0  # CUDA_R_16BF, CUDA_R_32F
COMPUTE_F32 = 68
EPILOGUE_RELU_BIAS = 6
DESC_TRANSA, DESC_TRANSB, DESC_EPILOGUE, DESC_BIAS, DESC_BIAS_TYPE = 3, 4, 7, 8, 26
PREFERENCE_WORKSPACE = 1


class Heuristic(ctypes.Structure):
    _fields_ = [("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float),
                ("reserved", c_int * 4)]


def library(name):
    for version in (".so.13", ".so.12", ".so"):
        try:
            return ctypes.CDLL(name + version)
        except OSError:
            continue
    sys.exit(f"{name} is not found")


def check(status, what):
    if status:
        raise RuntimeError(f"{what}: status {status}")


cuda, lt = library("libcudart"), library("libcublasLt")


def memory(n_bytes):
    place = c_void_p()
    check(cuda.cudaMalloc(byref(place), c_size_t(n_bytes)), "cudaMalloc")
    return place


def noise(n_elements):
    """bf16 of a normal distribution, as the engine's benchmark draws them: the speed of a product depends on its data."""
    generator = random.Random(1)
    block = b"".join(struct.pack("<f", generator.gauss(0, 1))[2:] for _ in range(1 << 18))
    place, n_bytes = memory(2 * n_elements), 2 * n_elements
    for start in range(0, n_bytes, len(block)):
        length = min(len(block), n_bytes - start)
        check(cuda.cudaMemcpy(c_void_p(place.value + start), block[:length], c_size_t(length), 1), "cudaMemcpy")
    return place


def layout(rows, columns):
    made = c_void_p()
    check(lt.cublasLtMatrixLayoutCreate(byref(made), BF16, c_uint64(rows), c_uint64(columns), c_int64(rows)), "layout")
    return made


def described(bias):
    made = c_void_p()
    check(lt.cublasLtMatmulDescCreate(byref(made), COMPUTE_F32, F32), "description")
    for attribute, value in ((DESC_TRANSA, c_int(1)), (DESC_TRANSB, c_int(0)), (DESC_EPILOGUE, c_int(EPILOGUE_RELU_BIAS)),
                             (DESC_BIAS, bias), (DESC_BIAS_TYPE, c_int(BF16))):
        check(lt.cublasLtMatmulDescSetAttribute(made, attribute, byref(value), ctypes.sizeof(value)), "attribute")
    return made


def best(handle, stream, workspace, m, k, n):
    """Row-major [m, k] by the transpose of [n, k], which to the library is the transpose of [k, n] by [k, m]."""
    left, right, result, bias = noise(n * k), noise(k * m), memory(2 * m * n), noise(n)
    layouts = [layout(k, n), layout(k, m), layout(n, m)]
    description = described(bias)
    preference = c_void_p()
    check(lt.cublasLtMatmulPreferenceCreate(byref(preference)), "preference")
    limit = c_size_t(WORKSPACE_BYTES)
    check(lt.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_WORKSPACE, byref(limit), 8), "workspace")
    found, count = (Heuristic * MOST_ALGORITHMS)(), c_int()
    a, b, c = layouts
    check(lt.cublasLtMatmulAlgoGetHeuristic(handle, description, a, b, c, c, preference, MOST_ALGORITHMS, found,
                                            byref(count)), "algorithms")
    one, zero = c_float(1), c_float(0)
    events = [c_void_p(), c_void_p()]
    for event in events:
        check(cuda.cudaEventCreate(byref(event)), "event")

    def run(candidate):
        return lt.cublasLtMatmul(handle, description, byref(one), left, a, right, b, byref(zero), result, c, result, c,
                                 byref(candidate, 0), workspace, c_size_t(WORKSPACE_BYTES), stream)

    def milliseconds(candidate):
        check(run(candidate), "product")
        cuda.cudaEventRecord(events[0], stream)
        for _ in range(BURST):
            run(candidate)
        cuda.cudaEventRecord(events[1], stream)
        check(cuda.cudaStreamSynchronize(stream), "product")
        took = c_float()
        check(cuda.cudaEventElapsedTime(byref(took), *events), "time")
        return took.value / BURST

    candidates = [found[i] for i in range(count.value) if found[i].state == 0]
    times = {i: [milliseconds(candidate)] for i, candidate in enumerate(candidates)}
    # The ten that look best, by turns.
    ahead = sorted(times, key=lambda i: times[i])[:10]
    for i in [i for _ in range(ROUNDS) for i in ahead + [0]]:
        times[i].append(milliseconds(candidates[i]))
    fastest = min(ahead, key=lambda i: min(times[i]))
    # What was tried has made the GPU hot.
    time.sleep(REST_SECONDS)
    for _ in range(WARMUP):
        check(run(candidates[fastest]), "product")
    rested = sorted(milliseconds(candidates[fastest]) for _ in range(BURSTS))
    for place in (left, right, result, bias):
        cuda.cudaFree(place)
    return {"op": "cublaslt_best", "shape": [m, k, n], "dtype": "bf16", "algorithms": len(candidates),
            "ms": rested[BURSTS // 2], "least_tried_ms": min(times[fastest]), "rank": fastest, "first_ms": min(times[0])}


def main():
    shapes = sys.argv[1:] or ["8192,8192,8192", "4096,4096,4096", "8192,1024,4096"]
    handle, stream = c_void_p(), c_void_p()
    check(cuda.cudaStreamCreate(byref(stream)), "stream")
    check(lt.cublasLtCreate(byref(handle)), "cuBLASLt")
    workspace = memory(WORKSPACE_BYTES)
    for shape in shapes:
        print(json.dumps(best(handle, stream, workspace, *map(int, shape.split(",")))), flush=True)


main()
