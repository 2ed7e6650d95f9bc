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
mod column_blocks;
mod convolution;
mod epilogue;
mod kernels;
mod library;
mod loops;
mod matmul;
pub mod matrix_units;
pub mod matrix_units_wgsl;
mod panels;
mod site;
mod step;
mod text;
mod variant;
mod verify;
mod workspace;

#[cfg(test)]
mod tests;

pub use choice::{Capability, NO_ALGORITHM, NoProgram, Recorded, Refusal, Tuner};
pub use epilogue::absorbed;
pub use library::{Activation, Epilogue, LibraryMatrix, MatmulCall, Multiplier};
pub use step::{Action, Collective, KernelStep, MatmulStep, Place, Program, Step};
pub use variant::{Choice, TuneKey, Variant, fnv1a};
pub use verify::verify;
pub use workspace::{Programs, Workspaces};

use crate::codegen::CodegenError;
use crate::device_model::DeviceModel;
use crate::fusion::{KernelBody, RowConsumer};
use crate::plan::Plan;
use kernels::own_kernels;
use site::Site;

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
        KernelBody::Matmul(body) if body.uneven != [None, None] => convolution::program(site, body, tuner),
        KernelBody::Matmul(body) => match &body.rows {
            None => matmul::program(site, body, tuner),
            Some(rows) if matches!(rows.consumer, RowConsumer::Blocks { .. }) => {
                column_blocks::program(site, body, tuner)
            }
            Some(rows) => panels::program(site, body, rows, tuner),
        },
        KernelBody::AttentionGradient(_) => Ok(in_zeroed_workspace(site)?),
        KernelBody::Loop(body) => loops::program(site, body, tuner),
        _ => Ok(own_kernels(site)?),
    }
}

/// Kernels that add to their workspace.
fn in_zeroed_workspace(site: &Site) -> Result<Program, CodegenError> {
    let mut program = own_kernels(site)?;
    let bytes = program.workspace_bytes;
    if bytes > 0 {
        let action = Action::Fill { to: Place::Workspace { start: 0, bytes }, bytes, byte: 0 };
        program.steps.insert(0, Step { action, branch: 0, waits: vec![] });
    }
    Ok(program)
}
