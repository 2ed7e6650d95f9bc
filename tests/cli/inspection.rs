//! `--trace-nan` and `--dump`.

use super::*;

/// A step overflows, so that its loss is not finite. `--trace-nan` finds the origin.
#[test]
fn the_node_that_makes_a_nan_is_found() {
    let desk = Desk::new();
    let spoilt = GRAPH.replace(
        "\"loss\": \"cross_entropy(logits, target)\"",
        "\"loss\": \"mean(log(h - 1.0e-3 * cast(step, dtype=f32)))\"",
    );
    desk.write("tiny.ron", spoilt.replace("relu(x @ w1 + b1)", "exp(x @ w1 + b1 - 9.0)"));
    let plain = desk.engine(&["run", "tiny.ron", "--device", "cpu"]);
    check_failure(&plain, 1, "error[E0606]: stage `train`: the loss is not finite from step ");
    let step = plain.errors.split("from step ").nth(1).unwrap().split(' ').next().unwrap();
    let traced = desk.engine(&["run", "tiny.ron", "--device", "cpu", "--trace-nan"]);
    let said = format!("error[E0607]: stage `train`: step {step}: `");
    check_failure(&traced, 1, &said);
    assert!(traced.errors.contains("is the first to make NaN, at ["), "{}", traced.errors);
    assert!(traced.errors.contains("= help: of its operands, `"), "{}", traced.errors);
    assert!(traced.errors.contains("tiny.ron:20:"), "{}", traced.errors);

    // Without a fault, nothing is reported and the numbers are unchanged.
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

    // A node that is named twice is written once.
    let twice = desk.run(&["--set", "train.epochs=1", "--dump", "h", "--dump", "h"]).errors;
    assert_eq!(twice.matches("is in dump/train.h.npy").count(), 1, "{twice}");

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

/// `--dump` accepts the paths that stages accept, including paths of first results.
#[test]
fn the_first_of_several_results_is_dumped_by_its_path() {
    let desk = Desk::new();
    let graph = r#"(
      functions: {"split": (inputs: ["x"], nodes: {"a": "x * 3", "b": "x + 1"}, outputs: {"o": "a * a", "z": "b"})},
      params: {"w": (type: "f32[2]", init: 2)},
      nodes: {"x1": "split(w)", "t": "topk(w, k=1)", "loss": "sum(x1 + x1.z) + sum(t)"},
      stages: {"go": Run(outputs: {"loss": "loss", "o": "x1.o", "v": "t.values"}, loss: "loss")},
    )"#;
    desk.write("tiny.ron", graph);
    let paths = ["x1.o", "x1", "x1.z", "t.values", "d.x1.o", "d.x1"];
    let dump: Vec<&str> = paths.iter().flat_map(|path| ["--dump", path]).collect();
    let report = desk.report(&dump);
    assert_eq!(report["outputs"]["o"]["values"], serde_json::json!([36.0, 36.0]));
    for (path, expected) in paths.iter().zip([36.0, 36.0, 3.0, 2.0, 1.0, 1.0]) {
        let kept = npy::read(&desk.path(&format!("dump/go.{path}.npy"))).unwrap().to_f64();
        assert!(!kept.is_empty() && kept.iter().all(|value| *value == expected), "{path}: {kept:?}");
    }
}

/// Outputs and metrics have names of their own, which stand for their nodes.
#[test]
fn outputs_are_dumped_by_their_names() {
    let desk = Desk::new();
    let graph = r#"(
      data: {"rows": (source: "numbers", n_train: 8, n_test: 8)},
      inputs: {"row": (type: "i32[B]", from: "rows.number")},
      params: {"w": (type: "f32[]", init: 2)},
      nodes: {"y": "cast(row, dtype=f32) * w", "loss": "mean(y)"},
      stages: {
        "go": Run(outputs: {"out": "y", "slope": "d.w"}, loss: "loss", dims: {"B": 3}),
        "test": Evaluate(data: "rows.test", batch: 4, metrics: {"average": "loss"}),
      },
    )"#;
    desk.write("tiny.ron", graph);
    let said = desk.run(&["--dump", "out", "--dump", "slope", "--dump", "average"]).errors;
    assert!(said.contains("go: `y` of step 0, f32[3], is in dump/go.y.npy"), "{said}");
    let kept = |name: &str| npy::read(&desk.path(&format!("dump/{name}.npy"))).unwrap().to_f64();
    assert_eq!((kept("go.y"), kept("go.d.w")), (vec![0.0, 2.0, 4.0], vec![1.0]));
    assert_eq!(kept("test.loss").len(), 1);
    let ended = desk.engine(&["run", "tiny.ron", "--device", "cpu", "--dump", "oot"]);
    check_failure(&ended, 1, "error[E0101]: no stage has a node `oot`");
}

