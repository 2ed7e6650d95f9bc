//! Launches of maps and rows: how the points of a tile are cut into groups, blocks and chunks.
//!
//! A group is a number of whole rows that one worker runs from the first pass to the last, block after block; a chunk
//! is a number of groups. Where there are only a few long rows, their groups are cut into parts, every pass is a
//! parallel region of its own, and the accumulators of the parts are merged in their order. All of that follows from
//! the tile's domain alone.

use super::block::{AssertionRecord, Buffer, Frame, ScratchSize, Span, Worker, row_pitch};
use super::matmul::ProductScratch;
use super::memory::Memory;
use super::pool::Pool;
use super::program::{Dest, Inst, Layout, Op, Pass, Program, Sharing, Spread, compile};
use super::scalar::View;
use super::simd::subnormals::SubnormalsAreZero;
use crate::device::DeviceError;
use engine_core::fusion::{Class, Domain, FusedBody};
use engine_core::ir::{DType, Literal};

/// Rows up to this long stay in scratch from pass to pass.
const RESIDENT: usize = 16384;
/// Points of a block of a row that is too long for that.
const LONG_BLOCK: usize = 4096;
/// Rows shorter than this share blocks.
const SHORT_ROW: usize = 256;
/// Points of a block of short rows.
const SHARED_BLOCK: usize = 2048;
/// Rows that end to end make less than this are one chunk.
const CHUNK: usize = 16384;
/// Points of a part of a row.
const PART: usize = 65536;
/// Blocks whose sums are added up before they join the total, so that a sum of many blocks stays accurate.
const BLOCKS_OF_A_SUM: usize = 128;
/// Bytes of second-level cache that a block of a map may take, with all it touches. Long blocks spread the cost of an
/// instruction and give memory long runs; the first-level cache matters less.
const BLOCK_BYTES: usize = 256 * 1024;

/// A map or row kernel, ready to run.
pub struct BodyLaunch {
    program: Program,
    cut: Cut,
    uniforms: Memory,
    parts: Option<Parts>,
}

/// What a launch brings along.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// By kernel operand.
    pub buffers: &'a [Buffer],
    /// The alarm for indices.
    pub alarm: &'a AssertionRecord,
    /// The seed of random numbers.
    pub seed: u64,
    /// Whether state is written, which holds no subnormal numbers.
    pub writes_state: bool,
}

impl Call<'_> {
    /// For as long as a worker runs its part.
    fn flushed(self) -> Option<SubnormalsAreZero> {
        self.writes_state.then(SubnormalsAreZero::new)
    }
}

impl BodyLaunch {
    /// Compiles a tile; `sharing` tells by operand whether its memory is read as well.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(tile: &FusedBody, sharing: &[Sharing]) -> Result<BodyLaunch, DeviceError> {
        let cut = Cut::new(tile);
        let layout =
            Layout { spread: cut.spread(), is_resident: cut.is_resident(), is_contiguous: true, sharing };
        let program = compile(tile, layout);
        let cut = cut.for_program(&program);
        let uniforms = Memory::new(8 * program.n_uniforms)?;
        let parts = if cut.n_parts() > 1 { Some(Parts::new(&cut, &program)?) } else { None };
        Ok(BodyLaunch { program, cut, uniforms, parts })
    }

    /// The scratch that a worker needs.
    pub fn scratch(&self) -> ScratchSize {
        ScratchSize::of(&self.program, self.cut.block_points(), self.cut.lanes())
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// The buffers must be those of the kernel, and nobody else may use what it writes.
    pub unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [(Worker, ProductScratch)], call: Call) {
        let BodyLaunch { program, cut, uniforms, parts } = self;
        let frame = Frame {
            program,
            buffers: call.buffers,
            uniforms: uniforms.start(),
            alarm: call.alarm,
            seed: call.seed,
            reduces_down: matches!(cut, Cut::Columns { .. }),
            row_pitch: row_pitch(cut.lanes()),
        };
        // SAFETY: the caller's; groups are disjoint, and each is run by one worker.
        unsafe {
            frame.write_constants(None);
            frame.run_uniform(&mut workers[0].0);
            match parts {
                Some(parts) => parts.run(&frame, cut, pool, workers),
                None => {
                    let (n_groups, per_chunk) = (cut.n_groups(), cut.groups_per_chunk());
                    pool.run_with(n_groups.div_ceil(per_chunk), workers, |chunk, (worker, _)| {
                        let _flushed = call.flushed();
                        let groups = chunk * per_chunk..((chunk + 1) * per_chunk).min(n_groups);
                        let last = groups.end - 1;
                        groups.for_each(|group| run_group(&frame, cut, worker, group, group < last));
                    });
                }
            }
        }
    }
}

