//! Runs that are interrupted after any step. Resumed, they end as if they had never stopped.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::Program;
use engine::runtime::data::source::LoadContext;
use engine::runtime::session::{self, CompilingPlanner, Event, Inspection};

use super::*;

/// A weight that learns to be 2, in epochs of 5 steps, and counters of steps and of trips. The metric `off` is lowest
/// where the weight is 1.7, which is after the second epoch of `judged`.
fn text(stages: &str) -> String {
    let text = r#"(
        name: "interrupts", seed: 4,
        data: {"rows": (source: "numbers", n_train: 40, n_test: 8)},
        inputs: {"row": (type: "i32[B]", from: "rows.number")},
        params: {
            "w": (type: "f32[]", init: 1.5), "drawn": (type: "f32[]", state: true),
            "n": (type: "i32[]", state: true), "m": (type: "i32[]", state: true),
        },
        nodes: {
            "x": "cast(row, dtype=f32) / 40.0 + 1.0",
            "error": "mean(square(x * w - x * 2.0))",
            "off": "mean(abs(x * w - x * 1.7))",
            "draw": "drawn * 2.0 + uniform(shape=[])",
            "next": "n + 1",
            "is_fourth": "next % 4 == 0",
            "more": "m + 1",
        },
        stages: {STAGES},
    )"#;
    text.replace("STAGES", stages)
}

/// Ends early, by rates that fall, in the state of the best epoch.
fn judged(dir: &Path) -> String {
    let [latest, best] = ["latest.ckpt", "best.ckpt"].map(|name| dir.join(name));
    format!(
        r#""train": Train(data: "rows.train", batch: 8, epochs: 6, loss: "error",
            optimizer: Sgd(lr: Plateau(start: 0.01, patience: 0)),
            evaluate: Evaluate(data: "rows.test", batch: 8, metrics: ["off"]), monitor: Min("off"),
            early_stop: (patience: 2, restore_best: true), checkpoint: (path: {latest:?}, best: {best:?})),"#
    )
}

/// A training of 10 steps, a `Run` whose trips end after 3 steps or by their condition, and a counter of trips.
fn parts(path: &Path) -> String {
    format!(
        r#""train": Train(data: "rows.train", batch: 8, epochs: 2, loss: "error", optimizer: Sgd(lr: 0.01),
                checkpoint: (path: {path:?})),
            "count": Run(steps: 3, until: "is_fourth", state: {{"n": "next", "drawn": "draw"}}, outputs: []),
            "tally": Run(state: {{"m": "more"}}, outputs: []),"#
    )
}

/// A step that an event reports: its stage and its number.
type Step = (String, u64);

/// How a run has ended.
struct Ran {
    ended: Result<Report, SessionError>,
    /// The steps of trainings, and those of `Run` stages, in order.
    steps: Vec<Step>,
    /// The epochs: the loss and the metrics of each.
    epochs: Vec<(u64, f64, IndexMap<String, f64>)>,
    state: IndexMap<String, HostTensor>,
}

/// Runs a text, and cancels the run after the `stop_at`th of its steps.
fn run_until(text: &str, resume: Option<&Path>, stop_at: usize) -> Ran {
    let engine = Engine::new();
    let Program { pipeline, registry } = engine.read("interrupts.ron", text).unwrap();
    let pipeline = Arc::new(pipeline);
    let data = LoadContext::offline_in(Path::new("no/such/folder"));
    let sets = session::load_data(&pipeline, &engine.sources, &data, &mut |_| {}).unwrap();
    let device = devices::open(Choice::Cpu, Some(1)).unwrap().device;
    let options = Options { device: device.model(), ..Options::default() };
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry, options);
    let planner = planner.keeping(vec!["next".into(), "more".into()]);
    let mut session = Session::new(pipeline, Arc::new(planner), device, sets).unwrap();
    session.inspect(Inspection { every: Some(1), progress_every: Some(1), ..Inspection::default() });
    let stop = session.cancel_flag();
    let (mut steps, mut epochs) = (vec![], vec![]);
    let ended = session.run_stages(resume, &mut |event| match event {
        Event::Kept { stage, step, .. } | Event::Progress { stage, step, .. } => {
            steps.push(((*stage).to_string(), *step));
            stop.fetch_or(steps.len() == stop_at, Ordering::Relaxed);
        }
        Event::EpochDone { report, .. } => {
            epochs.push((report.epoch, report.train_loss, report.metrics.clone()));
        }
        _ => {}
    });
    Ran { ended, steps, epochs, state: session.parameters().unwrap() }
}

