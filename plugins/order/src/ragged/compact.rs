//! Positions of flags: `compact`, `nonzero`, `masked_select`.

use super::capacity::{cap, capacity, expect_countable, limits};
use super::compacted::Compacted;
use crate::axis::called;
use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, E, Literal, Type, Value};
use engine_core::op::{Grad, GradCall, OpForm, TypeIssue};

/// The columns of the flags that are set, row by row and ascending in each row: `bool[R, C]`, or one row `bool[C]`, to `lims
/// i32[R + 1]` and `ids i32[cap]`. The ids of row r are `ids[lims[r]..lims[r + 1]]`. The third result is the row of each id.
/// Ids and rows behind the end are -1.
///
/// More than `cap` ids end in an error that states their number (E0612). With `cap=0` there are limits alone, and no error.
pub fn compact() -> OpForm {
    OpForm::new("compact", "Lists the columns of the flags that are set, row by row.")
        .input("flags", "`[R, C]`, or one row `[C]`, of type `bool`; less than 2³¹ of them")
        .results(&["lims", "ids", "rows"])
        .attr(cap("the most ids; 0 for limits alone"))
        .types(|types, attrs| {
            let flags = &types[0];
            flags.expect_dtype("compact", 0, |dtype| dtype == DType::Bool, "truth values")?;
            if !(1..=2).contains(&flags.rank()) {
                return Err(TypeIssue::new(format!("`compact` of {flags}"))
                    .at(0, format!("this is {flags}"))
                    .help("flags have one or two axes: reshape them"));
            }
            expect_countable("compact", flags)?;
            let n_rows = if flags.rank() == 1 { Dim::Fixed(1) } else { flags.shape[0].clone() };
            let ids = Type::new(DType::I32, &[capacity("compact", attrs, 0)?]);
            Ok(vec![limits("compact", &n_rows)?, ids.clone(), ids])
        })
        .expand(|b, call| {
            let extents = b.extents(call.inputs[0]);
            let [n_rows, n_columns] =
                [extents[..extents.len() - 1].iter().product(), extents[extents.len() - 1]];
            let cap = call.attrs.int("cap") as usize;
            let bounds = b.iota(0, Type::new(DType::I32, &[n_rows + 1]));
            let bounds = b.map(&[bounds], |v| v[0] * n_columns as f64);
            let found = Compacted::new(b, call.inputs[0], bounds, cap);
            let ids = b.map(&[found.is_there, found.positions], |v| {
                E::select(v[0], v[1] % n_columns.max(1) as f64, -1.0)
            });
            let rows = b.map(&[found.is_there, found.positions], |v| {
                E::select(v[0], v[1] / n_columns.max(1) as f64, -1.0)
            });
            vec![found.lims, ids, rows]
        })
        .no_grad("positions are piecewise constant")
        .example(
            "an empty row between two others",
            "compact(a, cap=5)",
            &[("bool[3, 3]", &[1., 0., 1., 0., 0., 0., 0., 1., 0.])],
            &[
                ("i32[4]", &[0., 2., 2., 3.]),
                ("i32[5]", &[0., 2., 1., -1., -1.]),
                ("i32[5]", &[0., 0., 2., -1., -1.]),
            ],
        )
}