// ---- The cut.

/// How the points of a domain become blocks.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Independent points.
    Flat { n: usize, block: usize },
    /// Rows of neighbouring points; `lanes` of them a group, in blocks of `block` points of one row, or, with
    /// `shares`, in one block. Parts are of `part` points.
    Rows { n_rows: usize, row: usize, lanes: usize, block: usize, shares: bool, part: usize },
    /// Rows across `inner` neighbours: groups of `width` neighbouring rows, in blocks of `height` points of each.
    Columns { outer: usize, row: usize, inner: usize, width: usize, height: usize, part: usize },
}

impl Cut {
    fn new(tile: &FusedBody) -> Cut {
        let Domain { outer, row, inner } = tile.domain;
        let has_rows = tile.insts.iter().any(|inst| inst.class == Class::Row);
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
        let lanes = match shares {
            true => SHARED_BLOCK / row.max(1),
            false => CHUNK / row,
        };
        let lanes = lanes.clamp(1, if shares { SHARED_BLOCK } else { 32 }).min(n_rows.max(1));
        let block = if row <= RESIDENT { row } else { LONG_BLOCK };
        let part = if n_rows < 8 && row > 2 * PART { PART } else { row };
        Cut::Rows { n_rows, row, lanes: if part < row { 1 } else { lanes }, block, shares, part }
    }

    /// Blocks of a map fit the cache with all that the program touches.
    fn for_program(self, program: &Program) -> Cut {
        let Cut::Flat { n, .. } = self else { return self };
        let touches = |inst: &&Inst| {
            matches!(inst.op, Op::Load { .. } | Op::Store { .. }) || matches!(inst.dest, Dest::Operand(_))
        };
        let n_touched = program.n_slots + program.passes[0].element.iter().filter(touches).count();
        let block = BLOCK_BYTES / (n_touched.max(1) * program.widest);
        Cut::Flat { n, block: (block / 256 * 256).clamp(1024, 8192) }
    }

    fn spread(&self) -> Spread {
        match *self {
            Cut::Flat { .. } => Spread::One,
            Cut::Rows { shares: true, lanes, .. } if lanes > 1 => Spread::Each,
            Cut::Rows { .. } => Spread::One,
            Cut::Columns { height: 1, .. } => Spread::Along,
            Cut::Columns { .. } => Spread::Whole,
        }
    }

    fn is_resident(&self) -> bool {
        match *self {
            Cut::Flat { .. } => true,
            Cut::Rows { row, block, .. } => block >= row,
            Cut::Columns { row, height, .. } => height >= row,
        }
    }

    /// Rows of a group.
    fn lanes(&self) -> usize {
        match *self {
            Cut::Flat { .. } => 1,
            Cut::Rows { lanes, .. } => lanes,
            Cut::Columns { width, .. } => width,
        }
    }

    fn block_points(&self) -> usize {
        match *self {
            Cut::Flat { block, .. } => block,
            Cut::Rows { lanes, row, shares: true, .. } => lanes * row,
            Cut::Rows { block, .. } => block,
            Cut::Columns { width, height, .. } => width * height,
        }
    }

    fn n_groups(&self) -> usize {
        match *self {
            Cut::Flat { n, block } => n.div_ceil(block),
            Cut::Rows { n_rows, lanes, .. } => n_rows.div_ceil(lanes),
            Cut::Columns { outer, inner, width, .. } => outer * inner.div_ceil(width),
        }
    }

    fn groups_per_chunk(&self) -> usize {
        let group = match *self {
            Cut::Flat { block, .. } => block,
            Cut::Rows { lanes, row, .. } => lanes * row,
            Cut::Columns { row, width, .. } => row * width,
        };
        // More for large kernels, whose chunks then still are many.
        let chunk = if self.n_groups() * group > 64 * PART { PART } else { CHUNK };
        chunk.div_ceil(group.max(1))
    }

    fn n_parts(&self) -> usize {
        match *self {
            Cut::Flat { .. } => 1,
            Cut::Rows { row, part, .. } | Cut::Columns { row, part, .. } => row.div_ceil(part.max(1)).max(1),
        }
    }

