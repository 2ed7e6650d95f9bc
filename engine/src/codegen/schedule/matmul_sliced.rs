//! Sliced matmuls: a block computes a small tile of the result, and groups of its threads share the contracted axis.
//!
//! Products of small matrices are bound by latency, and those of few rows by the right matrix, which is read once. So
//! nothing is staged in shared memory: each group loads vectors of its slice straight into registers, all of them
//! independent of each other. Shared memory adds up the groups, and all threads run the epilogue.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::buffers::{Buffers, Memory};
use crate::codegen::ops::scalar::widened;
use crate::codegen::schedule::epilogue::matmul_body;
use crate::codegen::schedule::map::at_point;
use crate::codegen::schedule::matmul_point::{ProductForm, multiplied_and_added, with_sum};
use crate::device_model::DeviceModel;
use crate::fusion::{Kernel, MatmulBody, MatrixOperand};
use crate::ir::DType;
use cubecl_core::ir::{Builtin, ElemType, Variable};

/// Points of a thread along each axis, and steps along the contracted axis at a time.
const EACH: usize = 4;
/// Columns of a tile of many rows.
const COLUMNS: usize = 32;
/// Rows of a tile: the fewest that need few enough blocks.
const ROWS: [usize; 4] = [4, 8, 16, 32];
/// The most threads of a block.
const MOST_THREADS: usize = 512;
/// The most slices of the contracted axis.
const MOST_SLICES: usize = 32;
/// The shortest contracted axis, and the fewest columns. Below them a thread or a row of threads per point is faster.
const SHORTEST: usize = 32;
const FEWEST_COLUMNS: usize = 24;
/// The most blocks for each multiprocessor. More need fewer loads per product than these tiles.
const MOST_BLOCKS: usize = 3;

/// Up to so many rows, a product takes the time to read the right matrix, and a tile has all rows.
const FEW_ROWS: usize = 8;
/// Bytes of a vector of the right matrix, for few rows.
const VECTOR_BYTES: usize = 16;
/// Threads of a block, and the most slices, for few rows.
const THREADS_OF_FEW: usize = 256;
const MOST_SLICES_OF_FEW: usize = 128;
/// Threads along the columns of a tile of few rows: the most that leave a block for one in four multiprocessors.
const ACROSS_OF_FEW: [usize; 3] = [8, 4, 2];

/// A matmul whose blocks cut the contracted axis into slices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatmulSliced {
    product: ProductForm,
    /// The number of matrix pairs.
    n_batches: usize,
    /// Rows and columns of a tile.
    tile: [usize; 2],
    /// Rows and columns of a thread.
    each: [usize; 2],
    /// Steps along the contracted axis that a thread takes at a time.
    deep: usize,
    /// Groups of threads, each with a slice.
    n_slices: usize,
}

impl MatmulSliced {
    /// The schedule of a product; none if another one is faster.
    fn of(body: &MatmulBody, device: &DeviceModel) -> Option<MatmulSliced> {
        let &MatmulBody { batch, m, n, k, dtype, .. } = body;
        let is_short = k < SHORTEST || n < FEWEST_COLUMNS || batch * m * n == 0;
        if is_short || body.rows.is_some() || dtype.accumulator() != DType::F32 {
            return None;
        }
        let product = ProductForm::of(body);
        let form = match m {
            ..=FEW_ROWS => MatmulSliced::of_few_rows(product, batch, device),
            _ => MatmulSliced::of_many_rows(product, batch, device)?,
        };
        (form.n_sums() * DType::F32.size() <= device.shared_bytes).then_some(form)
    }

    fn of_many_rows(product: ProductForm, n_batches: usize, device: &DeviceModel) -> Option<MatmulSliced> {
        let n_blocks = |rows: usize| n_batches * product.m.div_ceil(rows) * product.n.div_ceil(COLUMNS);
        let rows = ROWS.into_iter().find(|&rows| n_blocks(rows) <= MOST_BLOCKS * device.n_processors)?;
        let tile = [rows, COLUMNS];
        let form = MatmulSliced { product, n_batches, tile, each: [EACH; 2], deep: EACH, n_slices: 1 };
        let threads = MOST_THREADS.min(device.most_threads);
        Some(form.with_slices(threads, MOST_SLICES))
    }

