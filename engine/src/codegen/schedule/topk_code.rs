//! The code of a selection: a block reads columns of a row and offers them to its top-k buffer.

use crate::codegen::ir::builder::{Code, F32, U32, U64};
use crate::codegen::ir::types::native;
use crate::codegen::ops::packed_types::Buffer;
use crate::codegen::schedule::topk_buffer::{
    BOUND, COUNT, LOADED, N_CONTROLS, STORED, clear_flag, count, load, offer, resume, save, sort_and_trim,
    start,
};
use crate::codegen::schedule::topk_form::TopKForm;
use crate::ir::DType;
use crate::op::Selected;
use crate::op::gpu::{Order, high_of, high_rank, low_of, low_rank};
use cubecl_core::ir::{
    Arithmetic, Bitwise, Builtin, Comparison, ElemType, StorageType, Type, UIntKind, Variable,
};

/// The memory that a selection starts from or writes to.
pub struct StoredState {
    /// The words of all states, and the number of this block's state.
    pub state: Option<(Variable, Variable)>,
    /// Whether the state is still empty, as a number.
    pub is_first: Option<Variable>,
    /// The results, with their contents and types.
    pub results: Vec<ResultBuffer>,
}

/// The content of a result, the result, and its type.
pub type ResultBuffer = (Selected, Buffer, DType);

/// A selection during its emission.
pub struct TopKCode<'f> {
    form: &'f TopKForm,
    words: Variable,
    counter: Variable,
    /// The number of the flag that entries of this round raise; rounds alternate between two.
    flag: Variable,
    /// The threshold as an element, for 32-bit floats.
    bound: Option<Variable>,
}

/// Tells whether a thread has an element that may pass the threshold, before the block sets up its buffer.
pub type Filter<'f, E> = &'f mut dyn FnMut(&mut Code) -> Result<Variable, E>;

/// Emits a selection from columns `start..end` of a row. `offer_at` offers the elements at a column, which is the
/// first of several if the thread reads a vector. The block skips its work if `filter` holds for no thread.
pub fn select_by<E>(
    code: &mut Code,
    form: &TopKForm,
    stored: &StoredState,
    row: Variable,
    columns: [Variable; 2],
    filter: Option<Filter<E>>,
    offer_at: &mut dyn FnMut(&mut Code, &TopKCode, Variable) -> Result<(), E>,
) -> Result<(), E> {
    let words = code.shared(U32, form.shape.n_words() + N_CONTROLS);
    let atomic = Type::new(StorageType::Atomic(U32));
    let counter = code.scope.create_shared_array(atomic, 1, None).consume();
    let state = stored.state.map(|(states, number)| {
        let first = code.scaled(number, form.state_words() as i64);
        (states, first)
    });
    let block = Block { form, words, counter, state };
    let Some(filter) = filter else { return block.select(code, stored, row, columns, offer_at) };
    let is_needed = filter(code)?;
    let mut result = Ok(());
    block.when_any(code, is_needed, |code| result = block.select(code, stored, row, columns, offer_at));
    result
}

/// The worst entry of a full state, as a threshold for 32-bit floats.
pub struct Threshold {
    is_open: Variable,
    bound: Variable,
    is_descending: bool,
}

impl Threshold {
    /// Reads the threshold from the state of a row. `is_first` tells whether the state is still empty.
    pub fn read(code: &mut Code, form: &TopKForm, stored: &StoredState) -> Option<Threshold> {
        let (Some((states, number)), Some(is_first)) = (stored.state, stored.is_first) else { return None };
        if form.order.dtype != DType::F32 {
            return None;
        }
        let first = code.scaled(number, form.state_words() as i64);
        let count = code.load(states, first);
        let last = code.at(form.k as i64);
        let last = code.add_at(first, last);
        let rank = code.load(states, last);
        let bits = high_of::expand(code.scope, native(rank), form.order).into();
        let bound = code.reinterpret(F32, bits);
        let (zero, k) = (code.at(0), code.int(U32, form.k as i64));
        let is_new = code.cmp(Comparison::NotEqual, is_first, zero);
        let is_short = code.cmp(Comparison::NotEqual, count, k);
        let is_open = code.or(is_new, is_short);
        Some(Threshold { is_open, bound, is_descending: form.order.is_descending })
    }

