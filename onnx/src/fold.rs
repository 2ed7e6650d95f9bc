//! Ops on known values. They compute shapes; ops on data are left to the engine.

use engine_core::ir::DType;

use crate::known::{Known, MOST_ELEMENTS, Number};
use crate::node::{Attribute, Node};
use crate::tensor::dtype_from;

/// The value of a node whose operands are known; nothing if it is not an op on shapes, or depends on open extents.
pub(crate) fn fold(node: &Node, inputs: &[Option<&Known>]) -> Option<Known> {
    if !node.domain.is_empty() {
        return None;
    }
    let given = |at: usize| inputs.get(at).copied().flatten();
    let x = given(0)?;
    let axes = || given(1).and_then(Known::ints).or_else(|| node.ints("axes").map(<[i64]>::to_vec));
    match node.op.as_str() {
        "Identity" => Some(x.clone()),
        "Add" => zip(x, given(1)?, x.dtype, Number::plus),
        "Sub" => zip(x, given(1)?, x.dtype, Number::minus),
        "Mul" => zip(x, given(1)?, x.dtype, Number::times),
        "Div" => zip(x, given(1)?, x.dtype, Number::over),
        "Mod" => zip(x, given(1)?, x.dtype, |a, b| modulo(node.int("fmod", 0) != 0, a, b)),
        "Equal" => zip(x, given(1)?, DType::Bool, |a, b| a.equals(b).map(Number::Bool)),
        "Less" => zip(x, given(1)?, DType::Bool, |a, b| a.below(b).map(Number::Bool)),
        "Greater" => zip(x, given(1)?, DType::Bool, |a, b| b.below(a).map(Number::Bool)),
        "LessOrEqual" => zip(x, given(1)?, DType::Bool, |a, b| b.below(a).map(|is| Number::Bool(!is))),
        "GreaterOrEqual" => zip(x, given(1)?, DType::Bool, |a, b| a.below(b).map(|is| Number::Bool(!is))),
        "And" => zip(x, given(1)?, DType::Bool, |a, b| Some(Number::Bool(a.int()? != 0 && b.int()? != 0))),
        "Or" => zip(x, given(1)?, DType::Bool, |a, b| Some(Number::Bool(a.int()? != 0 || b.int()? != 0))),
        "Min" | "Max" => extreme(node.op == "Max", inputs),
        "Not" => map(x, x.dtype, |a| Some(Number::Bool(a.int()? == 0))),
        "Neg" => map(x, x.dtype, |a| match a {
            Number::Float(value) => Some(Number::Float(-value)),
            other => Some(Number::Int(other.int()?.checked_neg()?)),
        }),
        "Relu" => map(x, x.dtype, |a| match a {
            Number::Float(value) => Some(Number::Float(value.max(0.0))),
            other => Some(Number::Int(other.int()?.max(0))),
        }),
        "Sqrt" => map(x, x.dtype, |a| real(a, f64::sqrt)),
        "Floor" => map(x, x.dtype, |a| real(a, f64::floor)),
        "Ceil" => map(x, x.dtype, |a| real(a, f64::ceil)),
        "Reciprocal" => map(x, x.dtype, |a| real(a, f64::recip)),
        "Cast" => cast(x, dtype_from(node.int("to", 0))?),
        "Where" => select(x, given(1)?, given(2)?),
        "Concat" => concat(inputs, node.int("axis", 0)),
        "Gather" => gather(x, given(1)?, node.int("axis", 0)),
        "Slice" => slice(node, inputs),
        "Unsqueeze" => unsqueezed(x, &axes()?),
        "Squeeze" => squeezed(x, axes()),
        "Reshape" => reshaped(x, given(1)?),
        "Flatten" if x.dims.len() == 1 && node.int("axis", 1) == 0 => with_dims(x, vec![1, x.elements.len()]),
        "Expand" => expanded(x, given(1)?),
        "Range" => range(x, given(1)?, given(2)?),
        "ReduceProd" | "ReduceSum" | "ReduceMax" | "ReduceMin" => reduce(node, x, axes()),
        "Size" => Some(Known {
            dtype: DType::I64,
            dims: vec![],
            elements: vec![Number::Int(x.elements.len() as i64)],
        }),
        "ConstantOfShape" => filled(node, x),
        _ => None,
    }
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

fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let extent =
        |dims: &[usize], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis]);
    let joined = (0..rank).map(|axis| match (extent(a, axis), extent(b, axis)) {
        (1, n) | (n, 1) => Some(n),
        (n, m) => (n == m).then_some(n),
    });
    joined.collect()
}

