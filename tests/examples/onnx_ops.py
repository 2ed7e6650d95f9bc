"""Writes onnx_ops.json: models of one op, with the results of onnxruntime.

    python tests/examples/onnx_ops.py     # needs onnx and onnxruntime
"""

import json
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
RNG = np.random.default_rng(19)
CASES = []
I = np.int64


def rand(*shape):
    return np.round(RNG.uniform(-2, 2, shape), 3).astype(np.float32)


def positive(*shape):
    return np.round(RNG.uniform(0.5, 2, shape), 3).astype(np.float32)


def whole(*shape, low=-9, high=9, dtype=I):
    return RNG.integers(low, high, shape).astype(dtype)


def truth(*shape):
    return RNG.integers(0, 2, shape).astype(bool)


def number(x):
    return x if np.isfinite(x) else str(x)


def written(array):
    elements = array.ravel().tolist()
    if array.dtype.kind == "f":
        # As many digits as the type has.
        elements = [number(float(np.format_float_positional(x, unique=True))) for x in array.ravel()]
    return {"dtype": str(array.dtype), "shape": list(array.shape), "elements": elements}


def run(name, nodes, inputs, outputs, opset, consts, open_dims=(), functions=()):
    feeds = {key: value for key, value in inputs.items() if value is not None}
    def info(key, value):
        if isinstance(open_dims, dict):
            return helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), open_dims.get(key, value.shape))
        dims = [open_dims[i] if i < len(open_dims) and open_dims[i] else n for i, n in enumerate(value.shape)]
        return helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), dims)
    graph = helper.make_graph(
        nodes,
        name,
        [info(key, value) for key, value in feeds.items()],
        [helper.make_empty_tensor_value_info(key) for key in outputs],
        [numpy_helper.from_array(value, key) for key, value in consts.items()],
    )
    opsets = [helper.make_opsetid("", opset), *[helper.make_opsetid(f.domain, 1) for f in functions]]
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    model.ir_version = 8 if opset < 20 else 10
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    found = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    CASES.append(
        {
            "name": f"{name}, opset {opset}",
            "model": model.SerializeToString().hex(),
            "inputs": {key: written(value) for key, value in feeds.items()},
            "outputs": {key: written(value) for key, value in zip(outputs, found)},
        }
    )


def case(op, *operands, opset=17, n=1, consts=(), title="", open_dims=(), **attrs):
    """One node. Operands at the places in `consts` are initializers; None is left out."""
    names = ["" if operand is None else f"x{i}" for i, operand in enumerate(operands)]
    outputs = [f"y{i}" for i in range(n)]
    node = helper.make_node(op, names, outputs, **attrs)
    given = {f"x{i}": x for i, x in enumerate(operands) if i not in consts}
    fixed = {f"x{i}": x for i, x in enumerate(operands) if i in consts}
    run(f"{op} {title}".strip(), [node], given, outputs, opset, fixed, open_dims)


def elementwise():
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.5, -1.5], np.float32)
    for op in ["Neg", "Abs", "Sign", "Exp", "Sqrt", "Sin", "Cos", "Tanh", "Erf", "Floor", "Ceil", "Relu", "Sigmoid"]:
        case(op, np.concatenate([rand(6), special[3:]]), opset=13)
    for op in ["Tan", "Sinh", "Cosh", "Softplus", "Softsign", "Elu", "Celu", "Selu", "LeakyRelu", "ThresholdedRelu",
               "HardSigmoid", "HardSwish", "Reciprocal", "Round", "Identity"]:
        case(op, rand(2, 3), opset=15)
    case("Log", positive(4), opset=13)
    case("Round", np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32), title="halves", opset=11)
    case("IsNaN", special, opset=13)
    case("IsInf", special, opset=10)
    case("IsInf", special, opset=20, detect_negative=0)
    case("Mish", rand(5), opset=18)
    case("Gelu", rand(5), opset=20)
    case("Gelu", rand(5), opset=20, approximate="tanh")
    case("Shrink", rand(6), opset=9, bias=0.25, lambd=0.75)
    for op in ["Elu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Celu"]:
        case(op, rand(5), opset=15, alpha=0.3, title="alpha")
    for op in ["Add", "Sub", "Mul"]:
        case(op, rand(2, 3), rand(3), opset=7)
        case(op, whole(2, 1), whole(1, 3), opset=14, title="i64")
    case("Div", rand(2, 3), positive(2, 1), opset=7)
    case("Div", whole(6), np.array([2, -2, 3, -3, 4, 5]), opset=14, title="i64")
    case("Pow", positive(2, 3), rand(3), opset=7)
    case("Pow", rand(4), np.array(3), opset=13, title="i64 exponent", consts=(1,))
    case("Pow", rand(4), whole(4, low=0, high=4), opset=15, title="i64 exponents")
    case("Mod", whole(8), np.array([3, -3, 2, 5, -5, 4, 7, -1]), opset=13)
    case("Mod", rand(5), np.array([0.7, -0.7, 1.1, 0.3, -0.3], np.float32), opset=13, fmod=1)
    for op in ["Sum", "Mean", "Max", "Min"]:
        case(op, rand(2, 3), rand(3), rand(2, 1), opset=13)
        case(op, rand(4), opset=8, title="one")
    case("Clip", rand(6), opset=6 + 1, min=-0.5, max=0.75)
    case("Clip", rand(6), np.array(-0.5, np.float32), np.array(0.75, np.float32), consts=(1, 2), opset=11)
    case("Clip", rand(6), None, np.array(0.75, np.float32), consts=(2,), opset=13, title="without min")
    case("Clip", rand(6), np.array(0.0, np.float32), opset=13, title="of a tensor")
    case("PRelu", rand(2, 3), rand(3), opset=9)
    case("Where", truth(2, 3), rand(3), rand(2, 1), opset=9)
    case("Where", truth(2, 3), np.array(2), np.array(-5), opset=16, consts=(1, 2), title="of i64 numbers")
    case("Where", truth(2, 3), np.array(0, np.float32), np.array(np.float32(np.finfo(np.float32).min)), consts=(1, 2), title="mask")
    case("Dropout", rand(3), opset=7)
    case("Dropout", rand(3), opset=13, title="no ratio")


def truths():
    for op in ["And", "Or", "Xor"]:
        case(op, truth(2, 3), truth(3), opset=7)
    case("And", truth(2, 3), np.array(True), consts=(1,), opset=7, title="constant")
    case("Not", truth(4), opset=7)
    for op, opset in [("Equal", 11), ("Less", 9), ("Greater", 9), ("LessOrEqual", 12), ("GreaterOrEqual", 16)]:
        case(op, whole(2, 3, low=0, high=3), whole(3, low=0, high=3), opset=opset)
        case(op, rand(4), np.array(0.25, np.float32), consts=(1,), opset=opset, title="number")


