//! Ops on known values. They compute shapes; ops on data are left to the engine.

use std::cmp::Reverse;

use engine_core::ir::DType;

use crate::known::{Known, Number};
use crate::node::{Attribute, Node};
use crate::places::{
    axis_of, broadcast, concat, count, expanded, gather, gather_nd, picked, reshaped, slice, split, squeezed,
    tiled, to_dims, transposed, unsqueezed, with_dims,
};
use crate::tensor::dtype_from;

/// The results of a node whose operands are known; nothing if it is not an op on shapes, or depends on open extents.
pub(crate) fn fold(node: &Node, inputs: &[Option<&Known>]) -> Option<Vec<Known>> {
    let is_open = |(name, known): (&String, &Option<&Known>)| !name.is_empty() && known.is_none();
    if !node.domain.is_empty() || node.inputs.iter().zip(inputs).any(is_open) {
        return None;
    }
    let second = inputs.get(1).copied().flatten();
    let results = match node.op.as_str() {
        "Split" => split(node, (*inputs.first()?)?, second)?,
        "TopK" => outermost_first(node, (*inputs.first()?)?, second)?,
        _ => vec![computed(node, inputs)?],
    };
    results.into_iter().map(|Known { dtype, dims, elements }| Known::new(dtype, dims, elements)).collect()
}

/// The one result of a node, with numbers that are not yet brought to the element type.
fn computed(node: &Node, inputs: &[Option<&Known>]) -> Option<Known> {
    let given = |at: usize| inputs.get(at).copied().flatten();
    let x = given(0)?;
    let axes = || given(1).and_then(Known::ints).or_else(|| node.ints("axes").map(<[i64]>::to_vec));
    match node.op.as_str() {
        "Identity" => Some(x.clone()),
        "Cast" => Some(Known { dtype: dtype_from(node.int("to", 0))?, ..x.clone() }),
        "Where" => select(x, given(1)?, given(2)?),
        "Concat" => concat(inputs, node.int("axis", 0)),
        "Gather" => gather(x, given(1)?, node.int("axis", 0)),
        "GatherND" => gather_nd(node, x, given(1)?),
        "Slice" => slice(node, inputs),
        "Transpose" => transposed(node, x),
        "Unsqueeze" => unsqueezed(x, &axes()?),
        "Squeeze" => squeezed(x, axes()),
        "Reshape" => reshaped(x, given(1)?),
        "Flatten" if x.dims.len() == 1 && node.int("axis", 1) == 0 => with_dims(x, vec![1, x.elements.len()]),
        "Expand" => expanded(x, given(1)?),
        "Tile" => tiled(x, given(1)?),
        "Range" => range(x, given(1)?, given(2)?),
        "ReduceProd" | "ReduceSum" | "ReduceMax" | "ReduceMin" => reduce(node, x, axes()),
        "CumSum" => running_sum(node, x, given(1)?),
        "Size" => Some(Known {
            dtype: DType::I64,
            dims: vec![],
            elements: vec![Number::Int(x.elements.len() as i64)],
        }),
        "ConstantOfShape" => filled(node, x),
        _ => elementwise(node, x, inputs),
    }
}

/// An op on each element by itself.
fn elementwise(node: &Node, x: &Known, inputs: &[Option<&Known>]) -> Option<Known> {
    let given = |at: usize| inputs.get(at).copied().flatten();
    match node.op.as_str() {
        "Add" => zip(x, given(1)?, x.dtype, Number::plus),
        "Sub" => zip(x, given(1)?, x.dtype, Number::minus),
        "Mul" => zip(x, given(1)?, x.dtype, Number::times),
        "Div" => zip(x, given(1)?, x.dtype, Number::over),
        "Mod" => zip(x, given(1)?, x.dtype, |a, b| modulo(node.int("fmod", 0) != 0, a, b)),
        "Pow" => zip(x, given(1)?, x.dtype, power),
        "Equal" => zip(x, given(1)?, DType::Bool, |a, b| a.equals(b).map(Number::Bool)),
        "Less" => zip(x, given(1)?, DType::Bool, |a, b| a.below(b).map(Number::Bool)),
        "Greater" => zip(x, given(1)?, DType::Bool, |a, b| b.below(a).map(Number::Bool)),
        "LessOrEqual" => zip(x, given(1)?, DType::Bool, |a, b| at_most(a, b).map(Number::Bool)),
        "GreaterOrEqual" => zip(x, given(1)?, DType::Bool, |a, b| at_most(b, a).map(Number::Bool)),
        "And" => zip(x, given(1)?, DType::Bool, |a, b| Some(Number::Bool(a.int()? != 0 && b.int()? != 0))),
        "Or" => zip(x, given(1)?, DType::Bool, |a, b| Some(Number::Bool(a.int()? != 0 || b.int()? != 0))),
        "Min" | "Max" => extreme(node.op == "Max", inputs),
        "Clip" => clipped(node, x, [given(1), given(2)]),
        "Not" => map(x, x.dtype, |a| Some(Number::Bool(a.int()? == 0))),
        "Neg" => map(x, x.dtype, |a| match a {
            Number::Float(value) => Some(Number::Float(-value)),
            other => Some(Number::Int(other.int()?.checked_neg()?)),
        }),
        "Relu" => map(x, x.dtype, |a| match a {
            Number::Float(value) => Some(Number::Float(value.max(0.0))),
            other => Some(Number::Int(other.int()?.max(0))),
        }),
        "Abs" => map(x, x.dtype, |a| match a {
            Number::Float(value) => Some(Number::Float(value.abs())),
            other => Some(Number::Int(other.int()?.checked_abs()?)),
        }),
        "Sign" => map(x, x.dtype, |a| match a {
            Number::Float(value) if *value == 0.0 => Some(a.clone()),
            Number::Float(value) => Some(Number::Float(value.signum())),
            other => Some(Number::Int(other.int()?.signum())),
        }),
        "Exp" => map(x, x.dtype, |a| real(a, f64::exp)),
        "Log" => map(x, x.dtype, |a| real(a, f64::ln)),
        "Round" => map(x, x.dtype, |a| real(a, f64::round_ties_even)),
        "Sqrt" => map(x, x.dtype, |a| real(a, f64::sqrt)),
        "Floor" => map(x, x.dtype, |a| real(a, f64::floor)),
        "Ceil" => map(x, x.dtype, |a| real(a, f64::ceil)),
        "Reciprocal" => map(x, x.dtype, |a| real(a, f64::recip)),
        _ => None,
    }
}

