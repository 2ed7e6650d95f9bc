//! Files in which vectors are exchanged. All vectors of a file have the same length. There are two [`Form`]s:
//!
//! - `.fvecs`, `.ivecs`, `.bvecs`: rows of `f32`, `i32` or `u8`, each after its length as a little-endian `i32`.
//! - `.fbin`, `.ibin`, `.u8bin`, `.i8bin`: the number of vectors and their length as little-endian `u32`, then rows of `f32`,
//!   `i32`, `u8` or `i8`.
//!
//! Rows are read directly into the tensor, without a copy of the file in memory.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use engine_core::ir::DType;
use thiserror::Error;

use super::mapped::Layout;
use crate::files;
use crate::tensor::{HostTensor, TensorError};

/// Why a file of vectors cannot be used: the file, the fact.
#[derive(Debug, Error)]
#[error("{}: {fact}", .path.display())]
pub struct VecsError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub fact: VecsFact,
}

/// A fault of a file of vectors.
#[derive(Debug, Error)]
pub enum VecsFact {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The name has no known extension.
    #[error("its name ends in none of .fvecs, .ivecs, .bvecs, .fbin, .ibin, .u8bin and .i8bin")]
    UnknownKind,
    /// The file does not even hold one length.
    #[error("the file ends after {found} bytes, before the length of its first vector")]
    Empty {
        /// Bytes in the file.
        found: u64,
    },
    /// The counts at the start contradict the size of the file.
    #[error(
        "{n_rows} vectors of length {length} take {expected} bytes with these counts, the file has {found}"
    )]
    WrongSize {
        /// The number of vectors.
        n_rows: u32,
        /// Their length.
        length: u32,
        /// Bytes according to the counts.
        expected: u128,
        /// Bytes in the file.
        found: u64,
    },
    /// A vector of no or negative length.
    #[error("at byte {offset}: vector {row} has length {found}")]
    BadLength {
        /// The vector.
        row: u64,
        /// Where its length stands.
        offset: u64,
        /// The value in the file.
        found: i32,
    },
    /// Vectors of several lengths.
    #[error("at byte {offset}: vector {row} has length {found}, those before have {expected}")]
    UnevenRows {
        /// The vector.
        row: u64,
        /// Where its length stands.
        offset: u64,
        /// The length of those before.
        expected: i32,
        /// Its length.
        found: i32,
    },
    /// The file ends within a vector.
    #[error(
        "vectors of length {length} take {row_bytes} bytes each, which does not divide the file's {found}"
    )]
    Truncated {
        /// The length of the first vector.
        length: i32,
        /// Bytes of each vector with its length.
        row_bytes: u64,
        /// Bytes in the file.
        found: u64,
    },
    /// So many vectors cannot be held.
    #[error(transparent)]
    TooLarge(TensorError),
}

/// How a file says how many vectors it has, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each vector has its length before it.
    LengthOfEach,
    /// Both counts are at the start.
    CountsOnce,
}

/// The form of a file of that name, and the element type of its vectors.
pub fn kind_of(path: &Path) -> Option<(Form, DType)> {
    match path.extension()?.to_str()? {
        "fvecs" => Some((Form::LengthOfEach, DType::F32)),
        "ivecs" => Some((Form::LengthOfEach, DType::I32)),
        "bvecs" => Some((Form::LengthOfEach, DType::U8)),
        "fbin" => Some((Form::CountsOnce, DType::F32)),
        "ibin" => Some((Form::CountsOnce, DType::I32)),
        "u8bin" => Some((Form::CountsOnce, DType::U8)),
        "i8bin" => Some((Form::CountsOnce, DType::I8)),
        _ => None,
    }
}

/// Reads all vectors of a file, `[rows, length]`.
///
/// # Errors
/// If the file cannot be read, its extension is unknown, or it is damaged.
pub fn read(path: &Path) -> Result<HostTensor, VecsError> {
    opened(path, |kind, n_bytes, file| match kind {
        (Form::LengthOfEach, dtype) => read_rows(dtype, n_bytes, file),
        (Form::CountsOnce, dtype) => read_all(dtype, n_bytes, file),
    })
}

