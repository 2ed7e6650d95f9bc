//! Rules that depend on shapes.

use super::Rewriter;
use crate::ir::{
    Binary, Combine, DType, Dim, InputKind, Literal, MatmulSpec, Monoid, NodeOp, Requirement, Scalar, Type,
    Unary, Value, View,
};
use std::collections::HashMap;

// ---- Exponentials.

/// `log Σ eˣ` relative to the maximum.
pub fn stable_log_sum_exp(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], _: &Type) -> Option<Value> {
    let NodeOp::Scalar(Scalar::Unary(Unary::Log)) = op else { return None };
    let (x, axes) = sum_of_exp(r, inputs[0])?;
    let (shifted, m) = shifted_by_max(r, x, &axes)?;
    let e = r.scalar(Scalar::Unary(Unary::Exp), vec![shifted]);
    let ty = r.ty(inputs[0]).clone();
    let s = r.make(NodeOp::Reduce { monoid: Monoid::Sum, axes }, vec![e], ty);
    let log = r.scalar(Scalar::Unary(Unary::Log), vec![s]);
    Some(r.binary(Binary::Add, log, m))
}

/// `eˣ / Σ eˣ` relative to the maximum.
pub fn stable_softmax(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let NodeOp::Scalar(Scalar::Binary(Binary::Div)) = op else { return None };
    let NodeOp::View(View::Broadcast { axes: kept }) = r.op(inputs[1]).clone() else { return None };
    let sum = r.operands(inputs[1])[0];
    let (x, axes) = sum_of_exp(r, sum)?;
    let puts_back = (0..ty.rank()).filter(|axis| !axes.contains(axis)).eq(kept.iter().copied());
    let NodeOp::Scalar(Scalar::Unary(Unary::Exp)) = r.op(inputs[0]) else { return None };
    if r.operands(inputs[0])[0] != x || !puts_back {
        return None;
    }
    let (shifted, _) = shifted_by_max(r, x, &axes)?;
    let e = r.scalar(Scalar::Unary(Unary::Exp), vec![shifted]);
    let sum_ty = r.ty(sum).clone();
    let s = r.make(NodeOp::Reduce { monoid: Monoid::Sum, axes }, vec![e], sum_ty);
    let s = r.make(NodeOp::View(View::Broadcast { axes: kept }), vec![s], ty.clone());
    Some(r.binary(Binary::Div, e, s))
}

fn sum_of_exp(r: &Rewriter, value: Value) -> Option<(Value, Vec<usize>)> {
    let NodeOp::Reduce { monoid: Monoid::Sum, axes } = r.op(value) else { return None };
    let e = r.operands(value)[0];
    let NodeOp::Scalar(Scalar::Unary(Unary::Exp)) = r.op(e) else { return None };
    let x = r.operands(e)[0];
    let reduced: usize = axes.iter().map(|&axis| r.ty(x).extents()[axis]).product();
    (r.ty(x).dtype.is_float() && reduced > 0).then(|| (x, axes.clone()))
}

/// `x - m` and `m`, where `m` is the maximum over `axes`, or 0 where that is infinite. `None` if `x` has been shifted
/// already.
fn shifted_by_max(r: &mut Rewriter, x: Value, axes: &[usize]) -> Option<(Value, Value)> {
    if is_shifted(r, x, axes) {
        return None;
    }
    let ty = r.ty(x).clone();
    let kept: Vec<usize> = (0..ty.rank()).filter(|axis| !axes.contains(axis)).collect();
    let row = Type { dtype: ty.dtype, shape: kept.iter().map(|&axis| ty.shape[axis].clone()).collect() };
    let max = r.make(NodeOp::Reduce { monoid: Monoid::Max, axes: axes.to_vec() }, vec![x], row.clone());
    let size = r.scalar(Scalar::Unary(Unary::Abs), vec![max]);
    let inf = r.full(Literal::Float(f64::INFINITY), row.clone());
    let infinite = r.binary(Binary::Eq, size, inf);
    let zero = r.full(Literal::Float(0.0), row.clone());
    let m = r.make(NodeOp::Scalar(Scalar::Select), vec![infinite, zero, max], row);
    let spread = r.make(NodeOp::View(View::Broadcast { axes: kept }), vec![m], ty);
    Some((r.binary(Binary::Sub, x, spread), m))
}

