//! Top-k: the first k elements of each row in some order, without sorting the row.
//!
//! A block reads a row and collects elements that precede the k-th best entry so far in its top-k buffer. Once
//! enough have been collected, the block sorts the buffer and keeps the best k. In a long row few elements pass
//! this threshold, so most cost one comparison.
//!
//! Several blocks share a row if rows are few and long, and another launch merges their states. If a row is
//! computed in panels, its state stays in global memory from panel to panel.

use crate::codegen::ir::builder::{Code, F32, U32, U64};
use crate::codegen::ops::packed_types::Buffer;
use crate::codegen::schedule::topk_buffer::{
    BOUND, COUNT, LOADED, N_CONTROLS, STORED, clear_flag, count, load, offer, resume, save, sort_and_trim,
    start,
};
use crate::device_model::DeviceModel;
use crate::ir::DType;
use crate::op::gpu::{
    CubeBody, GpuArgument, GpuArguments, GpuKernel, GpuLaunch, Order, Shape, View, high_of, high_rank,
    low_of, low_rank,
};
use crate::op::{KernelCall, Selected, Selection};
use cubecl_core::ir::{
    Arithmetic, Bitwise, Builtin, Comparison, ElemType, ManagedVariable, Scope, StorageType, Type, UIntKind,
    Variable,
};
use cubecl_core::prelude::*;
use std::sync::Arc;

/// The most selected elements of a row; for more, a sort is faster.
const MOST_SELECTED: usize = 1024;

/// The most selected elements of a row for which every type's buffer fits in shared memory.
pub fn most_selected(device: &DeviceModel) -> usize {
    let fits = |k: &usize| [true, false].into_iter().all(|is_wide| smallest_shape(*k, is_wide).fits(device));
    (1..=MOST_SELECTED).rev().find(fits).unwrap_or(0)
}

/// Whether the buffer of a selection fits in shared memory.
pub fn can_select(selection: &Selection, device: &DeviceModel) -> bool {
    let Selection { k, order, .. } = selection;
    *k <= MOST_SELECTED && smallest_shape(*k, order.is_wide()).fits(device)
}

/// The buffer shape of a selection with the fewest threads.
fn smallest_shape(k: usize, is_wide: bool) -> Shape {
    shape(k, is_wide, FEWEST_THREADS, width_of(if is_wide { 8 } else { 4 }))
}

fn shape(k: usize, is_wide: bool, threads: usize, width: usize) -> Shape {
    Shape { capacity: (k + threads * width + k.min(NEWCOMERS)).next_power_of_two(), is_wide, threads }
}

fn width_of(element_bytes: usize) -> usize {
    (VECTOR_BYTES / element_bytes).min(MOST_NEIGHBOURS)
}

impl Shape {
    /// Whether the buffer and its control words fit in shared memory.
    fn fits(self, device: &DeviceModel) -> bool {
        4 * (self.n_words() + N_CONTROLS + 1).next_multiple_of(4) <= device.shared_bytes
    }
}

/// The form of a top-k kernel, independent of its input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopKForm {
    k: usize,
    order: Order,
    shape: Shape,
    /// Elements that a thread offers between two barriers.
    width: usize,
    /// Whether these are neighbours, read as one vector.
    is_side_by_side: bool,
    /// The number of buffered entries from which a block sorts.
    trigger: usize,
    /// Whether a block starts from a state in memory.
    is_resumed: bool,
    /// Whether a block writes its state to memory, not results.
    keeps_state: bool,
}

/// The most threads of a block. Ranks of two words leave room for the entries of fewer threads.
const THREADS: usize = 256;
const WIDE_THREADS: usize = 128;
const FEWEST_THREADS: usize = 32;
/// Bytes that a thread reads as one vector, and its most elements.
const VECTOR_BYTES: usize = 16;
const MOST_NEIGHBOURS: usize = 4;
/// New entries that are worth a sort.
const NEWCOMERS: usize = 128;

impl TopKForm {
    /// The form for rows of `n` elements; a group of `aligned` neighbours never crosses the end of a row.
    pub fn new(k: usize, order: Order, n: usize, aligned: usize, device: &DeviceModel) -> TopKForm {
        let is_wide = order.is_wide();
        let most = if is_wide { WIDE_THREADS } else { THREADS };
        let width = width_of(order.dtype.size());
        let mut threads = n.div_ceil(width).next_power_of_two().clamp(FEWEST_THREADS, most);
        while threads > FEWEST_THREADS && !shape(k, is_wide, threads, width).fits(device) {
            threads /= 2;
        }
        let shape = shape(k, is_wide, threads, width);
        let trigger = (k + k.max(NEWCOMERS)).min(shape.capacity - threads * width);
        let is_side_by_side = aligned.is_multiple_of(width);
        let [is_resumed, keeps_state] = [false; 2];
        TopKForm { k, order, shape, width, is_side_by_side, trigger, is_resumed, keeps_state }
    }

    /// The form that writes its state to memory if `keeps_state`.
    pub fn keeping_state(self, keeps_state: bool) -> TopKForm {
        TopKForm { keeps_state, ..self }
    }

