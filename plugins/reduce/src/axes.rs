//! Shared parts of reductions: the attributes `axis` and `keepdim`, the reduced shape, and the type of the computation.

use engine_core::ir::{Builder, DType, Dim, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// A reduction of `x` with `axis` as a list, all axes by default, and `keepdim`.
pub fn over_axes(name: &str, summary: &str) -> OpForm {
    let doc = "axes to reduce, negative from the end; none for all";
    over(name, summary, AttrSpec::open("axis", doc, AttrKind::Ints))
}

/// A reduction of `x` with `axis` as one number, the flattened operand by default, and `keepdim`.
pub fn over_one_axis(name: &str, summary: &str) -> OpForm {
    let doc = "axis to reduce, negative from the end; none for all, indices then count in row-major order";
    over(name, summary, AttrSpec::open("axis", doc, AttrKind::Int))
}

fn over(name: &str, summary: &str, axis: AttrSpec) -> OpForm {
    let keepdim = AttrSpec::flag("keepdim", "whether reduced axes stay, with extent 1", false);
    OpForm::new(name, summary).input("x", "the operand").attr(axis).attr(keepdim)
}

/// `axis`; by default, the last one.
pub fn last_axis(doc: &str) -> AttrSpec {
    AttrSpec::int("axis", doc, -1)
}

/// The type of the result of a reduction.
pub fn reduced(ty: &Type, dtype: DType, axes: &[usize], keepdim: bool) -> Type {
    let keep = |axis: usize| match axes.contains(&axis) {
        true if keepdim => Some(Dim::Fixed(1)),
        true => None,
        false => Some(ty.shape[axis].clone()),
    };
    Type { dtype, shape: (0..ty.rank()).filter_map(keep).collect() }
}

/// Refuses to reduce an empty axis, since the reduction has no neutral element.
pub fn expect_some(op: &str, ty: &Type, axes: &[usize]) -> Result<(), TypeIssue> {
    let is_empty = |axis: usize| ty.shape[axis] == Dim::Fixed(0);
    let kept_empty = (0..ty.rank()).any(|axis| !axes.contains(&axis) && is_empty(axis));
    if kept_empty || !axes.iter().any(|&axis| is_empty(axis)) {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`{op}` of no elements has no value")).at(0, format!("this is {ty}")))
}

/// The axes of a checked call.
pub fn axes(b: &Builder, x: Value, attrs: &engine_core::ir::Attrs) -> Vec<usize> {
    checked(b.ty(x).axes(attrs))
}

/// The one axis of a checked call.
pub fn axis(b: &Builder, x: Value, axis: i64) -> usize {
    checked(b.ty(x).axis(axis))
}

/// Restores reduced axes with extent 1 if `keepdim` is set.
pub fn keep(b: &mut Builder, reduced_x: Value, x: Value, axes: &[usize], keepdim: bool) -> Value {
    let kept = reduced(b.ty(x), b.dtype(reduced_x), axes, keepdim).extents();
    b.reshape(reduced_x, &kept)
}
