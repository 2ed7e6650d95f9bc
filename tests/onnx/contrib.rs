//! Models of one op of onnxruntime or `ai.onnx.ml` (`tests/examples/onnx_contrib.py`).

use super::common::{bytes, difference, outputs, tensor};
use super::present::cpu;
use engine::core::compile::Options;
use engine::core::ir::DType;
use engine::{Engine, Facts};
use serde_json::Value as Json;
use std::path::Path;

const RECORDED: &str = include_str!("../examples/onnx_contrib.json");

/// The difference that is allowed, beside the size of the number. Runtimes round halves at other steps.
fn tolerance(dtype: DType) -> f64 {
    if dtype == DType::F16 { 2e-3 } else { 1e-4 }
}

/// The difference from the recorded results, or the reason why there is none.
fn fault_of(case: &Json) -> Option<String> {
    let model = bytes(case["model"].as_str().unwrap());
    let imported = Engine::new().import(Path::new("model.onnx"), model, &Facts::default());
    let model = match imported {
        Ok(model) => model,
        Err(fault) => return Some(format!("{}; {:?}", fault.message, fault.help)),
    };
    let text = model.text(None, &[]);
    let inputs = case["inputs"].as_object().unwrap().iter();
    let inputs = inputs.map(|(name, recorded)| (name.clone(), tensor(recorded))).collect();
    let found = match outputs(model, cpu(2), &inputs, Options::default()) {
        Ok(found) => found,
        Err(fault) => return Some(format!("{fault}\n{text}")),
    };
    let fault = case["outputs"].as_object().unwrap().iter().find_map(|(name, recorded)| {
        let expected = tensor(recorded);
        difference(&found[name], &expected, tolerance(expected.dtype()))
    });
    fault.map(|fault| format!("{fault}\n{text}"))
}

#[test]
fn ops_of_onnxruntime_compute_its_results() {
    let cases: Vec<Json> = serde_json::from_str(RECORDED).unwrap();
    let named = cases.iter().map(|case| (case["name"].as_str().unwrap(), fault_of(case)));
    let faults: Vec<String> = named.filter_map(|(name, fault)| Some(format!("{name}: {}", fault?))).collect();
    assert!(faults.is_empty(), "{} of {} cases fail:\n{}", faults.len(), cases.len(), faults.join("\n"));
}
