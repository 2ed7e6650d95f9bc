#![allow(clippy::unwrap_used)]

use super::*;
use crate::Engine;
use expect_test::expect;

#[test]
fn a_built_pipeline_is_a_file() {
    let mut p = PipelineBuilder::new("all").seed(3).set("numerics", word("Strict"));
    p.dim("D", 4);
    p.data("rows", "numbers", &[("n_train", 8.into())]);
    let x = p.input_from("x", "i32[B]", "rows.number");
    let w = p.param("w", "f32[D, D]", normal(0.0, 0.5));
    let n = p.state("n", "i32[]", zeros());
    p.layer("embed", op("Embedding").with("rows", 8).with("width", "D"));
    let h = op("embed").on(&x).dot(&w);
    let h = op("gelu").on(&h) * 2.0 - &h;
    let next = p.node("next", &n + 1.0);
    let loss = op("mean").on(&h * &h);
    let optimizer = word("Groups").with("groups", Value::map([("w", 0.5)]));
    let stage = train("rows.train", 4, &loss, optimizer).with("state", Value::map([("n", &next)]));
    p.stage("train", stage.with("metrics", [&loss]));
    expect![[r#"
        (
            name: "all",
            seed: 3,
            numerics: Strict,
            dims: {
                "D": 4,
            },
            data: {
                "rows": (source: "numbers", n_train: 8),
            },
            inputs: {
                "x": (type: "i32[B]", from: "rows.number"),
            },
            params: {
                "w": (type: "f32[D, D]", init: Normal(mean: 0.0, std: 0.5)),
                "n": (type: "i32[]", init: Zeros, state: true),
            },
            layers: {
                "embed": "Embedding(rows=8, width=D)",
            },
            nodes: {
                "value_1": "embed(x) @ w",
                "value_2": "(gelu(value_1) * 2.0) - value_1",
                "mean_1": "mean(value_2 * value_2)",
                "next": "n + 1.0",
            },
            stages: {
                "train": Train(data: "rows.train", batch: 4, loss: "mean_1", optimizer: Groups(groups: {"w": 0.5}), state: {"n": "next"}, metrics: ["mean_1"]),
            },
        )
    "#]]
    .assert_eq(&p.text());
}

/// The value of `y` for no inputs.
fn y_of(p: &PipelineBuilder) -> Vec<f64> {
    let engine = Engine::new();
    let program = engine.read("built.ron", &p.text()).unwrap();
    let device = crate::devices::open(crate::devices::Choice::Cpu, Some(1)).unwrap().device;
    let nowhere = engine_runtime::data::source::LoadContext::offline_in(".".as_ref());
    let options = engine_core::compile::Options::default();
    let session = engine.session(program, device, &nowhere, options, &mut |_| {}).unwrap();
    session.run(&["y".into()], &indexmap::IndexMap::new()).unwrap()["y"].to_f64()
}

#[test]
fn an_expression_that_is_used_twice_is_drawn_once() {
    let mut p = PipelineBuilder::new("draw");
    let drawn = op("uniform").with("shape", [3]);
    p.node("y", &drawn - drawn.clone());
    assert_eq!(y_of(&p), [0.0; 3]);
}

#[test]
fn operators_bind_as_they_do_in_rust() {
    let mut p = PipelineBuilder::new("binds");
    let two = p.param("two", "f32[]", constant(2.0));
    p.node("y", -(1.0 - (&two - 3.0) * 4.0) / (&two + 3.0));
    assert_eq!(y_of(&p), [-1.0]);
}

#[test]
fn names_are_quoted_and_mistakes_are_diagnosed() {
    let mut p = PipelineBuilder::new("a \"name\"\n");
    let x = p.input("x", "f32[B]");
    p.node("y", x.on(1.0));
    p.stage("save", Value::Int(3).with("path", "y"));
    let faults = Engine::new().read("built.ron", &p.text()).unwrap_err();
    assert!(faults.to_string().contains("there is no op `on`"), "{faults}");
    assert!(faults.to_string().contains("there is no stage `With`"), "{faults}");
    let codes = |p: &PipelineBuilder| {
        let faults = Engine::new().read("built.ron", &p.text()).unwrap_err();
        faults.codes().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(codes(&p), "E0105 E0201");
    let mut p = PipelineBuilder::new("twice").set("seed", "seven");
    let x = p.input("x", "f32[B, 4]");
    let w = p.param("x", "f32[3, 4]", zeros());
    let y = p.node("y", x.dot(&w));
    p.stage("fit", train("rows.train", 0, y, adam("fast")).with("epoch", 3));
    assert_eq!(codes(&p), "E0010 E0302 E0104 E0202 E0015 E0101 E0012");
}
