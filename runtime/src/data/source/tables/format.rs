//! The options of a table.

use engine_core::ir::{Attr, DType, Literal, Symbol};

use crate::data::cells::{Cells, Missing, Policy};
use crate::data::forms::Wanted;
use crate::data::records::{Columns, Syntax};
use crate::data::rows::Reading;
use crate::data::source::validation::VALIDATION;
use crate::data::source::{DataError, LoadContext};

pub(super) const FILE: &str = "file";
pub(super) const FEATURES: &str = "features";
pub(super) const LABEL: &str = "label";
pub(super) const LABEL_AS: &str = "label_as";
pub(super) const SEPARATOR: &str = "separator";
pub(super) const MISSING: &str = "missing";
pub(super) const NON_FINITE: &str = "non_finite";
pub(super) const STANDARDIZE: &str = "standardize";
pub(super) const UNKNOWN: &str = "unknown";
/// The options of every table, beside those that say where its texts are.
pub(super) const OPTIONS: [&str; 7] = [LABEL, LABEL_AS, MISSING, NON_FINITE, STANDARDIZE, UNKNOWN, SEPARATOR];
/// What follows the name of a column in the name of the field that marks its gaps.
const GAPS: &str = "_missing";

/// The options of a table.
pub(super) struct Format {
    pub(super) syntax: Syntax,
    pub(super) policy: Policy,
    pub(super) label: Option<Label>,
    pub(super) label_as: Option<LabelAs>,
    /// Whether names that the training rows do not have are a class of their own.
    pub(super) reserves_class: bool,
    pub(super) standardize: bool,
    /// The share of the training rows that becomes the split `validation`.
    pub(super) validation: Option<f64>,
    /// Fields that inputs of the pipeline take, with their types; none without a pipeline.
    pub(super) taken: Vec<(Symbol, DType)>,
}

/// The declared contents of the column of labels.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum LabelAs {
    Classes,
    Numbers,
}

impl Format {
    pub(super) fn new(context: &LoadContext, is_csv: bool) -> Result<Format, DataError> {
        let missing = [
            ("refuse", Missing::Refuse),
            ("drop", Missing::Drop),
            ("nan", Missing::Nan),
            ("fill", Missing::Fill),
            ("indicator", Missing::Indicate),
        ];
        let label_as = [("classes", LabelAs::Classes), ("numbers", LabelAs::Numbers)];
        let unknown = [("refuse", false), ("class", true)];
        let format = Format {
            syntax: if is_csv { Syntax::Csv { separator: separator(context)? } } else { Syntax::JsonLines },
            policy: Policy {
                missing: choice(context, MISSING, &missing)?.unwrap_or_default(),
                non_finite: context.truth(NON_FINITE)?.unwrap_or(false),
            },
            label: Label::new(context)?,
            label_as: choice(context, LABEL_AS, &label_as)?,
            reserves_class: choice(context, UNKNOWN, &unknown)?.unwrap_or(false),
            standardize: context.truth(STANDARDIZE)?.unwrap_or(false),
            validation: context.share(VALIDATION)?.filter(|share| *share > 0.0),
            taken: context.types.clone(),
        };
        let features = format.dtype_of(FEATURES).filter(|dtype| !dtype.is_float());
        match features.filter(|_| format.standardize) {
            Some(dtype) => Err(DataError::BadOption {
                name: STANDARDIZE.to_string(),
                expected: format!("inputs of floats, and that of `{FEATURES}` is declared as {dtype}"),
                found: "true".to_string(),
            }),
            None => Ok(format),
        }
    }

    pub(super) fn dtype_of(&self, field: &str) -> Option<DType> {
        self.taken.iter().find(|(name, _)| &**name == field).map(|(_, dtype)| *dtype)
    }

    /// Whether the columns without a field of their own are read.
    pub(super) fn wants_features(&self) -> bool {
        self.taken.is_empty() || self.dtype_of(FEATURES).is_some()
    }

