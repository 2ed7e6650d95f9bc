//! Training: steps over shuffled batches, epoch by epoch.

mod best;
mod epochs;
mod measured;
mod part;
mod rates;
mod saving;
mod step_loop;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine_core::compile::Compiled;
use engine_core::ir::Symbol;
use engine_core::pipeline::{Monitor, SplitRef, TrainStage};
use engine_core::stage::{self, ScaleStates, SplitShape, monitored};

use super::batch_steps::BatchSteps;
use super::evaluate;
use super::part::Part;
use super::runnable::{Checking, Compiling, Runnable, Steps};
use super::stage_run::{StageRun, Stopped};
use crate::checkpoint::{CHECKPOINT, Checkpoint, CheckpointError};
use crate::files::Format;
use crate::session::background::Task;
use crate::session::batches::{Batches, Ready};
use crate::session::error::{SessionError, StageFault};
use crate::session::event::Event;
use crate::session::layout::Layout;
use crate::session::order::Order;
use crate::session::plan::Request;
use crate::session::report::{
    BestEpoch, EndReason, EpochReport, LossScaleReport, MemoryReport, StageReport, TrainingEnd,
};
use crate::session::resume::Resume;
use crate::session::rows::DataInputs;
use crate::session::{Session, Subscriber};
use best::Best;
use rates::Rates;
use turn::Turn;

pub use step_loop::StepLoop;

impl Runnable for TrainStage {
    fn run(&self, run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        let StageRun { session, name, tell, resume, .. } = run;
        let mut training = Training::begin(session, name, self, resume, tell)?;
        let outcome = training.run(session, tell);
        training.conclude(session, outcome, tell).map(Some)
    }

    fn part(
        &self,
        run: &mut StageRun<'_, '_>,
        name: &Symbol,
        steps: Option<u64>,
    ) -> Result<Box<dyn Part>, SessionError> {
        Training::begin(run.session, name, self, None, run.tell)?.into_part(run.session, steps)
    }

    fn check(&self, checking: &Checking<'_>) -> Result<Vec<SessionError>, SessionError> {
        let (pipeline, registry) = (checking.pipeline, checking.registry);
        if let Some(shape) = checking.shape(&self.data)? {
            let layout = layout(self, checking.name, shape.n_rows)?;
            n_steps(checking.name, self, &layout)?;
            let (whole, last) = layout.ways();
            for rows in [whole, last].into_iter().flatten() {
                checking.planned(stage::training(pipeline, self, &shape, rows, registry))?;
            }
            if self.accumulate > 1 {
                checking.planned(stage::applying(pipeline, self, &shape, registry))?;
            }
        }
        if let Some(evaluation) = &self.evaluate {
            evaluate::check(evaluation, &format!("{}.evaluate", checking.name), checking)?;
        }
        Ok(vec![])
    }

    fn compile(&self, compiling: &Compiling<'_>) -> Result<Option<Compiled>, SessionError> {
        let shape = (compiling.shape)(&self.data)?;
        let rows = Layout::whole(&shape, self.batch);
        compiling.compile(&Request::Training { stage: self, data: &shape, rows })
    }

    fn compile_end(&self, compiling: &Compiling<'_>) -> Result<Option<Compiled>, SessionError> {
        if self.accumulate <= 1 {
            return Ok(None);
        }
        let shape = (compiling.shape)(&self.data)?;
        compiling.compile(&Request::Applying { stage: self, data: &shape })
    }

    fn steps(&self, session: &mut Session, name: &Symbol) -> Result<Option<Box<dyn Steps>>, SessionError> {
        session.prefetch(&self.data)?;
        let shape = session.resident.shape(&self.data)?;
        let layout = layout(self, name, shape.n_rows)?;
        let mut order = session.order(&self.data, shape.n_rows)?;
        if let Some(order) = &mut order {
            order.begin(0, &session.background)?;
        }
        session.resident.wait(&self.data)?;
        let rows = (&shape, layout, layout.steps() as u64);
        let batches = session.prepare_training(name, self, rows, order.as_ref())?;
        Ok(Some(Box::new(BatchSteps { batches, _order: order })))
    }

