//! The standard layers compared with PyTorch (`tests/examples/layers.py`): results, and gradients of operands and
//! parameters.

use super::numbers;
use engine::Engine;
use engine::core::compile::Options;
use engine::devices::{self, Choice};
use engine::runtime::data::npz;
use engine::runtime::data::source::LoadContext;
use engine::runtime::session::Report;
use engine::runtime::tensor::HostTensor;
use indexmap::IndexMap;
use serde_json::Value as Json;
use std::fs::File;
use std::path::Path;

const RECORDED: &str = include_str!("../examples/layers.json");

/// The operands, parameters and weights of results: sin(0.7 i + seed) / 2.
fn values(shape: &Json, seed: usize) -> HostTensor {
    let shape: Vec<usize> = numbers(shape).into_iter().map(|extent| extent as usize).collect();
    let value = |i: usize| ((0.7 * i as f64 + seed as f64).sin() / 2.0) as f32;
    let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
    HostTensor::from_slice(&shape, &values).unwrap()
}

/// The tensors of a case in the order of their seeds: operands, parameters, and the weight `v0`, `v1`, … of each result.
fn tensors(case: &Json) -> IndexMap<String, HostTensor> {
    let of = |key: &str| case[key].as_object().unwrap().clone().into_iter();
    let weights = case["results"].as_array().unwrap().iter().enumerate();
    let weights = weights.map(|(i, result)| (format!("v{i}"), result["shape"].clone()));
    let shapes = of("inputs").chain(of("params")).chain(weights);
    shapes.zip(1..).map(|((name, shape), seed)| (name, values(&shape, seed))).collect()
}

/// A pipeline that calls the layer `m`, reads all tensors from a file, and reports results and gradients.
fn pipeline(case: &Json, file: &Path) -> String {
    let tensors = tensors(case);
    let is_own = |name: &&String| !name.contains('.');
    let own =
        tensors.keys().filter(is_own).map(|name| format!("{name:?}: \"f32{:?}\"", tensors[name].shape()));
    let n_results = case["results"].as_array().unwrap().len();
    let result = |i: usize| if i == 0 { "m".to_string() } else { format!("m.{i}") };
    let nodes = (0..n_results).map(|i| format!("\"y{i}\": \"{} + 0\"", result(i)));
    let loss = (0..n_results).map(|i| format!("sum(y{i} * v{i})")).collect::<Vec<_>>().join(" + ");
    let shown = (0..n_results).map(|i| format!("y{i}"));
    let shown: Vec<String> = shown.chain(case["gradients"].as_object().unwrap().keys().cloned()).collect();
    format!(
        r#"(
          params: {{{}}},
          nodes: {{"m": {}, {}, "loss": "{loss}"}},
          stages: {{"values": Load(path: {file:?}), "go": Run(loss: "loss", outputs: {shown:?})}},
        )"#,
        own.collect::<Vec<_>>().join(", "),
        case["call"],
        nodes.collect::<Vec<_>>().join(", "),
    )
}

fn run(text: &str, fuse: bool) -> Report {
    let engine = Engine::new();
    let program = engine.read("layer.ron", text).unwrap();
    let device = devices::open(Choice::Cpu, Some(1)).unwrap().device;
    let data = LoadContext::offline_in(Path::new("tests/examples"));
    let options = Options { fuse, ..Options::default() };
    let mut session = engine.session(program, device, &data, options, &mut |_| {}).unwrap();
    session.run_stages(None, &mut |_| {}).unwrap()
}

#[test]
fn layers_compute_what_pytorch_computes() {
    let cases: Vec<Json> = serde_json::from_str(RECORDED).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for case in &cases {
        let file = folder.path().join("values.npz");
        npz::write(&tensors(case), &mut File::create(&file).unwrap()).unwrap();
        let text = pipeline(case, &file);
        for fuse in [true, false] {
            let report = run(&text, fuse);
            let results = case["results"].as_array().unwrap().iter().enumerate();
            let results = results.map(|(i, result)| (format!("y{i}"), &result["values"]));
            let gradients = case["gradients"].as_object().unwrap().iter();
            for (name, expected) in results.chain(gradients.map(|(name, values)| (name.clone(), values))) {
                let found = report.outputs[name.as_str()].values.to_f64();
                let expected = numbers(expected);
                let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 2e-6 * (1.0 + b.abs());
                assert!(
                    found.len() == expected.len() && found.iter().zip(&expected).all(is_near),
                    "{}: {name} is {found:?}, in PyTorch {expected:?}",
                    case["call"]
                );
            }
        }
    }
}
