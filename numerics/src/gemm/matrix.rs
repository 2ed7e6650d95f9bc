//! Strided matrices.

use std::marker::PhantomData;
use std::ops::Range;

/// A matrix in a slice: element (i, j) is `data[offset + i·row_stride + j·column_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    start: *const T,
    pub(super) n_rows: usize,
    pub(super) n_columns: usize,
    pub(super) row_stride: isize,
    pub(super) column_stride: isize,
    owner: PhantomData<&'a [T]>,
}

// SAFETY: a matrix is a shared view, like a slice.
unsafe impl<T: Sync> Send for Matrix<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Matrix<'_, T> {}

impl<'a, T> Matrix<'a, T> {
    /// A view of a slice; strides may be 0 or negative.
    ///
    /// # Panics
    /// If an element would lie outside the slice.
    pub fn new(data: &'a [T], offset: isize, [n_rows, n_columns]: [usize; 2], strides: [isize; 2]) -> Self {
        let [row_stride, column_stride] = strides;
        let reach = |count: usize, stride: isize| (count as isize - 1) * stride;
        let (rows, columns) = (reach(n_rows, row_stride), reach(n_columns, column_stride));
        let is_empty = n_rows == 0 || n_columns == 0;
        let first = offset + rows.min(0) + columns.min(0);
        let last = offset + rows.max(0) + columns.max(0);
        assert!(
            is_empty || (0 <= first && last < data.len() as isize),
            "bug: a matrix reaches out of its slice"
        );
        let start = data.as_ptr().wrapping_offset(offset);
        Matrix { start, n_rows, n_columns, row_stride, column_stride, owner: PhantomData }
    }

    /// A row-major view.
    ///
    /// # Panics
    /// If an element would lie outside the slice.
    pub fn row_major(data: &'a [T], n_rows: usize, n_columns: usize) -> Self {
        Matrix::new(data, 0, [n_rows, n_columns], [n_columns as isize, 1])
    }

    /// The same data with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Matrix {
            n_rows: self.n_columns,
            n_columns: self.n_rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Some of its rows and columns.
    ///
    /// # Panics
    /// If there are not that many.
    pub fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(rows.end <= self.n_rows && columns.end <= self.n_columns);
        let start = self.at(rows.start, columns.start);
        Matrix { start, n_rows: rows.len(), n_columns: columns.len(), ..self }
    }

    /// The matrix with its elements as another type of the same size.
    ///
    /// # Panics
    /// If the sizes differ.
    ///
    /// # Safety
    /// The bits of the elements must be valid for that type.
    #[cfg(target_arch = "x86_64")]
    pub(super) unsafe fn cast<U>(self) -> Matrix<'a, U> {
        assert!(size_of::<T>() == size_of::<U>());
        let Matrix { start, n_rows, n_columns, row_stride, column_stride, .. } = self;
        Matrix { start: start.cast(), n_rows, n_columns, row_stride, column_stride, owner: PhantomData }
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        [self.n_rows, self.n_columns]
    }

    /// Elements from row to row, and from column to column.
    pub fn strides(&self) -> [isize; 2] {
        [self.row_stride, self.column_stride]
    }

    /// The address of an element; inside the slice if there is such a row and column.
    pub fn at(&self, row: usize, column: usize) -> *const T {
        self.start.wrapping_offset(row as isize * self.row_stride + column as isize * self.column_stride)
    }
}

/// A part of a row-major matrix that one worker writes.
#[derive(Debug)]
pub struct TileMut<'a, T> {
    pub(super) start: *mut T,
    pub(super) n_rows: usize,
    pub(super) n_columns: usize,
    pub(super) row_stride: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: a tile is the only access to its elements, like a mutable slice.
unsafe impl<T: Send> Send for TileMut<'_, T> {}

impl<'a, T> TileMut<'a, T> {
    /// A whole matrix as one tile, its rows `row_stride` elements apart.
    ///
    /// # Panics
    /// If an element would lie outside the slice, or rows would overlap.
    pub fn new(data: &'a mut [T], n_rows: usize, n_columns: usize, row_stride: usize) -> Self {
        assert!(n_rows == 0 || (n_rows - 1) * row_stride + n_columns <= data.len());
        assert!(n_columns <= row_stride || n_rows <= 1);
        TileMut { start: data.as_mut_ptr(), n_rows, n_columns, row_stride, owner: PhantomData }
    }

    /// A tile at an address.
    ///
    /// # Safety
    /// The rows must be valid for writes, and the tile must be their only user while it lives.
    pub unsafe fn from_raw(start: *mut T, n_rows: usize, n_columns: usize, row_stride: usize) -> Self {
        TileMut { start, n_rows, n_columns, row_stride, owner: PhantomData }
    }

    /// One row of the tile.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&mut self, row_idx: usize) -> &mut [T] {
        assert!(row_idx < self.n_rows);
        // SAFETY: the row is inside the tile, and the tile is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row_idx * self.row_stride), self.n_columns) }
    }
}
