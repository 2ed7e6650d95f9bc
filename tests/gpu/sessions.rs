//! Whole sessions on GPUs.

use super::*;
use engine::core::pipeline::{CheckpointDecl, Stage};
use engine::runtime::checkpoint::Checkpoint;
use engine::runtime::data::source::{DataSet, Provenance, Split};
use engine::runtime::session::{CompilingPlanner, Event, Session};
use indexmap::IndexMap;
use std::path::Path;

/// Digits that nobody can read.
fn noise_digits() -> IndexMap<Symbol, DataSet> {
    let split = |n_rows: usize, seed| {
        let images: Vec<u8> = noise(784 * n_rows, seed).map(|x| (x * 127.0 + 127.0) as u8).collect();
        let labels: Vec<u8> = noise(n_rows, seed + 1).map(|x| (x * 5.0 + 5.0) as u8).collect();
        let images = HostTensor::from_slice(&[n_rows, 784], &images).unwrap();
        let labels = HostTensor::from_slice(&[n_rows], &labels).unwrap();
        Split::new(IndexMap::from([("images".into(), images), ("labels".into(), labels)])).unwrap()
    };
    let splits = IndexMap::from([("train".into(), split(600, 1)), ("test".into(), split(90, 3))]);
    let set = DataSet { name: "noise".into(), provenance: Provenance::Synthetic, note: None, splits };
    IndexMap::from([("digits".into(), set)])
}

/// A session of `mnist.ron` that takes so many epochs and writes a checkpoint after each.
fn session(device: &Arc<dyn Device>, epochs: usize, max_steps: Option<usize>, checkpoint: &Path) -> Session {
    let (mut pipeline, registry) = load("mnist.ron");
    for Stage { kind, .. } in &mut pipeline.stages {
        if let StageKind::Train(train) = kind {
            let path = checkpoint.to_str().unwrap().to_string();
            train.checkpoint = Some(CheckpointDecl { path, every: 1, best: None });
            (train.epochs, train.max_steps, train.batch) = (epochs, max_steps, 16);
        }
    }
    let pipeline = Arc::new(pipeline);
    let (abilities, n_streams) = (device.abilities(), device.n_streams());
    let options = Options { abilities, n_streams, ..Options::default() };
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry, options);
    Session::new(pipeline, Arc::new(planner), Arc::clone(device), noise_digits()).unwrap()
}

/// Losses and metrics of all stages, and the last checkpoint.
fn traces(session: &mut Session, resume: Option<&Path>, checkpoint: &Path) -> (Vec<String>, Checkpoint) {
    let report = session.run_stages(resume, &mut |_: &Event<'_>| {}).unwrap();
    let epochs = report.stages.iter().flat_map(|stage| &stage.epochs);
    let losses = epochs.map(|epoch| format!("{:?} {:?}", epoch.train_loss, epoch.metrics));
    let metrics = report.stages.iter().map(|stage| format!("{:?}", stage.metrics));
    (losses.chain(metrics).collect(), Checkpoint::read(checkpoint).unwrap())
}

/// Two epochs of 38 steps, the last one short, in windows of 32 steps.
#[test]
fn rows_from_the_host_give_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    for gpu in gpus() {
        let kept = traces(&mut session(gpu, 2, None, &path), None, &path);
        let mut session = session(gpu, 2, None, &path);
        session.keep_resident(0);
        let sent = traces(&mut session, None, &path);
        assert_eq!(sent.0, kept.0, "{}", gpu.info().name);
        assert!(sent.1 == kept.1, "parameters differ on {}", gpu.info().name);
    }
}
