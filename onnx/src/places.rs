//! Elements of known values in other places: parts, repeats and other shapes.

use crate::known::{Known, MOST_ELEMENTS};
use crate::node::Node;

/// The extents to which two shapes broadcast.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
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
pub(crate) fn to_dims(x: &Known, dims: &[usize]) -> Option<Known> {
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
pub(crate) fn count(dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent)).filter(|&n| n <= MOST_ELEMENTS)
}

/// The same elements with these extents.
pub(crate) fn with_dims(x: &Known, dims: Vec<usize>) -> Option<Known> {
    (count(&dims)? == x.elements.len()).then(|| Known { dims, ..x.clone() })
}

/// The axis counted from the front.
pub(crate) fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// Positions along an axis of a value, in this order.
pub(crate) fn picked(x: &Known, axis: usize, positions: &[usize]) -> Option<Known> {
    let (inner, outer) = (count(&x.dims[axis + 1..])?, count(&x.dims[..axis])?);
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

/// `Concat(…)` along an axis.
pub(crate) fn concat(inputs: &[Option<&Known>], axis: i64) -> Option<Known> {
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
    let outer = count(&first.dims[..axis])?;
    let chunk = |part: &Known, at: usize| {
        let n = part.elements.len() / outer.max(1);
        part.elements[at * n..(at + 1) * n].to_vec()
    };
    let elements =
        (0..outer).flat_map(|at| parts.iter().map(move |part| chunk(part, at))).collect::<Vec<_>>();
    Some(Known { dtype: first.dtype, dims, elements: elements.concat() })
}

/// `Gather(x, indices)` along an axis.
pub(crate) fn gather(x: &Known, indices: &Known, axis: i64) -> Option<Known> {
    let axis = axis_of(axis, x.dims.len())?;
    let positions =
        indices.ints()?.into_iter().map(|at| axis_of(at, x.dims[axis])).collect::<Option<Vec<_>>>()?;
    let found = picked(x, axis, &positions)?;
    let dims = [&x.dims[..axis], &indices.dims, &x.dims[axis + 1..]].concat();
    with_dims(&found, dims)
}

/// `GatherND(x, indices)`: a part of x for each row of indices.
pub(crate) fn gather_nd(node: &Node, x: &Known, indices: &Known) -> Option<Known> {
    let (&depth, outer) = indices.dims.split_last()?;
    if node.int("batch_dims", 0) != 0 || depth > x.dims.len() {
        return None;
    }
    let (along, rest) = x.dims.split_at(depth);
    let (n, inner, places) = (count(outer)?, count(rest)?, indices.ints()?);
    count(&[n, inner])?;
    let row = |row: usize| {
        let place = places.get(row * depth..(row + 1) * depth)?;
        let at = along.iter().zip(place).try_fold(0usize, |at, (&extent, &place)| {
            at.checked_mul(extent)?.checked_add(axis_of(place, extent)?)
        })?;
        x.elements.get(at.checked_mul(inner)?..)?.get(..inner)
    };
    let rows = (0..n).map(row).collect::<Option<Vec<_>>>()?;
    Some(Known { dtype: x.dtype, dims: [outer, rest].concat(), elements: rows.concat() })
}

/// `Split(x, sizes)`: the parts along an axis.
pub(crate) fn split(node: &Node, x: &Known, sizes: Option<&Known>) -> Option<Vec<Known>> {
    let axis = axis_of(node.int("axis", 0), x.dims.len())?;
    let extent = count(&x.dims[axis..=axis])?;
    let n = node.outputs.len();
    let sizes = match (sizes, node.ints("split")) {
        (Some(sizes), _) => sizes.ints()?,
        (None, Some(sizes)) => sizes.to_vec(),
        (None, None) => {
            let size = extent.div_ceil(n.max(1));
            (0..n).map(|at| size.min(extent.saturating_sub(size * at)) as i64).collect()
        }
    };
    let mut start = 0usize;
    let part = |size: i64| {
        let end = start.checked_add(usize::try_from(size).ok()?).filter(|&end| end <= extent)?;
        let positions: Vec<usize> = (start..end).collect();
        start = end;
        picked(x, axis, &positions)
    };
    let parts = sizes.into_iter().map(part).collect::<Option<Vec<_>>>()?;
    (start == extent && parts.len() == n).then_some(parts)
}

/// `Slice(x, starts, ends, axes, steps)`
pub(crate) fn slice(node: &Node, inputs: &[Option<&Known>]) -> Option<Known> {
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
        count(&[range.count])?;
        let at = |i: usize| usize::try_from(range.start as i64 + i as i64 * range.step).ok();
        found = picked(&found, axis, &(0..range.count).map(at).collect::<Option<Vec<_>>>()?)?;
    }
    Some(found)
}

