//! Steps that the caller takes.

use std::sync::atomic::Ordering;

use engine::runtime::session::{Event, SessionError};

use super::{GRAPH, images, session};

/// The graph with half of the epochs, a checkpoint at this path, and a stage that evaluates.
fn graph(checkpoint: &str) -> String {
    let stage = format!("epochs: 4, checkpoint: Checkpoint(path: {checkpoint:?}), loss");
    let test = r#""test": Evaluate(data: "digits.test", batch: 70, metrics: ["accuracy"]),"#;
    GRAPH.replace("epochs: 10, loss", &stage).replace("stages: {", &format!("stages: {{ {test}"))
}

/// For any number of steps at once, the caller sees each epoch, may use the session between steps, and gets the
/// parameters of a run.
#[test]
fn steps_of_ones_own_are_those_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let text = graph(dir.path().join("a.ckpt").to_str().unwrap());
    let mut whole = session(&text);
    let report = whole.run_stages(None, &mut |_| {}).unwrap();
    let expected = whole.parameters().unwrap();
    for at_once in [1, 7, 1000] {
        let mut session = session(&text);
        let mut steps = session.training("train", None, &mut |_| {}).unwrap();
        assert_eq!((steps.step(), steps.n_steps()), (0, 160));
        let (mut seen, mut epochs) = (vec![], 0);
        while let Some(now) = steps.advance(at_once, &mut |_| {}).unwrap() {
            assert_eq!(now.step, steps.step());
            assert!(now.metrics["loss"].is_finite() && now.rates["lr"] == 1e-3);
            seen.push(now.step);
            if steps.epochs().len() > epochs {
                epochs = steps.epochs().len();
                let between = steps.session();
                let test = between.run_stage("test", &mut |_| {}).unwrap().unwrap();
                let classes = between.run(&["class".into()], &images(2).0).unwrap();
                assert_eq!(classes["class"].shape(), [2]);
                let accuracy = steps.epochs().last().unwrap().metrics["accuracy"];
                assert!((test.metrics["accuracy"] - accuracy).abs() < 1e-6);
            }
        }
        assert_eq!(seen.len(), 4 * 40_usize.div_ceil(at_once));
        let ended = steps.end(&mut |_| {}).unwrap();
        assert_eq!((ended.steps, ended.epochs.len()), (160, 4));
        assert_eq!(ended.metrics, report.stages[1].metrics);
        assert!(session.parameters().unwrap() == expected, "{at_once} at once");
    }
}

/// A loop that is left early keeps its parameters. A checkpoint that it wrote continues it.
#[test]
fn a_loop_can_be_left_and_continued() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    let text = graph(path.to_str().unwrap());
    let mut whole = session(&text);
    whole.run_stages(None, &mut |_| {}).unwrap();

    let mut first = session(&text);
    let mut steps = first.training("train", None, &mut |_| {}).unwrap();
    while steps.step() < 90 {
        steps.advance(10, &mut |_| {}).unwrap();
    }
    assert_eq!(steps.end(&mut |_| {}).unwrap().steps, 90);
    first.save(&dir.path().join("half.ckpt")).unwrap();

    let mut second = session(&text);
    let mut steps = second.training("train", Some(&path), &mut |_| {}).unwrap();
    assert_eq!(steps.step(), 80, "the last whole epoch");
    while steps.advance(1000, &mut |_| {}).unwrap().is_some() {}
    assert_eq!(steps.end(&mut |_| {}).unwrap().steps, 80);
    assert!(second.parameters().unwrap() == whole.parameters().unwrap());
}

#[test]
fn mistakes_of_the_caller_are_errors() {
    let mut session = session(GRAPH);
    let error = |result: Result<_, SessionError>| result.map(|_: ()| ()).unwrap_err();
    let unknown = error(session.training("tain", None, &mut |_| {}).map(|_| ()));
    assert_eq!(unknown.to_string(), "there is no `Train` stage `tain`");
    let unknown = error(session.run_stage("tain", &mut |_| {}).map(|_| ()));
    assert_eq!(unknown.to_string(), "there is no stage `tain`");

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    let mut session = self::session(&graph(path.to_str().unwrap()));
    let cancel = session.cancel_flag();
    let mut steps = session.training("train", None, &mut |_| {}).unwrap();
    let interrupt = |event: &Event<'_>| {
        if matches!(event, Event::Progress { .. }) {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let error = steps.advance(1, &mut { interrupt }).unwrap_err();
    assert!(matches!(&error, SessionError::Interrupted { checkpoint: Some(file) } if *file == path));
    assert!(path.exists());
}
