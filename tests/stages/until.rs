//! `Run` stages that a condition ends.

use crate::offline;
use crate::present;
use engine::Engine;
use engine::core::compile::Options;
use engine::core::oracle::{Oracle, OracleTensor};
use engine::core::pipeline::RunStage;
use engine::core::stage;
use engine::runtime::session::Report;
use std::collections::HashMap;

/// Newton's steps to the root of 2, with a count and numbers drawn in each step.
fn text(stages: &str) -> String {
    format!(
        r#"(
            seed: 7,
            params: {{
                "x": (type: "f32[]", init: Constant(2)), "n": (type: "i32[]", state: true),
                "drawn": (type: "f32[3]", state: true),
            }},
            nodes: {{
                "next": "(x + 2.0 / x) / 2.0",
                "is_near": "abs(next - x) < 1e-3",
                "both": "reshape(is_near, shape=[1])",
                "count": "n + 1",
                "noise": "drawn + uniform(shape=[3])",
                "never": "x < 0.0",
            }},
            stages: {{{stages}}},
        )"#
    )
}

const STATE: &str = r#"state: {"x": "next", "n": "count", "drawn": "noise"}"#;
const SHOWN: &str = r#""end": Run(outputs: ["x", "n", "drawn"])"#;

fn runs(stages: &str) -> Vec<Report> {
    let devices = [present::cpu(1), present::cpu(2)].into_iter().chain(present::gpus().iter().cloned());
    let run = |device| {
        let mut session = offline::session(&text(stages), device, Options::default());
        session.run_stages(None, &mut |_| {}).unwrap()
    };
    devices.map(run).collect()
}

fn values(report: &Report) -> Vec<Vec<f64>> {
    ["x", "n", "drawn"].map(|name| report.outputs[name].values.to_f64()).to_vec()
}

/// The differences are 0.5, 0.083, 0.0025 and 2e-6: the fourth step is the last, and it counts.
#[test]
fn a_condition_ends_the_steps() {
    let until =
        runs(&format!(r#""go": Run(steps: 50, until: "is_near", {STATE}, outputs: ["is_near"]), {SHOWN}"#));
    let whole = runs(&format!(r#""go": Run(steps: 4, {STATE}), {SHOWN}"#));
    for (until, whole) in until.iter().zip(&whole) {
        assert_eq!(values(until), values(whole));
        assert_eq!((until.stages[0].steps, until.outputs["n"].values.to_f64()), (4, vec![4.0]));
        assert_eq!(until.outputs["is_near"].values.to_f64(), [1.0]);
    }
}

#[test]
fn steps_end_by_their_number_where_the_condition_never_holds() {
    for report in runs(&format!(r#""go": Run(steps: 6, until: "never", {STATE}), {SHOWN}"#)) {
        assert_eq!((report.stages[0].steps, report.outputs["n"].values.to_f64()), (6, vec![6.0]));
    }
}

/// Each trip of a `Repeat` begins anew, at a step number of its own.
#[test]
fn trips_end_each_by_itself() {
    let turns = |until: &str| {
        format!(
            r#""turns": Repeat(stages: ["go"], times: 3), "go": Run(steps: 5, {until} {STATE}, outputs: []), {SHOWN}"#
        )
    };
    for report in runs(&turns(r#"until: "is_near","#)) {
        // Four steps of the first trip, and one of each other trip.
        assert_eq!(report.outputs["n"].values.to_f64(), [6.0]);
    }
    for report in runs(&turns("")) {
        assert_eq!(report.outputs["n"].values.to_f64(), [15.0]);
    }
}

/// A step behind the end changes nothing, so it does not matter when a device looks.
#[test]
fn steps_behind_the_end_change_no_state() {
    let stages = format!(r#""go": Run(steps: 50, until: "is_near", {STATE})"#);
    let program = Engine::new().read("until.ron", &text(&stages)).unwrap();
    let stage: &RunStage = program.pipeline.stages.iter().find_map(|stage| stage.get()).unwrap();
    let graph = stage::running(&program.pipeline, stage, &program.registry).unwrap();
    assert!(graph.to_string().contains("state ended = "), "{graph}");
    let mut inputs: HashMap<String, OracleTensor> = graph
        .inputs()
        .filter(|(id, _)| graph.nodes[*id].name().as_ref() != "step")
        .map(|(id, _)| {
            let ty = &graph.nodes[id].outputs[0].ty;
            let first = if graph.nodes[id].name().as_ref() == "x" { 2.0 } else { 0.0 };
            let values = vec![first; ty.numel()];
            (graph.nodes[id].name().to_string(), OracleTensor::new(ty.dtype, &ty.extents(), &values))
        })
        .collect();
    let mut before = vec![];
    for step in 0..9 {
        let run = Oracle::new(&program.registry).run(&graph, &inputs, 7, step).unwrap();
        let after: Vec<Vec<f64>> = ["x", "n", "drawn"].map(|name| run.state[name].to_f64()).to_vec();
        assert_eq!(run.state["ended"].int(0), i64::from(step >= 3), "step {step}");
        assert_eq!(after == before, step > 3, "step {step}");
        before = after;
        inputs.extend(run.state.into_iter().map(|(name, value)| (name.to_string(), value)));
    }
}

#[test]
fn what_is_no_truth_value_ends_nothing() {
    for (node, why) in [
        ("n", "`until` is one truth value, `n` is i32[]"),
        ("both", "`until` is one truth value, `both` is bool[1]"),
        ("far", "no node is called `far`"),
    ] {
        let text = text(&format!(r#""go": Run(steps: 3, until: "{node}", {STATE})"#));
        let error = Engine::new().read("until.ron", &text).expect_err(node).to_string();
        assert!(error.contains(why), "{error}");
    }
}
