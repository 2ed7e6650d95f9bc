//! Models of one op (`tests/examples/onnx_ops.py`), and those whose numbers depend on element types (`onnx_typed.py`).

use super::common::{bytes, compare, outputs, tensor};
use super::present::{cpu, gpus};
use engine::core::compile::Options;
use engine::runtime::device::Device;
use engine::{Engine, Facts};
use expect_test::expect_file;
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

const RECORDED: &str = include_str!("../examples/onnx_ops.json");
const TYPED: &str = include_str!("../examples/onnx_typed.json");

/// The difference from the recorded results, or the reason why there is none.
pub fn fault_of(case: &Json, facts: &Facts, device: &Arc<dyn Device>) -> Option<String> {
    let model = bytes(case["model"].as_str().unwrap());
    let imported = Engine::new().import(Path::new("model.onnx"), model, facts);
    let model = match imported {
        Ok(model) => model,
        Err(fault) => return Some(format!("{}; {:?}", fault.message, fault.help)),
    };
    let text = model.text(None, &[]);
    let inputs = case["inputs"].as_object().unwrap();
    let inputs = inputs.iter().map(|(name, recorded)| (name.clone(), tensor(recorded))).collect();
    let found = match outputs(model, Arc::clone(device), &inputs, Options::default()) {
        Ok(found) => found,
        Err(fault) => return Some(format!("{fault}\n{text}")),
    };
    let expected = case["outputs"].as_object().unwrap().iter();
    let compared = expected.map(|(name, recorded)| compare(&found[name], recorded));
    compared.filter_map(Result::err).next().map(|fault| format!("{fault}\n{text}"))
}

/// The texts of some recorded models, without those of their stages.
fn text_of(names: &[&str]) -> String {
    let cases: Vec<Json> = serde_json::from_str(RECORDED).unwrap();
    let named =
        |name: &&str| cases.iter().find(|case| case["name"] == **name).unwrap_or_else(|| panic!("{name}"));
    let text = |case: &Json| {
        let model = bytes(case["model"].as_str().unwrap());
        let model = Engine::new().import(Path::new("model.onnx"), model, &Facts::default()).ok().unwrap();
        let text = model.text(None, &[]);
        format!("// {}\n{}", case["name"].as_str().unwrap(), text.split_once("    stages").unwrap().0)
    };
    names.iter().map(|name| text(named(name))).collect()
}

#[test]
fn long_loops_stay_loops() {
    let names = [
        "Loop 40, opset 17",
        "Loop of 30 trips, which only a run knows, opset 17",
        "Loop by a condition, limit 500, begins True, opset 17",
        "Loop within a loop, opset 17",
        "Scan of 30 in direction 1, opset 17",
        "Scan of two of 30 in direction 1, opset 17",
    ];
    expect_file!["../golden/onnx_loops.txt"].assert_eq(&text_of(&names));
}

/// Compares the results of the recorded cases whose names are wanted.
fn expect_results(recorded: &str, device: &Arc<dyn Device>, is_wanted: impl Fn(&str) -> bool) {
    let cases: Vec<Json> = serde_json::from_str(recorded).unwrap();
    let named = cases.iter().map(|case| (case["name"].as_str().unwrap(), case));
    let wanted: Vec<_> = named.filter(|(name, _)| is_wanted(name)).collect();
    assert!(!wanted.is_empty());
    let faults =
        wanted.iter().filter_map(|(name, case)| Some((name, fault_of(case, &Facts::default(), device)?)));
    let faults: Vec<String> = faults.map(|(name, fault)| format!("{name}: {fault}")).collect();
    assert!(faults.is_empty(), "{} of {} cases fail:\n{}", faults.len(), wanted.len(), faults.join("\n"));
}

#[test]
fn ops_compute_the_results_of_onnxruntime() {
    expect_results(RECORDED, &cpu(2), |_| true);
}

#[test]
fn numbers_keep_to_their_element_types() {
    expect_results(TYPED, &cpu(2), |_| true);
}

#[test]
fn loops_compute_the_same_results_on_gpus() {
    let is_loop = |name: &str| name.starts_with("Loop") || name.starts_with("Scan");
    gpus().iter().for_each(|gpu| expect_results(RECORDED, gpu, is_loop));
}
