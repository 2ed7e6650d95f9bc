//! Graphs that become ONNX models. An exported model that is imported again computes what onnxruntime has recorded for the
//! first one. `tests/examples/onnx_exports.py` runs exported models in onnxruntime.

use super::common::{compare, difference, outputs, tensor};
use super::present::cpu;
use engine::core::compile::Options;
use engine::core::diag::Code;
use engine::core::ir::Symbol;
use engine::core::op::{Example, Registry};
use engine::core::oracle::OracleTensor;
use engine::core::testing;
use engine::runtime::tensor::HostTensor;
use engine::{Engine, Facts};
use expect_test::{Expect, expect};
use indexmap::IndexMap;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// An exported model that is imported again.
fn again(model: &[u8], engine: &Engine, inputs: &IndexMap<String, HostTensor>) -> (Vec<u8>, Vec<String>) {
    let path = Path::new("model.onnx");
    let first = engine.import(path, model.to_vec(), &Facts::default()).unwrap();
    let shapes = inputs.iter().map(|(name, value)| (name.as_str(), value.shape()));
    let extents = first.extents(shapes);
    let labels = first.outputs().iter().map(|(label, _)| label.clone()).collect();
    let nodes: Vec<Symbol> = first.outputs().iter().map(|(_, node)| node.as_str().into()).collect();
    let program = engine.read("model.ron", &first.text(None, &extents)).unwrap();
    let bytes = program.export(&first.weights, &nodes, &extents);
    (bytes.unwrap_or_else(|fault| panic!("{}", fault.message)), labels)
}

fn fault_of(model: &[u8], case: &Json) -> Option<String> {
    let engine = Engine::new();
    let inputs = case["inputs"].as_object().unwrap();
    let inputs = inputs.iter().map(|(name, recorded)| (name.clone(), tensor(recorded))).collect();
    let (exported, labels) = again(model, &engine, &inputs);
    let second = engine.import(Path::new("again.onnx"), exported, &Facts::default());
    let second = second.unwrap_or_else(|fault| panic!("{}", fault.message));
    let text = second.text(None, &[]);
    let found = match outputs(second, cpu(2), &inputs, Options::default()) {
        Ok(found) => found,
        Err(fault) => return Some(format!("{fault}\n{text}")),
    };
    let compared = labels.iter().zip(found.values());
    let faults = compared.filter_map(|(label, value)| compare(value, &case["outputs"][label]).err());
    faults.into_iter().next().map(|fault| format!("{fault}\n{text}"))
}

#[test]
fn exported_models_compute_the_same_results() {
    let cases: Vec<Json> = serde_json::from_str(include_str!("../examples/onnx_models.json")).unwrap();
    for case in &cases {
        let name = case["model"].as_str().unwrap();
        let model = fs::read(Path::new("tests/examples/onnx").join(name)).unwrap();
        let fault = fault_of(&model, case);
        assert!(fault.is_none(), "{name}: {}", fault.unwrap_or_default());
    }
}

/// The exported model of an example of an op, and its operands and results. Only the reason, if ONNX lacks a part of it.
fn exported(example: &Example, registry: &Registry) -> Result<(Vec<u8>, testing::Case), String> {
    let case = testing::case(example, registry).unwrap();
    let bytes = engine_onnx::export(&case.graph, registry, &|_| None).map_err(|fault| fault.message)?;
    Ok((bytes, case))
}

fn host(tensor: &OracleTensor) -> HostTensor {
    let elements = HostTensor::from_slice(&tensor.extents, &tensor.to_f64()).unwrap();
    elements.cast(tensor.dtype).unwrap()
}

fn fault_of_example(bytes: Vec<u8>, case: &testing::Case) -> Option<String> {
    let model = match Engine::new().import(Path::new("model.onnx"), bytes, &Facts::default()) {
        Ok(model) => model,
        Err(fault) => return Some(fault.message),
    };
    let text = model.text(None, &[]);
    let inputs = case.inputs.iter().filter(|(name, _)| model.inputs().any(|input| input == *name));
    let inputs = inputs.map(|(name, value)| (name.clone(), host(value))).collect();
    let found = match outputs(model, cpu(2), &inputs, Options::default()) {
        Ok(found) => found,
        Err(fault) => return Some(format!("{fault}\n{text}")),
    };
    let compared = found.values().zip(&case.expected);
    let faults = compared.filter_map(|(found, expected)| difference(found, &host(expected), 1e-4));
    faults.into_iter().next().map(|fault| format!("{fault}\n{text}"))
}

