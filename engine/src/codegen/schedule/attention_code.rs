//! The code of an attention kernel.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32, U32};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::ops::body::{BodyCode, Registers};
use crate::codegen::ops::buffers::{Buffers, Memory};
use crate::codegen::ops::reduction::{State, butterfly};
use crate::codegen::ops::scalar::widened;
use crate::codegen::ops::vector_group::{self, Group};
use crate::codegen::schedule::attention::{AttentionByBlock, Layout};
use crate::codegen::schedule::map::at_point;
use crate::codegen::schedule::row_emit::row_by;
use crate::codegen::schedule::row_exchange::SharedWords;
use crate::codegen::schedule::source::SourceForm;
use crate::fusion::{Class, FusedBody, FusedInst, FusedOp};
use crate::ir::Monoid;
use cubecl_core::ir::{Arithmetic, Builtin, Comparison, Variable};

/// The most keys or values that a team loads together, to hide latency.
const ITEMS_TOGETHER: usize = 4;

impl Schedule for AttentionByBlock {
    fn entry(&self) -> &'static str {
        "attention"
    }

    fn threads(&self, kernel: &KernelSpec) -> usize {
        self.n_threads(kernel.device())
    }

    fn blocks(&self, _: &KernelSpec, n_rows: usize) -> usize {
        n_rows
    }

    fn n_points(&self, kernel: &KernelSpec) -> usize {
        kernel.body.domain.points(Class::Row)
    }

    fn vector_width(&self, kernel: &KernelSpec, operand: usize) -> usize {
        self.width_of_operand(&kernel.body, operand)
    }

    fn more_bodies(&self) -> Vec<&FusedBody> {
        vec![&self.query.body, &self.key.body, &self.value.body, &self.end]
    }

    fn writes_tensors(&self) -> bool {
        self.parts == 1
    }

    fn without_stores(&self, kernel: &KernelSpec) -> Option<KernelSpec> {
        let mut checks = self.clone();
        checks.end.insts.retain(|inst| !matches!(inst.op, FusedOp::Store { .. }));
        Some(kernel.without_stores().with_schedule(checks))
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let (rows, buffers, n_rows) = (&kernel.kernel.body, kernel.buffers, kernel.points());
        let device = code.device;
        let layout = self.layout(rows, device);
        let words = code.shared(U32, layout.n_words);
        let unit = code.builtin(Builtin::UnitPosX);
        let block_number = code.builtin(Builtin::CubePos);
        // A block past the last row computes row 0 again and writes nothing.
        let is_row = (!device.has_exact_grid).then(|| code.less(block_number, n_rows));
        let row = is_row.map_or(block_number, |is_row| {
            let first_row = code.at(0);
            code.select(is_row, block_number, first_row)
        });
        let memory = BlockMemory { buffers, words, scores: buffers.operands.len() };
        let query = code.divided(row, self.parts);
        let block = Block {
            form: self,
            layout,
            memory: &memory,
            unit,
            plane: code.divided(unit, device.plane),
            lane: code.modulo(unit, device.plane),
            row,
            query,
            keys: self.keys_of(code, row, query),
        };
        block.load_query(code)?;
        code.sync();
        block.score(code)?;
        code.sync();
        let shared = SharedWords { array: words, start: block.layout.exchange };
        row_by(code, block.body(rows), self.plan(device), Some(shared), n_rows)?;
        code.sync();
        block.weigh(code)?;
        code.sync();
        let Some(is_row) = is_row else { return block.finish(code) };
        let mut result = Ok(());
        code.when(is_row, |code| result = block.finish(code));
        result
    }
}

impl AttentionByBlock {
    /// The piece of keys and values of a row of scores: a whole matrix, or a part of one.
    fn keys_of(&self, code: &mut Code, row: Variable, query: Variable) -> Variable {
        let matrix = code.divided(query, self.m);
        if self.parts == 1 {
            return matrix;
        }
        let before = code.scaled(matrix, self.parts as i64);
        let part = code.modulo(row, self.parts);
        code.add_at(before, part)
    }
}

/// The operands of the kernel, and the scores in shared memory.
struct BlockMemory<'k> {
    buffers: &'k Buffers,
    words: Variable,
    scores: usize,
}

