//! The user's own rows: files in several formats, made to fit an input of a graph.

use std::io::{self, Read};
use std::path::Path;

use engine_core::ir::{DType, Type};
use half::{bf16, f16};

pub use super::fault::TableError;
pub(crate) use super::fault::listed;
use super::field::Field;
use super::idx::{GZIP_MAGIC, IdxError, IdxFact};
use super::mapped;
use super::records::{Columns, Text};
pub use super::rows::Rows;
use super::rows::{self, Reading};
use super::{idx, npy, npz, vecs};
use crate::files;
use crate::tensor::{HostTensor, type_text};

/// Reads rows. `ARCHIVE.npz/ARRAY` is an array of an archive; the name may be omitted for a single array. Files of vectors
/// are recognized by their extensions, `.npy` and IDX files (gzipped or not) by their first bytes. Any other text is CSV,
/// read as `f64`.
///
/// # Errors
/// If the file cannot be read, is damaged, or has no rows.
pub fn read(path: &Path) -> Result<HostTensor, TableError> {
    Ok(read_rows(path, &Reading::default())?.tensor)
}

/// As [`read`], with options for text. Files of arrays have their own element types.
///
/// # Errors
/// As for [`read`], and if cells of a text do not have the requested type.
pub fn read_rows(path: &Path, reading: &Reading) -> Result<Rows, TableError> {
    let rows = read_as(path, reading)?;
    match rows.tensor.shape() {
        [] | [0, ..] => Err(TableError::no_rows(path)),
        _ => Ok(rows),
    }
}

/// As [`read_rows`], and an array may be a scalar, and there may be no rows.
///
/// # Errors
/// As for [`read_rows`].
pub fn read_as(path: &Path, reading: &Reading) -> Result<Rows, TableError> {
    let array = |tensor| -> Result<Rows, TableError> {
        let tensor = rows::transformed(path, tensor, reading)?;
        Ok(Rows { tensor, columns: Columns::default(), notes: vec![] })
    };
    match read_array(path)? {
        Some(tensor) => array(tensor),
        None => Ok(rows::read_text(Text::File(path), reading)?),
    }
}

/// The archive and the array of it that a path such as `digits.npz/images` names.
pub fn in_archive(path: &Path) -> Option<(&Path, &str)> {
    let archive = path.parent().filter(|parent| parent.extension().is_some_and(|it| it == "npz"))?;
    Some((archive, path.file_name()?.to_str()?))
}

