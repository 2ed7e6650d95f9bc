//! State beside an optimizer, from checkpoints to evaluations.

use super::*;

/// A weight that learns to be 2, its average over steps, the number of steps, and a running mean of the rows.
fn averaged(train: &str) -> String {
    let text = r#"(
        name: "averaged", seed: 3,
        data: {"rows": (source: "numbers", n_train: 32, n_test: 8)},
        inputs: {"row": (type: "i32[B]", from: "rows.number")},
        params: {
            "w": (type: "f32[]", init: 1.5), "average": (type: "f32[]", state: true, init: 1.5),
            "n": (type: "i32[]", state: true), "mean": (type: "f32[]", state: true),
        },
        nodes: {
            "x": "cast(row, dtype=f32) / 32.0 + 1.0",
            "error": "mean(square(x * w - x * 2.0))",
            "average_error": "mean(square(x * average - x * 2.0))",
            "average_next": "average * 0.5 + w * 0.5",
            "n_next": "n + 1",
            "mean_next": "mean * 0.5 + mean(x) * 0.5",
        },
        stages: {
            "train": Train(
                data: "rows.train", loss: "error",
                state: {"average": "average_next", "n": "n_next", "mean": "mean_next"}, TRAIN
            ),
            "after": Run(outputs: ["w", "average", "n", "mean"]),
        },
    )"#;
    text.replace("TRAIN", train)
}

fn values(report: &Report) -> [f64; 4] {
    ["w", "average", "n", "mean"].map(|name| report.outputs[name].values.to_f64()[0])
}

/// A stage is measured on the state that the stages before it write, not on zeros.
#[test]
fn a_stage_is_measured_on_written_state() {
    let text = r#"(
        params: {
            "x": (type: "f32[4]", state: true), "n": (type: "i32[]", state: true), "y": (type: "f32[4]", state: true),
        },
        nodes: {"drawn": "x * 0.0 + 3.0", "next": "n + 1", "is_last": "next >= 2", "sum": "x + y"},
        stages: {
            "draw": Run(state: {"x": "drawn"}),
            "count": Run(steps: 9, until: "is_last", state: {"n": "next"}),
            "use": Run(outputs: ["sum"]),
            "later": Run(state: {"y": "drawn"}),
        },
    )"#;
    let mut session = offline::session(text, present::cpu(1), Options::default());
    let effort = engine::runtime::session::Effort { warmup: 1, steps: 2, at_once: 1, profiled: 0 };
    let measured = session.measure(Some("use"), effort).unwrap();
    assert_eq!(measured.iter().map(|stage| &*stage.name).collect::<Vec<_>>(), ["use"]);
    let state = session.parameters().unwrap();
    let first = ["x", "n", "y"].map(|name| state[name].to_f64()[0]);
    assert_eq!(first, [3.0, 2.0, 0.0]);
}

#[test]
fn evaluations_read_the_state_of_training() {
    for accumulate in [1, 2] {
        let train = format!(
            r#"batch: {}, accumulate: {accumulate}, epochs: 3, optimizer: Sgd(lr: 0.1),
            evaluate: Evaluate(data: "rows.test", batch: 8, metrics: ["error", "average_error"]),"#,
            32 / accumulate
        );
        let report = run(&averaged(&train)).unwrap();
        // The rows of `test` follow those of `train`.
        let x = |row: u32| f64::from(row) / 32.0 + 1.0;
        let train_square = (0..32).map(|row| x(row) * x(row)).sum::<f64>() / 32.0;
        let test_square = (32..40).map(|row| x(row) * x(row)).sum::<f64>() / 8.0;
        let (mut w, mut average) = (1.5, 1.5);
        for epoch in &report.stages[0].epochs {
            average = 0.5 * (average + w);
            w -= 0.1 * 2.0 * (w - 2.0) * train_square;
            for (metric, value) in [("error", w), ("average_error", average)] {
                let expected = (value - 2.0) * (value - 2.0) * test_square;
                let found = epoch.metrics[metric];
                assert!((found - expected).abs() < 1e-6, "{metric}: {found} instead of {expected}");
            }
        }
        let found = values(&report);
        for (found, expected) in found.into_iter().zip([w, average, 3.0]) {
            assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
        }
        // Of equal batches, the mean after each is that of the rows, up to what is left of the first value.
        if accumulate == 1 {
            let mean = (0..32).map(x).sum::<f64>() / 32.0 * (1.0 - 0.5f64.powi(3));
            assert!((found[3] - mean).abs() < 1e-6, "{found:?}");
        }
    }
}

/// A state that reads one of each batch sees its value before that batch, whether or not several batches make a step.
#[test]
fn states_see_each_other_before_the_batch() {
    let text = r#"(
        name: "linked",
        data: {"rows": (source: "numbers", n_train: 32, n_test: 8)},
        inputs: {"row": (type: "i32[B]", from: "rows.number")},
        params: {
            "w": (type: "f32[]", init: 1), "mean": (type: "f32[]", state: true), "last": (type: "f32[]", state: true),
            "older": (type: "f32[]", state: true), "total": (type: "f32[]", state: true),
            "n": (type: "f32[]", state: true),
        },
        nodes: {
            "x": "cast(row, dtype=f32) * 0.0 + 2.0",
            "error": "mean(x * w)",
            "mean_next": "mean * 0.5 + mean(x) * 0.5",
            "last_next": "copy(mean)",
            "older_next": "copy(last)",
            "total_next": "total + mean",
            "n_next": "n + 1.0",
        },
        stages: {
            "train": Train(
                data: "rows.train", loss: "error", batch: 8, accumulate: PARTS, optimizer: Sgd(lr: 0.1),
                state: {
                    "n": "n_next", "older": "older_next", "last": "last_next", "total": "total_next",
                    "mean": "mean_next",
                },
            ),
            "after": Run(outputs: ["mean", "last", "older", "total", "n"]),
        },
    )"#;
    for accumulate in [1u8, 2] {
        let report = run(&text.replace("PARTS", &accumulate.to_string())).unwrap();
        let found =
            ["mean", "last", "older", "total", "n"].map(|name| report.outputs[name].values.to_f64()[0]);
        assert_eq!(found, [1.875, 1.75, 1.5, 4.25, 4.0 / f64::from(accumulate)]);
    }
}

