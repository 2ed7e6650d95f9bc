//! `Predict` stages. `engine predict` computes their outputs for rows of a file; a run passes over them.

use engine_core::compile::Compiled;
use engine_core::ir::Symbol;
use engine_core::pipeline::PredictStage;
use engine_core::stage;
use indexmap::IndexMap;

use super::runnable::{Checking, Compiling, Runnable};
use super::stage_run::{StageRun, Stopped};
use crate::session::error::{SessionError, StageFault};
use crate::session::plan::Request;
use crate::session::report::StageReport;

impl Runnable for PredictStage {
    fn run(&self, _: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        Ok(None)
    }

    fn check(&self, checking: &Checking<'_>) -> Result<Vec<SessionError>, SessionError> {
        checking.planned(stage::prediction(checking.pipeline, self))?;
        Ok(vec![])
    }

    fn compile(&self, compiling: &Compiling<'_>) -> Result<Option<Compiled>, SessionError> {
        let fed = stage::prediction(compiling.pipeline(), self);
        let fed = fed.map_err(|issue| SessionError::plan(compiling.name, StageFault(issue)))?;
        let n_rows = self.batch.clamp(1, compiling.most_rows.unwrap_or(usize::MAX));
        let nodes = self.outputs.iter().map(|(_, node)| (node.clone(), node.clone()));
        let outputs: IndexMap<Symbol, Symbol> = nodes.collect();
        let (outputs, extents) = (&Vec::from_iter(outputs)[..], &[(fed.rows, n_rows)][..]);
        let behaviour = (self.mode, self.precision).into();
        compiling.compile(&Request::Inference { outputs, extents, fixed: &[], behaviour })
    }
}
