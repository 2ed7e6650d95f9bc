//! Checkpoints: named tensors and the state of a run, in one safetensors file.
//!
//! A safetensors file is the length of a JSON header (u64, little-endian), the header, then the bytes of all
//! tensors without a gap. The header's `__metadata__` holds strings: here the state of the run, a CRC-32 for every
//! tensor, and one for the header itself, so that no flipped bit goes unnoticed. Any tool that knows the format can
//! read the tensors.
//!
//! Writing is all or nothing: the file takes its name only when every byte of it is on the disk. Only checkpoints are
//! replaced, unless that is asked for.

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

/// Everything that a run needs to go on as if it had never stopped.
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
    /// Identifies the graph that the tensors belong to.
    pub fingerprint: String,
    /// Whatever else the writer wants to keep, in order.
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
    /// Writes the checkpoint to `path`, in place of one that is there, creating its folder if need be.
    ///
    /// # Errors
    /// If another file is there or it cannot be written. Then what was at `path` is still there, and nothing else is left
    /// in the folder.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        write_on(&RealDisk, self, path, Overwrite::Own)
    }
}

const METADATA: &str = "__metadata__";
const EXTRA_PREFIX: &str = "extra.";
const TENSOR_SUM_PREFIX: &str = "crc32.";
/// Every header starts with these bytes, then come the eight digits of its own checksum, which is computed with
/// zeros in their place.
const HEADER_START: &str = r#"{"__metadata__":{"header_crc32":""#;
const NO_SUM: &str = "00000000";
/// The limit of the reference implementation.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The data starts at a multiple of this.
const DATA_ALIGNMENT: usize = 64;

/// Wide elements first, so that every tensor of a file is aligned for its type, as some readers require.
fn in_file_order(tensors: &IndexMap<String, HostTensor>) -> Vec<(&String, &HostTensor)> {
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype().size()));
    sorted
}

/// Whether the name of a file asks for an archive of NumPy's.
pub(crate) fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "npz")
}
