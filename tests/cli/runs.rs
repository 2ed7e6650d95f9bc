//! `engine run`: its output, its report and its exit codes.

use super::*;

#[test]
fn a_run_prints_its_results_and_their_data() {
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
fn the_report_has_all_measurements() {
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

/// The report lists memory: the parameters as declared, twice as much for Adam's moments, all rows, and buffers of
/// steps.
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
fn the_exit_code_depends_on_the_fault() {
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
fn optimizers_are_listed_as_pipelines_write_them() {
    let desk = Desk::new();
    desk.write("tiny.ron", GRAPH.replace("Adam(", "Quickest("));
    let ended = desk.engine(&["check", "tiny.ron"]);
    check_failure(&ended, 1, "error[E0207]: there is no optimizer `Quickest`");
    let listed = ["`Sgd`", "`RMSprop`", "`Adam`", "`AdamW`"].map(|name| ended.errors.contains(name));
    assert_eq!(listed, [true; 4], "{}", ended.errors);
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

/// Texts grow together. The line of their stage counts their tokens, and the report the steps as well.
#[test]
fn generated_tokens_are_counted() {
    let desk = Desk::new();
    let graph = r#"(
      inputs: {"token": "u8[B, 8]"},
      nodes: {"logits": "one_hot(cast(token, dtype=i32) + 1, classes=256) * 50.0"},
      stages: {"write": Generate(
        tokens: "token", logits: "logits", prompt: ["abc", "k"], length: 4, temperature: 0,
      )},
    )"#;
    desk.write("tiny.ron", graph);
    let ended = desk.run(&["--report", "report.json"]);
    assert_eq!(ended.results, "abcdefg\nklmno\n");
    assert!(ended.errors.contains("write: 8 tokens, "), "{}", ended.errors);
    let report = fs::read_to_string(desk.path("report.json")).unwrap();
    let stage = &serde_json::from_str::<Value>(&report).unwrap()["stages"][0];
    assert_eq!((&stage["tokens"], &stage["steps"]), (&8.into(), &6.into()));
}

/// Values of inputs settle the extents that a `Run` stage leaves open, and no others.
#[test]
fn given_values_settle_open_extents() {
    let desk = Desk::new();
    let graph = r#"(
      dims: {"C": 2},
      inputs: {"x": "f32[B, C]", "t": "f32[T]"},
      nodes: {"sum": "sum(x, axis=1)", "both": "sum(sum) * t"},
      stages: {"go": Run(outputs: ["sum"]), "twice": Run(outputs: ["both"], dims: {"T": 1})},
    )"#;
    desk.write("tiny.ron", graph);
    save_npy(&desk.path("x.npy"), &HostTensor::from_slice(&[3, 2], &[1.0f32; 6]).unwrap());
    let ended = desk.run(&["--input", "x=x.npy", "--input", "t=[2]", "--report", "report.json"]);
    assert!(ended.results.contains("go: sum: f32[3] = [2, 2, 2]\n"), "{}", ended.results);
    assert!(ended.results.contains("twice: both: f32[1] = [12]\n"), "{}", ended.results);
    assert_eq!(desk.engine(&["check", "tiny.ron", "--input", "x=[[1, 2]]", "--input", "t=[2]"]).code, 0);
    check_failure(&desk.engine(&["run", "tiny.ron"]), 1, "this stage does not say how large `B` is");
    // What a stage says itself stays.
    let said = "input `t`: it is f32[1], a value of shape [2] was given";
    let ended =
        desk.engine(&["run", "tiny.ron", "--device", "cpu", "--input", "x=x.npy", "--input", "t=[2, 3]"]);
    assert_eq!(ended.code, 1);
    assert!(ended.errors.contains(said), "{}", ended.errors);
}

/// A file of some parameters is read by a stage that names them.
#[test]
fn a_file_of_some_parameters_has_a_help_that_loads_it() {
    let desk = Desk::new();
    let graph = r#"(
      params: {"b": "f32[1, 2]", "v": "f32[1, 2]"},
      layers: {"dense": "Linear(width=2)"},
      nodes: {"y": "dense(v) + b"},
      stages: {"keep": Save(path: "some.ckpt", names: ["b", "dense.*"]), "go": Run(outputs: ["y"])},
    )"#;
    desk.write("tiny.ron", graph);
    desk.run(&["--only", "keep"]);
    let help = "= help: a stage `Load(path: \"some.ckpt\", names: [\"b\", \"dense.*\"])` reads the parameters that it has";
    let run = ["run", "tiny.ron", "--device", "cpu", "--only", "go", "--load", "some.ckpt"];
    let export = ["export", "tiny.ron", "--output", "y", "-o", "y.onnx", "--load", "some.ckpt"];
    for command in [&run[..], &export] {
        let ended = desk.engine(command);
        check_failure(&ended, 1, "error[E0504]: checkpoint some.ckpt: ");
        assert!(ended.errors.contains(help), "{}", ended.errors);
    }
    let loading = r#"stages: {"load": Load(path: "some.ckpt", names: ["b", "dense.*"]), "#;
    desk.write("tiny.ron", graph.replace("stages: {", loading));
    desk.run(&["--only", "load", "--only", "go"]);
}
