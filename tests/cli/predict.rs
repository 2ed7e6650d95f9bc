//! Predictions from several inputs.

use super::*;

const PAIR: &str = r#"(
  inputs: {"x": "f32[B, 2]", "y": "i32[B]"},
  nodes: {"sum": "sum(x, axis=1) + cast(y, dtype=f32)"},
  stages: {"ask": Predict(batch: 2, outputs: {"sum": "sum", "y": "y"})},
)"#;

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("pair.ron", PAIR);
    save_npy(
        &desk.path("x.npy"),
        &HostTensor::from_slice(&[3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap(),
    );
    desk.write("y.csv", "10\n20\n30\n");
    desk
}

fn ask(desk: &Desk, inputs: &[&str]) -> Ended {
    let inputs = inputs.iter().flat_map(|input| ["--input", input]);
    desk.engine(&["predict", "pair.ron", "--device", "cpu"].into_iter().chain(inputs).collect::<Vec<_>>())
}

#[test]
fn each_input_has_a_file_of_its_own() {
    let desk = desk();
    for inputs in [["x=x.npy", "y=y.csv"], ["y=y.csv", "x=x.npy"]] {
        let asked = ask(&desk, &inputs);
        assert_eq!((asked.code, &*asked.errors), (0, ""));
        assert_eq!(asked.results, "sum,y\n13,10\n27,20\n41,30\n");
    }
}

#[test]
fn a_single_input_may_be_named() {
    let desk = desk();
    let single = r#"(inputs: {"y": "i32[B]"}, stages: {"ask": Predict(batch: 2, outputs: {"y": "y"})})"#;
    desk.write("pair.ron", single);
    fs::copy(desk.path("y.csv"), desk.path("a=b.csv")).unwrap();
    for input in ["y.csv", "y=y.csv", "a=b.csv"] {
        let asked = ask(&desk, &[input]);
        assert_eq!((asked.code, &*asked.errors, &*asked.results), (0, "", "y\n10\n20\n30\n"), "{input}");
    }
    check_failure(&ask(&desk, &["x=x.npy"]), 1, "error: --input: the outputs depend on no input `x`");
}

#[test]
fn inputs_that_do_not_fit_together_are_refused() {
    let desk = desk();
    let all = "`--input x=FILE --input y=FILE`";
    check_failure(
        &ask(&desk, &["x.npy"]),
        1,
        &format!("error: the outputs depend on several inputs, each with a file: {all}"),
    );
    check_failure(&ask(&desk, &["x=x.npy"]), 1, &format!("error: input `y` has no rows; write {all}"));
    check_failure(
        &ask(&desk, &["x=x.npy", "label=y.csv"]),
        1,
        "error: --input: the outputs depend on no input `label`; there are x, y",
    );
    check_failure(&ask(&desk, &["x=x.npy", "x=x.npy", "y=y.csv"]), 1, "error: --input: `x` is given twice");
    desk.write("y.csv", "10\n20\n");
    let message = "error: the inputs have different numbers of rows: `x` 3, `y` 2";
    check_failure(&ask(&desk, &["x=x.npy", "y=y.csv"]), 1, message);

    let refused = |from: &str, to: &str, said: &str| {
        desk.write("pair.ron", PAIR.replace(from, to));
        check_failure(&ask(&desk, &["x=x.npy", "y=y.csv"]), 1, said);
    };
    refused(r#""i32[B]""#, r#""i32[]""#, "stage `ask`: input `y: i32[]` cannot take rows");
    let apart = r#""x": "f32[B, 2]", "y": "i32[N]"}, nodes: {"sum": "sum(x, axis=1)"},
      stages: {"ask": Predict(batch: 2, outputs: {"sum": "sum", "y": "y"})})"#;
    desk.write("pair.ron", format!("(inputs: {{{apart}"));
    let said = "stage `ask`: inputs `x` and `y` take rows by different extents";
    check_failure(&ask(&desk, &["x=x.npy", "y=y.csv"]), 1, said);
}

#[test]
fn results_never_replace_the_rows_of_an_input() {
    let desk = desk();
    let inputs = ["--input", "x=x.npy", "--input", "y=y.csv", "--output", "y.csv"];
    let ended = desk.engine(&[&["predict", "pair.ron", "--device", "cpu"], &inputs[..]].concat());
    assert_eq!(ended.code, 1, "{}", ended.errors);
    assert_eq!(fs::read_to_string(desk.path("y.csv")).unwrap(), "10\n20\n30\n");
}

/// The prediction of a copy, for rows of one input of this type.
fn ask_single(ty: &str, file: &str) -> Ended {
    let desk = Desk::new();
    let nodes = r#"nodes: {"same": "x * 1"}, stages: {"ask": Predict(batch: 2, outputs: {"same": "same"})})"#;
    desk.write("single.ron", format!(r#"(inputs: {{"x": "{ty}"}}, {nodes}"#));
    let long = [9_007_199_254_740_993, i64::MIN, i64::MAX, -1];
    save_npy(&desk.path("long.npy"), &HostTensor::from_slice(&[4], &long).unwrap());
    let large = [1.0, 2.0, f64::INFINITY, f64::NAN, 5.0, 1e300];
    save_npy(&desk.path("large.npy"), &HostTensor::from_slice(&[3, 2], &large).unwrap());
    save_npy(&desk.path("infinite.npy"), &HostTensor::from_slice(&[2, 2], &large[..4]).unwrap());
    save_npy(&desk.path("half.npy"), &HostTensor::from_slice(&[2], &[1.0f32, 70_000.0]).unwrap());
    save_npy(&desk.path("scalar.npy"), &HostTensor::scalar(3.0f32));
    desk.write("gap.csv", "1,2\n3,\n");
    desk.write("infinite.csv", "1,2\n3,inf\n");
    desk.engine(&["predict", "single.ron", "--device", "cpu", "--input", file])
}

#[test]
fn integers_are_printed_exactly() {
    let ended = ask_single("i64[B]", "long.npy");
    assert_eq!((ended.code, &*ended.errors), (0, ""));
    let lines = "same\n9007199254740993\n-9223372036854775808\n9223372036854775807\n-1\n";
    assert_eq!(ended.results, lines);
}

#[test]
fn rows_of_arrays_that_the_input_cannot_hold_are_refused() {
    let refused = |ty: &str, file: &str, said: &str| check_failure(&ask_single(ty, file), 1, said);
    refused("f32[B, 2]", "large.npy", "error[E0506]: large.npy: row 2, element 1: 1e300 is no f32");
    refused("f16[B]", "half.npy", "error[E0506]: half.npy: row 1: 70000 is no f16");
    refused("i32[B]", "long.npy", "error[E0506]: long.npy: row 0: 9007199254740993 is no i32");
    refused("f32[B]", "scalar.npy", "error[E0502]: scalar.npy: has no rows");
    // An infinity is the user's own.
    let infinite = ask_single("f32[B, 2]", "infinite.npy");
    assert_eq!(
        (infinite.code, &*infinite.results),
        (0, "same.0,same.1\n1,2\ninf,NaN\n"),
        "{}",
        infinite.errors
    );
}

/// No option of data makes a prediction leave out a row.
#[test]
fn cells_that_predictions_cannot_take_have_a_help_that_they_can() {
    let refused = |file: &str, said: &str| check_failure(&ask_single("f32[B, 2]", file), 1, said);
    let gap = "gap.csv:2: column 2: the value is missing\n = help: fill in the cell, or remove the row from the \
               file";
    refused("gap.csv", gap);
    refused("infinite.csv", "= help: correct the cell, or give the rows as a .npy file");
}

#[test]
fn results_replace_their_own_kind_only() {
    let desk = desk();
    let ask = |output: &str, more: &[&str]| {
        let inputs = ["--input", "x=x.npy", "--input", "y=y.csv", "--output", output];
        desk.engine(&[&["predict", "pair.ron", "--device", "cpu"], &inputs[..], more].concat())
    };
    for (name, kind) in [("notes.txt", "a .csv file"), ("notes", "a .csv file"), ("notes.npz", "an archive")]
    {
        desk.write(name, "some notes that are mine");
        let said = format!("error[E0505]: {name} already exists, and is not {kind} of this program");
        check_failure(&ask(name, &[]), 1, &said);
        assert_eq!(fs::read_to_string(desk.path(name)).unwrap(), "some notes that are mine");
        assert_eq!(ask(name, &["--force"]).code, 0);
    }
    assert_eq!(fs::read_to_string(desk.path("notes.txt")).unwrap(), "sum,y\n13,10\n27,20\n41,30\n");
    desk.write("pair.ron", PAIR.replace(r#", "y": "y""#, ""));
    desk.write("notes.npy", "some notes that are mine");
    check_failure(&ask("notes.npy", &[]), 1, "notes.npy already exists, and is not an array of this program");
    for output in ["out.csv", "out.npy", "out.npz", "out.csv", "out.npy", "out.npz"] {
        let ended = ask(output, &[]);
        assert_eq!((ended.code, &*ended.errors), (0, ""), "{output}");
    }
    // Sources are no results, with `--force` neither.
    check_failure(&ask("y.csv", &["--force"]), 1, "y.csv would replace y.csv, which it is made of");
}

/// A graph with a loss for each row, trained on three rows.
fn labelled() -> Desk {
    let desk = Desk::new();
    let graph = r#"(
      data: {"d": (source: "csv", file: "d.csv", label: "kind")},
      inputs: {"x": (type: "f32[B, 2]", from: "d.features"), "kind": (type: "i32[B]", from: "d.label")},
      params: {"w": (type: "f32[]", init: 1)},
      nodes: {
        "scores": "x * w * 4.0", "each": "cross_entropy(scores, kind, reduction=none)",
        "pick": "argmax(scores, axis=1)", "loss": "mean(each)",
      },
      stages: {
        "train": Train(
          data: "d.train", batch: 3, loss: "loss", optimizer: Sgd(lr: 0), checkpoint: (path: "d.ckpt"),
        ),
        "ask": Predict(batch: 2, outputs: {"pick": "pick", "each": "each"}),
      },
    )"#;
    desk.write("tiny.ron", graph);
    fs::create_dir(desk.path("data")).unwrap();
    desk.write("data/d.csv", "a,kind,b\n1,low,0\n0,high,1\n1,low,0\n");
    desk.run(&["--quiet"]);
    desk
}

/// Checkpoints hold no name of the label's column, but the data source names it.
#[test]
fn losses_of_rows_read_the_label_by_its_name() {
    let desk = labelled();
    let ask = |inputs: &[&str]| {
        let inputs = inputs.iter().flat_map(|input| ["--input", input]);
        let ask = ["predict", "tiny.ron", "--device", "cpu", "--load", "d.ckpt"].into_iter().chain(inputs);
        desk.engine(&ask.collect::<Vec<_>>())
    };
    desk.write("rows.csv", "b,id,a,kind\n0,1,1,high\n1,2,0,low\n0,3,1,low\n");
    let asked = ask(&["rows.csv"]);
    assert_eq!((asked.code, &*asked.errors), (0, ""));
    let lines: Vec<(&str, f64)> = asked.results.lines().skip(1).map(pick_and_loss).collect();
    let small = (-4f64).exp().ln_1p();
    let expected = [("high", small), ("low", small), ("high", 4.0 + small)];
    for (found, expected) in lines.iter().zip(expected) {
        assert!(found.0 == expected.0 && (found.1 - expected.1).abs() < 1e-5, "{found:?}, {expected:?}");
    }
    assert_eq!(lines.len(), 3);
    desk.write("x.csv", "a,b\n1,0\n0,1\n1,0\n");
    let apart = ask(&["x=x.csv", "kind=rows.csv"]);
    assert_eq!((apart.code, &apart.results), (0, &asked.results), "{}", apart.errors);
    desk.write("kinds.csv", "class\nhigh\nlow\nlow\n");
    let said = "error[E0506]: kinds.csv: there is no column `kind`";
    check_failure(&ask(&["x=x.csv", "kind=kinds.csv"]), 1, said);
    desk.write("kinds.csv", "0,high\n1,low\n");
    let refused = ask(&["x=x.csv", "kind=kinds.csv"]);
    check_failure(&refused, 1, "error[E0506]: kinds.csv: a row has 2 columns, in training it had 1");
    let help =
        "= help: name the columns in the first line, as in the training data, or give the label a file";
    assert!(refused.errors.contains(help), "{}", refused.errors);
}

/// The name and the number of a line.
fn pick_and_loss(line: &str) -> (&str, f64) {
    let (pick, loss) = line.split_once(',').unwrap();
    (pick, loss.parse().unwrap())
}

/// Class numbers have names wherever they stand in a row.
#[test]
fn the_best_classes_of_a_row_go_by_their_names() {
    let desk = labelled();
    let graph = fs::read_to_string(desk.path("tiny.ron")).unwrap();
    let asked = r#"outputs: {"best": "best.indices"}, classes: {"best": "d.label"}"#;
    let graph = graph.replace(r#"outputs: {"pick": "pick", "each": "each"}"#, asked);
    let best = r#""best": "topk(scores, k=2)""#;
    desk.write("tiny.ron", graph.replace(r#""pick": "argmax(scores, axis=1)""#, best));
    desk.write("rows.csv", "b,a\n0,1\n1,0\n");
    let ended = desk.engine(&["predict", "tiny.ron", "--load", "d.ckpt", "--input", "rows.csv"]);
    assert_eq!((ended.code, &*ended.errors), (0, ""));
    assert_eq!(ended.results, "best.0,best.1\nhigh,low\nlow,high\n");
}

/// Rows of another length than `dims` say.
#[test]
fn rows_of_another_length_name_the_extent_to_change() {
    let desk = Desk::new();
    let graph = r#"(
      dims: {"T": 4, "C": 2},
      inputs: {"x": "i32[B, T]"},
      nodes: {"y": "x * C"},
      stages: {"ask": Predict(batch: 2, outputs: {"y": "y"})},
    )"#;
    desk.write("tiny.ron", graph);
    save_npy(&desk.path("x.npy"), &HostTensor::from_slice(&[1, 3], &[1i32, 2, 3]).unwrap());
    let ask = ["predict", "tiny.ron", "--device", "cpu", "--input", "x.npy"];
    let said = "error[E0506]: rows of i32[3] do not fit an input of i32[4]\n = help: `dims` of the pipeline fix the \
                extent `T` of `x`; `--set dims.T=3` changes it";
    check_failure(&desk.engine(&ask), 1, said);
    let changed = desk.engine(&[&ask[..], &["--set", "dims.T=3"]].concat());
    assert_eq!((changed.code, &*changed.results), (0, "y.0,y.1,y.2\n2,4,6\n"), "{}", changed.errors);
    desk.write("tiny.ron", graph.replace("i32[B, T]", "i32[B, 4]").replace("x * C", "x * C * T"));
    let said = "help: each row must have the elements of i32[4]";
    check_failure(&desk.engine(&ask), 1, said);
}
