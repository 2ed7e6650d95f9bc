"""Runs models that `engine export` has written in onnxruntime, and compares the results.

    ENGINE_ONNX_EXPORTS=DIR cargo test --test onnx -- examples_of_ops    # the examples of all ops as models
    python tests/examples/onnx_exports.py DIR                            # needs numpy, onnx and onnxruntime
    python tests/examples/onnx_exports.py DIR target/debug/engine        # also the recorded models, exported again

Ops that onnxruntime lacks for a type are counted. Any other difference is a failure.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

HERE = pathlib.Path(__file__).parent
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u32": np.uint32, "bool": bool}
NAMES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "bool"}
# onnxruntime passes over NaN in a maximum.
UNLIKE = {"sample_logits_4"}
LACKING = ("NOT_IMPLEMENTED", "bfloat16", "INVALID_GRAPH")


def tensor(written):
    dtype = TYPES[NAMES.get(written["dtype"], written["dtype"])]
    return np.array([float(x) for x in written["elements"]]).astype(dtype).reshape(written["shape"])


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options)


def difference(path, inputs, outputs, tolerance):
    """The largest difference, relative to the size of an element above 1."""
    model = session(path)
    names = {entry.name for entry in model.get_inputs()}
    found = model.run(None, {name: x for name, x in inputs.items() if name in names})
    worst = 0.0
    for y, expected in zip(found, outputs):
        assert (y.dtype, y.shape) == (expected.dtype, expected.shape), (y.dtype, y.shape, expected.dtype, expected.shape)
        y, expected = np.asarray(y, np.float64), np.asarray(expected, np.float64)
        same = (y == expected) | (np.isnan(y) & np.isnan(expected))
        with np.errstate(all="ignore"):
            errors = np.where(same, 0.0, np.abs(y - expected) / np.maximum(np.abs(expected), 1.0))
        worst = max(worst, float(np.max(errors, initial=0.0)))
    assert worst <= tolerance, f"differs by {worst}"
    return worst


def examples(folder):
    equal, lacking, failed, worst = 0, {}, [], 0.0
    for path in sorted(folder.glob("*.onnx")):
        case = json.loads(path.with_suffix(".json").read_text())
        if any(x["dtype"] == "bf16" for x in [*case["inputs"].values(), *case["outputs"]]):
            lacking["bf16 in NumPy"] = lacking.get("bf16 in NumPy", 0) + 1
            continue
        if path.stem in UNLIKE:
            lacking["NaN in a maximum"] = 1
            continue
        try:
            onnx.checker.check_model(str(path), full_check=True)
            inputs = {name: tensor(x) for name, x in case["inputs"].items()}
            worst = max(worst, difference(path, inputs, [tensor(y) for y in case["outputs"]], 1e-4))
            equal += 1
        except Exception as fault:
            text = str(fault)
            if any(word in text for word in LACKING):
                reason = text.split("Could not find an implementation for ")[-1].split(" with name")[0].split("\n")[0][:70]
                lacking[reason] = lacking.get(reason, 0) + 1
            else:
                failed.append(f"{path.stem}: {text[:300]}")
    print(f"examples: {equal} equal, {sum(lacking.values())} not run, {len(failed)} failed, largest difference {worst:.1e}")
    for reason, count in sorted(lacking.items()):
        print(f"  not run: {reason} ({count})")
    return failed


def models(engine):
    failed = []
    for case in json.loads((HERE / "onnx_models.json").read_text()):
        path = HERE / "onnx" / case["model"]
        x = tensor(case["inputs"]["x"])
        extents = [(dim.dim_param, n) for dim, n in zip(onnx.load(path).graph.input[0].type.tensor_type.shape.dim, x.shape) if dim.dim_param]
        with tempfile.TemporaryDirectory() as folder:
            exported, graph = pathlib.Path(folder) / "again.onnx", pathlib.Path(folder) / "graph.ron"
            subprocess.run([engine, "import", path, "-o", graph], check=True, capture_output=True)
            outputs = [option for label in case["outputs"] for option in ("--output", label)]
            # The rows stay open in the graph, all other extents have numbers there.
            text = graph.read_text()
            is_fixed = lambda name: any(line.strip().startswith("dims:") and f'"{name}":' in line for line in text.splitlines())
            dims = [option for name, n in extents for option in (("--set", f"dims.{name}={n}") if is_fixed(name) else ("--dim", f"{name}={n}"))]
            ran = subprocess.run([engine, "export", graph, *outputs, *dims, "-o", exported], capture_output=True, text=True, cwd=folder)
            try:
                assert ran.returncode == 0, ran.stderr
                onnx.checker.check_model(str(exported), full_check=True)
                worst = difference(exported, {"x": x}, [tensor(y) for y in case["outputs"].values()], 1e-4)
                print(f"{case['model']}: {worst:.1e}")
            except Exception as fault:
                failed.append(f"{case['model']}: {str(fault)[:300]}")
    return failed


if __name__ == "__main__":
    faults = examples(pathlib.Path(sys.argv[1]))
    faults += models(pathlib.Path(sys.argv[2]).resolve()) if len(sys.argv) > 2 else []
    print("\n".join(faults))
    sys.exit(bool(faults))