/// A gradient may have the name of a field of data.
#[test]
fn inputs_are_not_dumped_but_their_gradients_are() {
    let desk = Desk::new();
    let graph = r#"(
      data: {"d": (source: "csv", file: "rows.csv", label: "label")},
      inputs: {"features": (type: "f32[B, 2]", from: "d.features"), "label": (type: "i32[B]", from: "d.label")},
      params: {"w": (type: "f32[2, 2]", init: Ones)},
      nodes: {"loss": "cross_entropy(features @ w, label)"},
      stages: {"train": Train(data: "d.train", batch: 2, epochs: 1, loss: "loss", optimizer: Sgd(lr: 1))},
    )"#;
    desk.write("tiny.ron", graph);
    fs::create_dir(desk.path("data")).unwrap();
    desk.write("data/rows.csv", "a,b,label\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n");
    desk.run(&["--dump", "d.features"]);
    let slope = npy::read(&desk.path("dump/train.d.features.npy")).unwrap();
    assert_eq!(format!("{slope:?}"), "f32[2,2]");
    let refused = |node: &str, said: &str| {
        check_failure(&desk.engine(&["run", "tiny.ron", "--device", "cpu", "--dump", node]), 1, said);
    };
    refused("d.label", "error[E0101]: `d.label` is not computed, it is the field `label` of the data `d`");
    refused("w", "error[E0101]: `w` is not computed, it is a parameter\n = help: checkpoints hold");
    let run = r#"(
      inputs: {"x": "f32[2]"}, nodes: {"y": "x * 2"},
      stages: {"go": Run(outputs: ["y"], inputs: {"x": [1, 2]})},
    )"#;
    desk.write("tiny.ron", run);
    refused(
        "x",
        "error[E0101]: `x` is not computed, it is an input\n = help: its value is the given one; name `x`",
    );
}

/// A reshape to the same shape is a node of its own, also where gradients are computed.
#[test]
fn views_that_change_nothing_have_values_and_gradients() {
    let desk = Desk::new();
    let graph = r#"(
      data: {"rows": (source: "numbers", n_train: 8, n_test: 8)},
      inputs: {"row": (type: "i32[B]", from: "rows.number")},
      params: {"w": (type: "f32[2]", init: 2)},
      nodes: {
        "h": "w * 3", "same": "reshape(h, shape=[2])", "again": "reshape(same, shape=[2])",
        "loss": "sum(again * 2) + sum(h * 5)", "error": "loss * mean(cast(row, dtype=f32))",
      },
      stages: {
        "go": Run(outputs: ["d.again", "d.h"], loss: "loss"),
        "train": Train(data: "rows.train", batch: 8, epochs: 1, loss: "error", optimizer: Sgd(lr: 0)),
      },
    )"#;
    desk.write("tiny.ron", graph);
    let report = desk.report(&["--dump", "same", "--dump", "again", "--dump", "d.same"]);
    let value = |name: &str| report["outputs"][name]["values"].clone();
    assert_eq!(
        (value("d.again"), value("d.h")),
        (serde_json::json!([2.0, 2.0]), serde_json::json!([7.0, 7.0]))
    );
    let kept = |name: &str| npy::read(&desk.path(&format!("dump/{name}.npy"))).unwrap().to_f64();
    for (node, in_run, in_training) in [("same", 6.0, 6.0), ("again", 6.0, 6.0), ("d.same", 2.0, 7.0)] {
        assert_eq!(kept(&format!("go.{node}")), [in_run, in_run], "{node}");
        // The mean of the rows is 3.5.
        assert_eq!(kept(&format!("train.{node}")), [in_training, in_training], "{node}");
    }
}

