//! The measurements of a step of training.

use engine_core::stage::GRAD_NORM;

use super::Training;
use crate::session::event::{Event, Measure};
use crate::session::report::StepReport;
use crate::session::{Session, Subscriber};

impl Training {
    pub(super) fn tell_progress(&self, session: &Session, tell: &mut Subscriber<'_>) {
        let per_epoch = self.batches.layout.steps() as u64;
        tell(&Event::Progress {
            stage: &self.name,
            step: self.step,
            n_steps: self.n_steps,
            epoch: (self.step - 1) / per_epoch + 1,
            n_epochs: self.n_steps.div_ceil(per_epoch),
            loss: self.batches.sums.first().and_then(|loss| self.batches.output(&loss.metric)),
            measure: Measure(&|| self.measured(session)),
        });
    }

    /// The measurements of the last step.
    pub(super) fn measured(&self, session: &Session) -> StepReport {
        let per_epoch = self.batches.layout.steps() as u64;
        let output = |name: &str| self.batches.output(name);
        let metrics = self.batches.sums.iter().map(|sum| &sum.metric);
        StepReport {
            step: self.step,
            epoch: (self.step - 1) / per_epoch + 1,
            metrics: metrics.filter_map(|name| Some((name.to_string(), output(name)?))).collect(),
            rates: self.rates.at(self.step - 1, session.planner.registry()),
            grad_norm: output(GRAD_NORM),
            rows: self.rows_before(self.step),
            seconds: self.stepping.as_secs_f64(),
            device_bytes: self.memory.total(),
        }
    }
}
