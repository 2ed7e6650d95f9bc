//! The rows of a field: a tensor in memory, or lazy rows, which are computed when a batch asks for them.

use std::fmt;
use std::sync::Arc;

use engine_core::ir::Type;

use crate::tensor::{HostTensor, TensorError, type_text};

/// Rows of one type that do not lie in memory one after the other, such as overlapping windows of a text.
///
/// Batches of such rows are gathered on the host and stream to the device.
pub trait LazyRows: Send + Sync {
    /// The type of one row, all extents known.
    fn row_type(&self) -> Type;

    /// The number of rows.
    fn n_rows(&self) -> usize;

    /// Whether they are the rows of a file that is not read into memory: each epoch has the same ones.
    fn is_on_disk(&self) -> bool {
        false
    }

    /// Writes rows of an epoch to `target`, one after the other, as little-endian bytes. Equal arguments give equal bytes.
    fn copy(&self, epoch: u64, rows: &[i32], target: &mut [u8]);
}

/// A field of a split: rows of one type.
#[derive(Clone)]
pub enum Field {
    /// Rows in memory. The outermost axis counts them.
    Stored(HostTensor),
    /// Rows that are computed when a batch asks for them.
    Lazy(Arc<dyn LazyRows>),
}

impl Field {
    /// So many rows of a type, for those who ask for no more: the field has no rows, and reading one is a bug.
    pub fn described(row: Type, n_rows: usize) -> Field {
        Field::Lazy(Arc::new(Described { row, n_rows }))
    }

    /// The type of one row.
    pub fn row_type(&self) -> Type {
        match self {
            Field::Stored(tensor) => Type::new(tensor.dtype(), tensor.shape().get(1..).unwrap_or_default()),
            Field::Lazy(rows) => rows.row_type(),
        }
    }

    /// The number of rows; none for a scalar.
    pub fn n_rows(&self) -> Option<usize> {
        match self {
            Field::Stored(tensor) => tensor.shape().first().copied(),
            Field::Lazy(rows) => Some(rows.n_rows()),
        }
    }

    /// The tensor of all rows, if it lies in memory.
    pub fn stored(&self) -> Option<&HostTensor> {
        match self {
            Field::Stored(tensor) => Some(tensor),
            Field::Lazy(_) => None,
        }
    }

    /// Whether the rows are those of a file that is not read into memory.
    pub fn is_on_disk(&self) -> bool {
        matches!(self, Field::Lazy(rows) if rows.is_on_disk())
    }

    /// Bytes of all rows, if they are the same in each epoch and do not overlap.
    pub fn bytes(&self) -> Option<usize> {
        match self {
            Field::Stored(tensor) => Some(tensor.bytes().len()),
            Field::Lazy(rows) => rows.is_on_disk().then(|| rows.n_rows() * rows.row_type().bytes()),
        }
    }

    /// All rows in one tensor, which is shared if it lies in memory; rows that differ from epoch to epoch are those of
    /// epoch 0.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn tensor(&self) -> Result<HostTensor, TensorError> {
        self.first_rows(usize::MAX)
    }

    /// As [`Field::tensor`], at most so many rows from the first one on.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn first_rows(&self, n_rows: usize) -> Result<HostTensor, TensorError> {
        match self {
            Field::Stored(tensor) => tensor.first_rows(n_rows),
            Field::Lazy(rows) => {
                let numbers: Vec<i32> = (0..n_rows.min(rows.n_rows()) as i32).collect();
                let row = rows.row_type();
                let mut tensor =
                    HostTensor::zeros(row.dtype, &[&[numbers.len()], &row.extents()[..]].concat())?;
                rows.copy(0, &numbers, tensor.bytes_mut());
                Ok(tensor)
            }
        }
    }

    /// Writes rows of an epoch to `target`, one after the other.
    pub fn copy(&self, epoch: u64, rows: &[i32], target: &mut [u8]) {
        let tensor = match self {
            Field::Stored(tensor) => tensor,
            Field::Lazy(lazy_rows) => return lazy_rows.copy(epoch, rows, target),
        };
        let row_bytes = self.row_type().bytes();
        if row_bytes > 0 {
            for (&row, target) in rows.iter().zip(target.chunks_exact_mut(row_bytes)) {
                target.copy_from_slice(&tensor.bytes()[row as usize * row_bytes..][..row_bytes]);
            }
        }
    }

    /// Some of the rows, in ascending order, and those that are `taken` from them. Rows in memory are moved, so that few
    /// are in memory twice.
    ///
    /// # Errors
    /// If there is no memory for those that are taken.
    pub(super) fn divided(self, kept: &[usize], taken: &[usize]) -> Result<[Field; 2], TensorError> {
        let chosen = |of: &Arc<dyn LazyRows>, rows: &[usize]| -> Field {
            let rows = rows.iter().map(|&row| row as i32).collect();
            Field::Lazy(Arc::new(Chosen { of: Arc::clone(of), rows }))
        };
        Ok(match self {
            Field::Stored(tensor) => {
                let taken = tensor.select_rows(taken)?;
                [Field::Stored(tensor.keep_rows(kept)), Field::Stored(taken)]
            }
            Field::Lazy(rows) => [chosen(&rows, kept), chosen(&rows, taken)],
        })
    }
}

