//! Gradients of the primitives.

use super::maps::map_gradients;
use super::scans::{self, flip};
use crate::ir::{
    Binary, Body, Builder, Combine, DType, E, Literal, MatmulSpec, Monoid, Node, NodeOp, Scalar, Type, Value,
    View,
};

/// Gradients by operand of a primitive node.
pub fn gradients(
    b: &mut Builder,
    id: usize,
    node: &Node,
    upstream: &[Option<Value>],
    wanted: &[bool],
) -> Vec<Option<Value>> {
    let none = vec![None; node.inputs.len()];
    let Some(g) = upstream[0] else { return none };
    let y = Value::of(id);
    match &node.op {
        NodeOp::Scalar(scalar) => {
            let body = Body::new(scalar.arity(), |x| vec![E::apply(scalar.clone(), x)]);
            map_gradients(b, &body, &node.inputs, upstream, &node.outputs[0].ty, wanted)
        }
        NodeOp::View(view) => vec![Some(view_gradient(b, view, node.inputs[0], g))],
        NodeOp::Reduce { monoid, axes } => vec![reduce_gradient(b, *monoid, axes, node.inputs[0], y, g)],
        NodeOp::Scan { monoid, axis } => vec![scans::gradient(b, *monoid, *axis, node.inputs[0], y, g)],
        NodeOp::Gather { axis, batch } => {
            let ty = b.ty(node.inputs[0]).clone();
            let zeros = b.full(Literal::Float(0.0), Type { dtype: ty.dtype.accumulator(), ..ty.clone() });
            let g = b.widen(g);
            let sums = b.scatter(zeros, node.inputs[1], g, *axis, *batch, Combine::Add);
            vec![Some(b.cast(sums, ty.dtype)), None]
        }
        NodeOp::Scatter { axis, batch, combine } => scatter_gradients(b, node, g, *axis, *batch, *combine),
        NodeOp::Matmul(spec) => matmul_gradients(b, spec, node.inputs[0], node.inputs[1], g, wanted),
        NodeOp::Cond => crate::bug!("a condition has regions, which are differentiated apart"),
        NodeOp::Loop { .. } => crate::bug!("a loop keeps what its gradient needs"),
        NodeOp::Input(_)
        | NodeOp::Const(_)
        | NodeOp::Iota { .. }
        | NodeOp::Check(_)
        | NodeOp::Random { .. } => none,
        NodeOp::Call(_) | NodeOp::Map(_) => crate::bug!("`{}` is not a primitive", node.name()),
    }
}

fn view_gradient(b: &mut Builder, view: &View, x: Value, g: Value) -> Value {
    let extents = b.extents(x);
    match view {
        View::Reshape => b.reshape(g, &extents),
        View::Permute { perm } => back_in_order(b, g, perm),
        View::Broadcast { axes } => {
            let result = b.extents(g);
            let from = |axis: usize| axes.iter().position(|&a| a == axis);
            let repeated = |&axis: &usize| from(axis).is_none_or(|i| extents[i] == 1 && result[axis] != 1);
            let summed: Vec<usize> = (0..result.len()).filter(repeated).collect();
            let sum = b.sum(g, &summed);
            b.reshape(sum, &extents)
        }
        View::Slice { start, step } => {
            (0..extents.len()).fold(g, |g, axis| unslice(b, g, axis, start[axis], step[axis], extents[axis]))
        }
        View::Pad { low, .. } => {
            let step = vec![1; extents.len()];
            b.slice(g, low, &extents, &step)
        }
        View::Window { axis, step, dilation } => unwindow(b, g, *axis, [*step, *dilation], extents[*axis]),
    }
}

/// Adds up what the windows on an axis of extent `n` have read, place by place.
fn unwindow(b: &mut Builder, g: Value, axis: usize, [step, dilation]: [usize; 2], n: usize) -> Value {
    let windows = b.extents(g);
    let steps = vec![1; windows.len()];
    let mut sum = None;
    for place in 0..windows[axis + 1] {
        let start = pad_amounts(windows.len(), axis + 1, place);
        let mut extents = windows.clone();
        extents[axis + 1] = 1;
        let read = b.slice(g, &start, &extents, &steps);
        extents.remove(axis + 1);
        let read = b.reshape(read, &extents);
        let placed = unslice(b, read, axis, place * dilation, step as i64, n);
        sum = Some(sum.map_or(placed, |sum| b.binary(Binary::Add, sum, placed)));
    }
    sum.unwrap_or_else(|| crate::bug!("a window has no place"))
}

