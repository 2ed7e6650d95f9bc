//! `cholesky`.

use crate::matrices::{
    BLOCK, assembled, call, expect_square, known_extents, only, part, product, product_by_rows, sides,
    transposed, where_row,
};
use engine_core::ir::{Attr, Attrs, Binary, Builder, E, Value};
use engine_core::op::{Grad, GradCall, GradCheck, OpForm};

/// The lower triangular L with `L·Lᵀ = x` and a positive diagonal. If a matrix is not positive definite, its factor is
/// NaN from the first column that shows it. [`crate::small_cholesky()`] factors the blocks on the diagonal, and the rest is
/// products.
pub fn cholesky() -> OpForm {
    OpForm::new("cholesky", "Factors symmetric positive definite matrices into L·Lᵀ.")
        .input("x", "[…, n, n]; the lower triangles are read")
        .types(|types, _| {
            expect_square("cholesky", 0, &types[0])?;
            known_extents("cholesky", &types[0])?;
            Ok(vec![types[0].clone()])
        })
        .expand(|b, given| vec![factor(b, given.inputs[0])])
        .grad(Grad::rule(|b, call| vec![gradient(b, call)]))
        .check(GradCheck::Convention {
            why: "the gradient is symmetric, as if both triangles were read",
            grads: vec![vec![vec![0.125, 0.25, 0.25, 1.0]], vec![vec![f64::NAN; 4]]],
        })
        .example(
            "two rows",
            "cholesky(a)",
            &[("f32[2, 2]", &[4., 99., 2., 5.])],
            &[("f32[2, 2]", &[2., 0., 1., 2.])],
        )
        .example(
            "not positive definite",
            "cholesky(a)",
            &[("f32[2, 2]", &[1., 2., 2., 1.])],
            &[("f32[2, 2]", &[1., 0., 2., f64::NAN])],
        )
}

/// A block of columns at a time: the factor of the block on the diagonal, the rows below it by substitution, and the rest
/// of the matrix without their product.
fn factor(b: &mut Builder, x: Value) -> Value {
    let n = sides(b, x)[0];
    let mut rest = x;
    let mut parts = vec![];
    for start in (0..n.max(1)).step_by(BLOCK) {
        let (own, below) = (BLOCK.min(n - start), (n - start).saturating_sub(BLOCK));
        let corner = part(b, rest, [0, 0], [own, own]);
        let lower = call(b, "small_cholesky", &[corner], Attrs::default())[0];
        parts.push((lower, [start, start]));
        if below > 0 {
            let under = part(b, rest, [own, 0], [below, own]);
            let columns = transposed(b, under);
            let columns = call(b, "small_triangular", &[lower, columns], Attrs::default())[0];
            let rows = transposed(b, columns);
            parts.push((rows, [start + own, start]));
            let known = product_by_rows(b, rows, rows);
            let whole = part(b, rest, [own, own], [below, below]);
            rest = b.sub(whole, known);
        }
    }
    assembled(b, &parts, [n, n])
}

/// `½(S + Sᵀ)` with `S = L⁻ᵀ·Φ(Lᵀ·g)·L⁻¹`. Φ keeps the lower triangle and halves the diagonal.
fn gradient(b: &mut Builder, given: &GradCall) -> Option<Value> {
    let (l, grad) = (given.outputs[0], given.grads[0]?);
    let upper = transposed(b, l);
    let grad = only(b, Binary::Ge, grad);
    let products = product(b, upper, grad);
    let kept = only(b, Binary::Ge, products);
    let on = where_row(b, Binary::Eq, kept);
    let phi = b.map(&[on, kept], |x| E::select(x[0], x[1] * 0.5, x[1]));
    let of_upper = Attrs::default().with("lower", Attr::from(false));
    let left = call(b, "solve_triangular", &[upper, phi], of_upper.clone())[0];
    let left = transposed(b, left);
    let s = call(b, "solve_triangular", &[upper, left], of_upper)[0];
    let other = transposed(b, s);
    Some(b.map(&[s, other], |x| (x[0] + x[1]) * 0.5))
}
