//! Diagnostics for errors of data, files and machines: with a code, a place and a fix.

use engine_core::diag::{Code, Diagnostic};

use crate::checkpoint::{CheckpointError, CheckpointFact};
use crate::data::fault::shortened;
use crate::data::npz::{NpzError, NpzFact};
use crate::data::source::DataError;
use crate::data::table::{TableError, listed};
use crate::device::{DeviceError, RunError};
use crate::tensor::TensorError;
use engine_core::ir::{Requirement, written_path};
use std::fmt::Display;
use std::io;

/// An error that `docs/errors/` explains.
pub trait Coded: Display {
    /// The code of the error. `None` for an error that no page explains.
    fn code(&self) -> Option<Code>;

    /// One concrete fix.
    fn help(&self) -> Option<String>;

    /// The diagnostic for users. The caller adds the place in the pipeline, if it knows one.
    fn diagnostic(&self) -> Option<Diagnostic> {
        let mut diagnostic = Diagnostic::error(self.code()?, self.to_string());
        diagnostic.help = self.help();
        Some(diagnostic)
    }
}

impl Coded for DataError {
    fn code(&self) -> Option<Code> {
        Some(match self {
            DataError::UnknownSource { .. } | DataError::NoSet { .. } => Code::E0202,
            DataError::UnknownSplit { .. } | DataError::UnknownField { .. } => Code::E0203,
            DataError::UnknownOption { .. } => Code::E0012,
            DataError::BadOption { .. } => Code::E0010,
            DataError::MissingFile { .. } | DataError::NotFound { .. } | DataError::NoStandIn { .. } => {
                Code::E0501
            }
            DataError::Incomplete { .. }
            | DataError::WrongContent { .. }
            | DataError::NoRows
            | DataError::UnevenFields { .. }
            | DataError::UnevenRow { .. }
            | DataError::TooFewRows { .. }
            | DataError::NoStatistics { .. }
            | DataError::Image { .. }
            | DataError::ShortText { .. }
            | DataError::Tokenizer(_)
            | DataError::Idx(_) => Code::E0502,
            DataError::Table(error) => return error.code(),
            DataError::Tensor(error) => return error.code(),
            DataError::DuplicateSource { .. } | DataError::Other(_) => return None,
        })
    }

    fn help(&self) -> Option<String> {
        Some(match self {
            DataError::UnknownSource { known, .. } => format!("there are {known}"),
            DataError::NoSet { .. } => "load it, and hand it to the session under this name".to_string(),
            DataError::UnknownSplit { known, .. } | DataError::UnknownField { known, .. } => {
                format!("it has {known}")
            }
            DataError::UnknownOption { known, .. } => format!("there are {known}"),
            DataError::BadOption { expected, .. } => format!("it takes {expected}"),
            DataError::MissingFile { .. } | DataError::Incomplete { .. } => {
                "complete the set or move it away".to_string()
            }
            DataError::WrongContent { .. } | DataError::Idx(_) => {
                "fetch the file again, or move the set away".to_string()
            }
            DataError::NoStandIn { .. } => {
                "put it there; without `--no-stand-in`, generated data replaces it".to_string()
            }
            DataError::NotFound { .. } => "put it there, or name its folder with `--data-dir`".to_string(),
            DataError::Table(error) => return error.help(),
            DataError::Tokenizer(error) => error.fact.help().to_string(),
            DataError::ShortText { .. } => {
                "take a longer text, a smaller `context` or larger shares".to_string()
            }
            DataError::Image { .. } => {
                "take a PNG or JPEG file in the folder of its class; `resize: [H, W]` gives all images one size"
                    .to_string()
            }
            DataError::NoStatistics { .. } => {
                "leave the column out: give it an input of its own, or remove it from the file".to_string()
            }
            DataError::Tensor(error) => return error.help(),
            DataError::NoRows
            | DataError::UnevenFields { .. }
            | DataError::UnevenRow { .. }
            | DataError::TooFewRows { .. }
            | DataError::DuplicateSource { .. }
            | DataError::Other(_) => return None,
        })
    }
}

