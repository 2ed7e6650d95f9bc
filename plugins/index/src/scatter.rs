//! Indexed writes: `scatter` and `scatter_add`.

use crate::gather::{back, expect_alike, last};
use crate::indices::{Indices, expect_index, indices, masked, policy};
use engine_core::ir::{Builder, Combine, DType, Literal, Type, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, TypeIssue, checked};

/// The base with updates added at indices along an axis. A vector of indices names whole slices:
/// `y[…, idx[i], …] += updates[…, i, …]`. Indices shaped like the updates name an element each:
/// `y[…, idx[…, i, …], …] += updates[…, i, …]`. Updates of one element add up, in f32 for the small floats. A skipped
/// update adds nothing.
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
}

fn form(name: &'static str, summary: &str, combine: Combine) -> OpForm {
    OpForm::new(name, summary)
        .input("base", "the base")
        .input("idx", "positions along the axis: a vector, or one for each update")
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

/// Checks that there is an index for each update, and that updates fit the base.
pub fn expect_elements(
    op: &str,
    base: &Type,
    idx: &Type,
    updates: &Type,
    axis: usize,
) -> Result<(), TypeIssue> {
    expect_updates(op, base, idx, updates, axis)?;
    if idx.shape == updates.shape {
        return Ok(());
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
    expect_alike(op, base, 2, updates, axis)?;
    let fits = match idx.rank() == base.rank() {
        true => idx.shape == updates.shape,
        false => idx.rank() == 1 && idx.shape[0] == updates.shape[axis],
    };
    if fits { Ok(()) } else { Err(mismatch("give one index per slice of the updates, or one per element")) }
}

fn scattered(b: &mut Builder, call: &Lowering, combine: Combine) -> Value {
    let [base, idx, updates] = [call.inputs[0], call.inputs[1], call.inputs[2]];
    let rank = b.ty(base).rank();
    let axis = checked(b.ty(base).axis(call.attrs.int("axis")));
    let idx = indices(b, idx, b.extents(base)[axis], call.attrs);
    if b.ty(idx.at).rank() < rank || rank == 1 {
        return write(b, base, idx, updates, axis, 0, combine);
    }
    let last = last(rank, axis);
    let [base, updates, at] = [base, updates, idx.at].map(|x| b.permute(x, &last));
    let counts = idx.counts.map(|counts| b.permute(counts, &last));
    let y = write(b, base, Indices { at, counts }, updates, rank - 1, rank - 1, combine);
    b.permute(y, &back(rank, axis))
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
