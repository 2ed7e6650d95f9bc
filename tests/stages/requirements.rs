//! Conditions that a graph states, and groups of tensors that its calls hand on.

use crate::offline;
use crate::present;
use crate::refused;
use engine::core::compile::Options;
use engine::runtime::device::Device;
use std::sync::Arc;

fn ways() -> Vec<(Arc<dyn Device>, bool)> {
    let gpus = present::gpus().iter().map(|gpu| (Arc::clone(gpu), true));
    [(present::cpu(1), true), (present::cpu(2), false)].into_iter().chain(gpus).collect()
}

/// The first numbers of all outputs, or the error of the run.
fn run(text: &str, (device, fuse): (Arc<dyn Device>, bool)) -> Result<Vec<f64>, String> {
    let options = Options { fuse, ..Options::default() };
    let report = offline::session(text, device, options).run_stages(None, &mut |_| {});
    let outputs = report.map_err(|error| error.to_string())?.outputs;
    Ok(outputs.values().flat_map(|output| output.values.to_f64()).collect())
}

#[test]
fn the_first_false_element_ends_the_step_and_states_stay() {
    let text = r#"(
        params: {"n": (type: "f32[4, 2]", init: Constant(1), state: true)},
        nodes: {
            "rows_are_small": "require(n, all(n < WIDE, axis=1))",
            "all_are_small": "require(rows_are_small * GROWTH, sum(n) < MOST)",
        },
        stages: {"go": Run(steps: 3, state: {"n": "all_are_small"}, outputs: ["n"])},
    )"#;
    let growth = "reshape(arange(stop=4, dtype=f32) + 1.0, shape=[4, 1])";
    let text = text.replace("GROWTH", growth);
    for way in ways() {
        let sound = text.replace("WIDE", "100.0").replace("MOST", "1000.0");
        assert_eq!(run(&sound, way.clone()).unwrap(), [1., 1., 4., 4., 9., 9., 16., 16.]);
        let error = run(&text.replace("WIDE", "9.0").replace("MOST", "1000.0"), way.clone()).unwrap_err();
        assert!(error.contains("`rows_are_small`: the condition at position 2 does not hold"), "{error}");
        let error = run(&text.replace("WIDE", "100.0").replace("MOST", "20.0"), way).unwrap_err();
        assert!(error.contains("`all_are_small`: the condition at position 0 does not hold"), "{error}");
    }
}

#[test]
fn gradients_pass_through_a_requirement() {
    let text = r#"(
        params: {"w": (type: "f32[3]", init: Constant(2))},
        nodes: {"sound": "require(w, w > 0.0)", "loss": "sum(sound * sound)"},
        stages: {"go": Run(outputs: ["d.w"], loss: "loss")},
    )"#;
    for way in ways() {
        assert_eq!(run(text, way).unwrap(), [4.0, 4.0, 4.0]);
    }
}

#[test]
fn a_condition_of_other_axes_is_refused() {
    let text = r#"(
        params: {"w": "f32[3, 2]"},
        nodes: {"sound": "require(w, sum(w, axis=0) > 0.0)"},
        stages: {"go": Run(outputs: ["sound"])},
    )"#;
    let error = refused(text);
    assert!(error.contains("`require` of f32[3, 2] under bool[2]"), "{error}");
    assert!(error.contains("a condition has the first axes of the tensor"), "{error}");
}

const GROUPS: &str = r#"
    functions: {
        "parts": (inputs: ["x"], outputs: {"low": "x - 1.0", "high": "x + 1.0"}),
        "between": (
            inputs: ["y", "low", "high"], attrs: {"how": Choice("middle", "width")},
            output: "when(how == \"width\", high - low, (low + high) * 0.5) + y",
        ),
        "Pair": (
            inputs: [], params: {"low": (type: "f32[2]", init: Constant(3)), "high": (type: "f32[2]", init: Constant(5))},
            outputs: {"low": "low", "high": "high"},
        ),
    },
"#;

#[test]
fn a_group_hands_all_results_on() {
    let text = format!(
        r#"({GROUPS}
            params: {{"w": (type: "f32[2]", init: Constant(2)), "own.low": "f32[2]", "own.high": (type: "f32[2]", init: 8)}},
            layers: {{"pair": "Pair()"}},
            nodes: {{
                "p": "parts(w)",
                "q": "pair()",
                "of_node": "between(w, p.*)",
                "of_call": "between(w, parts(w * 2.0).*, how=width)",
                "of_layer": "between(w, pair.*, how=\"width\")",
                "of_call_of_layer": "between(w, q.*)",
                "of_names": "between(w, own.*)",
            }},
            stages: {{
                "move": Run(state: {{"own.*": "p.*"}}),
                "go": Run(outputs: ["of_node", "of_call", "of_layer", "of_call_of_layer", "of_names", "own.low", "own.high"]),
            }},
        )"#
    );
    for way in ways() {
        let found = run(&text, way).unwrap();
        assert_eq!(found, [4., 4., 4., 4., 4., 4., 6., 6., 4., 4., 1., 1., 3., 3.]);
    }
}

#[test]
fn groups_that_do_not_fit_are_refused() {
    let with = |nodes: &str, stage: &str| {
        refused(&format!(
            r#"({GROUPS} params: {{"w": "f32[2]", "own.low": "f32[2]", "own.middle": "f32[2]"}}, nodes: {{"p": "parts(w)", {nodes}}},
                stages: {{"go": Run({stage})}})"#
        ))
    };
    let cases = [
        (with(r#""y": "between(w, none_such.*)""#, r#"outputs: ["y"]"#), "`none_such.*` stands for nothing"),
        (with(r#""y": "w + p.*""#, r#"outputs: ["y"]"#), "`.*` stands for several tensors"),
        (with(r#""y": "between(p.*)""#, r#"outputs: ["y"]"#), "`between`"),
        (with(r#""y": "between(w, p.*, how=\"high\")""#, r#"outputs: ["y"]"#), "`how` must be"),
        (with("", r#"state: {"other.*": "p.*"}"#), "no parameter lies below `other`"),
        (with("", r#"state: {"own.*": "p.*"}"#), "no node is called `p.middle`"),
    ];
    for (error, wanted) in cases {
        assert!(error.contains(wanted), "{wanted}:\n{error}");
    }
}
