//! `reshape`, `reshape_as` and `flatten`.

use engine_core::ir::{Attr, Attrs, Dim, Type};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// The elements in row-major order under another shape. One extent may be `_` (in code also -1), which is inferred.
pub fn reshape() -> OpForm {
    OpForm::new("reshape", "Puts the same elements, in row-major order, under another shape.")
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::must(
            "shape",
            "the new extents; one of them may be `_`, which is inferred",
            AttrKind::Shape,
        ))
        .types(|types, attrs| Ok(vec![reshaped(&types[0], attrs)?]))
        .expand(|b, call| {
            let extents = checked(reshaped(b.ty(call.inputs[0]), call.attrs)).extents();
            vec![b.reshape(call.inputs[0], &extents)]
        })
        .example(
            "rows of three",
            "reshape(a, shape=[2, 3])",
            &[("f32[6]", &[1., 2., 3., 4., 5., 6.])],
            &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.])],
        )
        .example(
            "an extent that follows from the others",
            "reshape(a, shape=[_, 2])",
            &[("f32[4]", &[1., 2., 3., 4.])],
            &[("f32[2, 2]", &[1., 2., 3., 4.])],
        )
}

/// The elements in row-major order under the shape of another tensor, whose elements are not read.
pub fn reshape_as() -> OpForm {
    OpForm::new(
        "reshape_as",
        "Puts the same elements, in row-major order, under the shape of another tensor.",
    )
    .follows_operands()
    .input("x", "any tensor")
    .input("like", "a tensor of as many elements")
    .types(|types, _| Ok(vec![shaped_like(&types[0], &types[1])?]))
    .expand(|b, call| {
        let extents = b.extents(call.inputs[1]);
        vec![b.reshape(call.inputs[0], &extents)]
    })
    .example(
        "rows of three",
        "reshape_as(a, b)",
        &[("f32[6]", &[1., 2., 3., 4., 5., 6.]), ("f32[2, 3]", &[0., 0., 0., 0., 0., 0.])],
        &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.])],
    )
}

fn shaped_like(x: &Type, like: &Type) -> Result<Type, TypeIssue> {
    let wanted: Vec<Option<Dim>> = like.shape.iter().cloned().map(Some).collect();
    Ok(Type { dtype: x.dtype, shape: infer(x, &wanted)? })
}

/// Joins all axes from `start` on into one.
pub fn flatten() -> OpForm {
    OpForm::new("flatten", "Merges all axes from one on into a single axis.")
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::int("start", "the first axis that is merged", 1))
        .types(|types, attrs| Ok(vec![flattened(&types[0], attrs)?]))
        .expand(|b, call| {
            let extents = checked(flattened(b.ty(call.inputs[0]), call.attrs)).extents();
            vec![b.reshape(call.inputs[0], &extents)]
        })
        .example(
            "images to rows",
            "flatten(a)",
            &[("f32[1, 2, 2]", &[1., 2., 3., 4.])],
            &[("f32[1, 4]", &[1., 2., 3., 4.])],
        )
}

fn flattened(ty: &Type, attrs: &Attrs) -> Result<Type, TypeIssue> {
    let start = ty.axis(attrs.int("start"))?;
    let merged = Type { dtype: ty.dtype, shape: ty.shape[start..].to_vec() };
    let rest = infer(&merged, &[None])?;
    Ok(Type { dtype: ty.dtype, shape: ty.shape[..start].iter().cloned().chain(rest).collect() })
}

fn reshaped(ty: &Type, attrs: &Attrs) -> Result<Type, TypeIssue> {
    let wanted: Vec<Option<Dim>> = match attrs.get("shape") {
        Attr::Ints(items) => items.iter().map(|&n| usize::try_from(n).ok().map(Dim::Fixed)).collect(),
        _ => attrs.shape("shape").into_iter().map(|dim| Some(dim).filter(|dim| !is_open(dim))).collect(),
    };
    Ok(Type { dtype: ty.dtype, shape: infer(ty, &wanted)? })
}

fn is_open(dim: &Dim) -> bool {
    matches!(dim, Dim::Named(name) if &**name == "_")
}

/// The extents `wanted` for the elements of `ty`, with an open one inferred. The numbers of elements must be equal for all
/// values of named extents.
fn infer(ty: &Type, wanted: &[Option<Dim>]) -> Result<Vec<Dim>, TypeIssue> {
    let known: Vec<&Dim> = wanted.iter().flatten().collect();
    let n_open = wanted.len() - known.len();
    let rest = quotient(&ty.shape, &known);
    let rest = match (n_open, rest) {
        (0, Some(rest)) if rest == Dim::Fixed(1) => rest,
        (1, Some(rest)) => rest,
        _ => return Err(mismatch(ty, wanted)),
    };
    Ok(wanted.iter().map(|dim| dim.clone().unwrap_or_else(|| rest.clone())).collect())
}

/// The product of `whole` divided by that of `part`. Of nothing by nothing it is 1.
fn quotient(whole: &[Dim], part: &[&Dim]) -> Option<Dim> {
    let (whole, part) = (Dim::product(whole)?, Dim::product(part.iter().copied())?);
    match (whole.fixed(), part.fixed()) {
        (Some(0), Some(0)) => Some(Dim::Fixed(1)),
        _ => whole.divided_by(&part),
    }
}

fn mismatch(ty: &Type, wanted: &[Option<Dim>]) -> TypeIssue {
    let extents: Vec<String> =
        wanted.iter().map(|dim| dim.as_ref().map_or("_".into(), Dim::to_string)).collect();
    TypeIssue::new(format!("{ty} cannot be reshaped to [{}]", extents.join(", ")))
        .at(0, format!("this is {ty}"))
        .help("the number of elements must stay, and only one extent can be `_`")
}
