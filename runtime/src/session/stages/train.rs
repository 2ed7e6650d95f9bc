//! Training: steps over shuffled batches, epoch by epoch.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine_core::ir::Symbol;
use engine_core::pipeline::{Monitor, SplitRef, TrainStage};
use engine_core::stage::{SplitShape, monitored};
use indexmap::IndexMap;

use super::background::Task;
use super::batches::{Batches, Layout, Ready};
use super::best::Best;
use super::compiling::StageFault;
use super::error::SessionError;
use super::event::{Event, tell_kept};
use super::order::Order;
use super::report::{BestEpoch, EndReason, EpochReport, MemoryReport, StageReport, TrainingEnd};
use super::rows::DataInputs;
use super::trace::traced_step;
use super::{Resume, STAGE, Session, Stopped, Subscriber, names};
use crate::checkpoint::{self, Checkpoint, CheckpointError, Cursor};

/// Most steps between two looks at the loss and at the flag that interrupts, and the time they should take at most.
const MOST_STEPS: usize = 1024;
const SLICE_TIME: Duration = Duration::from_millis(50);

impl Session {
    pub(super) fn train(
        &mut self,
        name: &Symbol,
        stage: &TrainStage,
        resume: Option<Resume>,
        tell: &mut Subscriber<'_>,
    ) -> Result<StageReport, Stopped> {
        let mut training = Training::new(self, name, stage)?;
        if let Some(resume) = resume {
            training.resume(self, &resume)?;
            if let Some(decl) = &stage.checkpoint {
                self.repair_best(decl, (&resume.checkpoint, training.best.step), tell)?;
            }
            tell(&Event::CheckpointRead { path: &resume.path, step: training.step });
            if resume.checkpoint.fingerprint != self.fingerprint {
                tell(&Event::Note(
                    "the graph has changed since the checkpoint was written, but its state fits",
                ));
            }
        }
        tell(&Event::StageStarted { stage: name, kind: "train", n_steps: training.n_steps });
        self.tell_of_windows(&stage.data, &training.batches, tell);
        if let (Some(evaluation), Some(batches)) = (&stage.evaluate, &training.evaluation) {
            self.tell_of_windows(&evaluation.data, batches, tell);
        }
        let outcome = training.run(self, tell);
        // Whatever happened, a file that is being written is finished first.
        let saved = training.finish_saving(tell);
        match outcome.and(saved) {
            Ok(()) => {
                let is_restored = training.restore_best(self)?;
                let end = training.end(is_restored);
                Ok(training.report(Some(end)))
            }
            Err(error) => {
                Err(Stopped { error: Box::new(error), report: Some(Box::new(training.report(None))) })
            }
        }
    }

    /// The order of a training stage on the device, if its data is kept there.
    pub(super) fn order(&self, split: &SplitRef, n_rows: usize) -> Result<Option<Order>, SessionError> {
        let is_resident = self.is_resident(split)?;
        is_resident.then(|| Order::new(Arc::clone(&self.device), self.pipeline.seed, n_rows)).transpose()
    }

    /// Plans the steps of a training stage, whose data is on the device or comes to it.
    pub(super) fn prepare_training(
        &mut self,
        name: &Symbol,
        stage: &TrainStage,
        (shape, layout, n_steps): (&SplitShape, Layout, u64),
        order: Option<&Order>,
    ) -> Result<Batches, SessionError> {
        let planner = Arc::clone(&self.planner);
        let fault = |source| SessionError::Plan { stage: name.clone(), source };
        let windows = self.windows(&stage.data, layout, true, n_steps)?;
        let plan = |shape: &SplitShape, rows| planner.training(stage, shape, rows).map_err(fault);
        let order = order.map(Order::buffer);
        let mut batches = self.batches(name, (&stage.data, shape), (layout, windows), &plan, order)?;
        if stage.accumulate > 1 {
            let plan = planner.applying(stage, shape).map_err(fault)?;
            let executable = self.prepare(name, &plan.plan, DataInputs::None)?;
            batches.end_steps_with(Ready { plan, executable });
            self.state.clear(&batches.used_up)?;
        }
        Ok(batches)
    }
}

