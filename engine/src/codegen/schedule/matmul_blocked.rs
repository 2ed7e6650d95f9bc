//! Blocked matmuls: a block computes a tile of the result, and each thread some points of the tile.
//!
//! Slices of both matrices go through shared memory, so each element is loaded once per row or column of the tile.
//! Slices are double-buffered where there is room: a block loads the next ones while it multiplies the present ones. Threads read
//! shared memory as vectors.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::Code;
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::ops::buffers::{Buffers, Memory};
use crate::codegen::ops::scalar::widened;
use crate::codegen::schedule::map::at_point;
use crate::codegen::schedule::matmul_point::{ProductForm, multiplied_and_added, with_sum};
use crate::device_model::DeviceModel;
use crate::fusion::MatrixOperand;
use cubecl_core::ir::{Builtin, ElemType, Variable};

/// Threads along each side of a tile.
pub const SIDE: usize = 16;
/// Threads of a block.
pub const THREADS: usize = SIDE * SIDE;
/// The longest slice of the contracted axis.
pub const DEPTH: usize = 16;
/// The most points of a thread along an axis.
pub const MOST_EACH: usize = 8;

/// Points of a thread along an axis of `extent` elements: a number near the most that fills the last tile well.
pub fn fitting(extent: usize) -> usize {
    let padded = |each: &usize| extent.next_multiple_of(SIDE * each);
    let best = (MOST_EACH / 2 + 1..=MOST_EACH).rev().min_by_key(padded).unwrap_or(MOST_EACH);
    // Fewer points per thread cost more loads per point, so at least a sixteenth of the work must be saved.
    let is_worth_it = extent > SIDE * MOST_EACH && 16 * padded(&best) <= 15 * padded(&MOST_EACH);
    if is_worth_it { best } else { MOST_EACH }
}

/// The tiling of one axis of the result.
#[derive(Clone, Copy, Debug)]
struct Axis {
    extent: usize,
    /// Points of a thread.
    each: usize,
    /// Points of a thread that are neighbours in shared memory.
    lanes: usize,
}

impl Axis {
    fn of(extent: usize, each: usize, elem: ElemType) -> Axis {
        let is_word = elem.size() == 4;
        let lanes = [4, 2].into_iter().find(|&lanes| is_word && each.is_multiple_of(lanes)).unwrap_or(1);
        Axis { extent, each, lanes }
    }

    /// Points of a tile.
    fn side(&self) -> usize {
        SIDE * self.each
    }

    /// Groups of lanes in a tile. The lanes of a group are this many points apart, so that global loads and stores
    /// are coalesced.
    fn n_groups(&self) -> usize {
        self.side() / self.lanes
    }

    /// The distance of rows in shared memory, in groups; it is odd to avoid bank conflicts.
    fn pitch(&self) -> usize {
        self.n_groups() | 1
    }

    fn n_tiles(&self) -> usize {
        self.extent.div_ceil(self.side())
    }

    /// Whether the last tile exceeds the axis.
    fn is_ragged(&self) -> bool {
        !self.extent.is_multiple_of(self.side())
    }

    /// The offsets of a thread's points in a tile, relative to its own number.
    fn offsets(self) -> impl Iterator<Item = usize> {
        (0..self.each).map(move |i| i % self.lanes * self.n_groups() + i / self.lanes * SIDE)
    }
}

/// The tiling of a matmul.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    /// Rows and columns of the result.
    axes: [Axis; 2],
    /// Length of a slice.
    depth: usize,
    /// Whether shared memory has room for two slices of each matrix.
    is_double: bool,
}

impl Tiling {
    fn of(form: &ProductForm, each: [usize; 2], device: DeviceModel) -> Tiling {
        let elem = device.register(form.dtype.accumulator());
        let axes = [Axis::of(form.m, each[0], elem), Axis::of(form.n, each[1], elem)];
        // A slice has about one group per thread.
        let depth = if each.into_iter().any(|each| each > MOST_EACH / 2) { DEPTH / 2 } else { DEPTH };
        let words = axes.iter().map(|axis| depth * axis.pitch() * axis.lanes).sum::<usize>();
        Tiling { axes, depth, is_double: 2 * words * elem.size() <= device.shared_bytes }
    }

