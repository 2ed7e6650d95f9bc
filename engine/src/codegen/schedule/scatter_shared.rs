//! Sums into few elements, such as counts and sums by label. Updates of one element in memory wait for each other, so each
//! block adds its part of the updates in shared memory, and then these sums to the result.
//!
//! A block has a tile of columns, so that the sums of its rows fit. Threads load several updates before they add the
//! first one, to hide latency. Neighbours that a thread adds lie half a row apart in shared memory, so that the threads of
//! a warp use different banks.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32, U32};
use crate::codegen::kernel::{KernelCode, KernelSpec, Schedule};
use crate::codegen::operand::OperandForm;
use crate::codegen::ops::body::BodyCode;
use crate::codegen::ops::vector_group::{self, Group};
use crate::codegen::schedule::map::{registers_at_point, registers_of_group};
use crate::codegen::schedule::scatter_update::{
    Index, add_atomically, atomic_width, computed, is_in_any_order,
};
use crate::codegen::types::THREADS;
use crate::device_model::DeviceModel;
use crate::fusion::{FusedInst, Kernel, Reg, ScatterBody};
use crate::ir::DType;
use cubecl_core::ir::{Builtin, Comparison, ElemType, Variable};

/// The most elements that a block adds to.
const MOST_ELEMENTS: usize = 8192;
/// The fewest updates, and the fewest of an element.
const FEWEST_UPDATES: usize = 1 << 16;
const FEWEST_OF_ELEMENT: usize = 32;
/// Blocks of a processor that hide the latency of updates. With fewer blocks, floats are added in memory, unless an element
/// has so many updates that they would wait for each other: 2^20 updates of 128 elements take 208 us on an H200.
const BLOCKS_OF_PROCESSOR: usize = 4;
const CROWDED: usize = 1024;
/// The fewest updates of a thread, and those of a block for each of its elements.
const EACH: usize = 32;
const UPDATES_OF_ELEMENT: usize = 8;
/// The narrowest tile of columns: a sector of 32 bytes of halves.
const NARROWEST_TILE: usize = 16;
/// Neighbours that a thread adds, and groups of them that it loads together.
const MOST_NEIGHBOURS: usize = 2;
const LOADED_TOGETHER: usize = 8;
/// The longest body whose code is repeated for that.
const MOST_INSTRUCTIONS: usize = 64;

/// A sum by blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterShared {
    result: usize,
    index: Index,
    update: Reg,
    dtype: DType,
    tiling: Tiling,
    /// Neighbouring updates of a thread, groups of them that it loads together, and neighbouring sums that it adds to
    /// memory.
    width: usize,
    n_loaded: usize,
    sum_width: usize,
    /// Whether the launch only evaluates assertions.
    only_checks: bool,
}

/// The work of blocks: a group of rows, a part of its updates and a tile of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tiling {
    /// Rows of updates for each leading index, rows of the result likewise, and columns of both.
    indices: usize,
    indexed: usize,
    after: usize,
    /// Parts of the result that blocks add to on their own, and the leading indices of each.
    n_groups: usize,
    leads: usize,
    /// Columns of a tile.
    tile: usize,
}

impl Tiling {
    /// The widest tiles of columns whose sums fit into shared memory, and which leave enough blocks if that can be. None if
    /// additions in memory are as fast.
    fn of(body: &ScatterBody, is_int: bool, device: DeviceModel) -> Option<Tiling> {
        let [batch, before, indexed, indices, after] = body.extents;
        let (all, most) = (batch * before, MOST_ELEMENTS.min(device.shared_bytes / U32.size()));
        let (n_groups, leads) = if all * indexed * after <= most { (1, all) } else { (all, 1) };
        let mut tiling = Tiling { indices, indexed, after, n_groups, leads, tile: after };
        let has_blocks = |tiling: &Tiling| tiling.n_blocks() >= BLOCKS_OF_PROCESSOR * device.n_processors;
        while tiling.can_halve() && (tiling.n_elements() > most || !has_blocks(&tiling)) {
            tiling.tile /= 2;
        }
        let of_element = tiling.n_updates() / tiling.n_elements().max(1);
        let is_worth_it = match is_int || has_blocks(&tiling) {
            true => of_element >= FEWEST_OF_ELEMENT,
            false => of_element >= CROWDED,
        };
        let fits = tiling.n_elements() <= most && tiling.n_updates() >= FEWEST_UPDATES;
        (fits && is_worth_it).then_some(tiling)
    }

