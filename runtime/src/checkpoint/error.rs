//! Errors of reading and writing checkpoints.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::format::{MAX_HEADER_BYTES, METADATA};
use crate::data::table::listed;
use crate::files::Refusal;
use crate::tensor::TensorError;

/// An error of reading or writing a checkpoint: the file and the cause.
#[derive(Debug, Error)]
#[error("{}: {fact}", .path.display())]
pub struct CheckpointError {
    /// The file, as it was named.
    pub path: PathBuf,
    /// The cause.
    pub fact: CheckpointFact,
}

/// The cause of a checkpoint error.
#[derive(Debug, Error)]
pub enum CheckpointFact {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file cannot be written; the previous one is untouched.
    #[error("cannot be written; the previous file is unchanged: {0}")]
    Unwritable(io::Error),
    /// The file is complete, but a power failure might still undo it.
    #[error("was written, but its folder cannot be flushed to disk: {0}")]
    Unflushed(io::Error),
    /// The target is no file, or a file that must not be overwritten.
    #[error(transparent)]
    Refused(Refusal),
    /// A tensor has the name that the format reserves.
    #[error("`{METADATA}` cannot be the name of a tensor")]
    ReservedName,
    /// The file ends within the length of the header.
    #[error(
        "a safetensors file starts with the length of its header in 8 bytes, but this file has {n_bytes}"
    )]
    NoHeader {
        /// Bytes in the file.
        n_bytes: u64,
    },
    /// The file begins as a zip archive does.
    #[error("a zip archive, and no safetensors file")]
    Zip,
    /// The file begins as an array of NumPy does.
    #[error(
        "an array of NumPy, which has no name, and no safetensors file; `numpy.savez` writes named arrays (`.npz`)"
    )]
    Npy,
    /// The file begins as a gzipped one does.
    #[error("gzipped, which no file of weights may be; decompress it")]
    Gzip,
    /// The file begins as JSON does.
    #[error("JSON, and no safetensors file")]
    Json,
    /// A file of JSON does not list the tensors of several safetensors files.
    #[error("JSON, but no index of safetensors files: {why}")]
    BadIndex {
        /// The fault.
        why: String,
    },
    /// The index names a file elsewhere.
    #[error("the index has tensor `{tensor}` in `{file}`, but files outside its folder are not read")]
    OutsideFolder {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
    },
    /// Files that the index names are missing.
    #[error("the index names files that are not beside it: {}", listed(.files.iter()))]
    MissingFiles {
        /// The files.
        files: Vec<String>,
    },
    /// A file lacks a tensor that the index has in it.
    #[error("the index has tensor `{tensor}` in `{file}`, which lacks it")]
    NotInFile {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
    },
    /// The header is longer than the file, or than any header.
    #[error(
        "no safetensors file, or damaged at byte 0: a header of {n_header} bytes does not fit a file of {n_bytes} bytes (or the limit of {MAX_HEADER_BYTES})"
    )]
    AbsurdHeader {
        /// The header's length by the file.
        n_header: u64,
        /// Bytes in the file.
        n_bytes: u64,
    },
    /// The header is not the JSON that the format requires.
    #[error("at byte 8: the header is damaged: {why}")]
    BadHeader {
        /// The fault.
        why: String,
    },
    /// The header has no checksum.
    #[error("not a checkpoint of this engine, or damaged: the header does not start with a checksum")]
    NoChecksum,
    /// The header's checksum does not match.
    #[error("at byte 8: the header is damaged: its checksum is {found:08x}, not {expected}")]
    HeaderChecksum {
        /// The checksum by the file.
        expected: String,
        /// The checksum of the header as read.
        found: u32,
    },
    /// A tensor's checksum does not match.
    #[error("at byte {offset}: tensor `{name}` is damaged: its checksum is {found:08x}, not {expected}")]
    TensorChecksum {
        /// The tensor.
        name: String,
        /// The offset of its first byte.
        offset: u64,
        /// The checksum by the header.
        expected: String,
        /// The checksum of the bytes as read.
        found: u32,
    },
    /// The element type of a tensor is not supported.
    #[error("tensor `{name}` has element type {dtype}, which is not supported")]
    UnsupportedType {
        /// The tensor.
        name: String,
        /// The type as the format spells it.
        dtype: String,
    },
    /// The extents of a tensor are out of range.
    #[error("tensor `{name}`: {source}")]
    BadShape {
        /// The tensor.
        name: String,
        /// The fault of the extents.
        source: TensorError,
    },
    /// A tensor's bytes do not follow the previous tensor, or their number does not fit its type.
    #[error("tensor `{name}` should be bytes {expected:?} of the data, the header says {found:?}")]
    BadOffsets {
        /// The tensor.
        name: String,
        /// The range of bytes by its type and the tensors before it.
        expected: [u64; 2],
        /// The range by the header.
        found: [u64; 2],
    },
    /// The file is shorter or longer than its tensors.
    #[error("the header says {expected} bytes of data but the file has {found}")]
    WrongLength {
        /// Bytes that the tensors take.
        expected: u64,
        /// Bytes after the header.
        found: u64,
    },
    /// A boolean is neither 0 nor 1.
    #[error("tensor `{name}` of booleans has a byte that is neither 0 nor 1")]
    BadBool {
        /// The tensor.
        name: String,
    },
    /// A field of the run's state is absent or not of its type.
    #[error("the header's field `{key}` is missing or not understood")]
    BadMetadata {
        /// The field.
        key: String,
    },
}

impl CheckpointFact {
    /// Whether the cause is the machine, not the file or the path.
    pub fn is_of_machine(&self) -> bool {
        match self {
            CheckpointFact::Unwritable(_) | CheckpointFact::Unflushed(_) => true,
            CheckpointFact::Refused(refusal) => refusal.is_of_machine(),
            _ => false,
        }
    }
}
