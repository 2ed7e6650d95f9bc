//! Indexed writes: `scatter` and `scatter_add`.

use crate::gather::{back, expect_alike, expect_within, is_within, last, leading};
use crate::indices::{Indices, expect_index, indices, masked, policy};
use engine_core::ir::{Builder, Combine, DType, Literal, Type, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, TypeIssue, checked};

/// The base with updates added at indices along an axis. A vector of indices names whole slices:
/// `y[…, idx[i], …] += updates[…, i, …]`. Indices with the axes of the base name an element each:
/// `y[…, idx[…, i, …], …] += updates[…, i, …]`. There may be fewer of them than updates, and along all other axes fewer
/// than elements, as in PyTorch; the rest is not used. Updates of one element add up, in f32 for the small floats. A
/// skipped update adds nothing.
pub fn scatter_add() -> OpForm {
    form(
        "scatter_add",
        "Adds updates to a tensor at indices along an axis; updates of one element add up.",
        Combine::Add,
    )
    .example(
        "two rows meet",
        "scatter_add(a, b, c)",
        &[
            ("f32[2, 2]", &[1., 1., 1., 1.]),
            ("i32[3]", &[0., 1., 0.]),
            ("f32[3, 2]", &[1., 2., 3., 4., 5., 6.]),
        ],
        &[("f32[2, 2]", &[7., 9., 4., 5.])],
    )
    .example(
        "an element each",
        "scatter_add(a, b, c, axis=1)",
        &[("f32[2, 2]", &[0., 0., 0., 0.]), ("i32[2, 1]", &[1., 0.]), ("f32[2, 1]", &[5., 6.])],
        &[("f32[2, 2]", &[0., 5., 6., 0.])],
    )
}

/// The base with updates in place of the elements at indices along an axis; see [`scatter_add`] for their shapes. Among
/// equal indices, the last one in row-major order wins, and it alone gets a gradient.
pub fn scatter() -> OpForm {
    form(
        "scatter",
        "Replaces elements at indices along an axis; among equal indices, the last one wins.",
        Combine::Set,
    )
    .example(
        "the second of two rows that meet",
        "scatter(a, b, c)",
        &[("f32[2, 2]", &[1., 1., 1., 1.]), ("i32[2]", &[1., 1.]), ("f32[2, 2]", &[1., 2., 3., 4.])],
        &[("f32[2, 2]", &[1., 1., 3., 4.])],
    )
    .example(
        "an element each, one skipped",
        "scatter(a, b, c, axis=1, oob=\"skip\")",
        &[("f32[2, 2]", &[1., 2., 3., 4.]), ("i32[2, 1]", &[2., 0.]), ("f32[2, 1]", &[5., 6.])],
        &[("f32[2, 2]", &[1., 2., 6., 4.])],
    )
    .example(
        "fewer indices than elements and updates",
        "scatter(a, b, c, axis=1)",
        &[
            ("f32[2, 3]", &[1., 2., 3., 4., 5., 6.]),
            ("i32[1, 2]", &[2., 0.]),
            ("f32[2, 3]", &[7., 8., 9., 10., 11., 12.]),
        ],
        &[("f32[2, 3]", &[8., 2., 7., 4., 5., 6.])],
    )
}

fn form(name: &'static str, summary: &str, combine: Combine) -> OpForm {
    OpForm::new(name, summary)
        .input("base", "the base")
        .input("idx", "positions along the axis: a vector, or one for each of the first updates")
        .input("updates", "the new values")
        .attr(AttrSpec::int("axis", "the axis that is indexed", 0))
        .attrs(policy())
        .types(move |types, attrs| {
            let axis = types[0].axis(attrs.int("axis"))?;
            expect_index(name, 1, &types[1])?;
            expect_updates(name, &types[0], &types[1], &types[2], axis)?;
            expect_addable(name, types[0].dtype, combine)?;
            Ok(vec![types[0].clone()])
        })
        .expand(move |b, call| vec![scattered(b, call, combine)])
}

/// Refuses to add truth values.
pub fn expect_addable(op: &str, dtype: DType, combine: Combine) -> Result<(), TypeIssue> {
    match combine == Combine::Add && dtype == DType::Bool {
        true => Err(TypeIssue::new(format!("`{op}` does not add truth values")).help("cast them to i32")),
        false => Ok(()),
    }
}

/// Checks that there is an update for each index, and that indices fit the base.
pub fn expect_elements(
    op: &str,
    base: &Type,
    idx: &Type,
    updates: &Type,
    axis: usize,
) -> Result<(), TypeIssue> {
    if idx.rank() == base.rank() {
        return expect_updates(op, base, idx, updates, axis);
    }
    Err(TypeIssue::new(format!("`{op}` of {updates} at {idx}"))
        .at(1, format!("this is {idx}"))
        .help("give one index for each update"))
}