    /// Whether the state is not full, so that every element enters.
    pub fn is_open(&self) -> Variable {
        self.is_open
    }

    /// Whether an element may precede the worst entry.
    pub fn may_precede(&self, code: &mut Code, value: Variable) -> Variable {
        may_pass(code, value, self.bound, self.is_descending)
    }
}

/// True if either is NaN: the ranks decide then.
fn may_pass(code: &mut Code, value: Variable, bound: Variable, is_descending: bool) -> Variable {
    let is_behind = match is_descending {
        true => code.cmp(Comparison::LowerEqual, value, bound),
        false => code.cmp(Comparison::GreaterEqual, value, bound),
    };
    code.not(is_behind)
}

impl TopKCode<'_> {
    /// Offers elements of neighbouring columns.
    pub fn offer_values(&self, code: &mut Code, values: &[Variable], column: Variable) {
        for (i, &value) in values.iter().enumerate() {
            let offset = code.at(i as i64);
            let index = code.add_at(column, offset);
            match self.bound {
                Some(bound) => {
                    let may_pass = may_pass(code, value, bound, self.form.order.is_descending);
                    code.when(may_pass, |code| self.offer_value(code, value, index));
                }
                None => self.offer_value(code, value, index),
            }
        }
    }

    fn offer_value(&self, code: &mut Code, value: Variable, index: Variable) {
        let order = self.form.order;
        let [high, low] = words_of(code, value);
        let ranks = [
            high_rank::expand(code.scope, native(high), native(low), order),
            low_rank::expand(code.scope, native(high), native(low), order),
        ];
        let index = code.cast(U32, index);
        self.offer(code, ranks.map(Variable::from), index);
    }

    /// Offers an entry.
    pub(super) fn offer(&self, code: &mut Code, [high, low]: [Variable; 2], index: Variable) {
        let (words, counter) = (native(self.words), native(self.counter));
        let [high, low, index] = [high, low, index].map(native);
        offer::expand(code.scope, words, counter, native(self.flag), high, low, index, self.form.shape);
    }
}

/// A block with its row.
struct Block<'f> {
    form: &'f TopKForm,
    words: Variable,
    counter: Variable,
    /// The words of all states, and the first word of this block's state.
    state: Option<(Variable, Variable)>,
}

