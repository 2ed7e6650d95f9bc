//! IDX files, the format of MNIST and its relatives: a magic number, extents, then the elements.
//!
//! The magic number is two zero bytes, the element type and the rank; all numbers are big-endian. Of unsigned bytes, 2051
//! is a stack of images, 2049 a list of labels. The first two bytes show whether a file is gzipped.

use std::cmp::Ordering;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use engine_core::ir::{DType, Type};
use flate2::bufread::GzDecoder;
use thiserror::Error;

use super::field::Field;
use super::mapped::Layout;
use crate::files;
use crate::tensor::{HostTensor, TensorError, type_text};

/// The largest size of a data set. A header of more bytes is damaged.
const MAX_DATA_BYTES: u64 = 8 << 30;
/// The largest compression ratio of Deflate. A header that declares more is damaged.
const MAX_INFLATION: u64 = 1032;
/// The first bytes of a gzipped file.
pub(super) const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// The element types by their codes.
const TYPES: [(u8, DType); 6] = [
    (0x08, DType::U8),
    (0x09, DType::I8),
    (0x0b, DType::I16),
    (0x0c, DType::I32),
    (0x0d, DType::F32),
    (0x0e, DType::F64),
];
const MAX_RANK: u8 = 4;

/// Why an IDX file cannot be used: the file, the place, the fact.
#[derive(Debug, Error)]
#[error("{}: {}{fact}", .path.display(), Place(*.offset))]
pub struct IdxError {
    /// The file, as it was named to the reader.
    pub path: PathBuf,
    /// Where in the file, after decompression, the fact stands; none if it concerns the file as a whole.
    pub offset: Option<u64>,
    /// The fault.
    pub fact: IdxFact,
}

/// A fault of an IDX file.
#[derive(Debug, Error)]
pub enum IdxFact {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The compressed stream is cut off, or its checksum does not match.
    #[error("the gzip stream is damaged: {0}")]
    BadGzip(io::Error),
    /// More bytes follow the end of the gzip stream.
    #[error("{n_bytes} bytes follow the end of the gzip stream")]
    TrailingGzip {
        /// How many follow, counted in the compressed file.
        n_bytes: u64,
    },
    /// The file ends within the magic number or the extents.
    #[error("the header has {expected} bytes but the file ends after {found}")]
    ShortHeader {
        /// Bytes that the header has.
        expected: u64,
        /// Bytes that the file has.
        found: u64,
    },
    /// The file does not start as an IDX file does.
    #[error("bad magic number {found}: an IDX file starts with two zero bytes")]
    BadMagic {
        /// The first four bytes, as a big-endian number.
        found: u32,
    },
    /// The magic number is not the one that the use of the file requires.
    #[error("the magic number is {found}, {expected} was expected ({what})")]
    WrongMagic {
        /// The magic number of the file.
        found: u32,
        /// The magic number that is called for.
        expected: u32,
        /// The use of the file.
        what: &'static str,
    },
    /// No element type has this code.
    #[error("{code:#04x} is no element type; 0x08, 0x09 and 0x0b to 0x0e are")]
    UnsupportedType {
        /// The type code of the file.
        code: u8,
    },
    /// The rank is 0, or greater than 4.
    #[error("rank {rank} is not supported, only 1 to 4 are")]
    UnsupportedRank {
        /// The rank that the file states.
        rank: u8,
    },
    /// The extents multiply to more than any file of this size can hold.
    #[error("the header says {}, more than a file of {n_file_bytes} bytes can hold", type_text(*.dtype, .shape))]
    AbsurdSize {
        /// The element type that the file states.
        dtype: DType,
        /// The extents that the file states.
        shape: Vec<usize>,
        /// The size of the file, compressed if it is.
        n_file_bytes: u64,
    },
    /// There is no memory for so many elements.
    #[error("{error}, which is what the header of this file of {n_file_bytes} bytes asks for")]
    TooLarge {
        /// The error of the allocation.
        error: TensorError,
        /// The size of the file, compressed if it is.
        n_file_bytes: u64,
    },
    /// The file ends before its last element.
    #[error("the header says {expected} bytes of data but the file has {found}")]
    Truncated {
        /// Bytes of data that the extents call for.
        expected: u64,
        /// The present bytes of data.
        found: u64,
    },
    /// The file has bytes after its last element.
    #[error("the header says {expected} bytes of data but the file goes on after them")]
    TrailingBytes {
        /// Bytes of data that the extents call for.
        expected: u64,
    },
    /// A label is not the number of a class.
    #[error("label {label} (row {row}) is out of range, there are {n_classes} classes")]
    LabelOutOfRange {
        /// The label.
        label: u8,
        /// The row it stands in.
        row: usize,
        /// How many classes there are.
        n_classes: usize,
    },
}

