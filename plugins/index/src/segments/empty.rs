//! Means of labels without rows.

use super::labelled::Means;
use engine_core::ir::{Attr, Attrs, Builder, DType, E, Monoid, NodeOp, Requirement, Value};
use engine_core::op::checked;

/// The means, with rows of `others` for labels without one.
pub fn filled(b: &mut Builder, of: &Means, means: Value, others: Value) -> Value {
    let has_mean = b.unreduce(of.is_full, &[of.axis(b) + 1], means);
    b.map(&[has_mean, means, others], |v| E::select(v[0], v[1], v[2]))
}

/// The means of labels that all must have one. The name of the assertion says what it requires.
pub fn refused(b: &mut Builder, of: &Means, means: Value) -> Value {
    let has_mean = b.cast(of.is_full, DType::I32);
    let (scope, span) = (b.scope(), b.span());
    b.set_scope(&format!("{scope}.each_cluster_has_rows"), span);
    let has_mean = b.check(has_mean, Requirement::Condition);
    b.set_scope(&scope, span);
    let has_mean = b.unreduce(has_mean, &[of.axis(b) + 1], means);
    b.map(&[has_mean, means], |v| E::select(v[0].ne(0i64), v[1], 0.0))
}

/// The number of each label among those without a mean, from 0 on: `i32[…, K]`.
fn number(b: &mut Builder, of: &Means) -> Value {
    let is_empty = b.map(&[of.is_full], |v| E::select(v[0], 0i64, 1i64).cast(DType::I32));
    let ty = b.ty(is_empty).clone();
    let upto = b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: of.axis(b) }, vec![is_empty], ty);
    b.sub(upto, is_empty)
}

/// The means, with the i-th farthest row for the i-th label without one.
pub fn farthest(b: &mut Builder, of: &Means, means: Value) -> Value {
    let (axis, n_labels) = (of.axis(b), of.n_labels(b));
    let n_taken = b.extents(of.x)[axis].min(n_labels);
    if n_taken == 0 {
        return filled(b, of, means, of.c);
    }
    let own = b.gather(of.c, of.label, axis, axis);
    let squares = b.map(&[of.x, own], |v| (v[0] - v[1]) * (v[0] - v[1]));
    let distances = b.sum(squares, &[axis + 1]);
    let distances = match of.weights {
        Some(weights) => b.map(&[distances, weights], |v| E::select(v[1].gt(0.0), v[0], -1.0)),
        None => distances,
    };
    let k = Attrs::default().with("k", Attr::from(n_taken as i64));
    let rows = checked(b.call("topk_rows", &[distances], k))[1];
    let number = number(b, of);
    let inside = b.map(&[number], |v| v[0].min((n_taken - 1) as i64));
    let row = b.gather(rows, inside, axis, axis);
    let rows = b.gather(of.x, row, axis, axis);
    let number = b.unreduce(number, &[axis + 1], rows);
    let others = b.map(&[number, rows, of.c], |v| E::select(v[0].lt(n_taken as i64), v[1], v[2]));
    filled(b, of, means, others)
}

/// The means, with two for each label that shares its own with a label without one.
pub fn split(b: &mut Builder, of: &Means, means: Value) -> Value {
    let axis = of.axis(b);
    let n_labels = of.n_labels(b);
    if n_labels == 0 {
        return means;
    }
    let descending = Attrs::default().with("descending", Attr::from(true));
    let weights = b.map(&[of.is_full, of.total], |v| E::select(v[0], v[1], v[1] * 0.0));
    let order = checked(b.call("sort_rows", &[weights], descending))[1];
    let place = checked(b.call("sort_rows", &[order], Attrs::default()))[1];
    let number = number(b, of);
    let inside = b.map(&[number], |v| v[0].min((n_labels - 1) as i64));
    let partner = b.gather(order, inside, axis, axis);
    let has_partner = b.gather(of.is_full, partner, axis, axis);
    let is_empty = b.map(&[of.is_full], |v| E::select(v[0], 0i64, 1i64).cast(DType::I32));
    let n_empty = b.reduce(Monoid::Sum, is_empty, &[axis]);
    let n_empty = b.unreduce(n_empty, &[axis], place);
    let shares = b.map(&[place, n_empty, of.is_full], |v| v[0].lt(v[1]) & v[2]);

    let ty = b.ty(means).clone();
    let column = b.iota(axis + 1, ty.with_dtype(DType::I32));
    let half = 2f64.powi(-10);
    let signs = b.map(&[column], |v| E::select((v[0] % 2.0).eq(0.0), half, -half));
    let signs = b.cast(signs, ty.dtype);
    let shared = b.gather(means, partner, axis, axis);
    let [has_partner, shares] = [has_partner, shares].map(|x| b.unreduce(x, &[axis + 1], means));
    let others = b.map(&[has_partner, shared, signs, of.c], |v| E::select(v[0], v[1] * (1.0 + v[2]), v[3]));
    let own = b.map(&[shares, means, signs], |v| E::select(v[0], v[1] * (1.0 - v[2]), v[1]));
    filled(b, of, own, others)
}
