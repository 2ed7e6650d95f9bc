//! Elements by number.

use crate::indices::{expect_index, indices, masked, policy};
use engine_core::ir::{Builder, Dim, Type, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, TypeIssue, checked};

/// `y[…, i, …] = src[…, idx[…, i, …], …]`: one element per index with all other coordinates kept, as in PyTorch's
/// gather. Along all other axes, there may be fewer indices than elements. The gradient adds up at the indices.
pub fn gather() -> OpForm {
    OpForm::new("gather", "Reads one element per index along an axis, all other coordinates kept.")
        .follows_operands()
        .input("src", "the source")
        .input("idx", "positions along the axis; along all others, no more than the source has")
        .attr(AttrSpec::int("axis", "the axis that is indexed", -1))
        .attrs(policy())
        .types(|types, attrs| {
            expect_index("gather", 1, &types[1])?;
            let axis = types[0].axis(attrs.int("axis"))?;
            expect_within("gather", &types[0], 1, &types[1], axis)?;
            Ok(vec![types[1].with_dtype(types[0].dtype)])
        })
        .expand(|b, call| vec![gathered(b, call)])
        .example(
            "one element of each row",
            "gather(a, b, axis=1)",
            &[("f32[2, 2]", &[1., 2., 3., 4.]), ("i32[2, 1]", &[1., 0.])],
            &[("f32[2, 1]", &[2., 3.])],
        )
        .example(
            "fewer indices than rows",
            "gather(a, b, axis=1)",
            &[("f32[2, 2]", &[1., 2., 3., 4.]), ("i32[1, 3]", &[1., 0., 1.])],
            &[("f32[1, 3]", &[2., 1., 2.])],
        )
        .example(
            "along columns",
            "gather(a, b, axis=0)",
            &[("f32[2, 2]", &[1., 2., 3., 4.]), ("i32[1, 2]", &[1., 0.])],
            &[("f32[1, 2]", &[3., 2.])],
        )
}

/// Checks that `idx` has at most the extents of `whole`, except along `axis`.
pub fn expect_within(
    op: &str,
    whole: &Type,
    operand: usize,
    idx: &Type,
    axis: usize,
) -> Result<(), TypeIssue> {
    let fits = |other: usize| other == axis || is_within(&idx.shape[other], &whole.shape[other]);
    if whole.rank() == idx.rank() && (0..whole.rank()).all(fits) {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`{op}` of {whole} by {idx} along axis {axis}"))
        .at(operand, format!("this is {idx}"))
        .help("give as many axes, and along all other axes no more indices than elements"))
}

/// Whether an extent is known to be at most another.
pub fn is_within(part: &Dim, whole: &Dim) -> bool {
    match (part, whole) {
        (Dim::Fixed(part), Dim::Fixed(whole)) => part <= whole,
        _ => part == whole,
    }
}

/// Checks that `idx` has the extents of `whole`, except along `axis`.
pub fn expect_alike(
    op: &str,
    whole: &Type,
    operand: usize,
    idx: &Type,
    axis: usize,
) -> Result<(), TypeIssue> {
    let same = |other: usize| other == axis || whole.shape[other] == idx.shape[other];
    if whole.rank() == idx.rank() && (0..whole.rank()).all(same) {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`{op}` of {whole} by {idx} along axis {axis}"))
        .at(operand, format!("this is {idx}"))
        .help("all other extents must agree"))
}

/// The permutation that moves `axis` to the end.
pub fn last(rank: usize, axis: usize) -> Vec<usize> {
    (0..rank).filter(|&other| other != axis).chain([axis]).collect()
}

/// The permutation that moves the last axis back.
pub fn back(rank: usize, axis: usize) -> Vec<usize> {
    let others = 0..rank - 1;
    others.clone().take(axis).chain([rank - 1]).chain(others.skip(axis)).collect()
}

/// The first elements along each axis.
pub fn leading(b: &mut Builder, x: Value, counts: &[usize]) -> Value {
    let (start, step) = (vec![0; counts.len()], vec![1; counts.len()]);
    if counts == b.extents(x) { x } else { b.slice(x, &start, counts, &step) }
}

fn gathered(b: &mut Builder, call: &Lowering) -> Value {
    let [src, idx] = [call.inputs[0], call.inputs[1]];
    let rank = b.ty(src).rank();
    let axis = checked(b.ty(src).axis(call.attrs.int("axis")));
    let idx = indices(b, idx, b.extents(src)[axis], call.attrs);
    let last = last(rank, axis);
    let mut reached = b.extents(idx.at);
    reached[axis] = b.extents(src)[axis];
    let src = leading(b, src, &reached);
    let rows = b.permute(src, &last);
    let at = b.permute(idx.at, &last);
    let y = b.gather(rows, at, rank - 1, rank - 1);
    let y = b.permute(y, &back(rank, axis));
    let axes: Vec<usize> = (0..rank).collect();
    masked(b, y, idx.counts, &axes)
}
