//! `engine explain`, `engine why`, and the settings of the compiler.

use super::*;

#[test]
fn every_node_a_kernel_of_its_own_learns_the_same() {
    let desk = Desk::new();
    let loss = |arguments: &[&str]| {
        let report = desk.report(arguments);
        (
            report["stages"][1]["metrics"]["loss"].as_f64().unwrap(),
            report["stages"][0]["kernels_per_step"].as_u64().unwrap(),
        )
    };
    let ((fused, few), (unfused, many)) = (loss(&[]), loss(&["--no-fuse"]));
    assert!((fused - unfused).abs() < 1e-3, "{fused} {unfused}");
    assert!(few * 2 < many, "{few} {many}");
}

#[test]
fn functions_of_a_plugin_file_can_be_called() {
    let desk = Desk::new();
    desk.write(
        "mine.ron",
        r#"(functions: {"bend": (inputs: ["v"], output: "maximum(v, 0.0)", summary: "Bends.")})"#,
    );
    desk.write("tiny.ron", GRAPH.replace("relu(", "bend("));
    let without = desk.engine(&["check", "tiny.ron"]);
    check_failure(&without, 1, "there is no op `bend`");
    let with = desk.engine(&["check", "tiny.ron", "--plugin", "mine.ron"]);
    assert_eq!((with.code, with.errors.as_str()), (0, ""));
    desk.run(&["--plugin", "mine.ron", "--set", "train.epochs=1"]);
}

