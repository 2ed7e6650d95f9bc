//! Launches: kernels compiled for the CPU, one file for each kind, and the scratch that they need.

pub mod attention;
mod attention_gradient;
mod attention_tiles;
pub mod body;
mod body_run;
pub mod call;
mod column_blocks;
mod cut;
mod groups;
mod halves;
pub mod matmul;
mod matmul_fold;
mod matrix_source;
pub mod opaque;
mod panels;
mod parts;
mod product;
mod row_run;
mod running_rows;
pub mod scan;
pub mod scatter;
pub mod scratch;
pub mod sections;
pub mod segments;
mod side_sum;
mod split;
mod tile_run;

use super::interp::{AssertionRecord, Buffer, checks_only};
use super::pool::Pool;
use super::{bounds, sharing};
use crate::device::DeviceError;
use attention::AttentionLaunch;
use attention_gradient::AttentionGradientLaunch;
use attention_tiles::AttentionTiles;
use body::BodyLaunch;
use call::{Call, KernelLaunch};
use engine_core::fusion::{KernelBody, LoopBody};
use engine_core::plan::{Launch, LoopPlan, Plan, TripPlace};
use matmul::MatmulLaunch;
use opaque::OpaqueLaunch;
use scan::ScanLaunch;
use scatter::ScatterLaunch;
use scratch::{LaunchSize, WorkerScratch};
use sections::SectionLaunch;
use segments::SegmentLaunch;

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
    /// Compiles a launch; its workspace lies in the arena that starts there.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(plan: &Plan, launch: &Launch, arena: *mut u8) -> Result<Prepared, DeviceError> {
        let kernel = &plan.kernels[launch.kernel];
        let sharing = sharing::of_operands(plan, launch, kernel);
        let workspace = arena.wrapping_add(launch.workspace.start);
        bounds::assert_inside(kernel);
        let launched: Box<dyn KernelLaunch> = match &kernel.body {
            KernelBody::Map(body) | KernelBody::Row(body) => match SectionLaunch::new(body, &sharing)? {
                Some(launch) => Box::new(launch),
                None => Box::new(BodyLaunch::new(body, &sharing)?),
            },
            KernelBody::Segmented(body) => Box::new(SegmentLaunch::new(body, &sharing)?),
            KernelBody::Matmul(body) => {
                Box::new(MatmulLaunch::new(body, &kernel.operands, &sharing, workspace)?)
            }
            KernelBody::Attention(body) => match AttentionTiles::new(body, &sharing)? {
                Some(launch) => Box::new(launch),
                None => Box::new(AttentionLaunch::new(body, &sharing)?),
            },
            KernelBody::AttentionGradient(body) => {
                Box::new(AttentionGradientLaunch::new(body, &sharing, workspace)?)
            }
            KernelBody::Scatter(body) => {
                let dtype = kernel.operands[body.result].ty.dtype;
                Box::new(ScatterLaunch::new(body, dtype, &sharing)?)
            }
            KernelBody::Scan(body) => Box::new(ScanLaunch::new(body, &kernel.operands)),
            KernelBody::Opaque(body) => Box::new(OpaqueLaunch::new(body, kernel, workspace)),
            KernelBody::Loop(body) => Box::new(LoopLaunch::new(plan, body, workspace)?),
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

/// A loop, ready to run.
pub struct LoopLaunch {
    body: LoopBody,
    trip: LoopPlan,
    launches: Vec<Prepared>,
    workspace: *mut u8,
}

// SAFETY: the workspace is an address in the executable's own arena.
unsafe impl Send for LoopLaunch {}

impl LoopLaunch {
    /// Compiles the kernels of a trip, whose values lie in the workspace.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(plan: &Plan, body: &LoopBody, workspace: *mut u8) -> Result<LoopLaunch, DeviceError> {
        let trip = plan.loop_of(body).clone();
        let arena = workspace.wrapping_add(LoopPlan::HEAD_BYTES);
        let launches = trip.step.launches.iter().map(|launch| Prepared::new(&trip.step, launch, arena));
        Ok(LoopLaunch { launches: launches.collect::<Result<_, _>>()?, body: body.clone(), trip, workspace })
    }

    /// The first byte of a place.
    fn start(&self, place: TripPlace, operands: &[Buffer]) -> *mut u8 {
        match place {
            TripPlace::Workspace(offset) => self.workspace.wrapping_add(offset),
            TripPlace::Operand(operand) => operands[operand].start,
        }
    }

    /// Sets the addresses of all buffers of a trip.
    fn place(&mut self, operands: &[Buffer]) {
        for (number, launch) in self.trip.step.launches.iter().enumerate() {
            for (operand, &id) in launch.buffers.iter().enumerate() {
                let ty = &self.trip.step.buffers[id].ty;
                let start = self.start(self.trip.place(&self.body, id), operands);
                let placed = Buffer { start, len: ty.numel(), size: ty.dtype.size() };
                self.launches[number].buffers[operand] = placed;
            }
        }
    }
}

impl KernelLaunch for LoopLaunch {
    fn size(&self) -> LaunchSize {
        self.launches.iter().map(Prepared::size).fold(LaunchSize::default(), LaunchSize::max)
    }

    unsafe fn run(&mut self, pool: &mut Pool, workers: &mut [WorkerScratch], call: Call) {
        self.place(call.buffers);
        for number in 0..self.body.n_carried {
            let (from, to) = (&call.buffers[number], &call.buffers[self.body.carried(number)]);
            if from.start != to.start {
                // SAFETY: both have that size. They are one memory, or the plan keeps them apart.
                unsafe { std::ptr::copy_nonoverlapping(from.start, to.start, from.len * from.size) };
            }
        }
        let number = self.start(self.trip.number_place(&self.body), call.buffers);
        let ends = self.trip.ends_place(&self.body).map(|place| self.start(place, call.buffers));
        // SAFETY: the number lies in the workspace or in a result.
        let count = |trips: usize| unsafe { number.cast::<i32>().write_unaligned(trips as i32) };
        count(0);
        for trip in 0..self.body.trips {
            for launch in &mut self.launches {
                // SAFETY: all buffers are placed. The plan of the trip lets no live buffers overlap.
                unsafe { launch.run(pool, workers, call.seed, call.assertions) };
            }
            count(trip + 1);
            // SAFETY: the value is a result of the trip.
            let has_ended = ends.is_some_and(|ends| unsafe { *ends != 0 });
            if has_ended || call.assertions.has_failure() || call.assertions.is_cancelled() {
                break;
            }
        }
    }
}
