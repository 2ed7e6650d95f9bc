//! Checkpoints of a training: resuming from one, and writing the latest and the best.

use std::path::PathBuf;
use std::sync::Arc;

use super::Training;
use super::best::Best;
use crate::checkpoint::{self, Checkpoint, CheckpointError, Cursor};
use crate::session::background::Task;
use crate::session::error::SessionError;
use crate::session::event::Event;
use crate::session::resume::{Resume, STAGE};
use crate::session::{Session, Subscriber};

impl Training {
    pub(super) fn resume(&mut self, session: &mut Session, resume: &Resume) -> Result<(), SessionError> {
        session.expect_same_data(resume)?;
        let Resume { path, checkpoint, .. } = resume;
        session.state.restore(path, &session.trained.names, &checkpoint.tensors, true)?;
        self.go_on(session, resume)
    }

    /// Goes on from the progress of a checkpoint, whose state is restored already.
    pub(super) fn go_on(&mut self, session: &mut Session, resume: &Resume) -> Result<(), SessionError> {
        let Resume { checkpoint, .. } = resume;
        let cannot = |why: &str| resume.cannot(why.to_string());
        self.step = checkpoint.step;
        self.first_step = checkpoint.step;
        if self.cursor() != checkpoint.cursor {
            return Err(cannot(
                "it stands at another row, so its batches had another size or its data other rows",
            ));
        }
        self.best =
            Best::from_extra(&checkpoint.extra).ok_or_else(|| cannot("its best metric is not understood"))?;
        let rates = self.rates.restore(&checkpoint.extra);
        rates.ok_or_else(|| cannot("it has no learning rates for the schedules of this stage"))?;
        self.rates.write(&session.state)?;
        self.note_progress(session);
        self.find_best_state(checkpoint, cannot)
    }

    /// Finds the state of the best epoch before a resumed checkpoint, if it is restored at the end. A file of a later step
    /// serves as well, because the run reaches that step again. The checkpoint itself serves unless this training was
    /// between two trips of a `Repeat`: then other parts have changed the state since.
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
        let is_own = self.turn.as_ref().is_none_or(|turn| turn.goal.is_some());
        let resumed = is_own.then(|| resumed.clone());
        self.best_state = [kept, resumed].into_iter().flatten().find(|kept| kept.step == step);
        match self.best_state {
            Some(_) => Ok(()),
            None => Err(cannot(&format!(
                "`restore_best` needs the state of epoch {}, which `checkpoint: (best: …)` would have kept",
                self.best.epoch
            ))),
        }
    }

    pub(super) fn keeps_best_state(&self) -> bool {
        self.stage.early_stop.as_ref().is_some_and(|early_stop| early_stop.restore_best)
    }

    /// Restores the state of the best epoch, if that is requested and a later epoch or another part of a `Repeat` has run.
    pub(super) fn restore_best(&mut self, session: &mut Session) -> Result<bool, SessionError> {
        let is_later = |best: &Checkpoint| best.step != self.step || self.turn.is_some();
        let Some(best) = self.best_state.take().filter(is_later) else {
            return Ok(false);
        };
        session.state.restore("the best epoch".as_ref(), &session.trained.names, &best.tensors, true)?;
        session.trained.step = best.step;
        session.trained.cursor = best.cursor;
        session.trained.extra = best.extra;
        Ok(true)
    }

    /// Whether the monitored metric has not improved for as long as `early_stop` waits.
    pub(super) fn is_out_of_patience(&self) -> bool {
        let patience = self.stage.early_stop.as_ref().map(|early_stop| early_stop.patience as u64);
        patience.is_some_and(|patience| self.best.stale >= patience.max(1))
    }

    pub(super) fn save(
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
        // The best state is written first, because the latest one refers to it. A run that is killed between the two resumes
        // from the previous latest state, and writes both again.
        let paths: Vec<PathBuf> = [best, latest].into_iter().flatten().map(PathBuf::from).collect();
        for path in paths {
            let state = session.checkpoint()?;
            self.finish_saving(tell)?;
            self.saving = Some(start_saving(session, path, state));
        }
        Ok(())
    }

    /// Waits for the file that is being written, if there is one.
    pub(super) fn finish_saving(&mut self, tell: &mut Subscriber<'_>) -> Result<(), SessionError> {
        if let Some((path, task)) = self.saving.take() {
            task.wait().unwrap_or_else(|| engine_core::bug!("writing a checkpoint panicked"))?;
            tell(&Event::CheckpointWritten { path: &path });
        }
        Ok(())
    }

    /// Saves the state of this very step, and says where.
    pub(super) fn interrupt(&mut self, session: &mut Session, tell: &mut Subscriber<'_>) -> SessionError {
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

    /// Records the progress that a checkpoint would contain now.
    pub(super) fn note_progress(&self, session: &mut Session) {
        session.trained.step = self.step;
        session.trained.cursor = self.cursor();
        session.trained.extra = self.best.to_extra();
        session.trained.extra.extend(self.rates.to_extra());
        session.trained.extra.insert(STAGE.to_string(), self.name.to_string());
        if self.turn.is_some() {
            session.parts.note(&self.name, self.progress());
        }
    }

    pub(super) fn cursor(&self) -> Cursor {
        let per_epoch = self.batches.layout.steps() as u64;
        let position = (self.step % per_epoch) as usize;
        Cursor { epoch: self.step / per_epoch, row: self.batches.layout.rows_before(position) as u64 }
    }
}

fn start_saving(
    session: &Session,
    path: PathBuf,
    checkpoint: Checkpoint,
) -> (PathBuf, Task<Result<(), CheckpointError>>) {
    let (to, disk, overwrite) = (path.clone(), Arc::clone(&session.disk), session.overwrite);
    (path, session.background.start(move || checkpoint::write_on(&*disk, &checkpoint, &to, overwrite)))
}