/// A power of the numbers. That of integers stays one.
fn power(base: &Number, exponent: &Number) -> Option<Number> {
    match (base, exponent) {
        (Number::Int(a), Number::Int(b)) => a.checked_pow(u32::try_from(*b).ok()?).map(Number::Int),
        _ => Some(Number::Float(base.float()?.powf(exponent.float()?))),
    }
}

/// `Clip(x, min, max)`; up to opset 10, attributes are the bounds.
fn clipped(node: &Node, x: &Known, [low, high]: [Option<&Known>; 2]) -> Option<Known> {
    let is_number = |bound: &Known| bound.dims.len() <= x.dims.len() && bound.single().is_some();
    if !node.attributes.is_empty() || ![low, high].into_iter().flatten().all(is_number) {
        return None;
    }
    let limited = |x: Known, bound: Option<&Known>, is_max: bool| match bound {
        Some(bound) => zip(&x, bound, x.dtype, |a, b| outermost(is_max, a, b)),
        None => Some(x),
    };
    limited(limited(x.clone(), low, true)?, high, false)
}

fn real(number: &Number, function: fn(f64) -> f64) -> Option<Number> {
    match number {
        Number::Float(x) => Some(Number::Float(function(*x))),
        _ => None,
    }
}

/// The remainder with the sign of the dividend if `is_c`, as C's `fmod`, else with that of the divisor.
fn modulo(is_c: bool, a: &Number, b: &Number) -> Option<Number> {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) if is_c => a.checked_rem(*b).map(Number::Int),
        (Number::Int(a), Number::Int(b)) => {
            let rest = a.checked_rem(*b)?;
            Some(Number::Int(if rest != 0 && (rest < 0) != (*b < 0) { rest + b } else { rest }))
        }
        _ => None,
    }
}

fn map(x: &Known, dtype: DType, function: impl Fn(&Number) -> Option<Number>) -> Option<Known> {
    Some(Known {
        dtype,
        dims: x.dims.clone(),
        elements: x.elements.iter().map(function).collect::<Option<_>>()?,
    })
}

fn zip(
    a: &Known,
    b: &Known,
    dtype: DType,
    function: impl Fn(&Number, &Number) -> Option<Number>,
) -> Option<Known> {
    let dims = broadcast(&a.dims, &b.dims)?;
    let (a, b) = (to_dims(a, &dims)?, to_dims(b, &dims)?);
    let elements = a.elements.iter().zip(&b.elements).map(|(a, b)| function(a, b)).collect::<Option<_>>()?;
    Some(Known { dtype, dims, elements })
}

fn extreme(is_max: bool, inputs: &[Option<&Known>]) -> Option<Known> {
    let known = inputs.iter().copied().collect::<Option<Vec<_>>>()?;
    let first = (*known.first()?).clone();
    known[1..]
        .iter()
        .try_fold(first, |found, next| zip(&found, next, found.dtype, |a, b| outermost(is_max, a, b)))
}

/// The larger or the smaller of two numbers, if that is certain. NaN wins.
fn outermost(is_max: bool, a: &Number, b: &Number) -> Option<Number> {
    let is_nan = |x: &Number| matches!(x, Number::Float(x) if x.is_nan());
    let is_second = match (is_nan(a), is_nan(b)) {
        (false, false) => {
            let rises = a.below(b).map(|is| is == is_max);
            rises.or_else(|| b.below(a).map(|is| is != is_max))?
        }
        (_, is_second) => is_second,
    };
    Some(if is_second { b.clone() } else { a.clone() })
}

/// `a <= b`, if it is certain. Nothing compares with NaN.
fn at_most(a: &Number, b: &Number) -> Option<bool> {
    match (a, b) {
        (Number::Float(a), Number::Float(b)) => Some(a <= b),
        _ => b.below(a).map(|is| !is),
    }
}

