//! Effects of commands on files, and of file contents on the terminal.

use super::*;

/// A graph whose data file is not a data file.
const READER: &str = r#"(
  data: {"d": (source: "files", x: "FILE")},
  inputs: {"x": (type: "f32[B, 2]", from: "d.x")},
  nodes: {"m": "mean(x)"},
  stages: {"t": Evaluate(data: "d.train", batch: 1, metrics: ["m"])},
)"#;

/// Training without an end.
fn endless() -> String {
    GRAPH.replace("epochs: 3", "epochs: 100000").replace("latest", "stopped")
}

fn json(desk: &Desk, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(desk.path(name)).unwrap()).unwrap()
}

// ---- How runs end.

/// Lets `SIGHUP` end a program, even if the tests themselves ignore it, as under `nohup`.
#[cfg(unix)]
fn heed_hangup(command: &mut Command) {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
    use std::os::unix::process::CommandExt;

    let heed = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: `sigaction` may be called between fork and exec, and no handler of this process is called.
    unsafe {
        command.pre_exec(move || Ok(sigaction(Signal::SIGHUP, &heed).map(drop)?));
    }
}

#[cfg(unix)]
#[test]
fn every_signal_to_end_saves_the_state_and_writes_the_report() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    for (signal, report) in [("-TERM", "report.json"), ("-HUP", "report.html")] {
        let desk = Desk::new();
        desk.write("long.ron", endless());
        let mut command = desk.command(&["run", "long.ron", "--device", "cpu", "--report", report]);
        heed_hangup(&mut command);
        let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(running.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(Command::new("kill").args([signal, &running.id().to_string()]).status().unwrap().success());
        let ended = Ended::from(running.wait_with_output().unwrap());
        assert_eq!(ended.code, 130, "{signal}: {}", ended.errors);
        assert!(
            ended.errors.contains("interrupted; `--resume stopped.ckpt` goes on from here"),
            "{}",
            ended.errors
        );
        assert!(desk.checkpoint("stopped.ckpt").step > 0);
        let text = fs::read_to_string(desk.path(report)).unwrap();
        match report {
            "report.html" => {
                assert!(text.contains("The run was interrupted.") && text.contains("Kernels of a step"))
            }
            _ => {
                let report = json(&desk, report);
                assert_eq!(report["end"], "interrupted");
                assert!(report["stages"][0]["epochs"][0]["train_loss"].as_f64().unwrap() > 0.0, "{report}");
            }
        }
    }
}

/// `nohup` starts programs with that signal ignored, so that they survive the end of the terminal.
#[cfg(unix)]
#[test]
fn a_run_under_nohup_outlives_a_hangup() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let desk = Desk::new();
    desk.write("long.ron", endless());
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" run long.ron --device cpu", env!("CARGO_BIN_EXE_engine")]);
    command.current_dir(desk.dir.path()).env("ENGINE_OFFLINE", "1");
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let send =
        |signal: &str| Command::new("kill").args([signal, &running.id().to_string()]).status().unwrap();
    assert!(lines.next().unwrap().unwrap().starts_with("train: epoch 1/"));
    assert!(send("-HUP").success());
    // Training continues.
    for _ in 0..3 {
        assert!(lines.next().unwrap().unwrap().starts_with("train: epoch "));
    }
    assert!(send("-TERM").success());
    lines.for_each(drop);
    let ended = Ended::from(running.wait_with_output().unwrap());
    assert_eq!(ended.code, 130, "{}", ended.errors);
    assert_eq!(ended.errors.matches("stopping after this step").count(), 1, "{}", ended.errors);
}