/// Whether `x` is a difference whose right operand is a maximum over the same axes, guarded or not.
fn is_shifted(r: &Rewriter, x: Value, axes: &[usize]) -> bool {
    let NodeOp::Scalar(Scalar::Binary(Binary::Sub)) = r.op(x) else { return false };
    let mut m = r.operands(x)[1];
    loop {
        m = match r.op(m) {
            NodeOp::View(_) => r.operands(m)[0],
            NodeOp::Scalar(Scalar::Select) => r.operands(m)[2],
            NodeOp::Reduce { monoid: Monoid::Max, axes: reduced } => return reduced == axes,
            _ => return false,
        };
    }
}

// ---- Casts.

/// A float that is converted to a wider one and back.
pub fn cast_back(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let NodeOp::Scalar(Scalar::Cast(to)) = op else { return None };
    let NodeOp::Scalar(Scalar::Cast(wide)) = r.op(inputs[0]) else { return None };
    let base = r.operands(inputs[0])[0];
    (r.ty(base) == ty && to.widens_to(*wide)).then_some(base)
}

// ---- Views.

/// `f(reshape(x))` is `reshape(f(x))`.
pub fn reshape_after_unary(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let NodeOp::Scalar(scalar) = op else { return None };
    let ([x], NodeOp::View(View::Reshape)) = (inputs, r.op(*inputs.first()?)) else { return None };
    let base = r.operands(*x)[0];
    let value = r.scalar(scalar.clone(), vec![base]);
    Some(r.make(NodeOp::View(View::Reshape), vec![value], ty.clone()))
}

/// An operand `f(permute(x), constant)` of a matmul becomes `permute(f(x, constant))`, which the matmul reads through strides.
pub fn matmul_of_permuted(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let NodeOp::Matmul(_) = op else { return None };
    let moved: Vec<Value> = inputs
        .iter()
        .map(|&x| views_last(r, x).filter(|&moved| is_permuted(r, moved)).unwrap_or(x))
        .collect();
    (moved != inputs).then(|| r.make(op.clone(), moved, ty.clone()))
}

/// A value whose views come after its scalar operations, which have constants beside one operand. None if none of them moves.
fn views_last(r: &mut Rewriter, value: Value) -> Option<Value> {
    let (op, ty, inputs) = (r.op(value).clone(), r.ty(value).clone(), r.operands(value).to_vec());
    match op {
        NodeOp::View(View::Reshape | View::Permute { .. }) => {
            let moved = views_last(r, inputs[0])?;
            Some(r.make(op, vec![moved], ty))
        }
        NodeOp::Scalar(_) => {
            let mut variable = inputs.iter().filter(|x| r.constant(**x).is_none());
            let (Some(&x), None) = (variable.next(), variable.next()) else { return None };
            let x = views_last(r, x).unwrap_or(x);
            let view @ NodeOp::View(View::Reshape | View::Permute { .. }) = r.op(x).clone() else {
                return None;
            };
            let base = r.operands(x)[0];
            let shape = r.ty(base).shape.clone();
            let mut operand = |input: Value| match r.constant(input) {
                Some(literal) => r.full(literal, Type { shape: shape.clone(), ..r.ty(input).clone() }),
                None => base,
            };
            let operands = inputs.into_iter().map(&mut operand).collect();
            let value = r.make(op, operands, Type { shape, ..ty.clone() });
            let value = views_last(r, value).unwrap_or(value);
            Some(r.make(view, vec![value], ty))
        }
        _ => None,
    }
}

/// Whether the views of a value permute axes.
fn is_permuted(r: &Rewriter, mut value: Value) -> bool {
    while let NodeOp::View(view) = r.op(value) {
        if matches!(view, View::Permute { .. }) {
            return true;
        }
        value = r.operands(value)[0];
    }
    false
}

// ---- Indexing.

/// The coordinates along an axis of one element are 0.
pub fn iota_of_one(r: &mut Rewriter, op: &NodeOp, _: &[Value], ty: &Type) -> Option<Value> {
    let NodeOp::Iota { axis } = op else { return None };
    (ty.extents()[*axis] == 1).then(|| r.full(Literal::Int(0), ty.clone()))
}

/// An index that was converted from a type without numbers beyond the bound needs no check.
pub fn index_in_type(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], _: &Type) -> Option<Value> {
    let NodeOp::Check(Requirement::Index { bound }) = op else { return None };
    let NodeOp::Scalar(Scalar::Cast(DType::I32)) = r.op(inputs[0]) else { return None };
    let n_numbers = match r.ty(r.operands(inputs[0])[0]).dtype {
        DType::Bool => 2,
        DType::U8 => 1 << 8,
        DType::U16 => 1 << 16,
        _ => return None,
    };
    (n_numbers <= *bound).then_some(inputs[0])
}

