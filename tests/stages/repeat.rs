//! Stages that run in turn, again and again.

use std::path::Path;
use std::sync::atomic::Ordering;

use engine::runtime::session::Event;

use super::*;

/// Two weights that learn from rows in trainings of their own, a counter of trips, and a condition on it.
fn text(stages: &str) -> String {
    let text = r#"(
        name: "again", seed: 4,
        data: {"rows": (source: "numbers", n_train: 40, n_test: 8)},
        inputs: {"row": (type: "i32[B]", from: "rows.number")},
        params: {
            "w": (type: "f32[]", init: 1.5), "v": (type: "f32[]", init: 0.5),
            "n": (type: "i32[]", state: true), "drawn": (type: "f32[]", state: true),
        },
        nodes: {
            "x": "cast(row, dtype=f32) / 40.0 + 1.0",
            "error": "mean(square(x * w - x * 2.0))",
            "other": "mean(square(x * v + x))",
            "next": "n + 1",
            "draw": "drawn * 2.0 + uniform(shape=[])",
            "is_late": "n >= 3",
            "is_odd": "step % 2 == 1",
        },
        stages: {STAGES},
    )"#;
    text.replace("STAGES", stages)
}

/// Two trainings, of 12 and of 15 steps, each with an evaluation after its epochs of 5 steps.
fn trainings(path: Option<&Path>) -> String {
    let evaluate = r#"Evaluate(data: "rows.test", batch: 8, metrics: ["error", "other"])"#;
    let checkpoint = path.map_or(String::new(), |path| format!("checkpoint: (path: {path:?}),"));
    format!(
        r#""one": Train(data: "rows.train", batch: 8, epochs: 3, max_steps: 12, loss: "error", {checkpoint}
                optimizer: Adam(lr: Cosine(start: 0.1)), evaluate: {evaluate}),
            "two": Train(data: "rows.train", batch: 8, epochs: 3, loss: "other", {checkpoint}
                optimizer: Momentum(lr: Plateau(start: 0.01, patience: 0)), evaluate: {evaluate},
                monitor: Min("other")),"#
    )
}

/// The reports of trainings without their times, and with the metrics of their own weights alone.
fn courses(report: &Report) -> Vec<(u64, f64, f64)> {
    let trained = report.stages.iter().filter(|stage| stage.kind == "train");
    let epochs = trained.flat_map(|stage| stage.epochs.iter().map(move |epoch| (stage, epoch)));
    let own = |name: &str| if name == "one" { "error" } else { "other" };
    epochs.map(|(stage, epoch)| (epoch.step, epoch.train_loss, epoch.metrics[own(&stage.name)])).collect()
}

/// However their steps alternate, two trainings of separate weights are those of each alone. Sums of their epochs, states
/// of their optimizers, rates and rows do not mix.
#[test]
fn trainings_that_take_turns_are_those_of_each_alone() {
    let alone = text(&trainings(None));
    let mut whole = session(&alone, Options::default());
    let expected = courses(&whole.run_stages(None, &mut |_| {}).unwrap());
    assert_eq!(expected.len(), 6);
    for (one, two) in
        [("steps: 1,", "steps: 1,"), ("steps: 3,", "steps: 4,"), ("", ""), ("steps: 99,", "steps: 2,")]
    {
        let turns = format!(
            r#"{} "turns": Repeat(stages: [(stage: "one", {one}), (stage: "two", {two})], times: 100),"#,
            trainings(None)
        );
        let mut session = session(&text(&turns), Options::default());
        let report = session.run_stages(None, &mut |_| {}).unwrap();
        assert_eq!(courses(&report), expected, "{one} {two}");
        let names: Vec<&str> = report.stages.iter().map(|stage| &*stage.name).collect();
        assert_eq!(names, ["one", "two", "turns"]);
        for weight in ["w", "v"] {
            let [found, expected] = [&session, &whole].map(|it| it.parameters().unwrap()[weight].clone());
            assert!(found == expected, "{weight} with {one} {two}");
        }
        // The last trip is the one in which the longer training ends.
        let expected = match (one, two) {
            ("", _) => 3,
            ("steps: 1,", _) => 15,
            ("steps: 3,", _) => 4,
            _ => 8,
        };
        assert_eq!(report.stages[2].steps, expected, "{one} {two}");
    }
}

