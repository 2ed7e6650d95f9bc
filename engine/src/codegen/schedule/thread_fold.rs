//! Thread folds: row reductions whose state each thread keeps in registers.
//!
//! At the end of a row, the states of a block's threads are merged pairwise in shared memory.

use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::ops::scalar::{narrowed, widened};
use crate::device_model::DeviceModel;
use crate::ir::DType;
use crate::op::gpu::{BlockFold, BlockFoldCode, BlockMemory, BlockState, ThreadFold};
use cubecl_core::ir::{Bitwise, Builtin, Comparison, Scope, Variable};
use std::sync::Arc;

/// The fewest and the most threads of a block.
const FEWEST_THREADS: usize = 32;
const THREADS: usize = 256;
/// Bytes that a thread reads as one vector, and its most elements.
const VECTOR_BYTES: usize = 16;
const MOST_NEIGHBOURS: usize = 4;

/// The block fold of a thread fold, for rows of `n` elements of `dtype`.
///
/// # Errors
/// If the device lacks a type of the state, or shared memory for the states of a warp.
pub fn thread_fold<F: ThreadFold>(
    fold: F,
    dtype: DType,
    n: usize,
    device: &DeviceModel,
) -> Result<Arc<dyn BlockFold>, &'static str> {
    let fold = Arc::new(fold);
    if let Some(&dtype) = fold.state().iter().find(|&&dtype| !device.has(dtype) || dtype.size() < 4) {
        return Err(if dtype.size() < 4 {
            "states hold 32 or 64 bits"
        } else {
            "the device lacks its types"
        });
    }
    let width = (VECTOR_BYTES / dtype.size()).min(MOST_NEIGHBOURS);
    let wanted = n.div_ceil(width).next_power_of_two();
    let mut threads = wanted.clamp(FEWEST_THREADS, THREADS.min(device.most_threads));
    let n_words = n_words(&fold.state());
    while threads > FEWEST_THREADS && 4 * n_words * threads > device.shared_bytes {
        threads /= 2;
    }
    if 4 * n_words * threads > device.shared_bytes {
        return Err("the state is too large for shared memory");
    }
    let neighbours = if n.is_multiple_of(width) { width } else { 1 };
    Ok(Arc::new(InRegisters { fold, dtype, threads, width, neighbours }))
}

fn n_words(types: &[DType]) -> usize {
    types.iter().map(|dtype| dtype.size() / 4).sum()
}

/// A thread fold with the shape of its block.
#[derive(Debug)]
struct InRegisters<F: ?Sized> {
    fold: Arc<F>,
    /// The type of the elements.
    dtype: DType,
    threads: usize,
    width: usize,
    neighbours: usize,
}

impl<F: ThreadFold> BlockFold for InRegisters<F> {
    fn names(&self) -> [&'static str; 2] {
        ["fold_rows", "fold_pieces"]
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn width(&self) -> usize {
        self.width
    }

    fn neighbours(&self) -> usize {
        self.neighbours
    }

    fn shared_words(&self) -> usize {
        self.threads * self.state_words()
    }

    fn state_words(&self) -> usize {
        n_words(&self.fold.state())
    }

    fn of_threads(&self) -> Option<Arc<dyn ThreadFold>> {
        Some(Arc::<F>::clone(&self.fold))
    }

    fn merging(&self, n_pieces: usize, _: &DeviceModel) -> Arc<dyn BlockFold> {
        let threads = n_pieces.next_power_of_two().clamp(FEWEST_THREADS, self.threads);
        let fold = Arc::clone(&self.fold);
        Arc::new(InRegisters { fold, dtype: self.dtype, threads, width: 1, neighbours: 1 })
    }

    fn code(&self, _: &mut Scope, memory: BlockMemory) -> Box<dyn BlockFoldCode + '_> {
        let types = self.fold.state();
        let n_words = n_words(&types);
        let (fold, state) = (&*self.fold as &dyn ThreadFold, vec![]);
        Box::new(InRegistersCode {
            fold,
            dtype: self.dtype,
            threads: self.threads,
            types,
            n_words,
            memory,
            state,
        })
    }
}

/// A thread fold in one kernel.
struct InRegistersCode<'f> {
    fold: &'f dyn ThreadFold,
    dtype: DType,
    threads: usize,
    /// Types of the state's values, and the words of all.
    types: Vec<DType>,
    n_words: usize,
    memory: BlockMemory,
    /// The thread's state, as locals that are assigned to.
    state: Vec<Variable>,
}

