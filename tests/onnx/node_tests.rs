//! The node tests of the package `onnx` 1.22.0 (later packages lack them). `ENGINE_ONNX_TESTS` names the unpacked folder
//! `onnx/backend/test/data`; without it, the test is skipped and says so.

use super::common::{difference, outputs};
use super::present::cpu;
use engine::core::compile::Options;
use engine::core::ir::DType;
use engine::runtime::tensor::HostTensor;
use engine::{Engine, Facts, Model};
use engine_onnx::Stored;
use expect_test::expect_file;
use indexmap::IndexMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The outcome of one test.
enum Outcome {
    Passed,
    /// A part of it has no translation: the first line of the message.
    Unsupported(String),
    Failed(String),
}

fn tensors(folder: &Path, kind: &str) -> Result<Vec<(String, HostTensor)>, String> {
    let files = (0..).map(|i| folder.join(format!("{kind}_{i}.pb"))).take_while(|file| file.exists());
    let read = |file: PathBuf| {
        let (name, stored) = Stored::decode(fs::read(file).unwrap()).map_err(|fault| fault.message)?;
        let tensor = HostTensor::from_bytes(stored.dtype, &stored.dims, &stored.bytes);
        Ok((name, tensor.map_err(|error| error.to_string())?))
    };
    files.map(read).collect()
}

/// The model. Inputs become constants if shapes depend on them: those of integers, all of at most one axis, or all but the first.
fn imported(path: &Path, inputs: &[(String, HostTensor)]) -> Result<Model, String> {
    let stored = |tensor: &HostTensor| {
        Stored::new(tensor.dtype(), tensor.shape().to_vec(), tensor.bytes().to_vec().into())
    };
    let import = |facts: &Facts| Engine::new().import(path, fs::read(path).unwrap(), facts);
    let fixed = |is_fixed: &dyn Fn(&HostTensor) -> bool| {
        let known = inputs.iter().filter(|(_, value)| is_fixed(value));
        let values = known.map(|(name, value)| (name.clone(), stored(value))).collect();
        import(&Facts { values, ..Facts::default() })
    };
    let free = fixed(&|_| false);
    let free = free.or_else(|_| fixed(&|value| value.dtype() == DType::I64));
    // Numbers and lists may settle shapes: the scales of `Resize`, the bounds of `Range`.
    let free = free.or_else(|_| fixed(&|value| value.shape().len() <= 1));
    // Weights are constants in models, and inputs in tests.
    let first = inputs.first().map(|(_, value)| value);
    free.or_else(|_| fixed(&|value| !first.is_some_and(|first| std::ptr::eq(first, value))))
        .map_err(|fault| fault.message)
}

fn outcome(folder: &Path) -> Outcome {
    let path = folder.join("model.onnx");
    let data = folder.join("test_data_set_0");
    let (inputs, expected) = match (tensors(&data, "input"), tensors(&data, "output")) {
        (Ok(inputs), Ok(expected)) => (inputs, expected),
        (Err(fault), _) | (_, Err(fault)) => return Outcome::Unsupported(fault),
    };
    let faults = [true, false].into_iter().map(|fuse| computed(&path, &inputs, &expected, fuse));
    faults.reduce(|first, second| if matches!(first, Outcome::Passed) { second } else { first }).unwrap()
}

type Named = (String, HostTensor);

/// Compares the results of a model, with or without fusion.
fn computed(path: &Path, inputs: &[Named], expected: &[Named], fuse: bool) -> Outcome {
    let model = match imported(path, inputs) {
        Ok(model) => model,
        Err(fault) => return Outcome::Unsupported(fault),
    };
    let text = model.text(None, &[]);
    let named: IndexMap<String, HostTensor> = inputs.iter().cloned().collect();
    let known = model.inputs().map(|name| (name.to_owned(), named.get(name).cloned()));
    let Some(given) = known.map(|(name, value)| Some((name, value?))).collect::<Option<IndexMap<_, _>>>()
    else {
        return Outcome::Failed(format!("its inputs have other names\n{text}"));
    };
    let found = match outputs(model, cpu(2), &given, Options { fuse, ..Options::default() }) {
        Ok(found) => found,
        Err(fault) => return Outcome::Failed(format!("{fault}\n{text}")),
    };
    let fault = |(name, expected): &Named| match found.get(name) {
        Some(found) => difference(found, expected, 1e-3),
        None => Some(format!("there is no output `{name}`")),
    };
    let faults = expected.iter().filter_map(fault);
    match faults.into_iter().next() {
        None => Outcome::Passed,
        Some(fault) => Outcome::Failed(format!("{fault}\n{text}")),
    }
}

#[test]
fn node_tests_of_onnx_pass() {
    let Some(folder) = std::env::var_os("ENGINE_ONNX_TESTS") else {
        eprintln!("skipped: ENGINE_ONNX_TESTS names no folder with the node tests of ONNX");
        return;
    };
    let mut folders: Vec<PathBuf> =
        fs::read_dir(Path::new(&folder).join("node")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let (mut passed, mut unsupported, mut failed) = (vec![], vec![], vec![]);
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        match outcome(&folder) {
            Outcome::Passed => passed.push(name),
            Outcome::Unsupported(fault) => unsupported.push(format!("{name}: {fault}")),
            Outcome::Failed(fault) => failed.push(format!("{name}: {fault}")),
        }
    }
    println!("{} passed, {} unsupported, {} failed", passed.len(), unsupported.len(), failed.len());
    println!("unsupported:\n{}", unsupported.join("\n"));
    assert!(failed.is_empty(), "{} fail:\n{}", failed.len(), failed.join("\n"));
    expect_file!["passed.txt"].assert_eq(&(passed.join("\n") + "\n"));
}
