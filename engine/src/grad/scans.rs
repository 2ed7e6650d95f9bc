//! Gradients of prefix forms.

use crate::ir::{Builder, DType, E, Monoid, NodeOp, Type, Value};

/// The gradient of a scan of `x` along `axis` with result `y`, for upstream gradient `g`.
pub fn gradient(b: &mut Builder, monoid: Monoid, axis: usize, x: Value, y: Value, g: Value) -> Option<Value> {
    match monoid {
        Monoid::Sum => Some(suffix_sum(b, g, axis)),
        Monoid::Prod => Some(product_gradient(b, axis, x, g)),
        Monoid::Max | Monoid::Min => Some(extremum_gradient(b, axis, x, y, g)),
        Monoid::ArgMax | Monoid::ArgMin => None,
    }
}

/// The tensor in reverse order along an axis.
pub(super) fn flip(b: &mut Builder, x: Value, axis: usize) -> Value {
    let extents = b.extents(x);
    let start: Vec<usize> =
        (0..extents.len()).map(|a| if a == axis { extents[a].saturating_sub(1) } else { 0 }).collect();
    let step: Vec<i64> = (0..extents.len()).map(|a| if a == axis { -1 } else { 1 }).collect();
    b.slice(x, &start, &extents, &step)
}

fn suffix_sum(b: &mut Builder, g: Value, axis: usize) -> Value {
    let flipped = flip(b, g, axis);
    let sums = scan(b, Monoid::Sum, axis, flipped);
    flip(b, sums, axis)
}

fn scan(b: &mut Builder, monoid: Monoid, axis: usize, x: Value) -> Value {
    let ty = b.ty(x).clone();
    b.push(NodeOp::Scan { monoid, axis }, vec![x], ty)
}

/// A square of pairs along one axis, for rules whose operand i acts on all results j ≥ i. Its size is quadratic in the
/// extent. In return, gradients are exact at zeros and ties.
struct Pairs {
    axis: usize,
    /// Type of the square: axis `axis` is i, axis `axis + 1` is j.
    ty: Type,
    i: Value,
    j: Value,
}

impl Pairs {
    fn new(b: &mut Builder, axis: usize, x: Value) -> Pairs {
        let mut ty = b.ty(x).clone();
        ty.shape.insert(axis, ty.shape[axis].clone());
        let i = b.iota(axis, ty.with_dtype(DType::I32));
        let j = b.iota(axis + 1, ty.with_dtype(DType::I32));
        Pairs { axis, ty, i, j }
    }

    fn along_i(&self, b: &mut Builder, x: Value) -> Value {
        let axes: Vec<usize> = (0..self.ty.rank()).filter(|&axis| axis != self.axis + 1).collect();
        b.broadcast_axes(x, &axes, &self.ty.shape)
    }

    fn along_j(&self, b: &mut Builder, x: Value) -> Value {
        let axes: Vec<usize> = (0..self.ty.rank()).filter(|&axis| axis != self.axis).collect();
        b.broadcast_axes(x, &axes, &self.ty.shape)
    }
}

/// Σ over j ≥ i of g_j times the product of all x_k with k ≤ j except x_i.
fn product_gradient(b: &mut Builder, axis: usize, x: Value, g: Value) -> Value {
    let pairs = Pairs::new(b, axis, x);
    let x = pairs.along_j(b, x);
    let others = b.map(&[pairs.i, pairs.j, x], |x| E::select(x[0].eq(x[1]), 1.0, x[2]));
    let products = scan(b, Monoid::Prod, axis + 1, others);
    let g = pairs.along_j(b, g);
    let terms = b.map(&[pairs.i, pairs.j, products, g], |x| E::select(x[1].ge(x[0]), x[2] * x[3], 0.0));
    b.sum(terms, &[axis + 1])
}

/// Each g_j is shared equally by the x_i with i ≤ j that equal the extreme so far.
fn extremum_gradient(b: &mut Builder, axis: usize, x: Value, y: Value, g: Value) -> Value {
    let dtype = b.dtype(x);
    let pairs = Pairs::new(b, axis, x);
    let x = pairs.along_i(b, x);
    let y = pairs.along_j(b, y);
    let is_best = b.map(&[pairs.i, pairs.j, x, y], |x| x[1].ge(x[0]) & x[2].eq(x[3]));
    let ones = b.cast(is_best, DType::F32);
    let n_best = b.sum(ones, &[axis]);
    let n_best = b.cast(n_best, dtype);
    let share = b.div(g, n_best);
    let share = pairs.along_j(b, share);
    let terms = b.map(&[is_best, share], |x| E::select(x[0], x[1], 0.0));
    b.sum(terms, &[axis + 1])
}
