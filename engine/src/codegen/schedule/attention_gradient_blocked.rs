//! The gradient of attention without tensor cores.
//!
//! One kernel has tiles of queries and sums over keys, the other tiles of keys and sums over queries.
//!
//! Both compute the two products and the values at the points of a tile again, in registers. The values go through shared
//! memory to the product with another matrix. Each sum is added by one block in a fixed order, and nothing of the size of
//! the points is stored.

use crate::codegen::analysis::visible_keys::VisibleKeys;
use crate::codegen::analysis::visible_points::visible_points;
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::schedule::attention_blocked::{bounds, computes, fill, has_units};
use crate::codegen::schedule::map::at_point;
use crate::codegen::schedule::matmul_point::with_sum;
use crate::codegen::schedule::source::SourceForm;
use crate::codegen::schedule::tile_block::{
    DEPTH, LANES, Line, Lines, SlicedSource, THREADS, TileBlock, at_most, moved, mutables, noted,
    shared_vectors, threads, within,
};
use crate::device_model::DeviceModel;
use crate::fusion::{AttentionGradientBody, Class, FusedBody, FusedOp, Kernel, PointSum, Reg, Work};
use cubecl_core::ir::Variable;

/// Lines of the tile of a block, and of a tile that it takes in, the best first.
const TILES: [[usize; 2]; 2] = [[64, 64], [128, 32]];
/// The most values that a thread has in registers: both products at its points, and its elements of all sums.
const MOST_VALUES: usize = 112;

/// A product at the points: by query, and by key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Product {
    k: usize,
    sides: [SourceForm; 2],
}

/// A sum of values at the points times the rows of another matrix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sum {
    value: Reg,
    other: SourceForm,
    /// Columns of the other matrix and of the result.
    width: usize,
    columns: Lines,
    end: FusedBody,
}

/// The sums of a gradient of attention over one side: 1 for keys, with tiles of queries, and 0 for queries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionGradientBlocked {
    batch: usize,
    /// Queries and keys.
    extents: [usize; 2],
    /// The side that is summed over.
    over: usize,
    products: [Product; 2],
    sums: Vec<Sum>,
    /// Lines of a tile of queries, and of one of keys.
    lines: [Lines; 2],
    visible: VisibleKeys,
}

/// Whether the device has such kernels for a gradient.
pub fn takes(body: &AttentionGradientBody, device: &DeviceModel) -> bool {
    sides(body, device).is_some()
}

/// The launches of a gradient: the sums over keys, and those over queries.
pub fn launches(
    kernel: &Kernel,
    body: &AttentionGradientBody,
    device: DeviceModel,
) -> Option<Vec<KernelSpec>> {
    let of = |schedule| KernelSpec::new(body.points.clone(), schedule, OperandForm::of(kernel), device);
    Some(sides(body, &device)?.into_iter().map(of).collect())
}

/// The schedules of both sides, as far as there are sums over them.
fn sides(body: &AttentionGradientBody, device: &DeviceModel) -> Option<Vec<AttentionGradientBlocked>> {
    let widths = body.sums.iter().map(|sum| sum.width);
    let extents = [body.batch, body.m, body.n, body.products[0].k, body.products[1].k];
    let is_empty = extents.into_iter().chain(widths).any(|extent| extent == 0);
    let n_points = body.batch * body.m * body.n;
    if !computes(&body.bodies(), n_points, device) || has_units(body.dtype, device) || is_empty {
        return None;
    }
    let is_over = |over: usize| move |sum: &&PointSum| usize::from(sum.over_keys) == over;
    let sums = [1, 0].map(|over| (over, body.sums.iter().filter(is_over(over)).collect::<Vec<_>>()));
    let some = sums.into_iter().filter(|(_, sums)| !sums.is_empty());
    some.map(|(over, sums)| AttentionGradientBlocked::of(body, over, &sums, device)).collect()
}

