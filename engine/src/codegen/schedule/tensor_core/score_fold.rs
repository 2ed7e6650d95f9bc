//! Folds of the scores that a thread holds: two rows of each part, and two neighbours of every eight columns.

use crate::codegen::ir::builder::{BOOL, Code, F32};
use crate::codegen::ops::packed_types::Buffer;
use crate::codegen::ops::scalar::narrowed;
use crate::codegen::schedule::extreme_fold::ExtremeFold;
use crate::codegen::schedule::row_fold::AnyFold;
use crate::device_model::DeviceModel;
use crate::fusion::RowConsumer;
use crate::ir::{DType, Monoid};
use crate::op::gpu::ThreadFold;
use cubecl_core::ir::{ElemType, Variable};
use std::sync::Arc;

/// The most values of the state of a row. A thread has the states of four rows.
const MOST_VALUES: usize = 4;

/// Neighbouring columns of a thread where its scores lie.
pub const PAIR: usize = 2;

/// A thread's row within the block's.
pub const OWN_ROW: &str = "own_row + 64 * i + 8 * half";

/// A thread's first column within every eight.
pub const OWN_COLUMN: &str = "threadIdx.x % 4 * 2";

/// The loops over the rows of a thread: parts, and two rows of each.
pub fn at_rows(n_parts: usize) -> String {
    format!(
        "\
#pragma unroll
for (int i = 0; i < {n_parts}; i++)
#pragma unroll
for (int half = 0; half < 2; half++) {{
"
    )
}

/// A fold of scores in registers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ScoreFold {
    /// The extreme of each row, or its index.
    Extreme(Monoid),
    /// A reduction of each row by an op whose threads have states of their own.
    Threads(AnyFold),
    /// The reduction of each block of so many neighbouring columns.
    Blocks(Monoid, usize),
}

/// The tile of scores of a warpgroup.
#[derive(Clone, Copy)]
pub struct Scores {
    /// Steps of 64 rows.
    pub n_parts: usize,
    /// Columns.
    pub columns: usize,
    /// Rows and columns of a matrix.
    pub extents: [usize; 2],
    /// Pieces that the columns are cut into.
    pub n_pieces: usize,
}

impl ScoreFold {
    /// The fold of a row reduction; none if registers do not hold its state.
    pub fn of(consumer: &RowConsumer, device: &DeviceModel) -> Option<ScoreFold> {
        match *consumer {
            RowConsumer::Extreme(monoid, DType::F32) => Some(ScoreFold::Extreme(monoid)),
            RowConsumer::Blocks { monoid, dtype: DType::F32, columns } => {
                Some(ScoreFold::Blocks(monoid, columns))
            }
            RowConsumer::Call(ref call) if call.inputs[0].dtype == DType::F32 => {
                let (reduction, call) = consumer.reduction()?;
                let fold = reduction.block_fold(call, device).ok()?;
                let state = fold.of_threads()?.state();
                let fits = state.len() <= MOST_VALUES && state.iter().all(|&dtype| word(dtype).is_some());
                fits.then_some(ScoreFold::Threads(AnyFold(fold)))
            }
            _ => None,
        }
    }

    /// Whether so many columns are whole blocks.
    pub fn fits(&self, n_columns: usize) -> bool {
        match self {
            ScoreFold::Blocks(_, columns) => n_columns.is_multiple_of(*columns),
            _ => true,
        }
    }

    /// Whether an op's states stay in registers beside the scores.
    pub fn has_states(&self) -> bool {
        matches!(self, ScoreFold::Threads(_))
    }

    /// Whether the pieces of a row have a result together.
    pub fn merges_pieces(&self) -> bool {
        !matches!(self, ScoreFold::Blocks(..))
    }

    /// The fold of a thread, if there are states.
    fn of_threads(&self, device: DeviceModel) -> Option<Arc<dyn ThreadFold>> {
        match self {
            ScoreFold::Extreme(monoid) => Some(Arc::new(ExtremeFold::new(*monoid, DType::F32, device))),
            ScoreFold::Threads(fold) => fold.of_threads(),
            ScoreFold::Blocks(..) => None,
        }
    }

    /// Emits the state of a row block, and returns the score of columns behind the last, if they have one.
    pub fn begin(&self, code: &mut Code, scores: Scores) -> Option<Variable> {
        match self {
            ScoreFold::Extreme(monoid) => Some(begin_extreme(code, scores, *monoid)),
            ScoreFold::Threads(_) => {
                let fold = self.of_threads(code.device)?;
                begin_states(code, scores, &*fold);
                None
            }
            ScoreFold::Blocks(..) => None,
        }
    }

    /// Emits the fold of a tile.
    pub fn take(&self, code: &mut Code, scores: Scores, results: &[Target]) {
        match self {
            ScoreFold::Extreme(monoid) => code.lines(&take_extreme(scores, *monoid)),
            ScoreFold::Threads(_) => {
                let fold = self.of_threads(code.device);
                fold.iter().for_each(|fold| take_states(code, scores, &**fold));
            }
            ScoreFold::Blocks(monoid, columns) => take_blocks(code, scores, (*monoid, *columns), results),
        }
    }

    /// Emits what becomes of the state at the end of a piece. It goes to memory for states, if there is one.
    pub fn finish(&self, code: &mut Code, scores: Scores, results: &[Target], states: Option<Variable>) {
        let Some(fold) = self.of_threads(code.device) else { return };
        finish_states(code, scores, &*fold, (results, states));
    }
}

/// The type of a state's value in CUDA, if it has 32 bits.
fn word(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F32 => Some("float"),
        DType::I32 => Some("int"),
        DType::U32 => Some("unsigned int"),
        _ => None,
    }
}