impl BlockMemory<'_> {
    fn word(&self, code: &mut Code, place: Variable) -> Variable {
        let word = code.load(self.words, place);
        code.reinterpret(F32, word)
    }

    fn set_word(&self, code: &mut Code, place: Variable, value: Variable) {
        let word = code.reinterpret(U32, value);
        code.store(self.words, place, word);
    }
}

impl Memory for BlockMemory<'_> {
    fn is_empty(&self, operand: usize) -> bool {
        operand != self.scores && self.buffers.is_empty(operand)
    }

    fn load(&self, code: &mut Code, operand: usize, index: Variable) -> Variable {
        if operand == self.scores { self.word(code, index) } else { self.buffers.load(code, operand, index) }
    }

    fn store(&self, code: &mut Code, operand: usize, index: Variable, value: Variable) {
        match operand == self.scores {
            true => self.set_word(code, index, value),
            false => self.buffers.store(code, operand, index, value),
        }
    }

    fn load_vector(&self, code: &mut Code, operand: usize, first: Variable, width: usize) -> Vec<Variable> {
        self.buffers.load_vector(code, operand, first, width)
    }

    fn store_vector(&self, code: &mut Code, operand: usize, first: Variable, values: &[Variable]) {
        self.buffers.store_vector(code, operand, first, values);
    }

    fn constant(&self, _: usize) -> Option<Variable> {
        None
    }
}

/// A block with its row of scores.
struct Block<'k> {
    form: &'k AttentionByBlock,
    layout: Layout,
    memory: &'k BlockMemory<'k>,
    unit: Variable,
    plane: Variable,
    lane: Variable,
    /// The number of the block's row of scores, among all parts of rows.
    row: Variable,
    /// The row of the query.
    query: Variable,
    /// The number of the block's keys and values, in pieces of so many.
    keys: Variable,
}

