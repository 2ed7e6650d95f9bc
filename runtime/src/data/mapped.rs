//! Rows that stay on disk: a file is mapped into memory, and batches are gathered from the map.

use std::fs::File;
use std::io;
use std::sync::Arc;

use engine_core::ir::{DType, Type};
use memmap2::{Advice, Mmap};

use super::field::{Field, LazyRows};

/// Where the rows of a file are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) dtype: DType,
    /// The outermost axis counts rows.
    pub(super) shape: Vec<usize>,
    /// Bytes before the first row.
    pub(super) offset: usize,
    /// Bytes between a row and the next.
    pub(super) gap: usize,
    pub(super) is_big_endian: bool,
}

/// Rows of a mapped file.
struct MappedRows {
    map: Mmap,
    layout: Layout,
    row: Type,
}

/// The rows of a file, without reading them. The file has all bytes of the layout.
///
/// The file must not be changed while the field exists: other bytes would be other rows, and where the file has become
/// shorter, the program ends.
///
/// # Errors
/// If the system does not map the file.
pub(super) fn map(file: &File, layout: Layout) -> io::Result<Field> {
    // SAFETY: the file is not changed, as the documentation requires.
    let map = unsafe { Mmap::map(file) }?;
    // Reading ahead of rows in random order would be in vain. Without the advice, rows are the same.
    #[cfg(unix)]
    let _ = map.advise(Advice::Random);
    let row = Type::new(layout.dtype, layout.shape.get(1..).unwrap_or_default());
    Ok(Field::Lazy(Arc::new(MappedRows { map, layout, row })))
}

impl MappedRows {
    /// Bytes from the start of a row to that of the next.
    fn stride(&self) -> usize {
        self.row.bytes() + self.layout.gap
    }

    /// Has the system read rows ahead if they follow each other.
    fn read_ahead(&self, rows: &[i32]) {
        let (Some(&first), Some(&last)) = (rows.first(), rows.last()) else { return };
        if rows.len() > 1 && rows.windows(2).all(|pair| pair[1] == pair[0] + 1) {
            let start = self.layout.offset + first as usize * self.stride();
            let n_bytes = (last - first) as usize * self.stride() + self.row.bytes();
            #[cfg(unix)]
            let _ = self.map.advise_range(Advice::WillNeed, start, n_bytes);
            #[cfg(not(unix))]
            let _ = (start, n_bytes);
        }
    }
}

impl LazyRows for MappedRows {
    fn row_type(&self) -> Type {
        self.row.clone()
    }

    fn n_rows(&self) -> usize {
        self.layout.shape[0]
    }

    fn is_on_disk(&self) -> bool {
        true
    }

    fn copy(&self, _: u64, rows: &[i32], target: &mut [u8]) {
        self.read_ahead(rows);
        let n_bytes = self.row.bytes();
        for (&row, target) in rows.iter().zip(target.chunks_exact_mut(n_bytes.max(1))) {
            let start = self.layout.offset + row as usize * self.stride();
            target.copy_from_slice(&self.map[start..start + n_bytes]);
        }
        if self.layout.is_big_endian {
            target.chunks_exact_mut(self.layout.dtype.size()).for_each(<[u8]>::reverse);
        }
    }
}