/// Places the elements of `g` at `start + j·step` along an axis of extent `n`, and zeros elsewhere.
fn unslice(b: &mut Builder, g: Value, axis: usize, start: usize, step: i64, n: usize) -> Value {
    let mut extents = b.extents(g);
    let count = extents[axis];
    if count == 0 || (start == 0 && step == 1 && count == n) {
        let high = pad_amounts(extents.len(), axis, n - count);
        let low = vec![0; extents.len()];
        return b.pad(g, &low, &high, Literal::Float(0.0));
    }
    let (g, start) = match step < 0 {
        true => (flip(b, g, axis), (start as i64 + step * (count as i64 - 1)) as usize),
        false => (g, start),
    };
    let step = step.unsigned_abs() as usize;
    let mut spread = g;
    if step > 1 {
        // Each element is followed by step - 1 zeros. The surplus at the end is cut off.
        extents.insert(axis + 1, 1);
        spread = b.reshape(spread, &extents);
        let (low, high) = (vec![0; extents.len()], pad_amounts(extents.len(), axis + 1, step - 1));
        spread = b.pad(spread, &low, &high, Literal::Float(0.0));
        extents.remove(axis + 1);
        extents[axis] = count * step;
        spread = b.reshape(spread, &extents);
        extents[axis] = (count - 1) * step + 1;
        let (zeros, ones) = (vec![0; extents.len()], vec![1; extents.len()]);
        spread = b.slice(spread, &zeros, &extents, &ones);
    }
    let span = (count - 1) * step + 1;
    let (low, high) =
        (pad_amounts(extents.len(), axis, start), pad_amounts(extents.len(), axis, n - start - span));
    b.pad(spread, &low, &high, Literal::Float(0.0))
}

fn pad_amounts(rank: usize, axis: usize, amount: usize) -> Vec<usize> {
    (0..rank).map(|a| if a == axis { amount } else { 0 }).collect()
}

fn reduce_gradient(
    b: &mut Builder,
    monoid: Monoid,
    axes: &[usize],
    x: Value,
    y: Value,
    g: Value,
) -> Option<Value> {
    let spread = b.unreduce(g, axes, x);
    match monoid {
        Monoid::Sum => Some(spread),
        Monoid::Max | Monoid::Min => {
            // Ties share evenly.
            let extremum = b.unreduce(y, axes, x);
            let hit = b.binary(Binary::Eq, x, extremum);
            let dtype = b.dtype(x);
            let ones = b.cast(hit, dtype);
            let count = b.sum(ones, axes);
            let count = b.unreduce(count, axes, x);
            Some(b.map(&[hit, spread, count], |v| E::select(v[0], v[1] / v[2], 0.0)))
        }
        Monoid::Prod => Some(product_gradient(b, axes, x, spread)),
        Monoid::ArgMax | Monoid::ArgMin => None,
    }
}

/// The product of all other elements. A division yields it only if no factor is zero.
fn product_gradient(b: &mut Builder, axes: &[usize], x: Value, g: Value) -> Value {
    let dtype = b.dtype(x);
    let is_zero = b.map(&[x], |v| v[0].eq(0.0));
    let factors = b.map(&[x], |v| E::select(v[0].eq(0.0), 1.0, v[0]));
    let rest = b.reduce(Monoid::Prod, factors, axes);
    let rest = b.unreduce(rest, axes, x);
    let zeros = b.cast(is_zero, dtype);
    let n_zeros = b.sum(zeros, axes);
    let n_zeros = b.unreduce(n_zeros, axes, x);
    b.map(&[g, x, rest, n_zeros], |v| {
        let [g, x, rest, n_zeros] = [v[0], v[1], v[2], v[3]];
        let at_zero = E::select(n_zeros.eq(1.0), rest, 0.0);
        let elsewhere = E::select(n_zeros.eq(0.0), rest / x, 0.0);
        g * E::select(x.eq(0.0), at_zero, elsewhere)
    })
}

