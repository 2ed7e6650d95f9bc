//! `--trace-nan` and `--dump`.

use super::*;

/// A step that overflows: the loss is not finite, and somebody asks where that comes from.
#[test]
fn the_node_that_makes_a_nan_is_found() {
    let desk = Desk::new();
    let spoilt = GRAPH.replace(
        "\"loss\": \"cross_entropy(logits, target)\"",
        "\"loss\": \"mean(log(h - 1.0e-3 * cast(step, dtype=f32)))\"",
    );
    desk.write("tiny.ron", spoilt.replace("relu(x @ w1 + b1)", "exp(x @ w1 + b1 - 9.0)"));
    let plain = desk.engine(&["run", "tiny.ron", "--device", "cpu"]);
    check_failure(&plain, 1, "error[E0606]: stage `train`: the loss is not a number from step ");
    let step = plain.errors.split("from step ").nth(1).unwrap().split(' ').next().unwrap();
    let traced = desk.engine(&["run", "tiny.ron", "--device", "cpu", "--trace-nan"]);
    let said = format!("error[E0607]: stage `train`: step {step}: `");
    check_failure(&traced, 1, &said);
    assert!(traced.errors.contains("is the first to make NaN, at ["), "{}", traced.errors);
    assert!(traced.errors.contains("= help: of its operands, `"), "{}", traced.errors);
    assert!(traced.errors.contains("tiny.ron:20:"), "{}", traced.errors);

    // Nothing is found where nothing is wrong, and the numbers are the same.
    desk.write("tiny.ron", GRAPH);
    desk.run(&["--set", "train.epochs=1"]);
    let plain = desk.checkpoint("latest.ckpt");
    desk.run(&["--set", "train.epochs=1", "--trace-nan"]);
    assert_eq!(desk.checkpoint("latest.ckpt"), plain);
}

#[test]
fn values_of_nodes_go_to_files() {
    let desk = Desk::new();
    let array = |name: &str| npy::read(&desk.path(name)).unwrap();
    let said = desk.run(&["--set", "train.epochs=1", "--dump", "h", "--dump", "d.w2"]).errors;
    assert!(said.contains("train: `h` of step 7, f32[52,16], is in dump/train.h.npy"), "{said}");
    // The last batch of each stage is short: 500 = 7·64 + 52, 130 = 2·64 + 2.
    assert_eq!(format!("{:?}", array("dump/test.h.npy")), "f32[2,16]");
    assert_eq!(format!("{:?}", array("dump/train.d.w2.npy")), "f32[16,10]");
    assert!(array("dump/train.h.npy").to_f64().iter().all(|h| *h >= 0.0));
    assert!(!desk.path("dump/test.d.w2.npy").exists());

    let each = ["--set", "train.epochs=1", "--dump", "loss", "--dump-every", "3", "--dump-dir", "steps"];
    desk.run(&each);
    let mut files: Vec<_> =
        fs::read_dir(desk.path("steps")).unwrap().map(|f| f.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["test.loss.000002.npy", "train.loss.000002.npy", "train.loss.000005.npy"]);

    let refused = |node: &str, said: &str| {
        let ended = desk.engine(&["run", "tiny.ron", "--device", "cpu", "--dump", node]);
        check_failure(&ended, 1, said);
    };
    refused("logit", "error[E0101]: no stage has a node `logit`\n = help: did you mean `logits`?");
    refused("w1", "error[E0101]: `w1` is not computed");
    check_failure(&desk.engine(&["run", "tiny.ron", "--dump-every", "3"]), 2, "--dump <NODE>");
}
