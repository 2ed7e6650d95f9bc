//! Rows by number.

use crate::indices::{expect_index, indices, masked, policy};
use engine_core::ir::{Builder, Type, Value};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, Lowering, OpForm, Role, TypeRule, checked,
};

/// `y[p…, i…, q…] = src[p…, idx[i…], q…]`: the axis is replaced by the axes of the indices. The gradient adds up at the
/// indices. An index that is skipped reads 0.
pub fn index_select() -> OpForm {
    let axis = AttrSpec::with_default("axis", "the axis that is indexed", AttrKind::Int, 0i64);
    OpForm {
        name: "index_select".into(),
        family: "index".into(),
        summary: "Reads slices along an axis by their numbers.".into(),
        inputs: vec![
            InputSpec::required("src", "the source"),
            InputSpec::required("idx", "numbers of slices, of any shape"),
        ],
        outputs: vec!["y".into()],
        attrs: [axis].into_iter().chain(policy()).collect(),
        types: TypeRule::custom(|types, attrs| {
            expect_index("index_select", 1, &types[1])?;
            let axis = types[0].axis(attrs.int("axis"))?;
            let (src, idx) = (&types[0].shape, &types[1].shape);
            let shape = src[..axis].iter().chain(idx).chain(&src[axis + 1..]).cloned().collect();
            Ok(vec![Type { dtype: types[0].dtype, shape }])
        }),
        lower: Lower::expand(|b, call| vec![selected(b, call)]),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example::new(
            "the last row twice",
            "index_select(a, b)",
            &[("f32[2, 2]", &[1., 2., 3., 4.]), ("i32[3]", &[1., 0., 1.])],
            &[("f32[3, 2]", &[3., 4., 1., 2., 3., 4.])],
        )],
        role: Role::Plain,
    }
}

fn selected(b: &mut Builder, call: &Lowering) -> Value {
    let [src, idx] = [call.inputs[0], call.inputs[1]];
    let axis = checked(b.ty(src).axis(call.attrs.int("axis")));
    let idx = indices(b, idx, b.extents(src)[axis], call.attrs);
    let y = b.gather(src, idx.at, axis, 0);
    let axes: Vec<usize> = (axis..axis + b.ty(idx.at).rank()).collect();
    masked(b, y, idx.counts, &axes)
}
