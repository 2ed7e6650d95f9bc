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
