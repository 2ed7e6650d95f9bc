//! Products in tiles: a cube of threads computes a square of the result, each thread some points of it. Slices of both
//! matrices go through shared memory, so that each element is fetched once for a whole row or column of the square.

use super::code::Code;
use super::contract::{ProductForm, multiplied_and_added};
use super::map::at_point;
use super::scalar::widened;
use super::tile::{Memory, TileCode};
use super::{Buffers, EmitError};
use crate::fuse::{MatrixOperand, Tile, TileInst, TileOp};
use cubecl_core::ir::{Builtin, ElemType, Variable};

/// Threads along each side of a square.
pub const SIDE: usize = 16;
/// Threads of a cube.
pub const THREADS: usize = SIDE * SIDE;
/// Length of the slices of the contracted axis.
pub const DEPTH: usize = 16;
/// How a product is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Points of a thread along each axis.
    each: usize,
    /// Squares along the rows and columns of a matrix.
    squares: [usize; 2],
}

impl Tiling {
    fn of(form: &ProductForm, each: usize) -> Tiling {
        Tiling { each, squares: [form.m, form.n].map(|extent| extent.div_ceil(SIDE * each)) }
    }

    fn n_squares(&self) -> usize {
        self.squares[0] * self.squares[1]
    }

    /// Points of a square along each axis.
    fn side(&self) -> usize {
        SIDE * self.each
    }

    /// The distance of rows in shared memory: not a multiple of its banks, which rows would fall on otherwise.
    fn pitch(&self) -> usize {
        self.side() + 1
    }
}

/// Cubes for so many points.
pub fn cubes(form: &ProductForm, each: usize, n_points: usize) -> usize {
    n_points / (form.m * form.n).max(1) * Tiling::of(form, each).n_squares()
}

/// Emits a product, `each` points of a thread along each axis, and its epilogue `tile` at each of its `n_points` points.
pub fn product(
    code: &mut Code,
    form: &ProductForm,
    tile: &Tile,
    buffers: &Buffers,
    (each, n_points): (usize, Variable),
) -> Result<(), EmitError> {
    let tiling = Tiling::of(form, each);
    let elem = code.target.register(form.dtype.accumulator());
    let unit = code.builtin(Builtin::UnitPosX);
    let cube = code.builtin(Builtin::CubePos);
    let [_, columns] = tiling.squares;
    let (rest, column) = (code.divided(cube, columns), code.modulo(cube, columns));
    let (batch, row) = (code.divided(rest, tiling.squares[0]), code.modulo(rest, tiling.squares[0]));
    let corner = [row, column].map(|number| code.scaled(number, tiling.side() as i64));
    let first_point = code.scaled(batch, (form.m * form.n) as i64);
    let is_batch = code.less(first_point, n_points);
    let shared = code.shared(elem, 2 * DEPTH * tiling.pitch());
    let square = Square { form, tiling, elem, unit, batch, corner, is_batch, shared };
    let sums = square.sums(code, buffers)?;
    let tile_code = TileCode { tile, buffers, shared: buffers };
    let mut result = Ok(());
    for (point, sum) in square.points(code, first_point).into_iter().zip(sums) {
        code.when(point.is_inside, |code| {
            let is_sum = |inst: &TileInst| inst.op == TileOp::Accumulator;
            let registers = tile.insts.iter().map(|inst| is_sum(inst).then_some(sum)).collect();
            result = result.clone().and(at_point(code, &tile_code, point.number, registers));
        });
    }
    result
}

/// A square of the result.
struct Square<'k> {
    form: &'k ProductForm,
    tiling: Tiling,
    /// The type that sums are held in.
    elem: ElemType,
    unit: Variable,
    /// Which pair of matrices.
    batch: Variable,
    /// Its first row and column.
    corner: [Variable; 2],
    is_batch: Variable,
    /// Slices of the left matrix, then of the right one.
    shared: Variable,
}

/// A point of the result that a thread computes.
struct Point {
    number: Variable,
    is_inside: Variable,
}

/// A matrix as it is cut into slices.
struct Slice {
    matrix: MatrixOperand,
    /// Strides across the slice and along it.
    strides: [i64; 2],
    /// Where the square starts across, and where the matrix ends.
    start: Variable,
    end: usize,
    /// Where it lies in shared memory.
    place: usize,
}

