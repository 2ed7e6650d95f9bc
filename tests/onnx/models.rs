//! Models as PyTorch exports them (`tests/examples/onnx_models.py`). `ENGINE_ONNX_MODELS` names a folder with large ones.

use super::common::{compare, outputs, tensor};
use super::present::{cpu, gpus};
use engine::core::compile::Options;
use engine::runtime::device::Device;
use engine::{Engine, Facts, Model};
use expect_test::expect_file;
use serde_json::Value as Json;
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn imported(path: &Path) -> Model {
    let model = Engine::new().import(path, fs::read(path).unwrap(), &Facts::default());
    model.unwrap_or_else(|fault| panic!("{}: {}; {:?}", path.display(), fault.message, fault.help))
}

/// Compares all recorded models of a folder with onnxruntime.
fn expect_results(folder: &Path, recorded: &str, device: &Arc<dyn Device>, options: &Options) {
    let cases: Vec<Json> = serde_json::from_str(recorded).unwrap();
    for case in &cases {
        let name = case["model"].as_str().unwrap();
        let inputs = case["inputs"].as_object().unwrap();
        let inputs = inputs.iter().map(|(name, recorded)| (name.clone(), tensor(recorded))).collect();
        let found = outputs(imported(&folder.join(name)), Arc::clone(device), &inputs, options.clone());
        let found = found.unwrap_or_else(|fault| panic!("{name}: {fault}"));
        for (output, recorded) in case["outputs"].as_object().unwrap() {
            compare(&found[output], recorded).unwrap_or_else(|fault| panic!("{name}: {output}: {fault}"));
        }
    }
}

fn recorded_models(device: &Arc<dyn Device>, options: &Options) {
    let recorded = include_str!("../examples/onnx_models.json");
    expect_results(Path::new("tests/examples/onnx"), recorded, device, options);
}

#[test]
fn models_of_pytorch_compute_the_results_of_onnxruntime() {
    recorded_models(&cpu(2), &Options::default());
}

#[test]
fn gpus_compute_the_same_results() {
    for (gpu, fuse) in gpus().iter().flat_map(|gpu| [(gpu, true), (gpu, false)]) {
        recorded_models(gpu, &Options { fuse, ..Options::default() });
    }
}

#[test]
fn unfused_models_compute_the_same_results() {
    recorded_models(&cpu(2), &Options { fuse: false, ..Options::default() });
}

#[test]
fn large_models_compute_the_results_of_onnxruntime() {
    let Some(folder) = std::env::var_os("ENGINE_ONNX_MODELS") else {
        eprintln!("skipped: ENGINE_ONNX_MODELS names no folder with large models");
        return;
    };
    let folder = Path::new(&folder);
    let recorded = fs::read_to_string(folder.join("onnx_models.json")).unwrap();
    for device in std::iter::once(cpu(2)).chain(gpus().iter().cloned()) {
        for fuse in [true, false] {
            eprintln!("{}, fuse: {fuse}", device.info().name);
            expect_results(folder, &recorded, &device, &Options { fuse, ..Options::default() });
        }
    }
}

#[test]
fn imported_graphs_are_readable() {
    for (model, golden) in [
        ("mlp_dynamo.onnx", expect_file!["../golden/onnx_mlp.ron"]),
        ("block_torchscript.onnx", expect_file!["../golden/onnx_block.ron"]),
        ("gpt2_dynamo.onnx", expect_file!["../golden/onnx_gpt2.ron"]),
    ] {
        let model = imported(&Path::new("tests/examples/onnx").join(model));
        golden.assert_eq(&model.text(Some("weights.safetensors"), &[]));
    }
}