    /// The transformations of a field's numbers. Integers have none. Only features have elements that mark gaps, and mean 0.
    pub(super) fn wanted(&self, field: &str, dtype: DType) -> Wanted {
        let (is_float, is_features) = (dtype.is_float(), field == FEATURES);
        Wanted {
            fill: is_float && self.policy.fills(),
            indicate: is_float && is_features && self.policy.missing == Missing::Indicate,
            standardize: is_float && is_features && self.standardize,
        }
    }

    /// The cells of such numbers, before their transformation.
    pub(super) fn cells(&self, field: &str, dtype: DType) -> Cells {
        let Wanted { fill, standardize, .. } = self.wanted(field, dtype);
        let missing = if fill { Missing::Nan } else { self.policy.missing };
        // Differences from the mean take all digits.
        Cells::new(if standardize { DType::F64 } else { dtype }, Policy { missing, ..self.policy })
    }

    /// The column whose gaps a field of this name marks.
    pub(super) fn marked<'f>(&self, field: &'f str) -> Option<&'f str> {
        field.strip_suffix(GAPS).filter(|_| self.policy.missing == Missing::Indicate)
    }

    /// How new rows are read. None of them is left out.
    pub(super) fn reading(&self) -> Reading {
        let missing = match self.policy.missing {
            Missing::Drop => Missing::Refuse,
            missing => missing,
        };
        let policy = Policy { missing, ..self.policy };
        Reading { syntax: self.syntax, policy, ..Reading::default() }
    }
}

fn separator(context: &LoadContext) -> Result<char, DataError> {
    let Some(text) = context.text(SEPARATOR)? else { return Ok(',') };
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(separator), None) if !matches!(separator, '"' | '\n' | '\r') => Ok(separator),
        _ => Err(DataError::BadOption {
            name: SEPARATOR.to_string(),
            expected: "one character, such as \";\" or \"\\t\"".to_string(),
            found: Attr::from(text).to_string(),
        }),
    }
}

fn choice<T: Copy>(
    context: &LoadContext,
    option: &str,
    choices: &[(&str, T)],
) -> Result<Option<T>, DataError> {
    let Some(text) = context.text(option)? else { return Ok(None) };
    let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
    chosen.map(Some).ok_or_else(|| {
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        DataError::BadOption {
            name: option.to_string(),
            expected: words.join(" or "),
            found: Attr::from(text).to_string(),
        }
    })
}

/// The column to predict.
pub(super) enum Label {
    Name(String),
    /// Counted from 0.
    Number(usize),
}

impl Label {
    /// The option is the name of a column, or its number counted from 1.
    fn new(context: &LoadContext) -> Result<Option<Label>, DataError> {
        let number = context
            .options
            .iter()
            .any(|(option, value)| &**option == LABEL && matches!(value, Attr::Lit(Literal::Int(_))));
        Ok(match number {
            true => context.count(LABEL, 1 << 20)?.map(|number| Label::Number(number - 1)),
            false => context.text(LABEL)?.map(|name| Label::Name(name.to_string())),
        })
    }

    pub(super) fn column(&self, columns: &Columns) -> Result<usize, DataError> {
        let names = columns.names.clone().unwrap_or_else(|| numbers(columns.n_columns));
        let column = match self {
            Label::Number(column) => Some(*column).filter(|column| *column < names.len()),
            Label::Name(label) => names.iter().position(|name| name == label),
        };
        column.ok_or_else(|| DataError::BadOption {
            name: LABEL.to_string(),
            expected: format!("one of the columns {}", names.join(", ")),
            found: match self {
                Label::Name(name) => Attr::from(name.as_str()).to_string(),
                Label::Number(column) => (column + 1).to_string(),
            },
        })
    }
}

/// The names of unnamed columns.
fn numbers(n_columns: usize) -> Vec<String> {
    (1..=n_columns).map(|number| number.to_string()).collect()
}

/// Whether a cell says that there is no value. As the name of a class, `NA` is a name like others.
pub(super) fn is_missing(field: &str, text: &str, format: &Format) -> bool {
    match format.label_as {
        Some(LabelAs::Classes) if field == LABEL => text.is_empty(),
        _ => format.policy.is_missing(text),
    }
}