fn run_whole(text: &str, resume: Option<&Path>) -> Ran {
    let ran = run_until(text, resume, usize::MAX);
    assert!(ran.ended.is_ok(), "{:?}", ran.ended);
    ran
}

/// Interrupts a run after each of its steps, and resumes it: no step and no epoch is lost or done twice.
fn expect_the_same_bits(text: &str, path: &Path) -> Ran {
    let whole = run_whole(text, None);
    for stop_at in 1..=whole.steps.len() {
        let mut ran = run_until(text, None, stop_at);
        let Err(SessionError::Interrupted { checkpoint }) = ran.ended else { panic!("{:?}", ran.ended) };
        assert_eq!((checkpoint.as_deref(), ran.steps.len()), (Some(path), stop_at));
        let rest = run_whole(text, Some(path));
        ran.steps.extend(rest.steps);
        ran.epochs.extend(rest.epochs);
        assert_eq!(ran.steps, whole.steps, "stopped after step {stop_at}");
        assert_eq!(ran.epochs, whole.epochs, "stopped after step {stop_at}");
        assert!(rest.state == whole.state, "stopped after step {stop_at}: {:?}", rest.state);
    }
    whole
}

/// The epoch of the last step is evaluated and judged, and the learning rate falls.
#[test]
fn an_interrupted_training_ends_its_epochs() {
    let dir = tempfile::tempdir().unwrap();
    let whole = expect_the_same_bits(&text(&judged(dir.path())), &dir.path().join("latest.ckpt"));
    assert_eq!((whole.steps.len(), whole.epochs.len()), (20, 4));
    let end = whole.ended.unwrap().stages[0].end.clone().unwrap();
    assert!(end.best.is_some_and(|best| best.epoch == 2 && best.is_restored));
}

/// A run is killed after it has written its best state. From an earlier state it goes on to the same step, and is
/// interrupted there.
#[test]
fn a_run_is_interrupted_where_its_best_state_lies() {
    let dir = tempfile::tempdir().unwrap();
    let [latest, earlier] = ["latest.ckpt", "earlier.ckpt"].map(|name| dir.path().join(name));
    let text = text(&judged(dir.path()));
    assert!(run_until(&text, None, 7).ended.is_err());
    fs::copy(&latest, &earlier).unwrap();
    let whole = run_whole(&text, Some(&latest));
    let ran = run_until(&text, Some(&earlier), 3);
    assert!(ran.ended.is_err() && ran.steps.last() == Some(&("train".to_string(), 10)), "{:?}", ran.steps);
    assert!(run_whole(&text, Some(&latest)).state == whole.state);
}

