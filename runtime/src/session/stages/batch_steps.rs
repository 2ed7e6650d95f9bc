//! Batches as steps to measure.

use std::sync::Arc;

use engine_core::plan::Plan;

use super::runnable::Steps;
use crate::device::{KernelTime, RunError};
use crate::session::batches::Batches;
use crate::session::order::Order;

/// Batches with their order. The order of their rows lives as long as the executables that read it.
pub(super) struct BatchSteps {
    pub(super) batches: Batches,
    pub(super) _order: Option<Order>,
}

impl Steps for BatchSteps {
    fn plan(&self) -> &Arc<Plan> {
        &self.batches.plan
    }

    fn n_whole(&self) -> u64 {
        self.batches.layout.n_full.max(1) as u64
    }

    fn run(&mut self, step: u64, n_steps: usize) -> Result<(), RunError> {
        let mut n_done = 0;
        while n_done < n_steps {
            n_done += self.batches.run(step + n_done as u64, n_steps - n_done)?;
        }
        Ok(())
    }

    fn host_seconds(&self) -> Option<f64> {
        self.batches.host_seconds()
    }

    fn profile(&mut self, step: u64) -> Result<Vec<KernelTime>, RunError> {
        self.batches.profile(step)
    }
}
