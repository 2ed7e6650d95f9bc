//! The plan of a row kernel: threads of a row, rows of a block, and elements in registers.
//!
//! A reduction splits a body in two: its operand must be known along the whole row before its users can start. The
//! *pass* of an instruction is the number of reductions on the way to it. Rows of up to [`LONGEST_HELD`] elements
//! stay in registers from pass to pass; longer ones are read again in each.

use crate::codegen::analysis::cost::cost;
use crate::codegen::analysis::operands::operands;
use crate::codegen::ops::vector_group;
use crate::codegen::types::PLANE;
use crate::device_model::DeviceModel;
use crate::fusion::{Class, Domain, FusedBody, FusedInst, FusedOp};

/// The longest row that stays in registers.
pub const LONGEST_HELD: usize = 32768;
/// Elements per thread, unless the row is too long for the threads of a block.
const ELEMENTS_PER_THREAD: usize = 8;
/// Vectors per thread, if they have more than [`ELEMENTS_PER_THREAD`] elements. Two loads hide latency, and few threads
/// share a barrier.
const VECTORS_PER_THREAD: usize = 2;
/// The most elements per thread in registers.
const MOST_HELD: usize = 32;

/// Threads that fill a processor.
const FULL_PROCESSOR: usize = 1024;

/// The shortest strided row whose blocks take [`NEIGHBOURS`] rows instead of a warp's. With a whole warp of rows,
/// too few threads would share each row.
pub const LONG_COLUMN: usize = 1024;
/// Neighbouring rows that fill a cache line.
const NEIGHBOURS: usize = 8;
/// The most threads of a block for strided rows.
const MOST_THREADS: usize = 1024;

/// The division of rows among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowPlan {
    /// Threads that share a row; a power of two.
    pub threads: usize,
    /// Rows of a block.
    pub rows: usize,
    /// Neighbours that a thread accesses as one vector.
    pub width: usize,
    /// Groups of neighbours that each thread holds in registers; none if each pass reads them again.
    pub groups: Option<usize>,
    /// Whether neighbouring threads have neighbouring rows, not elements: for strided rows.
    pub is_across: bool,
}

impl RowPlan {
    /// The plan for the body's row length: up to a warp of threads for a short row, up to a block for a longer
    /// one. Loads are coalesced, so a warp goes across strided rows.
    pub fn of(body: &FusedBody, device: DeviceModel) -> RowPlan {
        let Domain { row, inner, .. } = body.domain;
        if inner > 1 {
            let n_each = if has_many_rows(body, device) { MOST_HELD } else { ELEMENTS_PER_THREAD };
            let threads = row.div_ceil(n_each).next_power_of_two();
            let width = if row < LONG_COLUMN { PLANE } else { NEIGHBOURS };
            let threads = threads.min(device.most_threads / width).min(MOST_THREADS / width);
            let rows = if threads == 1 { 128 } else { width };
            let groups = (row <= ELEMENTS_PER_THREAD * PLANE).then_some(row.div_ceil(threads));
            return RowPlan { threads, rows, width: 1, groups, is_across: true };
        }
        let width = vector_group::width(body, row);
        let n_groups = row / width;
        let n_elements = ELEMENTS_PER_THREAD.max(VECTORS_PER_THREAD * width);
        let threads = match row {
            0..=256 => n_groups.div_ceil(groups_of_short(body, n_groups)).next_power_of_two().min(PLANE),
            _ => {
                row.div_ceil(n_elements).next_power_of_two().min(device.most_threads).min(device.row_threads)
            }
        };
        let is_held = row <= LONGEST_HELD.min(MOST_HELD * device.most_threads)
            && (row <= MOST_HELD * threads || !(is_read_once(body) || is_packed(body, device)));
        let groups = is_held.then_some(n_groups.div_ceil(threads));
        // A long row has a block of its own, as its warps exchange states through shared memory.
        let rows = if threads <= PLANE { rows_of_block(body, device, threads) } else { 1 };
        RowPlan { threads, rows, width, groups, is_across: false }
    }

    /// Threads of a block.
    pub fn block_threads(&self) -> usize {
        self.threads * self.rows
    }
}

/// Whether one thread for each row fills the device.
fn has_many_rows(body: &FusedBody, device: DeviceModel) -> bool {
    body.domain.points(Class::Row) >= device.n_processors * FULL_PROCESSOR
}

/// Rows of a block of 256 threads for short rows. With so few rows that SMs would stay idle, a block has fewer
/// rows, but at least a warp of threads.
fn rows_of_block(body: &FusedBody, device: DeviceModel, threads: usize) -> usize {
    let share = body.domain.points(Class::Row).div_ceil(device.n_processors).next_power_of_two();
    share.clamp(device.plane.max(PLANE) / threads, 256 / threads)
}

/// Whether all element instructions precede the first reduction.
fn is_read_once(body: &FusedBody) -> bool {
    let insts = body.insts.iter().zip(passes(body));
    insts.filter(|(inst, _)| inst.class == Class::Element && !is_reduce(&inst.op)).all(|(_, pass)| pass == 0)
}

/// Whether the loads before the first reduction are packed and their arithmetic is cheap. Packed elements take at
/// most half of the space of registers, and each pass repeats the arithmetic.
fn is_packed(body: &FusedBody, device: DeviceModel) -> bool {
    let first = body.insts.iter().zip(passes(body)).filter(|&(_, pass)| pass == 0).map(|(inst, _)| inst);
    let elements: Vec<&FusedInst> = first.filter(|inst| inst.class == Class::Element).collect();
    let is_load = |inst: &FusedInst| matches!(inst.op, FusedOp::Load { .. });
    let is_cheap = |inst: &FusedInst| match is_load(inst) {
        true => device.lanes(inst.dtype) > 1,
        false => cost(inst, device) <= 1,
    };
    elements.iter().any(|inst| is_load(inst)) && elements.iter().all(|inst| is_cheap(inst))
}

/// Groups per thread of a short row. If threads exchange states, several groups save exchanges. Otherwise more
/// threads hide more latency.
fn groups_of_short(body: &FusedBody, n_groups: usize) -> usize {
    let exchanges = body.insts.iter().any(|inst| is_reduce(&inst.op));
    if exchanges && n_groups > 8 { 4 } else { 1 }
}

/// By instruction: the number of reductions on the way to it.
pub fn passes(body: &FusedBody) -> Vec<usize> {
    let mut passes: Vec<usize> = vec![];
    for inst in &body.insts {
        let pass = operands(&inst.op).into_iter().map(|reg| passes[reg]).max().unwrap_or(0);
        passes.push(pass + matches!(inst.op, FusedOp::Reduce { .. }) as usize);
    }
    passes
}

/// Whether an instruction reduces the row.
pub fn is_reduce(op: &FusedOp) -> bool {
    matches!(op, FusedOp::Reduce { .. })
}
