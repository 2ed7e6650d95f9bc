//! Groups of rows: passes over blocks, from the first to the last.

use super::super::interp::{Accumulators, Dest, Frame, Pass, Program, Span, Spread, View, Worker};
use super::cut::Cut;
use engine_core::ir::DType;

/// The blocks of a partial sum, so that a sum of many blocks stays accurate.
const BLOCKS_OF_A_SUM: usize = 128;

/// Runs a group; `is_followed` says whether this worker runs the next group next.
///
/// # Safety
/// As for [`Frame::run_insts`]; no other worker may run the group.
pub unsafe fn run_group(frame: &Frame, cut: &Cut, worker: &mut Worker, group: usize, is_followed: bool) {
    let program = frame.program;
    worker.row_base = worker.own_rows();
    // SAFETY: the caller's.
    unsafe {
        let rows = cut.row_span(group);
        if cut.is_map {
            worker.has_next = is_followed;
            return frame.run_insts(worker, &program.passes[0].element, rows);
        }
        frame.run_insts(worker, &program.passes[0].row, rows);
        if cut.spread != Spread::One || rows.width == 1 {
            return run_passes(frame, cut, worker, rows, is_followed);
        }
        save_rows(program, worker);
        for row in 0..rows.width {
            show_row(program, worker, row);
            let is_followed = is_followed || row + 1 < rows.width;
            run_passes(frame, cut, worker, Span::line(rows.start + row, 1), is_followed);
        }
    }
}

/// All passes over some rows, after the row values of the first one.
unsafe fn run_passes(frame: &Frame, cut: &Cut, worker: &mut Worker, rows: Span, is_followed: bool) {
    // After its last block, a row that is not resident starts again with its first, for the next pass.
    let is_followed = is_followed && cut.is_resident();
    // SAFETY: the caller's.
    unsafe {
        for (number, pass) in frame.program.passes.iter().enumerate() {
            if number > 0 {
                frame.run_insts(worker, &pass.row, rows);
            }
            let blocks = cut.blocks(rows, 0);
            let accumulators = frame.accumulators(worker.row_base, rows.width);
            run_blocks(frame, worker, pass, blocks, accumulators, is_followed);
        }
        frame.run_insts(worker, &frame.program.last_row, rows);
    }
}

/// Runs a pass over blocks, with its accumulators; `is_followed` says whether this worker runs a further block next.
///
/// # Safety
/// As for [`Frame::run_insts`]; this worker must be the only user of the accumulators.
pub unsafe fn run_blocks(
    frame: &Frame,
    worker: &mut Worker,
    pass: &Pass,
    mut blocks: impl ExactSizeIterator<Item = Span>,
    accumulators: Accumulators,
    is_followed: bool,
) {
    let run = |worker: &mut Worker, span: Span, n_left: usize| {
        worker.has_next = is_followed || n_left > 0;
        // SAFETY: the caller's.
        unsafe { frame.run_insts(worker, &pass.element, span) };
    };
    // SAFETY: the caller's; a worker has two sets of row values, and the second one is for partial sums.
    unsafe {
        accumulators.begin(worker, pass);
        if blocks.len() <= BLOCKS_OF_A_SUM {
            while let Some(span) = blocks.next() {
                run(worker, span, blocks.len());
            }
            return;
        }
        let second = worker.own_rows().wrapping_add(frame.program.n_row_places() * frame.row_pitch);
        let partial = Accumulators { base: second, ..accumulators };
        while blocks.len() > 0 {
            partial.begin(worker, pass);
            for _ in 0..BLOCKS_OF_A_SUM {
                let Some(span) = blocks.next() else { break };
                run(worker, span, blocks.len());
            }
            accumulators.merge(pass, partial);
        }
    }
    accumulators.show(worker, pass);
}

/// Saves the first row values of a group, which its rows then use one by one.
fn save_rows(program: &Program, worker: &mut Worker) {
    for (place, (reg, _)) in first_rows(program) {
        worker.saved[place] = worker.get(reg);
    }
}

/// Sets the registers of the first row values to those of one row.
fn show_row(program: &Program, worker: &mut Worker, row: usize) {
    for (place, (reg, dtype)) in first_rows(program) {
        let View { start, is_scalar } = worker.saved[place];
        let start = if is_scalar { start } else { start.wrapping_add(row * dtype.size()) };
        worker.set(reg, View { start, is_scalar: true });
    }
}

/// The places and registers that are set before the first pass.
fn first_rows(program: &Program) -> impl Iterator<Item = (usize, (usize, DType))> + '_ {
    program.passes[0].row.iter().filter_map(|inst| match inst.dest {
        Dest::Row(place) => Some((place, (inst.reg, inst.dtype))),
        _ => None,
    })
}
