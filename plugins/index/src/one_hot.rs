//! One-hot rows.

use crate::indices::{expect_index, indices, policy};
use engine_core::ir::{Attrs, Builder, DType, Dim, E, Type, Value};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, Lowering, OpForm, Role, TypeIssue,
    TypeRule, checked,
};

/// `y[i…, k] = 1 if idx[i…] = k, else 0`. The row of an index that is skipped is 0.
pub fn one_hot() -> OpForm {
    let own = [
        AttrSpec::must("classes", "extent of the new last axis", AttrKind::Int),
        AttrSpec::with_default("dtype", "type of the result", AttrKind::DType, DType::F32),
    ];
    OpForm {
        name: "one_hot".into(),
        family: "index".into(),
        summary: "Turns each index into a row with a single 1.".into(),
        inputs: vec![InputSpec::required("idx", "positions of the ones")],
        outputs: vec!["y".into()],
        attrs: own.into_iter().chain(policy()).collect(),
        types: TypeRule::custom(|types, attrs| {
            expect_index("one_hot", 0, &types[0])?;
            Ok(vec![row_type(&types[0], attrs)?])
        }),
        lower: Lower::expand(|b, call| vec![rows(b, call)]),
        grad: Grad::None { why: "a one-hot row is piecewise constant" },
        check: GradCheck::None { why: "there is no gradient" },
        examples: vec![Example::new(
            "two rows",
            "one_hot(a, classes=3)",
            &[("i32[2]", &[2., 0.])],
            &[("f32[2, 3]", &[0., 0., 1., 1., 0., 0.])],
        )],
        role: Role::Plain,
    }
}

fn row_type(idx: &Type, attrs: &Attrs) -> Result<Type, TypeIssue> {
    let n_classes = usize::try_from(attrs.int("classes"))
        .map_err(|_| TypeIssue::new(format!("there cannot be {} classes", attrs.int("classes"))))?;
    let shape = idx.shape.iter().cloned().chain([Dim::Fixed(n_classes)]).collect();
    Ok(Type { dtype: attrs.dtype("dtype"), shape })
}

fn rows(b: &mut Builder, call: &Lowering) -> Value {
    let ty = checked(row_type(b.ty(call.inputs[0]), call.attrs));
    let idx = indices(b, call.inputs[0], call.attrs.int("classes") as usize, call.attrs);
    let axes: Vec<usize> = (0..b.ty(idx.at).rank()).collect();
    let class = b.iota(axes.len(), ty.with_dtype(b.dtype(idx.at)));
    let at = b.broadcast_axes(idx.at, &axes, &ty.shape);
    let hit = b.map(&[class, at], |v| v[0].eq(v[1]));
    let hit = match idx.counts {
        Some(counts) => {
            let counts = b.broadcast_axes(counts, &axes, &ty.shape);
            b.map(&[hit, counts], |v: &[E]| v[0] & v[1])
        }
        None => hit,
    };
    b.cast(hit, ty.dtype)
}
