//! Steps of every optimizer on a small regression, compared with PyTorch and optax (`tests/examples/training.py`).

use super::numbers;
use super::parsed::parsed;
use engine::Engine;
use engine::core::compile::{Options, compile};
use engine::core::ir::{DType, Graph, Type, Value};
use engine::core::op::{OpForm, Registry, Role};
use engine::core::oracle::{Oracle, OracleTensor};
use engine::core::pipeline::{Pipeline, TrainStage};
use engine::core::stage::{self, Rows, SplitShape};
use engine::runtime::cpu::CpuDevice;
use engine::runtime::device::{Device, DeviceBuffer};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;

const TRAINING: &str = include_str!("../examples/training.json");

/// The regression of `tests/examples/training.py` as a pipeline.
fn regression(registry: &mut Registry, optimizer: &str, clip_norm: &Json) -> Pipeline {
    let clip = clip_norm.as_f64().map_or(String::new(), |most| format!("clip_norm: {most},"));
    let text = format!(
        r#"(
            data: {{"points": (source: "points")}},
            inputs: {{
                "x": (type: "f32[B, 2]", from: "points.x"),
                "t": (type: "f32[B, 3]", from: "points.t"),
            }},
            params: {{"w": "f32[2, 3]", "b": "f32[3]"}},
            nodes: {{"loss": "mean(square(x @ w + b - t))"}},
            stages: {{"train": Train(data: "points.train", batch: 4, {clip} loss: "loss", optimizer: {optimizer})}},
        )"#
    );
    parsed("regression.ron", text, registry)
}

/// Compares numbers up to this part of them, or of 1 where they are smaller.
pub fn near(what: &str, found: &[f64], expected: &[f64], tolerance: f64) -> Result<(), String> {
    assert_eq!(found.len(), expected.len(), "{what}");
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance * (1.0 + b.abs());
    match found.iter().zip(expected).all(is_near) {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} instead of {expected:?}")),
    }
}

/// A step of training as in a case, and its inputs at the start. States of the optimizer are zero and left out.
fn start(registry: &mut Registry, recorded: &Json, case: &Json) -> (Graph, HashMap<String, OracleTensor>) {
    let pipeline = regression(registry, case["optimizer"].as_str().unwrap(), &case["clip_norm"]);
    let train = pipeline.stages[0].get::<TrainStage>().unwrap();
    let fields = vec![("x".into(), Type::new(DType::F32, &[2])), ("t".into(), Type::new(DType::F32, &[3]))];
    let points = SplitShape { data: "points".into(), n_rows: 4, n_held: 4, fields };
    let rows = Rows::Batches { batch: 4, per_epoch: 1 };
    let step = stage::training(&pipeline, train, &points, rows, registry).unwrap();
    let tensor =
        |name: &str, extents: &[usize]| OracleTensor::new(DType::F32, extents, &numbers(&recorded[name]));
    let values = HashMap::from([
        ("w".to_owned(), tensor("w", &[2, 3])),
        ("b".to_owned(), tensor("b", &[3])),
        ("points.x".to_owned(), tensor("x", &[4, 2])),
        ("points.t".to_owned(), tensor("t", &[4, 3])),
        ("order".to_owned(), OracleTensor::new(DType::I32, &[4], &[2.0, 0.0, 3.0, 1.0])),
    ]);
    (step.graph, values)
}

/// Trains in double precision and compares all losses and the final parameters.
fn check_training(registry: &mut Registry, recorded: &Json, case: &Json) -> Result<(), String> {
    let title = case["title"].as_str().unwrap();
    let (graph, mut values) = start(registry, recorded, case);
    let expected = numbers(&case["losses"]);
    let mut losses = vec![];
    for number in 0..expected.len() {
        let run = Oracle::new(registry).run(&graph, &values, 0, number as i64).unwrap();
        losses.push(run.outputs["loss"].float(0));
        values.extend(run.state.into_iter().map(|(name, value)| (name.to_string(), value)));
    }
    near(&format!("{title}: losses"), &losses, &expected, 1e-9)?;
    ["w", "b"].into_iter().try_for_each(|name| {
        near(&format!("{title}: {name}"), &values[name].to_f64(), &numbers(&case[name]), 1e-9)
    })
}

