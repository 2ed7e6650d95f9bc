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
