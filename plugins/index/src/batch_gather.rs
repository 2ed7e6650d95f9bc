//! Rows by number, row by row of a batch.

use crate::indices::{expect_index, indices, masked, policy};
use engine_core::ir::{Builder, Type, Value};
use engine_core::op::{Lowering, OpForm, TypeIssue};

/// `y[b, n, …] = data[b, idx[b, n], …]` for data [B, S, …] and idx [B, N]. The gradient adds up at the indices.
pub fn batch_gather() -> OpForm {
    OpForm::new(
        "batch_gather",
        "Reads slices by their numbers, with numbers of its own for each row of the batch.",
    )
    .follows_operands()
    .input("data", "[B, S, …]")
    .input("idx", "[B, N], numbers along S")
    .attrs(policy())
    .types(|types, _| {
        expect_index("batch_gather", 1, &types[1])?;
        let (data, idx) = (&types[0], &types[1]);
        if data.rank() < 2 || idx.rank() != 2 || data.shape[0] != idx.shape[0] {
            return Err(TypeIssue::new(format!("`batch_gather` of {data} by {idx}"))
                .at(1, format!("this is {idx}"))
                .help("it takes [B, S, …] and [B, N]"));
        }
        let shape = idx.shape.iter().chain(&data.shape[2..]).cloned().collect();
        Ok(vec![Type { dtype: data.dtype, shape }])
    })
    .expand(|b, call| vec![gathered(b, call)])
    .example(
        "one number per row",
        "batch_gather(a, b)",
        &[("f32[2, 2, 1]", &[1., 2., 3., 4.]), ("i32[2, 1]", &[1., 0.])],
        &[("f32[2, 1, 1]", &[2., 3.])],
    )
}

fn gathered(b: &mut Builder, call: &Lowering) -> Value {
    let idx = indices(b, call.inputs[1], b.extents(call.inputs[0])[1], call.attrs);
    let y = b.gather(call.inputs[0], idx.at, 1, 1);
    masked(b, y, idx.counts, &[0, 1])
}
