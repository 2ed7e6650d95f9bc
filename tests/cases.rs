#![allow(clippy::unwrap_used, missing_docs)]
//! Small pipelines that once gave wrong results, with the expected results.

use engine::Engine;
use engine::core::compile::Options;
use engine::core::pipeline::RunStage;
use std::sync::Arc;

#[path = "common/offline.rs"]
mod offline;
#[path = "common/present.rs"]
mod present;

/// The outputs of the last stage of a pipeline. They must be equal, fused and unfused, on every present device.
fn outputs(text: &str) -> Vec<(String, Vec<f64>)> {
    let pipeline = Engine::new().read("case.ron", text).unwrap();
    let run = pipeline.stages.last().unwrap().get::<RunStage>().expect("the last stage is a run");
    let names: Vec<String> = run.outputs.iter().map(|(name, _)| name.to_string()).collect();
    let mut found: Option<Vec<(String, Vec<f64>)>> = None;
    let cpus = [(true, present::cpu(1)), (true, present::cpu(2)), (false, present::cpu(2))];
    let gpus = present::gpus().iter().flat_map(|gpu| [(true, Arc::clone(gpu)), (false, Arc::clone(gpu))]);
    for (fuse, device) in cpus.into_iter().chain(gpus) {
        let place = format!("{}, fuse: {fuse}", device.info().name);
        let options = Options { fuse, ..Options::default() };
        let report = offline::session(text, device, options).run_stages(None, &mut |_| {}).unwrap();
        let now: Vec<_> =
            names.iter().map(|name| (name.clone(), report.outputs[name].values.to_f64())).collect();
        match &found {
            Some(found) => assert_eq!(*found, now, "{place}"),
            None => found = Some(now),
        }
    }
    found.unwrap()
}

/// Checks the outputs.
fn check(text: &str, expected: &[(&str, &[f64])]) {
    let found = outputs(text);
    let found: Vec<(&str, &[f64])> =
        found.iter().map(|(name, values)| (name.as_str(), &values[..])).collect();
    assert_eq!(found, expected);
}

// ---- A kernel computes nothing that it needs before.

#[test]
fn a_matmul_that_reads_the_sum_of_its_factor_does_not_compute_it() {
    check(
        r#"(
          params: {"x": (type: "f32[3, 3]", init: Constant(2))},
          nodes: {
            "added": "x @ x + sum(x, axis=0)", "mean": "(x @ x) / sum(x, axis=1, keepdim=true)",
            "gated": "relu(x @ x - sum(x, axis=0))", "factor": "sum(x, axis=0, keepdim=true) @ x",
          },
          stages: {"go": Run(outputs: ["added", "mean", "gated", "factor"])},
        )"#,
        &[("added", &[18.0; 9]), ("mean", &[2.0; 9]), ("gated", &[6.0; 9]), ("factor", &[36.0; 3])],
    );
}

// ---- Of pads of pads, the last one is outermost.

#[test]
fn a_pad_of_a_pad_has_a_fill_of_its_own() {
    let low = f64::NEG_INFINITY;
    check(
        r#"(
          params: {"p": (type: "f32[2, 2]", init: 5)},
          nodes: {
            "wide": "pad(p, before=[0, 1], after=[0, 1], value=0.0)",
            "rows": "pad(wide, before=[1, 0], after=[1, 0], value=1.0)",
            "low": "pad(wide, before=[1, 0], after=[0, 0], value=-inf)",
            "turned": "transpose(pad(p, before=[1, 0], after=[0, 0], value=2.0), axis0=0, axis1=1)",
            "three": "pad(pad(turned, before=[1, 0], after=[0, 0], value=3.0), before=[0, 1], after=[0, 0], value=2.0)",
            "computed": "pad(pad(p * 2.0, before=[0, 0], after=[0, 1], value=0.0), before=[1, 0], after=[0, 0], value=1.0)",
            "summed": "sum(pad(wide, before=[1, 0], after=[0, 0], value=1.0), axis=1)",
          },
          stages: {"go": Run(outputs: ["rows", "low", "three", "computed", "summed"])},
        )"#,
        &[
            ("rows", &[1.0, 1.0, 1.0, 1.0, 0.0, 5.0, 5.0, 0.0, 0.0, 5.0, 5.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
            ("low", &[low, low, low, low, 0.0, 5.0, 5.0, 0.0, 0.0, 5.0, 5.0, 0.0]),
            ("three", &[2.0, 3.0, 3.0, 3.0, 2.0, 2.0, 5.0, 5.0, 2.0, 2.0, 5.0, 5.0]),
            ("computed", &[1.0, 1.0, 1.0, 10.0, 10.0, 0.0, 10.0, 10.0, 0.0]),
            ("summed", &[4.0, 10.0, 10.0]),
        ],
    );
}

// ---- A kernel that writes in place still reads the old values.

#[test]
fn a_value_that_is_written_over_is_copied_before() {
    check(
        r#"(
          params: {"x": (type: "f32[4]", init: Ones)},
          nodes: {"s": "cumsum(x)", "a": "s * 10.0", "r": "reshape(s, shape=[2, 2])", "c": "cumsum(r, axis=1)"},
          stages: {"go": Run(outputs: ["a", "c"])},
        )"#,
        &[("a", &[10.0, 20.0, 30.0, 40.0]), ("c", &[1.0, 3.0, 3.0, 7.0])],
    );
    check(
        r#"(
          params: {
            "x": (type: "f32[1, 3]", init: Ones), "w": (type: "f32[3, 4]", init: Ones),
            "g": (type: "f32[4]", init: Constant(2)),
          },
          nodes: {"h": "x @ w", "gated": "g * h", "tokens": "reshape(h, shape=[1, 2, 2])"},
          stages: {"go": Run(outputs: ["gated", "tokens"])},
        )"#,
        &[("gated", &[6.0; 4]), ("tokens", &[3.0; 4])],
    );
}

