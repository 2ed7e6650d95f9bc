//! The transformations of a field's columns: fitted to the training rows, and applied to all other rows alike.

use std::collections::BTreeMap;

use engine_core::ir::DType;
use serde::{Deserialize, Serialize};

use crate::tensor::{HostTensor, TensorError};

/// The names of the columns and classes of a field, and the transformations that make its rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FieldNames {
    /// The columns of a file that rows are made of, in order; empty if they have no names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// The classes that its integers denote, counted from 0; empty if they denote none. They are sorted, except for a
    /// reserved class at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// The transformation of each element of a row; empty if the elements are the cells as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forms: Vec<ColumnForm>,
}

/// How cells become one element of a row. All forms but [`ColumnForm::Gap`] read the column at their own place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ColumnForm {
    /// A number x becomes `(x - mean) / deviation`.
    Number {
        /// The x of a missing cell; without it, the element is NaN.
        fill: Option<f64>,
        /// The mean of the training rows, or 0.
        mean: f64,
        /// The deviation of the training rows, or 1.
        deviation: f64,
    },
    /// A name becomes the number of its class.
    Class {
        /// The class of a missing cell; without it, such a cell is an error.
        fill: Option<usize>,
        /// Whether the last class stands for all names that the training rows do not have. Otherwise they are errors.
        reserved: bool,
    },
    /// 1 if a cell is missing, else 0.
    Gap {
        /// The column of the cell.
        of: usize,
    },
}

impl ColumnForm {
    /// A number as it is.
    const PLAIN: ColumnForm = ColumnForm::Number { fill: None, mean: 0.0, deviation: 1.0 };
}

/// The name of the class of names that the training rows do not have.
pub(crate) const RESERVED: &str = "(unknown)";

/// The transformations that a data source asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Missing cells get the mean.
    pub(crate) fill: bool,
    /// A column with gaps in the training rows gets an element that marks them.
    pub(crate) indicate: bool,
    /// Columns get mean 0 and deviation 1.
    pub(crate) standardize: bool,
}

/// The transformations of the columns of a matrix of floats, or of a single column, according to some of its rows: the
/// columns in order, then their indicators. Missing cells are NaN.
///
/// Deviations are those of the rows after gaps were filled, divided by their number, as scikit-learn's `SimpleImputer` and
/// `StandardScaler` in a row compute them. A column of equal numbers has deviation 1.
///
/// # Errors
/// The number of a column that has no number in these rows, or whose mean or deviation is not finite.
pub(crate) fn fitted(
    rows: &HostTensor,
    is_training: &dyn Fn(usize) -> bool,
    wanted: Wanted,
) -> Result<Vec<ColumnForm>, usize> {
    let n_columns = rows.shape()[1..].iter().product::<usize>();
    let elements = rows.to_f64();
    let training =
        || elements.chunks_exact(n_columns.max(1)).enumerate().filter(|(row, _)| is_training(*row));
    let (mut numbers, mut gaps) = (vec![], vec![]);
    for column in 0..n_columns {
        let cells = || training().map(|(_, row)| row[column]);
        let present = || cells().filter(|x| !x.is_nan());
        let (n_cells, n_present) = (cells().count(), present().count());
        let (least, most) = present()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
        let mean = if least == most { least } else { present().sum::<f64>() / n_present as f64 };
        let n_rows = if wanted.fill { n_cells } else { n_present };
        let variance = present().map(|x| (x - mean).powi(2)).sum::<f64>() / n_rows as f64;
        let deviation = if variance == 0.0 { 1.0 } else { variance.sqrt() };
        if (wanted.fill || wanted.standardize) && !(mean.is_finite() && deviation.is_finite()) {
            return Err(column);
        }
        let fill = wanted.fill.then_some(mean);
        numbers.push(match wanted.standardize {
            true => ColumnForm::Number { fill, mean, deviation },
            false => ColumnForm::Number { fill, mean: 0.0, deviation: 1.0 },
        });
        if wanted.indicate && n_present < n_cells {
            gaps.push(ColumnForm::Gap { of: column });
        }
    }
    let is_plain = gaps.is_empty() && numbers.iter().all(|form| *form == ColumnForm::PLAIN);
    Ok(if is_plain { vec![] } else { [numbers, gaps].concat() })
}

