//! Weights of other tools.

use super::*;

/// A network whose weights PyTorch has written, and what PyTorch computes with them.
#[test]
fn weights_of_other_tools_are_loaded_by_name() {
    let desk = Desk::new();
    let graph = r#"(
      inputs: {"x": "f32[B, 3]"},
      params: {"w1": "f32[3, 4]", "b1": "f32[4]", "w2": "f32[4, 2]", "b2": "f32[2]", "own": (type: "f32[]", init: 1)},
      nodes: {"y": "(gelu(x @ w1 + b1) @ w2 + b2) * own"},
      stages: {
        "weights": Load(path: "FILE", names: {
          "w1": Transposed("fc1.weight"), "b1": "fc1.bias", "w2": Transposed("fc2.weight"), "b2": "fc2.bias",
        }),
        "keep": Save(path: "kept.ckpt"),
        "predict": Predict(batch: 4, outputs: {"y": "y"}),
      },
    )"#;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/examples/");
    let recorded: Value =
        serde_json::from_slice(&fs::read(format!("{folder}weights.json")).unwrap()).unwrap();
    let numbers = |key: &str| -> Vec<f32> {
        recorded[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
    };
    save_npy(&desk.path("x.npy"), &HostTensor::from_slice(&[5, 3], &numbers("rows")).unwrap());
    for file in ["weights.safetensors", "weights.npz"] {
        desk.write("torch.ron", graph.replace("FILE", &format!("{folder}{file}")));
        let ended = desk.engine(&["run", "torch.ron", "--device", "cpu"]);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let predict = ["predict", "torch.ron", "--device", "cpu", "--load", "kept.ckpt", "--input", "x.npy"];
        let ended = desk.engine(&[&predict[..], &["--output", "y.npy"]].concat());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        let results = npy::read(&desk.path("y.npy")).unwrap().to_f64();
        for (found, expected) in results.iter().zip(numbers("results")) {
            assert!((found - f64::from(expected)).abs() < 1e-6, "{file}: {found} instead of {expected}");
        }
    }

    let refused = |from: &str, to: &str, said: &str| {
        let graph = graph.replace("FILE", &format!("{folder}weights.safetensors"));
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
