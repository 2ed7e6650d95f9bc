//! The tests of the package `onnx` 1.22.0 (later packages lack those of nodes). `ENGINE_ONNX_TESTS` names the unpacked
//! folder `onnx/backend/test/data`; without it, they are skipped and say so, unless `ENGINE_REQUIRE` has `onnx`.
//! `ENGINE_ONNX_SAMPLE=8` takes every eighth test.

use super::common::{difference, outputs};
use super::present::cpu;
use engine::core::compile::Options;
use engine::core::ir::DType;
use engine::runtime::tensor::HostTensor;
use engine::{Engine, Facts, Model};
use engine_onnx::Stored;
use expect_test::{ExpectFile, expect_file};
use indexmap::IndexMap;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
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
    let sets = (0..).map(|i| folder.join(format!("test_data_set_{i}"))).take_while(|set| set.exists());
    for data in sets {
        let (inputs, expected) = match (tensors(&data, "input"), tensors(&data, "output")) {
            (Ok(inputs), Ok(expected)) => (inputs, expected),
            (Err(fault), _) | (_, Err(fault)) => return Outcome::Unsupported(fault),
        };
        for fuse in [true, false] {
            match computed(&path, &inputs, &expected, fuse) {
                Outcome::Passed => {}
                other => return other,
            }
        }
    }
    Outcome::Passed
}

type Named = (String, HostTensor);

/// Compares the results of a model, with or without fusion. Older files name no inputs and outputs, but have their order.
fn computed(path: &Path, inputs: &[Named], expected: &[Named], fuse: bool) -> Outcome {
    let model = match imported(path, inputs) {
        Ok(model) => model,
        Err(fault) => return Outcome::Unsupported(fault),
    };
    let text = model.text(None, &[]);
    let has_names = inputs.iter().any(|(name, _)| !name.is_empty());
    let named: IndexMap<String, HostTensor> = inputs.iter().cloned().collect();
    let value = |(at, name): (usize, &str)| match has_names {
        true => named.get(name).cloned(),
        false => inputs.get(at).map(|(_, value)| value.clone()),
    };
    let known = model.inputs().enumerate().map(|(at, name)| Some((name.to_owned(), value((at, name))?)));
    let Some(given) = known.collect::<Option<IndexMap<_, _>>>() else {
        return Outcome::Failed(format!("its inputs have other names\n{text}"));
    };
    let found = match outputs(model, cpu(2), &given, Options { fuse, ..Options::default() }) {
        Ok(found) => found,
        Err(fault) => return Outcome::Failed(format!("{fault}\n{text}")),
    };
    let fault = |(at, (name, expected)): (usize, &Named)| {
        let found =
            if name.is_empty() { found.get_index(at).map(|(_, found)| found) } else { found.get(name) };
        match found {
            Some(found) if is_drawn(path) => difference_of_draws(found, expected, inputs),
            Some(found) => difference(found, expected, 1e-3),
            None => Some(format!("there is no output `{name}`")),
        }
    };
    let faults = expected.iter().enumerate().filter_map(fault);
    match faults.into_iter().next() {
        None => Outcome::Passed,
        Some(fault) => Outcome::Failed(format!("{fault}\n{text}")),
    }
}

/// Tests whose numbers NumPy's generator draws: their types, and what follows without the numbers, are compared. `draws.rs`
/// tests the laws.
const DRAWN: [&str; 2] = ["test_bernoulli", "test_training_dropout"];

/// Whether a test compares numbers that NumPy's generator drew. Without a share that is dropped, nothing is drawn.
fn is_drawn(path: &Path) -> bool {
    let name = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    DRAWN.iter().any(|prefix| name.starts_with(prefix)) && !name.contains("zero_ratio")
}