/// The most paths through a formula through which a gather moves. A node is gathered once for each path to it.
const MOST_PATHS: usize = 4096;

/// `gather(f(a, b), i)` becomes `f(gather(a, i), gather(b, i))`, unless that computes more elements or the formula has too
/// many paths. A matmul's consumers are left alone: they belong into its epilogue, whose result is stored. Widening
/// casts do not, and neither does what also reads values of rows that are made from the matmul, as `z - max(z)` does.
pub fn gather_through_scalar(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let NodeOp::Gather { .. } = op else { return None };
    let NodeOp::Scalar(scalar) = r.op(inputs[0]).clone() else { return None };
    let operands = r.operands(inputs[0]).to_vec();
    let widens = |&operand: &Value| matches!(scalar, Scalar::Cast(to) if r.ty(operand).dtype.widens_to(to));
    let is_end = |operand: &Value| {
        matches!(r.op(*operand), NodeOp::Matmul(_))
            && !widens(operand)
            && !operands.iter().any(|other| other != operand && is_made_from(r, *other, *operand))
    };
    let more = ty.numel() > r.ty(inputs[0]).numel();
    if more || operands.iter().any(is_end) || n_paths(r, inputs[0], &mut HashMap::new()) > MOST_PATHS {
        return None;
    }
    let gathered = operands
        .into_iter()
        .map(|operand| {
            let ty = ty.with_dtype(r.ty(operand).dtype);
            match r.constant(operand) {
                Some(literal) => r.full(literal, ty),
                None => r.make(op.clone(), vec![operand, inputs[1]], ty),
            }
        })
        .collect();
    Some(r.make(NodeOp::Scalar(scalar), gathered, ty.clone()))
}

/// The most nodes between a matmul and a value of its rows.
const MOST_BETWEEN: usize = 16;

/// Whether a value is made from a matmul by a few scalars, views and reductions.
fn is_made_from(r: &Rewriter, value: Value, matmul: Value) -> bool {
    let mut open = vec![value];
    for at in 0..MOST_BETWEEN {
        let Some(&next) = open.get(at) else { return false };
        if next == matmul {
            return true;
        }
        if matches!(r.op(next), NodeOp::Scalar(_) | NodeOp::View(_) | NodeOp::Reduce { .. }) {
            let operands = r.operands(next).iter().copied();
            let new: Vec<Value> = operands.filter(|operand| !open.contains(operand)).collect();
            open.extend(new);
        }
    }
    false
}

/// The number of paths from a formula of scalars, views and gathers to its leaves, or a number above any limit.
fn n_paths(r: &Rewriter, formula: Value, known: &mut HashMap<Value, usize>) -> usize {
    if !matches!(r.op(formula), NodeOp::Scalar(_) | NodeOp::View(_) | NodeOp::Gather { .. }) {
        return 1;
    }
    if let Some(&n) = known.get(&formula) {
        return n;
    }
    let operands = r.operands(formula).to_vec();
    let n = operands.into_iter().fold(0, |n: usize, operand| n.saturating_add(n_paths(r, operand, known)));
    known.insert(formula, n);
    n
}

/// Indexing along a broadcast axis.
pub fn gather_of_repetition(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let &NodeOp::Gather { axis, batch } = op else { return None };
    let NodeOp::View(View::Broadcast { axes }) = r.op(inputs[0]).clone() else { return None };
    if axes.contains(&axis) {
        return None;
    }
    let n_index_axes = r.ty(inputs[1]).rank() - batch;
    // Axes after the indexed axis move by the number of axes that the indices add.
    let moved = axes.into_iter().map(|a| if a < axis { a } else { a + n_index_axes - 1 }).collect();
    let base = r.operands(inputs[0])[0];
    Some(r.make(NodeOp::View(View::Broadcast { axes: moved }), vec![base], ty.clone()))
}

/// Indexing of rows that are all the same one: it is indexed itself.
pub fn gather_of_repeated_rows(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let &NodeOp::Gather { axis, batch } = op else { return None };
    let NodeOp::View(View::Broadcast { axes }) = r.op(inputs[0]) else { return None };
    if batch == 0 || axis != batch || !axes.iter().copied().eq(batch..r.ty(inputs[0]).rank()) {
        return None;
    }
    let base = r.operands(inputs[0])[0];
    Some(r.make(NodeOp::Gather { axis: 0, batch: 0 }, vec![base, inputs[1]], ty.clone()))
}

