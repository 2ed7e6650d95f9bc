//! The steps of a training, epoch by epoch.

use std::time::{Duration, Instant};

use engine_core::pipeline::{Goal, SplitRef};
use indexmap::IndexMap;

use super::Training;
use crate::session::error::SessionError;
use crate::session::event::{Event, report_kept};
use crate::session::order::Order;
use crate::session::report::EpochReport;
use crate::session::trace::traced_step;
use crate::session::{Session, Subscriber};

/// The most steps between two checks of the loss and of the flag that interrupts, and their longest time.
const MOST_STEPS: usize = 1024;
const SLICE_TIME: Duration = Duration::from_millis(50);

impl Training {
    pub(super) fn run(
        &mut self,
        session: &mut Session,
        tell: &mut Subscriber<'_>,
    ) -> Result<(), SessionError> {
        while self.advance(session, self.n_steps, tell)? {}
        if session.inspection.every.is_none() && self.step > self.first_step {
            report_kept(&self.name, self.step - 1, self.batches.kept()?, tell);
        }
        Ok(())
    }

    /// Takes at most so many steps, none of them behind the present epoch. Returns whether there was one to take.
    pub(super) fn advance(
        &mut self,
        session: &mut Session,
        most: u64,
        tell: &mut Subscriber<'_>,
    ) -> Result<bool, SessionError> {
        // A run that is resumed may have stopped early.
        if self.step >= self.n_steps || self.is_out_of_patience() {
            return Ok(false);
        }
        let per_epoch = self.batches.layout.steps() as u64;
        let epoch = self.step / per_epoch;
        let start = match self.epoch {
            Some((begun, start)) if begun == epoch => start,
            _ => self.begin_epoch(session, epoch)?,
        };
        let end = ((epoch + 1) * per_epoch).min(self.n_steps);
        self.run_to(session, end.min(self.step.saturating_add(most)), tell)?;
        // The end of an epoch comes before an interruption, because a resumed run begins with the next epoch.
        if self.step == end {
            self.end_epoch(session, epoch, start, tell)?;
        }
        match session.is_cancelled() {
            true => Err(self.interrupt(session, tell)),
            false => Ok(true),
        }
    }

    fn begin_epoch(&mut self, session: &Session, epoch: u64) -> Result<Instant, SessionError> {
        let start = Instant::now();
        if let Some(order) = &mut self.order {
            order.begin(epoch, &session.background)?;
        }
        if self.step.is_multiple_of(self.batches.layout.steps() as u64) {
            self.batches.reset_sums(&session.state)?;
        }
        self.epoch = Some((epoch, start));
        Ok(start)
    }

    /// Steps up to `end`, or until the session is cancelled, in slices short enough for progress to be live.
    fn run_to(
        &mut self,
        session: &mut Session,
        end: u64,
        tell: &mut Subscriber<'_>,
    ) -> Result<(), SessionError> {
        let mut slice = 1;
        while self.step < end {
            let slice_start = Instant::now();
            let most = session.steps_at_once(self.step, (end - self.step).min(slice as u64) as usize);
            // The kept values of a step with a NaN loss are reported, so no later step may overwrite them.
            let most = if self.batches.keeps() { 1 } else { most };
            let ran = self.take_steps(session, most)?;
            let took = slice_start.elapsed();
            slice = slice_length(took, ran);
            self.stepping += took;
            self.step += ran as u64;
            let is_number = self.check_loss(session);
            if is_number.is_err() {
                report_kept(&self.name, self.step - 1, self.batches.kept()?, tell);
            }
            is_number?;
            self.tell_progress(session, tell);
            if session.is_kept_after(self.step) {
                report_kept(&self.name, self.step - 1, self.batches.kept()?, tell);
            }
            if session.is_cancelled() {
                break;
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
        traced_step(
            &self.name,
            &mut self.batches,
            (&session.state, session.pipeline.seed, self.step),
            &data,
        )?;
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
        let mut report = EpochReport { epoch: epoch + 1, step: self.step, ..EpochReport::default() };
        report.train_loss = means.next().map_or(f64::NAN, |(_, loss)| loss);
        report.train_metrics = means.map(|(metric, mean)| (metric.to_string(), mean)).collect();
        if let Some(evaluation) = &mut self.evaluation {
            report.metrics = session.evaluate(&self.name, (evaluation, None), tell)?;
            report.evaluated_on = self.evaluated_on();
        }
        report.seconds = epoch_start.elapsed().as_secs_f64();
        self.tell_epoch(session, &report, tell);
        let improved = self.judge(epoch + 1, &report.metrics);
        self.adapt_rates(session, &report.metrics, tell)?;
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
        tell(&Event::EpochDone { stage: &self.name, n_epochs, report, set });
    }

    /// Whether the epoch is the best so far.
    fn judge(&mut self, epoch: u64, metrics: &IndexMap<String, f64>) -> bool {
        let Some((metric, goal)) = self.monitored(metrics) else { return false };
        let min_delta = self.stage.early_stop.as_ref().map_or(0.0, |early_stop| early_stop.min_delta);
        self.best.judge((epoch, self.step), metric, (goal, min_delta))
    }

    /// Changes the learning rates that depend on the monitored metric. An epoch that `max_steps` cuts short changes none,
    /// so that a run with more steps may go on from there.
    fn adapt_rates(
        &mut self,
        session: &Session,
        metrics: &IndexMap<String, f64>,
        tell: &mut Subscriber<'_>,
    ) -> Result<(), SessionError> {
        let Some((metric, goal)) = self.monitored(metrics) else { return Ok(()) };
        if !self.step.is_multiple_of(self.batches.layout.steps() as u64) {
            return Ok(());
        }
        for (name, rate) in self.rates.judge(metric, goal) {
            tell(&Event::Note(&format!("the learning rate `{name}` is {rate:?} from here on")));
        }
        Ok(self.rates.write(&session.state)?)
    }

    /// The monitored metric, and its better direction.
    fn monitored(&self, metrics: &IndexMap<String, f64>) -> Option<(f64, Goal)> {
        let monitor = self.monitor.as_ref()?;
        Some((*metrics.get(&*monitor.metric)?, monitor.goal))
    }
}

/// How many steps fit into a slice, if `n_steps` took `took`.
fn slice_length(took: Duration, n_steps: usize) -> usize {
    let each = took.as_secs_f64() / n_steps as f64;
    ((SLICE_TIME.as_secs_f64() / each.max(1e-9)) as usize).clamp(1, MOST_STEPS)
}