#[test]
fn every_form_of_a_pipeline_can_be_printed() {
    let desk = Desk::new();
    let explain = |arguments: &[&str]| {
        let ended = desk.engine(&[&["explain", "tiny.ron"], arguments].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended.results
    };
    let check = |form: &str, shown: &str| {
        let text = explain(&["--stage", form]);
        assert!(text.contains(shown), "{form}: {text}");
        assert_eq!(text, explain(&["--stage", form]));
    };
    check("typed", "input image: u8[B, 784]");
    check("grad", "param w1: f32[784, 16]");
    check("primitive", ".matmul(");
    check("simplified", "# stage train");
    check("kernels", "matmul h");
    check("programs", "the CPU runs the kernels of its plan");
    check("plan", "launches, 1 streams, arena ");
    let both = explain(&["--stage", "plan,kernels"]);
    assert_eq!(both, explain(&["--stage", "plan"]) + &explain(&["--stage", "kernels"]));

    let json: Value = serde_json::from_str(&explain(&["--json"])).unwrap();
    let stages = json["stages"].as_array().unwrap();
    assert_eq!(
        stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["train", "test", "predict"]
    );
    for stage in stages {
        assert!(stage["peak_bytes"].as_u64().unwrap() > 0);
        assert!(stage["not_fused"].as_array().unwrap().iter().all(|edge| edge["reason"].is_string()));
        for kernel in stage["kernels"].as_array().unwrap() {
            assert!(kernel["name"].is_string() && kernel["kind"].is_string() && kernel["flops"].is_u64());
            assert!(
                kernel["ops"].is_array() && kernel["bytes_read"].is_u64() && kernel["bytes_written"].is_u64()
            );
        }
    }
    let n_kernels = |json: &Value| json["stages"][0]["kernels"].as_array().unwrap().len();
    let unfused: Value = serde_json::from_str(&explain(&["--json", "--no-fuse"])).unwrap();
    assert!(n_kernels(&json) * 2 < n_kernels(&unfused));
}

#[test]
fn why_prints_the_reason_against_fusion() {
    let desk = Desk::new();
    let ended = desk.engine(&["why", "tiny.ron", "h", "loss"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(
        ended.results.starts_with("train: between `h` and `loss`:\n  `h` and `logits"),
        "{}",
        ended.results
    );
    check_failure(
        &desk.engine(&["why", "tiny.ron", "h", "nothing"]),
        1,
        "error[E0101]: no stage has a node `nothing`",
    );
    check_failure(&desk.engine(&["why", "tiny.ron", "h", "logit"]), 1, "did you mean `logits`?");
    check_failure(
        &desk.engine(&["why", "tiny.ron", "logits", "h"]),
        1,
        "error: `h` does not use `logits`, but `logits` uses `h`; the node that is used comes first: `engine why tiny.ron h \
         logits`\n",
    );
    check_failure(
        &desk.engine(&["why", "tiny.ron", "x", "target"]),
        1,
        "no stage has nodes `x` and `target` where one uses the other",
    );
}

#[test]
fn why_looks_into_loops() {
    let desk = Desk::new();
    let text = r#"(
        params: {"u": (type: "f32[8, 8]", init: Normal(0, 0.2))},
        functions: {"cell": (inputs: ["h", "x", "u"], nodes: {"p": "h @ u", "s": "x + p"}, output: "tanh(s)")},
        inputs: {"x": "f32[B, 900, 8]"},
        nodes: {"h": "cell(zeros(shape=[B, 8]), x, u, over=1)"},
        stages: {"go": Run(outputs: ["h"], dims: {"B": 2})},
    )"#;
    desk.write("loop.ron", text);
    let ended = desk.engine(&["why", "loop.ron", "h.p", "h.s"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(ended.results.starts_with("go, in a trip of `h`: `h.p` and `h.s`"), "{}", ended.results);
    check_failure(
        &desk.engine(&["why", "loop.ron", "h.p", "h.q"]),
        1,
        "error[E0101]: no stage has a node `h.q`",
    );
}

#[test]
fn a_node_with_fuse_never_has_its_own_kernel() {
    let desk = Desk::new();
    let mixed = GRAPH.replace("nodes: {", "nodes: [{").replace(
        "    \"h\": \"relu(x @ w1 + b1)\",\n",
        "  }, (name: \"h\", expr: \"relu(x @ w1 + b1)\", fuse: Never), {\n",
    );
    let mixed = mixed.replace(
        "    \"accuracy\": \"mean(class == target)\",\n  },",
        "    \"accuracy\": \"mean(class == target)\",\n  }],",
    );
    desk.write("mixed.ron", &mixed);
    let ended = desk.engine(&["why", "mixed.ron", "x", "h"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(ended.results.contains("`fuse: Never` keeps them apart"), "{}", ended.results);
    let run = |graph: &str| {
        let ended = desk.engine(&["run", graph, "--device", "cpu", "--quiet", "--report", "report.json"]);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let report: Value =
            serde_json::from_str(&fs::read_to_string(desk.path("report.json")).unwrap()).unwrap();
        report["stages"][1]["metrics"]["loss"].as_f64().unwrap()
    };
    let (free, unfused) = (run("tiny.ron"), run("mixed.ron"));
    assert!((free - unfused).abs() < 1e-4 * free, "{free} and {unfused}");
}

#[test]
fn the_compiler_can_be_held_back_to_find_a_wrong_step() {
    let desk = Desk::new();
    let n_kernels = |arguments: &[&str]| {
        let ended = desk.engine(&[&["explain", "tiny.ron", "--json"], arguments].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let json: Value = serde_json::from_str(&ended.results).unwrap();
        json["stages"][0]["kernels"].as_array().unwrap().len()
    };
    let all = n_kernels(&[]);
    assert!(n_kernels(&["--without", "edges"]) > all);
    let some = n_kernels(&["--fuel", "20"]);
    assert!(all < some && some < n_kernels(&["--fuel", "0"]));
    check_failure(&desk.engine(&["explain", "tiny.ron", "--without", "edge"]), 2, "known are add-neutral, ");
}

#[test]
fn strict_numerics_keep_every_bit_as_it_is_written() {
    let desk = Desk::new();
    let nodes = r#"nodes: {"y": "log(sum(exp(x), axis=1))"}, stages: {"go": Run(outputs: ["y"])}"#;
    desk.write("log.ron", format!(r#"(params: {{"x": "f32[4, 8]"}}, {nodes})"#));
    let is_stable = |set: &[&str]| {
        let ended = desk.engine(&[&["explain", "log.ron", "--stage", "simplified"], set].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended.results.contains("max(")
    };
    assert!(is_stable(&[]));
    assert!(!is_stable(&["--set", "numerics=Strict"]));
}
