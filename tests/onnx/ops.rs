//! Models of one op (`tests/examples/onnx_ops.py`).

use super::common::{bytes, compare, outputs, tensor};
use super::present::cpu;
use engine::core::compile::Options;
use engine::{Engine, Facts};
use serde_json::Value as Json;
use std::path::Path;

const RECORDED: &str = include_str!("../examples/onnx_ops.json");

fn fault_of(case: &Json) -> Option<String> {
    let model = bytes(case["model"].as_str().unwrap());
    let imported = Engine::new().import(Path::new("model.onnx"), model, &Facts::default());
    let model = match imported {
        Ok(model) => model,
        Err(fault) => return Some(format!("{}; {:?}", fault.message, fault.help)),
    };
    let text = model.text(None, &[]);
    let inputs = case["inputs"].as_object().unwrap();
    let inputs = inputs.iter().map(|(name, recorded)| (name.clone(), tensor(recorded))).collect();
    let found = match outputs(model, cpu(2), &inputs, Options::default()) {
        Ok(found) => found,
        Err(fault) => return Some(format!("{fault}\n{text}")),
    };
    let expected = case["outputs"].as_object().unwrap().iter();
    let compared = expected.map(|(name, recorded)| compare(&found[name], recorded));
    compared.filter_map(Result::err).next().map(|fault| format!("{fault}\n{text}"))
}

#[test]
fn ops_compute_the_results_of_onnxruntime() {
    let cases: Vec<Json> = serde_json::from_str(RECORDED).unwrap();
    let faults = cases.iter().filter_map(|case| Some((case["name"].as_str().unwrap(), fault_of(case)?)));
    let faults: Vec<String> = faults.map(|(name, fault)| format!("{name}: {fault}")).collect();
    assert!(faults.is_empty(), "{} of {} cases fail:\n{}", faults.len(), cases.len(), faults.join("\n"));
}
