//! IDX files, the format of MNIST and its relatives: a magic number, extents, then the elements.
//!
//! The magic number is two zero bytes, the element type and the rank; all numbers are big-endian. Only unsigned
//! bytes are supported: 2051 is a stack of images, 2049 a list of labels. The first two bytes show whether a file is
//! gzipped.

use std::cmp::Ordering;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use engine_core::ir::DType;
use flate2::bufread::GzDecoder;
use thiserror::Error;

use super::mapped::Layout;
use crate::files;
use crate::tensor::{HostTensor, TensorError, type_text};

/// The largest size of a data set. A header of more bytes is damaged.
const MAX_DATA_BYTES: u64 = 8 << 30;
/// The largest compression ratio of Deflate. A header that declares more is damaged.
const MAX_INFLATION: u64 = 1032;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const UNSIGNED_BYTE: u8 = 0x08;
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
    /// The elements are not unsigned bytes.
    #[error("element type {code:#04x} is not supported, only unsigned bytes (0x08) are")]
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
    #[error("the header says {}, more than a file of {n_file_bytes} bytes can hold", type_text(DType::U8, .shape))]
    AbsurdSize {
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

/// Reads an IDX file of unsigned bytes, rank 1 to 4, gzipped or not, as a `u8` tensor of the file's extents. Elements are
/// decompressed directly into the tensor, without a copy of the file in memory.
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
    let shape = read_header(path, &mut file)?;
    let offset = 4 + 4 * shape.len() as u64;
    let expected = shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent as u64));
    let Some(expected) = expected.filter(|&expected| expected <= n_bytes) else {
        return Err(absurd_or_truncated(path, shape, expected, n_bytes, n_bytes));
    };
    match (n_bytes - offset).cmp(&expected) {
        Ordering::Equal => {
            Ok(Layout { dtype: DType::U8, shape, offset: offset as usize, gap: 0, is_big_endian: false })
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
    check_rank(path, &images, 3, "a stack of images")?;
    Ok(images)
}

/// Reads a list of labels (magic number 2049) as `u8[N]`, each of them below `n_classes`.
pub fn read_labels(path: &Path, n_classes: usize) -> Result<HostTensor, IdxError> {
    let labels = read(path)?;
    check_rank(path, &labels, 1, "a list of labels")?;
    check_labels(path, labels.bytes(), n_classes)?;
    Ok(labels)
}

/// Reads the bytes of an IDX file; `path` is named in errors and not opened.
pub fn parse(path: &Path, file: &[u8]) -> Result<HostTensor, IdxError> {
    read_from(path, file, file.len() as u64)
}

fn read_from(path: &Path, mut file: impl BufRead, n_file_bytes: u64) -> Result<HostTensor, IdxError> {
    let unreadable = |error| at(path, None, IdxFact::Unreadable(error));
    if !file.fill_buf().map_err(unreadable)?.starts_with(&GZIP_MAGIC) {
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
    let shape = read_header(path, stream)?;
    let data_offset = 4 + 4 * shape.len() as u64;
    let n_bytes = shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent as u64));
    let Some(n_bytes) = n_bytes.filter(|&n_bytes| n_bytes <= max_bytes.min(MAX_DATA_BYTES)) else {
        // A plain file that is merely cut off is better described by how much of it is missing.
        return Err(absurd_or_truncated(path, shape, n_bytes, n_file_bytes, max_bytes));
    };
    let mut tensor = HostTensor::zeros(DType::U8, &shape)
        .map_err(|error| at(path, Some(4), IdxFact::TooLarge { error, n_file_bytes }))?;
    let (found, outcome) = fill(stream, tensor.bytes_mut());
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
    shape: Vec<usize>,
    n_bytes: Option<u64>,
    n_file_bytes: u64,
    max_bytes: u64,
) -> IdxError {
    let header = 4 + 4 * shape.len() as u64;
    match n_bytes {
        Some(expected) if max_bytes == n_file_bytes && expected <= MAX_DATA_BYTES => {
            let found = n_file_bytes - header;
            at(path, Some(n_file_bytes), IdxFact::Truncated { expected, found })
        }
        _ => at(path, Some(4), IdxFact::AbsurdSize { shape, n_file_bytes }),
    }
}