/// The first bytes of a file, up to so many.
fn first_bytes(path: &Path, n_bytes: usize) -> io::Result<Vec<u8>> {
    let mut head = vec![];
    files::open(path)?.0.take(n_bytes as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// All bytes of a regular file, which is not gzipped.
pub(super) fn bytes_of(path: &Path) -> Result<Vec<u8>, TableError> {
    let unreadable = |error| TableError::Unreadable { path: path.to_path_buf(), error };
    let (mut file, n_bytes) = files::open(path).map_err(unreadable)?;
    let mut bytes = vec![];
    let room = bytes.try_reserve_exact(n_bytes as usize).map_err(io::Error::from);
    room.and_then(|()| file.read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.starts_with(GZIP_MAGIC) { Err(TableError::gzipped(path)) } else { Ok(bytes) }
}

/// The array of a file; none if the file is a text.
fn read_array(path: &Path) -> Result<Option<HostTensor>, TableError> {
    match in_archive(path) {
        Some((archive, name)) => return Ok(Some(npz::read_one(archive, name)?)),
        None if vecs::kind_of(path).is_some() => return Ok(Some(vecs::read(path)?)),
        None if path.extension().is_some_and(|extension| extension == "npz") => {
            return Ok(Some(npz::read_only(path)?));
        }
        None => {}
    }
    let unreadable = |error| TableError::Unreadable { path: path.to_path_buf(), error };
    let head = first_bytes(path, npy::MAGIC.len()).map_err(unreadable)?;
    // Arrays are read straight into their tensor.
    Ok(match &head[..] {
        npy::MAGIC => Some(npy::read(path)?),
        head if head.starts_with(GZIP_MAGIC) => Some(idx::read(path).map_err(of_gzipped)?),
        [0, 0, ..] => Some(idx::read(path)?),
        // A text under the name of an array is no table.
        _ if path.extension().is_some_and(|extension| extension == "npy") => Some(npy::read(path)?),
        _ => None,
    })
}

/// The error of a gzipped file. Another format than IDX may not be gzipped.
fn of_gzipped(error: IdxError) -> TableError {
    match error.fact {
        IdxFact::BadMagic { .. } => TableError::gzipped(&error.path),
        _ => error.into(),
    }
}

/// The rows of a file of at least so many bytes, which stay on disk. None if the file is smaller, or its rows do not lie in
/// it one after the other: a text, a compressed file, an archive, or an array in Fortran order.
///
/// # Errors
/// If the file cannot be read or is damaged.
pub(super) fn on_disk(path: &Path, n_bytes: u64) -> Result<Option<Field>, TableError> {
    if in_archive(path).is_some() {
        return Ok(None);
    }
    let unreadable = |error| TableError::Unreadable { path: path.to_path_buf(), error };
    let (file, found) = files::open(path).map_err(unreadable)?;
    if found < n_bytes {
        return Ok(None);
    }
    let head = first_bytes(path, npy::MAGIC.len()).map_err(unreadable)?;
    let layout = match &head[..] {
        _ if vecs::kind_of(path).is_some() => Some(vecs::layout(path)?),
        npy::MAGIC => npy::layout(path)?,
        [0, 0, ..] => Some(idx::layout(path)?),
        _ => None,
    };
    let layout = layout.filter(|layout| layout.shape.iter().all(|extent| *extent > 0));
    layout.map(|layout| mapped::map(&file, layout).map_err(unreadable)).transpose()
}

/// The rows `first..first + n_rows` in the type of an input whose outermost axis counts rows.
///
/// The element type of the input must hold every number exactly, or be a float with the number in its range. A row must
/// have as many elements as a row of the input.
pub fn fit(rows: &HostTensor, input: &Type, first: usize, n_rows: usize) -> Result<HostTensor, TableError> {
    let row = Type { dtype: input.dtype, shape: input.shape.get(1..).unwrap_or_default().to_vec() };
    let row_extents = row.extents();
    let n_elements: usize = row_extents.iter().product();
    let found = rows.shape()[1..].iter().product::<usize>();
    if found != n_elements {
        let found = type_text(rows.dtype(), &rows.shape()[1..]);
        return Err(TableError::WrongRow { expected: row.to_string(), found });
    }
    let n_bytes = n_elements * rows.dtype().size();
    let bytes = &rows.bytes()[first * n_bytes..(first + n_rows) * n_bytes];
    let shape: Vec<usize> = [n_rows].into_iter().chain(row_extents).collect();
    let taken = HostTensor::from_bytes(rows.dtype(), &shape, bytes)?;
    converted(&taken, input.dtype, first, n_elements.max(1))
}

/// A tensor in another type, if that has all its numbers, or is a float with their range; `first` is the number of its
/// first row.
pub(crate) fn converted(
    tensor: &HostTensor,
    dtype: DType,
    first: usize,
    n_elements: usize,
) -> Result<HostTensor, TableError> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    let values = tensor.to_f64();
    let fits = |value: f64| match dtype {
        DType::Bool => value == 0.0 || value == 1.0,
        DType::F16 => !value.is_finite() || f16::from_f64(value).is_finite(),
        DType::BF16 => !value.is_finite() || bf16::from_f64(value).is_finite(),
        DType::F32 => !value.is_finite() || (value as f32).is_finite(),
        DType::F64 => true,
        // The largest number of the type is none of f64, which rounds it to 2^63.
        DType::I64 => value == dtype.saturate(value) as f64 && value < i64::MAX as f64,
        _ => value == dtype.saturate(value) as f64,
    };
    if let Some(at) = values.iter().position(|&value| !fits(value)) {
        let (row, element) = (first + at / n_elements, (n_elements > 1).then_some(at % n_elements));
        let value =
            tensor.as_slice::<i64>().map_or_else(|_| text_of(values[at]), |whole| whole[at].to_string());
        return Err(TableError::WrongValue { path: None, row, element, value, dtype });
    }
    Ok(tensor.cast(dtype)?)
}

/// A number, with an exponent if it has many digits.
fn text_of(number: f64) -> String {
    if number.abs() >= 1e16 { format!("{number:e}") } else { number.to_string() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use engine_core::ir::Dim;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs;
    use std::io::Write;

    use super::*;

    fn csv(text: &str) -> Result<HostTensor, TableError> {
        Ok(rows::read_text(Text::Memory(Path::new("a.csv"), text), &Reading::default())?.tensor)
    }

    fn input(dtype: DType, row: &[usize]) -> Type {
        let rows = [Dim::Named("B".into())];
        Type { dtype, shape: rows.into_iter().chain(row.iter().map(|&extent| Dim::Fixed(extent))).collect() }
    }

    #[test]
    fn formats_are_recognized_by_their_first_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let read_back = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read(&path).map(|rows| format!("{rows:?}"))
        };
        assert_eq!(read_back(b"1,2\n").unwrap(), "f64[1,2]");
        assert_eq!(read_back(&[0, 0, 8, 1, 0, 0, 0, 2, 7, 8]).unwrap(), "u8[2]");
        let mut array = vec![];
        npy::write(&HostTensor::from_slice(&[2, 1], &[1i64, 2]).unwrap(), &mut array).unwrap();
        assert_eq!(read_back(&array).unwrap(), "i64[2,1]");
        assert!(
            read_back(b"PK\0\0")
                .unwrap_err()
                .to_string()
                .ends_with("rows: is neither text nor of a format that is known")
        );
        assert!(read_back(b"\n").unwrap_err().to_string().ends_with(": has no rows"));
        // Only IDX files may be gzipped.
        let gzipped = |bytes: &[u8]| {
            let mut file = GzEncoder::new(vec![], Compression::fast());
            file.write_all(bytes).unwrap();
            read_back(&file.finish().unwrap())
        };
        assert_eq!(gzipped(&[0, 0, 8, 1, 0, 0, 0, 2, 7, 8]).unwrap(), "u8[2]");
        for other in [&array[..], b"1,2\n"] {
            let error = gzipped(other).unwrap_err().to_string();
            assert!(
                error.ends_with("rows: is gzipped, which only IDX files may be; decompress it"),
                "{error}"
            );
        }
        let error = bytes_of(&path).unwrap_err().to_string();
        assert!(error.ends_with("decompress it"), "{error}");
        assert!(
            read(Path::new("no/such/file"))
                .unwrap_err()
                .to_string()
                .starts_with("no/such/file: cannot be read: ")
        );
    }

    #[test]
    fn rows_take_the_type_of_the_input() {
        let rows = csv("1,2,3,4\n5,6,7,8\n9,10,11,255\n").unwrap();
        let fitted = fit(&rows, &input(DType::U8, &[2, 2]), 1, 2).unwrap();
        assert_eq!(format!("{fitted:?}"), "u8[2,2,2]");
        assert_eq!(fitted.to_f64(), [5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 255.0]);
        for dtype in [
            DType::I16,
            DType::U16,
            DType::I32,
            DType::I64,
            DType::U32,
            DType::F16,
            DType::BF16,
            DType::F32,
            DType::F64,
        ] {
            assert_eq!(fit(&rows, &input(dtype, &[4]), 0, 1).unwrap().to_f64(), [1.0, 2.0, 3.0, 4.0]);
        }
    }

    #[test]
    fn rows_that_do_not_fit_are_named() {
        let rows = csv("1,2\n3,4.5\n").unwrap();
        let error = |ty: Type| fit(&rows, &ty, 0, 2).unwrap_err().to_string();
        assert_eq!(error(input(DType::F32, &[3])), "rows of f64[2] do not fit an input of f32[3]");
        assert_eq!(error(input(DType::I32, &[2])), "row 1, element 1: 4.5 is no i32");
        assert_eq!(error(input(DType::Bool, &[2])), "row 0, element 1: 2 is no bool");
    }

    #[test]
    fn floats_beyond_the_range_of_the_input_are_named() {
        let rows = HostTensor::from_slice(&[4], &[1.0, f64::NEG_INFINITY, f64::NAN, 1e300]).unwrap();
        let error =
            |n_rows, dtype| fit(&rows, &input(dtype, &[]), 0, n_rows).map_err(|error| error.to_string());
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            assert_eq!(error(3, dtype).unwrap().to_f64()[1], f64::NEG_INFINITY);
            assert_eq!(error(4, dtype).unwrap_err(), format!("row 3: 1e300 is no {dtype}"));
        }
        assert_eq!(error(4, DType::F64).unwrap(), rows);
        let large = HostTensor::from_slice(&[1], &[70_000.0f32]).unwrap();
        let refused = fit(&large, &input(DType::F16, &[]), 0, 1).unwrap_err();
        assert_eq!(refused.in_file(Path::new("x.npy")).to_string(), "x.npy: row 0: 70000 is no f16");
    }

    /// 2^63 is the first number beyond the range, and saturates to a number that equals it in f64.
    #[test]
    fn floats_beyond_the_range_of_i64_are_named() {
        let most = 9_223_372_036_854_774_784.0;
        let rows = HostTensor::from_slice(&[3], &[-(2f64.powi(63)), most, 2f64.powi(63)]).unwrap();
        let fitted = |n_rows| fit(&rows, &input(DType::I64, &[]), 0, n_rows);
        assert_eq!(fitted(2).unwrap().as_slice::<i64>().unwrap(), [i64::MIN, most as i64]);
        assert_eq!(fitted(3).unwrap_err().to_string(), "row 2: 9.223372036854776e18 is no i64");
    }

    #[test]
    fn a_scalar_has_no_rows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.npy");
        npy::write(&HostTensor::scalar(3.0f32), &mut fs::File::create(&path).unwrap()).unwrap();
        assert_eq!(read_as(&path, &Reading::default()).unwrap().tensor, HostTensor::scalar(3.0f32));
        assert!(read(&path).unwrap_err().to_string().ends_with("s.npy: has no rows"));
    }
}
