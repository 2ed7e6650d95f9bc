//! Tiles of the blocks of attention and of its gradient, without tensor cores.
//!
//! A block has a tile of one matrix, and takes in tiles of another one. *Lines* of a tile are queries, keys, or columns of
//! values. A thread has some lines of each tile. Slices of matrices go through shared memory: a row of a slice has all lines
//! of a tile at one position of the summed axis.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32};
use crate::codegen::ops::body::BodyCode;
use crate::codegen::ops::scalar::widened;
use crate::codegen::schedule::source::SourceForm;
use crate::device_model::DeviceModel;
use crate::fusion::Class;
use cubecl_core::ir::{Arithmetic, Builtin, Variable};

/// Threads of a block.
pub const THREADS: usize = 256;
/// The most and the fewest threads along the lines that are taken in. They exchange values of a line by shuffles.
const MOST_ACROSS: usize = 16;
const FEWEST_ACROSS: usize = 8;
/// Positions of a slice.
pub const DEPTH: usize = 16;
/// Lines of a vector in shared memory.
pub const LANES: usize = 4;

/// Whether a device runs such blocks, and has no library or tensor cores. These multiply so much faster that storing the scores
/// costs less.
pub fn suits(device: &DeviceModel) -> bool {
    let multiplies_faster = device.library.is_some() || device.tensor_cores.is_some();
    !multiplies_faster && device.most_threads >= THREADS && device.plane >= FEWEST_ACROSS
}

/// Threads along the tile of a block, and along the lines that are taken in.
pub fn threads(device: &DeviceModel) -> [usize; 2] {
    let across = device.plane.min(MOST_ACROSS);
    [THREADS / across, across]
}

/// How threads divide the lines of a tile. Neighbouring threads have neighbouring lines, so that loads and stores are
/// coalesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lines {
    /// Threads along the lines.
    pub threads: usize,
    /// Lines of a thread.
    pub each: usize,
    /// Lines of a vector in shared memory.
    pub lanes: usize,
}

impl Lines {
    /// At least `count` lines.
    pub fn new(threads: usize, count: usize) -> Lines {
        let each = count.div_ceil(threads);
        let lanes = [LANES, 2].into_iter().find(|&lanes| each.is_multiple_of(lanes)).unwrap_or(1);
        Lines { threads, each, lanes }
    }

    /// Lines of a tile.
    pub fn count(&self) -> usize {
        self.threads * self.each
    }

    /// Vectors of a tile.
    pub fn n_vectors(&self) -> usize {
        self.count() / self.lanes
    }

    /// The distance of two rows of a slice, in vectors; it is odd to avoid bank conflicts.
    pub fn pitch(&self) -> usize {
        self.n_vectors() | 1
    }

    /// Whether the last tile of so many lines has fewer.
    pub fn is_ragged(&self, n_lines: usize) -> bool {
        !n_lines.is_multiple_of(self.count())
    }

    /// The lines of a thread relative to its number, in the order of its registers.
    pub fn offsets(self) -> impl Iterator<Item = usize> {
        (0..self.each).map(move |i| i % self.lanes * self.n_vectors() + i / self.lanes * self.threads)
    }
}

/// A block with its tile, as a thread sees it.
pub struct TileBlock {
    unit: Variable,
    /// The numbers of this thread along the tile, and along lines that are taken in.
    pub thread: [Variable; 2],
    /// The number of the matrix.
    pub matrix: Variable,
    /// The first line of the tile in its matrix.
    pub first: Variable,
    /// Whether the block has a tile; none if always. A block without one computes the first one again and writes nothing.
    pub is_tile: Option<Variable>,
}

/// A line of a matrix. Those past the last read what the last one reads.
#[derive(Clone, Copy)]
pub struct Line {
    /// Its number among those of all matrices.
    pub number: Variable,
    /// Whether the matrix has it; none if always.
    pub is_inside: Option<Variable>,
}

impl TileBlock {
    /// The block's tile of so many lines of `n_matrices` matrices, whose threads take in `across` lines side by side.
    pub fn new(code: &mut Code, [n_matrices, n_lines]: [usize; 2], lines: Lines, across: usize) -> TileBlock {
        let unit = code.builtin(Builtin::UnitPosX);
        let block = code.builtin(Builtin::CubePos);
        let n_tiles = n_lines.div_ceil(lines.count());
        let is_tile = (!code.device.has_exact_grid).then(|| {
            let n_blocks = code.at((n_matrices * n_tiles) as i64);
            code.less(block, n_blocks)
        });
        let block = is_tile.map_or(block, |is_tile| {
            let first = code.at(0);
            code.select(is_tile, block, first)
        });
        let (matrix, number) = (code.divided(block, n_tiles), code.modulo(block, n_tiles));
        // The last tiles first: causal tiles of queries grow longer, and a long one at the end would run alone.
        let last = code.at(n_tiles as i64 - 1);
        let number = code.bin(Arithmetic::Sub, last, number);
        let first = code.scaled(number, lines.count() as i64);
        let thread = [code.divided(unit, across), code.modulo(unit, across)];
        TileBlock { unit, thread, matrix, first, is_tile }
    }

