//! The `engine` command as its users see it: what it prints where, what it leaves behind, and how it ends.

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

#[path = "cli/faults.rs"]
mod faults;
#[path = "cli/files.rs"]
mod files;
#[path = "cli/graphs.rs"]
mod graphs;
#[path = "cli/inspection.rs"]
mod inspection;
#[path = "cli/report.rs"]
mod report;
#[path = "cli/residency.rs"]
mod residency;
#[path = "cli/search.rs"]
mod search;
#[path = "cli/tables.rs"]
mod tables;
#[path = "cli/weights.rs"]
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

/// A folder to run in, with `tiny.ron` in it.
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

    /// Runs `tiny.ron` on the CPU, which must succeed.
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

/// What a command printed and how it ended.
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

#[test]
fn a_run_prints_its_results_and_says_what_they_were_measured_on() {
    let desk = Desk::new();
    let ended = desk.run(&[]);
    let lines: Vec<&str> = ended.results.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].starts_with("train: epoch 1/3: train loss "), "{}", lines[0]);
    assert!(lines[0].contains(", test accuracy 0."), "{}", lines[0]);
    assert!(lines[3].starts_with("test: accuracy 0."), "{}", lines[3]);
    assert!(lines.iter().all(|line| line.ends_with("(on the built-in synthetic-digits, not on real data)")));
    assert!(
        ended.errors.contains("data `digits`: synthetic-digits (synthetic), rows: 500 to train, 130 to test")
    );

    let quiet = desk.run(&["--quiet"]);
    assert_eq!((quiet.results.lines().count(), quiet.errors.as_str()), (2, ""));
    assert_eq!(quiet.results.lines().last(), ended.results.lines().last());
}