/// A value repeated to these extents, which it broadcasts to.
fn to_dims(x: &Known, dims: &[usize]) -> Option<Known> {
    let n = count(dims)?;
    let skipped = dims.len().checked_sub(x.dims.len())?;
    let place = |flat: usize| {
        let (mut rest, mut stride, mut at) = (flat, 1, 0);
        for axis in (0..dims.len()).rev() {
            let position = rest % dims[axis];
            rest /= dims[axis];
            if axis >= skipped {
                let own = x.dims[axis - skipped];
                at += if own == 1 { 0 } else { position * stride };
                stride *= own;
            }
        }
        x.elements.get(at).cloned()
    };
    Some(Known { dtype: x.dtype, dims: dims.to_vec(), elements: (0..n).map(place).collect::<Option<_>>()? })
}

/// The number of elements, if it is small.
fn count(dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent)).filter(|&n| n <= MOST_ELEMENTS)
}

fn with_dims(x: &Known, dims: Vec<usize>) -> Option<Known> {
    (count(&dims)? == x.elements.len()).then(|| Known { dims, ..x.clone() })
}

fn extreme(is_max: bool, inputs: &[Option<&Known>]) -> Option<Known> {
    let known = inputs.iter().copied().collect::<Option<Vec<_>>>()?;
    let first = (*known.first()?).clone();
    known[1..].iter().try_fold(first, |found, next| {
        zip(&found, next, found.dtype, |a, b| Some(if a.below(b)? == is_max { b.clone() } else { a.clone() }))
    })
}

fn select(condition: &Known, a: &Known, b: &Known) -> Option<Known> {
    let dims = broadcast(&broadcast(&condition.dims, &a.dims)?, &b.dims)?;
    let [condition, a, b] = [condition, a, b].map(|x| to_dims(x, &dims));
    let (condition, a, b) = (condition?, a?, b?);
    let pairs = condition.elements.iter().zip(a.elements.iter().zip(&b.elements));
    let chosen = pairs.map(|(c, (a, b))| Some(if c.int()? != 0 { a.clone() } else { b.clone() }));
    Some(Known { dtype: a.dtype, dims, elements: chosen.collect::<Option<_>>()? })
}

fn cast(x: &Known, dtype: DType) -> Option<Known> {
    map(x, dtype, |number| match number {
        Number::Dim(_) if dtype.is_int() => Some(number.clone()),
        Number::Dim(_) => None,
        _ if dtype.is_float() => number.float().map(Number::Float),
        _ if dtype == DType::Bool => Some(Number::Bool(number.float()? != 0.0)),
        Number::Float(value) => Some(Number::Int(*value as i64)),
        other => Some(Number::Int(other.int()?)),
    })
}

/// The axis counted from the front.
fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// Positions along an axis of a value, in this order.
fn picked(x: &Known, axis: usize, positions: &[usize]) -> Option<Known> {
    let inner: usize = x.dims[axis + 1..].iter().product();
    let outer: usize = x.dims[..axis].iter().product();
    let mut dims = x.dims.clone();
    dims[axis] = positions.len();
    count(&dims)?;
    let row = |outer: usize, position: usize| {
        let start = (outer * x.dims[axis] + position) * inner;
        x.elements.get(start..start + inner)
    };
    let rows = (0..outer).flat_map(|outer| positions.iter().map(move |&position| (outer, position)));
    let rows = rows.map(|(outer, position)| row(outer, position)).collect::<Option<Vec<_>>>()?;
    Some(Known { dtype: x.dtype, dims, elements: rows.concat() })
}

fn concat(inputs: &[Option<&Known>], axis: i64) -> Option<Known> {
    let parts = inputs.iter().copied().collect::<Option<Vec<_>>>()?;
    let first = parts.first()?;
    let axis = axis_of(axis, first.dims.len())?;
    let fits = |part: &&Known| {
        part.dims.len() == first.dims.len()
            && part.dims[..axis] == first.dims[..axis]
            && part.dims[axis + 1..] == first.dims[axis + 1..]
    };
    if !parts.iter().all(fits) {
        return None;
    }
    let mut dims = first.dims.clone();
    dims[axis] = parts.iter().map(|part| part.dims[axis]).sum();
    count(&dims)?;
    let outer: usize = first.dims[..axis].iter().product();
    let chunk = |part: &Known, at: usize| {
        let n = part.elements.len() / outer.max(1);
        part.elements[at * n..(at + 1) * n].to_vec()
    };
    let elements =
        (0..outer).flat_map(|at| parts.iter().map(move |part| chunk(part, at))).collect::<Vec<_>>();
    Some(Known { dtype: first.dtype, dims, elements: elements.concat() })
}

