//! A launch of a plan, as its program is made from it.

use crate::device_model::DeviceModel;
use crate::fusion::{Kernel, KernelBody};
use crate::numerics::{Numerics, Precision};
use crate::plan::{BufferId, Plan};

/// A launch, with all that its program depends on.
#[derive(Clone, Copy)]
pub struct Site<'p> {
    pub plan: &'p Plan,
    pub kernel: &'p Kernel,
    /// Buffers by operand.
    pub buffers: &'p [BufferId],
    /// Whether nothing is written after a failed assertion.
    pub is_guarded: bool,
    /// Whether a scatter's base lies where its result goes, so that there is nothing to copy.
    pub is_in_place: bool,
    /// That of the product, or the plan's.
    pub precision: Precision,
    /// The device, as far as the plan's numerics allow.
    pub device: DeviceModel,
}

impl<'p> Site<'p> {
    pub fn new(plan: &'p Plan, launch: usize, device: &DeviceModel) -> Site<'p> {
        let launch = &plan.launches[launch];
        let has_fast_math = device.has_fast_math && plan.numerics != Numerics::Strict;
        let own_precision = match &plan.kernels[launch.kernel].body {
            KernelBody::Matmul(body) => body.precision,
            _ => None,
        };
        Site {
            plan,
            kernel: &plan.kernels[launch.kernel],
            buffers: &launch.buffers,
            is_guarded: !plan.assertions.is_empty() && plan.writes_state(launch),
            is_in_place: plan.scatters_in_place(launch),
            precision: own_precision.unwrap_or(plan.matmul),
            device: DeviceModel { has_fast_math, ..*device },
        }
    }
}
