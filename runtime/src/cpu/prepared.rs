//! The launches of a plan, compiled.

use super::interp::{AssertionRecord, Buffer, checks_only};
use super::launch::attention::AttentionLaunch;
use super::launch::body::BodyLaunch;
use super::launch::call::{Call, KernelLaunch};
use super::launch::matmul::MatmulLaunch;
use super::launch::opaque::OpaqueLaunch;
use super::launch::scan::ScanLaunch;
use super::launch::scatter::ScatterLaunch;
use super::launch::scratch::{LaunchSize, WorkerScratch};
use super::launch::segments::SegmentLaunch;
use super::memory::Memory;
use super::pool::Pool;
use super::{bounds, sharing};
use crate::device::DeviceError;
use engine_core::fusion::KernelBody;
use engine_core::plan::{Launch, Plan};

/// A launch with its kernel compiled.
pub struct Prepared {
    kernel: Box<dyn KernelLaunch>,
    /// The assertions alone, which run first in kernels that write state.
    precheck: Option<BodyLaunch>,
    /// The memory of each kernel operand.
    pub buffers: Vec<Buffer>,
    /// Whether the launch writes state.
    pub writes_state: bool,
}

impl Prepared {
    /// Compiles a launch; `arena` has its workspace.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(plan: &Plan, launch: &Launch, arena: &Memory) -> Result<Prepared, DeviceError> {
        let kernel = &plan.kernels[launch.kernel];
        let sharing = sharing::of_operands(plan, launch, kernel);
        let workspace = arena.start().wrapping_add(launch.workspace.start);
        bounds::assert_inside(kernel);
        let launched: Box<dyn KernelLaunch> = match &kernel.body {
            KernelBody::Map(body) | KernelBody::Row(body) => Box::new(BodyLaunch::new(body, &sharing)?),
            KernelBody::Segmented { body, segments } => {
                Box::new(SegmentLaunch::new(body, segments, &sharing)?)
            }
            KernelBody::Matmul(body) => {
                Box::new(MatmulLaunch::new(body, &kernel.operands, &sharing, workspace)?)
            }
            KernelBody::Attention(body) => Box::new(AttentionLaunch::new(body, &sharing)?),
            KernelBody::Scatter(body) => {
                let dtype = kernel.operands[body.result].ty.dtype;
                Box::new(ScatterLaunch::new(body, dtype, &sharing)?)
            }
            KernelBody::Scan { monoid, domain } => {
                let dtype = kernel.operands[0].ty.dtype;
                Box::new(ScanLaunch { monoid: *monoid, domain: *domain, dtype })
            }
            KernelBody::Opaque(body) => Box::new(OpaqueLaunch::new(body, kernel, workspace)),
        };
        let writes_state = sharing::writes_state(plan, launch, kernel);
        let precheck = match kernel.bodies()[..] {
            [body] if writes_state && kernel.has_checks() => {
                Some(BodyLaunch::new(&checks_only(body), &sharing)?)
            }
            _ => None,
        };
        let buffers = vec![Buffer::UNBOUND; launch.buffers.len()];
        Ok(Prepared { kernel: launched, precheck, buffers, writes_state })
    }

    /// The scratch that a worker needs.
    pub fn size(&self) -> LaunchSize {
        let own = self.kernel.size();
        self.precheck.as_ref().map_or(own, |precheck| own.max(precheck.size()))
    }

    /// Runs the assertions that precede all writes to a state.
    ///
    /// # Safety
    /// As for [`Prepared::run`].
    pub unsafe fn check(
        &mut self,
        pool: &mut Pool,
        workers: &mut [WorkerScratch],
        seed: u64,
        assertions: &AssertionRecord,
    ) {
        let call = Call { buffers: &self.buffers, assertions, seed, writes_state: self.writes_state };
        if let Some(precheck) = &mut self.precheck {
            // SAFETY: the caller's.
            unsafe { precheck.run(pool, workers, call) };
        }
    }

    /// Runs the launch.
    ///
    /// # Safety
    /// The buffers must be placed, and the launch must be the only user of those that it writes.
    pub unsafe fn run(
        &mut self,
        pool: &mut Pool,
        workers: &mut [WorkerScratch],
        seed: u64,
        assertions: &AssertionRecord,
    ) {
        // SAFETY: the caller's.
        unsafe { self.check(pool, workers, seed, assertions) };
        if self.precheck.is_some() && assertions.has_failure() {
            return;
        }
        let call = Call { buffers: &self.buffers, assertions, seed, writes_state: self.writes_state };
        // SAFETY: the caller's.
        unsafe { self.kernel.run(pool, workers, call) };
    }
}
