//! Checks of primitives: their types follow from those of their operands.

use super::body::check_scalar_dtypes;
use super::check::{Check, ensure, same_type};
use crate::ir::TypeIssue;
use crate::ir::{DType, Dim, InputKind, Literal, MatmulSpec, Monoid, NodeOp, Scalar, Type, View};
use std::collections::HashSet;

/// Checks operations with one result that are neither calls nor maps and have no regions.
pub(super) fn check_primitive(op: &NodeOp, inputs: &[Type], output: &Type) -> Check {
    match op {
        NodeOp::Input(InputKind::Step) => same_type(Type::scalar(DType::I32), output),
        NodeOp::Input(_) => Ok(()),
        NodeOp::Const(literal) => check_literal(literal, output.dtype),
        NodeOp::Scalar(scalar) => check_scalar(scalar, inputs, output),
        NodeOp::Iota { axis } => {
            check_axis(*axis, output)?;
            check_index(output)
        }
        NodeOp::Check(_) => {
            check_index(output)?;
            same_type(inputs[0].clone(), output)
        }
        NodeOp::View(view) => check_view(view, &inputs[0], output),
        NodeOp::Reduce { monoid, axes } => check_reduce(*monoid, axes, &inputs[0], output),
        NodeOp::Scan { monoid, axis } => {
            check_axis(*axis, output)?;
            check_monoid(*monoid, output.dtype)?;
            ensure(!monoid.is_index(), || format!("there is no scan by {}", monoid.name()))?;
            same_type(inputs[0].clone(), output)
        }
        NodeOp::Gather { axis, batch } => same_type(gathered(&inputs[0], &inputs[1], *axis, *batch)?, output),
        NodeOp::Scatter { axis, batch, .. } => {
            let updates = gathered(&inputs[0], &inputs[1], *axis, *batch)?;
            ensure(inputs[2] == updates, || format!("the updates are {}, not {updates}", inputs[2]))?;
            same_type(inputs[0].clone(), output)
        }
        NodeOp::Matmul(spec) => check_matmul(spec, &inputs[0], &inputs[1], output),
        NodeOp::Random { .. } => {
            for (what, ty) in ["step", "trip"].iter().zip(inputs) {
                ensure(*ty == Type::scalar(DType::I32), || format!("the {what} is {ty}"))?;
            }
            ensure(output.dtype == DType::U32, || format!("random bits are u32, not {}", output.dtype))
        }
        NodeOp::Call(_) | NodeOp::Map(_) | NodeOp::Loop { .. } | NodeOp::Cond => Ok(()),
    }
}

fn check_literal(literal: &Literal, dtype: DType) -> Check {
    let fits = literal.cast(dtype) == *literal;
    ensure(fits, || format!("{literal} is not a literal of {dtype}; {} is", literal.cast(dtype)))
}

fn check_scalar(scalar: &Scalar, inputs: &[Type], output: &Type) -> Check {
    let dtypes: Vec<DType> = inputs.iter().map(|ty| ty.dtype).collect();
    check_scalar_dtypes(scalar, &dtypes)?;
    for (i, input) in inputs.iter().enumerate() {
        let same = input.shape == output.shape;
        ensure(same, || format!("operand {i} is {input}, which is not of the result's shape"))?;
    }
    same_type(output.with_dtype(scalar.result(&dtypes)), output)
}

fn check_index(ty: &Type) -> Check {
    ensure(ty.dtype.is_int(), || format!("indices are integers, not {}", ty.dtype))
}

fn check_axis(axis: usize, ty: &Type) -> Check {
    ensure(axis < ty.rank(), || format!("{ty} has no axis {axis}"))
}

/// Checks that axes exist and ascend.
fn check_axes(axes: &[usize], ty: &Type) -> Check {
    axes.iter().try_for_each(|&axis| check_axis(axis, ty))?;
    ensure(axes.windows(2).all(|pair| pair[0] < pair[1]), || format!("axes {axes:?} do not ascend"))
}

