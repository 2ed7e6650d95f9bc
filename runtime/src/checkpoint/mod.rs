//! Checkpoints: named tensors and the state of a run, in one safetensors file.
//!
//! A safetensors file is the length of a JSON header (u64, little-endian), the header, then the bytes of all tensors
//! without a gap. The header's `__metadata__` holds strings. Here they are the state of the run, a CRC-32 for every
//! tensor, and one for the header itself. So every flipped bit is detected. Other tools that know the format can read
//! the tensors.
//!
//! A write is atomic: the file gets its name only when all its bytes are on the disk. Only checkpoints are replaced,
//! unless the caller allows more.

mod error;
mod mismatch;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use error::{CheckpointError, CheckpointFact};
pub use mismatch::{Mismatch, TensorType, compare};
pub use read::{Weights, read_extra, read_tensors};
pub use write::{ARCHIVE, CHECKPOINT};
pub(crate) use write::{write_arrays_on, write_on};

use std::path::Path;

use indexmap::IndexMap;

use crate::files::{Overwrite, RealDisk};
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
    /// Where the run stands in its data.
    pub cursor: Cursor,
    /// A hash of the graph that the tensors belong to.
    pub fingerprint: String,
    /// Further strings of the writer, in order.
    pub extra: IndexMap<String, String>,
}

/// The next row to be read: its epoch and its place in that epoch's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Epochs completed.
    pub epoch: u64,
    /// Rows of the current epoch already used.
    pub row: u64,
}

impl Checkpoint {
    /// Writes the checkpoint to `path`, in place of an existing one. The folder is created if it is missing.
    ///
    /// # Errors
    /// If `path` is a file that is no checkpoint, or cannot be written. Then the file at `path` is unchanged, and no
    /// other file is left in the folder.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        write_on(&RealDisk, self, path, Overwrite::Own)
    }
}

const METADATA: &str = "__metadata__";
const EXTRA_PREFIX: &str = "extra.";
const TENSOR_SUM_PREFIX: &str = "crc32.";
/// Every header starts with these bytes, followed by the eight digits of its own checksum. The checksum is computed
/// with zeros in their place.
const HEADER_START: &str = r#"{"__metadata__":{"header_crc32":""#;
const NO_SUM: &str = "00000000";
/// The limit of the reference implementation.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The data starts at a multiple of this.
const DATA_ALIGNMENT: usize = 64;

/// Tensors in descending order of element size, so that every tensor in a file is aligned for its type. Some readers
/// require it.
fn in_file_order(tensors: &IndexMap<String, HostTensor>) -> Vec<(&String, &HostTensor)> {
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype().size()));
    sorted
}
