//! Block folds: row reductions as a block of threads computes them.
//!
//! Code generation owns the loop over a row's columns, the barrier after each round, the launches and the states in
//! memory. A [`BlockFold`] gives the block's size and the code of each step. It neither knows nor decides whether the
//! elements come from memory or from a matmul.

use super::buffer::Buffer;
use crate::device_model::DeviceModel;
use crate::ir::DType;
use crate::op::call::KernelCall;
use cubecl_core::ir::{ElemType, Scope, Variable};
use std::fmt::Debug;
use std::sync::Arc;

/// The signature of the block fold of a call. The error is the reason why the device has none.
pub type BlockFoldFn = fn(&KernelCall, &DeviceModel) -> Result<Arc<dyn BlockFold>, &'static str>;

/// A row reduction by blocks of threads, for rows of one length on one device.
///
/// The results must not depend on the cut of a row into pieces. Its type and its `Debug` text are its identity: two
/// block folds of equal identity emit equal code.
pub trait BlockFold: Debug + Send + Sync {
    /// Names of the kernels that fold whole rows, and pieces of rows, in memory.
    fn names(&self) -> [&'static str; 2];

    /// Threads of a block.
    fn threads(&self) -> usize;

    /// Elements that a thread offers between two barriers.
    fn width(&self) -> usize;

    /// Neighbours among these that a thread reads as one vector. It divides the width and the length of a row.
    fn neighbours(&self) -> usize;

    /// Words of shared memory of a block.
    fn shared_words(&self) -> usize;

    /// Words of the state of a piece of a row, in memory.
    fn state_words(&self) -> usize;

    /// Parts of a state, which threads of a merge offer one by one.
    fn state_parts(&self) -> usize {
        1
    }

    /// The word of shared memory by which threads vote before `begin`, if the fold can compare elements with a bound
    /// from its state in memory. A block without an element within the bound then ends at once.
    fn vote_word(&self) -> Option<usize> {
        None
    }

    /// Whether a block looks at its first round of elements before it folds any; see [`BlockFoldCode::look`].
    fn looks_first(&self) -> bool {
        false
    }

    /// The fold of each thread, if the threads of a block have states of their own. Kernels on tensor cores, whose threads hold
    /// the elements, fold by it.
    fn of_threads(&self) -> Option<Arc<dyn ThreadFold>> {
        None
    }

    /// The block fold that merges the states of `n_pieces` pieces.
    fn merging(&self, n_pieces: usize, device: &DeviceModel) -> Arc<dyn BlockFold>;

    /// The fold's code in one kernel. It may declare more shared memory.
    fn code(&self, scope: &mut Scope, memory: BlockMemory) -> Box<dyn BlockFoldCode + '_>;

    /// Its identity.
    fn identity(&self) -> String {
        format!("{} {self:?}", std::any::type_name::<Self>())
    }
}

/// The code of a block fold in one kernel. All threads of the block run each method's code, except where noted.
pub trait BlockFoldCode {
    /// Reads the bound from the state in memory, if [`BlockFold::vote_word`] promises one.
    fn bound(&self, _scope: &mut Scope) -> Option<Bound> {
        None
    }

    /// Starts from an empty state, or from the state in memory.
    fn begin(&mut self, scope: &mut Scope);

    /// Looks at neighbouring elements of the first round, which are offered later. Threads behind the end of the row do not
    /// take part.
    fn look(&mut self, _scope: &mut Scope, _values: &[Variable]) {}

    /// Ends the look at the first round.
    fn end_look(&mut self, _scope: &mut Scope) {}

    /// Starts a round at column `base` of a piece that starts at column `start`.
    fn begin_round(&mut self, _scope: &mut Scope, _start: Variable, _base: Variable) {}

    /// Folds neighbouring elements, as memory or a matmul's epilogue holds them. `column` is the first one's place in
    /// the row. Threads behind the end of the row do not take part.
    fn offer(&mut self, scope: &mut Scope, values: &[Variable], column: Variable);

    /// Folds one part of the states of a row's pieces. Part `number` of all parts belongs to piece
    /// `number / state_parts` behind piece `first`. Threads behind the last part do not take part.
    fn offer_part(&mut self, scope: &mut Scope, states: Variable, first: Variable, number: Variable);

    /// Ends a round, behind its barrier.
    fn end_round(&mut self, _scope: &mut Scope) {}

    /// Writes the state to memory if there is one, or else the row's results.
    fn finish(&mut self, scope: &mut Scope);
}

/// A bound that elements must be within to change a state.
pub struct Bound {
    /// Whether the state takes any element.
    pub is_open: Variable,
    /// Emits whether an element may be within the bound.
    pub admits: Box<Admits>,
}

/// The signature of the test of an element.
pub type Admits = dyn Fn(&mut Scope, Variable) -> Variable;

/// The memory of a block that folds a row.
pub struct BlockMemory {
    /// The words of shared memory.
    pub shared: Variable,
    /// The state that the block writes; none if it writes results.
    pub state: Option<BlockState>,
    /// The number of the row, by which its results are placed.
    pub row: Variable,
    /// Further operands, of which the row has its own part; none if the block writes a state.
    pub operands: Vec<Buffer>,
    /// The results with their types.
    pub results: Vec<(Buffer, DType)>,
    /// The type of element numbers.
    pub index: ElemType,
    /// The device.
    pub device: DeviceModel,
    /// Whether the block looks at its first round of elements; see [`BlockFoldCode::look`].
    pub looks_first: bool,
}

/// The state of a piece of a row in memory.
#[derive(Clone, Copy)]
pub struct BlockState {
    /// The words of all states.
    pub words: Variable,
    /// The number of the state.
    pub number: Variable,
    /// Whether the block starts from an empty state, as a number; none if all blocks do.
    pub is_first: Option<Variable>,
}

/// A row reduction whose state is a few values that each thread keeps in registers. Code generation merges the states of
/// a block's threads in shared memory.
///
/// A thread folds every `threads`-th group of columns, so states that are merged are not adjacent. Where order matters,
/// as for ties, the state holds columns.
pub trait ThreadFold: Debug + Send + Sync + 'static {
    /// Types of the state's values, of 32 or 64 bits.
    fn state(&self) -> Vec<DType>;

    /// The state of no elements, which is neutral in `merge`.
    fn init(&self, scope: &mut Scope) -> Vec<Variable>;

    /// Folds an element, in a register of the operand's type, into the state. `column` is its place in the row.
    fn step(&self, scope: &mut Scope, state: &[Variable], value: Variable, column: Variable);

    /// Merges another state into this one.
    fn merge(&self, scope: &mut Scope, state: &[Variable], other: &[Variable]);

    /// The row's results, one for each result of the op.
    fn finish(&self, scope: &mut Scope, state: &[Variable]) -> Vec<Variable>;
}
