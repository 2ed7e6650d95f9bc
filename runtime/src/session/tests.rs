//! Sessions on a make-believe device: the steps and their rows, the carried state, the events and the files.

#![allow(clippy::unwrap_used)]

mod autotune;
mod best;
mod fake;
mod kills;
mod windows;

use std::collections::HashSet;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engine_core::ir::{DType, Graph, InputKind, Literal, Node, NodeOp, Output, Symbol, Type};
use engine_core::numerics::Precision;
use engine_core::op::Registry;
use engine_core::pipeline::*;
use engine_core::plan::{Buffer, Place, Plan};
use engine_core::stage::{Rows, SplitShape};
use indexmap::IndexMap;

use super::resident::Resident;
use super::*;
use crate::autotune::{Choice, Tuner, Tuning};
use crate::data::shuffle::epoch_order;
use crate::data::source::{DataSet, Provenance, Split};
use crate::device::{
    Device, DeviceBuffer, DeviceError, DeviceInfo, DeviceKind, Executable, KernelTime, RunError,
};
use crate::files::{Disk, Overwrite, RealDisk};
use crate::tensor::HostTensor;
use best::patience;
use fake::*;

fn split(data: &str, split: &str) -> SplitRef {
    SplitRef { data: data.into(), split: split.into() }
}

fn train_stage() -> TrainStage {
    TrainStage {
        name: "train".into(),
        data: split("data", "train"),
        batch: 4,
        accumulate: 1,
        epochs: 3,
        max_steps: None,
        loss: "loss".into(),
        mode: Mode::Train,
        precision: MixedPrecision::F32,
        metrics: vec![],
        optimizer: None,
        state: vec![("w".into(), "w".into())],
        clip_norm: None,
        clip_value: None,
        last_batch: LastBatch::Short,
        evaluate: Some(evaluation()),
        monitor: None,
        early_stop: None,
        checkpoint: None,
    }
}

fn evaluation() -> Evaluation {
    let metrics = vec![("error".into(), "loss".into())];
    Evaluation {
        data: split("data", "test"),
        batch: 2,
        mode: Mode::Eval,
        precision: MixedPrecision::F32,
        metrics,
    }
}

fn stages(kinds: Vec<(&str, Box<dyn StageKind>)>) -> Pipeline {
    let stages = kinds.into_iter().map(|(name, kind)| Stage { name: name.into(), kind, span: None });
    let x = Type { dtype: DType::F32, shape: vec![engine_core::ir::Dim::Named("B".into())] };
    let mut graph = Graph::new("tiny");
    add_input(&mut graph, "x", InputKind::Data, x);
    add_input(&mut graph, "w", InputKind::Param, Type::scalar(DType::F32));
    Pipeline {
        name: "tiny".to_string(),
        seed: 7,
        matmul: Precision::default(),
        numerics: Default::default(),
        precision: MixedPrecision::F32,
        full_precision: HashSet::new(),
        recomputed: vec![],
        deterministic: false,
        data: vec![DataDecl { name: "data".into(), source: "test".into(), options: vec![], span: None }],
        inputs: vec![InputDecl { name: "x".into(), from: Some(("data".into(), "x".into())), span: None }],
        params: vec![ParamDecl {
            name: "w".into(),
            kind: InputKind::Param,
            ty: Type::scalar(DType::F32),
            init: Init::Constant(Literal::Float(0.25)),
            span: None,
        }],
        graph,
        first_results: vec![],
        updates: vec![],
        calls: vec![],
        stages: stages.collect(),
    }
}

fn add_input(graph: &mut Graph, name: &str, kind: InputKind, ty: Type) {
    let outputs = vec![Output { name: name.into(), ty }];
    let op = NodeOp::Input(kind);
    graph.push(Node { no_fuse: None, op, inputs: vec![], outputs, regions: vec![], span: None });
}

fn training(stage: TrainStage) -> Pipeline {
    stages(vec![("train", stage.into())])
}

