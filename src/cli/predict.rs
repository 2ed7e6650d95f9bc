//! `engine predict`.

mod classes;
mod inputs;
mod rows;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine_core::ir::{Attr, Symbol};
use engine_core::pipeline::{DataDecl, Given, LoadStage, PredictStage, Stage};
use engine_core::stage::{Prediction, prediction};
use engine_runtime::data::{npy, npz};
use engine_runtime::session::{CompilingPlanner, DataNames, Session, StageFault, data_names};
use engine_runtime::tensor::HostTensor;
use indexmap::IndexMap;

use super::args::PredictArgs;
use super::device::{compile_options_for, on_device};
use super::file::{self, results_format};
use super::import::is_model;
use super::open::{Opened, open_for};
use super::output::{Failure, expect_printed, print, remark, show};
use crate::Engine;
use classes::{Classes, classes_of_outputs};
use inputs::{Fed, expect_equal_rows, files_of_inputs};
use rows::{fitted, read_rows};

pub(super) fn predict(engine: Engine, args: &PredictArgs) -> Result<(), Failure> {
    let Engine { mut registry, sources } = engine;
    let opened = open_for(&args.graph, &given(&args.input), &mut registry)?;
    let (name, stage) = predict_stage(&opened, &args.graph.graph)?;
    expect_checkpoint(&opened, args.load.as_deref())?;
    let fed = prediction(&opened.pipeline, stage)
        .map_err(|issue| opened.stage_failure(name, &StageFault(issue)))?;
    let files = files_of_inputs(&args.input, &opened.pipeline, &fed)?;
    let _held = check_output(&opened, args, &files, stage.outputs.len())?;
    let trained = args.load.as_ref().map_or_else(DataNames::new, |path| data_names(path));
    let read = |(input, file): (&Fed, &PathBuf)| read_rows((&opened, &sources), input, file, &trained);
    let rows = fed.inputs.iter().zip(&files).map(read).collect::<Result<Vec<_>, _>>()?;
    expect_equal_rows(&fed, &rows)?;
    let classes = classes_of_outputs(&opened.pipeline, &registry, (stage, &fed), &trained)?;
    let outputs = on_device(&args.machine.place, |device| {
        let options = compile_options_for(&args.machine.compile, &**device);
        let pipeline = Arc::clone(&opened.pipeline);
        let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry.clone(), options);
        let session = Session::new(pipeline, Arc::new(planner), Arc::clone(device), IndexMap::new());
        let mut session = session.map_err(|error| opened.failure(error))?;
        opened.fill(&mut session)?;
        for note in loaded(&opened, &mut session, args.load.as_deref())? {
            remark(format!("note: {note}"));
        }
        predict_rows(&opened, &mut session, stage, &fed, (&rows, &files))
    })?;
    write(args, &outputs, &classes)
}

/// The files of inputs: `NAME=FILE`, or `FILE` of the only input.
fn given(inputs: &[OsString]) -> Vec<(Option<String>, Given)> {
    let split = |text: &OsString| {
        let text = text.to_string_lossy().into_owned();
        match text.split_once('=') {
            Some((name, file)) => (Some(name.trim().to_owned()), Given::File(file.to_owned())),
            None => (None, Given::File(text)),
        }
    };
    inputs.iter().map(split).collect()
}

/// The first `Predict` stage, and its name.
fn predict_stage<'o>(opened: &'o Opened, file: &Path) -> Result<(&'o Symbol, &'o PredictStage), Failure> {
    let stages = opened.pipeline.stages.iter();
    let mut predicts = stages.filter_map(|stage| Some((&stage.name, stage.get::<PredictStage>()?)));
    predicts.next().ok_or_else(|| {
        let stage = "one that names the outputs: \"predict\": Predict(outputs: {…})";
        let Some(name) = file.file_name().filter(|_| is_model(file)) else {
            return Failure::graph(format!("the pipeline has no `Predict` stage; add {stage}"));
        };
        let (model, graph) = (file.display(), Path::new(name).with_extension("ron"));
        let graph = graph.display();
        Failure::graph(format!(
            "the model has no `Predict` stage, since its inputs and outputs share no open extent of rows; import it, \
             `engine import {model} -o {graph}`, and add {stage}"
        ))
    })
}

