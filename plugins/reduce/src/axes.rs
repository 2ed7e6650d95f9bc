//! What reductions share: the attributes `axis` and `keepdim`, the shape that is left, the type that is computed in.

use engine_core::ir::{Builder, DType, Dim, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, InputSpec, TypeIssue, checked};

/// The one operand of most reductions.
pub fn operand() -> Vec<InputSpec> {
    vec![InputSpec::required("x", "what is reduced")]
}

/// `axis` as a list, none for all axes, and `keepdim`.
pub fn many_axes() -> Vec<AttrSpec> {
    let axis = AttrSpec::open("axis", "axes to reduce, negative from the end; none for all", AttrKind::Ints);
    vec![axis, keepdim()]
}

/// `axis` as one number, none for the flattened operand, and `keepdim`.
pub fn one_axis() -> Vec<AttrSpec> {
    let doc = "axis to reduce, negative from the end; none for all, indices then count in row-major order";
    vec![AttrSpec::open("axis", doc, AttrKind::Int), keepdim()]
}

/// `axis`, the last one unless given.
pub fn last_axis(doc: &str) -> AttrSpec {
    AttrSpec::with_default("axis", doc, AttrKind::Int, -1i64)
}

fn keepdim() -> AttrSpec {
    AttrSpec::with_default("keepdim", "whether reduced axes stay, with extent 1", AttrKind::Bool, false)
}

/// The type that a reduction leaves.
pub fn reduced(ty: &Type, dtype: DType, axes: &[usize], keepdim: bool) -> Type {
    let keep = |axis: usize| match axes.contains(&axis) {
        true if keepdim => Some(Dim::Fixed(1)),
        true => None,
        false => Some(ty.shape[axis].clone()),
    };
    Type { dtype, shape: (0..ty.rank()).filter_map(keep).collect() }
}

/// Refuses to reduce nothing to something: what has no neutral element has no value there.
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

/// Puts reduced axes back with extent 1 if asked to.
pub fn keep(b: &mut Builder, reduced_x: Value, x: Value, axes: &[usize], keepdim: bool) -> Value {
    let kept = reduced(b.ty(x), b.dtype(reduced_x), axes, keepdim).extents();
    b.reshape(reduced_x, &kept)
}

/// Whether the type is a number: anything but a truth value.
pub fn is_number(dtype: DType) -> bool {
    dtype != DType::Bool
}
