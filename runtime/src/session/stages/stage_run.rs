//! One run of a stage, and its end.

use std::path::Path;
use std::time::Instant;

use engine_core::ir::Symbol;
use indexmap::IndexMap;

use crate::device::RunError;
use crate::session::error::SessionError;
use crate::session::report::{OutputReport, StageReport};
use crate::session::resume::Resume;
use crate::session::{Session, Subscriber};
use crate::tensor::HostTensor;

/// One run of a stage.
pub struct StageRun<'r, 's> {
    /// The session, with parameters, data and device.
    pub session: &'r mut Session,
    /// The stage's name.
    pub name: &'r Symbol,
    /// Receives events.
    pub tell: &'r mut Subscriber<'s>,
    /// The checkpoint to resume from.
    pub(crate) resume: Option<Resume>,
    /// The results of the run.
    pub(crate) outputs: &'r mut IndexMap<String, OutputReport>,
}

impl StageRun<'_, '_> {
    /// Adds results to the report of the run.
    pub fn add_outputs(&mut self, outputs: &IndexMap<String, HostTensor>) {
        self.outputs.extend(outputs.iter().map(|(name, tensor)| (name.clone(), tensor.into())));
    }

    /// The report of a stage that takes no steps.
    pub fn report(&self, kind: &str, start: Instant) -> StageReport {
        StageReport {
            name: self.name.to_string(),
            kind: kind.to_string(),
            seconds: start.elapsed().as_secs_f64(),
            ..StageReport::default()
        }
    }
}

/// A stage that did not end.
#[derive(Debug)]
pub struct Stopped {
    /// Why.
    pub error: Box<SessionError>,
    /// The report so far.
    pub report: Option<Box<StageReport>>,
}

impl Stopped {
    /// The same end of a run whose state was read from a file. A requirement that does not hold names the file.
    pub(crate) fn of_state_from(mut self, file: Option<&Path>) -> Stopped {
        if let SessionError::Run { source: RunError::Assertion { state_file, .. }, .. } = &mut *self.error {
            *state_file = file.map(Path::to_path_buf);
        }
        self
    }
}

impl From<SessionError> for Stopped {
    fn from(error: SessionError) -> Self {
        Stopped { error: Box::new(error), report: None }
    }
}