/// Ten rows to learn from, five to judge by.
fn rows() -> IndexMap<Symbol, DataSet> {
    let split = |rows: Vec<f32>| {
        let x = HostTensor::from_slice(&[rows.len()], &rows).unwrap();
        Split::new(IndexMap::from([("x".to_string(), x)])).unwrap()
    };
    let train = split((0..10).map(|row| row as f32 * row as f32).collect());
    let test = split(vec![1.0, 3.0, 5.0, 7.0, 100.0]);
    let splits = IndexMap::from([("train".to_string(), train), ("test".to_string(), test)]);
    let set = DataSet { splits, ..DataSet::new("squares", Provenance::Synthetic) };
    IndexMap::from([("data".into(), set)])
}

fn session(fake: &Arc<Fake>, pipeline: Pipeline) -> Session {
    let device = Arc::new(FakeDevice(Arc::clone(fake)));
    let planner = Arc::new(FakePlanner(Arc::clone(fake), Registry::new()));
    Session::new(Arc::new(pipeline), planner, device, rows()).unwrap()
}

/// Runs all stages and returns the report with every state.
fn run(pipeline: Pipeline, resume: Option<&Path>) -> (Report, IndexMap<String, HostTensor>) {
    let mut session = session(&Arc::default(), pipeline);
    let report = session.run_stages(resume, &mut |_| {}).unwrap();
    (report, session.checkpoint().unwrap().tensors)
}

fn losses(report: &Report) -> Vec<f64> {
    report.stages[0].epochs.iter().map(|epoch| epoch.train_loss).collect()
}

fn scalar(tensors: &IndexMap<String, HostTensor>, name: &str) -> f64 {
    tensors[name].to_f64()[0]
}

#[test]
fn every_epoch_visits_all_rows_in_its_own_order() {
    let fake = Arc::<Fake>::default();
    session(&fake, training(train_stage())).run_stages(None, &mut |_| {}).unwrap();
    let expected = (0..3).flat_map(|epoch| {
        let mut order = [0; 10];
        epoch_order(7, epoch, &mut order);
        order.map(|row| (row * row) as f32)
    });
    assert!(fake.visited.lock().unwrap().iter().copied().eq(expected));
}

#[test]
fn rows_that_fill_no_batch_are_dropped_on_demand() {
    let fake = Arc::<Fake>::default();
    let stage = TrainStage { last_batch: LastBatch::Drop, ..train_stage() };
    let report = session(&fake, training(stage)).run_stages(None, &mut |_| {}).unwrap();
    assert_eq!((report.stages[0].steps, fake.visited.lock().unwrap().len()), (6, 24));
}

/// The same arithmetic, written down again.
#[test]
fn losses_and_metrics_are_means_over_rows() {
    let (report, state) = run(training(train_stage()), None);
    let mut w = 0.25f32;
    let mut expected = vec![];
    for epoch in 0..3 {
        let mut order = [0i32; 10];
        epoch_order(7, epoch, &mut order);
        let mut total = 0.0;
        for batch in order.chunks(4) {
            let mean = batch.iter().map(|row| (row * row) as f32).sum::<f32>() / batch.len() as f32;
            total += (mean - w).powi(2) * batch.len() as f32;
            w += 0.5 * (mean - w);
        }
        expected.push(f64::from(total) / 10.0);
    }
    assert_eq!(losses(&report), expected);
    assert_eq!((scalar(&state, "w"), scalar(&state, "w.n")), (f64::from(w), 30.0));
    let error: f32 = [1.0f32, 3.0, 5.0, 7.0, 100.0].iter().map(|x| (x - w).abs()).sum();
    let measured = report.stages[0].metrics["error"];
    assert!((measured - f64::from(error) / 5.0).abs() < 1e-5, "{measured}");
}

#[test]
fn max_steps_stops_within_an_epoch() {
    let (report, state) = run(training(TrainStage { max_steps: Some(4), ..train_stage() }), None);
    assert_eq!((report.stages[0].steps, scalar(&state, "w.n")), (4, 14.0));
    assert_eq!(losses(&report).len(), 2);
}

