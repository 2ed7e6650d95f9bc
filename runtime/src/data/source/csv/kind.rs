//! Whether a column holds numbers or names of classes.

use std::collections::BTreeSet;

use engine_core::ir::DType;
use indexmap::IndexMap;

use super::table::{Format, LABEL, LabelAs, Table, TextCell, is_missing};
use crate::data::cells::{Cells, Missing};
use crate::data::fault::{CellFault, shortened};
use crate::data::source::DataError;
use crate::tensor::HostTensor;

/// The contents of a column in all splits.
pub(super) enum Kind {
    /// Numbers of this type.
    Numbers(DType),
    /// Names of classes, sorted; each label is the place in this list, in this type.
    Classes(Vec<String>, DType),
}

impl Kind {
    /// Numbers if all cells are numbers, classes if none is. A mixture of labels must be declared as classes.
    pub(super) fn of(
        tables: &IndexMap<String, Table>,
        field: &str,
        format: &Format,
    ) -> Result<Kind, DataError> {
        let all = || {
            tables.values().flat_map(|table| table.own(field).texts.cells().map(move |cell| (table, cell)))
        };
        let (is_label, dtype) = (field == LABEL, format.dtype_of(field));
        // A column of floats may lack values. Labels and classes may not.
        let may_lack =
            !is_label && format.policy.missing == Missing::Nan && dtype.is_some_and(DType::is_float);
        let missing = |cell: &TextCell<'_>| is_missing(field, cell.text, format);
        if let Some((table, cell)) = all().find(|(_, cell)| missing(cell)).filter(|_| !may_lack) {
            let fault = CellFault::Missing(cell.text.to_string());
            return Err(table.place(field, cell).fault(fault).into());
        }
        let cells = || all().filter(|(_, cell)| !missing(cell));
        let label_as = format.label_as.filter(|_| is_label);
        let is_number = |cell: TextCell<'_>| cell.text.parse::<f64>().is_ok();
        let n_numbers = cells().filter(|(_, cell)| is_number(*cell)).count();
        let n_names = cells().count() - n_numbers;
        if label_as.is_none() && n_numbers > 0 && n_names > 0 {
            let seeks_number = n_numbers < n_names;
            if let Some((table, cell)) = cells().find(|(_, cell)| is_number(*cell) == seeks_number) {
                let text = shortened(cell.text);
                let fault = match seeks_number {
                    true => CellFault::Mixed { text, found: "a number", n_others: n_names, others: "names" },
                    false => {
                        CellFault::Mixed { text, found: "a name", n_others: n_numbers, others: "numbers" }
                    }
                };
                return Err(table.place(field, cell).fault(fault).into());
            }
        }
        if label_as == Some(LabelAs::Classes) || (label_as.is_none() && n_names > 0) {
            let classes: BTreeSet<&str> = cells().map(|(_, cell)| cell.text).collect();
            let classes = classes.into_iter().map(str::to_string).collect();
            let dtype = dtype.filter(|dtype| matches!(dtype, DType::I64 | DType::U32));
            return Ok(Kind::Classes(classes, dtype.unwrap_or(DType::I32)));
        }
        let all_fit = |fits: fn(&str) -> bool| cells().all(|(_, cell)| fits(cell.text));
        let own = match () {
            () if all_fit(|text| text.parse::<i32>().is_ok()) => DType::I32,
            () if all_fit(|text| text.parse::<i64>().is_ok()) => DType::I64,
            () => DType::F32,
        };
        Ok(Kind::Numbers(dtype.unwrap_or(own)))
    }

    /// The column of a file, and remarks on it.
    pub(super) fn tensor(
        &self,
        table: &Table,
        field: &str,
        format: &Format,
    ) -> Result<(HostTensor, Option<String>), DataError> {
        let dtype = match self {
            Kind::Numbers(dtype) | Kind::Classes(_, dtype) => *dtype,
        };
        let mut cells = Cells::new(dtype, format.policy);
        let texts = &table.own(field).texts;
        for cell in texts.cells() {
            let place = table.place(field, cell);
            match self {
                Kind::Numbers(_) => cells.push(&place, cell.text)?,
                Kind::Classes(classes, _) => {
                    let number = classes.partition_point(|class| **class < *cell.text);
                    cells.push(&place, &number.to_string())?;
                }
            }
        }
        let note = cells.rounded_note();
        Ok((cells.tensor(&[texts.n_cells])?, note))
    }
}
