//! Runs of some stages, from given parameters.

use super::*;

fn names(report: &Value) -> Vec<&str> {
    report["stages"].as_array().unwrap().iter().map(|stage| stage["name"].as_str().unwrap()).collect()
}

#[test]
fn a_run_starts_with_given_parameters() {
    let desk = Desk::new();
    let trained = desk.report(&[]);
    for (format, file) in [("a checkpoint", "latest.ckpt"), ("another name", "model.safetensors")] {
        if file != "latest.ckpt" {
            fs::copy(desk.path("latest.ckpt"), desk.path(file)).unwrap();
        }
        let tested = desk.report(&["--load", file, "--only", "test"]);
        assert_eq!(names(&tested), ["--load", "test"], "{format}");
        assert_eq!(tested["stages"][1]["metrics"], trained["stages"][1]["metrics"], "{format}");
    }
    // Without them, the parameters have their initial values.
    let untrained = desk.report(&["--only", "test"]);
    assert_ne!(untrained["stages"][0]["metrics"], trained["stages"][1]["metrics"]);
    // Training goes on from them with a new optimizer.
    let more = desk.report(&["--load", "model.safetensors", "--set", "train.epochs=1"]);
    assert_eq!(names(&more), ["--load", "train", "test"]);
    let loss =
        |report: &Value, stage: usize| report["stages"][stage]["epochs"][0]["train_loss"].as_f64().unwrap();
    assert!(loss(&more, 1) < loss(&trained, 0));
}

#[test]
fn parameters_that_do_not_fit_end_the_run_before_its_first_step() {
    let desk = Desk::new();
    desk.run(&["--only", "train", "--set", "train.epochs=1"]);
    desk.write("wide.ron", GRAPH.replace("16", "17").replace("latest.ckpt", "wide.ckpt"));
    let run =
        |arguments: &[&str]| desk.engine(&[&["run", "wide.ron", "--device", "cpu"], arguments].concat());
    check_failure(&run(&["--load", "latest.ckpt"]), 1, "error[E0504]");
    check_failure(&run(&["--load", "none.ckpt"]), 1, "none.ckpt");
    assert!(!desk.path("wide.ckpt").exists());
    let both = run(&["--load", "latest.ckpt", "--resume", "latest.ckpt"]);
    check_failure(&both, 2, "cannot be used with");
}

#[test]
fn stages_run_alone_and_in_order() {
    let desk = Desk::new();
    let report =
        desk.report(&["--only", "test", "--only", "train", "--only", "test", "--set", "train.epochs=1"]);
    assert_eq!(names(&report), ["train", "test"]);
    let refused = |only: &str| desk.engine(&["run", "tiny.ron", "--device", "cpu", "--only", only]);
    check_failure(&refused("tset"), 1, "error: --only: there is no stage `tset`; did you mean `test`?");
    check_failure(&refused("x"), 1, "error: --only: there is no stage `x`; there are train, test, predict");
    let ended = refused("predict");
    assert_eq!(
        (ended.code, ended.errors.contains("there is no stage to run")),
        (0, true),
        "{}",
        ended.errors
    );
}

/// A `Repeat` takes its parts along, which run nowhere else. Alone, a part is a stage like others.
#[test]
fn a_repeat_brings_its_parts_along() {
    let desk = Desk::new();
    let turns = r#"stages: { "turns": Repeat(stages: [(stage: "train", steps: 5), "test"], times: 3),"#;
    desk.write("tiny.ron", GRAPH.replace("stages: {", turns));
    for only in [&[][..], &["--only", "turns"]] {
        let report = desk.report(only);
        assert_eq!(names(&report), ["train", "test", "turns"], "{only:?}");
        let steps = |stage: usize| report["stages"][stage]["steps"].as_u64().unwrap();
        // 500 rows are 8 steps, 130 are 3.
        assert_eq!([steps(0), steps(1), steps(2)], [15, 9, 3], "{only:?}");
        assert_eq!(report["stages"][0]["epochs"].as_array().unwrap().len(), 1);
    }
    let alone = desk.report(&["--only", "train"]);
    assert_eq!((names(&alone), alone["stages"][0]["steps"].as_u64()), (vec!["train"], Some(24)));
    let (checked, explained) =
        (desk.engine(&["check", "tiny.ron"]), desk.engine(&["explain", "tiny.ron", "--stage", "kernels"]));
    assert!(checked.results.contains("4 stages"), "{}{}", checked.results, checked.errors);
    assert!(
        explained.results.contains("train") && explained.results.contains("test"),
        "{}",
        explained.errors
    );
    let ended = desk.engine(&["check", "tiny.ron", "--set", r#"turns.stages=["trian"]"#]);
    check_failure(&ended, 1, "did you mean `train`?");
}
