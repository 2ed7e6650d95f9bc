//! Rectifiers with a slope below zero, and `glu`.

use super::sigmoid;
use engine_core::ir::{Builder, DType, Dim, E, Type, Value};
use engine_core::op::{AttrSpec, Grad, Lowering, OpForm, TypeIssue, checked};

/// x for x > 0, else `negative_slope`·x (Maas et al. 2013). The gradient at 0 is g·`negative_slope`.
pub fn leaky_relu() -> OpForm {
    OpForm::new("leaky_relu", "Scales negative elements by a small slope.")
        .input("x", "any shape")
        .attr(AttrSpec::float("negative_slope", "the slope below 0", 0.01))
        .takes(DType::is_float)
        .map(|x, attrs| E::select(x[0].gt(0.0), x[0], x[0] * attrs.float("negative_slope")))
        .avoiding(&[0.0])
        .example(
            "a tenth below zero",
            "leaky_relu(a, negative_slope=0.1)",
            &[("f32[4]", &[-1.5, 0.0, 2.0, f64::NAN])],
            &[("f32[4]", &[-0.15, 0.0, 2.0, f64::NAN])],
        )
}

/// x for x > 0, else w·x (He et al. 2015). There is one slope w, or one for each position along an axis. The gradient of w
/// is the sum of g·x over elements that are not positive.
pub fn prelu() -> OpForm {
    OpForm::new("prelu", "Scales negative elements by a slope that is learned.")
        .input("x", "any tensor")
        .input("weight", "the slope below 0: `[]`, `[1]`, or one number for each position along the axis")
        .attr(AttrSpec::int("axis", "the axis along which slopes differ", 1))
        .types(|types, attrs| {
            slopes_axis(&types[0], &types[1], attrs.int("axis"))?;
            Ok(vec![types[0].clone()])
        })
        .expand(|b, call| vec![sloped(b, call)])
        .avoiding(&[0.0])
        .example(
            "a slope for each column",
            "prelu(a, b)",
            &[("f32[2, 2]", &[-1.0, 2.0, 3.0, -4.0]), ("f32[2]", &[0.5, 0.25])],
            &[("f32[2, 2]", &[-0.5, 2.0, 3.0, -1.0])],
        )
        .example(
            "one slope",
            "prelu(a, b)",
            &[("f32[3]", &[-1.0, 2.0, -4.0]), ("f32[1]", &[0.5])],
            &[("f32[3]", &[-0.5, 2.0, -2.0])],
        )
}

/// The axis along which slopes differ; none for one slope.
fn slopes_axis(x: &Type, weight: &Type, axis: i64) -> Result<Option<usize>, TypeIssue> {
    x.expect_dtype("prelu", 0, DType::is_float, "floats")?;
    let mismatch = || {
        TypeIssue::new(format!("`prelu` of {x} with slopes {weight}"))
            .at(1, format!("this is {weight}"))
            .help("give one slope, or a vector with one for each position along `axis`; both of one type")
    };
    match (weight.dtype == x.dtype, &weight.shape[..]) {
        (true, [] | [Dim::Fixed(1)]) => Ok(None),
        (true, [extent]) => {
            let axis = x.axis(axis)?;
            if *extent == x.shape[axis] { Ok(Some(axis)) } else { Err(mismatch()) }
        }
        _ => Err(mismatch()),
    }
}

fn sloped(b: &mut Builder, call: &Lowering) -> Value {
    let [x, weight] = [call.inputs[0], call.inputs[1]];
    let axis = checked(slopes_axis(b.ty(x), b.ty(weight), call.attrs.int("axis")));
    let shape = b.ty(x).shape.clone();
    let weight = match axis {
        Some(axis) => b.broadcast_axes(weight, &[axis], &shape),
        None => {
            let scalar = b.reshape(weight, &[]);
            b.broadcast_axes(scalar, &[], &shape)
        }
    };
    b.map(&[x, weight], |v| E::select(v[0].gt(0.0), v[0], v[0] * v[1]))
}

/// x·min(max(x + 3, 0), 6)/6 (Howard et al. 2019), and 0 at -∞. The gradient is g·(x/3 + ½) for x strictly between -3 and
/// 3, g above and 0 below.
pub fn hardswish() -> OpForm {
    OpForm::unary("hardswish", "Approximates `silu` by a parabola and two lines.", DType::is_float, |x| {
        let left = x.max(-3.0);
        left * ((left + 3.0).min(6.0) / 6.0)
    })
    .grad(Grad::by_operand(|x, g| E::select(x.le(-3.0), 0.0, E::select(x.lt(3.0), g * (x / 3.0 + 0.5), g))))
    .tested_on(-4.0, 4.0)
    .avoiding(&[-3.0, 3.0])
    .example(
        "outside, at the ends and inside",
        "hardswish(a)",
        &[("f32[6]", &[-4.0, -3.0, -1.5, 1.5, 3.0, 4.0])],
        &[("f32[6]", &[0.0, 0.0, -0.375, 1.125, 3.0, 4.0])],
    )
}

/// `a·σ(b)` for the halves a and b of x along an axis (Dauphin et al. 2016).
pub fn glu() -> OpForm {
    OpForm::new("glu", "Multiplies one half of a tensor by the sigmoid of the other.")
        .input("x", "floats; the extent of the axis is even")
        .attr(AttrSpec::int("axis", "the axis that is halved", -1))
        .types(|types, attrs| Ok(vec![half(&types[0], attrs.int("axis"))?.1]))
        .expand(|b, call| {
            let x = call.inputs[0];
            let (axis, ty) = checked(half(b.ty(x), call.attrs.int("axis")));
            let counts = ty.extents();
            let (mut start, step) = (vec![0; counts.len()], vec![1; counts.len()]);
            let values = b.slice(x, &start, &counts, &step);
            start[axis] = counts[axis];
            let gates = b.slice(x, &start, &counts, &step);
            vec![b.map(&[values, gates], |v| v[0] * sigmoid::differentiable_curve(v[1]))]
        })
        .example(
            "two columns, two gates",
            "glu(a)",
            &[("f32[1, 4]", &[1.0, -2.0, 0.0, 1.5])],
            &[("f32[1, 2]", &[0.5, -1.635148952387287])],
        )
}

/// The axis, and the type with half its extent.
fn half(ty: &Type, axis: i64) -> Result<(usize, Type), TypeIssue> {
    ty.expect_dtype("glu", 0, DType::is_float, "floats")?;
    let axis = ty.axis(axis)?;
    let mut halved = ty.clone();
    halved.shape[axis] = ty.shape[axis].divided_by(&Dim::Fixed(2)).ok_or_else(|| {
        TypeIssue::new(format!("`glu` cannot halve axis {axis} of {ty}"))
            .at(0, format!("this is {ty}"))
            .help("its extent must be even")
    })?;
    Ok((axis, halved))
}
