//! Fields of one column: numbers, names of classes, or marks of gaps.

use engine_core::ir::DType;
use indexmap::IndexMap;

use super::format::{Format, LABEL, LabelAs, is_missing};
use super::table::Table;
use super::texts::TextCell;
use crate::data::cells::{Cells, Missing, Policy};
use crate::data::fault::{CellFault, shortened};
use crate::data::forms::{ColumnForm, FieldNames, RESERVED, classes_of, fitted};
use crate::data::rows::gap_text;
use crate::data::source::DataError;
use crate::tensor::HostTensor;

/// The rows that statistics and classes come from.
pub(super) struct Training<'t> {
    pub(super) table: &'t Table,
    /// Whether a row of the table is one of them.
    pub(super) is_training: &'t dyn Fn(usize) -> bool,
}

/// A column as a field: its element type, and the transformation of its cells.
pub(super) struct Fitted {
    dtype: DType,
    pub(super) names: FieldNames,
}

impl Fitted {
    /// Numbers if all cells are numbers, classes if none is. A mixture of labels must be declared as classes.
    pub(super) fn of(
        tables: &IndexMap<String, Table>,
        field: &str,
        format: &Format,
        training: &Training<'_>,
    ) -> Result<Fitted, DataError> {
        let (is_label, dtype) = (field == LABEL, format.dtype_of(field));
        let columns = if is_label { None } else { Some(column_name(training.table, field)) };
        let columns = columns.into_iter().collect();
        if training.table.own(field).marks_gaps {
            let names =
                FieldNames { columns, forms: vec![ColumnForm::Gap { of: 0 }], ..FieldNames::default() };
            return Ok(Fitted { dtype: dtype.unwrap_or(DType::F32), names });
        }
        let all = || {
            tables.values().flat_map(|table| table.own(field).texts.cells().map(move |cell| (table, cell)))
        };
        let lacking = all().find(|(_, cell)| is_missing(field, cell.text, format));
        let cells = || all().filter(|(_, cell)| !is_missing(field, cell.text, format));
        let is_class = holds_classes(cells, format.label_as.filter(|_| is_label));
        // Labels may not lack values. A column of floats may, and one of names that are filled.
        let may_lack = !is_label
            && match format.policy.missing {
                Missing::Nan => dtype.is_some_and(DType::is_float),
                Missing::Fill | Missing::Indicate => {
                    !matches!(is_class, Ok(false)) || dtype.is_none_or(DType::is_float)
                }
                Missing::Refuse | Missing::Drop => false,
            };
        if let Some((table, cell)) = lacking.filter(|_| !may_lack) {
            return Err(table.place(field, cell).fault(CellFault::Missing(cell.text.to_string())).into());
        }
        let is_class = is_class.map_err(|(table, cell, fault)| table.place(field, cell).fault(fault))?;
        match is_class {
            true => Fitted::classes(field, format, training, columns),
            false => {
                let own = own_type(|| cells().map(|(_, cell)| cell.text), lacking.is_some());
                Fitted::numbers(field, format, training, (dtype.unwrap_or(own), columns))
            }
        }
    }

    /// A column of names.
    fn classes(
        field: &str,
        format: &Format,
        training: &Training<'_>,
        columns: Vec<String>,
    ) -> Result<Fitted, DataError> {
        let cells = training.table.own(field).texts.cells().enumerate();
        let cells = cells.filter(|(row, _)| (training.is_training)(*row)).map(|(_, cell)| cell.text);
        let (mut classes, frequent) = classes_of(cells.filter(|text| !is_missing(field, text, format)));
        // Labels that were never learned cannot be predicted.
        let reserved = format.reserves_class && field != LABEL;
        let fill = frequent.filter(|_| format.policy.fills() && field != LABEL);
        classes.extend(reserved.then(|| RESERVED.to_string()));
        let dtype = format.dtype_of(field).filter(|dtype| matches!(dtype, DType::I64 | DType::U32));
        let forms = vec![ColumnForm::Class { fill, reserved }];
        Ok(Fitted { dtype: dtype.unwrap_or(DType::I32), names: FieldNames { columns, classes, forms } })
    }