fn select(condition: &Known, a: &Known, b: &Known) -> Option<Known> {
    let dims = broadcast(&broadcast(&condition.dims, &a.dims)?, &b.dims)?;
    let [condition, a, b] = [condition, a, b].map(|x| to_dims(x, &dims));
    let (condition, a, b) = (condition?, a?, b?);
    let pairs = condition.elements.iter().zip(a.elements.iter().zip(&b.elements));
    let chosen = pairs.map(|(c, (a, b))| Some(if c.int()? != 0 { a.clone() } else { b.clone() }));
    Some(Known { dtype: a.dtype, dims, elements: chosen.collect::<Option<_>>()? })
}

/// `TopK(x, k)` of a vector of whole numbers: its largest or smallest elements in order, and their places.
fn outermost_first(node: &Node, x: &Known, k: Option<&Known>) -> Option<Vec<Known>> {
    let keys = x.ints()?;
    let k = k.map_or(Some(node.int("k", -1)), |k| k.single()?.int())?;
    let k = usize::try_from(k).ok().filter(|&k| x.dims.len() == 1 && k <= keys.len())?;
    let mut order: Vec<usize> = (0..keys.len()).collect();
    match node.int("largest", 1) != 0 {
        true => order.sort_by_key(|&at| Reverse(keys[at])),
        false => order.sort_by_key(|&at| keys[at]),
    }
    order.truncate(k);
    let places = Number::vector(order.iter().map(|&at| at as i64));
    Some(vec![picked(x, 0, &order)?, Known { dtype: DType::I64, dims: vec![k], elements: places }])
}

fn range(start: &Known, limit: &Known, delta: &Known) -> Option<Known> {
    let [start, limit, step] = [start, limit, delta].map(|known| known.single().and_then(Number::int));
    let (start, limit, step) = (start?, limit?, step.filter(|&step| step != 0)?);
    let span = i128::from(limit) - i128::from(start);
    let n = usize::try_from(span.unsigned_abs().div_ceil(u128::from(step.unsigned_abs()))).ok()?;
    let n = if (span > 0) == (step > 0) { n } else { 0 };
    count(&[n])?;
    let elements = (0..n as i64).map(|i| Number::Int(start + i * step)).collect();
    Some(Known { dtype: delta.dtype, dims: vec![n], elements })
}

fn reduce(node: &Node, x: &Known, axes: Option<Vec<i64>>) -> Option<Known> {
    let rank = x.dims.len();
    let axes = axes.unwrap_or_default();
    if axes.is_empty() && node.int("noop_with_empty_axes", 0) != 0 {
        return Some(x.clone());
    }
    let axes = axes.into_iter().map(|axis| axis_of(axis, rank)).collect::<Option<Vec<_>>>()?;
    let covers_all = axes.is_empty() || (0..rank).all(|axis| axes.contains(&axis));
    if !covers_all || x.elements.is_empty() {
        return None;
    }
    let join = |a: &Number, b: &Number| match node.op.as_str() {
        "ReduceProd" => a.times(b),
        "ReduceSum" => a.plus(b),
        op => outermost(op == "ReduceMax", a, b),
    };
    let found = x.elements[1..].iter().try_fold(x.elements[0].clone(), |found, next| join(&found, next))?;
    let rank = if node.int("keepdims", 1) != 0 { rank } else { 0 };
    Some(Known { dtype: x.dtype, dims: vec![1; rank], elements: vec![found] })
}

/// `CumSum(x, axis)`
fn running_sum(node: &Node, x: &Known, axis: &Known) -> Option<Known> {
    let axis = axis_of(axis.single()?.int()?, x.dims.len())?;
    let (n, inner) = (x.dims[axis], count(&x.dims[axis + 1..])?);
    let [is_exclusive, is_reverse] = ["exclusive", "reverse"].map(|name| node.int(name, 0) != 0);
    let mut elements = x.elements.clone();
    for start in (0..elements.len()).filter(|at| at / inner % n == 0) {
        let mut sum = Number::Int(0).in_type(x.dtype)?;
        for step in 0..n {
            let at = start + inner * if is_reverse { n - 1 - step } else { step };
            let next = sum.plus(x.elements.get(at)?)?.in_type(x.dtype)?;
            elements[at] = if is_exclusive { sum } else { next.clone() };
            sum = next;
        }
    }
    Some(Known { dtype: x.dtype, dims: x.dims.clone(), elements })
}

fn filled(node: &Node, shape: &Known) -> Option<Known> {
    let dims = shape.ints()?.into_iter().map(|n| usize::try_from(n).ok()).collect::<Option<Vec<_>>>()?;
    let value = match node.attributes.get("value") {
        Some(Attribute::Tensor(stored)) => Known::of(stored)?,
        _ => Known { dtype: DType::F32, dims: vec![1], elements: vec![Number::Float(0.0)] },
    };
    let elements = vec![value.single()?.clone(); count(&dims)?];
    // Floats are data, which the engine fills.
    (!value.dtype.is_float()).then_some(Known { dtype: value.dtype, dims, elements })
}
