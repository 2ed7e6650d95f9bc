//! Writing: all or nothing.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::{
    Checkpoint, CheckpointError, CheckpointFact, DATA_ALIGNMENT, EXTRA_PREFIX, HEADER_START, METADATA,
    NO_SUM, TENSOR_SUM_PREFIX, in_file_order,
};
use crate::data::npz;
use crate::tensor::HostTensor;

/// Writes tensors as an archive of NumPy's, in place of what is there, all or nothing as [`Checkpoint::write`].
///
/// # Errors
/// If it cannot be written.
pub fn write_npz(path: &Path, tensors: &IndexMap<String, HostTensor>) -> Result<(), CheckpointError> {
    write_whole(&RealDisk, path, &|file| npz::write(tensors, file))
}

pub(super) fn write_on(disk: &dyn Disk, checkpoint: &Checkpoint, path: &Path) -> Result<(), CheckpointError> {
    if checkpoint.tensors.contains_key(METADATA) {
        let fact = CheckpointFact::ReservedName;
        return Err(CheckpointError { path: path.to_path_buf(), fact });
    }
    write_whole(disk, path, &|file| {
        let header = header_of(checkpoint);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        let mut tensors = in_file_order(&checkpoint.tensors).into_iter();
        tensors.try_for_each(|(_, tensor)| file.write_all(tensor.bytes()))
    })
}

type Content<'c> = dyn Fn(&mut dyn Write) -> io::Result<()> + 'c;

/// A file takes its name when all of its content is on the disk.
fn write_whole(disk: &dyn Disk, path: &Path, content: &Content<'_>) -> Result<(), CheckpointError> {
    let fail = |fact| CheckpointError { path: path.to_path_buf(), fact };
    let name = path.file_name().ok_or_else(|| fail(CheckpointFact::NoFileName))?;
    // Two writers must not share a temporary file; a leftover of a killed process may be overwritten.
    static N_WRITTEN: AtomicU64 = AtomicU64::new(0);
    let n_written = N_WRITTEN.fetch_add(1, Ordering::Relaxed);
    let temporary = format!(".{}.{}-{n_written}.tmp", name.to_string_lossy(), process::id());
    let temporary = path.with_file_name(temporary);
    let outcome = write_synced(disk, &temporary, content).and_then(|()| disk.rename(&temporary, path));
    if let Err(error) = outcome {
        // If the temporary file cannot be removed either, the first error is still the one to tell.
        drop(disk.remove(&temporary));
        return Err(fail(CheckpointFact::Unwritable(error)));
    }
    disk.sync_folder(folder_of(path)).map_err(|error| fail(CheckpointFact::Unflushed(error)))
}

fn write_synced(disk: &dyn Disk, path: &Path, content: &Content<'_>) -> io::Result<()> {
    let mut file = disk.create(path)?;
    content(&mut *file)?;
    file.sync()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The operations on which the safety of a write rests, so that tests can make each of them fail.
pub(super) trait Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

pub(super) trait DiskFile: Write {
    /// Returns when all that was written is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        fs::create_dir_all(folder_of(path))?;
        Ok(Box::new(File::create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Puts the new name itself on the disk, where the system can do that.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if cfg!(not(unix)) {
            return Ok(());
        }
        match File::open(folder)?.sync_all() {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }
}

impl DiskFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
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
