//! Files that lie beside a graph.

use std::fs;
use std::path::Path;

use engine_core::pipeline::{LoadStage, Pipeline, SaveStage, Stage, TrainStage};

use super::output::remark;

/// Lets `Load` stages find files beside the graph: a relative path that does not exist in the working folder is one in the
/// folder of the graph, if it exists there. Files that a stage writes are always those of the working folder.
pub(super) fn find_beside(pipeline: &mut Pipeline, graph: &Path) {
    let Some(folder) = graph.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return };
    let written: Vec<String> = pipeline.stages.iter().flat_map(written).collect();
    for load in pipeline.stages.iter_mut().filter_map(Stage::get_mut::<LoadStage>) {
        let (path, beside) = (Path::new(&load.path), folder.join(&load.path));
        let is_written = || written.iter().any(|other| Path::new(other).file_name() == path.file_name());
        if !beside.exists() || path.is_absolute() || is_written() {
            continue;
        }
        match fs::canonicalize(path) {
            Err(_) => load.path = beside.display().to_string(),
            Ok(found) if fs::canonicalize(&beside).is_ok_and(|other| other != found) => {
                remark(format!("note: {} of the working folder is read, not {}", load.path, beside.display()))
            }
            Ok(_) => {}
        }
    }
}

/// The checkpoints that a stage writes.
fn written(stage: &Stage) -> Vec<String> {
    if let Some(save) = stage.get::<SaveStage>() {
        return vec![save.path.clone()];
    }
    let checkpoint = stage.get::<TrainStage>().and_then(|train| train.checkpoint.as_ref());
    checkpoint.map_or(vec![], |decl| [decl.path.clone()].into_iter().chain(decl.best.clone()).collect())
}