impl Coded for TableError {
    fn code(&self) -> Option<Code> {
        Some(match self {
            TableError::Unreadable { error, .. } if error.kind() == io::ErrorKind::NotFound => Code::E0501,
            TableError::WrongRow { .. }
            | TableError::WrongValue { .. }
            | TableError::MissingColumns { .. }
            | TableError::SameName { .. }
            | TableError::WrongColumns { .. } => Code::E0506,
            TableError::Tensor(error) => return error.code(),
            TableError::Unreadable { .. }
            | TableError::NotText { .. }
            | TableError::Cell(_)
            | TableError::Ragged { .. }
            | TableError::BadQuote { .. }
            | TableError::BadLine { .. }
            | TableError::NoRows { .. }
            | TableError::Idx(_)
            | TableError::Npy(_)
            | TableError::Npz(_)
            | TableError::Vecs(_) => Code::E0502,
        })
    }

    fn help(&self) -> Option<String> {
        Some(match self {
            TableError::Unreadable { .. } => "check the path".to_string(),
            TableError::WrongRow { expected, .. } => format!("each row must have the elements of {expected}"),
            TableError::WrongValue { dtype, .. } => format!("scale or round the numbers to fit {dtype}"),
            TableError::NotText { .. } => {
                "take a CSV, .jsonl, .npy, .npz or IDX file, or one of vectors".to_string()
            }
            TableError::Cell(cell) => cell.fault.help().to_string(),
            TableError::MissingColumns { missing, known, .. } => missing_columns_help(missing, known),
            TableError::SameName { .. } => "give one of them another name".to_string(),
            TableError::Ragged { .. } => "give every line as many columns".to_string(),
            TableError::WrongColumns { .. } => {
                "leave out the other columns, or name them in the first line".to_string()
            }
            TableError::BadLine { .. } => {
                "write one JSON object a line, with arrays of one length under each name".to_string()
            }
            TableError::NoRows { dropped: None, .. } => "put at least one row into it".to_string(),
            TableError::NoRows { dropped: Some(_), .. } => {
                "fill in the cells of a row; the option `missing: \"fill\"` keeps rows with gaps".to_string()
            }
            TableError::Tensor(error) => return error.help(),
            TableError::BadQuote { .. } => {
                "close the quotation, and write a quote inside it twice".to_string()
            }
            TableError::Npz(NpzError { fact: NpzFact::Missing { .. }, .. }) => {
                "name one of these".to_string()
            }
            TableError::Npz(NpzError { path, fact: NpzFact::NotOne { .. } }) => {
                format!("name one of them: `{}/ARRAY`", path.display())
            }
            TableError::Idx(_) | TableError::Npy(_) | TableError::Npz(_) | TableError::Vecs(_) => {
                "write the file again".to_string()
            }
        })
    }
}

/// Help that names similar columns, or all columns if none is similar.
fn missing_columns_help(missing: &[(String, Option<String>)], known: &[String]) -> String {
    let near = missing.iter().filter_map(|(name, near)| Some((name, near.as_ref()?)));
    let meant: Vec<String> =
        near.take(4).map(|(name, near)| format!("`{}` for `{}`", shortened(near), shortened(name))).collect();
    match meant.is_empty() {
        true => format!("the columns are {}", listed(known.iter())),
        false => format!("did you mean {}? The first line must have the names", meant.join(", ")),
    }
}

impl Coded for CheckpointError {
    fn code(&self) -> Option<Code> {
        Some(match self.fact {
            CheckpointFact::Unwritable(_)
            | CheckpointFact::Unflushed(_)
            | CheckpointFact::Refused(_)
            | CheckpointFact::ReservedName => Code::E0505,
            _ => Code::E0503,
        })
    }

    fn help(&self) -> Option<String> {
        Some(match &self.fact {
            CheckpointFact::Unreadable(_) => "check the path".to_string(),
            CheckpointFact::Unwritable(_) | CheckpointFact::Unflushed(_) => {
                "make room or choose another folder; `--set STAGE.checkpoint.path=\"FILE\"` does".to_string()
            }
            CheckpointFact::Refused(refusal) => refusal.help().to_string(),
            CheckpointFact::ReservedName => "rename the parameter".to_string(),
            CheckpointFact::Zip => {
                "write the tensors of PyTorch with `safetensors.torch.save_file`; archives of NumPy are named `.npz`"
                    .to_string()
            }
            CheckpointFact::Gzip => "decompress the file".to_string(),
            CheckpointFact::BadIndex { .. } => {
                "take a safetensors file, or an index with a `weight_map`".to_string()
            }
            CheckpointFact::OutsideFolder { .. } | CheckpointFact::MissingFiles { .. } => {
                "put the files beside the index".to_string()
            }
            CheckpointFact::UnsupportedType { .. } => {
                "convert the tensor to a type such as F16, or load other tensors by `names`".to_string()
            }
            _ => "take another checkpoint".to_string(),
        })
    }
}