/// Reads an IDX file of rank 1 to 4, gzipped or not, as a tensor of the file's type and extents. Elements are decompressed
/// directly into the tensor, without a copy of the file in memory.
pub fn read(path: &Path) -> Result<HostTensor, IdxError> {
    let (file, n_bytes) = files::open(path).map_err(|error| at(path, None, IdxFact::Unreadable(error)))?;
    read_from(path, BufReader::with_capacity(1 << 16, file), n_bytes)
}

/// Where the elements of a file that is not compressed are.
///
/// # Errors
/// As for [`read`].
pub(super) fn layout(path: &Path) -> Result<Layout, IdxError> {
    let (mut file, n_bytes) =
        files::open(path).map_err(|error| at(path, None, IdxFact::Unreadable(error)))?;
    let header = read_header(path, &mut file)?;
    let (offset, expected) = (header.n_bytes(), header.n_data_bytes());
    let Some(expected) = expected.filter(|&expected| expected <= n_bytes) else {
        return Err(absurd_or_truncated(path, header, expected, n_bytes, n_bytes));
    };
    let Header { dtype, shape } = header;
    match (n_bytes - offset).cmp(&expected) {
        Ordering::Equal => {
            Ok(Layout { dtype, shape, offset: offset as usize, gap: 0, is_big_endian: dtype.size() > 1 })
        }
        Ordering::Less => {
            Err(at(path, Some(n_bytes), IdxFact::Truncated { expected, found: n_bytes - offset }))
        }
        Ordering::Greater => Err(at(path, Some(offset + expected), IdxFact::TrailingBytes { expected })),
    }
}

/// Reads a stack of images (magic number 2051) as `u8[N, height, width]`.
pub fn read_images(path: &Path) -> Result<HostTensor, IdxError> {
    let images = read(path)?;
    check_images(path, images.dtype(), images.shape())?;
    Ok(images)
}

/// The images that [`read_images`] reads, by the header alone. The size of a file that is not compressed is checked.
pub fn describe_images(path: &Path) -> Result<Field, IdxError> {
    describe(path, check_images)
}

/// Reads a list of labels (magic number 2049) as `u8[N]`, each of them below `n_classes`.
pub fn read_labels(path: &Path, n_classes: usize) -> Result<HostTensor, IdxError> {
    let labels = read(path)?;
    check_list(path, labels.dtype(), labels.shape())?;
    check_labels(path, labels.bytes(), n_classes)?;
    Ok(labels)
}

/// The labels that [`read_labels`] reads, by the header alone. The size of a file that is not compressed is checked.
pub fn describe_labels(path: &Path) -> Result<Field, IdxError> {
    describe(path, check_list)
}

fn describe(
    path: &Path,
    check: fn(&Path, DType, &[usize]) -> Result<(), IdxError>,
) -> Result<Field, IdxError> {
    let unreadable = |error| at(path, None, IdxFact::Unreadable(error));
    let mut file = BufReader::new(files::open(path).map_err(unreadable)?.0);
    let (dtype, shape) = if file.fill_buf().map_err(unreadable)?.starts_with(GZIP_MAGIC) {
        let Header { dtype, shape } = read_header(path, &mut GzDecoder::new(file))?;
        (dtype, shape)
    } else {
        let Layout { dtype, shape, .. } = layout(path)?;
        (dtype, shape)
    };
    check(path, dtype, &shape)?;
    Ok(Field::described(Type::new(dtype, &shape[1..]), shape[0]))
}

