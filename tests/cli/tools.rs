//! `engine ops`, `devices`, `data`, `selftest`, `bench`, `profile`, `verify` and `new`.

use super::*;

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
    let sources = results(&["data"]);
    assert!(["synthetic-digits", "mixture"].iter().all(|name| sources.contains(name)));
    assert!(results(&["data", "synthetic-digits"]).contains("train.images: u8[60000,28,28]"));
    check_failure_after_results(&desk.engine(&["data", "mnist"]), "stand in for `mnist`");
}

/// `data` shows the data that a run would use, and fails if it differs from the request.
#[track_caller]
fn check_failure_after_results(ended: &Ended, said: &str) {
    assert_eq!(ended.code, 1);
    assert!(ended.errors.contains(said), "{}", ended.errors);
}

#[test]
fn the_ops_test_themselves() {
    let desk = Desk::new();
    let ended = desk.engine(&["selftest", "--filter", "relu", "--device", "cpu"]);
    assert_eq!((ended.code, ended.errors.as_str()), (0, ""));
    assert!(ended.results.ends_with(" checks on cpu: all passed, 0 skipped\n"), "{}", ended.results);
    check_failure(&desk.engine(&["selftest", "--filter", "rely"]), 1, "no op has a name like that");
    // Ops that index, and ops whose copies once overwrote their own operands.
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
    for command in ["bench", "profile"] {
        let said = "error: --stage: there is no stage `tset`; did you mean `test`?";
        check_failure(&desk.engine(&[command, "tiny.ron", "--stage", "tset"]), 1, said);
    }
}

/// The trace consists of complete events of the trace event format: each has a name, a time and a named lane. Events of
/// a lane do not overlap.
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

/// Layers nested three deep, repeated and shared, with gradients: fused, unfused and in double precision.
#[test]
fn nested_layers_have_the_results_of_double_precision() {
    let desk = Desk::new();
    desk.write("nested.ron", include_str!("../models/nested.ron"));
    let verified = desk.engine(&["verify", "nested.ron", "--device", "cpu"]);
    assert_eq!(verified.code, 0, "{}", verified.results);
    assert!(verified.results.ends_with("all as the interpreter has them\n"), "{}", verified.results);
    let run = |flags: &[&str]| -> Vec<f64> {
        let run = ["run", "nested.ron", "--device", "cpu", "--report", "r.json", "--force"];
        let ended = desk.engine(&[&run[..], flags].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let report: Value = serde_json::from_str(&fs::read_to_string(desk.path("r.json")).unwrap()).unwrap();
        let outputs = report["outputs"].as_object().unwrap().values();
        outputs.flat_map(|output| output["values"].as_array().unwrap()).map(|x| x.as_f64().unwrap()).collect()
    };
    let (fused, unfused) = (run(&[]), run(&["--no-fuse"]));
    assert!(fused.len() == unfused.len() && fused.len() > 100);
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 + 1e-5 * b.abs();
    assert!(fused.iter().zip(&unfused).all(is_near), "{fused:?} instead of {unfused:?}");
}

#[test]
fn every_kernel_is_compared_with_the_interpreter() {
    let ended = Desk::new().engine(&["verify", "tiny.ron", "--device", "cpu"]);
    assert_eq!((ended.code, ended.errors.as_str()), (0, ""), "{}", ended.results);
    assert!(ended.results.contains("\nh ") || ended.results.contains("matmul"), "{}", ended.results);
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
    check_failure(&desk.engine(&["new", "graph", "first"]), 1, "first.ron already exists");
    check_failure(&desk.engine(&["new", "graph", "no/name"]), 1, "`no/name` is no name");
    let ended = desk.engine(&["new", "graph", "mine.ron"]);
    check_failure(
        &ended,
        1,
        "`mine.ron` is no name: letters, digits and `_`, a letter first; did you mean `mine`?\n",
    );

    assert_eq!(desk.engine(&["new", "plugin", "mine"]).code, 0);
    let manifest = fs::read_to_string(desk.path("mine/Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"mine\"") && !manifest.contains("my_plugin"), "{manifest}");
    let checked = desk.engine(&["check", "first.ron", "--plugin", "mine/functions.ron"]);
    assert_eq!((checked.code, checked.errors.as_str()), (0, note));
    check_failure(&desk.engine(&["new", "plugin", "mine"]), 1, "mine already exists");
}

/// The output of `new plugin` is the example that is built and tested with the workspace, under another name. Only its
/// manifest differs: it names the engine's path and is a workspace of its own.
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
    let engine = env!("CARGO_MANIFEST_DIR");
    let engine = format!(
        "{before}# The path must lead to a checkout of the engine.\nengine = {{ path = {engine:?} }}\n\n[workspace]\n"
    );
    assert!(made.starts_with(&engine), "{made}");
}

/// `arange` has as many elements as its numbers say, so it cannot count up to an extent that is known later.
#[test]
fn an_open_extent_is_counted_by_another_op() {
    let desk = Desk::new();
    let graph = |position: &str| {
        let stages = r#"{"ask": Predict(batch: 1, outputs: {"y": "y"})}"#;
        format!(r#"(inputs: {{"x": "i32[B, T]"}}, nodes: {{"y": "x + {position}"}}, stages: {stages})"#)
    };
    desk.write("tiny.ron", graph("arange(stop=T)"));
    let ended = desk.engine(&["check", "tiny.ron"]);
    check_failure(&ended, 1, "error[E0108]: `stop` must be a number");
    let help = "= help: if `T` is an open extent, `iota(shape=[T])` counts up to it\n";
    assert!(ended.errors.contains(help), "{}", ended.errors);
    desk.write("tiny.ron", graph("arange(stop=x)"));
    let said = "= help: `stop`: where it ends; not reached\n";
    check_failure(&desk.engine(&["check", "tiny.ron"]), 1, said);
    desk.write("tiny.ron", graph("iota(shape=[T])").replace("T]\"", "3]\"").replace("[T]", "[3]"));
    assert_eq!(desk.engine(&["check", "tiny.ron"]).code, 0);
}

/// All files of a folder by relative path, without build outputs.
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
