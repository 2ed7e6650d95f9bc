//! Checkpoints: named tensors and the state of a run, in one safetensors file.
//!
//! A safetensors file is the length of a JSON header (u64, little-endian), the header, then the bytes of all tensors
//! without a gap. The header's `__metadata__` holds strings. Here they are the state of the run, a CRC-32 for every
//! tensor, and one for the header itself. Every flipped bit is detected. Other tools that know the format can read
//! the tensors.
//!
//! A write is atomic: the file gets its name only when all its bytes are on the disk. Only checkpoints are replaced,
//! unless the caller allows more.

mod error;
mod foreign;
mod format;
mod index;
mod mismatch;
mod read;
#[cfg(test)]
mod tests;
mod weights;
mod write;

pub use error::{CheckpointError, CheckpointFact};
pub use mismatch::{Mismatch, TensorType, compare};
pub use read::{Weights, read_extra};
pub use weights::{read_needed, read_tensors};
pub use write::{ARCHIVE, CHECKPOINT};
pub(crate) use write::{write_arrays_on, write_on};

use indexmap::IndexMap;
use std::path::Path;

use crate::tensor::HostTensor;

/// The complete state of a run, from which it can be resumed with identical results.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Checkpoint {
    /// Parameters and optimizer state by name, in the graph's order.
    pub tensors: IndexMap<String, HostTensor>,
    /// Steps taken.
    pub step: u64,
    /// The seed of the run.
    pub seed: u64,
    /// The position of the run in its data.
    pub cursor: Cursor,
    /// A hash of the graph that the tensors belong to.
    pub fingerprint: String,
    /// Further strings of the writer, in order.
    pub extra: IndexMap<String, String>,
}

/// The position of the next row: its epoch, and its place in the order of that epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Epochs completed.
    pub epoch: u64,
    /// Rows of the current epoch already used.
    pub row: u64,
}

/// Whether the name of a file has the extension of a NumPy archive.
pub(crate) fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "npz")
}
