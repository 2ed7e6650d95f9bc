//! Evaluation: means of metrics over all rows of a split.

use std::time::Instant;

use engine_core::ir::Symbol;
use engine_core::pipeline::{Evaluation, LastBatch};
use engine_core::stage::SplitShape;
use indexmap::IndexMap;

use super::batches::{Batches, Layout};
use super::error::SessionError;
use super::event::{Event, tell_kept};
use super::report::StageReport;
use super::trace::traced_step;
use super::{Session, Subscriber};

/// Steps between looks at the flag that interrupts.
const SLICE: usize = 32;

impl Session {
    pub(super) fn evaluate_stage(
        &mut self,
        stage: &Symbol,
        evaluation: &Evaluation,
        tell: &mut Subscriber<'_>,
    ) -> Result<StageReport, SessionError> {
        let start = Instant::now();
        let mut batches = self.prepare_evaluation(stage, stage, evaluation)?;
        let memory = self.check_memory(stage, &[&evaluation.data], (&batches.plan, batches.bytes()))?;
        let n_steps = batches.layout.steps() as u64;
        tell(&Event::StageStarted { stage, kind: "evaluate", n_steps });
        self.tell_of_windows(&evaluation.data, &batches, tell);
        let steps_start = Instant::now();
        let metrics = self.evaluate(stage, (&mut batches, Some(evaluation)), tell)?;
        let step_us = steps_start.elapsed().as_secs_f64() * 1e6 / n_steps as f64;
        if let Some(set) = self.resident.set(&evaluation.data.data) {
            tell(&Event::Evaluated { stage, metrics: &metrics, set });
        }
        Ok(StageReport {
            name: stage.to_string(),
            kind: "evaluate".to_string(),
            seconds: start.elapsed().as_secs_f64(),
            steps: n_steps,
            step_us,
            epochs: vec![],
            end: None,
            metrics,
            kernels_per_step: batches.kernels_per_step,
            ..StageReport::default()
        }
        .with_memory(memory))
    }

    /// Plans an evaluation; `scope` keeps its sums apart from those of others.
    pub(super) fn prepare_evaluation(
        &mut self,
        stage: &Symbol,
        scope: &str,
        evaluation: &Evaluation,
    ) -> Result<Batches, SessionError> {
        self.prefetch(&evaluation.data)?;
        let shape = self.resident.shape(&evaluation.data)?;
        let layout = Layout::new(stage, shape.n_rows, (evaluation.batch, 1), LastBatch::Short)?;
        let planner = std::sync::Arc::clone(&self.planner);
        self.resident.wait(&evaluation.data)?;
        let windows = self.windows(&evaluation.data, layout, false, layout.steps() as u64)?;
        let plan = |shape: &SplitShape, rows| {
            let plan = planner.evaluation(scope, evaluation, shape, rows);
            plan.map_err(|source| SessionError::Plan { stage: stage.clone(), source })
        };
        self.batches(stage, (&evaluation.data, &shape), (layout, windows), &plan, None)
    }

    /// Runs a planned evaluation over all of its rows. One that is a stage of its own, and says which, may be interrupted
    /// and looked at.
    pub(super) fn evaluate(
        &self,
        stage: &Symbol,
        (batches, own): (&mut Batches, Option<&Evaluation>),
        tell: &mut Subscriber<'_>,
    ) -> Result<IndexMap<String, f64>, SessionError> {
        batches.reset_sums(&self.state)?;
        let n_steps = batches.layout.steps() as u64;
        let mut step = 0;
        while step < n_steps {
            step += match own.filter(|_| self.inspection.trace_nan) {
                Some(evaluation) => {
                    let ring = batches.windows.as_ref().map(|windows| windows.ring_of_step(step).clone());
                    let data = |name: &str| self.data_input(name, &evaluation.data, (None, ring.as_ref()));
                    traced_step(stage, batches, (&self.state, self.pipeline.seed, step), &data)?;
                    1
                }
                None => {
                    let ran = batches.run(step, self.steps_at_once(step, SLICE));
                    ran.map_err(|source| SessionError::Run { stage: stage.clone(), source })? as u64
                }
            };
            let is_last = self.inspection.every.is_none() && step == n_steps;
            if own.is_some() && (is_last || self.is_kept_after(step)) {
                tell_kept(stage, step - 1, batches.kept()?, tell);
            }
            if own.is_some() && self.is_cancelled() {
                return Err(SessionError::Interrupted { checkpoint: None });
            }
        }
        let means = batches.means(&self.state, batches.layout.rows())?;
        Ok(means.into_iter().map(|(metric, mean)| (metric.to_string(), mean)).collect())
    }
}
