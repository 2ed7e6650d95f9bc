//! Checkpoints from which a run resumes.

use std::path::{Path, PathBuf};

use engine_core::pipeline::{Pipeline, Stage};

use super::error::SessionError;
use crate::checkpoint::Checkpoint;

/// A checkpoint to resume from.
pub(crate) struct Resume {
    pub(super) path: PathBuf,
    pub(super) checkpoint: Checkpoint,
    /// The stage that wrote it.
    pub(super) stage_idx: usize,
}

/// The entry of [`Checkpoint::extra`] that names the training stage.
pub(super) const STAGE: &str = "stage";
/// The entry that holds the choices that the device has autotuned.
pub(super) const TUNING: &str = "tuning";

impl Resume {
    pub(super) fn read(
        path: &Path,
        pipeline: &Pipeline,
        is_resumable: &dyn Fn(&Stage) -> bool,
    ) -> Result<Self, SessionError> {
        let checkpoint = Checkpoint::read(path)?;
        let cannot = |why: String| SessionError::CannotResume { path: path.to_path_buf(), why };
        let Some(stage) = checkpoint.extra.get(STAGE) else {
            return Err(cannot("it was not written by a training stage".to_string()));
        };
        let is_stage = |known: &Stage| *known.name == **stage && is_resumable(known);
        let Some(stage_idx) = pipeline.stages.iter().position(is_stage) else {
            return Err(cannot(format!(
                "it was written by stage `{stage}`, which is no training stage here"
            )));
        };
        if checkpoint.seed != pipeline.seed {
            let (was, is) = (checkpoint.seed, pipeline.seed);
            return Err(cannot(format!("it was written with seed {was}, this run has seed {is}")));
        }
        Ok(Resume { path: path.to_path_buf(), checkpoint, stage_idx })
    }
}
