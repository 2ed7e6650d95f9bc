//! The `engine` command from the outside: its output, its files and its exit codes.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use engine::runtime::checkpoint::Checkpoint;
use engine::runtime::data::{npy, npz};
use engine::runtime::tensor::HostTensor;
use engine_digits::{self as digits, Part};
use indexmap::IndexMap;
use serde_json::Value;

mod checkpoints;
mod compiler;
mod faults;
mod faults_wgpu;
mod files;
mod generate;
mod graphs;
mod help;
mod import;
mod inspection;
mod kills;
mod logs;
mod precision;
mod predict;
mod report;
mod residency;
mod runs;
mod search;
mod selection;
mod tables;
mod tools;
mod weights;

/// A small network on few synthetic digits; the stages are appended.
const GRAPH: &str = r#"(
  name: "tiny",
  seed: 5,
  data: {"digits": (source: "synthetic-digits", n_train: 500, n_test: 130)},
  inputs: {
    "image": (type: "u8[B, 784]", from: "digits.images"),
    "label": (type: "u8[B]", from: "digits.labels"),
  },
  params: {
    "w1": (type: "f32[784, 16]", init: Kaiming),
    "b1": (type: "f32[16]"),
    "w2": (type: "f32[16, 10]", init: Xavier),
  },
  nodes: {
    "x": "cast(image, dtype=f32) / 255.0",
    "target": "cast(label, dtype=i32)",
    "h": "relu(x @ w1 + b1)",
    "logits": "h @ w2",
    "class": "argmax(logits, axis=1)",
    "loss": "cross_entropy(logits, target)",
    "accuracy": "mean(class == target)",
  },
  stages: {
    "train": Train(
      data: "digits.train", batch: 64, epochs: 3, loss: "loss", optimizer: Adam(lr: 3e-3),
      evaluate: Evaluate(data: "digits.test", batch: 50, metrics: {"accuracy": "accuracy"}),
      checkpoint: (path: "latest.ckpt"),
    ),
    "test": Evaluate(data: "digits.test", batch: 64, metrics: {"accuracy": "accuracy", "loss": "loss"}),
    "predict": Predict(batch: 50, outputs: {"class": "class", "logits": "logits"}),
  },
)"#;

/// A folder with `tiny.ron` to run in.
struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Desk { dir: tempfile::tempdir().unwrap() };
        desk.write("tiny.ron", GRAPH);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .env("ENGINE_OFFLINE", "1")
            .env_remove("ENGINE_DATA_DIR");
        command
    }

    fn engine(&self, arguments: &[&str]) -> Ended {
        Ended::from(self.command(arguments).output().unwrap())
    }

    /// Runs `tiny.ron` on the CPU. The run must succeed.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Ended {
        let ended = self.engine(&[&["run", "tiny.ron", "--device", "cpu"], arguments].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended
    }

    /// Runs `tiny.ron` and returns its report.
    fn report(&self, arguments: &[&str]) -> Value {
        self.run(&[&["--report", "report.json"], arguments].concat());
        serde_json::from_str(&fs::read_to_string(self.path("report.json")).unwrap()).unwrap()
    }

    fn checkpoint(&self, name: &str) -> Checkpoint {
        Checkpoint::read(&self.path(name)).unwrap()
    }
}

/// The output and the exit code of a command.
struct Ended {
    code: i32,
    results: String,
    errors: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended {
            code: output.status.code().unwrap(),
            results: text(output.stdout),
            errors: text(output.stderr),
        }
    }
}

#[track_caller]
fn check_failure(ended: &Ended, code: i32, said: &str) {
    assert_eq!(ended.code, code, "{}", ended.errors);
    assert!(ended.errors.contains(said), "{}", ended.errors);
    assert_eq!(ended.results, "");
}

fn save_npy(path: &Path, tensor: &HostTensor) {
    npy::write(tensor, &mut fs::File::create(path).unwrap()).unwrap();
}