    fn can_halve(&self) -> bool {
        self.tile.is_multiple_of(2) && self.tile / 2 >= NARROWEST_TILE
    }

    fn n_tiles(&self) -> usize {
        self.after / self.tile.max(1)
    }

    /// Rows of the result that a block adds to.
    fn n_rows(&self) -> usize {
        self.leads * self.indexed
    }

    fn n_elements(&self) -> usize {
        self.n_rows() * self.tile
    }

    /// Updates of a group in a tile.
    fn n_updates(&self) -> usize {
        self.leads * self.indices * self.tile
    }

    /// Updates of a block.
    fn n_each(&self) -> usize {
        (THREADS * EACH).max((UPDATES_OF_ELEMENT * self.n_elements()).next_multiple_of(THREADS))
    }

    fn n_parts(&self) -> usize {
        self.n_updates().div_ceil(self.n_each()).max(1)
    }

    fn n_blocks(&self) -> usize {
        self.n_groups * self.n_parts() * self.n_tiles()
    }
}

/// The launch of a scatter's updates; none if another schedule is faster.
pub fn launch(kernel: &Kernel, body: &ScatterBody, device: DeviceModel) -> Option<KernelSpec> {
    let ScatterBody { update, result, index, .. } = *body;
    let dtype = kernel.operands[result].ty.dtype;
    let is_added = match dtype {
        DType::I32 | DType::U32 => true,
        DType::F32 => device.adds_shared_f32,
        _ => false,
    };
    let is_checked = |(reg, inst): (Reg, &FusedInst)| reg > index && inst.assertion().is_some();
    let checks_updates = body.updates.insts.iter().enumerate().any(is_checked);
    if !is_added || !is_in_any_order(body, dtype, device) || checks_updates {
        return None;
    }
    let tiling = Tiling::of(body, dtype.is_int(), device)?;
    let is_short = body.updates.insts.len() <= MOST_INSTRUCTIONS;
    let schedule = ScatterShared {
        result,
        index: Index::of(body),
        update,
        dtype,
        tiling,
        width: vector_group::width(&body.updates, tiling.tile).min(MOST_NEIGHBOURS),
        n_loaded: if is_short { LOADED_TOGETHER } else { 1 },
        sum_width: atomic_width(dtype, tiling.tile, device),
        only_checks: false,
    };
    let mut operands = OperandForm::of(kernel);
    operands[result].is_atomic = true;
    Some(KernelSpec::new(body.updates.clone(), schedule, operands, device))
}

