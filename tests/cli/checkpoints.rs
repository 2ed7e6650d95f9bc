//! Checkpoints: runs that are resumed, and predictions.

use super::*;

/// Runs are resumed after every epoch and in the middle of one. 500 rows make 8 steps per epoch, the last of them
/// short.
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

/// The checkpoint of a training within a `Repeat` holds the trip, too.
#[cfg(unix)]
#[test]
fn an_interrupted_repeat_goes_on_in_its_trip() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let desk = Desk::new();
    let turns = r#"stages: { "turns": Repeat(stages: [(stage: "train", steps: 3), "test"], times: 1000000),"#;
    let graph = GRAPH.replace("stages: {", turns).replace("epochs: 3", "epochs: 1000000");
    desk.write("long.ron", graph.replace("latest", "stopped"));
    let mut command = desk.command(&["run", "long.ron", "--device", "cpu"]);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("train: epoch 2/") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the run ended");
    }
    assert!(Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap().success());
    std::io::copy(&mut lines, &mut std::io::sink()).unwrap();
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert!(errors.contains("interrupted; `--resume stopped.ckpt` goes on from here"), "{errors}");

    let trip: u64 = desk.checkpoint("stopped.ckpt").extra["part.turns/trip"].parse().unwrap();
    let times = format!("turns.times={}", trip + 6);
    let run = ["run", "long.ron", "--device", "cpu", "--set", &times];
    assert_eq!(desk.engine(&[&run[..], &["--resume", "stopped.ckpt"]].concat()).code, 0);
    let resumed = desk.checkpoint("stopped.ckpt");
    assert!(resumed.extra["part.turns/trip"].parse::<u64>().unwrap() >= trip + 3);
    assert_eq!(desk.engine(&run).code, 0);
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

/// The predictions for the test images agree with the accuracy that the run has measured.
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
