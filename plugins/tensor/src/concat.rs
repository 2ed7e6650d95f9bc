//! `concat` and `stack`.

use engine_core::ir::{Builder, Dim, Type, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, InputSpec, OpForm, TypeIssue, checked};

/// The maximum number of operands of a call.
const MOST: usize = 16;

/// Operands concatenated along an axis. Their other extents agree.
pub fn concat() -> OpForm {
    OpForm::new("concat", "Puts up to 16 tensors one after the other along an axis.")
        .follows_operands()
        .inputs(operands())
        .attr(AttrSpec::int("axis", "the axis along which they follow", 0))
        .types(|types, attrs| {
            let axis = types[0].axis(attrs.int("axis"))?;
            Ok(vec![joined(types, axis)?])
        })
        .expand(|b, call| {
            let axis = checked(b.ty(call.inputs[0]).axis(call.attrs.int("axis")));
            vec![b.concat(call.inputs, axis)]
        })
        .grad(Grad::rule(|b, call| {
            let axis = checked(b.ty(call.inputs[0]).axis(call.attrs.int("axis")));
            parts_of_gradient(b, call, axis)
        }))
        .example(
            "along columns",
            "concat(a, b, axis=1)",
            &[("f32[2, 1]", &[1., 2.]), ("f32[2, 2]", &[3., 4., 5., 6.])],
            &[("f32[2, 3]", &[1., 3., 4., 2., 5., 6.])],
        )
}

/// Operands of one type along a new axis.
pub fn stack() -> OpForm {
    OpForm::new("stack", "Puts up to 16 tensors of one type side by side along a new axis.")
        .follows_operands()
        .inputs(operands())
        .attr(AttrSpec::int("axis", "where the new axis stands", 0))
        .types(|types, attrs| {
            let axis = lifted(&types[0], 0).axis(attrs.int("axis"))?;
            let types: Vec<Type> = types.iter().map(|ty| lifted(ty, axis.min(ty.rank()))).collect();
            Ok(vec![joined(&types, axis)?])
        })
        .expand(|b, call| {
            let axis = checked(lifted(b.ty(call.inputs[0]), 0).axis(call.attrs.int("axis")));
            let lift = |&x: &Value| {
                let extents = lifted(b.ty(x), axis).extents();
                b.reshape(x, &extents)
            };
            let parts: Vec<Value> = call.inputs.iter().map(lift).collect();
            vec![b.concat(&parts, axis)]
        })
        .grad(Grad::rule(|b, call| {
            let axis = checked(lifted(b.ty(call.inputs[0]), 0).axis(call.attrs.int("axis")));
            parts_of_gradient(b, call, axis)
        }))
        .example(
            "two rows",
            "stack(a, b)",
            &[("f32[2]", &[1., 2.]), ("f32[2]", &[3., 4.])],
            &[("f32[2, 2]", &[1., 2., 3., 4.])],
        )
}

/// The gradient of each operand: the part of the result's gradient in its place, `extent(operand)` or 1 along the axis.
fn parts_of_gradient(b: &mut Builder, call: &GradCall, axis: usize) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None; call.inputs.len()] };
    let whole = b.extents(g);
    let (mut start, step) = (vec![0; whole.len()], vec![1; whole.len()]);
    let part = |&x: &Value| {
        let own = b.extents(x);
        let mut extents = whole.clone();
        extents[axis] = if own.len() == whole.len() { own[axis] } else { 1 };
        let part = b.slice(g, &start, &extents, &step);
        start[axis] += extents[axis];
        Some(b.reshape(part, &own))
    };
    call.inputs.iter().map(part).collect()
}

fn operands() -> Vec<InputSpec> {
    let operand = |i: usize| InputSpec {
        name: format!("x{i}"),
        doc: format!("part {i}"),
        optional: i > 0,
        range: None,
    };
    (0..MOST).map(operand).collect()
}

/// The type with a new axis of extent 1.
fn lifted(ty: &Type, axis: usize) -> Type {
    let mut ty = ty.clone();
    ty.shape.insert(axis, Dim::Fixed(1));
    ty
}

fn joined(types: &[Type], axis: usize) -> Result<Type, TypeIssue> {
    let mut whole = types[0].clone();
    for (i, ty) in types.iter().enumerate().skip(1) {
        let alike = |other: usize| other == axis || ty.shape[other] == whole.shape[other];
        let fits = ty.dtype == whole.dtype && ty.rank() == whole.rank() && (0..ty.rank()).all(alike);
        let extent = if fits { whole.shape[axis].plus(&ty.shape[axis]) } else { None };
        whole.shape[axis] = extent.ok_or_else(|| mismatch(types, i, axis))?;
    }
    Ok(whole)
}

fn mismatch(types: &[Type], i: usize, axis: usize) -> TypeIssue {
    TypeIssue::new(format!("{} cannot follow {} along axis {axis}", types[i], types[0]))
        .at(i, format!("this is {}", types[i]))
        .help("types must agree except in that extent")
}
