//! Elements by several numbers at once.

use crate::indices::{expect_index, indices, linear, masked, policy};
use engine_core::ir::{Builder, Type, Value};
use engine_core::op::{Lowering, OpForm, TypeIssue};

/// `y[b] = data[b, idx[b, 0], …, idx[b, n-1]]` for data [B, d1, …, dn] and idx [B, n]: one element per row of the batch.
/// Each number is checked against its own axis. The gradient adds up at the indices.
pub fn multi_index_gather() -> OpForm {
    form(
        "multi_index_gather",
        "Reads one element per row of a batch, by one number for each of the other axes.",
        0,
    )
    .example(
        "from two matrices",
        "multi_index_gather(a, b)",
        &[("f32[2, 2, 2]", &[1., 2., 3., 4., 5., 6., 7., 8.]), ("i32[2, 2]", &[1., 0., 0., 1.])],
        &[("f32[2]", &[3., 6.])],
    )
    .example(
        "skipped numbers read 0",
        "multi_index_gather(a, b, oob=\"skip\")",
        &[("f32[2, 2, 2]", &[1., 2., 3., 4., 5., 6., 7., 8.]), ("i32[2, 2]", &[0., 2., 1., 1.])],
        &[("f32[2]", &[0., 8.])],
    )
}

/// `y[b, k] = data[b, idx[b, 0], …, idx[b, n-1], k]` for data [B, d1, …, dn, K] and idx [B, n]: a vector per row of the
/// batch, otherwise like [`multi_index_gather`].
pub fn batch_gather_with_k() -> OpForm {
    form(
        "batch_gather_with_k",
        "Reads one vector per row of a batch, by one number for each of the axes between.",
        1,
    )
    .example(
        "from two matrices",
        "batch_gather_with_k(a, b)",
        &[("f32[2, 2, 2]", &[1., 2., 3., 4., 5., 6., 7., 8.]), ("i32[2, 1]", &[1., 0.])],
        &[("f32[2, 2]", &[3., 4., 5., 6.])],
    )
}

/// The form of a read that keeps the last `n_kept` axes whole.
fn form(name: &'static str, summary: &str, n_kept: usize) -> OpForm {
    let data = if n_kept == 0 { "[B, d1, …, dn]" } else { "[B, d1, …, dn, K]" };
    OpForm::new(name, summary)
        .input("data", data)
        .input("idx", "[B, n], a number along each of d1, …, dn")
        .attrs(policy())
        .types(move |types, _| {
            expect_index(name, 1, &types[1])?;
            let (data, idx) = (&types[0], &types[1]);
            let n_numbers = idx.shape.get(1).and_then(|dim| dim.fixed());
            let fits = idx.rank() == 2
                && data.rank() > 1 + n_kept
                && data.shape[0] == idx.shape[0]
                && n_numbers == Some(data.rank() - 1 - n_kept);
            if !fits {
                return Err(TypeIssue::new(format!("`{name}` of {data} by {idx}"))
                    .at(1, format!("this is {idx}"))
                    .help("the numbers are [B, n], one for each axis that is indexed"));
            }
            let shape = idx.shape[..1].iter().chain(&data.shape[data.rank() - n_kept..]).cloned().collect();
            Ok(vec![Type { dtype: data.dtype, shape }])
        })
        .expand(move |b, call| vec![gathered(b, call, n_kept)])
}

fn gathered(b: &mut Builder, call: &Lowering, n_kept: usize) -> Value {
    let data = call.inputs[0];
    let extents = b.extents(data);
    let (indexed, kept) = extents[1..].split_at(extents.len() - 1 - n_kept);
    let number = |(j, &bound): (usize, &usize)| {
        let column = b.slice(call.inputs[1], &[0, j], &[extents[0], 1], &[1, 1]);
        indices(b, column, bound, call.attrs)
    };
    let numbers = indexed.iter().enumerate().map(number).collect();
    let idx = linear(b, numbers, indexed);
    let lines: Vec<usize> = [extents[0], indexed.iter().product()].iter().chain(kept).copied().collect();
    let lines = b.reshape(data, &lines);
    let y = b.gather(lines, idx.at, 1, 1);
    let y = masked(b, y, idx.counts, &[0, 1]);
    let extents: Vec<usize> = extents[..1].iter().chain(kept).copied().collect();
    b.reshape(y, &extents)
}