/// Examples of all ops. `ENGINE_ONNX_EXPORTS` names a folder that the models go to, for onnxruntime.
#[test]
fn examples_of_ops_compute_the_same_results() {
    let registry = Engine::new().registry;
    let (mut n_sound, mut lacking, mut faults) = (0, BTreeMap::<String, BTreeSet<String>>::new(), vec![]);
    for form in registry.ops() {
        for (at, example) in form.examples.iter().enumerate() {
            let (bytes, case) = match exported(example, &registry) {
                Ok(exported) => exported,
                Err(why) => {
                    let why = why.split_once("` ").map_or(why.as_str(), |(_, why)| why).to_owned();
                    lacking.entry(why).or_default().insert(form.name.clone());
                    continue;
                }
            };
            if let Some(folder) = std::env::var_os("ENGINE_ONNX_EXPORTS") {
                write_example(&Path::new(&folder).join(format!("{}_{at}", form.name)), &bytes, &case);
            }
            match fault_of_example(bytes, &case) {
                None => n_sound += 1,
                Some(fault) => faults.push(format!("{}: {fault}", example.call)),
            }
        }
    }
    assert!(faults.is_empty(), "{} fail:\n{}", faults.len(), faults.join("\n"));
    let lacking = lacking.into_iter().map(|(why, ops)| {
        let ops: Vec<String> = ops.into_iter().collect();
        format!("{why}: {}\n", ops.join(", "))
    });
    expect![[r#"
        374 examples
        calls `draw_rows`, which has no counterpart in ONNX: draw_rows
        calls `fft_rows`, which has no counterpart in ONNX: fft, fft_rows, ifft, irfft, rfft
        calls `lu_panel`, which has no counterpart in ONNX: inverse, lu_panel, lu_solve, solve
        calls `near_least`, which has no counterpart in ONNX: near_least
        calls `nearest_of_lists`, which has no counterpart in ONNX: nearest_of_lists
        calls `orthogonal_rows`, which has no counterpart in ONNX: eigh, orthogonal_rows, svd
        calls `row_log_sum_exp`, which has no counterpart in ONNX: linear_cross_entropy, linear_cross_entropy_rows, row_log_sum_exp
        calls `rows_by_bounds`, which has no counterpart in ONNX: rows_by_bounds
        calls `small_cholesky`, which has no counterpart in ONNX: cholesky, qr, small_cholesky
        calls `small_triangular`, which has no counterpart in ONNX: small_triangular, solve_triangular
        calls `topk_rows`, which has no counterpart in ONNX: topk_rows
        computes `popcount` of i32, which ONNX lacks: popcount
        computes `popcount` of u8, which ONNX lacks: popcount
        computes `shl` of i32, which ONNX lacks: left_shift
        computes `shr` of i32, which ONNX lacks: right_shift
        draws random bits, which ONNX cannot repeat: normal, sample_gumbel, uniform
        is a running max, which ONNX lacks: cummax
        is a running min, which ONNX lacks: cummin
        is a running prod, which ONNX lacks: cumprod
    "#]]
    .assert_eq(&format!("{n_sound} examples\n{}", lacking.collect::<String>()));
}

/// Writes a model, and its operands and results as text.
fn write_example(stem: &Path, bytes: &[u8], case: &testing::Case) {
    let written = |tensor: &OracleTensor| {
        let elements: Vec<String> = tensor.to_f64().iter().map(f64::to_string).collect();
        json!({"dtype": tensor.dtype.name(), "shape": tensor.extents, "elements": elements})
    };
    let inputs: BTreeMap<_, _> = case.inputs.iter().map(|(name, value)| (name, written(value))).collect();
    let outputs: Vec<Json> = case.expected.iter().map(written).collect();
    fs::write(stem.with_extension("onnx"), bytes).unwrap();
    fs::write(stem.with_extension("json"), json!({"inputs": inputs, "outputs": outputs}).to_string())
        .unwrap();
}

fn refused(text: &str, node: &str, expected: Expect) {
    let program = Engine::new().read("graph.ron", text).unwrap();
    let fault = program.export(&IndexMap::new(), &[node.into()], &[]).unwrap_err();
    expected.assert_eq(&format!("{}; {}", fault.message, fault.help.unwrap_or_default()));
    assert!(
        [Code::E0508, Code::E0211].contains(&fault.code) || fault.message.contains("extent"),
        "{:?}",
        fault.code
    );
}

#[test]
fn what_onnx_lacks_is_named() {
    let draws = r#"(nodes: {"x": "uniform(shape=[2])"})"#;
    refused(
        draws,
        "x",
        expect![
            "the node `x.1` draws random bits, which ONNX cannot repeat; export an output that does not depend on it"
        ],
    );
    refused(
        r#"(inputs: {"x": "f32[2]"}, nodes: {"y": "cumprod(x)"})"#,
        "y",
        expect![
            "the node `y` is a running prod, which ONNX lacks; export an output that does not depend on it"
        ],
    );
    refused(
        r#"(params: {"w": "f32[2]"}, nodes: {"y": "w * 2"})"#,
        "y",
        expect!["the node `w` has no value; export an output that does not depend on it"],
    );
    refused(
        r#"(inputs: {"x": "f32[B]"}, nodes: {"y": "x * 2"})"#,
        "y",
        expect![
            "`x`: the extent `B` has no value; a stage binds it by `batch` or `dims`, the pipeline by `dims`"
        ],
    );
    refused(
        r#"(inputs: {"x": "f32[2]"}, nodes: {"y": "x * 2"})"#,
        "z",
        expect!["there is no node `z`; did you mean `x`?"],
    );
}
