//! Row monoids: ops that take in a row piece by piece, so that whoever makes the rows need not keep them.

use super::gpu::Order;
use super::kernel::{Elements, HostKernel, KernelCall, Lent, Share};
use std::fmt;
use std::sync::Arc;

/// An op on rows, along the last axis of its one operand, as a monoid: pieces of a row are taken into a state, states of
/// neighbouring pieces are merged, and the row's results follow from the state. A contraction whose result only such an
/// op reads hands over its tiles while they are hot, and the matrix is never stored.
#[derive(Clone)]
pub struct RowReduction {
    fold: Arc<FoldFn>,
    selection: Option<SelectionFn>,
}

type FoldFn = dyn Fn(&KernelCall) -> Box<dyn RowFold> + Send + Sync;
type SelectionFn = fn(&KernelCall) -> Selection;

/// A fold that keeps the first elements of a row in some order: what a GPU has kernels for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selection {
    /// How many, at least 1. Where a row has fewer, the rest is index -1 and the number that comes last.
    pub k: usize,
    /// Their order; equal elements come in that of the row.
    pub order: Order,
    /// What each result gets of them, one after the other.
    pub results: Vec<Selected>,
}

/// What a result gets of the selected elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selected {
    /// The elements.
    Values,
    /// Where they were in the row.
    Indices,
}

/// A row monoid for one call of known shapes.
///
/// The results must not depend on how a row is cut into pieces.
pub trait RowFold: Send + Sync {
    /// Words of the state of one row.
    fn state_words(&self) -> usize;

    /// Makes a state that has seen nothing.
    fn init(&self, state: &mut [u64]);

    /// Takes in the elements from number `first` of the row on. Pieces come in the order of the row.
    fn step(&self, state: &mut [u64], first: usize, piece: Elements);

    /// Takes in what `later` has seen of the same row, all of it behind what this state has seen.
    fn merge(&self, state: &mut [u64], later: &[u64]);

    /// Writes the row's share of each result.
    fn finish(&self, state: &mut [u64], results: &mut Share);
}

impl RowReduction {
    /// A monoid from what makes it ready for a call.
    pub fn new(fold: impl Fn(&KernelCall) -> Box<dyn RowFold> + Send + Sync + 'static) -> RowReduction {
        RowReduction { fold: Arc::new(fold), selection: None }
    }

    /// The same, which is known to come to a selection: that runs on GPUs, too.
    pub fn selecting(self, selection: fn(&KernelCall) -> Selection) -> RowReduction {
        RowReduction { selection: Some(selection), ..self }
    }

    /// The monoid for one call.
    pub fn fold(&self, call: &KernelCall) -> Box<dyn RowFold> {
        (self.fold)(call)
    }

    /// What it selects, if that is all it does.
    pub fn selection(&self, call: &KernelCall) -> Option<Selection> {
        self.selection.map(|selection| selection(call))
    }

    /// Whether it selects elements of a row, and nothing else.
    pub fn selects(&self) -> bool {
        self.selection.is_some()
    }
}

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

/// Parts that rows are spread over; more would not balance better.
const MAX_PARTS: usize = 64;
/// Elements of a piece where there are only a few long rows.
const PIECE: usize = 1 << 16;

/// Pieces that each of `n_rows` rows of `n` elements is cut into, where rows alone are too few to go round.
pub fn n_pieces(n_rows: usize, n: usize) -> usize {
    let wanted = (MAX_PARTS / 4).div_ceil(n_rows.max(1));
    wanted.min(n.div_ceil(PIECE)).max(1)
}

/// A monoid as an opaque kernel over rows in memory.
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

/// Each piece of each row has a state of its own; those of a row are merged in their order.
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

/// Merges the states of one row, which lie one after the other, and writes the row's results.
pub fn merge_pieces(fold: &dyn RowFold, states: &mut [u64], results: &mut Share) {
    let (first, later) = states.split_at_mut(fold.state_words());
    later.chunks_exact(fold.state_words()).for_each(|later| fold.merge(first, later));
    fold.finish(first, results);
}
