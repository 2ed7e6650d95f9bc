//! The rows of inputs, read from their files.

use std::path::Path;

use engine_core::diag::{Diagnostic, Sources as Texts};
use engine_core::ir::Attr;
use engine_core::pipeline::DataDecl;
use engine_runtime::data::fault::{CellFault, TableError};
use engine_runtime::data::forms::FieldNames;
use engine_runtime::data::rows::Reading;
use engine_runtime::data::source::Sources;
use engine_runtime::data::table::{self, Rows};
use engine_runtime::diagnostic::Coded;
use engine_runtime::session::{DataNames, Fault};
use engine_runtime::tensor::HostTensor;

use super::inputs::Fed;
use crate::cli::open::Opened;
use crate::cli::output::{Failure, remark};

/// The field of a table's label, and the option that names its column.
const LABEL: &str = "label";

/// How the columns of a text are found.
#[derive(Clone, Copy, PartialEq)]
enum Found {
    /// By their names in training.
    ByName,
    /// The label, by the name that its data source gives.
    Label,
    /// By their order.
    ByOrder,
}

/// Reads the rows in the type of their input. Columns are found by their names in training, that of a label by its name in
/// the pipeline.
pub(super) fn read_rows(
    (opened, sources): (&Opened, &Sources),
    (input, ty): &Fed,
    file: &Path,
    trained: &DataNames,
) -> Result<HostTensor, Failure> {
    let pipeline = &opened.pipeline;
    let decl = pipeline.inputs.iter().find(|decl| decl.name == *input);
    let from = decl.and_then(|decl| decl.from.as_ref());
    let source = from.and_then(|(data, _)| pipeline.data.iter().find(|decl| decl.name == *data));
    let reading = match source {
        Some(source) => sources.reading(source)?,
        None => Reading::default(),
    };
    let known = from.and_then(|(data, field)| trained.get(&format!("{data}.{field}")));
    let label = source.zip(from).and_then(|(source, (_, field))| label_column(source, field));
    let (found, names) = match (known, label) {
        (Some(names), _) if !names.columns.is_empty() => (Found::ByName, Some(names.clone())),
        (names, Some(label)) => {
            let columns = vec![label.to_string()];
            (Found::Label, Some(FieldNames { columns, ..names.cloned().unwrap_or_default() }))
        }
        (names, None) => (Found::ByOrder, names.cloned()),
    };
    let rows = table::read_rows(file, &Reading { dtype: ty.dtype, names, ..reading });
    let rows = rows.map_err(|error| unreadable(error, (&**input, source.is_some(), found)))?;
    if from.is_some() {
        remark_on_columns(file, &rows, found);
    }
    rows.notes.iter().for_each(|note| remark(format!("note: {note}")));
    Ok(rows.tensor)
}

/// The column of a table's label, if the field is the label and the data source names its column. Checkpoints keep the
/// names of all other columns.
fn label_column<'d>(source: &'d DataDecl, field: &str) -> Option<&'d str> {
    let option = source.options.iter().find(|(name, _)| &**name == LABEL).filter(|_| field == LABEL);
    match option {
        Some((_, Attr::Str(column))) => Some(column),
        _ => None,
    }
}

/// Says how the columns of a data source were found, where the names of a file, or of training, are missing.
fn remark_on_columns(file: &Path, rows: &Rows, found: Found) {
    let file = file.display();
    match (found, &rows.columns.names) {
        (Found::ByName, None) if rows.columns.n_columns > 0 => remark(format!(
            "note: {file} has no names of columns, so their order counts: it must be that of the training data"
        )),
        (Found::ByOrder, Some(_)) => remark(format!(
            "note: no names of columns were kept in training, so the order of those of {file} counts"
        )),
        _ => {}
    }
}

/// The failure of a file of rows. No row is left out of predictions, and only inputs of data have options.
fn unreadable(error: TableError, (input, has_options, found): (&str, bool, Found)) -> Failure {
    let help = match &error {
        TableError::Cell(cell) => match cell.fault {
            CellFault::Missing(_) => Some("fill in the cell, or remove the row from the file".to_string()),
            CellFault::NotFinite(_) if !has_options => {
                Some("correct the cell, or give the rows as a .npy file".to_string())
            }
            _ => None,
        },
        TableError::WrongColumns { .. } if found == Found::Label => Some(format!(
            "name the columns in the first line, as in the training data, or give the label a file of its own: \
             `--input {input}=FILE`"
        )),
        TableError::WrongColumns { .. } if found == Found::ByOrder => {
            Some(format!("give the input a file of its own columns: `--input {input}=FILE`"))
        }
        _ => None,
    };
    with_help(error, help)
}

/// The failure of rows, with another help if there is one.
fn with_help(error: TableError, help: Option<String>) -> Failure {
    match (help, error.diagnostic()) {
        (Some(help), Some(diagnostic)) => {
            let diagnostic = Diagnostic { help: Some(help), ..diagnostic };
            Failure::diagnostic(Fault::Graph, diagnostic, &Texts::new())
        }
        _ => error.into(),
    }
}

/// So many rows, from the first one on, in the type of their input.
pub(super) fn fitted(
    opened: &Opened,
    (input, ty): &Fed,
    (rows, file): (&HostTensor, &Path),
    (first, n_rows): (usize, usize),
) -> Result<HostTensor, Failure> {
    table::fit(rows, ty, first, n_rows).map_err(|error| {
        let help = match error {
            TableError::WrongRow { .. } => opened.help_for_row(input, ty, rows.shape()),
            _ => None,
        };
        with_help(error.in_file(file), help)
    })
}