def products():
    for a, b in [((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 1, 2, 3), (3, 3, 2))]:
        case("MatMul", rand(*a), rand(*b), opset=13, title=f"{a} {b}")
    case("Gemm", rand(2, 3), rand(3, 4), rand(4), opset=7)
    case("Gemm", rand(2, 3), rand(3, 4), opset=11, title="without c")
    case("Gemm", rand(3, 2), rand(4, 3), rand(2, 1), opset=13, transA=1, transB=1, alpha=0.5, beta=2.0)


REDUCTIONS = [("ReduceSum", 13), ("ReduceMean", 18), ("ReduceMax", 18), ("ReduceMin", 18), ("ReduceProd", 18),
              ("ReduceL1", 18), ("ReduceL2", 18), ("ReduceSumSquare", 18), ("ReduceLogSum", 18), ("ReduceLogSumExp", 18)]


def reductions():
    for op, since in REDUCTIONS:
        x = positive(2, 3, 2)
        case(op, x, opset=11, axes=[1])
        case(op, x, opset=11, axes=[0, -1], keepdims=0, title="axes")
        case(op, x, opset=7, title="all")
        case(op, x, np.array([-2]), opset=since, consts=(1,), keepdims=0, title="axes as operand")
        case(op, x, opset=since, title="all, no operand")
        if op not in ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"]:
            case(op, x, np.array([], I), opset=since, consts=(1,), noop_with_empty_axes=1, title="noop")
    ties = np.array([[1, 3, 3], [2, 2, 0]], np.float32)
    for op in ["ArgMax", "ArgMin"]:
        case(op, ties, opset=11, axis=1)
        case(op, rand(2, 3), opset=13, keepdims=0, title="axis 0")
        case(op, rand(2, 3), opset=13, axis=-1, keepdims=0)
    case("CumSum", rand(2, 3), np.array(1), consts=(1,), opset=14)
    case("CumSum", whole(2, 3), np.array(-2), consts=(1,), opset=11, reverse=1, title="i64")
    case("TopK", rand(2, 5), np.array([3]), consts=(1,), opset=11, n=2)
    case("TopK", rand(4, 3), np.array([2]), consts=(1,), opset=11, n=2, axis=0, largest=0)
    case("TopK", rand(2, 5), np.array([2]), consts=(1,), opset=10, n=2)
    case("TopK", rand(2, 5), opset=9, n=2, k=2)


def rows():
    for op in ["Softmax", "LogSoftmax", "Hardmax"]:
        x = rand(2, 3, 4)
        case(op, x, opset=11, title="flattened")
        case(op, x, opset=12, axis=2)
        case(op, x, opset=13)
        case(op, x, opset=13, axis=1)
    case("LayerNormalization", rand(2, 3, 4), rand(4), rand(4), opset=17)
    case("LayerNormalization", rand(2, 3, 4), rand(4), opset=17, epsilon=0.01, title="without bias")
    case("LayerNormalization", rand(2, 3, 4), rand(3, 4), rand(3, 4), opset=17, axis=1)
    case("RMSNormalization", rand(2, 4), rand(4), opset=23)
    case("BatchNormalization", rand(2, 3, 4), rand(3), rand(3), rand(3), positive(3), opset=9)
    case("BatchNormalization", rand(2, 3), rand(3), rand(3), rand(3), positive(3), opset=15, epsilon=0.01)
    case("InstanceNormalization", rand(2, 3, 4), rand(3), rand(3), opset=6 + 1)
    case("GroupNormalization", rand(2, 4, 3), rand(4), rand(4), opset=21, num_groups=2)
    case("MeanVarianceNormalization", rand(2, 3, 2, 2), opset=13)


def shapes():
    c = lambda *items: np.array(items, I)
    case("Reshape", rand(2, 3, 4), c(0, -1), consts=(1,), opset=13)
    case("Reshape", rand(2, 3, 4), c(4, 0, 2), consts=(1,), opset=7)
    case("Reshape", rand(0, 3), c(3, 0), consts=(1,), opset=14, allowzero=1, title="empty")
    case("Flatten", rand(2, 3, 4), opset=9)
    case("Flatten", rand(2, 3, 4), opset=13, axis=-1)
    case("Flatten", rand(2, 3), opset=11, axis=0)
    case("Transpose", rand(2, 3, 4), opset=13)
    case("Transpose", rand(2, 3, 4), opset=7, perm=[2, 0, 1])
    case("Squeeze", rand(1, 3, 1), opset=11, axes=[0, -1])
    case("Squeeze", rand(1, 3, 1), c(0), consts=(1,), opset=13)
    case("Squeeze", rand(1, 3, 1), opset=13, title="all")
    case("Unsqueeze", rand(2, 3), opset=11, axes=[0, 3])
    case("Unsqueeze", rand(2, 3), c(-1, 1), consts=(1,), opset=13)
    case("Expand", rand(3, 1), c(2, 1, 4), consts=(1,), opset=13)
    case("Tile", rand(2, 3), c(2, 2), consts=(1,), opset=13)
    case("Concat", rand(2, 1), rand(2, 2), rand(2, 3), opset=11, axis=-1)
    case("Concat", *[rand(1, 2) for _ in range(19)], opset=13, axis=0, title="of many")
    for to in [TensorProto.INT32, TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.FLOAT]:
        case("Cast", rand(5), opset=13, to=to, title=str(to))
    case("Cast", truth(4), opset=13, to=TensorProto.FLOAT, title="bool")
    case("CastLike", rand(4), whole(2), opset=15)
    case("Trilu", rand(3, 4), opset=14)
    case("Trilu", rand(2, 3, 3), np.array(-1), consts=(1,), opset=14, upper=0)
    case("Split", rand(2, 6), opset=11, n=3, axis=1)
    case("Split", rand(2, 6), opset=11, n=2, axis=1, split=[4, 2], title="sizes")
    case("Split", rand(2, 6), c(1, 5), consts=(1,), opset=13, n=2, axis=-1)
    case("Split", rand(7), opset=18, n=3, num_outputs=3, title="uneven")
    case("Slice", rand(4, 5), opset=9, starts=[1, -2], ends=[3, 1000])
    case("Slice", rand(4, 5), opset=9, starts=[-3], ends=[-1], axes=[1])
    case("Slice", rand(4, 5), c(0, 4), c(4, -100), c(0, 1), c(2, -1), consts=(1, 2, 3, 4), opset=13, title="steps")
    case("Slice", rand(4, 5), c(1), c(np.iinfo(I).max), c(-1), consts=(1, 2, 3), opset=11)
    case("Slice", rand(5), c(-2), c(np.iinfo(I).min), c(0), c(-2), consts=(1, 2, 3, 4), opset=11, title="backwards")
    case("Slice", rand(5), c(3), c(1), consts=(1, 2), opset=11, title="empty")
    case("Shape", rand(2, 3, 4), opset=15, start=1, end=-1)
    case("Size", rand(2, 3, 4), opset=13)
    case("ConstantOfShape", c(2, 3), consts=(0,), opset=9, value=helper.make_tensor("v", TensorProto.FLOAT, [1], [2.5]))
    case("ConstantOfShape", c(2), consts=(0,), opset=9, title="zeros")
    case("Range", np.array(2), np.array(11), np.array(3), consts=(0, 1, 2), opset=11)
    case("Range", np.array(1, np.float32), np.array(-1, np.float32), np.array(-0.5, np.float32), consts=(0, 1, 2), opset=11)


