//! The engine as a library: reading, training and serving a graph within another program.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

use engine::core::compile::Options;
use engine::devices::{self, Choice};
use engine::runtime::checkpoint::Checkpoint;
use engine::runtime::data::source::LoadContext;
use engine::runtime::session::{Event, Session};
use engine::runtime::tensor::HostTensor;
use engine::{Engine, Program};
use engine_digits::{self as digits, Part};
use indexmap::IndexMap;

#[path = "library/data.rs"]
mod data;
#[path = "library/faults.rs"]
mod faults;
#[path = "common/offline.rs"]
mod offline;
#[path = "library/shapes.rs"]
mod shapes;
#[path = "library/sound.rs"]
mod sound;
#[path = "library/steps.rs"]
mod steps;

const GRAPH: &str = r#"(
  name: "tiny",
  seed: 5,
  data: {"digits": (source: "synthetic-digits", n_train: 1000, n_test: 200)},
  inputs: {
    "image": (type: "u8[B, 784]", from: "digits.images"),
    "label": (type: "u8[B]", from: "digits.labels"),
  },
  params: {"w": (type: "f32[784, 10]", init: Xavier), "b": (type: "f32[10]")},
  nodes: {
    "logits": "cast(image, dtype=f32) / 255.0 @ w + b",
    "target": "cast(label, dtype=i32)",
    "class": "argmax(logits, axis=1)",
    "loss": "cross_entropy(logits, target)",
    "accuracy": "mean(class == target)",
  },
  stages: {
    "train": Train(
      data: "digits.train", batch: 25, epochs: 10, loss: "loss", optimizer: Adam(lr: 1e-3),
      evaluate: Evaluate(data: "digits.test", batch: 100, metrics: {"accuracy": "accuracy"}),
    ),
  },
)"#;

fn session(text: &str) -> Session {
    offline::session(text, devices::open(Choice::Cpu, Some(2)).unwrap().device, Options::default())
}

fn images(n_images: usize) -> (IndexMap<String, HostTensor>, Vec<u8>) {
    let drawn = digits::draw(digits::DEFAULT_SEED, Part::Test, n_images).unwrap();
    let rows = drawn.images.reshaped(&[n_images, 784]).unwrap();
    (IndexMap::from([("image".to_string(), rows)]), drawn.labels.bytes().to_vec())
}

#[test]
fn a_trained_session_serves_batches_of_any_size() {
    let mut session = session(GRAPH);
    let report = session.run_stages(None, &mut |_| {}).unwrap();
    let measured = report.stages[0].metrics["accuracy"];
    assert!(measured > 0.6, "{measured}");

    let (all, labels) = images(200);
    let classes = session.run(&["class".into()], &all).unwrap()["class"].to_f64();
    let n_hits = classes.iter().zip(&labels).filter(|(class, label)| **class == f64::from(**label)).count();
    assert!((n_hits as f64 / 200.0 - measured).abs() < 1e-6);

    let few = session.run(&["class".into(), "logits".into()], &images(3).0).unwrap();
    assert_eq!(few["class"].to_f64(), classes[..3]);
    assert_eq!(format!("{:?}", few["logits"]), "f32[3,10]");
}

/// Four batches of 25 make the same step as one batch of 100. The losses, the number of steps and the learning rates
/// are equal, and the parameters nearly so.
#[test]
fn gradients_of_several_batches_make_the_step_of_one_large_batch() {
    let dir = tempfile::tempdir().unwrap();
    let trained = |name: &str, shape: &str| {
        let path = dir.path().join(name);
        let settings = format!("{shape}, checkpoint: (path: {path:?}), clip_norm: 0.5");
        let rate = "Adam(lr: Cosine(start: 3e-3, end: 1e-5, warmup: 4), weight_decay: 0.01)";
        let text = GRAPH.replace("batch: 25, epochs: 10", &settings).replace("Adam(lr: 1e-3)", rate);
        let mut session = session(&text);
        let report = session.run_stages(None, &mut |_| {}).unwrap();
        (report.stages[0].clone(), Checkpoint::read(&path).unwrap())
    };
    let (large, one) = trained("one", "batch: 100, epochs: 3");
    let (parts, four) = trained("four", "batch: 25, accumulate: 4, epochs: 3");
    assert_eq!((parts.steps, four.step, &four.cursor), (30, one.step, &one.cursor));
    for (large, parts) in large.epochs.iter().zip(&parts.epochs) {
        assert!((large.train_loss - parts.train_loss).abs() < 1e-5 * large.train_loss, "{large:?} {parts:?}");
    }
    let names = |checkpoint: &Checkpoint| checkpoint.tensors.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&four), names(&one));
    for (name, tensor) in &one.tensors {
        let pairs = tensor.to_f64().into_iter().zip(four.tensors[name].to_f64());
        let worst = pairs.map(|(a, b)| (a - b).abs() / (1.0 + a.abs())).fold(0.0, f64::max);
        assert!(worst < 2e-5, "`{name}` is off by {worst}");
    }
}

