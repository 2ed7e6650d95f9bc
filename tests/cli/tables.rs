//! Tables of the user: columns and classes are matched by name, and every change of a number is reported.

use super::*;

const FLOWERS: &str = r#"(
  data: {"flowers": (source: "csv", file: "flowers.csv", label: "kind")},
  inputs: {
    "features": (type: "f32[B, 2]", from: "flowers.features"),
    "kind": (type: "i32[B]", from: "flowers.label"),
  },
  params: {"w": (type: "f32[2, 3]", init: Xavier), "b": "f32[3]"},
  nodes: {
    "scores": "features @ w + b",
    "class": "argmax(scores, axis=1)",
    "loss": "cross_entropy(scores, kind)",
  },
  stages: {
    "train": Train(
      data: "flowers.train", batch: 6, epochs: 200, loss: "loss", optimizer: Adam(lr: 0.1),
      checkpoint: (path: "flowers.ckpt", every: 200),
    ),
    "ask": Predict(
      batch: 4, outputs: {"class": "class", "scores": "scores"}, classes: {"scores": "flowers.label"},
    ),
  },
)"#;

/// Two rows of each kind, far apart.
const ROWS: &str = "length,kind,width\n9,long,1\n8,long,0\n1,wide,9\n0,wide,8\n1,small,0\n0,small,1\n";