/// Reads an IDX file in memory; `path` is named in errors and not opened.
pub fn parse(path: &Path, file: &[u8]) -> Result<HostTensor, IdxError> {
    read_from(path, file, file.len() as u64)
}

fn read_from(path: &Path, mut file: impl BufRead, n_file_bytes: u64) -> Result<HostTensor, IdxError> {
    let unreadable = |error| at(path, None, IdxFact::Unreadable(error));
    if !file.fill_buf().map_err(unreadable)?.starts_with(GZIP_MAGIC) {
        return parse_stream(path, &mut file, n_file_bytes, n_file_bytes);
    }
    let mut stream = GzDecoder::new(file);
    let tensor = parse_stream(path, &mut stream, n_file_bytes, n_file_bytes.saturating_mul(MAX_INFLATION))?;
    match io::copy(&mut stream.into_inner(), &mut io::sink()).map_err(unreadable)? {
        0 => Ok(tensor),
        n_bytes => Err(at(path, None, IdxFact::TrailingGzip { n_bytes })),
    }
}

/// Reads header and elements up to the end of the stream, which can hold no more than `max_bytes`.
fn parse_stream(
    path: &Path,
    stream: &mut dyn Read,
    n_file_bytes: u64,
    max_bytes: u64,
) -> Result<HostTensor, IdxError> {
    let header = read_header(path, stream)?;
    let (data_offset, n_bytes) = (header.n_bytes(), header.n_data_bytes());
    let Some(n_bytes) = n_bytes.filter(|&n_bytes| n_bytes <= max_bytes.min(MAX_DATA_BYTES)) else {
        // A plain file that is merely cut off is better described by how much of it is missing.
        return Err(absurd_or_truncated(path, header, n_bytes, n_file_bytes, max_bytes));
    };
    let mut tensor = HostTensor::zeros(header.dtype, &header.shape)
        .map_err(|error| at(path, Some(4), IdxFact::TooLarge { error, n_file_bytes }))?;
    let (found, outcome) = fill(stream, tensor.bytes_mut());
    if header.dtype.size() > 1 {
        tensor.bytes_mut().chunks_exact_mut(header.dtype.size()).for_each(<[u8]>::reverse);
    }
    let end = Some(data_offset + found);
    // Reading one more byte detects trailing bytes, and makes the gzip decoder verify its checksum.
    match outcome.and_then(|()| if found < n_bytes { Ok(0) } else { stream.read(&mut [0]) }) {
        Err(error) => Err(at(path, end, IdxFact::BadGzip(error))),
        Ok(_) if found < n_bytes => Err(at(path, end, IdxFact::Truncated { expected: n_bytes, found })),
        Ok(0) => Ok(tensor),
        Ok(_) => Err(at(path, Some(data_offset + n_bytes), IdxFact::TrailingBytes { expected: n_bytes })),
    }
}

/// Reads up to the end of `bytes` or of the stream; how much was read, and whether it failed there.
fn fill(stream: &mut dyn Read, bytes: &mut [u8]) -> (u64, io::Result<()>) {
    let mut found = 0;
    while found < bytes.len() {
        match stream.read(&mut bytes[found..]) {
            Ok(0) => break,
            Ok(n_read) => found += n_read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (found as u64, Err(error)),
        }
    }
    (found as u64, Ok(()))
}

fn absurd_or_truncated(
    path: &Path,
    header: Header,
    n_bytes: Option<u64>,
    n_file_bytes: u64,
    max_bytes: u64,
) -> IdxError {
    match n_bytes {
        Some(expected) if max_bytes == n_file_bytes && expected <= MAX_DATA_BYTES => {
            let found = n_file_bytes - header.n_bytes();
            at(path, Some(n_file_bytes), IdxFact::Truncated { expected, found })
        }
        _ => {
            let Header { dtype, shape } = header;
            at(path, Some(4), IdxFact::AbsurdSize { dtype, shape, n_file_bytes })
        }
    }
}

