//! Endings of a top-k selection: the results that a block computes from the first k entries of its row.

use crate::rank_words::{Order, high_of, low_of};
use engine_core::codegen::{Code, native};
use engine_core::cubecl::ir::{Builtin, ElemType, UIntKind, Variable};
use engine_core::ir::DType;
use engine_core::op::gpu::{BlockMemory, Shape};
use std::fmt::Debug;

const U32: ElemType = ElemType::UInt(UIntKind::U32);

/// An ending. Its `Debug` text is part of the identity of a block fold.
pub trait Ending: Debug + Send + Sync {
    /// The name of the kernel that selects from whole rows.
    fn name(&self) -> &'static str;

    /// Emits the results of a row. All threads of the block run the code, behind a barrier.
    fn emit(&self, code: &mut Code, selected: &Selected);
}

/// The first entries of a row, in order, in the shared memory of its block.
pub struct Selected<'m> {
    /// The number of entries that were to be selected.
    pub k: usize,
    /// The order of their elements.
    pub order: Order,
    /// The shape of the buffer that they are in.
    pub shape: Shape,
    /// Their number, which is below k in a row of fewer elements.
    pub count: Variable,
    /// A word of shared memory for atomics.
    pub counter: Variable,
    /// The memory of the block.
    pub memory: &'m BlockMemory,
}

impl Selected<'_> {
    /// The element at a place that has one.
    pub fn element(&self, code: &mut Code, place: Variable) -> Variable {
        let words = self.words(code, place);
        code.of_words(code.device.memory(self.order.dtype), words)
    }

    /// The element at a place, or the element that comes last if there is none.
    fn value(&self, code: &mut Code, place: Variable, is_there: Variable) -> Variable {
        let words = self.words(code, place);
        let last = self.order.last().map(|word| code.int(U32, i64::from(word)));
        let words = [0, 1].map(|i| code.select(is_there, words[i], last[i]));
        code.of_words(code.device.memory(self.order.dtype), words)
    }

    fn words(&self, code: &mut Code, place: Variable) -> [Variable; 2] {
        let order = self.order;
        let capacity = code.at(self.shape.capacity as i64);
        let high = code.load(self.memory.shared, place);
        let mut words = [high, code.int(U32, 0)];
        words[0] = high_of::expand(code.scope, native(high), order).into();
        if order.is_wide() {
            let second = code.add_at(place, capacity);
            let low = code.load(self.memory.shared, second);
            words[1] = low_of::expand(code.scope, native(high), native(low), order).into();
        }
        words
    }

    /// The index of the element at a place, or -1 if there is none.
    fn index(&self, code: &mut Code, dtype: DType, place: Variable, is_there: Variable) -> Variable {
        let indices = code.at(self.shape.indices() as i64);
        let place = code.add_at(place, indices);
        let index = code.load(self.memory.shared, place);
        let index = code.cast(code.device.register(dtype), index);
        let none = code.int(code.device.register(dtype), -1);
        let index = code.select(is_there, index, none);
        code.cast(code.device.memory(dtype), index)
    }
}

/// The ending that writes values and indices.
#[derive(Debug)]
pub struct ValuesAndIndices;

impl Ending for ValuesAndIndices {
    fn name(&self) -> &'static str {
        "select_rows"
    }

    fn emit(&self, code: &mut Code, selected: &Selected) {
        let Selected { k, shape, count, memory, .. } = *selected;
        let unit = code.builtin(Builtin::UnitPosX);
        let end = code.at(k as i64);
        let first = code.scaled(memory.row, k as i64);
        code.range(unit, end, shape.threads as i64, |code, place| {
            let number = code.cast(U32, place);
            let is_there = code.less(number, count);
            let to = code.add_at(first, place);
            for (i, (buffer, dtype)) in memory.results.iter().enumerate() {
                let value = match i {
                    0 => selected.value(code, place, is_there),
                    _ => selected.index(code, *dtype, place, is_there),
                };
                buffer.store(code, to, value);
            }
        });
    }
}