    /// A thread's lines of a tile that starts at `first`, of a matrix of so many.
    pub fn lines(
        &self,
        code: &mut Code,
        side: usize,
        first: Variable,
        lines: Lines,
        count: usize,
    ) -> Vec<Line> {
        let first = code.add_at(first, self.thread[side]);
        let lines = lines.offsets().map(|offset| {
            let line = code.at_offset(first, offset);
            let is_inside = lines.is_ragged(count).then(|| {
                let end = code.at(count as i64);
                code.less(line, end)
            });
            let line = if is_inside.is_some() { at_most(code, line, count - 1) } else { line };
            Line { number: noted(code, count, [self.matrix, line]), is_inside }
        });
        lines.collect()
    }

    /// Copies slices of an axis of so many positions into shared memory one after another, and multiplies each position of
    /// them, given the start of its slice and its number there. The next slice is fetched while this one is multiplied.
    fn slices<const N: usize>(
        &self,
        code: &mut Code,
        sources: [&SlicedSource; N],
        extent: usize,
        multiply: impl FnOnce(&mut Code, Variable, Variable),
    ) -> Result<(), CodegenError> {
        let [start, depth, end] = [0, DEPTH, extent].map(|at| code.at(at as i64));
        let parts: [Vec<Part>; N] = sources.map(|source| source.parts(code, self.unit));
        let fetch = |code: &mut Code, slice: Variable| {
            sources.iter().zip(&parts).try_for_each(|(source, parts)| source.fetch(code, parts, slice))
        };
        fetch(code, start)?;
        let mut result = Ok(());
        code.range(start, end, DEPTH as i64, |code, slice| {
            sources.iter().zip(&parts).for_each(|(source, parts)| source.store(code, parts));
            code.sync();
            let next = code.add_at(slice, depth);
            let is_slice = code.less(next, end);
            code.when(is_slice, |code| result = fetch(code, next));
            code.range(start, depth, 1, |code, i| multiply(code, slice, i));
            // All threads must have read the slice before it is overwritten.
            code.sync();
        });
        result
    }

    /// A thread's products of its lines of two matrices with so many columns each, by line of the first.
    pub fn products(
        &self,
        code: &mut Code,
        [left, right]: [&SlicedSource; 2],
    ) -> Result<Vec<Variable>, CodegenError> {
        let sums = mutables(code, left.lines.each * right.lines.each, 0.0);
        let [down, across] = self.thread;
        self.slices(code, [left, right], left.n_summed, |code, _, i| {
            let (left, right) = (left.load(code, i, down), right.load(code, i, across));
            add_products(code, &left, &right, &sums);
        })?;
        Ok(sums.into_iter().map(|sum| code.snapshot(sum)).collect())
    }

    /// Adds to sums a thread's products of the tile that [`TileBlock::store`] has written and of the rows of another matrix.
    pub fn add_rows(
        &self,
        code: &mut Code,
        (tile, own): (Variable, Lines),
        rows: &SlicedSource,
        sums: &[Variable],
    ) -> Result<(), CodegenError> {
        let [down, across] = self.thread;
        self.slices(code, [rows], rows.n_summed, |code, slice, i| {
            let line = code.add_at(slice, i);
            let left = load_lines(code, own, (tile, 0), [line, down]);
            let right = rows.load(code, i, across);
            add_products(code, &left, &right, sums);
        })
    }

    /// Writes a thread's values of a tile to shared memory: a row for each line that is taken in, of all lines of the block.
    /// Values are in the order of the block's lines, then of the others.
    pub fn store(&self, code: &mut Code, shared: Variable, [own, other]: [Lines; 2], values: &[Variable]) {
        for (j, offset) in other.offsets().enumerate() {
            let row = code.at_offset(self.thread[1], offset);
            let before = code.scaled(row, own.pitch() as i64);
            let first = code.add_at(before, self.thread[0]);
            for group in 0..own.each / own.lanes {
                let lanes = group * own.lanes..(group + 1) * own.lanes;
                let of_lines: Vec<Variable> = lanes.map(|line| values[line * other.each + j]).collect();
                let place = code.at_offset(first, group * own.threads);
                code.store_components(shared, place, &of_lines);
            }
        }
    }
}