/// The classes of these names, sorted, and the most frequent one, the first in order if several are.
pub(crate) fn classes_of<'n>(names: impl Iterator<Item = &'n str>) -> (Vec<String>, Option<usize>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let most = counts.values().max();
    let frequent = counts.values().position(|count| Some(count) == most);
    (counts.into_keys().map(str::to_string).collect(), frequent)
}

impl FieldNames {
    /// The number of columns that a row is made of; none if no transformation says it.
    pub(crate) fn n_sources(&self) -> Option<usize> {
        let sources = self.forms.iter().enumerate().map(|(place, form)| match form {
            ColumnForm::Gap { of } => of + 1,
            _ => place + 1,
        });
        sources.max()
    }

    /// Whether cells are names of classes.
    pub(crate) fn takes_names(&self) -> bool {
        matches!(self.forms[..], [ColumnForm::Class { .. }])
    }

    /// Whether the rows do nothing but mark gaps of a column, which may hold anything.
    pub(crate) fn marks_gaps(&self) -> bool {
        matches!(self.forms[..], [ColumnForm::Gap { .. }])
    }

    /// Whether a missing cell is filled or marked.
    pub(crate) fn takes_gaps(&self) -> bool {
        self.forms.iter().any(|form| match form {
            ColumnForm::Number { fill, .. } => fill.is_some(),
            ColumnForm::Class { fill, .. } => fill.is_some(),
            ColumnForm::Gap { .. } => true,
        })
    }

    /// The class that a cell names, or that stands for a missing cell; none if there is no such class.
    pub(crate) fn class_of(&self, cell: &str, is_missing: bool) -> Option<usize> {
        let (fill, reserved) = match self.forms.first() {
            Some(ColumnForm::Class { fill, reserved }) => (*fill, *reserved),
            _ => (None, false),
        };
        if is_missing {
            return fill;
        }
        let n_known = self.classes.len() - usize::from(reserved);
        let known = self.classes[..n_known].binary_search_by(|class| (**class).cmp(cell));
        known.ok().or(reserved.then_some(n_known))
    }

    /// The number of classes that the training rows have.
    pub(crate) fn n_classes(&self) -> usize {
        let reserved = matches!(self.forms.first(), Some(ColumnForm::Class { reserved: true, .. }));
        self.classes.len() - usize::from(reserved)
    }

    /// The rows in an element type, after the transformations of numbers and gaps. Missing cells are NaN in `rows`, whose
    /// row has an element per source column.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn transformed(&self, rows: HostTensor, dtype: DType) -> Result<HostTensor, TensorError> {
        if self.forms.is_empty() || self.takes_names() {
            return rows.cast(dtype);
        }
        let n_sources = rows.shape()[1..].iter().product::<usize>();
        let mut shape = rows.shape().to_vec();
        if let Some(width) = shape.get_mut(1) {
            *width = self.forms.len();
        }
        let elements = rows.to_f64();
        let rows = elements.chunks_exact(n_sources.max(1));
        let transformed: Vec<f64> =
            rows.flat_map(|row| self.forms.iter().enumerate().map(|form| element(form, row))).collect();
        HostTensor::from_slice(&shape, &transformed)?.cast(dtype)
    }
}

