//! The plan of a row kernel: threads of a row, rows of a block, and what a thread holds in registers.
//!
//! A reduction splits a body in two: its operands must be known along the whole row before its users can start. The
//! *pass* of an instruction is the number of reductions on the way to it. Rows of up to [`LONGEST_HELD`] elements stay
//! in registers from pass to pass; longer ones are read again in each.

use crate::codegen::analysis::cost::cost;
use crate::codegen::analysis::operands::operands;
use crate::codegen::ops::vector_group;
use crate::codegen::types::PLANE;
use crate::device_model::DeviceModel;
use crate::fusion::{Class, Domain, FusedBody, FusedInst, FusedOp};

/// The longest row that is held in registers.
pub const LONGEST_HELD: usize = 32768;
/// Elements of a thread, unless the row is too long for so many threads.
const MOST_COPIES: usize = 8;
/// Vectors of a thread, if they are of more elements: enough loads under way at once, with few threads to wait for.
const VECTORS: usize = 2;
/// Elements that a thread holds, at most.
const MOST_HELD: usize = 32;

/// Columns that share threads with more neighbours than fill a line of memory have too few threads each from here on.
const LONG_COLUMN: usize = 1024;
/// Elements that fill a line of memory.
const NEIGHBOURS: usize = 8;
/// The most threads that columns of a block share.
const MOST_THREADS: usize = 1024;

/// Who computes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowPlan {
    /// Threads that share a row; a power of two.
    pub threads: usize,
    /// Rows of a cube.
    pub rows: usize,
    /// Neighbours that a thread takes at once.
    pub width: usize,
    /// Groups of neighbours that each thread holds; none if it reads them again in each pass.
    pub groups: Option<usize>,
    /// Whether neighbouring threads work on neighbouring rows rather than elements: rows that are not contiguous.
    pub is_across: bool,
}

impl RowPlan {
    /// By the length of the row: up to a plane of threads for a short one, a block for a longer one. Neighbours read
    /// neighbours, so a plane goes across rows that are not contiguous.
    pub fn of(body: &FusedBody, device: DeviceModel) -> RowPlan {
        let Domain { row, inner, .. } = body.domain;
        if inner > 1 {
            let threads = row.div_ceil(MOST_COPIES).next_power_of_two();
            let width = if row < LONG_COLUMN { PLANE } else { NEIGHBOURS };
            let threads = threads.min(device.most_threads / width).min(MOST_THREADS / width);
            let rows = if threads == 1 { 128 } else { width };
            let groups = (row <= MOST_COPIES * PLANE).then_some(row.div_ceil(threads));
            return RowPlan { threads, rows, width: 1, groups, is_across: true };
        }
        let width = vector_group::width(body, row);
        let n_groups = row / width;
        let copies = MOST_COPIES.max(VECTORS * width);
        let threads = match row {
            0..=256 => n_groups.div_ceil(groups_of_short(body, n_groups)).next_power_of_two().min(PLANE),
            _ => row.div_ceil(copies).next_power_of_two().min(device.most_threads).min(device.row_threads),
        };
        let is_held = row <= LONGEST_HELD.min(MOST_HELD * device.most_threads)
            && (row <= MOST_HELD * threads || !(is_read_once(body) || is_packed(body, device)));
        let groups = is_held.then_some(n_groups.div_ceil(threads));
        // A long row is a block's own: what its planes talk through belongs to one row.
        let rows = if threads <= PLANE { rows_of_block(body, device, threads) } else { 1 };
        RowPlan { threads, rows, width, groups, is_across: false }
    }

    /// Threads of a cube.
    pub fn block_threads(&self) -> usize {
        self.threads * self.rows
    }
}

/// Short rows of a block of 256 threads, or of fewer, a plane at least, if there are so few rows that processors would go
/// without one: next to nothing but waiting for memory remains then, and each processor waits for less.
fn rows_of_block(body: &FusedBody, device: DeviceModel, threads: usize) -> usize {
    let share = body.domain.points(Class::Row).div_ceil(device.n_processors).next_power_of_two();
    share.clamp(device.plane.max(PLANE) / threads, 256 / threads)
}

/// Whether nothing is computed of a row's elements once something of the whole row is known.
fn is_read_once(body: &FusedBody) -> bool {
    let insts = body.insts.iter().zip(passes(body));
    insts.filter(|(inst, _)| inst.class == Class::Element && !is_reduce(&inst.op)).all(|(_, pass)| pass == 0)
}

/// Whether what is read of a row's elements before anything of the whole row is known lies packed in memory, where it
/// takes half of the registers' room or less, and nothing slow is computed of it, which each pass would compute again.
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

/// Groups of a thread of a short row: with several, fewer threads exchange what they found. Where there is nothing to
/// exchange, more threads wait for memory at once.
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
