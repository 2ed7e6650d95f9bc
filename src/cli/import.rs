//! `engine import`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use engine_core::diag::{Diagnostic, Sources};
use engine_core::ir::{DType, Literal};
use engine_core::op::Registry;
use engine_core::pipeline::Given;
use engine_onnx::{Seen, Stored};
use engine_runtime::checkpoint::Checkpoint;
use engine_runtime::data::rows::Reading;
use engine_runtime::data::table::{self, TableError};
use engine_runtime::files;
use engine_runtime::session::{Fault, SessionError};

use super::args::ImportArgs;
use super::file::{self, GRAPH};
use super::output::{Failure, print};
use crate::Engine;
use crate::import::{self, Facts, Model};

/// The most elements of an input that the importer knows.
const MOST_NUMBERS: usize = 1 << 10;

/// Whether a path names an ONNX model.
pub(super) fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "onnx")
}

/// Reads an ONNX model.
pub(super) fn read_model(path: &Path, facts: &Facts, registry: &Registry) -> Result<Model, Failure> {
    let unreadable = |error| Failure::graph(format!("{} cannot be read: {error}", path.display()));
    let (mut file, _): (File, u64) = files::open(path).map_err(unreadable)?;
    let mut bytes = vec![];
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    import::model(path, bytes, facts, registry).map_err(|fault| refused(path, fault))
}

/// The shape of a value that the command line gives.
pub(super) fn shape_of(given: &Given) -> Result<Vec<usize>, TableError> {
    Ok(match given {
        Given::Elements { shape, .. } => shape.clone(),
        Given::File(path) => table::read_as(Path::new(path), &Reading::default())?.tensor.shape().to_vec(),
    })
}

/// Reads an ONNX model. If that fails, values of its inputs settle what it leaves open: first their extents without the
/// first, which may be that of rows, then all extents, and at last whole numbers.
pub(super) fn read_model_for(
    path: &Path,
    inputs: &[(Option<String>, Given)],
    registry: &Registry,
) -> Result<Model, Failure> {
    let mut model = read_model(path, &Facts::default(), registry);
    if model.is_ok() || inputs.is_empty() {
        return model;
    }
    let shown = |(name, given): &(Option<String>, Given)| Some((name.clone(), shape_and_numbers(given)?));
    let shown: Vec<_> = inputs.iter().filter_map(shown).collect();
    for (has_rows, has_numbers) in [(true, false), (false, false), (false, true)] {
        let seen = shown.iter().map(|(input, (shape, numbers))| Seen {
            input: input.clone(),
            extents: shape
                .iter()
                .enumerate()
                .map(|(at, &n)| Some(n).filter(|_| at > 0 || !has_rows))
                .collect(),
            value: numbers.clone().filter(|_| has_numbers),
        });
        model = read_model(path, &Facts { seen: seen.collect(), ..Facts::default() }, registry);
        if model.is_ok() {
            break;
        }
    }
    model
}

/// The shape of a value that the command line gives, and its elements if they are few whole numbers.
fn shape_and_numbers(given: &Given) -> Option<(Vec<usize>, Option<Stored>)> {
    let is_small = |shape: &[usize]| shape.iter().product::<usize>() <= MOST_NUMBERS;
    match given {
        Given::Elements { shape, .. } => {
            let numbers = constant("", given).ok().filter(|_| is_small(shape));
            Some((shape.clone(), numbers.filter(|numbers| !numbers.dtype.is_float())))
        }
        Given::File(path) => {
            let tensor = table::read_as(Path::new(path), &Reading::default()).ok()?.tensor;
            let shape = tensor.shape().to_vec();
            let is_listed = !tensor.dtype().is_float() && is_small(&shape);
            let numbers =
                is_listed.then(|| Stored::new(tensor.dtype(), shape.clone(), tensor.bytes().to_vec().into()));
            Some((shape, numbers))
        }
    }
}

/// A value that the command line gives: whole numbers, truth values, or floats.
fn constant(name: &str, given: &Given) -> Result<Stored, Failure> {
    let Given::Elements { shape, elements } = given else {
        return Err(Failure::graph(format!("--value {name}: write numbers, such as {name}=[1,2]")));
    };
    let bytes = |element: &Literal| match element {
        Literal::Bool(truth) => vec![u8::from(*truth)],
        Literal::Int(n) => n.to_le_bytes().to_vec(),
        Literal::Float(x) => (*x as f32).to_le_bytes().to_vec(),
    };
    let dtype = match elements.first() {
        Some(Literal::Bool(_)) => DType::Bool,
        Some(Literal::Float(_)) => DType::F32,
        _ => DType::I64,
    };
    let bytes = elements.iter().flat_map(bytes).collect();
    Ok(Stored::new(dtype, shape.clone(), bytes))
}

fn refused(path: &Path, fault: Diagnostic) -> Failure {
    let message = format!("{}: {}", path.display(), fault.message);
    Failure::diagnostic(Fault::Graph, Diagnostic { message, ..fault }, &Sources::new())
}

/// Writes a graph and its weights.
pub(super) fn import(engine: &Engine, args: &ImportArgs) -> Result<(), Failure> {
    let values = args.value.iter().map(|(name, given)| Ok((name.clone(), constant(name, given)?)));
    let values = values.collect::<Result<_, Failure>>()?;
    let facts = Facts { dims: args.dim.clone(), values, ..Facts::default() };
    let model = read_model(&args.model, &facts, &engine.registry)?;
    let graph = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(args.model.file_name().unwrap_or_default()).with_extension("ron"));
    let weights = graph.with_extension("safetensors");
    // The weights are found beside the graph, also if both are moved.
    let name = weights.file_name().unwrap_or_default().to_string_lossy();
    let text = model.text(Some(&name), &[]);
    file::expect_room(&graph, &GRAPH, args.force.overwrite())?;
    let (n_nodes, n_params) = (model.n_nodes(), model.weights.len());
    if n_params > 0 {
        let checkpoint = Checkpoint { tensors: model.weights, ..Checkpoint::default() };
        checkpoint.write_over(&weights, args.force.overwrite()).map_err(SessionError::from)?;
    }
    file::write(&graph, (&GRAPH, args.force.overwrite()), &|file| file.write_all(text.as_bytes()))?;
    let beside = if n_params == 0 {
        String::new()
    } else {
        format!(", {n_params} parameters in {}", weights.display())
    };
    print(format!("{}: {n_nodes} nodes{beside}", graph.display()));
    Ok(())
}
