//! The code of a top-k selection: a block offers the columns of a row to its top-k buffer.

use crate::rank_words::{Order, high_of, high_rank, low_rank};
use crate::topk_buffer::{
    BOUND, COUNT, LOADED, STORED, clear_flag, count, end_look, load, look, offer, resume, save,
    sort_and_trim, start, start_look,
};
use crate::topk_ending::Selected;
use crate::topk_form::TopKForm;
use crate::topk_trim::{BINS, trim};
use engine_core::codegen::{Code, native};
use engine_core::cubecl::ir::{Arithmetic, Comparison, ElemType, FloatKind, Scope, UIntKind, Variable};
use engine_core::ir::DType;
use engine_core::op::gpu::{BlockFoldCode, BlockMemory, BlockState, Bound};

const U32: ElemType = ElemType::UInt(UIntKind::U32);
const F32: ElemType = ElemType::Float(FloatKind::F32);

/// A selection in one kernel.
pub struct TopKCode<'f> {
    form: &'f TopKForm,
    memory: BlockMemory,
    counter: Variable,
    /// The least rank of each group of threads, if the block looks at its first round.
    least: Option<Variable>,
    /// The bins of a histogram, if the buffer is trimmed by one.
    bins: Option<Variable>,
    /// The first word of the block's state in memory.
    state: Option<Variable>,
    /// The number of the flag that entries of this round raise; rounds alternate between two.
    flag: Option<Variable>,
    /// The threshold as an element, for 32-bit floats.
    bound: Option<Variable>,
}

/// Whether an element may precede the threshold whose first word is `bound`. It may if both are equal: a GPU that takes
/// subnormal numbers for zero finds the bound right behind zero equal to zero. It may if either is NaN, too. The ranks decide
/// then. Where NaN comes first, it passes by its bits on devices whose comparisons ignore NaN.
fn may_pass(code: &mut Code, value: Variable, bound: Variable, order: Order) -> Variable {
    let is_behind = match order.is_descending {
        true => code.cmp(Comparison::Lower, value, bound),
        false => code.cmp(Comparison::Greater, value, bound),
    };
    let may_pass = code.not(is_behind);
    if !order.is_nan_first {
        return may_pass;
    }
    let is_nan = code.is_nan(value);
    code.or(may_pass, is_nan)
}

