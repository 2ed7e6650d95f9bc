"""Writes onnx_draws.json: models that draw, with the laws of what they draw.

    python tests/examples/onnx_draws.py     # needs onnx
"""

import json
import pathlib

import numpy as np
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).parent
N = 4096
CASES = []


def model(nodes, inputs, outputs, opset):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, np.shape(x)) for name, x in inputs.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "draws", infos, results)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made.SerializeToString().hex()


def written(x):
    x = np.asarray(x, np.float32)
    return {"dtype": "float32", "shape": list(x.shape), "elements": x.ravel().tolist()}


def case(name, nodes, dtype, rows, inputs=None, opset=17):
    """`rows`: the law of each row of the result, as (probability, value) pairs or as moments."""
    inputs = inputs or {}
    CASES.append(
        {
            "name": name,
            "model": model(nodes, inputs, ["y"], opset),
            "inputs": {key: written(x) for key, x in inputs.items()},
            "dtype": dtype,
            "rows": rows,
        }
    )


def moments(mean, variance, fourth, low, high):
    """The fourth central moment bounds the error of the variance."""
    return {"mean": mean, "variance": variance, "fourth": fourth, "low": low, "high": high}


def uniform(low, high):
    return moments((low + high) / 2, (high - low) ** 2 / 12, (high - low) ** 4 / 80, low, high)


def normal(mean, std):
    # A number further away has a probability of 2e-9.
    return moments(mean, std**2, 3 * std**4, mean - 6 * std, mean + 6 * std)


def discrete(shares):
    """The value of a class is its number."""
    mean = sum(value * share for value, share in enumerate(shares))
    central = lambda power: sum((value - mean) ** power * share for value, share in enumerate(shares))
    law = moments(mean, central(2), central(4), 0, len(shares) - 1)
    return law | {"shares": list(shares)}


def column(x):
    """`x` with N equal columns, from an input with one."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [len(x), N])
    nodes = [
        helper.make_node("Constant", [], ["shape"], value=shape),
        helper.make_node("Expand", ["column", "shape"], ["x"]),
    ]
    return nodes, {"column": np.array(x)[:, None]}


def draw(op, operands=(), **attrs):
    return helper.make_node(op, list(operands), ["y"], **attrs)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).tolist()


def tensors():
    case("RandomUniform", [draw("RandomUniform", shape=[1, N])], "f32", [uniform(0, 1)])
    case("RandomUniform f16", [draw("RandomUniform", shape=[1, N], low=-2.0, high=6.0, dtype=TensorProto.FLOAT16, seed=5.0)],
         "f16", [uniform(-2, 6)])
    case("RandomNormal", [draw("RandomNormal", shape=[2, N], mean=3.0, scale=0.5)], "f32", [normal(3, 0.5)] * 2)
    case("RandomNormal f64", [draw("RandomNormal", shape=[1, N], dtype=TensorProto.DOUBLE, seed=-1.5)], "f64", [normal(0, 1)])
    like, x = column([0.0, 0.0, 0.0])
    case("RandomUniformLike", [*like, draw("RandomUniformLike", ["x"], low=-1.0)], "f32", [uniform(-1, 1)] * 3, x)
    case("RandomNormalLike", [*like, draw("RandomNormalLike", ["x"], scale=2.0, dtype=TensorProto.DOUBLE)], "f64",
         [normal(0, 2)] * 3, x)


def bits():
    """The probability differs from row to row."""
    shares = [0.0, 0.05, 0.5, 0.8, 1.0]
    nodes, x = column(shares)
    laws = [discrete([1 - p, p]) for p in shares]
    for name, dtype, attrs in [
        ("Bernoulli", "f32", {}),
        ("Bernoulli i32", "i32", {"dtype": TensorProto.INT32, "seed": 7.0}),
        ("Bernoulli bool", "bool", {"dtype": TensorProto.BOOL}),
    ]:
        case(name, [*nodes, draw("Bernoulli", ["x"], **attrs)], dtype, laws, x)
    half = helper.make_node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16)
    case("Bernoulli of f16", [*nodes, half, draw("Bernoulli", ["half"])], "f16", laws, x)


def classes():
    """Operands are unnormalised log-probabilities; draws are independent."""
    x = np.array([[0.0, 1.0, -1.0, 0.5], [-np.log(4), 100.0, 100.0, 0.0], [5.0, 5.0, 5.0, 5.0]])
    laws = [discrete(row) for row in softmax(x)]
    for name, dtype, attrs in [
        ("Multinomial", "i32", {}),
        ("Multinomial i64", "i64", {"dtype": TensorProto.INT64, "seed": 2.0}),
    ]:
        case(name, [draw("Multinomial", ["x"], sample_size=N, **attrs)], dtype, laws, {"x": x})


def seeds():
    """Two draws of each seed, and two without one."""
    nodes, names = [], []
    for at, attrs in enumerate([{"seed": 3.0}, {"seed": 3.0}, {"seed": 3.25}, {}, {}]):
        for op in ["RandomNormal", "RandomUniform"]:
            names.append(f"{op}{at}")
            nodes.append(helper.make_node(op, [], [names[-1]], shape=[64], **attrs))
    return model(nodes, {}, names, 17)


def dropout():
    """The result and the mask of one node."""
    constant = lambda name, value, dtype: helper.make_node(
        "Constant", [], [name], value=helper.make_tensor(name, dtype, [], [value])
    )
    nodes = [
        constant("ratio", 0.25, TensorProto.FLOAT),
        constant("training", True, TensorProto.BOOL),
        helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"]),
    ]
    return model(nodes, {"x": np.zeros(N)}, ["y", "mask"], 17)


tensors()
bits()
classes()
text = ",\n".join(json.dumps(case) for case in CASES)
whole = f'{{"laws": [\n{text}\n],\n"seeds": {json.dumps(seeds())},\n"dropout": {json.dumps(dropout())}}}\n'
(HERE / "onnx_draws.json").write_text(whole)
