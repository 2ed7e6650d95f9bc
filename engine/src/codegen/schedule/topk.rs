//! Top-k: the first k elements of each row in some order, without sorting the row.
//!
//! A block reads a row and collects elements that precede the k-th best entry so far in its top-k buffer. Once
//! enough have been collected, the block sorts the buffer and keeps the best k. In a long row few elements pass
//! this threshold, so most cost one comparison.
//!
//! Several blocks share a row if rows are few and long, and another launch merges their states. If a row is
//! computed in panels, its state stays in global memory from panel to panel.

use crate::codegen::ir::builder::{Code, U32};
use crate::codegen::schedule::topk_code::{ResultBuffer, StoredState, select_by};
use crate::codegen::schedule::topk_form::{TopKForm, pieces};
use crate::device_model::DeviceModel;
use crate::ir::DType;
use crate::op::gpu::{CubeBody, GpuArgument, GpuArguments, GpuKernel, GpuLaunch, View};
use crate::op::{KernelCall, Selected, Selection};
use cubecl_core::ir::{Arithmetic, Builtin, Scope, Variable};
use std::sync::Arc;

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
    let stored = match form.keeps_state {
        true => {
            StoredState { state: Some((arguments.buffers[1].array, block)), is_first: None, results: vec![] }
        }
        false => StoredState { state: None, is_first: None, results: results(arguments, forms) },
    };
    let done = select_by(code, form, &stored, row, columns, None, &mut |code, select, column| {
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
    let stored = StoredState { state: None, is_first: None, results };
    let done = select_by(code, form, &stored, row, [start, n], None, &mut |code, select, place| {
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