fn expect_updates(op: &str, base: &Type, idx: &Type, updates: &Type, axis: usize) -> Result<(), TypeIssue> {
    let mismatch = |help: &str| {
        TypeIssue::new(format!("`{op}` of {updates} to {base} at {idx} along axis {axis}"))
            .at(2, format!("this is {updates}"))
            .help(help)
    };
    if base.dtype != updates.dtype {
        return Err(mismatch("base and updates must be of one type"));
    }
    let fits = match idx.rank() == base.rank() {
        true => {
            expect_within(op, base, 1, idx, axis)?;
            idx.rank() == updates.rank() && idx.shape.iter().zip(&updates.shape).all(|(i, u)| is_within(i, u))
        }
        false => {
            expect_alike(op, base, 2, updates, axis)?;
            idx.rank() == 1 && idx.shape[0] == updates.shape[axis]
        }
    };
    if fits { Ok(()) } else { Err(mismatch("give one index per slice of the updates, or one per element")) }
}

/// The part of a base that indices of these extents reach.
pub fn reached(b: &mut Builder, base: Value, idx: &[usize], axis: usize) -> Value {
    let mut part = idx.to_vec();
    part[axis] = b.extents(base)[axis];
    leading(b, base, &part)
}

/// The base with its first elements along each axis replaced by those of `part`.
pub fn replaced_part(b: &mut Builder, base: Value, part: Value) -> Value {
    let (whole, extents) = (b.extents(base), b.extents(part));
    if whole == extents {
        return part;
    }
    let none = vec![0; whole.len()];
    let behind: Vec<usize> = whole.iter().zip(&extents).map(|(n, part)| n - part).collect();
    let is_part = b.full(Literal::Bool(true), Type::new(DType::Bool, &extents));
    let is_part = b.pad(is_part, &none, &behind, Literal::Bool(false));
    let padded = b.pad(part, &none, &behind, Literal::Int(0));
    b.scalar(engine_core::ir::Scalar::Select, &[is_part, padded, base])
}

fn scattered(b: &mut Builder, call: &Lowering, combine: Combine) -> Value {
    let [base, idx, updates] = [call.inputs[0], call.inputs[1], call.inputs[2]];
    let rank = b.ty(base).rank();
    let axis = checked(b.ty(base).axis(call.attrs.int("axis")));
    let idx = indices(b, idx, b.extents(base)[axis], call.attrs);
    if b.ty(idx.at).rank() < rank || rank == 1 {
        let n = b.extents(idx.at)[0];
        let mut extents = b.extents(updates);
        extents[axis] = n;
        let updates = leading(b, updates, &extents);
        return write(b, base, idx, updates, axis, 0, combine);
    }
    let last = last(rank, axis);
    let extents = b.extents(idx.at);
    let updates = leading(b, updates, &extents);
    let part = reached(b, base, &extents, axis);
    let [part, updates, at] = [part, updates, idx.at].map(|x| b.permute(x, &last));
    let counts = idx.counts.map(|counts| b.permute(counts, &last));
    let y = write(b, part, Indices { at, counts }, updates, rank - 1, rank - 1, combine);
    let y = b.permute(y, &back(rank, axis));
    replaced_part(b, base, y)
}

/// A scatter without the updates whose index does not count. Small floats add up in f32.
pub fn write(
    b: &mut Builder,
    base: Value,
    idx: Indices,
    updates: Value,
    axis: usize,
    batch: usize,
    combine: Combine,
) -> Value {
    if combine == Combine::Set {
        return replaced(b, base, idx, updates, axis, batch);
    }
    let dtype = b.dtype(base);
    let [base, updates] = [base, updates].map(|x| b.widen(x));
    let axes = index_axes(b, &idx, axis, batch);
    let updates = masked(b, updates, idx.counts, &axes);
    let y = b.scatter(base, idx.at, updates, axis, batch, Combine::Add);
    b.cast(y, dtype)
}

/// Axes of the updates along which indices lie.
fn index_axes(b: &Builder, idx: &Indices, axis: usize, batch: usize) -> Vec<usize> {
    (0..batch).chain(axis..axis + b.ty(idx.at).rank() - batch).collect()
}

/// Updates that do not count are written to an extra position at the end, which is then cut off.
fn replaced(b: &mut Builder, base: Value, idx: Indices, updates: Value, axis: usize, batch: usize) -> Value {
    let Some(counts) = idx.counts else {
        return b.scatter(base, idx.at, updates, axis, batch, Combine::Set);
    };
    let extents = b.extents(base);
    let none = vec![0; extents.len()];
    let mut one = none.clone();
    one[axis] = 1;
    let longer = b.pad(base, &none, &one, Literal::Int(0));
    let behind = b.full_like(idx.at, extents[axis] as f64);
    let at = b.scalar(engine_core::ir::Scalar::Select, &[counts, idx.at, behind]);
    let y = b.scatter(longer, at, updates, axis, batch, Combine::Set);
    b.slice(y, &none, &extents, &vec![1; extents.len()])
}
