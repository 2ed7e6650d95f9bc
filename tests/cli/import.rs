//! ONNX models on the command line.

use super::*;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/examples/onnx");

fn model(name: &str) -> String {
    format!("{FOLDER}/{name}.onnx")
}

fn save_rows(desk: &Desk) {
    let rows: Vec<f32> = (0..18).map(|i| i as f32 / 9.0 - 1.0).collect();
    save_npy(&desk.path("x.npy"), &HostTensor::from_slice(&[3, 6], &rows).unwrap());
}

#[test]
fn a_model_becomes_a_graph_and_a_file_of_weights() {
    let desk = Desk::new();
    save_rows(&desk);
    let imported = desk.engine(&["import", &model("mlp_dynamo"), "-o", "mlp.ron"]);
    assert_eq!((imported.code, &*imported.errors), (0, ""));
    assert_eq!(imported.results, "mlp.ron: 2 nodes, 6 parameters in mlp.safetensors\n");
    let checked = desk.engine(&["check", "mlp.ron"]);
    assert!(checked.results.starts_with("mlp.ron: mlp_dynamo is sound: "), "{}", checked.results);
    // Graph and model give the same outputs, alone and for rows.
    let rows = |graph: &str, output: &str| {
        let predict = ["predict", graph, "--device", "cpu", "--input", "x.npy", "--output", output];
        let ended = desk.engine(&predict);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        npy::read(&desk.path(output)).unwrap()
    };
    let by_model = rows(&model("mlp_dynamo"), "a.npy");
    assert_eq!(by_model.shape(), [3, 3]);
    assert_eq!(rows("mlp.ron", "b.npy"), by_model);
    let run = |graph: &str, more: &[&str]| {
        let run = ["run", graph, "--device", "cpu", "--quiet", "--input", "x=x.npy"];
        let ended = desk.engine(&[&run[..], more].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended.results
    };
    let shown = run(&model("mlp_dynamo"), &[]);
    assert!(shown.starts_with("run: y: f32[3,3] = ["), "{shown}");
    assert_eq!(run("mlp.ron", &["--set", "run.dims.batch=3"]), shown);
}

/// The weights of a graph are found from every folder, unless the working folder has others.
#[test]
fn a_graph_and_its_weights_move_together() {
    let desk = Desk::new();
    save_rows(&desk);
    for folder in ["sub", "moved"] {
        fs::create_dir(desk.path(folder)).unwrap();
    }
    let imported = desk.engine(&["import", &model("mlp_dynamo"), "-o", "sub/mlp.ron"]);
    assert_eq!(imported.results, "sub/mlp.ron: 2 nodes, 6 parameters in sub/mlp.safetensors\n");
    let ask = |graph: &str| {
        desk.engine(&["predict", graph, "--device", "cpu", "--input", "x.npy", "--output", "-"])
    };
    let expected = ask(&model("mlp_dynamo")).results;
    assert_eq!(expected.lines().count(), 4);
    let there = ask("sub/mlp.ron");
    assert_eq!((there.code, &*there.errors, &there.results), (0, "", &expected));
    for file in ["mlp.ron", "mlp.safetensors"] {
        fs::rename(desk.path("sub").join(file), desk.path("moved").join(file)).unwrap();
    }
    let moved = ask("moved/mlp.ron");
    assert_eq!((moved.code, &moved.results), (0, &expected), "{}", moved.errors);
    // A file of the working folder goes first, with a note.
    fs::copy(desk.path("moved/mlp.safetensors"), desk.path("mlp.safetensors")).unwrap();
    let both = ask("moved/mlp.ron");
    assert_eq!((both.code, &both.results), (0, &expected), "{}", both.errors);
    let said = "note: mlp.safetensors of the working folder is read, not moved/mlp.safetensors\n";
    assert_eq!(both.errors, said);
    // What a stage writes is written in the working folder, and read there.
    fs::remove_file(desk.path("mlp.safetensors")).unwrap();
    let text = fs::read_to_string(desk.path("moved/mlp.ron")).unwrap();
    let saving = "stages: {\n        \"keep\": Save(path: \"mlp.safetensors\"),";
    assert!(text.contains("stages: {"), "{text}");
    desk.write("moved/mlp.ron", text.replacen("stages: {", saving, 1));
    check_failure(&ask("moved/mlp.ron"), 1, "error[E0503]: checkpoint mlp.safetensors: cannot be read");
}

#[test]
fn given_values_settle_open_extents() {
    let desk = Desk::new();
    let bert = model("bert_dynamo");
    let ended = desk.engine(&["run", &bert, "--device", "cpu", "--quiet", "--input", "x=[[1,2,3],[4,5,6]]"]);
    assert!(ended.results.starts_with("run: y: f32[2,3,16] = ["), "{}{}", ended.results, ended.errors);
    let ended = desk.engine(&["import", &bert, "--dim", "time=3"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let text = fs::read_to_string(desk.path("bert_dynamo.ron")).unwrap();
    assert!(text.contains("\"x\": \"i64[batch, 3]\""), "{text}");
    let ended = desk.engine(&["import", &bert, "--dim", "tiem=3"]);
    assert_eq!(ended.code, 1);
    assert!(
        ended.errors.contains("the model has no open extent `tiem`\n = help: did you mean `time`?"),
        "{}",
        ended.errors
    );
}

/// The stages of a model follow from it, so a stage can be added to its graph alone.
#[test]
fn a_model_without_rows_is_imported_before_predictions() {
    let desk = Desk::new();
    let both = model("both_torchscript");
    let ended = desk.engine(&["predict", &both, "--input", "none.npy"]);
    check_failure(&ended, 1, "error: the model has no `Predict` stage, since ");
    let said = format!("; import it, `engine import {both} -o both_torchscript.ron`, and add one");
    assert!(ended.errors.contains(&said), "{}", ended.errors);
}

/// The path is wrong, not the model. Other faults have their places in the graph that is made of it.
#[test]
fn a_missing_file_of_a_value_has_no_place_in_the_model() {
    let desk = Desk::new();
    let mlp = model("mlp_dynamo");
    for command in ["run", "check"] {
        let ended = desk.engine(&[command, &mlp, "--input", "x=none.npy"]);
        check_failure(&ended, 1, "error[E0501]: --input x: none.npy: cannot be read: ");
        assert!(!ended.errors.contains("f32[batch, 6]"), "{}", ended.errors);
    }
    let unfit = desk.engine(&["run", &mlp, "--input", "x=[[1, 2]]"]);
    check_failure(&unfit, 1, &format!(" graph of {mlp}:"));
}

#[test]
fn files_of_others_stay() {
    let desk = Desk::new();
    desk.write("mlp.ron", "(nodes: {})");
    let import = ["import", &model("mlp_dynamo"), "-o", "mlp.ron"];
    let ended = desk.engine(&import);
    assert_eq!(ended.code, 1);
    assert!(ended.errors.contains("error[E0505]: mlp.ron already exists"), "{}", ended.errors);
    assert!(!desk.path("mlp.safetensors").exists());
    assert_eq!(desk.engine(&[&import[..], &["--force"]].concat()).code, 0);
    // What it has written, it replaces.
    assert_eq!(desk.engine(&import).code, 0);
}

/// A node that is exported is used. Others are still reported.
#[test]
fn an_exported_node_is_not_called_unused() {
    let desk = Desk::new();
    let graph = r#"(
      params: {"w": (type: "f32[2]", init: Ones)},
      nodes: {"y": "w * 2", "u": "y + 1", "v": "y + 2"},
      stages: {"go": Run(outputs: ["y"]), "keep": Save(path: "w.ckpt")},
    )"#;
    desk.write("tiny.ron", graph);
    desk.run(&["--quiet"]);
    let ended = desk.engine(&["export", "tiny.ron", "--output", "u", "-o", "u.onnx", "--load", "w.ckpt"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert_eq!(ended.errors.matches("warning[E0303]").count(), 1, "{}", ended.errors);
    assert!(ended.errors.contains("warning[E0303]: no stage uses `v`"), "{}", ended.errors);
}

#[test]
fn a_graph_becomes_a_model() {
    let desk = Desk::new();
    save_rows(&desk);
    desk.engine(&["import", &model("mlp_dynamo"), "-o", "mlp.ron"]);
    let export = ["export", "mlp.ron", "--output", "y", "--dim", "batch=3", "-o", "again.onnx"];
    let exported = desk.engine(&export);
    assert_eq!((exported.code, &*exported.errors), (0, ""));
    assert!(exported.results.starts_with("again.onnx: "), "{}", exported.results);
    let run = |graph: &str| {
        let ended = desk.engine(&["run", graph, "--device", "cpu", "--quiet", "--input", "x=x.npy"]);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended.results
    };
    assert_eq!(run("again.onnx"), run(&model("mlp_dynamo")));
    // What it has written, it replaces.
    assert_eq!(desk.engine(&export).code, 0);
}

#[test]
fn a_graph_without_weights_or_extents_is_no_model() {
    let desk = Desk::new();
    desk.write(
        "graph.ron",
        r#"(inputs: {"x": "f32[B, 2]"}, params: {"w": "f32[2]"}, nodes: {"y": "x * w"})"#,
    );
    let refused = |more: &[&str], said: &str| {
        let export = ["export", "graph.ron", "-o", "model.onnx"];
        let ended = desk.engine(&[&export[..], more].concat());
        assert_eq!(ended.code, 1);
        assert!(ended.errors.contains(said), "{}", ended.errors);
        assert!(!desk.path("model.onnx").exists());
    };
    refused(&["--output", "y"], "`--load CKPT` gives them their trained values");
    desk.write(
        "graph.ron",
        r#"(inputs: {"x": "f32[B, 2]"}, nodes: {"y": "x * 2", "z": "sum(uniform(shape=[2]))"})"#,
    );
    refused(&["--output", "y"], "error[E0211]: `x`: the extent `B` has no value\n");
    refused(&["--output", "y"], "= help: `--dim B=N` gives it one\n");
    let near = "error[E0211]: there is no node `Z`\n = help: did you mean `z`?\n";
    refused(&["--output", "Z", "--dim", "B=1"], near);
    refused(&["--output", "y", "--dim", "C=1"], "no input has an open extent `C`");
    refused(&["--output", "z"], "error[E0508]: the node `z.1.1` draws random bits, which ONNX cannot repeat");
}