fn saving(path: &Path, stage: TrainStage) -> TrainStage {
    let path = path.to_str().unwrap().to_string();
    TrainStage { checkpoint: Some(CheckpointDecl { path, every: 1, best: None }), ..stage }
}

/// At every step of the run, also in the middle of an epoch.
#[test]
fn a_resumed_run_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    let (whole, whole_state) = run(training(train_stage()), None);
    for steps in 1..9 {
        let stopped = saving(&path, TrainStage { max_steps: Some(steps), ..train_stage() });
        run(training(stopped), None);
        let (rest, rest_state) = run(training(train_stage()), Some(&path));
        assert_eq!(rest_state, whole_state, "after {steps} steps");
        assert_eq!(rest.stages[0].steps, 9 - steps as u64);
        assert_eq!(losses(&whole)[steps / 3..], losses(&rest), "after {steps} steps");
    }
}

#[test]
fn an_interrupted_run_saves_its_very_step() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    for at in 0..9 {
        let fake = Arc::<Fake>::default();
        let mut session = session(&fake, training(saving(&path, train_stage())));
        *fake.cancel_at.lock().unwrap() = Some((at, session.cancel_flag()));
        let error = session.run_stages(None, &mut |_| {}).unwrap_err();
        assert_eq!(error.fault(), Fault::Interrupt);
        assert_eq!(
            error.to_string(),
            format!("interrupted; `--resume {}` goes on from here", path.display())
        );
        let step = Checkpoint::read(&path).unwrap().step;
        // A slice of several steps is finished first.
        assert!((u64::from(at) + 1..9).contains(&step) || step == 9, "{step}");
        assert_eq!(run(training(train_stage()), Some(&path)).1, run(training(train_stage()), None).1);
    }
}

#[test]
fn a_loss_that_is_no_number_stops_before_anything_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    let fake = Arc::new(Fake { nan_from: Some(5), ..Fake::default() });
    let error =
        session(&fake, training(saving(&path, train_stage()))).run_stages(None, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "stage `train`: the loss is not finite from step 5 on");
    assert_eq!(error.fault(), Fault::Graph);
    // The last good state, at the end of the first epoch, is still there.
    assert_eq!(Checkpoint::read(&path).unwrap().step, 3);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn an_evaluation_names_its_split() {
    let name = |from: SplitRef| {
        let evaluate = Some(Evaluation { data: from, ..evaluation() });
        let (report, _) = run(training(TrainStage { evaluate, ..train_stage() }), None);
        report.stages[0].epochs[0].evaluated_on.clone().unwrap()
    };
    assert_eq!(name(split("data", "test")), "test");
    assert_eq!(name(split("data", "train")), "data.train");
}

#[test]
fn the_error_of_an_unfit_checkpoint_names_the_cause() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.ckpt");
    run(training(saving(&path, TrainStage { max_steps: Some(4), ..train_stage() })), None);
    let why = |pipeline: Pipeline| {
        let error = session(&Arc::default(), pipeline).run_stages(Some(&path), &mut |_| {}).unwrap_err();
        assert_eq!(error.fault(), Fault::Graph);
        error.to_string().replace(&format!("checkpoint {}: ", path.display()), "")
    };
    assert_eq!(
        why(training(TrainStage { batch: 5, ..train_stage() })),
        "it stands at another row, so its batches had another size or its data other rows"
    );
    assert_eq!(
        why(Pipeline { seed: 8, ..training(train_stage()) }),
        "it was written with seed 7, this run has seed 8"
    );
    let learn = TrainStage { name: "learn".into(), ..train_stage() };
    let other = stages(vec![("learn", learn.into())]);
    assert_eq!(why(other), "it was written by stage `train`, which is no training stage here");
    let mut more = training(train_stage());
    more.params.push(ParamDecl { name: "b".into(), ..more.params[0].clone() });
    add_input(&mut more.graph, "b", InputKind::Param, Type::scalar(DType::F32));
    assert_eq!(why(more), "the tensors do not match the graph\n  `b: f32[]` is missing");
}