/// `Transpose(x)`
pub(crate) fn transposed(node: &Node, x: &Known) -> Option<Known> {
    let rank = x.dims.len();
    let axes: Vec<usize> = match node.ints("perm") {
        Some(axes) => axes.iter().map(|&axis| axis_of(axis, rank)).collect::<Option<_>>()?,
        None => (0..rank).rev().collect(),
    };
    if axes.len() != rank || !(0..rank).all(|axis| axes.contains(&axis)) {
        return None;
    }
    let dims: Vec<usize> = axes.iter().map(|&axis| x.dims[axis]).collect();
    // How far apart neighbours along each axis of the result are in the operand.
    let strides = axes.iter().map(|&axis| count(&x.dims[axis + 1..])).collect::<Option<Vec<_>>>()?;
    let place = |flat: usize| {
        let (mut rest, mut at) = (flat, 0);
        for (&extent, &stride) in dims.iter().zip(&strides).rev() {
            at += rest % extent * stride;
            rest /= extent;
        }
        x.elements.get(at).cloned()
    };
    let elements = (0..x.elements.len()).map(place).collect::<Option<_>>()?;
    Some(Known { dtype: x.dtype, dims, elements })
}

/// `Tile(x, repeats)`
pub(crate) fn tiled(x: &Known, repeats: &Known) -> Option<Known> {
    let repeats = repeats.ints().filter(|repeats| repeats.len() == x.dims.len())?;
    repeats.iter().enumerate().try_fold(x.clone(), |found, (axis, &n)| {
        let extent = found.dims[axis];
        let length = count(&[extent, usize::try_from(n).ok()?])?;
        picked(&found, axis, &(0..length).map(|at| at % extent).collect::<Vec<_>>())
    })
}

/// `Unsqueeze(x, axes)`
pub(crate) fn unsqueezed(x: &Known, axes: &[i64]) -> Option<Known> {
    let rank = x.dims.len() + axes.len();
    let axes = axes.iter().map(|&axis| axis_of(axis, rank)).collect::<Option<Vec<_>>>()?;
    let mut kept = x.dims.iter();
    let dims = (0..rank).map(|axis| if axes.contains(&axis) { Some(1) } else { kept.next().copied() });
    with_dims(x, dims.collect::<Option<_>>()?)
}

/// `Squeeze(x, axes)`
pub(crate) fn squeezed(x: &Known, axes: Option<Vec<i64>>) -> Option<Known> {
    let rank = x.dims.len();
    let axes = axes.map(|axes| axes.iter().map(|&axis| axis_of(axis, rank)).collect::<Option<Vec<_>>>());
    let is_kept = |axis: usize| match &axes {
        Some(Some(axes)) => !axes.contains(&axis),
        _ => x.dims[axis] != 1,
    };
    with_dims(x, (0..rank).filter(|&axis| is_kept(axis)).map(|axis| x.dims[axis]).collect())
}

/// `Reshape(x, shape)`
pub(crate) fn reshaped(x: &Known, shape: &Known) -> Option<Known> {
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

/// `Expand(x, shape)`
pub(crate) fn expanded(x: &Known, shape: &Known) -> Option<Known> {
    let wanted = shape.ints()?.into_iter().map(|n| usize::try_from(n).ok()).collect::<Option<Vec<_>>>()?;
    to_dims(x, &broadcast(&x.dims, &wanted)?)
}