/// The positions of elements other than 0, `i32[cap, axes]` in row-major order, and their number. NaN is not 0. Positions
/// behind the end are -1. More than `cap` of them are an error (E0612).
pub fn nonzero() -> OpForm {
    OpForm::new("nonzero", "Lists the positions of elements that are not 0.")
        .input("x", "one axis or more; less than 2³¹ elements")
        .results(&["positions", "count"])
        .attr(cap("the most positions"))
        .types(|types, attrs| {
            let x = &types[0];
            if x.rank() == 0 {
                return Err(TypeIssue::new("`nonzero` of a scalar")
                    .at(0, format!("this is {x}"))
                    .help("it has no axis: reshape it to `[1]`"));
            }
            expect_countable("nonzero", x)?;
            let positions = Type::new(DType::I32, &[capacity("nonzero", attrs, 1)?, x.rank()]);
            Ok(vec![positions, Type::scalar(DType::I32)])
        })
        .expand(|b, call| {
            let x = call.inputs[0];
            let (extents, cap) = (b.extents(x), call.attrs.int("cap") as usize);
            let flags = b.cast(x, DType::Bool);
            let found = Compacted::of_all(b, flags, cap);
            let shape = Type::new(DType::I32, &[cap, extents.len()]);
            let axis = b.iota(1, shape.clone());
            let mut positions = b.full(Literal::Int(-1), shape.clone());
            let [flat, is_there] =
                [found.positions, found.is_there].map(|x| b.broadcast_axes(x, &[0], &shape.shape));
            let mut stride = 1;
            for (number, &extent) in extents.iter().enumerate().rev() {
                let (size, width) = (extent.max(1) as f64, stride as f64);
                positions = b.map(&[axis, is_there, flat, positions], |v| {
                    let coordinate = if number == 0 { v[2] / width } else { v[2] / width % size };
                    E::select(v[0].eq(number as f64) & v[1], coordinate, v[3])
                });
                stride *= extent.max(1);
            }
            vec![positions, found.count]
        })
        .no_grad("positions are piecewise constant")
        .example(
            "of a matrix",
            "nonzero(a, cap=3)",
            &[("f32[2, 3]", &[0., 1., 0., 2., 0., 0.])],
            &[("i32[3, 2]", &[0., 1., 1., 0., -1., -1.]), ("i32[]", &[2.])],
        )
}

/// The elements at which the mask holds, `[cap]` in row-major order with 0 behind the end, and their number. More than `cap`
/// of them are an error (E0612). The gradient goes back to their places.
pub fn masked_select() -> OpForm {
    OpForm::new("masked_select", "Lists the elements at which a mask holds.")
        .input("x", "any shape; less than 2³¹ elements")
        .input("mask", "truth values of the shape of `x`")
        .results(&["values", "count"])
        .attr(cap("the most elements"))
        .types(|types, attrs| {
            let (x, mask) = (&types[0], &types[1]);
            mask.expect_dtype("masked_select", 1, |dtype| dtype == DType::Bool, "truth values")?;
            if x.shape != mask.shape {
                return Err(TypeIssue::new(format!("`masked_select` of {x} by {mask}"))
                    .at(1, format!("this is {mask}"))
                    .help("the mask has the shape of the elements"));
            }
            expect_countable("masked_select", x)?;
            let values = Type::new(x.dtype, &[capacity("masked_select", attrs, 1)?]);
            Ok(vec![values, Type::scalar(DType::I32)])
        })
        .expand(|b, call| {
            let [x, mask] = [call.inputs[0], call.inputs[1]];
            let found = Compacted::of_all(b, mask, call.attrs.int("cap") as usize);
            vec![found.taken(b, x), found.count]
        })
        .grad(Grad::rule(to_the_mask))
        .follows_operands()
        .example(
            "two of three",
            "masked_select(a, b, cap=3)",
            &[("f32[3]", &[1.5, -2., 3.]), ("bool[3]", &[1., 0., 1.])],
            &[("f32[3]", &[1.5, 3., 0.]), ("i32[]", &[2.])],
        )
}

/// Each element reads the gradient at its number among those that are selected.
fn to_the_mask(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let Some(g) = call.grads[0] else { return vec![None, None] };
    let mask = call.inputs[1];
    let (extents, n) = (b.extents(mask), b.ty(mask).numel());
    if n == 0 {
        return vec![Some(b.full_like(call.inputs[0], 0.0)), None];
    }
    let position = b.iota(0, Type::new(DType::I32, &[n]));
    let attrs = Attrs::default().with("cap", Attr::from(0i64));
    let number = called(b, "rank_select", &[mask, position], attrs)[0];
    let last = (call.attrs.int("cap") - 1) as f64;
    let number = b.map(&[number], |v| v[0].min(last));
    let read = b.gather(g, number, 0, 0);
    let read = b.reshape(read, &extents);
    vec![Some(b.map(&[mask, read], |v| E::select(v[0], v[1], 0.0))), None]
}