    /// The rows of a group, as points of class `Row`.
    fn row_span(&self, group: usize) -> Span {
        match *self {
            Cut::Flat { .. } => Span::line(0, 1),
            Cut::Rows { n_rows, lanes, .. } => Span::line(group * lanes, lanes.min(n_rows - group * lanes)),
            Cut::Columns { inner, width, .. } => {
                let n_across = inner.div_ceil(width);
                let column = group % n_across * width;
                Span::line(group / n_across * inner + column, width.min(inner - column))
            }
        }
    }

    /// The blocks of one part of the rows `rows`.
    fn blocks(&self, rows: Span, part_idx: usize) -> impl ExactSizeIterator<Item = Span> {
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

// ---- Groups.

/// Runs a group; `is_followed` tells whether this worker goes on with the next one.
///
/// # Safety
/// As for [`Frame::run_insts`]; no other worker may run the group.
unsafe fn run_group(frame: &Frame, cut: &Cut, worker: &mut Worker, group: usize, is_followed: bool) {
    let program = frame.program;
    worker.row_base = worker.own_rows();
    // SAFETY: the caller's.
    unsafe {
        if let Cut::Flat { n, block } = *cut {
            let start = group * block;
            worker.has_next = is_followed;
            return frame.run_insts(
                worker,
                &program.passes[0].element,
                Span::line(start, block.min(n - start)),
            );
        }
        let rows = cut.row_span(group);
        frame.run_insts(worker, &program.passes[0].row, rows);
        if cut.spread() != Spread::One || rows.width == 1 {
            return run_passes(frame, cut, worker, rows, is_followed);
        }
        save_rows(program, worker);
        for lane in 0..rows.width {
            show_lane(program, worker, lane);
            let is_followed = is_followed || lane + 1 < rows.width;
            run_passes(frame, cut, worker, Span::line(rows.start + lane, 1), is_followed);
        }
    }
}

/// All passes over some rows, after the row values of the first one.
unsafe fn run_passes(frame: &Frame, cut: &Cut, worker: &mut Worker, rows: Span, is_followed: bool) {
    // After the last block of a row that is no longer at hand comes its first again, for the next pass.
    let is_followed = is_followed && cut.is_resident();
    // SAFETY: the caller's.
    unsafe {
        for (number, pass) in frame.program.passes.iter().enumerate() {
            if number > 0 {
                frame.run_insts(worker, &pass.row, rows);
            }
            let blocks = cut.blocks(rows, 0);
            run_blocks(frame, worker, pass, rows.width, blocks, worker.row_base, is_followed);
        }
        frame.run_insts(worker, &frame.program.last_row, rows);
    }
}

/// One pass over blocks, with its accumulators at `base`; `is_followed` tells of a block after the last one.
unsafe fn run_blocks(
    frame: &Frame,
    worker: &mut Worker,
    pass: &Pass,
    lanes: usize,
    mut blocks: impl ExactSizeIterator<Item = Span>,
    base: *mut u8,
    is_followed: bool,
) {
    let run = |worker: &mut Worker, span: Span, n_left: usize| {
        worker.has_next = is_followed || n_left > 0;
        // SAFETY: the caller's.
        unsafe { frame.run_insts(worker, &pass.element, span) };
    };
    // SAFETY: the caller's; there is room for two sets of row values, and the second one is used for parts of sums.
    unsafe {
        frame.begin_reductions(worker, pass, lanes, base);
        if blocks.len() <= BLOCKS_OF_A_SUM {
            while let Some(span) = blocks.next() {
                run(worker, span, blocks.len());
            }
            return;
        }
        let partial = worker.own_rows().wrapping_add(frame.program.n_row_places * frame.row_pitch);
        while blocks.len() > 0 {
            frame.begin_reductions(worker, pass, lanes, partial);
            for _ in 0..BLOCKS_OF_A_SUM {
                let Some(span) = blocks.next() else { break };
                run(worker, span, blocks.len());
            }
            frame.merge(pass, lanes, base, partial);
        }
    }
    frame.show_reductions(worker, pass, lanes, base);
}

/// The first row values of a group, before they are shown row by row.
fn save_rows(program: &Program, worker: &mut Worker) {
    for (place, (reg, _)) in first_rows(program) {
        worker.saved[place] = worker.get(reg);
    }
}

fn show_lane(program: &Program, worker: &mut Worker, lane: usize) {
    for (place, (reg, dtype)) in first_rows(program) {
        let View { start, is_scalar } = worker.saved[place];
        let start = if is_scalar { start } else { start.wrapping_add(lane * dtype.size()) };
        worker.set(reg, View { start, is_scalar: true });
    }
}

/// Places and registers that are set before the first pass.
fn first_rows(program: &Program) -> impl Iterator<Item = (usize, (usize, DType))> + '_ {
    program.passes[0].row.iter().filter_map(|inst| match inst.dest {
        Dest::Row(place) => Some((place, (inst.reg, inst.dtype))),
        _ => None,
    })
}

// ---- Parts.

/// Row values and accumulators of kernels whose few rows are cut into parts.
struct Parts {
    n_groups: usize,
    n_parts: usize,
    /// Bytes of a set of row values.
    set_bytes: usize,
    rows: Memory,
    accumulators: Memory,
    /// By group and place: what the row registers stand for.
    views: Vec<View>,
}

impl Parts {
    fn new(cut: &Cut, program: &Program) -> Result<Parts, DeviceError> {
        let (n_groups, n_parts) = (cut.n_groups(), cut.n_parts());
        let set_bytes = program.n_row_places * row_pitch(cut.lanes());
        Ok(Parts {
            n_groups,
            n_parts,
            set_bytes,
            rows: Memory::new(n_groups * set_bytes)?,
            accumulators: Memory::new(n_groups * n_parts * set_bytes)?,
            views: vec![View::UNSET; n_groups * program.n_row_places],
        })
    }