impl Block<'_> {
    fn select<E>(
        &self,
        code: &mut Code,
        stored: &StoredState,
        row: Variable,
        [start, end]: [Variable; 2],
        offer_at: &mut dyn FnMut(&mut Code, &TopKCode, Variable) -> Result<(), E>,
    ) -> Result<(), E> {
        let &Block { form, words, counter, .. } = self;
        self.begin(code, stored.is_first);
        let unit = code.builtin(Builtin::UnitPosX);
        let mut result = Ok(());
        code.range(start, end, form.round() as i64, |code, base| {
            let before = code.bin(Arithmetic::Sub, base, start);
            let round = code.divided(before, form.round());
            let flag = code.modulo(round, 2);
            let select = TopKCode { form, words, counter, flag, bound: self.bound(code) };
            let step = form.neighbours();
            let own = code.scaled(unit, step as i64);
            let first = code.add_at(base, own);
            for i in 0..form.width / step {
                let offset = code.at((i * form.shape.threads) as i64);
                let column = code.add_at(first, offset);
                let is_inside = code.less(column, end);
                code.when(is_inside, |code| {
                    if result.is_ok() {
                        result = offer_at(code, &select, column);
                    }
                });
            }
            code.sync();
            self.sort_if_full(code, flag);
        });
        result?;
        self.finish(code, row, &stored.results);
        Ok(())
    }

    /// Emits `body` for all threads of the block if a condition holds for one of them.
    fn when_any(&self, code: &mut Code, condition: Variable, body: impl FnOnce(&mut Code)) {
        let place = code.at(self.form.shape.n_words() as i64);
        let (zero, one) = (code.int(U32, 0), code.int(U32, 1));
        let unit = code.builtin(Builtin::UnitPosX);
        let first = code.at(0);
        let is_first = code.cmp(Comparison::Equal, unit, first);
        code.when(is_first, |code| code.store(self.words, place, zero));
        code.sync();
        code.when(condition, |code| code.store(self.words, place, one));
        code.sync();
        let raised = code.load(self.words, place);
        let is_raised = code.cmp(Comparison::NotEqual, raised, zero);
        code.when(is_raised, |code| {
            // All threads must have read the word before one clears it.
            code.sync();
            body(code);
        });
    }

    fn control(&self, code: &mut Code, word: usize) -> Variable {
        let place = code.at((self.form.shape.n_words() + word) as i64);
        code.load(self.words, place)
    }

    /// The state that the block starts from.
    fn resumed_state(&self) -> Option<(Variable, Variable)> {
        self.state.filter(|_| self.form.is_resumed)
    }

    fn begin(&self, code: &mut Code, is_first: Option<Variable>) {
        let TopKForm { k, order, shape, .. } = *self.form;
        let (words, counter) = (native(self.words), native(self.counter));
        match (self.resumed_state(), is_first) {
            (Some((states, first)), Some(is_first)) => {
                let [first, is_first] = [first, is_first].map(native);
                resume::expand(code.scope, words, counter, native(states), first, is_first, k, order, shape);
            }
            _ => start::expand(code.scope, words, counter, order, shape),
        }
    }

    fn bound(&self, code: &mut Code) -> Option<Variable> {
        (self.form.order.dtype == DType::F32).then(|| {
            let bits = self.control(code, BOUND);
            code.reinterpret(F32, bits)
        })
    }

    /// Sorts the buffer if an entry has arrived in this round and enough are there.
    fn sort_if_full(&self, code: &mut Code, flag: Variable) {
        let start = code.at(self.form.shape.n_words() as i64);
        let place = code.add_at(start, flag);
        let raised = code.load(self.words, place);
        let zero = code.int(U32, 0);
        let is_raised = code.cmp(Comparison::NotEqual, raised, zero);
        code.when(is_raised, |code| {
            self.count(code, Some(place));
            let count = self.control(code, COUNT);
            let trigger = code.int(U32, self.form.trigger as i64);
            let is_enough = code.cmp(Comparison::GreaterEqual, count, trigger);
            code.when(is_enough, |code| self.sort_and_trim(code));
        });
    }

    /// Publishes the number of entries to all threads, and clears a flag.
    fn count(&self, code: &mut Code, flag: Option<Variable>) {
        let (words, counter) = (native(self.words), native(self.counter));
        let shape = self.form.shape;
        count::expand(code.scope, words, counter, shape);
        if let Some(place) = flag {
            clear_flag::expand(code.scope, native(self.words), native(place));
        }
    }

    /// Sorts the buffer and keeps the best k entries.
    fn sort_and_trim(&self, code: &mut Code) {
        let TopKForm { k, order, shape, .. } = *self.form;
        if let Some((states, first)) = self.resumed_state() {
            load::expand(code.scope, native(self.words), native(states), native(first), k, shape);
        }
        let (words, counter) = (native(self.words), native(self.counter));
        sort_and_trim::expand(code.scope, words, counter, k, order, shape);
    }

    fn finish(&self, code: &mut Code, row: Variable, results: &[ResultBuffer]) {
        // All threads must have read the last round's count.
        code.sync();
        self.count(code, None);
        let Some((states, first)) = self.state.filter(|_| self.form.keeps_state) else {
            self.sort_and_trim(code);
            return self.write(code, row, results);
        };
        let TopKForm { k, shape, .. } = *self.form;
        let save = |code: &mut Code| {
            self.sort_and_trim(code);
            save::expand(code.scope, native(self.words), native(states), native(first), k, shape);
        };
        if self.resumed_state().is_none() {
            return save(code);
        }
        // If no entry has arrived, the state in memory is still valid.
        let [count, stored] = [COUNT, STORED].map(|word| self.control(code, word));
        let has_changed = code.cmp(Comparison::NotEqual, count, stored);
        let is_raised = self.control(code, LOADED);
        let zero = code.int(U32, 0);
        let is_loaded = code.cmp(Comparison::NotEqual, is_raised, zero);
        let is_new = code.or(has_changed, is_loaded);
        code.when(is_new, save);
    }

    fn write(&self, code: &mut Code, row: Variable, results: &[ResultBuffer]) {
        let TopKForm { k, order, shape, .. } = *self.form;
        let unit = code.builtin(Builtin::UnitPosX);
        let end = code.at(k as i64);
        let count = self.control(code, COUNT);
        let first = code.scaled(row, k as i64);
        code.range(unit, end, shape.threads as i64, |code, place| {
            let number = code.cast(U32, place);
            let is_there = code.less(number, count);
            let to = code.add_at(first, place);
            for (what, buffer, dtype) in results {
                let value = match what {
                    Selected::Values => self.value(code, order, place, is_there),
                    Selected::Indices => self.index(code, *dtype, place, is_there),
                };
                buffer.store(code, to, value);
            }
        });
    }

    fn value(&self, code: &mut Code, order: Order, place: Variable, is_there: Variable) -> Variable {
        let capacity = code.at(self.form.shape.capacity as i64);
        let high = code.load(self.words, place);
        let mut words = [high, code.int(U32, 0)];
        words[0] = high_of::expand(code.scope, native(high), order).into();
        if order.is_wide() {
            let second = code.add_at(place, capacity);
            let low = code.load(self.words, second);
            words[1] = low_of::expand(code.scope, native(high), native(low), order).into();
        }
        let last = order.last().map(|word| code.int(U32, i64::from(word)));
        let words = [0, 1].map(|i| code.select(is_there, words[i], last[i]));
        of_words(code, order.dtype, words)
    }

    fn index(&self, code: &mut Code, dtype: DType, place: Variable, is_there: Variable) -> Variable {
        let indices = code.at(self.form.shape.indices() as i64);
        let place = code.add_at(place, indices);
        let index = code.load(self.words, place);
        let index = code.cast(code.device.register(dtype), index);
        let none = code.int(code.device.register(dtype), -1);
        let index = code.select(is_there, index, none);
        code.cast(code.device.memory(dtype), index)
    }
}