/// The `Load` stages of the pipeline.
fn load_stages(opened: &Opened) -> impl Iterator<Item = &LoadStage> {
    opened.pipeline.stages.iter().filter_map(Stage::get::<LoadStage>)
}

/// Loads the parameters from a file, or without one as the `Load` stages of the pipeline do. Returns remarks.
pub(super) fn loaded(
    opened: &Opened,
    session: &mut Session,
    path: Option<&Path>,
) -> Result<Vec<String>, Failure> {
    if let Some(path) = path {
        return session.load(path).map_err(|error| opened.load_failure(error));
    }
    let mut remarks = vec![];
    for LoadStage { path, names } in load_stages(opened) {
        let path = Path::new(path);
        remarks.extend(match names.is_empty() {
            true => session.load(path).map_err(|error| opened.load_failure(error))?,
            false => session.load_named(path, names)?,
        });
    }
    Ok(remarks)
}

/// Fails if there are parameters but no checkpoint, since they would have their initial values.
pub(super) fn expect_checkpoint(opened: &Opened, load: Option<&Path>) -> Result<(), Failure> {
    let has_values = load.is_some() || !opened.weights.is_empty() || load_stages(opened).next().is_some();
    match !has_values && !opened.pipeline.params.is_empty() {
        true => {
            Err(Failure::graph("the pipeline has parameters; `--load CKPT` gives them their trained values"))
        }
        false => Ok(()),
    }
}

