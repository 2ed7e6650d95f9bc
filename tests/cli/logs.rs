//! Logs: lines of JSON, and event files of TensorBoard. `tests/examples/event_files.py` reads the same files with
//! TensorBoard's own reader.

use super::*;

fn lines(desk: &Desk) -> Vec<Value> {
    let text = fs::read_to_string(desk.path("logs/log.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_event<'l>(lines: &'l [Value], event: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

fn steps(lines: &[Value]) -> Vec<u64> {
    of_event(lines, "step").iter().map(|line| line["step"].as_u64().unwrap()).collect()
}

/// The event files of a run, in the order of their names.
fn event_files(desk: &Desk, run: &str) -> Vec<Vec<Event>> {
    let entries = fs::read_dir(desk.path("logs").join(run)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| events(&fs::read(path).unwrap())).collect()
}

/// What a record says.
#[derive(Debug, Default)]
struct Event {
    time: f64,
    step: u64,
    version: Option<String>,
    starts_session: bool,
    scalars: HashMap<String, f32>,
    texts: HashMap<String, String>,
}

/// The records of a file: length, its checksum, data, their checksum.
fn events(mut file: &[u8]) -> Vec<Event> {
    let mut found = vec![];
    while !file.is_empty() {
        let (length, rest) = file.split_at(8);
        let (length_sum, rest) = rest.split_at(4);
        let (data, rest) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
        let (data_sum, rest) = rest.split_at(4);
        assert_eq!(length_sum, masked(length).to_le_bytes());
        assert_eq!(data_sum, masked(data).to_le_bytes());
        found.push(event(data));
        file = rest;
    }
    found
}

/// CRC-32C bit by bit, and the mask of `TFRecord`.
fn masked(data: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in data {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
        }
    }
    (!sum).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The fields of a message of Protocol Buffers: number and content. Numbers are little-endian.
fn fields(mut data: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = vec![];
    while !data.is_empty() {
        let key = varint(&mut data);
        let length = match key & 7 {
            0 => {
                found.push((key >> 3, varint(&mut data).to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            2 => varint(&mut data) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        let (content, rest) = data.split_at(length);
        found.push((key >> 3, content.to_vec()));
        data = rest;
    }
    found
}

fn varint(data: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = data.split_first().unwrap();
        *data = rest;
        number |= u64::from(byte & 127) << shift;
        if byte & 128 == 0 {
            break;
        }
    }
    number
}

/// Numbers of fields are those of TensorFlow's `event.proto`, `summary.proto` and `tensor.proto`.
fn event(data: &[u8]) -> Event {
    let mut event = Event::default();
    for (field, content) in fields(data) {
        match field {
            1 => event.time = f64::from_le_bytes(content.try_into().unwrap()),
            2 => event.step = u64::from_le_bytes(content.try_into().unwrap()),
            3 => event.version = Some(String::from_utf8(content).unwrap()),
            5 => fields(&content).into_iter().for_each(|(_, value)| add_value(&mut event, &value)),
            // `SessionLog` with the status `START`
            7 => event.starts_session = content == [8, 1],
            other => panic!("field {other}"),
        }
    }
    event
}

fn add_value(event: &mut Event, value: &[u8]) {
    let value: HashMap<u64, Vec<u8>> = fields(value).into_iter().collect();
    let tag = String::from_utf8(value[&1].clone()).unwrap();
    match value.get(&2) {
        Some(number) => {
            event.scalars.insert(tag, f32::from_le_bytes(number[..].try_into().unwrap()));
        }
        None => {
            let plugin: HashMap<u64, Vec<u8>> = fields(&value[&9]).into_iter().collect();
            assert_eq!(fields(&plugin[&1]), [(1, b"text".to_vec())]);
            let tensor: HashMap<u64, Vec<u8>> = fields(&value[&8]).into_iter().collect();
            assert_eq!(tensor[&1], 7u64.to_le_bytes(), "the type is that of strings");
            event.texts.insert(tag, String::from_utf8(tensor[&8].clone()).unwrap());
        }
    }
}

const LOGGED: [&str; 4] = ["--log", "logs", "--log-every", "4"];

#[test]
fn a_log_has_steps_epochs_and_evaluations() {
    let desk = Desk::new();
    desk.run(&LOGGED);
    let lines = lines(&desk);
    let (first, last) = (&lines[0], lines.last().unwrap());
    assert_eq!(first["command"], "engine run tiny.ron --device cpu --log logs --log-every 4");
    assert_eq!(
        (&first["graph"], &first["seed"], &first["resumed"]),
        (&"tiny".into(), &5.into(), &Value::Null)
    );
    assert_eq!(first["settings"]["train.optimizer.lr"], "3e-3");
    assert_eq!(first["data"]["digits"]["rows"]["train"], 500);
    assert_eq!((&last["event"], &last["end"]), (&"end".into(), &"complete".into()));
    assert_eq!(steps(&lines), [4, 8, 12, 16, 20, 24]);
    let step = of_event(&lines, "step")[3];
    assert_eq!(
        (&step["stage"], &step["epoch"], &step["rates"]["lr"]),
        (&"train".into(), &2.into(), &0.003.into())
    );
    for number in ["steps_per_second", "rows_per_second", "device_bytes"] {
        assert!(step[number].as_f64().unwrap() > 0.0, "{step}");
    }
    assert!(step.get("grad_norm").is_none(), "a stage without `clip_norm` computes none");
    let epochs = of_event(&lines, "epoch");
    let ends: Vec<&Value> = epochs.iter().map(|line| &line["step"]).collect();
    assert_eq!(ends, [8, 16, 24]);
    assert_eq!(epochs[2]["split"], "test");
    let (early, late) = (&epochs[0]["metrics"]["loss"], &epochs[2]["metrics"]["loss"]);
    assert!(late.as_f64().unwrap() < early.as_f64().unwrap());
    let evaluation = of_event(&lines, "evaluation")[0];
    assert_eq!(
        (&evaluation["stage"], &evaluation["split"], &evaluation["step"]),
        (&"test".into(), &"test".into(), &24.into())
    );
    assert_eq!(evaluation["metrics"]["accuracy"], epochs[2]["evaluation"]["accuracy"]);
    assert_eq!(of_event(&lines, "stage_end").len(), 2);
}

#[test]
fn event_files_have_the_numbers_of_the_lines() {
    let desk = Desk::new();
    desk.run(&LOGGED);
    let lines = lines(&desk);
    let training = event_files(&desk, "train/train").remove(0);
    assert_eq!(training[0].version.as_deref(), Some("brain.Event:2"));
    assert!(training[1].starts_session && training[1].step == 1);
    let settings = &training[2].texts["settings"];
    assert!(settings.starts_with("| setting | value |\n|---|---|\n"), "{settings}");
    assert!(settings.contains("\n| train.batch | 64 |\n"), "{settings}");
    assert!(training.iter().all(|event| event.time > 1.7e9));
    let logged = of_event(&lines, "step");
    assert_eq!(training.len(), 3 + logged.len());
    for (event, line) in training[3..].iter().zip(logged) {
        assert_eq!(event.step, line["step"].as_u64().unwrap());
        let tags = [("loss", &line["metrics"]["loss"]), ("lr", &line["rates"]["lr"])];
        for (tag, number) in tags {
            assert_eq!(event.scalars[tag], number.as_f64().unwrap() as f32, "{tag}");
        }
        assert_eq!(event.scalars["device_bytes"], line["device_bytes"].as_f64().unwrap() as f32);
    }
    // The curves of training and evaluation have one tag in two runs.
    let evaluated = event_files(&desk, "train/test").remove(0);
    let found: Vec<(u64, f32)> =
        evaluated[2..].iter().map(|event| (event.step, event.scalars["accuracy"])).collect();
    let expected = of_event(&lines, "epoch").into_iter().map(|line| {
        (line["step"].as_u64().unwrap(), line["evaluation"]["accuracy"].as_f64().unwrap() as f32)
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
    assert_eq!(event_files(&desk, "test/test")[0][2].step, 24);
}

/// A log, and the norm of the gradients that it asks for, change no bit of the results.
#[test]
fn a_log_does_not_change_the_results() {
    for batches in ["", "accumulate: 2, "] {
        let desk = Desk::new();
        desk.write("tiny.ron", GRAPH.replace("optimizer:", &format!("{batches}clip_norm: 0.5, optimizer:")));
        desk.run(&["--quiet"]);
        let plain = desk.checkpoint("latest.ckpt");
        desk.run(&["--log", "logs", "--log-every", "3"]);
        assert_eq!(desk.checkpoint("latest.ckpt"), plain);
        let lines = lines(&desk);
        let norms = of_event(&lines, "step").into_iter().map(|line| line["grad_norm"].as_f64().unwrap());
        let norms: Vec<f64> = norms.collect();
        assert!(norms.len() >= 3 && norms.iter().all(|norm| (1e-3..1e3).contains(norm)), "{norms:?}");
    }
    // An infinite limit computes the norm and clips nothing.
    let desk = Desk::new();
    desk.run(&["--quiet"]);
    let plain = desk.checkpoint("latest.ckpt");
    desk.write("tiny.ron", GRAPH.replace("optimizer:", "clip_norm: inf, optimizer:"));
    desk.run(&LOGGED);
    assert_eq!(desk.checkpoint("latest.ckpt").tensors, plain.tensors);
    assert!(of_event(&lines(&desk), "step").iter().all(|line| line["grad_norm"].is_f64()));
    for more in ["", "clip_value: 9.0, ", "accumulate: 2, "] {
        let desk = Desk::new();
        desk.write("tiny.ron", GRAPH.replace("optimizer:", &format!("{more}optimizer:")));
        desk.run(&["--quiet"]);
        let plain = desk.checkpoint("latest.ckpt");
        desk.run(&[&LOGGED[..], &["--grad-norm"]].concat());
        assert_eq!(desk.checkpoint("latest.ckpt").tensors, plain.tensors);
        assert!(of_event(&lines(&desk), "step").iter().all(|line| line["grad_norm"].is_f64()));
    }
}

/// Metrics of whole numbers, and losses of other floats than `f32`, have their own values in lines of steps.
#[test]
fn numbers_of_every_type_are_logged() {
    for dtype in ["f16", "f32", "f64"] {
        let desk = Desk::new();
        let graph = r#"(
            data: {"d": (source: "numbers", n_train: 8, n_test: 1)},
            inputs: {"n": (type: "i32[B]", from: "d.number")},
            params: {"w": (type: "f32[2]", init: Ones)},
            nodes: {"loss": "sum(cast(w * w, dtype=DTYPE))", "count": "sum(n * 0 + 3)", "is_none": "sum(n * 0) == 0"},
            stages: {"train": Train(
                data: "d.train", batch: 4, epochs: 1, loss: "loss", metrics: ["count", "is_none"],
                optimizer: Sgd(lr: 0.1),
            )},
        )"#;
        desk.write("tiny.ron", graph.replace("DTYPE", dtype));
        desk.run(&["--log", "logs", "--log-every", "1"]);
        let lines = lines(&desk);
        let metrics = &of_event(&lines, "step")[0]["metrics"];
        assert_eq!(*metrics, serde_json::json!({"loss": 2.0, "count": 12.0, "is_none": 1.0}), "{dtype}");
    }
}

#[test]
fn a_resumed_run_continues_its_log() {
    let desk = Desk::new();
    let every = ["--log", "logs", "--log-every", "1"];
    let part = ["--set", "train.max_steps=13", "--set", "train.checkpoint.path=\"part.ckpt\""];
    desk.run(&[&every[..], &part].concat());
    desk.run(&[&every[..], &["--resume", "part.ckpt"]].concat());
    let lines = lines(&desk);
    assert_eq!(steps(&lines), (1..=24).collect::<Vec<_>>());
    assert_eq!(of_event(&lines, "run")[1]["resumed"], "part.ckpt");
    assert_eq!(of_event(&lines, "read")[0]["step"], 13);
    assert_eq!(of_event(&lines, "end").len(), 2);
    let [first, second] = &event_files(&desk, "train/train")[..] else { panic!("a file for each process") };
    let steps = |events: &[Event]| events[3..].iter().map(|event| event.step).collect::<Vec<_>>();
    assert_eq!(steps(first), (1..=13).collect::<Vec<_>>());
    assert_eq!(steps(second), (14..=24).collect::<Vec<_>>());
    // TensorBoard drops what earlier files have from here on.
    assert!(second[1].starts_session && second[1].step == 14, "{:?}", second[1]);
}

#[test]
fn the_log_of_another_run_stays() {
    let desk = Desk::new();
    desk.run(&LOGGED);
    let run = ["run", "tiny.ron", "--device", "cpu"];
    let ended = desk.engine(&[&run[..], &LOGGED].concat());
    check_failure(
        &ended,
        1,
        "error[E0505]: logs/log.jsonl is the log of another run\n = help: choose another folder, or replace",
    );
    desk.write("logs/train/train/mine.txt", "mine");
    desk.run(&[&LOGGED[..], &["--force"]].concat());
    assert_eq!(of_event(&lines(&desk), "run").len(), 1);
    assert_eq!(fs::read_to_string(desk.path("logs/train/train/mine.txt")).unwrap(), "mine");
    // A killed run, or a full disk, leaves a log without a whole line.
    for cut in ["", "{\"event\":\"ru"] {
        desk.write("logs/log.jsonl", cut);
        check_failure(&desk.engine(&[&run[..], &LOGGED].concat()), 1, "is the log of another run");
        desk.run(&[&LOGGED[..], &["--force"]].concat());
        assert_eq!(of_event(&lines(&desk), "run").len(), 1);
    }
    desk.write("logs/log.jsonl", "mine");
    let ended = desk.engine(&[&run[..], &LOGGED, &["--force"]].concat());
    check_failure(&ended, 1, "logs/log.jsonl already exists, and is no log of this program");
    assert_eq!(desk.engine(&[&run[..], &["--log-every", "2"]].concat()).code, 2);
}

#[test]
fn a_failed_run_says_so_in_its_log() {
    let desk = Desk::new();
    let lost =
        ["run", "tiny.ron", "--device", "cpu", "--log", "logs", "--set", "train.optimizer=Sgd(lr: 1e38)"];
    assert_eq!(desk.engine(&lost).code, 1);
    let lines = lines(&desk);
    let last = lines.last().unwrap();
    assert_eq!(last["end"], "failed");
    assert!(last["error"].as_str().unwrap().contains("[E0606]"), "{last}");
}

/// A run that fails before its first step leaves a log with the line of its end alone. It is replaced like any log.
#[test]
fn the_log_of_a_run_that_did_not_begin_is_a_log() {
    let desk = Desk::new();
    let table = r#"(
      data: {"d": (source: "csv", file: "rows.csv", label: "y", label_as: "numbers")},
      inputs: {"x": (type: "f32[B, 1]", from: "d.features"), "y": (type: "f32[B]", from: "d.label")},
      params: {"w": (type: "f32[1, 1]")},
      nodes: {"loss": "mean(square(reshape(x @ w, shape=[_]) - y))"},
      stages: {"train": Train(data: "d.train", batch: 2, epochs: 1, loss: "loss", optimizer: Sgd(lr: 0.1))},
    )"#;
    fs::create_dir(desk.path("data")).unwrap();
    desk.write("tiny.ron", table);
    desk.write("data/rows.csv", "x,y\n1,2\n2,oops\n3,4\n4,5\n");
    let run = ["run", "tiny.ron", "--device", "cpu", "--log", "logs"];
    check_failure(&desk.engine(&run), 1, "data/rows.csv:3: column 2 (`y`): `oops` is not a number");
    let found = lines(&desk);
    assert_eq!((found.len(), &found[0]["event"], &found[0]["end"]), (1, &"end".into(), &"failed".into()));
    desk.write("data/rows.csv", "x,y\n1,2\n2,3\n3,4\n4,5\n");
    check_failure(&desk.engine(&run), 1, "logs/log.jsonl is the log of another run");
    desk.run(&["--log", "logs", "--force"]);
    assert_eq!(lines(&desk)[0]["event"], "run");
}