#[test]
fn an_interrupted_repeat_ends_its_parts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("turns.ckpt");
    let parts = parts(&path);
    // The trainings of the first two have steps left in the last trip; that of the others ends before.
    for repeat in [
        r#"stages: [(stage: "train", steps: 2), "count", "tally"], times: 4"#,
        r#"stages: ["count", "tally", (stage: "train", steps: 2)], times: 4"#,
        r#"stages: [(stage: "train", steps: 4), "count", "tally"], times: 9"#,
        r#"stages: ["inner", "tally"], times: 9"#,
    ] {
        let inner = r#""inner": Repeat(stages: [(stage: "train", steps: 3), "count"], times: 2),"#;
        let inner = if repeat.contains("inner") { inner } else { "" };
        expect_the_same_bits(&text(&format!(r#"{parts} {inner} "turns": Repeat({repeat})"#)), &path);
    }
}

/// The tally goes on after the best epoch, which may be the last one of the training.
#[test]
fn a_repeat_ends_in_the_state_of_the_best_epoch() {
    for n_epochs in [2, 6] {
        let dir = tempfile::tempdir().unwrap();
        let training = judged(dir.path()).replace("epochs: 6", &format!("epochs: {n_epochs}"));
        let stages = format!(
            r#"{training} "tally": Run(state: {{"m": "more"}}, outputs: []),
                "turns": Repeat(stages: [(stage: "train", steps: 5), "tally"], times: 9)"#
        );
        let whole = expect_the_same_bits(&text(&stages), &dir.path().join("latest.ckpt"));
        assert_eq!(whole.state["m"].to_f64(), [1.0], "{n_epochs} epochs");
    }
}

/// The best epoch has a count of skipped steps of its own, which is not that of the stage.
#[test]
fn a_training_that_restores_its_best_epoch_reports_all_skipped_steps() {
    let dir = tempfile::tempdir().unwrap();
    let restoring = judged(dir.path()).replace("Train(", "Train(precision: F16, ");
    let restoring = restoring.replace("start: 0.01", "start: 1e-36");
    // The scaled loss is above the largest f32 at first.
    let text = |stage: &str| text(stage).replace(r#""error": "mean("#, r#""error": "1e34 * mean("#);
    let skipped = |stage: &str| run(&text(stage)).unwrap().stages[0].loss_scale.clone().unwrap().skipped;
    let expected = skipped(&restoring.replace("restore_best: true", "restore_best: false"));
    assert!(expected > 0);
    assert_eq!(skipped(&restoring), expected);
}

/// Each training goes on with its own learning rate, although the rates of both are one state.
#[test]
fn resumed_trainings_of_a_repeat_have_their_own_rates() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("turns.ckpt");
    let training = |name: &str, start: f64| {
        format!(
            r#""{name}": Train(data: "rows.train", batch: 8, epochs: 2, loss: "error",
                optimizer: Sgd(lr: Plateau(start: {start}, patience: 0)),
                evaluate: Evaluate(data: "rows.test", batch: 8, metrics: ["off"]), monitor: Min("off"),
                checkpoint: (path: {path:?})),"#
        )
    };
    let (fast, slow) = (training("fast", 0.01), training("slow", 0.001));
    let repeat =
        r#""turns": Repeat(stages: [(stage: "fast", steps: 3), (stage: "slow", steps: 4)], times: 4)"#;
    let whole = expect_the_same_bits(&text(&format!("{fast} {slow} {repeat}")), &path);
    assert_eq!((whole.steps.len(), whole.epochs.len()), (20, 4));
}

/// The last checkpoint of a training is written in the midst of a trip, whose other parts follow.
#[test]
fn a_trip_in_which_the_last_training_ends_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("turns.ckpt");
    for (more, repeat) in [
        ("", r#"stages: [(stage: "train", steps: 4), "count", "tally"], times: 9"#),
        (
            r#""inner": Repeat(stages: [(stage: "train", steps: 2), "count"], times: 2),"#,
            r#"stages: ["inner", "tally"], times: 9"#,
        ),
    ] {
        let text = text(&format!(r#"{} {more} "turns": Repeat({repeat})"#, parts(&path)));
        let whole = run_whole(&text, None);
        assert_eq!(whole.state["m"].to_f64(), [3.0], "{repeat}");
        let resumed = run_whole(&text, Some(&path));
        assert!(resumed.state == whole.state, "{repeat}: {:?}", resumed.state);
    }
}

/// A stage of its own is interrupted after its last step as well.
#[test]
fn no_stage_follows_an_interrupted_run_stage() {
    let stages =
        r#""count": Run(steps: 3, state: {"n": "next"}, outputs: []), "tally": Run(state: {"m": "more"}),"#;
    for stop_at in 1..=3 {
        let ran = run_until(&text(stages), None, stop_at);
        assert!(matches!(ran.ended, Err(SessionError::Interrupted { checkpoint: None })), "{:?}", ran.ended);
        let counts = ["n", "m"].map(|name| ran.state[name].to_f64()[0]);
        assert_eq!(counts, [stop_at as f64, 0.0]);
    }
}
