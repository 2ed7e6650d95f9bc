//! Extents that the pipeline gives names.

use crate::ir::Dim;
use indexmap::IndexMap;

/// `dims: {"H": 256}`
pub(super) type Dims = IndexMap<String, usize>;

/// The extent of that name: a number if the pipeline has fixed it.
pub(super) fn named_dim(name: &str, dims: &Dims) -> Dim {
    dims.get(name).map_or_else(|| Dim::Named(name.into()), |&n| Dim::Fixed(n))
}
