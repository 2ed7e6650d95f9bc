//! Programs: what one device does for one kernel.
//!
//! Between a fused kernel and a device stand decisions: library or own kernel, split-K, panels, side sums beside the
//! product, checks before writes, workspaces and grids. [`Plan::programs`] takes all of them, from the kernel, the device
//! model and the choices of a [`Tuner`], and writes them down as a list of steps. A device binds, compiles and enqueues
//! steps, and decides nothing.
//!
//! - A step reads and writes [`Place`]s: operands of the kernel, its workspace, or the record of failed assertions.
//! - Steps of one branch run in order. Branch 1 runs beside branch 0; [`Step::waits`] orders steps of different branches.
//! - [`Programs`] places the workspaces of all launches, and has a text form and a verifier.

mod choice;
mod epilogue;
mod kernels;
mod library;
mod matmul;
pub mod matrix_units;
mod panels;
mod site;
mod text;
mod verify;
mod workspace;

#[cfg(test)]
mod tests;

pub use choice::{Capability, Chosen, NO_ALGORITHM, Recorded, Refusal, TuneKey, Tuner, Variant, fnv1a};
pub use epilogue::absorbed;
pub use library::{Activation, Epilogue, LibraryMatrix, MatmulCall, Multiplier};
pub use verify::verify;
pub use workspace::Workspaces;

use crate::codegen::KernelSpec;
use crate::device_model::DeviceModel;
use crate::fusion::KernelBody;
use crate::plan::Plan;
use site::Site;
use std::sync::Arc;

/// What a device does for one launch of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// In the order in which they are enqueued.
    pub steps: Vec<Step>,
    /// Bytes of workspace that its steps share.
    pub workspace_bytes: usize,
    /// The variant that was chosen where there were several.
    pub chosen: Option<Chosen>,
}

/// One action on one branch.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// 0 is the stream of the launch; 1 runs beside it.
    pub branch: usize,
    /// Earlier steps on other branches that must have finished, as positions in the program.
    pub waits: Vec<usize>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Launches a kernel.
    Kernel(KernelStep),
    /// Calls a library, or the device's own kernel on matrix units.
    Matmul(MatmulStep),
    /// Copies bytes.
    Copy {
        /// From here.
        from: Place,
        /// To here.
        to: Place,
        /// So many.
        bytes: usize,
    },
    /// Fills memory with one byte.
    Fill {
        /// The memory.
        to: Place,
        /// So many bytes.
        bytes: usize,
        /// The byte.
        byte: u8,
    },
    /// Repeats steps.
    Loop {
        /// The steps of one trip.
        body: Vec<Step>,
        /// How many trips.
        trips: usize,
    },
    /// Combines memory of several devices.
    Collective(Collective),
}

/// An operation of several devices on the same place of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// The sum of all, on each.
    AllReduce {
        /// The memory.
        at: Place,
        /// So many bytes.
        bytes: usize,
    },
}

/// A launch of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelStep {
    /// The kernel; steps of one kernel share it.
    pub kernel: Arc<KernelSpec>,
    /// What its pointers point to.
    pub arguments: Vec<Place>,
    /// Blocks along each axis of the grid.
    pub grid: [usize; 3],
    /// Numbers that the launch passes by value, before the seed.
    pub scalars: Vec<usize>,
}

/// A matmul that is not a kernel of code generation.
#[derive(Clone, Debug, PartialEq)]
pub struct MatmulStep {
    /// What is computed; steps of one shape share it.
    pub call: Arc<MatmulCall>,
    /// The left and the right factor, before the offsets of the call.
    pub factors: [Place; 2],
    /// The result.
    pub result: Place,
    /// The bias, if the call has one.
    pub bias: Option<Place>,
    /// The algorithm, if one was chosen already.
    pub algorithm: Option<String>,
}

/// Memory of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// An operand of the kernel, from a byte on.
    Operand {
        /// Its number.
        operand: usize,
        /// The first byte.
        offset: usize,
    },
    /// Part of the workspace.
    Workspace {
        /// The first byte.
        start: usize,
        /// How many.
        bytes: usize,
    },
    /// The record of failed assertions.
    Assertions,
}

impl Place {
    /// A whole operand.
    pub fn operand(operand: usize) -> Place {
        Place::Operand { operand, offset: 0 }
    }
}

impl Program {
    /// Whether a step calls a library.
    pub fn calls_library(&self) -> bool {
        self.steps.iter().any(|step| match &step.action {
            Action::Matmul(step) => step.call.multiplier == Multiplier::Library,
            _ => false,
        })
    }

    /// Appends a step on branch 0.
    fn push(&mut self, action: Action) {
        self.steps.push(Step { action, branch: 0, waits: vec![] });
    }
}

/// The programs of a plan on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Programs {
    /// By launch of the plan.
    pub programs: Vec<Program>,
    /// Where their workspaces lie.
    pub workspaces: Workspaces,
}

/// Why a launch has no program.
#[derive(Debug)]
pub struct NoProgram<E> {
    /// Position in the plan's launches.
    pub launch: usize,
    /// The cause.
    pub refusal: Refusal<E>,
}

impl Plan {
    /// The program of each launch on a device, by the choices of a tuner.
    ///
    /// # Errors
    /// If the device has no kernel for something, or the tuner fails.
    pub fn programs<T: Tuner>(
        &self,
        device: &DeviceModel,
        tuner: &T,
    ) -> Result<Programs, NoProgram<T::Error>> {
        let mut programs = vec![];
        for launch in 0..self.launches.len() {
            let program = program(&Site::new(self, launch, device), tuner);
            programs.push(program.map_err(|refusal| NoProgram { launch, refusal })?);
        }
        let workspaces = Workspaces::of(self, &programs, device);
        let programs = Programs { programs, workspaces };
        if let Some(problem) = verify(self, &programs).first() {
            crate::bug!("pass `programs` has made what cannot run: {problem}");
        }
        Ok(programs)
    }
}

/// The program of a launch.
fn program<T: Tuner>(site: &Site, tuner: &T) -> Result<Program, Refusal<T::Error>> {
    match &site.kernel.body {
        KernelBody::Matmul(body) => match &body.rows {
            None => matmul::program(site, body, tuner),
            Some(rows) => panels::program(site, body, rows, tuner),
        },
        _ => Ok(site.own_kernels()?),
    }
}
