//! Learning rates and groups of parameters, from their text to their kernels.

use super::*;

/// A weight whose gradient is 1, so that a step changes it by the learning rate, and a metric that never improves.
fn sliding(train: &str) -> String {
    let text = r#"(
        name: "sliding", seed: 3,
        data: {"rows": (source: "numbers", n_train: 32, n_test: 8)},
        inputs: {"row": (type: "i32[B]", from: "rows.number")},
        params: {"w": (type: "f32[]", init: 0)},
        nodes: {"ones": "cast(row, dtype=f32) * 0.0 + 1.0", "loss": "mean(ones * w)", "flat": "mean(ones)"},
        stages: {
            "train": Train(
                data: "rows.train", loss: "loss", monitor: Min("flat"),
                evaluate: Evaluate(data: "rows.test", batch: 8, metrics: ["flat"]), TRAIN
            ),
            "after": Run(outputs: ["w"]),
        },
    )"#;
    text.replace("TRAIN", train)
}

fn weight(report: &Report) -> f64 {
    report.outputs["w"].values.to_f64()[0]
}

const PLATEAU: &str = "optimizer: Sgd(lr: Plateau(start: 1, factor: 0.5, patience: 1))";

/// The second epoch without a better metric halves the rate, so epochs have the rates 1, 1, 1, ½, ½, ¼, ¼, ⅛.
#[test]
fn a_plateau_lowers_the_rate_between_epochs() {
    for (batch, accumulate, steps) in [(32, 1, 1.0), (8, 2, 2.0)] {
        let train = format!("batch: {batch}, accumulate: {accumulate}, epochs: 8, {PLATEAU}");
        let mut notes = vec![];
        let report = session(&sliding(&train), Options::default()).run_stages(None, &mut |event| {
            if let engine::runtime::session::Event::Note(note) = event {
                notes.push((*note).to_owned());
            }
        });
        assert_eq!(weight(&report.unwrap()), -steps * (3.0 + 1.0 + 0.5 + 0.125));
        let notes: Vec<&String> = notes.iter().filter(|note| note.contains("rate")).collect();
        let told = |rate: &str| format!("the learning rate `lr` is {rate} from here on");
        assert_eq!(notes, [&told("0.5"), &told("0.25"), &told("0.125")]);
    }
}

#[test]
fn a_resumed_plateau_goes_on_equally() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    // 4 steps are an epoch: the run stops within an epoch, before a change of the rate, and after one.
    for max_steps in [3, 7, 8, 12, 13, 20] {
        let train = |max_steps: usize| {
            format!("batch: 8, epochs: 8, max_steps: {max_steps}, {PLATEAU}, checkpoint: (path: {path:?})")
        };
        let whole = run(&sliding(&train(32))).unwrap();
        run(&sliding(&train(max_steps))).unwrap();
        let rest = session(&sliding(&train(32)), Options::default()).run_stages(Some(&path), &mut |_| {});
        assert_eq!(weight(&rest.unwrap()), weight(&whole), "after {max_steps} steps");
    }
    let other =
        sliding("batch: 8, epochs: 8, optimizer: Sgd(lr: Plateau(1), groups: [(params: \"w\", lr: 1)])");
    assert_eq!(weight(&run(&other).unwrap()), -32.0);
    let error = session(&other, Options::default()).run_stages(Some(&path), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("the tensors do not match the graph"), "{error}");
}