fn scatter_gradients(
    b: &mut Builder,
    node: &Node,
    g: Value,
    axis: usize,
    batch: usize,
    combine: Combine,
) -> Vec<Option<Value>> {
    let [_, idx, updates] = node.inputs[..] else { crate::bug!("a scatter has three operands") };
    let picked = b.gather(g, idx, axis, batch);
    if combine == Combine::Add {
        return vec![Some(g), None, Some(picked)];
    }
    let zeros = b.full_like(updates, 0.0);
    let kept = b.scatter(g, idx, zeros, axis, batch, Combine::Set);
    let n_index_axes = b.ty(idx).rank() - batch;
    if b.extents(idx)[batch..].iter().product::<usize>() == 1 {
        return vec![Some(kept), None, Some(picked)];
    }
    // Among equal indices, only the last update is written, so all others have gradient zero.
    let number = update_numbers(b, updates, axis..axis + n_index_axes);
    let no_winner = b.full(Literal::Int(-1), b.ty(g).with_dtype(DType::I32));
    let winner = b.scatter(no_winner, idx, number, axis, batch, Combine::Set);
    let winner = b.gather(winner, idx, axis, batch);
    let won = b.binary(Binary::Eq, winner, number);
    let partial = b.scalar(Scalar::Select, &[won, picked, zeros]);
    vec![Some(kept), None, Some(partial)]
}

/// The row-major number of each update along the index axes.
fn update_numbers(b: &mut Builder, updates: Value, index_axes: std::ops::Range<usize>) -> Value {
    let ty = b.ty(updates).with_dtype(DType::I32);
    let extents = ty.extents();
    let mut number = b.full(Literal::Int(0), ty.clone());
    for (axis, &extent) in extents.iter().enumerate().take(index_axes.end).skip(index_axes.start) {
        let coordinate = b.iota(axis, ty.clone());
        let scaled = b.scale(number, extent as f64);
        number = b.add(scaled, coordinate);
    }
    number
}

fn matmul_gradients(
    b: &mut Builder,
    spec: &MatmulSpec,
    lhs: Value,
    rhs: Value,
    g: Value,
    wanted: &[bool],
) -> Vec<Option<Value>> {
    let (lhs_rank, rhs_rank) = (b.ty(lhs).rank(), b.ty(rhs).rank());
    let (lhs_free, rhs_free) = (spec.lhs_free(lhs_rank), spec.rhs_free(rhs_rank));
    let n_batch = spec.batch.len();
    let g = b.cast(g, b.dtype(lhs));
    let dlhs = wanted[0].then(|| {
        let first = n_batch + lhs_free.len();
        let inner = MatmulSpec {
            batch: spec.batch.iter().enumerate().map(|(i, &(_, r))| (i, r)).collect(),
            contracted: rhs_free.iter().enumerate().map(|(i, &r)| (first + i, r)).collect(),
            precision: spec.precision,
        };
        let product = b.matmul(g, rhs, inner);
        let mut by_rhs = spec.contracted.clone();
        by_rhs.sort_by_key(|pair| pair.1);
        let axes = spec
            .batch
            .iter()
            .map(|pair| pair.0)
            .chain(lhs_free.clone())
            .chain(by_rhs.iter().map(|pair| pair.0));
        back_in_order(b, product, &axes.collect::<Vec<_>>())
    });
    let drhs = wanted[1].then(|| {
        let inner = MatmulSpec {
            batch: spec.batch.iter().enumerate().map(|(i, &(l, _))| (l, i)).collect(),
            contracted: lhs_free.iter().enumerate().map(|(i, &l)| (l, n_batch + i)).collect(),
            precision: spec.precision,
        };
        let product = b.matmul(lhs, g, inner);
        let mut by_lhs = spec.contracted.clone();
        by_lhs.sort_by_key(|pair| pair.0);
        let axes = spec
            .batch
            .iter()
            .map(|pair| pair.1)
            .chain(by_lhs.iter().map(|pair| pair.1))
            .chain(rhs_free.clone());
        back_in_order(b, product, &axes.collect::<Vec<_>>())
    });
    vec![dlhs, drhs]
}

/// Permutes `x`: axis `i` of `x` becomes axis `axes[i]` of the result.
fn back_in_order(b: &mut Builder, x: Value, axes: &[usize]) -> Value {
    let perm: Vec<usize> = (0..axes.len()).filter_map(|axis| axes.iter().position(|&a| a == axis)).collect();
    b.permute(x, &perm)
}