/// The outputs for all rows, batch by batch.
fn predict_rows(
    opened: &Opened,
    session: &mut Session,
    stage: &PredictStage,
    fed: &Prediction,
    (rows, files): (&[HostTensor], &[PathBuf]),
) -> Result<IndexMap<String, HostTensor>, Failure> {
    let nodes: Vec<Symbol> = stage.outputs.iter().map(|(_, node)| node.clone()).collect();
    let n_rows = rows[0].shape()[0];
    let mut parts: Vec<Vec<HostTensor>> = vec![vec![]; nodes.len()];
    for first in (0..n_rows).step_by(stage.batch.max(1)) {
        let n_batch = stage.batch.max(1).min(n_rows - first);
        let batch = fed.inputs.iter().zip(rows.iter().zip(files)).map(|(input, (rows, file))| {
            Ok((input.0.to_string(), fitted(opened, input, (rows, file), (first, n_batch))?))
        });
        let batch = batch.collect::<Result<IndexMap<_, _>, Failure>>()?;
        let outputs = session.run_in((stage.mode, stage.precision), &nodes, &batch);
        let outputs = outputs.map_err(|error| opened.failure(error))?;
        for (node, parts) in nodes.iter().zip(&mut parts) {
            let part = outputs.get(&**node).filter(|part| part.shape().first() == Some(&n_batch)).cloned();
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

/// Fails unless a file of that name can hold this number of outputs and be written; see [`file::expect_writable`].
fn check_output(
    opened: &Opened,
    args: &PredictArgs,
    inputs: &[PathBuf],
    n_outputs: usize,
) -> Result<Option<File>, Failure> {
    let path = &args.output;
    if n_outputs != 1 && path.extension().is_some_and(|extension| extension == "npy") {
        return Err(Failure::graph(format!(
            "a .npy file holds one output, there are {n_outputs}; write a .npz or .csv file"
        )));
    }
    if is_standard(path) {
        return Ok(None);
    }
    let mut sources: Vec<&Path> = vec![&args.graph.graph];
    sources.extend(inputs.iter().chain(&args.load).map(PathBuf::as_path));
    file::expect_other(path, &sources)?;
    expect_no_data(opened, path)?;
    file::expect_writable(path, results_format(path), args.force.overwrite())
}

/// Fails if the path has the name of one of the graph's data files. Only a run knows their folder.
fn expect_no_data(opened: &Opened, path: &Path) -> Result<(), Failure> {
    let Ok(path) = fs::canonicalize(path) else { return Ok(()) };
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_called = |option: &Attr| match option {
        Attr::Str(file) => match Path::new(&**file).file_name().and_then(OsStr::to_str).unwrap_or_default() {
            file if file.contains("{split}") => {
                let (start, end) = file.split_once("{split}").unwrap_or_default();
                name.starts_with(start) && name.ends_with(end)
            }
            "" => false,
            _ => path.ends_with(&**file),
        },
        _ => false,
    };
    let is_of = |decl: &&DataDecl| decl.options.iter().any(|(_, option)| is_called(option));
    match opened.pipeline.data.iter().find(is_of) {
        Some(decl) => Err(file::of_data(&path, &decl.name)),
        None => Ok(()),
    }
}

/// Whether a path stands for the standard output.
fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn write(
    args: &PredictArgs,
    outputs: &IndexMap<String, HostTensor>,
    classes: &Classes,
) -> Result<(), Failure> {
    let path = &args.output;
    if is_standard(path) {
        match io::stdout().is_terminal() {
            true => {
                let mut text = vec![];
                write_csv(outputs, classes, &mut text).map_err(Failure::machine)?;
                print(String::from_utf8_lossy(&text).trim_end());
            }
            false => show(|out| write_csv(outputs, classes, &mut BufWriter::new(out))),
        }
        return expect_printed();
    }
    let kind = path.extension().and_then(OsStr::to_str);
    file::write(path, (results_format(path), args.force.overwrite()), &|file| match (
        kind,
        &outputs.values().collect::<Vec<_>>()[..],
    ) {
        (Some("npz"), _) => npz::write(outputs, file),
        (Some("npy"), [output]) => npy::write(output, file),
        _ => write_csv(outputs, classes, file),
    })
}

/// One line per row, after a line of names: `class,probability.0,probability.1`.
fn write_csv(
    outputs: &IndexMap<String, HostTensor>,
    classes: &Classes,
    to: &mut dyn Write,
) -> io::Result<()> {
    let columns = outputs.iter().map(|(name, tensor)| Column::new(name, tensor, classes.get(name)));
    let columns: Vec<Column> = columns.collect();
    let names: Vec<String> = columns.iter().flat_map(Column::names).collect();
    writeln!(to, "{}", names.join(","))?;
    let n_rows = columns.iter().map(|column| column.n_rows).min().unwrap_or(0);
    for row in 0..n_rows {
        let fields = columns.iter().flat_map(|column| column.fields(row));
        writeln!(to, "{}", fields.collect::<Vec<_>>().join(","))?;
    }
    to.flush()
}

/// An output on its way to CSV, with a column per element of a row.
struct Column<'o> {
    name: &'o str,
    elements: Elements<'o>,
    n_rows: usize,
    width: usize,
    /// The names of the classes: integers are their numbers, and floats may have a column for each.
    classes: Option<&'o [String]>,
    is_float: bool,
}

/// The elements of an output, by the way in which they are printed.
enum Elements<'o> {
    /// Integers that f64 may not hold.
    Long(&'o [i64]),
    /// Floats of at most 32 bits, which print shortest as f32.
    Single(Vec<f64>),
    /// Numbers that f64 holds.
    Double(Vec<f64>),
}

impl<'o> Column<'o> {
    fn new(name: &'o str, tensor: &'o HostTensor, classes: Option<&'o Vec<String>>) -> Self {
        let is_single = tensor.dtype().is_float() && tensor.dtype().size() <= 4;
        let elements = match tensor.as_slice::<i64>() {
            Ok(numbers) => Elements::Long(numbers),
            Err(_) if is_single => Elements::Single(tensor.to_f64()),
            Err(_) => Elements::Double(tensor.to_f64()),
        };
        let n_rows = tensor.shape()[0];
        let width = tensor.shape()[1..].iter().product();
        let is_float = tensor.dtype().is_float();
        Column { name, elements, n_rows, width, classes: classes.map(Vec::as_slice), is_float }
    }

    fn names(&self) -> Vec<String> {
        match (self.width, self.classes) {
            (1, _) => vec![quoted(self.name)],
            (width, Some(classes)) if self.is_float && classes.len() == width => {
                classes.iter().map(|class| quoted(&format!("{}.{class}", self.name))).collect()
            }
            (width, _) => (0..width).map(|column| quoted(&format!("{}.{column}", self.name))).collect(),
        }
    }

    fn fields(&self, row: usize) -> Vec<String> {
        (row * self.width..(row + 1) * self.width).map(|at| self.text(at)).collect()
    }

    fn text(&self, at: usize) -> String {
        let (number, class) = match &self.elements {
            Elements::Long(numbers) => (numbers[at].to_string(), usize::try_from(numbers[at]).ok()),
            Elements::Single(numbers) => ((numbers[at] as f32).to_string(), None),
            // Integers of at most 32 bits, truth values, or f64.
            Elements::Double(numbers) => {
                (numbers[at].to_string(), (numbers[at] >= 0.0).then_some(numbers[at] as usize))
            }
        };
        let classes = self.classes.filter(|_| !self.is_float);
        match classes.and_then(|classes| classes.get(class?)) {
            Some(class) => quoted(class),
            None => number,
        }
    }
}

/// A field of CSV, in quotes if it needs them.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) || text.trim() != text {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
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
        write_csv(&outputs, &Classes::new(), &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "class,share.0,share.1\n3,0.1,0.9\n7,1,NaN\n");
    }

    #[test]
    fn classes_go_by_their_names() {
        let class = HostTensor::from_slice(&[2], &[1i32, 0]).unwrap();
        let shares = HostTensor::from_slice(&[2, 2], &[0.25f32, 0.75, 1.0, 0.0]).unwrap();
        let outputs = IndexMap::from([("class".to_string(), class), ("share".to_string(), shares)]);
        let names = vec!["a, \"b\"".to_string(), "rose".to_string()];
        let classes = Classes::from([("class".to_string(), names.clone()), ("share".to_string(), names)]);
        let mut text = vec![];
        write_csv(&outputs, &classes, &mut text).unwrap();
        let expected = "class,\"share.a, \"\"b\"\"\",share.rose\nrose,0.25,0.75\n\"a, \"\"b\"\"\",1,0\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    /// Integers are numbers of classes, however many a row has. Floats are not, however few.
    #[test]
    fn each_integer_of_a_row_is_a_class() {
        let best = HostTensor::from_slice(&[2, 2], &[1i32, 0, 0, 7]).unwrap();
        let score = HostTensor::from_slice(&[2], &[1.0f64, 0.0]).unwrap();
        let outputs = IndexMap::from([("best".to_string(), best), ("score".to_string(), score)]);
        let names = vec!["daisy".to_string(), "rose".to_string()];
        let classes = Classes::from([("best".to_string(), names.clone()), ("score".to_string(), names)]);
        let mut text = vec![];
        write_csv(&outputs, &classes, &mut text).unwrap();
        let expected = "best.0,best.1,score\nrose,daisy,1\ndaisy,7,0\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn batches_are_joined() {
        let part = |rows: &[u8]| HostTensor::from_slice(&[rows.len() / 2, 2], rows).unwrap();
        let whole = joined(&[part(&[1, 2, 3, 4]), part(&[5, 6])]).unwrap();
        assert_eq!(whole, part(&[1, 2, 3, 4, 5, 6]));
    }
}