/// The difference of two tensors in what does not depend on the numbers drawn: their types, and the numbers that can occur.
fn difference_of_draws(found: &HostTensor, expected: &HostTensor, inputs: &[Named]) -> Option<String> {
    let types = |tensor: &HostTensor| format!("{}{:?}", tensor.dtype(), tensor.shape());
    if types(found) != types(expected) {
        return Some(format!("{} instead of {}", types(found), types(expected)));
    }
    // A bit, a mask, or an element of the operand by a factor.
    let x = inputs[0].1.to_f64();
    let ratio = inputs.get(1).map_or(0.5, |(_, ratio)| ratio.to_f64()[0]);
    let can_be = |(y, x): (&f64, &f64)| {
        *y == 0.0 || *y == 1.0 || (y - x / (1.0 - ratio)).abs() <= 1e-4 * y.abs().max(1.0)
    };
    let found = found.to_f64();
    (!found.iter().zip(&x).all(can_be)).then(|| format!("{found:?} from {x:?}"))
}

/// A model as far as its operators.
#[derive(Clone, PartialEq, prost::Message)]
struct Operators {
    #[prost(message, optional, tag = "7")]
    graph: Option<Nodes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Nodes {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Operator>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Operator {
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "7")]
    domain: String,
}

/// The operators of a test, each once.
fn operators(folder: &Path) -> BTreeSet<String> {
    let bytes = fs::read(folder.join("model.onnx")).unwrap();
    let nodes = Operators::decode(&bytes[..]).unwrap().graph.unwrap_or_default().nodes;
    let name = |node: Operator| format!("{}.{}", node.domain, node.name).trim_start_matches('.').to_owned();
    nodes.into_iter().map(name).collect()
}

/// Runs all tests of some suites, or a sample of them, and compares the names of those that pass with a list.
fn expect_passed(suites: &[&str], list: &ExpectFile, recorded: &str) {
    let Some(data) = std::env::var_os("ENGINE_ONNX_TESTS") else {
        let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|part| part == "onnx"), "ENGINE_ONNX_TESTS names no folder");
        eprintln!("skipped: ENGINE_ONNX_TESTS names no folder with the tests of ONNX");
        return;
    };
    let sample = std::env::var("ENGINE_ONNX_SAMPLE").ok().map(|n| n.parse::<usize>().unwrap());
    let mut names: Vec<String> = vec![];
    for suite in suites {
        let entries = fs::read_dir(Path::new(&data).join(suite)).unwrap();
        let files = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.extend(files.map(|file| format!("{suite}/{file}")));
    }
    names.sort();
    let names: Vec<String> = names.into_iter().step_by(sample.unwrap_or(1)).collect();
    let (mut passed, mut unsupported, mut failed) = (vec![], vec![], vec![]);
    // Tests that passed, that have a part without a translation, and that failed.
    let mut by_operator = BTreeMap::<String, [usize; 3]>::new();
    for name in &names {
        let folder = Path::new(&data).join(name);
        let place = match outcome(&folder) {
            Outcome::Passed => {
                passed.push(name.strip_prefix("node/").unwrap_or(name));
                0
            }
            Outcome::Unsupported(fault) => {
                unsupported.push(format!("{name}: {fault}"));
                1
            }
            Outcome::Failed(fault) => {
                failed.push(format!("{name}: {fault}"));
                2
            }
        };
        operators(&folder).into_iter().for_each(|name| by_operator.entry(name).or_default()[place] += 1);
    }
    for (operator, [passed, unsupported, failed]) in by_operator {
        println!("{operator}: {passed} passed, {unsupported} unsupported, {failed} failed");
    }
    println!("{} passed, {} unsupported, {} failed", passed.len(), unsupported.len(), failed.len());
    println!("unsupported:\n{}", unsupported.join("\n"));
    assert!(failed.is_empty(), "{} fail:\n{}", failed.len(), failed.join("\n"));
    if sample.is_none() {
        return list.assert_eq(&(passed.join("\n") + "\n"));
    }
    let taken: Vec<&str> = names.iter().map(|name| name.strip_prefix("node/").unwrap_or(name)).collect();
    let recorded: Vec<&str> = recorded.lines().filter(|name| taken.contains(name)).collect();
    assert_eq!(passed, recorded);
}

#[test]
fn node_tests_of_onnx_pass() {
    expect_passed(&["node"], &expect_file!["passed.txt"], include_str!("passed.txt"));
}

#[test]
fn models_of_onnx_pass() {
    let suites = ["pytorch-converted", "pytorch-operator", "simple"];
    expect_passed(&suites, &expect_file!["passed_models.txt"], include_str!("passed_models.txt"));
}