    fn files(&self) -> Vec<(&Path, &'static Format)> {
        let paths = self.checkpoint.iter().flat_map(|decl| [Some(&decl.path), decl.best.as_ref()]);
        paths.flatten().map(|path| (Path::new(path), &CHECKPOINT)).collect()
    }

    fn is_resumable(&self) -> bool {
        true
    }
}

fn layout(stage: &TrainStage, name: &Symbol, n_rows: usize) -> Result<Layout, SessionError> {
    Layout::new(name, n_rows, (stage.batch, stage.accumulate), stage.last_batch)
}

impl Session {
    /// The order of a training stage on the device, if its data is kept there.
    fn order(&self, split: &SplitRef, n_rows: usize) -> Result<Option<Order>, SessionError> {
        let is_resident = self.is_resident(split)?;
        is_resident.then(|| Order::new(Arc::clone(&self.device), self.pipeline.seed, n_rows)).transpose()
    }

    /// Plans the steps of a training stage, whose data is on the device or streams to it.
    fn prepare_training(
        &mut self,
        name: &Symbol,
        stage: &TrainStage,
        (shape, layout, n_steps): (&SplitShape, Layout, u64),
        order: Option<&Order>,
    ) -> Result<Batches, SessionError> {
        let planner = Arc::clone(&self.planner);
        let windows = self.windows(&stage.data, layout, true, n_steps)?;
        let plan = |data: &SplitShape, rows| planner.plan_for(name, &Request::Training { stage, data, rows });
        let order = order.map(Order::buffer);
        let mut batches = self.batches(name, (&stage.data, shape), (layout, windows), &plan, order)?;
        if stage.accumulate > 1 {
            let plan = planner.plan_for(name, &Request::Applying { stage, data: shape })?;
            let executable = self.prepare(name, &plan.plan, DataInputs::None)?;
            batches.end_steps_with(Ready { plan, executable }, &self.pipeline.params);
            self.state.clear(&batches.used_up)?;
        }
        // What an earlier run of the stage left.
        let is_declared = |name: &Symbol| self.pipeline.params.iter().any(|param| param.name == *name);
        let own: Vec<Symbol> = batches.carried.iter().filter(|name| !is_declared(name)).cloned().collect();
        self.state.clear(&own)?;
        Rates::new(stage).write(&self.state)?;
        Ok(batches)
    }
}

/// A training stage on its way.
struct Training {
    name: Symbol,
    stage: TrainStage,
    batches: Batches,
    evaluation: Option<Batches>,
    /// `None` if rows are visited in file order.
    order: Option<Order>,
    /// Steps taken, those before a resumed checkpoint included.
    step: u64,
    /// The epoch that has begun, counted from 0, and when.
    epoch: Option<(u64, Instant)>,
    n_steps: u64,
    /// The monitor of the best epoch, if there is one.
    monitor: Option<Monitor>,
    best: Best,
    rates: Rates,
    /// The state of the best epoch, if it is restored at the end.
    best_state: Option<Checkpoint>,
    saving: Option<(PathBuf, Task<Result<(), CheckpointError>>)>,
    start: Instant,
    first_step: u64,
    stepping: Duration,
    epochs: Vec<EpochReport>,
    memory: MemoryReport,
    /// Where a part of a `Repeat` stands.
    turn: Option<Turn>,
}