/// The array with a value of the states of a thread's rows, and the type of an element.
fn arrays(fold: &dyn ThreadFold, device: DeviceModel) -> Vec<(String, ElemType)> {
    let array = |(i, &dtype): (usize, &DType)| (format!("state_{i}"), device.register(dtype));
    fold.state().iter().enumerate().map(array).collect()
}

/// The memory of a result, with its type.
pub type Target = (Buffer, DType);

/// Emits the state of extremes, and returns the score that no other is behind.
fn begin_extreme(code: &mut Code, scores: Scores, monoid: Monoid) -> Variable {
    let initial = ExtremeFold::new(monoid, DType::F32, code.device).init(code.scope)[0];
    let (value, n) = (code.named(initial), scores.n_parts);
    // A row without a better element has its extreme at the first column.
    let text = format!(
        "\
float state_0[{n}][2];
unsigned int state_1[{n}][2];
{rows}\
state_0[i][half] = {value};
state_1[i][half] = first_tile * {columns} + {OWN_COLUMN};
}}
",
        rows = at_rows(n),
        columns = scores.columns,
    );
    code.lines(&text);
    initial
}

/// The fold of a tile into the state. Columns come in their order, so later ones win no ties. NaN beats no number in a
/// comparison, so a row that has one is folded again.
fn take_extreme(scores: Scores, monoid: Monoid) -> String {
    let beats = if matches!(monoid, Monoid::Max | Monoid::ArgMax) { ">" } else { "<" };
    let (n, n_pairs) = (scores.n_parts, scores.columns / 8);
    format!(
        "\
float now[{n}][2];
unsigned int at[{n}][2];
bool has_nan[{n}][2];
{rows}\
now[i][half] = state_0[i][half];
at[i][half] = ~0u;
has_nan[i][half] = false;
}}
#pragma unroll
for (int j = 0; j < {n_pairs}; j++)
{rows}\
const float x = sums[i][4 * j + 2 * half], y = sums[i][4 * j + 2 * half + 1];
if (x {beats} now[i][half]) {{
now[i][half] = x;
at[i][half] = 8 * j;
}}
if (y {beats} now[i][half]) {{
now[i][half] = y;
at[i][half] = 8 * j + 1;
}}
has_nan[i][half] |= !(x <= y) && !(x > y);
}}
{rows}\
if (has_nan[i][half]) {{
now[i][half] = state_0[i][half];
at[i][half] = ~0u;
#pragma unroll
for (int e = {last}; e >= 0; e--) {{
const float x = sums[i][e / 2 * 4 + 2 * half + e % 2];
if (x != x && state_0[i][half] == state_0[i][half]) {{
now[i][half] = x;
at[i][half] = e / 2 * 8 + e % 2;
}}
}}
}}
if (at[i][half] != ~0u) {{
state_0[i][half] = now[i][half];
state_1[i][half] = first_column + {OWN_COLUMN} + at[i][half];
}}
}}
",
        rows = at_rows(n),
        last = 2 * n_pairs - 1,
    )
}

/// Emits the states of a thread's rows.
fn begin_states(code: &mut Code, scores: Scores, fold: &dyn ThreadFold) {
    let n = scores.n_parts;
    let initial = fold.init(code.scope);
    let (mut declared, mut assigned) = (String::new(), String::new());
    for (i, (&dtype, value)) in fold.state().iter().zip(initial).enumerate() {
        let value = code.named(value);
        declared += &format!("{} state_{i}[{n}][2];\n", word(dtype).unwrap_or("float"));
        assigned += &format!("state_{i}[i][half] = {value};\n");
    }
    code.lines(&format!("{declared}{rows}{assigned}}}\n", rows = at_rows(n)));
}

