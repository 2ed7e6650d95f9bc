//! Evaluation: means of metrics over all rows of a split.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine_core::compile::Compiled;
use engine_core::ir::Symbol;
use engine_core::pipeline::{Evaluation, LastBatch};
use engine_core::stage::{self, SplitShape};
use indexmap::IndexMap;

use super::batch_steps::BatchSteps;
use super::part::Part;
use super::runnable::{Checking, Compiling, Runnable, Steps};
use super::stage_run::{StageRun, Stopped};
use crate::session::batches::Batches;
use crate::session::error::SessionError;
use crate::session::event::{Event, report_kept};
use crate::session::layout::Layout;
use crate::session::plan::Request;
use crate::session::report::{MemoryReport, StageReport};
use crate::session::trace::traced_step;
use crate::session::{Session, Subscriber};

/// Steps between two checks of the flag that interrupts.
const SLICE: usize = 32;

impl Runnable for Evaluation {
    fn run(&self, mut run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        let mut evaluating = Box::new(Evaluating::new(run.session, run.name, self)?);
        let n_steps = evaluating.batches.layout.steps() as u64;
        (run.tell)(&Event::StageStarted { stage: run.name, kind: "evaluate", n_steps });
        run.session.report_windows(&self.data, &evaluating.batches, run.tell);
        evaluating.trip(&mut run)?;
        evaluating.conclude(&mut run, true)
    }

    fn part(
        &self,
        run: &mut StageRun<'_, '_>,
        name: &Symbol,
        _: Option<u64>,
    ) -> Result<Box<dyn Part>, SessionError> {
        Ok(Box::new(Evaluating::new(run.session, name, self)?))
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

/// An `Evaluate` stage on its way.
struct Evaluating {
    name: Symbol,
    stage: Evaluation,
    batches: Batches,
    memory: MemoryReport,
    metrics: IndexMap<String, f64>,
    n_trips: u64,
    stepping: Duration,
    start: Instant,
}

impl Evaluating {
    fn new(session: &mut Session, name: &Symbol, stage: &Evaluation) -> Result<Evaluating, SessionError> {
        let start = Instant::now();
        let batches = session.prepare_evaluation(name, name, stage)?;
        let memory = session.check_memory(name, &[&stage.data], (&batches.plan, batches.bytes()))?;
        let (name, stage, metrics) = (name.clone(), stage.clone(), IndexMap::new());
        let stepping = Duration::ZERO;
        Ok(Evaluating { name, stage, batches, memory, metrics, n_trips: 0, stepping, start })
    }
}

impl Part for Evaluating {
    fn trip(&mut self, run: &mut StageRun<'_, '_>) -> Result<(), Stopped> {
        let StageRun { session, tell, .. } = run;
        let start = Instant::now();
        self.metrics = session.evaluate(&self.name, (&mut self.batches, Some(&self.stage)), tell)?;
        self.stepping += start.elapsed();
        self.n_trips += 1;
        if let Some(set) = session.resident.set(&self.stage.data.data) {
            tell(&Event::Evaluated { stage: &self.name, metrics: &self.metrics, set });
        }
        Ok(())
    }

    fn conclude(
        self: Box<Self>,
        run: &mut StageRun<'_, '_>,
        _: bool,
    ) -> Result<Option<StageReport>, Stopped> {
        let steps = self.n_trips * self.batches.layout.steps() as u64;
        let report = StageReport {
            name: self.name.to_string(),
            steps,
            rows: Some(self.n_trips * self.batches.layout.rows() as u64),
            step_us: self.stepping.as_secs_f64() * 1e6 / steps.max(1) as f64,
            metrics: self.metrics,
            kernels_per_step: self.batches.kernels_per_step,
            ..run.report("evaluate", self.start)
        };
        Ok(Some(report.with_memory(self.memory)))
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
