//! Writing checkpoints and archives, each as an atomic replacement of a file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::format::{
    DATA_ALIGNMENT, EXTRA_PREFIX, HEADER_START, METADATA, NO_SUM, TENSOR_SUM_PREFIX, in_file_order,
};
use super::{Checkpoint, CheckpointError, CheckpointFact};
use crate::data::npz;
use crate::files::{self, Content, Disk, Format, Overwrite, RealDisk, Target, WriteFault};
use crate::tensor::HostTensor;

/// The format of checkpoints.
pub const CHECKPOINT: Format = Format {
    name: "a checkpoint",
    is_own: |file| holds(file, SeekFrom::Start(8), HEADER_START),
    into_special: false,
};
/// The format of archives of arrays.
pub const ARCHIVE: Format = Format {
    name: "an archive",
    is_own: |file| holds(file, SeekFrom::End(-(npz::COMMENT.len() as i64)), npz::COMMENT),
    into_special: false,
};

/// Whether a file has this text at this place.
fn holds(file: &mut File, place: SeekFrom, text: &str) -> io::Result<bool> {
    // A file that is too short has no such place.
    if file.seek(place).is_err() {
        return Ok(false);
    }
    let mut found = vec![];
    file.take(text.len() as u64).read_to_end(&mut found)?;
    Ok(found == text.as_bytes())
}

impl Checkpoint {
    /// Writes the checkpoint to `path`, in place of an existing one. The folder is created if it is missing.
    ///
    /// # Errors
    /// If `path` is a file that is no checkpoint, or cannot be written. Then the file at `path` is unchanged, and no
    /// other file is left in the folder.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        self.write_over(path, Overwrite::Own)
    }

    /// As [`Checkpoint::write`], with that treatment of existing files.
    ///
    /// # Errors
    /// As for [`Checkpoint::write`].
    pub fn write_over(&self, path: &Path, overwrite: Overwrite) -> Result<(), CheckpointError> {
        write_on(&RealDisk, self, path, overwrite)
    }
}

/// Writes a checkpoint.
pub(crate) fn write_on(
    disk: &dyn Disk,
    checkpoint: &Checkpoint,
    path: &Path,
    overwrite: Overwrite,
) -> Result<(), CheckpointError> {
    if checkpoint.tensors.contains_key(METADATA) {
        return Err(CheckpointError { path: path.to_path_buf(), fact: CheckpointFact::ReservedName });
    }
    write_file(disk, (path, &CHECKPOINT, overwrite), &|file| write_content(checkpoint, file))
}

/// Writes tensors as a NumPy archive.
pub(crate) fn write_arrays_on(
    disk: &dyn Disk,
    tensors: &IndexMap<String, HostTensor>,
    path: &Path,
    overwrite: Overwrite,
) -> Result<(), CheckpointError> {
    write_file(disk, (path, &ARCHIVE, overwrite), &|file| npz::write(tensors, file))
}

fn write_file(
    disk: &dyn Disk,
    (path, format, overwrite): (&Path, &Format, Overwrite),
    content: &Content<'_>,
) -> Result<(), CheckpointError> {
    let fail = |fact| CheckpointError { path: path.to_path_buf(), fact };
    let target =
        Target::new(path, format, overwrite).map_err(|refusal| fail(CheckpointFact::Refused(refusal)))?;
    files::write_on(disk, &target, content).map_err(|fault| {
        fail(match fault {
            WriteFault::Unwritable(error) => CheckpointFact::Unwritable(error),
            WriteFault::Unflushed(error) => CheckpointFact::Unflushed(error),
        })
    })
}

fn write_content(checkpoint: &Checkpoint, file: &mut dyn Write) -> io::Result<()> {
    let header = header_of(checkpoint);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut tensors = in_file_order(&checkpoint.tensors).into_iter();
    tensors.try_for_each(|(_, tensor)| file.write_all(tensor.bytes()))
}

/// The header's JSON, padded so that the data after it is aligned.
fn header_of(checkpoint: &Checkpoint) -> String {
    let mut fields = serde_json::Map::new();
    fields.insert(METADATA.to_string(), metadata_of(checkpoint));
    fields.extend(checkpoint.tensors.keys().map(|name| (name.clone(), Value::Null)));
    let mut offset = 0;
    for (name, tensor) in in_file_order(&checkpoint.tensors) {
        let end = offset + tensor.bytes().len();
        let dtype = tensor.dtype().name().to_uppercase();
        fields[name] = json!({"dtype": dtype, "shape": tensor.shape(), "data_offsets": [offset, end]});
        offset = end;
    }
    let mut header = Value::Object(fields).to_string();
    let n_padded = (8 + header.len()).next_multiple_of(DATA_ALIGNMENT) - 8;
    header.extend(std::iter::repeat_n(' ', n_padded - header.len()));
    let sum = format!("{:08x}", crc32fast::hash(header.as_bytes()));
    header.replace_range(HEADER_START.len()..HEADER_START.len() + NO_SUM.len(), &sum);
    header
}

fn metadata_of(checkpoint: &Checkpoint) -> Value {
    let Checkpoint { tensors, step, seed, cursor, fingerprint, extra } = checkpoint;
    let mut metadata = serde_json::Map::new();
    let mut set = |key: String, value: String| metadata.insert(key, Value::String(value));
    set("header_crc32".to_string(), NO_SUM.to_string());
    set("step".to_string(), step.to_string());
    set("seed".to_string(), seed.to_string());
    set("epoch".to_string(), cursor.epoch.to_string());
    set("row".to_string(), cursor.row.to_string());
    set("fingerprint".to_string(), fingerprint.clone());
    for (name, value) in extra {
        set(format!("{EXTRA_PREFIX}{name}"), value.clone());
    }
    for (name, tensor) in tensors {
        set(format!("{TENSOR_SUM_PREFIX}{name}"), format!("{:08x}", crc32fast::hash(tensor.bytes())));
    }
    Value::Object(metadata)
}
