//! Programs through wgpu: dispatches with their pipelines and arguments.

use super::compile;
use super::context::Context;
use super::matrix;
use super::pipeline::{Pipeline, Source};
use crate::device::DeviceError;
use crate::gpu::api_grid;
use engine_core::fusion::Kernel;
use engine_core::plan::{BufferId, Plan};
use engine_core::program::{Action, KernelStep, MatmulStep, Multiplier, Place, Program, Programs};
use std::sync::Arc;

/// A dispatch of a plan.
pub struct Dispatch {
    /// The text of the kernel.
    pub source: Source,
    /// `None` before [`load`].
    pub pipeline: Option<Arc<Pipeline>>,
    /// The arguments in the order of bindings.
    pub arguments: Vec<Bound>,
    /// The scalars in their memory layout.
    pub info: Vec<u64>,
    /// The number of workgroups along each axis.
    pub grid: [u32; 3],
    /// Position of its launch in the plan.
    pub launch: usize,
}

/// An argument of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A buffer of the plan.
    Buffer(BufferId),
    /// The record of failed assertions.
    ErrorFlag,
    /// A part of the workspaces.
    Workspace {
        /// The first byte.
        start: usize,
        /// The number of bytes.
        bytes: usize,
    },
}

impl Dispatch {
    /// Encodes it into a compute pass.
    pub fn encode(&self, pass: &mut wgpu::ComputePass, group: &wgpu::BindGroup) {
        let Some(pipeline) = &self.pipeline else { engine_core::bug!("a kernel that was not compiled") };
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, group, &[]);
        let [x, y, z] = self.grid;
        pass.dispatch_workgroups(x, y, z);
    }
}

/// All compiled dispatches of a plan, in order, and the bytes of its workspaces.
pub fn dispatches(
    context: &Arc<Context>,
    plan: &Plan,
    programs: &Programs,
    seed: u64,
) -> Result<(Vec<Dispatch>, usize), DeviceError> {
    let Programs { programs, workspaces } = programs;
    let mut dispatches = vec![];
    for (number, (launch, program)) in plan.launches.iter().zip(programs).enumerate() {
        let name = |operand: usize| format!("`{}`", plan.buffers[launch.buffers[operand]].name);
        let draft = Draft {
            context,
            kernel: &plan.kernels[launch.kernel],
            buffers: &launch.buffers,
            name_of: &name,
            workspace: workspaces.launches[number].start,
            launch: number,
            seed,
        };
        dispatches.extend(draft.dispatches(program)?);
    }
    let owner = |dispatch: &Dispatch| plan.kernels[plan.launches[dispatch.launch].kernel].label();
    load(context, dispatches.iter_mut().map(|dispatch| (owner(dispatch), dispatch)).collect())?;
    Ok((dispatches, workspaces.bytes))
}

/// The compiled dispatches of one program for autotuning, whose operands are bound by number.
pub fn dispatches_of(
    context: &Arc<Context>,
    kernel: &Kernel,
    program: &Program,
) -> Result<Vec<Dispatch>, DeviceError> {
    let buffers: Vec<BufferId> = (0..kernel.operands.len()).collect();
    let name_of = |operand: usize| format!("operand {operand}");
    let draft =
        Draft { context, kernel, buffers: &buffers, name_of: &name_of, workspace: 0, launch: 0, seed: 0 };
    let mut dispatches = draft.dispatches(program)?;
    let named = dispatches.iter_mut().map(|dispatch| (kernel.name.to_string(), dispatch));
    load(context, named.collect())?;
    Ok(dispatches)
}

/// Compiles the kernels of dispatches, each with the name of its owner.
fn load(context: &Context, mut dispatches: Vec<(String, &mut Dispatch)>) -> Result<(), DeviceError> {
    let sources: Vec<(&str, &Source)> =
        dispatches.iter().map(|(owner, dispatch)| (owner.as_str(), &dispatch.source)).collect();
    let pipelines = compile::load(context, &sources)?;
    for ((_, dispatch), pipeline) in dispatches.iter_mut().zip(pipelines) {
        dispatch.pipeline = Some(pipeline);
    }
    Ok(())
}

/// The translation of a program to dispatches.
#[derive(Clone, Copy)]
struct Draft<'p> {
    context: &'p Arc<Context>,
    kernel: &'p Kernel,
    /// Buffers by operand.
    buffers: &'p [BufferId],
    /// The names of operands, for errors.
    name_of: &'p dyn Fn(usize) -> String,
    /// The start of its workspace.
    workspace: usize,
    launch: usize,
    seed: u64,
}

impl Draft<'_> {
    fn dispatches(self, program: &Program) -> Result<Vec<Dispatch>, DeviceError> {
        program.steps.iter().map(|step| self.dispatch(&step.action)).collect()
    }

    fn dispatch(self, action: &Action) -> Result<Dispatch, DeviceError> {
        match action {
            Action::Kernel(step) => self.of_kernel(step),
            Action::Matmul(step) => self.of_matmul(step),
            Action::Copy { .. } | Action::Fill { .. } | Action::Loop { .. } | Action::Collective(_) => {
                Err(self.unsupported("wgpu has kernels only".to_string()))
            }
        }
    }

    fn of_kernel(self, step: &KernelStep) -> Result<Dispatch, DeviceError> {
        let KernelStep { kernel, arguments, grid, scalars } = step;
        let arguments = arguments.iter().map(|&place| self.bound(place));
        Ok(Dispatch {
            source: compile::source(self.context, &self.kernel.name, kernel)?,
            pipeline: None,
            arguments: arguments.collect::<Result<_, _>>()?,
            info: kernel.info_of(scalars, self.seed as u32),
            grid: api_grid(*grid),
            launch: self.launch,
        })
    }

    fn of_matmul(self, step: &MatmulStep) -> Result<Dispatch, DeviceError> {
        let Multiplier::MatrixUnits(block) = step.call.multiplier else {
            return Err(self.unsupported("wgpu has no library of matmuls".to_string()));
        };
        let refused = || self.unsupported("the matrices do not fit its matrix units".to_string());
        let source = matrix::source(&block, &step.call).ok_or_else(refused)?;
        let places = step.factors.into_iter().chain([step.result]);
        Ok(Dispatch {
            source,
            pipeline: None,
            arguments: places.map(|place| self.bound(place)).collect::<Result<_, _>>()?,
            // A binding has at least one word.
            info: vec![0],
            grid: api_grid(block.grid([step.call.batch, step.call.m, step.call.n])),
            launch: self.launch,
        })
    }

    /// The argument of a place, checked against the largest binding of the GPU.
    fn bound(self, place: Place) -> Result<Bound, DeviceError> {
        let (bound, name, bytes) = match place {
            Place::Assertions => return Ok(Bound::ErrorFlag),
            Place::Operand { operand, offset: 0 } => {
                let bytes = self.kernel.operands[operand].ty.bytes();
                (Bound::Buffer(self.buffers[operand]), (self.name_of)(operand), bytes)
            }
            Place::Operand { .. } => {
                return Err(self.unsupported("it binds tensors from their start only".to_string()));
            }
            Place::Workspace { start, bytes } => {
                let start = self.workspace + start;
                (Bound::Workspace { start, bytes }, "its workspace".to_string(), bytes)
            }
        };
        let largest = self.context.model.most_tensor_bytes;
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
        DeviceError::unsupported(&self.context.name, &self.kernel.name, reason)
    }
}

/// A number of bytes, for the user.
fn amount(bytes: u64) -> String {
    if bytes >> 20 == 0 { format!("{bytes} bytes") } else { format!("{} MiB", bytes >> 20) }
}