    /// A thread reads vectors of the right matrix along memory, each of them once.
    fn of_few_rows(product: ProductForm, n_batches: usize, device: &DeviceModel) -> MatmulSliced {
        let vector = VECTOR_BYTES / product.dtype.size();
        let (columns, deep) = if product.rhs.row == 1 { (EACH, vector) } else { (vector, EACH) };
        let n_blocks = |across: &usize| n_batches * product.n.div_ceil(across * columns);
        let across = ACROSS_OF_FEW.into_iter().find(|across| 4 * n_blocks(across) >= device.n_processors);
        let across = across.unwrap_or(ACROSS_OF_FEW[ACROSS_OF_FEW.len() - 1]);
        let (tile, each) = ([product.m, across * columns], [product.m, columns]);
        let form = MatmulSliced { product, n_batches, tile, each, deep, n_slices: 1 };
        let most = device.shared_bytes / (form.pitch() * DType::F32.size());
        let most = ((most + 1).next_power_of_two() / 2).min(MOST_SLICES_OF_FEW);
        form.with_slices(THREADS_OF_FEW.min(device.most_threads), most)
    }

    /// As many slices as so many threads can take.
    fn with_slices(self, threads: usize, most: usize) -> MatmulSliced {
        let most = (threads / self.group()).min(most);
        let n_slices = most.min((self.product.k / self.deep + 1).next_power_of_two() / 2).max(1);
        MatmulSliced { n_slices, ..self }
    }

    /// Threads of a group, along the rows and columns of a tile.
    fn sides(&self) -> [usize; 2] {
        [self.tile[0] / self.each[0], self.tile[1] / self.each[1]]
    }

    fn group(&self) -> usize {
        let [rows, columns] = self.sides();
        rows * columns
    }

    /// Points of a tile.
    fn n_points(&self) -> usize {
        self.tile[0] * self.tile[1]
    }

    /// From the partial sums of a slice to those of the next one. Slices of neighbouring threads lie in other banks.
    fn pitch(&self) -> usize {
        self.n_points() + 1
    }

    /// Partial sums of a block.
    fn n_sums(&self) -> usize {
        self.pitch() * self.n_slices
    }

    fn n_rounds(&self) -> usize {
        self.product.k.div_ceil(self.n_slices * self.deep)
    }

    /// Steps along the contracted axis from slice to slice, and from round to round.
    fn steps(&self) -> [usize; 2] {
        let deep = self.deep;
        // With few rows, the groups of a block read neighbours at the same time.
        if self.has_few_rows() { [deep, self.n_slices * deep] } else { [self.n_rounds() * deep, deep] }
    }

    fn n_tiles(&self) -> [usize; 2] {
        [self.product.m.div_ceil(self.tile[0]), self.product.n.div_ceil(self.tile[1])]
    }

    /// Whether neighbouring threads have neighbouring slices, since the right matrix lies along the contracted axis.
    fn is_along(&self) -> bool {
        self.has_few_rows() && self.product.rhs.row == 1
    }

    fn has_few_rows(&self) -> bool {
        self.product.m <= FEW_ROWS
    }
}