def indices():
    c = lambda *items: np.array(items, I)
    case("Gather", rand(3, 4), whole(2, 2, low=-3, high=3), opset=11)
    case("Gather", rand(3, 4), whole(3, low=-4, high=4, dtype=np.int32), opset=13, axis=1)
    case("Gather", rand(3, 4), np.array(-1), consts=(1,), opset=13, axis=1, title="number")
    case("Gather", rand(3, 4), c(2, 0), consts=(1,), opset=13, title="constant")
    case("GatherElements", rand(3, 4), whole(2, 4, low=-3, high=3), opset=13)
    case("GatherElements", rand(3, 4), whole(3, 2, low=-4, high=4), opset=11, axis=1)
    case("GatherND", rand(2, 3, 4), np.stack([whole(5, low=0, high=2), whole(5, low=-3, high=3)], -1), opset=12)
    case("GatherND", rand(2, 3), np.stack([whole(2, 2, low=0, high=2), whole(2, 2, low=0, high=3)], -1), opset=13, title="elements")
    case("ScatterElements", rand(3, 3), c(2, 0, 1).reshape(1, 3), rand(1, 3), opset=16)
    case("ScatterElements", rand(2, 4), np.array([[1, 1], [0, -1]]), rand(2, 2), opset=16, axis=1, reduction="add")
    case("ScatterND", rand(4, 2), c(2, -4).reshape(2, 1), rand(2, 2), opset=16)
    case("ScatterND", rand(3, 2), np.array([[0, 1], [0, 1], [2, 0]]), rand(3), opset=16, reduction="add")


def branches():
    def branch(value):
        constant = helper.make_node("Constant", [], ["z"], value_float=value)
        return helper.make_graph([constant], "branch", [], [helper.make_empty_tensor_value_info("z")])
    shape = helper.make_node("Shape", ["x"], ["s"])
    one = helper.make_node("Constant", [], ["one"], value_ints=[1])
    is_row = helper.make_node("Equal", ["s", "one"], ["c"])
    chosen = helper.make_node("If", ["c"], ["f"], then_branch=branch(3.0), else_branch=branch(5.0))
    product = helper.make_node("Mul", ["x", "f"], ["y"])
    run("If", [shape, one, is_row, chosen, product], {"x": rand(4)}, ["y"], 13, {})


def functions():
    power = helper.make_node("Pow", ["x", "e"], ["p"])
    exponent = helper.make_node("Constant", [], ["e"])
    exponent.attribute.append(onnx.AttributeProto(name="value_float", ref_attr_name="exponent", type=onnx.AttributeProto.FLOAT))
    total = helper.make_node("ReduceSum", ["p"], ["y"], keepdims=0)
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("acme", "PowerSum", ["x"], ["y"], [exponent, power, total], opsets, ["exponent"])
    first = helper.make_node("PowerSum", ["x"], ["a"], domain="acme", exponent=2.0)
    second = helper.make_node("PowerSum", ["x"], ["b"], domain="acme", exponent=3.0)
    both = helper.make_node("Add", ["a", "b"], ["y"])
    run("functions", [first, second, both], {"x": rand(4)}, ["y"], 17, {}, functions=[function])


def networks():
    c = lambda *items: np.array(items, I)
    x, w, r, b = rand(3, 2, 2), rand(1, 8, 2), rand(1, 8, 2), rand(1, 16)
    case("LSTM", x, w, r, b, opset=14, n=3, consts=(1, 2, 3), hidden_size=2)
    case("LSTM", x, w, r, None, None, rand(1, 2, 2), rand(1, 2, 2), opset=7, n=3, consts=(1, 2), hidden_size=2, direction="reverse")
    case("GRU", x, rand(1, 6, 2), rand(1, 6, 2), rand(1, 12), opset=14, n=2, consts=(1, 2, 3), hidden_size=2, linear_before_reset=1)
    q, k = rand(1, 2, 3, 4), rand(1, 2, 3, 4)
    case("Attention", q, k, rand(1, 2, 3, 2), opset=23, is_causal=1)
    case("Attention", rand(1, 3, 8), rand(1, 4, 4), rand(1, 4, 4), truth(3, 4) | np.eye(3, 4, dtype=bool), opset=23, q_num_heads=2, kv_num_heads=1, title="heads")
    case("Pad", rand(2, 3), c(1, -1, 0, 2), np.array(0.5, np.float32), consts=(1, 2), opset=13)
    case("OneHot", c(1, -1, 7), c(3), np.array([0.5, 2], np.float32), consts=(1,), opset=11, axis=0)
    case("DepthToSpace", rand(1, 4, 1, 2), opset=13, blocksize=2)
    case("SpaceToDepth", rand(1, 1, 2, 4), opset=13, blocksize=2)
    case("GlobalAveragePool", rand(2, 2, 3), opset=7)
    case("LpNormalization", rand(2, 3), opset=7, p=1, axis=0)
    case("SoftmaxCrossEntropyLoss", rand(3, 4), c(1, 0, 3), positive(4), opset=13)
    case("NegativeLogLikelihoodLoss", rand(2, 3, 2), whole(2, 2, low=0, high=3), opset=13, reduction="none")


