#!/usr/bin/env python3
"""Random draws of a node called `y0` for seed 0 and step 0, by NumPy: python tests/examples/draws.py

Bits are Philox4x32-10 (Salmon et al. 2011); what is made of them is rounded to single precision after every step."""

import json
import pathlib

import numpy as np


def stream(path):
    """32-bit FNV-1a."""
    state = 0x811C9DC5
    for byte in path.encode():
        state = (state ^ byte) * 0x01000193 & 0xFFFFFFFF
    return state


def block(counter, key):
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return [c0, c1, c2, c3]


assert block([0, 0, 0, 0], [0, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # of the paper's test vectors


def uniform(salt, count):
    key = [0, stream(f"y0/{salt}")]
    words = [word for i in range(-(-count // 4)) for word in block([i, 0, 0, 0], key)][:count]
    return single((np.array(words) >> 9) + 0.5) * 0.5**23


def single(x):
    return np.asarray(x, dtype=np.float64).astype(np.float32).astype(np.float64)


def gumbel(count):
    return single(-single(np.log(single(-single(np.log(uniform("gumbel", count)))))))


def normal(mean, std, count):
    radius = single(np.sqrt(single(single(np.log(uniform("radius", count))) * -2.0)))
    wave = single(np.cos(single(uniform("angle", count) * single(2 * np.pi))))
    return single(single(single(radius * wave) * std) + mean)


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


A = [0.5, -1.0, 2.0, 0.25, -0.5, 1.5]
a = np.array(A)
mask = (uniform("mask", 6) >= 0.25) / 0.75
three, given = single(np.array([0.5, -1.0, 2.0])), single(np.array([0.9, 0.2, 0.6]))
soft = softmax((a + gumbel(6)) / 0.5)
upstream = np.arange(1.0, 7.0)
CASES = [
    ("draws", "uniform(shape=[6])", [], ["f32[6]", uniform("uniform", 6)], None),
    ("between bounds", "uniform(low=-3.0, high=1.0, shape=[6])", [],
     ["f32[6]", single(single(uniform("uniform", 6) * 4.0) - 3.0)], None),
    ("draws", "normal(shape=[6])", [], ["f32[6]", normal(0.0, 1.0, 6)], None),
    ("around a mean", "normal(mean=2.0, std=0.5, shape=[6])", [], ["f32[6]", normal(2.0, 0.5, 6)], None),
    ("draws", "sample_gumbel(shape=[6])", [], ["f32[6]", gumbel(6)], None),
    ("by own noise", "gumbel_argmax(a)", [["f32[6]", a]], ["i32[]", np.array([np.argmax(a + gumbel(6))])], None),
    ("by own noise", "gumbel_softmax(a, tau=0.5)", [["f32[6]", a]], ["f32[6]", soft],
     [(soft * (upstream - (soft * upstream).sum()) / 0.5)]),
    ("of given numbers", "gumbel_softmax(a, b, c)", [["f32[3]", three], ["f32[]", np.array([0.7])], ["f32[3]", given]],
     ["f32[3]", softmax((three - np.log(-np.log(given))) / 0.7)], None),
    ("a random mask", "dropout(a, p=0.25)", [["f32[6]", a]], ["f32[6]", a * mask], [upstream * mask]),
]

pathlib.Path(__file__).with_suffix(".json").write_text("[\n" + ",\n".join(json.dumps({
    "title": title, "call": call, "inputs": [[ty, x.tolist()] for ty, x in inputs],
    "outputs": [[output[0], output[1].tolist()]], "grads": grads and [g.tolist() for g in grads],
}) for title, call, inputs, output, grads in CASES) + "\n]\n")
