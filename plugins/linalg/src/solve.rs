//! `solve`, `inverse` and the factorisation behind them.

use crate::lu_panel::PANEL;
use crate::matrices::{
    assembled, call, expect_square, known_extents, part, product, product_by_rows, sides, transposed,
    where_row,
};
use crate::solve_triangular::solution;
use engine_core::ir::{Attr, Attrs, Binary, Builder, Dim, E, Type, Value};
use engine_core::op::{Grad, OpForm};

/// The x with `a·x = b`, by elimination with partial pivoting. A singular matrix gives infinities or NaN.
pub fn solve() -> OpForm {
    OpForm::new("solve", "Solves linear equations.")
        .input("a", "[…, n, n]")
        .input("b", "[…, n, m], or […, n] for one right-hand side")
        .types(|types, _| {
            let (a, b) = (&types[0], &types[1]);
            solution("solve", a, &column_type(a, b))?;
            Ok(vec![b.clone()])
        })
        .expand(|b, call| vec![solved(b, call.inputs[0], call.inputs[1])])
        .grad(Grad::rule(|b, given| {
            let Some(grad) = given.grads[0] else { return vec![None, None] };
            let turned = transposed(b, given.inputs[0]);
            let of_b = call(b, "solve", &[turned, grad], Attrs::default())[0];
            let [left, right] = [of_b, given.outputs[0]].map(|x| columns(b, given.inputs[0], x));
            let products = product_by_rows(b, left, right);
            vec![Some(b.scale(products, -1.0)), Some(of_b)]
        }))
        .example(
            "rows must be exchanged",
            "solve(a, b)",
            &[("f32[2, 2]", &[0., 2., 1., 3.]), ("f32[2, 1]", &[4., 7.])],
            &[("f32[2, 1]", &[1., 2.])],
        )
        .example(
            "singular",
            "solve(a, b)",
            &[("f32[2, 2]", &[1., 2., 2., 4.]), ("f32[2, 1]", &[1., 1.])],
            &[("f32[2, 1]", &[f64::NEG_INFINITY, f64::INFINITY])],
        )
        .example(
            "one right-hand side",
            "solve(a, b)",
            &[("f32[2, 2]", &[2., 1., 1., 3.]), ("f32[2]", &[4., 7.])],
            &[("f32[2]", &[1., 2.])],
        )
}

/// The inverse. A singular matrix gives infinities or NaN.
pub fn inverse() -> OpForm {
    OpForm::new("inverse", "Inverts square matrices.")
        .input("x", "[…, n, n]")
        .types(|types, _| {
            expect_square("inverse", 0, &types[0])?;
            Ok(vec![types[0].clone()])
        })
        .expand(|b, call| {
            let x = call.inputs[0];
            let on = where_row(b, Binary::Eq, x);
            let unit = b.cast(on, b.dtype(x));
            vec![solved(b, x, unit)]
        })
        .grad(Grad::rule(|b, call| {
            let turned = transposed(b, call.outputs[0]);
            let grad = call.grads[0].map(|grad| {
                let left = product(b, turned, grad);
                let products = product(b, left, turned);
                b.scale(products, -1.0)
            });
            vec![grad]
        }))
        .example(
            "two rows",
            "inverse(a)",
            &[("f32[2, 2]", &[4., 7., 2., 6.])],
            &[("f32[2, 2]", &[0.6, -0.7, -0.2, 0.4])],
        )
}

/// The solution and the packed factors of `P·a = L·U`: U in the upper triangle, and L, whose diagonal is 1, below it.
/// P exchanges rows such that no element of L is above 1 in magnitude. [`crate::lu_panel()`] factors a few columns at a
/// time, and the rest is products.
pub fn lu_solve() -> OpForm {
    OpForm::new("lu_solve", "Solves linear equations, and returns the packed factors L and U.")
        .results(&["x", "factors"])
        .input("a", "[…, n, n]")
        .input("b", "[…, n, m]")
        .types(|types, _| {
            known_extents("lu_solve", &types[0])?;
            Ok(vec![solution("lu_solve", &types[0], &types[1])?, types[0].clone()])
        })
        .expand(|b, given| eliminated(b, given.inputs[0], given.inputs[1]).to_vec())
        .no_grad("the order of rows is piecewise constant; `solve` has a gradient")
        .example(
            "rows must be exchanged",
            "lu_solve(a, b)",
            &[("f32[2, 2]", &[1., 3., 2., 4.]), ("f32[2, 1]", &[7., 10.])],
            &[("f32[2, 1]", &[1., 2.]), ("f32[2, 2]", &[2., 4., 0.5, 1.])],
        )
}