#[test]
fn a_delay_line_hands_on_the_old_state() {
    for n in [1, 4, 300] {
        let text = r#"(
          params: {"x": (type: "f32[N]", init: Ones, state: true), "prev": (type: "f32[N]", state: true)},
          nodes: {"next": "x * 2.0", "p": "amax(prev + 0.0 * x)", "q": "amin(x + 0.0 * prev)"},
          stages: {"go": Run(steps: 3, state: {"prev": "x", "x": "next"}), "after": Run(outputs: ["p", "q"])},
        )"#;
        check(&text.replace('N', &n.to_string()), &[("p", &[4.0]), ("q", &[8.0])]);
    }
}

#[test]
fn states_may_change_places() {
    check(
        r#"(
          params: {"x": (type: "f32[2]", init: Ones, state: true), "y": (type: "f32[2]", init: Constant(5), state: true)},
          nodes: {"a": "x + 1.0", "b": "y * 2.0", "old": "x - y"},
          stages: {"go": Run(steps: 2, outputs: ["old"], state: {"x": "b", "y": "a"}), "after": Run(outputs: ["a", "b"])},
        )"#,
        // (1, 5), (10, 2), (4, 11)
        &[("a", &[5.0, 5.0]), ("b", &[22.0, 22.0])],
    );
}

// ---- Outputs show the values before the step's updates.

#[test]
fn outputs_do_not_alias_a_state() {
    for old in ["copy(x)", "reshape(x, shape=[2])", "x + 0.0", "x * 1.0"] {
        let text = r#"(
          params: {"x": (type: "f32[2]", init: Ones, state: true)},
          nodes: {"next": "x + 1.0", "old": "OLD"},
          stages: {"go": Run(steps: 2, outputs: ["old", "next", "x"], state: {"x": "next"})},
        )"#;
        check(&text.replace("OLD", old), &[("old", &[2.0; 2]), ("next", &[3.0; 2]), ("x", &[2.0; 2])]);
    }
}

// ---- Functions.

#[test]
fn random_nodes_of_a_function_are_independent() {
    let text = r#"(
      params: {"w": (type: "f32[64]", init: Ones)},
      functions: {
        "block": (inputs: ["x"], nodes: {"a": "rms_norm(uniform(shape=[64])) * x", "b": "uniform(shape=[64]) * x"},
                  output: "a + b"),
        "pair": (inputs: ["x"], nodes: {"a": "uniform(shape=[64]) * x", "b": "uniform(shape=[64]) * x"},
                 outputs: {"a": "a", "b": "b"}),
      },
      nodes: {"first": "pair(w)", "second": "pair(w)", "a": "first.a", "b": "first.b", "c": "second.a", "d": "second.b",
              "e": "uniform(shape=[64]) + 0.0", "f": "uniform(shape=[64]) * w + 0.0 * block(w)"},
      stages: {"go": Run(outputs: ["a", "b", "c", "d", "e", "f"])},
    )"#;
    let found = outputs(text);
    for (i, (a, x)) in found.iter().enumerate() {
        for (b, y) in &found[..i] {
            let n_equal = x.iter().zip(y).filter(|(x, y)| x == y).count();
            assert!(n_equal == 0, "{a} and {b} share {n_equal} numbers");
        }
    }
}

