//! One launch of a plan, made ready: its dispatches with what they bind.

use super::autotune;
use super::compile::{self, Pipeline, Source};
use super::context::Context;
use super::matrix::Block;
use crate::device::DeviceError;
use engine_core::codegen::{Argument, KernelSpec, SplitK};
use engine_core::device_model::DeviceModel;
use engine_core::fusion::{Kernel, KernelBody};
use engine_core::plan::{BufferId, Plan};
use engine_core::rules::Numerics;
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

impl Dispatch {
    /// Puts it into a pass.
    pub fn encode(&self, pass: &mut wgpu::ComputePass, group: &wgpu::BindGroup) {
        let Some(pipeline) = &self.pipeline else { engine_core::bug!("a kernel that was not compiled") };
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, group, &[]);
        let [x, y, z] = self.grid;
        pass.dispatch_workgroups(x, y, z);
    }
}

/// A way to compute a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// By kernels in tiles.
    Tiles(SplitK),
    /// On matrix units, and the epilogue as a kernel over the result.
    Matrices(Block),
}

/// All dispatches of a plan, in order, their kernels compiled.
pub fn dispatches(context: &Arc<Context>, plan: &Plan, seed: u64) -> Result<Vec<Dispatch>, DeviceError> {
    let has_checks = !plan.assertions.is_empty();
    let mut dispatches = vec![];
    for (number, launch) in plan.launches.iter().enumerate() {
        let is_guarded = has_checks && plan.writes_state(launch);
        let (kernel, buffers) = (&plan.kernels[launch.kernel], &launch.buffers[..]);
        let draft = Draft { context, plan: Some(plan), kernel, buffers, launch: number, seed, is_guarded };
        draft.add(plan.scatters_in_place(launch), &mut dispatches)?;
    }
    let owner = |dispatch: &Dispatch| plan.kernels[plan.launches[dispatch.launch].kernel].label();
    load(context, dispatches.iter_mut().map(|dispatch| (owner(dispatch), dispatch)).collect())?;
    Ok(dispatches)
}

/// Compiles the kernels of dispatches, each with the name of its owner.
pub fn load(context: &Context, mut dispatches: Vec<(String, &mut Dispatch)>) -> Result<(), DeviceError> {
    let sources: Vec<(&str, &Source)> =
        dispatches.iter().map(|(owner, dispatch)| (owner.as_str(), &dispatch.source)).collect();
    let pipelines = compile::load(context, &sources)?;
    for ((_, dispatch), pipeline) in dispatches.iter_mut().zip(pipelines) {
        dispatch.pipeline = Some(pipeline);
    }
    Ok(())
}

/// A launch under construction.
#[derive(Clone, Copy)]
pub struct Draft<'p> {
    pub context: &'p Arc<Context>,
    /// Where buffers have names; none for what is only tried.
    pub plan: Option<&'p Plan>,
    pub kernel: &'p Kernel,
    /// Buffers by operand.
    pub buffers: &'p [BufferId],
    /// Position of the launch in the plan.
    pub launch: usize,
    pub seed: u64,
    /// Whether nothing is written while the error flag stands.
    pub is_guarded: bool,
}