impl Schedule for ScatterShared {
    fn entry(&self) -> &'static str {
        "scatter_shared"
    }

    fn blocks(&self, _: &KernelSpec, _: usize) -> usize {
        self.tiling.n_blocks()
    }

    fn n_points(&self, _: &KernelSpec) -> usize {
        self.tiling.n_groups * self.tiling.n_updates() * self.tiling.n_tiles()
    }

    fn without_stores(&self, kernel: &KernelSpec) -> Option<KernelSpec> {
        let checks = ScatterShared { only_checks: true, ..self.clone() };
        Some(kernel.without_stores().with_schedule(checks))
    }

    fn emit(&self, code: &mut Code, kernel: &KernelCode) -> Result<(), CodegenError> {
        let body = kernel.body();
        let block = Block::of(code, &self.tiling);
        if self.only_checks {
            let mut result = Ok(());
            let start = code.add_at(block.start, block.unit);
            code.range(start, block.end, THREADS as i64, |code, position| {
                let (row, _) = self.tiling.place(code, &block, position);
                result = self.index.registers(code, &body, row).map(drop);
            });
            return result;
        }
        let elem = self.elem();
        let sums = code.shared_atomics(elem, self.tiling.n_elements());
        let end = code.at(self.tiling.n_elements() as i64);
        code.range(block.unit, end, THREADS as i64, |code, element| {
            let (place, zero) = (code.place(sums, element), code.constant(elem, 0.0));
            code.atomic_store(place, zero);
        });
        code.sync();
        let mut result = Ok(());
        let step = (THREADS * self.width * self.n_loaded) as i64;
        code.range(block.start, block.end, step, |code, first| {
            result = self.add(code, &body, (sums, &block), first);
        });
        code.sync();
        self.add_sums(code, &body, sums, &block);
        result
    }
}

/// The place of a thread in its block, and of the block in the work.
struct Block {
    unit: Variable,
    group: Variable,
    /// The first column of the tile.
    column: Variable,
    /// The positions of the block among the updates of the group in the tile.
    start: Variable,
    end: Variable,
}

impl Block {
    fn of(code: &mut Code, tiling: &Tiling) -> Block {
        let (block, unit) = (code.builtin(Builtin::CubePos), code.builtin(Builtin::UnitPosX));
        let (rest, tile) = (code.divided(block, tiling.n_tiles()), code.modulo(block, tiling.n_tiles()));
        let (group, part) = (code.divided(rest, tiling.n_parts()), code.modulo(rest, tiling.n_parts()));
        let column = code.scaled(tile, tiling.tile as i64);
        let start = code.scaled(part, tiling.n_each() as i64);
        let end = code.at_offset(start, tiling.n_each());
        let last = code.at(tiling.n_updates() as i64);
        let is_last = code.less(last, end);
        let end = code.select(is_last, last, end);
        // A GPU may launch more blocks.
        let n_groups = code.at(tiling.n_groups as i64);
        let is_group = code.less(group, n_groups);
        let end = code.select(is_group, end, start);
        Block { unit, group, column, start, end }
    }
}

/// A group of updates that a thread has loaded.
struct Loaded {
    /// Whether it exists and lies inside the indexed axis.
    is_inside: Variable,
    /// Its row in shared memory, and the first of its columns.
    row: Variable,
    column: Variable,
    updates: Vec<Variable>,
}

impl Tiling {
    /// The row of updates and the column of a position.
    fn place(&self, code: &mut Code, block: &Block, position: Variable) -> (Variable, Variable) {
        let (row, column) = (code.divided(position, self.tile), code.modulo(position, self.tile));
        let first = code.scaled(block.group, (self.leads * self.indices) as i64);
        (code.add_at(first, row), column)
    }
}

impl ScatterShared {
    /// The type of sums in shared memory.
    fn elem(&self) -> ElemType {
        if self.dtype.is_int() { U32 } else { F32 }
    }

    /// Adds neighbouring updates of each thread in shared memory. Those of the block start at position `first`.
    fn add(
        &self,
        code: &mut Code,
        body: &BodyCode,
        (sums, block): (Variable, &Block),
        first: Variable,
    ) -> Result<(), CodegenError> {
        let of_thread = code.scaled(block.unit, self.width as i64);
        let first = code.add_at(first, of_thread);
        let loaded = (0..self.n_loaded).map(|i| {
            let position = code.at_offset(first, i * THREADS * self.width);
            self.loaded(code, body, block, position)
        });
        let loaded: Vec<Loaded> = loaded.collect::<Result<_, _>>()?;
        for Loaded { is_inside, row, column, updates } in loaded {
            code.when(is_inside, |code| {
                let first = self.element(code, row, column);
                for (i, &update) in updates.iter().enumerate() {
                    let element = code.at_offset(first, i * self.distance());
                    let (place, update) = (code.place(sums, element), code.cast(self.elem(), update));
                    code.atomic_add(place, update);
                }
            });
        }
        Ok(())
    }

