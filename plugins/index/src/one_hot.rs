//! One-hot rows.

use crate::indices::{expect_index, indices, policy};
use engine_core::ir::{Attrs, Builder, DType, Dim, E, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, Lowering, OpForm, TypeIssue, checked};

/// `y[i…, k] = 1 if idx[i…] = k, else 0`. The row of an index that is skipped is 0.
pub fn one_hot() -> OpForm {
    OpForm::new("one_hot", "Turns each index into a row with a single 1.")
        .input("idx", "positions of the ones")
        .attr(AttrSpec::must("classes", "extent of the new last axis", AttrKind::Int))
        .attr(AttrSpec::dtype("dtype", "type of the result", DType::F32))
        .attrs(policy())
        .types(|types, attrs| {
            expect_index("one_hot", 0, &types[0])?;
            Ok(vec![row_type(&types[0], attrs)?])
        })
        .expand(|b, call| vec![rows(b, call)])
        .no_grad("a one-hot row is piecewise constant")
        .example(
            "two rows",
            "one_hot(a, classes=3)",
            &[("i32[2]", &[2., 0.])],
            &[("f32[2, 3]", &[0., 0., 1., 1., 0., 0.])],
        )
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