impl Training {
    /// A training before its first step, or where a checkpoint stands.
    fn begin(
        session: &mut Session,
        name: &Symbol,
        stage: &TrainStage,
        resume: Option<Resume>,
        tell: &mut Subscriber<'_>,
    ) -> Result<Self, SessionError> {
        let mut training = Training::new(session, name, stage)?;
        if let Some(resume) = resume {
            training.resume(session, &resume)?;
            if let Some(decl) = &stage.checkpoint {
                session.repair_best(decl, (&resume.checkpoint, training.best.step), tell)?;
            }
            tell(&Event::CheckpointRead { path: &resume.path, step: training.step });
            if resume.checkpoint.fingerprint != session.fingerprint {
                tell(&Event::Note(
                    "the graph has changed since the checkpoint was written, but its state fits",
                ));
            }
        }
        tell(&Event::StageStarted { stage: name, kind: "train", n_steps: training.n_steps });
        session.report_windows(&stage.data, &training.batches, tell);
        if let (Some(evaluation), Some(batches)) = (&stage.evaluate, &training.evaluation) {
            session.report_windows(&evaluation.data, batches, tell);
        }
        Ok(training)
    }

    /// Ends a training that was run with that outcome.
    fn conclude(
        mut self,
        session: &mut Session,
        outcome: Result<(), SessionError>,
        tell: &mut Subscriber<'_>,
    ) -> Result<StageReport, Stopped> {
        // A file in writing is finished even after a failure.
        let saved = self.finish_saving(tell);
        match outcome.and(saved) {
            Ok(()) => {
                // The best epoch has a count of its own.
                let loss_scale = self.loss_scale(session)?;
                let is_restored = self.restore_best(session)?;
                let end = self.end(is_restored);
                if let Some(scale) = &loss_scale {
                    tell(&Event::Note(&scale.to_string()));
                }
                Ok(StageReport { loss_scale, ..self.report(Some(end)) })
            }
            Err(error) => Err(Stopped { error: Box::new(error), report: Some(Box::new(self.report(None))) }),
        }
    }

    fn new(session: &mut Session, name: &Symbol, stage: &TrainStage) -> Result<Self, SessionError> {
        let start = Instant::now();
        let monitor = monitored(&session.pipeline, stage).map_err(|issue| SessionError::Plan {
            stage: name.clone(),
            source: Box::new(StageFault(issue)),
        })?;
        session.prefetch(&stage.data)?;
        if let Some(evaluation) = &stage.evaluate {
            session.prefetch(&evaluation.data)?;
        }
        let shape = session.resident.shape(&stage.data)?;
        let layout = layout(stage, name, shape.n_rows)?;
        let n_steps = n_steps(name, stage, &layout)?;
        let order = session.order(&stage.data, shape.n_rows)?;
        session.resident.wait(&stage.data)?;
        let batches = session.prepare_training(name, stage, (&shape, layout, n_steps), order.as_ref())?;
        let scope = format!("{name}.evaluate");
        let evaluation = stage.evaluate.as_ref();
        let evaluation =
            evaluation.map(|evaluation| session.prepare_evaluation(name, &scope, evaluation)).transpose()?;
        let mut training = Training {
            n_steps,
            name: name.clone(),
            stage: stage.clone(),
            batches,
            evaluation,
            order,
            step: 0,
            epoch: None,
            monitor,
            best: Best::default(),
            rates: Rates::new(stage).by_step(stage, n_steps, session.planner.registry()),
            best_state: None,
            saving: None,
            start,
            first_step: 0,
            stepping: Duration::ZERO,
            epochs: vec![],
            memory: MemoryReport::default(),
            turn: None,
        };
        training.memory = training.check_memory(session)?;
        training.start_afresh(session)?;
        Ok(training)
    }

    fn check_memory(&self, session: &Session) -> Result<MemoryReport, SessionError> {
        let evaluated = self.stage.evaluate.as_ref().map(|evaluation| &evaluation.data);
        let mut splits = vec![&self.stage.data];
        splits.extend(evaluated.filter(|split| **split != self.stage.data));
        let plans = self.batches.bytes() + self.evaluation.as_ref().map_or(0, Batches::bytes);
        session.check_memory(&self.name, &splits, (&self.batches.plan, plans))
    }

