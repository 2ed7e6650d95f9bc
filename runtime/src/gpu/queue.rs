//! The interface between the executor of plans and the queues of GPUs.

use super::api::{Gpu, GpuProgram};
#[cfg(feature = "wgpu")]
use super::api::{GpuMemory, Located};
use super::plan_memory::PlanMemory;
use crate::device::{Arrival, DeviceError, RunError};
use engine_core::fusion::{Operand, Use};
use engine_core::plan::{Place, Plan};
#[cfg(feature = "wgpu")]
use engine_core::program;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A GPU that runs plans.
pub trait PlanGpu: Gpu {
    /// Runs the steps of a plan.
    type Queue: Queue<Self>;
}

/// The launches of a plan, with their memory.
pub struct Launches<G: Gpu> {
    pub plan: Arc<Plan>,
    /// By launch of the plan.
    pub programs: Vec<GpuProgram<G>>,
    pub memory: PlanMemory<G>,
}

impl<G: Gpu> Launches<G> {
    /// Whether a launch can run again in the same step. It cannot if it overwrites integers that it reads, which may be
    /// indices.
    pub fn can_repeat(&self, number: usize) -> bool {
        let Plan { launches, kernels, buffers, .. } = &*self.plan;
        let launch = &launches[number];
        let operands = &kernels[launch.kernel].operands;
        let ranges = |is_wanted: &dyn Fn(&Operand) -> bool| -> Vec<Range<usize>> {
            let wanted = launch.buffers.iter().zip(operands).filter(|(_, operand)| is_wanted(operand));
            let ranges = wanted.filter_map(|(&id, operand)| match buffers[id].place {
                Place::Arena(start) => Some(start..start + operand.ty.bytes()),
                Place::Input(_) => None,
            });
            ranges.collect()
        };
        let written = ranges(&|operand| operand.usage == Use::Write);
        let integers = ranges(&|operand| operand.usage == Use::Read && !operand.ty.dtype.is_float());
        !integers.iter().any(|read| written.iter().any(|to| to.start < read.end && read.start < to.end))
    }

    /// Whether kernels record failed assertions.
    #[cfg(feature = "wgpu")]
    pub fn has_checks(&self) -> bool {
        !self.plan.assertions.is_empty()
    }

    /// Whether a trip has ended its loop, by the truth value of a launch or by a failed assertion. Waits for the trip.
    ///
    /// # Errors
    /// If the GPU fails.
    #[cfg(feature = "wgpu")]
    pub fn has_ended(
        &self,
        step: usize,
        (launch, until): (usize, program::Place),
    ) -> Result<bool, DeviceError> {
        let memory = self.memory.launch(launch, step);
        let part = memory.part(until);
        let (mut ended, mut failed) = ([0], [0; 4]);
        part.memory.read(part.offset, &mut ended)?;
        if self.has_checks() {
            self.memory.error_flag().read(0, &mut failed)?;
        }
        Ok(ended != [0] || failed != [0; 4])
    }
}

/// Runs the steps of a plan: streams, graphs or submissions.
pub trait Queue<G: Gpu>: Send + Sized {
    /// A queue for a plan and the programs of its launches.
    fn new(gpu: &Arc<G>, plan: &Plan, programs: &[GpuProgram<G>]) -> Result<Self, DeviceError>;

    /// The largest number of steps whose numbers are in memory at the same time.
    fn most_steps(&self) -> usize;

    /// Bytes that the queue itself allocates on the GPU.
    fn bytes(&self) -> usize {
        0
    }

    /// Discards what depends on the memory of inputs, after a binding has changed.
    fn rebind(&mut self);

    /// Makes later runs wait for copies.
    fn wait_for(&mut self, _arrival: &Arrival) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Lets a flag end later runs between two trips of a loop.
    fn cancel_by(&mut self, _flag: Arc<AtomicBool>) {}

    /// Runs at least one step, waits for the last one, and reports a failed assertion.
    fn run(&mut self, launches: &Launches<G>, first_step: u32, n_steps: u32) -> Result<(), RunError>;

    /// The time of the host until the last run was enqueued.
    fn submission_time(&self) -> Duration;

    /// Runs one step, and returns the seconds of each launch.
    fn profile(&mut self, launches: &Launches<G>, step: u32) -> Result<Vec<f64>, RunError>;
}