/// A training stage on its way.
struct Training<'p> {
    name: &'p Symbol,
    stage: &'p TrainStage,
    batches: Batches,
    evaluation: Option<Batches>,
    /// None where rows come in that order.
    order: Option<Order>,
    /// Steps taken, those before a resumed checkpoint included.
    step: u64,
    n_steps: u64,
    /// What tells the best epoch, if something does.
    monitor: Option<Monitor>,
    best: Best,
    /// The state of the best epoch, if it is to come back.
    best_state: Option<Checkpoint>,
    saving: Option<(PathBuf, Task<Result<(), CheckpointError>>)>,
    start: Instant,
    first_step: u64,
    stepping: Duration,
    epochs: Vec<EpochReport>,
    memory: MemoryReport,
}

impl<'p> Training<'p> {
    fn new(session: &mut Session, name: &'p Symbol, stage: &'p TrainStage) -> Result<Self, SessionError> {
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
        let layout = Layout::new(name, shape.n_rows, (stage.batch, stage.accumulate), stage.last_batch)?;
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
            name,
            stage,
            batches,
            evaluation,
            order,
            step: 0,
            monitor,
            best: Best::default(),
            best_state: None,
            saving: None,
            start,
            first_step: 0,
            stepping: Duration::ZERO,
            epochs: vec![],
            memory: MemoryReport::default(),
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
        session.check_memory(self.name, &splits, (&self.batches.plan, plans))
    }

    /// Says what belongs to a checkpoint of this stage, and forgets sums of a stage before it.
    fn start_afresh(&self, session: &mut Session) -> Result<(), SessionError> {
        let params = session.pipeline.params.iter().map(|param| &param.name);
        let mut names: Vec<Symbol> = params.cloned().collect();
        names.extend(
            self.batches.carried.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>(),
        );
        session.trained.names = names;
        self.note_progress(session);
        session.state.zero(&self.batches.nan_step)?;
        self.batches.reset_sums(&session.state)
    }

    fn resume(&mut self, session: &mut Session, resume: &Resume) -> Result<(), SessionError> {
        let Resume { path, checkpoint, .. } = resume;
        let cannot = |why: &str| SessionError::CannotResume { path: path.clone(), why: why.to_string() };
        if let Some(said) = names::difference(&names::from_extra(&checkpoint.extra), &session.names) {
            return Err(cannot(&format!("its data was another one; {said}")));
        }
        session.state.restore(path, &session.trained.names, &checkpoint.tensors, true)?;
        self.step = checkpoint.step;
        self.first_step = checkpoint.step;
        if self.cursor() != checkpoint.cursor {
            return Err(cannot(
                "it stands at another row, so its batches had another size or its data other rows",
            ));
        }
        self.best =
            Best::from_extra(&checkpoint.extra).ok_or_else(|| cannot("its best metric is not understood"))?;
        self.note_progress(session);
        self.find_best_state(checkpoint, cannot)
    }

    /// Finds the state of the best epoch before a resumed checkpoint, if it is to come back. A file of a later step is as
    /// good: the run comes to that step again.
    fn find_best_state(
        &mut self,
        resumed: &Checkpoint,
        cannot: impl Fn(&str) -> SessionError,
    ) -> Result<(), SessionError> {
        let Some(step) = self.best.step.filter(|_| self.keeps_best_state()) else { return Ok(()) };
        let file = self.stage.checkpoint.as_ref().and_then(|checkpoint| checkpoint.best.as_ref());
        let kept = file.and_then(|path| Checkpoint::read(path.as_ref()).ok());
        let kept = kept.filter(|kept| (kept.seed, &kept.fingerprint) == (resumed.seed, &resumed.fingerprint));
        if kept.as_ref().is_some_and(|kept| kept.step > resumed.step) {
            return Ok(());
        }
        self.best_state = [Some(resumed.clone()), kept].into_iter().flatten().find(|kept| kept.step == step);
        match self.best_state {
            Some(_) => Ok(()),
            None => Err(cannot(&format!(
                "`restore_best` needs the state of epoch {}, which `checkpoint: (best: …)` would have kept",
                self.best.epoch
            ))),
        }
    }

