//! The cut of a domain into groups, blocks and chunks, from the domain alone.
//!
//! A group is a number of whole rows that one worker runs from the first pass to the last, block after block. A chunk is a
//! number of groups. The groups of a few long rows are cut into parts.

use super::super::interp::{Dest, Inst, Op, Program, Span, Spread};
use engine_core::fusion::{Class, Domain, FusedBody};

/// The longest rows that stay in scratch from pass to pass.
const RESIDENT: usize = 16384;
/// The points of a block of longer rows.
const LONG_BLOCK: usize = 4096;
/// Rows shorter than this share blocks.
const SHORT_ROW: usize = 256;
/// The points of a block of short rows.
const SHARED_BLOCK: usize = 2048;
/// The least points of a chunk.
pub(super) const CHUNK: usize = 16384;
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

/// How the points of a domain become blocks.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// Independent points.
    Flat { n: usize, block: usize },
    /// Rows of neighbouring points, `group` of them in a group. A block has `block` points of one row, or, with `shares`,
    /// all rows of the group. Parts have `part` points.
    Rows { n_rows: usize, row: usize, group: usize, block: usize, shares: bool, part: usize },
    /// Rows across `inner` neighbours. A group has `width` neighbouring rows, a block `height` points of each.
    Columns { outer: usize, row: usize, inner: usize, width: usize, height: usize, part: usize },
}

impl Cut {
    pub fn new(body: &FusedBody) -> Cut {
        let Domain { outer, row, inner } = body.domain;
        let has_rows = body.insts.iter().any(|inst| inst.class == Class::Row);
        if !has_rows {
            return Cut::Flat { n: outer * row * inner, block: 0 };
        }
        if inner == 1 {
            return Cut::rows(outer, row);
        }
        let (width, height) = match inner >= 128 {
            true => (inner.min(1024), 1),
            false => (inner, (SHARED_BLOCK / inner).clamp(1, row.max(1))),
        };
        let n_groups = outer * inner.div_ceil(width);
        let part = PART.div_ceil(width).next_multiple_of(height);
        let part = if n_groups < 8 && row > 2 * part { part } else { row };
        Cut::Columns { outer, row, inner, width, height, part }
    }

    fn rows(n_rows: usize, row: usize) -> Cut {
        let shares = row < SHORT_ROW;
        let group = match shares {
            true => SHARED_BLOCK / row.max(1),
            false => CHUNK / row,
        };
        let group = group.clamp(1, if shares { SHARED_BLOCK } else { 32 }).min(n_rows.max(1));
        let block = if row <= RESIDENT { row } else { LONG_BLOCK };
        let part = if n_rows < 8 && row > 2 * PART { PART } else { row };
        Cut::Rows { n_rows, row, group: if part < row { 1 } else { group }, block, shares, part }
    }

    /// Fits the blocks of a map to the cache.
    pub fn for_program(self, program: &Program) -> Cut {
        match self {
            Cut::Flat { n, .. } => Cut::Flat { n, block: map_block(program) },
            _ => self,
        }
    }

    pub fn spread(&self) -> Spread {
        match *self {
            Cut::Flat { .. } => Spread::One,
            Cut::Rows { shares: true, group, .. } if group > 1 => Spread::Each,
            Cut::Rows { .. } => Spread::One,
            Cut::Columns { height: 1, .. } => Spread::Along,
            Cut::Columns { .. } => Spread::Whole,
        }
    }

    pub fn is_resident(&self) -> bool {
        match *self {
            Cut::Flat { .. } => true,
            Cut::Rows { row, block, .. } => block >= row,
            Cut::Columns { row, height, .. } => height >= row,
        }
    }

    /// The rows of a group.
    pub fn group_rows(&self) -> usize {
        match *self {
            Cut::Flat { .. } => 1,
            Cut::Rows { group, .. } => group,
            Cut::Columns { width, .. } => width,
        }
    }

    pub fn block_points(&self) -> usize {
        match *self {
            Cut::Flat { block, .. } => block,
            Cut::Rows { group, row, shares: true, .. } => group * row,
            Cut::Rows { block, .. } => block,
            Cut::Columns { width, height, .. } => width * height,
        }
    }

    pub fn n_groups(&self) -> usize {
        match *self {
            Cut::Flat { n, block } => n.div_ceil(block),
            Cut::Rows { n_rows, group, .. } => n_rows.div_ceil(group),
            Cut::Columns { outer, inner, width, .. } => outer * inner.div_ceil(width),
        }
    }

    pub fn groups_per_chunk(&self) -> usize {
        let points = match *self {
            Cut::Flat { block, .. } => block,
            Cut::Rows { group, row, .. } => group * row,
            Cut::Columns { row, width, .. } => row * width,
        };
        // Large kernels have enough chunks even if each is larger.
        let chunk = if self.n_groups() * points > 64 * PART { PART } else { CHUNK };
        chunk.div_ceil(points.max(1))
    }

    pub fn n_parts(&self) -> usize {
        match *self {
            Cut::Flat { .. } => 1,
            Cut::Rows { row, part, .. } | Cut::Columns { row, part, .. } => row.div_ceil(part.max(1)).max(1),
        }
    }

    /// The rows of a group as points of class `Row`.
    pub fn row_span(&self, number: usize) -> Span {
        match *self {
            Cut::Flat { .. } => Span::line(0, 1),
            Cut::Rows { n_rows, group, .. } => Span::line(number * group, group.min(n_rows - number * group)),
            Cut::Columns { inner, width, .. } => {
                let n_across = inner.div_ceil(width);
                let column = number % n_across * width;
                Span::line(number / n_across * inner + column, width.min(inner - column))
            }
        }
    }

    /// The blocks of one part of some rows.
    pub fn blocks(&self, rows: Span, part_idx: usize) -> impl ExactSizeIterator<Item = Span> {
        let (row, part, step) = match *self {
            Cut::Flat { .. } => (1, 1, 1),
            Cut::Rows { row, part, block, .. } => (row, part, block),
            Cut::Columns { row, part, height, .. } => (row, part, height),
        };
        let (begin, end) = (part_idx * part, ((part_idx + 1) * part).min(row));
        let cut = *self;
        (begin..end).step_by(step.max(1)).map(move |along| {
            let length = step.min(end - along);
            match cut {
                Cut::Columns { row, inner, .. } => {
                    let (outer, column) = (rows.start / inner, rows.start % inner);
                    let start = (outer * row + along) * inner + column;
                    Span { start, width: rows.width, height: length, pitch: inner, along }
                }
                _ => Span {
                    start: rows.start * row + along,
                    width: length,
                    height: rows.width,
                    pitch: row,
                    along,
                },
            }
        })
    }
}
