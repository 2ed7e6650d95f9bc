//! Checkpoints: named tensors and the state of a run, in one safetensors file.
//!
//! A safetensors file is the length of a JSON header (u64, little-endian), the header, then the bytes of all
//! tensors without a gap. The header's `__metadata__` holds strings: here the state of the run, a CRC-32 for every
//! tensor, and one for the header itself, so that no flipped bit goes unnoticed. Any tool that knows the format can
//! read the tensors.
//!
//! Writing is all or nothing: the file takes its name only when every byte of it is on the disk.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use engine_core::ir::DType;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use crate::tensor::{HostTensor, TensorError, byte_len, type_text};

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
    /// The choices made by timing, so that a resumed run makes the same ones.
    pub tuning: Value,
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
    /// Writes the checkpoint to `path`, in place of what is there, creating its folder if need be.
    ///
    /// If that fails, what was at `path` is still there and nothing else is left in the folder.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        write_on(&RealDisk, self, path)
    }

    /// Reads the checkpoint at `path`; damage of any kind is an error.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let (n_bytes, mut file) = open(path)?;
        Checkpoint::read_from(&Reading { path, n_bytes }, &mut file)
    }

    /// Reads the bytes of a checkpoint; `path` is named in errors and not opened.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, CheckpointError> {
        Checkpoint::read_from(&Reading { path, n_bytes: bytes.len() as u64 }, &mut &*bytes)
    }

    fn read_from(reading: &Reading<'_>, stream: &mut dyn Read) -> Result<Self, CheckpointError> {
        let text = reading.header_text(stream)?;
        reading.check_header_sum(&text)?;
        let Weights { tensors, metadata } = reading.weights(&text, stream)?;
        reading.check_tensor_sums(&text, &tensors, &metadata)?;
        let number = |key| reading.metadata::<u64>(&metadata, key);
        Ok(Checkpoint {
            step: number("step")?,
            seed: number("seed")?,
            cursor: Cursor { epoch: number("epoch")?, row: number("row")? },
            fingerprint: reading.metadata(&metadata, "fingerprint")?,
            tuning: reading.metadata(&metadata, "tuning")?,
            extra: with_prefix(&metadata, EXTRA_PREFIX),
            tensors,
        })
    }
}

/// The tensors of a safetensors file of any origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The tensors by name, in the order of the header.
    pub tensors: IndexMap<String, HostTensor>,
    /// The strings that the writing tool added.
    pub metadata: IndexMap<String, String>,
}

impl Weights {
    /// Reads a safetensors file that another tool may have written. The format has no checksum, so only damage that
    /// contradicts itself is noticed.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let (n_bytes, mut file) = open(path)?;
        Weights::read_from(&Reading { path, n_bytes }, &mut file)
    }

    /// Reads the bytes of a safetensors file; `path` is named in errors and not opened.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, CheckpointError> {
        Weights::read_from(&Reading { path, n_bytes: bytes.len() as u64 }, &mut &*bytes)
    }

    fn read_from(reading: &Reading<'_>, stream: &mut dyn Read) -> Result<Self, CheckpointError> {
        let text = reading.header_text(stream)?;
        reading.weights(&text, stream)
    }
}

/// The tensors of a checkpoint, verified, or those of a safetensors file of another tool.
pub fn read_tensors(path: &Path) -> Result<IndexMap<String, HostTensor>, CheckpointError> {
    let error = match Checkpoint::read(path) {
        Ok(checkpoint) => return Ok(checkpoint.tensors),
        Err(error) => error,
    };
    if !matches!(error.fact, CheckpointFact::NoChecksum) {
        return Err(error);
    }
    let weights = Weights::read(path)?;
    // A file of ours whose first bytes are damaged is not one of another tool.
    let is_ours = weights.metadata.keys().any(|key| key.starts_with(TENSOR_SUM_PREFIX));
    if is_ours { Err(error) } else { Ok(weights.tensors) }
}

