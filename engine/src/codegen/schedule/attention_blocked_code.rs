//! The code of an attention of tiles of queries.

use crate::codegen::analysis::online_softmax::Reference;
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::fast_math::exponential;
use crate::codegen::ops::reduction::{State, butterfly};
use crate::codegen::schedule::attention_blocked::AttentionBlocked;
use crate::codegen::schedule::map::at_point;
use crate::codegen::schedule::tile_block::{
    DEPTH, Line, SlicedSource, THREADS, TileBlock, at_most, moved, mutables, noted, shared_vectors, within,
};
use crate::fusion::{Class, FusedBody, FusedOp, Reg};
use crate::ir::{Monoid, Scalar};
use cubecl_core::ir::{Arithmetic, Comparison, Variable};

impl Schedule for AttentionBlocked {
    fn entry(&self) -> &'static str {
        "attention"
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
        vec![&self.query.body, &self.key.body, &self.value.body, &self.end]
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let tile = Tile::new(code, self, kernel)?;
        let running = Running::new(code, self);
        let [start, end] = tile.visible(code);
        let mut result = Ok(());
        code.range(start, end, self.keys.count() as i64, |code, first_key| {
            result = tile.take_in(code, &running, first_key);
        });
        result?;
        tile.finish(code, &running)
    }
}

/// A block's tile of queries, and this thread's part of it.
struct Tile<'k> {
    form: &'k AttentionBlocked,
    body: BodyCode<'k>,
    block: TileBlock,
    /// Shared memory: the weights of a tile of keys or, before, slices of queries and keys; slices of values.
    shared: [Variable; 2],
    rows: Vec<Row>,
}

/// A row of a thread, with the values of rows that its scores need.
struct Row {
    line: Line,
    registers: Registers,
}

/// The values that a thread keeps from one tile of keys to the next.
struct Running {
    /// By row: the largest score, and this thread's part of the sum of exponentials.
    largest: Vec<Variable>,
    sums: Vec<Variable>,
    /// By row and column: the sum of weighed values.
    results: Vec<Variable>,
}

impl Running {
    fn new(code: &mut Code, form: &AttentionBlocked) -> Running {
        let n_rows = form.rows.each;
        Running {
            largest: mutables(code, n_rows, f64::NEG_INFINITY),
            sums: mutables(code, n_rows, 0.0),
            results: mutables(code, n_rows * form.columns.each, 0.0),
        }
    }
}