/// A scatter with one index per row is a map: each element compares its coordinate with the row's index. A state keeps
/// its scatter, which writes the rows in place.
pub fn scatter_one_per_row(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let &NodeOp::Scatter { axis, batch, combine } = op else { return None };
    let [base, idx, updates] = *inputs else { return None };
    let is_carried = matches!(r.op(base), NodeOp::Input(InputKind::State | InputKind::Param));
    if is_carried || r.ty(idx).extents()[batch..].iter().product::<usize>() != 1 {
        return None;
    }
    let others: Vec<usize> = (0..ty.rank()).filter(|&a| a != axis).collect();
    let idx = lay_over(r, idx, &others[..batch], ty);
    let coordinate = r.make(NodeOp::Iota { axis }, vec![], r.ty(idx).clone());
    let hit = r.binary(Binary::Eq, idx, coordinate);
    let updates = lay_over(r, updates, &others, ty);
    let select = NodeOp::Scalar(Scalar::Select);
    match combine {
        Combine::Set => Some(r.make(select, vec![hit, updates, base], ty.clone())),
        Combine::Add => {
            let zero = r.full(Literal::Int(0), ty.clone());
            let added = r.make(select, vec![hit, updates, zero], ty.clone());
            Some(r.binary(Binary::Add, base, added))
        }
    }
}

/// Broadcasts `x`, whose axes are the axes `axes` of `ty`, to `ty`.
fn lay_over(r: &mut Rewriter, x: Value, axes: &[usize], ty: &Type) -> Value {
    let shape: Vec<Dim> = axes.iter().map(|&axis| ty.shape[axis].clone()).collect();
    let dtype = r.ty(x).dtype;
    let flat = r.make(NodeOp::View(View::Reshape), vec![x], Type { dtype, shape });
    r.make(NodeOp::View(View::Broadcast { axes: axes.to_vec() }), vec![flat], ty.with_dtype(dtype))
}

// ---- Forms that the fuser expects.

/// A reduction over axes of extent 1 only drops them.
pub fn reduce_of_one(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let NodeOp::Reduce { monoid, axes } = op else { return None };
    let extents = r.ty(inputs[0]).extents();
    if monoid.is_index() || axes.iter().any(|&axis| extents[axis] != 1) {
        return None;
    }
    Some(r.make(NodeOp::View(View::Reshape), vec![inputs[0]], ty.clone()))
}

/// Reduced axes that are not adjacent are moved to the end.
pub fn reduce_adjacent(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let NodeOp::Reduce { monoid, axes } = op else { return None };
    let (first, last) = (*axes.first()?, *axes.last()?);
    if last - first + 1 == axes.len() {
        return None;
    }
    let rank = r.ty(inputs[0]).rank();
    let mut perm: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
    let n_kept = perm.len();
    perm.extend(axes);
    let x = permuted(r, inputs[0], perm);
    let axes = (n_kept..rank).collect();
    Some(r.make(NodeOp::Reduce { monoid: *monoid, axes }, vec![x], ty.clone()))
}

/// Longer reductions to few results leave most of a device idle, so they take two steps.
const LONG: usize = 1 << 16;
const FEW_RESULTS: usize = 16;

/// A long reduction to few results first reduces parts. The order depends on the shape alone.
pub fn split_long_reduction(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let NodeOp::Reduce { monoid, axes } = op else { return None };
    let extents = r.ty(inputs[0]).extents();
    let row: usize = axes.iter().map(|&axis| extents[axis]).product();
    let (first, last) = (*axes.first()?, *axes.last()?);
    let is_trailing = last == extents.len() - 1 && axes.len() == last - first + 1;
    if monoid.is_index() || !is_trailing || row < LONG || ty.numel() > FEW_RESULTS {
        return None;
    }
    let parts = balanced_divisor(row)?;
    let dtype = r.ty(inputs[0]).dtype;
    let mut shape = ty.shape.clone();
    shape.extend([Dim::Fixed(parts), Dim::Fixed(row / parts)]);
    let x = r.make(NodeOp::View(View::Reshape), vec![inputs[0]], Type { dtype, shape: shape.clone() });
    let last = shape.len() - 1;
    shape.pop();
    let reduce = |axis: usize| NodeOp::Reduce { monoid: *monoid, axes: vec![axis] };
    let partial = r.make(reduce(last), vec![x], Type { dtype, shape });
    Some(r.make(reduce(last - 1), vec![partial], ty.clone()))
}