/// A tensor that a graph needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its extents.
    pub shape: Vec<usize>,
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}: {}`", self.name, type_text(self.dtype, &self.shape))
    }
}

/// How the tensors of a file differ from those that a graph needs.
#[derive(Clone, Debug, PartialEq, Eq, Default, Error)]
pub struct Mismatch {
    /// Needed, and not in the file.
    pub missing: Vec<TensorType>,
    /// In the file, and not needed.
    pub unexpected: Vec<TensorType>,
    /// In both with different types: as needed, then as found.
    pub different: Vec<(TensorType, TensorType)>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tensors do not match the graph")?;
        self.missing.iter().try_for_each(|needed| write!(f, "\n  {needed} is missing"))?;
        self.unexpected.iter().try_for_each(|found| write!(f, "\n  {found} is not in the graph"))?;
        self.different.iter().try_for_each(|(needed, found)| {
            write!(f, "\n  {needed} is {} in the file", type_text(found.dtype, &found.shape))
        })
    }
}

/// Compares the tensors of a file with those that a graph needs, by name; their order does not matter.
pub fn compare(needed: &[TensorType], found: &IndexMap<String, HostTensor>) -> Result<(), Mismatch> {
    let mut mismatch = Mismatch::default();
    for needed in needed {
        match found.get(&needed.name).map(|tensor| tensor_type(&needed.name, tensor)) {
            None => mismatch.missing.push(needed.clone()),
            Some(found) if found != *needed => mismatch.different.push((needed.clone(), found)),
            Some(_) => {}
        }
    }
    let is_needed = |name: &str| needed.iter().any(|needed| needed.name == name);
    let unexpected = found.iter().filter(|(name, _)| !is_needed(name));
    mismatch.unexpected = unexpected.map(|(name, tensor)| tensor_type(name, tensor)).collect();
    if mismatch == Mismatch::default() { Ok(()) } else { Err(mismatch) }
}

fn tensor_type(name: &str, tensor: &HostTensor) -> TensorType {
    TensorType { name: name.to_string(), dtype: tensor.dtype(), shape: tensor.shape().to_vec() }
}

/// Why a checkpoint cannot be read or written: the file, the fact.
#[derive(Debug, Error)]
#[error("{}: {fact}", .path.display())]
pub struct CheckpointError {
    /// The file, as it was named.
    pub path: PathBuf,
    /// What is wrong.
    pub fact: CheckpointFact,
}

/// What is wrong with a checkpoint.
#[derive(Debug, Error)]
pub enum CheckpointFact {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file cannot be written; the previous one is untouched.
    #[error("cannot be written, what was there before is untouched: {0}")]
    Unwritable(io::Error),
    /// The file is complete, but a power failure might still undo it.
    #[error("was written, but its folder cannot be flushed to disk: {0}")]
    Unflushed(io::Error),
    /// The path names no file.
    #[error("is not the name of a file")]
    NoFileName,
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
    /// The header is longer than the file, or than any header.
    #[error(
        "at byte 0: a header of {n_header} bytes does not fit a file of {n_bytes} bytes (or the limit of {MAX_HEADER_BYTES})"
    )]
    AbsurdHeader {
        /// The header's length by the file.
        n_header: u64,
        /// Bytes in the file.
        n_bytes: u64,
    },
    /// The header is not the JSON that the format calls for.
    #[error("at byte 8: the header is damaged: {why}")]
    BadHeader {
        /// What is wrong with it.
        why: String,
    },
    /// The header carries no checksum.
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
        /// Where it starts.
        offset: u64,
        /// The checksum by the header.
        expected: String,
        /// The checksum of the bytes as read.
        found: u32,
    },
    /// The element type of a tensor is none of those that tensors here can have.
    #[error("tensor `{name}` has element type {dtype}, which is not supported")]
    UnsupportedType {
        /// The tensor.
        name: String,
        /// The type as the format spells it.
        dtype: String,
    },
    /// The extents of a tensor are absurd.
    #[error("tensor `{name}`: {source}")]
    BadShape {
        /// The tensor.
        name: String,
        /// What is wrong with them.
        source: TensorError,
    },
    /// A tensor's bytes do not lie where the previous ones end, or are not as many as its type calls for.
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

fn write_on(disk: &dyn Disk, checkpoint: &Checkpoint, path: &Path) -> Result<(), CheckpointError> {
    let fail = |fact| CheckpointError { path: path.to_path_buf(), fact };
    let name = path.file_name().ok_or_else(|| fail(CheckpointFact::NoFileName))?;
    if checkpoint.tensors.contains_key(METADATA) {
        return Err(fail(CheckpointFact::ReservedName));
    }
    // Two writers must not share a temporary file; a leftover of a killed process may be overwritten.
    static N_WRITTEN: AtomicU64 = AtomicU64::new(0);
    let n_written = N_WRITTEN.fetch_add(1, Ordering::Relaxed);
    let temporary = format!(".{}.{}-{n_written}.tmp", name.to_string_lossy(), process::id());
    let temporary = path.with_file_name(temporary);
    let outcome = write_synced(disk, checkpoint, &temporary).and_then(|()| disk.rename(&temporary, path));
    if let Err(error) = outcome {
        // If the temporary file cannot be removed either, the first error is still the one to tell.
        drop(disk.remove(&temporary));
        return Err(fail(CheckpointFact::Unwritable(error)));
    }
    disk.sync_folder(folder_of(path)).map_err(|error| fail(CheckpointFact::Unflushed(error)))
}

fn write_synced(disk: &dyn Disk, checkpoint: &Checkpoint, path: &Path) -> io::Result<()> {
    let mut file = disk.create(path)?;
    let header = header_of(checkpoint);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for (_, tensor) in in_file_order(&checkpoint.tensors) {
        file.write_all(tensor.bytes())?;
    }
    file.sync()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The operations on which the safety of a write rests, so that tests can make each of them fail.
trait Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

trait DiskFile: Write {
    /// Returns when all that was written is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

struct RealDisk;

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

/// Wide elements first, so that every tensor of a file is aligned for its type, as some readers require.
fn in_file_order(tensors: &IndexMap<String, HostTensor>) -> Vec<(&String, &HostTensor)> {
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype().size()));
    sorted
}

fn metadata_of(checkpoint: &Checkpoint) -> Value {
    let Checkpoint { tensors, step, seed, cursor, fingerprint, tuning, extra } = checkpoint;
    let mut metadata = serde_json::Map::new();
    let mut set = |key: String, value: String| metadata.insert(key, Value::String(value));
    set("header_crc32".to_string(), NO_SUM.to_string());
    set("step".to_string(), step.to_string());
    set("seed".to_string(), seed.to_string());
    set("epoch".to_string(), cursor.epoch.to_string());
    set("row".to_string(), cursor.row.to_string());
    set("fingerprint".to_string(), fingerprint.clone());
    set("tuning".to_string(), tuning.to_string());
    for (name, value) in extra {
        set(format!("{EXTRA_PREFIX}{name}"), value.clone());
    }
    for (name, tensor) in tensors {
        set(format!("{TENSOR_SUM_PREFIX}{name}"), format!("{:08x}", crc32fast::hash(tensor.bytes())));
    }
    Value::Object(metadata)
}

fn open(path: &Path) -> Result<(u64, BufReader<File>), CheckpointError> {
    let fail = |error| CheckpointError { path: path.to_path_buf(), fact: CheckpointFact::Unreadable(error) };
    let file = File::open(path).map_err(fail)?;
    let n_bytes = file.metadata().map_err(fail)?.len();
    Ok((n_bytes, BufReader::new(file)))
}

/// A file being read: its name for errors, its size to hold claims against.
struct Reading<'a> {
    path: &'a Path,
    n_bytes: u64,
}

/// What the header says about one tensor.
#[derive(Deserialize)]
#[serde(expecting = "dtype, shape and data_offsets")]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

impl Reading<'_> {
    fn header_text(&self, stream: &mut dyn Read) -> Result<String, CheckpointError> {
        let n_bytes = self.n_bytes;
        if n_bytes < 8 {
            return Err(self.fail(CheckpointFact::NoHeader { n_bytes }));
        }
        let mut n_header = [0; 8];
        self.read_exact(stream, &mut n_header)?;
        let n_header = u64::from_le_bytes(n_header);
        if n_header > MAX_HEADER_BYTES.min(n_bytes - 8) {
            return Err(self.fail(CheckpointFact::AbsurdHeader { n_header, n_bytes }));
        }
        let mut text = vec![0; n_header as usize];
        self.read_exact(stream, &mut text)?;
        String::from_utf8(text).map_err(|error| self.bad_header(&error))
    }

    fn check_header_sum(&self, text: &str) -> Result<(), CheckpointError> {
        let after = text.strip_prefix(HEADER_START);
        let sum_and_rest = after.and_then(|after| after.split_at_checked(NO_SUM.len()));
        let (expected, rest) = sum_and_rest.ok_or_else(|| self.fail(CheckpointFact::NoChecksum))?;
        let mut sum = crc32fast::Hasher::new();
        [HEADER_START, NO_SUM, rest].iter().for_each(|part| sum.update(part.as_bytes()));
        let found = sum.finalize();
        if expected == format!("{found:08x}") {
            return Ok(());
        }
        Err(self.fail(CheckpointFact::HeaderChecksum { expected: expected.to_string(), found }))
    }

    fn weights(&self, text: &str, stream: &mut dyn Read) -> Result<Weights, CheckpointError> {
        let mut fields: IndexMap<String, Value> =
            serde_json::from_str(text).map_err(|error| self.bad_header(&error))?;
        let metadata = match fields.shift_remove(METADATA) {
            Some(metadata) => serde_json::from_value(metadata).map_err(|error| self.bad_header(&error))?,
            None => IndexMap::new(),
        };
        let entries = self.entries(fields)?;
        self.check_layout(&entries, self.n_bytes - 8 - text.len() as u64)?;
        Ok(Weights { tensors: self.tensors(&entries, stream)?, metadata })
    }

    fn entries(
        &self,
        fields: IndexMap<String, Value>,
    ) -> Result<IndexMap<String, (TensorType, [u64; 2])>, CheckpointError> {
        let entry = |(name, field): (String, Value)| {
            let entry: Entry = serde_json::from_value(field)
                .map_err(|error| self.bad_header(&format_args!("tensor `{name}`: {error}")))?;
            let Entry { dtype, shape, data_offsets } = entry;
            let Some(known) = DType::ALL.into_iter().find(|known| known.name().to_uppercase() == dtype)
            else {
                return Err(self.fail(CheckpointFact::UnsupportedType { name, dtype }));
            };
            Ok((name.clone(), (TensorType { name, dtype: known, shape }, data_offsets)))
        };
        fields.into_iter().map(entry).collect()
    }

    /// The tensors must tile the data, in whatever order. This bounds all that is allocated by the file's size.
    fn check_layout(&self, entries: &Entries, n_data: u64) -> Result<(), CheckpointError> {
        let mut end = 0;
        for (TensorType { name, dtype, shape }, found) in by_offset(entries) {
            let n_bytes = byte_len(*dtype, shape)
                .map_err(|source| self.fail(CheckpointFact::BadShape { name: name.clone(), source }))?;
            let expected = [end, u64::saturating_add(end, n_bytes as u64)];
            if *found != expected {
                let fact = CheckpointFact::BadOffsets { name: name.clone(), expected, found: *found };
                return Err(self.fail(fact));
            }
            end = expected[1];
        }
        if end == n_data {
            return Ok(());
        }
        Err(self.fail(CheckpointFact::WrongLength { expected: end, found: n_data }))
    }

    fn tensors(
        &self,
        entries: &Entries,
        stream: &mut dyn Read,
    ) -> Result<IndexMap<String, HostTensor>, CheckpointError> {
        let mut tensors = IndexMap::new();
        for (TensorType { name, dtype, shape }, _) in by_offset(entries) {
            let mut tensor = HostTensor::zeros(*dtype, shape)
                .map_err(|source| self.fail(CheckpointFact::BadShape { name: name.clone(), source }))?;
            self.read_exact(stream, tensor.bytes_mut())?;
            if *dtype == DType::Bool && tensor.bytes().iter().any(|&byte| byte > 1) {
                return Err(self.fail(CheckpointFact::BadBool { name: name.clone() }));
            }
            tensors.insert(name.clone(), tensor);
        }
        tensors.sort_by_key(|name, _| entries.get_index_of(name));
        Ok(tensors)
    }

    fn check_tensor_sums(
        &self,
        text: &str,
        tensors: &IndexMap<String, HostTensor>,
        metadata: &IndexMap<String, String>,
    ) -> Result<(), CheckpointError> {
        let mut offset = 8 + text.len() as u64;
        for (name, tensor) in in_file_order(tensors) {
            let expected: String = self.metadata(metadata, &format!("{TENSOR_SUM_PREFIX}{name}"))?;
            let found = crc32fast::hash(tensor.bytes());
            if expected != format!("{found:08x}") {
                let name = name.clone();
                return Err(self.fail(CheckpointFact::TensorChecksum { name, offset, expected, found }));
            }
            offset += tensor.bytes().len() as u64;
        }
        Ok(())
    }

    fn metadata<T: FromStr>(
        &self,
        metadata: &IndexMap<String, String>,
        key: &str,
    ) -> Result<T, CheckpointError> {
        let value = metadata.get(key).and_then(|value| value.parse().ok());
        value.ok_or_else(|| self.fail(CheckpointFact::BadMetadata { key: key.to_string() }))
    }

    fn read_exact(&self, stream: &mut dyn Read, bytes: &mut [u8]) -> Result<(), CheckpointError> {
        stream.read_exact(bytes).map_err(|error| self.fail(CheckpointFact::Unreadable(error)))
    }

    fn bad_header(&self, why: &dyn fmt::Display) -> CheckpointError {
        self.fail(CheckpointFact::BadHeader { why: why.to_string() })
    }

    fn fail(&self, fact: CheckpointFact) -> CheckpointError {
        CheckpointError { path: self.path.to_path_buf(), fact }
    }
}

type Entries = IndexMap<String, (TensorType, [u64; 2])>;

fn by_offset(entries: &Entries) -> Vec<&(TensorType, [u64; 2])> {
    let mut sorted: Vec<_> = entries.values().collect();
    sorted.sort_by_key(|(_, offsets)| *offsets);
    sorted
}

fn with_prefix(metadata: &IndexMap<String, String>, prefix: &str) -> IndexMap<String, String> {
    let stripped = metadata.iter().filter_map(|(key, value)| Some((key.strip_prefix(prefix)?, value)));
    stripped.map(|(key, value)| (key.to_string(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::{Duration, Instant};

    use half::{bf16, f16};
    use safetensors::SafeTensors;
    use safetensors::tensor::TensorView;

    use super::*;
    use crate::data::philox::WordStream;

    fn small(step: u64) -> Checkpoint {
        let tensors = [
            ("mask", HostTensor::from_bytes(DType::Bool, &[3], &[1, 0, 1]).unwrap()),
            (
                "w1",
                HostTensor::from_slice(&[2, 3], &[1.0f32, -2.5, f32::NAN, 0.0, -0.0, f32::INFINITY]).unwrap(),
            ),
            ("empty", HostTensor::zeros(DType::F32, &[0, 4]).unwrap()),
            ("step", HostTensor::scalar(step as i64)),
        ];
        Checkpoint {
            tensors: tensors.into_iter().map(|(name, tensor)| (name.to_string(), tensor)).collect(),
            step,
            seed: u64::MAX,
            cursor: Cursor { epoch: 3, row: 640 },
            fingerprint: "5f2b".to_string(),
            tuning: json!({"matmul h": {"algorithm": 3}, "fuse": [true, null]}),
            extra: IndexMap::from([("best \"loss\"".to_string(), "0.25\n".to_string())]),
        }
    }

    fn bytes_of(checkpoint: &Checkpoint) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ckpt");
        checkpoint.write(&path).unwrap();
        fs::read(path).unwrap()
    }

    fn parse(bytes: &[u8]) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::parse(Path::new("a.ckpt"), bytes)
    }

    /// A safetensors file with this header and this many bytes of data.
    fn file(header: &str, n_data: usize) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![7; n_data]].concat()
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/folder/a.ckpt");
        small(17).write(&path).unwrap();
        let read = Checkpoint::read(&path).unwrap();
        assert_eq!(read, small(17));
        assert!(read.tensors.keys().eq(["mask", "w1", "empty", "step"]));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);

        small(18).write(&path).unwrap();
        assert_eq!(Checkpoint::read(&path).unwrap().step, 18);
        assert_eq!(parse(&bytes_of(&Checkpoint::default())).unwrap(), Checkpoint::default());
    }

    #[test]
    fn the_same_checkpoint_is_the_same_bytes() {
        assert_eq!(bytes_of(&small(1)), bytes_of(&small(1)));
    }

    /// The reference implementation of the format reads ours, and finds every tensor aligned.
    #[test]
    fn other_tools_read_our_files() {
        let bytes = bytes_of(&small(17));
        let theirs = SafeTensors::deserialize(&bytes).unwrap();
        let ours = small(17).tensors;
        assert_eq!(theirs.len(), ours.len());
        for (name, tensor) in &ours {
            let view = theirs.tensor(name).unwrap();
            assert_eq!((view.shape(), view.data()), (tensor.shape(), tensor.bytes()));
            assert_eq!(format!("{:?}", view.dtype()).to_lowercase(), tensor.dtype().name());
            let offset = view.data().as_ptr() as usize - bytes.as_ptr() as usize;
            assert_eq!(offset % tensor.dtype().size(), 0, "{name}");
        }
    }

    #[test]
    fn we_read_files_of_other_tools() {
        let f16s: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
        let bf16s: Vec<u8> = [3.0f32].iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect();
        let tensors = [
            ("layer.weight", TensorView::new(safetensors::Dtype::F16, vec![1, 2], &f16s).unwrap()),
            ("layer.bias", TensorView::new(safetensors::Dtype::BF16, vec![1], &bf16s).unwrap()),
        ];
        let metadata = std::collections::HashMap::from([("format".to_string(), "pt".to_string())]);
        let bytes = safetensors::serialize(tensors, Some(metadata)).unwrap();
        let weights = Weights::parse(Path::new("a.safetensors"), &bytes).unwrap();
        assert_eq!(weights.metadata["format"], "pt");
        assert_eq!(weights.tensors["layer.weight"].to_f64(), [1.5, -2.0]);
        assert_eq!(weights.tensors["layer.bias"].to_f64(), [3.0]);

        let error = parse(&bytes).unwrap_err();
        assert!(matches!(error.fact, CheckpointFact::NoChecksum), "{error}");
    }

    /// A disk with room for so many bytes, or one that fails at a later point.
    struct BadDisk {
        room: Rc<Cell<usize>>,
        fails_at: &'static str,
    }

    impl BadDisk {
        fn check(&self, point: &str) -> io::Result<()> {
            if self.fails_at == point { Err(io::Error::other(point.to_string())) } else { Ok(()) }
        }
    }

    impl Disk for BadDisk {
        fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
            self.check("create")?;
            let fails_to_sync = self.fails_at == "sync";
            Ok(Box::new(BadFile { file: RealDisk.create(path)?, room: Rc::clone(&self.room), fails_to_sync }))
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.check("rename").and_then(|()| RealDisk.rename(from, to))
        }
        fn remove(&self, path: &Path) -> io::Result<()> {
            RealDisk.remove(path)
        }
        fn sync_folder(&self, folder: &Path) -> io::Result<()> {
            self.check("sync folder").and_then(|()| RealDisk.sync_folder(folder))
        }
    }

    struct BadFile {
        file: Box<dyn DiskFile>,
        room: Rc<Cell<usize>>,
        fails_to_sync: bool,
    }

    impl Write for BadFile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room.get() == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let n_written = self.file.write(&bytes[..bytes.len().min(self.room.get())])?;
            self.room.set(self.room.get() - n_written);
            Ok(n_written)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.file.flush()
        }
    }

    impl DiskFile for BadFile {
        fn sync(&mut self) -> io::Result<()> {
            if self.fails_to_sync { Err(io::Error::other("sync")) } else { self.file.sync() }
        }
    }

    fn disk(room: usize, fails_at: &'static str) -> BadDisk {
        BadDisk { room: Rc::new(Cell::new(room)), fails_at }
    }

    #[test]
    fn a_full_disk_leaves_the_previous_checkpoint_and_no_litter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ckpt");
        small(1).write(&path).unwrap();
        let before = fs::read(&path).unwrap();
        for room in 0..before.len() {
            let error = write_on(&disk(room, ""), &small(2), &path).unwrap_err();
            let full = matches!(&error.fact, CheckpointFact::Unwritable(error) if error.kind() == io::ErrorKind::StorageFull);
            assert!(full, "room for {room}: {error}");
            assert_eq!(fs::read(&path).unwrap(), before);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
        write_on(&disk(before.len(), ""), &small(2), &path).unwrap();
        assert_eq!(Checkpoint::read(&path).unwrap().step, 2);
    }

    #[test]
    fn a_failure_at_any_other_point_is_as_harmless() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ckpt");
        small(1).write(&path).unwrap();
        for point in ["create", "sync", "rename"] {
            let error = write_on(&disk(usize::MAX, point), &small(2), &path).unwrap_err();
            let expected = format!("cannot be written, what was there before is untouched: {point}");
            assert!(error.to_string().ends_with(&expected), "{error}");
            assert_eq!(Checkpoint::read(&path).unwrap(), small(1));
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
        let error = write_on(&disk(usize::MAX, "sync folder"), &small(2), &path).unwrap_err();
        assert!(matches!(error.fact, CheckpointFact::Unflushed(_)), "{error}");
        assert_eq!(Checkpoint::read(&path).unwrap(), small(2));
    }

    #[test]
    fn names_that_cannot_be_written_are_refused() {
        let error = small(1).write(Path::new("..")).unwrap_err();
        assert_eq!(error.to_string(), "..: is not the name of a file");
        let mut reserved = small(1);
        reserved.tensors.insert(METADATA.to_string(), HostTensor::scalar(0u8));
        let error = reserved.write(Path::new("never-written")).unwrap_err();
        assert_eq!(error.to_string(), "never-written: `__metadata__` cannot be the name of a tensor");
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_noticed() {
        let bytes = bytes_of(&small(17));
        for n_kept in 0..bytes.len() {
            assert!(parse(&bytes[..n_kept]).is_err(), "cut after {n_kept}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&flipped).is_err(), "bit {bit}");
        }
        assert!(parse(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn damage_is_told_with_its_place() {
        let bytes = bytes_of(&small(17));
        let n_bytes = bytes.len();
        let n_header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;

        // The data holds `step` (8 bytes), `w1` (24), `empty` (0), `mask` (3).
        let mut flipped = bytes.clone();
        flipped[8 + n_header + 9] ^= 0x10;
        let error = parse(&flipped).unwrap_err().to_string();
        let expected =
            format!("a.ckpt: at byte {}: tensor `w1` is damaged: its checksum is ", 8 + n_header + 8);
        assert!(error.starts_with(&expected), "{error}");

        let error = parse(&bytes[..n_bytes - 2]).unwrap_err().to_string();
        assert_eq!(error, "a.ckpt: the header says 35 bytes of data but the file has 33");

        let text = String::from_utf8(bytes[8..8 + n_header].to_vec()).unwrap();
        let changed = text.replace(r#""step":"17""#, r#""step":"71""#);
        let error = parse(&file(&changed, 35)).unwrap_err().to_string();
        assert!(error.starts_with("a.ckpt: at byte 8: the header is damaged: its checksum is "), "{error}");
    }

    #[track_caller]
    fn check_error(bytes: &[u8], expected: &str) {
        let error = Weights::parse(Path::new("a.safetensors"), bytes).unwrap_err();
        assert_eq!(error.to_string(), format!("a.safetensors: {expected}"));
    }

    #[test]
    fn headers_that_lie_are_refused() {
        check_error(
            &[1, 2, 3],
            "a safetensors file starts with the length of its header in 8 bytes, but this file has 3",
        );
        check_error(
            &[0xff; 20],
            "at byte 0: a header of 18446744073709551615 bytes does not fit a file of 20 bytes (or the limit of 100000000)",
        );
        check_error(
            &file("[]", 0),
            "at byte 8: the header is damaged: invalid type: sequence, expected a map at line 1 column 0",
        );
        check_error(
            &file(r#"{"w":3}"#, 0),
            "at byte 8: the header is damaged: tensor `w`: invalid type: integer `3`, expected dtype, shape and data_offsets",
        );
        check_error(
            &file(r#"{"w":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}"#, 1),
            "tensor `w` has element type F8_E4M3, which is not supported",
        );
        check_error(
            &file(r#"{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}"#, 4),
            "tensor `w`: a tensor of type f32[4294967296,4294967296] is too large to address",
        );
        check_error(
            &file(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, 4),
            "tensor `w` should be bytes [0, 8] of the data, the header says [0, 4]",
        );
        check_error(
            &file(
                r#"{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"v":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
                4,
            ),
            "tensor `v` should be bytes [2, 4] of the data, the header says [1, 3]",
        );
        check_error(
            &file(r#"{"w":{"dtype":"U8","shape":[1000000000000],"data_offsets":[0,1000000000000]}}"#, 4),
            "the header says 1000000000000 bytes of data but the file has 4",
        );
        check_error(
            &file(r#"{"w":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}"#, 1),
            "tensor `w` of booleans has a byte that is neither 0 nor 1",
        );
        check_error(
            &file(&"[".repeat(5000), 0),
            "at byte 8: the header is damaged: invalid type: sequence, expected a map at line 1 column 0",
        );
    }

    /// Whatever the damage, the reader answers with an error or with the undamaged checkpoint: no panic, and no
    /// allocation beyond the size of the file.
    #[test]
    fn survives_a_second_of_random_damage() {
        let original = bytes_of(&small(17));
        let mut stream = WordStream::new(0xc4e, 0, 0);
        let (start, mut n_runs) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(1) {
            let mut bytes = original.clone();
            damage(&mut bytes, &mut stream);
            match parse(&bytes) {
                Ok(checkpoint) => assert!(checkpoint == small(17) && bytes == original),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
            // Without checksums, damage gets further.
            if let Ok(weights) = Weights::parse(Path::new("damaged"), &bytes) {
                let n_data: usize = weights.tensors.values().map(|tensor| tensor.bytes().len()).sum();
                assert!(n_data < bytes.len());
            }
            n_runs += 1;
        }
        assert!(n_runs > 1000, "{n_runs} runs");
    }

    fn damage(bytes: &mut Vec<u8>, stream: &mut WordStream) {
        for _ in 0..=stream.below(3) {
            let place = stream.below(bytes.len().max(1) as u32) as usize;
            match stream.below(6) {
                0 => bytes.truncate(place),
                1 => bytes.insert(place.min(bytes.len()), stream.word() as u8),
                2 if bytes.len() > 8 => {
                    bytes[stream.below(8) as usize] = [0, 1, 0x7f, 0xff][stream.below(4) as usize]
                }
                // Another digit or letter keeps the JSON sound more often than another bit does.
                3 if place < bytes.len() => {
                    bytes[place] = b"0123456789abFU[]{}\","[stream.below(20) as usize]
                }
                _ if place < bytes.len() => bytes[place] ^= 1 << stream.below(8),
                _ => {}
            }
        }
    }

    #[test]
    fn a_mismatch_names_every_difference() {
        let needed = |name: &str, dtype, shape: &[usize]| TensorType {
            name: name.to_string(),
            dtype,
            shape: shape.to_vec(),
        };
        let tensors = small(17).tensors;
        let all: Vec<TensorType> =
            tensors.iter().map(|(name, tensor)| tensor_type(name, tensor)).rev().collect();
        assert_eq!(compare(&all, &tensors), Ok(()));
        let other = [
            needed("w1", DType::F32, &[3, 2]),
            needed("w2", DType::F16, &[8]),
            needed("empty", DType::F32, &[0, 4]),
            needed("step", DType::I32, &[]),
        ];
        let expected = "the tensors do not match the graph
  `w2: f16[8]` is missing
  `mask: bool[3]` is not in the graph
  `w1: f32[3,2]` is f32[2,3] in the file
  `step: i32[]` is i64[] in the file";
        assert_eq!(compare(&other, &tensors).unwrap_err().to_string(), expected);
    }
}
