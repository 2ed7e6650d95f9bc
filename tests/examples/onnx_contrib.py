"""Writes onnx_contrib.json: models of one op of onnxruntime or `ai.onnx.ml`, with the results of onnxruntime.

    python tests/examples/onnx_contrib.py     # needs onnx and onnxruntime
"""

import json
import pathlib

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx_ops import positive, rand, truth, whole, written

HERE = pathlib.Path(__file__).parent
CASES = []
F = np.float32


def result(array):
    """A result with fewer digits than its type has, but more than are compared."""
    recorded = written(array)
    if array.dtype.kind == "f":
        recorded["elements"] = [x if isinstance(x, str) else float(f"{x:.6g}") for x in recorded["elements"]]
    return recorded


def run(name, nodes, inputs, outputs, consts, opset=17, ml=3, types=None):
    """Records a model. `types` has the element types of constants that numpy lacks."""
    def constant(key, value):
        kind = (types or {}).get(key)
        if kind is None:
            return numpy_helper.from_array(value, key)
        return helper.make_tensor(key, kind, value.shape, value.ravel().tolist())

    def info(key, value):
        return helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    feeds = {key: value for key, value in inputs.items() if value is not None}
    graph = helper.make_graph(
        nodes, "m", [info(*item) for item in feeds.items()],
        [helper.make_empty_tensor_value_info(key) for key in outputs],
        [constant(*item) for item in consts.items()],
    )
    versions = {"": opset, "com.microsoft": 1, "ai.onnx.ml": ml}
    opsets = [helper.make_opsetid(domain, versions[domain]) for domain in sorted({"", *(node.domain for node in nodes)})]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8 if opset < 20 else 10
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    found = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    CASES.append({
        "name": name,
        "model": model.SerializeToString().hex(),
        "inputs": {key: written(value) for key, value in feeds.items()},
        "outputs": {key: result(value) for key, value in zip(outputs, found)},
    })


def case(op, *operands, consts=(), n=1, title="", domain="com.microsoft", skipped=(), version=17, ml=3, types=None, **attrs):
    """One node. Operands at the places in `consts` are initializers; None is left out, and so are the results `skipped`."""
    names = ["" if operand is None else f"x{i}" for i, operand in enumerate(operands)]
    outputs = ["" if i in skipped else f"y{i}" for i in range(n)]
    node = helper.make_node(op, names, outputs, domain=domain, **attrs)
    places = range(len(operands)) if consts == "all" else consts
    given = {f"x{i}": x for i, x in enumerate(operands) if i not in places and x is not None}
    fixed = {f"x{i}": x for i, x in enumerate(operands) if i in places and x is not None}
    run(f"{op} {title}".strip(), [node], given, [name for name in outputs if name], fixed, version, ml, types)


def activations():
    x, b = rand(2, 3, 4), rand(4)
    case("Gelu", x)
    case("BiasGelu", x, b)
    case("FastGelu", x)
    case("FastGelu", x, b, title="with a bias")
    case("QuickGelu", x)
    case("QuickGelu", x, alpha=1.0, title="silu")


def norms():
    x, skip, g, b, bias = rand(2, 3, 4), rand(2, 3, 4), positive(4), rand(4), rand(4)
    case("SkipLayerNormalization", x, skip, g, b)
    case("SkipLayerNormalization", x, skip, g, None, bias, n=4, skipped=(1, 2), title="returns the sum", epsilon=1e-3)
    case("SkipLayerNormalization", x, rand(3, 4), g, b, bias, title="one skip for all items")
    case("SkipLayerNormalization", x.astype(np.float16), skip.astype(np.float16), g.astype(np.float16), b.astype(np.float16), title="of halves")
    case("SkipLayerNormalization", rand(3, 4), rand(3, 4), g, title="of rows")
    case("SkipSimplifiedLayerNormalization", x, skip, g, n=4, skipped=(1, 2), epsilon=1e-5)
    case("SkipSimplifiedLayerNormalization", x, skip, g, bias, title="with a bias")
    case("SimplifiedLayerNormalization", x, g, domain="", epsilon=1e-6)
    case("SimplifiedLayerNormalization", x, positive(3, 4), domain="", axis=1, n=2, title="of two axes")
    case("SimplifiedLayerNormalization", x.astype(np.float16), g.astype(np.float16), domain="", title="of halves")
    ids, kinds = whole(2, 3, low=0, high=5, dtype=np.int32), whole(2, 3, low=0, high=2, dtype=np.int32)
    tables = (rand(5, 4), rand(6, 4), rand(2, 4), g, b)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    case("EmbedLayerNormalization", ids, kinds, *tables, mask, n=3)
    case("EmbedLayerNormalization", ids, None, tables[0], tables[1], None, g, b, n=2, title="without segments", epsilon=1e-5)
    case("EmbedLayerNormalization", ids, kinds, *tables, mask, whole(2, 3, low=0, high=6, dtype=np.int32), n=2, title="at positions")
    case("EmbedLayerNormalization", ids, kinds, *tables, None, np.array([[2, 0, 1]], np.int32), n=2, title="at shared positions")


