//! Kernels with a few long rows, whose groups are cut into parts.

use super::super::interp::{Dest, Frame, Inst, Op, Pass, Program, View, Worker, row_pitch};
use super::super::memory::Memory;
use super::super::pool::Pool;
use super::cut::Cut;
use super::groups::run_blocks;
use super::scratch::WorkerScratch;
use crate::device::DeviceError;

/// The row values and accumulators of a kernel with a few long rows.
pub struct Parts {
    n_groups: usize,
    n_parts: usize,
    /// The bytes of a set of row values.
    set_bytes: usize,
    rows: Memory,
    accumulators: Memory,
    /// The values of the row registers, by group and place.
    views: Vec<View>,
}

impl Parts {
    /// The memory for a cut.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(cut: &Cut, program: &Program) -> Result<Parts, DeviceError> {
        let (n_groups, n_parts) = (cut.n_groups(), cut.n_parts());
        let set_bytes = program.n_row_places() * row_pitch(cut.group);
        Ok(Parts {
            n_groups,
            n_parts,
            set_bytes,
            rows: Memory::new(n_groups * set_bytes)?,
            accumulators: Memory::new(n_groups * n_parts * set_bytes)?,
            views: vec![View::UNSET; n_groups * program.n_row_places()],
        })
    }

    /// Runs each pass as a parallel region of its own, and merges the accumulators of the parts in their order.
    ///
    /// # Safety
    /// As for [`Frame::run_insts`].
    pub unsafe fn run(&mut self, frame: &Frame, cut: &Cut, pool: &mut Pool, workers: &mut [WorkerScratch]) {
        // SAFETY: the caller's; each part has a set of accumulators of its own.
        unsafe {
            for pass in &frame.program.passes {
                self.run_rows(frame, cut, &mut workers[0].worker, &pass.row);
                let this = &*self;
                pool.run_with(this.n_groups * this.n_parts, workers, |chunk, scratch| {
                    let worker = &mut scratch.worker;
                    let (group, part) = (chunk / this.n_parts, chunk % this.n_parts);
                    let rows = cut.row_span(group);
                    this.show_rows(frame.program, worker, group);
                    let base = this.accumulators.start().wrapping_add(chunk * this.set_bytes);
                    let accumulators = frame.accumulators(base, rows.width);
                    run_blocks(frame, worker, pass, cut.blocks(rows, part), accumulators, false);
                });
                self.merge(frame, cut, pass);
            }
            self.run_rows(frame, cut, &mut workers[0].worker, &frame.program.last_row);
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
                    self.views[group * frame.program.n_row_places() + place] = worker.get(inst.reg);
                }
            }
        }
    }

    unsafe fn merge(&mut self, frame: &Frame, cut: &Cut, pass: &Pass) {
        for group in 0..self.n_groups {
            let n_rows = cut.row_span(group).width;
            let part = |part: usize| {
                let offset = (group * self.n_parts + part) * self.set_bytes;
                frame.accumulators(self.accumulators.start().wrapping_add(offset), n_rows)
            };
            for later in 1..self.n_parts {
                // SAFETY: the caller's.
                unsafe { part(0).merge(pass, part(later)) };
            }
            for inst in &pass.element {
                if let (Op::Reduce { .. }, Dest::Row(place)) = (&inst.op, inst.dest) {
                    // The accumulators of the next pass have other places in the set.
                    let start = part(0).base.wrapping_add(place * frame.row_pitch);
                    self.views[group * frame.program.n_row_places() + place] = View::block(start, n_rows);
                }
            }
        }
    }

    /// Sets the row registers to the values of a group.
    fn show_rows(&self, program: &Program, worker: &mut Worker, group: usize) {
        for (place, reg) in program.row_regs.iter().enumerate() {
            if let Some(reg) = reg {
                worker.set(*reg, self.views[group * program.n_row_places() + place]);
            }
        }
    }

    fn row_base(&self, group: usize) -> *mut u8 {
        self.rows.start().wrapping_add(group * self.set_bytes)
    }
}