    fn n_slices(&self) -> usize {
        1 + usize::from(self.is_double)
    }
}

/// A matmul whose blocks compute tiles of the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatmulBlocked {
    /// The matrices.
    pub product: ProductForm,
    /// The number of matrix pairs.
    pub n_batches: usize,
    /// Points of a thread along each axis.
    pub each: [usize; 2],
}

impl Schedule for MatmulBlocked {
    fn entry(&self) -> &'static str {
        "matmul"
    }

    fn threads(&self, _: &KernelSpec) -> usize {
        THREADS
    }

    fn blocks(&self, _: &KernelSpec, n_points: usize) -> usize {
        let ProductForm { m, n, .. } = self.product;
        let n_tiles =
            [(m, self.each[0]), (n, self.each[1])].map(|(extent, each)| extent.div_ceil(SIDE * each));
        n_points / (m * n).max(1) * n_tiles[0] * n_tiles[1]
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let body = kernel.body();
        let tile = TileCode::new(code, self, kernel.points());
        let sums = tile.sums(code, kernel.buffers)?;
        let mut result = Ok(());
        for (point, sum) in tile.points(code).into_iter().zip(sums) {
            code.when(point.is_inside, |code| {
                let registers = with_sum(code, &body, sum);
                result = result.clone().and(at_point(code, &body, point.number, registers));
            });
        }
        result
    }
}

/// A tile of the result.
struct TileCode<'k> {
    form: &'k ProductForm,
    tiling: Tiling,
    /// The accumulator type.
    elem: ElemType,
    unit: Variable,
    /// Row and column of this thread.
    thread: [Variable; 2],
    /// The number of the matrix pair.
    batch: Variable,
    /// The first row and column of the tile.
    corner: [Variable; 2],
    /// The first point of the pair's result.
    first_point: Variable,
    is_batch: Variable,
}

/// A point of the result that a thread computes.
struct Point {
    number: Variable,
    is_inside: Variable,
}

/// The slices of a matrix.
struct Slices {
    matrix: MatrixOperand,
    axis: Axis,
    /// Strides across the slice and along it.
    strides: [i64; 2],
    /// The array in shared memory.
    array: Variable,
    /// The groups that this thread loads of each slice.
    groups: Vec<LaneGroup>,
}

/// Lanes of a row of a slice that a thread loads.
struct LaneGroup {
    /// The place in shared memory.
    place: Variable,
    /// The row of the slice.
    along: Variable,
    /// The element number of the first lane in the first slice.
    first: Variable,
    /// Whether the slice has this group.
    is_in_slice: Variable,
    /// By lane: whether it lies inside the matrix; none if always.
    is_across: Vec<Option<Variable>>,
}