/// The extents, after the magic number was checked.
fn read_header(path: &Path, stream: &mut dyn Read) -> Result<Vec<usize>, IdxError> {
    let magic = read_exactly(path, stream, 0, 4)?;
    let [zero_0, zero_1, code, rank] = [magic[0], magic[1], magic[2], magic[3]];
    if (zero_0, zero_1) != (0, 0) {
        let found = big_endian(&magic);
        return Err(at(path, Some(0), IdxFact::BadMagic { found }));
    }
    if code != UNSIGNED_BYTE {
        return Err(at(path, Some(2), IdxFact::UnsupportedType { code }));
    }
    if !(1..=MAX_RANK).contains(&rank) {
        return Err(at(path, Some(3), IdxFact::UnsupportedRank { rank }));
    }
    let extents = read_exactly(path, stream, 4, 4 * u64::from(rank))?;
    Ok(extents.chunks_exact(4).map(|extent| big_endian(extent) as usize).collect())
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

fn check_rank(path: &Path, tensor: &HostTensor, rank: u32, what: &'static str) -> Result<(), IdxError> {
    let magic = |rank: u32| u32::from(UNSIGNED_BYTE) << 8 | rank;
    let found_rank = tensor.shape().len() as u32;
    if found_rank == rank {
        return Ok(());
    }
    let fact = IdxFact::WrongMagic { found: magic(found_rank), expected: magic(rank), what };
    Err(at(path, Some(0), fact))
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
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::fuzz::many_times;
    use crate::philox::WordStream;

    fn idx(code: u8, extents: &[u32], data: &[u8]) -> Vec<u8> {
        let mut file = vec![0, 0, code, extents.len() as u8];
        extents.iter().for_each(|extent| file.extend(extent.to_be_bytes()));
        file.extend(data);
        file
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn check_error(file: &[u8], expected: &str) {
        let error = parse(Path::new("digits.idx"), file).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    fn written(file: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("digits.idx");
        fs::write(&path, file).unwrap();
        (dir, path)
    }

    #[test]
    fn reads_ranks_one_to_four_gzipped_or_not() {
        let data: Vec<u8> = (0..24).collect();
        for extents in [&[24][..], &[4, 6], &[2, 3, 4], &[1, 2, 3, 4]] {
            let file = idx(8, extents, &data);
            let shape: Vec<usize> = extents.iter().map(|&extent| extent as usize).collect();
            let expected = HostTensor::from_slice(&shape, &data).unwrap();
            assert_eq!(parse(Path::new("plain"), &file).unwrap(), expected);
            assert_eq!(parse(Path::new("gzipped"), &gzip(&file)).unwrap(), expected);
        }
    }

    #[test]
    fn reads_images_and_labels_by_their_magic_numbers() {
        let (_dir, images) =
            written(&gzip(&[&2051u32.to_be_bytes()[..], &idx(8, &[1, 2, 2], &[9; 4])[4..]].concat()));
        assert_eq!(read_images(&images).unwrap().shape(), [1, 2, 2]);
        let error = read_labels(&images, 10).unwrap_err().to_string();
        assert!(
            error.ends_with("at byte 0: the magic number is 2051, 2049 was expected (a list of labels)"),
            "{error}"
        );

        let (_dir, labels) = written(&[&2049u32.to_be_bytes()[..], &idx(8, &[3], &[0, 9, 4])[4..]].concat());
        assert_eq!(read_labels(&labels, 10).unwrap().bytes(), [0, 9, 4]);
        let error = read_labels(&labels, 9).unwrap_err().to_string();
        assert!(
            error.ends_with("at byte 9: label 9 (row 1) is out of range, there are 9 classes"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("no/such/file")).unwrap_err();
        assert!(error.to_string().starts_with("no/such/file: cannot be read: "), "{error}");
    }

    #[test]
    fn headers_that_lie_are_refused() {
        check_error(&[], "digits.idx: at byte 0: the header has 4 bytes but the file ends after 0");
        check_error(&[0, 0, 8], "digits.idx: at byte 3: the header has 4 bytes but the file ends after 3");
        check_error(
            &[0, 0, 8, 2, 0, 0, 0, 1],
            "digits.idx: at byte 8: the header has 12 bytes but the file ends after 8",
        );
        check_error(
            b"<html>",
            "digits.idx: at byte 0: bad magic number 1013478509: an IDX file starts with two zero bytes",
        );
        check_error(
            &idx(0x0d, &[1], &[0; 4]),
            "digits.idx: at byte 2: element type 0x0d is not supported, only unsigned bytes (0x08) are",
        );
        check_error(&idx(8, &[], &[0; 4]), "digits.idx: at byte 3: rank 0 is not supported, only 1 to 4 are");
        check_error(
            &idx(8, &[1; 5], &[0]),
            "digits.idx: at byte 3: rank 5 is not supported, only 1 to 4 are",
        );
    }

    #[test]
    fn sizes_that_do_not_fit_the_file_are_refused() {
        check_error(
            &idx(8, &[2, 3], &[1; 5]),
            "digits.idx: at byte 17: the header says 6 bytes of data but the file has 5",
        );
        check_error(
            &idx(8, &[2, 300], &[1; 5]),
            "digits.idx: at byte 17: the header says 600 bytes of data but the file has 5",
        );
        check_error(
            &idx(8, &[2, 3], &[1; 7]),
            "digits.idx: at byte 18: the header says 6 bytes of data but the file goes on after them",
        );
        let huge = [u32::MAX; 4];
        check_error(
            &idx(8, &huge, &[1]),
            "digits.idx: at byte 4: the header says u8[4294967295,4294967295,4294967295,4294967295], more than a file of 21 bytes can hold",
        );
        let bomb = gzip(&idx(8, &[1 << 30], &[0; 100]));
        let found = parse(Path::new("digits.idx"), &bomb).unwrap_err().fact;
        assert!(matches!(found, IdxFact::AbsurdSize { .. }), "{found}");
    }

    #[test]
    fn damaged_gzip_streams_are_refused() {
        let file = gzip(&idx(8, &[200], &(0..200).collect::<Vec<u8>>()));
        for n_kept in 2..file.len() {
            let error = parse(Path::new("cut"), &file[..n_kept]).unwrap_err();
            assert!(matches!(error.fact, IdxFact::BadGzip(_)), "cut after {n_kept}: {error}");
        }
        let mut wrong_sum = file.clone();
        let n_bytes = wrong_sum.len();
        wrong_sum[n_bytes - 8] ^= 1;
        let error = parse(Path::new("sum"), &wrong_sum).unwrap_err();
        assert!(error.to_string().starts_with("sum: at byte 208: the gzip stream is damaged: "), "{error}");
        check_error(&[&file[..], b"tail"].concat(), "digits.idx: 4 bytes follow the end of the gzip stream");
        check_error(
            &gzip(&idx(8, &[3], &[0; 2])),
            "digits.idx: at byte 10: the header says 3 bytes of data but the file has 2",
        );
    }

    /// For any damage, the reader answers with an error or with a tensor that fits the bytes: no panic, and no
    /// allocation beyond what the file can hold.
    #[test]
    fn survives_a_second_of_random_damage() {
        let data: Vec<u8> = (0..96).map(|byte| byte % 10).collect();
        let plain = idx(8, &[6, 4, 4], &data);
        let originals = [gzip(&plain), plain];
        let mut n_errors = 0u64;
        let n_runs = many_times(0x1d8, |stream| {
            let mut file = originals[stream.below(2) as usize].clone();
            damage(&mut file, stream);
            n_errors += u64::from(parse(Path::new("damaged"), &file).is_err());
        });
        assert!(n_errors > n_runs / 4, "{n_errors} errors in {n_runs} runs");
    }

    fn damage(file: &mut Vec<u8>, stream: &mut WordStream) {
        for _ in 0..=stream.below(3) {
            let place = stream.below(file.len().max(1) as u32) as usize;
            match stream.below(4) {
                0 => file.truncate(place),
                1 => file.insert(place.min(file.len()), stream.word() as u8),
                2 if place < 20 && !file.is_empty() => {
                    file[place] = [0, 1, 0x7f, 0xff][stream.below(4) as usize]
                }
                _ if place < file.len() => file[place] ^= 1 << stream.below(8),
                _ => {}
            }
        }
    }
}
