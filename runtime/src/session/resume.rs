//! Checkpoints from which a run resumes.

use std::path::{Path, PathBuf};

use engine_core::ir::Symbol;
use engine_core::pipeline::{Pipeline, Stage};
use indexmap::IndexMap;

use super::error::SessionError;
use crate::checkpoint::{Checkpoint, Cursor};

/// The progress of a part of a stage, for a checkpoint.
pub type Progress = IndexMap<String, String>;

/// A checkpoint to resume from.
pub(crate) struct Resume {
    pub(super) path: PathBuf,
    pub(super) checkpoint: Checkpoint,
    /// The stage that wrote it.
    pub(super) stage_idx: usize,
}

impl Resume {
    /// The error that the run cannot go on from here.
    pub(super) fn cannot(&self, why: String) -> SessionError {
        SessionError::CannotResume { path: self.path.clone(), why }
    }

    /// The progress of a stage that is a part of the one that wrote the checkpoint.
    pub(super) fn of_part(&self, name: &str) -> Progress {
        let prefix = Parts::key(name, "");
        let own =
            |(key, value): (&String, &String)| Some((key.strip_prefix(&prefix)?.to_string(), value.clone()));
        self.checkpoint.extra.iter().filter_map(own).collect()
    }

    /// The checkpoint of a part, with its own progress.
    pub(super) fn as_of(&self, progress: &Progress) -> Option<Resume> {
        let count = |name: &str| progress.get(name)?.parse().ok();
        let checkpoint = Checkpoint {
            step: count("step")?,
            cursor: Cursor { epoch: count("epoch")?, row: count("row")? },
            extra: progress.clone(),
            ..self.checkpoint.clone()
        };
        Some(Resume { path: self.path.clone(), checkpoint, stage_idx: self.stage_idx })
    }
}

/// The progress of the parts of a `Repeat` that runs, for checkpoints.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The stage that the pipeline runs, and to which all others belong.
    outermost: Option<Symbol>,
    progress: IndexMap<Symbol, Progress>,
}

impl Parts {
    /// A stage with parts begins.
    pub(super) fn begin(&mut self, stage: &Symbol) {
        self.outermost = Some(stage.clone());
    }

    /// It has ended.
    pub(super) fn end(&mut self) {
        *self = Parts::default();
    }

    /// Takes note of the progress of a part, if there is a stage with parts.
    pub(super) fn note(&mut self, part: &Symbol, progress: Progress) {
        if self.outermost.is_some() {
            self.progress.insert(part.clone(), progress);
        }
    }

    /// Entries of a checkpoint's `extra`.
    pub(super) fn to_extra(&self) -> IndexMap<String, String> {
        let of_parts = self.progress.iter().flat_map(|(part, progress)| {
            progress.iter().map(move |(name, value)| (Parts::key(part, name), value.clone()))
        });
        let stage = self.outermost.iter().map(|stage| (STAGE.to_string(), stage.to_string()));
        stage.chain(of_parts).collect()
    }

    fn key(part: &str, name: &str) -> String {
        format!("part.{part}/{name}")
    }
}

/// The entry of [`Checkpoint::extra`] that names the training stage.
pub(super) const STAGE: &str = "stage";
/// The entry of a file that holds only some parameters and states.
pub(super) const PARTIAL: &str = "partial";
/// The entry that holds the choices that the device has autotuned.
pub(super) const TUNING: &str = "tuning";

impl Resume {
    pub(super) fn read(
        path: &Path,
        pipeline: &Pipeline,
        is_resumable: &dyn Fn(&Stage) -> bool,
    ) -> Result<Self, SessionError> {
        let checkpoint = Checkpoint::read(path)?;
        if checkpoint.extra.contains_key(PARTIAL) {
            return Err(SessionError::Partial { path: path.to_path_buf() });
        }
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
