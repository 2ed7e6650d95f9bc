//! What both GPU devices share: autotuning of programs, and errors of launches without one.

pub mod autotune;
pub mod noise;
pub mod parallel;

use crate::device::DeviceError;
use engine_core::plan::Plan;
use engine_core::program::{NoProgram, Refusal};

/// The error of a launch that has no program on a device.
pub fn no_program(device: &str, plan: &Plan, error: NoProgram<DeviceError>) -> DeviceError {
    match error.refusal {
        Refusal::Tuner(error) => error,
        Refusal::Codegen(reason) => {
            let kernel = &plan.kernels[plan.launches[error.launch].kernel];
            DeviceError::not_emitted(device, &kernel.name, &reason)
        }
    }
}
