//! Limits of segments, and rows over their segments.

use crate::axis::called;
use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, Type, Value};
use engine_core::op::TypeIssue;

/// The number of segments of operands (values, limits).
pub fn expect_limits(op: &str, types: &[Type]) -> Result<Dim, TypeIssue> {
    let lims = &types[1];
    let n_rows = lims.shape.first().and_then(|n| n.minus(&Dim::Fixed(1)));
    expect_segments(op, types, 1, |_| lims.shape.first().cloned())?;
    n_rows.ok_or_else(|| {
        TypeIssue::new(format!("`{op}` by limits {lims}"))
            .at(1, format!("this is {lims}"))
            .help("R segments have R + 1 limits, at least one")
    })
}

/// Checks operands (values, limits), given the number of limits for the extent of the values.
pub fn expect_segments(
    op: &str,
    types: &[Type],
    at: usize,
    n_limits: impl Fn(&Dim) -> Option<Dim>,
) -> Result<(), TypeIssue> {
    let (x, lims) = (&types[0], &types[1]);
    lims.expect_dtype(op, 1, DType::is_index, "integers other than u32")?;
    let n = x.shape.first().and_then(n_limits);
    if lims.rank() == 1 && n.is_some() && lims.shape.first() == n.as_ref() {
        return Ok(());
    }
    let help = match at {
        0 => "R rows have R + 1 limits",
        _ => "it takes values `[cap, …]` and a vector of limits",
    };
    Err(TypeIssue::new(format!("`{op}` of {x} by limits {lims}")).at(1, format!("this is {lims}")).help(help))
}

/// The lengths of segments, of the type and shape of `like`.
pub fn lengths(b: &mut Builder, like: Value, lims: Value) -> Value {
    let [starts, ends] = bounds(b, lims);
    let lengths = b.sub(ends, starts);
    let lengths = b.cast(lengths, b.dtype(like));
    let shape = b.ty(like).shape.clone();
    b.broadcast_axes(lengths, &[0], &shape)
}

/// Where segments begin and end.
pub fn bounds(b: &mut Builder, lims: Value) -> [Value; 2] {
    let n_rows = b.extents(lims)[0] - 1;
    let lims = b.cast(lims, DType::I32);
    [0, 1].map(|from| b.slice(lims, &[from], &[n_rows], &[1]))
}

/// Whether each element lies in a segment, for elements of the shape of `like`.
pub fn inside(b: &mut Builder, like: Value, lims: Value) -> Value {
    let n_rows = b.extents(lims)[0] - 1;
    let ty = b.ty(like).with_dtype(DType::I32);
    let place = b.iota(0, ty);
    let [first, end] = [0, n_rows].map(|at| {
        let limit = b.slice(lims, &[at], &[1], &[1]);
        let limit = b.cast(limit, DType::I32);
        b.reshape(limit, &[])
    });
    b.map(&[place, first, end], |v| v[0].ge(v[1]) & v[0].lt(v[2]))
}

/// Each row over its segment of `n` elements in all: the op `spread`.
pub fn spread_over(b: &mut Builder, rows: Value, lims: Value, n: usize) -> Value {
    called(b, "spread", &[rows, lims], Attrs::default().with("cap", Attr::from(n as i64)))[0]
}

/// The sums or the extremes of segments: the op `segment_reduce`.
pub fn reduced_by(b: &mut Builder, x: Value, lims: Value, by: &str) -> Value {
    called(b, "segment_reduce", &[x, lims], Attrs::default().with("by", Attr::from(by)))[0]
}