/// Where the vectors of a file are.
///
/// # Errors
/// As for [`read`].
pub(super) fn layout(path: &Path) -> Result<Layout, VecsError> {
    opened(path, |(form, dtype), n_bytes, file| {
        let (shape, offset, gap) = match form {
            Form::LengthOfEach => (checked_shape(dtype, n_bytes, file)?, HEADER, HEADER),
            Form::CountsOnce => (read_counts(dtype, n_bytes, file)?, COUNTS, 0),
        };
        let [offset, gap] = [offset, gap].map(|n_bytes| n_bytes as usize);
        Ok(Layout { dtype, shape: shape.to_vec(), offset, gap, is_big_endian: false })
    })
}

/// Passes on the form and the element type of a file, its size, and its content.
fn opened<T>(
    path: &Path,
    read: impl FnOnce((Form, DType), u64, &mut BufReader<File>) -> Result<T, VecsFact>,
) -> Result<T, VecsError> {
    let found = || {
        let (file, n_bytes) = files::open(path).map_err(VecsFact::Unreadable)?;
        let kind = kind_of(path).ok_or(VecsFact::UnknownKind)?;
        read(kind, n_bytes, &mut BufReader::with_capacity(1 << 16, file))
    };
    found().map_err(|fact| VecsError { path: path.to_path_buf(), fact })
}

/// Writes a matrix of an element type that files of that form have; other types and ranks are a bug of the caller.
///
/// # Errors
/// If it cannot be written.
pub fn write(tensor: &HostTensor, form: Form, to: &mut dyn Write) -> io::Result<()> {
    let [n_rows, length] = tensor.shape()[..] else { engine_core::bug!("{tensor:?} is no list of vectors") };
    let count = |count: usize| {
        let count =
            i32::try_from(count).map_err(|_| io::Error::other("the format counts up to 2,147,483,647"))?;
        Ok::<_, io::Error>(count.to_le_bytes())
    };
    let header = count(length)?;
    if form == Form::CountsOnce {
        to.write_all(&[count(n_rows)?, header].concat())?;
        return to.write_all(tensor.bytes());
    }
    for row in tensor.bytes().chunks_exact((length * tensor.dtype().size()).max(1)) {
        to.write_all(&header)?;
        to.write_all(row)?;
    }
    Ok(())
}

/// Whether the counts at the start of a file make up its size, for elements of some type.
///
/// # Errors
/// If it cannot be read.
pub(super) fn has_form(form: Form, file: &mut File) -> io::Result<bool> {
    let (n_bytes, mut start) = (file.metadata()?.len(), vec![]);
    file.take(COUNTS).read_to_end(&mut start)?;
    let fits = |dtype| match form {
        Form::LengthOfEach => read_shape(dtype, n_bytes, &mut &start[..]).is_ok(),
        Form::CountsOnce => read_counts(dtype, n_bytes, &mut &start[..]).is_ok(),
    };
    Ok([DType::F32, DType::U8].into_iter().any(fits))
}

/// Bytes of the two counts at the start of a file.
const COUNTS: u64 = 8;

fn read_all(dtype: DType, n_bytes: u64, file: &mut dyn Read) -> Result<HostTensor, VecsFact> {
    let shape = read_counts(dtype, n_bytes, file)?;
    let mut tensor = HostTensor::zeros(dtype, &shape).map_err(VecsFact::TooLarge)?;
    file.read_exact(tensor.bytes_mut()).map_err(VecsFact::Unreadable)?;
    Ok(tensor)
}

