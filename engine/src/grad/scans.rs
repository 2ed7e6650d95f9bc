//! Gradients of prefix forms.

use crate::ir::{Builder, DType, E, Literal, Monoid, NodeOp, Type, Value};

/// The gradient of a scan of `x` along `axis` with result `y`, for upstream gradient `g`.
pub fn gradient(b: &mut Builder, monoid: Monoid, axis: usize, x: Value, y: Value, g: Value) -> Option<Value> {
    match monoid {
        Monoid::Sum => Some(suffix_sum(b, g, axis)),
        Monoid::Prod => Some(product_gradient(b, axis, x, y, g)),
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

/// Σ over j ≥ i of g_j times the product of all x_k with k ≤ j except x_i: the product before i, times s_i with
/// `s_i = g_i + x_{i+1}·s_{i+1}`. Each pass doubles the number of terms of s. Nothing is divided, so zeros are exact.
fn product_gradient(b: &mut Builder, axis: usize, x: Value, y: Value, g: Value) -> Value {
    let n = b.extents(x)[axis];
    let before = moved(b, y, axis, 1, Literal::Int(1));
    let (mut sums, mut factors, mut reach) = (g, moved(b, x, axis, -1, Literal::Int(1)), 1);
    let place = b.iota(axis, b.ty(x).with_dtype(DType::I32));
    while reach < n {
        let last = (n - reach) as i64;
        let [later, more] =
            [sums, factors].map(|value| moved(b, value, axis, -(reach as i64), Literal::Int(0)));
        // A product that overflows must not meet the zeros beyond the end.
        sums = b.map(&[place, sums, factors, later], |v| E::select(v[0].lt(last), v[1] + v[2] * v[3], v[1]));
        factors = b.mul(factors, more);
        reach *= 2;
    }
    b.mul(before, sums)
}

/// The elements moved by some places along an axis.
fn moved(b: &mut Builder, x: Value, axis: usize, by: i64, fill: Literal) -> Value {
    let mut count = b.extents(x);
    let size = (by.unsigned_abs() as usize).min(count[axis]);
    let none = vec![0; count.len()];
    let (mut start, mut low, mut high) = (none.clone(), none.clone(), none);
    count[axis] -= size;
    if by > 0 {
        low[axis] = size;
    } else {
        (start[axis], high[axis]) = (size, size);
    }
    let kept = b.slice(x, &start, &count, &vec![1; count.len()]);
    b.pad(kept, &low, &high, fill)
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
