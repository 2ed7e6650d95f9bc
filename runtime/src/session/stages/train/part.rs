//! A training as a part of a `Repeat`. It goes on where the trip before has ended.

use std::path::Path;
use std::time::{Duration, Instant};

use engine_core::ir::Symbol;
use engine_core::stage::ScaleStates;

use super::Training;
use super::turn::Turn;
use crate::session::Session;
use crate::session::error::SessionError;
use crate::session::event::report_kept;
use crate::session::report::StageReport;
use crate::session::resume::Progress;
use crate::session::stages::part::Part;
use crate::session::stages::stage_run::{StageRun, Stopped};

struct TrainPart {
    training: Training,
    /// The steps of a trip; by default, those to the end of an epoch.
    steps: Option<u64>,
    seconds: Duration,
}

impl TrainPart {
    /// The step at which the trip ends.
    fn goal(&self) -> u64 {
        let Training { step, n_steps, batches, .. } = &self.training;
        let per_epoch = batches.layout.steps() as u64;
        let end = self.steps.map_or((step / per_epoch + 1) * per_epoch, |steps| step.saturating_add(steps));
        end.min(*n_steps)
    }
}

impl Training {
    /// The training as a part that takes so many steps in a trip.
    pub(super) fn into_part(
        mut self,
        session: &Session,
        steps: Option<u64>,
    ) -> Result<Box<dyn Part>, SessionError> {
        self.park(session)?;
        Ok(Box::new(TrainPart { training: self, steps, seconds: Duration::ZERO }))
    }

    /// States that other trainings use under the same names: sums, and the factor of the loss.
    fn shared(&self) -> Vec<Symbol> {
        let sums = self.batches.sums.iter().map(|sum| &sum.state);
        sums.chain(self.batches.loss_scale.iter().flat_map(ScaleStates::all)).cloned().collect()
    }

    fn park(&mut self, session: &Session) -> Result<(), SessionError> {
        let word = |name: Symbol| Ok((name.clone(), session.state.word(&name)?));
        let parked = self.shared().into_iter().map(word).collect::<Result<_, SessionError>>()?;
        self.turn = Some(Turn { goal: None, parked });
        Ok(())
    }

    fn unpark(&mut self, session: &Session, goal: u64) -> Result<(), SessionError> {
        // Trainings share the states of their rates. In a resumed trip, a later part has written its own.
        self.rates.write(&session.state)?;
        if matches!(self.turn, Some(Turn { goal: None, .. })) {
            self.write_parked(session)?;
            self.turn = Some(Turn { goal: Some(goal), parked: vec![] });
        }
        Ok(())
    }

    fn write_parked(&self, session: &Session) -> Result<(), SessionError> {
        for (name, word) in self.turn.iter().flat_map(|turn| &turn.parked) {
            session.state.write_word(name, *word)?;
        }
        Ok(())
    }

    /// The progress as a part.
    pub(super) fn progress(&self) -> Progress {
        let cursor = self.cursor();
        let counts = [("step", Some(self.step)), ("epoch", Some(cursor.epoch)), ("row", Some(cursor.row))];
        let goal = self.turn.as_ref().and_then(|turn| turn.goal);
        let counts = counts.into_iter().chain([("goal", goal)]);
        let counts = counts.filter_map(|(name, count)| Some((name.to_string(), count?.to_string())));
        let parked = self.turn.iter().flat_map(|turn| &turn.parked);
        let parked =
            parked.map(|(name, word)| (format!("word.{name}"), u32::from_le_bytes(*word).to_string()));
        counts.chain(parked).chain(self.best.to_extra()).chain(self.rates.to_extra()).collect()
    }
}

impl Part for TrainPart {
    fn trip(&mut self, run: &mut StageRun<'_, '_>) -> Result<(), Stopped> {
        let start = Instant::now();
        let goal = self.goal();
        let training = &mut self.training;
        training.unpark(run.session, goal)?;
        let goal = training.turn.as_ref().and_then(|turn| turn.goal).unwrap_or(goal);
        while training.step < goal && training.advance(run.session, goal - training.step, run.tell)? {}
        // A file of this turn may not replace one that a later part writes.
        training.finish_saving(run.tell)?;
        training.park(run.session)?;
        training.note_progress(run.session);
        self.seconds += start.elapsed();
        Ok(())
    }

    fn has_ended(&self) -> Option<bool> {
        Some(self.training.step >= self.training.n_steps || self.training.is_out_of_patience())
    }

    fn checkpoint(&self) -> Option<&Path> {
        self.training.stage.checkpoint.as_ref().map(|decl| Path::new(&decl.path))
    }

    fn progress(&self) -> Vec<(Symbol, Progress)> {
        vec![(self.training.name.clone(), self.training.progress())]
    }

    fn resume(&mut self, run: &mut StageRun<'_, '_>, progress: &Progress) -> Result<(), SessionError> {
        let Some(resume) = &run.resume else { return Ok(()) };
        let name = &self.training.name;
        let cannot = || resume.cannot(format!("the progress of stage `{name}` is not understood"));
        let own = resume.as_of(progress).ok_or_else(cannot)?;
        let goal = progress.get("goal").map(|goal| goal.parse()).transpose().map_err(|_| cannot())?;
        let word = |name: Symbol| {
            let text = progress.get(&format!("word.{name}"))?;
            Some((name, text.parse::<u32>().ok()?.to_le_bytes()))
        };
        let shared = self.training.shared().into_iter().filter(|_| goal.is_none());
        let parked = shared.map(word).collect::<Option<_>>().ok_or_else(cannot)?;
        self.training.turn = Some(Turn { goal, parked });
        self.training.go_on(run.session, &own)
    }

    fn conclude(
        mut self: Box<Self>,
        run: &mut StageRun<'_, '_>,
        is_complete: bool,
    ) -> Result<Option<StageReport>, Stopped> {
        let session = &mut *run.session;
        let training = &mut self.training;
        if is_complete && session.inspection.every.is_none() && training.step > training.first_step {
            report_kept(&training.name, training.step - 1, training.batches.kept()?, run.tell);
        }
        let report = match is_complete {
            true => {
                self.training.write_parked(session)?;
                self.training.conclude(session, Ok(()), run.tell)?
            }
            false => {
                self.training.finish_saving(run.tell)?;
                self.training.report(None)
            }
        };
        Ok(Some(StageReport { seconds: self.seconds.as_secs_f64(), ..report }))
    }
}
