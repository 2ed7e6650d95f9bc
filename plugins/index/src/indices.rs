//! The policies of indexing ops for an index outside its range.

use engine_core::ir::{Attrs, Binary, Builder, DType, E, Type, Value};
use engine_core::op::{AttrSpec, TypeIssue};

/// `oob` and `wrap_negative`, which is off unless given.
pub fn policy() -> Vec<AttrSpec> {
    policy_wrapping(false)
}

/// `oob` and `wrap_negative` with this default.
pub fn policy_wrapping(by_default: bool) -> Vec<AttrSpec> {
    vec![
        AttrSpec::choice(
            "oob",
            "an index out of range is an error, goes to the nearest end, counts for nothing, or is the caller's risk",
            &["error", "clamp", "skip", "unchecked"],
        ),
        AttrSpec::flag("wrap_negative", "whether negative indices count from the end", by_default),
    ]
}

/// Checks that the type can index.
pub fn expect_index(op: &str, operand: usize, ty: &Type) -> Result<(), TypeIssue> {
    ty.expect_dtype(op, operand, DType::is_index, "integers other than u32")
}

/// Indices that can be used without a check.
pub struct Indices {
    /// All within `0..bound`.
    pub at: Value,
    /// Whether each index counts. All count if it is missing.
    pub counts: Option<Value>,
}

/// Applies the policy to indices into `bound` positions.
pub fn indices(b: &mut Builder, given: Value, bound: usize, attrs: &Attrs) -> Indices {
    // Bounds beyond 255 do not fit a byte.
    let given = b.cast(given, b.dtype(given).index_type());
    let given = match attrs.bool("wrap_negative") {
        true => b.map(&[given], |i| E::select(i[0].lt(0i64), i[0] + E::from(bound as i64), i[0])),
        false => given,
    };
    let last = bound as i64 - 1;
    match attrs.str("oob") {
        "unchecked" => Indices { at: given, counts: None },
        // If there are no positions, none is nearest and none is safe to read.
        "clamp" if bound > 0 => Indices { at: clamped(b, given, last), counts: None },
        "skip" if bound > 0 => {
            let counts = b.map(&[given], |i| i[0].ge(0i64) & i[0].le(last));
            Indices { at: clamped(b, given, last), counts: Some(counts) }
        }
        _ => Indices { at: b.check_index(given, bound), counts: None },
    }
}

/// The element type that holds positions within these extents.
pub fn position_dtype(extents: &[usize]) -> DType {
    let n_positions: usize = extents.iter().product();
    if n_positions > i32::MAX as usize { DType::I64 } else { DType::I32 }
}

/// Row-major positions within these extents, from one number along each axis. Numbers broadcast.
pub fn linear(b: &mut Builder, numbers: Vec<Indices>, extents: &[usize]) -> Indices {
    let dtype = position_dtype(extents);
    let mut all: Option<Indices> = None;
    for (number, &extent) in numbers.into_iter().zip(extents) {
        let at = b.cast(number.at, dtype);
        all = Some(match all {
            None => Indices { at, counts: number.counts },
            Some(outer) => Indices {
                at: b.map(&[outer.at, at], |v| v[0] * E::from(extent as i64) + v[1]),
                counts: both(b, outer.counts, number.counts),
            },
        });
    }
    all.unwrap_or_else(|| engine_core::bug!("no number to make a position of"))
}

/// The conjunction of two conditions.
fn both(b: &mut Builder, one: Option<Value>, other: Option<Value>) -> Option<Value> {
    match (one, other) {
        (Some(one), Some(other)) => Some(b.binary(Binary::And, one, other)),
        _ => one.or(other),
    }
}

fn clamped(b: &mut Builder, given: Value, last: i64) -> Value {
    b.map(&[given], |i| i[0].max(0i64).min(last))
}

/// Replaces elements by 0 where an index does not count. `counts` lies along `axes` of `x`.
pub fn masked(b: &mut Builder, x: Value, counts: Option<Value>, axes: &[usize]) -> Value {
    let Some(counts) = counts else { return x };
    let shape = b.ty(x).shape.clone();
    let counts = b.broadcast_axes(counts, axes, &shape);
    let zero = b.full_like(x, 0.0);
    b.map(&[counts, x, zero], |v| E::select(v[0], v[1], v[2]))
}
