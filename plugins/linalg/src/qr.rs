//! `qr`.

use crate::matrices::{
    call, known_extents, only, product, product_by_rows, row_norms, transposed, where_row,
};
use engine_core::ir::{Attr, Attrs, Binary, Builder, DType, E, Value};
use engine_core::op::{AttrSpec, Grad, OpForm, TypeIssue};

/// `x = q·r` with orthonormal columns of q, and r upper triangular with a diagonal of at least 0. Five passes of Cholesky QR
/// with a shift (Fukaya et al. 2020) make products and small factors of it, so tall matrices are fast. A column that is 0
/// stays 0 in q. If columns depend on each other, q has other orthonormal columns or zeros in their place.
pub fn qr() -> OpForm {
    OpForm::new("qr", "Factors matrices into orthonormal columns and a triangular matrix.")
        .results(&["q", "r"])
        .input("x", "[…, m, n] with m ≥ n")
        .attr(
            AttrSpec::int("passes", "fewer passes give columns that are only nearly orthogonal", PASSES)
                .at_least(1.0),
        )
        .types(|types, _| {
            let x = &types[0];
            let [m, n] = known_extents("qr", x)?;
            if m < n {
                return Err(TypeIssue::new("`qr` takes matrices with at least as many rows as columns")
                    .at(0, format!("this is {x}"))
                    .help("factor the transposed matrix, or its first columns"));
            }
            let mut square = x.clone();
            let rows = x.rank() - 2;
            square.shape[rows] = x.shape[rows + 1].clone();
            Ok(vec![x.clone(), square])
        })
        .expand(|b, given| factors(b, given.inputs[0], given.attrs.int("passes")).to_vec())
        .grad(Grad::rule(|b, given| {
            let (q, r) = (given.outputs[0], given.outputs[1]);
            let from_r = given.grads[1].map(|grad| product_by_rows(b, grad, r));
            let from_q = given.grads[0].map(|grad| {
                let turned = transposed(b, q);
                let within = product(b, turned, grad);
                b.scale(within, -1.0)
            });
            let Some(within) = from_r.into_iter().chain(from_q).reduce(|a, c| b.add(a, c)) else {
                return vec![None];
            };
            let upper = only(b, Binary::Le, within);
            let lower = transposed(b, upper);
            let on = where_row(b, Binary::Eq, upper);
            let both = b.map(&[on, upper, lower], |v| E::select(v[0], v[1], v[1] + v[2]));
            let spanned = product(b, q, both);
            let whole = given.grads[0].map_or(spanned, |grad| b.add(grad, spanned));
            let rows = transposed(b, whole);
            let upper = Attrs::default().with("lower", Attr::from(false));
            let rows = call(b, "solve_triangular", &[r, rows], upper)[0];
            vec![Some(transposed(b, rows))]
        }))
        .example(
            "of a column of zeros",
            "qr(a)",
            &[("f32[3, 2]", &[0., 3., 0., 0., 0., 4.])],
            &[("f32[3, 2]", &[0., 0.6, 0., 0., 0., 0.8]), ("f32[2, 2]", &[0., 0., 0., 5.])],
        )
        .example(
            "of a rectangle",
            "qr(a)",
            &[("f32[3, 2]", &[0., 1., 2., 3., 0., 4.])],
            &[
                ("f32[3, 2]", &[0., 0.24253562503633297, 1., 0., 0., 0.9701425001453319]),
                ("f32[2, 2]", &[2., 3., 0., 4.123105625617661]),
            ],
        )
}

/// Passes over the columns by default.
const PASSES: i64 = 5;
/// Passes with a shift, which keeps the matrix of products positive definite. Each takes about the square root of the
/// condition, so columns are nearly orthogonal after four, also those of matrices of low rank. A pass without a shift then
/// makes them orthogonal to the precision.
const SHIFTED: i64 = 4;

fn factors(b: &mut Builder, x: Value, passes: i64) -> [Value; 2] {
    let extents = b.extents(x);
    let [m, n] = [2, 1].map(|from_end| extents[extents.len() - from_end] as f64);
    let epsilon = if b.dtype(x) == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let shift = 4.0 * (m.sqrt() + n) * epsilon;
    let rows = transposed(b, x);
    let norms = row_norms(b, rows);
    let by = b.map(&[norms], |v| E::select(v[0].eq(0.0), 1.0, v[0]));
    let mut rows = b.map(&[rows, by], |v| v[0] / v[1]);
    // The transposed triangular matrix, whose rows the norms scale.
    let mut factor: Option<Value> = None;
    for pass in 1..=passes {
        let gram = product_by_rows(b, rows, rows);
        let on = where_row(b, Binary::Eq, gram);
        let unit = b.cast(on, b.dtype(gram));
        let shifted = b.map(&[gram, unit], |v| match pass <= SHIFTED {
            true => v[0] + v[1] * shift,
            // Without a shift, a column that is 0 has itself as its factor.
            false => v[0] + E::select(v[0].eq(0.0), v[1], 0.0),
        });
        let lower = call(b, "cholesky", &[shifted], Attrs::default())[0];
        rows = call(b, "solve_triangular", &[lower, rows], Attrs::default())[0];
        factor = Some(factor.map_or(lower, |factor| product(b, factor, lower)));
    }
    let Some(factor) = factor else { engine_core::bug!("there is a pass") };
    let factor = only(b, Binary::Ge, factor);
    let factor = b.map(&[factor, norms], |v| v[0] * v[1]);
    [transposed(b, rows), transposed(b, factor)]
}
