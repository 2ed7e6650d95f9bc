//! Stages that read and write files. They have no graph.

use crate::diag::{Code, nearest};
use crate::pipeline::{LoadStage, Pipeline, SaveStage, StageIssue, StageKind};

impl StageKind for SaveStage {
    fn keyword(&self) -> &'static str {
        "Save"
    }

    /// The names are those of parameters and states.
    fn expect_declared(&self, name: &str, pipeline: &Pipeline) -> Result<(), StageIssue> {
        let known = || pipeline.params.iter().map(|param| &*param.name);
        let Some(unknown) = self.names.iter().find(|saved| !known().any(|known| *known == ***saved)) else {
            return Ok(());
        };
        let message = format!("stage `{name}` saves `{unknown}`, which is no parameter");
        let help = match nearest(unknown, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "name a parameter or a state".to_owned(),
        };
        Err(StageIssue { code: Code::E0101, ..StageIssue::new(message, None).help(help) })
    }
}

impl StageKind for LoadStage {
    fn keyword(&self) -> &'static str {
        "Load"
    }
}