/// The number of vectors and their length at the start of a file. The rows must make up the rest of it.
fn read_counts(dtype: DType, n_bytes: u64, file: &mut dyn Read) -> Result<[usize; 2], VecsFact> {
    if n_bytes < COUNTS {
        return Err(VecsFact::Empty { found: n_bytes });
    }
    let mut count = || {
        let mut bytes = [0; 4];
        file.read_exact(&mut bytes).map_err(VecsFact::Unreadable)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let [n_rows, length] = [count()?, count()?];
    let elements = u128::from(n_rows) * u128::from(length);
    let expected = u128::from(COUNTS) + elements * dtype.size() as u128;
    match expected == u128::from(n_bytes) {
        true => Ok([n_rows as usize, length as usize]),
        false => Err(VecsFact::WrongSize { n_rows, length, expected, found: n_bytes }),
    }
}

/// The shape of the vectors of a file, each of which has the length of the first.
fn checked_shape(dtype: DType, n_bytes: u64, file: &mut BufReader<File>) -> Result<[usize; 2], VecsFact> {
    let [n_rows, length] = read_shape(dtype, n_bytes, file)?;
    let row_bytes = length * dtype.size();
    for row in 1..n_rows as u64 {
        file.seek_relative(row_bytes as i64).map_err(VecsFact::Unreadable)?;
        expect_length(file, row, (length as i32, HEADER + row_bytes as u64))?;
    }
    Ok([n_rows, length])
}

fn read_rows(dtype: DType, n_bytes: u64, file: &mut dyn Read) -> Result<HostTensor, VecsFact> {
    let shape = read_shape(dtype, n_bytes, file)?;
    let row_bytes = shape[1] * dtype.size();
    let mut tensor = HostTensor::zeros(dtype, &shape).map_err(VecsFact::TooLarge)?;
    for (row, elements) in (0u64..).zip(tensor.bytes_mut().chunks_exact_mut(row_bytes)) {
        if row > 0 {
            expect_length(file, row, (shape[1] as i32, HEADER + row_bytes as u64))?;
        }
        file.read_exact(elements).map_err(VecsFact::Unreadable)?;
    }
    Ok(tensor)
}

/// The number of vectors and their length, according to the length of the first, which is read.
fn read_shape(dtype: DType, n_bytes: u64, file: &mut dyn Read) -> Result<[usize; 2], VecsFact> {
    if n_bytes < HEADER {
        return Err(VecsFact::Empty { found: n_bytes });
    }
    let length = read_length(file)?;
    if length <= 0 {
        return Err(VecsFact::BadLength { row: 0, offset: 0, found: length });
    }
    let row_bytes = HEADER + length as u64 * dtype.size() as u64;
    match n_bytes.is_multiple_of(row_bytes) {
        true => Ok([(n_bytes / row_bytes) as usize, length as usize]),
        false => Err(VecsFact::Truncated { length, row_bytes, found: n_bytes }),
    }
}

/// Reads the length of a vector, which must be that of the first. `row_bytes` include the length.
fn expect_length(file: &mut dyn Read, row: u64, (expected, row_bytes): (i32, u64)) -> Result<(), VecsFact> {
    match read_length(file)? {
        found if found == expected => Ok(()),
        found => Err(VecsFact::UnevenRows { row, offset: row * row_bytes, expected, found }),
    }
}

/// Bytes of a vector's length.
const HEADER: u64 = 4;

fn read_length(file: &mut dyn Read) -> Result<i32, VecsFact> {
    let mut length = [0; HEADER as usize];
    file.read_exact(&mut length).map_err(VecsFact::Unreadable)?;
    Ok(i32::from_le_bytes(length))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::philox::WordStream;

    /// Two vectors of three numbers.
    fn saved() -> Vec<u8> {
        let rows = [[1.0f32, -2.0, 0.5], [3.0, 4.0, 5.0]];
        let row = |row: &[f32; 3]| {
            let elements = row.iter().flat_map(|x| x.to_le_bytes());
            3i32.to_le_bytes().into_iter().chain(elements).collect::<Vec<u8>>()
        };
        rows.iter().flat_map(row).collect()
    }

    fn parse(file: &[u8]) -> Result<HostTensor, VecsFact> {
        read_rows(DType::F32, file.len() as u64, &mut &file[..])
    }

    #[track_caller]
    fn check_error(file: &[u8], expected: &str) {
        assert_eq!(parse(file).unwrap_err().to_string(), expected);
    }

    #[test]
    fn vectors_are_read_as_they_are_written() {
        let tensor = HostTensor::from_slice(&[2, 3], &[1.0f32, -2.0, 0.5, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(parse(&saved()).unwrap(), tensor);
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.fvecs", "a.ivecs", "a.bvecs", "a.fbin", "a.ibin", "a.u8bin", "a.i8bin"] {
            let path = dir.path().join(name);
            let (form, dtype) = kind_of(&path).unwrap();
            let mut tensor = HostTensor::zeros(dtype, &[5, 7]).unwrap();
            tensor.bytes_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
            let mut file = vec![];
            write(&tensor, form, &mut file).unwrap();
            let counts = if form == Form::CountsOnce { 8 } else { 5 * 4 };
            assert_eq!(file.len(), counts + 5 * 7 * dtype.size());
            std::fs::write(&path, file).unwrap();
            assert_eq!(read(&path).unwrap(), tensor);
        }
    }

    #[test]
    fn errors_have_an_offset() {
        check_error(&[], "the file ends after 0 bytes, before the length of its first vector");
        check_error(&saved()[..3], "the file ends after 3 bytes, before the length of its first vector");
        check_error(
            &saved()[..31],
            "vectors of length 3 take 16 bytes each, which does not divide the file's 31",
        );
        let changed = |at: usize, byte: u8| {
            let mut file = saved();
            file[at] = byte;
            file
        };
        check_error(&changed(16, 2), "at byte 16: vector 1 has length 2, those before have 3");
        check_error(&changed(0, 0), "at byte 0: vector 0 has length 0");
        check_error(&changed(3, 255), "at byte 0: vector 0 has length -16777213");
        let error = read(Path::new("/nowhere/a.fvecs")).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/a.fvecs: cannot be read: "), "{error}");
        let file = tempfile::NamedTempFile::with_suffix(".vec").unwrap();
        let error = read(file.path()).unwrap_err().to_string();
        assert!(error.contains("its name ends in none of .fvecs, .ivecs"), "{error}");
    }

    /// Two vectors of three numbers, counted at the start.
    fn counted() -> Vec<u8> {
        let elements = [1.0f32, -2.0, 0.5, 3.0, 4.0, 5.0].map(f32::to_le_bytes).concat();
        [&[2, 0, 0, 0, 3, 0, 0, 0][..], &elements].concat()
    }

    #[test]
    fn counts_must_make_up_the_size() {
        let parse = |file: &[u8]| read_all(DType::F32, file.len() as u64, &mut &file[..]);
        let said = |file: &[u8]| parse(file).unwrap_err().to_string();
        assert_eq!(parse(&counted()).unwrap().to_f64(), [1.0, -2.0, 0.5, 3.0, 4.0, 5.0]);
        assert_eq!(said(&[1; 7]), "the file ends after 7 bytes, before the length of its first vector");
        let wrong = "2 vectors of length 3 take 32 bytes with these counts, the file has ";
        assert_eq!(said(&counted()[..31]), format!("{wrong}31"));
        assert_eq!(said(&[counted(), vec![0]].concat()), format!("{wrong}33"));
        assert!(said(&[255; 8]).ends_with("the file has 8"), "{}", said(&[255; 8]));
    }

    #[test]
    fn damaged_files_never_panic() {
        let mut stream = WordStream::new(5, 0, 0);
        for _ in 0..20_000 {
            let mut file = saved();
            for _ in 0..=stream.below(3) {
                let place = stream.below(file.len() as u32) as usize;
                file[place] = stream.word() as u8;
            }
            file.truncate(file.len() - stream.below(20) as usize);
            drop(parse(&file));
            drop(read_all(DType::F32, file.len() as u64, &mut &file[..]));
        }
    }
}
