//! Indexes of Hugging Face: a file of JSON says which safetensors file beside it has which tensor.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use indexmap::IndexMap;
use serde::Deserialize;

use super::format::MAX_HEADER_BYTES;
use super::{CheckpointError, CheckpointFact};
use crate::files;

/// The files of a checkpoint in several parts, by tensor.
#[derive(Deserialize)]
pub(super) struct Index {
    /// The name of the file that has a tensor, by the name of the tensor.
    pub(super) weight_map: IndexMap<String, String>,
}

impl Index {
    pub(super) fn read(path: &Path) -> Result<Index, CheckpointError> {
        let fail = |fact| CheckpointError { path: path.to_path_buf(), fact };
        let unreadable = |error| fail(CheckpointFact::Unreadable(error));
        let bad = |why| fail(CheckpointFact::BadIndex { why });
        let (mut file, n_bytes) = files::open(path).map_err(unreadable)?;
        if n_bytes > MAX_HEADER_BYTES {
            return Err(bad(format!("it has more than {MAX_HEADER_BYTES} bytes")));
        }
        let mut text = vec![];
        file.read_to_end(&mut text).map_err(unreadable)?;
        serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))
    }

    /// The paths of the files by their names, given the path of the index.
    ///
    /// # Errors
    /// If files are missing, or one lies outside the folder of the index. Links are followed.
    pub(super) fn files(&self, path: &Path) -> Result<IndexMap<&str, PathBuf>, CheckpointError> {
        let fail = |fact| CheckpointError { path: path.to_path_buf(), fact };
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut files = IndexMap::new();
        for (tensor, file) in &self.weight_map {
            if !is_inside(file) {
                let (tensor, file) = (tensor.clone(), file.clone());
                return Err(fail(CheckpointFact::OutsideFolder { tensor, file }));
            }
            files.entry(file.as_str()).or_insert_with(|| folder.join(file));
        }
        let is_missing =
            |path: &PathBuf| fs::metadata(path).is_err_and(|it| it.kind() == ErrorKind::NotFound);
        let missing = files.iter().filter(|(_, path)| is_missing(path));
        let missing: Vec<String> = missing.map(|(file, _)| file.to_string()).collect();
        match missing.is_empty() {
            true => Ok(files),
            false => Err(fail(CheckpointFact::MissingFiles { files: missing })),
        }
    }
}

/// Whether a name stays below the folder that it is relative to.
fn is_inside(file: &str) -> bool {
    let stays = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !file.is_empty() && Path::new(file).components().all(stays)
}
