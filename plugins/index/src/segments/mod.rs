//! Sums and means of rows by label: `segment_sum` and `segment_mean`.

mod empty;
mod labelled;
#[cfg(test)]
mod tests;

use crate::indices::expect_index;
use engine_core::ir::{Builder, Combine, DType, Dim, E, Literal, Monoid, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, InputSpec, Lowering, OpForm, TypeIssue};
use labelled::Means;

/// `sums[…, k, …] = Σ x[…, i, …]` over the rows i with `label[…, i] = k`, and the number of these rows, `i32[…, k]`. x is
/// `[…, N, …]` of numbers, the labels are `[…, N]`, and their leading axes are shared. Small floats add up
/// in `f32`, and sums of integers wrap. Rows add up in their order on the CPU, and on every device in a pipeline that is
/// `deterministic`. A label outside of `0..segments` is an index error.
pub fn segment_sum() -> OpForm {
    OpForm::new("segment_sum", "Adds up rows by label, and counts them.")
        .input("x", "[…, N, …], the rows")
        .input("label", "[…, N], the number of the sum that takes each row")
        .results(&["sums", "counts"])
        .attr(AttrSpec::must("segments", "K, how many sums there are", AttrKind::Int))
        .types(|types, attrs| {
            types[0].expect_dtype("segment_sum", 0, |dtype| dtype != DType::Bool, "numbers")?;
            expect_labels("segment_sum", &types[0], &types[1])?;
            let n_segments = usize::try_from(attrs.int("segments")).map_err(|_| {
                TypeIssue::new(format!("there cannot be {} segments", attrs.int("segments")))
                    .at_setting("segments")
            })?;
            let axis = types[1].rank() - 1;
            let mut sums = types[0].clone();
            sums.shape[axis] = Dim::Fixed(n_segments);
            let counts = Type { dtype: DType::I32, shape: sums.shape[..=axis].to_vec() };
            Ok(vec![sums, counts])
        })
        .expand(|b, call| {
            let [x, label] = [call.inputs[0], call.inputs[1]];
            let n_segments = call.attrs.int("segments") as usize;
            let label = checked_labels(b, label, n_segments);
            let wide = b.widen(x);
            let sums = summed(b, wide, label, n_segments);
            vec![b.cast(sums, b.dtype(x)), counted(b, label, n_segments)]
        })
        .example(
            "three rows in three groups",
            "segment_sum(a, b, segments=3)",
            &[("f32[3, 2]", &[1., 2., 3., 4., 5., 6.]), ("i32[3]", &[2., 0., 2.])],
            &[("f32[3, 2]", &[3., 4., 0., 0., 6., 8.]), ("i32[3]", &[1., 0., 2.])],
        )
        .example(
            "a batch of two",
            "segment_sum(a, b, segments=2)",
            &[("f32[2, 2]", &[1., 2., 3., 4.]), ("i32[2, 2]", &[1., 1., 0., 1.])],
            &[("f32[2, 2]", &[0., 3., 3., 4.]), ("i32[2, 2]", &[0., 2., 1., 1.])],
        )
}