impl AttentionGradientBlocked {
    fn of(
        body: &AttentionGradientBody,
        over: usize,
        sums: &[&PointSum],
        device: &DeviceModel,
    ) -> Option<AttentionGradientBlocked> {
        let [down, across] = threads(device);
        let products = body.products.each_ref().map(|product| Product {
            k: product.k,
            sides: [(&product.rows).into(), (&product.columns).into()],
        });
        let values: Vec<Reg> = sums.iter().map(|sum| sum.value).collect();
        let of_tile = |&[own, taken_in]: &[usize; 2]| {
            let [own, taken_in] = [Lines::new(down, own), Lines::new(across, taken_in)];
            AttentionGradientBlocked {
                batch: body.batch,
                extents: [body.m, body.n],
                over,
                products: products.clone(),
                sums: sums.iter().map(|sum| Sum::of(sum, across)).collect(),
                lines: if over == 1 { [own, taken_in] } else { [taken_in, own] },
                visible: visible_points(&body.points, &values),
            }
        };
        let form = TILES.iter().map(of_tile).find(|form| form.fits(device))?;
        fill(form.n_blocks(), form.extents[over]).then_some(form)
    }

    /// Tiles of the side that is not summed over, of all matrices.
    fn n_blocks(&self) -> usize {
        let side = 1 - self.over;
        self.batch * self.extents[side].div_ceil(self.lines[side].count())
    }

    /// Lines of the tile of a block, and of one that it takes in.
    fn own_and_taken_in(&self) -> [Lines; 2] {
        [self.lines[1 - self.over], self.lines[self.over]]
    }

    /// Lanes and number of vectors of two arrays: the values at the points of a tile, in whose place slices of both sides lie
    /// before, and slices of the other matrices.
    fn shared(&self) -> [(usize, usize); 2] {
        let [own, taken_in] = self.own_and_taken_in();
        let slices = DEPTH * (own.pitch() + taken_in.pitch());
        let lanes = self.sums.iter().map(|sum| sum.columns.lanes).min().unwrap_or(1);
        let others = self.sums.iter().map(|sum| sum.columns.lanes * sum.columns.pitch() / lanes).max();
        [(LANES, slices.max(taken_in.count() * own.pitch())), (lanes, DEPTH * others.unwrap_or_default())]
    }

    /// Whether registers and shared memory have room.
    fn fits(&self, device: &DeviceModel) -> bool {
        let [own, taken_in] = self.own_and_taken_in();
        let n_words: usize = self.shared().into_iter().map(|(lanes, length)| lanes * length).sum();
        let columns: usize = self.sums.iter().map(|sum| sum.columns.each).sum();
        let mut lanes = self.sums.iter().map(|sum| sum.columns.lanes);
        let first = lanes.next();
        4 * n_words <= device.shared_bytes
            && own.each * (2 * taken_in.each + columns) <= MOST_VALUES
            && [own.lanes, taken_in.lanes] == [LANES; 2]
            && lanes.all(|lanes| Some(lanes) == first)
    }
}

impl Sum {
    fn of(sum: &PointSum, across: usize) -> Sum {
        let &PointSum { value, width, ref other, ref end, .. } = sum;
        Sum { value, other: other.into(), width, columns: Lines::new(across, width), end: end.clone() }
    }
}

impl Schedule for AttentionGradientBlocked {
    fn entry(&self) -> &'static str {
        "attention_gradient"
    }

    fn threads(&self, _: &KernelSpec) -> usize {
        THREADS
    }

    fn blocks(&self, _: &KernelSpec, _: usize) -> usize {
        self.n_blocks()
    }

    fn n_points(&self, kernel: &KernelSpec) -> usize {
        kernel.body.domain.points(Class::Row)
    }

    fn allows_fast_math(&self, _: &KernelSpec) -> bool {
        true
    }

    fn more_bodies(&self) -> Vec<&FusedBody> {
        let sides = self.products.iter().flat_map(|product| &product.sides);
        let others = self.sums.iter().map(|sum| &sum.other);
        let ends = self.sums.iter().map(|sum| &sum.end);
        sides.chain(others).map(|source| &source.body).chain(ends).collect()
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let side = 1 - self.over;
        let [own, taken_in] = self.own_and_taken_in();
        let block = TileBlock::new(code, [self.batch, self.extents[side]], own, taken_in.threads);
        let shared = self.shared().map(|(lanes, length)| shared_vectors(code, lanes, length));
        let lines = block.lines(code, 0, block.first, own, self.extents[side]);
        let sums = self.sums.iter().map(|sum| mutables(code, own.each * sum.columns.each, 0.0)).collect();
        let tile = Tile { form: self, body: kernel.body(), block, shared, lines, sums };
        let [start, end] = tile.visible(code);
        let own_queries = match side {
            0 => Some(tile.queries(code, &tile.lines)?),
            _ => None,
        };
        let mut result = Ok(());
        code.range(start, end, taken_in.count() as i64, |code, first| {
            result = tile.take_in(code, own_queries.as_deref(), first);
        });
        result?;
        tile.finish(code)
    }
}