#[test]
fn trips_end_by_their_number_or_by_a_condition() {
    for (repeat, trips, n, outputs) in [
        (r#"stages: ["count"], times: 5"#, 5, 10.0, 1),
        (r#"stages: ["count"], times: 5, until: "is_late""#, 2, 4.0, 1),
        (r#"stages: [(stage: "count", when: "is_odd")], times: 5"#, 5, 4.0, 1),
        (r#"stages: [(stage: "count", when: "is_late")], times: 5"#, 5, 0.0, 0),
    ] {
        let stages = format!(
            r#""turns": Repeat({repeat}), "count": Run(steps: 2, state: {{"n": "next"}}, outputs: ["next"]),
            "after": Run(outputs: ["n"]),"#
        );
        let mut told = 0;
        let mut session = session(&text(&stages), Options::default());
        let report = session
            .run_stages(None, &mut |event| {
                told += usize::from(matches!(event, Event::Outputs { stage: "count", .. }));
            })
            .unwrap();
        assert_eq!(report.stages[1].steps, trips, "{repeat}");
        assert_eq!((report.outputs["n"].values.to_f64()[0], told), (n, outputs), "{repeat}");
    }
}

/// An output that is a parameter, or equal to one, has the value that its stage has seen, although a later part updates it.
#[test]
fn outputs_of_a_part_are_those_of_its_last_trip() {
    let stages = format!(
        r#"{} "look": Run(outputs: ["w", "same", "copied", "squared"]),
            "turns": Repeat(stages: ["look", (stage: "one", steps: 1)], times: 3)"#,
        trainings(None)
    );
    let nodes = r#""same": "w + 0.0", "copied": "copy(w)", "squared": "w * w", "next""#;
    let mut session = session(&text(&stages).replace("\"next\"", nodes), Options::default());
    let outputs = session.run_stages(None, &mut |_| {}).unwrap().outputs;
    let seen = |name: &str| outputs[name].values.to_f64()[0] as f32;
    assert_eq!((seen("same"), seen("copied")), (seen("w"), seen("w")));
    assert_eq!(seen("squared"), seen("w") * seen("w"));
    assert_ne!(f64::from(seen("w")), session.parameters().unwrap()["w"].to_f64()[0]);
}

/// The factors of the loss of two trainings lie in one state.
#[test]
fn trainings_of_a_repeat_count_their_own_skipped_steps() {
    let trainings = trainings(None);
    let (one, two) = trainings.split_once("\"two\"").unwrap();
    let one = one.replacen("Train(", "Train(precision: F16(loss_scale: 65536), ", 1);
    let two = two.replacen("Train(", "Train(precision: F16(loss_scale: 1024), ", 1);
    let text = |stages: &str| text(stages).replace(r#""error": "mean("#, r#""error": "1e34 * mean("#);
    let alone = text(&format!("{one} \"two\"{two}"));
    let turns = r#""turns": Repeat(stages: [(stage: "one", steps: 2), (stage: "two", steps: 3)], times: 9)"#;
    let together = text(&format!("{one} \"two\"{two} {turns}"));
    let [alone, together] = [alone, together].map(|text| {
        let stages = run(&text).unwrap().stages;
        ["one", "two"].map(|name| stages.iter().find(|stage| stage.name == name).unwrap().loss_scale.clone())
    });
    assert_eq!(alone, together);
    let skipped = together.map(|scale| scale.unwrap().skipped);
    assert!(skipped[0] > 0 && skipped[0] < 5 && skipped[1] == 0, "{skipped:?}");
}

/// A `Run` that ended before the checkpoint was written has no outputs to show.
#[test]
fn a_resumed_repeat_says_whose_outputs_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("turns.ckpt");
    let trainings = trainings(Some(&path));
    let (one, _) = trainings.split_once("\"two\"").unwrap();
    let stages = format!(
        r#"{one} "look": Run(outputs: ["w"]),
            "turns": Repeat(stages: [(stage: "look", when: "is_first"), (stage: "one", steps: 9)], times: 2)"#
    );
    let text = text(&stages).replace(r#""is_late""#, r#""is_first": "step < 1", "is_late""#);
    let mut first = session(&text, Options::default());
    let stop = first.cancel_flag();
    let ended = first.run_stages(None, &mut |event| {
        stop.fetch_or(matches!(event, Event::Progress { .. }), Ordering::Relaxed);
    });
    assert!(matches!(ended, Err(SessionError::Interrupted { .. })), "{ended:?}");
    let mut notes = String::new();
    let resumed = session(&text, Options::default()).run_stages(Some(&path), &mut |event| {
        if let Event::Note(note) = event {
            notes += note;
        }
    });
    resumed.unwrap();
    assert!(notes.contains("stage `look` ended before the checkpoint was written"), "{notes}");
}

/// Steps of a `Run` stage are numbered on, so random nodes draw anew in each trip.
#[test]
fn a_repeated_stage_draws_on() {
    let drawn = |stages: &str| run(&text(stages)).unwrap().outputs["drawn"].values.to_f64();
    let draw = |steps: usize| {
        format!(
            r#""draw": Run(steps: {steps}, state: {{"drawn": "draw"}}, outputs: []), "end": Run(outputs: ["drawn"]),"#
        )
    };
    let whole = drawn(&draw(6));
    for (steps, times) in [(1, 6), (2, 3), (3, 2)] {
        let again = format!(r#""turns": Repeat(stages: ["draw"], times: {times}), {}"#, draw(steps));
        assert_eq!(drawn(&again), whole, "{steps} steps in {times} trips");
    }
}

/// A run is cancelled at each of its events. Resumed, it ends with the state and the epochs of the whole one.
#[test]
fn a_resumed_repeat_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("turns.ckpt");
    let stages = format!(
        r#"{} "inner": Repeat(stages: ["draw", (stage: "two", steps: 2)], times: 2),
            "draw": Run(steps: 2, state: {{"drawn": "draw", "n": "next"}}, outputs: []),
            "test": Evaluate(data: "rows.test", batch: 8, metrics: ["error"]),
            "turns": Repeat(stages: [(stage: "one", steps: 4), (stage: "inner", when: "is_odd"), "test"], times: 20),"#,
        trainings(Some(&path))
    );
    let text = text(&stages);
    let run = |resume: Option<&Path>, stop_at: usize| {
        let mut session = session(&text, Options::default());
        let (stop, mut n_events) = (session.cancel_flag(), 0);
        let ended = session.run_stages(resume, &mut |event| {
            if let Event::Progress { .. } | Event::Trip { .. } | Event::Evaluated { .. } = event {
                n_events += 1;
                stop.fetch_or(n_events == stop_at, Ordering::Relaxed);
            }
        });
        let state = session.parameters().unwrap();
        (ended, state, n_events)
    };
    let (ended, whole, n_events) = run(None, usize::MAX);
    let expected = courses(&ended.unwrap());
    assert!(n_events > 30 && whole["n"].to_f64()[0] > 8.0, "{n_events}");
    for stop_at in 1..n_events {
        let (ended, ..) = run(None, stop_at);
        let Err(SessionError::Interrupted { checkpoint }) = ended else { panic!("{stop_at}: {ended:?}") };
        assert_eq!(checkpoint.as_ref(), Some(&path), "{stop_at}");
        let (ended, state, _) = run(Some(&path), usize::MAX);
        let found = courses(&ended.unwrap());
        assert!(state == whole, "stopped at {stop_at}: {state:?}");
        // Epochs that ended before are not reported again.
        assert!(found.iter().all(|epoch| expected.contains(epoch)), "{stop_at}: {found:?}");
    }
}

#[test]
fn parts_that_cannot_be_are_refused() {
    let count = r#""count": Run(state: {"n": "next"}, outputs: ["next"])"#;
    for (repeat, expected) in [
        (r#"stages: ["conut"], times: 2"#, "there is no stage `conut`"),
        (r#"stages: ["turns"], times: 2"#, "stage `turns` is a part of itself"),
        (r#"stages: ["count", "count"], times: 2"#, "stage `count` is a part twice"),
        (r#"stages: [(stage: "count", steps: 3)], times: 2"#, "`steps` belongs to trainings"),
        (r#"stages: ["count"], times: 2, until: "n""#, "a condition is one truth value, `n` is i32[]"),
        (r#"stages: ["count"], times: 2, until: "far""#, "the condition `far` needs `row`"),
        (r#"stages: ["count"], times: 0"#, "`times`"),
        (r#"stages: ["count"]"#, "`times`"),
        (r#"stages: [3], times: 2"#, "a part"),
    ] {
        let far = r#""is_odd": "step % 2 == 1", "far": "max(row) > 3""#;
        let stages = format!(r#""turns": Repeat({repeat}), {count}"#);
        let found = refused(&text(&stages).replace(r#""is_odd": "step % 2 == 1""#, far));
        assert!(found.contains(expected), "{repeat}: {found}");
    }
    let restoring = |name: &str| {
        format!(
            r#""{name}": Train(data: "rows.train", batch: 8, loss: "error", optimizer: Sgd(lr: 0.1),
                evaluate: Evaluate(data: "rows.test", batch: 8, metrics: ["error"]),
                early_stop: (patience: 1, restore_best: true)),"#
        )
    };
    let both = format!(
        r#"{} {} "inner": Repeat(stages: ["b"], times: 1), "turns": Repeat(stages: ["a", "inner"], times: 2)"#,
        restoring("a"),
        restoring("b")
    );
    let found = refused(&text(&both));
    assert!(found.contains("`a` and `b` both restore the state of their best epoch"), "{found}");
    let circle = r#""a": Repeat(stages: ["b"], times: 1), "b": Repeat(stages: ["a"], times: 1)"#;
    let found = refused(&text(circle));
    assert!(found.contains("stage `a` is a part of `b`, which is a part of it"), "{found}");
}