impl<'k> Tile<'k> {
    fn new(
        code: &mut Code,
        form: &'k AttentionBlocked,
        kernel: &KernelCode<'k>,
    ) -> Result<Tile<'k>, CodegenError> {
        let block = TileBlock::new(code, [form.batch, form.m], form.rows, form.keys.threads);
        let lanes = [form.rows.lanes, form.columns.lanes];
        let mut lengths = form.n_shared_vectors().into_iter();
        let shared = lanes.map(|lanes| shared_vectors(code, lanes, lengths.next().unwrap_or_default()));
        let lines = block.lines(code, 0, block.first, form.rows, form.m);
        let mut tile = Tile { form, body: kernel.body(), block, shared, rows: vec![] };
        let needed = form.softmax.element.iter().copied();
        let of_row: Vec<Reg> = needed.filter(|&reg| tile.class(reg) != Class::Element).collect();
        for line in lines {
            let mut registers = vec![None; tile.body.body.insts.len()];
            tile.body.run(code, of_row.iter().copied(), line.number, &mut registers)?;
            tile.rows.push(Row { line, registers });
        }
        Ok(tile)
    }

    fn class(&self, reg: Reg) -> Class {
        self.body.body.insts[reg].class
    }

    /// The first key of the first tile that a row of the block may see, and the key after the last one.
    fn visible(&self, code: &mut Code) -> [Variable; 2] {
        let AttentionBlocked { n, rows, keys, ref softmax, .. } = *self.form;
        let [first, end] = self.form.bounds();
        let query = code.modulo(self.block.first, softmax.visible.period);
        let start = first.map_or(code.at(0), |first| {
            let first = moved(code, query, first);
            let first = at_most(code, first, n);
            let tile = code.divided(first, keys.count());
            code.scaled(tile, keys.count() as i64)
        });
        let end = end.map_or(code.at(n as i64), |end| {
            let end = moved(code, query, end + rows.count() as i64 - 1);
            at_most(code, end, n)
        });
        [start, end]
    }

    /// Takes in a tile of keys.
    fn take_in(&self, code: &mut Code, running: &Running, first_key: Variable) -> Result<(), CodegenError> {
        let n_keys = self.form.keys.each;
        let products = self.products(code, first_key)?;
        let mut weights = vec![];
        for (row, products) in products.chunks(n_keys).enumerate() {
            let scores = self.scores(code, &self.rows[row], first_key, products)?;
            weights.extend(self.weigh(code, running, row, &scores)?);
        }
        self.block.store(code, self.shared[0], [self.form.rows, self.form.keys], &weights);
        self.add_values(code, running, first_key)
    }

    // ---- Products.

    /// This thread's products of queries and keys, row by row.
    fn products(&self, code: &mut Code, first_key: Variable) -> Result<Vec<Variable>, CodegenError> {
        let AttentionBlocked { m, n, k, rows, keys, ref query, ref key, .. } = *self.form;
        let (start, matrix, body) = (code.at(0), self.block.matrix, self.body);
        let queries = SlicedSource {
            source: query,
            body,
            lines: rows,
            by_column: false,
            extents: [m, k],
            n_summed: k,
            matrix,
            first: [self.block.first, start],
            shared: (self.shared[0], 0),
        };
        let keys = SlicedSource {
            source: key,
            lines: keys,
            extents: [n, k],
            first: [first_key, start],
            shared: (self.shared[0], DEPTH * rows.pitch()),
            ..queries
        };
        self.block.products(code, [&queries, &keys])
    }

    /// Adds the values of a tile of keys, times their weights, to the result.
    fn add_values(
        &self,
        code: &mut Code,
        running: &Running,
        first_key: Variable,
    ) -> Result<(), CodegenError> {
        let AttentionBlocked { n, width, rows, keys, columns, ref value, .. } = *self.form;
        let values = SlicedSource {
            source: value,
            body: self.body,
            lines: columns,
            by_column: true,
            extents: [n, width],
            n_summed: keys.count(),
            matrix: self.block.matrix,
            first: [code.at(0), first_key],
            shared: (self.shared[1], 0),
        };
        self.block.add_rows(code, (self.shared[0], rows), &values, &running.results)
    }

    // ---- Scores and weights.

    /// The scores of one of this thread's rows. Keys past the last are hidden.
    fn scores(
        &self,
        code: &mut Code,
        row: &Row,
        first_key: Variable,
        products: &[Variable],
    ) -> Result<Vec<Variable>, CodegenError> {
        let AttentionBlocked { n, keys, ref softmax, .. } = *self.form;
        let is_product = |reg: &Reg| self.body.body.insts[*reg].op == FusedOp::Accumulator;
        let (given, rest): (Vec<Reg>, Vec<Reg>) = softmax.element.iter().copied().partition(is_product);
        let elements: Vec<Reg> = rest.into_iter().filter(|&reg| self.class(reg) == Class::Element).collect();
        let first = code.add_at(first_key, self.block.thread[1]);
        let scores = keys.offsets().zip(products).map(|(offset, &product)| {
            let key = code.at_offset(first, offset);
            let end = code.at(n as i64);
            let is_key = keys.is_ragged(n).then(|| code.less(key, end));
            let key = if is_key.is_some() { at_most(code, key, n - 1) } else { key };
            let point = noted(code, n, [row.line.number, key]);
            let mut registers = row.registers.clone();
            given.iter().for_each(|&reg| registers[reg] = Some(product));
            self.body.run(code, elements.iter().copied(), point, &mut registers)?;
            let score = registers[softmax.score].unwrap_or_else(|| crate::bug!("a score without its value"));
            let score = code.cast(F32, score);
            let hidden = code.float(F32, f64::NEG_INFINITY);
            Ok(is_key.map_or(score, |is_key| code.select(is_key, score, hidden)))
        });
        scores.collect()
    }

    /// The exponentials of a row's scores. Scales the running sums of the row to its new largest score.
    fn weigh(
        &self,
        code: &mut Code,
        running: &Running,
        row: usize,
        scores: &[Variable],
    ) -> Result<Vec<Variable>, CodegenError> {
        let AttentionBlocked { softmax, keys, columns, .. } = self.form;
        let (largest, sum) = (running.largest[row], running.sums[row]);
        let mut shift = None;
        if softmax.reference != Reference::Zero {
            let most = |code: &mut Code, a: Variable, b: Variable| code.bin(Arithmetic::Max, a, b);
            let own = scores[1..].iter().fold(scores[0], |own, &score| most(code, own, score));
            let own = State { monoid: Monoid::Max, parts: vec![own], skips_nan: true };
            let of_tile = butterfly(code, own, keys.threads).parts[0];
            let before = code.snapshot(largest);
            let now = most(code, before, of_tile);
            code.assign(largest, now);
            let now = shift_at(code, softmax.reference, now);
            let scale = scale_from(code, softmax.reference, before, now)?;
            let results = &running.results[row * columns.each..(row + 1) * columns.each];
            for &scaled in [&sum].into_iter().chain(results) {
                let product = code.bin(Arithmetic::Mul, scaled, scale);
                code.assign(scaled, product);
            }
            shift = Some(now);
        }
        let mut weights = vec![];
        for &score in scores {
            let shifted = shift.map_or(score, |shift| code.bin(Arithmetic::Sub, score, shift));
            weights.push(exponential(code, shifted)?);
        }
        let total = weights.iter().fold(sum, |total, &weight| code.bin(Arithmetic::Add, total, weight));
        code.assign(sum, total);
        Ok(weights)
    }

    // ---- The end.

    /// Computes the values of rows after the last key, and the end at each of this thread's points.
    fn finish(&self, code: &mut Code, running: &Running) -> Result<(), CodegenError> {
        let AttentionBlocked { width, columns, keys, ref end, .. } = *self.form;
        let body = BodyCode { body: end, ..self.body };
        let is_sum: Vec<bool> = end.insts.iter().map(|inst| inst.op == FusedOp::Accumulator).collect();
        for (i, row) in self.rows.iter().enumerate() {
            let parts = vec![code.snapshot(running.sums[i])];
            let total = butterfly(code, State { monoid: Monoid::Sum, parts, skips_nan: false }, keys.threads);
            let largest = code.snapshot(running.largest[i]);
            let factor = self.finish_row(code, row, [largest, total.parts[0]])?;
            let results = &running.results[i * columns.each..(i + 1) * columns.each];
            for (offset, &result) in columns.offsets().zip(results) {
                let column = code.at_offset(self.block.thread[1], offset);
                let is_column = columns.is_ragged(width).then(|| {
                    let end = code.at(width as i64);
                    code.less(column, end)
                });
                let value = code.bin(Arithmetic::Mul, result, factor);
                let registers = is_sum.iter().map(|is_sum| is_sum.then_some(value)).collect();
                within(code, &[self.block.is_tile, row.line.is_inside, is_column], |code| {
                    let point = noted(code, width, [row.line.number, column]);
                    at_point(code, &body, point, registers)
                })?;
            }
        }
        Ok(())
    }

    /// Stores the values of a row, given its largest score and its sum of exponentials. Returns the factor of the row's sum
    /// of values.
    fn finish_row(
        &self,
        code: &mut Code,
        row: &Row,
        [largest, sum]: [Variable; 2],
    ) -> Result<Variable, CodegenError> {
        let (softmax, insts) = (&self.form.softmax, &self.body.body.insts);
        let mut registers = row.registers.clone();
        let (largest, sum) = with_nan(code, softmax.reference, largest, sum);
        if let Some(reg) = softmax.largest {
            registers[reg] = Some(largest);
        }
        registers[softmax.sum] = Some(sum);
        registers[softmax.exp] = Some(code.float(F32, 1.0));
        let is_store = |reg: &Reg| matches!(insts[*reg].op, FusedOp::Store { .. });
        let (stores, values): (Vec<Reg>, Vec<Reg>) = softmax.last.iter().copied().partition(is_store);
        let mut factor = softmax.exp;
        for reg in values {
            let is_of_weight = insts[reg].class == Class::Element;
            factor = if is_of_weight { reg } else { factor };
            match &insts[reg].op {
                _ if registers[reg].is_some() => {}
                // Conversions of weights would round the factor.
                FusedOp::Scalar(Scalar::Cast(_), args) if is_of_weight => registers[reg] = registers[args[0]],
                _ => self.body.run(code, [reg], row.line.number, &mut registers)?,
            }
        }
        let first = code.at(0);
        let is_first = code.cmp(Comparison::Equal, self.block.thread[1], first);
        within(code, &[Some(is_first), self.block.is_tile, row.line.is_inside], |code| {
            self.body.run(code, stores, row.line.number, &mut registers.clone())
        })?;
        let factor =
            registers[factor].unwrap_or_else(|| crate::bug!("a row without the factor of its values"));
        Ok(code.cast(F32, factor))
    }
}