    fn keeps_best_state(&self) -> bool {
        self.stage.early_stop.as_ref().is_some_and(|early_stop| early_stop.restore_best)
    }

    /// Gives the session the state of the best epoch back, if that is wanted and another one came after it.
    fn restore_best(&mut self, session: &mut Session) -> Result<bool, SessionError> {
        let Some(best) = self.best_state.take().filter(|best| best.step != self.step) else {
            return Ok(false);
        };
        session.state.restore("the best epoch".as_ref(), &session.trained.names, &best.tensors, true)?;
        session.trained.step = best.step;
        session.trained.cursor = best.cursor;
        session.trained.extra = best.extra;
        Ok(true)
    }

    /// Whether the monitored metric has not improved for as long as `early_stop` waits.
    fn is_out_of_patience(&self) -> bool {
        let patience = self.stage.early_stop.as_ref().map(|early_stop| early_stop.patience as u64);
        patience.is_some_and(|patience| self.best.stale >= patience.max(1))
    }

    fn run(&mut self, session: &mut Session, tell: &mut Subscriber<'_>) -> Result<(), SessionError> {
        let per_epoch = self.batches.layout.steps() as u64;
        // A run that is resumed may have stopped early.
        while self.step < self.n_steps && !self.is_out_of_patience() {
            let epoch = self.step / per_epoch;
            let epoch_start = Instant::now();
            if let Some(order) = &mut self.order {
                order.begin(epoch, &session.background)?;
            }
            if self.step.is_multiple_of(per_epoch) {
                self.batches.reset_sums(&session.state)?;
            }
            self.run_epoch(session, ((epoch + 1) * per_epoch).min(self.n_steps), tell)?;
            self.end_epoch(session, epoch, epoch_start, tell)?;
        }
        if session.inspection.every.is_none() && self.step > self.first_step {
            tell_kept(self.name, self.step - 1, self.batches.kept()?, tell);
        }
        Ok(())
    }

    /// Steps up to `end`, in slices short enough for progress and interruption to be live.
    fn run_epoch(
        &mut self,
        session: &mut Session,
        end: u64,
        tell: &mut Subscriber<'_>,
    ) -> Result<(), SessionError> {
        let mut slice = 1;
        while self.step < end {
            let slice_start = Instant::now();
            let most = session.steps_at_once(self.step, (end - self.step).min(slice as u64) as usize);
            // What is kept of a step whose loss is not a number is told, so no step may come after it.
            let most = if self.batches.keeps() { 1 } else { most };
            let ran = self.take_steps(session, most)?;
            let took = slice_start.elapsed();
            slice = slice_length(took, ran);
            self.stepping += took;
            self.step += ran as u64;
            let is_number = self.check_loss(session);
            if is_number.is_err() {
                tell_kept(self.name, self.step - 1, self.batches.kept()?, tell);
            }
            is_number?;
            self.tell_progress(tell);
            if session.is_kept_after(self.step) {
                tell_kept(self.name, self.step - 1, self.batches.kept()?, tell);
            }
            if session.is_cancelled() {
                return Err(self.interrupt(session, tell));
            }
        }
        Ok(())
    }

    /// Takes at most so many steps, and returns how many.
    fn take_steps(&mut self, session: &Session, most: usize) -> Result<usize, SessionError> {
        if !session.inspection.trace_nan {
            let ran = self.batches.run(self.step, most);
            return ran.map_err(|source| SessionError::Run { stage: self.name.clone(), source });
        }
        let order = self.order.as_ref().map(Order::buffer);
        let ring = self.batches.windows.as_ref().map(|windows| windows.ring_of_step(self.step).clone());
        let data = |name: &str| session.data_input(name, &self.stage.data, (order, ring.as_ref()));
        traced_step(self.name, &mut self.batches, (&session.state, session.pipeline.seed, self.step), &data)?;
        Ok(1)
    }

