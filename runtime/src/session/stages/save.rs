//! `Save` stages.

use std::path::Path;
use std::time::Instant;

use engine_core::pipeline::SaveStage;

use super::runnable::Runnable;
use super::stage_run::{StageRun, Stopped};
use crate::checkpoint::{ARCHIVE, CHECKPOINT, is_archive};
use crate::files::Format;
use crate::session::event::Event;
use crate::session::report::StageReport;

impl Runnable for SaveStage {
    fn run(&self, run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        let (start, path) = (Instant::now(), Path::new(&self.path));
        match self.names.is_empty() {
            true => run.session.save(path)?,
            false => run.session.save_named(path, &self.names)?,
        }
        (run.tell)(&Event::CheckpointWritten { path });
        Ok(Some(run.report("save", start)))
    }

    fn files(&self) -> Vec<(&Path, &'static Format)> {
        let path = Path::new(&self.path);
        vec![(path, if is_archive(path) { &ARCHIVE } else { &CHECKPOINT })]
    }
}