/// An element of a row, given the form at a place and the cells.
fn element((place, form): (usize, &ColumnForm), row: &[f64]) -> f64 {
    match form {
        ColumnForm::Number { fill, mean, deviation } => {
            let x = if row[place].is_nan() { fill.unwrap_or(f64::NAN) } else { row[place] };
            (x - mean) / deviation
        }
        ColumnForm::Class { .. } => row[place],
        ColumnForm::Gap { of } => f64::from(u8::from(row[*of].is_nan())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const NAN: f64 = f64::NAN;

    fn fit(wanted: Wanted, columns: usize, elements: &[f64]) -> Result<FieldNames, usize> {
        let rows = HostTensor::from_slice(&[elements.len() / columns, columns], elements).unwrap();
        // The last row is none of the training rows.
        let n_training = elements.len() / columns - 1;
        let forms = fitted(&rows, &|row| row < n_training, wanted)?;
        Ok(FieldNames { forms, ..FieldNames::default() })
    }

    fn transformed(names: &FieldNames, columns: usize, elements: &[f64]) -> Vec<f64> {
        let rows = HostTensor::from_slice(&[elements.len() / columns, columns], elements).unwrap();
        names.transformed(rows, DType::F64).unwrap().to_f64()
    }

    #[test]
    fn statistics_are_those_of_the_training_rows() {
        let all = Wanted { fill: true, indicate: true, standardize: true };
        let rows = [1.0, 5.0, 3.0, 5.0, NAN, 5.0, 100.0, NAN];
        let names = fit(all, 2, &rows).unwrap();
        // The gap is filled with 2, so the deviation is that of 1, 3 and 2. The second column is constant.
        let deviation = (2.0f64 / 3.0).sqrt();
        assert_eq!(names.n_sources(), Some(2));
        let expected = [-1.0 / deviation, 0.0, 0.0, 1.0 / deviation, 0.0, 0.0, 0.0, 0.0, 1.0];
        assert_eq!(transformed(&names, 2, &rows[..6]), expected);
        // A column without gaps in the training rows has no indicator, but its gaps are filled.
        assert_eq!(transformed(&names, 2, &[2.0, NAN]), [0.0, 0.0, 0.0]);
        let scaled =
            fit(Wanted { standardize: true, ..Wanted::default() }, 1, &[1.0, 3.0, NAN, 9.0]).unwrap();
        assert_eq!(transformed(&scaled, 1, &[1.0, 2.0]), [-1.0, 0.0]);
        assert!(transformed(&scaled, 1, &[NAN])[0].is_nan());
    }

    #[test]
    fn columns_without_statistics_are_named() {
        let fill = Wanted { fill: true, ..Wanted::default() };
        assert_eq!(fit(fill, 2, &[1.0, NAN, 2.0, NAN, 3.0, 4.0]), Err(1));
        assert_eq!(fit(fill, 1, &[f64::INFINITY, 1.0, 0.0]), Err(0));
        assert_eq!(fit(Wanted::default(), 1, &[NAN, NAN, 0.0]).unwrap().forms, []);
        assert_eq!(fit(Wanted { indicate: true, ..Wanted::default() }, 1, &[1.0, 2.0]).unwrap().forms, []);
    }

    #[test]
    fn names_are_classes_of_the_training_rows() {
        let (classes, frequent) = classes_of(["b", "a", "c", "c", "b"].into_iter());
        assert_eq!((&classes[..], frequent), (&["a", "b", "c"].map(String::from)[..], Some(1)));
        let names = |reserved: bool| {
            let mut classes = classes.clone();
            classes.extend(reserved.then(|| RESERVED.to_string()));
            FieldNames {
                classes,
                forms: vec![ColumnForm::Class { fill: frequent, reserved }],
                ..FieldNames::default()
            }
        };
        let strict = names(false);
        assert_eq!(
            ["a", "c", "d", ""].map(|cell| strict.class_of(cell, false)),
            [Some(0), Some(2), None, None]
        );
        assert_eq!((strict.class_of("", true), strict.n_classes()), (Some(1), 3));
        let open = names(true);
        assert_eq!(
            (open.class_of("d", false), open.class_of("c", false), open.n_classes()),
            (Some(3), Some(2), 3)
        );
    }

    /// Checkpoints keep transformations as text.
    #[test]
    fn transformations_are_read_as_they_are_written() {
        let forms = vec![
            ColumnForm::Number { fill: Some(0.1 + 0.2), mean: 1.0 / 3.0, deviation: 5e-324 },
            ColumnForm::Gap { of: 0 },
        ];
        let names = FieldNames { columns: vec!["a".into()], forms, ..FieldNames::default() };
        let text = serde_json::to_string(&names).unwrap();
        assert_eq!(serde_json::from_str::<FieldNames>(&text).unwrap(), names);
        let older = serde_json::from_str::<FieldNames>(r#"{"columns": ["a"], "classes": ["x"]}"#).unwrap();
        assert_eq!((older.forms, older.classes), (vec![], vec!["x".to_string()]));
    }
}
