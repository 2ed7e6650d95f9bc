//! `nearest_centre`.

use super::candidates::Search;
use super::certificate::{BF16, Errors, Factor, rounded};
use super::first_pass::without_far_rows;
use super::lengths::squared_norms;
use super::metric::Metric;
use crate::axis::called;
use engine_core::ir::{Attr, Attrs, Builder, DType, E, MatmulSpec, Monoid, Type, Value};
use engine_core::op::{Grad, GradCheck, Lowering, OpForm, TypeIssue};

/// The number of the row of `c` nearest to each row of `x` by squared distance, the first of equals:
/// `([..., n, d], [..., k, d])` to `i32[..., n]`. A centre that is not finite is nearest to no row.
///
/// The scores `|c|²/2 - x·c` decide. From 128 centres on they are not stored, and a CPU then takes the products of numbers that
/// are rounded to bf16, relative to the mean of the centres. Each row lists the centres whose scores are near its least:
/// nearer to it than twice the error of a score. These are compared by differences, so the result is that of `f32`.
pub fn nearest_centre() -> OpForm {
    OpForm::new("nearest_centre", "Finds the number of the centre nearest to each row, the first of equals.")
        .input("x", "floats `[..., n, d]`")
        .input("c", "the centres, `[..., k, d]`")
        .results(&["label"])
        .types(|types, _| Ok(vec![types_of(&types[0], &types[1])?]))
        .expand(|b, call| vec![expansion(b, call)])
        .grad(Grad::None { why: "its results are numbers of rows" })
        .check(GradCheck::None { why: "its results are numbers of rows" })
        .example(
            "the second centre is as near to the last row as the first",
            "nearest_centre(a, b)",
            &[("f32[3, 1]", &[0.0, 5.0, 2.0]), ("f32[2, 1]", &[1.0, 3.0])],
            &[("i32[3]", &[0.0, 1.0, 0.0])],
        )
}

fn types_of(x: &Type, c: &Type) -> Result<Type, TypeIssue> {
    x.expect_dtype("nearest_centre", 0, DType::is_float, "floats")?;
    let rank = x.rank();
    let fits = rank >= 2
        && c.rank() == rank
        && c.dtype == x.dtype
        && c.shape[..rank - 2] == x.shape[..rank - 2]
        && c.shape[rank - 1] == x.shape[rank - 1];
    if !fits {
        return Err(TypeIssue::new(format!("`nearest_centre` of {x} among {c}"))
            .at(1, format!("this is {c}"))
            .help("rows are [..., n, d], and centres [..., k, d] of the same element type"));
    }
    Ok(Type { dtype: DType::I32, shape: x.shape[..rank - 1].to_vec() })
}

/// The fewest centres whose scores are not stored.
const FEWEST_CENTRES: usize = 128;
/// The shortest rows for which products of bf16 are worth a list.
const SHORTEST_ROWS: usize = 32;
/// The centres that a row lists. With more, it is compared with all.
const ROOM: usize = 16;

fn expansion(b: &mut Builder, call: &Lowering) -> Value {
    let [x, c] = [call.inputs[0], call.inputs[1]];
    let is_flat = b.dtype(x) == DType::F32 && b.ty(x).rank() == 2;
    let is_long =
        |b: &Builder| matches!(b.extents(c)[..], [k, d] if k >= FEWEST_CENTRES && d >= SHORTEST_ROWS);
    match is_flat && b.target.ends_rows_early && is_long(b) {
        true => by_lists(b, x, c),
        false => by_products(b, x, c),
    }
}

/// The least of the scores.
fn by_products(b: &mut Builder, x: Value, c: Value) -> Value {
    let rank = b.ty(x).rank();
    let wide = b.widen(c);
    let squares = squared_norms(b, wide);
    let [c, squares] = without_far_rows(b, c, squares);
    let halves = b.map(&[squares], |v| v[0] * 0.5);
    let batch = (0..rank - 2).map(|axis| (axis, axis)).collect();
    let products = b.matmul_wide(x, c, MatmulSpec::new(batch, vec![(rank - 1, rank - 1)]));
    let halves = b.unreduce(halves, &[rank - 2], products);
    let scores = b.map(&[halves, products], |v| v[0] - v[1]);
    b.reduce(Monoid::ArgMin, scores, &[rank - 1])
}

/// The nearest of the centres that each row lists.
fn by_lists(b: &mut Builder, x: Value, c: Value) -> Value {
    let (d, n) = (b.extents(c)[1], b.extents(x)[0]);
    let [rows, centres] = around_mean(b, x, c);
    let squares = squared_norms(b, centres);
    let [centres, squares] = without_far_rows(b, centres, squares);
    let (centres, of_centres) = rounded(b, centres, squares, DType::BF16);
    let finite = b.map(&[squares], |v| E::select(v[0].lt(f64::INFINITY), v[0], 0.0));
    let longest = b.reduce(Monoid::Max, finite, &[0]);
    let of_rows = b.full_like(of_centres, BF16);
    let factor = Factor { dtype: DType::BF16, precision: None };
    let errors = Errors::of(b, DType::F32, factor, d, Some([of_rows, of_centres]));
    let lengths = squared_norms(b, rows);
    let doubt = errors.doubt(b, lengths, longest);
    let rows = b.cast(rows, DType::BF16);
    let doubled = b.map(&[centres], |v| v[0] * -2.0);
    let products = b.matmul_wide(rows, doubled, MatmulSpec::new(vec![], vec![(1, 1)]));
    let [squares, doubt] = [(squares, 0), (doubt, 1)].map(|(x, axis)| b.unreduce(x, &[axis], products));
    let scores = b.map(&[products, squares, doubt], |v| (v[0] + v[1]) * v[2]);
    let near = called(b, "near_least", &[scores], Attrs::default().with("room", Attr::from(ROOM as i64)));
    let search = Search { metric: Metric::Squared, queries: x, base: c, filter: None, k: 1 };
    let found = search.nearest_of_lists(b, near[0], near[1]);
    b.reshape(found, &[n])
}

/// Rows and centres less the mean of the finite numbers of centres: products of shorter vectors have smaller errors.
fn around_mean(b: &mut Builder, x: Value, c: Value) -> [Value; 2] {
    let k = b.extents(c)[0];
    let finite = b.map(&[c], |v| E::select(v[0].abs().lt(f64::INFINITY), v[0] * (1.0 / k as f64), 0.0));
    let mean = b.sum(finite, &[0]);
    [x, c].map(|x| {
        let mean = b.unreduce(mean, &[0], x);
        b.map(&[x, mean], |v| v[0] - v[1])
    })
}