fn check_view(view: &View, input: &Type, output: &Type) -> Check {
    ensure(input.dtype == output.dtype, || format!("a view of {input} cannot be {output}"))?;
    match view {
        View::Reshape => {
            ensure(size(input) == size(output), || format!("{input} and {output} differ in size"))
        }
        View::Permute { perm } => {
            let mut sorted = perm.clone();
            sorted.sort_unstable();
            let fits = sorted.into_iter().eq(0..input.rank());
            ensure(fits, || format!("{perm:?} does not permute the axes of {input}"))?;
            let shape = perm.iter().map(|&axis| input.shape[axis].clone()).collect();
            same_type(Type { dtype: input.dtype, shape }, output)
        }
        View::Broadcast { axes } => check_broadcast(axes, input, output),
        View::Slice { start, step } => check_slice(start, step, input, output),
        View::Pad { low, high, fill } => {
            check_literal(fill, input.dtype)?;
            check_pad(low, high, input, output)
        }
        View::Window { axis, step, dilation } => check_window(*axis, [*step, *dilation], input, output),
    }
}

fn check_window(axis: usize, [step, dilation]: [usize; 2], input: &Type, output: &Type) -> Check {
    check_axis(axis, input)?;
    ensure(output.rank() == input.rank() + 1, || format!("windows on {input} have one axis more"))?;
    let mut shape = output.shape.clone();
    let windows: Vec<Dim> = shape.splice(axis..=axis + 1, [input.shape[axis].clone()]).collect();
    same_type(input.clone(), &Type { dtype: output.dtype, shape })?;
    let extents = [&input.shape[axis], &windows[0], &windows[1]].map(Dim::fixed);
    let inside = match extents {
        [Some(n), Some(count), Some(size)] => {
            let last = count.saturating_sub(1) * step + size.saturating_sub(1) * dilation;
            step > 0 && dilation > 0 && (count == 0 || size > 0 && last < n)
        }
        _ => false,
    };
    ensure(inside, || format!("windows {output} leave {input} on axis {axis}"))
}

/// The number of elements: the product of the known extents, and the names of the others.
fn size(ty: &Type) -> (usize, Vec<&Dim>) {
    let mut named: Vec<&Dim> = ty.shape.iter().filter(|dim| dim.fixed().is_none()).collect();
    named.sort_by_key(|dim| dim.to_string());
    (ty.shape.iter().filter_map(Dim::fixed).fold(1, usize::saturating_mul), named)
}

fn check_broadcast(axes: &[usize], input: &Type, output: &Type) -> Check {
    check_axes(axes, output)?;
    ensure(axes.len() == input.rank(), || format!("{input} has {} axes", input.rank()))?;
    for (dim, &axis) in input.shape.iter().zip(axes) {
        let fits = *dim == Dim::Fixed(1) || *dim == output.shape[axis];
        ensure(fits, || format!("{input} does not broadcast to {output} along axes {axes:?}"))?;
    }
    Ok(())
}

fn check_slice(start: &[usize], step: &[i64], input: &Type, output: &Type) -> Check {
    let rank = input.rank();
    let fits = start.len() == rank && step.len() == rank && output.rank() == rank;
    ensure(fits, || format!("a slice of {input} has {rank} starts, steps and extents"))?;
    for axis in 0..rank {
        let inside = match (&input.shape[axis], &output.shape[axis]) {
            (Dim::Fixed(from), Dim::Fixed(count)) => stays_inside(*from, *count, start[axis], step[axis]),
            (from, count) => from == count && start[axis] == 0 && step[axis] == 1,
        };
        ensure(inside, || format!("the slice leaves {input} on axis {axis}"))?;
    }
    Ok(())
}

fn stays_inside(from: usize, count: usize, start: usize, step: i64) -> bool {
    let last = start as i128 + (count as i128 - 1) * step as i128;
    count == 0 || (start < from && (0..from as i128).contains(&last))
}

