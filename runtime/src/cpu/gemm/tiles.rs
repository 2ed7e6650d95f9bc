//! The cut of a product into tiles.

use std::ops::Range;

/// The most elements of a row that one block of the kernel computes, over all instruction sets.
pub(super) const STRIP: usize = 2 * WIDEST;
/// The most elements of a vector, over all instruction sets.
pub(super) const WIDEST: usize = 16;
/// The most rows of a register block, over all instruction sets.
pub(super) const MAX_ROWS: usize = 8;
/// The least multiplications of a tile.
const MIN_PRODUCTS: usize = 100_000;

/// The cut of a product's output: by shape alone, so that results and work do not depend on threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    n_rows: usize,
    n_columns: usize,
    rows: usize,
    columns: usize,
}

impl Tiles {
    /// The cut of an `m × n` output with `k` products an element. With `whole_rows` a tile spans all columns, for
    /// epilogues that need whole rows.
    ///
    /// There are about eight tiles of at most 256 × 256. A tile has at least about 100 000 multiplications; fewer take
    /// less time than starting the tile. Columns are cut first, so that each strip of B is packed once.
    pub fn new(m: usize, n: usize, k: usize, whole_rows: bool) -> Tiles {
        let n_tiles = (m * n * k / MIN_PRODUCTS).clamp(1, 8);
        let n_column_tiles =
            if whole_rows { 1 } else { n_tiles.max(n.div_ceil(256)).min(n.div_ceil(STRIP)).max(1) };
        let columns = n.div_ceil(n_column_tiles).next_multiple_of(if whole_rows { 1 } else { STRIP }).max(1);
        let rows =
            m.div_ceil(n_tiles.div_ceil(n_column_tiles)).next_multiple_of(MAX_ROWS).clamp(MAX_ROWS, 256);
        Tiles { n_rows: m, n_columns: n, rows, columns }
    }

    /// The rows and columns of the largest tile.
    pub fn largest(&self) -> (usize, usize) {
        (self.rows.min(self.n_rows), self.columns.min(self.n_columns))
    }

    /// The number of tiles.
    pub fn len(&self) -> usize {
        self.n_rows.div_ceil(self.rows) * self.n_columns.div_ceil(self.columns)
    }

    /// Whether the output is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows and columns of a tile; tiles of the same rows follow each other.
    pub fn tile(&self, tile_idx: usize) -> (Range<usize>, Range<usize>) {
        let n_column_tiles = self.n_columns.div_ceil(self.columns);
        let (i, j) = (tile_idx / n_column_tiles * self.rows, tile_idx % n_column_tiles * self.columns);
        (i..(i + self.rows).min(self.n_rows), j..(j + self.columns).min(self.n_columns))
    }
}