#[test]
fn stages_share_their_state_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.ckpt").to_str().unwrap().to_string();
    let (report, state) = run(
        stages(vec![
            ("train", train_stage().into()),
            ("test", evaluation().into()),
            ("save", SaveStage { path: path.clone(), names: vec![] }.into()),
        ]),
        None,
    );
    let kinds: Vec<&str> = report.stages.iter().map(|stage| &*stage.kind).collect();
    assert_eq!(kinds, ["train", "evaluate", "save"]);
    assert_eq!(report.stages[0].metrics, report.stages[1].metrics);

    let loaded =
        stages(vec![("load", LoadStage { path, names: vec![] }.into()), ("test", evaluation().into())]);
    let (again, loaded) = run(loaded, None);
    assert_eq!(again.stages[1].metrics, report.stages[1].metrics);
    assert_eq!(scalar(&loaded, "w"), scalar(&state, "w"));
}

/// A file of some parameters holds neither the steps of the run nor its other state.
#[test]
fn a_run_cannot_resume_from_some_parameters() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.ckpt");
    let save = SaveStage { path: path.to_str().unwrap().to_string(), names: vec!["w".into()] };
    let (_, state) = run(stages(vec![("train", train_stage().into()), ("save", save.into())]), None);
    let saved = Checkpoint::read(&path).unwrap();
    assert_eq!(saved.tensors.keys().collect::<Vec<_>>(), ["w"]);
    assert_eq!((scalar(&saved.tensors, "w"), saved.step), (scalar(&state, "w"), 0));
    let mut session = session(&Arc::default(), training(train_stage()));
    let error = session.run_stages(Some(&path), &mut |_| {}).unwrap_err();
    let expected = format!("checkpoint {}: it holds only some parameters and states", path.display());
    assert_eq!((error.to_string(), error.fault()), (expected, Fault::Graph));
    assert_eq!(session.load(&path).unwrap(), [""; 0]);
    assert_eq!(scalar(&session.parameters().unwrap(), "w"), scalar(&state, "w"));
    let error = session.save_named(&path, &["v".into()]).unwrap_err().to_string();
    assert!(error.ends_with("there is no parameter `v`; did you mean `w`?"), "{error}");
}

#[test]
fn events_are_reported_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = vec![];
    let stage = saving(&dir.path().join("a.ckpt"), TrainStage { epochs: 1, ..train_stage() });
    session(&Arc::default(), training(stage))
        .run_stages(None, &mut |event| {
            events.push(match event {
                Event::Progress { step, n_steps, epoch, n_epochs, loss, measure, .. } => {
                    assert!(loss.is_some_and(f64::is_finite));
                    let measured = measure.take();
                    assert_eq!(
                        (measured.step, measured.epoch, measured.rows),
                        (*step, 1, (4 * step).min(10))
                    );
                    assert_eq!((measured.metrics["loss"], measured.grad_norm), (loss.unwrap(), None));
                    assert!(measured.device_bytes > 0 && measured.rates.is_empty());
                    format!("{step}/{n_steps} {epoch}/{n_epochs}")
                }
                Event::EpochDone { report, set, .. } => {
                    format!("epoch {} on {}", report.epoch, set.unwrap().name)
                }
                Event::StageStarted { stage, kind, n_steps } => format!("{kind} {stage}: {n_steps}"),
                Event::CheckpointWritten { .. } => "saved".to_string(),
                Event::StageDone { report } => format!("{} done", report.name),
                other => format!("{other:?}"),
            })
        })
        .unwrap();
    let expected =
        ["train train: 3", "1/3 1/1", "2/3 1/1", "3/3 1/1", "epoch 1 on squares", "saved", "train done"];
    assert_eq!(events, expected);
}

