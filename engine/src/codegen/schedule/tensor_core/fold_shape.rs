//! The shape of a fold behind a product: its blocks of rows, its tiles and pieces of columns, and its shared memory.

use super::score_fold::{ScoreFold, Scores};
use super::{BESIDE_RING, LINE_BYTES, TensorCoreMatmul};
use crate::device_model::DeviceModel;
use crate::fusion::{Kernel, Reg};
use crate::ir::DType;

/// The fewest stages of the ring, and the most.
const STAGES: [usize; 2] = [4, 8];
/// Blocks of rows in shared memory: one is multiplied while the next one is copied.
const MOST_KEPT: usize = 2;
/// The most pieces of a row.
const MOST_PIECES: usize = 64;
/// Tiles whose time the start and the end of a piece take.
const TILES_BESIDE: usize = 2;

/// A fold behind a product on tensor cores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorCoreFold {
    pub product: TensorCoreMatmul,
    pub n_stages: usize,
    /// Blocks of rows that stay in shared memory; 0 if they come through the ring.
    pub n_kept: usize,
    pub tiles_of_piece: usize,
    pub fold: ScoreFold,
    /// The folded register.
    pub value: Reg,
    /// Whether the epilogue depends on the column alone and has only a row of points.
    pub is_by_column: bool,
    /// By result: its operand and its type.
    pub results: Vec<(usize, DType)>,
    /// The operand that holds the states of pieces.
    pub states: Option<usize>,
}

impl TensorCoreFold {
    /// Blocks of rows, of all matrices and of one.
    pub fn row_blocks(&self) -> [usize; 2] {
        let [batch, m, ..] = self.product.extents;
        let of_matrix = m.div_ceil(self.product.tile.rows);
        [batch * of_matrix, of_matrix]
    }

    /// Tiles of columns.
    pub fn n_tiles(&self) -> usize {
        self.product.extents[2].div_ceil(self.product.tile.columns)
    }

    pub fn n_pieces(&self) -> usize {
        self.n_tiles().div_ceil(self.tiles_of_piece)
    }

    /// Blocks of rows with a piece of the columns.
    pub fn n_units(&self) -> usize {
        self.row_blocks()[0] * self.n_pieces()
    }

    pub fn keeps_rows(&self) -> bool {
        self.n_kept > 0
    }

    /// Bytes of a block of rows.
    pub fn rows_bytes(&self) -> usize {
        self.product.n_steps() * self.product.tile.rows * LINE_BYTES
    }

    /// The place of the right matrix in a stage.
    pub fn right_start(&self) -> usize {
        if self.keeps_rows() { 0 } else { self.product.tile.rows * LINE_BYTES }
    }

    /// Bytes of a stage of the ring.
    pub fn stage_bytes(&self) -> usize {
        self.right_start() + self.product.tile.columns * LINE_BYTES
    }

    /// The fold with its pieces, blocks and memory.
    pub fn over(mut self, kernel: &Kernel, device: &DeviceModel) -> Option<TensorCoreFold> {
        self.tiles_of_piece = tiles_of_piece(self.row_blocks()[0], self.n_tiles(), device.n_processors);
        let has_states = self.n_pieces() > 1 && self.fold.merges_pieces();
        self.states = has_states.then_some(kernel.operands.len());
        self.product.n_blocks = self.n_units().min(device.n_processors);
        self.with_memory(device)
    }

    /// The fold with as many blocks of rows and stages as shared memory holds.
    fn with_memory(mut self, device: &DeviceModel) -> Option<TensorCoreFold> {
        let bytes = device.double_buffer_bytes.saturating_sub(BESIDE_RING);
        let [fewest, most] = STAGES;
        let most_kept = if self.n_units() <= device.n_processors { 1 } else { MOST_KEPT };
        for n_kept in (0..=most_kept).rev() {
            self.n_kept = n_kept;
            self.n_stages = bytes.saturating_sub(n_kept * self.rows_bytes()) / self.stage_bytes();
            if self.n_stages >= fewest {
                break;
            }
        }
        self.n_stages = self.n_stages.min(most);
        (self.n_stages >= 2).then_some(self)
    }

    pub fn scores(&self) -> Scores {
        let (n_parts, tile) = (self.product.n_parts(), self.product.tile);
        let [_, m, n, _] = self.product.extents;
        Scores { n_parts, columns: tile.columns, extents: [m, n], n_pieces: self.n_pieces() }
    }
}

/// Tiles of a piece, such that all processors have about the same number of them.
fn tiles_of_piece(n_row_blocks: usize, n_tiles: usize, n_processors: usize) -> usize {
    let time = |n_pieces: &usize| {
        let rounds = (n_row_blocks * n_pieces).div_ceil(n_processors);
        rounds * (n_tiles.div_ceil(*n_pieces) + TILES_BESIDE)
    };
    let n_pieces = (1..=MOST_PIECES.min(n_tiles)).min_by_key(time).unwrap_or(1);
    n_tiles.div_ceil(n_pieces)
}
