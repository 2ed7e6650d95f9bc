//! Tensors of all files that the engine reads as weights.

use std::path::Path;

use indexmap::IndexMap;

use super::format::TENSOR_SUM_PREFIX;
use super::index::Index;
use super::read::Weights;
use super::{Checkpoint, CheckpointError, CheckpointFact};
use crate::tensor::HostTensor;

/// The tensors of a checkpoint, verified, or those of a safetensors file of another tool, or of several such files with an
/// index (`model.safetensors.index.json`).
///
/// # Errors
/// If a file is missing or damaged, or a tensor has an unsupported element type.
pub fn read_tensors(path: &Path) -> Result<IndexMap<String, HostTensor>, CheckpointError> {
    read_needed(path, &|_| true)
}

/// As [`read_tensors`], but tensors of unsupported element types are left out, unless they are needed.
///
/// # Errors
/// As for [`read_tensors`].
pub fn read_needed(
    path: &Path,
    is_needed: &dyn Fn(&str) -> bool,
) -> Result<IndexMap<String, HostTensor>, CheckpointError> {
    match read_file(path, is_needed) {
        Err(CheckpointError { fact: CheckpointFact::Json, .. }) => read_indexed(path, is_needed),
        outcome => outcome,
    }
}

fn read_file(
    path: &Path,
    is_needed: &dyn Fn(&str) -> bool,
) -> Result<IndexMap<String, HostTensor>, CheckpointError> {
    let error = match Checkpoint::read(path) {
        Ok(checkpoint) => return Ok(checkpoint.tensors),
        Err(error) => error,
    };
    if !matches!(error.fact, CheckpointFact::NoChecksum) {
        return Err(error);
    }
    let weights = Weights::read_needed(path, is_needed)?;
    // A checkpoint with damaged first bytes must not be read as the file of another tool.
    let is_ours = weights.metadata.keys().any(|key| key.starts_with(TENSOR_SUM_PREFIX));
    if is_ours { Err(error) } else { Ok(weights.tensors) }
}

/// The tensors of the files that an index names, in the order of the index.
fn read_indexed(
    path: &Path,
    is_needed: &dyn Fn(&str) -> bool,
) -> Result<IndexMap<String, HostTensor>, CheckpointError> {
    let index = Index::read(path)?;
    let mut tensors = IndexMap::new();
    for (file, file_path) in index.files(path)? {
        let is_in_file = |name: &str| index.weight_map.get(name).is_some_and(|of| of == file);
        let found = read_file(&file_path, &|name| is_in_file(name) && is_needed(name))?;
        tensors.extend(found.into_iter().filter(|(name, _)| is_in_file(name)));
    }
    let absent = |(name, _): &(&String, &String)| !tensors.contains_key(*name) && is_needed(name);
    if let Some((tensor, file)) = index.weight_map.iter().find(absent) {
        let fact = CheckpointFact::NotInFile { tensor: tensor.clone(), file: file.clone() };
        return Err(CheckpointError { path: path.to_path_buf(), fact });
    }
    tensors.sort_by_key(|name, _| index.weight_map.get_index_of(name));
    Ok(tensors)
}
