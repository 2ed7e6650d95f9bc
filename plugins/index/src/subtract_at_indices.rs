//! A subtraction at one element of each row.

use crate::indices::{expect_index, indices, policy};
use engine_core::ir::{Builder, DType, Dim, E, Type, Value};
use engine_core::op::{Lowering, OpForm, TypeIssue};

/// `y[…, j] = data[…, j] - v[…]` where `j = idx[…]`, else `data[…, j]`. It turns softmax into the gradient of
/// cross-entropy. It is one comparison per element instead of an indexed write, so that it fuses with the producer of
/// the data.
pub fn subtract_at_indices() -> OpForm {
    OpForm::new("subtract_at_indices", "Subtracts a number from one element of each row.")
        .input("data", "[…, V]")
        .input("idx", "[…], the element of each row")
        .input("v", "the subtrahend: a scalar, or a number for each row")
        .attrs(policy())
        .types(|types, _| Ok(vec![expect_rows(types)?]))
        .expand(|b, call| vec![subtracted(b, call)])
        .example(
            "1 from the class of each row",
            "subtract_at_indices(a, b, c)",
            &[("f32[2, 2]", &[0.25, 0.75, 0.5, 0.5]), ("i32[2]", &[1., 0.]), ("f32[]", &[1.])],
            &[("f32[2, 2]", &[0.25, -0.25, -0.5, 0.5])],
        )
        .example(
            "a number for each row, one skipped",
            "subtract_at_indices(a, b, c, oob=\"skip\")",
            &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.]), ("i32[2]", &[-1., 1.]), ("f32[2]", &[5., 6.])],
            &[("f32[2, 3]", &[1., 2., 3., 4., -1., 6.])],
        )
        .example(
            "indices beyond both ends, moved to them",
            "subtract_at_indices(a, b, c, oob=\"clamp\")",
            &[("f32[2, 3]", &[1., 2., 3., 4., 5., 6.]), ("i32[2]", &[-1., 5.]), ("f32[]", &[1.])],
            &[("f32[2, 3]", &[0., 2., 3., 4., 5., 5.])],
        )
}

fn expect_rows(types: &[Type]) -> Result<Type, TypeIssue> {
    let [data, idx, v] = types else { return Err(TypeIssue::new("`subtract_at_indices` takes 3 operands")) };
    expect_index("subtract_at_indices", 1, idx)?;
    let rows: Option<&[Dim]> = data.shape.split_last().map(|(_, rows)| rows);
    if rows != Some(&idx.shape) || (v.rank() > 0 && v.shape != idx.shape) {
        return Err(TypeIssue::new(format!("`subtract_at_indices` of {v} from {data} at {idx}"))
            .at(1, format!("this is {idx}"))
            .help("there is one index for each row, and one number for all or for each"));
    }
    if v.dtype != data.dtype || data.dtype == DType::Bool {
        return Err(TypeIssue::new(format!("`subtract_at_indices` of {v} from {data}"))
            .at(2, format!("this is {v}"))
            .help("both must be of one numeric type"));
    }
    Ok(data.clone())
}

fn subtracted(b: &mut Builder, call: &Lowering) -> Value {
    let data = call.inputs[0];
    let ty = b.ty(data).clone();
    let columns = ty.rank() - 1;
    let rows: Vec<usize> = (0..columns).collect();
    let idx = indices(b, call.inputs[1], b.extents(data)[columns], call.attrs);
    let column = b.iota(columns, ty.with_dtype(b.dtype(idx.at)));
    let at = b.broadcast_axes(idx.at, &rows, &ty.shape);
    let mut hit = b.map(&[column, at], |v| v[0].eq(v[1]));
    if let Some(counts) = idx.counts {
        let counts = b.broadcast_axes(counts, &rows, &ty.shape);
        hit = b.map(&[hit, counts], |v: &[E]| v[0] & v[1]);
    }
    let axes = if b.ty(call.inputs[2]).rank() == 0 { vec![] } else { rows };
    let v = b.broadcast_axes(call.inputs[2], &axes, &ty.shape);
    b.map(&[hit, data, v], |v| E::select(v[0], v[1] - v[2], v[1]))
}