impl<'k> Block<'k> {
    fn body(&self, body: &'k FusedBody) -> BodyCode<'k> {
        BodyCode { body, buffers: self.memory, shared: self.memory.buffers }
    }

    fn load_query(&self, code: &mut Code) -> Result<(), CodegenError> {
        let AttentionByBlock { k, query, .. } = self.form;
        let row = self.row_of(code, query, self.query)?;
        self.strided_loop(code, self.unit, *k, self.form.n_threads(code.device), |code, column| {
            let value = self.elements(code, query, (self.query, &row), column, 1)?[0];
            let start = code.at(self.layout.query as i64);
            let place = code.add_at(start, column);
            self.memory.set_word(code, place, value);
            Ok(())
        })
    }

    /// Each team multiplies its keys with the query.
    fn score(&self, code: &mut Code) -> Result<(), CodegenError> {
        let AttentionByBlock { k, key, .. } = self.form;
        let width = vector_group::width(&key.body, *k);
        let team = self.team(code, *k, width);
        self.items(code, &team, |code, items| {
            let zero = code.float(F32, 0.0);
            let sums: Vec<Variable> = items.iter().map(|_| code.mutable(zero)).collect();
            let rows =
                items.iter().map(|item| self.row_of(code, key, item.row)).collect::<Result<Vec<_>, _>>()?;
            let first = code.scaled(team.lane, width as i64);
            self.strided_loop(code, first, *k, team.lanes * width, |code, column| {
                let start = code.at(self.layout.query as i64);
                let start = code.add_at(start, column);
                let places = Group::from(code, start, width).points;
                let query: Vec<Variable> = places.into_iter().map(|at| self.memory.word(code, at)).collect();
                for ((item, row), &sum) in items.iter().zip(&rows).zip(&sums) {
                    let values = self.elements(code, key, (item.row, row), column, width)?;
                    let total =
                        query.iter().zip(values).fold(sum, |total, (&q, value)| code.fma(q, value, total));
                    code.assign(sum, total);
                }
                Ok(())
            })?;
            for (item, sum) in items.iter().zip(sums) {
                let total = State { monoid: Monoid::Sum, parts: vec![code.snapshot(sum)], skips_nan: false };
                let total = butterfly(code, total, team.lanes).parts[0];
                let zero = code.at(0);
                let is_first = code.cmp(Comparison::Equal, team.lane, zero);
                let is_writer = code.and(is_first, item.is_inside);
                code.when(is_writer, |code| self.memory.set_word(code, item.position, total));
            }
            Ok(())
        })
    }

    /// Each team adds up its values, multiplied by their weights, and each warp its teams.
    fn weigh(&self, code: &mut Code) -> Result<(), CodegenError> {
        let AttentionByBlock { width: n_columns, value, .. } = self.form;
        let width = vector_group::width(&value.body, *n_columns);
        let team = self.team(code, *n_columns, width);
        let first = code.scaled(team.lane, width as i64);
        let columns: Vec<Variable> = (0..n_columns.div_ceil(team.lanes * width))
            .map(|round| {
                let offset = code.at((round * team.lanes * width) as i64);
                code.add_at(first, offset)
            })
            .collect();
        let zero = code.float(F32, 0.0);
        let sums: Vec<Vec<Variable>> =
            columns.iter().map(|_| (0..width).map(|_| code.mutable(zero)).collect()).collect();
        let end = code.at(*n_columns as i64);
        self.items(code, &team, |code, items| {
            let rows =
                items.iter().map(|item| self.row_of(code, value, item.row)).collect::<Result<Vec<_>, _>>()?;
            let weights: Vec<Variable> =
                items.iter().map(|item| self.memory.word(code, item.position)).collect();
            for (&column, sums) in columns.iter().zip(&sums) {
                let is_column = code.less(column, end);
                let mut result = Ok(());
                code.when(is_column, |code| {
                    result = items.iter().zip(&rows).zip(&weights).try_for_each(|((item, row), &weight)| {
                        let values = self.elements(code, value, (item.row, row), column, width)?;
                        for (value, &sum) in values.into_iter().zip(sums) {
                            let next = code.fma(weight, value, sum);
                            let next = code.select(item.is_inside, next, sum);
                            code.assign(sum, next);
                        }
                        Ok(())
                    });
                });
                result?;
            }
            Ok(())
        })?;
        let before = code.scaled(self.plane, *n_columns as i64);
        let start = code.at(self.layout.sums as i64);
        let start = code.add_at(start, before);
        for (column, sums) in columns.into_iter().zip(sums) {
            let totals: Vec<Variable> =
                sums.into_iter().map(|sum| self.over_teams(code, &team, sum)).collect();
            // The first team has the lowest columns; those of the others are behind the end.
            let of_warp = code.scaled(self.lane, width as i64);
            let column = if team.per_warp > 1 { of_warp } else { column };
            let is_column = code.less(column, end);
            code.when(is_column, |code| {
                let first = code.add_at(start, column);
                let places = Group::from(code, first, width).points;
                for (place, total) in places.into_iter().zip(totals) {
                    self.memory.set_word(code, place, total);
                }
            });
        }
        Ok(())
    }

    /// The sum of a warp's teams, whose lanes have the same columns.
    fn over_teams(&self, code: &mut Code, team: &Team, sum: Variable) -> Variable {
        let mut total = code.snapshot(sum);
        let mut distance = team.lanes;
        while distance < code.device.plane {
            let other = code.shuffle_xor(total, distance as u32);
            total = code.bin(Arithmetic::Add, total, other);
            distance *= 2;
        }
        total
    }

    /// Adds up the warps' partial sums, and runs the epilogue at each column.
    fn finish(&self, code: &mut Code) -> Result<(), CodegenError> {
        let AttentionByBlock { width, end, .. } = self.form;
        let body = self.body(end);
        self.strided_loop(code, self.unit, *width, self.form.n_threads(code.device), |code, column| {
            let start = code.at(self.layout.sums as i64);
            let first = code.add_at(start, column);
            let mut total = self.memory.word(code, first);
            for plane in 1..self.form.planes {
                let offset = code.at((plane * width) as i64);
                let place = code.add_at(first, offset);
                let part = self.memory.word(code, place);
                total = code.bin(Arithmetic::Add, total, part);
            }
            let is_sum = |inst: &FusedInst| inst.op == FusedOp::Accumulator;
            let registers = end.insts.iter().map(|inst| is_sum(inst).then_some(total)).collect();
            let before = code.scaled(self.row, *width as i64);
            let point = code.add_at(before, column);
            at_point(code, &body, point, registers)
        })
    }

    // ---- Sources.

    /// The registers of a source that are computed once per row.
    fn row_of(
        &self,
        code: &mut Code,
        source: &'k SourceForm,
        row: Variable,
    ) -> Result<Registers, CodegenError> {
        let insts = &source.body.insts;
        let mut base = vec![None; insts.len()];
        let once = (0..insts.len()).filter(|&reg| insts[reg].class != Class::Element);
        self.body(&source.body).run(code, once, row, &mut base)?;
        Ok(base)
    }

    /// Neighbouring elements of a row, in `f32`.
    fn elements(
        &self,
        code: &mut Code,
        source: &'k SourceForm,
        (row, base): (Variable, &Registers),
        column: Variable,
        width: usize,
    ) -> Result<Vec<Variable>, CodegenError> {
        let insts = &source.body.insts;
        let before = code.scaled(row, source.body.domain.row as i64);
        let first = code.add_at(before, column);
        let group = Group::from(code, first, width);
        let mut registers = vec![base.clone(); width];
        let elements = (0..insts.len()).filter(|&reg| insts[reg].class == Class::Element);
        self.body(&source.body).run_group(code, elements, &group, &mut registers)?;
        let dtype = insts[source.value].dtype;
        let value = |registers: &Registers| {
            let value = registers[source.value].unwrap_or_else(|| crate::bug!("a source without its value"));
            // A loaded value without further instructions still has its type in memory.
            let is_wide = value.elem_type() == code.device.register(dtype);
            let value = if is_wide { value } else { widened(code, dtype, value) };
            code.cast(F32, value)
        };
        Ok(registers.iter().map(value).collect())
    }

    // ---- Loops.

    /// `body` at `start`, `start + step`, … below `end`.
    fn strided_loop(
        &self,
        code: &mut Code,
        start: Variable,
        end: usize,
        step: usize,
        body: impl FnOnce(&mut Code, Variable) -> Result<(), CodegenError>,
    ) -> Result<(), CodegenError> {
        let end = code.at(end as i64);
        let mut result = Ok(());
        code.range(start, end, step as i64, |code, i| result = body(code, i));
        result
    }

    /// The team of this thread for rows of `length` elements in vectors of `width`.
    fn team(&self, code: &mut Code, length: usize, width: usize) -> Team {
        let plane = code.device.plane;
        let lanes = length.div_ceil(width).next_power_of_two().min(plane);
        let [number, lane] = [code.divided(self.lane, lanes), code.modulo(self.lane, lanes)];
        Team { lanes, per_warp: plane / lanes, number, lane }
    }

    /// `body` at the keys of this thread's team, some at a time. All teams of a warp take the same number of rounds.
    fn items(
        &self,
        code: &mut Code,
        team: &Team,
        body: impl FnOnce(&mut Code, &[Item]) -> Result<(), CodegenError>,
    ) -> Result<(), CodegenError> {
        let AttentionByBlock { n, planes, .. } = *self.form;
        let together = (n / (planes * team.per_warp)).clamp(1, ITEMS_TOGETHER);
        let of_warp = together * team.per_warp;
        let first = code.scaled(self.plane, of_warp as i64);
        self.strided_loop(code, first, n, planes * of_warp, |code, start| {
            let before = code.scaled(self.keys, n as i64);
            let own = code.add_at(start, team.number);
            let items: Vec<Item> = (0..together)
                .map(|i| {
                    let position = code.at_offset(own, i * team.per_warp);
                    let end = code.at(n as i64);
                    let is_inside = code.less(position, end);
                    // Past the end, the last key is read again and ignored.
                    let last = code.at(n as i64 - 1);
                    let position = code.select(is_inside, position, last);
                    Item { position, row: code.add_at(before, position), is_inside }
                })
                .collect();
            body(code, &items)
        })
    }
}

/// Neighbouring threads of a warp that share a key or a value.
struct Team {
    /// Its threads; a power of two.
    lanes: usize,
    /// The teams of a warp.
    per_warp: usize,
    /// Its number in the warp.
    number: Variable,
    /// This thread's number in it.
    lane: Variable,
}

/// A key or a value.
struct Item {
    /// Its position in the matrix.
    position: Variable,
    /// Its row, counted through all matrices.
    row: Variable,
    /// Whether its position exists.
    is_inside: Variable,
}
