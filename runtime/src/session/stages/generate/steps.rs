//! Steps of one token, to measure.

use std::sync::Arc;

use engine_core::plan::Plan;

use crate::device::{KernelTime, RunError};
use crate::session::decoder::Decoder;
use crate::session::stages::Steps;

/// Steps of one token, from the first place of a text to the last one.
pub struct TokenSteps(pub Decoder);

impl Steps for TokenSteps {
    fn plan(&self) -> &Arc<Plan> {
        self.0.token_step().plan()
    }

    fn n_whole(&self) -> u64 {
        self.0.capacity as u64
    }

    fn run(&mut self, step: u64, n_steps: usize) -> Result<(), RunError> {
        Steps::run(self.0.token_step_mut(), step, n_steps)
    }

    fn host_seconds(&self) -> Option<f64> {
        self.0.token_step().host_seconds()
    }

    fn profile(&mut self, step: u64) -> Result<Vec<KernelTime>, RunError> {
        Steps::profile(self.0.token_step_mut(), step)
    }
}