/// A matrix whose slices go through shared memory.
pub struct SlicedSource<'k> {
    /// The matrix.
    pub source: &'k SourceForm,
    /// The body of any kernel, for its memory.
    pub body: BodyCode<'k>,
    /// The lines of a tile.
    pub lines: Lines,
    /// Whether lines are columns of the matrix; else they are its rows.
    pub by_column: bool,
    /// Rows and columns of the matrix.
    pub extents: [usize; 2],
    /// The positions of the summed axis that a tile has. The last tile may have fewer.
    pub n_summed: usize,
    /// The number of the matrix.
    pub matrix: Variable,
    /// The first line of the tile, and its first position along the summed axis.
    pub first: [Variable; 2],
    /// The array in shared memory, and where slices start in it.
    pub shared: (Variable, usize),
}

/// A vector of a slice that a thread copies.
struct Part {
    /// Its place in shared memory.
    place: Variable,
    /// Its position along the summed axis, in a slice.
    along: Variable,
    /// Its first line in the tile.
    line: Variable,
    /// Whether the slice has it; none if always.
    is_there: Option<Variable>,
    /// Its elements in the next slice.
    next: Vec<Variable>,
}

impl SlicedSource<'_> {
    /// The parts of slices that a thread copies. Neighbouring threads read neighbouring columns of the matrix.
    fn parts(&self, code: &mut Code, unit: Variable) -> Vec<Part> {
        let (n_vectors, zero) = (self.lines.n_vectors(), code.float(F32, 0.0));
        let n_parts = n_vectors * DEPTH;
        let parts = (0..n_parts.div_ceil(THREADS)).map(|round| {
            let number = code.at_offset(unit, round * THREADS);
            let is_there = (!n_parts.is_multiple_of(THREADS)).then(|| {
                let end = code.at(n_parts as i64);
                code.less(number, end)
            });
            // A thread without a part fetches the last one, and stores nothing.
            let number = if is_there.is_some() { at_most(code, number, n_parts - 1) } else { number };
            let [line, along] = match self.by_column {
                true => [code.modulo(number, n_vectors), code.divided(number, n_vectors)],
                false => [code.divided(number, DEPTH), code.modulo(number, DEPTH)],
            };
            let row = code.scaled(along, self.lines.pitch() as i64);
            let place = code.add_at(row, line);
            let place = code.at_offset(place, self.shared.1);
            let next = (0..self.lines.lanes).map(|_| code.mutable(zero)).collect();
            Part { place, along, line, is_there, next }
        });
        parts.collect()
    }

    /// Fetches a thread's parts of the slice that starts at `slice` into registers. Lines past the last are the last one, and
    /// positions past the last are 0.
    fn fetch(&self, code: &mut Code, parts: &[Part], slice: Variable) -> Result<(), CodegenError> {
        let [n_lines, n_along] = if self.by_column { [1, 0] } else { [0, 1] }.map(|axis| self.extents[axis]);
        let is_ragged = !n_along.is_multiple_of(self.n_summed) || !self.n_summed.is_multiple_of(DEPTH);
        let start = code.add_at(self.first[1], slice);
        for part in parts {
            let along = code.add_at(start, part.along);
            let is_inside = is_ragged.then(|| {
                let end = code.at(n_along as i64);
                code.less(along, end)
            });
            let along = if is_ragged { at_most(code, along, n_along - 1) } else { along };
            let first_line = code.add_at(self.first[0], part.line);
            for (lane, &next) in part.next.iter().enumerate() {
                let line = code.at_offset(first_line, lane * self.lines.n_vectors());
                let line =
                    if self.lines.is_ragged(n_lines) { at_most(code, line, n_lines - 1) } else { line };
                let place = if self.by_column { [along, line] } else { [line, along] };
                let value = self.element(code, place)?;
                let zero = code.float(F32, 0.0);
                let value = is_inside.map_or(value, |is_inside| code.select(is_inside, value, zero));
                code.assign(next, value);
            }
        }
        Ok(())
    }

    /// Writes fetched parts to shared memory.
    fn store(&self, code: &mut Code, parts: &[Part]) {
        for part in parts {
            let store = |code: &mut Code| {
                let values: Vec<Variable> = part.next.iter().map(|&next| code.snapshot(next)).collect();
                match values[..] {
                    [value] => code.store(self.shared.0, part.place, value),
                    _ => code.store_components(self.shared.0, part.place, &values),
                }
            };
            match part.is_there {
                Some(is_there) => code.when(is_there, store),
                None => store(code),
            }
        }
    }

    /// The lines of a thread at position `i` of the slice in shared memory.
    fn load(&self, code: &mut Code, i: Variable, thread: Variable) -> Vec<Variable> {
        load_lines(code, self.lines, self.shared, [i, thread])
    }

    /// The element of a row and a column of the matrix, in `f32`.
    fn element(&self, code: &mut Code, [row, column]: [Variable; 2]) -> Result<Variable, CodegenError> {
        let SourceForm { body: source, value } = self.source;
        let row = noted(code, self.extents[0], [self.matrix, row]);
        let point = noted(code, self.extents[1], [row, column]);
        let body = BodyCode { body: source, ..self.body };
        let mut registers = vec![None; source.insts.len()];
        for (reg, inst) in source.insts.iter().enumerate() {
            let at = if inst.class == Class::Element { point } else { row };
            body.run(code, [reg], at, &mut registers)?;
        }
        let dtype = source.insts[*value].dtype;
        let value = registers[*value].unwrap_or_else(|| crate::bug!("a source without its value"));
        // A loaded value without further instructions still has its type in memory.
        let is_wide = value.elem_type() == code.device.register(dtype);
        let value = if is_wide { value } else { widened(code, dtype, value) };
        Ok(code.cast(F32, value))
    }
}

