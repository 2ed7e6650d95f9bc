//! Row folds: the loop of a block over the columns of a row, and the launches on rows in memory.
//!
//! A [`BlockFold`] gives the steps. Several blocks share a row if rows are few and long, and another launch merges
//! their states.

use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::ops::packed_types::Buffer;
use crate::device_model::DeviceModel;
use crate::ir::DType;
use crate::op::KernelCall;
use crate::op::gpu::{
    BlockFold, BlockFoldCode, BlockMemory, BlockState, CubeBody, GpuArgument, GpuArguments, GpuKernel,
    GpuLaunch, View,
};
use cubecl_core::ir::{Arithmetic, Builtin, Comparison, Variable};
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Blocks that fill a large GPU.
const BLOCKS: usize = 512;
const SHORTEST_PIECE: usize = 1 << 14;

/// A block fold that is compared by its identity.
#[derive(Clone, Debug)]
pub struct AnyFold(pub Arc<dyn BlockFold>);

impl Deref for AnyFold {
    type Target = dyn BlockFold;

    fn deref(&self) -> &(dyn BlockFold + 'static) {
        &*self.0
    }
}

impl PartialEq for AnyFold {
    fn eq(&self, other: &AnyFold) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for AnyFold {}

impl Hash for AnyFold {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// Elements that a block reads between two barriers.
pub fn round(fold: &dyn BlockFold) -> usize {
    fold.threads() * fold.width()
}

/// Pieces of each row, and elements of a piece: enough blocks for a large GPU, unless pieces would be short.
pub fn pieces(n_rows: usize, n: usize, round: usize) -> [usize; 2] {
    let wanted = BLOCKS.div_ceil(n_rows.max(1)).min(n / SHORTEST_PIECE).max(1);
    let length = n.div_ceil(wanted).next_multiple_of(round).max(round);
    [n.div_ceil(length).max(1), length]
}

/// The launches that fold the rows of a call's first operand. Blocks that write results are given the further ones.
pub fn fold_rows(fold: Arc<dyn BlockFold>, call: &KernelCall, device: &DeviceModel) -> GpuKernel {
    let (n_rows, n) = call.rows();
    let [n_pieces, length] = pieces(n_rows, n, round(&*fold));
    let results = || (0..call.outputs.len()).map(|result| GpuArgument::Output(result, View::Stored));
    let dtypes: Vec<DType> = call.outputs.iter().map(|output| output.dtype).collect();
    let operands = || (1..call.inputs.len()).map(|operand| GpuArgument::Input(operand, View::Stored));
    let launch = |fold: Arc<dyn BlockFold>, name, n_blocks, arguments, scalars, body: BodyFn| {
        let (threads, dtypes) = (fold.threads(), dtypes.clone());
        let body: CubeBody = Arc::new(move |scope, arguments| {
            let code = &mut Code::new(scope, arguments.index, arguments.device);
            body(code, arguments, &*fold, &dtypes);
        });
        GpuLaunch { name, cubes: n_blocks, threads, arguments, scalars, body }
    };
    let input = GpuArgument::Input(0, View::Stored);
    let [of_rows, of_pieces] = fold.names();
    if n_pieces == 1 {
        let arguments = [input].into_iter().chain(operands()).chain(results()).collect();
        let launch = launch(fold, of_rows, n_rows, arguments, vec![n, length, 1], fold_whole);
        return GpuKernel { workspace_bytes: 0, launches: vec![launch] };
    }
    let n_words = n_rows * n_pieces * fold.state_words();
    let states = GpuArgument::Workspace { start: 0, n_elements: n_words, dtype: DType::U32 };
    let merging = fold.merging(n_pieces, device);
    let (arguments, scalars) = (vec![input, states], vec![n, length, n_pieces]);
    let first = launch(fold, of_pieces, n_rows * n_pieces, arguments, scalars, fold_piece);
    let arguments = [states].into_iter().chain(operands()).chain(results()).collect();
    let second = launch(merging, "merge_pieces", n_rows, arguments, vec![n_pieces], merge_pieces);
    GpuKernel { workspace_bytes: 4 * n_words, launches: vec![first, second] }
}

type BodyFn = fn(&mut Code, &GpuArguments, &dyn BlockFold, &[DType]);

fn fold_whole(code: &mut Code, arguments: &GpuArguments, fold: &dyn BlockFold, dtypes: &[DType]) {
    fold_in_memory(code, arguments, fold, None, operands_and_results(arguments, dtypes));
}

fn fold_piece(code: &mut Code, arguments: &GpuArguments, fold: &dyn BlockFold, _: &[DType]) {
    fold_in_memory(code, arguments, fold, Some(arguments.buffers[1].array), (vec![], vec![]));
}

fn fold_in_memory(
    code: &mut Code,
    arguments: &GpuArguments,
    fold: &dyn BlockFold,
    states: Option<Variable>,
    (operands, results): OperandsAndResults,
) {
    let [n, length, n_pieces] = [0, 1, 2].map(|number| arguments.scalars[number]);
    let block = code.builtin(Builtin::CubePos);
    let row = code.bin(Arithmetic::Div, block, n_pieces);
    let piece = code.bin(Arithmetic::Modulo, block, n_pieces);
    let columns = columns_of_piece(code, piece, length, n);
    let x = &arguments.buffers[0];
    let first = code.bin(Arithmetic::Mul, row, n);
    let state = states.map(|words| BlockState { words, number: block, is_first: None });
    let block = RowBlock { fold, row, state, operands, results, looks_first: fold.looks_first() };
    let done = block.fold::<Infallible>(code, columns, None, &mut |code, column| {
        let point = code.add_at(first, column);
        let values = match fold.neighbours() {
            1 => vec![x.load(code, point)],
            width => x.load_vector(code, point, width),
        };
        Ok((values, column))
    });
    let Ok(()) = done;
}

fn merge_pieces(code: &mut Code, arguments: &GpuArguments, fold: &dyn BlockFold, dtypes: &[DType]) {
    let row = code.builtin(Builtin::CubePos);
    let (operands, results) = operands_and_results(arguments, dtypes);
    let block = RowBlock { fold, row, state: None, operands, results, looks_first: false };
    block.merge(code, arguments.buffers[0].array, arguments.scalars[0]);
}

/// The operands behind the first one, and the results with their types.
type OperandsAndResults = (Vec<Buffer>, Vec<(Buffer, DType)>);

fn operands_and_results(arguments: &GpuArguments, dtypes: &[DType]) -> OperandsAndResults {
    let rest = &arguments.buffers[1..];
    let (operands, results) = rest.split_at(rest.len() - dtypes.len());
    (operands.to_vec(), results.iter().cloned().zip(dtypes.iter().copied()).collect())
}

/// The first column of a piece, and the end of its columns.
pub fn columns_of_piece(code: &mut Code, piece: Variable, length: Variable, n: Variable) -> [Variable; 2] {
    let start = code.bin(Arithmetic::Mul, piece, length);
    let end = code.add_at(start, length);
    let is_inside = code.less(end, n);
    [start, code.select(is_inside, end, n)]
}

/// Emits the elements at a column of the piece, the first of several if the fold reads vectors, and returns them with
/// the column's place in the row.
pub type ElementsAt<'f, E> = &'f mut dyn FnMut(&mut Code, Variable) -> Result<(Vec<Variable>, Variable), E>;

/// Tells whether a thread has an element within the bound of the state in memory.
pub type Filter<'f, E> = &'f mut dyn FnMut(&mut Code, &dyn BlockFoldCode) -> Result<Variable, E>;

/// A block that folds a row, or a piece of it.
pub struct RowBlock<'f> {
    /// The fold.
    pub fold: &'f dyn BlockFold,
    /// The number of the row.
    pub row: Variable,
    /// The state that the block writes; none if it writes results.
    pub state: Option<BlockState>,
    /// Further operands; none if the block writes a state.
    pub operands: Vec<Buffer>,
    /// The results with their types.
    pub results: Vec<(Buffer, DType)>,
    /// Whether the block looks at its first round of elements, for which they are read twice.
    pub looks_first: bool,
}

impl RowBlock<'_> {
    /// Emits the fold of columns `start..end`. The block skips its work if `filter` holds for no thread.
    pub fn fold<E>(
        self,
        code: &mut Code,
        columns: [Variable; 2],
        filter: Option<Filter<E>>,
        elements_at: ElementsAt<E>,
    ) -> Result<(), E> {
        let (fold, looks_first) = (self.fold, self.looks_first);
        let (shared, mut steps) = self.code(code);
        let mut result = Ok(());
        let mut rounds = |code: &mut Code, steps: &mut dyn BlockFoldCode| {
            emit_rounds(code, (fold, looks_first), steps, columns, &mut |code, steps, column, looks| {
                if result.is_ok() {
                    result = elements_at(code, column).map(|(values, column)| match looks {
                        true => steps.look(code.scope, &values),
                        false => steps.offer(code.scope, &values, column),
                    });
                }
            });
        };
        match (filter, fold.vote_word()) {
            (Some(filter), Some(word)) => {
                let is_needed = filter(code, &*steps)?;
                when_any(code, (shared, word), is_needed, |code| rounds(code, &mut *steps));
            }
            _ => rounds(code, &mut *steps),
        }
        result
    }

