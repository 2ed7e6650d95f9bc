//! Lengths of rows.

use engine_core::ir::{Attr, Attrs, Builder, Value};
use engine_core::op::{AttrSpec, checked};

/// The term that keeps a division by a length of 0 defined.
pub fn eps() -> AttrSpec {
    AttrSpec::float("eps", "added to each length that is divided by", 1e-8)
}

/// The Euclidean length of rows along an axis, which is removed. Its gradient at 0 is 0.
pub fn lengths(b: &mut Builder, x: Value, axis: usize) -> Value {
    let along = Attrs::default().with("axis", Attr::from(axis as i64));
    checked(b.call("rowwise_l2_norm", &[x], along))[0]
}
