//! Reading: sizes in a header are checked against the size of the file, and all bytes against checksums.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use engine_core::ir::DType;
use indexmap::IndexMap;
use memmap2::Mmap;
use serde::Deserialize;
use serde_json::Value;

use super::foreign::foreign;
use super::format::{
    EXTRA_PREFIX, HEADER_START, MAX_HEADER_BYTES, METADATA, NO_SUM, TENSOR_SUM_PREFIX, in_file_order,
};
use super::{Checkpoint, CheckpointError, CheckpointFact, Cursor, TensorType};
use crate::files;
use crate::tensor::{HostTensor, byte_len};

/// Tensors by name, as the header describes them.
type Fields = IndexMap<String, Value>;

impl Checkpoint {
    /// Reads the checkpoint at `path`. Damage of any kind is an error.
    ///
    /// On Unix, the tensors are parts of the mapped file, which is not copied. The file may be replaced or removed, as
    /// [`Checkpoint::write`] does. It must not be changed in place.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let content = Content::open(path)?;
        Checkpoint::read_from(&content.reading(path))
    }

    /// Reads the bytes of a checkpoint. `path` only appears in errors.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, CheckpointError> {
        Checkpoint::read_from(&Reading { path, bytes, map: None })
    }

    fn read_from(reading: &Reading<'_>) -> Result<Self, CheckpointError> {
        let text = reading.header_text()?;
        reading.check_header_sum(&text)?;
        let Weights { tensors, metadata } = reading.weights(&text, &|_| true)?;
        reading.check_tensor_sums(&text, &tensors, &metadata)?;
        let number = |key| reading.metadata::<u64>(&metadata, key);
        Ok(Checkpoint {
            step: number("step")?,
            seed: number("seed")?,
            cursor: Cursor { epoch: number("epoch")?, row: number("row")? },
            fingerprint: reading.metadata(&metadata, "fingerprint")?,
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
    /// Reads a safetensors file of any tool. The format has no checksum, so only inconsistent damage is detected. As for
    /// [`Checkpoint::read`], the tensors may be parts of the mapped file.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        Weights::read_needed(path, &|_| true)
    }

    /// As [`Weights::read`], but tensors of unsupported element types are left out, unless they are needed.
    pub(super) fn read_needed(
        path: &Path,
        is_needed: &dyn Fn(&str) -> bool,
    ) -> Result<Self, CheckpointError> {
        let content = Content::open(path)?;
        Weights::read_from(&content.reading(path), is_needed)
    }

    /// Reads the bytes of a safetensors file. `path` only appears in errors.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, CheckpointError> {
        Weights::read_from(&Reading { path, bytes, map: None }, &|_| true)
    }

    fn read_from(reading: &Reading<'_>, is_needed: &dyn Fn(&str) -> bool) -> Result<Self, CheckpointError> {
        let text = reading.header_text()?;
        reading.weights(&text, is_needed)
    }
}

/// The further strings of a checkpoint. No tensor is read.
///
/// # Errors
/// If the file cannot be read or is no checkpoint.
pub fn read_extra(path: &Path) -> Result<IndexMap<String, String>, CheckpointError> {
    let content = Content::open(path)?;
    let reading = content.reading(path);
    let text = reading.header_text()?;
    reading.check_header_sum(&text)?;
    let (_, metadata) = reading.header(&text)?;
    Ok(with_prefix(&metadata, EXTRA_PREFIX))
}

/// The bytes of a file: mapped, or read where the system does not map the file.
enum Content {
    Mapped(Arc<Mmap>),
    Read(Vec<u8>),
}

impl Content {
    fn open(path: &Path) -> Result<Content, CheckpointError> {
        let fail =
            |error| CheckpointError { path: path.to_path_buf(), fact: CheckpointFact::Unreadable(error) };
        let (mut file, _) = files::open(path).map_err(fail)?;
        // SAFETY: the file is not changed in place, as the documentation requires.
        if let Ok(map) = unsafe { Mmap::map(&file) } {
            return Ok(Content::Mapped(Arc::new(map)));
        }
        let mut bytes = vec![];
        file.read_to_end(&mut bytes).map_err(fail)?;
        Ok(Content::Read(bytes))
    }

    fn reading<'a>(&'a self, path: &'a Path) -> Reading<'a> {
        match self {
            // Where the system is not Unix, a mapped file cannot be replaced.
            Content::Mapped(map) => Reading { path, bytes: map, map: cfg!(unix).then_some(map) },
            Content::Read(bytes) => Reading { path, bytes, map: None },
        }
    }
}

/// A file being read.
struct Reading<'a> {
    /// Its name, for errors.
    path: &'a Path,
    bytes: &'a [u8],
    /// The map that these bytes are, if tensors may be parts of it.
    map: Option<&'a Arc<Mmap>>,
}

/// The entry of one tensor in the header.
#[derive(Deserialize)]
#[serde(expecting = "dtype, shape and data_offsets")]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