#[test]
fn the_report_says_how_the_run_ended() {
    let desk = Desk::new();
    assert_eq!(desk.report(&["--set", "train.epochs=1"])["end"], "complete");
    desk.write("nan.ron", GRAPH.replace("lr: 3e-3", "lr: 1e30"));
    let nan = desk.engine(&["run", "nan.ron", "--device", "cpu", "--report", "report.json"]);
    assert_eq!(nan.code, 1, "{}", nan.errors);
    assert_eq!(json(&desk, "report.json")["end"], "failed");
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_cannot_be_written_are_a_failure() {
    use std::process::Stdio;

    let desk = Desk::new();
    desk.run(&["--set", "train.epochs=1"]);
    save_npy(&desk.path("images.npy"), &digits::draw(digits::DEFAULT_SEED, Part::Test, 3).unwrap().images);
    let commands: [&[&str]; 7] = [
        &["run", "tiny.ron", "--device", "cpu", "--set", "train.epochs=1"],
        &["predict", "tiny.ron", "--device", "cpu", "--load", "latest.ckpt", "--input", "images.npy"],
        &["check", "tiny.ron"],
        &["explain", "tiny.ron"],
        &["ops"],
        &["--help"],
        &["--version"],
    ];
    for command in commands {
        let into = |out: Stdio| {
            Ended::from(desk.command(command).stdout(out).stderr(Stdio::piped()).output().unwrap())
        };
        let full = into(fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into());
        assert_eq!(full.code, 3, "{command:?}: {}", full.errors);
        let said = "error[E0505]: the standard output cannot be written: No space left on device";
        assert!(full.errors.contains(said), "{command:?}: {}", full.errors);
        // A reader that has closed the pipe causes no message.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = into(writer.into());
        assert_eq!(
            (closed.code, closed.errors.contains("error")),
            (0, false),
            "{command:?}: {}",
            closed.errors
        );
    }
}

// ---- Output files.

#[cfg(unix)]
#[test]
fn a_checkpoint_goes_through_links_and_replaces_nothing_else() {
    use std::os::unix::fs::symlink;

    let desk = Desk::new();
    let run = |path: &str, more: &[&str]| {
        let path = format!("train.checkpoint.path={path:?}");
        let settings = ["run", "tiny.ron", "--device", "cpu", "--set", "train.epochs=1", "--set", &path];
        desk.engine(&[&settings[..], more].concat())
    };
    fs::create_dir(desk.path("far")).unwrap();
    symlink("far/real.ckpt", desk.path("link.ckpt")).unwrap();
    for _ in 0..2 {
        assert_eq!(run("link.ckpt", &[]).code, 0);
        assert!(desk.path("link.ckpt").is_symlink());
        assert_eq!(desk.checkpoint("far/real.ckpt").step, 8);
    }
    // The message appears before any training.
    let refused = run("tiny.ron", &[]);
    check_failure(
        &refused,
        1,
        "error[E0505]: checkpoint tiny.ron: already exists, and is not a checkpoint of this",
    );
    assert!(refused.errors.contains("replace the file with `--force`"), "{}", refused.errors);
    assert_eq!(fs::read_to_string(desk.path("tiny.ron")).unwrap(), GRAPH);
    // `check` predicts the outcome of both runs.
    let check = ["check", "tiny.ron", "--set", "train.checkpoint.path=\"tiny.ron\""];
    check_failure(&desk.engine(&check), 1, "error[E0505]: checkpoint tiny.ron: already exists");
    assert_eq!(desk.engine(&[&check[..], &["--force"]].concat()).code, 0);
    check_failure(&run("/dev/null", &[]), 1, "checkpoint /dev/null: is a device, not a regular file");
    check_failure(&run("far", &[]), 1, "checkpoint far: is a folder, not a regular file");
    check_failure(&run("tiny.ron/a.ckpt", &[]), 3, "cannot be written: `tiny.ron` is not a folder");

    // Two names of one file.
    symlink("far", desk.path("near")).unwrap();
    let best = "train.checkpoint.best=\"near/real.ckpt\"";
    let same = ["--set", best, "--set", "train.monitor=Max(\"accuracy\")"];
    for path in ["link.ckpt", "far/real.ckpt", "far/../far/real.ckpt"] {
        let refused = run(path, &same);
        let said = "checkpoint near/real.ckpt: is the file of the latest state, and of the best one";
        check_failure(&refused, 1, said);
    }

    desk.write("notes.txt", "mine");
    assert_eq!(run("notes.txt", &["--force"]).code, 0);
    assert_eq!(desk.checkpoint("notes.txt").step, 8);
    assert_eq!(run("/dev/null", &["--force"]).code, 0);
    let left: Vec<String> = texts_or_names(&desk.path(""));
    assert!(left.iter().all(|name| !name.ends_with(".tmp")), "{left:?}");
}

fn texts_or_names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn reports_traces_and_dumps_replace_their_own_kind_only() {
    let desk = Desk::new();
    let few = ["--device", "cpu", "--set", "train.epochs=1"];
    let engine = |arguments: &[&str]| desk.engine(&[arguments, &few].concat());
    for (name, twice) in [("a.json", "a.json"), ("a.html", "a.html")] {
        assert_eq!(engine(&["run", "tiny.ron", "--report", name]).code, 0);
        assert_eq!(engine(&["run", "tiny.ron", "--report", twice]).code, 0);
    }
    desk.write("mine.json", "{\"mine\": 1}");
    let commands: [&[&str]; 3] = [
        &["run", "tiny.ron", "--report", "mine.json"],
        &["run", "tiny.ron", "--report", "tiny.ron"],
        &["profile", "tiny.ron", "--steps", "1", "--trace", "mine.json"],
    ];
    for command in commands {
        let ended = engine(command);
        check_failure(&ended, 1, "already exists, and is not a ");
        assert_eq!(fs::read_to_string(desk.path("mine.json")).unwrap(), "{\"mine\": 1}");
    }
    assert_eq!(engine(&["run", "tiny.ron", "--report", "mine.json", "--force"]).code, 0);
    assert_eq!(json(&desk, "mine.json")["graph"], "tiny");

    fs::create_dir(desk.path("dump")).unwrap();
    desk.write("dump/test.loss.npy", "mine");
    let dump = ["run", "tiny.ron", "--dump", "loss"];
    let ended = engine(&dump);
    check_failure(&ended, 1, "test.loss.npy already exists, and is not an array");
    check_failure(
        &engine(&[&dump[..], &["--dump-dir", "mine.json"]].concat()),
        3,
        "`mine.json` is not a folder",
    );
    assert_eq!(engine(&[&dump[..], &["--force"]].concat()).code, 0);
    assert_eq!(engine(&dump).code, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_a_save_stage_has_a_help_that_names_the_stage() {
    let desk = Desk::new();
    let save = r#"(params: {"w": (type: "f32[2]", init: 1)}, nodes: {"n": "sum(w)"},
      stages: {"go": Run(outputs: ["n"]), "keep": Save(path: "/dev/full")})"#;
    desk.write("save.ron", save);
    let ended = desk.engine(&["run", "save.ron", "--device", "cpu", "--force"]);
    assert_eq!(ended.code, 3, "{}", ended.errors);
    assert!(ended.errors.contains("; `--set keep.path=\"FILE\"` does"), "{}", ended.errors);
}

/// Results of more bytes than a pipe buffers.
const LONG: &str = r#"(
  nodes: {"a": "full(value=0.123456789, shape=[1024])"},
  stages: {"go": Run(outputs: {"a": "a", "b": "a", "c": "a", "d": "a", "e": "a", "f": "a", "g": "a", "h": "a"})},
)"#;

#[cfg(unix)]
#[test]
fn a_report_goes_into_a_pipe_that_is_read_only() {
    use std::io::Read;
    use std::process::Stdio;

    let desk = Desk::new();
    desk.write("long.ron", LONG);
    let fifo = |name: &str| {
        assert!(Command::new("mkfifo").arg(desk.path(name)).status().unwrap().success());
    };
    fifo("unread.json");
    let run = |report: &str| ["run", "long.ron", "--device", "cpu", "--report", report].map(str::to_string);
    let arguments = |run: &[String]| desk.command(&run.iter().map(String::as_str).collect::<Vec<_>>());
    let ended = |report: &str| Ended::from(arguments(&run(report)).output().unwrap());
    let said = "error[E0505]: unread.json is a pipe that no program reads";
    check_failure(&ended("unread.json"), 1, said);
    let _socket = std::os::unix::net::UnixListener::bind(desk.path("socket.json")).unwrap();
    check_failure(&ended("socket.json"), 1, "socket.json is a socket, not a regular file");

    // The pipe is opened for reading and writing, so it has a reader at once.
    let open = |name: &str| {
        fifo(name);
        fs::OpenOptions::new().read(true).write(true).open(desk.path(name)).unwrap()
    };
    let mut reader = open("read.json");
    let mut running = arguments(&run("read.json")).stdout(Stdio::null()).spawn().unwrap();
    let mut text = vec![];
    while !text.ends_with(b"\n}\n") {
        let mut part = [0; 4096];
        let n_bytes = reader.read(&mut part).unwrap();
        text.extend_from_slice(&part[..n_bytes]);
    }
    assert!(running.wait().unwrap().success());
    let report: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(report["end"], "complete");

    // A reader that no longer reads must not keep the program from ending.
    let mut reader = open("full.json");
    let mut command = arguments(&run("full.json"));
    let running = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    reader.read_exact(&mut [0]).unwrap();
    assert!(Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap().success());
    assert_eq!(Ended::from(running.wait_with_output().unwrap()).code, 130);
}

#[test]
fn predictions_do_not_replace_their_sources() {
    let desk = Desk::new();
    desk.run(&["--set", "train.epochs=1"]);
    save_npy(&desk.path("images.npy"), &digits::draw(digits::DEFAULT_SEED, Part::Test, 3).unwrap().images);
    let predict =
        ["predict", "tiny.ron", "--device", "cpu", "--load", "latest.ckpt", "--input", "images.npy"];
    for output in ["tiny.ron", "latest.ckpt", "./images.npy"] {
        let before = fs::read(desk.path(output)).unwrap();
        let ended = desk.engine(&[&predict[..], &["--output", output]].concat());
        assert_eq!(ended.code, 1, "{output}: {}", ended.errors);
        assert_eq!(fs::read(desk.path(output)).unwrap(), before);
    }
    for _ in 0..2 {
        assert_eq!(desk.engine(&[&predict[..], &["--output", "out.csv"]].concat()).code, 0);
    }
    let stdout = desk.engine(&[&predict[..], &["--output", "/dev/stdout"]].concat());
    assert_eq!(stdout.results, fs::read_to_string(desk.path("out.csv")).unwrap());
}

// ---- Input files.

#[cfg(unix)]
#[test]
fn a_pipe_as_data_is_refused_and_not_waited_for() {
    let desk = Desk::new();
    desk.write("reader.ron", READER.replace("FILE", "pipe.csv"));
    assert!(Command::new("mkfifo").arg(desk.path("pipe.csv")).status().unwrap().success());
    let run = ["run", "reader.ron", "--device", "cpu", "--data-dir", "."];
    check_failure(&desk.engine(&run), 1, "pipe.csv: cannot be read: it is a pipe, not a regular file");
    let predict = ["predict", "tiny.ron", "--device", "cpu", "--load", "pipe.csv", "--input", "pipe.csv"];
    check_failure(&desk.engine(&predict), 1, "pipe.csv: cannot be read: it is a pipe, not a regular file");
}

#[test]
fn a_run_without_its_data_can_be_made_to_fail() {
    let desk = Desk::new();
    desk.write("tiny.ron", GRAPH.replace("synthetic-digits", "mnist"));
    let report = desk.report(&["--set", "train.epochs=1"]);
    assert_eq!(
        (&report["stand_in"], &report["data"]["digits"]["stands_in_for"]),
        (&true.into(), &"mnist".into())
    );
    desk.run(&["--set", "train.epochs=1", "--report", "report.html"]);
    let page = fs::read_to_string(desk.path("report.html")).unwrap();
    assert!(page.contains("Stand-in data: this is not <code>mnist</code>."));
    let strict = desk.engine(&["run", "tiny.ron", "--device", "cpu", "--no-stand-in"]);
    check_failure(
        &strict,
        1,
        "error[E0501]: data `digits`: `mnist` cannot be had: it is not in data/mnist, data, and ",
    );
    assert!(!desk.path("data").exists());

    desk.write("tiny.ron", GRAPH);
    let asked_for = desk.report(&["--set", "train.epochs=1", "--no-stand-in"]);
    assert_eq!(asked_for["stand_in"], false);
    assert_eq!(asked_for["data"]["digits"]["stands_in_for"], Value::Null);
}

/// Long cells, names and paths with terminal commands, in every message that quotes them.
#[test]
fn files_tell_the_terminal_nothing() {
    let desk = Desk::new();
    let [command, shown] = ["\u{1b}]0;gone\u{7}\u{1b}[2J", "\\u{1b}]0;gone\\u{7}\\u{1b}[2J"];
    let long = "x".repeat(1 << 20);
    let check = |arguments: &[&str], said: &str| {
        let ended = desk.engine(arguments);
        let text = format!("{}{}", ended.results, ended.errors);
        assert!(!text.contains(['\u{1b}', '\u{7}', '\r']), "{text:?}");
        assert!(ended.errors.len() <= 4096, "{arguments:?}: {} bytes", ended.errors.len());
        assert!(text.contains(said), "{arguments:?}: {text}");
    };
    let run = |graph: &str, said: &str| check(&["run", graph, "--device", "cpu", "--data-dir", "."], said);
    desk.write("reader.ron", READER.replace("FILE", "cells.csv"));
    for (cell, said) in [(command, shown), (&*long, "xx"), ("a\rb", "a\\rb")] {
        desk.write("cells.csv", format!("1,2\n3,{cell}\n"));
        run("reader.ron", said);
    }
    desk.write("cells.csv", "1,2\n");
    desk.write(
        "name.ron",
        READER.replace("FILE", "cells.csv").replace("\"t\":", &format!("\"t{command}\":")),
    );
    run("name.ron", shown);
    for name in [command, &long] {
        desk.write("node.ron", READER.replace("\"m\":", &format!("\"{name}\":")));
        run("node.ron", "error");
        desk.write("expr.ron", READER.replace("mean(x)", &format!("mean({name})")));
        run("expr.ron", "error");
        desk.write("file.ron", READER.replace("FILE", name));
        run("file.ron", "E0501");
        desk.write(
            "column.ron",
            READER.replace("\"files\", x: \"FILE\"", "\"csv\", file: \"wide.csv\", label: \"no\""),
        );
        desk.write("wide.csv", format!("a,{name}\n1,2\n"));
        run("column.ron", "option `label` cannot be");
    }
    let path = format!("{command}.ron");
    desk.write(&path, READER.replace("mean(x)", "mean(y)"));
    run(&path, shown);
    run(&format!("none{path}"), shown);
}

/// A run that cannot finish does not start training, and `check` reports it as well.
#[test]
fn errors_of_later_stages_come_before_the_first_step() {
    let desk = Desk::new();
    desk.run(&["--set", "train.epochs=1"]);
    let narrow = GRAPH.replace("16", "8").replace("latest.ckpt", "narrow.ckpt");
    desk.write("narrow.ron", narrow);
    assert_eq!(desk.engine(&["run", "narrow.ron", "--device", "cpu", "--set", "train.epochs=1"]).code, 0);
    let stages = [
        (r#"Evaluate(data: "digits.nope", batch: 2, metrics: ["loss"])"#, "error[E0203]"),
        (r#"Run(outputs: ["class"], dims: {"B": 1000})"#, "error[E0506]"),
        (r#"Run(outputs: ["class"], dims: {"B": 2}, inputs: {"image": "gone.npy"})"#, "error[E0501]"),
        (r#"Load(path: "gone.safetensors")"#, "error[E0503]"),
        (r#"Load(path: "narrow.ckpt")"#, "error[E0504]"),
        (r#"Load(path: "latest.ckpt", names: {"w1": "w3"})"#, "error[E0504]"),
        (r#"Save(path: "tiny.ron")"#, "error[E0505]"),
        (r#"Save(path: "/dev/null")"#, "error[E0505]"),
    ];
    for (stage, code) in stages {
        let stages = format!("\"later\": {stage},\n    \"predict\": ");
        let text = GRAPH.replace("latest.ckpt", "other.ckpt").replace("\"predict\": ", &stages);
        desk.write("later.ron", text);
        for command in [&["run", "later.ron", "--device", "cpu"][..], &["check", "later.ron"]] {
            let ended = desk.engine(command);
            assert_eq!((ended.code, ended.results.as_str()), (1, ""), "{stage}: {}", ended.errors);
            assert!(ended.errors.contains(code), "{stage}: {}", ended.errors);
        }
        assert!(!desk.path("other.ckpt").exists(), "{stage}");
    }
    // A file that an earlier stage writes may be missing before.
    let stages =
        "\"keep\": Save(path: \"kept.ckpt\"), \"again\": Load(path: \"./kept.ckpt\"),\n    \"predict\": ";
    desk.write("later.ron", GRAPH.replace("\"predict\": ", stages));
    for command in [&["check", "later.ron"][..], &["run", "later.ron", "--device", "cpu"]] {
        assert_eq!(desk.engine(command).code, 0);
    }
}

#[cfg(unix)]
#[test]
fn a_graph_without_end_is_refused() {
    check_failure(
        &Desk::new().engine(&["check", "/dev/zero"]),
        1,
        "/dev/zero is no graph: it has more than 64 MiB",
    );
}

#[test]
fn an_early_stop_says_that_no_epoch_was_finite() {
    let desk = Desk::new();
    let text = GRAPH.replace("mean(class == target)", "mean(class == target) * inf");
    desk.write(
        "tiny.ron",
        text.replace("epochs: 3,", "epochs: 3, monitor: Max(\"accuracy\"), early_stop: 1,"),
    );
    let ended = desk.engine(&["run", "tiny.ron", "--device", "cpu"]);
    assert!(ended.results.contains("the monitored metric was finite in no epoch"), "{}", ended.results);
    assert_eq!(ended.code, 1, "{}", ended.errors);
    assert!(ended.errors.contains("stage `train`: the metric `accuracy` is "), "{}", ended.errors);
}

/// A text may be trained on whole. A stage that names the part without a share is refused.
#[test]
fn a_text_without_a_test_part_is_trained_on_whole() {
    let desk = Desk::new();
    desk.write("a.txt", "abcdefghij".repeat(3));
    let text = r#"(data: {"book": (source: "text", file: "a.txt", context: 4, test: 0.0)},
      inputs: {"x": (type: "u8[B, 4]", from: "book.input")}, nodes: {"m": "mean(cast(x, dtype=f32))"},
      stages: {"t": Evaluate(data: "book.SPLIT", batch: 8, metrics: ["m"])})"#;
    let run = |split: &str| {
        desk.write("text.ron", text.replace("SPLIT", split));
        desk.engine(&["run", "text.ron", "--device", "cpu", "--data-dir", "."])
    };
    let ended = run("train");
    assert_eq!(ended.code, 0, "{}", ended.errors);
    check_failure(&run("test"), 1, "has no split `test`, whose share is 0");
}
