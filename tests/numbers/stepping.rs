//! Steps of a training stage in double precision, compared with recorded ones.

use super::{near, numbers};
use crate::parsed::parsed;
use engine::Engine;
use engine::core::compile::Options;
use engine::core::ir::{DType, Type};
use engine::core::op::Registry;
use engine::core::oracle::{Oracle, OracleTensor};
use engine::core::pipeline::{Pipeline, TrainStage};
use engine::core::stage::{self, Rows, SplitShape};
use engine::devices::{self, Choice};
use engine::runtime::data::npz;
use engine::runtime::data::source::{InMemory, LoadContext, Split};
use engine::runtime::tensor::HostTensor;
use indexmap::IndexMap;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;

type Values = HashMap<String, OracleTensor>;

/// Takes steps of the first stage over rows in file order, and returns the losses of all batches. The stage's rows make
/// whole batches.
fn take_steps(
    pipeline: &Pipeline,
    data: &SplitShape,
    values: &mut Values,
    n_steps: usize,
    registry: &Registry,
) -> Vec<f64> {
    let train = pipeline.stages[0].get::<TrainStage>().unwrap();
    let rows = Rows::Batches { batch: train.batch, per_epoch: data.n_rows / train.batch };
    let order: Vec<f64> = (0..data.n_rows).map(|row| row as f64).collect();
    values.insert("order".to_owned(), OracleTensor::new(DType::I32, &[data.n_rows], &order));
    let batch = stage::training(pipeline, train, data, rows, registry).unwrap().graph;
    let apply =
        (train.accumulate > 1).then(|| stage::applying(pipeline, train, data, registry).unwrap().graph);
    let mut losses = vec![];
    for step in 0..n_steps {
        for part in 0..train.accumulate {
            let number = (step * train.accumulate + part) as i64;
            let run = Oracle::new(registry).run(&batch, values, 0, number).unwrap();
            losses.push(run.outputs["loss"].float(0));
            values.extend(run.state.into_iter().map(|(name, value)| (name.to_string(), value)));
        }
        if let Some(apply) = &apply {
            let run = Oracle::new(registry).run(apply, values, 0, step as i64).unwrap();
            values.extend(run.state.into_iter().map(|(name, value)| (name.to_string(), value)));
        }
    }
    losses
}

fn points(n_rows: usize, fields: &[(&str, &[usize])]) -> SplitShape {
    let fields = fields.iter().map(|(name, extents)| ((*name).into(), Type::new(DType::F32, extents)));
    SplitShape { data: "points".into(), n_rows, n_held: n_rows, fields: fields.collect() }
}

/// Compares losses and final values of these names.
fn check(title: &str, (losses, values): (&[f64], &Values), case: &Json, names: &[&str]) {
    let near =
        |what: &str, found: &[f64]| near(&format!("{title}: {what}"), found, &numbers(&case[what]), 1e-9);
    assert_eq!(near("losses", losses), Ok(()));
    names.iter().for_each(|name| assert_eq!(near(name, &values[*name].to_f64()), Ok(())));
}

#[test]
fn states_beside_an_optimizer_agree_with_pytorch() {
    let recorded: Json = serde_json::from_str(include_str!("../examples/state.json")).unwrap();
    for case in recorded["cases"].as_array().unwrap() {
        let mut registry = Engine::new().registry;
        let accumulate = case["accumulate"].as_u64().unwrap();
        let text = format!(
            r#"(
            data: {{"points": (source: "points")}},
            inputs: {{
                "x": (type: "f32[B, 2]", from: "points.x"),
                "t": (type: "f32[B]", from: "points.t"),
            }},
            params: {{
                "w": "f32[2, 3]", "v": "f32[3]",
                "w_average": (type: "f32[2, 3]", state: true), "v_average": (type: "f32[3]", state: true),
                "mean": (type: "f32[3]", state: true), "var": (type: "f32[3]", state: true, init: 1),
            }},
            nodes: {{
                "h": "x @ w",
                "m": "mean(h, axis=0)",
                "s": "mean(square(h - m), axis=0)",
                "y": "tanh((h - m) / sqrt(s + 1e-5)) @ v",
                "loss": "mean(square(y - t))",
                "mean_next": "mean * 0.9 + m * 0.1",
                "var_next": "var * 0.9 + s * (0.1 * 4 / 3)",
                "w_next": "w_average * 0.9 + w * 0.1",
                "v_next": "v_average * 0.9 + v * 0.1",
            }},
            stages: {{
                "train": Train(
                    data: "points.train", batch: 4, accumulate: {accumulate}, loss: "loss",
                    optimizer: Adam(lr: 0.05),
                    state: {{
                        "w_average": "w_next", "v_average": "v_next", "mean": "mean_next", "var": "var_next",
                    }},
                ),
            }},
        )"#
        );
        let pipeline = parsed("state.ron", text, &mut registry);
        let of =
            |name: &str, extents: &[usize]| OracleTensor::new(DType::F32, extents, &numbers(&recorded[name]));
        let mut values = HashMap::from([
            ("w".to_owned(), of("w", &[2, 3])),
            ("v".to_owned(), of("v", &[3])),
            ("w_average".to_owned(), of("w", &[2, 3])),
            ("v_average".to_owned(), of("v", &[3])),
            ("var".to_owned(), OracleTensor::new(DType::F32, &[3], &[1.0; 3])),
            ("points.x".to_owned(), of("x", &[8, 2])),
            ("points.t".to_owned(), of("t", &[8])),
        ]);
        let data = points(8, &[("x", &[2]), ("t", &[])]);
        let losses = take_steps(&pipeline, &data, &mut values, 20, &registry);
        let names = ["w", "v", "w_average", "v_average", "mean", "var"];
        check(&format!("accumulate {accumulate}"), (&losses, &values), case, &names);
    }
}