fn check_pad(low: &[usize], high: &[usize], input: &Type, output: &Type) -> Check {
    let rank = input.rank();
    let fits = low.len() == rank && high.len() == rank && output.rank() == rank;
    ensure(fits, || format!("{input} is padded on {rank} axes"))?;
    let padded = (0..rank).map(|axis| match &input.shape[axis] {
        Dim::Fixed(n) => Dim::Fixed(n.saturating_add(low[axis]).saturating_add(high[axis])),
        named => named.clone(),
    });
    let expected = Type { dtype: input.dtype, shape: padded.collect() };
    let known =
        (0..rank).all(|axis| input.shape[axis].fixed().is_some() || (low[axis], high[axis]) == (0, 0));
    ensure(known, || format!("{input} is padded on an axis of unknown extent"))?;
    same_type(expected, output)
}

fn check_monoid(monoid: Monoid, dtype: DType) -> Check {
    let takes = dtype != DType::Bool || !matches!(monoid, Monoid::Sum | Monoid::Prod);
    ensure(takes, || format!("`{}` does not take {dtype}", monoid.name()))
}

fn check_reduce(monoid: Monoid, axes: &[usize], input: &Type, output: &Type) -> Check {
    check_axes(axes, input)?;
    check_monoid(monoid, input.dtype)?;
    let one_axis = axes.len() == 1 || !monoid.is_index();
    ensure(one_axis, || format!("`{}` goes along one axis, not {}", monoid.name(), axes.len()))?;
    let kept = (0..input.rank()).filter(|axis| !axes.contains(axis));
    let shape = kept.map(|axis| input.shape[axis].clone()).collect();
    let dtype = if monoid.is_index() { DType::I32 } else { input.dtype };
    same_type(Type { dtype, shape }, output)?;
    let is_empty = axes.iter().any(|&axis| input.shape[axis] == Dim::Fixed(0));
    let has_neutral = matches!(monoid, Monoid::Sum | Monoid::Prod) || output.shape.contains(&Dim::Fixed(0));
    ensure(!is_empty || has_neutral, || format!("`{}` of nothing has no value", monoid.name()))
}

/// The type of a gather's result and a scatter's updates: `[B…, P…, I…, Q…]`.
fn gathered(src: &Type, idx: &Type, axis: usize, batch: usize) -> Result<Type, TypeIssue> {
    check_axis(axis, src)?;
    check_index(idx)?;
    ensure(batch <= axis && batch <= idx.rank() && src.shape[..batch] == idx.shape[..batch], || {
        format!("{src} and {idx} do not go along in their first axes, batch={batch} before axis={axis}")
    })?;
    let shape = src.shape[..axis].iter().chain(&idx.shape[batch..]).chain(&src.shape[axis + 1..]);
    Ok(Type { dtype: src.dtype, shape: shape.cloned().collect() })
}

fn check_matmul(spec: &MatmulSpec, lhs: &Type, rhs: &Type, output: &Type) -> Check {
    let pairs = || spec.batch.iter().chain(&spec.contracted);
    check_distinct(pairs().map(|pair| pair.0), lhs)?;
    check_distinct(pairs().map(|pair| pair.1), rhs)?;
    for &(l, r) in pairs() {
        let agree = lhs.shape[l] == rhs.shape[r];
        ensure(agree, || format!("axis {l} of {lhs} and axis {r} of {rhs} differ in extent"))?;
    }
    let dtype = lhs.dtype;
    ensure(dtype == rhs.dtype && dtype != DType::Bool, || format!("no matmul of {lhs} with {rhs}"))?;
    // Sums of small floats may keep the accumulator type.
    let dtype = if output.dtype == dtype.accumulator() { output.dtype } else { dtype };
    same_type(Type { dtype, shape: spec.shape(lhs, rhs) }, output)
}

fn check_distinct(axes: impl Iterator<Item = usize>, ty: &Type) -> Check {
    let mut known = HashSet::new();
    for axis in axes {
        check_axis(axis, ty)?;
        ensure(known.insert(axis), || format!("axis {axis} of {ty} is named twice"))?;
    }
    Ok(())
}