    /// A column of numbers.
    fn numbers(
        field: &str,
        format: &Format,
        training: &Training<'_>,
        (dtype, columns): (DType, Vec<String>),
    ) -> Result<Fitted, DataError> {
        let plain = Fitted { dtype, names: FieldNames { columns, ..FieldNames::default() } };
        if field == LABEL {
            return Ok(plain);
        }
        let table = training.table;
        let (rows, _) = plain.cells(table, field, format)?;
        let forms = fitted(&rows, training.is_training, format.wanted(field, dtype));
        let forms = forms.map_err(|_| table.no_statistics(table.own(field).column))?;
        Ok(Fitted { names: FieldNames { forms, ..plain.names }, ..plain })
    }

    /// The field of a table, and remarks on it.
    pub(super) fn tensor(
        &self,
        table: &Table,
        field: &str,
        format: &Format,
    ) -> Result<(HostTensor, Option<String>), DataError> {
        let (cells, note) = self.cells(table, field, format)?;
        Ok((self.names.transformed(cells, self.dtype)?, note))
    }

    /// The cells of a table as numbers, before the transformation.
    fn cells(
        &self,
        table: &Table,
        field: &str,
        format: &Format,
    ) -> Result<(HostTensor, Option<String>), DataError> {
        let own = table.own(field);
        let mut cells = match field {
            LABEL => Cells::new(self.dtype, format.policy),
            _ if own.marks_gaps => Cells::new(DType::F32, Policy { missing: Missing::Nan, ..format.policy }),
            _ => format.cells(field, self.dtype),
        };
        for cell in own.texts.cells() {
            let place = table.place(field, cell);
            let lacks = is_missing(field, cell.text, format);
            if own.marks_gaps {
                cells.push(&place, gap_text(cell.text, &format.policy))?;
            } else if self.names.takes_names() {
                let class = self.names.class_of(cell.text, lacks);
                let unknown = || place.fault(CellFault::unknown(cell.text, self.names.n_classes()));
                cells.push(&place, &class.ok_or_else(unknown)?.to_string())?;
            } else {
                cells.push(&place, cell.text)?;
            }
        }
        let note = cells.rounded_note();
        Ok((cells.tensor(&[own.texts.n_cells])?, note))
    }
}

/// The name of a field's column.
fn column_name(table: &Table, field: &str) -> String {
    let column = table.own(field).column;
    table.columns.name(column).unwrap_or(field).to_string()
}

/// Whether cells are names of classes.
///
/// # Errors
/// The first cell of a minority of numbers among names, or of names among numbers, if nothing decides what they are.
fn holds_classes<'t, C>(
    cells: impl Fn() -> C,
    label_as: Option<LabelAs>,
) -> Result<bool, (&'t Table, TextCell<'t>, CellFault)>
where
    C: Iterator<Item = (&'t Table, TextCell<'t>)>,
{
    if let Some(label_as) = label_as {
        return Ok(label_as == LabelAs::Classes);
    }
    let is_number = |cell: TextCell<'_>| cell.text.parse::<f64>().is_ok();
    let n_numbers = cells().filter(|(_, cell)| is_number(*cell)).count();
    let n_names = cells().count() - n_numbers;
    if n_numbers == 0 || n_names == 0 {
        return Ok(n_names > 0);
    }
    let seeks_number = n_numbers < n_names;
    let Some((table, cell)) = cells().find(|(_, cell)| is_number(*cell) == seeks_number) else {
        return Ok(true);
    };
    let text = shortened(cell.text);
    Err((
        table,
        cell,
        match seeks_number {
            true => CellFault::Mixed { text, found: "a number", n_others: n_names, others: "names" },
            false => CellFault::Mixed { text, found: "a name", n_others: n_numbers, others: "numbers" },
        },
    ))
}

/// The element type of undeclared numbers; a float if some are missing.
fn own_type<'t, T: Iterator<Item = &'t str>>(texts: impl Fn() -> T, lacks_some: bool) -> DType {
    match () {
        () if lacks_some => DType::F32,
        () if texts().all(|text| text.parse::<i32>().is_ok()) => DType::I32,
        () if texts().all(|text| text.parse::<i64>().is_ok()) => DType::I64,
        () => DType::F32,
    }
}
