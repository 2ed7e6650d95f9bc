//! Rows that stay on the host: steps and rows are as with resident rows.

use super::*;

/// The traces of a run: its report without times, its state, and the rows that it visited.
fn traces(
    stage: TrainStage,
    most_resident: Option<u64>,
    resume: Option<&Path>,
) -> (Vec<String>, IndexMap<String, HostTensor>, Vec<f32>) {
    let fake = Arc::<Fake>::default();
    let mut session = session(&fake, training(stage));
    most_resident.into_iter().for_each(|bytes| session.keep_resident(bytes));
    let report = session.run_stages(resume, &mut |_| {}).unwrap();
    let epochs = report.stages[0].epochs.iter();
    let epochs = epochs.map(|epoch| format!("{:?} {:?}", epoch.train_loss, epoch.metrics)).collect();
    let visited = fake.visited.lock().unwrap().clone();
    (epochs, session.checkpoint().unwrap().tensors, visited)
}

/// Ten rows in batches of 4, 5, 10 and 3, so that epochs begin anywhere in a window, and 32 steps to a window.
#[test]
fn rows_from_the_host_are_those_of_the_device() {
    for (batch, last_batch) in [
        (4, LastBatch::Short),
        (4, LastBatch::Drop),
        (5, LastBatch::Short),
        (10, LastBatch::Short),
        (3, LastBatch::Short),
    ] {
        let stage = || TrainStage { batch, last_batch, epochs: 60, ..train_stage() };
        assert_eq!(traces(stage(), Some(0), None), traces(stage(), None, None), "{batch} {last_batch:?}");
    }
}

/// A batch larger than the data is short in every epoch.
#[test]
fn a_short_batch_may_be_the_only_one() {
    let stage = || TrainStage { batch: 16, epochs: 70, ..train_stage() };
    assert_eq!(traces(stage(), Some(0), None), traces(stage(), None, None));
}

#[test]
fn a_resumed_run_finds_its_window() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    let stage = || TrainStage { epochs: 40, ..train_stage() };
    let (_, whole, _) = traces(stage(), None, None);
    for steps in [1, 31, 32, 33, 64, 95] {
        let stopped = saving(&path, TrainStage { max_steps: Some(steps), ..stage() });
        traces(stopped, Some(0), None);
        assert_eq!(traces(stage(), Some(0), Some(&path)).1, whole, "after {steps} steps");
    }
}

#[test]
fn a_split_beyond_the_limit_streams_with_a_note() {
    let notes = |most_resident: u64| {
        let mut session = session(&Arc::default(), training(train_stage()));
        session.keep_resident(most_resident);
        let mut notes = vec![];
        let tell = &mut |event: &Event<'_>| {
            if let Event::Note(note) = event {
                notes.push(note.to_string());
            }
        };
        session.run_stages(None, tell).unwrap();
        notes
    };
    // 10 rows of 4 bytes to learn from, 5 to judge by.
    assert_eq!(notes(40), Vec::<String>::new());
    let note = |split: &str| {
        format!("`data.{split}` stays on the host (1 MiB); its rows are copied to the device 32 steps ahead")
    };
    assert_eq!(notes(39), [note("train")]);
    assert_eq!(notes(19), [note("train"), note("test")]);
}

/// Memory that is too small for the data suffices for its windows.
#[test]
fn only_resident_splits_count_as_memory() {
    let stage = TrainStage { batch: 1, epochs: 1, evaluate: None, ..train_stage() };
    let rows: Vec<f32> = (0..1000).map(|row| row as f32).collect();
    let x = HostTensor::from_slice(&[1000], &rows).unwrap();
    let split = Split::new(IndexMap::from([("x".to_string(), x)])).unwrap();
    let run = |most_resident: u64| {
        let fake = Arc::new(Fake { memory_bytes: 1000, ..Fake::default() });
        let mut session = session(&fake, training(stage.clone()));
        let splits = IndexMap::from([("train".to_string(), split.clone())]);
        let set = DataSet { splits, ..DataSet::new("line", Provenance::Synthetic) };
        session.resident = Resident::new(IndexMap::from([("data".into(), set)]));
        session.keep_resident(most_resident);
        session.run_stages(None, &mut |_| {}).map(|report| report.stages[0].steps)
    };
    assert!(matches!(run(4000), Err(SessionError::OutOfMemory { needed: 4036.., available: 1000, .. })));
    assert_eq!(run(3999).unwrap(), 1000);
}
