//! Differences between the tensors of a file and those that a graph needs.

use std::fmt;

use engine_core::ir::DType;
use indexmap::IndexMap;
use thiserror::Error;

use crate::tensor::{HostTensor, type_text};

/// A tensor that a graph needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its extents.
    pub shape: Vec<usize>,
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}: {}`", self.name, type_text(self.dtype, &self.shape))
    }
}

/// Differences between the tensors of a file and those that a graph needs.
#[derive(Clone, Debug, PartialEq, Eq, Default, Error)]
pub struct Mismatch {
    /// Needed tensors that the file lacks.
    pub missing: Vec<TensorType>,
    /// Tensors of the file that are not needed.
    pub unexpected: Vec<TensorType>,
    /// Tensors of different types: as needed, then as found.
    pub different: Vec<(TensorType, TensorType)>,
}

impl Mismatch {
    /// A matrix whose axes are exchanged in the file, if that is the only difference.
    pub fn transposed(&self) -> Option<&str> {
        let is_turned = |(needed, found): &(TensorType, TensorType)| {
            let turned: Vec<usize> = found.shape.iter().rev().copied().collect();
            needed.shape.len() == 2 && needed.dtype == found.dtype && needed.shape == turned
        };
        let is_all = self.missing.is_empty() && self.different.iter().all(is_turned);
        self.different.first().filter(|_| is_all).map(|(needed, _)| needed.name.as_str())
    }

    /// Whether all tensors are there, and only their types differ.
    pub fn is_of_types(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty()
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tensors do not match the graph")?;
        self.missing.iter().try_for_each(|needed| write!(f, "\n  {needed} is missing"))?;
        self.unexpected.iter().try_for_each(|found| write!(f, "\n  {found} is not in the graph"))?;
        self.different.iter().try_for_each(|(needed, found)| {
            write!(f, "\n  {needed} is {} in the file", type_text(found.dtype, &found.shape))
        })
    }
}

/// Compares the tensors of a file with those that a graph needs, by name. Their order is irrelevant.
pub fn compare(needed: &[TensorType], found: &IndexMap<String, HostTensor>) -> Result<(), Mismatch> {
    let mut mismatch = Mismatch::default();
    for needed in needed {
        match found.get(&needed.name).map(|tensor| tensor_type(&needed.name, tensor)) {
            None => mismatch.missing.push(needed.clone()),
            Some(found) if found != *needed => mismatch.different.push((needed.clone(), found)),
            Some(_) => {}
        }
    }
    let is_needed = |name: &str| needed.iter().any(|needed| needed.name == name);
    let unexpected = found.iter().filter(|(name, _)| !is_needed(name));
    mismatch.unexpected = unexpected.map(|(name, tensor)| tensor_type(name, tensor)).collect();
    if mismatch == Mismatch::default() { Ok(()) } else { Err(mismatch) }
}

pub(super) fn tensor_type(name: &str, tensor: &HostTensor) -> TensorType {
    TensorType { name: name.to_string(), dtype: tensor.dtype(), shape: tensor.shape().to_vec() }
}
