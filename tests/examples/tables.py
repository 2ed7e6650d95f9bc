#!/usr/bin/env python3
"""Columns of a table with gaps, names and a constant, fitted to training rows and applied to test rows by scikit-learn:
python tests/examples/tables.py"""

import json
import pathlib
import random

import numpy
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

COLUMNS = ["area", "rooms", "year", "same", "wide"]
NAMES = ["oil", "gas", "wood", ""]


def rows(seed, n_rows, gaps, names):
    draw = random.Random(seed)
    table = []
    for _ in range(n_rows):
        row = [draw.lognormvariate(4.6, 0.35), draw.randint(1, 9), draw.randint(1900, 2025), 7.25, 1e9 + draw.random()]
        row = [None if name in gaps and draw.random() < 0.2 else x for name, x in zip(COLUMNS, row)]
        table.append((row, draw.choice(names)))
    return table


def text(table):
    cells = lambda row: ["" if x is None else repr(x) for x in row]
    lines = [",".join([*cells(row), name]) for row, name in table]
    return "\n".join([",".join([*COLUMNS, "heating"]), *lines]) + "\n"


def numbers(table):
    return numpy.array([[numpy.nan if x is None else x for x in row] for row, _ in table], dtype=float)


def names(table):
    return numpy.array([[name or None] for _, name in table], dtype=object)


train = rows(1, 40, ["area", "year"], NAMES)
# `rooms` has gaps in the test rows alone, and `coal` is a name that the training rows do not have.
test = rows(2, 12, ["area", "rooms"], [*NAMES, "coal"])

gaps = MissingIndicator(features="missing-only", error_on_new=False)
transformers = {
    "fill": (SimpleImputer(), {"missing": "fill"}),
    "indicator": (SimpleImputer(add_indicator=True), {"missing": "indicator"}),
    "standardize": (StandardScaler(), {"missing": "nan", "standardize": True}),
    "both": (
        make_union(make_pipeline(SimpleImputer(), StandardScaler()), gaps),
        {"missing": "indicator", "standardize": True},
    ),
}
cases = []
for title, (transformer, options) in transformers.items():
    transformer.fit(numbers(train))
    cases.append({
        "title": title,
        "options": options,
        "features": {
            split: [[None if numpy.isnan(x) else x for x in row] for row in transformer.transform(numbers(table)).tolist()]
            for split, table in [("train", train), ("test", test)]
        },
    })

fill = SimpleImputer(strategy="most_frequent", missing_values=None)
encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=len(NAMES) - 1)
pipeline = make_pipeline(fill, encoder).fit(names(train))
classes = {split: pipeline.transform(names(table)).ravel().tolist() for split, table in [("train", train), ("test", test)]}

path = pathlib.Path(__file__).with_suffix(".json")
content = {"train": text(train), "test": text(test), "classes": classes, "cases": cases}
path.write_text(json.dumps(content) + "\n")