/// The number that is subtracted from the scores of a row, given its largest score so far. A row may be hidden so far even if
/// it is not in the end, so `-inf` counts as 0 for each reference.
fn shift_at(code: &mut Code, reference: Reference, largest: Variable) -> Variable {
    let (tested, limit) = match reference {
        Reference::FiniteOrZero => (code.un(Arithmetic::Abs, largest), f64::INFINITY),
        _ => (largest, f64::NEG_INFINITY),
    };
    zero_at(code, tested, limit, largest)
}

/// The factor from exponentials relative to the largest score before to those relative to `shift`.
fn scale_from(
    code: &mut Code,
    reference: Reference,
    before: Variable,
    shift: Variable,
) -> Result<Variable, CodegenError> {
    // Keys that were hidden so far count nothing: exp(-inf).
    let before = match reference {
        Reference::FiniteOrZero => zero_at(code, before, f64::INFINITY, before),
        _ => before,
    };
    let difference = code.bin(Arithmetic::Sub, before, shift);
    exponential(code, difference)
}

/// The largest score and the sum of a row where these are NaN: the maximum skips scores that are NaN, and a hidden row has no
/// reference of its own.
fn with_nan(code: &mut Code, reference: Reference, largest: Variable, sum: Variable) -> (Variable, Variable) {
    let [nan, lowest, highest] =
        [f64::NAN, f64::NEG_INFINITY, f64::INFINITY].map(|value| code.float(F32, value));
    let is_nan = code.is_nan(sum);
    let is_finite = code.cmp(Comparison::NotEqual, largest, highest);
    let is_lost = code.and(is_nan, is_finite);
    let is_hidden = code.cmp(Comparison::Equal, largest, lowest);
    let sum = if reference == Reference::Largest { code.select(is_hidden, nan, sum) } else { sum };
    (code.select(is_lost, nan, largest), sum)
}

/// `value`, or 0 where `tested` is `limit`.
fn zero_at(code: &mut Code, tested: Variable, limit: f64, value: Variable) -> Variable {
    let limit = code.float(F32, limit);
    let is_there = code.cmp(Comparison::Equal, tested, limit);
    let zero = code.float(F32, 0.0);
    code.select(is_there, zero, value)
}
