//! The cut of a domain into groups, blocks and chunks, from the domain alone.
//!
//! A group is a number of whole rows that one worker runs from the first pass to the last, block after block. A chunk is a
//! number of groups. The groups of a few long rows are cut into parts.

use super::super::interp::{Dest, Inst, Op, Program, Span, Spread, Superinstruction};
use engine_core::fusion::{Class, Domain, FusedBody};
use engine_core::ir::Scalar;
use engine_numerics::loops::has_affine_loop;

/// The longest rows that stay in scratch from pass to pass.
const RESIDENT: usize = 16384;
/// The points of a block of longer rows.
const LONG_BLOCK: usize = 4096;
/// Rows up to this length share blocks. Starting a loop takes as long as hundreds of points.
const SHORT_ROW: usize = 1024;
/// The points of a block of short rows.
const SHARED_BLOCK: usize = 4096;
/// The most points of a chunk, unless there are many chunks.
const CHUNK: usize = 16384;
/// The most neighbouring rows of a group, where rows run across memory.
const WIDEST_GROUP: usize = 1024;
/// The least points of a chunk.
const LEAST_CHUNK: usize = 2048;
/// The work of a chunk, in points times simple loops over them: several times the cost of starting it.
const CHUNK_WORK: usize = 3 * CHUNK;
/// The duration of a slow function's loop, next to that of a simple one.
const SLOW: usize = 4;
/// The most chunks that are worth their start.
const MOST_CHUNKS: usize = 256;
/// The points of a part of a row.
const PART: usize = 65536;
/// The bytes of L2 cache that a block of a map takes with all its operands. Long blocks spread the cost of an instruction
/// and read memory in long runs, which matters more than the L1 cache.
const BLOCK_BYTES: usize = 256 * 1024;

/// The points of a map's block that fit the cache with all that the program touches.
pub fn map_block(program: &Program) -> usize {
    let touches = |inst: &&Inst| {
        matches!(inst.op, Op::Load { .. } | Op::Store { .. }) || matches!(inst.dest, Dest::Operand(_))
    };
    let n_touched = program.n_slots + program.passes[0].element.iter().filter(touches).count();
    let block = BLOCK_BYTES / (n_touched.max(1) * program.widest);
    (block / 256 * 256).clamp(1024, 8192)
}

/// The points of a chunk, so that it has enough work but leaves some to other workers.
pub fn chunk_points(program: &Program, n_points: usize) -> usize {
    let work: usize = program.passes.iter().flat_map(|pass| &pass.element).map(work).sum();
    let most = (CHUNK_WORK / work.max(1)).clamp(LEAST_CHUNK, CHUNK);
    most.max(n_points / MOST_CHUNKS)
}

/// The approximate duration of an instruction's loop.
fn work(inst: &Inst) -> usize {
    match &inst.op {
        Op::Super(Superinstruction::Pair { .. } | Superinstruction::Parts { .. }) => 1,
        Op::Super(_) | Op::Random(_) => SLOW,
        Op::Scalar { op: Scalar::Unary(op), .. } if has_affine_loop(*op) => SLOW,
        _ => 1,
    }
}

/// How the points of a domain become blocks.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Whether points are independent. Then each point is a row, and a group is a block.
    pub is_map: bool,
    /// How row values spread over a block. A block of [`Spread::One`] has one row of its group; others have all.
    pub spread: Spread,
    /// The number of bundles. A bundle is a number of rows side by side.
    outer: usize,
    /// The rows of a bundle, or of all of them if groups hold several.
    lines: usize,
    /// The points of a row.
    row: usize,
    /// The distance of a row's points.
    inner: usize,
    /// The neighbouring rows of a group: within a bundle, or those of several whole bundles.
    pub group: usize,
    /// The points of each row in a block.
    step: usize,
    /// The points of each row in a part.
    part: usize,
    /// The points of a chunk.
    chunk: usize,
}

impl Cut {
    pub fn new(body: &FusedBody) -> Cut {
        let Domain { outer, row, inner } = body.domain;
        let has_rows = body.insts.iter().any(|inst| inst.class == Class::Row);
        if !has_rows {
            return Cut::points(outer * row * inner, 1);
        }
        if inner == 1 {
            return Cut::rows(outer, row);
        }
        if row * inner <= SHARED_BLOCK {
            return Cut::bundles(outer, row, inner);
        }
        let group = inner.min(WIDEST_GROUP);
        // Blocks are runs of memory: of whole rows side by side, or of some of them at one point.
        let step = if group == inner { (SHARED_BLOCK / group).clamp(1, row.max(1)) } else { 1 };
        let n_groups = outer * inner.div_ceil(group);
        let part = PART.div_ceil(group).next_multiple_of(step);
        let part = if n_groups < 8 && row > 2 * part { part } else { row };
        let spread = if step == 1 { Spread::Along } else { Spread::Whole };
        Cut { is_map: false, spread, outer, lines: inner, row, inner, group, step, part, chunk: CHUNK }
    }