impl Square<'_> {
    /// The sums of this thread, row by row.
    fn sums(&self, code: &mut Code, buffers: &Buffers) -> Result<Vec<Variable>, EmitError> {
        let Tiling { each, .. } = self.tiling;
        let zero = code.constant(self.elem, 0.0);
        let sums: Vec<Variable> = (0..each * each).map(|_| code.mutable(zero)).collect();
        let (start, end) = (code.at(0), code.at(self.form.k as i64));
        code.range(start, end, DEPTH as i64, |code, k| {
            let fetched: Vec<_> =
                self.slices().iter().flat_map(|slice| self.fetch(code, buffers, slice, k)).collect();
            // Everybody has used the slices before.
            code.sync();
            fetched.into_iter().for_each(|(place, value)| code.store(self.shared, place, value));
            code.sync();
            let (start, end) = (code.at(0), code.at(DEPTH as i64));
            code.range(start, end, 1, |code, i| self.add_products(code, i, &sums));
        });
        Ok(sums.into_iter().map(|sum| code.snapshot(sum)).collect())
    }

    fn slices(&self) -> [Slice; 2] {
        let ProductForm { lhs, rhs, m, n, .. } = *self.form;
        let [row, column] = self.corner;
        [
            Slice { matrix: lhs, strides: [lhs.row, lhs.col], start: row, end: m, place: 0 },
            Slice {
                matrix: rhs,
                strides: [rhs.col, rhs.row],
                start: column,
                end: n,
                place: DEPTH * self.tiling.pitch(),
            },
        ]
    }

    /// This thread's elements of a slice from `k` on: where they go in shared memory, and their values. Neighbours fetch
    /// neighbours.
    fn fetch(
        &self,
        code: &mut Code,
        buffers: &Buffers,
        slice: &Slice,
        k: Variable,
    ) -> Vec<(Variable, Variable)> {
        let side = self.tiling.side();
        let is_along = slice.strides[1] == 1;
        let mut fetched = vec![];
        for round in 0..side * DEPTH / THREADS {
            let number = code.at_offset(self.unit, round * THREADS);
            let (across, along) = match is_along {
                true => (code.divided(number, DEPTH), code.modulo(number, DEPTH)),
                false => (code.modulo(number, side), code.divided(number, side)),
            };
            let row = code.scaled(along, self.tiling.pitch() as i64);
            let place = code.add_at(row, across);
            let place = code.at_offset(place, slice.place);
            let (across, along) = (code.add_at(slice.start, across), code.add_at(k, along));
            let [end, depth] = [slice.end, self.form.k].map(|extent| code.at(extent as i64));
            let [is_across, is_along] = [(across, end), (along, depth)].map(|(x, end)| code.less(x, end));
            let is_inside = code.and(is_across, is_along);
            let is_inside = code.and(is_inside, self.is_batch);
            let steps =
                [(self.batch, slice.matrix.batch), (across, slice.strides[0]), (along, slice.strides[1])];
            let index =
                steps.into_iter().fold(code.at(slice.matrix.offset), |index, (coordinate, stride)| {
                    let step = code.scaled(coordinate, stride);
                    code.add_at(index, step)
                });
            let nowhere = code.at(0);
            let index = code.select(is_inside, index, nowhere);
            let stored = buffers.load(code, slice.matrix.operand, index);
            let value = widened(code, self.form.dtype, stored);
            let value = code.cast(self.elem, value);
            let nothing = code.constant(self.elem, 0.0);
            fetched.push((place, code.select(is_inside, value, nothing)));
        }
        fetched
    }

    /// Adds the products of slice row `i` to the sums.
    fn add_products(&self, code: &mut Code, i: Variable, sums: &[Variable]) {
        let Tiling { each, .. } = self.tiling;
        let row = code.scaled(i, self.tiling.pitch() as i64);
        let [thread_row, thread_column] = self.thread(code);
        let mut values = |thread: Variable, slice: usize| -> Vec<Variable> {
            let start = code.add_at(row, thread);
            let places = (0..each).map(|j| j * SIDE + slice * DEPTH * self.tiling.pitch());
            let load = |offset: usize| {
                let place = code.at_offset(start, offset);
                code.load(self.shared, place)
            };
            places.map(load).collect()
        };
        let (left, right) = (values(thread_row, 0), values(thread_column, 1));
        for (number, &sum) in sums.iter().enumerate() {
            let next = multiplied_and_added(code, self.elem, left[number / each], right[number % each], sum);
            code.assign(sum, next);
        }
    }

    /// Row and column of this thread.
    fn thread(&self, code: &mut Code) -> [Variable; 2] {
        [code.divided(self.unit, SIDE), code.modulo(self.unit, SIDE)]
    }

    /// The points of this thread, in the order of its sums.
    fn points(&self, code: &mut Code, first: Variable) -> Vec<Point> {
        let Tiling { each, .. } = self.tiling;
        let thread = self.thread(code);
        let [row, column] = [0, 1].map(|axis| code.add_at(self.corner[axis], thread[axis]));
        let mut points = vec![];
        for (i, j) in (0..each).flat_map(|i| (0..each).map(move |j| (i, j))) {
            let (row, column) = (code.at_offset(row, i * SIDE), code.at_offset(column, j * SIDE));
            let [m, n] = [self.form.m, self.form.n].map(|extent| code.at(extent as i64));
            let [is_row, is_column] = [(row, m), (column, n)].map(|(x, end)| code.less(x, end));
            let is_inside = code.and(is_row, is_column);
            let is_inside = code.and(is_inside, self.is_batch);
            let before = code.scaled(row, self.form.n as i64);
            let number = code.add_at(first, before);
            points.push(Point { number: code.add_at(number, column), is_inside });
        }
        points
    }
}