/// The mean of the rows of each label, and their number, `i32[…, K]`: one step of Lloyd's algorithm (Lloyd 1982) for the
/// centres c. x is `[…, N, D]` of floats, the labels are `[…, N]`, c is `[…, K, D]`, and the leading axes are shared. With
/// `weights`, `[…, N]`, the mean is `Σ w·x / Σ w`. Rows add up as in [`segment_sum`].
///
/// A label whose weights do not add up to more than 0 has no mean. `empty` chooses what it gets:
///
/// - `keep`: its row of c.
/// - `farthest`: the i-th such label gets the i-th farthest row, by the squared distance to the row's centre in c. The lower
///   of equally far rows comes first. Rows without weight come last.
/// - `split`: the i-th such label shares the mean m of the i-th heaviest label; the lower of equals comes first. They get
///   `m·(1 ± 2⁻¹⁰)`, with signs that alternate by column (as in faiss). Without a further label to share, it keeps its row of c.
/// - `error`: the step ends in an error (E0614) at `each_cluster_has_rows`, with the number of the label as its position.
///
/// A label outside of `0..K` is an index error. So is a row that is not finite, with index -1. The gradient takes the
/// choice of rows and labels as given.
pub fn segment_mean() -> OpForm {
    let rows = [0., 0., 2., 2., 9., 9.];
    let centres = [1., 1., 9., 7., 5., 5.];
    let operands: &[(&'static str, &[f64])] =
        &[("f32[3, 2]", &rows), ("i32[3]", &[0., 0., 1.]), ("f32[3, 2]", &centres)];
    let kept = [1., 1., 9., 9., 5., 5.];
    let near = 2f64.powi(-10);
    let split = [1. - near, 1. + near, 9., 9., 1. + near, 1. - near];
    OpForm::new("segment_mean", "Takes the mean of the rows of each label, as a step of k-means does.")
        .inputs([
            InputSpec::required("x", "[…, N, D], the rows").between(-1e3, 1e3),
            InputSpec::required("label", "[…, N], the number of the mean that each row belongs to"),
            InputSpec::required("c", "[…, K, D], the means so far").between(-1e3, 1e3),
            InputSpec::optional("weights", "[…, N], not negative").between(0.0, 1e3),
        ])
        .results(&["means", "counts"])
        .attr(AttrSpec::choice(
            "empty",
            "a label without rows keeps its row of c, gets a far row, shares the mean of a heavy label, or is an error",
            &["keep", "farthest", "split", "error"],
        ))
        .types(|types, _| mean_types(types))
        .expand(means)
        .tested_on(0.5, 2.0)
        .example(
            "a label without rows",
            "segment_mean(a, b, c)",
            operands,
            &[("f32[3, 2]", &kept), ("i32[3]", &[2., 1., 0.])],
        )
        .example(
            "which gets the farthest row",
            "segment_mean(a, b, c, empty=\"farthest\")",
            operands,
            &[("f32[3, 2]", &[1., 1., 9., 9., 9., 9.]), ("i32[3]", &[2., 1., 0.])],
        )
        .example(
            "or shares the mean of most rows",
            "segment_mean(a, b, c, empty=\"split\")",
            operands,
            &[("f32[3, 2]", &split), ("i32[3]", &[2., 1., 0.])],
        )
        .example(
            "with weights",
            "segment_mean(a, b, c, d)",
            &[
                ("f32[3, 1]", &[1., 5., 7.]),
                ("i32[3]", &[0., 0., 1.]),
                ("f32[2, 1]", &[0., 0.]),
                ("f32[3]", &[3., 1., 0.5]),
            ],
            &[("f32[2, 1]", &[2., 7.]), ("i32[2]", &[2., 1.])],
        )
}

fn expect_labels(op: &str, x: &Type, label: &Type) -> Result<(), TypeIssue> {
    expect_index(op, 1, label)?;
    match label.rank() > 0 && x.shape.starts_with(&label.shape) {
        true => Ok(()),
        false => Err(TypeIssue::new(format!("`{op}` of {x} by labels {label}"))
            .at(1, format!("this is {label}"))
            .help("give one label for each row: […, N] for rows […, N, …]")),
    }
}

fn mean_types(types: &[Type]) -> Result<Vec<Type>, TypeIssue> {
    let [x, label, c] = [&types[0], &types[1], &types[2]];
    x.expect_dtype("segment_mean", 0, DType::is_float, "floats")?;
    expect_labels("segment_mean", x, label)?;
    let axis = label.rank() - 1;
    let differs = |a: &Type| a.dtype != x.dtype || a.rank() != x.rank() || a.shape[..axis] != x.shape[..axis];
    if x.rank() != label.rank() + 1 || differs(c) || c.shape.last() != x.shape.last() {
        return Err(TypeIssue::new(format!("`segment_mean` of {x} by labels {label} for means {c}"))
            .at(2, format!("this is {c}"))
            .help("it takes rows […, N, D] and means […, K, D] of one element type"));
    }
    if let Some(weights) = types.get(3)
        && (weights.shape != label.shape || weights.dtype != x.dtype)
    {
        return Err(TypeIssue::new(format!("`segment_mean` of {x} with weights {weights}"))
            .at(3, format!("this is {weights}"))
            .help("give one weight for each row, of its element type"));
    }
    let counts = Type { dtype: DType::I32, shape: c.shape[..=axis].to_vec() };
    Ok(vec![c.clone(), counts])
}

/// Labels within `0..n`, as indices.
fn checked_labels(b: &mut Builder, label: Value, n: usize) -> Value {
    let label = b.cast(label, b.dtype(label).index_type());
    b.check_index(label, n)
}

/// The sums `[…, n, …]` of the rows of each label.
fn summed(b: &mut Builder, x: Value, label: Value, n: usize) -> Value {
    let axis = b.ty(label).rank() - 1;
    let mut extents = b.extents(x);
    extents[axis] = n;
    let zeros = b.full(Literal::Int(0).cast(b.dtype(x)), Type::new(b.dtype(x), &extents));
    b.scatter(zeros, label, x, axis, axis, Combine::Add)
}

/// The number of rows of each label, `i32[…, n]`.
fn counted(b: &mut Builder, label: Value, n: usize) -> Value {
    let ones = b.full(Literal::Int(1), b.ty(label).with_dtype(DType::I32));
    summed(b, ones, label, n)
}

fn means(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let given = call.inputs;
    let [x, c] = [given[0], given[2]].map(|value| b.widen(value));
    let weights = given.get(3).map(|&weights| b.widen(weights));
    let axis = b.ty(given[1]).rank() - 1;
    let n_labels = b.extents(c)[axis];
    let label = finite(b, x, weights, given[1]);
    let label = checked_labels(b, label, n_labels);
    let counts = counted(b, label, n_labels);
    let (rows, total) = match weights {
        None => (x, counts),
        Some(weights) => {
            let of_row = b.unreduce(weights, &[axis + 1], x);
            (b.mul(x, of_row), summed(b, weights, label, n_labels))
        }
    };
    let sums = summed(b, rows, label, n_labels);
    let is_full = b.map(&[total], |v| v[0].gt(0.0));
    let means = Means { x, label, c, weights, total, is_full };
    let divisor = b.cast(total, b.dtype(sums));
    let divisor = b.unreduce(divisor, &[axis + 1], sums);
    let has_mean = b.unreduce(is_full, &[axis + 1], sums);
    let quotients = b.map(&[sums, divisor, has_mean], |v| v[0] / E::select(v[2], v[1], 1.0));
    let found = match call.attrs.str("empty") {
        "farthest" => empty::farthest(b, &means, quotients),
        "split" => empty::split(b, &means, quotients),
        "error" => empty::refused(b, &means, quotients),
        _ => empty::filled(b, &means, quotients, means.c),
    };
    vec![b.cast(found, b.dtype(given[0])), counts]
}

/// The labels, with -1 for a row that is not finite or has such a weight.
fn finite(b: &mut Builder, x: Value, weights: Option<Value>, label: Value) -> Value {
    let label = b.cast(label, b.dtype(label).index_type());
    let axis = b.ty(label).rank();
    if b.extents(x)[axis] == 0 {
        return label;
    }
    let sizes = b.map(&[x], |v| v[0].abs());
    let largest = b.reduce(Monoid::Max, sizes, &[axis]);
    let is_finite = b.map(&[largest], |v| v[0].lt(f64::INFINITY));
    let label = b.map(&[is_finite, label], |v| E::select(v[0], v[1], -1i64));
    match weights {
        None => label,
        Some(weights) => b.map(&[weights, label], |v| E::select(v[0].abs().lt(f64::INFINITY), v[1], -1i64)),
    }
}