    /// Independent points in blocks.
    fn points(n: usize, block: usize) -> Cut {
        let spread = Spread::One;
        let [row, inner, step, part] = [1; 4];
        Cut { is_map: true, spread, outer: 1, lines: n, row, inner, group: block, step, part, chunk: CHUNK }
    }

    /// Rows of neighbouring points.
    fn rows(n_rows: usize, row: usize) -> Cut {
        let shares = row <= SHORT_ROW;
        let group = match shares {
            true => SHARED_BLOCK / row.max(1),
            false => CHUNK / row,
        };
        let group = group.clamp(1, if shares { SHARED_BLOCK } else { 32 }).min(n_rows.max(1));
        let part = if n_rows < 8 && row > 2 * PART { PART } else { row };
        let group = if part < row { 1 } else { group };
        let step = if row <= RESIDENT { row } else { LONG_BLOCK };
        let spread = if shares && group > 1 { Spread::Each } else { Spread::One };
        let [outer, inner, chunk] = [1, 1, CHUNK];
        Cut { is_map: false, spread, outer, lines: n_rows, row, inner, group, step, part, chunk }
    }

    /// Small bundles of rows, several to a block.
    fn bundles(outer: usize, row: usize, inner: usize) -> Cut {
        let group = (SHARED_BLOCK / (row * inner).max(1)).clamp(1, outer.max(1)) * inner.max(1);
        let (lines, step) = (outer * inner, row.max(1));
        let spread = if row == 1 { Spread::Along } else { Spread::Whole };
        let (part, chunk) = (row, CHUNK);
        Cut { is_map: false, spread, outer: 1, lines, row, inner, group, step, part, chunk }
    }

    /// Fits chunks to the work of a program, and the blocks of a map to the cache.
    pub fn for_program(self, program: &Program) -> Cut {
        let n_points = self.outer * self.lines * self.row;
        let chunk = chunk_points(program, n_points);
        if !self.is_map {
            return Cut { chunk, ..self };
        }
        // Two workers share a few chunks evenly. Small kernels are cut as well, because each worker has its share of their
        // operands in its cache.
        let n_chunks = n_points.div_ceil(chunk);
        let n_chunks = if n_points < 2 * LEAST_CHUNK { 1 } else { n_chunks.next_multiple_of(2) };
        let chunk = n_points.div_ceil(n_chunks).max(1).next_multiple_of(256);
        Cut { chunk, ..Cut::points(self.lines, map_block(program).min(chunk)) }
    }

    /// Whether rows run across the runs of a block, not along them.
    pub fn reduces_down(&self) -> bool {
        matches!(self.spread, Spread::Along | Spread::Whole)
    }

    /// Whether a block holds whole rows.
    pub fn is_resident(&self) -> bool {
        self.step >= self.row
    }

    pub fn block_points(&self) -> usize {
        if self.is_map || self.spread != Spread::One { self.group * self.step } else { self.step }
    }

    pub fn n_groups(&self) -> usize {
        self.outer * self.lines.div_ceil(self.group)
    }

    pub fn groups_per_chunk(&self) -> usize {
        self.chunk.div_ceil((self.group * self.row).max(1))
    }

    pub fn n_parts(&self) -> usize {
        self.row.div_ceil(self.part.max(1)).max(1)
    }

    /// The rows of a group as points of class `Row`.
    pub fn row_span(&self, number: usize) -> Span {
        let n_across = self.lines.div_ceil(self.group);
        let first = number % n_across * self.group;
        Span::line(number / n_across * self.lines + first, self.group.min(self.lines - first))
    }

    /// The blocks of one part of some rows.
    pub fn blocks(&self, rows: Span, part_idx: usize) -> impl ExactSizeIterator<Item = Span> {
        let cut @ Cut { row, inner, step, part, .. } = *self;
        let (begin, end) = (part_idx * part, ((part_idx + 1) * part).min(row));
        (begin..end).step_by(step.max(1)).map(move |along| {
            let length = step.min(end - along);
            let start = (rows.start / inner * row + along) * inner + rows.start % inner;
            match cut.reduces_down() {
                true => {
                    let width = rows.width.min(inner);
                    let height = rows.width / width * length;
                    Span { start, width, height, pitch: inner, along, bundle: length }
                }
                false => {
                    Span { start, width: length, height: rows.width, pitch: row, along, bundle: rows.width }
                }
            }
        })
    }
}