def products():
    a, b = rand(2, 3, 4), rand(2, 4, 5)
    t = lambda x: np.ascontiguousarray(np.swapaxes(x, -1, -2))
    case("TransposeMatMul", t(a), b, transA=1, alpha=0.5)
    case("FusedMatMul", a, b)
    case("FusedMatMul", a, t(b), transB=1, alpha=0.25, title="scaled")
    case("FusedMatMul", t(a), t(b), transA=1, transB=1, title="of both turned")
    case("FusedMatMul", np.ascontiguousarray(a.transpose(1, 0, 2)), b, transBatchA=1, title="with the batch inside")
    case("FusedMatMul", np.ascontiguousarray(a.transpose(2, 0, 1)), np.ascontiguousarray(b.transpose(2, 0, 1)), transA=1, transB=1, transBatchA=1, transBatchB=1, title="with both batches inside")
    case("FusedMatMul", rand(4), rand(4, 3), title="of a vector")
    for kind in ["Relu", "Tanh", "Sigmoid", "LeakyRelu"]:
        case("FusedGemm", rand(3, 4), rand(4, 2), rand(2), activation=kind, activation_alpha=0.3, title=kind)
    case("FusedGemm", rand(4, 3), rand(2, 4), transA=1, transB=1, alpha=0.5, activation="Relu", title="without c")
    x, w = rand(1, 2, 5, 5), rand(3, 2, 3, 3)
    for kind, params in [("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.75]), ("HardSigmoid", [0.3, 0.4]), ("Tanh", [])]:
        case("FusedConv", x, w, rand(3), activation=kind, activation_params=params or None, pads=[1, 1, 1, 1], title=kind)
    case("FusedConv", x, w, rand(3), rand(1, 3, 2, 2), strides=[2, 2], activation="Relu", title="adds")
    case("CDist", rand(3, 4), rand(2, 4))
    case("CDist", rand(3, 4), rand(2, 4), metric="euclidean", title="euclidean")
    case("Inverse", rand(2, 3, 3) + 3 * np.eye(3, dtype=F))


def shapes():
    x = rand(2, 3, 4)
    for axis in [0, -1, 2]:
        case("ExpandDims", x, np.array(axis, np.int32), consts=(1,), title=f"at {axis}")
    case("Trilu", rand(3, 4), np.array(1), consts=(1,))
    case("Trilu", rand(2, 3, 3), upper=0, title="lower")
    case("GatherND", x, whole(3, 2, low=0, high=2))
    case("GridSample", rand(1, 2, 4, 5), rand(1, 3, 2, 2))
    case("GridSample", rand(1, 2, 4, 5), rand(1, 3, 2, 2), mode="bicubic", padding_mode="border", align_corners=1, title="bicubic")
    case("Range", np.array(1, F), np.array(6, F), np.array(1.5, F), consts="all")
    case("Range", np.array(2, np.int32), np.array(5, np.int32), consts="all", title="by one")
    case("Pad", rand(2, 3), np.array([0, 1, 2, 0]), np.array([0.5], F), consts=(1, 2))
    case("Pad", rand(3, 3), np.array([[1, 1, 1, 0]]), consts=(1,), mode="reflect", title="reflected")
    case("NhwcMaxPool", whole(1, 5, 5, 2, low=-99, high=99, dtype=np.int8), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    case("NhwcMaxPool", whole(1, 4, 4, 3, low=0, high=99, dtype=np.uint8), kernel_shape=[2, 2], title="of bytes")


def rotations():
    cos, sin = rand(9, 2), rand(9, 2)
    places = whole(2, 3, low=0, high=9)
    for paired in [0, 1]:
        case("RotaryEmbedding", rand(2, 3, 8), places, cos, sin, interleaved=paired, title=f"flat {paired}")
        case("RotaryEmbedding", rand(2, 2, 3, 4), places, cos, sin, interleaved=paired, title=f"heads {paired}")
    case("RotaryEmbedding", rand(2, 3, 8), np.array([4]), cos, sin, title="from a place on")
    case("RotaryEmbedding", rand(2, 3, 12), places, cos, sin, num_heads=2, rotary_embedding_dim=4, title="of a part")
    case("RotaryEmbedding", rand(1, 3, 8).astype(np.float16), places[:1], cos.astype(np.float16), sin.astype(np.float16), title="of halves")


def attention():
    x, w, b = rand(2, 3, 4), rand(4, 24), rand(24)
    raw = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
    case("Attention", x, w, b, num_heads=2)
    case("Attention", x, w, b, raw, num_heads=2, title="with a mask")
    case("Attention", x, w, b, np.array([2, 3], np.int32), num_heads=2, title="of lengths")
    case("Attention", x, w, b, np.array([3, 2, 1, 0], np.int32), num_heads=2, title="between bounds")
    case("Attention", x, w, b, truth(2, 3, 3).astype(np.int32), num_heads=2, mask_filter_value=-50.0, title="with a mask for each row")
    case("Attention", x, w, b, unidirectional=1, num_heads=4, scale=0.3, title="causal")
    case("Attention", x, w, b, raw, None, rand(2, 2, 3, 3), num_heads=2, title="with a bias")
    case("Attention", x, w, b, raw, None, rand(1, 1, 3, 3), num_heads=2, title="with one bias for all")
    case("Attention", x, rand(4, 20), rand(20), num_heads=2, qkv_hidden_sizes=[8, 8, 4], title="of unequal sizes")
    past = rand(2, 2, 2, 2, 4)
    case("Attention", x, w, b, None, past, num_heads=2, n=2, unidirectional=1, title="with earlier keys")
    case("Attention", x, w, b, truth(2, 5).astype(np.int32), past, num_heads=2, n=2, title="with earlier keys and a mask")
    case("Attention", x, w, None, num_heads=2, title="without a bias of weights")

    q, k, v = rand(2, 3, 8), rand(2, 5, 8), rand(2, 5, 4)
    case("MultiHeadAttention", q, k, v, num_heads=2)
    case("MultiHeadAttention", q, k, v, rand(20), num_heads=2, title="with biases")
    case("MultiHeadAttention", q, k, v, None, truth(2, 5).astype(np.int32), num_heads=2, title="with a mask")
    case("MultiHeadAttention", q, k, v, None, np.array([4, 2], np.int32), num_heads=2, title="of lengths")
    case("MultiHeadAttention", q, k, v, None, truth(2, 3, 5).astype(np.int32), num_heads=2, title="with a mask for each row")
    case("MultiHeadAttention", q, k, v, None, None, rand(1, 2, 3, 5), num_heads=2, scale=0.2, title="with a bias of scores")
    case("MultiHeadAttention", q, rand(2, 2, 5, 4), rand(2, 2, 5, 4), num_heads=2, title="of heads of keys")
    case("MultiHeadAttention", q, rand(2, 3, 8), rand(2, 3, 8), None, None, None, rand(2, 2, 2, 4), rand(2, 2, 2, 4), num_heads=2, n=3, unidirectional=1, title="with earlier keys")
    case("MultiHeadAttention", q, rand(2, 3, 8), rand(2, 3, 8), rand(24), truth(2, 5).astype(np.int32), None, rand(2, 2, 2, 4), rand(2, 2, 2, 4), num_heads=2, n=3, title="with earlier keys and a mask")
    case("MultiHeadAttention", q, rand(2, 3, 8), rand(2, 3, 8), num_heads=4, n=3, title="returns its keys")
    one = rand(2, 1, 8), rand(2, 1, 8), rand(2, 1, 8)
    cross = rand(2, 2, 3, 4), rand(2, 2, 3, 4)
    case("DecoderMaskedMultiHeadAttention", one[0], *cross, num_heads=2, title="of given keys")


def grouped():
    n = lambda *items: np.array(items, np.int32)
    q, k, v = rand(1, 2, 32), rand(1, 2, 16), rand(1, 2, 16)
    gqa = dict(num_heads=4, kv_num_heads=2, n=3)
    total = lambda x: np.array(x, np.int32)
    tables = rand(9, 8), rand(9, 8)
    wide, wide_past = (rand(1, 2, 64), rand(1, 2, 32), rand(1, 2, 32)), (rand(1, 2, 2, 16), rand(1, 2, 2, 16))
    empty = np.zeros((1, 2, 0, 8), F)
    past = rand(1, 2, 3, 8), rand(1, 2, 3, 8)
    op = "GroupQueryAttention"
    case(op, q, k, v, None, None, n(1), total(2), **gqa, title="of a prompt")
    case(op, q, k, v, empty, empty, n(1), total(2), **gqa, title="of a prompt with an empty past")
    case(op, rand(1, 2, 64), None, None, None, None, n(1), total(2), **gqa, title="of packed operands")
    case(op, q, k, v, *past, n(4), total(5), **gqa, title="with earlier keys")
    case(op, *(x[:, :1] for x in wide), *wide_past, n(2), total(3), *tables, do_rotary=1, **gqa, title="turns one position")
    case(op, *wide, None, None, n(1), total(2), *tables, do_rotary=1, rotary_interleaved=1, **gqa, title="turns a prompt")
    case(op, rand(1, 2, 128), None, None, *wide_past, n(3), total(4), *tables, do_rotary=1, **gqa, title="turns packed operands")
    case(op, *wide, *wide_past, n(3), total(4), *tables, whole(1, 2, low=0, high=9), do_rotary=1, **gqa, title="turns given positions")
    case(op, q, k, v, *past, n(4), total(5), local_window_size=2, **gqa, title="in a window")
    case(op, rand(1, 4, 32), rand(1, 4, 16), rand(1, 4, 16), None, None, n(3), total(4), local_window_size=2, **gqa, title="of a prompt in a window")
    case(op, q, k, v, *past, n(4), total(5), softcap=1.5, scale=0.4, **gqa, title="capped")
    case(op, q, k, v, *past, n(4), total(5), softcap=1.5, local_window_size=3, **gqa, title="capped in a window")
    case(op, q, k, v, *past, n(4), total(5), smooth_softmax=1, **gqa, title="smooth")
    case(op, q, k, v, *past, n(4), total(5), None, None, None, None, rand(4), **gqa, title="with sinks")
    case(op, q, k, v, *past, n(4), total(5), None, None, None, rand(1, 4, 2, 5), **gqa, title="with a bias")
    two = rand(2, 1, 64), rand(2, 1, 32), rand(2, 1, 32)
    case(op, *two, rand(2, 2, 3, 16), rand(2, 2, 3, 16), n(3, 3), total(4), *tables, do_rotary=1, **gqa, title="of two items")
    half = [x.astype(np.float16) for x in (q, k, v, *past)]
    case(op, *half, n(4), total(5), **gqa, title="of halves")


def blocks():
    def packed(n, k, block, bits):
        return RAND.integers(0, 256, (n, -(-k // block), block * bits // 8)).astype(np.uint8)
    x, scales = rand(2, 3, 32), positive(5, 2)
    for bits in [2, 4, 8]:
        common = dict(K=32, N=5, bits=bits, block_size=16, consts=(1, 2, 3, 5))
        w = packed(5, 32, 16, bits)
        case("MatMulNBits", x, w, scales, title=f"of {bits} bits", **common)
        zeros = RAND.integers(0, 256, (5, -(-2 * bits // 8))).astype(np.uint8)
        case("MatMulNBits", x, w, scales, zeros, title=f"of {bits} bits with zeros", **common)
    case("MatMulNBits", rand(2, 40), packed(3, 40, 16, 4), positive(3, 3), RAND.integers(0, 256, (3, 2)).astype(np.uint8), consts=(1, 2, 3), K=40, N=3, bits=4, block_size=16, title="of a part of a block")
    case("MatMulNBits", x, packed(5, 32, 32, 4), positive(5, 1), None, None, rand(5), consts=(1, 2, 5), K=32, N=5, bits=4, block_size=32, title="with a bias")
    case("MatMulNBits", x, packed(5, 32, 16, 4), scales, rand(5, 2), consts=(1, 2, 3), K=32, N=5, bits=4, block_size=16, title="with zeros of floats")
    for kind in [0, 1]:
        w = RAND.integers(0, 256, 80).astype(np.uint8)
        case("MatMulBnb4", rand(2, 32), w, positive(10), consts=(1, 2), K=32, N=5, block_size=16, quant_type=kind, title=f"of kind {kind}")
    table, ids = RAND.integers(0, 256, (6, 32)).astype(np.uint8), whole(2, 3, low=-6, high=6)
    case("GatherBlockQuantized", table, ids, positive(6, 2), consts=(0, 2), bits=8, block_size=16, title="of bytes")
    case("GatherBlockQuantized", table, ids, positive(6, 2), RAND.integers(0, 256, (6, 2)).astype(np.uint8), consts=(0, 2, 3), bits=8, block_size=16, title="of bytes with zeros")
    half = RAND.integers(0, 256, (6, 16)).astype(np.uint8)
    case("GatherBlockQuantized", half, ids, positive(6, 2), consts=(0, 2), bits=4, block_size=16, title="of 4 bits in bytes")
    case("GatherBlockQuantized", half, ids, positive(6, 2), RAND.integers(0, 256, (6, 1)).astype(np.uint8), consts=(0, 2, 3), bits=4, block_size=16, title="of 4 bits in bytes with zeros")
    fours = RAND.integers(0, 16, (6, 32)).astype(np.uint8)
    case("GatherBlockQuantized", fours, whole(4, low=0, high=6), positive(6, 2), consts=(0, 2), block_size=16, types={"x0": TensorProto.UINT4}, version=21, title="of u4")
    case("GatherBlockQuantized", fours.astype(np.int8) - 8, whole(2, 2, low=0, high=6), positive(6, 2), RAND.integers(-8, 8, (6, 2)).astype(np.int8), consts=(0, 2, 3), block_size=16, types={"x0": TensorProto.INT4, "x3": TensorProto.INT4}, version=21, title="of i4 with zeros")


def quantised():
    b = lambda *shape: RAND.integers(0, 256, shape).astype(np.uint8)
    i = lambda *shape: RAND.integers(-128, 128, shape).astype(np.int8)
    s = lambda x: np.array(x, F)
    u = lambda x: np.array(x, np.uint8)
    c = lambda x: np.array(x, np.int8)
    q = [s(0.02), u(120)]
    for op in ["QLinearAdd", "QLinearMul"]:
        case(op, b(2, 3, 4), *q, b(3, 1), s(0.03), u(100), s(0.05), u(110))
        case(op, i(2, 3), s(0.02), c(3), i(3), s(0.03), c(-5), s(0.05), c(7), title="of i8", consts=(1, 2, 4, 5, 6, 7))
    for op in ["QLinearSigmoid", "QLinearLeakyRelu"]:
        case(op, b(2, 5), *q, s(0.004), u(3))
        case(op, i(7), s(0.05), c(2), s(0.02), c(-100), title="of i8")
    case("QLinearLeakyRelu", b(9), *q, s(0.02), u(60), alpha=0.3, title="alpha")
    case("QLinearSoftmax", b(2, 3, 4), s(0.02), u(120), s(1 / 256), u(0), consts=(1, 2, 3, 4), opset=13, axis=-1)
    case("QLinearWhere", truth(2, 3), b(2, 3), *q, b(3), s(0.03), u(100), s(0.04), u(90), consts=(2, 3, 5, 6, 7, 8))
    x = b(1, 2, 5, 5)
    case("QLinearGlobalAveragePool", x, *q, s(0.01), u(110))
    case("QLinearGlobalAveragePool", b(1, 4, 4, 3), *q, s(0.01), u(110), channels_last=1, title="of channels at the end")
    case("QLinearAveragePool", x, *q, s(0.015), u(128), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    case("QLinearAveragePool", x, *q, s(0.015), u(128), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1, title="counts pads")
    case("QLinearAveragePool", b(1, 4, 4, 3), *q, s(0.015), u(128), kernel_shape=[2, 2], channels_last=1, title="of channels at the end")
    case("QLinearConcat", s(0.03), u(100), b(2, 3), *q, b(2, 2), s(0.05), u(90), axis=1, consts=(0, 1, 3, 4, 6, 7))
    case("QLinearConcat", s(0.03), c(10), i(1, 3), s(0.02), c(-3), i(2, 3), s(0.05), c(9), axis=0, title="of i8", consts=(0, 1, 3, 4, 6, 7))
    case("QLinearConv", b(1, 4, 4, 2), *q, i(3, 2, 3, 3), s(0.01), c(0), s(0.1), u(128), whole(3, dtype=np.int32), channels_last=1, pads=[1, 1, 1, 1])
    ids, kinds = whole(2, 3, low=0, high=5, dtype=np.int32), whole(2, 3, low=0, high=2, dtype=np.int32)
    scales, zeros = [s(x) for x in (0.02, 0.03, 0.01, 0.005, 0.02)], [u(x) for x in (120, 130, 100, 20, 128)]
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    case("QEmbedLayerNormalization", ids, kinds, b(5, 4), b(6, 4), b(2, 4), b(4), b(4), mask, *scales, *zeros, n=2)
    case("QEmbedLayerNormalization", ids, None, b(5, 4), b(6, 4), None, b(4), b(4), None, *scales[:2], None, *scales[3:], *zeros[:2], None, *zeros[3:], n=2, title="without segments")
    case("MatMulIntegerToFloat", b(2, 3), i(3, 4), s(0.02), s(0.03), u(120), c(4))
    case("MatMulIntegerToFloat", b(2, 2, 3), b(3, 4), s(0.02), positive(4), u(120), b(4), rand(4), title="by columns")
    case("MatMulIntegerToFloat", i(2, 3), i(3, 4), s(0.02), s(0.03), title="without zeros")
    case("DynamicQuantizeMatMul", rand(2, 3), i(3, 4), s(0.02), c(3))
    case("DynamicQuantizeMatMul", rand(2, 2, 3), b(3, 4), positive(4), b(4), rand(4), title="by columns")
    case("DynamicQuantizeMatMul", rand(2, 3), i(3, 4), s(0.02), title="without zeros")
    case("QGemm", b(2, 3), *q, i(3, 4), s(0.03), c(4))
    case("QGemm", b(2, 3), *q, i(4, 3), s(0.03), c(4), whole(4, dtype=np.int32), s(0.3), u(100), transB=1, title="of bytes")
    case("QGemm", b(3, 2), *q, b(3, 4), positive(4) / 50, b(4), whole(2, 4, dtype=np.int32), s(0.2), u(128), transA=1, alpha=0.5, title="by columns")
    case("QAttention", b(2, 3, 4), i(4, 24), rand(24), s(0.02), s(0.01), None, u(120), c(3), num_heads=2, consts=(1, 3, 4, 6, 7))
    case("QAttention", b(2, 3, 4), b(4, 24), rand(24), s(0.02), s(0.01), np.array([2, 3], np.int32), u(120), u(100), rand(2, 2, 2, 2, 4), num_heads=2, n=2, unidirectional=1, title="with earlier keys", consts=(1, 3, 4, 6, 7))


def parts():
    x, places = rand(2, 2, 6, 7), np.array([[0, 0, 5, 4], [1, -1, 9, 3.5], [2, 2, 2.5, 2.5]], F)
    settings = dict(domain="", output_height=2, output_width=3, sampling_ratio=2)
    for mode in ["avg", "max"]:
        case("RoiAlign", x, places, np.array([0, 1, 1]), mode=mode, title=mode, **settings)
    case("RoiAlign", x, places, np.array([1, 0, 0]), spatial_scale=0.5, version=12, title="from the corners", **settings)
    case("RoiAlign", x, places, np.array([1, 0, 0]), coordinate_transformation_mode="output_half_pixel", title="of settled corners", **settings)
    for n in [1, 2, 3]:
        case("Det", rand(2, n, n), domain="", title=f"of {n} rows")


def states():
    x, w, b = rand(2, 3, 6), rand(3, 1, 4), rand(3)
    case("CausalConvWithState", x, w, b, rand(2, 3, 3), n=2, activation="silu")
    q, k, v, past = rand(1, 3, 8), rand(1, 3, 8), rand(1, 3, 8), rand(1, 2, 4, 4)
    case("LinearAttention", q, k, v, past, -positive(1, 3, 2), positive(1, 3, 2) / 4, n=2, q_num_heads=2, kv_num_heads=2)


def ml(op, *operands, **settings):
    case(op, *operands, domain="ai.onnx.ml", **settings)


def features():
    x = rand(4, 3)
    ml("Scaler", x, offset=[0.5, -0.25, 1.0], scale=[2.0, 0.5, 1.5])
    ml("Scaler", whole(4, 3), offset=[0.5], scale=[2.0], title="of whole numbers")
    for norm in ["MAX", "L1", "L2"]:
        ml("Normalizer", np.concatenate([x, np.zeros((1, 3), F)]), norm=norm, title=norm)
    gaps = x.copy()
    gaps[1, 2] = gaps[3, 0] = np.nan
    ml("Imputer", gaps, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"), title="of gaps")
    ml("Imputer", np.round(x), imputed_value_floats=[7.5], replaced_value_float=1.0)
    ml("Imputer", whole(3, 2, low=0, high=3), imputed_value_int64s=[-5, -6], replaced_value_int64=1, title="of whole numbers")
    ml("FeatureVectorizer", rand(2, 3), rand(2, 2), inputdimensions=[3, 2])
    ml("OneHotEncoder", whole(2, 3, low=0, high=4), cats_int64s=[0, 2, 5])
    ml("OneHotEncoder", rand(4), cats_int64s=[-1, 0, 1], title="of floats")
    keys = np.array([3, 1, 7, 2, 3])
    ml("LabelEncoder", keys, keys_int64s=[3, 1, 7], values_int64s=[30, 10, 70], ml=2)
    ml("LabelEncoder", keys, keys_int64s=[3, 1, 7], values_floats=[0.5, 1.5, 2.5], default_float=-9.0, ml=2, title="to floats")
    ml("LabelEncoder", np.array([[0.5, np.nan], [1.5, 2.5]], F), keys_floats=[1.5, float("nan"), 0.5], values_floats=[1.0, 2.0, 3.0], ml=4, title="of floats")
    tensor = lambda items: numpy_helper.from_array(np.array(items))
    ml("LabelEncoder", keys, keys_tensor=tensor([1, 3]), values_tensor=tensor([11, 33]), default_tensor=tensor([99]), ml=4, title="by tensors")


def linear_models():
    x, w = rand(5, 3), np.round(RAND.uniform(-1, 1, (4, 3)), 2)
    ml("LinearRegressor", x, coefficients=w[0].tolist(), intercepts=[0.5])
    ml("LinearRegressor", x, coefficients=w[:2].ravel().tolist(), targets=2, title="of two targets")
    for transform in ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]:
        ml("LinearClassifier", x, n=2, coefficients=w.ravel().tolist(), intercepts=[0.1, 0.2, -0.1, 0.0], classlabels_ints=[0, 1, 2, 3], post_transform=transform, multi_class=1, title=transform)
        ml("LinearClassifier", x, n=2, coefficients=w[0].tolist(), intercepts=[0.1], classlabels_ints=[3, 5], post_transform=transform, title=f"by one score, {transform}")
    ml("LinearClassifier", whole(4, 3), n=2, coefficients=w[:2].ravel().tolist(), intercepts=[0.1, 0.2], classlabels_ints=[4, 9], title="of whole numbers")
    for kernel in ["LINEAR", "POLY", "RBF", "SIGMOID"]:
        settings = dict(kernel_type=kernel, kernel_params=[0.4, 0.3, 3.0])
        ml("SVMRegressor", x, coefficients=w[:, 0].tolist(), support_vectors=w.ravel().tolist(), n_supports=4, rho=[0.2], title=kernel, **settings)
        ml("SVMClassifier", x, n=2, coefficients=RAND.normal(size=10).tolist(), support_vectors=RAND.normal(size=15).tolist(), vectors_per_class=[2, 2, 1], rho=[0.2, -0.1, 0.3], classlabels_ints=[1, 2, 5], title=kernel, **settings)
    ml("SVMRegressor", x, coefficients=w[:, 0].tolist(), support_vectors=w.ravel().tolist(), n_supports=4, rho=[0.2], one_class=1, title="of one class", **settings)
    ml("SVMRegressor", x, coefficients=w[0].tolist(), rho=[0.2], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], title="without vectors")
    two = dict(n=2, coefficients=RAND.normal(size=4).tolist(), support_vectors=w.ravel().tolist(), vectors_per_class=[2, 2], rho=[0.1], classlabels_ints=[0, 1], kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0])
    ml("SVMClassifier", x, title="of two classes", **two)


def grown(n_trees, n_features, depth, modes=("BRANCH_LEQ",), missing=False):
    """Random trees: the attributes of their nodes, and their leaves as pairs of tree and node."""
    nodes, leaves = {key: [] for key in ["treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids"]}, []
    missing_tracks = []
    for tree in range(n_trees):
        open_nodes, n = [(0, depth)], 1
        while open_nodes:
            at, rest = open_nodes.pop(0)
            is_leaf = rest == 0 or (rest < depth and RAND.random() < 0.3)
            branches = (0, 0) if is_leaf else (n, n + 1)
            if is_leaf:
                leaves.append((tree, at))
            else:
                open_nodes += [(n, rest - 1), (n + 1, rest - 1)]
                n += 2
            row = [tree, at, int(RAND.integers(n_features)), "LEAF" if is_leaf else str(RAND.choice(modes)), float(np.round(RAND.normal(), 2)), *branches]
            for key, value in zip(nodes, row):
                nodes[key].append(value)
            missing_tracks.append(int(RAND.integers(2)))
    found = {f"nodes_{key}": value for key, value in nodes.items()}
    return (found | {"nodes_missing_value_tracks_true": missing_tracks} if missing else found), leaves


def votes(kind, leaves, classes, low=-1.0):
    """Each leaf votes for the classes that a function names."""
    rows = [(tree, node, c, float(np.round(RAND.uniform(low, 1), 2))) for tree, node in leaves for c in classes(tree)]
    return {f"{kind}_{key}": [row[i] for row in rows] for i, key in enumerate(["treeids", "nodeids", "ids", "weights"])}


def trees():
    x = rand(6, 3)
    gaps = x.copy()
    gaps[::2, 1] = np.nan
    every = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
    for fold in ["SUM", "AVERAGE", "MIN", "MAX"]:
        nodes, leaves = grown(3, 3, 3)
        ml("TreeEnsembleRegressor", x, aggregate_function=fold, n_targets=1, title=fold, **nodes, **votes("target", leaves, lambda tree: [0]))
        ml("TreeEnsembleRegressor", x, aggregate_function=fold, n_targets=2, base_values=[0.5, -0.5], title=f"{fold} of two", **nodes, **votes("target", leaves, lambda tree: [tree % 2]))
    nodes, leaves = grown(2, 3, 3, every, missing=True)
    ml("TreeEnsembleRegressor", gaps, n_targets=1, title="of all comparisons, with gaps", **nodes, **votes("target", leaves, lambda tree: [0]))
    ml("TreeEnsembleRegressor", gaps.astype(np.float64), n_targets=1, title="of f64", **nodes, **votes("target", leaves, lambda tree: [0]))
    nodes, leaves = grown(3, 3, 2)
    for transform in ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]:
        low = 0.05 if transform == "PROBIT" else -1.0
        given = votes("class", leaves, lambda tree: [0, 1, 2] if transform != "PROBIT" else [tree % 3], low)
        if transform == "PROBIT":
            given["class_weights"] = [w / 4 for w in given["class_weights"]]
        ml("TreeEnsembleClassifier", x, n=2, classlabels_int64s=[0, 1, 2], post_transform=transform, title=transform, **nodes, **given)
    ml("TreeEnsembleClassifier", x, n=2, classlabels_int64s=[5, 3, 4], title="of one class each", **nodes, **votes("class", leaves, lambda tree: [tree % 3]))
    ml("TreeEnsembleClassifier", x, n=2, classlabels_int64s=[5, 3, 4], base_values=[0.1, 0.2, -3.0], title="with base values", **nodes, **votes("class", leaves, lambda tree: [tree % 2]))
    for title, low in [("positive", 0.0), ("of both signs", -1.0)]:
        for transform in ["NONE", "LOGISTIC"]:
            ml("TreeEnsembleClassifier", x, n=2, classlabels_int64s=[0, 1], post_transform=transform, title=f"of two classes, {title}, {transform}", **nodes, **votes("class", leaves, lambda tree: [0], low))
        ml("TreeEnsembleClassifier", x, n=2, classlabels_int64s=[0, 1], title=f"of two classes by the second, {title}", **nodes, **votes("class", leaves, lambda tree: [1], low))
        ml("TreeEnsembleClassifier", x, n=2, classlabels_int64s=[0, 1], title=f"of two classes with votes, {title}", **nodes, **votes("class", leaves, lambda tree: [0, 1], low))
    ml("TreeEnsembleClassifier", x, n=2, classlabels_int64s=[0, 1], base_values=[0.3], title="of two classes, with a base value", **nodes, **votes("class", leaves, lambda tree: [0]))
    tensor = lambda items, dtype=F: numpy_helper.from_array(np.array(items, dtype))
    ml("TreeEnsemble", x, ml=5, n_targets=2, tree_roots=[0, 2], nodes_featureids=[0, 2, 1], nodes_modes=tensor([0, 3, 1], np.uint8), nodes_splits=tensor([0.5, -0.25, 0.1]), nodes_truenodeids=[1, 0, 1], nodes_trueleafs=[0, 1, 1], nodes_falsenodeids=[2, 3, 4], nodes_falseleafs=[1, 1, 1], leaf_targetids=[0, 1, 1, 0, 1], leaf_weights=tensor([0.5, 1.5, -0.5, 2.5, 0.25]), aggregate_function=1, post_transform=0)


RAND = np.random.default_rng(23)
FAMILIES = [activations, norms, products, shapes, rotations, attention, grouped, blocks, quantised, parts, states, features, linear_models, trees]

if __name__ == "__main__":
    for family in FAMILIES:
        family()
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in CASES)
    (HERE / "onnx_contrib.json").write_text(f"[\n{lines}\n]\n")
    print(len(CASES), "cases")
