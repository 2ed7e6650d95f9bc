//! `spread`.

use super::capacity::capacity;
use super::limits::{expect_segments, inside, reduced_by};
use crate::axis::called;
use engine_core::ir::{Attrs, Builder, DType, Dim, E, Literal, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, Grad, OpForm};

/// `y[i, …] = rows[r, …]` for `lims[r] <= i < lims[r + 1]`, and 0 for any other i: `[R, …]` to `[cap, …]`. Limits ascend. The
/// gradient is `segment_reduce`.
pub fn spread() -> OpForm {
    OpForm::new("spread", "Repeats each row over its segment.")
        .input("rows", "`[R, …]`")
        .input("lims", "`[R + 1]`, where each segment begins, and where the last one ends; ascending")
        .attr(AttrSpec::must("cap", "the length of the result, at least the last limit", AttrKind::Int))
        .types(|types, attrs| {
            expect_segments("spread", types, 0, |rows| Dim::plus(rows, &Dim::Fixed(1)))?;
            let mut shape = types[0].shape.clone();
            shape[0] = Dim::Fixed(capacity("spread", attrs, 0)?);
            Ok(vec![Type { dtype: types[0].dtype, shape }])
        })
        .expand(|b, call| {
            let [rows, lims] = [call.inputs[0], call.inputs[1]];
            vec![expansion(b, rows, lims, call.attrs.int("cap") as usize)]
        })
        .grad(Grad::rule(|b, call| {
            let sums = call.grads[0].map(|g| reduced_by(b, g, call.inputs[1], "sum"));
            vec![sums, None]
        }))
        .follows_operands()
        .example(
            "three segments, one of them empty",
            "spread(a, b, cap=5)",
            &[("f32[3]", &[1., 2., 3.]), ("i32[4]", &[0., 2., 2., 4.])],
            &[("f32[5]", &[1., 1., 3., 3., 0.])],
        )
}

/// Each row over its segment of `n` elements in all.
fn expansion(b: &mut Builder, rows: Value, lims: Value, n: usize) -> Value {
    let mut extents = b.extents(rows);
    let n_rows = extents[0];
    extents[0] = n;
    let lims = b.cast(lims, DType::I32);
    let lims = b.check_index(lims, n + 1);
    let zeros = b.full(Literal::Int(0).cast(b.dtype(rows)), Type::new(b.dtype(rows), &extents));
    if n_rows == 0 {
        return zeros;
    }
    let place = b.iota(0, Type::new(DType::I32, &[n]));
    let after = called(b, "searchsorted", &[lims, place], Attrs::default().with("right", true.into()))[0];
    let row = b.map(&[after], |v| (v[0] - 1.0).max(0.0).min((n_rows - 1) as f64));
    let read = b.gather(rows, row, 0, 0);
    let is_inside = inside(b, read, lims);
    b.map(&[is_inside, read, zeros], |v| E::select(v[0], v[1], v[2]))
}
