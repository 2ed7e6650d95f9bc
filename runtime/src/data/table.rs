//! The user's own rows: files in several formats, made to fit an input of a graph.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use engine_core::ir::{DType, Type};
use half::{bf16, f16};
use thiserror::Error;

use super::idx::{self, IdxError};
use super::npy::{self, NpyError};
use crate::tensor::{Element, HostTensor, TensorError, type_text};

/// Why a file's rows cannot be used.
#[derive(Debug, Error)]
pub enum TableError {
    /// The file cannot be opened or read.
    #[error("{}: cannot be read: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// Not a number where one should be.
    #[error("{}:{line}: column {column}: `{text}` is not a number", .path.display())]
    NotANumber {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// What is there.
        text: String,
    },
    /// A line with more or fewer columns than those before.
    #[error("{}:{line}: {found} columns, the lines before have {expected}", .path.display())]
    Ragged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// Columns of the lines before.
        expected: usize,
        /// Columns of this line.
        found: usize,
    },
    /// There are no rows, or none that are rows.
    #[error("{}: has no rows", .path.display())]
    NoRows {
        /// The file.
        path: PathBuf,
    },
    /// The rows have another number of elements than the input takes.
    #[error("rows of {found} do not fit an input of {expected}")]
    WrongRow {
        /// The type of one row of the input.
        expected: String,
        /// The type of one row of the file.
        found: String,
    },
    /// A number that the input's element type cannot hold.
    #[error("row {row}: {value} is no {dtype}")]
    WrongValue {
        /// The row, counted from 0.
        row: usize,
        /// The number.
        value: f64,
        /// The input's element type.
        dtype: DType,
    },
    /// An IDX file cannot be used.
    #[error(transparent)]
    Idx(#[from] IdxError),
    /// A `.npy` file cannot be used.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// So much cannot be held.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// Reads rows: `.npy` and IDX files (gzipped or not) by their first bytes, anything else as CSV.
pub fn read(path: &Path) -> Result<HostTensor, TableError> {
    let unreadable = |error| TableError::Unreadable { path: path.to_path_buf(), error };
    let file = fs::read(path).map_err(unreadable)?;
    let rows = match &file[..] {
        [0x1f, 0x8b, ..] | [0, 0, ..] => idx::parse(path, &file)?,
        bytes if bytes.starts_with(npy::MAGIC) => npy::parse(path, &file)?,
        _ => parse_csv(path, &String::from_utf8_lossy(&file))?,
    };
    match rows.shape().first() {
        Some(1..) => Ok(rows),
        _ => Err(TableError::NoRows { path: path.to_path_buf() }),
    }
}

/// Reads comma-separated numbers, one row a line, as `f64[rows, columns]`. The first line may hold names instead;
/// empty lines do not count.
pub fn parse_csv(path: &Path, text: &str) -> Result<HostTensor, TableError> {
    let mut numbers: Vec<f64> = vec![];
    let (mut n_columns, mut n_rows) = (0, 0);
    for (line, fields) in text.lines().enumerate().filter(|(_, fields)| !fields.trim().is_empty()) {
        let is_head = n_rows == 0 && numbers.is_empty() && n_columns == 0;
        if is_head && fields.split(',').all(|field| field.trim().parse::<f64>().is_err()) {
            n_columns = fields.split(',').count();
            continue;
        }
        let before = numbers.len();
        for (column, field) in fields.split(',').enumerate() {
            numbers.push(field.trim().parse().map_err(|_| TableError::NotANumber {
                path: path.to_path_buf(),
                line: line + 1,
                column: column + 1,
                text: field.trim().to_string(),
            })?);
        }
        let found = numbers.len() - before;
        if n_columns != 0 && found != n_columns {
            return Err(TableError::Ragged {
                path: path.to_path_buf(),
                line: line + 1,
                expected: n_columns,
                found,
            });
        }
        (n_columns, n_rows) = (found, n_rows + 1);
    }
    Ok(HostTensor::from_slice(&[n_rows, n_columns], &numbers)?)
}

/// The rows `first..first + n_rows` in the type of an input whose outermost axis counts rows: of its element type, as
/// long as that holds every number exactly or is a float, and of its extents, as long as a row has as many elements.
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
    match rows.dtype() == input.dtype {
        true => Ok(taken),
        false => converted(&taken, input.dtype, first, n_elements.max(1)),
    }
}