impl BlockFoldCode for TopKCode<'_> {
    /// The worst entry of a full state, as a threshold for 32-bit floats.
    fn bound(&self, scope: &mut Scope) -> Option<Bound> {
        let code = &mut self.code_in(scope);
        let BlockState { words, number, is_first } = self.memory.state?;
        let (form, is_first) = (self.form, is_first?);
        let first = code.scaled(number, form.state_words() as i64);
        let count = code.load(words, first);
        let last = code.at(form.k as i64);
        let last = code.add_at(first, last);
        let rank = code.load(words, last);
        let bits = high_of::expand(code.scope, native(rank), form.order).into();
        let bound = code.reinterpret(F32, bits);
        let (zero, k) = (code.at(0), code.int(U32, form.k as i64));
        let is_new = code.cmp(Comparison::NotEqual, is_first, zero);
        let is_short = code.cmp(Comparison::NotEqual, count, k);
        let is_open = code.or(is_new, is_short);
        let (order, index, device) = (form.order, code.index, code.device);
        let admits = move |scope: &mut Scope, value: Variable| {
            may_pass(&mut Code::new(scope, index, device), value, bound, order)
        };
        Some(Bound { is_open, admits: Box::new(admits) })
    }

    fn begin(&mut self, scope: &mut Scope) {
        let TopKForm { k, order, shape, n_groups, .. } = *self.form;
        if let Some(least) = self.least {
            start_look::expand(scope, native(least), n_groups);
        }
        let (words, counter) = (native(self.memory.shared), native(self.counter));
        match (self.resumed_state(), self.memory.state.and_then(|state| state.is_first)) {
            (Some((states, first)), Some(is_first)) => {
                let [first, is_first] = [first, is_first].map(native);
                resume::expand(scope, words, counter, native(states), first, is_first, k, order, shape);
            }
            _ => start::expand(scope, words, counter, order, shape),
        }
    }

    fn look(&mut self, scope: &mut Scope, values: &[Variable]) {
        let Some(least) = self.least else { return };
        let code = &mut self.code_in(scope);
        let TopKForm { n_groups, shape, .. } = *self.form;
        let ranks: Vec<Variable> = values.iter().map(|&value| self.ranks(code, value)[0]).collect();
        let own = ranks.into_iter().reduce(|a, b| code.bin(Arithmetic::Min, a, b));
        if let Some(own) = own {
            look::expand(code.scope, native(least), native(own), n_groups, shape);
        }
    }

    fn end_look(&mut self, scope: &mut Scope) {
        let Some(least) = self.least else { return };
        let TopKForm { k, order, shape, n_groups, .. } = *self.form;
        end_look::expand(scope, native(self.memory.shared), native(least), k, n_groups, order, shape);
    }

    fn begin_round(&mut self, scope: &mut Scope, start: Variable, base: Variable) {
        let code = &mut self.code_in(scope);
        let before = code.bin(Arithmetic::Sub, base, start);
        let round = code.divided(before, self.form.shape.threads * self.form.width);
        self.flag = Some(code.modulo(round, 2));
        self.bound = (self.form.order.dtype == DType::F32).then(|| {
            let bits = self.control(code, BOUND);
            code.reinterpret(F32, bits)
        });
    }

    fn offer(&mut self, scope: &mut Scope, values: &[Variable], column: Variable) {
        let code = &mut self.code_in(scope);
        for (i, &value) in values.iter().enumerate() {
            let offset = code.at(i as i64);
            let index = code.add_at(column, offset);
            match self.bound {
                Some(bound) => {
                    let may_pass = may_pass(code, value, bound, self.form.order);
                    code.when(may_pass, |code| self.offer_value(code, value, index));
                }
                None => self.offer_value(code, value, index),
            }
        }
    }

    /// Offers an entry of a state, if there is one.
    fn offer_part(&mut self, scope: &mut Scope, states: Variable, first: Variable, number: Variable) {
        let code = &mut self.code_in(scope);
        let TopKForm { k, order, .. } = *self.form;
        let piece = code.divided(number, k);
        let number = code.modulo(number, k);
        let piece = code.add_at(first, piece);
        let state = code.scaled(piece, self.form.state_words() as i64);
        let count = code.load(states, state);
        let number_word = code.cast(U32, number);
        let is_there = code.less(number_word, count);
        code.when(is_there, |code| {
            let one = code.at(1);
            let entries = code.add_at(state, one);
            let mut word = code.add_at(entries, number);
            let mut entry = vec![];
            for _ in 0..self.form.n_planes() {
                entry.push(code.load(states, word));
                let plane = code.at(k as i64);
                word = code.add_at(word, plane);
            }
            let low = if order.is_wide() { entry[1] } else { code.int(U32, 0) };
            self.offer_entry(code, [entry[0], low], entry[entry.len() - 1]);
        });
    }

    /// Trims the buffer if an entry has arrived in this round and enough are there.
    fn end_round(&mut self, scope: &mut Scope) {
        let code = &mut self.code_in(scope);
        let start = code.at(self.form.shape.n_words() as i64);
        let place = code.add_at(start, self.flag());
        let raised = code.load(self.memory.shared, place);
        let zero = code.int(U32, 0);
        let is_raised = code.cmp(Comparison::NotEqual, raised, zero);
        code.when(is_raised, |code| {
            self.count(code, Some(place));
            let count = self.control(code, COUNT);
            let trigger = code.int(U32, self.form.trigger as i64);
            let is_enough = code.cmp(Comparison::GreaterEqual, count, trigger);
            code.when(is_enough, |code| self.trim(code));
        });
    }

    fn finish(&mut self, scope: &mut Scope) {
        let code = &mut self.code_in(scope);
        // All threads must have read the last round's count.
        code.sync();
        self.count(code, None);
        let Some((states, first)) = self.state() else {
            self.sort_and_trim(code);
            return self.end(code);
        };
        let TopKForm { k, shape, .. } = *self.form;
        let save = |code: &mut Code| {
            self.sort_and_trim(code);
            save::expand(code.scope, native(self.memory.shared), native(states), native(first), k, shape);
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
}

impl<'f> TopKCode<'f> {
    /// The code of a form, which declares the counter of entries.
    pub fn new(form: &'f TopKForm, scope: &mut Scope, memory: BlockMemory) -> TopKCode<'f> {
        let code = &mut Code::new(scope, memory.index, memory.device);
        let counter = code.shared_atomics(U32, 1);
        let least = memory.looks_first.then(|| code.shared_atomics(U32, form.n_groups));
        let bins = form.trims.then(|| code.shared_atomics(U32, BINS));
        let state = memory.state.map(|state| code.scaled(state.number, form.state_words() as i64));
        TopKCode { form, memory, counter, least, bins, state, flag: None, bound: None }
    }

    fn code_in<'s>(&self, scope: &'s mut Scope) -> Code<'s> {
        Code::new(scope, self.memory.index, self.memory.device)
    }

    /// The words of all states, and the first word of the block's state.
    fn state(&self) -> Option<(Variable, Variable)> {
        Some((self.memory.state?.words, self.state?))
    }

    /// The state that the block starts from.
    fn resumed_state(&self) -> Option<(Variable, Variable)> {
        self.memory.state?.is_first?;
        self.state()
    }

    fn flag(&self) -> Variable {
        self.flag.unwrap_or_else(|| engine_core::bug!("an entry outside a round"))
    }

    /// The words of an element's rank.
    fn ranks(&self, code: &mut Code, value: Variable) -> [Variable; 2] {
        let order = self.form.order;
        let [high, low] = code.words_of(value);
        let ranks = [
            high_rank::expand(code.scope, native(high), native(low), order),
            low_rank::expand(code.scope, native(high), native(low), order),
        ];
        ranks.map(Variable::from)
    }

    fn offer_value(&self, code: &mut Code, value: Variable, index: Variable) {
        let ranks = self.ranks(code, value);
        let index = code.cast(U32, index);
        self.offer_entry(code, ranks, index);
    }

    fn offer_entry(&self, code: &mut Code, [high, low]: [Variable; 2], index: Variable) {
        let (words, counter) = (native(self.memory.shared), native(self.counter));
        let [high, low, index] = [high, low, index].map(native);
        offer::expand(code.scope, words, counter, native(self.flag()), high, low, index, self.form.shape);
    }

    fn control(&self, code: &mut Code, word: usize) -> Variable {
        let place = code.at((self.form.shape.n_words() + word) as i64);
        code.load(self.memory.shared, place)
    }

    /// Publishes the number of entries to all threads, and clears a flag.
    fn count(&self, code: &mut Code, flag: Option<Variable>) {
        let (words, counter) = (native(self.memory.shared), native(self.counter));
        count::expand(code.scope, words, counter, self.form.shape);
        if let Some(place) = flag {
            clear_flag::expand(code.scope, native(self.memory.shared), native(place));
        }
    }

    /// Keeps the best entries, k or few more.
    fn trim(&self, code: &mut Code) {
        let Some(bins) = self.bins else { return self.sort_and_trim(code) };
        let TopKForm { k, order, shape, trigger, .. } = *self.form;
        self.load(code);
        let (words, counter) = (native(self.memory.shared), native(self.counter));
        trim::expand(code.scope, words, counter, native(bins), k, trigger, order, shape);
    }

    /// Sorts the buffer and keeps the best k entries.
    fn sort_and_trim(&self, code: &mut Code) {
        let TopKForm { k, order, shape, .. } = *self.form;
        self.load(code);
        sort_and_trim::expand(code.scope, native(self.memory.shared), native(self.counter), k, order, shape);
    }

    /// Loads the entries of the state that the block starts from.
    fn load(&self, code: &mut Code) {
        let Some((states, first)) = self.resumed_state() else { return };
        let TopKForm { k, shape, .. } = *self.form;
        let words = self.memory.shared;
        load::expand(code.scope, native(words), native(states), native(first), k, shape);
    }

    /// Ends the row with its first entries.
    fn end(&self, code: &mut Code) {
        let TopKForm { k, order, shape, ref ending, .. } = *self.form;
        let (counter, memory) = (self.counter, &self.memory);
        let count = self.control(code, COUNT);
        ending.emit(code, &Selected { k, order, shape, count, counter, memory });
    }
}
