//! The cut of a product into tiles.

use std::ops::Range;

/// The most elements of a row that one block of the kernel computes, over all instruction sets.
pub(super) const STRIP: usize = 3 * WIDEST;
/// The most elements of a vector, over all instruction sets.
pub(super) const WIDEST: usize = 16;
/// The most rows of a register block, over all instruction sets.
pub(super) const MAX_ROWS: usize = 8;
/// The most rows that are few: the right matrix is read where it lies.
pub(super) const FEW_ROWS: usize = 4;
/// The most columns of a tile.
const WIDE: usize = 1024;
/// The most columns of a tile of 256 rows. Tiles of fewer rows are wider, because long lines are written fastest.
const NARROW: usize = 256;
/// The most elements of a tile, except for columns behind the last whole strip.
const MOST_ELEMENTS: usize = NARROW * NARROW;
/// The least multiplications of a tile.
const MIN_PRODUCTS: usize = 100_000;

/// The columns that tiles are cut at.
const COLUMNS: usize = 2 * WIDEST;
/// The most columns behind the last whole strip that its tile takes: a further vector, and thin columns.
const MOST_BEHIND: usize = WIDEST + 4;

/// The fewest columns of a tile whose strips of A are packed again for other columns.
const LEAST_COLUMNS: usize = 64;

/// The most elements of a product whose contraction is split.
const MOST_SPLIT_ELEMENTS: usize = 1 << 16;
/// The fewest products of an element in a part.
const LEAST_DEPTH: usize = 256;
/// The most parts.
const MOST_PARTS: usize = 8;

/// The parts that the contraction of an `m × n` product with `k` products an element is split into; 1 if a product at once is
/// as fast. A part reads whole rows of its operands, where tiles of few columns would read a piece of each row.
pub fn n_parts(m: usize, n: usize, k: usize) -> usize {
    let most = (k / LEAST_DEPTH).min(MOST_PARTS).min(m * n * k / MIN_PRODUCTS);
    if m * n <= MOST_SPLIT_ELEMENTS && most >= MOST_PARTS / 2 { most } else { 1 }
}

/// The cut of a product's output: by shape alone, so that results and work do not depend on threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    n_rows: usize,
    n_columns: usize,
    rows: usize,
    columns: usize,
    n_column_tiles: usize,
}

impl Tiles {
    /// The cut of an `m × n` output with `k` products an element. With `whole_rows` a tile spans all columns, for
    /// epilogues that need whole rows.
    ///
    /// There are about eight tiles of at most 256 × 276 or 64 × 1044. A tile has at least about 100 000 multiplications;
    /// fewer take less time than starting the tile. Up to 256 rows are one tile, so that each strip of B is packed once.
    pub fn new(m: usize, n: usize, k: usize, whole_rows: bool) -> Tiles {
        let n_tiles = (m * n * k / MIN_PRODUCTS).clamp(1, 8);
        let n_strips = (n / COLUMNS + usize::from(n % COLUMNS > MOST_BEHIND)).max(1);
        let rows_of_tile = m.next_multiple_of(MAX_ROWS).clamp(MAX_ROWS, 256);
        let widest = (MOST_ELEMENTS / rows_of_tile).clamp(NARROW, WIDE);
        let n_wanted = n_tiles.div_ceil(m.div_ceil(256).max(1));
        let n_column_tiles = if whole_rows { 1 } else { n_wanted.max(n.div_ceil(widest)).min(n_strips) };
        let rows =
            m.div_ceil(n_tiles.div_ceil(n_column_tiles)).next_multiple_of(MAX_ROWS).clamp(MAX_ROWS, 256);
        let strips = n_strips.div_ceil(n_column_tiles);
        let n_column_tiles = n_strips.div_ceil(strips);
        let columns = if n_column_tiles == 1 { n.max(1) } else { strips * COLUMNS };
        Tiles { n_rows: m, n_columns: n, rows, columns, n_column_tiles }
    }

    /// The cut for lanes along the rows: a tile has one strip of A, or several if they have few products.
    pub fn direct(m: usize, n: usize, k: usize) -> Tiles {
        let n_tiles = (m * n * k / MIN_PRODUCTS).max(1);
        let n_strips = m.div_ceil(COLUMNS).max(1);
        let n_column_tiles = 8usize.div_ceil(n_strips).min(n / LEAST_COLUMNS).max(n.div_ceil(256));
        let columns = n.div_ceil(n_column_tiles.clamp(1, n_tiles)).next_multiple_of(MAX_ROWS).max(1);
        let n_column_tiles = n.div_ceil(columns);
        let rows = n_strips.div_ceil((n_tiles / n_column_tiles.max(1)).clamp(1, n_strips)) * COLUMNS;
        Tiles { n_rows: m, n_columns: n, rows, columns, n_column_tiles }
    }

    /// The rows and columns of the largest tile.
    pub fn largest(&self) -> (usize, usize) {
        let last = self.n_columns - (self.n_column_tiles - 1) * self.columns;
        (self.rows.min(self.n_rows), last.max(self.columns.min(self.n_columns)))
    }

    /// The number of tiles.
    pub fn len(&self) -> usize {
        if self.n_columns == 0 { 0 } else { self.n_rows.div_ceil(self.rows) * self.n_column_tiles }
    }

    /// Whether the output is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows and columns of a tile; tiles of the same rows follow each other.
    pub fn tile(&self, tile_idx: usize) -> (Range<usize>, Range<usize>) {
        let (row, column) = (tile_idx / self.n_column_tiles, tile_idx % self.n_column_tiles);
        let (i, j) = (row * self.rows, column * self.columns);
        let is_last = column + 1 == self.n_column_tiles;
        let end = if is_last { self.n_columns } else { j + self.columns };
        (i..(i + self.rows).min(self.n_rows), j..end)
    }
}