impl Schedule for MatmulSliced {
    fn entry(&self) -> &'static str {
        "matmul"
    }

    fn threads(&self, _: &KernelSpec) -> usize {
        self.group() * self.n_slices
    }

    fn blocks(&self, _: &KernelSpec, _: usize) -> usize {
        let [rows, columns] = self.n_tiles();
        self.n_batches * rows * columns
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let body = kernel.body();
        let tile = Tile::new(code, self);
        let elem = code.device.register(DType::F32);
        let partial = code.shared(elem, self.n_sums());
        let sums = tile.sums(code, kernel.buffers, elem);
        tile.share(code, partial, &sums);
        code.sync();
        let n_threads = self.group() * self.n_slices;
        let mut result = Ok(());
        for round in 0..self.n_points().div_ceil(n_threads) {
            let place = code.at_offset(tile.unit, round * n_threads);
            let (number, is_inside) = tile.point(code, place, kernel.points());
            code.when(is_inside, |code| {
                let sum = tile.total(code, partial, place);
                let registers = with_sum(code, &body, sum);
                result = result.clone().and(at_point(code, &body, number, registers));
            });
        }
        result
    }
}

/// The tile of a block, and this thread's part of it.
struct Tile<'k> {
    form: &'k MatmulSliced,
    unit: Variable,
    /// The number of the matrix pair.
    batch: Variable,
    /// The first row and column of the tile.
    corner: [Variable; 2],
    /// The slice of this thread.
    slice: Variable,
    /// The first row and column of this thread in the tile.
    first: [Variable; 2],
}

/// One of the two matrices: its lines are rows of the left one, columns of the right one.
struct Lines {
    matrix: MatrixOperand,
    /// Strides from line to line, and along the contracted axis.
    strides: [i64; 2],
    /// The number of lines.
    extent: usize,
    /// The number of lines of a tile, and of a thread.
    side: usize,
    each: usize,
    /// This thread's first line.
    first: Variable,
    /// The element number where that line starts.
    start: Variable,
}