/// Threads share one session. Concurrent requests of any kind get the results that a single thread gets.
#[test]
fn several_threads_are_served_at_once() {
    let session = session(GRAPH);
    let asked = |n_images: usize, node: &str| session.run(&[node.into()], &images(n_images).0).unwrap();
    let calls: Vec<(usize, &str)> = (0..24).map(|i| (1 + i % 3, ["class", "logits"][i % 2])).collect();
    let alone: Vec<_> = calls.iter().map(|&(n_images, node)| asked(n_images, node)).collect();
    thread::scope(|scope| {
        for worker in 0..4 {
            let (calls, alone, asked) = (&calls, &alone, &asked);
            scope.spawn(move || {
                for i in (0..calls.len()).map(|i| (i * 5 + worker) % calls.len()) {
                    assert_eq!(asked(calls[i].0, calls[i].1), alone[i]);
                }
            });
        }
    });
}

#[test]
fn errors_of_a_malformed_pipeline_have_places() {
    let error = Engine::new().read("mine.ron", &GRAPH.replace("+ b\"", "+ c\"")).unwrap_err().to_string();
    assert!(error.contains("mine.ron:11:"), "{error}");
}

/// In the steady state, the thread of the training loop allocates nothing between progress events.
#[test]
fn the_training_loop_allocates_nothing() {
    let mut session = session(GRAPH);
    let (mut counts, mut epoch_now) = (Vec::with_capacity(1000), 0);
    session
        .run_stages(None, &mut |event| {
            if let Event::Progress { epoch, .. } = event {
                let count = N_ALLOCATIONS.get();
                // Work between epochs may allocate.
                let is_next = *epoch == epoch_now;
                epoch_now = *epoch;
                counts.push((is_next, count));
            }
        })
        .unwrap();
    let steady: Vec<u64> =
        counts.windows(2).filter(|pair| pair[1].0).map(|pair| pair[1].1 - pair[0].1).collect();
    assert!(steady.len() > 9, "{counts:?}");
    assert!(steady.iter().all(|&n_allocations| n_allocations == 0), "{steady:?}");
}

thread_local! {
    static N_ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter per thread.
struct Counting;

// SAFETY: every call is passed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        N_ALLOCATIONS.set(N_ALLOCATIONS.get() + 1);
        // SAFETY: required of the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: required of the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A session can move to a thread of its own, as in asynchronous programs, and can be stopped from outside.
#[test]
fn a_session_runs_on_another_thread_until_it_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stopped.ckpt");
    let text = GRAPH.replace("epochs: 10", &format!("checkpoint: (path: {path:?}), epochs: 1000000"));
    let mut session = session(&text);
    let cancel = session.cancel_flag();
    let (started, first_step) = mpsc::channel();
    let running = thread::spawn(move || {
        let ended = session.run_stages(None, &mut |event| {
            if let Event::Progress { step, .. } = event {
                started.send(*step).unwrap_or_default();
            }
        });
        ended.unwrap_err().to_string()
    });
    first_step.recv().unwrap();
    cancel.store(true, Ordering::Relaxed);
    let said = running.join().unwrap();
    assert_eq!(said, format!("interrupted; `--resume {}` goes on from here", path.display()));
    assert!(path.exists());
}
