//! `svd`.

use crate::matrices::{
    call, known_extents, product, product_by_rows, row_norms, sides, signed, transposed, where_row,
};
use engine_core::ir::{Attr, Attrs, Binary, Builder, DType, E, Literal, Monoid, Type, Unary, Value};
use engine_core::op::{AttrKind, AttrSpec, Grad, GradCall, OpForm, TypeIssue};

/// `x = u·diag(s)·v` with orthonormal columns of u and rows of v, and s descending. The element of largest magnitude in
/// each column of u is positive. Singular values of at most `max(m, n)·ε·s₀` are 0, as are their vectors on the longer
/// side. Rows are made orthogonal by [`crate::orthogonal_rows()`].
pub fn svd() -> OpForm {
    OpForm::new("svd", "Factors matrices into singular vectors and singular values.")
        .results(&["u", "s", "v"])
        .input("x", "[…, m, n]")
        .attr(AttrSpec::open("rank", "how many singular values are kept; all by default", AttrKind::Int))
        .types(|types, attrs| {
            let x = &types[0];
            let [m, n] = known_extents("svd", x)?;
            let k = rank(attrs, m.min(n))?;
            let lead = &x.shape[..x.rank() - 2];
            let of = |extents: &[usize]| {
                let own = extents.iter().map(|&extent| extent.into());
                engine_core::ir::Type { dtype: x.dtype, shape: lead.iter().cloned().chain(own).collect() }
            };
            Ok(vec![of(&[m, k]), of(&[k]), of(&[k, n])])
        })
        .expand(|b, given| {
            let x = given.inputs[0];
            let [m, n] = sides(b, x);
            let [us, s, vs] = factors(b, x);
            let k = given.attrs.opt_int("rank").map_or(m.min(n), |k| k as usize);
            let [us, s, vs] =
                [(us, true), (s, false), (vs, true)].map(|(x, is_matrix)| first(b, x, k, is_matrix));
            vec![transposed(b, us), s, vs]
        })
        .grad(Grad::rule(|b, given| vec![gradient(b, given)]))
        .example(
            "of a diagonal",
            "svd(a)",
            &[("f32[2, 2]", &[2., 0., 0., -3.])],
            &[("f32[2, 2]", &[0., 1., 1., 0.]), ("f32[2]", &[3., 2.]), ("f32[2, 2]", &[0., -1., 1., 0.])],
        )
        .example(
            "of no rows",
            "svd(a)",
            &[("f32[0, 3]", &[])],
            &[("f32[0, 0]", &[]), ("f32[0]", &[]), ("f32[0, 3]", &[])],
        )
        .example(
            "of zeros",
            "svd(a)",
            &[("f32[2, 2]", &[0.; 4])],
            &[("f32[2, 2]", &[1., 0., 0., 1.]), ("f32[2]", &[0.; 2]), ("f32[2, 2]", &[0.; 4])],
        )
        .example(
            "of rank one",
            "svd(a)",
            &[("f32[3, 2]", &[2., 0., 0., 0., 0., 0.])],
            &[
                ("f32[3, 2]", &[1., 0., 0., 0., 0., 0.]),
                ("f32[2]", &[2., 0.]),
                ("f32[2, 2]", &[1., 0., 0., 1.]),
            ],
        )
}

/// The wanted rank.
fn rank(attrs: &Attrs, most: usize) -> Result<usize, TypeIssue> {
    match attrs.opt_int("rank") {
        None => Ok(most),
        Some(k) if k >= 0 && k as usize <= most => Ok(k as usize),
        Some(k) => {
            Err(TypeIssue::new(format!("`svd` of rank {k}, where the matrix has a rank of at most {most}"))
                .at_setting("rank")
                .help(format!("give a rank from 0 to {most}, or leave it out")))
        }
    }
}

/// The first k of the singular values, or of the rows.
fn first(b: &mut Builder, x: Value, k: usize, is_matrix: bool) -> Value {
    let mut extents = b.extents(x);
    let rank = extents.len();
    extents[rank - 1 - usize::from(is_matrix)] = k;
    b.slice(x, &vec![0; rank], &extents, &vec![1; rank])
}

/// The largest magnitude of each matrix, `[…, 1, 1]`; 1 if all elements are 0.
pub fn scale(b: &mut Builder, x: Value) -> Value {
    let last = b.ty(x).rank() - 1;
    let size = b.unary(Unary::Abs, x);
    let most = b.reduce(Monoid::Max, size, &[last - 1, last]);
    let mut extents = b.extents(most);
    extents.extend([1, 1]);
    let most = b.reshape(most, &extents);
    b.map(&[most], |v| E::select(v[0].eq(0.0), 1.0, v[0]))
}