#[test]
fn an_expression_of_the_step_is_a_rate() {
    let train = |lr: &str| format!("batch: 8, epochs: 2, optimizer: Sgd(lr: {lr})");
    let found = weight(&run(&sliding(&train(r#""0.5 * minimum(1.0, (step + 1) / 4.0)""#))).unwrap());
    assert_eq!(found, -0.5 * (0.25 + 0.5 + 0.75 + 5.0));
    let text = sliding(&train(r#""warm(step, n=N)""#)).replace(
        "nodes: {",
        r#"dims: {"N": 4}, functions: {
            "warm": (inputs: ["s"], attrs: {"n": 1}, nodes: {"share": "(s + 1) / n"}, output: "minimum(share, 1.0)"),
        },
        nodes: {"#,
    );
    assert_eq!(weight(&run(&text).unwrap()), -(0.25 + 0.5 + 0.75 + 5.0));
}

/// Both gradients are 1. The momentum of a group's own optimizer is 1, 3/2, 7/4 and 15/8, its decay that of its settings.
#[test]
fn a_group_may_have_an_optimizer_of_its_own() {
    let text = |batch: usize, optimizer: &str| {
        let text = r#"(
            data: {"rows": (source: "numbers", n_train: 32, n_test: 8)},
            inputs: {"row": (type: "i32[B]", from: "rows.number")},
            params: {"a": (type: "f32[1]", init: 0), "b": (type: "f32[1]", init: 0), "c": (type: "f32[1]", init: 1)},
            nodes: {
                "zero": "0.0 * mean(cast(row, dtype=f32))",
                "loss": "sum(a + b) + zero + 0.0 * sum(c)",
            },
            stages: {
                "train": Train(data: "rows.train", batch: BATCH, loss: "loss", optimizer: OPTIMIZER),
                "after": Run(outputs: ["a", "b", "c"]),
            },
        )"#;
        text.replace("BATCH", &batch.to_string()).replace("OPTIMIZER", optimizer)
    };
    let optimizer = r#"Sgd(lr: 1, weight_decay: 0.5, decay_bias: false, groups: [
        (params: "b", optimizer: Momentum(lr: Steps(start: 0.5, factor: 0.5, every: 2), momentum: 0.5)),
        (params: "c", optimizer: Sgd(lr: 0.5, weight_decay: 1)),
    ])"#;
    for fuse in [true, false] {
        let mut session = session(&text(8, optimizer), Options { fuse, ..Options::default() });
        let report = session.run_stages(None, &mut |_| {}).unwrap();
        let value = |name: &str| report.outputs[name].values.to_f64()[0];
        assert_eq!(value("a"), -4.0);
        assert_eq!(value("b"), -(0.5 * (1.0 + 1.5) + 0.25 * (1.75 + 1.875)));
        assert_eq!(value("c"), 0.0625);
    }
}

/// A parameter behind `detach` or behind whole numbers is a constant: it does not decay, by any optimizer.
#[test]
fn parameters_that_no_gradient_reaches_stay() {
    for (optimizer, accumulate) in [("AdamW(lr: 0.1, weight_decay: 1)", 1), ("Lamb(lr: 0.1)", 2)] {
        let text = r#"(
            data: {"rows": (source: "numbers", n_train: 32, n_test: 8)},
            inputs: {"row": (type: "i32[B]", from: "rows.number")},
            params: {"a": (type: "f32[2]", init: 1), "b": (type: "f32[2]", init: 1), "c": (type: "f32[2]", init: 1)},
            nodes: {
                "zero": "0.0 * mean(cast(row, dtype=f32))",
                "loss": "sum(a * detach(b)) + sum(cast(cast(c, dtype=i32), dtype=f32)) + zero",
            },
            stages: {
                "train": Train(
                    data: "rows.train", batch: 8, accumulate: ACCUMULATE, loss: "loss", optimizer: OPTIMIZER,
                ),
                "after": Run(outputs: ["a", "b", "c"]),
            },
        )"#;
        let text = text.replace("ACCUMULATE", &accumulate.to_string()).replace("OPTIMIZER", optimizer);
        let report = run(&text).unwrap();
        let values = |name: &str| report.outputs[name].values.to_f64();
        assert!(values("a")[0] < 0.9, "{optimizer}: {:?}", values("a"));
        assert_eq!([values("b"), values("c")], [[1.0; 2], [1.0; 2]], "{optimizer}");
    }
}

/// Parameters of a group are updated in one kernel, however many they are. Without decay, its body is another.
#[test]
fn each_group_is_one_kernel() {
    let n_kernels = |groups: &str| {
        let text = r#"(
            data: {"rows": (source: "numbers", n_train: 32, n_test: 8)},
            inputs: {"row": (type: "i32[B]", from: "rows.number")},
            params: {
                "a.w": (type: "f32[3, 5]", init: 1), "a.bias": (type: "f32[5]", init: 1),
                "b.w": (type: "f32[5, 2]", init: 1), "b.bias": (type: "f32[2]", init: 1),
            },
            nodes: {
                "x": "broadcast_to(reshape(cast(row, dtype=f32), shape=[B, 1]), shape=[B, 3])",
                "loss": "mean(square(tanh(x @ a.w + a.bias) @ b.w + b.bias))",
            },
            stages: {
                "train": Train(
                    data: "rows.train", batch: 8, loss: "loss", optimizer: AdamW(lr: 1e-3, groups: [GROUPS]),
                ),
            },
        )"#;
        run(&text.replace("GROUPS", groups)).unwrap().stages[0].kernels_per_step
    };
    let plain = n_kernels("");
    assert_eq!(n_kernels(r#"(params: "*.bias")"#), plain);
    assert_eq!(n_kernels(r#"(params: "*.bias", weight_decay: 0)"#), plain + 1);
    // Groups that differ in a number alone share a kernel, too.
    assert_eq!(n_kernels(r#"(params: "*.bias", weight_decay: 0), (params: "b.w", lr: 1e-4)"#), plain + 1);
    // The gradient by `a.w` is a kernel of its own, and so is that by the hidden layer.
    assert!(n_kernels(r#"(params: "a.*", frozen: true)"#) < plain);
}
