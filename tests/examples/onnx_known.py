"""Writes onnx_known.json: models whose shapes follow from constants, or from the values of their inputs.

    python tests/examples/onnx_known.py     # needs onnx and onnxruntime
"""

import json
import pathlib

import numpy as np
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).parent

from onnx_ops import CASES, rand, run

node = helper.make_node
info = helper.make_tensor_value_info
FLOAT, LONG = TensorProto.FLOAT, TensorProto.INT64
ONE = np.ones(1, np.float32)


def expanded(title, nodes, opset=17, **consts):
    """`y` is x repeated to the shape `r`, which the nodes compute from constants."""
    nodes = [*nodes, node("Expand", ["x", "r"], ["y"])]
    run(f"Shape by {title}", nodes, {"x": ONE}, ["y"], opset, {key: np.array(value) for key, value in consts.items()})


def moves():
    # As TorchScript writes `F.pad` of shapes that it does not know.
    pads = [node("ConstantOfShape", ["more"], ["zeros"], value=helper.make_tensor("v", LONG, [1], [0])), node("Concat", ["p", "zeros"], ["all"], axis=0),
            node("Reshape", ["all", "pairs"], ["rows"]), node("Slice", ["rows", "last", "first", "axis", "back"], ["turned"]),
            node("Transpose", ["turned"], ["columns"], perm=[1, 0]), node("Reshape", ["columns", "flat"], ["list"]), node("Cast", ["list"], ["pads"], to=LONG)]
    consts = {"more": [2], "p": [1, 2, 0, 1], "pairs": [-1, 2], "last": [-1], "first": [-(2**63) + 1], "axis": [0], "back": [-1], "flat": [-1]}
    for mode in ["constant", "reflect"]:
        run(f"Pad by TorchScript, {mode}", [*pads, node("Pad", ["x", "pads"], ["y"], mode=mode)], {"x": rand(2, 3, 4)}, ["y"], 17,
            {key: np.array(value) for key, value in consts.items()})
    flat = node("Reshape", ["t", "flat"], ["r"])
    expanded("Transpose", [node("Transpose", ["a"], ["t"], perm=[1, 2, 0]), flat], a=[[[1, 2]], [[3, 4]]], flat=[-1])
    expanded("Transpose without axes", [node("Transpose", ["a"], ["t"]), flat], a=[[1, 2, 3], [2, 1, 2]], flat=[-1])
    expanded("Tile", [node("Tile", ["a", "n"], ["t"]), flat], a=[[1, 2]], n=[2, 2], flat=[-1])
    expanded("Split", [node("Split", ["a", "n"], ["p", "q"], axis=0), node("Concat", ["q", "p"], ["r"], axis=0)], a=[2, 3, 1], n=[1, 2])
    expanded("equal Split", [node("Split", ["a"], ["p", "q"], axis=1), node("Concat", ["q", "p"], ["t"], axis=0), flat], a=[[2, 3], [1, 2]], flat=[-1])
    expanded("GatherND", [node("GatherND", ["a", "n"], ["r"])], a=[[1, 2], [3, 4]], n=[[0, -1], [1, 0]])
    expanded("rows of GatherND", [node("GatherND", ["a", "n"], ["t"]), flat], a=[[1, 2], [3, 4]], n=[[1], [0]], flat=[-1])
    for largest in [0, 1]:
        expanded(f"TopK {largest}", [node("TopK", ["a", "k"], ["v", "i"], largest=largest), node("Add", ["i", "one"], ["j"]), node("Concat", ["v", "j"], ["r"], axis=0)],
                 a=[3, 2, 4, 2], k=[2], one=1)


def numbers():
    f32 = np.float32
    expanded("Pow of i64", [node("Pow", ["a", "b"], ["r"])], a=[2, 3], b=[2, 1])
    root = [node("Pow", ["a", "b"], ["t"]), node("Cast", ["t"], ["r"], to=LONG)]
    expanded("Pow of f32", [node("Cast", ["n"], ["a"], to=FLOAT), *root], n=[16, 9], b=f32(0.5))
    expanded("Pow of i64 and f32", root, a=[16, 8], b=f32(0.5))
    expanded("Abs", [node("Abs", ["a"], ["r"])], a=[-2, 3])
    expanded("Sign", [node("Sign", ["a"], ["s"]), node("Add", ["s", "two"], ["r"])], a=[-5, 0, 7], two=2)
    expanded("Clip", [node("Clip", ["a", "low", "high"], ["r"])], a=[-3, 2, 9], low=1, high=4)
    expanded("Clip without a minimum", [node("Clip", ["a", "", "high"], ["r"])], a=[3, 9], high=4)
    for op in ["Exp", "Log"]:
        expanded(op, [node("Cast", ["n"], ["a"], to=FLOAT), node(op, ["a"], ["b"]), node("Round", ["b"], ["c"]), node("Cast", ["c"], ["r"], to=LONG)], n=[2, 3])
    expanded("Round", [node("Cast", ["n"], ["a"], to=FLOAT), node("Mul", ["a", "half"], ["b"]), node("Round", ["b"], ["c"]), node("Cast", ["c"], ["r"], to=LONG)],
             n=[3, 5, 7], half=f32(0.5))
    for exclusive in [0, 1]:
        for reverse in [0, 1]:
            expanded(f"CumSum {exclusive} {reverse}", [node("CumSum", ["a", "axis"], ["s"], exclusive=exclusive, reverse=reverse), node("Add", ["s", "one"], ["t"]),
                                                       node("Reshape", ["t", "flat"], ["r"])], a=[[1, 0], [1, 2]], axis=1, one=1, flat=[-1])
    scales = np.array([1, 1, 2, 0.5], np.float16)
    run("Resize by scales in f16", [node("Cast", ["s"], ["scales"], to=FLOAT), node("Resize", ["x", "", "scales"], ["y"], mode="nearest")], {"x": rand(1, 2, 3, 4)}, ["y"],
        17, {"s": scales})