/// The lines of a thread in row `i` of an array in shared memory.
fn load_lines(
    code: &mut Code,
    lines: Lines,
    (shared, start): (Variable, usize),
    [i, thread]: [Variable; 2],
) -> Vec<Variable> {
    let row = code.scaled(i, lines.pitch() as i64);
    let first = code.add_at(row, thread);
    let first = code.at_offset(first, start);
    let groups = (0..lines.each / lines.lanes).flat_map(|group| {
        let place = code.at_offset(first, group * lines.threads);
        match lines.lanes {
            1 => vec![code.load(shared, place)],
            lanes => code.load_components(shared, place, lanes),
        }
    });
    groups.collect()
}

/// An array in shared memory of so many vectors.
pub fn shared_vectors(code: &mut Code, lanes: usize, length: usize) -> Variable {
    match lanes {
        1 => code.shared(F32, length),
        lanes => code.shared_vectors(F32, lanes, length),
    }
}

/// Adds the products of a thread's lines to its sums.
fn add_products(code: &mut Code, left: &[Variable], right: &[Variable], sums: &[Variable]) {
    let pairs = left.iter().flat_map(|&left| right.iter().map(move |&right| (left, right)));
    for ((left, right), &sum) in pairs.zip(sums) {
        let next = code.fma(left, right, sum);
        code.assign(sum, next);
    }
}

/// So many mutable numbers.
pub fn mutables(code: &mut Code, n: usize, initial: f64) -> Vec<Variable> {
    let initial = code.float(F32, initial);
    (0..n).map(|_| code.mutable(initial)).collect()
}

/// A position, or the last one.
pub fn at_most(code: &mut Code, position: Variable, last: usize) -> Variable {
    let last = code.at(last as i64);
    code.bin(Arithmetic::Min, position, last)
}

/// Point `position` of a row of `length` points, with a note of its place.
pub fn noted(code: &mut Code, length: usize, [row, position]: [Variable; 2]) -> Variable {
    let start = code.scaled(row, length as i64);
    let point = code.add_at(start, position);
    code.note_place(point, length, row, position);
    point
}

/// An element number moved by an offset; 0 if it would be negative.
pub fn moved(code: &mut Code, x: Variable, offset: i64) -> Variable {
    if offset >= 0 {
        return code.at_offset(x, offset as usize);
    }
    let least = code.at(-offset);
    let x = code.bin(Arithmetic::Max, x, least);
    code.bin(Arithmetic::Sub, x, least)
}

/// Runs `body` where all conditions hold.
pub fn within(
    code: &mut Code,
    conditions: &[Option<Variable>],
    body: impl FnOnce(&mut Code) -> Result<(), CodegenError>,
) -> Result<(), CodegenError> {
    let condition = conditions.iter().copied().flatten().reduce(|all, condition| code.and(all, condition));
    let Some(condition) = condition else { return body(code) };
    let mut result = Ok(());
    code.when(condition, |code| result = body(code));
    result
}
