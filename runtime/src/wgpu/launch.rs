//! One launch of a plan, made ready: its dispatches with what they bind.

use super::compile::{self, Pipeline, Source};
use super::context::Context;
use crate::device::DeviceError;
use engine_core::emit::{Argument, EmitError, FusedKernel};
use engine_core::fuse::Kernel;
use engine_core::plan::{BufferId, Launch, Plan};
use std::sync::Arc;

/// A dispatch of a plan.
pub struct Dispatch {
    /// The kernel's text, until it is loaded.
    pub source: Source,
    /// None before [`load`].
    pub pipeline: Option<Arc<Pipeline>>,
    /// What its buffers are, in order.
    pub arguments: Vec<Bound>,
    /// The scalars, as they lie in memory.
    pub info: Vec<u64>,
    /// Cubes along each axis.
    pub grid: [u32; 3],
    /// Position of its launch in the plan.
    pub launch: usize,
}

/// What a buffer of a dispatch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A buffer of the plan.
    Buffer(BufferId),
    /// The error flag.
    Flag,
    /// Bytes of the scratch that launches have one after the other.
    Scratch {
        /// The first.
        start: usize,
        /// How many.
        bytes: usize,
    },
}

/// All dispatches of a plan, in order, their kernels compiled.
pub fn dispatches(context: &Context, plan: &Plan, seed: u64) -> Result<Vec<Dispatch>, DeviceError> {
    let has_checks = !plan.check_sites.is_empty();
    let mut dispatches = vec![];
    for number in 0..plan.launches.len() {
        let is_guarded = has_checks && plan.writes_state(&plan.launches[number]);
        Draft { context, plan, number, seed, is_guarded, dispatches: &mut dispatches }.add()?;
    }
    let owner = |dispatch: &Dispatch| plan.kernels[plan.launches[dispatch.launch].kernel].name.clone();
    let owners: Vec<String> = dispatches.iter().map(owner).collect();
    let sources: Vec<(&str, &Source)> =
        owners.iter().zip(&dispatches).map(|(owner, dispatch)| (owner.as_str(), &dispatch.source)).collect();
    let pipelines = compile::load(context, &sources)?;
    for (dispatch, pipeline) in dispatches.iter_mut().zip(pipelines) {
        dispatch.pipeline = Some(pipeline);
    }
    Ok(dispatches)
}

/// A launch under construction.
struct Draft<'p> {
    context: &'p Context,
    plan: &'p Plan,
    number: usize,
    seed: u64,
    is_guarded: bool,
    dispatches: &'p mut Vec<Dispatch>,
}

impl Draft<'_> {
    fn launch(&self) -> &Launch {
        &self.plan.launches[self.number]
    }

    fn kernel(&self) -> &Kernel {
        &self.plan.kernels[self.launch().kernel]
    }

    fn add(mut self) -> Result<(), DeviceError> {
        let launches = FusedKernel::launches(self.kernel(), self.context.target);
        let mut launches =
            launches.map_err(|error| unsupported(self.context, &self.kernel().name, &error))?;
        if self.plan.scatters_in_place(self.launch()) {
            launches.remove(0);
        }
        if self.is_guarded {
            // Bad indices are found before anything is written.
            for checks in launches.iter().filter_map(FusedKernel::checks_only) {
                self.push(&checks)?;
            }
            return launches.into_iter().try_for_each(|fused| self.push(&fused.guarded()));
        }
        launches.iter().try_for_each(|fused| self.push(fused))
    }

    fn push(&mut self, fused: &FusedKernel) -> Result<(), DeviceError> {
        let points = fused.n_points();
        let Some(grid) = grid(fused.cube_count_for(points), &self.context.limits) else {
            return Ok(());
        };
        let source = compile::source(self.context, &self.kernel().name, fused)?;
        let arguments = fused.arguments().into_iter().map(|argument| match argument {
            Argument::Operand(operand) => Bound::Buffer(self.launch().buffers[operand]),
            Argument::Flag | Argument::Guard => Bound::Flag,
            Argument::Workspace { start, bytes } => Bound::Scratch { start, bytes },
            Argument::Product => engine_core::bug!("a product without a library"),
        });
        let arguments: Vec<Bound> = arguments.collect();
        arguments.iter().try_for_each(|bound| self.check_size(*bound))?;
        let info = fused.info(points, self.seed as u32);
        let launch = self.number;
        self.dispatches.push(Dispatch { source, pipeline: None, arguments, info, grid, launch });
        Ok(())
    }

    fn check_size(&self, bound: Bound) -> Result<(), DeviceError> {
        let (name, bytes) = match bound {
            Bound::Flag => return Ok(()),
            Bound::Buffer(id) => (&*self.plan.buffers[id].name, self.plan.buffers[id].ty.bytes()),
            Bound::Scratch { bytes, .. } => ("its scratch", bytes),
        };
        let largest = self.context.limits.max_storage_buffer_binding_size;
        if bytes as u64 <= largest {
            return Ok(());
        }
        Err(DeviceError::Unsupported {
            device: self.context.name.clone(),
            kernel: self.kernel().name.clone(),
            reason: format!(
                "`{name}` takes {} MiB, and a kernel reaches at most {} MiB of a tensor",
                bytes >> 20,
                largest >> 20
            ),
        })
    }
}

/// Cubes along each axis, so many or a few more; none if there are none.
fn grid(n_cubes: usize, limits: &wgpu::Limits) -> Option<[u32; 3]> {
    let most = limits.max_compute_workgroups_per_dimension as usize;
    let rows = n_cubes.div_ceil(most);
    let layers = rows.div_ceil(most);
    let rows = rows.div_ceil(layers.max(1));
    let columns = n_cubes.div_ceil((rows * layers).max(1));
    (n_cubes > 0).then(|| [columns, rows, layers].map(|n| u32::try_from(n).unwrap_or(u32::MAX)))
}

fn unsupported(context: &Context, kernel: &str, error: &EmitError) -> DeviceError {
    DeviceError::Unsupported {
        device: context.name.clone(),
        kernel: kernel.to_string(),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_all_cubes_within_the_limits() {
        let limits = wgpu::Limits { max_compute_workgroups_per_dimension: 100, ..Default::default() };
        assert_eq!(grid(0, &limits), None);
        assert_eq!(grid(7, &limits), Some([7, 1, 1]));
        for n_cubes in [100, 101, 9_999, 10_000, 10_001, 999_999] {
            let [columns, rows, layers] = grid(n_cubes, &limits).unwrap_or_default();
            assert!([columns, rows, layers].iter().all(|&n| (1..=100).contains(&n)), "{n_cubes}");
            let n = (columns * rows * layers) as usize;
            assert!((n_cubes..n_cubes + (rows * layers) as usize + 100).contains(&n), "{n_cubes}: {n}");
        }
    }
}