/// Every dumped value has a file of its own in the folder for values.
#[test]
fn dumps_share_no_file_and_stay_in_their_folder() {
    let desk = Desk::new();
    let graph = |stage: &str| {
        format!(
            r#"(
              functions: {{"f": (inputs: ["x"], nodes: {{"c": "x * 2.0"}}, output: "c + 1.0")}},
              params: {{"w": (type: "f32[]", init: 1)}},
              nodes: {{"b": "f(w)", "c": "w * 100.0", "e": "b * 1.0"}},
              stages: {{"a": Run(outputs: ["b.c", "e"]), "{stage}": Run(outputs: ["c"])}},
            )"#
        )
    };
    let dump =
        || desk.engine(&["run", "tiny.ron", "--device", "cpu", "--quiet", "--dump", "b.c", "--dump", "c"]);
    let kept = |name: &str| npy::read(&desk.path(&format!("dump/{name}.npy"))).unwrap().to_f64();
    desk.write("tiny.ron", graph("a.b"));
    let said =
        "error[E0505]: dump/a.b.c.npy would hold two values: `b.c` of stage `a` and `c` of stage `a.b`";
    check_failure(&dump(), 1, said);
    assert!(!desk.path("dump").exists());
    for (stage, file) in [("z", "z.c"), ("../../z", ".._.._z.c")] {
        desk.write("tiny.ron", graph(stage));
        let ended = dump();
        assert_eq!(ended.code, 0, "{}", ended.errors);
        assert_eq!((kept("a.b.c"), kept(file)), (vec![2.0], vec![100.0]), "{stage}");
    }
}

/// With several batches a step, both plans of a step have nodes to dump.
#[test]
fn next_values_of_states_are_dumped() {
    let desk = Desk::new();
    let graph = r#"(
      data: {"rows": (source: "numbers", n_train: 8, n_test: 8)},
      inputs: {"row": (type: "i32[B]", from: "rows.number")},
      params: {"w": (type: "f32[]", init: 1), "n": (type: "f32[]", state: true), "sum": (type: "f32[]", state: true)},
      nodes: {
        "x": "cast(row, dtype=f32)", "loss": "mean(x * w)", "n_next": "n + w", "sum_next": "sum + sum(x)",
        "same": "w * 1.0",
      },
      stages: {"train": Train(
        data: "rows.train", batch: 4, accumulate: 2, epochs: 2, loss: "loss", optimizer: Sgd(lr: 1),
        state: {"n": "n_next", "sum": "sum_next"}, metrics: ["same"],
      )},
    )"#;
    desk.write("tiny.ron", graph);
    desk.run(&["--dump", "n_next", "--dump", "sum_next", "--dump", "same"]);
    let kept = |node: &str| npy::read(&desk.path(&format!("dump/train.{node}.npy"))).unwrap().to_f64();
    // The first step adds the first weight, 1, the second one 1 - 3.5; the rows 0 to 7 are summed twice.
    assert_eq!((kept("n_next"), kept("sum_next")), (vec![1.0 - 2.5], vec![56.0]));
    // The last step reads the weight that it updates.
    assert_eq!(kept("same"), [-2.5]);
}

/// The gradients of `sum(h * h)` with `h = 3 w` and `w = 2`.
const SLOPES: &str = r#"(
  params: {"w": (type: "f32[2]", init: 2), "free": (type: "f32[2]", init: 1)},
  nodes: {"h": "w * 3", "i": "cast(h, dtype=i32)", "loss": "sum(h * h)", "other": "sum(free * cast(i, dtype=f32))"},
  stages: {"slopes": Run(outputs: OUTPUTS, loss: "loss")},
)"#;

