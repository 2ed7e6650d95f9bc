//! `transpose` and `permute`.

use engine_core::ir::{Attrs, Type};
use engine_core::op::{AttrKind, AttrSpec, OpForm, TypeIssue, checked};

/// Swaps two axes; by default, the last two.
pub fn transpose() -> OpForm {
    OpForm::new("transpose", "Swaps two axes, by default the last two.")
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::int("axis0", "one axis", -2))
        .attr(AttrSpec::int("axis1", "the other", -1))
        .types(|types, attrs| Ok(vec![permuted(&types[0], &swapped(&types[0], attrs)?)]))
        .expand(|b, call| {
            let perm = checked(swapped(b.ty(call.inputs[0]), call.attrs));
            vec![b.permute(call.inputs[0], &perm)]
        })
        .example(
            "a matrix",
            "transpose(a)",
            &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.])],
            &[("f32[3, 2]", &[1., 4., 2., 5., 3., 6.])],
        )
}

/// Result axis `i` is operand axis `axes[i]`.
pub fn permute() -> OpForm {
    OpForm::new("permute", "Puts axes into another order.")
        .follows_operands()
        .input("x", "any tensor")
        .attr(AttrSpec::must("axes", "the operand's axis for each axis of the result", AttrKind::Ints))
        .types(|types, attrs| Ok(vec![permuted(&types[0], &order(&types[0], attrs)?)]))
        .expand(|b, call| {
            let perm = checked(order(b.ty(call.inputs[0]), call.attrs));
            vec![b.permute(call.inputs[0], &perm)]
        })
        .example(
            "the last axis first",
            "permute(a, axes=[2, 0, 1])",
            &[("f32[1, 2, 2]", &[1., 2., 3., 4.])],
            &[("f32[2, 1, 2]", &[1., 3., 2., 4.])],
        )
}

fn swapped(ty: &Type, attrs: &Attrs) -> Result<Vec<usize>, TypeIssue> {
    let mut perm: Vec<usize> = (0..ty.rank()).collect();
    perm.swap(ty.axis(attrs.int("axis0"))?, ty.axis(attrs.int("axis1"))?);
    Ok(perm)
}

fn order(ty: &Type, attrs: &Attrs) -> Result<Vec<usize>, TypeIssue> {
    let given = attrs.ints("axes");
    let perm = given.iter().map(|&axis| ty.axis(axis)).collect::<Result<Vec<_>, _>>()?;
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if sorted.into_iter().eq(0..ty.rank()) {
        return Ok(perm);
    }
    Err(TypeIssue::new(format!("{given:?} does not name every axis of {ty} once"))
        .at(0, format!("this is {ty}")))
}

fn permuted(ty: &Type, perm: &[usize]) -> Type {
    Type { dtype: ty.dtype, shape: perm.iter().map(|&axis| ty.shape[axis].clone()).collect() }
}