#[test]
fn stages_without_a_batch_or_the_memory_are_refused() {
    let why = |fake: Fake, stage: TrainStage| {
        let error = session(&Arc::new(fake), training(stage)).run_stages(None, &mut |_| {}).unwrap_err();
        (error.to_string(), error.fault())
    };
    let large = TrainStage { batch: 11, last_batch: LastBatch::Drop, ..train_stage() };
    let expected = "stage `train`: the data has 10 rows, which make no batch of 11";
    assert_eq!(why(Fake::default(), large), (expected.to_string(), Fault::Graph));
    let none = TrainStage { batch: 0, ..train_stage() };
    assert_eq!(why(Fake::default(), none).0, "stage `train`: a batch needs at least one row");
    let endless = TrainStage { epochs: usize::MAX, ..train_stage() };
    assert!(why(Fake::default(), endless).0.ends_with("batches do not fit the step counter, an i32"));
    // Without the scratch of its four plans, 96 bytes would do.
    let (error, fault) = why(Fake { memory_bytes: 100, ..Fake::default() }, train_stage());
    let expected = "stage `train` needs 160 bytes of device memory, fake has 100; its largest tensors are \
                    `data.x` (1 MiB), `order` (1 MiB), `w` (1 MiB)";
    assert_eq!((error.as_str(), fault), (expected, Fault::Machine));
}

#[test]
fn a_trained_graph_serves_named_tensors() {
    let fake = Arc::<Fake>::default();
    let session = session(&fake, training(train_stage()));
    let infer = |name: &str, x: &[f32]| {
        let inputs = IndexMap::from([(name.to_string(), HostTensor::from_slice(&[x.len()], x).unwrap())]);
        session.run(&["y".into()], &inputs).map(|outputs| outputs["y"].to_f64())
    };
    assert_eq!(infer("x", &[4.0, 8.0]).unwrap(), [1.0, 2.0]);
    assert_eq!(infer("x", &[2.0]).unwrap(), [0.5]);
    assert_eq!(infer("x", &[8.0, 4.0]).unwrap(), [2.0, 1.0]);
    assert_eq!(infer("z", &[2.0]).unwrap_err().to_string(), "input `z`: the graph has no such input");

    // A node that is asked for twice is computed once.
    let x = IndexMap::from([("x".to_string(), HostTensor::from_slice(&[1], &[4f32]).unwrap())]);
    let outputs = session.run(&["y".into(), "y".into()], &x).unwrap();
    assert_eq!((outputs.len(), outputs["y"].to_f64()), (1, vec![1.0]));

    let fail =
        |inputs: IndexMap<String, HostTensor>| session.run(&["y".into()], &inputs).unwrap_err().to_string();
    let bytes = HostTensor::from_slice(&[1], &[1u8]).unwrap();
    assert_eq!(fail(IndexMap::from([("x".to_string(), bytes)])), "input `x`: it is f32[B], u8[1] was given");
}

#[test]
fn a_run_stage_takes_its_inputs_from_the_data() {
    let run_stage = RunStage {
        steps: 1,
        until: None,
        mode: Mode::Eval,
        precision: MixedPrecision::F32,
        outputs: vec![("y".into(), "y".into())],
        gradients: vec![],
        loss: None,
        state: vec![],
        dims: vec![("B".into(), 3)],
        inputs: vec![],
    };
    let (report, _) = run(stages(vec![("once", run_stage.into())]), None);
    assert_eq!(
        report.outputs["y"],
        OutputReport { ty: "f32[3]".to_string(), values: Values::Floats(vec![0.0, 0.25, 1.0]) }
    );
}

/// Making a plan ready compiles kernels, which takes longer than to run it.
#[test]
fn named_tensors_of_a_known_shape_prepare_nothing() {
    let fake = Arc::<Fake>::default();
    let session = session(&fake, stages(vec![]));
    for (n, n_prepared) in [(2, 1), (2, 1), (3, 2), (2, 2), (3, 2)] {
        let x = HostTensor::from_slice(&[n], &vec![8f32; n]).unwrap();
        let found = session.run(&["y".into()], &IndexMap::from([("x".to_string(), x)])).unwrap();
        assert_eq!(found["y"].to_f64(), vec![2.0; n]);
        assert_eq!(fake.n_prepared.load(Ordering::Relaxed), n_prepared, "{n}");
    }
}