fn gather(x: &Known, indices: &Known, axis: i64) -> Option<Known> {
    let axis = axis_of(axis, x.dims.len())?;
    let positions =
        indices.ints()?.into_iter().map(|at| axis_of(at, x.dims[axis])).collect::<Option<Vec<_>>>()?;
    let found = picked(x, axis, &positions)?;
    let dims = [&x.dims[..axis], &indices.dims, &x.dims[axis + 1..]].concat();
    with_dims(&found, dims)
}

fn slice(node: &Node, inputs: &[Option<&Known>]) -> Option<Known> {
    let x = (*inputs.first()?)?;
    let list = |at: usize, name: &str| match inputs.get(at) {
        Some(known) => known.and_then(Known::ints),
        None => node.ints(name).map(<[i64]>::to_vec),
    };
    let (starts, ends) = (list(1, "starts")?, list(2, "ends")?);
    let axes = list(3, "axes").unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = list(4, "steps").unwrap_or_else(|| vec![1; starts.len()]);
    let mut found = x.clone();
    for (((start, end), axis), step) in starts.iter().zip(ends).zip(axes).zip(steps) {
        let axis = axis_of(axis, found.dims.len())?;
        let range = engine_core::op::Range::of(found.dims[axis], Some(*start), Some(end), step);
        let range = range.ok()?;
        let at = |i: usize| usize::try_from(range.start as i64 + i as i64 * range.step).ok();
        found = picked(&found, axis, &(0..range.count).map(at).collect::<Option<Vec<_>>>()?)?;
    }
    Some(found)
}

fn unsqueezed(x: &Known, axes: &[i64]) -> Option<Known> {
    let rank = x.dims.len() + axes.len();
    let axes = axes.iter().map(|&axis| axis_of(axis, rank)).collect::<Option<Vec<_>>>()?;
    let mut kept = x.dims.iter();
    let dims = (0..rank).map(|axis| if axes.contains(&axis) { Some(1) } else { kept.next().copied() });
    with_dims(x, dims.collect::<Option<_>>()?)
}

fn squeezed(x: &Known, axes: Option<Vec<i64>>) -> Option<Known> {
    let rank = x.dims.len();
    let axes = axes.map(|axes| axes.iter().map(|&axis| axis_of(axis, rank)).collect::<Option<Vec<_>>>());
    let is_kept = |axis: usize| match &axes {
        Some(Some(axes)) => !axes.contains(&axis),
        _ => x.dims[axis] != 1,
    };
    with_dims(x, (0..rank).filter(|&axis| is_kept(axis)).map(|axis| x.dims[axis]).collect())
}

fn reshaped(x: &Known, shape: &Known) -> Option<Known> {
    let wanted = shape.ints()?;
    let mut dims: Vec<usize> = vec![];
    for (axis, &n) in wanted.iter().enumerate() {
        dims.push(match n {
            0 => *x.dims.get(axis)?,
            -1 => 1,
            n => usize::try_from(n).ok()?,
        });
    }
    if let Some(open) = wanted.iter().position(|&n| n == -1) {
        dims[open] = x.elements.len().checked_div(count(&dims)?)?;
    }
    with_dims(x, dims)
}

fn expanded(x: &Known, shape: &Known) -> Option<Known> {
    let wanted = shape.ints()?.into_iter().map(|n| usize::try_from(n).ok()).collect::<Option<Vec<_>>>()?;
    to_dims(x, &broadcast(&x.dims, &wanted)?)
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
    let covers_all = axes.is_none_or(|axes| axes.len() == x.dims.len() || axes.is_empty());
    if !covers_all || x.elements.is_empty() {
        return None;
    }
    let join = |a: &Number, b: &Number| match node.op.as_str() {
        "ReduceProd" => a.times(b),
        "ReduceSum" => a.plus(b),
        "ReduceMax" => Some(if a.below(b)? { b.clone() } else { a.clone() }),
        _ => Some(if b.below(a)? { b.clone() } else { a.clone() }),
    };
    let found = x.elements[1..].iter().try_fold(x.elements[0].clone(), |found, next| join(&found, next))?;
    let rank = if node.int("keepdims", 1) != 0 { x.dims.len() } else { 0 };
    Some(Known { dtype: x.dtype, dims: vec![1; rank], elements: vec![found] })
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
