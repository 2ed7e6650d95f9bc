//! `engine predict`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use engine_core::ir::{Dim, Graph, InputKind, NodeOp, Symbol, Type};
use engine_core::pipeline::{PredictStage, StageKind};
use engine_runtime::data::{npy, npz, table};
use engine_runtime::session::{CompilingPlanner, Session};
use engine_runtime::tensor::HostTensor;
use indexmap::IndexMap;

use super::PredictArgs;
use super::device::{compile_options_for, on_device};
use super::open::{Opened, open};
use super::output::{Failure, expect_folder, remark};
use crate::Engine;

pub(super) fn predict(engine: Engine, args: &PredictArgs) -> Result<(), Failure> {
    let Engine { mut registry, .. } = engine;
    let opened = open(&args.graph, &mut registry)?;
    let stage = predict_stage(&opened)?;
    check_output(&args.output, stage.outputs.len())?;
    let (name, ty) = fed_input(&opened.pipeline.graph, stage)?;
    let rows = table::read(&args.input)?;
    let outputs = on_device(&args.machine.place, |device| {
        let options = compile_options_for(&args.machine.compile, &**device);
        let pipeline = Arc::clone(&opened.pipeline);
        let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry.clone(), options);
        let session = Session::new(pipeline, Arc::new(planner), Arc::clone(device), IndexMap::new());
        let mut session = session.map_err(|error| opened.failure(error))?;
        session.load(&args.load)?.iter().for_each(|note| remark(format!("note: {note}")));
        predict_rows(&opened, &mut session, stage, (&name, &ty), &rows)
    })?;
    write(&args.output, &outputs)
}

fn predict_stage(opened: &Opened) -> Result<&PredictStage, Failure> {
    let stages = opened.pipeline.stages.iter();
    let mut predicts = stages.filter_map(|stage| match &stage.kind {
        StageKind::Predict(predict) => Some(predict),
        _ => None,
    });
    predicts.next().ok_or_else(|| {
        Failure::graph("the pipeline has no `Predict` stage; add one that names the outputs: \"predict\": Predict(outputs: {…})")
    })
}

/// The one plain input that the outputs depend on.
fn fed_input(graph: &Graph, stage: &PredictStage) -> Result<(Symbol, Type), Failure> {
    let mut wanted = graph.clone();
    wanted.state.clear();
    let found = stage.outputs.iter().map(|(name, node)| Some((name.clone(), graph.find(node)?)));
    wanted.outputs = found.collect::<Option<_>>().ok_or_else(|| Failure::graph("an output is no node"))?;
    let wanted = wanted.pruned();
    let inputs = wanted.nodes.iter().filter(|node| node.op == NodeOp::Input(InputKind::Data));
    let inputs: Vec<_> = inputs.map(|node| &node.outputs[0]).collect();
    match inputs[..] {
        [input] if matches!(input.ty.shape.first(), Some(Dim::Named(_))) => {
            Ok((input.name.clone(), input.ty.clone()))
        }
        [input] => {
            let (name, ty) = (&input.name, &input.ty);
            Err(Failure::graph(format!("input `{name}: {ty}` cannot take rows; name its first extent")))
        }
        _ => {
            let names: Vec<String> = inputs.iter().map(|input| format!("`{}`", input.name)).collect();
            let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            Err(Failure::graph(format!("the outputs must depend on one input, they depend on {names}")))
        }
    }
}

/// The outputs for all rows, batch by batch.
fn predict_rows(
    opened: &Opened,
    session: &mut Session,
    stage: &PredictStage,
    (name, ty): (&Symbol, &Type),
    rows: &HostTensor,
) -> Result<IndexMap<String, HostTensor>, Failure> {
    let nodes: Vec<Symbol> = stage.outputs.iter().map(|(_, node)| node.clone()).collect();
    let n_rows = rows.shape()[0];
    let mut parts: Vec<Vec<HostTensor>> = vec![vec![]; nodes.len()];
    for first in (0..n_rows).step_by(stage.batch.max(1)) {
        let n_batch = stage.batch.max(1).min(n_rows - first);
        let batch = table::fit(rows, ty, first, n_batch)?;
        let outputs = session.run(&nodes, &IndexMap::from([(name.to_string(), batch)]));
        let mut outputs = outputs.map_err(|error| opened.failure(error))?;
        for (node, parts) in nodes.iter().zip(&mut parts) {
            let part = outputs.swap_remove(&**node).filter(|part| part.shape().first() == Some(&n_batch));
            parts.push(
                part.ok_or_else(|| Failure::graph(format!("output `{node}` has no value for every row")))?,
            );
        }
    }
    let names = stage.outputs.iter().map(|(name, _)| name.to_string());
    names.zip(&parts).map(|(name, parts)| Ok((name, joined(parts)?))).collect()
}