const U16: ElemType = ElemType::UInt(UIntKind::U16);

/// The bits of an element as memory holds it. 64 bits give the high and the low word, others one word and 0.
fn words_of(code: &mut Code, value: Variable) -> [Variable; 2] {
    let elem = value.elem_type();
    let zero = code.int(U32, 0);
    match elem.size() {
        1 => [code.cast(U32, value), zero],
        2 => {
            let bits = code.reinterpret(U16, value);
            [code.cast(U32, bits), zero]
        }
        4 => [code.reinterpret(U32, value), zero],
        _ => {
            let bits = code.reinterpret(U64, value);
            let half = code.int(U64, 32);
            let high = code.bit(Bitwise::ShiftRight, bits, half);
            [code.cast(U32, high), code.cast(U32, bits)]
        }
    }
}

/// The element with these bits, as memory holds it.
fn of_words(code: &mut Code, dtype: DType, [high, low]: [Variable; 2]) -> Variable {
    let elem = code.device.memory(dtype);
    match elem.size() {
        1 => code.cast(elem, high),
        2 => {
            let bits = code.cast(U16, high);
            code.reinterpret(elem, bits)
        }
        4 => code.reinterpret(elem, high),
        _ => {
            let [high, low] = [high, low].map(|word| code.cast(U64, word));
            let half = code.int(U64, 32);
            let high = code.bit(Bitwise::ShiftLeft, high, half);
            let bits = code.bit(Bitwise::BitwiseOr, high, low);
            code.reinterpret(elem, bits)
        }
    }
}