impl Coded for DeviceError {
    fn code(&self) -> Option<Code> {
        match self {
            DeviceError::OutOfMemory { .. } => Some(Code::E0604),
            DeviceError::NotCompiled { .. } => Some(Code::E0608),
            DeviceError::Lost { .. } => Some(Code::E0609),
            DeviceError::Unsupported { .. } | DeviceError::TooLarge { .. } => Some(Code::E0610),
            DeviceError::Failed(_) => Some(Code::E0603),
            // A mistake of the program that uses the library.
            DeviceError::UnknownInput { .. }
            | DeviceError::UnknownOutput { .. }
            | DeviceError::WrongSize { .. }
            | DeviceError::OutOfRange { .. }
            | DeviceError::ForeignBuffer => None,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            DeviceError::OutOfMemory { .. } => {
                Some(
                    "use smaller batches, leave the rows of data with the host (`--resident-mib 0`), or end other programs \
                     on the device"
                        .to_string(),
                )
            }
            DeviceError::NotCompiled { .. } => Some(
                "report it with the graph and what `engine explain GRAPH --stage source` (of wgpu: `--stage wgsl`) \
                 prints; until then, `--device cpu` always works"
                    .to_string(),
            ),
            DeviceError::Lost { .. } => {
                Some("start again, from the last checkpoint with `--resume`".to_string())
            }
            DeviceError::Unsupported { .. }
            | DeviceError::TooLarge { .. }
            | DeviceError::Failed(_) => Some("`--device cpu` always works".to_string()),
            _ => None,
        }
    }
}

impl Coded for RunError {
    fn code(&self) -> Option<Code> {
        match self {
            RunError::Assertion { requirement: Requirement::Index { .. }, .. } => Some(Code::E0601),
            RunError::Assertion { requirement: Requirement::Divisor, .. } => Some(Code::E0605),
            RunError::Assertion { requirement: Requirement::Capacity { .. }, .. } => Some(Code::E0612),
            RunError::Assertion { requirement: Requirement::Distance, .. } => Some(Code::E0613),
            RunError::Assertion { requirement: Requirement::Condition, .. } => Some(Code::E0614),
            RunError::Device(error) => error.code(),
            RunError::Unbound(_) | RunError::Cancelled => None,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            RunError::Assertion { requirement: Requirement::Index { .. }, .. } => {
                Some("correct the data; nothing was written in this step".to_string())
            }
            RunError::Assertion { requirement: Requirement::Divisor, .. } => {
                Some("keep zeros away from the divisor, for example by `maximum(…, 1)`".to_string())
            }
            RunError::Assertion { requirement: Requirement::Capacity { .. }, node, .. } => {
                Some(format!("raise `{}`; nothing was written in this step", setting_of(node)))
            }
            RunError::Assertion { requirement: Requirement::Distance, .. } => Some(
                "check the unit: a radius is a distance or, with squared distances, its square; neither is negative"
                    .to_string(),
            ),
            RunError::Assertion { requirement: Requirement::Condition, state_file, .. } => {
                let of_file = state_file.as_ref().map(|path| {
                    format!("; state was read from {}: take another file, or build the state anew", path.display())
                });
                let of_file = of_file.unwrap_or_default();
                Some(format!("the graph requires this; nothing was written in this step{of_file}"))
            }
            RunError::Device(error) => error.help(),
            RunError::Unbound(_) | RunError::Cancelled => None,
        }
    }
}

/// The setting that a capacity comes from. Functions name a list `room_for_pairs` if its capacity is their setting `pairs`.
fn setting_of(node: &str) -> &str {
    let last = written_path(node).rsplit('.').next();
    last.and_then(|name| name.strip_prefix("room_for_")).unwrap_or("cap")
}

impl Coded for TensorError {
    fn code(&self) -> Option<Code> {
        match self {
            TensorError::TooLarge { .. } => Some(Code::E0116),
            TensorError::NoMemory { .. } => Some(Code::E0604),
            TensorError::WrongLength { .. } | TensorError::WrongType { .. } => None,
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            TensorError::TooLarge { .. } => Some("check the extents".to_string()),
            TensorError::NoMemory { .. } => {
                Some("end other programs, or take a machine with more memory or less data".to_string())
            }
            TensorError::WrongLength { .. } | TensorError::WrongType { .. } => None,
        }
    }
}