/// The rows of all parts in one tensor.
fn joined(parts: &[HostTensor]) -> Result<HostTensor, Failure> {
    let mut shape = parts[0].shape().to_vec();
    shape[0] = parts.iter().map(|part| part.shape()[0]).sum();
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).copied().collect();
    HostTensor::from_bytes(parts[0].dtype(), &shape, &bytes).map_err(Failure::graph)
}

/// Nothing if a file of that name can hold so many outputs.
fn check_output(path: &Path, n_outputs: usize) -> Result<(), Failure> {
    match n_outputs != 1 && path.extension().is_some_and(|extension| extension == "npy") {
        true => Err(Failure::graph(format!(
            "a .npy file holds one output, there are {n_outputs}; write a .npz or .csv file"
        ))),
        false => expect_folder(path),
    }
}

fn write(path: &Path, outputs: &IndexMap<String, HostTensor>) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::unwritable(path, &error);
    if path.as_os_str() == "-" {
        // A reader that has had enough is no failure.
        return match write_csv(outputs, &mut BufWriter::new(io::stdout().lock())) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failed(error)),
            _ => Ok(()),
        };
    }
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    let written = match (path.extension().and_then(OsStr::to_str), &outputs.values().collect::<Vec<_>>()[..])
    {
        (Some("npz"), _) => npz::write(outputs, &mut file),
        (Some("npy"), [output]) => npy::write(output, &mut file),
        _ => write_csv(outputs, &mut file),
    };
    written.and_then(|()| file.flush()).map_err(failed)
}

/// One line a row, under a line of names: `class,probability.0,probability.1`.
fn write_csv(outputs: &IndexMap<String, HostTensor>, to: &mut dyn Write) -> io::Result<()> {
    let columns: Vec<Column> = outputs.iter().map(|(name, tensor)| Column::new(name, tensor)).collect();
    let names: Vec<String> = columns.iter().flat_map(Column::names).collect();
    writeln!(to, "{}", names.join(","))?;
    let n_rows = columns.iter().map(|column| column.n_rows).min().unwrap_or(0);
    for row in 0..n_rows {
        let fields = columns.iter().flat_map(|column| column.fields(row));
        writeln!(to, "{}", fields.collect::<Vec<_>>().join(","))?;
    }
    to.flush()
}

/// An output on its way to CSV: as many columns as a row has elements.
struct Column<'o> {
    name: &'o str,
    values: Vec<f64>,
    /// Whether the values are single-precision and print shortest as such.
    is_single: bool,
    n_rows: usize,
    width: usize,
}

impl<'o> Column<'o> {
    fn new(name: &'o str, tensor: &HostTensor) -> Self {
        let values = tensor.to_f64();
        let n_rows = tensor.shape()[0];
        let width = tensor.shape()[1..].iter().product();
        Column {
            name,
            is_single: tensor.dtype().is_float() && tensor.dtype().size() <= 4,
            values,
            n_rows,
            width,
        }
    }

    fn names(&self) -> Vec<String> {
        match self.width {
            1 => vec![self.name.to_string()],
            width => (0..width).map(|column| format!("{}.{column}", self.name)).collect(),
        }
    }

    fn fields(&self, row: usize) -> Vec<String> {
        let values = &self.values[row * self.width..(row + 1) * self.width];
        let text = |&value: &f64| if self.is_single { (value as f32).to_string() } else { value.to_string() };
        values.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn outputs_are_columns_under_their_names() {
        let class = HostTensor::from_slice(&[2], &[3i32, 7]).unwrap();
        let shares = HostTensor::from_slice(&[2, 2], &[0.1f32, 0.9, 1.0, f32::NAN]).unwrap();
        let outputs = IndexMap::from([("class".to_string(), class), ("share".to_string(), shares)]);
        let mut text = vec![];
        write_csv(&outputs, &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "class,share.0,share.1\n3,0.1,0.9\n7,1,NaN\n");
    }

    #[test]
    fn batches_are_joined() {
        let part = |rows: &[u8]| HostTensor::from_slice(&[rows.len() / 2, 2], rows).unwrap();
        let whole = joined(&[part(&[1, 2, 3, 4]), part(&[5, 6])]).unwrap();
        assert_eq!(whole, part(&[1, 2, 3, 4, 5, 6]));
    }
}
