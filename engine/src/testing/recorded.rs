//! Cases recorded from another implementation, as JSON.

use super::case::{Case, case};
use super::failure::Failure;
use super::gradients::weighed_gradients;
use crate::ir::DType;
use crate::op::{Example, Registry};
use crate::oracle::Oracle;
use serde_json::Value as Json;

/// Runs recorded cases and returns the failures. A case holds `title`, `call`, `inputs` and `outputs` as (type,
/// elements), and `grads`. `grads` is empty or holds the gradients by operand, for the upstream gradients 1, 2, 3, ...
/// of every float result.
///
/// # Panics
/// If the text is not a list of cases.
pub fn recorded(registry: &Registry, json: &str) -> Vec<Failure> {
    cases(json)
        .iter()
        .filter_map(|case| check(registry, case).err().map(|message| failure(case, message)))
        .collect()
}

/// The recorded cases as examples.
///
/// # Panics
/// If the text is not a list of cases.
pub fn recorded_examples(json: &str) -> Vec<Example> {
    cases(json).iter().map(example).collect()
}

/// The cases of a recording.
pub(super) fn cases(json: &str) -> Vec<Json> {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("no list of cases: {error}"))
}

/// The name of the op that a case calls.
pub(super) fn call(case: &Json) -> &str {
    case["call"].as_str().unwrap_or_default()
}

fn example(json: &Json) -> Example {
    Example {
        title: text(&json["title"]),
        call: text(&json["call"]),
        inputs: tensors(&json["inputs"]),
        outputs: tensors(&json["outputs"]),
    }
}

fn failure(json: &Json, message: String) -> Failure {
    Failure { op: text(&json["call"]).into(), example: text(&json["title"]).into(), message }
}

pub(super) fn check(registry: &Registry, json: &Json) -> Result<(), String> {
    let case = case(&example(json), registry)?;
    let run = Oracle::rounded(registry).run(&case.graph, &case.inputs, 0, 0);
    let run = run.map_err(|error| error.to_string())?;
    for ((name, found), expected) in run.outputs.iter().zip(&case.expected) {
        near(name, &found.to_f64(), &expected.to_f64(), tolerance(expected.dtype))?;
    }
    match json["grads"].as_array() {
        Some(grads) => check_grads(registry, &case, grads),
        None => Ok(()),
    }
}

fn check_grads(registry: &Registry, case: &Case, expected: &[Json]) -> Result<(), String> {
    let found = weighed_gradients(case, registry)?;
    for (name, found) in found {
        let operand = case.graph.inputs().position(|(id, _)| *case.graph.node(id).name() == name);
        if let Some(grad) = operand.and_then(|operand| expected.get(operand)).filter(|grad| grad.is_array()) {
            let tolerance = tolerance(found.dtype);
            near(&format!("the gradient of {name}"), &found.to_f64(), &numbers(grad), tolerance)?;
        }
    }
    Ok(())
}

fn near(name: &str, found: &[f64], expected: &[f64], tolerance: f64) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{name} has {} elements instead of {}", found.len(), expected.len()));
    }
    // Any number is near an infinite one by this measure.
    let is_close = |a: f64, b: f64| b.is_finite() && (a - b).abs() <= tolerance * b.abs() + tolerance * 1e-1;
    let is_near = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || is_close(a, b);
    match found.iter().zip(expected).position(|(&a, &b)| !is_near(a, b)) {
        Some(i) => Err(format!("{name}[{i}] is {} instead of {}", found[i], expected[i])),
        None => Ok(()),
    }
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1e-3,
        DType::BF16 => 8e-3,
        dtype if dtype.is_float() => 2e-6,
        _ => 0.0,
    }
}

fn tensors(json: &Json) -> Vec<(&'static str, Vec<f64>)> {
    let pairs = json.as_array().map(Vec::as_slice).unwrap_or_default();
    pairs.iter().map(|pair| (text(&pair[0]), numbers(&pair[1]))).collect()
}

/// The text is leaked, since forms hold literals.
fn text(json: &Json) -> &'static str {
    json.as_str().unwrap_or_default().to_owned().leak()
}

/// Infinities and NaN are texts, since JSON has no numbers for them.
fn numbers(json: &Json) -> Vec<f64> {
    let number = |json: &Json| {
        let spelled = || json.as_str().and_then(|text| text.parse().ok());
        json.as_f64().or_else(spelled).unwrap_or_else(|| panic!("{json} is not a number"))
    };
    json.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(number).collect()
}
