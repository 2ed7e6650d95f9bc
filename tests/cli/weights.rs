//! Weights of other tools.

use super::*;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/examples/");

/// A network with weights in `FILE`, which PyTorch has written.
const TORCH: &str = r#"(
  inputs: {"x": "f32[B, 3]"},
  params: {"w1": "f32[3, 4]", "b1": "f32[4]", "w2": "f32[4, 2]", "b2": "f32[2]", "own": (type: "f32[]", init: 1)},
  nodes: {"y": "(gelu(x @ w1 + b1) @ w2 + b2) * own"},
  stages: {
    "weights": Load(path: "FILE", names: {
      "w1": Transposed("fc1.weight"), "b1": "fc1.bias", "w2": Transposed("fc2.weight"), "b2": "fc2.bias",
    }),
    "keep": Save(path: "kept.ckpt"),
    "arrays": Save(path: "kept.npz"),
    "predict": Predict(batch: 4, outputs: {"y": "y"}),
  },
)"#;

/// The results of the network are those of PyTorch.
#[test]
fn weights_of_other_tools_are_loaded_by_name() {
    let desk = Desk::new();
    let recorded: Value =
        serde_json::from_slice(&fs::read(format!("{FOLDER}weights.json")).unwrap()).unwrap();
    let numbers = |key: &str| -> Vec<f32> {
        recorded[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
    };
    save_npy(&desk.path("x.npy"), &HostTensor::from_slice(&[5, 3], &numbers("rows")).unwrap());
    let kinds = [
        ("weights.safetensors", "results", ""),
        ("weights.npz", "results", ""),
        ("weights_f16.safetensors", "results_f16", "4 tensors are f16 and taken as f32\n"),
        ("weights_bf16.safetensors", "results_bf16", "4 tensors are bf16 and taken as f32\n"),
        ("weights_f64.safetensors", "results_f64", "4 tensors are f64 and rounded to f32\n"),
    ];
    for (file, expected, said) in kinds {
        desk.write("torch.ron", TORCH.replace("FILE", &format!("{FOLDER}{file}")));
        let ended = desk.engine(&["run", "torch.ron", "--device", "cpu"]);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        assert!(ended.errors.contains(said), "{}", ended.errors);
        assert!(ended.errors.contains("these parameters keep their values: `own`\n"), "{}", ended.errors);
        let n_notes = 1 + usize::from(!said.is_empty());
        assert_eq!(ended.errors.matches("note: ").count(), n_notes, "{}", ended.errors);
        // Saved parameters can be loaded again, as a checkpoint and as plain arrays.
        for kept in ["kept.ckpt", "kept.npz"] {
            let predict = ["predict", "torch.ron", "--device", "cpu", "--load", kept, "--input", "x.npy"];
            let ended = desk.engine(&[&predict[..], &["--output", "y.npy"]].concat());
            assert_eq!((ended.code, &*ended.errors), (0, ""));
            let results = npy::read(&desk.path("y.npy")).unwrap().to_f64();
            for (found, expected) in results.iter().zip(numbers(expected)) {
                assert!((found - f64::from(expected)).abs() < 1e-6, "{file}: {found} instead of {expected}");
            }
        }
    }
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let desk = Desk::new();
    let refused = |from: &str, to: &str, said: &str| {
        let graph = TORCH.replace("FILE", &format!("{FOLDER}weights.safetensors"));
        assert!(graph.contains(from));
        desk.write("torch.ron", graph.replace(from, to));
        check_failure(&desk.engine(&["run", "torch.ron", "--device", "cpu"]), 1, said);
    };
    refused(
        "\"fc1.bias\"",
        "\"fc1.bais\"",
        "there is no tensor `fc1.bais` for `b1`; did you mean `fc1.bias`?",
    );
    refused("Transposed(\"fc1.weight\")", "\"fc1.weight\"", "error[E0504]: checkpoint ");
    refused(
        "Transposed(\"fc1.weight\")",
        "\"fc1.weight\"",
        "`w1: f32[3,4]` is f32[4,3] in the file\n = help: `names: {\"w1\": Transposed(\"…\")}` exchanges",
    );
    refused(
        "\"fc1.bias\"",
        "Transposed(\"fc1.bias\")",
        "`fc1.bias` is f32[4], which has no two axes to exchange",
    );
    refused("\"b2\": \"fc2.bias\"", "\"b3\": \"fc2.bias\"", "error[E0101]: there is no parameter `b3`");
    refused("weights.safetensors", "weights.py", "error[E0503]: checkpoint ");
    refused("weights.safetensors", "none.npz", "error[E0503]: weights ");
}

/// A parameter of a smaller type takes the values in its range. A value outside is reported.
#[test]
fn a_weight_that_is_too_large_for_its_parameter_is_refused() {
    let desk = Desk::new();
    let graph = r#"(
      params: {"w": "f16[3]", "n": (type: "i32[]", state: true)},
      nodes: {"y": "w + 0"},
      stages: {"weights": Load(path: "w.npz"), "show": Run(outputs: ["y"])},
    )"#;
    desk.write("half.ron", graph);
    let run = |weights: [f32; 3], n: HostTensor| {
        let w = HostTensor::from_slice(&[3], &weights).unwrap();
        let mut file = fs::File::create(desk.path("w.npz")).unwrap();
        npz::write(&IndexMap::from([("w".to_string(), w), ("n".to_string(), n)]), &mut file).unwrap();
        desk.engine(&["run", "half.ron", "--device", "cpu"])
    };
    let ended = run([0.1, -2.0, f32::INFINITY], HostTensor::scalar(7i32));
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(ended.errors.contains("note: w.npz: 1 tensor is f32 and rounded to f16\n"), "{}", ended.errors);
    assert!(ended.results.contains("y: f16[3] = [0.099975586, -2, inf]"), "{}", ended.results);
    let ended = run([0.1, -2.0, 1e6], HostTensor::scalar(7i32));
    let said =
        "error[E0504]: weights w.npz:\n  `w: f16[3]` cannot hold 1e6 of f32\n = help: declare them with";
    check_failure(&ended, 1, said);
    assert!(ended.errors.contains("a type of more range, such as f32"), "{}", ended.errors);
    // Integers are not converted.
    let ended = run([0.1, -2.0, 1.0], HostTensor::scalar(7i64));
    check_failure(&ended, 1, "`n: i32[]` is i64[] in the file");
}