const GROUPS: &str = include_str!("../examples/groups.json");
const PARAMS: [(&str, &[usize]); 4] =
    [("embed.w", &[2, 3]), ("embed.bias", &[3]), ("head.w", &[3, 3]), ("head.bias", &[3])];

/// The network of `tests/examples/groups.py`, trained as in the case for so many epochs of one step.
fn network(case: &Json, dtype: &str, n_epochs: usize, more: [&str; 2]) -> String {
    let clip = case["clip_value"].as_f64().map_or(String::new(), |most| format!("clip_value: {most},"));
    let optimizer = case["optimizer"].as_str().unwrap();
    let [before, after] = more;
    format!(
        r#"(
        data: {{"points": (source: "points")}},
        inputs: {{
            "x": (type: "{dtype}[B, 2]", from: "points.x"), "t": (type: "{dtype}[B, 3]", from: "points.t"),
        }},
        params: {{
            "embed.w": "{dtype}[2, 3]", "embed.bias": "{dtype}[3]",
            "head.w": "{dtype}[3, 3]", "head.bias": "{dtype}[3]",
        }},
        nodes: {{
            "y": "tanh(x @ embed.w + embed.bias) @ head.w + head.bias",
            "loss": "mean(square(y - t))",
        }},
        stages: {{
            {before}
            "train": Train(
                data: "points.train", batch: 4, epochs: {n_epochs}, {clip} loss: "loss", optimizer: {optimizer},
            ),
            {after}
        }},
    )"#
    )
}

#[test]
fn groups_of_parameters_agree_with_pytorch() {
    let recorded: Json = serde_json::from_str(GROUPS).unwrap();
    for case in recorded["cases"].as_array().unwrap() {
        let mut registry = Engine::new().registry;
        let pipeline = parsed("groups.ron", network(case, "f32", 1, ["", ""]), &mut registry);
        let of =
            |name: &str, extents: &[usize]| OracleTensor::new(DType::F32, extents, &numbers(&recorded[name]));
        let mut values: Values =
            PARAMS.iter().map(|(name, extents)| ((*name).to_owned(), of(name, extents))).collect();
        values.insert("points.x".to_owned(), of("x", &[4, 2]));
        values.insert("points.t".to_owned(), of("t", &[4, 3]));
        let data = points(4, &[("x", &[2]), ("t", &[3])]);
        let losses = take_steps(&pipeline, &data, &mut values, 20, &registry);
        let title = case["title"].as_str().unwrap();
        check(title, (&losses, &values), case, &PARAMS.map(|(name, _)| name));
    }
}

/// As a run does it, on the CPU, from initial parameters in a file.
#[test]
fn runs_with_groups_agree_with_pytorch() {
    let recorded: Json = serde_json::from_str(GROUPS).unwrap();
    let of =
        |name: &str, extents: &[usize]| HostTensor::from_slice(extents, &numbers(&recorded[name])).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("start.npz");
    let start: IndexMap<String, HostTensor> =
        PARAMS.iter().map(|(name, extents)| ((*name).to_owned(), of(name, extents))).collect();
    npz::write(&start, &mut std::fs::File::create(&path).unwrap()).unwrap();
    let rows = |dtype: DType| {
        let of = |name: &str, extents: &[usize]| (name.to_owned(), of(name, extents).cast(dtype).unwrap());
        Split::new(IndexMap::from([of("x", &[4, 2]), of("t", &[4, 3])])).unwrap()
    };
    for case in recorded["cases"].as_array().unwrap() {
        let load = format!(r#""start": Load(path: {path:?}),"#);
        let show = r#""after": Run(outputs: ["embed.w", "embed.bias", "head.w", "head.bias"]),"#;
        let engine =
            |dtype: DType| Engine::new().source(InMemory::new("points").split("train", rows(dtype))).unwrap();
        let double = engine(DType::F64);
        let pipeline = double.read("groups.ron", &network(case, "f64", 20, [&load, show])).unwrap();
        let device = devices::open(Choice::Cpu, Some(2)).unwrap().device;
        let data = LoadContext::offline_in("no/such/folder".as_ref());
        let session = double.session(pipeline, Arc::clone(&device), &data, Options::default(), &mut |_| {});
        let outputs = session.unwrap().run_stages(None, &mut |_| {}).unwrap().outputs;
        for (name, _) in PARAMS {
            let (found, expected) = (outputs[name].values.to_f64(), numbers(&case[name]));
            let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            let near = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-6 * largest);
            assert!(near, "{}: {name} is {found:?}, not {expected:?}", case["title"]);
        }
        // In single precision, where an epoch is one step.
        let single = engine(DType::F32);
        let pipeline = single.read("groups.ron", &network(case, "f32", 20, [&load, show])).unwrap();
        let session = single.session(pipeline, device, &data, Options::default(), &mut |_| {});
        let report = session.unwrap().run_stages(None, &mut |_| {}).unwrap();
        let losses: Vec<f64> = report.stages[1].epochs.iter().map(|epoch| epoch.train_loss).collect();
        let expected = numbers(&case["losses"]);
        let near = losses.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-5 * b);
        assert!(losses.len() == 20 && near, "{}: {losses:?}, not {expected:?}", case["title"]);
    }
}
