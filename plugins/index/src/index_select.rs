//! Rows by number.

use crate::indices::{expect_index, indices, masked, policy};
use engine_core::ir::{Builder, Type, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, checked};

/// `y[p…, i…, q…] = src[p…, idx[i…], q…]`: the axis is replaced by the axes of the indices. The gradient adds up at the
/// indices. An index that is skipped reads 0.
pub fn index_select() -> OpForm {
    OpForm::new("index_select", "Reads slices along an axis by their numbers.")
        .follows_operands()
        .input("src", "the source")
        .input("idx", "numbers of slices, of any shape")
        .attr(AttrSpec::int("axis", "the axis that is indexed", 0))
        .attrs(policy())
        .types(|types, attrs| {
            expect_index("index_select", 1, &types[1])?;
            let axis = types[0].axis(attrs.int("axis"))?;
            let (src, idx) = (&types[0].shape, &types[1].shape);
            let shape = src[..axis].iter().chain(idx).chain(&src[axis + 1..]).cloned().collect();
            Ok(vec![Type { dtype: types[0].dtype, shape }])
        })
        .expand(|b, call| vec![selected(b, call)])
        .example(
            "the last row twice",
            "index_select(a, b)",
            &[("f32[2, 2]", &[1., 2., 3., 4.]), ("i32[3]", &[1., 0., 1.])],
            &[("f32[3, 2]", &[3., 4., 1., 2., 3., 4.])],
        )
}

fn selected(b: &mut Builder, call: &Lowering) -> Value {
    let [src, idx] = [call.inputs[0], call.inputs[1]];
    let axis = checked(b.ty(src).axis(call.attrs.int("axis")));
    let idx = indices(b, idx, b.extents(src)[axis], call.attrs);
    let y = b.gather(src, idx.at, axis, 0);
    let axes: Vec<usize> = (axis..axis + b.ty(idx.at).rank()).collect();
    masked(b, y, idx.counts, &axes)
}