def domains():
    x = rand(2, 3)
    for dtype in [np.uint8, np.uint16, np.int16]:
        consts = {"s": np.array([0.1, 0.2, 0.05], np.float32), "z": np.array([3, 0, 7], dtype)}
        pair = [node("QuantizeLinear", ["x", "s", "z"], ["q"], domain="com.microsoft", axis=1), node("DequantizeLinear", ["q", "s", "z"], ["y"], domain="com.microsoft", axis=1)]
        microsoft(f"QuantizeLinear of Microsoft, {np.dtype(dtype)}", pair, {"x": x}, consts)
    groups = {"s": rand(4), "b": rand(4)}
    run("GroupNormalization by group", [node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=4)], {"x": rand(2, 8, 2, 3)}, ["y"], 18, groups)


def microsoft(name, nodes, inputs, consts):
    """As `run`, which does not name the domain."""
    domain = helper.make_function("com.microsoft", "Unused", ["a"], ["b"], [node("Identity", ["a"], ["b"])], [helper.make_opsetid("", 17)])
    run(name, nodes, inputs, ["y"], 17, consts, functions=[domain])


def branches():
    plain = helper.make_graph([node("Identity", ["x"], ["o"])], "plain", [], [info("o", FLOAT, None)])
    other = helper.make_graph([node("SampleOp", ["x"], ["d"], domain="com.microsoft"), node("Mul", ["x", "d"], ["o"])], "other", [], [info("o", FLOAT, None)])
    condition = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Equal", ["n", "two"], ["c"])]
    for is_taken in [True, False]:
        then, otherwise = (plain, other) if is_taken else (other, plain)
        microsoft(f"If of an untaken branch without a translation, {is_taken}", [*condition, node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)],
            {"x": rand(2, 2)}, {"zero": np.array(0), "two": np.array(2 if is_taken else 3)})


def extents():
    relu = [node("Relu", ["x"], ["y"])]
    for name in [-1, "?", "None"]:
        run(f"Open extents called {name}", relu, {"x": rand(2, 3)}, ["y"], 17, {}, open_dims={"x": [name, name]})
    run("Open extents of two inputs called ?", [node("MatMul", ["a", "b"], ["y"])], {"a": rand(2, 3), "b": rand(3, 4)}, ["y"], 17, {},
        open_dims={"a": ["?", 3], "b": [3, "?"]})


def given():
    half = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Div", ["n", "two"], ["h"]), node("Unsqueeze", ["h", "axis"], ["end"]),
            node("Slice", ["x", "axis", "end"], ["y"])]
    consts = {"zero": np.array(0), "two": np.array(2), "axis": np.array([0])}
    run("Given half of an extent", half, {"x": rand(7)}, ["y"], 17, consts, open_dims={"x": ["n.rows"]})
    run("Given Conv", [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], {"x": rand(1, 2, 4, 5)}, ["y"], 17, {"w": rand(3, 2, 3, 3)}, open_dims={"x": ["?", 2, "?", "?"]})
    run("Given Resize", [node("Resize", ["x", "", "s"], ["y"], mode="linear")], {"x": rand(1, 1, 4, 5)}, ["y"], 17, {"s": np.array([1, 1, 2, 1.5], np.float32)},
        open_dims={"x": ["batch", 1, "height", "width"]})
    run("Given shape", [node("Reshape", ["x", "shape"], ["y"])], {"x": rand(2, 6), "shape": np.array([3, -1])}, ["y"], 17, {})
    run("Given bounds", [node("Slice", ["x", "start", "end"], ["y"])], {"x": rand(6), "start": np.array([1], np.int32), "end": np.array([4], np.int32)}, ["y"], 17, {})
    weights = {"w": rand(1, 6, 3), "r": rand(1, 6, 2)}
    run("Given lengths", [node("GRU", ["x", "w", "r", "", "lengths"], ["y"], hidden_size=2)], {"x": rand(4, 2, 3), "lengths": np.array([4, 4], np.int32)}, ["y"], 17, weights)


if __name__ == "__main__":
    for family in [moves, numbers, domains, branches, extents, given]:
        family()
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in CASES)
    (HERE / "onnx_known.json").write_text(f"[\n{lines}\n]\n")
    print(len(CASES), "cases")