impl From<HostTensor> for Field {
    fn from(tensor: HostTensor) -> Field {
        Field::Stored(tensor)
    }
}

impl fmt::Debug for Field {
    /// Prints the type alone: `f32[64,10]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Stored(tensor) => fmt::Debug::fmt(tensor, f),
            Field::Lazy(rows) => {
                let row = rows.row_type();
                f.write_str(&type_text(row.dtype, &[&[rows.n_rows()], &row.extents()[..]].concat()))
            }
        }
    }
}

impl PartialEq for Field {
    /// Equality of all rows in epoch 0.
    fn eq(&self, other: &Self) -> bool {
        match (self.tensor(), other.tensor()) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        }
    }
}

/// A type and a number of rows.
struct Described {
    row: Type,
    n_rows: usize,
}

impl LazyRows for Described {
    fn row_type(&self) -> Type {
        self.row.clone()
    }

    fn n_rows(&self) -> usize {
        self.n_rows
    }

    fn copy(&self, _: u64, _: &[i32], _: &mut [u8]) {
        engine_core::bug!("rows of a field that was loaded with `types_only`");
    }
}

/// Some of the rows.
struct Chosen {
    of: Arc<dyn LazyRows>,
    rows: Vec<i32>,
}

impl LazyRows for Chosen {
    fn row_type(&self) -> Type {
        self.of.row_type()
    }

    fn n_rows(&self) -> usize {
        self.rows.len()
    }

    fn is_on_disk(&self) -> bool {
        self.of.is_on_disk()
    }

    fn copy(&self, epoch: u64, rows: &[i32], target: &mut [u8]) {
        let rows: Vec<i32> = rows.iter().map(|&row| self.rows[row as usize]).collect();
        self.of.copy(epoch, &rows, target);
    }
}

/// Rows that are equally long pieces of one tensor. They may overlap, so a text of n bytes can have n rows of any length
/// and takes n bytes.
pub(super) struct SlidingWindows {
    /// A tensor of one axis.
    whole: HostTensor,
    row: Type,
    /// Elements before the first row.
    offset: usize,
    /// Elements from the start of a row to that of the next.
    stride: usize,
    n_rows: usize,
}

impl SlidingWindows {
    /// Rows of these extents, `n_rows` of them, from an element on. A row beyond the end is a bug of the caller.
    pub(super) fn new(
        whole: &HostTensor,
        extents: &[usize],
        offset: usize,
        (stride, n_rows): (usize, usize),
    ) -> SlidingWindows {
        let row = Type::new(whole.dtype(), extents);
        let end = offset + n_rows.saturating_sub(1) * stride + row.numel();
        if n_rows > 0 && end > whole.n_elements() {
            engine_core::bug!("the last row ends at {end} of {whole:?}");
        }
        SlidingWindows { whole: whole.clone(), row, offset, stride, n_rows }
    }
}

impl LazyRows for SlidingWindows {
    fn row_type(&self) -> Type {
        self.row.clone()
    }

    fn n_rows(&self) -> usize {
        self.n_rows
    }

    fn copy(&self, _: u64, rows: &[i32], target: &mut [u8]) {
        let (size, row_bytes) = (self.row.dtype.size(), self.row.bytes());
        for (&row, target) in rows.iter().zip(target.chunks_exact_mut(row_bytes.max(1))) {
            let start = (self.offset + row as usize * self.stride) * size;
            target.copy_from_slice(&self.whole.bytes()[start..start + row_bytes]);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn letters(field: &Field) -> String {
        String::from_utf8(field.tensor().unwrap().bytes().to_vec()).unwrap()
    }

    fn windows(offset: usize, stride: usize, n_rows: usize) -> Field {
        let whole = HostTensor::from_slice(&[8], b"abcdefgh").unwrap();
        Field::Lazy(Arc::new(SlidingWindows::new(&whole, &[3], offset, (stride, n_rows))))
    }

    #[test]
    fn windows_overlap_in_memory() {
        let field = windows(1, 2, 3);
        assert_eq!(format!("{field:?}"), "u8[3,3]");
        assert_eq!(letters(&field), "bcddeffgh");
        let mut rows = [0; 6];
        field.copy(9, &[2, 0], &mut rows);
        assert_eq!(&rows, b"fghbcd");
        assert_eq!(field.first_rows(1).unwrap().bytes(), b"bcd");
    }

    #[test]
    fn rows_are_divided_in_memory_or_not() {
        let lazy = windows(0, 1, 4).divided(&[0, 3], &[1, 2]).unwrap();
        assert_eq!(lazy.each_ref().map(letters), ["abcdef", "bcdcde"]);
        let stored = Field::from(windows(0, 1, 4).tensor().unwrap()).divided(&[0, 3], &[1, 2]).unwrap();
        assert_eq!(stored, lazy);
        assert!(stored[0].stored().is_some() && lazy[0].stored().is_none());
    }
}