/// The type of `b` as columns.
fn column_type(a: &Type, b: &Type) -> Type {
    let mut ty = b.clone();
    if b.rank() + 1 == a.rank() {
        ty.shape.push(Dim::Fixed(1));
    }
    ty
}

/// `b` as columns.
fn columns(b: &mut Builder, a: Value, x: Value) -> Value {
    let extents = column_type(b.ty(a), b.ty(x)).extents();
    b.reshape(x, &extents)
}

fn solved(b: &mut Builder, a: Value, given: Value) -> Value {
    let extents = b.extents(given);
    let given = columns(b, a, given);
    let x = call(b, "lu_solve", &[a, given], Attrs::default())[0];
    b.reshape(x, &extents)
}

/// A panel of columns at a time: its factors and the order of its rows, in which all columns beside it follow. Rows of U
/// come from substitution, and the rest of the matrix and of the right-hand sides loses its products.
fn eliminated(b: &mut Builder, a: Value, given: Value) -> [Value; 2] {
    let [n, m] = sides(b, given);
    let lead = b.ty(a).rank() - 2;
    let [mut rest, mut right] = [a, given];
    // Columns of L that are known, in the order of rows so far.
    let mut below: Vec<Value> = vec![];
    let [mut factors, mut solved] = [vec![], vec![]];
    for start in (0..n.max(1)).step_by(PANEL) {
        let (own, after) = (PANEL.min(n - start), (n - start).saturating_sub(PANEL));
        let columns = part(b, rest, [0, 0], [n - start, own]);
        let panel = call(b, "lu_panel", &[columns], Attrs::default());
        let mut ordered = |x: Value| b.gather(x, panel[1], lead, lead);
        [rest, right] = [ordered(rest), ordered(right)];
        below = below.into_iter().map(ordered).collect();
        for (i, columns) in below.iter_mut().enumerate() {
            let rows = part(b, *columns, [0, 0], [own, PANEL]);
            factors.push((rows, [start, i * PANEL]));
            *columns = part(b, *columns, [own, 0], [after, PANEL]);
        }
        let square = part(b, panel[0], [0, 0], [own, own]);
        factors.push((square, [start, start]));
        let on = where_row(b, Binary::Eq, square);
        let unit = b.map(&[on, square], |v| E::select(v[0], 1.0, v[1]));
        let top = part(b, right, [0, 0], [own, m]);
        let top = call(b, "small_triangular", &[unit, top], Attrs::default())[0];
        solved.push((top, [start, 0]));
        if after > 0 {
            let by = part(b, panel[0], [own, 0], [after, own]);
            below.push(by);
            let beside = part(b, rest, [0, own], [own, after]);
            let beside = call(b, "small_triangular", &[unit, beside], Attrs::default())[0];
            factors.push((beside, [start, start + own]));
            rest = without(b, rest, [own, own], by, beside);
            right = without(b, right, [own, 0], by, top);
        }
    }
    let factors = assembled(b, &factors, [n, n]);
    let right = assembled(b, &solved, [n, m]);
    let upper = Attrs::default().with("lower", Attr::from(false));
    [call(b, "solve_triangular", &[factors, right], upper)[0], factors]
}

/// The part of `x` from a row and a column on, less a product of its size.
fn without(b: &mut Builder, x: Value, start: [usize; 2], left: Value, right: Value) -> Value {
    let known = product(b, left, right);
    let count = sides(b, known);
    let whole = part(b, x, start, count);
    b.sub(whole, known)
}
