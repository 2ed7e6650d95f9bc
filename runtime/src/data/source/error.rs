//! The errors of data sources.

use std::error::Error;
use std::path::PathBuf;

use thiserror::Error;

use crate::data::idx::IdxError;
use crate::data::table::TableError;
use crate::data::tokenizer::TokenizerError;
use crate::tensor::TensorError;

/// Why a data set cannot be loaded.
#[derive(Debug, Error)]
pub enum DataError {
    /// No source has that name.
    #[error("there is no data source `{name}`")]
    UnknownSource {
        /// The requested name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A session was made without the set of that name in the pipeline.
    #[error("the session was given no such data")]
    NoSet {
        /// The name.
        data: String,
    },
    /// Two sources want the same name.
    #[error("there is a data source `{name}` already")]
    DuplicateSource {
        /// The name.
        name: String,
    },
    /// The set has no split of that name.
    #[error("data set `{set}` has no split `{name}`{}", if *.is_empty { ", whose share is 0" } else { "" })]
    UnknownSplit {
        /// The set.
        set: String,
        /// The requested split.
        name: String,
        /// Whether an option of the pipeline gives this split no rows.
        is_empty: bool,
        /// The splits there are.
        known: String,
    },
    /// The split has no field of that name.
    #[error("the data has no field `{name}`")]
    UnknownField {
        /// The requested field.
        name: String,
        /// The fields there are.
        known: String,
    },
    /// The source has no setting of that name.
    #[error("there is no option `{name}`")]
    UnknownOption {
        /// The option.
        name: String,
        /// The options there are.
        known: String,
    },
    /// A setting of the source is not understood.
    #[error("option `{name}` cannot be {found}")]
    BadOption {
        /// The option.
        name: String,
        /// The valid values.
        expected: String,
        /// The given value.
        found: String,
    },
    /// A split has no field, or its first field is a scalar.
    #[error("a split needs at least one field with rows")]
    NoRows,
    /// The fields of a split do not go together.
    #[error("field `{field}` has {} rows, the first field has {expected}", found.map_or("no".to_string(), |n| n.to_string()))]
    UnevenFields {
        /// The field that differs.
        field: String,
        /// Rows of the first field.
        expected: usize,
        /// Rows of this field; none if it is a scalar.
        found: Option<usize>,
    },
    /// A row's tensor differs from that of the first row.
    #[error("row {row}: field `{field}` is {found}, that of the first row is {expected}")]
    UnevenRow {
        /// The field.
        field: String,
        /// The row, counted from 0.
        row: usize,
        /// The type in the first row.
        expected: String,
        /// The type in this row.
        found: String,
    },
    /// A text is shorter than one window.
    #[error(
        "the text's part `{split}` has {n_tokens} tokens, which hold no window of {width} and the token after it"
    )]
    ShortText {
        /// The split.
        split: String,
        /// Its tokens; bytes without a tokenizer.
        n_tokens: usize,
        /// Tokens of a window.
        width: usize,
    },
    /// The training rows cannot be divided.
    #[error("{n_rows} rows of `{split}` leave none to learn from or none to judge by")]
    TooFewRows {
        /// The split.
        split: String,
        /// Its rows.
        n_rows: usize,
    },
    /// A file is no image of the set.
    #[error("{}: {why}", .path.display())]
    Image {
        /// The file, or the folder of a class.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// A column cannot be filled or standardised.
    #[error("{}: column {column}: the training rows have no number in it, or numbers that are too large", .path.display())]
    NoStatistics {
        /// The file of the training rows.
        path: PathBuf,
        /// The column's name, or its number counted from 1.
        column: String,
    },
    /// Some files of a set are missing.
    #[error(
        "{} has `{present}` but neither `{missing}` nor `{missing}.gz`",
        .dir.display()
    )]
    Incomplete {
        /// The folder.
        dir: PathBuf,
        /// A file that exists.
        present: String,
        /// The first that is not.
        missing: String,
    },
    /// Some files that the pipeline names are missing.
    #[error("{} is there but `{}` is not", .present.display(), .missing.display())]
    MissingFile {
        /// A file that exists.
        present: PathBuf,
        /// The first that is not, as it is named.
        missing: PathBuf,
    },
    /// A file that the pipeline names is nowhere.
    #[error("`{}` is not in {roots}", .file.display())]
    NotFound {
        /// The file, as it is named.
        file: PathBuf,
        /// The folders that were looked into.
        roots: String,
    },
    /// A set is missing, and generated data may not stand in for it.
    #[error("`{wanted}` cannot be had: {why}")]
    NoStandIn {
        /// The set or the file.
        wanted: String,
        /// Why it is missing.
        why: String,
    },
    /// A file is sound but not of this set.
    #[error("{}: {found} was read where the set `{set}` has {expected}", .path.display())]
    WrongContent {
        /// The file.
        path: PathBuf,
        /// The set.
        set: String,
        /// The value of the set.
        expected: String,
        /// The value of the file.
        found: String,
    },
    /// An IDX file cannot be used.
    #[error(transparent)]
    Idx(#[from] IdxError),
    /// A file of rows cannot be used.
    #[error(transparent)]
    Table(Box<TableError>),
    /// A tokenizer cannot be used, or a text with it.
    #[error(transparent)]
    Tokenizer(Box<TokenizerError>),
    /// So much data cannot be held.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The error of a plugin's source.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

impl From<TableError> for DataError {
    fn from(error: TableError) -> Self {
        DataError::Table(Box::new(error))
    }
}

impl From<TokenizerError> for DataError {
    fn from(error: TokenizerError) -> Self {
        DataError::Tokenizer(Box::new(error))
    }
}