/// Trains on the CPU, in single precision, and compares the final parameters.
fn check_on_cpu(registry: &mut Registry, recorded: &Json, case: &Json) -> Result<(), String> {
    let (graph, values) = start(registry, recorded, case);
    let device = CpuDevice::new(Some(1)).unwrap();
    let plan = compile(&graph, registry, &Options::default()).plan;
    let mut executable = device.prepare(Arc::new(plan), 0).unwrap();
    let mut buffers: HashMap<String, DeviceBuffer> = HashMap::new();
    for (id, _) in graph.inputs() {
        let name = graph.node(id).name().to_string();
        let buffer = device.allocate(graph.ty(Value::of(id)).bytes()).unwrap();
        if let Some(value) = values.get(&name) {
            device.write(&buffer, 0, &bytes_of(value)).unwrap();
        }
        // The step number is no input that is bound.
        let _ = executable.bind(&name, &buffer);
        buffers.insert(name, buffer);
    }
    executable.run(0, case["losses"].as_array().unwrap().len() as u32).unwrap();
    ["w", "b"].into_iter().try_for_each(|name| {
        let expected = numbers(&case[name]);
        let mut bytes = vec![0; 4 * expected.len()];
        device.read(&buffers[name], 0, &mut bytes).unwrap();
        let floats = bytes.chunks_exact(4).map(|x| f64::from(f32::from_le_bytes(x.try_into().unwrap())));
        let (found, what) = (floats.collect::<Vec<f64>>(), format!("{}: {name} on the CPU", case["title"]));
        let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * largest;
        match found.iter().zip(&expected).all(is_near) {
            true => Ok(()),
            false => Err(format!("{what}: {found:?} instead of {expected:?}")),
        }
    })
}

fn bytes_of(tensor: &OracleTensor) -> Vec<u8> {
    let bytes = |x: f64| match tensor.dtype {
        DType::I32 => (x as i32).to_le_bytes(),
        _ => (x as f32).to_le_bytes(),
    };
    tensor.to_f64().into_iter().flat_map(bytes).collect()
}

#[test]
fn twenty_steps_of_every_optimizer_agree_with_pytorch_and_optax() {
    let recorded: Json = serde_json::from_str(TRAINING).unwrap();
    let mut registry = Engine::new().registry;
    let is_optimizer = |form: &&Arc<OpForm>| matches!(form.role, Role::Optimizer { .. });
    let mut missing: Vec<String> =
        registry.ops().filter(is_optimizer).map(|form| form.name.clone()).collect();
    for case in recorded["cases"].as_array().unwrap() {
        assert_eq!(case["losses"].as_array().unwrap().len(), 20);
        assert_eq!(check_training(&mut registry, &recorded, case), Ok(()));
        assert_eq!(check_on_cpu(&mut registry, &recorded, case), Ok(()));
        missing.retain(|op| !is_by(case, op));
    }
    assert_eq!(missing, [] as [&str; 0], "optimizers without a case");
}

/// Whether the recorded steps of an optimizer are reproduced. Other ops have none.
pub fn trains_well(registry: &Registry, op: &str) -> bool {
    let recorded: Json = serde_json::from_str(TRAINING).unwrap();
    let mut registry = registry.subset(registry.ops().map(|form| form.name.as_str()));
    let mut cases = recorded["cases"].as_array().unwrap().iter().filter(|case| is_by(case, op));
    cases.all(|case| check_training(&mut registry, &recorded, case).is_ok())
}

/// Whether a case trains by the optimizer that is this op.
fn is_by(case: &Json, op: &str) -> bool {
    let optimizer = case["optimizer"].as_str().unwrap();
    optimizer.split('(').next().unwrap().eq_ignore_ascii_case(op)
}
