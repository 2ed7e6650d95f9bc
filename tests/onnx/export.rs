//! Graphs that become ONNX models. An exported model that is imported again computes what onnxruntime has recorded for the
//! first one. `tests/examples/onnx_exports.py` runs exported models in onnxruntime.

use super::common::{compare, outputs, tensor};
use super::present::cpu;
use engine::core::compile::Options;
use engine::core::diag::Code;
use engine::core::ir::Symbol;
use engine::runtime::tensor::HostTensor;
use engine::{Engine, Facts};
use expect_test::{Expect, expect};
use indexmap::IndexMap;
use serde_json::Value as Json;
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
    refused(r#"(inputs: {"x": "f32[2]"}, nodes: {"y": "x * 2"})"#, "z", expect!["there is no node `z`; "]);
}
