#!/usr/bin/env python3
"""Prints a GRU that is unrolled over so many steps; benches/README.md says how long it takes to compile.

    benches/gru_unrolled.py 800 > gru.ron             one forward pass
    benches/gru_unrolled.py 800 --train > gru.ron     one step of training, with gradients and optimizer
"""

import argparse

PIPELINE = """(
    name: "gru_unrolled",
    seed: 5,
    dims: {{"F": 3, "H": 64, "T": {steps}}},
    {data}
    params: {{
        {x}
        "wr": (type: "f32[F, H]", init: Xavier), "ur": (type: "f32[H, H]", init: Xavier), "br": "f32[H]",
        "wz": (type: "f32[F, H]", init: Xavier), "uz": (type: "f32[H, H]", init: Xavier), "bz": "f32[H]",
        "wn": (type: "f32[F, H]", init: Xavier), "un": (type: "f32[H, H]", init: Xavier), "bn": "f32[H]",
    }},
    functions: {{
        "gate": (inputs: ["x", "h", "w", "u", "b"], output: "sigmoid(x @ w + h @ u + b)"),
        "cell": (
            inputs: ["x", "h", "wr", "ur", "br", "wz", "uz", "bz", "wn", "un", "bn"],
            nodes: {{
                "r": "gate(x, h, wr, ur, br)",
                "z": "gate(x, h, wz, uz, bz)",
                "n": "tanh(x @ wn + r * (h @ un) + bn)",
            }},
            output: "(1 - z) * n + z * h",
        ),
    }},
    nodes: {{
        {rows}
        "h0": "zeros(shape=[{batch}, H])",
        {cells}
        "loss": "mean(square(h{steps}))",
    }},
    stages: {{{stage}}},
)"""


def pipeline(steps, train):
    """The text of the pipeline."""
    cell = '"h{}": "cell(select(x, axis=1, index={}), h{}, wr, ur, br, wz, uz, bz, wn, un, bn)",'
    fields = {
        "steps": steps,
        "cells": "\n        ".join(cell.format(t + 1, t, t) for t in range(steps)),
        "data": "",
        "x": '"x": (type: "f32[8, T, F]", state: true),',
        "rows": "",
        "batch": 8,
        "stage": '"go": Run(outputs: ["loss"])',
    }
    if train:
        # Each row is its own number, spread over steps and features.
        fields |= {
            "data": 'data: {"rows": (source: "numbers", n_train: 64, n_test: 8)},\n'
            '    inputs: {"row": (type: "i32[B]", from: "rows.number")},',
            "x": '"p": (type: "f32[1, T, F]", init: Normal(0, 1), state: true),',
            "rows": '"x": "sin(reshape(cast(row, dtype=f32), shape=[B, 1, 1]) * p)",',
            "batch": "B",
            "stage": '"train": Train(data: "rows.train", batch: 8, epochs: 1, loss: "loss",'
            " optimizer: Adam(lr: 1e-3))",
        }
    return PIPELINE.format(**fields)


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", type=int)
    parser.add_argument("--train", action="store_true", help="a step of training instead of a forward pass")
    args = parser.parse_args()
    print(pipeline(args.steps, args.train))


if __name__ == "__main__":
    main()
