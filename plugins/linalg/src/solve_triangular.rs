//! `solve_triangular`.

use crate::matrices::{
    BLOCK, assembled, call, expect_matrices, expect_square, known_extents, only, part, product,
    product_by_rows, sides, transposed,
};
use engine_core::ir::{Attr, Attrs, Binary, Builder, Type, Value};
use engine_core::op::{AttrSpec, Grad, OpForm, TypeIssue};

/// The x with `a·x = b` for triangular a. A zero on the diagonal gives infinities and NaN.
/// [`crate::small_triangular()`] solves for blocks of rows, and the rest is products.
pub fn solve_triangular() -> OpForm {
    OpForm::new("solve_triangular", "Solves triangular linear equations.")
        .input("a", "[…, n, n]; one triangle is read")
        .input("b", "[…, n, m]")
        .attr(AttrSpec::flag("lower", "whether the lower triangle is read, else the upper one", true))
        .types(|types, _| {
            known_extents("solve_triangular", &types[0])?;
            Ok(vec![solution("solve_triangular", &types[0], &types[1])?])
        })
        .expand(|b, given| vec![solved(b, given.inputs[0], given.inputs[1], given.attrs.bool("lower"))])
        .grad(Grad::rule(|b, given| {
            let Some(grad) = given.grads[0] else { return vec![None, None] };
            let is_lower = given.attrs.bool("lower");
            let turned = transposed(b, given.inputs[0]);
            let other = Attrs::default().with("lower", Attr::from(!is_lower));
            let of_b = call(b, "solve_triangular", &[turned, grad], other)[0];
            let products = product_by_rows(b, of_b, given.outputs[0]);
            let products = b.scale(products, -1.0);
            vec![Some(only(b, if is_lower { Binary::Ge } else { Binary::Le }, products)), Some(of_b)]
        }))
        .tested_on(0.5, 2.0)
        .example(
            "the lower triangle",
            "solve_triangular(a, b)",
            &[("f32[2, 2]", &[2., 99., 1., 4.]), ("f32[2, 2]", &[2., 4., 9., 6.])],
            &[("f32[2, 2]", &[1., 2., 2., 1.])],
        )
        .example(
            "the upper triangle",
            "solve_triangular(a, b, lower=false)",
            &[("f32[2, 2]", &[2., 1., 99., 4.]), ("f32[2, 1]", &[4., 8.])],
            &[("f32[2, 1]", &[1., 2.])],
        )
}

/// The type of x with `a·x = b`: that of b. Leading extents are equal.
pub fn solution(op: &str, a: &Type, b: &Type) -> Result<Type, TypeIssue> {
    expect_square(op, 0, a)?;
    expect_matrices(op, 1, b)?;
    let rows = a.rank() - 1;
    match a.dtype == b.dtype && a.rank() == b.rank() && a.shape[..rows] == b.shape[..rows] {
        true => Ok(b.clone()),
        false => Err(TypeIssue::new(format!("`{op}` of {a} and {b}"))
            .at(1, format!("this is {b}"))
            .help("it takes […, n, n] and […, n, m] of one type, with equal leading extents")),
    }
}

/// A block of rows at a time: their solution, then the right-hand sides of all other rows without its products.
fn solved(b: &mut Builder, a: Value, given: Value, is_lower: bool) -> Value {
    let [n, m] = sides(b, given);
    let attrs = Attrs::default().with("lower", Attr::from(is_lower));
    let mut rest = given;
    let mut parts = vec![];
    for done in (0..n.max(1)).step_by(BLOCK) {
        let own = BLOCK.min(n - done);
        let others = n - done - own;
        // The rows of this block, and of those to come, in the matrix and in what is left of the right-hand sides.
        let (start, other, of_rest, of_other) =
            if is_lower { (done, done + own, 0, own) } else { (others, 0, others, 0) };
        let corner = part(b, a, [start, start], [own, own]);
        let rows = part(b, rest, [of_rest, 0], [own, m]);
        let x = call(b, "small_triangular", &[corner, rows], attrs.clone())[0];
        parts.push((x, [start, 0]));
        if others > 0 {
            let by = part(b, a, [other, start], [others, own]);
            let known = product(b, by, x);
            let whole = part(b, rest, [of_other, 0], [others, m]);
            rest = b.sub(whole, known);
        }
    }
    assembled(b, &parts, [n, m])
}