#[test]
fn checkpoints_carry_state_beside_an_optimizer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    for accumulate in [1, 2] {
        let train = |epochs: usize| {
            averaged(&format!(
                r#"batch: 8, accumulate: {accumulate}, epochs: {epochs}, optimizer: Adam(lr: 0.1),
                checkpoint: (path: {path:?}),"#
            ))
        };
        let whole = run(&train(4)).unwrap();
        run(&train(2)).unwrap();
        let resumed = session(&train(4), Options::default()).run_stages(Some(&path), &mut |_| {}).unwrap();
        assert_eq!(resumed.stages[0].epochs.len(), 2);
        assert_eq!(values(&resumed), values(&whole));
        assert_eq!(values(&whole)[2], 16.0 / accumulate as f64);
        assert_ne!(values(&whole)[3], 0.0);
    }
}

/// A value learns from a copy of itself, which a state takes over every third step.
#[test]
fn a_target_network_is_a_state() {
    let text = r#"(
        name: "target", seed: 3,
        data: {"rows": (source: "numbers", n_train: 32, n_test: 8)},
        inputs: {"row": (type: "i32[B]", from: "rows.number")},
        params: {"w": (type: "f32[]", init: 0.5), "target": (type: "f32[]", state: true, init: 0.25)},
        functions: {"value": (inputs: ["x", "w"], output: "x * w")},
        nodes: {
            "x": "cast(row, dtype=f32) / 32.0 + 1.0",
            "wanted": "detach(1.0 + value(x, target) * 0.9)",
            "error": "mean(square(value(x, w) - wanted))",
            "target_next": "where(step % 3 == 2, w, target)",
        },
        stages: {
            "train": Train(
                data: "rows.train", loss: "error", batch: 32, epochs: 8, optimizer: Sgd(lr: 0.1),
                state: {"target": "target_next"},
            ),
            "after": Run(outputs: ["w", "target"]),
        },
    )"#;
    let report = run(text).unwrap();
    let rows: Vec<f64> = (0..32).map(|row| f64::from(row) / 32.0 + 1.0).collect();
    let (mut w, mut target) = (0.5, 0.25);
    for step in 0..8 {
        let slope = |x: &f64| 2.0 * x * (x * w - (1.0 + 0.9 * x * target)) / 32.0;
        let slope: f64 = rows.iter().map(slope).sum();
        if step % 3 == 2 {
            target = w;
        }
        w -= 0.1 * slope;
    }
    for (name, expected) in [("w", w), ("target", target)] {
        let found = report.outputs[name].values.to_f64()[0];
        assert!((found - expected).abs() < 1e-6, "{name}: {found} instead of {expected}");
    }
}

/// The error grows from the first epoch on.
#[test]
fn the_state_of_the_best_epoch_has_all_states() {
    let train = r#"batch: 32, epochs: 9, optimizer: Sgd(lr: 1.0), monitor: Min("error"),
        early_stop: (patience: 2, restore_best: true),
        evaluate: Evaluate(data: "rows.test", batch: 8, metrics: ["error"]),"#;
    let report = run(&averaged(train)).unwrap();
    let end = report.stages[0].end.as_ref().unwrap();
    assert!(end.best.as_ref().unwrap().is_restored);
    assert_eq!((report.stages[0].epochs.len(), end.best.as_ref().unwrap().epoch), (3, 1));
    // After the first step, the average has seen the first weight alone.
    let [_, average, n, _] = values(&report);
    assert_eq!((average, n), (1.5, 1.0));
}

/// Updates that a program adds to a pipeline, as a layer with running statistics would.
#[test]
fn updates_of_a_pipeline_are_made_by_every_training() {
    let text = averaged("batch: 8, epochs: 2, optimizer: Sgd(lr: 0.1),")
        .replace(r#"state: {"average": "average_next", "n": "n_next", "mean": "mean_next"},"#, "")
        .replace(r#""x": "cast"#, r#""x": "mean * 0.0 + cast"#);
    let with_updates = |updates: &[(&str, &str)]| {
        let engine = Engine::new();
        let mut pipeline = engine.read("updates.ron", &text).unwrap();
        pipeline.updates = updates.iter().map(|(state, node)| ((*state).into(), (*node).into())).collect();
        let device = devices::open(Choice::Cpu, Some(2)).unwrap().device;
        let data = engine::runtime::data::source::LoadContext::offline_in("no/such/folder".as_ref());
        let session = engine.session(pipeline, device, &data, Options::default(), &mut |_| {});
        session.map(|mut session| values(&session.run_stages(None, &mut |_| {}).unwrap()))
    };
    let [_, average, n, mean] = with_updates(&[]).unwrap();
    assert_eq!((average, n, mean), (1.5, 0.0, 0.0));
    // The loss reads `mean`, and no `n`.
    let [_, average, n, mean] = with_updates(&[("mean", "mean_next"), ("n", "n_next")]).unwrap();
    assert_eq!((average, n), (1.5, 0.0));
    assert!(mean > 1.0 && mean < 2.0, "{mean}");
    let refused = with_updates(&[("w", "average_next")]).unwrap_err().to_string();
    assert!(refused.contains("`w` is no state, so it cannot be updated beside an optimizer"), "{refused}");
}
