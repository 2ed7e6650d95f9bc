//! `eigh`.

use crate::matrices::{
    call, expect_square, known_extents, product, product_by_rows, signed, transposed, where_row,
};
use crate::svd::{column_and_row, scale};
use engine_core::ir::{Attr, Attrs, Binary, Builder, E, Unary, Value};
use engine_core::op::{Grad, GradCall, OpForm};

/// `(x + xᵀ)/2 = v·diag(w)·vᵀ` with w ascending and orthonormal columns of v. The element of largest magnitude in each
/// column is positive. The rows of the matrix plus its norm times the identity, which has no negative eigenvalue, are made
/// orthogonal by [`crate::orthogonal_rows()`].
pub fn eigh() -> OpForm {
    OpForm::new("eigh", "Finds the eigenvalues and eigenvectors of symmetric matrices.")
        .results(&["w", "v"])
        .input("x", "[…, n, n]; its symmetric part is read")
        .types(|types, _| {
            let x = &types[0];
            expect_square("eigh", 0, x)?;
            known_extents("eigh", x)?;
            let mut values = x.clone();
            values.shape.pop();
            Ok(vec![values, x.clone()])
        })
        .expand(|b, given| {
            let [values, vectors] = factors(b, given.inputs[0]);
            vec![values, vectors]
        })
        .grad(Grad::rule(|b, given| vec![gradient(b, given)]))
        .example(
            "zeros",
            "eigh(a)",
            &[("f64[2, 2]", &[0.; 4])],
            &[("f64[2]", &[0.; 2]), ("f64[2, 2]", &[1., 0., 0., 1.])],
        )
        .example("no rows", "eigh(a)", &[("f32[2, 0, 0]", &[])], &[("f32[2, 0]", &[]), ("f32[2, 0, 0]", &[])])
        .example(
            "two rows",
            "eigh(a)",
            &[("f64[2, 2]", &[2., 1., 1., 2.])],
            &[
                ("f64[2]", &[1., 3.]),
                (
                    "f64[2, 2]",
                    &[
                        std::f64::consts::FRAC_1_SQRT_2,
                        std::f64::consts::FRAC_1_SQRT_2,
                        -std::f64::consts::FRAC_1_SQRT_2,
                        std::f64::consts::FRAC_1_SQRT_2,
                    ],
                ),
            ],
        )
}

fn symmetric(b: &mut Builder, x: Value) -> Value {
    let other = transposed(b, x);
    b.map(&[x, other], |v| (v[0] + v[1]) * 0.5)
}

/// The eigenvalues, and the eigenvectors as columns.
fn factors(b: &mut Builder, x: Value) -> [Value; 2] {
    let lead = b.ty(x).rank() - 2;
    if b.extents(x)[lead] == 0 {
        let values = b.sum(x, &[lead + 1]);
        return [values, x];
    }
    let x = symmetric(b, x);
    let scale = scale(b, x);
    let scaled = b.map(&[x, scale], |v| v[0] / v[1]);
    let squares = b.mul(scaled, scaled);
    let sum = b.sum(squares, &[lead, lead + 1]);
    let mut extents = b.extents(sum);
    extents.extend([1, 1]);
    let sum = b.reshape(sum, &extents);
    let norm = b.unary(Unary::Sqrt, sum);
    let on = where_row(b, Binary::Eq, x);
    let unit = b.cast(on, b.dtype(x));
    let shifted = b.map(&[scaled, norm, unit], |v| v[0] / E::select(v[1].eq(0.0), 1.0, v[1]) + v[2]);
    let t = call(b, "orthogonal_rows", &[shifted], Attrs::default())[1];
    // Rayleigh quotients lose nothing to the shift.
    let images = product(b, t, scaled);
    let products = b.mul(images, t);
    let values = b.sum(products, &[lead + 1]);
    let negated = b.scale(values, -1.0);
    let k = b.extents(values)[lead] as i64;
    let sorted = call(b, "topk", &[negated], Attrs::default().with("k", Attr::from(k)));
    let rows = b.gather(t, sorted[1], lead, lead);
    let [rows, _] = signed(b, rows, rows);
    let mut extents = b.extents(scale);
    extents.pop();
    let by = b.reshape(scale, &extents);
    let values = b.map(&[sorted[0], by], |v| -v[0] * v[1]);
    [values, transposed(b, rows)]
}

/// The symmetric part of `v·[diag(g_w) + (vᵀ·gᵥ) / E]·vᵀ` with `Eᵢⱼ = wⱼ - wᵢ`. Equal eigenvalues give infinities or NaN
/// if the eigenvectors have a gradient.
fn gradient(b: &mut Builder, given: &GradCall) -> Option<Value> {
    let (values, v) = (given.outputs[0], given.outputs[1]);
    let on = where_row(b, Binary::Eq, v);
    let mut inner = vec![];
    if let Some(grad) = given.grads[0] {
        let [column, _] = column_and_row(b, grad);
        inner.push(b.map(&[on, column], |v| E::select(v[0], v[1], 0.0)));
    }
    if let Some(grad) = given.grads[1] {
        let [column, row] = column_and_row(b, values);
        let turned = transposed(b, v);
        let within = product(b, turned, grad);
        inner.push(b.map(&[on, within, row, column], |v| {
            E::select(v[0], 0.0, v[1] / E::select(v[0], 1.0, v[2] - v[3]))
        }));
    }
    let inner = inner.into_iter().reduce(|a, c| b.add(a, c))?;
    let left = product(b, v, inner);
    let whole = product_by_rows(b, left, v);
    Some(symmetric(b, whole))
}
