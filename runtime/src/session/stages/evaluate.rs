//! Evaluation: means of metrics over all rows of a split.

use std::sync::Arc;
use std::time::Instant;

use engine_core::compile::Compiled;
use engine_core::ir::Symbol;
use engine_core::pipeline::{Evaluation, LastBatch};
use engine_core::stage::{self, SplitShape};
use indexmap::IndexMap;

use super::batch_steps::BatchSteps;
use super::runnable::{Checking, Compiling, Runnable, StageRun, Steps, Stopped};
use crate::session::batches::Batches;
use crate::session::error::SessionError;
use crate::session::event::{Event, report_kept};
use crate::session::layout::Layout;
use crate::session::plan::Request;
use crate::session::report::StageReport;
use crate::session::trace::traced_step;
use crate::session::{Session, Subscriber};

/// Steps between two checks of the flag that interrupts.
const SLICE: usize = 32;

impl Runnable for Evaluation {
    fn run(&self, run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        let StageRun { session, name, tell, .. } = run;
        let start = Instant::now();
        let mut batches = session.prepare_evaluation(name, name, self)?;
        let memory = session.check_memory(name, &[&self.data], (&batches.plan, batches.bytes()))?;
        let n_steps = batches.layout.steps() as u64;
        tell(&Event::StageStarted { stage: name, kind: "evaluate", n_steps });
        session.report_windows(&self.data, &batches, tell);
        let steps_start = Instant::now();
        let metrics = session.evaluate(name, (&mut batches, Some(self)), tell)?;
        let step_us = steps_start.elapsed().as_secs_f64() * 1e6 / n_steps as f64;
        if let Some(set) = session.resident.set(&self.data.data) {
            tell(&Event::Evaluated { stage: name, metrics: &metrics, set });
        }
        let report = StageReport {
            name: name.to_string(),
            kind: "evaluate".to_string(),
            seconds: start.elapsed().as_secs_f64(),
            steps: n_steps,
            rows: Some(batches.layout.rows() as u64),
            step_us,
            metrics,
            kernels_per_step: batches.kernels_per_step,
            ..StageReport::default()
        };
        Ok(Some(report.with_memory(memory)))
    }

    fn check(&self, checking: &Checking<'_>) -> Result<Vec<SessionError>, SessionError> {
        check(self, checking.name, checking)?;
        Ok(vec![])
    }

    fn compile(&self, compiling: &Compiling<'_>) -> Result<Option<Compiled>, SessionError> {
        let shape = (compiling.shape)(&self.data)?;
        let (scope, rows) = (&**compiling.name, Layout::whole(&shape, self.batch));
        compiling.compile(&Request::Evaluation { scope, evaluation: self, data: &shape, rows })
    }

    fn steps(&self, session: &mut Session, name: &Symbol) -> Result<Option<Box<dyn Steps>>, SessionError> {
        let batches = session.prepare_evaluation(name, name, self)?;
        Ok(Some(Box::new(BatchSteps { batches, _order: None })))
    }
}

/// Makes the graphs of an evaluation for the available data; `scope` separates its sums from those of others.
pub(super) fn check(
    evaluation: &Evaluation,
    scope: &str,
    checking: &Checking<'_>,
) -> Result<(), SessionError> {
    let Some(shape) = checking.shape(&evaluation.data)? else { return Ok(()) };
    let layout = Layout::new(checking.name, shape.n_rows, (evaluation.batch, 1), LastBatch::Short)?;
    let (whole, last) = layout.ways();
    for rows in [whole, last].into_iter().flatten() {
        let (pipeline, registry) = (checking.pipeline, checking.registry);
        checking.planned(stage::evaluation(pipeline, scope, evaluation, &shape, rows, registry))?;
    }
    Ok(())
}

impl Session {
    /// Plans an evaluation; `scope` separates its sums from those of others.
    pub(super) fn prepare_evaluation(
        &mut self,
        stage: &Symbol,
        scope: &str,
        evaluation: &Evaluation,
    ) -> Result<Batches, SessionError> {
        self.prefetch(&evaluation.data)?;
        let shape = self.resident.shape(&evaluation.data)?;
        let layout = Layout::new(stage, shape.n_rows, (evaluation.batch, 1), LastBatch::Short)?;
        let planner = Arc::clone(&self.planner);
        self.resident.wait(&evaluation.data)?;
        let windows = self.windows(&evaluation.data, layout, false, layout.steps() as u64)?;
        let plan = |data: &SplitShape, rows| {
            planner.plan_for(stage, &Request::Evaluation { scope, evaluation, data, rows })
        };
        self.batches(stage, (&evaluation.data, &shape), (layout, windows), &plan, None)
    }

    /// Runs a planned evaluation over all of its rows. An evaluation that is its own stage may be interrupted and traced.
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
                report_kept(stage, step - 1, batches.kept()?, tell);
            }
            if own.is_some() && self.is_cancelled() {
                return Err(SessionError::Interrupted { checkpoint: None });
            }
        }
        let means = batches.means(&self.state, batches.layout.rows())?;
        Ok(means.into_iter().map(|(metric, mean)| (metric.to_string(), mean)).collect())
    }
}