#[test]
fn a_run_stage_reports_gradients_of_its_loss() {
    let desk = Desk::new();
    let with = |outputs: &str| desk.write("tiny.ron", SLOPES.replace("OUTPUTS", outputs));
    with(r#"["loss", "d.h", "d.w", "other"]"#);
    let report = desk.report(&["--dump", "d.h"]);
    assert_eq!(report["outputs"]["loss"]["values"], serde_json::json!([72.0]));
    assert_eq!(report["outputs"]["d.h"]["values"], serde_json::json!([12.0, 12.0]));
    assert_eq!(report["outputs"]["d.w"]["values"], serde_json::json!([36.0, 36.0]));
    assert_eq!(npy::read(&desk.path("dump/slopes.d.h.npy")).unwrap().to_f64(), [12.0, 12.0]);
    with(r#"{"slope": "d.w", "other": "other"}"#);
    assert_eq!(desk.report(&[])["outputs"]["slope"]["values"], serde_json::json!([36.0, 36.0]));

    let refused = |outputs: &str, said: &str| {
        with(outputs);
        check_failure(&desk.engine(&["check", "tiny.ron"]), 1, said);
    };
    refused(r#"["d.ww", "other"]"#, "error[E0101]: no node is called `ww`");
    refused(r#"["d.w", "other", "d.w"]"#, "error[E0013]: `d.w` is given twice");
    refused(r#"["d.i", "other"]"#, "error[E0115]: stage `slopes`: `i` is i32[2], only floats have gradients");
    refused(
        r#"["d.free", "other"]"#,
        "error[E0115]: stage `slopes`: `free` has no gradient of the loss `loss`",
    );
    desk.write("tiny.ron", SLOPES.replace("OUTPUTS, loss: \"loss\"", r#"["d.w", "loss", "other"]"#));
    let said = "error[E0011]: a gradient needs the field `loss`, which says what is differentiated";
    check_failure(&desk.engine(&["check", "tiny.ron"]), 1, said);
}

/// The origin of a NaN is found in the step that produced it. So dumps show that step, including gradients of nodes.
#[test]
fn values_are_dumped_of_the_step_whose_loss_is_nan() {
    let desk = Desk::new();
    let loss = "\"loss\": \"mean(log(h - 1.0e-3 * cast(step, dtype=f32)))\"";
    let spoilt = GRAPH.replace("\"loss\": \"cross_entropy(logits, target)\"", loss);
    desk.write("tiny.ron", spoilt.replace("relu(x @ w1 + b1)", "exp(x @ w1 + b1 - 9.0)"));
    let ended = desk.engine(&[
        "run", "tiny.ron", "--device", "cpu", "--dump", "h", "--dump", "d.h", "--dump", "d.w1", "--dump",
        "d.x",
    ]);
    check_failure(&ended, 1, "error[E0606]: stage `train`: the loss is not finite from step ");
    let step = ended.errors.split("from step ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(ended.errors.contains(&format!("train: `d.h` of step {step}, ")), "{}", ended.errors);
    let array = |name: &str| npy::read(&desk.path(&format!("dump/train.{name}.npy"))).unwrap();
    let rows = array("h").shape()[0];
    assert_eq!(format!("{:?}", array("d.h")), format!("f32[{rows},16]"));
    assert_eq!(format!("{:?}", array("d.x")), format!("f32[{rows},784]"));
    let (h, slope) = (array("h").to_f64(), array("d.h").to_f64());
    let late = 1.0e-3 * step.parse::<f64>().unwrap();
    let expected = |h: f64| 1.0 / (h - late) / (rows * 16) as f64;
    let is_near =
        |(&h, &slope): (&f64, &f64)| (slope / expected(h) - 1.0).abs() < 1e-2 || (h - late).abs() < 1e-6;
    assert!(h.iter().zip(&slope).all(is_near), "{slope:?}");
    assert!(array("d.w1").to_f64().iter().all(|slope| slope.is_finite()));
}

/// Such a run fails like one whose loss is not finite. But later stages run first, one of which may save the trained
/// parameters.
#[test]
fn a_metric_that_is_not_finite_fails_the_run_when_all_stages_are_done() {
    let desk = Desk::new();
    let test = (r#""loss": "loss"}"#, r#""odd": "odd"}"#);
    let epoch = (r#"metrics: {"accuracy": "accuracy"}"#, r#"metrics: {"odd": "odd"}"#);
    let training = (r#"loss: "loss","#, r#"loss: "loss", metrics: ["odd"],"#);
    let cases = [
        ("mean(log(x - x))", test, "stage `test`: the metric `odd` is -inf"),
        ("mean(log(-1.0 - x))", test, "stage `test`: the metric `odd` is NaN"),
        ("mean(log(x - x))", epoch, "stage `train`: the metric `odd` is -inf"),
        ("mean(log(x - x))", training, "stage `train`: the metric `train odd` is -inf"),
    ];
    for (node, (place, with), said) in cases {
        let text = GRAPH.replace("\"class\": \"arg", &format!("\"odd\": \"{node}\",\n    \"class\": \"arg"));
        let keep = "\"keep\": Save(path: \"kept.ckpt\"),\n    \"predict\":";
        desk.write("odd.ron", text.replace(place, with).replace("\"predict\":", keep));
        let run = ["run", "odd.ron", "--device", "cpu", "--set", "train.epochs=1", "--report", "a.json"];
        let ended = desk.engine(&run);
        assert_eq!(ended.code, 1, "{}", ended.errors);
        assert!(ended.errors.contains(&format!("error[E0611]: {said}")), "{}", ended.errors);
        assert!(ended.errors.contains(&format!("\"odd\": \"{node}\"")), "{}", ended.errors);
        assert!(ended.results.contains("test: accuracy 0."), "{}", ended.results);
        assert!(fs::read_to_string(desk.path("a.json")).unwrap().contains("\"end\": \"failed\""));
        fs::remove_file(desk.path("kept.ckpt")).unwrap();
    }
}

/// Tables in the text of a comparison of devices: the rows of each, by title.
fn tables(text: &str) -> Vec<(&str, Vec<&str>)> {
    let blocks = text.split("\n## ").skip(1);
    let rows = |block: &'_ str| block.lines().filter(|line| line.starts_with("| ")).count();
    blocks
        .filter(|block| rows(block) > 0)
        .map(|block| {
            let lines = block.lines().filter(|line| line.starts_with("| ")).skip(1);
            (block.lines().next().unwrap(), lines.collect())
        })
        .collect()
}

#[test]
fn a_device_is_the_same_as_itself() {
    let desk = Desk::new();
    let ended = desk.engine(&["verify", "tiny.ron", "--device", "cpu,cpu"]);
    assert_eq!((ended.code, ended.errors.as_str()), (0, ""), "{}", ended.results);
    assert!(ended.results.starts_with("tiny.ron, stage train\nname  "), "{}", ended.results);
    assert!(ended.results.contains("\ntiny.ron, stage test\n"), "{}", ended.results);
    assert!(ended.results.contains(" f32 ") && !ended.results.contains("ULP"), "{}", ended.results);
    assert!(
        ended.results.ends_with(" rows: all within the tolerances of `engine selftest` and `verify`\n"),
        "{}",
        ended.results
    );

    let all = ["verify", "tiny.ron", "--device", "cpu,cpu", "--all", "--filter", "soft", "--markdown"];
    let page = desk.engine(&all);
    assert_eq!((page.code, page.errors.as_str()), (0, ""), "{}", page.results);
    assert!(page.results.starts_with("# Parity of devices\n"), "{}", page.results);
    assert!(page.results.contains(&format!("\n    engine {}\n", all.join(" "))), "{}", page.results);
    assert!(page.results.contains(&format!("\n- machine: {}, ", std::env::consts::OS)), "{}", page.results);
    assert!(page.results.contains("\n- `cpu`: cpu; threads: "), "{}", page.results);
    let tables = tables(&page.results);
    let titles: Vec<&str> = tables.iter().map(|(title, _)| *title).collect();
    assert_eq!(titles, ["ops", "tiny.ron, stage train", "tiny.ron, stage test", "tiny.ron, stage predict"]);
    assert!(tables[0].1.iter().any(|row| row.starts_with("| softmax | ")), "{}", page.results);
    let rows = tables.iter().flat_map(|(_, rows)| rows);
    assert!(rows.clone().count() > 8, "{}", page.results);
    for row in rows {
        assert!(row.ends_with(" | same bits |") || row.contains("not compared: it copies a state"), "{row}");
    }
}

/// A GPU computes in another order and has other error messages for equal numbers. Random numbers are identical.
#[test]
fn devices_are_compared_in_units_of_the_last_place() {
    let desk = Desk::new();
    let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
    let found = desk.engine(&["devices"]).results;
    if found.contains("wgpu:software: not usable") && !required.split(',').any(|device| device == "wgpu") {
        eprintln!("devices are not compared: there is one only");
        return;
    }
    let compare = |arguments: &[&str]| {
        let devices = ["verify", "--device", "cpu,wgpu:software"];
        let ended = desk.engine(&[&devices, arguments].concat());
        assert_eq!(ended.code, 0, "{}{}", ended.results, ended.errors);
        ended.results
    };
    let ops = compare(&["--filter", "exp"]);
    assert!(ops.contains(" ULP (") && !ops.contains("BEYOND"), "{ops}");
    let drawn = compare(&["--filter", "uniform"]);
    assert!(drawn.lines().any(|line| line.starts_with("uniform ") && line.ends_with("same bits")), "{drawn}");
    let kernels = compare(&["tiny.ron"]);
    assert!(kernels.contains("\nh ") && kernels.contains(" ULP ("), "{kernels}");
}

#[test]
fn devices_that_cannot_be_compared_are_wrong_usage() {
    let desk = Desk::new();
    let refused = |arguments: &[&str], said: &str| {
        check_failure(&desk.engine(&[&["verify", "--device"], arguments].concat()), 2, said);
    };
    refused(&["cpu,gpu", "tiny.ron"], "invalid value 'gpu' for '--device");
    refused(&["cpu"], "give a GRAPH to compare with the interpreter, or several devices to compare");
    refused(&["cpu", "tiny.ron", "--markdown"], "compare devices: give several");
    let unknown = desk.engine(&["verify", "--device", "cpu,cpu", "--filter", "rely"]);
    check_failure(&unknown, 1, "no op has a name like that");
}