def images():
    x = rand(1, 2, 5, 4)
    case("Conv", x, rand(3, 2, 3, 2), rand(3), opset=11, consts=(1, 2), kernel_shape=[3, 2])
    case("Conv", x, rand(2, 1, 2, 2), opset=11, group=2, pads=[1, 0, 0, 2], strides=[2, 1], dilations=[1, 2], title="uneven")
    case("Conv", rand(1, 2, 6), rand(2, 2, 3), opset=22, pads=[1, 1], auto_pad="NOTSET", title="signal")
    case("ConvTranspose", rand(1, 2, 3, 2), rand(2, 2, 3, 2), rand(2), opset=11, strides=[2, 1], pads=[1, 0, 1, 0], output_padding=[1, 0])
    case("MaxPool", x, opset=12, kernel_shape=[2, 3], strides=[2, 1], pads=[1, 1, 0, 1])
    case("AveragePool", x, opset=11, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    case("AveragePool", x, opset=19, kernel_shape=[2, 2], pads=[1, 0, 1, 0], count_include_pad=1, title="counting")


def windows():
    x = rand(1, 2, 5, 4)
    for rule in ["SAME_UPPER", "SAME_LOWER", "VALID"]:
        case("Conv", x, rand(3, 2, 3, 2), opset=11, auto_pad=rule, strides=[2, 1], title=rule)
        case("MaxPool", x, opset=12, kernel_shape=[2, 3], strides=[2, 2], auto_pad=rule, title=rule)
        case("AveragePool", x, opset=11, kernel_shape=[3, 2], strides=[1, 2], auto_pad=rule, title=rule)
    case("ConvTranspose", rand(1, 2, 3, 2), rand(2, 2, 3, 2), opset=11, strides=[2, 2], auto_pad="SAME_UPPER", title="same")
    case("ConvTranspose", rand(1, 2, 3, 2), rand(2, 1, 3, 2), opset=11, strides=[2, 2], output_shape=[5, 4], title="of an extent")
    for stride in [2, 3]:
        case("MaxPool", x, opset=12, kernel_shape=[2, 2], strides=[stride, stride], ceil_mode=1, title=f"rounded up {stride}")
        for counts in [0, 1]:
            case("AveragePool", x, opset=19, kernel_shape=[2, 2], strides=[stride, stride], pads=[1, 0, 1, 1], ceil_mode=1,
                 count_include_pad=counts, title=f"rounded up {stride}")
    case("MaxPool", whole(1, 1, 4, 4, low=0, high=255, dtype=np.uint8), opset=12, kernel_shape=[2, 2], title="u8")
    case("LpPool", x, opset=18, kernel_shape=[2, 2], p=3, pads=[1, 0, 0, 1])
    case("LpPool", x, opset=11, kernel_shape=[3, 2], strides=[2, 2])
    case("GlobalLpPool", x, opset=7, p=3)
    case("LRN", rand(2, 5, 2, 3), opset=13, size=3, alpha=0.5, beta=0.6, bias=1.5)
    case("Col2Im", rand(1, 8, 4), np.array([4, 3]), np.array([2, 2]), consts=(1, 2), opset=18, strides=[2, 1])
    case("Col2Im", rand(2, 4, 9), np.array([3, 3]), np.array([2, 2]), consts=(1, 2), opset=18, pads=[1, 0, 0, 1], title="padded")
    for mode in ["reflect", "edge", "wrap"]:
        case("Pad", rand(3, 4), np.array([1, 0, 2, 3]), consts=(1,), opset=19, mode=mode, title=mode)
    case("Pad", rand(3, 4), np.array([-1, 2, 1, -2]), consts=(1,), opset=13, mode="edge", title="cut and edge")
    case("CenterCropPad", rand(5, 4), np.array([2, 7]), consts=(1,), opset=18)


def resizing():
    x, none = rand(1, 2, 4, 3), np.array([], np.float32)
    sizes = lambda *items: (None, None, np.array(items, I))
    scales = lambda *items: (None, np.array(items, np.float32))
    for place in ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]:
        for mode in ["nearest", "linear", "cubic"]:
            for size in [(6, 5), (3, 2)]:
                case("Resize", x, *sizes(1, 2, *size), consts=(3,), opset=19, mode=mode, coordinate_transformation_mode=place, title=f"{mode} {place} {size}")
    for nearest in ["floor", "ceil", "round_prefer_ceil"]:
        case("Resize", x, *sizes(1, 2, 7, 5), consts=(3,), opset=13, nearest_mode=nearest, title=nearest)
    case("Resize", x, none, np.array([1, 1, 2, 3], np.float32), consts=(1, 2), opset=11, title="scales")
    case("Resize", x, np.array([1, 1, 2, 2], np.float32), consts=(1,), opset=10, title="scales")
    case("Resize", x, *scales(1.5, 2.0), consts=(2,), opset=18, axes=[2, 3], mode="linear", title="axes")
    case("Resize", rand(1, 1, 6, 6), *sizes(1, 1, 3, 4), consts=(3,), opset=18, mode="linear", antialias=1, title="smooth")
    case("Resize", rand(1, 1, 6, 6), *sizes(1, 1, 3, 2), consts=(3,), opset=18, mode="cubic", antialias=1, title="smooth")
    case("Resize", x, *sizes(1, 2, 6, 5), consts=(3,), opset=18, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1, title="without the outside")
    part = np.array([0, 0, -0.2, 0.1, 1, 1, 0.9, 1.3], np.float32)
    case("Resize", x, part, None, np.array([1, 2, 5, 4]), consts=(1, 3), opset=18, mode="linear", coordinate_transformation_mode="tf_crop_and_resize",
         extrapolation_value=7.0, title="of a part")
    case("Upsample", x, np.array([1, 1, 2, 3], np.float32), consts=(1,), opset=9)
    case("Upsample", rand(1, 1, 3, 4), opset=7, scales=[1.0, 1.0, 2.0, 2.0], mode="linear")