/// Emits the fold of a tile into the states. Neighbouring steps belong to different rows, so none waits for the one before.
fn take_states(code: &mut Code, scores: Scores, fold: &dyn ThreadFold) {
    let [_, n] = scores.extents;
    let text = format!(
        "\
#pragma unroll
for (int j = 0; j < {n_pairs}; j++)
#pragma unroll
for (int e = 0; e < {PAIR}; e++) {{
const unsigned int column = first_column + 8 * j + {OWN_COLUMN} + e;
{inside}{rows}",
        n_pairs = scores.columns / 8,
        inside =
            if n.is_multiple_of(scores.columns) { String::new() } else { format!("if (column < {n})\n") },
        rows = at_rows(scores.n_parts),
    );
    code.lines(&text);
    let value = code.expression(F32, "sums[i][4 * j + 2 * half + e]");
    let column = code.expression(code.index, "column");
    let arrays = arrays(fold, code.device);
    let state = own_state(code, &arrays);
    fold.step(code.scope, &state, value, column);
    for ((array, _), &local) in arrays.iter().zip(&state) {
        let value = code.snapshot(local);
        let value = code.named(value);
        code.line(format_args!("{array}[i][half] = {value};"));
    }
    code.lines("}\n}\n");
}

/// Emits locals with the state of row `half` of part `i`.
fn own_state(code: &mut Code, arrays: &[(String, ElemType)]) -> Vec<Variable> {
    let local = |(array, elem): &(String, ElemType)| {
        let value = code.expression(*elem, format_args!("{array}[i][half]"));
        code.mutable(value)
    };
    arrays.iter().map(local).collect()
}

/// Emits that four threads merge their states, and one of them writes the state, or the results without memory for
/// states.
fn finish_states(
    code: &mut Code,
    scores: Scores,
    fold: &dyn ThreadFold,
    (results, states): (&[Target], Option<Variable>),
) {
    let row = format!("const unsigned int row = first_row + {OWN_ROW};\n");
    code.lines(&(at_rows(scores.n_parts) + &row));
    let state = own_state(code, &arrays(fold, code.device));
    for distance in [1, 2] {
        let others: Vec<Variable> = state
            .iter()
            .map(|&local| {
                let own = code.snapshot(local);
                code.shuffle_xor(own, distance)
            })
            .collect();
        fold.merge(code.scope, &state, &others);
    }
    let [m, _] = scores.extents;
    let writes = code.expression(BOOL, format_args!("threadIdx.x % 4 == 0 && row < {m}"));
    code.when(writes, |code| {
        let row = code.expression(code.index, format_args!("z * {m} + row"));
        let Some(states) = states else {
            let values = fold.finish(code.scope, &state);
            return results.iter().zip(values).for_each(|(to, value)| store(code, to, row, value));
        };
        let n_words = state.len();
        let first = code.scaled(row, (n_words * scores.n_pieces) as i64);
        let piece = code.expression(code.index, format_args!("piece * {n_words}"));
        let first = code.add_at(first, piece);
        for (i, &local) in state.iter().enumerate() {
            let value = code.snapshot(local);
            let [word, _] = code.words_of(value);
            let place = code.at_offset(first, i);
            code.store(states, place, word);
        }
    });
    code.line("}");
}

fn store(code: &mut Code, (buffer, dtype): &Target, place: Variable, value: Variable) {
    let value = narrowed(code, *dtype, value);
    buffer.store(code, place, value);
}

/// Emits the reductions of a tile's blocks. Four threads have parts of each, and take turns in writing.
fn take_blocks(code: &mut Code, scores: Scores, (monoid, columns): (Monoid, usize), results: &[Target]) {
    let of_two = |x: &str, y: &str| match monoid {
        Monoid::Max => format!("largest({x}, {y})"),
        Monoid::Min => format!("smallest({x}, {y})"),
        _ => format!("{x} + {y}"),
    };
    let shuffled = |distance: usize| {
        format!("value = {};\n", of_two("value", &format!("__shfl_xor_sync(~0u, value, {distance})")))
    };
    let [m, n] = scores.extents;
    let of_row = n / columns;
    let text = format!(
        "\
{rows}\
const unsigned int row = first_row + {OWN_ROW};
#pragma unroll
for (int block = 0; block < {n_blocks}; block++) {{
float value = sums[i][{of_block} * block + 2 * half];
#pragma unroll
for (int e = 1; e < {n_own}; e++)
value = {step};
{near}\
{far}\
const unsigned int number = first_column / {columns} + block;
",
        rows = at_rows(scores.n_parts),
        n_blocks = scores.columns / columns,
        of_block = columns / 2,
        n_own = columns / 4,
        step = of_two("value", &format!("sums[i][{} * block + e / 2 * 4 + 2 * half + e % 2]", columns / 2)),
        near = shuffled(1),
        far = shuffled(2),
    );
    code.lines(&text);
    let is_inside = format!("threadIdx.x % 4 == block % 4 && row < {m} && number < {of_row}");
    let writes = code.expression(BOOL, is_inside);
    code.when(writes, |code| {
        let row = code.expression(code.index, format_args!("z * {m} + row"));
        let first = code.scaled(row, of_row as i64);
        let number = code.expression(code.index, "number");
        let place = code.add_at(first, number);
        let value = code.expression(F32, "value");
        results.iter().for_each(|to| store(code, to, place, value));
    });
    code.lines("}\n}\n");
}