/// A folder with a trained `flowers.ckpt`.
fn trained() -> Desk {
    let desk = Desk::new();
    desk.write("flowers.ron", FLOWERS);
    fs::create_dir(desk.path("data")).unwrap();
    desk.write("data/flowers.csv", ROWS);
    let ended = desk.engine(&["run", "flowers.ron", "--device", "cpu", "--quiet"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    desk
}

fn predict(desk: &Desk, rows: &str) -> Ended {
    desk.write("rows.csv", rows);
    let predict = ["predict", "flowers.ron", "--device", "cpu", "--load", "flowers.ckpt"];
    desk.engine(&[&predict[..], &["--input", "rows.csv"]].concat())
}

#[test]
fn predictions_find_columns_by_name_and_tell_classes_by_name() {
    let desk = trained();
    let as_trained = predict(&desk, "length,width\n9,0\n0,9\n0,0\n");
    assert_eq!((as_trained.code, &*as_trained.errors), (0, ""));
    let lines: Vec<&str> = as_trained.results.lines().collect();
    assert_eq!(lines[0], "class,scores.long,scores.small,scores.wide");
    let classes: Vec<&str> = lines[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(classes, ["long", "wide", "small"]);
    // Columns in another order, with columns that the graph does not have.
    let shuffled = predict(&desk, "id,width,kind,length\nx,0,?,9\ny,9,?,0\nz,0,?,0\n");
    assert_eq!((shuffled.code, &*shuffled.errors), (0, ""));
    assert_eq!(shuffled.results, as_trained.results);
    let unnamed = predict(&desk, "9,0\n0,9\n0,0\n");
    assert_eq!(unnamed.results, as_trained.results);
    assert!(unnamed.errors.starts_with("note: rows.csv has no names of columns, so their order counts"));
}

#[test]
fn predictions_replace_no_data() {
    let desk = trained();
    desk.write("rows.csv", "length,width\n9,0\n");
    let arguments = ["predict", "flowers.ron", "--load", "flowers.ckpt", "--input", "rows.csv", "--output"];
    let ended = desk.engine(&[&arguments[..], &["data/flowers.csv"]].concat());
    check_failure(&ended, 1, "data/flowers.csv would replace a file of data `flowers`");
    assert_eq!(fs::read_to_string(desk.path("data/flowers.csv")).unwrap(), ROWS);
    for _ in 0..2 {
        assert_eq!(desk.engine(&[&arguments[..], &["data/answers.csv"]].concat()).code, 0);
    }
}

#[test]
fn columns_that_predictions_miss_are_named() {
    let desk = trained();
    let missing = predict(&desk, "lenght,breadth\n9,0\n");
    let said = "error[E0506]: rows.csv: there is no column `length`, `width`\n = help: did you mean `lenght` for \
                `length`? The first line must have the names";
    check_failure(&missing, 1, said);
    check_failure(
        &predict(&desk, "length,width\n9,\n"),
        1,
        "rows.csv:2: column 2 (`width`): the value is missing",
    );
    check_failure(&predict(&desk, "length,width\n9,inf\n"), 1, "`inf` is not a finite number");
}

const HOUSES: &str = r#"(
  data: {"houses": (source: "csv", file: "houses.csv", label: "price", missing: "indicator", standardize: true)},
  inputs: {
    "x": (type: "f32[B, 3]", from: "houses.features"),
    "city": (type: "i32[B]", from: "houses.city"),
    "no_city": (type: "f32[B]", from: "houses.city_missing"),
    "price": (type: "f32[B]", from: "houses.label"),
  },
  params: {"w": "f32[]"},
  nodes: {"loss": "mse_loss(sum(x, axis=1) * w, price)"},
  stages: {
    "train": Train(
      data: "houses.train", batch: 4, loss: "loss", optimizer: Sgd(lr: 0.1),
      checkpoint: (path: "houses.ckpt"),
    ),
    "ask": Predict(batch: 3, outputs: {"x": "x", "city": "city", "no_city": "no_city"}),
  },
)"#;

/// The mean of `area` is 4, and the sum of its squared differences is 18. `rooms` is constant.
const HOUSE_ROWS: &str = "area,rooms,city,price\n1,2,Bern,5\n7,2,Aarau,6\n,2,,7\n4,2,Bern,8\n4,2,Bern,9\n";

/// New rows are filled, marked and scaled by the statistics of the training rows alone.
#[test]
fn predictions_transform_rows_as_training_did() {
    let desk = Desk::new();
    desk.write("houses.ron", HOUSES);
    fs::create_dir(desk.path("data")).unwrap();
    desk.write("data/houses.csv", HOUSE_ROWS);
    let ended = desk.engine(&["run", "houses.ron", "--device", "cpu", "--quiet"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    // Predictions need no data but the checkpoint.
    fs::remove_file(desk.path("data/houses.csv")).unwrap();
    let ask = |inputs: &[&str]| {
        let arguments = ["predict", "houses.ron", "--device", "cpu", "--load", "houses.ckpt"];
        desk.engine(&[&arguments[..], inputs].concat())
    };
    desk.write("new.csv", "city,rooms,area\nAarau,2,4\n,,NA\nBern,3,7.6\n");
    let asked = ask(&["--input", "new.csv"]);
    assert_eq!((asked.code, &*asked.errors), (0, ""));
    let deviation = 18f32.sqrt() / 5f32.sqrt();
    let last = 3.6 / f64::from(deviation);
    let lines: Vec<&str> = asked.results.lines().collect();
    assert_eq!(lines[..3], ["x.0,x.1,x.2,city,no_city", "0,0,0,0,0", "0,0,1,1,1"]);
    let cells: Vec<f64> = lines[3].split(',').map(|cell| cell.parse().unwrap()).collect();
    assert!((cells[0] - last).abs() < 1e-6 && cells[1..] == [1.0, 0.0, 1.0, 0.0], "{cells:?}");
    // Each input may have a file of its own, also without names, or as an array.
    desk.write("x.csv", "4,2\n,\n7.6,3\n");
    let apart = ask(&["--input", "x=x.csv", "--input", "city=new.csv", "--input", "no_city=new.csv"]);
    assert_eq!(apart.results, asked.results, "{}", apart.errors);
    let array = HostTensor::from_slice(&[3, 2], &[4.0f32, 2.0, f32::NAN, f32::NAN, 7.6, 3.0]).unwrap();
    save_npy(&desk.path("x.npy"), &array);
    let of_array = ask(&["--input", "x=x.npy", "--input", "city=new.csv", "--input", "no_city=new.csv"]);
    assert_eq!(of_array.results.lines().nth(2), Some("0,0,1,1,1"), "{}", of_array.errors);
    desk.write("new.csv", "city,rooms,area\nGenf,2,4\n");
    let said = "error[E0502]: new.csv:2: column 1 (`city`): `Genf` is none of the 2 names of this column in the training rows";
    check_failure(&ask(&["--input", "new.csv"]), 1, said);
    desk.write("x.csv", "4,2,1\n");
    let said = "error[E0506]: x.csv: a row has 3 columns, in training it had 2";
    check_failure(
        &ask(&["--input", "x=x.csv", "--input", "city=new.csv", "--input", "no_city=new.csv"]),
        1,
        said,
    );
}

/// Other rows have other means: a checkpoint of the old ones does not fit any more.
#[test]
fn a_run_is_not_resumed_on_rows_with_other_statistics() {
    let desk = Desk::new();
    desk.write("houses.ron", HOUSES);
    fs::create_dir(desk.path("data")).unwrap();
    desk.write("data/houses.csv", HOUSE_ROWS);
    assert_eq!(desk.engine(&["run", "houses.ron", "--device", "cpu", "--quiet"]).code, 0);
    desk.write("data/houses.csv", HOUSE_ROWS.replace("7,2,Aarau", "12,2,Aarau"));
    let resumed = desk.engine(&["run", "houses.ron", "--device", "cpu", "--resume", "houses.ckpt"]);
    let said = "its data was another one; columns of `houses.features`: the statistics of `area` are others than in training";
    check_failure(&resumed, 1, said);
}

/// Checkpoints without names, from older versions: columns are matched by order, and classes are numbers.
#[test]
fn checkpoints_without_names_are_used_as_before() {
    let desk = trained();
    let mut checkpoint = desk.checkpoint("flowers.ckpt");
    assert!(checkpoint.extra.swap_remove("names").is_some());
    checkpoint.write(&desk.path("flowers.ckpt")).unwrap();
    let ended = predict(&desk, "length,width\n9,0\n");
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(ended.results.starts_with("class,scores.0,scores.1,scores.2\n0,"), "{}", ended.results);
    assert!(ended.errors.contains("note: no names of columns were kept in training"), "{}", ended.errors);
}

/// Other classes would change the meaning of the old class numbers.
#[test]
fn a_run_is_not_resumed_on_other_classes() {
    let desk = trained();
    desk.write("data/flowers.csv", ROWS.replace("long", "tall"));
    let resumed = desk.engine(&["run", "flowers.ron", "--device", "cpu", "--resume", "flowers.ckpt"]);
    let said = "its data was another one; classes of `flowers.label`: number 0 was `long` in training, now it is `small`";
    check_failure(&resumed, 1, said);
}

#[test]
fn a_missing_label_is_no_class() {
    let desk = trained();
    desk.write("data/flowers.csv", "x,z,kind\n1,2,10\n3,4,NA\n5,6,30\n");
    let ended = desk.engine(&["run", "flowers.ron", "--device", "cpu"]);
    let said = "data/flowers.csv:3: column 3 (`kind`): the value is missing (`NA`)";
    check_failure(&ended, 1, said);
}

const GIVEN: &str = r#"(
  inputs: {"x": "f32[B, 2]"},
  nodes: {"y": "x * 2"},
  stages: {"go": Run(outputs: ["y"], dims: {"B": 2})},
)"#;

#[test]
fn inputs_of_a_run_are_given_on_the_command_line_or_in_the_file() {
    let desk = Desk::new();
    desk.write("g.ron", GIVEN);
    save_npy(&desk.path("x.npy"), &HostTensor::from_slice(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap());
    let run = |arguments: &[&str]| desk.engine(&[&["run", "g.ron", "--device", "cpu"], arguments].concat());
    let of_file = run(&["--input", "x=x.npy"]);
    assert_eq!(of_file.code, 0, "{}", of_file.errors);
    assert_eq!(run(&["--input", "x=[[1, 2], [3, 4.0]]"]).results, of_file.results);
    desk.write("in_stage.ron", GIVEN.replace("dims:", r#"inputs: {"x": "x.npy"}, dims:"#));
    assert_eq!(desk.engine(&["run", "in_stage.ron", "--device", "cpu"]).results, of_file.results);
    let missing = run(&[]);
    let said = "error[E0506]: input `x` of stage `go`: nothing is given for it, it is f32[2, 2]";
    check_failure(&missing, 1, said);
    assert!(missing.errors.contains("or by `--input x=FILE.npy`"), "{}", missing.errors);
    check_failure(&run(&["--input", "x=[1, 2]"]), 1, "it is f32[2, 2], a value of shape [2] was given");
    check_failure(&run(&["--input", "x=none.npy"]), 1, "error[E0501]: --input x: none.npy: cannot be read");
    check_failure(&run(&["--input", "rows=[1]"]), 1, "there is no input `rows`; the inputs are x");
    check_failure(&run(&["--input", "x=[1, "]), 2, "`[` is not closed");
    let twice = ["--input", "x=x.npy", "--input", "x=[[1, 2], [3, 4]]"];
    check_failure(&run(&twice), 2, "--input x is given twice: leave one of them out");
    check_failure(&desk.engine(&[&["check", "g.ron"], &twice[..]].concat()), 2, "--input x is given twice");
    let checked = desk.engine(&["check", "g.ron"]);
    assert_eq!(checked.code, 0, "{}", checked.errors);
    let said = "note: input `x` of stage `go`: nothing is given for it";
    assert!(checked.errors.contains(said), "{}", checked.errors);
    let more = r#"stages: {"once": Run(outputs: ["y"], dims: {"B": 2}),"#;
    desk.write("twice.ron", GIVEN.replace("stages: {", more));
    let checked = desk.engine(&["check", "twice.ron"]);
    assert_eq!(checked.errors.matches("nothing is given for it").count(), 1, "{}", checked.errors);
    let said = "note: input `x` of stages `once`, `go`: nothing is given for it";
    assert!(checked.errors.contains(said), "{}", checked.errors);
    check_failure(&desk.engine(&["check", "g.ron", "--input", "x=[1]"]), 1, "a value of shape [1] was given");
    assert_eq!(desk.engine(&["check", "g.ron", "--input", "x=x.npy"]).errors, "");
}

#[test]
fn an_array_without_axes_is_the_value_of_a_scalar() {
    let desk = Desk::new();
    let graph = r#"(inputs: {"r": "f32[]"}, nodes: {"y": "r * 2.0"}, stages: {"go": Run(outputs: ["y"])})"#;
    desk.write("g.ron", graph);
    save_npy(&desk.path("r.npy"), &HostTensor::scalar(3.0f32));
    let run = |value: &str| desk.engine(&["run", "g.ron", "--device", "cpu", "--input", value]);
    let of_file = run("r=r.npy");
    assert_eq!(of_file.code, 0, "{}", of_file.errors);
    assert_eq!(run("r=3").results, of_file.results);
    desk.write("g.ron", graph.replace("f32[]", "f32[1]"));
    check_failure(&run("r=r.npy"), 1, "it is f32[1], r.npy has f32[]");
}

/// A pipeline that passes `check` runs, also if a function names an extent that a stage binds.
#[test]
fn extents_of_stages_reach_into_functions() {
    let desk = Desk::new();
    let graph = |stage: &str| {
        format!(
            r#"(
              inputs: {{"x": "f32[B, 16]"}},
              functions: {{"heads": (inputs: ["x"], output: "reshape(x, shape=[B, 4, 4])")}},
              nodes: {{"y": "heads(x)"}},
              stages: {{"r": {stage}}},
            )"#
        )
    };
    desk.write("run.ron", graph(r#"Run(outputs: ["y"], dims: {"B": 2})"#));
    desk.write("ask.ron", graph(r#"Predict(batch: 4, outputs: {"y": "y"})"#));
    let rows: Vec<f32> = (0..96).map(|i| i as f32).collect();
    save_npy(&desk.path("two.npy"), &HostTensor::from_slice(&[2, 16], &rows[..32]).unwrap());
    save_npy(&desk.path("six.npy"), &HostTensor::from_slice(&[6, 16], &rows).unwrap());
    for file in ["run.ron", "ask.ron"] {
        assert_eq!(desk.engine(&["check", file]).code, 0);
    }
    let ran = desk.engine(&["run", "run.ron", "--device", "cpu", "--input", "x=two.npy"]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    let ask = ["predict", "ask.ron", "--device", "cpu", "--input", "six.npy", "--output", "y.npy"];
    let asked = desk.engine(&ask);
    assert_eq!((asked.code, &*asked.errors), (0, ""));
    let y = npy::read(&desk.path("y.npy")).unwrap();
    assert_eq!((y.shape(), y.as_slice::<f32>().unwrap()), (&[6usize, 4, 4][..], &rows[..]));
}

#[test]
fn a_node_is_predicted_under_two_names() {
    let desk = Desk::new();
    desk.write(
        "ask.ron",
        r#"(
          inputs: {"x": "f32[B, 2]"},
          nodes: {"y": "x * 2"},
          stages: {"ask": Predict(batch: 4, outputs: {"once": "y", "again": "y", "x": "x"})},
        )"#,
    );
    save_npy(&desk.path("x.npy"), &HostTensor::from_slice(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap());
    let asked = desk.engine(&["predict", "ask.ron", "--device", "cpu", "--input", "x.npy"]);
    assert_eq!((asked.code, &*asked.errors), (0, ""));
    let lines: Vec<&str> = asked.results.lines().collect();
    assert_eq!(lines[1..], ["2,4,2,4,1,2", "6,8,6,8,3,4"], "{}", asked.results);
}

/// Faults that show only when a stage is bound to its extents or its data.
#[test]
fn a_check_binds_every_stage() {
    let desk = Desk::new();
    let refused = |stage: &str, said: &str| {
        desk.write("g.ron", GRAPH.replace("\"predict\":", &format!("\"more\": {stage}, \"predict\":")));
        check_failure(&desk.engine(&["check", "g.ron"]), 1, said);
    };
    let two = r#"Predict(batch: 5, outputs: {"loss": "loss"})"#;
    refused(
        two,
        "error[E0211]: stage `more`: output `loss` is f32[] and has no value for every row of `image`",
    );
    let summed = r#"Predict(batch: 5, outputs: {"w": "h"}, classes: {"v": "digits.labels"})"#;
    refused(summed, "error[E0101]: there is no output `v`");
    refused(
        r#"Evaluate(data: "digits.dev", batch: 5, metrics: ["loss"])"#,
        "error[E0203]: data `digits`: data set",
    );
    let large =
        r#"Train(data: "digits.train", batch: 900, last_batch: Drop, loss: "loss", optimizer: Sgd(lr: 1))"#;
    refused(large, "error[E0506]: stage `more`: the data has 500 rows, which make no batch of 900");
    desk.write("g.ron", GRAPH.replace("u8[B, 784]", "f32[B, 784]"));
    let rows = "`image` takes rows of f32[784], the field `images` has rows of u8[28, 28]";
    check_failure(&desk.engine(&["check", "g.ron"]), 1, rows);
    let run = r#"(
      inputs: {"x": "f32[B, 4]"}, nodes: {"y": "reshape(x, shape=[8, C])"},
      stages: {"go": Run(outputs: ["y"], dims: {"B": 3, "C": 2})},
    )"#;
    desk.write("g.ron", run);
    assert_eq!(desk.engine(&["check", "g.ron"]).code, 1);
}

/// Bytes of another encoding are never replaced: `ü` and `ä` would become one class.
#[test]
fn a_table_in_another_encoding_is_refused() {
    let desk = trained();
    desk.write("data/flowers.csv", b"length,kind,width\n9,gr\xfcn,1\n8,gr\xe4n,0\n1,b,9\n");
    let ended = desk.engine(&["run", "flowers.ron", "--device", "cpu"]);
    let said = "error[E0502]: data `flowers`: data/flowers.csv:2: column 2: the byte 0xfc is not UTF-8";
    check_failure(&ended, 1, said);
    assert!(ended.errors.contains("= help: save the file as UTF-8"), "{}", ended.errors);
    desk.write("rows.csv", b"length,\xe4\n9,0\n");
    let predict =
        ["predict", "flowers.ron", "--device", "cpu", "--load", "flowers.ckpt", "--input", "rows.csv"];
    check_failure(&desk.engine(&predict), 1, "rows.csv:1: column 2: the byte 0xe4 is not UTF-8");
}

#[test]
fn a_table_without_a_complete_row_says_where_cells_are_missing() {
    let desk = Desk::new();
    fs::create_dir(desk.path("data")).unwrap();
    desk.write("data/flowers.csv", "length,kind,width\n9,long,\n,wide,NA\n");
    desk.write("flowers.ron", FLOWERS.replace(r#"label: "kind""#, r#"label: "kind", missing: "drop""#));
    let ended = desk.engine(&["run", "flowers.ron", "--device", "cpu"]);
    let said = "data/flowers.csv: all rows (2) are left out, since each has a missing cell: 1 in `length`, 2 in `width`";
    check_failure(&ended, 1, said);
}
