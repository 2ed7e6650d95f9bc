//! The best epoch, and patience.

use super::*;

pub(super) fn patience(patience: usize) -> Option<EarlyStop> {
    Some(EarlyStop { patience, min_delta: 0.0, restore_best: false })
}

#[test]
fn the_best_state_is_kept_and_patience_ends() {
    let dir = tempfile::tempdir().unwrap();
    let [latest, best] = ["a.ckpt", "best.ckpt"].map(|name| dir.path().join(name));
    // The error is lowest where `w` is the median of the test rows, 5; each epoch drives `w` towards 28.5.
    let mut stage = saving(&latest, TrainStage { epochs: 50, early_stop: patience(2), ..train_stage() });
    stage.checkpoint.as_mut().unwrap().best = Some(best.to_str().unwrap().to_string());
    let (report, _) = run(training(stage), None);
    let errors: Vec<f64> = report.stages[0].epochs.iter().map(|epoch| epoch.metrics["error"]).collect();
    let (best_epoch, _) = errors.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    assert_eq!(errors.len(), best_epoch + 3, "{errors:?}");
    assert_eq!(Checkpoint::read(&best).unwrap().cursor.epoch, best_epoch as u64 + 1);
    assert_eq!(Checkpoint::read(&latest).unwrap().cursor.epoch, errors.len() as u64);
}

/// A stage that stops early by the best epoch of the error, which rises after the second epoch.
pub(super) fn judged(dir: &Path, monitor: Option<Goal>, restore_best: bool) -> TrainStage {
    let early_stop = EarlyStop { patience: 2, min_delta: 0.0, restore_best };
    let monitor = monitor.map(|goal| Monitor { metric: "error".into(), goal });
    let stage = TrainStage { epochs: 50, early_stop: Some(early_stop), monitor, ..train_stage() };
    let mut stage = saving(&dir.join("last.ckpt"), stage);
    stage.checkpoint.as_mut().unwrap().best = Some(dir.join("best.ckpt").to_str().unwrap().to_string());
    stage
}

#[test]
fn a_metric_that_is_not_the_loss_needs_a_direction() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = judged(dir.path(), None, false);
    stage.loss = "another".into();
    let error = session(&Arc::default(), training(stage.clone())).run_stages(None, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("higher or lower values of `error` are better"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

    for goal in [Goal::Min, Goal::Max] {
        stage.monitor = Some(Monitor { metric: "error".into(), goal });
        let (report, _) = run(training(stage.clone()), None);
        let errors = report.stages[0].epochs.iter().map(|epoch| epoch.metrics["error"]);
        let errors: Vec<f64> = errors.collect();
        let order = |a: &f64, b: &f64| if goal == Goal::Min { a.total_cmp(b) } else { b.total_cmp(a) };
        let at = (0..errors.len()).min_by(|&a, &b| order(&errors[a], &errors[b])).unwrap();
        let end = report.stages[0].end.clone().unwrap();
        let best = BestEpoch {
            epoch: at as u64 + 1,
            metric: "error".to_string(),
            value: errors[at],
            is_restored: false,
        };
        assert_eq!(end.best, Some(best), "{errors:?}");
        assert_eq!(Checkpoint::read(&dir.path().join("best.ckpt")).unwrap().cursor.epoch, at as u64 + 1);
        assert_eq!(end.reason, EndReason::EarlyStop { patience: 2, min_delta: 0.0 });
        assert_eq!((end.epoch, end.n_epochs), (errors.len() as u64, 50));
        assert_eq!(errors.len(), at + 3, "{errors:?}");
    }
}

#[test]
fn the_state_of_the_best_epoch_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let stage = judged(dir.path(), Some(Goal::Min), true);
    let (report, state) = run(training(stage.clone()), None);
    let best = Checkpoint::read(&dir.path().join("best.ckpt")).unwrap();
    let last = Checkpoint::read(&dir.path().join("last.ckpt")).unwrap();
    assert_eq!(state, best.tensors);
    assert_ne!(state, last.tensors);
    assert!(report.stages[0].end.as_ref().unwrap().best.as_ref().unwrap().is_restored);

    // A run that stops after every epoch and goes on ends in the same state.
    let n_epochs = report.stages[0].epochs.len();
    let first = TrainStage { epochs: 1, ..stage.clone() };
    run(training(first), None);
    for epoch in 2..=n_epochs + 1 {
        let more = TrainStage { epochs: epoch, ..stage.clone() };
        let (report, resumed) = run(training(more), Some(&dir.path().join("last.ckpt")));
        if epoch >= n_epochs {
            assert_eq!(resumed, best.tensors, "{epoch}");
        }
        // Nothing is left to do once patience has ended.
        assert_eq!(report.stages[0].epochs.len(), usize::from(epoch <= n_epochs));
    }

    // Without the file nothing holds the state of the best epoch.
    fs::remove_file(dir.path().join("best.ckpt")).unwrap();
    let again = training(TrainStage { epochs: 60, ..stage });
    let error = session(&Arc::default(), again).run_stages(Some(&dir.path().join("last.ckpt")), &mut |_| {});
    assert!(error.unwrap_err().to_string().contains("`restore_best` needs the state of epoch"));
}

#[test]
fn the_end_of_a_training_has_a_reason() {
    let reason = |stage: TrainStage| run(training(stage), None).0.stages[0].end.clone().unwrap().reason;
    assert_eq!(reason(train_stage()), EndReason::Epochs);
    assert_eq!(reason(TrainStage { max_steps: Some(4), ..train_stage() }), EndReason::MaxSteps);
    let impatient = EarlyStop { patience: 1, min_delta: 1e9, restore_best: false };
    let stage = TrainStage { early_stop: Some(impatient), ..train_stage() };
    let (report, _) = run(training(stage), None);
    // Nothing improves by so much after the first epoch.
    assert_eq!(report.stages[0].epochs.len(), 2);
}
