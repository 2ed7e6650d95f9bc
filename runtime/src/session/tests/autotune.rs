//! Autotuned choices are part of reports and checkpoints.

use super::*;

fn fake(device: &str, found: &str) -> Arc<Fake> {
    let tuner = Some(Tuner::new(device.to_string()));
    Arc::new(Fake { tuner, found: found.to_string(), ..Fake::default() })
}

/// The choices in the report of a run, and what the user was told.
fn run(fake: &Arc<Fake>, stage: TrainStage, resume: Option<&Path>) -> (Vec<String>, Vec<String>) {
    let mut notes = vec![];
    let report = session(fake, training(stage)).run_stages(resume, &mut |event: &Event<'_>| {
        if let Event::Note(note) = event {
            notes.push(note.to_string());
        }
    });
    let tuning = report.unwrap().tuning;
    (tuning.map(|tuning| tuning.choices.into_values().collect()).unwrap_or_default(), notes)
}

#[test]
fn a_resumed_run_makes_the_same_choices_on_the_same_model() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    let stopped = saving(&path, TrainStage { max_steps: Some(4), ..train_stage() });
    // Training and evaluation, each on whole batches and on a short one.
    assert_eq!(run(&fake("A", "first"), stopped, None), (vec!["first".to_string(); 4], vec![]));
    let resumed = |device: &str| run(&fake(device, "second"), train_stage(), Some(&path));
    assert_eq!(resumed("A"), (vec!["first".to_string(); 4], vec![]));
    let note =
        "the checkpoint was written on another device (A), so products may be rounded otherwise from here on";
    assert_eq!(resumed("B"), (vec!["second".to_string(); 4], vec![note.to_string()]));
    // A device that tries nothing.
    assert_eq!(run(&Arc::default(), train_stage(), Some(&path)), (vec![], vec![note.to_string()]));
}

#[test]
fn a_run_that_chooses_nothing_keeps_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    assert_eq!(run(&Arc::default(), saving(&path, train_stage()), None), (vec![], vec![]));
    assert_eq!(Checkpoint::read(&path).unwrap().extra.get(TUNING), None);
}
