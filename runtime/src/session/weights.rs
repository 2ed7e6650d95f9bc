//! Weights that other tools have written: under other names, with axes exchanged.

use std::path::Path;

use engine_core::diag::nearest;
use engine_core::pipeline::LoadName;
use indexmap::IndexMap;

use super::error::SessionError;
use crate::checkpoint;
use crate::data::npz;
use crate::tensor::HostTensor;

/// The tensors of a checkpoint, a safetensors file, or an archive of NumPy's.
pub(super) fn read(path: &Path) -> Result<IndexMap<String, HostTensor>, SessionError> {
    match path.extension().is_some_and(|extension| extension == "npz") {
        true => npz::read_all(path).map_err(|error| SessionError::Archive(Box::new(error))),
        false => Ok(checkpoint::read_tensors(path)?),
    }
}

/// The tensors that `names` asks for, by the names of the parameters; fails with all that cannot be had.
pub(super) fn renamed(
    path: &Path,
    names: &[LoadName],
    tensors: &IndexMap<String, HostTensor>,
) -> Result<IndexMap<String, HostTensor>, SessionError> {
    let (mut found, mut faults) = (IndexMap::new(), vec![]);
    for LoadName { param, tensor: name, is_transposed } in names {
        match (tensors.get(name), is_transposed) {
            (None, _) => {
                faults.push(format!("there is no tensor `{name}` for `{param}`{}", hint(name, tensors)))
            }
            (Some(tensor), false) => _ = found.insert(param.to_string(), tensor.clone()),
            (Some(tensor), true) if tensor.shape().len() == 2 => {
                found.insert(param.to_string(), tensor.transposed()?);
            }
            (Some(tensor), true) => {
                faults.push(format!("`{name}` is {tensor:?}, which has no two axes to exchange"));
            }
        }
    }
    match faults.is_empty() {
        true => Ok(found),
        false => Err(SessionError::Names { path: path.to_path_buf(), faults }),
    }
}

fn hint(name: &str, tensors: &IndexMap<String, HostTensor>) -> String {
    match nearest(name, tensors.keys().map(String::as_str)) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => {
            let known: Vec<&str> = tensors.keys().map(String::as_str).collect();
            format!("; there are {}", known.join(", "))
        }
    }
}