    unsafe fn run(
        &mut self,
        frame: &Frame,
        cut: &Cut,
        pool: &mut Pool,
        workers: &mut [(Worker, ProductScratch)],
    ) {
        // SAFETY: the caller's; each part has a set of accumulators of its own.
        unsafe {
            for pass in &frame.program.passes {
                self.run_rows(frame, cut, &mut workers[0].0, &pass.row);
                let this = &*self;
                pool.run_with(this.n_groups * this.n_parts, workers, |chunk, (worker, _)| {
                    let (group, part) = (chunk / this.n_parts, chunk % this.n_parts);
                    let rows = cut.row_span(group);
                    this.show_rows(frame.program, worker, group);
                    let base = this.accumulators.start().wrapping_add(chunk * this.set_bytes);
                    run_blocks(frame, worker, pass, rows.width, cut.blocks(rows, part), base, false);
                });
                self.merge(frame, cut, pass);
            }
            self.run_rows(frame, cut, &mut workers[0].0, &frame.program.last_row);
        }
    }

    unsafe fn run_rows(&mut self, frame: &Frame, cut: &Cut, worker: &mut Worker, insts: &[Inst]) {
        for group in 0..self.n_groups {
            self.show_rows(frame.program, worker, group);
            worker.row_base = self.row_base(group);
            // SAFETY: the caller's.
            unsafe { frame.run_insts(worker, insts, cut.row_span(group)) };
            for inst in insts {
                if let Dest::Row(place) = inst.dest {
                    self.views[group * frame.program.n_row_places + place] = worker.get(inst.reg);
                }
            }
        }
    }

    unsafe fn merge(&mut self, frame: &Frame, cut: &Cut, pass: &Pass) {
        for group in 0..self.n_groups {
            let lanes = cut.row_span(group).width;
            let part = |part: usize| {
                self.accumulators.start().wrapping_add((group * self.n_parts + part) * self.set_bytes)
            };
            for later in 1..self.n_parts {
                // SAFETY: the caller's.
                unsafe { frame.merge(pass, lanes, part(0), part(later)) };
            }
            for inst in &pass.element {
                if let (Op::Reduce { .. }, Dest::Row(place)) = (&inst.op, inst.dest) {
                    let start = part(0).wrapping_add(place * frame.row_pitch);
                    // The next pass begins its own accumulators elsewhere in the set.
                    self.views[group * frame.program.n_row_places + place] =
                        View { start, is_scalar: lanes == 1 };
                }
            }
        }
    }

    fn show_rows(&self, program: &Program, worker: &mut Worker, group: usize) {
        for (place, reg) in program.row_regs.iter().enumerate() {
            if let Some((reg, _)) = reg {
                worker.set(*reg, self.views[group * program.n_row_places + place]);
            }
        }
    }

