//! `engine import`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use engine_core::diag::{Diagnostic, Sources};
use engine_core::ir::{DType, Literal};
use engine_core::op::Registry;
use engine_core::pipeline::Given;
use engine_onnx::Stored;
use engine_runtime::checkpoint::Checkpoint;
use engine_runtime::data::rows::Reading;
use engine_runtime::data::table;
use engine_runtime::files;
use engine_runtime::session::{Fault, SessionError};

use super::args::ImportArgs;
use super::file::{self, GRAPH};
use super::output::{Failure, print};
use crate::Engine;
use crate::import::{self, Facts, Model};

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

/// The shape of a value that the command line gives, as far as it can be read.
pub(super) fn shape_of(given: &Given) -> Option<Vec<usize>> {
    match given {
        Given::Elements { shape, .. } => Some(shape.clone()),
        Given::File(path) => {
            table::read_as(Path::new(path), &Reading::default()).ok().map(|rows| rows.tensor.shape().to_vec())
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
    let facts = Facts { dims: args.dim.clone(), values: values.collect::<Result<_, Failure>>()? };
    let model = read_model(&args.model, &facts, &engine.registry)?;
    let graph = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(args.model.file_name().unwrap_or_default()).with_extension("ron"));
    let weights = graph.with_extension("safetensors");
    let text = model.text(Some(&weights.to_string_lossy()), &[]);
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