    /// Emits the merge of the states of all pieces of the row.
    pub fn merge(self, code: &mut Code, states: Variable, n_pieces: Variable) {
        let fold = self.fold;
        let first = code.bin(Arithmetic::Mul, self.row, n_pieces);
        let n_parts = code.scaled(n_pieces, fold.state_parts() as i64);
        let start = code.at(0);
        let (_, mut steps) = self.code(code);
        emit_rounds(code, (fold, false), &mut *steps, [start, n_parts], &mut |code, steps, number, _| {
            steps.offer_part(code.scope, states, first, number);
        });
    }

    fn code<'f>(self, code: &mut Code) -> (Variable, Box<dyn BlockFoldCode + 'f>)
    where
        Self: 'f,
    {
        let RowBlock { fold, row, state, operands, results, looks_first } = self;
        let shared = code.shared(U32, fold.shared_words());
        let (index, device) = (code.index, code.device);
        let memory = BlockMemory { shared, state, row, operands, results, index, device, looks_first };
        (shared, fold.code(code.scope, memory))
    }
}

/// Emits a thread's work at a place: a look at it, or its fold.
type WorkAt<'f> = &'f mut dyn FnMut(&mut Code, &mut dyn BlockFoldCode, Variable, bool);

/// Emits all rounds over the places `start..end`, after a look at those of the first if the block takes one.
fn emit_rounds(
    code: &mut Code,
    (fold, looks_first): (&dyn BlockFold, bool),
    steps: &mut dyn BlockFoldCode,
    [start, end]: [Variable; 2],
    work_at: WorkAt,
) {
    steps.begin(code.scope);
    let unit = code.builtin(Builtin::UnitPosX);
    let mut round_at = |code: &mut Code, steps: &mut dyn BlockFoldCode, base: Variable, looks: bool| {
        let step = fold.neighbours();
        let own = code.scaled(unit, step as i64);
        let first = code.add_at(base, own);
        for i in 0..fold.width() / step {
            let offset = code.at((i * fold.threads()) as i64);
            let column = code.add_at(first, offset);
            let is_inside = code.less(column, end);
            code.when(is_inside, |code| work_at(code, steps, column, looks));
        }
    };
    if looks_first {
        round_at(code, steps, start, true);
        steps.end_look(code.scope);
    }
    code.range(start, end, round(fold) as i64, |code, base| {
        steps.begin_round(code.scope, start, base);
        round_at(code, steps, base, false);
        code.sync();
        steps.end_round(code.scope);
    });
    steps.finish(code.scope);
}

/// Emits `body` for all threads of the block if a condition holds for one of them. They vote in a word of shared memory.
fn when_any(
    code: &mut Code,
    (shared, word): (Variable, usize),
    condition: Variable,
    body: impl FnOnce(&mut Code),
) {
    let place = code.at(word as i64);
    let (zero, one) = (code.int(U32, 0), code.int(U32, 1));
    let unit = code.builtin(Builtin::UnitPosX);
    let first = code.at(0);
    let is_first = code.cmp(Comparison::Equal, unit, first);
    code.when(is_first, |code| code.store(shared, place, zero));
    code.sync();
    code.when(condition, |code| code.store(shared, place, one));
    code.sync();
    let raised = code.load(shared, place);
    let is_raised = code.cmp(Comparison::NotEqual, raised, zero);
    code.when(is_raised, |code| {
        // All threads must have read the word before one clears it.
        code.sync();
        body(code);
    });
}