def quantised():
    f = lambda *items: np.array(items, np.float32)
    x = np.array([[0.0, 2.5, -3.1, 700.0], [1e9, -1e9, 0.25, -0.35]], np.float32)
    for dtype in [np.uint8, np.int8, np.uint16, np.int16]:
        zero = np.array(3, dtype)
        case("QuantizeLinear", x, np.array(0.5, np.float32), zero, opset=21, title=str(dtype.__name__))
        case("DequantizeLinear", whole(2, 4, low=0, high=100).astype(dtype), np.array(0.5, np.float32), zero, opset=21, title=str(dtype.__name__))
    case("QuantizeLinear", x, f(0.5, 2.0), np.array([1, -2], np.int8), opset=13, axis=0, title="rows")
    case("QuantizeLinear", x, f(0.5), consts=(1,), opset=10, title="without zero")
    case("DequantizeLinear", whole(2, 3, low=-99, high=99).astype(np.int8), f(0.5, 2.0, 0.1), np.array([1, -2, 0], np.int8), consts=(1, 2), opset=13, axis=-1, title="columns")
    case("DequantizeLinear", whole(2, 3, low=-99, high=99).astype(np.int32), np.array(0.5, np.float32), opset=13, title="i32")
    case("DequantizeLinear", whole(4, 2, low=0, high=99).astype(np.uint8), positive(2, 2), whole(2, 2, low=0, high=9).astype(np.uint8), opset=21, axis=0, block_size=2, title="blocks")
    case("DynamicQuantizeLinear", rand(2, 3), opset=11, n=3)
    case("DynamicQuantizeLinear", positive(5), opset=11, n=3)
    a, b = whole(2, 3, low=0, high=255).astype(np.uint8), whole(3, 4, low=-128, high=127).astype(np.int8)
    case("MatMulInteger", a, b, np.array(7, np.uint8), np.array([1, -2, 3, 4], np.int8), opset=10)
    case("MatMulInteger", a, b, opset=10, title="without zeros")
    case("QLinearMatMul", a, np.array(0.02, np.float32), np.array(7, np.uint8), b, f(0.01, 0.02, 0.03, 0.04), np.array([1, -2, 3, 4], np.int8), np.array(0.1, np.float32), np.array(100, np.uint8), opset=10)
    image, w = whole(1, 2, 4, 4, low=0, high=255).astype(np.uint8), whole(3, 2, 3, 3, low=-128, high=127).astype(np.int8)
    unsigned = whole(3, 2, 3, 3, low=0, high=255).astype(np.uint8)
    case("ConvInteger", image, unsigned, np.array(7, np.uint8), np.array(2, np.uint8), consts=(1, 2, 3), opset=10, pads=[1, 1, 1, 1])
    case("QLinearConv", image, np.array(0.02, np.float32), np.array(7, np.uint8), w, f(0.01, 0.02, 0.03), np.array([0, 0, 0], np.int8), np.array(0.4, np.float32), np.array(100, np.uint8),
         whole(3, low=-999, high=999).astype(np.int32), consts=(1, 2, 3, 4, 5, 6, 7, 8), opset=10, strides=[2, 2])


def narrow():
    for dtype in [np.int8, np.uint8, np.int16, np.uint16]:
        info = np.iinfo(dtype)
        x, name = whole(6, low=info.min, high=info.max).astype(dtype), dtype.__name__
        for to in [TensorProto.FLOAT, TensorProto.INT64]:
            case("Cast", x, opset=13, to=to, title=f"{name} {to}")
        case("Cast", whole(6, low=-99999, high=99999), opset=13, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), title=f"to {name}")
        if dtype in [np.int8, np.uint8]:
            y = whole(6, low=info.min, high=info.max).astype(dtype)
            for op in ["Add", "Sub", "Mul", "Max", "Min", "Mod"]:
                case(op, x, np.maximum(y, 1) if op == "Mod" else y, opset=14, title=name)
            case("Clip", x, np.array(-5 if info.min else 5, dtype), opset=13, consts=(1,), title=name)
            case("Where", truth(6), x, y, opset=16, title=name)
            case("Transpose", x.reshape(2, 3), opset=13, title=name)
    case("Abs", np.array([-128, -1, 5], np.int8), opset=13, title="the smallest i8")
    case("Neg", np.array([-128, -1, 5], np.int8), opset=13, title="the smallest i8")
    for op in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]:
        case(op, whole(6, low=-99, high=99).astype(np.int16), whole(6, low=-99, high=99).astype(np.int16), opset=18, title="i16")
        case(op, whole(6, low=0, high=255).astype(np.uint8), whole(6, low=0, high=255).astype(np.uint8), opset=18, title="u8")
    case("BitwiseNot", whole(6, low=0, high=65535).astype(np.uint16), opset=18, title="u16")
    case("BitwiseNot", whole(6, low=-99, high=99).astype(np.int32), opset=18)
    for direction in ["LEFT", "RIGHT"]:
        case("BitShift", whole(6, low=0, high=255).astype(np.uint8), whole(6, low=0, high=8).astype(np.uint8), opset=11, direction=direction)
    x = np.concatenate([rand(6), np.array([1e9, -1e9, 0.001, -0.002, np.nan, np.inf, 17.0, 464.0, 465.0], np.float32)])
    for to in [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ]:
        for saturate in [0, 1]:
            small = helper.make_node("Cast", ["x"], ["s"], to=to, saturate=saturate)
            back = helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT)
            run(f"Cast {to} {saturate}", [small, back], {"x": x}, ["y"], 19, {})


def others():
    case("Asin", np.array([-1, -0.5, 0, 0.75, 1, 2], np.float32), opset=7)
    case("Acos", np.array([-1, -0.5, 0, 0.75, 1, 2], np.float32), opset=7)
    case("Atan", rand(5), opset=7)
    case("Einsum", rand(2, 3, 4), rand(4, 3), opset=12, equation="bij,jk->bik")
    case("Einsum", rand(3, 3), opset=12, equation="ii->i")
    case("Clip", rand(5), opset=13, title="without bounds")
    case("EyeLike", rand(3, 4), opset=9, k=1)
    case("EyeLike", rand(3, 2), opset=9, k=-1, dtype=TensorProto.INT64)
    for op in ["HannWindow", "HammingWindow", "BlackmanWindow"]:
        case(op, np.array(7), consts=(0,), opset=17)
        case(op, np.array(6), consts=(0,), opset=17, periodic=0)
    for exclusive in [0, 1]:
        for reverse in [0, 1]:
            case("CumSum", rand(2, 4), np.array(1), consts=(1,), opset=14, exclusive=exclusive, reverse=reverse, title="modes")


def regions():
    info = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    flag, number = TensorProto.BOOL, TensorProto.FLOAT
    node = helper.make_node
    # Both branches name their values alike.
    def side(op):
        return helper.make_graph([node(op, ["x"], ["t"]), node("Add", ["t", "w"], ["r"])], "side", [], [info("r", number, [3])])
    chosen = node("If", ["c"], ["y"], then_branch=side("Exp"), else_branch=side("Neg"))
    for c in [True, False]:
        run(f"If on data {c}", [chosen], {"x": rand(3), "c": np.array(c)}, ["y"], 17, {"w": rand(3)})
    # c = c * 0.5 + x; the rows are c + i.
    body = helper.make_graph(
        [node("Mul", ["c", "half"], ["h"]), node("Add", ["h", "x"], ["next"]), node("Cast", ["i"], ["f"], to=number),
         node("Add", ["next", "f"], ["row"]), node("Identity", ["go"], ["on"])],
        "body", [info("i", TensorProto.INT64, []), info("go", flag, []), info("c", number, [3])],
        [info("on", flag, []), info("next", number, [3]), info("row", number, [3])])
    for trips in [1, 18]:
        loop = node("Loop", ["n", "", "start"], ["last", "rows"], body=body)
        run(f"Loop {trips}", [loop], {"x": rand(3), "start": rand(3)}, ["last", "rows"], 17, {"n": np.array(trips), "half": np.array(0.5, np.float32)})
    # A condition that numbers determine ends the loop after four trips.
    ends = helper.make_graph(
        [node("Add", ["c", "x"], ["next"]), node("Less", ["i", "three"], ["on"])],
        "ends", [info("i", TensorProto.INT64, []), info("go", flag, []), info("c", number, [2])],
        [info("on", flag, []), info("next", number, [2])])
    run("Loop with an end", [node("Loop", ["n", "c0", "start"], ["last"], body=ends)], {"x": rand(2), "start": rand(2)}, ["last"], 17,
        {"n": np.array(99), "c0": np.array(True), "three": np.array(3)})
    step = helper.make_graph(
        [node("Mul", ["s", "a"], ["p"]), node("Add", ["p", "b"], ["next"]), node("Neg", ["next"], ["out"])],
        "step", [info("s", number, [2]), info("a", number, [2]), info("b", number, [2])], [info("next", number, [2]), info("out", number, [2])])
    inputs = {"s0": rand(2), "xs": rand(5, 2), "ys": rand(2, 5)}
    for directions in [[0, 0], [1, 0]]:
        scan = node("Scan", ["s0", "xs", "ys"], ["last", "outs"], body=step, num_scan_inputs=2, scan_input_axes=[0, 1],
                    scan_input_directions=directions, scan_output_axes=[1], scan_output_directions=[directions[0]])
        run(f"Scan {directions}", [scan], inputs, ["last", "outs"], 17, {})