    /// The updates from a position on; those at the start of the block if it has no such position.
    fn loaded(
        &self,
        code: &mut Code,
        body: &BodyCode,
        block: &Block,
        position: Variable,
    ) -> Result<Loaded, CodegenError> {
        let Tiling { indices, indexed, after, leads, tile, .. } = self.tiling;
        let is_there = code.less(position, block.end);
        let position = code.select(is_there, position, block.start);
        let (row, column) = self.tiling.place(code, block, position);
        let registers = self.index.registers(code, body, row)?;
        let (index, is_inside) = self.index.of_registers(code, body, &registers);
        let start = code.scaled(row, after as i64);
        let of_tile = code.add_at(block.column, column);
        let point = code.add_at(start, of_tile);
        code.note_place(point, after, row, of_tile);
        let registers = match self.width {
            1 => vec![registers_at_point(code, body, point, registers)?],
            width => {
                let group = Group::from(code, point, width);
                registers_of_group(code, body, &group, registers)?
            }
        };
        let lead = match leads {
            1 => code.at(0),
            _ => {
                let row = code.divided(position, tile);
                code.divided(row, indices)
            }
        };
        let of_lead = code.scaled(lead, indexed as i64);
        let index = code.cast(code.index, index);
        Ok(Loaded {
            is_inside: code.and(is_there, is_inside),
            row: code.add_at(of_lead, index),
            column,
            updates: registers.iter().map(|registers| computed(registers, self.update)).collect(),
        })
    }

    /// The element in shared memory of a column of a tile. The next column of a thread is half a row behind, if it has two.
    fn element(&self, code: &mut Code, row: Variable, column: Variable) -> Variable {
        let (start, pair) = (code.scaled(row, self.tiling.tile as i64), code.divided(column, self.width));
        let number = code.modulo(column, self.width);
        let apart = code.scaled(number, self.distance() as i64);
        let place = code.add_at(pair, apart);
        code.add_at(start, place)
    }

    /// The distance of a thread's neighbours in shared memory.
    fn distance(&self) -> usize {
        self.tiling.tile / self.width
    }

    /// Adds the sums of a block to the result, neighbours with one instruction.
    fn add_sums(&self, code: &mut Code, body: &BodyCode, sums: Variable, block: &Block) {
        let Tiling { after, tile, .. } = self.tiling;
        let width = self.sum_width;
        let first_row = code.scaled(block.group, self.tiling.n_rows() as i64);
        let (start, end) = (code.scaled(block.unit, width as i64), code.at(self.tiling.n_elements() as i64));
        code.range(start, end, (THREADS * width) as i64, |code, first| {
            let (row, column) = (code.divided(first, tile), code.modulo(first, tile));
            let values = (0..width).map(|i| {
                let column = code.at_offset(column, i);
                let element = self.element(code, row, column);
                let place = code.place(sums, element);
                code.atomic_load(self.elem(), place)
            });
            let values: Vec<Variable> = values.collect();
            let zero = code.constant(self.elem(), 0.0);
            let mut is_some = code.cmp(Comparison::NotEqual, values[0], zero);
            for &value in &values[1..] {
                let is_other = code.cmp(Comparison::NotEqual, value, zero);
                is_some = code.or(is_some, is_other);
            }
            code.when(is_some, |code| {
                let register = code.device.register(self.dtype);
                let values: Vec<Variable> = values.iter().map(|&value| code.cast(register, value)).collect();
                let row = code.add_at(first_row, row);
                let start = code.scaled(row, after as i64);
                let of_tile = code.add_at(block.column, column);
                let element = code.add_at(start, of_tile);
                let buffers = body.shared;
                buffers.unless_failed(code, |code| {
                    add_atomically(code, buffers, (self.result, element), &values);
                });
            });
        });
    }
}