    /// The form that starts from its state in memory if `is_resumed`.
    pub fn resuming(self, is_resumed: bool) -> TopKForm {
        TopKForm { is_resumed, ..self }
    }

    /// The number of selected elements, and their order.
    pub fn selected(&self) -> (usize, Order) {
        (self.k, self.order)
    }

    /// Threads of a block.
    pub fn threads(&self) -> usize {
        self.shape.threads
    }

    /// Neighbours that a thread reads as one vector.
    pub fn neighbours(&self) -> usize {
        if self.is_side_by_side { self.width } else { 1 }
    }

    /// Elements that a block reads between two barriers.
    pub fn round(&self) -> usize {
        self.shape.threads * self.width
    }

    /// Words of the state of a piece of a row: the number of entries, and the entries in order.
    pub fn state_words(&self) -> usize {
        1 + self.k * self.n_planes()
    }

    /// Words of an entry. They lie in planes: all first words, then all second words, and so on.
    fn n_planes(&self) -> usize {
        if self.order.is_wide() { 3 } else { 2 }
    }
}

/// Pieces of each row, and elements of a piece: enough blocks for a large GPU, unless pieces would be short.
pub fn pieces(n_rows: usize, n: usize, round: usize) -> [usize; 2] {
    let wanted = BLOCKS.div_ceil(n_rows.max(1)).min(n / SHORTEST_PIECE).max(1);
    let length = n.div_ceil(wanted).next_multiple_of(round).max(round);
    [n.div_ceil(length).max(1), length]
}

/// Blocks that fill a large GPU.
const BLOCKS: usize = 512;
const SHORTEST_PIECE: usize = 1 << 14;

/// The launches that select from the rows of a call's only operand.
pub fn select_rows(selection: &Selection, call: &KernelCall, device: &DeviceModel) -> GpuKernel {
    let (n_rows, n) = call.rows();
    let Selection { k, order, results } = selection;
    let form = TopKForm::new(*k, *order, n, n, device);
    let [n_pieces, length] = pieces(n_rows, n, form.round());
    let outputs = || (0..results.len()).map(|result| GpuArgument::Output(result, View::Stored));
    let dtypes: Vec<DType> = call.outputs.iter().map(|output| output.dtype).collect();
    let forms = ResultForms { results: results.iter().copied().zip(dtypes).collect() };
    let input = GpuArgument::Input(0, View::Stored);
    let launch = |form: TopKForm, name, n_blocks, arguments, scalars, body: BodyFn| {
        let (threads, forms) = (form.threads(), forms.clone());
        let body: CubeBody = Arc::new(move |scope, arguments| body(scope, arguments, &form, &forms));
        GpuLaunch { name, cubes: n_blocks, threads, arguments, scalars, body }
    };
    if n_pieces == 1 {
        let arguments = [input].into_iter().chain(outputs()).collect();
        let launch = launch(form, "select_rows", n_rows, arguments, vec![n, length, 1], select_in_memory);
        return GpuKernel { workspace_bytes: 0, launches: vec![launch] };
    }
    let n_words = n_rows * n_pieces * form.state_words();
    let states = GpuArgument::Workspace { start: 0, n_words };
    let pieces = form.keeping_state(true);
    let (arguments, scalars) = (vec![input, states], vec![n, length, n_pieces]);
    let first = launch(pieces, "select_pieces", n_rows * n_pieces, arguments, scalars, select_in_memory);
    let merge = TopKForm::merge(*k, *order, n_pieces, device);
    let arguments = [states].into_iter().chain(outputs()).collect();
    let second = launch(merge, "merge_pieces", n_rows, arguments, vec![n_pieces], merge_in_memory);
    GpuKernel { workspace_bytes: 4 * n_words, launches: vec![first, second] }
}

type BodyFn = fn(&mut Scope, &GpuArguments, &TopKForm, &ResultForms);

impl TopKForm {
    /// The form of a merge of the states of a row's pieces.
    pub fn merge(k: usize, order: Order, n_pieces: usize, device: &DeviceModel) -> TopKForm {
        TopKForm::new(k, order, k * n_pieces, 1, device)
    }
}

/// The content of each result of a selection, and its type.
#[derive(Clone, Debug)]
struct ResultForms {
    results: Vec<(Selected, DType)>,
}

fn select_in_memory(scope: &mut Scope, arguments: &GpuArguments, form: &TopKForm, forms: &ResultForms) {
    let code = &mut Code::new(scope, arguments.index, arguments.device);
    let [n, length, n_pieces] = [0, 1, 2].map(|number| arguments.scalars[number]);
    let block = code.builtin(Builtin::CubePos);
    let row = code.bin(Arithmetic::Div, block, n_pieces);
    let piece = code.bin(Arithmetic::Modulo, block, n_pieces);
    let columns = columns_of_piece(code, piece, length, n);
    let x = &arguments.buffers[0];
    let first = code.bin(Arithmetic::Mul, row, n);
    let memory = match form.keeps_state {
        true => Memory { state: Some((arguments.buffers[1].array, block)), is_first: None, results: vec![] },
        false => Memory { state: None, is_first: None, results: results(arguments, forms) },
    };
    let done = select_by(code, form, &memory, row, columns, None, &mut |code, select, column| {
        let point = code.add_at(first, column);
        let values = match form.is_side_by_side {
            true => x.load_vector(code, point, form.width),
            false => vec![x.load(code, point)],
        };
        select.offer_values(code, &values, column);
        Ok::<(), std::convert::Infallible>(())
    });
    let Ok(()) = done;
}

