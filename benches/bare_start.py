#!/usr/bin/env python3
"""What a process needs at least before it can multiply on a GPU: the driver, a context and a handle of cuBLASLt.

Usage: bare_start.py        Prints milliseconds, from here and not from the start of Python, and what each part took.
"""
import ctypes
import time

CUBLAS_LT = ["libcublasLt.so", "libcublasLt.so.13", "libcublasLt.so.12"]


def main():
    start = time.perf_counter()
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    expect(driver.cuInit(0), "cuInit")
    expect(driver.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    expect(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    expect(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    has_context = time.perf_counter()
    library, handle = load(CUBLAS_LT), ctypes.c_void_p()
    expect(library.cublasLtCreate(ctypes.byref(handle)), "cublasLtCreate")
    end = time.perf_counter()
    print(f"{(end - start) * 1e3:.2f} ms: context {(has_context - start) * 1e3:.2f}, cuBLASLt {(end - has_context) * 1e3:.2f}")


def load(names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            missing = error
    raise missing


def expect(code, call):
    if code != 0:
        raise SystemExit(f"{call} returned {code}")


if __name__ == "__main__":
    main()