impl Draft<'_> {
    fn add(self, is_in_place: bool, dispatches: &mut Vec<Dispatch>) -> Result<(), DeviceError> {
        if let Some(way) = autotune::way(self.context, self.kernel)? {
            self.product(way, dispatches)?;
            let target = self.target();
            let sums = KernelSpec::side_sums(self.kernel).into_iter().map(|fused| fused.on(target));
            return self.push_all(sums.collect(), dispatches);
        }
        let launches = KernelSpec::launches(self.kernel, self.target());
        let mut launches = launches
            .map_err(|error| DeviceError::not_emitted(&self.context.name, &self.kernel.name, &error))?;
        if is_in_place {
            launches.remove(0);
        }
        self.push_all(launches, dispatches)
    }

    /// The product in one of the ways there are, with its epilogue and without the sums beside it.
    pub fn product(self, way: Variant, dispatches: &mut Vec<Dispatch>) -> Result<(), DeviceError> {
        let target = self.target();
        match way {
            Variant::Tiles(cut) => {
                self.push_all(KernelSpec::split_k_product(self.kernel, target, cut), dispatches)
            }
            Variant::Matrices(block) => {
                dispatches.push(self.matrices(block)?);
                self.push_all(vec![KernelSpec::epilogue(self.kernel).on(target)], dispatches)
            }
        }
    }

    /// What the pipeline allows of what the GPU can do.
    fn target(self) -> DeviceModel {
        let target = self.context.model;
        let is_strict = self.plan.is_some_and(|plan| plan.numerics == Numerics::Strict);
        DeviceModel { has_fast_math: target.has_fast_math && !is_strict, ..target }
    }

    fn push_all(self, launches: Vec<KernelSpec>, dispatches: &mut Vec<Dispatch>) -> Result<(), DeviceError> {
        if self.is_guarded {
            // Bad indices are found before anything is written.
            for checks in launches.iter().filter_map(KernelSpec::checks_only) {
                dispatches.extend(self.dispatch(&checks)?);
            }
        }
        for fused in launches {
            let fused = if self.is_guarded { fused.guarded() } else { fused };
            dispatches.extend(self.dispatch(&fused)?);
        }
        Ok(())
    }

    /// None if it has no points.
    fn dispatch(self, fused: &KernelSpec) -> Result<Option<Dispatch>, DeviceError> {
        let points = fused.n_points();
        let Some(grid) = grid(fused.cube_count_for(points), &self.context.limits) else {
            return Ok(None);
        };
        let source = compile::source(self.context, &self.kernel.name, fused)?;
        let arguments = fused.arguments().into_iter().map(|argument| self.bound(argument));
        let arguments: Vec<Bound> = arguments.collect::<Result<_, _>>()?;
        let info = fused.info(points, self.seed as u32);
        Ok(Some(Dispatch { source, pipeline: None, arguments, info, grid, launch: self.launch }))
    }

    fn matrices(self, block: Block) -> Result<Dispatch, DeviceError> {
        let refused = || self.unsupported("the matrices do not fit its matrix units".to_string());
        let KernelBody::Matmul(body) = &self.kernel.body else { return Err(refused()) };
        let source = block.source(body).ok_or_else(refused)?;
        let operands = [body.lhs.operand, body.rhs.operand].map(Argument::Operand);
        let arguments = operands.into_iter().chain([Argument::Product]).map(|argument| self.bound(argument));
        Ok(Dispatch {
            source,
            pipeline: None,
            arguments: arguments.collect::<Result<_, _>>()?,
            // A buffer has at least one word.
            info: vec![0],
            grid: block.grid(body).map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
            launch: self.launch,
        })
    }

    /// What an argument is bound to, if the GPU reaches all of it.
    fn bound(self, argument: Argument) -> Result<Bound, DeviceError> {
        let (bound, name, bytes) = match argument {
            Argument::Flag | Argument::Guard => return Ok(Bound::Flag),
            Argument::Operand(operand) => {
                let (bytes, buffer) = (self.kernel.operands[operand].ty.bytes(), self.buffers[operand]);
                let name = self
                    .plan
                    .map_or(format!("operand {operand}"), |plan| format!("`{}`", plan.buffers[buffer].name));
                (Bound::Buffer(buffer), name, bytes)
            }
            Argument::Workspace { start, bytes } => {
                (Bound::Scratch { start, bytes }, "its scratch".to_string(), bytes)
            }
            Argument::Product => {
                let bytes = product_bytes(self.kernel);
                (Bound::Scratch { start: 0, bytes }, "its product".to_string(), bytes)
            }
        };
        let largest = self.context.limits.max_storage_buffer_binding_size;
        if bytes as u64 <= largest {
            return Ok(bound);
        }
        Err(self.unsupported(format!(
            "{name} takes {}, and a kernel reaches at most {} of a tensor",
            amount(bytes as u64),
            amount(largest)
        )))
    }

    fn unsupported(self, reason: String) -> DeviceError {
        let (device, kernel) = (self.context.name.clone(), self.kernel.name.to_string());
        DeviceError::Unsupported { device, kernel, reason, span: None }
    }
}

/// Bytes for people.
fn amount(bytes: u64) -> String {
    if bytes >> 20 == 0 { format!("{bytes} bytes") } else { format!("{} MiB", bytes >> 20) }
}

/// Bytes of a contraction's product before its epilogue.
fn product_bytes(kernel: &Kernel) -> usize {
    match &kernel.body {
        KernelBody::Matmul(body) => body.batch * body.m * body.n * body.dtype.accumulator().size(),
        _ => 0,
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