    /// Selects the state in checkpoints of this stage, and resets the sums of an earlier stage.
    fn start_afresh(&self, session: &mut Session) -> Result<(), SessionError> {
        let params = session.pipeline.params.iter().map(|param| &param.name);
        let mut names: Vec<Symbol> = params.cloned().collect();
        names.extend(
            self.batches.carried.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>(),
        );
        session.trained.names = names;
        self.note_progress(session);
        session.state.zero(&self.batches.nan_step)?;
        session.state.zero(self.batches.loss_scale.iter().flat_map(ScaleStates::all))?;
        self.batches.reset_sums(&session.state)
    }

    /// Why training has ended, and which epoch was the best.
    fn end(&self, is_restored: bool) -> TrainingEnd {
        let per_epoch = self.batches.layout.steps() as u64;
        let all = per_epoch.saturating_mul(self.stage.epochs as u64);
        let reason = match &self.stage.early_stop {
            Some(early_stop) if self.is_out_of_patience() => {
                EndReason::EarlyStop { patience: early_stop.patience, min_delta: early_stop.min_delta }
            }
            _ if self.step < all => EndReason::MaxSteps,
            _ => EndReason::Epochs,
        };
        let best = self.monitor.as_ref().zip(self.best.metric).map(|(monitor, value)| BestEpoch {
            epoch: self.best.epoch,
            metric: monitor.metric.to_string(),
            value,
            is_restored,
        });
        TrainingEnd {
            reason,
            epoch: self.step.div_ceil(per_epoch),
            n_epochs: self.n_steps.div_ceil(per_epoch),
            best,
        }
    }

    /// The factor of the loss after the last step.
    fn loss_scale(&self, session: &Session) -> Result<Option<LossScaleReport>, SessionError> {
        let Some(states) = &self.batches.loss_scale else { return Ok(None) };
        let factor = f32::from_le_bytes(session.state.word(&states.factor)?);
        let taken = i32::from_le_bytes(session.state.word(&states.taken)?);
        Ok(Some(LossScaleReport { factor, skipped: self.step - taken as u64 }))
    }

    /// Rows that the first `step` steps read.
    fn rows_before(&self, step: u64) -> u64 {
        let layout = &self.batches.layout;
        let per_epoch = layout.steps() as u64;
        let (n_epochs, position) = (step / per_epoch, (step % per_epoch) as usize);
        n_epochs * layout.rows() as u64 + layout.rows_before(position) as u64
    }

    fn report(self, end: Option<TrainingEnd>) -> StageReport {
        let steps = self.step - self.first_step;
        StageReport {
            name: self.name.to_string(),
            kind: "train".to_string(),
            end,
            seconds: self.start.elapsed().as_secs_f64(),
            steps,
            rows: Some(self.rows_before(self.step) - self.rows_before(self.first_step)),
            step_us: self.stepping.as_secs_f64() * 1e6 / steps.max(1) as f64,
            metrics: self.epochs.last().map(|epoch| epoch.metrics.clone()).unwrap_or_default(),
            epochs: self.epochs,
            kernels_per_step: self.batches.kernels_per_step,
            ..StageReport::default()
        }
        .with_memory(self.memory)
    }
}

/// The steps of a stage.
fn n_steps(name: &Symbol, stage: &TrainStage, layout: &Layout) -> Result<u64, SessionError> {
    let all = (layout.steps() as u64).saturating_mul(stage.epochs as u64);
    let n_steps = stage.max_steps.map_or(all, |most| all.min(most as u64));
    let n_batches = n_steps.saturating_mul(layout.n_parts as u64);
    if i32::try_from(n_batches).is_err() {
        let why = format!("{n_batches} batches do not fit the step counter, an i32");
        return Err(SessionError::Rows { stage: name.clone(), why });
    }
    Ok(n_steps)
}