/// Every tensor that no pattern uses is named, those of many layers by one pattern.
#[test]
fn tensors_that_no_name_uses_are_named() {
    let desk = Desk::new();
    let of = |names: &[&str]| {
        let tensor = |name: &&str| (name.to_string(), HostTensor::from_slice(&[2], &[1.0f32, 2.0]).unwrap());
        names.iter().map(tensor).collect::<IndexMap<_, _>>()
    };
    let names = ["h.0.w", "h.1.w", "h.0.bias", "h.1.bias", "a", "b", "c", "d", "e", "h.7.mask"];
    npz::write(&of(&names), &mut fs::File::create(desk.path("w.npz")).unwrap()).unwrap();
    desk.write(
        "t.ron",
        r#"(
          functions: {
            "Scale": (inputs: ["x"], params: {"w": "f32[2]", "g": (type: "f32[2]", init: 1)}, output: "x * w * g"),
          },
          nodes: {"l": "Scale(ones(shape=[2]), repeat=2)"},
          stages: {"weights": Load(path: "w.npz", names: {"l.{i}.w": "h.{i}.w"}), "show": Run(outputs: ["l"])},
        )"#,
    );
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let unused =
        "no name uses these tensors of the file: `h.{i}.bias` (2), `a`, `b`, `c`, `d`, `e`, `h.7.mask`\n";
    assert!(ended.errors.contains(unused), "{}", ended.errors);
    assert!(ended.errors.contains("these parameters keep their values: `l.{i}.g` (2)\n"), "{}", ended.errors);
}

