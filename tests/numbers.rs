#![allow(clippy::unwrap_used, missing_docs)]
//! Whole steps of training compared with PyTorch, and a test that each op's tests notice small mistakes in it.

use engine::Engine;
use engine::core::ir::{DType, Type};
use engine::core::op::Registry;
use engine::core::oracle::{Oracle, OracleTensor};
use engine::core::pipeline::{Pipeline, TrainStage};
use engine::core::stage::{self, Rows, SplitShape};
use engine::core::testing;
use serde_json::Value as Json;
use std::collections::HashMap;

#[path = "numbers/models.rs"]
mod models;
#[path = "common/parsed.rs"]
mod parsed;
#[path = "numbers/stepping.rs"]
mod stepping;

use parsed::parsed;

// ---- Training.

const TRAINING: &str = include_str!("examples/training.json");

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

fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn near(what: &str, found: &[f64], expected: &[f64]) -> Result<(), String> {
    assert_eq!(found.len(), expected.len(), "{what}");
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * (1.0 + b.abs());
    match found.iter().zip(expected).all(is_near) {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} instead of {expected:?}")),
    }
}

/// Trains as in the case and compares all losses and the final parameters.
fn check_training(registry: &mut Registry, recorded: &Json, case: &Json) -> Result<(), String> {
    let title = case["title"].as_str().unwrap();
    let pipeline = regression(registry, case["optimizer"].as_str().unwrap(), &case["clip_norm"]);
    let train = pipeline.stages[0].get::<TrainStage>().unwrap();
    let fields = vec![("x".into(), Type::new(DType::F32, &[2])), ("t".into(), Type::new(DType::F32, &[3]))];
    let points = SplitShape { data: "points".into(), n_rows: 4, n_held: 4, fields };
    let rows = Rows::Batches { batch: 4, per_epoch: 1 };
    let step = stage::training(&pipeline, train, &points, rows, registry).unwrap();
    let tensor =
        |name: &str, extents: &[usize]| OracleTensor::new(DType::F32, extents, &numbers(&recorded[name]));
    let mut values = HashMap::from([
        ("w".to_owned(), tensor("w", &[2, 3])),
        ("b".to_owned(), tensor("b", &[3])),
        ("points.x".to_owned(), tensor("x", &[4, 2])),
        ("points.t".to_owned(), tensor("t", &[4, 3])),
        ("order".to_owned(), OracleTensor::new(DType::I32, &[4], &[2.0, 0.0, 3.0, 1.0])),
    ]);
    let mut losses = vec![];
    for number in 0..10 {
        let run = Oracle::new(registry).run(&step.graph, &values, 0, number).unwrap();
        losses.push(run.outputs["loss"].float(0));
        values.extend(run.state.into_iter().map(|(name, value)| (name.to_string(), value)));
    }
    near(&format!("{title}: losses"), &losses, &numbers(&case["losses"]))?;
    ["w", "b"]
        .into_iter()
        .try_for_each(|name| near(&format!("{title}: {name}"), &values[name].to_f64(), &numbers(&case[name])))
}

#[test]
fn ten_steps_of_every_optimizer_agree_with_pytorch() {
    let recorded: Json = serde_json::from_str(TRAINING).unwrap();
    let mut registry = Engine::new().registry;
    for case in recorded["cases"].as_array().unwrap() {
        assert_eq!(check_training(&mut registry, &recorded, case), Ok(()));
    }
}

/// Whether the recorded steps of an optimizer are reproduced. Other ops have none.
fn trains_well(registry: &Registry, op: &str) -> bool {
    let recorded: Json = serde_json::from_str(TRAINING).unwrap();
    let of_op = |case: &&Json| {
        let optimizer = case["optimizer"].as_str().unwrap();
        optimizer.split('(').next().unwrap().eq_ignore_ascii_case(op)
    };
    let mut registry = registry.subset(registry.ops().map(|form| form.name.as_str()));
    let mut cases = recorded["cases"].as_array().unwrap().iter().filter(of_op);
    cases.all(|case| check_training(&mut registry, &recorded, case).is_ok())
}