impl<'k> Tile<'k> {
    fn new(code: &mut Code, form: &'k MatmulSliced) -> Tile<'k> {
        let unit = code.builtin(Builtin::UnitPosX);
        let block = code.builtin(Builtin::CubePos);
        let [n_rows, n_columns] = form.n_tiles();
        let (rest, column) = (code.divided(block, n_columns), code.modulo(block, n_columns));
        let (batch, row) = (code.divided(rest, n_rows), code.modulo(rest, n_rows));
        let corner = [code.scaled(row, form.tile[0] as i64), code.scaled(column, form.tile[1] as i64)];
        let (slice, own) = if form.is_along() {
            (code.modulo(unit, form.n_slices), code.divided(unit, form.n_slices))
        } else {
            (code.divided(unit, form.group()), code.modulo(unit, form.group()))
        };
        let across = form.sides()[1];
        let first = [code.divided(own, across), code.modulo(own, across)];
        let first = [0, 1].map(|axis| code.scaled(first[axis], form.each[axis] as i64));
        Tile { form, unit, batch, corner, slice, first }
    }

    /// The sums of this thread's points over its slice, row by row.
    fn sums(&self, code: &mut Code, buffers: &Buffers, elem: ElemType) -> Vec<Variable> {
        let zero = code.constant(elem, 0.0);
        let [rows, columns] = self.form.each;
        let sums: Vec<Variable> = (0..rows * columns).map(|_| code.mutable(zero)).collect();
        let lines = [0, 1].map(|axis| self.lines(code, axis));
        let [of_slice, of_round] = self.form.steps();
        let begin = code.scaled(self.slice, of_slice as i64);
        let (start, end) = (code.at(0), code.at((self.form.n_rounds() * of_round) as i64));
        code.range(start, end, of_round as i64, |code, i| {
            let k = code.add_at(begin, i);
            let [left, right] = lines.each_ref().map(|lines| self.loaded(code, buffers, lines, k));
            for (left, right) in left.iter().zip(&right) {
                for (point, &sum) in sums.iter().enumerate() {
                    let (a, b) = (left[point / columns], right[point % columns]);
                    let next = multiplied_and_added(code, elem, a, b, sum);
                    code.assign(sum, next);
                }
            }
        });
        sums
    }

    fn lines(&self, code: &mut Code, axis: usize) -> Lines {
        let ProductForm { m, n, lhs, rhs, .. } = self.form.product;
        let (matrix, strides) = [(lhs, [lhs.row, lhs.col]), (rhs, [rhs.col, rhs.row])][axis];
        let (extent, side, each) = ([m, n][axis], self.form.tile[axis], self.form.each[axis]);
        let first = code.add_at(self.corner[axis], self.first[axis]);
        let steps = [(self.batch, matrix.batch), (first, strides[0])];
        let start = steps.into_iter().fold(code.at(matrix.offset), |index, (coordinate, stride)| {
            let step = code.scaled(coordinate, stride);
            code.add_at(index, step)
        });
        Lines { matrix, strides, extent, side, each, first, start }
    }

    /// The elements of this thread's lines at the next steps from `k` on, step by step. Those beyond the matrix are 0.
    fn loaded(&self, code: &mut Code, buffers: &Buffers, lines: &Lines, k: Variable) -> Vec<Vec<Variable>> {
        let [across, along] = lines.strides;
        let from = code.scaled(k, along);
        let from = code.add_at(lines.start, from);
        let (each, deep) = (lines.each, self.form.deep);
        let mut found = vec![vec![]; deep];
        match self.vector_axis(lines) {
            Some(0) => {
                for (step, found) in found.iter_mut().enumerate() {
                    let is_inside = self.is_inside(code, lines, k, [step, 0]);
                    *found = self.load(code, buffers, lines, (from, along * step as i64, is_inside), each);
                }
            }
            Some(_) => {
                for line in 0..each {
                    let is_inside = self.is_inside(code, lines, k, [0, line]);
                    let steps =
                        self.load(code, buffers, lines, (from, across * line as i64, is_inside), deep);
                    found.iter_mut().zip(steps).for_each(|(found, element)| found.push(element));
                }
            }
            None => {
                for [step, line] in (0..deep).flat_map(|step| (0..each).map(move |line| [step, line])) {
                    let is_inside = self.is_inside(code, lines, k, [step, line]);
                    let offset = along * step as i64 + across * line as i64;
                    found[step].extend(self.load(code, buffers, lines, (from, offset, is_inside), 1));
                }
            }
        }
        found
    }

    /// The axis along which vectors lie: 0 across lines, 1 along the contracted axis. None if they are not aligned.
    fn vector_axis(&self, lines: &Lines) -> Option<usize> {
        let widths = [lines.each, self.form.deep];
        let extents = [lines.extent, self.form.product.k];
        let is_vector = |&axis: &usize| {
            let width = widths[axis];
            let is_even = |stride: i64| stride.rem_euclid(width as i64) == 0;
            let is_size = width > 1 && width.is_power_of_two();
            let is_next = lines.strides[axis] == 1 && extents[axis].is_multiple_of(width);
            let is_aligned = is_even(lines.matrix.batch) && is_even(lines.matrix.offset);
            is_size && is_next && is_aligned && is_even(lines.strides[1 - axis])
        };
        [0, 1].into_iter().find(is_vector)
    }

    /// Whether the matrix has a line at a step, both relative to this thread's; none if always.
    fn is_inside(&self, code: &mut Code, lines: &Lines, k: Variable, at: [usize; 2]) -> Option<Variable> {
        let [step, line] = at;
        let form = self.form;
        let is_step = (form.n_rounds() * form.n_slices * form.deep > form.product.k).then(|| {
            let (place, end) = (code.at_offset(k, step), code.at(form.product.k as i64));
            code.less(place, end)
        });
        let is_line = (!lines.extent.is_multiple_of(lines.side)).then(|| {
            let (place, end) = (code.at_offset(lines.first, line), code.at(lines.extent as i64));
            code.less(place, end)
        });
        match (is_step, is_line) {
            (Some(step), Some(line)) => Some(code.and(step, line)),
            (step, line) => step.or(line),
        }
    }

    /// Neighbours from an element on, converted to registers; zeros where there are none.
    fn load(
        &self,
        code: &mut Code,
        buffers: &Buffers,
        lines: &Lines,
        (from, offset, is_inside): (Variable, i64, Option<Variable>),
        width: usize,
    ) -> Vec<Variable> {
        let offset = code.at(offset);
        let index = code.add_at(from, offset);
        let first_element = code.at(0);
        let index = is_inside.map_or(index, |is_inside| code.select(is_inside, index, first_element));
        let stored = match width {
            1 => vec![buffers.load(code, lines.matrix.operand, index)],
            width => buffers.load_vector(code, lines.matrix.operand, index, width),
        };
        let elem = code.device.register(DType::F32);
        let zero = code.constant(elem, 0.0);
        let converted = stored.into_iter().map(|stored| {
            let value = widened(code, self.form.product.dtype, stored);
            let value = code.cast(elem, value);
            is_inside.map_or(value, |is_inside| code.select(is_inside, value, zero))
        });
        converted.collect()
    }

    /// Writes the sums of this thread to shared memory.
    fn share(&self, code: &mut Code, partial: Variable, sums: &[Variable]) {
        let of_slice = code.scaled(self.slice, self.form.pitch() as i64);
        let columns = self.form.tile[1];
        let of_row = code.scaled(self.first[0], columns as i64);
        let start = code.add_at(of_slice, of_row);
        let start = code.add_at(start, self.first[1]);
        for (point, &sum) in sums.iter().enumerate() {
            let each = self.form.each[1];
            let place = code.at_offset(start, point / each * columns + point % each);
            let sum = code.snapshot(sum);
            code.store(partial, place, sum);
        }
    }

    /// The sum at a place of the tile over all slices, in their order.
    fn total(&self, code: &mut Code, partial: Variable, place: Variable) -> Variable {
        let parts = (0..self.form.n_slices).map(|slice| slice * self.form.pitch());
        let parts: Vec<Variable> = parts
            .map(|offset| {
                let place = code.at_offset(place, offset);
                code.load(partial, place)
            })
            .collect();
        let mut parts = parts.into_iter();
        let first = parts.next().unwrap_or_else(|| crate::bug!("a matmul of no slices"));
        parts.fold(first, |sum, part| code.bin(cubecl_core::ir::Arithmetic::Add, sum, part))
    }

    /// The number of the point at a place of the tile, and whether the result has it.
    fn point(&self, code: &mut Code, place: Variable, n_points: Variable) -> (Variable, Variable) {
        let ProductForm { m, n, .. } = self.form.product;
        let tile = self.form.tile;
        let lines = [code.divided(place, tile[1]), code.modulo(place, tile[1])];
        let [row, column] = [0, 1].map(|axis| code.add_at(self.corner[axis], lines[axis]));
        let before = code.scaled(self.batch, m as i64);
        let before = code.add_at(before, row);
        let before = code.scaled(before, n as i64);
        let number = code.add_at(before, column);
        let is_point = code.less(number, n_points);
        let inside = [(row, m, tile[0]), (column, n, tile[1]), (lines[0], tile[0], 1)];
        let is_inside = inside.into_iter().fold(is_point, |all, (line, extent, tile)| {
            if extent.is_multiple_of(tile) && tile > 1 {
                return all;
            }
            let end = code.at(extent as i64);
            let is_line = code.less(line, end);
            code.and(all, is_line)
        });
        (number, is_inside)
    }
}

impl KernelSpec {
    /// The matmul as one launch whose blocks slice the contracted axis, without side sums; none if another schedule is
    /// faster, or an assertion must run before the first write.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn sliced_product(kernel: &Kernel, device: DeviceModel) -> Option<KernelSpec> {
        let body = matmul_body(kernel);
        if kernel.has_checks() {
            return None;
        }
        let schedule = MatmulSliced::of(body, &device)?;
        Some(KernelSpec::new(body.epilogue.clone(), schedule, OperandForm::of(kernel), device))
    }
}