/// A pipeline with parameters of layers and a state. The weights are `WEIGHT` at first.
const SCALED: &str = r#"(
  functions: {
    "Scale": (
      inputs: ["x"],
      params: {"w": (type: "f32[2]", init: WEIGHT), "g": (type: "f32[2]", init: 1)},
      output: "x * w * g",
    ),
  },
  params: {"n": (type: "i32[2]", state: true)},
  nodes: {"l": "Scale(ones(shape=[2]), repeat=2)", "more": "n + 1"},
  stages: {STAGES},
)"#;

/// A second pipeline reads the parameters and the state that the first one saves.
#[test]
fn saved_parts_are_loaded() {
    let desk = Desk::new();
    let run = |graph: &str, stages: &str, arguments: &[&str]| {
        desk.write("parts.ron", graph.replace("STAGES", stages));
        desk.engine(&[&["run", "parts.ron", "--device", "cpu"], arguments].concat())
    };
    let save = r#"
      "count": Run(steps: 4, outputs: ["l"], state: {"n": "more"}),
      "some": Save(path: "some.ckpt", names: ["n", "l.{i}.w"]),
      "arrays": Save(path: "some.npz", names: ["*.w", "n"]),
      "all": Save(path: "all.ckpt")"#;
    let ended = run(&SCALED.replace("WEIGHT", "3"), save, &[]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let names = |file: &str| {
        let mut names: Vec<String> = desk.checkpoint(file).tensors.keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(names("some.ckpt"), ["l.0.w", "l.1.w", "n"]);
    assert_eq!(names("all.ckpt"), ["l.0.g", "l.0.w", "l.1.g", "l.1.w", "n"]);

    let graph = SCALED.replace("WEIGHT", "0");
    let few = graph.replace(r#", "g": (type: "f32[2]", init: 1)"#, "").replace("x * w * g", "x * w");
    for file in ["some.ckpt", "some.npz"] {
        let show = r#""show": Run(outputs: ["l", "more"])"#;
        let plain = format!(r#""load": Load(path: "{file}"), {show}"#);
        let named = plain.replace("),", r#", names: {"l.{i}.w": "l.{i}.w", "n": "n"}),"#);
        let listed = plain.replace("),", r#", names: ["*.w", "n"]),"#);
        let [by_name, by_list] = [named, listed].map(|stages| run(&graph, &stages, &[]));
        let kept = "these parameters keep their values: `l.{i}.g` (2)\n";
        for ended in [&by_name, &by_list] {
            assert!(ended.errors.contains(kept), "{}", ended.errors);
        }
        // The file has all parameters of this pipeline.
        for ended in [by_name, by_list, run(&few, &plain, &[])] {
            assert_eq!(ended.code, 0, "{}", ended.errors);
            assert!(ended.results.contains("l: f32[2] = [9, 9]"), "{}", ended.results);
            assert!(ended.results.contains("more: i32[2] = [5, 5]"), "{}", ended.results);
        }
        let missing = "`l.0.g: f32[2]` is missing\n  `l.1.g: f32[2]` is missing\n";
        check_failure(&run(&graph, &plain, &[]), 1, missing);
    }
    let partial =
        "error[E0504]: checkpoint some.ckpt: it holds only some parameters and states\n = help: resume";
    check_failure(&run(&graph, save, &["--resume", "some.ckpt"]), 1, partial);
}

/// The table of `gpt2.ron` reads the weights of five layers, which another model of that depth saved under its own names.
#[test]
fn one_table_of_patterns_reads_any_number_of_layers() {
    let desk = Desk::new();
    let graph = include_str!("../models/gpt2.ron").replace("PROMPT", "ab");
    let own = graph.replace("name: \"gpt2\",", "name: \"gpt2\", seed: 5,");
    let load = own.find("\"weights\": Load").unwrap();
    let end = own.find("\"predict\":").unwrap();
    desk.write("own.ron", format!("{}\"keep\": Save(path: \"own.npz\"), {}", &own[..load], &own[end..]));
    desk.write("loaded.ron", graph.replace("gpt2.safetensors", "weights.npz"));
    let written = |file: &str| {
        let set = ["--set", "dims.L=5", "--set", "dims.V=256"];
        let ended = desk.engine(&[&["run", file, "--device", "cpu"][..], &set].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        assert!(
            !ended.errors.contains("note: no name") && !ended.errors.contains("these parameters"),
            "{}",
            ended.errors
        );
        ended.results
    };
    let expected = written("own.ron");
    let names = [
        ("ln1.g", "ln_1.weight"),
        ("ln1.b", "ln_1.bias"),
        ("attn.qkv.w", "attn.c_attn.weight"),
        ("attn.qkv.b", "attn.c_attn.bias"),
        ("attn.out.w", "attn.c_proj.weight"),
        ("attn.out.b", "attn.c_proj.bias"),
        ("ln2.g", "ln_2.weight"),
        ("ln2.b", "ln_2.bias"),
        ("mlp.up.w", "mlp.c_fc.weight"),
        ("mlp.up.b", "mlp.c_fc.bias"),
        ("mlp.down.w", "mlp.c_proj.weight"),
        ("mlp.down.b", "mlp.c_proj.bias"),
        ("wte.w", "wte.weight"),
        ("wpe.w", "wpe.weight"),
        ("ln_f.g", "ln_f.weight"),
        ("ln_f.b", "ln_f.bias"),
    ];
    let renamed = npz::read_all(&desk.path("own.npz")).unwrap().into_iter().map(|(name, tensor)| {
        let (own, theirs) = names.iter().find(|(own, _)| name.ends_with(own)).unwrap();
        (format!("transformer.{}{theirs}", name.strip_suffix(own).unwrap()), tensor)
    });
    let renamed: IndexMap<String, HostTensor> = renamed.collect();
    assert_eq!(renamed.len(), 5 * 12 + 4);
    npz::write(&renamed, &mut fs::File::create(desk.path("weights.npz")).unwrap()).unwrap();
    assert_eq!(written("loaded.ron"), expected);
}

/// A GPT-2 with random weights (`tests/examples/gpt2.py`): its logits, and the tokens that it writes with a cache.
#[test]
fn weights_of_gpt2_load_by_patterns() {
    let recorded: Value = serde_json::from_slice(&fs::read(format!("{FOLDER}gpt2.json")).unwrap()).unwrap();
    let numbers = |key: &str| -> Vec<f64> {
        recorded[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let text = |key: &str| -> String { numbers(key).iter().map(|&token| token as u8 as char).collect() };
    let desk = Desk::new();
    let prompt: String = text("prompt").chars().map(|c| format!("\\u{{{:x}}}", c as u32)).collect();
    let graph = include_str!("../models/gpt2.ron").replace("PROMPT", &prompt);
    let graph = graph.replace("gpt2.safetensors", &format!("{FOLDER}gpt2.safetensors"));
    let graph = graph.replace("\"predict\":", "\"keep\": Save(path: \"kept.ckpt\"), \"predict\":");
    desk.write("gpt2.ron", graph);
    let ended = desk.engine(&["run", "gpt2.ron", "--device", "cpu", "--report", "report.json"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(!ended.errors.contains("note"), "{}", ended.errors);
    let report: Value = serde_json::from_str(&fs::read_to_string(desk.path("report.json")).unwrap()).unwrap();
    let written = report["stages"].as_array().unwrap().iter().find(|stage| stage["name"] == "write").unwrap();
    assert_eq!(written["texts"][0].as_str().unwrap(), text("prompt") + &text("continuation"));

    let tokens: Vec<i32> = numbers("tokens").iter().map(|&token| token as i32).collect();
    save_npy(&desk.path("token.npy"), &HostTensor::from_slice(&[2, 24], &tokens).unwrap());
    let predict = ["predict", "gpt2.ron", "--device", "cpu", "--load", "kept.ckpt"];
    let ended = desk.engine(&[&predict[..], &["--input", "token.npy", "--output", "logits.npy"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let logits = npy::read(&desk.path("logits.npy")).unwrap().to_f64();
    let expected = numbers("logits");
    assert_eq!(logits.len(), expected.len());
    let largest = logits.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(largest < 1e-4, "{largest}");
}

/// A checkpoint in two files with an index, as Hugging Face writes it, reads like one file.
#[test]
fn weights_in_several_files_are_loaded_by_their_index() {
    let desk = Desk::new();
    let graph = r#"(
      params: {"w": "f32[2]", "v": "f32[3]"},
      nodes: {"y": "w * 2.0", "z": "v * 2.0"},
      stages: {"weights": Load(path: "FILE"), "show": Run(outputs: ["y", "z"])},
    )"#;
    for (file, name, values) in
        [("1.safetensors", "v", &[1.0f32, 2.0, 4.0][..]), ("2.safetensors", "w", &[8.0, 0.5][..])]
    {
        let tensor = HostTensor::from_slice(&[values.len()], values).unwrap();
        let tensors = IndexMap::from([(name.to_string(), tensor)]);
        Checkpoint { tensors, ..Checkpoint::default() }.write(&desk.path(file)).unwrap();
    }
    desk.write("model.index.json", r#"{"weight_map": {"w": "2.safetensors", "v": "1.safetensors"}}"#);
    let run = |file: &str| {
        desk.write("parts.ron", graph.replace("FILE", file));
        desk.engine(&["run", "parts.ron", "--device", "cpu"])
    };
    let ended = run("model.index.json");
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(
        ended.results.contains("y: f32[2] = [16, 1]") && ended.results.contains("z: f32[3] = [2, 4, 8]"),
        "{}",
        ended.results
    );
    fs::remove_file(desk.path("1.safetensors")).unwrap();
    let said = "error[E0503]: checkpoint model.index.json: the index names files that are not beside it: `1.safetensors`";
    check_failure(&run("model.index.json"), 1, said);

    // Other formats are named.
    save_npy(&desk.path("w.npy"), &HostTensor::scalar(1.0f32));
    check_failure(&run("w.npy"), 1, "error[E0503]: checkpoint w.npy: an array of NumPy, which has no name");
    desk.write("w.json", r#"{"w": [1.0, 2.0]}"#);
    check_failure(
        &run("w.json"),
        1,
        "error[E0503]: checkpoint w.json: JSON, but no index of safetensors files",
    );
    desk.write("w.safetensors.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x01\x00\x00\xff\xff");
    check_failure(&run("w.safetensors.gz"), 1, "w.safetensors.gz: gzipped, which no file of weights may be");
}

/// A tensor of an unsupported element type is an error only if it is needed.
#[test]
fn tensors_of_unsupported_types_are_passed_over() {
    let desk = Desk::new();
    let header = r#"{"b": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
      "a": {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [2, 5]}}"#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[3, 4, 0, 0, 0]].concat();
    desk.write("w.safetensors", file);
    let run = |names: &str| {
        let graph = r#"(params: {"b": (type: "u8[2]", state: true)}, nodes: {"y": "b + 1"},
          stages: {"weights": Load(path: "w.safetensors"NAMES), "show": Run(outputs: ["y"])})"#;
        desk.write("mixed.ron", graph.replace("NAMES", names));
        desk.engine(&["run", "mixed.ron", "--device", "cpu"])
    };
    for names in ["", r#", names: ["b"]"#] {
        let ended = run(names);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        assert!(ended.results.contains("y: u8[2] = [4, 5]"), "{}", ended.results);
    }
    let said =
        "error[E0503]: checkpoint w.safetensors: tensor `a` has element type F8_E4M3, which is not supported";
    check_failure(&run(r#", names: {"b": "a"}"#), 1, said);
}