/// The divisor of `n` nearest to its square root, if it is a sensible number of parts.
fn balanced_divisor(n: usize) -> Option<usize> {
    (32..=n.isqrt()).rev().find(|&parts| n.is_multiple_of(parts))
}

/// Several axes of one role are joined into one. The axis along memory stays last, so that an operand that must be copied is
/// copied row by row, and equal operands of several matmuls have one copy.
pub fn matmul_canonical(r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    let NodeOp::Matmul(spec) = op else { return None };
    let (lhs_free, rhs_free) = (spec.lhs_free(r.ty(inputs[0]).rank()), spec.rhs_free(r.ty(inputs[1]).rank()));
    let roles = [spec.batch.len(), spec.contracted.len(), lhs_free.len(), rhs_free.len()];
    if roles.iter().all(|&n| n <= 1) {
        return None;
    }
    let left = |pairs: &[(usize, usize)]| pairs.iter().map(|pair| pair.0).collect::<Vec<_>>();
    let right = |pairs: &[(usize, usize)]| pairs.iter().map(|pair| pair.1).collect::<Vec<_>>();
    let (lhs, at_left) = grouped(r, inputs[0], &left(&spec.batch), &lhs_free, &left(&spec.contracted));
    let (rhs, at_right) = grouped(r, inputs[1], &right(&spec.batch), &rhs_free, &right(&spec.contracted));
    let first = !spec.batch.is_empty() as usize;
    let batch = if first == 1 { vec![(0, 0)] } else { vec![] };
    let canonical =
        MatmulSpec::new(batch, vec![(first + at_left, first + at_right)]).with_precision(spec.precision);
    let shape = canonical.shape(r.ty(lhs), r.ty(rhs));
    let product = r.make(NodeOp::Matmul(canonical), vec![lhs, rhs], Type { dtype: ty.dtype, shape });
    Some(r.make(NodeOp::View(View::Reshape), vec![product], ty.clone()))
}

/// `x` with its axes in three groups, each joined into one axis, and the place of the contracted axis behind the batch axis.
/// There is no batch axis if the first group is empty.
fn grouped(
    r: &mut Rewriter,
    x: Value,
    batch: &[usize],
    free: &[usize],
    contracted: &[usize],
) -> (Value, usize) {
    let extents = r.ty(x).extents();
    let is_free_last = along_memory(r, x).is_some_and(|axis| free.contains(&axis));
    let (rows, cols) = if is_free_last { (contracted, free) } else { (free, contracted) };
    let joined = |axes: &[usize]| axes.iter().map(|&axis| extents[axis]).product::<usize>();
    let mut shape = if batch.is_empty() { vec![] } else { vec![joined(batch)] };
    shape.extend([joined(rows), joined(cols)]);
    let x = permuted(r, x, [batch, rows, cols].concat());
    let ty = Type::new(r.ty(x).dtype, &shape);
    (r.make(NodeOp::View(View::Reshape), vec![x], ty), !is_free_last as usize)
}

/// The axis of a value, or of its permutation, whose elements are neighbours in the value that is permuted. None for windows,
/// whose elements are neighbours along two axes.
fn along_memory(r: &Rewriter, x: Value) -> Option<usize> {
    let extents = r.ty(x).extents();
    if is_of_windows(r, x) {
        return None;
    }
    let last = |axes: &mut dyn Iterator<Item = (usize, usize)>| {
        axes.filter(|&(axis, _)| extents[axis] > 1).max_by_key(|&(_, base)| base).map(|(axis, _)| axis)
    };
    match &r.graph.nodes[x.node].op {
        NodeOp::View(View::Permute { perm }) => last(&mut perm.iter().copied().enumerate()),
        _ => last(&mut (0..extents.len()).map(|axis| (axis, axis))),
    }
}

fn permuted(r: &mut Rewriter, x: Value, perm: Vec<usize>) -> Value {
    let ty = r.ty(x);
    let shape = perm.iter().map(|&axis| ty.shape[axis].clone()).collect();
    let ty = Type { dtype: ty.dtype, shape };
    r.make(NodeOp::View(View::Permute { perm }), vec![x], ty)
}

/// Whether a value moves the elements of overlapping windows.
fn is_of_windows(r: &Rewriter, mut value: Value) -> bool {
    while let NodeOp::View(view) = r.op(value) {
        if matches!(view, View::Window { .. }) {
            return true;
        }
        value = r.operands(value)[0];
    }
    false
}