    fn row_base(&self, group: usize) -> *mut u8 {
        self.rows.start().wrapping_add(group * self.set_bytes)
    }
}

// ---- Segments.

/// A segmented map, ready to run: one program, a set of uniform values and buffers for each segment.
pub struct SegmentLaunch {
    program: Program,
    block: usize,
    segments: Vec<engine_core::fusion::Segment>,
    /// By segment and slot.
    buffers: Vec<Buffer>,
    n_slots: usize,
    uniforms: Memory,
    /// Segment and first point.
    chunks: Vec<(usize, usize)>,
}

impl SegmentLaunch {
    /// Compiles the tile of a segmented map; `sharing` as for [`BodyLaunch::new`], by kernel operand.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(
        tile: &FusedBody,
        segments: &[engine_core::fusion::Segment],
        sharing: &[Sharing],
    ) -> Result<SegmentLaunch, DeviceError> {
        let n_slots = segments.first().map_or(0, |segment| segment.operands.len());
        let sharing: Vec<Sharing> = (0..n_slots).map(|slot| slot_sharing(segments, sharing, slot)).collect();
        let layout =
            Layout { spread: Spread::One, is_resident: true, is_contiguous: true, sharing: &sharing };
        let program = compile(tile, layout);
        let Cut::Flat { block, .. } = (Cut::Flat { n: 0, block: 0 }).for_program(&program) else {
            panic!("bug: a map is cut as a map")
        };
        let chunks = segments.iter().enumerate();
        let chunks =
            chunks.flat_map(|(i, segment)| (0..segment.points).step_by(CHUNK).map(move |start| (i, start)));
        let uniforms = Memory::new(segments.len() * 8 * program.n_uniforms)?;
        let nowhere = Buffer { start: std::ptr::null_mut(), len: 0, size: 1 };
        Ok(SegmentLaunch {
            block,
            segments: segments.to_vec(),
            buffers: vec![nowhere; segments.len() * n_slots],
            n_slots,
            uniforms,
            chunks: chunks.collect(),
            program,
        })
    }

    /// The scratch that a worker needs.
    pub fn scratch(&self) -> ScratchSize {
        ScratchSize::of(&self.program, self.block, 1)
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// As for [`BodyLaunch::run`].
    pub unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [(Worker, ProductScratch)], call: Call) {
        for (i, segment) in self.segments.iter().enumerate() {
            for (slot, &operand) in segment.operands.iter().enumerate() {
                self.buffers[i * self.n_slots + slot] = call.buffers[operand];
            }
        }
        // SAFETY: the caller's; segments and their blocks are disjoint.
        unsafe {
            for (i, segment) in self.segments.iter().enumerate() {
                let frame = self.frame(i, call);
                frame.write_constants(Some(&segment.constants as &[Literal]));
                frame.run_uniform(&mut workers[0].0);
            }
            let this = &*self;
            pool.run_with(this.chunks.len(), workers, |chunk, (worker, _)| {
                let _flushed = call.flushed();
                let (segment, begin) = this.chunks[chunk];
                let frame = this.frame(segment, call);
                let end = (begin + CHUNK).min(this.segments[segment].points);
                for start in (begin..end).step_by(this.block) {
                    let span = Span::line(start, this.block.min(end - start));
                    worker.has_next = start + this.block < end;
                    frame.run_insts(worker, &this.program.passes[0].element, span);
                }
            });
        }
    }

    fn frame<'a>(&'a self, segment: usize, call: Call<'a>) -> Frame<'a> {
        Frame {
            program: &self.program,
            buffers: &self.buffers[segment * self.n_slots..][..self.n_slots],
            uniforms: self.uniforms.start().wrapping_add(segment * 8 * self.program.n_uniforms),
            alarm: call.alarm,
            seed: call.seed,
            reduces_down: false,
            row_pitch: 64,
        }
    }
}

/// The sharing of a slot, if it is the same in all segments.
fn slot_sharing(segments: &[engine_core::fusion::Segment], sharing: &[Sharing], slot: usize) -> Sharing {
    let in_segment = |segment: &engine_core::fusion::Segment| match sharing[segment.operands[slot]] {
        Sharing::InPlace(read) => {
            let slots = segment.operands.iter().position(|&operand| operand == read);
            slots.map_or(Sharing::Overlaps, Sharing::InPlace)
        }
        other => other,
    };
    let mut found = segments.iter().map(in_segment);
    let first = found.next().unwrap_or(Sharing::Alone);
    if found.all(|other| other == first) { first } else { Sharing::Overlaps }
}