impl BlockFoldCode for InRegistersCode<'_> {
    fn begin(&mut self, scope: &mut Scope) {
        let initial = self.fold.init(scope);
        let code = &mut self.code_in(scope);
        let initial = initial.into_iter().zip(&self.types);
        self.state = initial
            .map(|(value, &dtype)| {
                let value = code.cast(code.device.register(dtype), value);
                code.mutable(value)
            })
            .collect();
        let Some(BlockState { words, number, is_first: Some(is_first) }) = self.memory.state else { return };
        let zero = code.at(0);
        let is_resumed = code.cmp(Comparison::Equal, is_first, zero);
        let is_first_thread = is_first_thread(code);
        let resumes = code.and(is_resumed, is_first_thread);
        code.when(resumes, |code| {
            let first = code.scaled(number, self.n_words as i64);
            let stored = self.load(code, words, first, 1);
            self.state.iter().zip(stored).for_each(|(&local, value)| code.assign(local, value));
        });
    }

    fn offer(&mut self, scope: &mut Scope, values: &[Variable], column: Variable) {
        let code = &mut self.code_in(scope);
        for (i, &value) in values.iter().enumerate() {
            let is_register = value.elem_type() == code.device.register(self.dtype);
            let value = if is_register { value } else { widened(code, self.dtype, value) };
            let column = code.at_offset(column, i);
            self.fold.step(code.scope, &self.state, value, column);
        }
    }

    fn offer_part(&mut self, scope: &mut Scope, states: Variable, first: Variable, number: Variable) {
        let code = &mut self.code_in(scope);
        let piece = code.add_at(first, number);
        let first = code.scaled(piece, self.n_words as i64);
        let other = self.load(code, states, first, 1);
        self.fold.merge(code.scope, &self.state, &other);
    }

    fn finish(&mut self, scope: &mut Scope) {
        let code = &mut self.code_in(scope);
        self.merge_threads(code);
        let is_first_thread = is_first_thread(code);
        code.when(is_first_thread, |code| match self.memory.state {
            Some(BlockState { words, number, .. }) => {
                let first = code.scaled(number, self.n_words as i64);
                self.store(code, words, first, 1);
            }
            None => {
                let values = self.fold.finish(code.scope, &self.state);
                for ((buffer, dtype), value) in self.memory.results.iter().zip(values) {
                    let value = narrowed(code, *dtype, value);
                    buffer.store(code, self.memory.row, value);
                }
            }
        });
    }
}

fn is_first_thread(code: &mut Code) -> Variable {
    let unit = code.builtin(Builtin::UnitPosX);
    let zero = code.at(0);
    code.cmp(Comparison::Equal, unit, zero)
}

impl InRegistersCode<'_> {
    fn code_in<'s>(&self, scope: &'s mut Scope) -> Code<'s> {
        Code::new(scope, self.memory.index, self.memory.device)
    }

    /// Merges the states of all threads into the first thread's: a tree in shared memory.
    fn merge_threads(&self, code: &mut Code) {
        let shared = self.memory.shared;
        let unit = code.builtin(Builtin::UnitPosX);
        self.store(code, shared, unit, self.threads);
        let [start, n_levels] = [0, i64::from(self.threads.ilog2())].map(|level| code.at(level));
        code.range(start, n_levels, 1, |code, level| {
            code.sync();
            let half = code.at(self.threads as i64 / 2);
            let distance = code.bit(Bitwise::ShiftRight, half, level);
            let is_merging = code.less(unit, distance);
            code.when(is_merging, |code| {
                let place = code.add_at(unit, distance);
                let other = self.load(code, shared, place, self.threads);
                self.fold.merge(code.scope, &self.state, &other);
                self.store(code, shared, unit, self.threads);
            });
        });
    }

    /// Loads a state whose words are `stride` apart.
    fn load(&self, code: &mut Code, words: Variable, first: Variable, stride: usize) -> Vec<Variable> {
        let mut number = 0;
        let mut next = |code: &mut Code| {
            let place = code.at_offset(first, number * stride);
            number += 1;
            code.load(words, place)
        };
        let mut values = vec![];
        for &dtype in &self.types {
            let low = next(code);
            let high = if dtype.size() == 8 { next(code) } else { code.int(U32, 0) };
            let words = if dtype.size() == 8 { [high, low] } else { [low, high] };
            values.push(code.of_words(code.device.register(dtype), words));
        }
        values
    }

    /// Stores the thread's state, with its words `stride` apart.
    fn store(&self, code: &mut Code, words: Variable, first: Variable, stride: usize) {
        let mut number = 0;
        for &local in &self.state {
            let value = code.snapshot(local);
            let [high, low] = code.words_of(value);
            let of_value = if value.elem_type().size() == 8 { vec![low, high] } else { vec![high] };
            for word in of_value {
                let place = code.at_offset(first, number * stride);
                code.store(words, place, word);
                number += 1;
            }
        }
    }
}