    fn check_loss(&self, session: &Session) -> Result<(), SessionError> {
        let Some(nan_step) = &self.batches.nan_step else { return Ok(()) };
        match i32::from_le_bytes(session.state.word(nan_step)?) {
            0 => Ok(()),
            after => {
                let step = (after as u64 - 1) / self.batches.layout.n_parts as u64;
                Err(SessionError::NotANumber { stage: self.name.clone(), step })
            }
        }
    }

    fn tell_progress(&self, tell: &mut Subscriber<'_>) {
        let per_epoch = self.batches.layout.steps() as u64;
        tell(&Event::Progress {
            stage: self.name,
            step: self.step,
            n_steps: self.n_steps,
            epoch: (self.step - 1) / per_epoch + 1,
            n_epochs: self.n_steps.div_ceil(per_epoch),
            loss: self.batches.sums.first().and_then(|loss| self.batches.output(&loss.metric)).map(f64::from),
        });
    }

    /// Evaluates, reports and saves.
    fn end_epoch(
        &mut self,
        session: &mut Session,
        epoch: u64,
        epoch_start: Instant,
        tell: &mut Subscriber<'_>,
    ) -> Result<(), SessionError> {
        let position = self.step - epoch * self.batches.layout.steps() as u64;
        let n_rows = self.batches.layout.rows_before(position as usize);
        let mut means = self.batches.means(&session.state, n_rows)?.into_iter();
        let mut report = EpochReport { epoch: epoch + 1, ..EpochReport::default() };
        report.train_loss = means.next().map_or(f64::NAN, |(_, loss)| loss);
        report.train_metrics = means.map(|(metric, mean)| (metric.to_string(), mean)).collect();
        if let Some(evaluation) = &mut self.evaluation {
            report.metrics = session.evaluate(self.name, (evaluation, None), tell)?;
            report.evaluated_on = self.evaluated_on();
        }
        report.seconds = epoch_start.elapsed().as_secs_f64();
        self.tell_epoch(session, &report, tell);
        let improved = self.judge(epoch + 1, &report.metrics);
        self.epochs.push(report);
        self.note_progress(session);
        if improved && self.keeps_best_state() {
            self.best_state = Some(session.checkpoint()?);
        }
        self.save(session, epoch, improved, tell)
    }

    /// The split of the evaluation, as an epoch's line calls it: `train` alone is the split that is trained on.
    fn evaluated_on(&self) -> Option<String> {
        let SplitRef { data, split } = &self.stage.evaluate.as_ref()?.data;
        let is_plain = *data == self.stage.data.data && &**split != "train";
        Some(if is_plain { split.to_string() } else { format!("{data}.{split}") })
    }

    fn tell_epoch(&self, session: &Session, report: &EpochReport, tell: &mut Subscriber<'_>) {
        let n_epochs = self.n_steps.div_ceil(self.batches.layout.steps() as u64);
        let evaluated = self.stage.evaluate.as_ref().map(|evaluation| &evaluation.data.data);
        let set = evaluated.and_then(|data| session.resident.set(data));
        tell(&Event::EpochDone { stage: self.name, n_epochs, report, set });
    }

    /// Whether the epoch is the best so far.
    fn judge(&mut self, epoch: u64, metrics: &IndexMap<String, f64>) -> bool {
        let Some(monitor) = &self.monitor else { return false };
        let Some(&metric) = metrics.get(&*monitor.metric) else { return false };
        let min_delta = self.stage.early_stop.as_ref().map_or(0.0, |early_stop| early_stop.min_delta);
        self.best.judge((epoch, self.step), metric, (monitor.goal, min_delta))
    }