/// The first column of a piece, and the end of its columns.
pub fn columns_of_piece(code: &mut Code, piece: Variable, length: Variable, n: Variable) -> [Variable; 2] {
    let start = code.bin(Arithmetic::Mul, piece, length);
    let end = code.add_at(start, length);
    let is_inside = code.less(end, n);
    [start, code.select(is_inside, end, n)]
}

fn merge_in_memory(scope: &mut Scope, arguments: &GpuArguments, form: &TopKForm, forms: &ResultForms) {
    let code = &mut Code::new(scope, arguments.index, arguments.device);
    let row = code.builtin(Builtin::CubePos);
    merge(code, form, arguments.buffers[0].array, row, arguments.scalars[0], results(arguments, forms));
}

fn results(arguments: &GpuArguments, forms: &ResultForms) -> Vec<ResultBuffer> {
    let buffers = &arguments.buffers[1..];
    forms.results.iter().zip(buffers).map(|(&(what, dtype), buffer)| (what, buffer.clone(), dtype)).collect()
}

/// Emits the merge of the states of all pieces of a row.
pub fn merge(
    code: &mut Code,
    form: &TopKForm,
    states: Variable,
    row: Variable,
    n_pieces: Variable,
    results: Vec<ResultBuffer>,
) {
    let k = form.k;
    let first = code.bin(Arithmetic::Mul, row, n_pieces);
    let n = code.scaled(n_pieces, k as i64);
    let start = code.at(0);
    let memory = Memory { state: None, is_first: None, results };
    let done = select_by(code, form, &memory, row, [start, n], None, &mut |code, select, place| {
        let piece = code.divided(place, k);
        let number = code.modulo(place, k);
        let piece = code.add_at(first, piece);
        let state = code.scaled(piece, form.state_words() as i64);
        let count = code.load(states, state);
        let number_word = code.cast(U32, number);
        let is_there = code.less(number_word, count);
        code.when(is_there, |code| {
            let one = code.at(1);
            let entries = code.add_at(state, one);
            let mut word = entries;
            word = code.add_at(word, number);
            let mut entry = vec![];
            for _ in 0..form.n_planes() {
                entry.push(code.load(states, word));
                let plane = code.at(k as i64);
                word = code.add_at(word, plane);
            }
            let low = if form.order.is_wide() { entry[1] } else { code.int(U32, 0) };
            select.offer(code, [entry[0], low], entry[entry.len() - 1]);
        });
        Ok::<(), std::convert::Infallible>(())
    });
    let Ok(()) = done;
}

/// The memory that a selection starts from or writes to.
pub struct Memory {
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
    memory: &Memory,
    row: Variable,
    columns: [Variable; 2],
    filter: Option<Filter<E>>,
    offer_at: &mut dyn FnMut(&mut Code, &TopKCode, Variable) -> Result<(), E>,
) -> Result<(), E> {
    let words = code.shared(U32, form.shape.n_words() + N_CONTROLS);
    let atomic = Type::new(StorageType::Atomic(U32));
    let counter = code.scope.create_shared_array(atomic, 1, None).consume();
    let state = memory.state.map(|(states, number)| {
        let first = code.scaled(number, form.state_words() as i64);
        (states, first)
    });
    let block = Block { form, words, counter, state };
    let Some(filter) = filter else { return block.select(code, memory, row, columns, offer_at) };
    let is_needed = filter(code)?;
    let mut result = Ok(());
    block.when_any(code, is_needed, |code| result = block.select(code, memory, row, columns, offer_at));
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
    pub fn read(code: &mut Code, form: &TopKForm, memory: &Memory) -> Option<Threshold> {
        let (Some((states, number)), Some(is_first)) = (memory.state, memory.is_first) else { return None };
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
    fn offer(&self, code: &mut Code, [high, low]: [Variable; 2], index: Variable) {
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
        memory: &Memory,
        row: Variable,
        [start, end]: [Variable; 2],
        offer_at: &mut dyn FnMut(&mut Code, &TopKCode, Variable) -> Result<(), E>,
    ) -> Result<(), E> {
        let &Block { form, words, counter, .. } = self;
        self.begin(code, memory.is_first);
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
        self.finish(code, row, &memory.results);
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

/// A variable as a value of CubeCL's kernel language.
pub fn native<T: CubeType>(variable: Variable) -> NativeExpand<T> {
    ManagedVariable::Plain(variable).into()
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
