//! Stages as parts of a `Repeat`, which prepares them once and runs them in each of its trips.

use std::path::Path;
use std::time::Duration;

use engine_core::ir::Symbol;
use engine_core::pipeline::Stage;

use super::stage_run::{StageRun, Stopped};
use crate::session::error::SessionError;
use crate::session::report::StageReport;
use crate::session::resume::Progress;

/// A stage that is a part of a `Repeat`. The runs that its methods get are those of the `Repeat`.
pub trait Part {
    /// Runs the part of one trip, or the rest of it.
    ///
    /// # Errors
    /// If the stage fails or is interrupted.
    fn trip(&mut self, run: &mut StageRun<'_, '_>) -> Result<(), Stopped>;

    /// Whether a training has no steps left. Other stages do not end by themselves.
    fn has_ended(&self) -> Option<bool> {
        None
    }

    /// The file that a training declares for its state.
    fn checkpoint(&self) -> Option<&Path> {
        None
    }

    /// The numbers that the next trip goes on from, by stage: a `Repeat` has those of its parts, too.
    fn progress(&self) -> Vec<(Symbol, Progress)> {
        vec![]
    }

    /// Goes on from the progress that a checkpoint holds. The state is restored already.
    ///
    /// # Errors
    /// If it does not fit.
    fn resume(&mut self, _run: &mut StageRun<'_, '_>, _progress: &Progress) -> Result<(), SessionError> {
        Ok(())
    }

    /// The report after the last trip, or after the one that failed.
    ///
    /// # Errors
    /// If results cannot be read, or files not be written.
    fn conclude(
        self: Box<Self>,
        run: &mut StageRun<'_, '_>,
        is_complete: bool,
    ) -> Result<Option<StageReport>, Stopped>;
}

/// A stage that each trip runs from the beginning.
pub(super) struct Again {
    pub(super) stage: Stage,
    seconds: Duration,
    last: Option<StageReport>,
}

impl Again {
    pub(super) fn new(stage: Stage) -> Again {
        Again { stage, seconds: Duration::ZERO, last: None }
    }
}

impl Part for Again {
    fn trip(&mut self, run: &mut StageRun<'_, '_>) -> Result<(), Stopped> {
        let done = run.session.run_one(&self.stage, None, run.outputs, run.tell)?;
        self.seconds += Duration::from_secs_f64(done.as_ref().map_or(0.0, |done| done.seconds));
        self.last = done;
        Ok(())
    }

    fn conclude(self: Box<Self>, _: &mut StageRun<'_, '_>, _: bool) -> Result<Option<StageReport>, Stopped> {
        let seconds = self.seconds.as_secs_f64();
        Ok(self.last.map(|last| StageReport { seconds, ..last }))
    }
}
