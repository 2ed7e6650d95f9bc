//! `Load` stages.

use std::path::Path;
use std::time::Instant;

use engine_core::ir::Symbol;
use engine_core::pipeline::{LoadStage, ParamDecl};

use super::runnable::{Checking, Runnable};
use super::stage_run::{StageRun, Stopped};
use crate::checkpoint::TensorType;
use crate::session::error::SessionError;
use crate::session::event::Event;
use crate::session::report::StageReport;
use crate::session::state::{expect_tensors, tensor_type};
use crate::session::weights;

impl Runnable for LoadStage {
    fn run(&self, run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        let (start, path) = (Instant::now(), Path::new(&self.path));
        let remarks = match self.names.is_empty() {
            true => run.session.load(path)?,
            false => run.session.load_named(path, &self.names)?,
        };
        remarks.iter().for_each(|remark| (run.tell)(&Event::Note(remark)));
        (run.tell)(&Event::CheckpointRead { path, step: 0 });
        Ok(Some(run.report("load", start)))
    }

    /// Whether the file has the tensors that the stage names. An earlier stage may write the file.
    fn check(&self, checking: &Checking<'_>) -> Result<Vec<SessionError>, SessionError> {
        let path = Path::new(&self.path);
        if checking.written.iter().any(|written| written.file_name() == path.file_name()) {
            return Ok(vec![]);
        }
        let params = &checking.pipeline.params;
        let tensors = weights::read(path, params, &self.names)?;
        let is_named = |param: &Symbol| self.names.iter().any(|name| name.param == *param);
        let is_needed = |param: &&ParamDecl| self.names.is_empty() || is_named(&param.name);
        let tensors = match self.names.is_empty() {
            true => tensors,
            false => weights::renamed(path, &self.names, &tensors)?,
        };
        let (tensors, _) = weights::in_types_of(params, path, tensors)?;
        let needed = params.iter().filter(is_needed);
        let needed: Vec<TensorType> = needed.map(|param| tensor_type(&param.name, &param.ty)).collect();
        expect_tensors(path, &needed, &tensors, false)?;
        Ok(vec![])
    }
}