    fn save(
        &mut self,
        session: &Session,
        epoch: u64,
        improved: bool,
        tell: &mut Subscriber<'_>,
    ) -> Result<(), SessionError> {
        let Some(checkpoint) = &self.stage.checkpoint else { return Ok(()) };
        let due = (epoch + 1).is_multiple_of(checkpoint.every.max(1) as u64) || self.step == self.n_steps;
        let latest = (due || self.is_out_of_patience()).then_some(&checkpoint.path);
        let best = checkpoint.best.as_ref().filter(|_| improved);
        // The best state comes first: the latest one says which that is. A run that is killed between them goes on from
        // the latest before, and comes to both again.
        for path in [best, latest].into_iter().flatten() {
            let state = session.checkpoint()?;
            self.finish_saving(tell)?;
            self.saving = Some(start_saving(session, PathBuf::from(path), state));
        }
        Ok(())
    }

    /// Waits for the file that is being written, if there is one.
    fn finish_saving(&mut self, tell: &mut Subscriber<'_>) -> Result<(), SessionError> {
        if let Some((path, task)) = self.saving.take() {
            task.wait().unwrap_or_else(|| engine_core::bug!("writing a checkpoint panicked"))?;
            tell(&Event::CheckpointWritten { path: &path });
        }
        Ok(())
    }

    /// Saves the state of this very step, and says where.
    fn interrupt(&mut self, session: &mut Session, tell: &mut Subscriber<'_>) -> SessionError {
        self.note_progress(session);
        let declared = self.stage.checkpoint.as_ref().map(|checkpoint| PathBuf::from(&checkpoint.path));
        let path = declared.unwrap_or_else(|| session.interrupted_path());
        let write = |state| session.write_checkpoint(&path, &state);
        if let Err(error) = self.finish_saving(tell).and_then(|()| session.checkpoint()).and_then(write) {
            return error;
        }
        tell(&Event::CheckpointWritten { path: &path });
        SessionError::Interrupted { checkpoint: Some(path) }
    }

    /// Tells the session what a checkpoint taken now would have to say.
    fn note_progress(&self, session: &mut Session) {
        session.trained.step = self.step;
        session.trained.cursor = self.cursor();
        session.trained.extra = self.best.to_extra();
        session.trained.extra.insert(STAGE.to_string(), self.name.to_string());
    }

    fn cursor(&self) -> Cursor {
        let per_epoch = self.batches.layout.steps() as u64;
        let position = (self.step % per_epoch) as usize;
        Cursor { epoch: self.step / per_epoch, row: self.batches.layout.rows_before(position) as u64 }
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

    fn report(self, end: Option<TrainingEnd>) -> StageReport {
        let steps = self.step - self.first_step;
        StageReport {
            name: self.name.to_string(),
            kind: "train".to_string(),
            end,
            seconds: self.start.elapsed().as_secs_f64(),
            steps,
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
pub(super) fn n_steps(name: &Symbol, stage: &TrainStage, layout: &Layout) -> Result<u64, SessionError> {
    let all = (layout.steps() as u64).saturating_mul(stage.epochs as u64);
    let n_steps = stage.max_steps.map_or(all, |most| all.min(most as u64));
    let n_batches = n_steps.saturating_mul(layout.n_parts as u64);
    if i32::try_from(n_batches).is_err() {
        let why = format!("{n_batches} batches do not fit the step counter, an i32");
        return Err(SessionError::Rows { stage: name.clone(), why });
    }
    Ok(n_steps)
}

/// How many steps fit into a slice, if `n_steps` took `took`.
fn slice_length(took: Duration, n_steps: usize) -> usize {
    let each = took.as_secs_f64() / n_steps as f64;
    ((SLICE_TIME.as_secs_f64() / each.max(1e-9)) as usize).clamp(1, MOST_STEPS)
}

fn start_saving(
    session: &Session,
    path: PathBuf,
    checkpoint: Checkpoint,
) -> (PathBuf, Task<Result<(), CheckpointError>>) {
    let (to, disk, overwrite) = (path.clone(), Arc::clone(&session.disk), session.overwrite);
    (path, session.background.start(move || checkpoint::write_on(&*disk, &checkpoint, &to, overwrite)))
}