/// The element type and the extents.
struct Header {
    dtype: DType,
    shape: Vec<usize>,
}

impl Header {
    /// The bytes before the elements.
    fn n_bytes(&self) -> u64 {
        4 + 4 * self.shape.len() as u64
    }

    /// The bytes of the elements, if 64 bits count them.
    fn n_data_bytes(&self) -> Option<u64> {
        let size = self.dtype.size() as u64;
        self.shape.iter().try_fold(size, |n, &extent| n.checked_mul(extent as u64))
    }
}

/// The header, after the magic number was checked.
fn read_header(path: &Path, stream: &mut dyn Read) -> Result<Header, IdxError> {
    let magic = read_exactly(path, stream, 0, 4)?;
    let [zero_0, zero_1, code, rank] = [magic[0], magic[1], magic[2], magic[3]];
    if (zero_0, zero_1) != (0, 0) {
        let found = big_endian(&magic);
        return Err(at(path, Some(0), IdxFact::BadMagic { found }));
    }
    let Some((_, dtype)) = TYPES.into_iter().find(|(known, _)| *known == code) else {
        return Err(at(path, Some(2), IdxFact::UnsupportedType { code }));
    };
    if !(1..=MAX_RANK).contains(&rank) {
        return Err(at(path, Some(3), IdxFact::UnsupportedRank { rank }));
    }
    let extents = read_exactly(path, stream, 4, 4 * u64::from(rank))?;
    let shape = extents.chunks_exact(4).map(|extent| big_endian(extent) as usize).collect();
    Ok(Header { dtype, shape })
}

fn read_exactly(path: &Path, stream: &mut dyn Read, offset: u64, n_bytes: u64) -> Result<Vec<u8>, IdxError> {
    let mut bytes = Vec::new();
    let outcome = stream.take(n_bytes).read_to_end(&mut bytes);
    let found = offset + bytes.len() as u64;
    match outcome {
        Err(error) => Err(at(path, Some(found), IdxFact::BadGzip(error))),
        Ok(n_read) if (n_read as u64) < n_bytes => {
            Err(at(path, Some(found), IdxFact::ShortHeader { expected: offset + n_bytes, found }))
        }
        Ok(_) => Ok(bytes),
    }
}

fn big_endian(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

fn check_images(path: &Path, dtype: DType, shape: &[usize]) -> Result<(), IdxError> {
    check_magic(path, (dtype, shape.len()), 3, "a stack of images")
}

fn check_list(path: &Path, dtype: DType, shape: &[usize]) -> Result<(), IdxError> {
    check_magic(path, (dtype, shape.len()), 1, "a list of labels")
}

/// Checks that elements are unsigned bytes, and their tensor has this rank.
fn check_magic(path: &Path, found: (DType, usize), rank: usize, what: &'static str) -> Result<(), IdxError> {
    let code = |dtype| TYPES.into_iter().find(|(_, known)| *known == dtype).map_or(0, |(code, _)| code);
    let magic = |(dtype, rank)| u32::from(code(dtype)) << 8 | rank as u32;
    let (found, expected) = (magic(found), magic((DType::U8, rank)));
    if found == expected {
        return Ok(());
    }
    Err(at(path, Some(0), IdxFact::WrongMagic { found, expected, what }))
}

fn check_labels(path: &Path, labels: &[u8], n_classes: usize) -> Result<(), IdxError> {
    match labels.iter().enumerate().find(|&(_, &label)| usize::from(label) >= n_classes) {
        None => Ok(()),
        Some((row, &label)) => {
            Err(at(path, Some(8 + row as u64), IdxFact::LabelOutOfRange { label, row, n_classes }))
        }
    }
}

fn at(path: &Path, offset: Option<u64>, fact: IdxFact) -> IdxError {
    IdxError { path: path.to_path_buf(), offset, fact }
}

struct Place(Option<u64>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(offset) => write!(f, "at byte {offset}: "),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