/// The singular vectors as rows `[…, k, m]` and `[…, k, n]`, and the singular values between them.
fn factors(b: &mut Builder, x: Value) -> [Value; 3] {
    let [m, n] = sides(b, x);
    let (k, lead, dtype) = (m.min(n), b.ty(x).rank() - 2, b.dtype(x));
    if k == 0 {
        let own = [vec![0, m], vec![0], vec![0, n]];
        let lead = b.extents(x)[..lead].to_vec();
        return own.map(|own| b.full(Literal::Float(0.0), Type::new(dtype, &[&lead[..], &own].concat())));
    }
    let scale = scale(b, x);
    let scaled = b.map(&[x, scale], |v| v[0] / v[1]);
    let rows = if m <= n { scaled } else { transposed(b, scaled) };
    // Long rows are those of a triangular matrix in an orthonormal basis.
    let is_long = m.max(n) >= 4 * k;
    let long = if is_long { transposed(b, rows) } else { rows };
    let basis = if is_long { call(b, "qr", &[long], Attrs::default()) } else { vec![] };
    let rows = if is_long { transposed(b, basis[1]) } else { rows };
    let turned = call(b, "orthogonal_rows", &[rows], Attrs::default());
    let norms = row_norms(b, turned[0]);
    let mut extents = b.extents(norms);
    extents.pop();
    let norms = b.reshape(norms, &extents);
    let sorted = call(b, "topk", &[norms], Attrs::default().with("k", Attr::from(k as i64)));
    let [w, t] = [0, 1].map(|i| b.gather(turned[i], sorted[1], lead, lead));
    let epsilon = if dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let largest = first(b, sorted[0], 1, false);
    let s =
        b.map(&[sorted[0], largest], |v| E::select(v[0].le(v[1] * (m.max(n) as f64 * epsilon)), 0.0, v[0]));
    let [column, _] = column_and_row(b, s);
    let unit = b.map(&[w, column], |v| E::select(v[1].eq(0.0), 0.0, v[0] / v[1]));
    let unit = if is_long { product_by_rows(b, unit, basis[0]) } else { unit };
    let [us, vs] = if m <= n { [t, unit] } else { [unit, t] };
    let [us, vs] = signed(b, us, vs);
    let mut extents = b.extents(scale);
    extents.pop();
    let by = b.reshape(scale, &extents);
    [us, b.map(&[s, by], |v| v[0] * v[1]), vs]
}

/// A vector as `[…, k, 1]` and as `[…, 1, k]`.
pub fn column_and_row(b: &mut Builder, x: Value) -> [Value; 2] {
    let extents = b.extents(x);
    let (k, lead) = (extents[extents.len() - 1], &extents[..extents.len() - 1]);
    [[k, 1], [1, k]].map(|own| b.reshape(x, &[lead, &own].concat()))
}

/// A gradient of the first singular values or vectors, with zeros for all others.
fn padded(b: &mut Builder, grad: Value, axis_from_end: usize, to: usize) -> Value {
    let extents = b.extents(grad);
    let rank = extents.len();
    let mut high = vec![0; rank];
    high[rank - axis_from_end] = to - extents[rank - axis_from_end];
    match high.iter().all(|&high| high == 0) {
        true => grad,
        false => b.pad(grad, &vec![0; rank], &high, Literal::Float(0.0)),
    }
}

/// `u·[(skew(uᵀ·gᵤ) / E)·S + S·(skew(v·gᵥᵀ) / E) + diag(gₛ)]·v` and the parts of the gradients outside the spans, with
/// `Eᵢⱼ = sⱼ² - sᵢ²` (Townsend 2016). Equal singular values give infinities or NaN.
fn gradient(b: &mut Builder, given: &GradCall) -> Option<Value> {
    let x = given.inputs[0];
    let [m, n] = sides(b, x);
    let k = m.min(n);
    let full = call(b, "svd", &[x], Attrs::default());
    let [u, s, v] = [full[0], full[1], full[2]];
    let grads =
        [(0, 1), (1, 1), (2, 2)].map(|(i, from_end)| given.grads[i].map(|grad| padded(b, grad, from_end, k)));
    let [column, row] = column_and_row(b, s);
    let products = b.map(&[column, row], |v| v[0] * v[1]);
    let on = where_row(b, Binary::Eq, products);
    let gap = b.map(&[on, row, column], |v| E::select(v[0], 1.0, (v[1] - v[2]) * (v[1] + v[2])));
    let mut inner = vec![];
    let mut outside = vec![];
    if let Some(grad) = grads[1] {
        let [column, _] = column_and_row(b, grad);
        inner.push(b.map(&[on, column], |v| E::select(v[0], v[1], 0.0)));
    }
    if let Some(grad) = grads[0] {
        let turned = transposed(b, u);
        let within = product(b, turned, grad);
        let across = transposed(b, within);
        inner.push(b.map(&[within, across, gap, row], |v| (v[0] - v[1]) / v[2] * v[3]));
        if m > k {
            let spanned = product(b, u, within);
            let left = b.map(&[grad, spanned, row], |v| (v[0] - v[1]) / v[2]);
            outside.push(product(b, left, v));
        }
    }
    if let Some(grad) = grads[2] {
        let within = product_by_rows(b, v, grad);
        let across = transposed(b, within);
        inner.push(b.map(&[within, across, gap, column], |v| (v[0] - v[1]) / v[2] * v[3]));
        if n > k {
            let by_rows = product_by_rows(b, grad, v);
            let spanned = product(b, by_rows, v);
            let right = b.map(&[grad, spanned, column], |v| (v[0] - v[1]) / v[2]);
            outside.push(product(b, u, right));
        }
    }
    let inner = inner.into_iter().reduce(|a, c| b.add(a, c))?;
    let left = product(b, u, inner);
    let within = product(b, left, v);
    Some(outside.into_iter().fold(within, |sum, part| b.add(sum, part)))
}
