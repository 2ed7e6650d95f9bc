//! Row reductions: ops that fold a row piece by piece, so that the producer of the rows need not store them.

use super::call::KernelCall;
use super::gpu::{BlockFold, BlockFoldFn};
use super::host::{Elements, HostKernel, Lent, Share};
use super::kernel::{GpuForm, KernelForm, OracleFn};
use crate::device_model::DeviceModel;
use std::fmt;
use std::sync::Arc;

/// An op on rows, along the last axis of its first operand. Pieces of a row are folded into a state, states of adjacent
/// pieces are merged, and the row's results follow from the state and the same row of further operands. If only an op of
/// one operand reads the result of a matmul, the matmul hands over its tiles and the matrix is never stored.
#[derive(Clone)]
pub struct RowReduction {
    fold: Arc<FoldFn>,
    blocks: Option<BlockFoldFn>,
    positions: Option<usize>,
}

type FoldFn = dyn Fn(&KernelCall) -> Box<dyn RowFold> + Send + Sync;

/// A row reduction for one call of known shapes.
///
/// The results must not depend on the cut of a row into pieces.
pub trait RowFold: Send + Sync {
    /// Words of the state of one row.
    fn state_words(&self) -> usize;

    /// Initializes the state of an empty row.
    fn init(&self, state: &mut [u64]);

    /// Folds the elements from number `first` of the row on into the state. Pieces come in the order of the row.
    fn step(&self, state: &mut [u64], first: usize, piece: Elements);

    /// Merges the state of a later part of the same row into this state.
    fn merge(&self, state: &mut [u64], later: &[u64]);

    /// Writes the row's results. Rows of further operands are [`Share::operand`].
    fn finish(&self, state: &mut [u64], results: &mut Share);
}

impl RowReduction {
    /// A row reduction from a function that prepares its fold for a call.
    pub fn new(fold: impl Fn(&KernelCall) -> Box<dyn RowFold> + Send + Sync + 'static) -> RowReduction {
        RowReduction { fold: Arc::new(fold), blocks: None, positions: None }
    }

    /// This row reduction with a block fold, so that GPUs run it too, alone and behind a matmul.
    pub fn on_gpu(self, blocks: BlockFoldFn) -> RowReduction {
        RowReduction { blocks: Some(blocks), ..self }
    }

    /// This row reduction, whose result of that number holds positions in the row.
    pub fn with_positions(self, result: usize) -> RowReduction {
        RowReduction { positions: Some(result), ..self }
    }

    /// The fold for one call.
    pub fn fold(&self, call: &KernelCall) -> Box<dyn RowFold> {
        (self.fold)(call)
    }

    /// The block fold for one call on a device, or the reason why there is none.
    ///
    /// # Errors
    /// If the reduction has no block fold, or not for the call on the device.
    pub fn block_fold(
        &self,
        call: &KernelCall,
        device: &DeviceModel,
    ) -> Result<Arc<dyn BlockFold>, &'static str> {
        self.blocks.map_or(Err(NO_BLOCKS), |blocks| blocks(call, device))
    }

    /// The number of the result that holds positions in the row, if one does.
    pub fn positions(&self) -> Option<usize> {
        self.positions
    }
}

const NO_BLOCKS: &str = "a fold of its own runs on the processor only";

impl fmt::Debug for RowReduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row monoid")
    }
}

impl PartialEq for RowReduction {
    fn eq(&self, other: &RowReduction) -> bool {
        Arc::ptr_eq(&self.fold, &other.fold)
    }
}

impl KernelForm {
    /// The kernel of an op that folds each row of its first operand, along the last axis, by a row reduction.
    pub fn of_rows(monoid: &RowReduction, oracle: OracleFn) -> KernelForm {
        let gpu = monoid.blocks.map_or(GpuForm::None { why: NO_BLOCKS }, GpuForm::Rows);
        let monoid = monoid.clone();
        let host = Arc::new(move |call: &KernelCall| host_kernel(&monoid, call));
        KernelForm { host, oracle, gpu }
    }
}

/// The maximum number of parts over which rows are spread. More parts would not balance better.
const MAX_PARTS: usize = 64;
/// Elements per piece if there are only a few long rows.
const PIECE: usize = 1 << 16;

/// The number of pieces per row, for `n_rows` rows of `n` elements. Rows are cut if there are too few of them for all
/// threads.
pub fn n_pieces(n_rows: usize, n: usize) -> usize {
    let wanted = (MAX_PARTS / 4).div_ceil(n_rows.max(1));
    wanted.min(n.div_ceil(PIECE)).max(1)
}

/// A row reduction as an opaque kernel over rows in memory.
pub fn host_kernel(monoid: &RowReduction, call: &KernelCall) -> HostKernel {
    let fold = monoid.fold(call);
    let n_words = fold.state_words();
    let (n_rows, n) = call.rows();
    let n_pieces = n_pieces(n_rows, n);
    let n_states = if n_pieces == 1 { n_rows.min(MAX_PARTS) } else { n_rows * n_pieces };
    HostKernel {
        workspace_bytes: 8 * n_words * n_states,
        run: Box::new(move |lent| match n_pieces {
            1 => fold_rows(&*fold, lent, n_rows, n),
            _ => fold_pieces(&*fold, lent, [n_rows, n_pieces], n),
        }),
    }
}

fn fold_rows(fold: &dyn RowFold, lent: &mut Lent, n_rows: usize, n: usize) {
    let x = lent.elements(0);
    lent.parallel_for(n_rows, n_rows.min(MAX_PARTS), &|mut part| {
        for row in part.units.clone() {
            fold.init(part.workspace);
            fold.step(part.workspace, 0, x.range(row * n..(row + 1) * n));
            fold.finish(part.workspace, &mut part.results.unit(row));
        }
    });
}

/// Each piece of each row has its own state. The states of a row are merged in order.
fn fold_pieces(fold: &dyn RowFold, lent: &mut Lent, [n_rows, n_pieces]: [usize; 2], n: usize) {
    let x = lent.elements(0);
    lent.parallel_for(n_rows * n_pieces, n_rows * n_pieces, &|part| {
        let (row, piece) = (part.units.start / n_pieces, part.units.start % n_pieces);
        let bound = |piece: usize| n * piece / n_pieces;
        fold.init(part.workspace);
        fold.step(part.workspace, bound(piece), x.range(row * n + bound(piece)..row * n + bound(piece + 1)));
    });
    lent.parallel_for(n_rows, n_rows, &|mut part| merge_pieces(fold, part.workspace, &mut part.results));
}

/// Merges the adjacent states of one row and writes the row's results.
pub fn merge_pieces(fold: &dyn RowFold, states: &mut [u64], results: &mut Share) {
    let (first, later) = states.split_at_mut(fold.state_words());
    later.chunks_exact(fold.state_words()).for_each(|later| fold.merge(first, later));
    fold.finish(first, results);
}