fn converted(
    tensor: &HostTensor,
    dtype: DType,
    first: usize,
    n_elements: usize,
) -> Result<HostTensor, TableError> {
    let values = tensor.to_f64();
    let fits = |value: f64| match dtype {
        DType::Bool => value == 0.0 || value == 1.0,
        DType::U8 => value == f64::from(value as u8),
        DType::I32 => value == f64::from(value as i32),
        DType::U32 => value == f64::from(value as u32),
        DType::I64 => value == (value as i64) as f64,
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => true,
    };
    if let Some(at) = values.iter().position(|&value| !fits(value)) {
        return Err(TableError::WrongValue { row: first + at / n_elements, value: values[at], dtype });
    }
    fn of<T: Element>(
        shape: &[usize],
        values: &[f64],
        cast: impl Fn(f64) -> T,
    ) -> Result<HostTensor, TensorError> {
        HostTensor::from_slice(shape, &values.iter().map(|&value| cast(value)).collect::<Vec<T>>())
    }
    let shape = tensor.shape();
    Ok(match dtype {
        DType::Bool => {
            let bytes: Vec<u8> = values.iter().map(|&value| value as u8).collect();
            HostTensor::from_bytes(DType::Bool, shape, &bytes)?
        }
        DType::U8 => of(shape, &values, |value| value as u8)?,
        DType::I32 => of(shape, &values, |value| value as i32)?,
        DType::I64 => of(shape, &values, |value| value as i64)?,
        DType::U32 => of(shape, &values, |value| value as u32)?,
        DType::F16 => of(shape, &values, f16::from_f64)?,
        DType::BF16 => of(shape, &values, bf16::from_f64)?,
        DType::F32 => of(shape, &values, |value| value as f32)?,
        DType::F64 => tensor.clone(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use engine_core::ir::Dim;

    use super::*;

    fn csv(text: &str) -> Result<HostTensor, TableError> {
        parse_csv(Path::new("a.csv"), text)
    }

    fn input(dtype: DType, row: &[usize]) -> Type {
        let rows = [Dim::Named("B".into())];
        Type { dtype, shape: rows.into_iter().chain(row.iter().map(|&extent| Dim::Fixed(extent))).collect() }
    }

    #[test]
    fn numbers_with_or_without_names_above_are_rows() {
        let plain = csv("1,2\n\n3, -4.5\n").unwrap();
        assert_eq!((plain.shape(), plain.to_f64()), (&[2usize, 2][..], vec![1.0, 2.0, 3.0, -4.5]));
        assert_eq!(csv("left,right\r\n1,2\r\n3,-4.5\r\n").unwrap(), plain);
        assert_eq!(csv("").unwrap().shape(), [0, 0]);
    }

    #[test]
    fn lines_that_are_no_rows_are_named() {
        let error = |text| csv(text).unwrap_err().to_string();
        assert_eq!(error("1,2\n3,x\n"), "a.csv:2: column 2: `x` is not a number");
        assert_eq!(error("1,2\n\n3\n"), "a.csv:3: 1 columns, the lines before have 2");
        assert_eq!(error("a,b\nc,d\n"), "a.csv:2: column 1: `c` is not a number");
        assert_eq!(error("a,b,c\n1,2\n"), "a.csv:2: 2 columns, the lines before have 3");
    }

    #[test]
    fn files_are_told_apart_by_their_first_bytes() {
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
        assert!(read_back(b"\n").unwrap_err().to_string().ends_with(": has no rows"));
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
        for dtype in [DType::I32, DType::I64, DType::U32, DType::F16, DType::BF16, DType::F32, DType::F64] {
            assert_eq!(fit(&rows, &input(dtype, &[4]), 0, 1).unwrap().to_f64(), [1.0, 2.0, 3.0, 4.0]);
        }
    }

    #[test]
    fn rows_that_do_not_fit_are_named() {
        let rows = csv("1,2\n3,4.5\n").unwrap();
        let error = |ty: Type| fit(&rows, &ty, 0, 2).unwrap_err().to_string();
        assert_eq!(error(input(DType::F32, &[3])), "rows of f64[2] do not fit an input of f32[3]");
        assert_eq!(error(input(DType::I32, &[2])), "row 1: 4.5 is no i32");
        assert_eq!(error(input(DType::Bool, &[2])), "row 0: 2 is no bool");
    }
}
