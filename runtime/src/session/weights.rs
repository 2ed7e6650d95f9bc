//! Weights that other tools have written: under other names, with axes exchanged.

use std::path::Path;

use engine_core::diag::nearest;
use engine_core::ir::{DType, Symbol};
use engine_core::pipeline::{LoadName, ParamDecl};
use indexmap::IndexMap;

use super::error::SessionError;
use crate::checkpoint;
use crate::data::npz;
use crate::tensor::HostTensor;

/// The tensors of a checkpoint, a safetensors file or its index, or an archive of NumPy's. Those of unsupported element types
/// are left out, unless they are in `names`, or have the name of a parameter if there are no `names`.
pub(super) fn read(
    path: &Path,
    params: &[ParamDecl],
    names: &[LoadName],
) -> Result<IndexMap<String, HostTensor>, SessionError> {
    let is_needed = |tensor: &str| match names {
        [] => params.iter().any(|param| *param.name == *tensor),
        _ => names.iter().any(|name| name.tensor == tensor),
    };
    match path.extension().is_some_and(|extension| extension == "npz") {
        true => npz::read_all(path).map_err(|error| SessionError::Archive(Box::new(error))),
        false => Ok(checkpoint::read_needed(path, &is_needed)?),
    }
}

/// The tensors in `names`, by the names of the parameters. The error lists all missing tensors.
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

/// Fails unless all names are those of parameters. The error lists all others.
pub(super) fn expect_params(path: &Path, names: &[Symbol], params: &[ParamDecl]) -> Result<(), SessionError> {
    let known = || params.iter().map(|decl| &*decl.name);
    let unknown = names.iter().filter(|name| !known().any(|known| *known == ***name));
    let fault = |name: &Symbol| match nearest(name, known()) {
        Some(meant) => format!("there is no parameter `{name}`; did you mean `{meant}`?"),
        None => format!("there is no parameter `{name}`"),
    };
    let faults: Vec<String> = unknown.map(fault).collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(SessionError::Names { path: path.to_path_buf(), faults }),
    }
}

/// Remarks on tensors that no name uses, and on parameters that no name fills.
pub(super) fn left_out(
    params: &[ParamDecl],
    names: &[LoadName],
    tensors: &IndexMap<String, HostTensor>,
) -> Vec<String> {
    let unused =
        tensors.keys().map(String::as_str).filter(|key| !names.iter().any(|name| name.tensor == **key));
    let unfilled = params.iter().map(|decl| &*decl.name);
    let unfilled = unfilled.filter(|param| !names.iter().any(|name| *name.param == **param));
    let remark =
        |names: Vec<&str>, what: &str| (!names.is_empty()).then(|| format!("{what}: {}", folded(&names)));
    let unused = remark(unused.collect(), "no name uses these tensors of the file");
    let unfilled = remark(unfilled.collect(), "these parameters keep their values");
    unused.into_iter().chain(unfilled).collect()
}

/// All names, those that differ in numbers as one: `` `h.{i}.attn.bias` (12) ``.
fn folded(names: &[&str]) -> String {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let pattern = |name: &str| {
        let parts = name.split('.').map(|part| if is_number(&part) { "{i}" } else { part });
        parts.collect::<Vec<_>>().join(".")
    };
    let mut groups = IndexMap::<String, Vec<&str>>::new();
    names.iter().for_each(|name| groups.entry(pattern(name)).or_default().push(name));
    let shown = groups.iter().map(|(pattern, names)| match names[..] {
        [name] => format!("`{name}`"),
        _ => format!("`{pattern}` ({})", names.len()),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The tensors in the float types of their parameters, and remarks on conversions.
///
/// # Errors
/// If a number is too large for the type of its parameter; all such tensors are named.
pub(super) fn in_types_of(
    params: &[ParamDecl],
    path: &Path,
    mut tensors: IndexMap<String, HostTensor>,
) -> Result<(IndexMap<String, HostTensor>, Vec<String>), SessionError> {
    let (mut counts, mut faults, mut wide) = (IndexMap::<[DType; 2], usize>::new(), vec![], DType::F32);
    for param in params {
        let Some(tensor) = tensors.get_mut(&*param.name) else { continue };
        let [from, to] = [tensor.dtype(), param.ty.dtype];
        if from == to || !from.is_float() || !to.is_float() {
            continue;
        }
        let converted = tensor.cast(to)?;
        match too_large(tensor, &converted) {
            Some(number) => {
                faults.push(format!("`{}: {}` cannot hold {number:e} of {from}", param.name, param.ty));
                wide = if from == DType::F64 { from } else { wide };
            }
            None => *counts.entry([from, to]).or_default() += 1,
        }
        *tensor = converted;
    }
    if !faults.is_empty() {
        return Err(SessionError::TooLarge { path: path.to_path_buf(), faults, wide });
    }
    let remark = |([from, to], count): ([DType; 2], usize)| {
        let tensors = if count == 1 { "tensor is" } else { "tensors are" };
        let is_exact = to.size() >= DType::F32.size() && to.size() > from.size();
        let how = if is_exact { "taken as" } else { "rounded to" };
        format!("{}: {count} {tensors} {from} and {how} {to}", path.display())
    };
    let remarks = counts.into_iter().map(remark).collect();
    Ok((tensors, remarks))
}

/// The first finite number that has become infinite.
fn too_large(tensor: &HostTensor, converted: &HostTensor) -> Option<f64> {
    let pairs = tensor.to_f64().into_iter().zip(converted.to_f64());
    pairs.into_iter().find(|(from, to)| from.is_finite() && to.is_infinite()).map(|(from, _)| from)
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
