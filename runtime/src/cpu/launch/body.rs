//! Launches of maps and rows.

use super::super::interp::{Frame, Layout, Program, ScratchSize, Sharing, compile, row_pitch};
use super::super::memory::Memory;
use super::super::pool::Pool;
use super::call::{Call, KernelLaunch};
use super::cut::Cut;
use super::groups::run_group;
use super::parts::Parts;
use super::scratch::{LaunchSize, WorkerScratch};
use crate::device::DeviceError;
use engine_core::fusion::FusedBody;

/// A map or row kernel, ready to run.
pub struct BodyLaunch {
    program: Program,
    cut: Cut,
    uniforms: Memory,
    parts: Option<Parts>,
}

impl KernelLaunch for BodyLaunch {
    fn size(&self) -> LaunchSize {
        LaunchSize::of_programs(ScratchSize::of(&self.program, self.cut.block_points(), self.cut.group))
    }

    unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        let BodyLaunch { program, cut, uniforms, parts } = self;
        let reduces_down = cut.reduces_down();
        let frame = Frame { reduces_down, ..call.frame(program, uniforms, row_pitch(cut.group)) };
        // SAFETY: the caller's; groups are disjoint, and one worker runs each.
        unsafe {
            frame.begin(&mut workers[0].worker, None);
            match parts {
                Some(parts) => parts.run(&frame, cut, pool, workers),
                None => {
                    let (n_groups, per_chunk) = (cut.n_groups(), cut.groups_per_chunk());
                    pool.run_with(n_groups.div_ceil(per_chunk), workers, |chunk, scratch| {
                        let _flushed = call.flushed();
                        let groups = chunk * per_chunk..((chunk + 1) * per_chunk).min(n_groups);
                        let last = groups.end - 1;
                        groups.for_each(|group| {
                            run_group(&frame, cut, &mut scratch.worker, group, group < last)
                        });
                    });
                }
            }
        }
    }
}

impl BodyLaunch {
    /// Compiles a body; `sharing` is the memory that each operand shares.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(body: &FusedBody, sharing: &[Sharing]) -> Result<BodyLaunch, DeviceError> {
        let cut = Cut::new(body);
        let layout =
            Layout { spread: cut.spread, is_resident: cut.is_resident(), is_contiguous: true, sharing };
        let program = compile(body, layout);
        let cut = cut.for_program(&program);
        let uniforms = Memory::new(8 * program.n_uniforms)?;
        let parts = if cut.n_parts() > 1 { Some(Parts::new(&cut, &program)?) } else { None };
        Ok(BodyLaunch { program, cut, uniforms, parts })
    }
}