#[test]
fn random_draws_are_those_of_another_implementation() {
    assert_eq!(testing::recorded(&Engine::new().registry, include_str!("examples/draws.json")), []);
}

// ---- Mutants.

/// Mutants that are equivalent to the original: the op, a part of the change, and the reason.
const EXPLAINED: &[(&str, &str, &str)] = &[
    ("lerp", "with 0.5 negated", "both forms are the same line; the choice is one of rounding"),
    ("relu_squared", "step 2, max, negated", "a square has no sign"),
    ("var", "= .sub(a, y", "a square has no sign"),
    ("std", "= .sub(a, y", "a square has no sign"),
    (
        "dropout",
        "with 0.5 negated",
        "moves a number by 2⁻²³; the oracle's tests hold the ends of the interval",
    ),
    (
        "uniform",
        "with 0.5 negated",
        "moves a number by 2⁻²³; the oracle's tests hold the ends of the interval",
    ),
    ("dropout", "step 7, mul, negated", "a dropped element is zero, of either sign"),
    ("softmax", ".exp(y0.4)` negated", "the sign cancels in the quotient"),
    ("softmax", "select(a == 0.0, 1.0, a)` with 1.0 negated", "a quotient of zero is zero, of either sign"),
    (
        "cross_entropy",
        "select(b == 0.0, 1.0, b)` with 1.0 negated",
        "a quotient of zero is zero, of either sign",
    ),
    ("normal", "`|a| (a + 0.5) * 1.1920928955078125e-7`", "of the angle: a cosine is even"),
    ("normal", "with 6.283185307179586 negated", "a cosine is even"),
    ("normal", "step 7, mul, negated", "of the angle: a cosine is even"),
    ("ring_push", "`|a| a % 3` with 3 negated", "a remainder has the sign of the dividend"),
    ("paged_scatter", "`|a| a % 2` with 2 negated", "a remainder has the sign of the dividend"),
    ("nearest", "step 6, sub", "a square has no sign"),
    ("nearest", "with the operands of step 6, sub, exchanged", "a square has no sign"),
    (
        "nearest",
        "select(a >= 0.0, b, -1.0)",
        "only padding shows it, at infinite distances, which central differences cannot follow",
    ),
    ("cosine_similarity", "with 1e-8 negated", "far below what single precision shows of norms near 1"),
    ("sigmoid_bernoulli", "gradient: `|a, b| b * (recip", "σ(x)(1 - σ(x)) is even"),
];

#[test]
fn the_tests_of_each_op_notice_a_flipped_sign_and_exchanged_operands() {
    let recordings = [
        include_str!("examples/math.json"),
        include_str!("examples/reduce.json"),
        include_str!("examples/tensor.json"),
        include_str!("examples/draws.json"),
        include_str!("examples/index.json"),
        include_str!("examples/norm.json"),
        include_str!("examples/sample.json"),
        include_str!("examples/order.json"),
        include_str!("examples/attention.json"),
        include_str!("examples/muon.json"),
    ];
    let survivors = testing::survivors(&Engine::new().registry, &recordings, trains_well);
    let explains = |explained: &(&str, &str, &str), survivor: &testing::Survivor| {
        explained.0 == survivor.op && survivor.change.contains(explained.1)
    };
    let is_open = |survivor: &&testing::Survivor| !EXPLAINED.iter().any(|known| explains(known, survivor));
    let open: Vec<String> = survivors.iter().filter(is_open).map(ToString::to_string).collect();
    assert!(open.is_empty(), "{} mutants survive:\n{open:#?}", open.len());
    let is_stale = |known: &&(&str, &str, &str)| !survivors.iter().any(|survivor| explains(known, survivor));
    let stale: Vec<_> = EXPLAINED.iter().filter(is_stale).collect();
    assert!(stale.is_empty(), "these mutants are found by now:\n{stale:#?}");
}