#[test]
fn training_through_functions_with_two_named_nodes() {
    let text = r#"(
      data: {"n": (source: "numbers", n_train: 10, n_test: 1)},
      params: {"w": (type: "f32[4]", init: Ones)},
      functions: {"f": (inputs: ["x"], nodes: {"a": "x * 2.0", "b": "x * 3.0"}, output: "a * b")},
      nodes: {"s": "f(w)", "twice": "f(f(w))", "loss": "sum(s)"},
      stages: {"train": Train(data: "n.train", batch: 10, epochs: 1, loss: "loss", optimizer: Sgd(lr: 0.1)),
               "after": Run(outputs: ["w", "s.a", "twice.1.b"])},
    )"#;
    // The gradient of the sum of 6 w² is 12 w.
    let w = 1.0 - f64::from(0.1f32) * 12.0;
    let found = outputs(text);
    for ((name, values), expected) in found.iter().zip([w, 2.0 * w, 3.0 * w]) {
        assert!(
            values.iter().all(|x| (x - expected).abs() < 1e-6),
            "{name} is {values:?} instead of {expected}"
        );
    }
}

// ---- Nodes that are fused into a scatter and also gathered from.

#[test]
fn a_scatter_gathers_from_a_tensor_that_it_also_computes() {
    check(
        r#"(
          params: {"rows": (type: "f32[2, 1]", init: Ones, state: true)},
          nodes: {
            "y": "reshape(clamp(rows + rows, min=-9.0, max=9.0), shape=[2])",
            "idx": "cast(clamp(y, min=0.0, max=1.0), dtype=i32)",
            "sum": "clamp(scatter_add(gather(y, idx, axis=-1), idx, y, axis=-1), min=-9.0, max=9.0)",
          },
          stages: {"go": Run(outputs: ["sum"])},
        )"#,
        // y is [2, 2], all indices are 1.
        &[("sum", &[2.0, 6.0])],
    );
}

/// Many paths lead to one map before a matmul's result: 2^48 here. Compiling must not follow each path.
#[test]
fn many_paths_to_one_map_compile_in_linear_time() {
    let links: String = (0..48).map(|i| format!(r#""a{}": "tanh(a{i}) * a{i}", "#, i + 1)).collect();
    let text = format!(
        r#"(
          params: {{
            "x": (type: "f32[2, 8]", init: 1),
            "w": (type: "f32[8, 2]", init: 1),
            "a0": (type: "f32[2, 2]", init: 0.5),
          }},
          nodes: {{{links} "y": "x @ w + a48"}},
          stages: {{"go": Run(outputs: ["y"])}},
        )"#
    );
    check(&text, &[("y", &[8.0; 4])]);
}

// ---- Numbers keep their digits, and have no more digits than their type.

#[test]
fn constants_combined_with_halves_are_halves() {
    // The half nearest to 0.1 is 0.0999755859375, and the one nearest to 0.3 is 0.300048828125.
    let text = r#"(
      params: {"x": (type: "TYPE[2]", init: 0.1), "nine": (type: "TYPE[1]", init: 9)},
      nodes: {"equal": "x == 0.1", "below": "x < 0.1", "rest": "nine % 0.3"},
      stages: {"go": Run(outputs: ["equal", "below", "rest"])},
    )"#;
    for (dtype, rest) in [("f16", 9.0 % 0.300_048_828_125), ("bf16", 9.0 % 0.300_781_25)] {
        let expected: [(&str, &[f64]); 3] = [("equal", &[1.0; 2]), ("below", &[0.0; 2]), ("rest", &[rest])];
        check(&text.replace("TYPE", dtype), &expected);
    }
}

// ---- Kernels without a text for a device are not made.

#[test]
fn attention_in_halves_goes_on_in_doubles() {
    let text = r#"(
      params: {
        "q": (type: "f64[1, 3, 4]"), "k": (type: "f64[1, 2, 4]"),
        "v": (type: "f32[1, 2, 4]", init: 3),
      },
      nodes: {
        "half": "attention(cast(q, dtype=f16), cast(k, dtype=f16), cast(v, dtype=f16))",
        "double": "attention(q, k, cast(v, dtype=f64))",
        "sum": "cast(half, dtype=f64) + double",
        "scaled": "attention(cast(q * 2.0, dtype=f32), cast(k + 1.0, dtype=f32), v * 2.0)",
      },
      stages: {"go": Run(outputs: ["sum", "scaled"])},
    )"#;
    check(text, &[("sum", &[6.0; 12]), ("scaled", &[6.0; 12])]);
}

// ---- Words.

/// `none` leaves a setting out. Where it is one of several words, it needs no quotes, as they do not.
#[test]
fn a_choice_may_be_none() {
    let text = r#"(
      params: {"x": (type: "f32[2, 1]", init: Ones), "t": (type: "i32[2]", state: true)},
      nodes: {"quoted": "cross_entropy(x, t, reduction=\"none\")", "bare": "cross_entropy(x, t, reduction=none)"},
      stages: {"go": Run(outputs: ["quoted", "bare"])},
    )"#;
    check(text, &[("quoted", &[0.0; 2]), ("bare", &[0.0; 2])]);
}