/// A block's tile, and this thread's part of it.
struct Tile<'k> {
    form: &'k AttentionGradientBlocked,
    /// Over points.
    body: BodyCode<'k>,
    block: TileBlock,
    /// Shared memory: values at the points of a tile or, before, slices of both sides; slices of the other matrices.
    shared: [Variable; 2],
    lines: Vec<Line>,
    /// By sum: its elements of this thread, by line and column.
    sums: Vec<Vec<Variable>>,
}

impl<'k> Tile<'k> {
    /// The first line of the first tile that matters to the block, and the line after the last one.
    fn visible(&self, code: &mut Code) -> [Variable; 2] {
        let AttentionGradientBlocked { extents, over, lines, ref visible, .. } = *self.form;
        let first = self.block.first;
        let side = 1 - over;
        let (count, last) = (extents[over], lines[side].count() as i64 - 1);
        // Query c sees key j if c + first <= j and j < c + end.
        let [seen, end] = bounds(visible, extents, lines[0]);
        let [from, to] = match over {
            1 => [seen, end.map(|end| end + last)],
            // Tiles of keys know one period of queries only.
            _ if visible.period != extents[0] => [None; 2],
            _ => [end.map(|end| 1 - end), seen.map(|seen| last + 1 - seen)],
        };
        let first = if over == 1 { code.modulo(first, visible.period) } else { first };
        let start = from.map_or(code.at(0), |from| {
            let start = moved(code, first, from);
            let start = at_most(code, start, count);
            let tile = code.divided(start, lines[over].count());
            code.scaled(tile, lines[over].count() as i64)
        });
        let end = to.map_or(code.at(count as i64), |to| {
            let end = moved(code, first, to);
            at_most(code, end, count)
        });
        [start, end]
    }

    /// The values of rows at some queries.
    fn queries(&self, code: &mut Code, lines: &[Line]) -> Result<Vec<Registers>, CodegenError> {
        let insts = &self.body.body.insts;
        let of_row: Vec<Reg> = (0..insts.len()).filter(|&reg| insts[reg].class != Class::Element).collect();
        let registers = lines.iter().map(|line| {
            let mut registers = vec![None; insts.len()];
            self.body.run(code, of_row.iter().copied(), line.number, &mut registers)?;
            Ok(registers)
        });
        registers.collect()
    }

    /// Takes in a tile of the side that is summed over. The queries are known if the block has a tile of them.
    fn take_in(
        &self,
        code: &mut Code,
        own_queries: Option<&[Registers]>,
        first: Variable,
    ) -> Result<(), CodegenError> {
        let form = self.form;
        let [own, taken_in] = form.own_and_taken_in();
        let others = self.block.lines(code, 1, first, taken_in, form.extents[form.over]);
        let others_queries = match own_queries {
            Some(_) => vec![],
            None => self.queries(code, &others)?,
        };
        let [scores, slopes] = [0, 1].map(|product| self.product(code, product, first));
        let (scores, slopes) = (scores?, slopes?);
        let mut values: Vec<Vec<Variable>> = vec![vec![]; form.sums.len()];
        for i in 0..own.each {
            for (j, other) in others.iter().enumerate() {
                let (query, line, key) = match own_queries {
                    Some(queries) => (&queries[i], &self.lines[i], other),
                    None => (&others_queries[j], other, &self.lines[i]),
                };
                let at = i * taken_in.each + j;
                let place = [line.number, key.number];
                let registers = self.point(code, query, place, [scores[at], slopes[at]])?;
                for (sum, values) in form.sums.iter().zip(&mut values) {
                    values.push(value_of(code, &registers, sum.value, other.is_inside));
                }
            }
        }
        for (number, values) in values.iter().enumerate() {
            self.block.store(code, self.shared[0], [own, taken_in], values);
            self.add(code, number, first)?;
        }
        Ok(())
    }