impl<'k> TileCode<'k> {
    /// The tile of this block.
    fn new(code: &mut Code, matmul: &'k MatmulBlocked, n_points: Variable) -> TileCode<'k> {
        let form = &matmul.product;
        let tiling = Tiling::of(form, matmul.each, code.device);
        let elem = code.device.register(form.dtype.accumulator());
        let unit = code.builtin(Builtin::UnitPosX);
        let block = code.builtin(Builtin::CubePos);
        let [n_rows, n_columns] = tiling.axes.map(|axis| axis.n_tiles());
        let (rest, column) = (code.divided(block, n_columns), code.modulo(block, n_columns));
        let (batch, row) = (code.divided(rest, n_rows), code.modulo(rest, n_rows));
        let corner = [(row, 0), (column, 1)]
            .map(|(number, axis)| code.scaled(number, tiling.axes[axis].side() as i64));
        let first_point = code.scaled(batch, (form.m * form.n) as i64);
        let is_batch = code.less(first_point, n_points);
        let thread = [code.divided(unit, SIDE), code.modulo(unit, SIDE)];
        TileCode { form, tiling, elem, unit, thread, batch, corner, first_point, is_batch }
    }

    /// The sums of this thread, row by row.
    fn sums(&self, code: &mut Code, buffers: &Buffers) -> Result<Vec<Variable>, CodegenError> {
        let Tiling { axes, depth, is_double } = self.tiling;
        let zero = code.constant(self.elem, 0.0);
        let sums: Vec<Variable> = (0..axes[0].each * axes[1].each).map(|_| code.mutable(zero)).collect();
        let slices = [0, 1].map(|axis| self.slices(code, axis));
        let (start, end) = (code.at(0), code.at(self.form.k as i64));
        let fetched = slices.each_ref().map(|slice| self.fetch(code, buffers, slice, start));
        self.store(code, &slices, &fetched, start);
        code.sync();
        code.range(start, end, depth as i64, |code, k| {
            let next = code.at_offset(k, depth);
            let fetched = slices.each_ref().map(|slice| self.fetch(code, buffers, slice, next));
            let number = code.divided(k, depth);
            let [here, there] = match is_double {
                true => [number, code.at_offset(number, 1)].map(|number| code.modulo(number, 2)),
                false => [start, start],
            };
            let (first, last) = (code.at(0), code.at(depth as i64));
            code.range(first, last, 1, |code, i| self.add_products(code, &slices, (here, i), &sums));
            if !is_double {
                // All threads must have read the slices before.
                code.sync();
            }
            self.store(code, &slices, &fetched, there);
            code.sync();
        });
        Ok(sums.into_iter().map(|sum| code.snapshot(sum)).collect())
    }

    fn slices(&self, code: &mut Code, number: usize) -> Slices {
        let ProductForm { lhs, rhs, .. } = *self.form;
        let (matrix, strides) = [(lhs, [lhs.row, lhs.col]), (rhs, [rhs.col, rhs.row])][number];
        let axis = self.tiling.axes[number];
        let length = self.tiling.n_slices() * self.tiling.depth * axis.pitch();
        let array = match axis.lanes {
            1 => code.shared(self.elem, length),
            lanes => code.shared_vectors(self.elem, lanes, length),
        };
        let n_groups = axis.n_groups() * self.tiling.depth;
        let groups = (0..n_groups.div_ceil(THREADS)).map(|round| {
            let group = code.at_offset(self.unit, round * THREADS);
            self.group(code, (axis, self.corner[number]), (matrix, strides), group)
        });
        let groups = groups.collect();
        Slices { matrix, axis, strides, array, groups }
    }

    /// A group by its number in a slice. Neighbouring threads load neighbours, so that loads are coalesced.
    fn group(
        &self,
        code: &mut Code,
        (axis, start): (Axis, Variable),
        (matrix, strides): (MatrixOperand, [i64; 2]),
        number: Variable,
    ) -> LaneGroup {
        let (depth, n_across) = (self.tiling.depth, axis.n_groups());
        let (across, along) = match strides[1] == 1 {
            true => (code.divided(number, depth), code.modulo(number, depth)),
            false => (code.modulo(number, n_across), code.divided(number, n_across)),
        };
        let row = code.scaled(along, axis.pitch() as i64);
        let place = code.add_at(row, across);
        let n_groups = code.at((n_across * depth) as i64);
        let is_in_slice = match (n_across * depth).is_multiple_of(THREADS) {
            true => self.is_batch,
            false => {
                let is_group = code.less(number, n_groups);
                code.and(self.is_batch, is_group)
            }
        };
        let across = code.add_at(start, across);
        let steps = [(self.batch, matrix.batch), (across, strides[0]), (along, strides[1])];
        let first = steps.into_iter().fold(code.at(matrix.offset), |index, (coordinate, stride)| {
            let step = code.scaled(coordinate, stride);
            code.add_at(index, step)
        });
        let is_across = (0..axis.lanes).map(|lane| {
            let end = code.at(axis.extent as i64);
            let across = code.at_offset(across, lane * n_across);
            axis.is_ragged().then(|| code.less(across, end))
        });
        let is_across = is_across.collect();
        LaneGroup { place, along, first, is_in_slice, is_across }
    }

    /// This thread's elements of the slice that starts at `k`, group by group.
    fn fetch(&self, code: &mut Code, buffers: &Buffers, slices: &Slices, k: Variable) -> Vec<Vec<Variable>> {
        let [across, along] = slices.strides;
        let step = code.scaled(k, along);
        let groups = slices.groups.iter().map(|group| {
            let row = code.add_at(k, group.along);
            let end = code.at(self.form.k as i64);
            let is_row = code.less(row, end);
            let is_row = code.and(is_row, group.is_in_slice);
            let first = code.add_at(group.first, step);
            let lanes = group.is_across.iter().enumerate().map(|(lane, is_across)| {
                let is_inside = is_across.map_or(is_row, |is_across| code.and(is_row, is_across));
                let offset = code.at((lane * slices.axis.n_groups()) as i64 * across);
                let index = if lane == 0 { first } else { code.add_at(first, offset) };
                let first_element = code.at(0);
                let index = code.select(is_inside, index, first_element);
                let stored = buffers.load(code, slices.matrix.operand, index);
                let value = widened(code, self.form.dtype, stored);
                let value = code.cast(self.elem, value);
                let zero = code.constant(self.elem, 0.0);
                code.select(is_inside, value, zero)
            });
            lanes.collect()
        });
        groups.collect()
    }

    /// Writes loaded elements to shared memory, as slice number `at`.
    fn store(&self, code: &mut Code, slices: &[Slices; 2], fetched: &[Vec<Vec<Variable>>; 2], at: Variable) {
        for (slices, fetched) in slices.iter().zip(fetched) {
            let start = self.start(code, slices, at);
            for (group, values) in slices.groups.iter().zip(fetched) {
                let place = code.add_at(start, group.place);
                code.when(group.is_in_slice, |code| match values[..] {
                    [value] => code.store(slices.array, place, value),
                    _ => code.store_components(slices.array, place, values),
                });
            }
        }
    }

    /// The start of slice number `at` in shared memory.
    fn start(&self, code: &mut Code, slices: &Slices, at: Variable) -> Variable {
        code.scaled(at, (self.tiling.depth * slices.axis.pitch()) as i64)
    }

    /// Adds the products of row `i` of slice number `at` to the sums.
    fn add_products(
        &self,
        code: &mut Code,
        slices: &[Slices; 2],
        (at, i): (Variable, Variable),
        sums: &[Variable],
    ) {
        let [left, right] = [0, 1].map(|number| {
            let Slices { axis, array, .. } = slices[number];
            let start = self.start(code, &slices[number], at);
            let row = code.scaled(i, axis.pitch() as i64);
            let row = code.add_at(start, row);
            let first = code.add_at(row, self.thread[number]);
            let groups = (0..axis.each / axis.lanes).flat_map(|group| {
                let place = code.at_offset(first, group * SIDE);
                match axis.lanes {
                    1 => vec![code.load(array, place)],
                    lanes => code.load_components(array, place, lanes),
                }
            });
            groups.collect::<Vec<Variable>>()
        });
        let pairs = left.iter().flat_map(|&left| right.iter().map(move |&right| (left, right)));
        for ((left, right), &sum) in pairs.zip(sums) {
            let next = multiplied_and_added(code, self.elem, left, right, sum);
            code.assign(sum, next);
        }
    }

    /// The points of this thread, in the order of its sums.
    fn points(&self, code: &mut Code) -> Vec<Point> {
        let [rows, columns] = [0, 1].map(|number| self.lines(code, number));
        let mut points = vec![];
        for (row, is_row) in rows {
            let before = code.scaled(row, self.form.n as i64);
            let before = code.add_at(self.first_point, before);
            for &(column, is_column) in &columns {
                let checks = [is_row, is_column].into_iter().flatten();
                let is_inside = checks.fold(self.is_batch, |all, check| code.and(all, check));
                points.push(Point { number: code.add_at(before, column), is_inside });
            }
        }
        points
    }

    /// This thread's rows or columns, and whether the result has them; none if always.
    fn lines(&self, code: &mut Code, number: usize) -> Vec<(Variable, Option<Variable>)> {
        let axis = self.tiling.axes[number];
        let first = code.add_at(self.corner[number], self.thread[number]);
        let lines = axis.offsets().map(|offset| {
            let line = code.at_offset(first, offset);
            let end = code.at(axis.extent as i64);
            (line, axis.is_ragged().then(|| code.less(line, end)))
        });
        lines.collect()
    }
}