def loops():
    info = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    flag, number, integer = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64
    node = helper.make_node
    # c = c * 0.5 + x, and the number of the trip is a row.
    ends = [info("on", flag, []), info("next", number, [3]), info("row", number, [3])]
    def body(*further, outputs=ends):
        return helper.make_graph(
            [node("Mul", ["c", "half"], ["h"]), node("Add", ["h", "x"], ["next"]), node("Cast", ["i"], ["f"], to=number),
             node("Sub", ["next", "f"], ["row"]), *further],
            "body", [info("i", integer, []), info("go", flag, []), info("c", number, [3])], outputs)
    counted = body(node("Identity", ["go"], ["on"]))
    half = {"half": np.array(0.5, np.float32)}
    names = ["n", "", "start"]
    for trips in [40, 300]:
        run(f"Loop {trips}", [node("Loop", names, ["last", "rows"], body=counted)], {"x": rand(3), "start": rand(3)}, ["last", "rows"], 17,
            {"n": np.array(trips), **half})
    # As many trips as the input has rows.
    rows = [node("Shape", ["t"], ["shape"]), node("Gather", ["shape", "zero"], ["n"]), node("Loop", names, ["last", "rows"], body=counted)]
    run("Loop over an open extent", rows, {"t": rand(20, 2), "x": rand(3), "start": rand(3)}, ["last", "rows"], 17, {"zero": np.array(0), **half}, open_dims={"t": ["T", 2]})
    only = ends[:2]
    for trips in [0, 1, 30]:
        given = {"n": np.array(trips), "x": rand(3), "start": rand(3)}
        run(f"Loop of {trips} trips, which only a run knows", [node("Loop", names, ["last"], body=body(node("Identity", ["go"], ["on"]), outputs=only))], given, ["last"], 17, half)
    # It goes on while the sum of the squares is large.
    size = [node("Mul", ["next", "next"], ["square"]), node("ReduceSum", ["square"], ["sum"], keepdims=0), node("Greater", ["sum", "little"], ["on"])]
    shrinking = body(*size, outputs=only)
    for limit, begins in [(None, None), (3, None), (500, True), (500, False)]:
        given = {"x": np.zeros(3, np.float32), "start": 10 * positive(3)}
        names = ["" if limit is None else "n", "" if begins is None else "begin", "start"]
        if begins is not None:
            given["begin"] = np.array(begins)
        known = {} if limit is None else {"n": np.array(limit)}
        run(f"Loop by a condition, limit {limit}, begins {begins}", [node("Loop", names, ["last"], body=shrinking)], given, ["last"], 17,
            {**half, **known, "little": np.array(0.01, np.float32)})
    # Within a trip of 20: a loop of 3 written out, one of 30, and a branch on data.
    def inner(at, label):
        return helper.make_graph([node("Add", [f"c{at}", "w"], [f"a{at}"]), node("Tanh", [f"a{at}"], [f"n{at}"]), node("Identity", [f"g{at}"], [f"o{at}"])],
            label, [info(f"i{at}", integer, []), info(f"g{at}", flag, []), info(f"c{at}", number, [2])],
            [info(f"o{at}", flag, []), info(f"n{at}", number, [2])])
    side = lambda op: helper.make_graph([node(op, ["l2"], [f"{op}_r"])], op, [], [info(f"{op}_r", number, [2])])
    nested = helper.make_graph(
        [node("Loop", ["three", "", "c"], ["l1"], body=inner(1, "short")), node("Loop", ["thirty", "", "l1"], ["l2"], body=inner(2, "long")),
         node("ReduceSum", ["l2"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["large"]),
         node("If", ["large"], ["next"], then_branch=side("Neg"), else_branch=side("Exp")), node("Identity", ["go"], ["on"])],
        "nested", [info("i", integer, []), info("go", flag, []), info("c", number, [2])], [info("on", flag, []), info("next", number, [2])])
    run("Loop within a loop", [node("Loop", ["twenty", "", "start"], ["last"], body=nested)], {"start": rand(2), "w": rand(2)}, ["last"], 17,
        {"three": np.array(3), "thirty": np.array(30), "twenty": np.array(20), "zero": np.array(0.0, np.float32)})
    # A row that grows: its trips must be written out.
    grows = helper.make_graph([node("Concat", ["c", "x"], ["next"], axis=0), node("Identity", ["go"], ["on"])], "grows",
        [info("i", integer, []), info("go", flag, []), info("c", number, [None])], [info("on", flag, []), info("next", number, [None])])
    run("Loop that grows", [node("Loop", ["n", "", "start"], ["last"], body=grows)], {"start": rand(2), "x": rand(1)}, ["last"], 17, {"n": np.array(20)})
    step = lambda read: helper.make_graph(
        [node("Mul", ["s", "a"], ["p"]), node("Add", ["p", read], ["next"]), node("Neg", ["next"], ["out"])],
        "step", [info("s", number, [2]), info("a", number, [2]), *([info("b", number, [2])] if read == "b" else [])],
        [info("next", number, [2]), info("out", number, [2])])
    for n, reverse in [(30, 0), (30, 1), (200, 1)]:
        settings = {"scan_input_directions": [reverse], "scan_output_axes": [1], "scan_output_directions": [1 - reverse]}
        run(f"Scan of {n} in direction {reverse}", [node("Scan", ["s0", "xs"], ["last", "outs"], body=step("w"), num_scan_inputs=1, scan_input_axes=[1], **settings)],
            {"s0": rand(2), "xs": rand(2, n) / 4, "w": rand(2)}, ["last", "outs"], 17, {})
        run(f"Scan of two of {n} in direction {reverse}", [node("Scan", ["s0", "xs", "ys"], ["last", "outs"], body=step("b"), num_scan_inputs=2,
            scan_input_axes=[1, 0], **{**settings, "scan_input_directions": [reverse, 0]})], {"s0": rand(2), "xs": rand(2, n) / 4, "ys": rand(n, 2)}, ["last", "outs"], 17, {})
    run("Scan of an open extent", [node("Scan", ["s0", "xs"], ["last", "outs"], body=step("w"), num_scan_inputs=1)],
        {"xs": rand(20, 2) / 4, "s0": rand(2), "w": rand(2)}, ["last", "outs"], 17, {}, open_dims={"xs": ["T", 2]})


def sequences():
    info = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    node, number, integer = helper.make_node, TensorProto.FLOAT, TensorProto.INT64
    parts = {f"x{i}": rand(2, 3) for i in range(3)}
    at = {"one": np.array(1), "last": np.array(-1)}
    made = node("SequenceConstruct", [*parts], ["s"])
    changed = [made, node("SequenceErase", ["s", "last"], ["t"]), node("SequenceInsert", ["t", "x2", "last"], ["u"]),
               node("SequenceInsert", ["u", "x0"], ["v"]), node("SequenceAt", ["v", "one"], ["y0"]), node("SequenceLength", ["v"], ["y1"]),
               node("ConcatFromSequence", ["v"], ["y2"], axis=1)]
    run("Sequence", changed, parts, ["y0", "y1", "y2"], 17, at)
    run("Sequence that is empty at first", [node("SequenceEmpty", [], ["s"]), node("SequenceInsert", ["s", "x"], ["t"]), node("SequenceInsert", ["t", "x"], ["u"]),
        node("ConcatFromSequence", ["u"], ["y"], axis=-1, new_axis=1)], {"x": rand(2, 2)}, ["y"], 17, {})
    for split, keep in [(None, 1), (None, 0), (np.array(2), 1), (np.array([1, 3, 1]), 1)]:
        operands = ["x", "split"] if split is not None else ["x"]
        nodes = [node("SplitToSequence", operands, ["s"], axis=1, keepdims=keep), node("SequenceAt", ["s", "last"], ["y0"]), node("SequenceLength", ["s"], ["y1"])]
        run(f"SplitToSequence {split} {keep}", nodes, {"x": rand(2, 5)}, ["y0", "y1"], 17, {**at, **({"split": split} if split is not None else {})})
    # A loop of known trips may hand a sequence on, and a function goes over its parts.
    grows = helper.make_graph([node("SequenceAt", ["s", "i"], ["p"]), node("Neg", ["p"], ["q"]), node("SequenceInsert", ["t", "q"], ["u"]), node("Identity", ["go"], ["on"])], "grows",
        [info("i", integer, []), info("go", TensorProto.BOOL, []), helper.make_tensor_sequence_value_info("t", number, None)],
        [info("on", TensorProto.BOOL, []), helper.make_tensor_sequence_value_info("u", number, None)])
    loop = [made, node("SequenceLength", ["s"], ["n"]), node("SequenceEmpty", [], ["e"]), node("Loop", ["n", "", "e"], ["r"], body=grows),
            node("ConcatFromSequence", ["r"], ["y"], axis=0)]
    run("Loop that hands a sequence on", loop, parts, ["y"], 17, {})
    doubled = helper.make_graph([node("Add", ["a", "b"], ["c"])], "doubled", [info("a", number, [2, 3]), info("b", number, [2, 3])], [info("c", number, [2, 3])])
    mapped = [made, node("SequenceMap", ["s", "x0"], ["m"], body=doubled), node("ConcatFromSequence", ["m"], ["y"], axis=0)]
    run("SequenceMap", mapped, parts, ["y"], 17, {})
    kind = helper.make_tensor_type_proto(number, [2])
    run("Optional", [node("Optional", ["x"], ["o"]), node("OptionalHasElement", ["o"], ["y0"]), node("OptionalGetElement", ["o"], ["y1"]),
        node("Optional", [], ["none"], type=kind), node("OptionalHasElement", ["none"], ["y2"])], {"x": rand(2)}, ["y0", "y1", "y2"], 17, {})


def places():
    for shape, settings in [((2, 2, 5), dict(kernel_shape=[2])), ((1, 2, 4, 5), dict(kernel_shape=[2, 3], strides=[2, 1], pads=[1, 1, 0, 1])),
                            ((1, 1, 5, 6), dict(kernel_shape=[2, 2], dilations=[2, 2], storage_order=1)), ((1, 1, 3, 4, 3), dict(kernel_shape=[2, 2, 2]))]:
        case("MaxPool", rand(*shape), opset=12, n=2, title=f"places {shape}", **settings)
    case("MaxPool", whole(1, 1, 4, 4, low=0, high=3, dtype=np.uint8), opset=12, n=2, kernel_shape=[3, 3], title="places of equal bytes")
    case("MaxUnpool", rand(1, 2, 2, 2), np.array([[[[0, 3], [9, 15]], [[16, 19], [25, 30]]]]), opset=11, kernel_shape=[2, 2], strides=[2, 2])
    lengths = np.array([1, 3, 2])
    case("ReverseSequence", rand(4, 3, 2), lengths, opset=10)
    case("ReverseSequence", rand(3, 4, 2), lengths, opset=10, batch_axis=0, time_axis=1, title="items first")
    for axis in [{}, {"axis": 1}, {"axis": -2}]:
        case("Compress", rand(2, 3), np.array([False, True]), consts=(1,), opset=11, title=f"{axis}", **axis)
    for reduction in ["add", "mul", "max", "min"]:
        case("ScatterElements", rand(3, 4), whole(3, 2, low=-3, high=3), rand(3, 2), opset=18, reduction=reduction, title=reduction)
        case("ScatterElements", rand(3, 4), whole(2, 4, low=-4, high=4), rand(2, 4), opset=18, axis=1, reduction=reduction, title=f"{reduction}, axis 1")
        case("ScatterND", rand(3, 4), whole(5, 1, low=-3, high=3), rand(5, 4), opset=18, reduction=reduction, title=f"{reduction} of rows")
        case("ScatterND", rand(2, 3, 2), whole(2, 3, 2, low=-2, high=2), rand(2, 3, 2), opset=18, reduction=reduction, title=f"{reduction} of pairs")
    case("BatchNormalization", rand(3, 2, 4), rand(2), rand(2), rand(2), positive(2), opset=15, n=3, training_mode=1, momentum=0.8, title="training")


def transforms():
    c = lambda *items: np.array(items, I)
    q, k, v = rand(1, 4, 3, 4), rand(1, 2, 5, 4), rand(1, 2, 5, 2)
    mask = np.where(truth(3, 5) | np.eye(3, 5, dtype=bool), rand(3, 5), np.float32(-np.inf)).astype(np.float32)
    case("Attention", q, k, v, mask, opset=23, softcap=1.5, title="capped")
    case("Attention", q, k, v, opset=23, softcap=1.5, is_causal=1, scale=0.5, title="capped and causal")
    past = (rand(1, 2, 2, 4), rand(1, 2, 2, 2))
    case("Attention", q, k, v, None, *past, opset=23, n=3, softcap=2.0, title="capped, with earlier keys")
    for mode in range(4):
        nodes = [helper.make_node("Attention", ["q", "k", "v", "m"], ["y", "", "", "s"], qk_matmul_output_mode=mode, softcap=1.5)]
        run(f"Attention returns scores {mode}", nodes, {"q": q, "k": k, "v": v, "m": mask}, ["y", "s"], 23, {})
    tables = (rand(9, 2), rand(9, 2))
    for paired in [0, 1]:
        case("RotaryEmbedding", rand(2, 2, 3, 4), *tables, whole(2, 3, low=0, high=9), opset=23, interleaved=paired)
        case("RotaryEmbedding", rand(2, 3, 12), *tables, whole(2, 3, low=0, high=9), opset=23, interleaved=paired, num_heads=2, rotary_embedding_dim=4, title="a part")
    case("RotaryEmbedding", rand(2, 2, 3, 4), rand(2, 3, 2), rand(2, 3, 2), opset=23, title="without positions")
    for n in [5, 6]:
        case("DFT", rand(1, n, 2, 1), opset=17, title=f"real {n}")
        case("DFT", rand(1, n, 2, 2), opset=17, inverse=1, title=f"inverse {n}")
        case("DFT", rand(1, 3, n, 1), opset=17, axis=2, onesided=1, title=f"half {n}")
    case("DFT", rand(2, 6, 1), np.array(4), np.array(1), consts=(1, 2), opset=20, title="shorter")
    case("DFT", rand(2, 3, 2), np.array(5), np.array(-2), consts=(1, 2), opset=20, title="longer")
    case("STFT", rand(2, 12, 1), np.array(3), positive(4), np.array(4), consts=(1, 2, 3), opset=17)
    case("STFT", rand(1, 9, 1), np.array(2), None, np.array(5), consts=(1, 3), opset=17, onesided=0)
    case("GatherND", rand(2, 3, 4), whole(2, 5, 1, low=-3, high=3), opset=13, batch_dims=1, title="batches")
    case("GatherND", rand(2, 3, 4, 2), whole(2, 3, 2, low=0, high=2), opset=13, batch_dims=2, title="batches")


def recurrences():
    x = rand(4, 2, 3)
    for direction, n in [("forward", 1), ("reverse", 1), ("bidirectional", 2)]:
        case("GRU", x, rand(n, 6, 3), rand(n, 6, 2), rand(n, 12), opset=14, n=2, consts=(1, 2, 3), hidden_size=2, direction=direction, title=f"resets first, {direction}")
        case("RNN", x, rand(n, 2, 3), rand(n, 2, 2), rand(n, 4), None, rand(n, 2, 2), opset=14, n=2, consts=(1, 2, 3), hidden_size=2, direction=direction, title=direction)
    case("RNN", x, rand(1, 2, 3), rand(1, 2, 2), opset=7, n=2, consts=(1, 2), hidden_size=2, activations=["Relu"], title="rectified")


def grids():
    x, volume = rand(2, 2, 3, 4), rand(1, 2, 2, 3, 3)
    # Places reach beyond the image on all sides.
    places, deep = rand(2, 2, 3, 2), rand(1, 2, 2, 2, 3)
    for mode in ["linear", "nearest", "cubic"]:
        for padding in ["zeros", "border", "reflection"]:
            for corners in [0, 1]:
                case("GridSample", x, places, opset=20, mode=mode, padding_mode=padding, align_corners=corners, title=f"{mode} {padding} {corners}")
    for mode in ["linear", "nearest"]:
        case("GridSample", volume, deep, opset=20, mode=mode, title=f"of a volume, {mode}")
    case("GridSample", x, places, opset=16, mode="bilinear", title="opset 16")
    for corners in [0, 1]:
        case("AffineGrid", rand(2, 2, 3), np.array([2, 1, 3, 4]), consts=(1,), opset=20, align_corners=corners)
        case("AffineGrid", rand(1, 3, 4), np.array([1, 1, 2, 3, 2]), consts=(1,), opset=20, align_corners=corners, title="of a volume")


def caches():
    cache, update, starts = rand(2, 3, 5, 2), rand(2, 3, 2, 2), np.array([3, 1])
    case("TensorScatter", cache, update, starts, opset=24)
    case("TensorScatter", cache, update, opset=24, title="at the front")
    case("TensorScatter", cache, update, np.array([4, 0]), opset=24, mode="circular", title="around the end")
    case("TensorScatter", rand(2, 4, 3), rand(2, 3, 3), np.array([1, 0]), opset=24, axis=1, title="along axis 1")


def constants():
    """Ops whose operand must be a constant."""
    x = np.array([[3, 0, 1], [0, 0, 3]], np.float32)
    case("NonZero", x, consts=(0,), opset=13)
    case("NonZero", np.array([True, False, True]), consts=(0,), opset=13, title="of truths")
    pairs = np.array([[2, 1], [0, 5], [2, 1], [0, 4]], np.float32)
    for settings in [{}, {"sorted": 0}, {"axis": 0}, {"axis": -1}, {"axis": 0, "sorted": 0}]:
        case("Unique", pairs, consts=(0,), opset=11, n=4, title=f"{settings}", **settings)
    sizes = [np.array(n, I) for n in [6, 32, 16000]] + [np.array(x, np.float32) for x in [20.0, 7000.0]]
    case("MelWeightMatrix", *sizes, consts=(0, 1, 2, 3, 4), opset=17)


if __name__ == "__main__":
    for family in [elementwise, truths, products, reductions, rows, shapes, indices, branches, functions, networks, images,
                   windows, resizing, quantised, narrow, others, regions, transforms, recurrences, grids, loops, sequences, places, caches, constants]:
        family()
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in CASES)
    (HERE / "onnx_ops.json").write_text(f"[\n{lines}\n]\n")
    print(len(CASES), "cases")
