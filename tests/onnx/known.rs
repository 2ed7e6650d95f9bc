//! Models whose shapes follow from constants, or from the values of their inputs (`tests/examples/onnx_known.py`).

use super::common::{bytes, tensor};
use super::ops::fault_of;
use super::present::cpu;
use engine::core::diag::Diagnostic;
use engine::{Engine, Facts};
use engine_onnx::{Seen, Stored};
use expect_test::{Expect, expect};
use serde_json::Value as Json;
use std::path::Path;

const RECORDED: &str = include_str!("../examples/onnx_known.json");

/// The recorded cases that do, or do not, need the values of their inputs.
fn cases(is_given: bool) -> Vec<Json> {
    let cases: Vec<Json> = serde_json::from_str(RECORDED).unwrap();
    let is_wanted = |case: &Json| case["name"].as_str().unwrap().starts_with("Given") == is_given;
    cases.into_iter().filter(is_wanted).collect()
}

fn refused(case: &Json, facts: &Facts) -> Option<Diagnostic> {
    let model = bytes(case["model"].as_str().unwrap());
    Engine::new().import(Path::new("model.onnx"), model, facts).err()
}

/// What the inputs of a case show.
fn seen(case: &Json) -> Facts {
    let seen = |(input, recorded): (&String, &Json)| {
        let value = tensor(recorded);
        let shape = value.shape().to_vec();
        Seen {
            input: Some(input.clone()),
            extents: shape.iter().copied().map(Some).collect(),
            value: Some(Stored::new(value.dtype(), shape, value.bytes().to_vec().into())),
        }
    };
    let inputs = case["inputs"].as_object().unwrap();
    Facts { seen: inputs.iter().map(seen).collect(), ..Facts::default() }
}

#[test]
fn shapes_follow_from_constants() {
    let fault = |case: Json| {
        fault_of(&case, &Facts::default(), &cpu(2)).map(|fault| format!("{}: {fault}", case["name"]))
    };
    let faults: Vec<String> = cases(false).into_iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn given_values_settle_shapes() {
    for case in cases(true) {
        assert!(refused(&case, &Facts::default()).is_some(), "{}", case["name"]);
        assert_eq!(fault_of(&case, &seen(&case), &cpu(2)), None, "{}", case["name"]);
    }
}

#[test]
fn messages_name_open_extents() {
    let cases = cases(true);
    let expect_fault = |name: &str, expected: Expect| {
        let case = cases.iter().find(|case| case["name"] == name).unwrap();
        let fault = refused(case, &Facts::default()).unwrap();
        expected.assert_eq(&format!("{}; {}", fault.message, fault.help.unwrap_or_default()));
    };
    expect_fault(
        "Given half of an extent, opset 17",
        expect![
            "node `h` (Div): the value `n` is made of extents that are open; give them as numbers: `engine import --dim n.rows=8`"
        ],
    );
    expect_fault(
        "Given lengths, opset 17",
        expect![
            "node `y` (GRU) has sequences whose lengths are not known at import; make its operands constants: `engine import --value NAME=[…]`"
        ],
    );
    // Messages write the name without punctuation, and it may be given so.
    let case = cases.iter().find(|case| case["name"] == "Given half of an extent, opset 17").unwrap();
    for name in ["n.rows", "n_rows"] {
        let facts = Facts { dims: vec![(name.into(), 7)], ..Facts::default() };
        assert_eq!(fault_of(case, &facts, &cpu(2)), None);
    }
}
