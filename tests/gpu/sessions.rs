//! Whole sessions on GPUs.

use super::*;
use engine::core::pipeline::{CheckpointDecl, Schedule};
use engine::runtime::autotune::Tuning;
use engine::runtime::checkpoint::Checkpoint;
use engine::runtime::data::source::{DataSet, Provenance, Split};
use engine::runtime::session::{CompilingPlanner, Event, Session};
use indexmap::IndexMap;
use std::path::Path;

/// Digits of noise.
fn noise_digits() -> IndexMap<Symbol, DataSet> {
    let split = |n_rows: usize, seed| {
        let images: Vec<u8> = noise(784 * n_rows, seed).map(|x| (x * 127.0 + 127.0) as u8).collect();
        let labels: Vec<u8> = noise(n_rows, seed + 1).map(|x| (x * 5.0 + 5.0) as u8).collect();
        let images = HostTensor::from_slice(&[n_rows, 784], &images).unwrap();
        let labels = HostTensor::from_slice(&[n_rows], &labels).unwrap();
        Split::new(IndexMap::from([("images".into(), images), ("labels".into(), labels)])).unwrap()
    };
    let splits = IndexMap::from([("train".into(), split(600, 1)), ("test".into(), split(90, 3))]);
    let set = DataSet { splits, ..DataSet::new("noise", Provenance::Synthetic) };
    IndexMap::from([("digits".into(), set)])
}

/// A session of `mnist.ron` with `epochs` epochs, which writes a checkpoint after each.
fn session(device: &Arc<dyn Device>, epochs: usize, max_steps: Option<usize>, checkpoint: &Path) -> Session {
    let (mut pipeline, registry) = load("mnist.ron");
    for stage in &mut pipeline.stages {
        if let Some(train) = stage.get_mut::<TrainStage>() {
            let path = checkpoint.to_str().unwrap().to_string();
            train.checkpoint = Some(CheckpointDecl { path, every: 1, best: None });
            (train.epochs, train.max_steps, train.batch) = (epochs, max_steps, 16);
            // The shipped schedule depends on the number of steps.
            train.optimizer.as_mut().unwrap().lr = Schedule::constant(1e-3);
        }
    }
    let pipeline = Arc::new(pipeline);
    let model = device.model();
    let options = Options { device: model, ..Options::default() };
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

/// Each process has a context of its own, and shares the memory.
#[test]
fn two_processes_share_a_gpu() {
    if !gpus().iter().any(|gpu| gpu.info().kind == DeviceKind::Cuda) {
        eprintln!("skipped: no GPU through CUDA");
        return;
    }
    let process = || {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "training_steps_have_the_losses_of_the_cpu"]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    for process in [process(), process()] {
        let ended = process.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

/// The tuned choices are saved in a checkpoint. A run that resumes from it makes the same choices and is bit-identical.
#[test]
fn a_resumed_run_multiplies_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let (whole_path, path) = (dir.path().join("whole.ckpt"), dir.path().join("a.ckpt"));
    for gpu in gpus() {
        let whole = traces(&mut session(gpu, 2, None, &whole_path), None, &whole_path).1;
        traces(&mut session(gpu, 2, Some(20), &path), None, &path);
        let kept = Checkpoint::read(&path).unwrap().extra.get("tuning").cloned();
        assert_eq!(kept.is_some(), gpu.tuning().is_some());
        // A device without tuned choices.
        let fresh: Arc<dyn Device> = match gpu.info().kind {
            DeviceKind::Cuda => Arc::new(CudaDevice::new(0).unwrap()),
            _ => Arc::clone(gpu),
        };
        let resumed = traces(&mut session(&fresh, 2, None, &path), Some(&path), &path).1;
        assert_eq!(resumed.tensors, whole.tensors, "{}", gpu.info().name);
        if gpu.info().kind == DeviceKind::Cuda {
            let kept = Tuning::from_text(&kept.unwrap()).unwrap();
            assert!(kept.choices.keys().any(|name| name.starts_with("algorithm of f32 ")), "{kept:?}");
            for (name, choice) in fresh.tuning().unwrap().choices {
                assert_eq!(kept.choices.get(&name), Some(&choice), "{name}");
            }
            assert!(!fresh.adopt(&Tuning { device: "another".into(), ..kept }));
        }
    }
}

/// An error of memory names the largest uses, and the device stays usable.
#[test]
fn allocations_that_do_not_fit_are_named() {
    let registry = Registry::new();
    for gpu in gpus().iter().filter(|gpu| gpu.info().kind == DeviceKind::Cuda) {
        let mut builder = Builder::new(Graph::new("large"), &registry);
        let b = &mut builder;
        let x = data(b, "x", DType::F32, &[1 << 28]);
        // Far more than the memory of the device: a size that just fits would leave nothing for tests that run at the
        // same time.
        for i in 2..2 * (gpu.info().memory_bytes >> 30) {
            let y = b.scale(x, i as f64);
            b.graph.outputs.push((format!("y{i}").into(), y));
        }
        let plan = Arc::new(compile(&builder.graph, &registry, &Options::default()).plan);
        let error = gpu.prepare(Arc::clone(&plan), 7).map(drop).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfMemory { free: Some(_), .. }), "{error}");
        let error = error.of_plan(&plan).to_string();
        assert!(error.contains(" MiB are free; the largest tensors of `large` are `"), "{error}");
        assert!(gpu.allocate(1 << 20).is_ok());
    }
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
        // Compares all except the device's tuned choices, to which other tests add.
        let differ = |(name, tensor): &(&String, &HostTensor)| kept.1.tensors.get(*name) != Some(tensor);
        let differing: Vec<_> = sent.1.tensors.iter().filter(differ).map(|(name, _)| name).collect();
        assert_eq!(differing, [""; 0], "{}", gpu.info().name);
        assert_eq!((sent.1.step, sent.1.cursor), (kept.1.step, kept.1.cursor), "{}", gpu.info().name);
    }
}