    /// The registers of a point, given those of its query.
    fn point(
        &self,
        code: &mut Code,
        query: &Registers,
        [row, key]: [Variable; 2],
        products: [Variable; 2],
    ) -> Result<Registers, CodegenError> {
        let insts = &self.body.body.insts;
        let n = self.form.extents[1];
        let key = code.modulo(key, n);
        let point = noted(code, n, [row, key]);
        let mut registers = query.clone();
        let mut rest = vec![];
        for (reg, inst) in insts.iter().enumerate().filter(|(_, inst)| inst.class == Class::Element) {
            match inst.op {
                FusedOp::Accumulator => registers[reg] = Some(products[0]),
                FusedOp::SecondAccumulator => registers[reg] = Some(products[1]),
                _ => rest.push(reg),
            }
        }
        self.body.run(code, rest, point, &mut registers)?;
        Ok(registers)
    }

    /// This thread's products of its lines and those of the tile that starts at `first`.
    fn product(
        &self,
        code: &mut Code,
        number: usize,
        first: Variable,
    ) -> Result<Vec<Variable>, CodegenError> {
        let AttentionGradientBlocked { over, ref products, extents, .. } = *self.form;
        let Product { k, ref sides } = products[number];
        let [own, taken_in] = self.form.own_and_taken_in();
        let start = code.at(0);
        let left = SlicedSource {
            source: &sides[1 - over],
            body: self.body,
            lines: own,
            by_column: false,
            extents: [extents[1 - over], k],
            n_summed: k,
            matrix: self.block.matrix,
            first: [self.block.first, start],
            shared: (self.shared[0], 0),
        };
        let right = SlicedSource {
            source: &sides[over],
            lines: taken_in,
            extents: [extents[over], k],
            first: [first, start],
            shared: (self.shared[0], DEPTH * own.pitch()),
            ..left
        };
        self.block.products(code, [&left, &right])
    }

    /// Adds values at the points of a tile, which lie in shared memory, times the rows of the other matrix.
    fn add(&self, code: &mut Code, number: usize, first: Variable) -> Result<(), CodegenError> {
        let Sum { ref other, width, columns, .. } = self.form.sums[number];
        let [own, taken_in] = self.form.own_and_taken_in();
        let rows = SlicedSource {
            source: other,
            body: self.body,
            lines: columns,
            by_column: true,
            extents: [self.form.extents[self.form.over], width],
            n_summed: taken_in.count(),
            matrix: self.block.matrix,
            first: [code.at(0), first],
            shared: (self.shared[1], 0),
        };
        self.block.add_rows(code, (self.shared[0], own), &rows, &self.sums[number])
    }

    /// Runs the ends of all sums.
    fn finish(&self, code: &mut Code) -> Result<(), CodegenError> {
        for (sum, results) in self.form.sums.iter().zip(&self.sums) {
            let body = BodyCode { body: &sum.end, ..self.body };
            for (line, results) in self.lines.iter().zip(results.chunks(sum.columns.each)) {
                for (offset, &result) in sum.columns.offsets().zip(results) {
                    let column = code.at_offset(self.block.thread[1], offset);
                    let is_column = sum.columns.is_ragged(sum.width).then(|| {
                        let end = code.at(sum.width as i64);
                        code.less(column, end)
                    });
                    within(code, &[self.block.is_tile, line.is_inside, is_column], |code| {
                        let point = noted(code, sum.width, [line.number, column]);
                        let result = code.snapshot(result);
                        let registers = with_sum(code, &body, result);
                        at_point(code, &body, point, registers)
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// A value at a point in `f32`; 0 past the last line.
fn value_of(code: &mut Code, registers: &Registers, value: Reg, is_inside: Option<Variable>) -> Variable {
    let value = registers[value].unwrap_or_else(|| crate::bug!("a point without its value"));
    let value = code.cast(F32, value);
    let zero = code.float(F32, 0.0);
    is_inside.map_or(value, |is_inside| code.select(is_inside, value, zero))
}
