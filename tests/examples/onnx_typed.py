"""Writes onnx_typed.json: models whose numbers depend on element types, or on what is known at import, with the results of
onnxruntime.

    python tests/examples/onnx_typed.py     # needs onnx and onnxruntime
"""

import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).parent

from onnx_ops import CASES, case, run

X = np.array([1000, 2000, -3000], np.float32)
node = helper.make_node


def constants(title, nodes, opset=17, **consts):
    """`y` is x times the number `r`, which the nodes compute from constants."""
    nodes = [*nodes, node("Cast", ["r"], ["factor"], to=TensorProto.FLOAT), node("Mul", ["x", "factor"], ["y"])]
    run(f"Constants: {title}", nodes, {"x": X}, ["y"], opset, {key: np.array(value) for key, value in consts.items()})


def element_types():
    f32, u8, i32 = np.float32, np.uint8, np.int32
    for to in [TensorProto.FLOAT16, TensorProto.BFLOAT16]:
        constants(f"0.1 as {to}", [node("Cast", ["a"], ["r"], to=to)], a=f32(0.1))
    constants("1e6 in f16", [node("Cast", ["a"], ["r"], to=TensorProto.FLOAT16)], a=f32(1e6))
    for value, to in [(300, TensorProto.UINT8), (2**32 + 5, TensorProto.INT32), (-1, TensorProto.UINT16), (200, TensorProto.INT8)]:
        constants(f"{value} as {to}", [node("Cast", ["a"], ["r"], to=to)], a=np.int64(value))
    constants("200 + 200 in u8", [node("Add", ["a", "a"], ["r"])], a=u8(200))
    constants("(2 - 3) / 3 in u8", [node("Sub", ["a", "b"], ["c"]), node("Div", ["c", "b"], ["r"])], a=u8(2), b=u8(3))
    constants("2 - 3 < 3 in u8", [node("Sub", ["a", "b"], ["c"]), node("Less", ["c", "b"], ["r"])], a=u8(2), b=u8(3))
    constants("100000 * 100000 in i32", [node("Mul", ["a", "a"], ["r"])], a=i32(100000))
    constants("the largest i32 and 1", [node("Add", ["a", "b"], ["r"])], a=i32(2**31 - 1), b=i32(1))
    constants("-(-128) in i8", [node("Neg", ["a"], ["r"])], a=np.int8(-128))
    constants("0.1 + 0.2 == 0.3", [node("Add", ["a", "b"], ["s"]), node("Equal", ["s", "c"], ["r"])], a=f32(0.1), b=f32(0.2), c=f32(0.3))
    constants("1.25 + 2^25 - 2^25", [node("Add", ["a", "b"], ["s"]), node("Sub", ["s", "b"], ["r"])], a=f32(1.25), b=f32(2**25))
    constants("0.1 in f32 and f64", [node("Cast", ["a"], ["c"], to=TensorProto.DOUBLE), node("Sub", ["c", "b"], ["d"]), node("Mul", ["d", "e"], ["r"])],
              a=f32(0.1), b=np.float64(0.1), e=np.float64(1e9))
    constants("2^53 + 1 == 2^53", [node("Equal", ["a", "b"], ["r"])], a=np.int64(2**53 + 1), b=np.int64(2**53))
    for op in ["Min", "Max"]:
        constants(f"{op} of NaN", [node(op, ["a", "b"], ["r"])], a=f32(np.nan), b=f32(1))
    constants("NaN <= 1", [node("LessOrEqual", ["a", "b"], ["r"])], opset=16, a=f32(np.nan), b=f32(1))
    # The extent 100 * 0.29 is 29 in single precision, and less in double precision.
    sizes = [node("Shape", ["x"], ["s"], start=2), node("Cast", ["s"], ["f"], to=TensorProto.FLOAT), node("Mul", ["f", "share"], ["part"]),
             node("Floor", ["part"], ["whole"]), node("Cast", ["whole"], ["n"], to=TensorProto.INT64), node("Concat", ["head", "n"], ["sizes"], axis=0),
             node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")]
    run("Resize to a share of an extent", sizes, {"x": np.arange(100, dtype=f32).reshape(1, 1, 100)}, ["y"], 17,
        {"share": np.array(0.29, f32), "head": np.array([1, 1])})
    # In single precision, 0.3 / 0.1 is more than 3 and 2.1 / 0.7 is less.
    for bounds in [(0, 0.3, 0.1), (0, 2.1, 0.7), (0.4, 0.1, -0.1)]:
        case("Range", *[np.array(bound, f32) for bound in bounds], consts=(0, 1, 2), opset=11, title=f"of f32 {bounds}")


def reductions():
    for op in ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"]:
        reduced = [node(op, ["a"], ["r"], noop_with_empty_axes=1), node("Cast", ["r"], ["f"], to=TensorProto.FLOAT), node("Mul", ["x", "f"], ["y"])]
        run(f"{op} of constants along no axis", reduced, {"x": X}, ["y"], 18, {"a": np.array([1, 2, 3])})
    whole = np.array([[1, 2, 4], [-1, -2, -4]])
    case("ReduceMean", whole, np.array([1]), consts=(1,), opset=18, title="of i64")
    case("ReduceMean", whole.astype(np.int32), opset=18, keepdims=0, title="of i32, all")
    case("ReduceMean", whole.astype(np.int32) + 2**30, opset=13, axes=[1], keepdims=0, title="of large i32")
    for reverse in [0, 1]:
        for x in [[1, np.inf, 2], [1e-3, 1e8, 2], [3]]:
            case("CumSum", np.array(x, np.float32), np.array(0), consts=(1,), opset=14, exclusive=1, reverse=reverse, title=f"before {x}, {reverse}")
    case("CumSum", whole, np.array(1), consts=(1,), opset=14, exclusive=1, title="before, i64")


def powers():
    exponents = np.array([0.5, 1.5, 2.5], np.float32)
    case("Pow", np.array([4, 9, 16], np.int32), exponents, opset=15, title="of i32, f32 exponents")
    case("Pow", np.array([4, 9, 16]), np.array(0.5, np.float32), opset=15, consts=(1,), title="of i64, f32 exponent")
    case("Pow", np.array([3, -3, 2]), np.array([20, 3, 40]), opset=15, title="of i64, i64 exponents")


def loops():
    flag, number = TensorProto.BOOL, TensorProto.FLOAT
    info = helper.make_tensor_value_info
    def body(goes_on):
        return helper.make_graph(
            [node("Add", ["c", "two"], ["next"]), goes_on, node("Mul", ["next", "two"], ["row"])], "body",
            [info("i", TensorProto.INT64, []), info("go", flag, []), info("c", number, [3])],
            [info("on", flag, []), info("next", number, [3]), info("row", number, [3])])
    always, by_data = node("Identity", ["go"], ["on"]), [node("ReduceSum", ["next"], ["s"], keepdims=0), node("Less", ["s", "much"], ["on"])]
    without_rows = lambda graph: helper.make_graph(graph.node, "body", graph.input, graph.output[:2])
    start = np.array([0, 1, 2], np.float32)
    known = {"go0": np.array(False), "two": np.array(2, np.float32), "much": np.array(50, np.float32)}
    loop = lambda n, rows: node("Loop", [n, "go0", "start"], ["last", "rows"][:1 + rows], body=body(always) if rows else without_rows(body(always)))
    run("Loop that never begins", [loop("n", 0)], {"start": start}, ["last"], 17, {"n": np.array(100), **known})
    run("Loop that never begins, trips by data", [loop("n", 0)], {"start": start, "n": np.array(7)}, ["last"], 17, known)
    data = helper.make_graph([node("Add", ["c", "two"], ["next"]), *by_data], "body", body(always).input, body(always).output[:2])
    run("Loop that never begins, goes on by data", [node("Loop", ["", "go0", "start"], ["last"], body=data)], {"start": start}, ["last"], 17, known)
    run("Loop that never begins, with rows", [loop("n", 1)], {"start": start}, ["last", "rows"], 17, {"n": np.array(100), **known})
    run("Loop of 0 trips, with rows", [node("Loop", ["n", "", "start"], ["last", "rows"], body=body(always))], {"start": start}, ["last", "rows"], 17,
        {"n": np.array(0), **known})


def corners():
    """PyTorch measures the corners of the result, whose length is a whole number."""
    scales = np.array([1, 1, 1.7, 1.7], np.float32)
    for mode in ["linear", "cubic"]:
        x = np.arange(15, dtype=np.float32).reshape(1, 1, 3, 5)
        case("Resize", x, None, scales, consts=(2,), opset=13, mode=mode, coordinate_transformation_mode="align_corners", title=f"by PyTorch, {mode}")
        model = onnx.load_from_string(bytes.fromhex(CASES[-1]["model"]))
        model.producer_name = "pytorch"
        CASES[-1]["model"] = model.SerializeToString().hex()


if __name__ == "__main__":
    for family in [element_types, reductions, powers, loops, corners]:
        family()
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in CASES)
    (HERE / "onnx_typed.json").write_text(f"[\n{lines}\n]\n")
    print(len(CASES), "cases")
