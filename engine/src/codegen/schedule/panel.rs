//! Panels: the parts of a product that is folded part by part.

/// A part of a product: rows of one matrix and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panel {
    /// The matrix.
    pub batch: usize,
    /// The first row and the number of rows.
    pub rows: [usize; 2],
    /// The first column and the number of columns.
    pub columns: [usize; 2],
}

/// How a product is cut into panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelCut {
    /// Panels of about so many bytes. Where a row spans several of them, its state waits in memory.
    Bytes(usize),
    /// Panels of whole rows, which need no states.
    WholeRows,
}

/// Bytes of a panel. The panel and its factors fit in the L2 cache of a large GPU.
pub const PANEL_BYTES: usize = 24 << 20;
/// Most bytes of a panel of whole rows, more than any cache holds, and its least share of all rows.
const WHOLE_ROWS_BYTES: usize = 128 << 20;
const WHOLE_ROWS_SHARE: usize = 16;
/// Fewest rows of such a panel. A block folds each.
const FEWEST_WHOLE_ROWS: usize = 128;
/// Elements of a row for each word of its state, from which on the state is a small part of what a panel reads.
const ELEMENTS_PER_WORD: usize = 4;
/// Rows of a panel. There are many, as each panel reads its columns of the right factor again.
const PANEL_ROWS: usize = 2048;
/// Panels have multiples of this many rows and columns, so that all start at aligned addresses.
const ALIGNED: usize = 64;

impl PanelCut {
    /// Rows and columns of a panel of a product of `m` rows and `n` columns, of elements of `size` bytes, whose rows have states
    /// of so many words. None if whole rows are no gain.
    pub fn extents(self, shape: [usize; 2], size: usize, state_words: usize) -> Option<[usize; 2]> {
        match self {
            PanelCut::Bytes(bytes) => Some(extents(shape, bytes / size)),
            PanelCut::WholeRows => whole_rows(shape, size, state_words),
        }
    }
}

/// Rows and columns of panels of about `n_elements` elements.
fn extents([m, n]: [usize; 2], n_elements: usize) -> [usize; 2] {
    let even = |extent: usize, most: usize| {
        extent.div_ceil(extent.div_ceil(most.max(ALIGNED)).max(1)).next_multiple_of(ALIGNED)
    };
    let n_rows = even(m, PANEL_ROWS.min(n_elements / ALIGNED));
    [n_rows, even(n, n_elements / n_rows.min(m).max(1))]
}

/// Rows and columns of panels of whole rows, if states of so many words are a large part of what smaller panels read.
fn whole_rows([m, n]: [usize; 2], size: usize, state_words: usize) -> Option<[usize; 2]> {
    let [_, n_columns] = extents([m, n], PANEL_BYTES / size);
    let most = (WHOLE_ROWS_BYTES / (n * size)).min(m / WHOLE_ROWS_SHARE) / ALIGNED * ALIGNED;
    let is_large = n_columns < n && ELEMENTS_PER_WORD * state_words >= n_columns;
    (is_large && most >= FEWEST_WHOLE_ROWS).then_some([most, n])
}

/// The panels of a product, given its numbers of matrices, rows and columns, and those of a panel.
pub fn panels([batch, m, n]: [usize; 3], [n_rows, n_columns]: [usize; 2]) -> Vec<Panel> {
    let mut panels = vec![];
    for batch in 0..batch {
        for row in (0..m).step_by(n_rows) {
            for column in (0..n).step_by(n_columns) {
                let rows = [row, n_rows.min(m - row)];
                panels.push(Panel { batch, rows, columns: [column, n_columns.min(n - column)] });
            }
        }
    }
    panels
}
