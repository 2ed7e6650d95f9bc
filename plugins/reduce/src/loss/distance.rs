//! Distances of rows, for losses over pairs and triplets.

use engine_core::ir::{Builder, Type, Value};
use engine_core::op::{AttrSpec, TypeIssue};

/// `eps`.
pub fn eps() -> AttrSpec {
    AttrSpec::float("eps", "added to each difference, so that equal rows have a gradient", 1e-6)
}

/// The type of one number per row, if the first `n_rows` operands are rows of one type.
pub fn row_type(op: &str, types: &[Type]) -> Result<Type, TypeIssue> {
    super::reduction::expect_alike(op, types)?;
    match types[0].shape.split_last() {
        Some((_, rows)) => Ok(Type { dtype: types[0].dtype, shape: rows.to_vec() }),
        None => Err(TypeIssue::new(format!("`{op}` needs rows")).at(0, format!("this is {}", types[0]))),
    }
}

/// `‖x - y + ε‖₂` along the last axis (PyTorch's `pairwise_distance`).
pub fn distance(b: &mut Builder, x: Value, y: Value, eps: f64) -> Value {
    let last = b.ty(x).rank() - 1;
    let squares = b.map(&[x, y], |v| {
        let difference = v[0] - v[1] + eps;
        difference * difference
    });
    let total = b.sum(squares, &[last]);
    b.map(&[total], |v| v[0].sqrt())
}
