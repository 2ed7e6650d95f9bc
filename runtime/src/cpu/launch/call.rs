//! Launches and their arguments.

use super::super::interp::{AssertionRecord, Buffer, Frame, Program};
use super::super::memory::Memory;
use super::super::pool::Pool;
use super::scratch::{LaunchSize, WorkerScratch};
use engine_numerics::simd::subnormals::SubnormalsAreZero;

/// A kernel, ready to run.
pub trait KernelLaunch: Send {
    /// The scratch that a worker needs.
    fn size(&self) -> LaunchSize {
        LaunchSize::default()
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// The buffers must be those of the kernel. The launch must be the only user of its workspace and of the buffers that
    /// it writes.
    unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call);
}

/// The arguments of a launch.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The memory of each kernel operand.
    pub buffers: &'a [Buffer],
    /// The record of failed assertions.
    pub assertions: &'a AssertionRecord,
    /// The seed of random numbers.
    pub seed: u64,
    /// Whether the launch writes state, which holds no subnormal numbers.
    pub writes_state: bool,
}

impl<'a> Call<'a> {
    /// Flushes subnormals for as long as a worker runs its part, if the launch writes state.
    pub fn flushed(self) -> Option<SubnormalsAreZero> {
        self.writes_state.then(SubnormalsAreZero::new)
    }

    /// A frame for rows along the runs of blocks.
    pub fn frame(self, program: &'a Program, uniforms: &Memory, row_pitch: usize) -> Frame<'a> {
        Frame {
            program,
            buffers: self.buffers,
            uniforms: uniforms.start(),
            assertions: self.assertions,
            seed: self.seed,
            reduces_down: false,
            row_pitch,
        }
    }
}
