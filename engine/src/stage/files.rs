//! Stages that read and write files. They have no graph.

use crate::pipeline::{LoadStage, SaveStage, StageKind};

impl StageKind for SaveStage {
    fn keyword(&self) -> &'static str {
        "Save"
    }
}

impl StageKind for LoadStage {
    fn keyword(&self) -> &'static str {
        "Load"
    }
}
