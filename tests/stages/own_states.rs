//! Optimizers of several stages that train the same parameters.

use std::path::Path;
use std::sync::atomic::Ordering;

use engine::runtime::checkpoint::Checkpoint;
use engine::runtime::session::{Event, Inspection};

use super::*;

/// Two losses with constant gradients: 3 and 1 of the first by `w` and `v`, -3 of the second by `w`.
fn text(stages: &str) -> String {
    let text = r#"(
        name: "slopes",
        data: {"n": (source: "numbers", n_train: 8, n_test: 1)},
        params: {"w": (type: "f32[]", init: 1), "v": (type: "f32[]", init: 1)},
        nodes: {"up": "3.0 * w + v", "down": "-3.0 * w"},
        stages: {STAGES "after": Run(outputs: ["w", "v"])},
    )"#;
    text.replace("STAGES", stages)
}

/// A training of so many steps.
fn train(name: &str, loss: &str, steps: usize, more: &str) -> String {
    format!(
        r#""{name}": Train(data: "n.train", batch: 1, epochs: 9, max_steps: {steps}, loss: "{loss}", {more}),"#
    )
}

const ADAM: &str = "optimizer: Adam(lr: 0.01, eps: 1e-12)";

/// The parameters after all stages.
fn ends(stages: &str) -> [f64; 2] {
    let report = run(&text(stages)).unwrap();
    ["w", "v"].map(|name| report.outputs[name].values.to_f64()[0])
}

fn assert_near(found: [f64; 2], expected: [f64; 2]) {
    let is_near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6);
    assert!(is_near, "{found:?} instead of {expected:?}");
}

/// By a constant gradient, each step of Adam has the size of the rate. Moments of an earlier stage would be divided by
/// the corrections of first steps.
#[test]
fn a_later_training_starts_at_zero() {
    for more in [ADAM.to_owned(), format!("accumulate: 2, {ADAM}")] {
        let stages = train("first", "up", 4, &more) + &train("second", "up", 1, &more);
        assert_near(ends(&stages), [0.95, 0.95]);
    }
    let three = ["first", "second", "third"].map(|name| train(name, "up", 2, ADAM)).concat();
    assert_near(ends(&three), [0.94, 0.94]);
}

/// As with two optimizers in PyTorch: the steps of one undo those of the other.
#[test]
fn trainings_of_one_parameter_take_turns() {
    let parts = train("one", "up", 4, ADAM) + &train("other", "down", 4, ADAM);
    for steps in [1, 2, 4] {
        let turns = format!(
            r#""turns": Repeat(stages: [(stage: "one", steps: {steps}), (stage: "other", steps: {steps})], times: 4),"#
        );
        assert_near(ends(&(parts.clone() + &turns)), [1.0, 0.96]);
    }
}

/// Both optimizers have a state called `velocity`.
#[test]
fn different_optimizers_share_no_state() {
    let first = train("first", "up", 4, "optimizer: RMSprop(lr: 0.01, momentum: 0.9)");
    let [w, v] = ends(&first);
    assert!((w - 0.30336908).abs() < 1e-6, "{w}");
    let stages = first + &train("second", "up", 1, "optimizer: Momentum(lr: 0.01)");
    assert_near(ends(&stages), [w - 0.03, v - 0.01]);
}

/// The names of all tensors of a file that the pipeline writes last.
fn saved(stages: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    run(&text(&format!(r#"{stages} "save": Save(path: {path:?}),"#))).unwrap();
    let mut names: Vec<String> = Checkpoint::read(&path).unwrap().tensors.into_keys().collect();
    names.retain(|name| name.ends_with(".m") || name.ends_with(".v") || name.ends_with(".velocity"));
    names.sort_unstable();
    names
}

#[test]
fn a_file_has_the_states_of_the_stage_before_it() {
    let alone = train("first", "up", 1, ADAM);
    assert_eq!(saved(&alone), ["v.m", "v.v", "w.m", "w.v"]);
    // The second stage trains `w` alone.
    let second = train("second", "down", 1, ADAM);
    assert_eq!(saved(&second), ["w.m", "w.v"]);
    assert_eq!(saved(&(alone.clone() + &second)), ["second.w.m", "second.w.v"]);
    assert_eq!(saved(&(second.clone() + &alone)), ["first.w.m", "first.w.v", "v.m", "v.v"]);
    let momentum = train("third", "up", 1, "optimizer: Momentum(lr: 0.01)");
    assert_eq!(saved(&(alone + &second + &momentum)), ["v.velocity", "w.velocity"]);
}

/// Runs until the event of that number. Returns the parameters, the number of events, and whether the run was cancelled.
fn run_until(text: &str, resume: Option<&Path>, stop_at: usize) -> (Vec<f64>, usize, bool) {
    let mut session = session(text, Options::default());
    session.inspect(Inspection { progress_every: Some(1), ..Inspection::default() });
    let (stop, mut n_events) = (session.cancel_flag(), 0);
    let ended = session.run_stages(resume, &mut |event| {
        if let Event::Progress { .. } | Event::Trip { .. } | Event::EpochDone { .. } = event {
            n_events += 1;
            stop.fetch_or(n_events == stop_at, Ordering::Relaxed);
        }
    });
    let is_cancelled = matches!(ended, Err(SessionError::Interrupted { .. }));
    assert!(is_cancelled || ended.is_ok(), "{ended:?}");
    let state = session.parameters().unwrap();
    let values = ["w", "v"].map(|name| state[name].to_f64()[0]);
    (values.into(), n_events, is_cancelled)
}

/// A run is cancelled at each of its events, in the first training, in the second, and between their turns.
#[test]
fn a_resumed_run_goes_on_with_the_states_of_its_stages() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    let training = |name: &str, loss: &str| {
        train(name, loss, 12, &format!("optimizer: Adam(lr: 0.01), checkpoint: (path: {path:?})"))
    };
    let both = training("one", "up") + &training("other", "down");
    let turns =
        r#""turns": Repeat(stages: [(stage: "one", steps: 3), (stage: "other", steps: 2)], times: 9),"#;
    for stages in [both.clone(), both + turns] {
        let text = text(&stages);
        let (whole, n_events, _) = run_until(&text, None, usize::MAX);
        let mut n_resumed = 0;
        for stop_at in 1..n_events {
            let (mut found, _, is_cancelled) = run_until(&text, None, stop_at);
            if is_cancelled {
                (found, ..) = run_until(&text, Some(&path), usize::MAX);
                n_resumed += 1;
            }
            assert_eq!(found, whole, "stopped at {stop_at}");
        }
        assert!(n_resumed >= 20, "{n_resumed}");
    }
}
