//! Recorded models: their inputs, and the results of onnxruntime.

use engine::core::compile::Options;
use engine::core::ir::DType;
use engine::runtime::data::source::LoadContext;
use engine::runtime::device::Device;
use engine::runtime::tensor::HostTensor;
use engine::{Engine, Model};
use indexmap::IndexMap;
use serde_json::Value as Json;
use std::sync::Arc;

/// The difference that is allowed, beside the size of the number.
const TOLERANCE: f64 = 1e-4;

/// The bytes that hexadecimal digits stand for.
pub fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn number(value: &Json) -> f64 {
    match value {
        Json::Bool(truth) => f64::from(u8::from(*truth)),
        Json::String(text) => text.parse().unwrap(),
        number => number.as_f64().unwrap(),
    }
}

/// A recorded tensor.
pub fn tensor(recorded: &Json) -> HostTensor {
    let dtype = match recorded["dtype"].as_str().unwrap() {
        "float32" => DType::F32,
        "float64" => DType::F64,
        "int64" | "uint64" => DType::I64,
        "int32" => DType::I32,
        "int16" => DType::I16,
        "uint16" => DType::U16,
        "int8" => DType::I8,
        "uint8" => DType::U8,
        "float16" => DType::F16,
        "bool" => DType::Bool,
        other => panic!("{other}"),
    };
    let shape: Vec<usize> =
        recorded["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
    let elements: Vec<f64> = recorded["elements"].as_array().unwrap().iter().map(number).collect();
    HostTensor::from_slice(&shape, &elements).unwrap().cast(dtype).unwrap()
}

/// The outputs of an imported model on a device, by their names in the model.
pub fn outputs(
    model: Model,
    device: Arc<dyn Device>,
    inputs: &IndexMap<String, HostTensor>,
    options: Options,
) -> Result<IndexMap<String, HostTensor>, String> {
    let engine = Engine::new();
    let shapes = inputs.iter().map(|(name, value)| (name.as_str(), value.shape()));
    let extents = model.extents(shapes);
    let program =
        engine.read("model.ron", &model.text(None, &extents)).map_err(|faults| faults.to_string())?;
    let data = LoadContext::offline_in(std::path::Path::new("tests"));
    let names = model.outputs().to_vec();
    let nodes: Vec<_> = names.iter().map(|(_, node)| node.as_str().into()).collect();
    let session = engine.session(program, device, &data, options, &mut |_| {});
    let mut session = session.map_err(|error| error.to_string())?;
    session.set_parameters(model.weights).map_err(|error| error.to_string())?;
    let found = session.run(&nodes, inputs).map_err(|error| format!("{error:?}"))?;
    Ok(names.into_iter().map(|(label, node)| (label, found[&node].clone())).collect())
}

/// Compares a tensor with the recorded one.
pub fn compare(found: &HostTensor, recorded: &Json) -> Result<(), String> {
    difference(found, &tensor(recorded), TOLERANCE).map_or(Ok(()), Err)
}

/// The difference of two tensors, if one is larger than the tolerance allows.
pub fn difference(found: &HostTensor, expected: &HostTensor, tolerance: f64) -> Option<String> {
    let types = |tensor: &HostTensor| format!("{}{:?}", tensor.dtype(), tensor.shape());
    if types(found) != types(expected) {
        return Some(format!("{} instead of {}", types(found), types(expected)));
    }
    let is_near = |(a, b): (&f64, &f64)| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * b.abs().max(1.0)
    };
    let (found, expected) = (found.to_f64(), expected.to_f64());
    let is_like = found.iter().zip(&expected).all(is_near);
    (!is_like).then(|| format!("{found:?} instead of {expected:?}"))
}
