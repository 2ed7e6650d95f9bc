//! Helps of failures that depend on the pipeline.

use std::collections::HashSet;
use std::path::Path;

use engine_core::front;
use engine_core::ir::Type;
use engine_core::pipeline::{LoadStage, SaveStage, Stage};
use engine_runtime::checkpoint::{CheckpointError, CheckpointFact};
use engine_runtime::session::SessionError;
use indexmap::{IndexMap, IndexSet};

use super::Opened;
use crate::cli::output::Failure;

impl Opened {
    /// The help for the file of a `Save` stage that cannot be written.
    pub(super) fn help_for_save(&self, error: &SessionError) -> Option<String> {
        let SessionError::Checkpoint(CheckpointError { path, fact }) = error else { return None };
        if !matches!(fact, CheckpointFact::Unwritable(_) | CheckpointFact::Unflushed(_)) {
            return None;
        }
        let is_of =
            |stage: &&Stage| stage.get::<SaveStage>().is_some_and(|save| Path::new(&save.path) == path);
        let stage = self.pipeline.stages.iter().find(is_of)?;
        Some(format!("make room or choose another folder; `--set {}.path=\"FILE\"` does", stage.name))
    }

    /// The help for a `Load` stage of all parameters whose file has some of them.
    pub(super) fn help_for_stage(&self, error: &SessionError) -> Option<String> {
        let SessionError::Mismatch { path, .. } = error else { return None };
        let mut loads = self.pipeline.stages.iter().filter_map(Stage::get::<LoadStage>);
        let is_of_all = |load: &LoadStage| load.names.is_empty() && Path::new(&load.path) == path;
        if loads.any(is_of_all) { self.help_for_part(error) } else { None }
    }

    /// The failure to load all parameters from a file.
    pub(crate) fn load_failure(&self, error: SessionError) -> Failure {
        match (self.help_for_part(&error), error.diagnostic(&self.pipeline)) {
            (Some(help), Some(mut diagnostic)) => {
                diagnostic.help = Some(help);
                Failure::diagnostic(error.fault(), diagnostic, &self.sources)
            }
            _ => self.failure(error),
        }
    }

    /// The help for a file that lacks parameters, if it has others: a stage that names these.
    fn help_for_part(&self, error: &SessionError) -> Option<String> {
        const SHOWN: usize = 4;
        let SessionError::Mismatch { path, mismatch } = error else { return None };
        if mismatch.missing.is_empty() || !mismatch.different.is_empty() {
            return None;
        }
        let missing: HashSet<&str> = mismatch.missing.iter().map(|tensor| tensor.name.as_str()).collect();
        let group = |name: &str| name.split_once('.').map(|(first, _)| format!("{first}."));
        let partial: HashSet<String> = missing.iter().filter_map(|name| group(name)).collect();
        let present = self.pipeline.params.iter().filter(|param| !missing.contains(&*param.name));
        let names: IndexSet<String> = present
            .map(|param| match group(&param.name).filter(|group| !partial.contains(group)) {
                Some(group) => format!("\"{group}*\""),
                None => format!("\"{}\"", param.name),
            })
            .collect();
        if names.is_empty() {
            return None;
        }
        let mut shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
        shown.extend((names.len() > SHOWN).then_some("…"));
        let (path, names) = (path.display(), shown.join(", "));
        Some(format!("a stage `Load(path: \"{path}\", names: [{names}])` reads the parameters that it has"))
    }

    /// The help for rows of these extents, which do not fit an input, if `dims` of the pipeline set what does not fit.
    pub(crate) fn help_for_row(&self, input: &str, ty: &Type, found: &[usize]) -> Option<String> {
        let (file, overrides) = &self.graph;
        let names = front::fixed_extents(&self.sources, *file, overrides).swap_remove(input)?;
        if [names.len(), found.len()] != [ty.rank(); 2] {
            return None;
        }
        let mut changes: IndexMap<String, usize> = IndexMap::new();
        for ((name, extent), found) in names.into_iter().zip(&ty.shape).zip(found).skip(1) {
            if extent.fixed() == Some(*found) {
                continue;
            }
            if changes.insert(name?, *found).is_some_and(|other| other != *found) {
                return None;
            }
        }
        let (names, changes): (Vec<String>, Vec<String>) = changes
            .iter()
            .map(|(name, extent)| (format!("`{name}`"), format!("--set dims.{name}={extent}")))
            .unzip();
        let (names, changes) = (names.join(", "), changes.join(" "));
        Some(format!("`dims` of the pipeline fix the extent {names} of `{input}`; `{changes}` changes it"))
    }
}