impl Reading<'_> {
    fn header_text(&self) -> Result<String, CheckpointError> {
        let n_bytes = self.bytes.len() as u64;
        let Some((&head, rest)) = self.bytes.split_first_chunk() else {
            return Err(self.fail(CheckpointFact::NoHeader { n_bytes }));
        };
        let n_header = u64::from_le_bytes(head);
        if n_header > MAX_HEADER_BYTES.min(n_bytes - 8) {
            let fact = foreign(head).unwrap_or(CheckpointFact::AbsurdHeader { n_header, n_bytes });
            return Err(self.fail(fact));
        }
        let text = rest[..n_header as usize].to_vec();
        // The first bytes of another format may be the length of a header. Such a header would be JSON.
        if let Some(fact) = foreign(head).filter(|_| !text.starts_with(b"{")) {
            return Err(self.fail(fact));
        }
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

    fn weights(&self, text: &str, is_needed: &dyn Fn(&str) -> bool) -> Result<Weights, CheckpointError> {
        let (fields, metadata) = self.header(text)?;
        let entries = self.entries(fields, is_needed)?;
        let start = 8 + text.len();
        self.check_layout(&entries, (self.bytes.len() - start) as u64)?;
        Ok(Weights { tensors: self.tensors(&entries, start)?, metadata })
    }

    /// The fields of the header, tensors by name, and its strings.
    fn header(&self, text: &str) -> Result<(Fields, IndexMap<String, String>), CheckpointError> {
        let mut fields: Fields = serde_json::from_str(text).map_err(|error| self.bad_header(&error))?;
        let metadata = match fields.shift_remove(METADATA) {
            Some(metadata) => serde_json::from_value(metadata).map_err(|error| self.bad_header(&error))?,
            None => IndexMap::new(),
        };
        Ok((fields, metadata))
    }

    fn entries(&self, fields: Fields, is_needed: &dyn Fn(&str) -> bool) -> Result<Entries, CheckpointError> {
        let entry = |(name, field): (String, Value)| {
            let entry: Entry = serde_json::from_value(field)
                .map_err(|error| self.bad_header(&format_args!("tensor `{name}`: {error}")))?;
            let Entry { dtype, shape, data_offsets } = entry;
            let known = DType::ALL.into_iter().find(|known| known.name().to_uppercase() == dtype);
            if known.is_none() && is_needed(&name) {
                return Err(self.fail(CheckpointFact::UnsupportedType { name, dtype }));
            }
            let ty = known.map(|dtype| TensorType { name: name.clone(), dtype, shape });
            Ok((name, Listed { ty, offsets: data_offsets }))
        };
        fields.into_iter().map(entry).collect()
    }

    /// The tensors must tile the data, in any order. The size of the file therefore bounds all allocations.
    fn check_layout(&self, entries: &Entries, n_data: u64) -> Result<(), CheckpointError> {
        let mut end = 0;
        for (name, Listed { ty, offsets }) in by_offset(entries) {
            let n_bytes = match ty {
                Some(TensorType { dtype, shape, .. }) => byte_len(*dtype, shape)
                    .map_err(|source| self.fail(CheckpointFact::BadShape { name: name.clone(), source }))?
                    as u64,
                None => offsets[1].saturating_sub(offsets[0]),
            };
            let expected = [end, u64::saturating_add(end, n_bytes)];
            if *offsets != expected {
                let fact = CheckpointFact::BadOffsets { name: name.clone(), expected, found: *offsets };
                return Err(self.fail(fact));
            }
            end = expected[1];
        }
        if end == n_data {
            return Ok(());
        }
        Err(self.fail(CheckpointFact::WrongLength { expected: end, found: n_data }))
    }

    /// The tensors, whose data starts at byte `start`.
    fn tensors(
        &self,
        entries: &Entries,
        start: usize,
    ) -> Result<IndexMap<String, HostTensor>, CheckpointError> {
        let mut tensors = IndexMap::new();
        for (name, Listed { ty, offsets }) in entries {
            let Some(TensorType { dtype, shape, .. }) = ty else { continue };
            let [at, end] = offsets.map(|offset| start + offset as usize);
            let mapped = self.map.and_then(|map| HostTensor::mapped(*dtype, shape, map, at));
            let tensor = match mapped {
                Some(tensor) => tensor,
                None => HostTensor::from_bytes(*dtype, shape, &self.bytes[at..end])
                    .map_err(|source| self.fail(CheckpointFact::BadShape { name: name.clone(), source }))?,
            };
            if *dtype == DType::Bool && tensor.bytes().iter().any(|&byte| byte > 1) {
                return Err(self.fail(CheckpointFact::BadBool { name: name.clone() }));
            }
            tensors.insert(name.clone(), tensor);
        }
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

    fn bad_header(&self, why: &dyn fmt::Display) -> CheckpointError {
        self.fail(CheckpointFact::BadHeader { why: why.to_string() })
    }

    fn fail(&self, fact: CheckpointFact) -> CheckpointError {
        CheckpointError { path: self.path.to_path_buf(), fact }
    }
}

/// A tensor as the header lists it.
struct Listed {
    /// Absent if the element type is not supported; then the tensor is not read.
    ty: Option<TensorType>,
    /// Its bytes in the data.
    offsets: [u64; 2],
}

type Entries = IndexMap<String, Listed>;

fn by_offset(entries: &Entries) -> Vec<(&String, &Listed)> {
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by_key(|(_, listed)| listed.offsets);
    sorted
}

fn with_prefix(metadata: &IndexMap<String, String>, prefix: &str) -> IndexMap<String, String> {
    let stripped = metadata.iter().filter_map(|(key, value)| Some((key.strip_prefix(prefix)?, value)));
    stripped.map(|(key, value)| (key.to_string(), value.clone())).collect()
}