#[test]
fn integers_are_printed_and_reported_with_all_digits() {
    let desk = Desk::new();
    let graph = r#"(
      params: {"id": (type: "i64[2]", init: 9007199254740993, state: true)},
      nodes: {"next": "id + 1", "half": "cast(id, dtype=f32) * 0.5"},
      stages: {"show": Run(outputs: ["id", "next", "half"])},
    )"#;
    desk.write("ids.ron", graph);
    let ended = desk.engine(&["run", "ids.ron", "--device", "cpu", "--report", "report.json"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    for line in ["[9007199254740993, 9007199254740993]", "[9007199254740994, 9007199254740994]"] {
        assert!(ended.results.contains(line), "{}", ended.results);
    }
    let report = fs::read_to_string(desk.path("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let values = |name: &str| report["outputs"][name]["values"].clone();
    assert_eq!(values("next"), serde_json::json!([9007199254740994i64, 9007199254740994i64]));
    assert_eq!(values("half")[0].as_f64(), Some(4503599627370496.0));
}

#[test]
fn a_missing_set_is_replaced_with_a_note_that_even_quiet_runs_print() {
    let desk = Desk::new();
    desk.write("tiny.ron", GRAPH.replace("synthetic-digits", "mnist"));
    let ended = desk.run(&["--quiet", "--set", "train.epochs=1"]);
    let said = "note: the built-in synthetic digits stand in for `mnist`: it is not in data/mnist, data";
    assert!(ended.errors.starts_with(said), "{}", ended.errors);
    assert!(ended.results.contains("not on real data"));
}

#[test]
fn the_report_has_what_was_measured() {
    let report = Desk::new().report(&["--set", "train.epochs=2"]);
    assert_eq!(
        (&report["graph"], &report["device"], &report["seed"]),
        (&"tiny".into(), &"cpu".into(), &5.into())
    );
    assert_eq!(report["data"]["digits"]["name"], "synthetic-digits");
    assert_eq!(report["data"]["digits"]["synthetic"], true);
    let train = &report["stages"][0];
    assert_eq!(
        (&train["name"], &train["kind"], &train["steps"]),
        (&"train".into(), &"train".into(), &16.into())
    );
    let losses: Vec<f64> =
        (0..2).map(|epoch| train["epochs"][epoch]["train_loss"].as_f64().unwrap()).collect();
    // An untrained network's loss is near ln 10.
    assert!(losses[0] < 2.4 && losses[1] < 0.9 * losses[0], "{losses:?}");
    for number in ["seconds", "step_us", "kernels_per_step", "peak_bytes"] {
        assert!(train[number].as_f64().unwrap() > 0.0, "{number}");
    }
    check_memory(train);
    let peaks = report["stages"].as_array().unwrap().iter().map(|stage| stage["peak_bytes"].as_u64());
    assert_eq!(report["peak_bytes"].as_u64(), peaks.max().unwrap());
    assert_eq!(train["epochs"][1]["metrics"]["accuracy"], report["stages"][1]["metrics"]["accuracy"]);
}

/// What takes memory: the parameters as declared, twice as much for Adam's moments, all rows, and something for steps.
fn check_memory(train: &Value) {
    let bytes = |what: &str| train["memory"][what].as_u64().unwrap();
    let parameters = 4 * (784 * 16 + 16 + 16 * 10);
    assert_eq!(bytes("parameters"), parameters);
    assert!((2 * parameters..2 * parameters + 1024).contains(&bytes("state")), "{train}");
    assert_eq!(bytes("data"), (500 + 130) * 785);
    assert!(bytes("steps") > 0);
    let all = ["parameters", "state", "data", "steps"].map(bytes);
    assert_eq!(train["peak_bytes"].as_u64().unwrap(), all.iter().sum::<u64>());
}

#[test]
fn whose_fault_it_is_decides_the_exit_code() {
    let desk = Desk::new();
    desk.write("broken.ron", GRAPH.replace("x @ w1", "x @ w3"));
    desk.write("nan.ron", GRAPH.replace("lr: 3e-3", "lr: 1e30"));
    desk.write("float.ron", GRAPH.replace("u8[B, 784]", "f32[B, 784]"));
    let rows = "`image` takes rows of f32[784], the field `images` has rows of u8[28, 28]";
    check_failure(&desk.engine(&["run", "float.ron", "--device", "cpu"]), 1, rows);
    check_failure(&desk.engine(&["run", "none.ron"]), 1, "error: none.ron cannot be read: ");
    check_failure(&desk.engine(&["run", "broken.ron"]), 1, "broken.ron:17:20");
    check_failure(&desk.engine(&["run", "tiny.ron", "--set", "train.epoch=1"]), 1, "did you mean `epochs`?");
    check_failure(
        &desk.engine(&["run", "tiny.ron", "--resume", "none.ckpt"]),
        1,
        "error[E0503]: checkpoint none.ckpt: cannot be read",
    );
    check_failure(
        &desk.engine(&["run", "tiny.ron", "--report", "none/report.json"]),
        3,
        "error[E0505]: none/report.json cannot be written: there is no folder none",
    );
    check_failure(
        &desk.engine(&["run", "tiny.ron", "--device", "cuda:99"]),
        3,
        "error[E0603]: device `cuda:99`",
    );
    check_failure(&desk.engine(&["ops", "sofmax"]), 1, "there is no op `sofmax`; did you mean `softmax`?");
    for usage in
        [&["run"][..], &["walk"], &["run", "tiny.ron", "--device", "tpu"], &["run", "tiny.ron", "--set", "x"]]
    {
        check_failure(&desk.engine(usage), 2, "--help");
    }
    let nan = desk.engine(&["run", "nan.ron", "--device", "cpu"]);
    assert_eq!(nan.code, 1);
    assert!(nan.errors.contains("stage `train`: the loss is not finite from step "), "{}", nan.errors);
    assert!(!desk.path("latest.ckpt").exists());
}

#[test]
fn a_broken_data_file_is_an_error_and_never_replaced() {
    let desk = Desk::new();
    desk.write("tiny.ron", GRAPH.replace("synthetic-digits", "mnist"));
    fs::create_dir_all(desk.path("sets/mnist")).unwrap();
    for file in [
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ] {
        desk.write(&format!("sets/mnist/{file}"), [0, 0, 8, 3, 0, 0, 0, 9]);
    }
    let ended = desk.engine(&["run", "tiny.ron", "--data-dir", "sets"]);
    check_failure(
        &ended,
        1,
        "train-images-idx3-ubyte: at byte 8: the header has 16 bytes but the file ends after 8",
    );
}

#[test]
fn the_same_seed_gives_the_same_bits_on_any_number_of_threads() {
    let desk = Desk::new();
    let tensors = |arguments: &[&str]| {
        desk.run(arguments);
        desk.checkpoint("latest.ckpt").tensors
    };
    let one = tensors(&["--threads", "1"]);
    assert_eq!(tensors(&["--threads", "1"]), one);
    assert_eq!(tensors(&["--threads", "3"]), one);
    assert_ne!(tensors(&["--set", "seed=6"])["w1"], one["w1"]);
}

#[test]
fn every_node_a_kernel_of_its_own_learns_the_same() {
    let desk = Desk::new();
    let loss = |arguments: &[&str]| {
        let report = desk.report(arguments);
        (
            report["stages"][1]["metrics"]["loss"].as_f64().unwrap(),
            report["stages"][0]["kernels_per_step"].as_u64().unwrap(),
        )
    };
    let ((fused, few), (apart, many)) = (loss(&[]), loss(&["--no-fuse"]));
    assert!((fused - apart).abs() < 1e-3, "{fused} {apart}");
    assert!(few * 2 < many, "{few} {many}");
}

/// After every whole epoch and in the middle of one: 500 rows make 8 steps an epoch, the last of them short.
#[test]
fn a_resumed_run_ends_with_the_same_bits() {
    let desk = Desk::new();
    desk.run(&[]);
    let whole = desk.checkpoint("latest.ckpt");
    assert_eq!((whole.step, whole.cursor.epoch), (24, 3));
    for steps in ["7", "8", "13"] {
        desk.run(&[
            "--set",
            &format!("train.max_steps={steps}"),
            "--set",
            "train.checkpoint.path=\"part.ckpt\"",
        ]);
        desk.run(&["--resume", "part.ckpt"]);
        assert_eq!(desk.checkpoint("latest.ckpt"), whole, "after {steps} steps");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_saves_its_state_and_ends_with_130() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let desk = Desk::new();
    let long = GRAPH.replace("epochs: 3", "epochs: 100000").replace("latest", "stopped");
    desk.write("long.ron", &long);
    let mut command = desk.command(&["run", "long.ron", "--device", "cpu"]);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("train: epoch 1/"), "{line}");
    let sent = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert!(errors.contains("interrupted; `--resume stopped.ckpt` goes on from here"), "{errors}");

    let step = desk.checkpoint("stopped.ckpt").step;
    let steps = format!("train.max_steps={}", step + 9);
    let resume = ["run", "long.ron", "--device", "cpu", "--set", &steps];
    assert_eq!(desk.engine(&[&resume[..], &["--resume", "stopped.ckpt"]].concat()).code, 0);
    let resumed = desk.checkpoint("stopped.ckpt");
    assert_eq!(desk.engine(&resume).code, 0);
    assert_eq!(resumed, desk.checkpoint("stopped.ckpt"));
}

#[test]
fn a_checkpoint_of_another_graph_is_a_named_difference() {
    let desk = Desk::new();
    desk.run(&["--set", "train.epochs=1"]);
    desk.write("other.ron", GRAPH.replace("f32[16, 10]", "f32[16, 11]"));
    let ended = desk.engine(&["run", "other.ron", "--device", "cpu", "--resume", "latest.ckpt"]);
    assert_eq!(ended.code, 1);
    assert!(ended.errors.contains("the tensors do not match the graph"), "{}", ended.errors);
    assert!(ended.errors.contains("`w2: f32[16,11]` is f32[16,10] in the file"), "{}", ended.errors);

    let path = desk.path("latest.ckpt");
    let mut damaged = fs::read(&path).unwrap();
    let last = damaged.len() - 1;
    damaged[last] ^= 4;
    fs::write(&path, damaged).unwrap();
    let ended = desk.engine(&["run", "tiny.ron", "--device", "cpu", "--resume", "latest.ckpt"]);
    assert_eq!(ended.code, 1);
    assert!(ended.errors.contains("is damaged: its checksum is "), "{}", ended.errors);
}

/// What `predict` says about the test images agrees with the accuracy that the run has measured.
#[test]
fn predictions_are_those_of_the_evaluation() {
    let desk = Desk::new();
    let accuracy = desk.report(&[])["stages"][1]["metrics"]["accuracy"].as_f64().unwrap();
    let test = digits::draw(digits::DEFAULT_SEED, Part::Test, 130).unwrap();
    save_npy(&desk.path("images.npy"), &test.images);
    let predict = ["predict", "tiny.ron", "--device", "cpu", "--load", "latest.ckpt", "--input"];

    let ended = desk.engine(&[&predict[..], &["images.npy"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let lines: Vec<&str> = ended.results.lines().collect();
    assert!(lines[0].starts_with("class,logits.0,logits.1,"), "{}", lines[0]);
    let classes = lines[1..].iter().map(|line| line.split(',').next().unwrap().parse::<u8>().unwrap());
    let n_hits = classes.zip(test.labels.bytes()).filter(|(class, label)| class == *label).count();
    assert!((n_hits as f64 / 130.0 - accuracy).abs() < 1e-6, "{n_hits} hits, accuracy {accuracy}");

    let header = [0, 0, 8, 3, 0, 0, 0, 130, 0, 0, 0, 28, 0, 0, 0, 28];
    desk.write("images.idx", [&header[..], test.images.bytes()].concat());
    let idx = desk.engine(&[&predict[..], &["images.idx", "--output", "out.csv"]].concat());
    assert_eq!((idx.code, idx.results.as_str()), (0, ""));
    assert_eq!(fs::read_to_string(desk.path("out.csv")).unwrap(), ended.results);

    desk.write("one.ron", GRAPH.replace(r#", "logits": "logits"}"#, "}"));
    let one = [&["predict", "one.ron"], &predict[2..], &["images.npy", "--output", "class.npy"]].concat();
    assert_eq!(desk.engine(&one).code, 0);
    assert_eq!(format!("{:?}", npy::read(&desk.path("class.npy")).unwrap()), "i32[130]");

    let both = |output: &str| desk.engine(&[&predict[..], &["images.npy", "--output", output]].concat());
    assert_eq!(both("all.npz").code, 0);
    let arrays = npz::read_all(&desk.path("all.npz")).unwrap();
    assert_eq!(format!("{arrays:?}"), r#"{"class": i32[130], "logits": f32[130,10]}"#);
    assert_eq!(arrays["class"], npy::read(&desk.path("class.npy")).unwrap());
    check_failure(
        &desk.engine(&[&predict[..], &["all.npz"]].concat()),
        1,
        "all.npz: holds not one array but class, logits\n = help: name one of them: `all.npz/ARRAY`",
    );
    check_failure(
        &both("all.npy"),
        1,
        "a .npy file holds one output, there are 2; write a .npz or .csv file",
    );
}

fn save_npy(path: &Path, tensor: &HostTensor) {
    npy::write(tensor, &mut fs::File::create(path).unwrap()).unwrap();
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let desk = Desk::new();
    desk.run(&["--set", "train.epochs=1"]);
    desk.write("rows.csv", "1,2,3\n");
    let predict =
        |arguments: &[&str]| desk.engine(&[&["predict", "tiny.ron", "--device", "cpu"], arguments].concat());
    let ended = predict(&["--load", "latest.ckpt", "--input", "rows.csv"]);
    check_failure(&ended, 1, "error[E0506]: rows of u8[3] do not fit an input of u8[784]");
    check_failure(&predict(&["--load", "latest.ckpt", "--input", "none.csv"]), 1, "none.csv: cannot be read");
    check_failure(&predict(&["--load", "rows.csv", "--input", "rows.csv"]), 1, "checkpoint rows.csv: ");
    check_failure(&predict(&["--input", "rows.csv"]), 1, "`--load CKPT` gives them their trained values");
}

#[test]
fn functions_of_a_plugin_file_can_be_called() {
    let desk = Desk::new();
    desk.write(
        "mine.ron",
        r#"(functions: {"bend": (inputs: ["v"], output: "maximum(v, 0.0)", summary: "Bends.")})"#,
    );
    desk.write("tiny.ron", GRAPH.replace("relu(", "bend("));
    let without = desk.engine(&["check", "tiny.ron"]);
    check_failure(&without, 1, "there is no op `bend`");
    let with = desk.engine(&["check", "tiny.ron", "--plugin", "mine.ron"]);
    assert_eq!((with.code, with.errors.as_str()), (0, ""));
    desk.run(&["--plugin", "mine.ron", "--set", "train.epochs=1"]);
}

#[test]
fn every_form_of_a_pipeline_can_be_printed() {
    let desk = Desk::new();
    let explain = |arguments: &[&str]| {
        let ended = desk.engine(&[&["explain", "tiny.ron"], arguments].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended.results
    };
    let check = |form: &str, shown: &str| {
        let text = explain(&["--stage", form]);
        assert!(text.contains(shown), "{form}: {text}");
        assert_eq!(text, explain(&["--stage", form]));
    };
    check("typed", "input image: u8[B, 784]");
    check("grad", "param w1: f32[784, 16]");
    check("primitive", ".contract(");
    check("simplified", "# stage train");
    check("kernels", "contract h");
    check("plan", "launches, 1 streams, arena ");

    let json: Value = serde_json::from_str(&explain(&["--json"])).unwrap();
    let stages = json["stages"].as_array().unwrap();
    assert_eq!(
        stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["train", "test", "predict"]
    );
    for stage in stages {
        assert!(stage["peak_bytes"].as_u64().unwrap() > 0);
        assert!(stage["not_fused"].as_array().unwrap().iter().all(|edge| edge["reason"].is_string()));
        for kernel in stage["kernels"].as_array().unwrap() {
            assert!(kernel["name"].is_string() && kernel["kind"].is_string() && kernel["flops"].is_u64());
            assert!(
                kernel["ops"].is_array() && kernel["bytes_read"].is_u64() && kernel["bytes_written"].is_u64()
            );
        }
    }
    let n_kernels = |json: &Value| json["stages"][0]["kernels"].as_array().unwrap().len();
    let apart: Value = serde_json::from_str(&explain(&["--json", "--no-fuse"])).unwrap();
    assert!(n_kernels(&json) * 2 < n_kernels(&apart));
}

#[test]
fn what_keeps_two_nodes_apart_is_said() {
    let desk = Desk::new();
    let ended = desk.engine(&["why", "tiny.ron", "h", "loss"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(
        ended.results.starts_with("train: between `h` and `loss`:\n  `h` and `logits"),
        "{}",
        ended.results
    );
    check_failure(
        &desk.engine(&["why", "tiny.ron", "h", "nothing"]),
        1,
        "error[E0101]: no stage has a node `nothing`",
    );
    check_failure(&desk.engine(&["why", "tiny.ron", "h", "logit"]), 1, "did you mean `logits`?");
    check_failure(
        &desk.engine(&["why", "tiny.ron", "logits", "h"]),
        1,
        "no stage has nodes `logits` and `h` where one uses the other",
    );
}

#[test]
fn a_node_that_is_kept_apart_has_a_kernel_of_its_own() {
    let desk = Desk::new();
    let mixed = GRAPH.replace("nodes: {", "nodes: [{").replace(
        "    \"h\": \"relu(x @ w1 + b1)\",\n",
        "  }, (name: \"h\", expr: \"relu(x @ w1 + b1)\", fuse: Never), {\n",
    );
    let mixed = mixed.replace(
        "    \"accuracy\": \"mean(class == target)\",\n  },",
        "    \"accuracy\": \"mean(class == target)\",\n  }],",
    );
    desk.write("apart.ron", &mixed);
    let ended = desk.engine(&["why", "apart.ron", "x", "h"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(ended.results.contains("`fuse: Never` keeps them apart"), "{}", ended.results);
    let run = |graph: &str| {
        let ended = desk.engine(&["run", graph, "--device", "cpu", "--quiet", "--report", "report.json"]);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let report: Value =
            serde_json::from_str(&fs::read_to_string(desk.path("report.json")).unwrap()).unwrap();
        report["stages"][1]["metrics"]["loss"].as_f64().unwrap()
    };
    let (free, apart) = (run("tiny.ron"), run("apart.ron"));
    assert!((free - apart).abs() < 1e-4 * free, "{free} and {apart}");
}

#[test]
fn the_compiler_can_be_held_back_to_find_a_wrong_step() {
    let desk = Desk::new();
    let n_kernels = |arguments: &[&str]| {
        let ended = desk.engine(&[&["explain", "tiny.ron", "--json"], arguments].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let json: Value = serde_json::from_str(&ended.results).unwrap();
        json["stages"][0]["kernels"].as_array().unwrap().len()
    };
    let all = n_kernels(&[]);
    assert!(n_kernels(&["--without", "edges"]) > all);
    let some = n_kernels(&["--fuel", "20"]);
    assert!(all < some && some < n_kernels(&["--fuel", "0"]));
    check_failure(&desk.engine(&["explain", "tiny.ron", "--without", "edge"]), 2, "known are add-neutral, ");
}

#[test]
fn ops_devices_and_data_are_listed() {
    let desk = Desk::new();
    let results = |arguments: &[&str]| {
        let ended = desk.engine(arguments);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended.results
    };
    assert!(results(&["ops"]).contains("\n  relu "));
    assert!(results(&["ops", "relu"]).starts_with("relu(x) -> "));
    assert!(results(&["ops", "--markdown"]).contains("\n### softmax\n"));
    assert!(results(&["devices"]).starts_with("cpu: "));
    let measured = results(&["devices", "--measure"]);
    assert!(measured.contains(" GB/s, read and written, of "), "{measured}");
    assert!(measured.contains("  product in f32: "), "{measured}");
    assert!(results(&["data"]).contains("synthetic-digits"));
    assert!(results(&["data", "synthetic-digits"]).contains("train.images: u8[60000,28,28]"));
    check_failure_after_results(&desk.engine(&["data", "mnist"]), "stand in for `mnist`");
}

/// `data` shows what a run would use, and fails if that is not what was asked for.
#[track_caller]
fn check_failure_after_results(ended: &Ended, said: &str) {
    assert_eq!(ended.code, 1);
    assert!(ended.errors.contains(said), "{}", ended.errors);
}

#[test]
fn strict_numerics_keep_every_bit_as_it_is_written() {
    let desk = Desk::new();
    let nodes = r#"nodes: {"y": "log(sum(exp(x), axis=1))"}, stages: {"go": Run(outputs: ["y"])}"#;
    desk.write("log.ron", format!(r#"(params: {{"x": "f32[4, 8]"}}, {nodes})"#));
    let is_stable = |set: &[&str]| {
        let ended = desk.engine(&[&["explain", "log.ron", "--stage", "simplified"], set].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended.results.contains("max(")
    };
    assert!(is_stable(&[]));
    assert!(!is_stable(&["--set", "numerics=Strict"]));
}

#[test]
fn the_ops_test_themselves() {
    let desk = Desk::new();
    let ended = desk.engine(&["selftest", "--filter", "relu", "--device", "cpu"]);
    assert_eq!((ended.code, ended.errors.as_str()), (0, ""));
    assert!(ended.results.ends_with(" checks on cpu: all passed, 0 skipped\n"), "{}", ended.results);
    check_failure(&desk.engine(&["selftest", "--filter", "rely"]), 1, "no op has a name like that");
    // What indexes and what copies wrote over its own operands once.
    for op in ["gather", "sum", "cross_entropy", "reshape"] {
        let ended = desk.engine(&["selftest", "--filter", op, "--device", "cpu"]);
        assert_eq!(ended.code, 0, "{}{}", ended.results, ended.errors);
    }
}

#[test]
fn steps_and_kernels_are_timed() {
    let desk = Desk::new();
    let results = |arguments: &[&str]| {
        let ended = desk.engine(arguments);
        assert_eq!((ended.code, ended.errors.as_str()), (0, ""));
        ended.results
    };
    let bench = ["bench", "tiny.ron", "--device", "cpu", "--warmup", "2", "--steps", "5"];
    let text = results(&bench);
    assert!(text.starts_with("stage ") && text.contains("\ntrain ") && text.contains("\ntest "), "{text}");
    let json: Value =
        serde_json::from_str(&results(&[&bench[..], &["--stage", "train", "--json"]].concat())).unwrap();
    let stages = json["stages"].as_array().unwrap();
    assert_eq!((stages.len(), &stages[0]["steps"]), (1, &5.into()));
    assert!(stages[0]["median_us"].as_f64().unwrap() <= stages[0]["max_us"].as_f64().unwrap());
    assert!(stages[0]["compile_seconds"].as_f64().unwrap() > 0.0);

    let graph = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs/embedding.ron");
    let few = [
        "bench",
        graph,
        "--device",
        "cpu",
        "--warmup",
        "1",
        "--steps",
        "2",
        "--set",
        "data.digits.n_train=512",
    ];
    let price = "\nsums where indices meet: in order, which costs nothing on this device\n";
    assert!(results(&few).ends_with(price));

    let profile = ["profile", "tiny.ron", "--device", "cpu", "--steps", "3", "--trace", "trace.json"];
    let text = results(&profile);
    assert!(text.contains("GB/s by a copy of ") && text.contains("limited by"), "{text}");
    assert!(text.lines().next().unwrap().ends_with(" in f32"), "{text}");
    let trace: Value = serde_json::from_str(&fs::read_to_string(desk.path("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let kernels: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert!(kernels.len() > 6 && kernels.len().is_multiple_of(3), "{}", kernels.len());
    check_trace(events);
    check_failure(&desk.engine(&["bench", "tiny.ron", "--stage", "predict"]), 1, "`predict` takes no steps");
}

/// Complete events as the trace event format has them: each with its name, its time and a lane that has a name as well,
/// and in a lane one after the other.
fn check_trace(events: &[Value]) {
    let number = |event: &Value, key: &str| event[key].as_f64().unwrap_or_else(|| panic!("{key}: {event}"));
    let lane = |event: &Value| (number(event, "pid") as u64, number(event, "tid") as u64);
    let named: Vec<&Value> = events.iter().filter(|event| event["ph"] == "M").collect();
    let is = |event: &&&Value, what: &str| event["name"] == what && event["args"]["name"].is_string();
    let processes = named.iter().filter(|event| is(event, "process_name")).map(|event| number(event, "pid"));
    let processes: Vec<u64> = processes.map(|pid| pid as u64).collect();
    let lanes: Vec<(u64, u64)> =
        named.iter().filter(|event| is(event, "thread_name")).map(|event| lane(event)).collect();
    let mut ends: HashMap<(u64, u64), f64> = HashMap::new();
    for event in events.iter().filter(|event| event["ph"] != "M") {
        assert!(
            event["name"].is_string() && event["cat"].is_string() && event["args"].is_object(),
            "{event}"
        );
        let (start, length, lane) = (number(event, "ts"), number(event, "dur"), lane(event));
        assert!(processes.contains(&lane.0) && lanes.contains(&lane), "{event}");
        let end = ends.insert(lane, start + length).unwrap_or(0.0);
        assert!(event["ph"] == "X" && length >= 0.0 && start >= end - 1e-3, "{event} starts before {end}");
    }
}

#[test]
fn every_kernel_is_compared_with_the_interpreter() {
    let ended = Desk::new().engine(&["verify", "tiny.ron", "--device", "cpu"]);
    assert_eq!((ended.code, ended.errors.as_str()), (0, ""), "{}", ended.results);
    assert!(ended.results.contains("\nh ") || ended.results.contains("contract"), "{}", ended.results);
    assert!(ended.results.contains("\nthe whole plan"), "{}", ended.results);
    assert!(
        ended.results.ends_with(" kernels and 3 plans on cpu: all as the interpreter has them\n"),
        "{}",
        ended.results
    );
}

#[test]
fn new_graphs_and_plugins_work_as_they_are() {
    let desk = Desk::new();
    assert_eq!(desk.engine(&["new", "graph", "first"]).code, 0);
    let checked = desk.engine(&["check", "first.ron"]);
    let note = "note: data `digits`: `mnist` cannot be had: it is not in data/mnist, data, and downloads are off; its \
                stages are checked without it\n";
    assert_eq!((checked.code, checked.errors.as_str()), (0, note));
    let few = ["train.max_steps=5", "data.digits.n_train=640", "data.digits.n_test=100"];
    let few = few.iter().flat_map(|setting| ["--set", setting]);
    let run: Vec<&str> = ["run", "first.ron", "--device", "cpu"].into_iter().chain(few).collect();
    assert_eq!(desk.engine(&run).code, 0);
    check_failure(&desk.engine(&["new", "graph", "first"]), 1, "first.ron is there already");
    check_failure(&desk.engine(&["new", "graph", "no/name"]), 1, "`no/name` is no name");

    assert_eq!(desk.engine(&["new", "plugin", "mine"]).code, 0);
    let manifest = fs::read_to_string(desk.path("mine/Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"mine\"") && !manifest.contains("my_plugin"), "{manifest}");
    let checked = desk.engine(&["check", "first.ron", "--plugin", "mine/functions.ron"]);
    assert_eq!((checked.code, checked.errors.as_str()), (0, note));
    check_failure(&desk.engine(&["new", "plugin", "mine"]), 1, "mine is there already");
}

/// What `new plugin` makes is the example that is built and tested with the workspace, under another name: its manifest
/// alone says more, where the engine is and that it is a workspace of its own.
#[test]
fn a_new_plugin_is_the_tested_example() {
    let desk = Desk::new();
    assert_eq!(desk.engine(&["new", "plugin", "mine"]).code, 0);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plugin");
    let mut made = texts_below(&desk.path("mine"));
    let mut expected = texts_below(&example);
    expected.values_mut().for_each(|text| *text = text.replace("my_plugin", "mine"));
    let manifests = [&mut made, &mut expected].map(|files| files.remove("Cargo.toml").unwrap());
    assert_eq!(made, expected);
    let [made, expected] = manifests.each_ref().map(|text| text.trim_end());
    let (before, engine) = expected.rsplit_once("engine = ").unwrap();
    assert_eq!(engine, "{ path = \"../..\" }");
    let engine = format!("{before}engine = {{ path = {:?} }}\n\n[workspace]\n", env!("CARGO_MANIFEST_DIR"));
    assert!(made.starts_with(&engine), "{made}");
}

/// All files of a folder by their paths in it, but for what is built there.
fn texts_below(folder: &Path) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_file() {
            texts.insert(name, fs::read_to_string(entry.path()).unwrap());
        } else if name != "target" {
            let below = texts_below(&entry.path());
            texts.extend(below.into_iter().map(|(path, text)| (format!("{name}/{path}"), text)));
        }
    }
    texts
}

#[test]
fn several_batches_make_whole_steps_of_an_optimizer() {
    let desk = Desk::new();
    let with =
        |settings: &str| GRAPH.replace("batch: 64, epochs: 3", &format!("batch: 64, epochs: 3, {settings}"));
    desk.write("tiny.ron", with("accumulate: 3"));
    // 500 rows make two steps of 192.
    let report = desk.report(&[]);
    assert_eq!((&report["stages"][0]["steps"], desk.checkpoint("latest.ckpt").step), (&6.into(), 6));
    let whole = desk.checkpoint("latest.ckpt");
    assert!(!whole.tensors.contains_key("w1.grad"));
    desk.run(&["--set", "train.max_steps=3", "--set", "train.checkpoint.path=\"part.ckpt\""]);
    desk.run(&["--resume", "part.ckpt"]);
    assert_eq!(desk.checkpoint("latest.ckpt"), whole);

    desk.write("short.ron", with("accumulate: 3, last_batch: Short"));
    check_failure(
        &desk.engine(&["check", "short.ron"]),
        1,
        "error[E0014]: with `accumulate`, rows that do not fill",
    );
    let by_hand = with("accumulate: 3").replace("optimizer: Adam(lr: 3e-3)", "state: {\"b1\": \"b1\"}");
    desk.write("hand.ron", by_hand);
    check_failure(&desk.engine(&["check", "hand.ron"]), 1, "error[E0206]: `accumulate` needs an optimizer");
}
