//! Runs that are killed at any moment of their writing, and the files that a resumed run finds.

use std::io::{self, Write};
use std::path::PathBuf;

use super::*;
use crate::files::{DiskFile, TemporaryFile};

/// A disk whose process is killed after so many operations: nothing of it happens from there on, no cleaning up either.
struct DyingDisk(Arc<AtomicUsize>);

fn live(left: &AtomicUsize) -> io::Result<()> {
    let lived = left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    lived.map(|_| ()).map_err(|_| io::Error::other("killed"))
}

impl Disk for DyingDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        live(&self.0).and_then(|()| RealDisk.create_folder(folder))
    }
    fn create_temporary(&self, folder: &Path, name: &str) -> io::Result<TemporaryFile> {
        live(&self.0)?;
        let TemporaryFile { path, file } = RealDisk.create_temporary(folder, name)?;
        Ok(TemporaryFile { path, file: Box::new(DyingFile { file, left: Arc::clone(&self.0) }) })
    }
    fn open_special(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open_special(path)
    }
    fn remove_stale(&self, folder: &Path, name: &str) {
        if live(&self.0).is_ok() {
            RealDisk.remove_stale(folder, name);
        }
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        live(&self.0).and_then(|()| RealDisk.rename(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        live(&self.0).and_then(|()| RealDisk.remove(path))
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        live(&self.0).and_then(|()| RealDisk.sync_folder(folder))
    }
}

struct DyingFile {
    file: Box<dyn DiskFile>,
    left: Arc<AtomicUsize>,
}

impl Write for DyingFile {
    /// The last write of a killed process is cut off.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lived = live(&self.left);
        let n_written = if lived.is_ok() { bytes.len() } else { bytes.len() / 2 };
        self.file.write_all(&bytes[..n_written])?;
        lived.map(|()| n_written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl DiskFile for DyingFile {
    fn sync(&mut self) -> io::Result<()> {
        live(&self.left).and_then(|()| self.file.sync())
    }
}

/// A run that keeps its latest and its best state in a folder.
struct Kept {
    dir: tempfile::TempDir,
    stage: TrainStage,
}

impl Kept {
    fn new(every: usize, early_stop: Option<EarlyStop>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [path, best] =
            ["latest.ckpt", "best.ckpt"].map(|name| dir.path().join(name).to_str().unwrap().to_string());
        let checkpoint = Some(CheckpointDecl { path, every, best: Some(best) });
        Kept { dir, stage: TrainStage { epochs: 5, early_stop, checkpoint, ..train_stage() } }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs, from the latest state if there is one, on a disk that bears so many operations; returns how many are left.
    fn run(&self, n_operations: usize) -> usize {
        let left = Arc::new(AtomicUsize::new(n_operations));
        let mut session = session(&Arc::default(), training(self.stage.clone()));
        session.disk = Arc::new(DyingDisk(Arc::clone(&left)));
        let latest = self.path("latest.ckpt");
        let ended = session.run_stages(latest.exists().then_some(&*latest), &mut |_| {});
        let left = left.load(Ordering::Relaxed);
        assert_eq!(ended.is_ok(), left > 0, "{ended:?}");
        left
    }

    fn files(&self) -> Vec<(String, Checkpoint)> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names.into_iter().map(|name| (name.clone(), Checkpoint::read(&self.path(&name)).unwrap())).collect()
    }
}

const NEVER: usize = usize::MAX;

#[test]
fn a_run_that_is_killed_at_any_moment_ends_with_the_same_files() {
    let restoring = Some(EarlyStop { patience: 2, min_delta: 0.0, restore_best: true });
    for (every, early_stop) in [(1, None), (2, None), (1, patience(2)), (1, restoring)] {
        let whole = Kept::new(every, early_stop.clone());
        let n_operations = NEVER - whole.run(NEVER);
        let expected = whole.files();
        assert_eq!(
            expected.iter().map(|(name, _)| &**name).collect::<Vec<_>>(),
            ["best.ckpt", "latest.ckpt"]
        );
        assert!(n_operations > 20, "{n_operations}");
        for killed_at in 0..n_operations {
            let kept = Kept::new(every, early_stop.clone());
            assert_eq!(kept.run(killed_at), 0);
            kept.run(NEVER);
            assert_eq!(kept.files(), expected, "every {every}, killed at {killed_at} of {n_operations}");
        }
    }
}

/// A best state of an earlier moment, or none at all, is replaced by that of the checkpoint, if that is the best.
#[test]
fn a_best_state_that_is_behind_is_repaired() {
    let kept = Kept::new(1, None);
    let epochs = |epochs| Kept {
        stage: TrainStage { epochs, ..kept.stage.clone() },
        dir: tempfile::tempdir().unwrap(),
    };
    epochs(1).run(NEVER);
    let [latest, best] = ["latest.ckpt", "best.ckpt"].map(|name| kept.path(name));
    let first = Checkpoint::read(&latest).unwrap();
    assert_eq!(Checkpoint::read(&best).unwrap(), first);
    let older = Checkpoint { step: first.step - 1, ..first.clone() };
    for spoil in [&|| older.write(&best).unwrap(), &|| fs::remove_file(&best).unwrap()] as [&dyn Fn(); 2] {
        spoil();
        epochs(1).run(NEVER);
        assert_eq!(Checkpoint::read(&best).unwrap(), first);
    }
    // The run has passed its best state, so a lost file cannot be restored, and a note reports that.
    let notes = || {
        let mut notes = vec![];
        let stage = TrainStage { epochs: 6, ..kept.stage.clone() };
        let mut session = session(&Arc::default(), training(stage));
        let subscriber = &mut |event: &Event<'_>| {
            if let Event::Note(note) = event {
                notes.push(note.to_string());
            }
        };
        session.run_stages(Some(&latest), subscriber).unwrap();
        notes
    };
    epochs(5).run(NEVER);
    let step = Checkpoint::read(&best).unwrap().step;
    assert!(step < Checkpoint::read(&latest).unwrap().step);
    assert_eq!(notes(), [] as [&str; 0]);
    fs::remove_file(&best).unwrap();
    let expected = format!("does not hold the best state so far, that of step {step}; ");
    assert!(notes().concat().contains(&expected), "{:?}", notes());
}

#[test]
fn unwritable_files_are_reported_before_the_first_step() {
    let dir = tempfile::tempdir().unwrap();
    let [graph, new] = ["graph.ron", "new.ckpt"].map(|name| dir.path().join(name));
    fs::write(&graph, "(name: \"tiny\")").unwrap();
    let best = |path: &Path, best: &Path| {
        let mut stage = saving(path, train_stage());
        stage.checkpoint.as_mut().unwrap().best = Some(best.to_str().unwrap().to_string());
        training(stage)
    };
    let save = |path: &Path| {
        let path = path.to_str().unwrap().to_string();
        stages(vec![("train", train_stage().into()), ("save", SaveStage { path, names: vec![] }.into())])
    };
    let pipelines = [best(&graph, &new), best(&new, &graph), save(&graph), save(&graph.join("a.npz"))];
    for (pipeline, fault) in
        pipelines.into_iter().zip([Fault::Graph, Fault::Graph, Fault::Graph, Fault::Machine])
    {
        let fake = Arc::<Fake>::default();
        let error = session(&fake, pipeline.clone()).run_stages(None, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("graph.ron"), "{error}");
        assert_eq!((error.fault(), fake.visited.lock().unwrap().len()), (fault, 0));
        assert_eq!(fs::read_to_string(&graph).unwrap(), "(name: \"tiny\")");
        assert!(!new.exists());
    }
    let mut session = session(&Arc::default(), save(&graph));
    session.overwrite(Overwrite::Any);
    session.run_stages(None, &mut |_| {}).unwrap();
    assert!(Checkpoint::read(&graph).is_ok());
}
