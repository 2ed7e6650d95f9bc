//! Functions of the table that compute shapes from the extents of operands.

use engine_core::ir::Dim;

use crate::known::Number;

/// An extent that follows from the others.
pub(crate) fn open() -> Number {
    Number::Dim(Dim::Named("_".into()))
}

/// The axis counted from the front; an axis behind the last is one only where `end` allows it.
pub(crate) fn axis(axis: i64, rank: usize, end: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank + end)
}

fn axes(given: &[Number], rank: usize) -> Option<Vec<usize>> {
    given.iter().map(|n| axis(n.int()?, rank, 0)).collect()
}

fn numbers<'d>(dims: impl IntoIterator<Item = &'d Dim>) -> Vec<Number> {
    dims.into_iter().map(Number::of).collect()
}

/// The extents with further axes of extent 1 at these places.
pub(crate) fn unsqueezed(shape: &[Dim], given: &[Number]) -> Option<Vec<Number>> {
    let rank = shape.len() + given.len();
    let places = axes(given, rank)?;
    let mut rest = shape.iter();
    let extents = (0..rank).map(|axis| match places.contains(&axis) {
        true => Some(Number::Int(1)),
        false => rest.next().map(Number::of),
    });
    extents.collect()
}

/// The extents without these axes, or without all of extent 1.
pub(crate) fn squeezed(shape: &[Dim], given: Option<&[Number]>) -> Option<Vec<Number>> {
    let places = match given {
        Some(given) => axes(given, shape.len())?,
        None => (0..shape.len()).filter(|&axis| shape[axis] == Dim::Fixed(1)).collect(),
    };
    let kept = shape.iter().enumerate().filter(|(axis, _)| !places.contains(axis));
    Some(numbers(kept.map(|(_, dim)| dim)))
}

/// The extents that `Reshape` asks for: 0 copies one of the operand, unless `allowzero` says otherwise, and -1 is open.
pub(crate) fn reshaped(shape: &[Dim], wanted: &[Number], allow_zero: bool) -> Option<Vec<Number>> {
    let extent = |(axis, number): (usize, &Number)| match number {
        Number::Int(0) if !allow_zero => shape.get(axis).map(Number::of),
        Number::Int(-1) => Some(open()),
        other => other.dim().map(|_| other.clone()),
    };
    wanted.iter().enumerate().map(extent).collect()
}

/// The extents of the operand and of `wanted`, broadcast.
pub(crate) fn expanded(shape: &[Dim], wanted: &[Number]) -> Option<Vec<Number>> {
    let rank = shape.len().max(wanted.len());
    let one = Number::Int(1);
    let own = numbers(shape);
    let extent = |of: &[Number], axis: usize| {
        (axis + of.len()).checked_sub(rank).and_then(|axis| of.get(axis)).unwrap_or(&one).clone()
    };
    let joined = |axis| match (extent(&own, axis), extent(wanted, axis)) {
        (n, Number::Int(1 | -1)) => n,
        (_, n) => n,
    };
    Some((0..rank).map(joined).collect())
}

/// The product of extents.
pub(crate) fn product(shape: &[Dim]) -> Option<Number> {
    Dim::product(shape).map(|dim| Number::of(&dim))
}

/// The product of the extents of these axes, of all if there are none.
pub(crate) fn along(shape: &[Dim], given: &[Number]) -> Option<Number> {
    if given.is_empty() {
        return product(shape);
    }
    let extents = axes(given, shape.len())?.into_iter().map(|axis| shape[axis].clone());
    product(&extents.collect::<Vec<_>>())
}

/// The shape of a value per channel beside an operand `[N, C, …]`.
pub(crate) fn channels(shape: &[Dim]) -> Option<Vec<Number>> {
    let rest = shape.len().checked_sub(2)?;
    Some([vec![Number::of(&shape[1])], vec![Number::Int(1); rest]].concat())
}

/// The axes behind the channels.
pub(crate) fn spatial(shape: &[Dim]) -> Option<Vec<Number>> {
    Some((2..shape.len() as i64).map(Number::Int).collect())
}

/// All axes but that of channels.
pub(crate) fn apart(shape: &[Dim]) -> Option<Vec<Number>> {
    Some(Number::vector((0..shape.len() as i64).filter(|axis| *axis != 1)))
}

/// The axes with the channels behind all others.
pub(crate) fn channels_last(shape: &[Dim]) -> Option<Vec<Number>> {
    let rank = shape.len() as i64;
    Some(Number::vector([0].into_iter().chain(2..rank).chain((rank > 1).then_some(1))))
}

/// The axes with the last one, that of channels, behind the first.
pub(crate) fn channels_first(shape: &[Dim]) -> Option<Vec<Number>> {
    let rank = shape.len() as i64;
    Some(Number::vector([0].into_iter().chain((rank > 1).then_some(rank - 1)).chain(1..rank - 1)))
}

/// The axes with the first one before the last.
pub(crate) fn batch_last(shape: &[Dim]) -> Option<Vec<Number>> {
    let last = shape.len().checked_sub(1).filter(|last| *last > 0)? as i64;
    Some(Number::vector((1..last).chain([0, last])))
}

/// The axes from the last to the first.
pub(crate) fn reversed(shape: &[Dim]) -> Option<Vec<Number>> {
    Some((0..shape.len() as i64).rev().map(Number::Int).collect())
}

/// The extents with an axis of extent 1 before each, along which `Tile` repeats.
pub(crate) fn tile_1(shape: &[Dim]) -> Option<Vec<Number>> {
    Some(shape.iter().flat_map(|dim| [Number::Int(1), Number::of(dim)]).collect())
}

/// The extents with the number of repeats before each.
pub(crate) fn tile_2(shape: &[Dim], repeats: &[Number]) -> Option<Vec<Number>> {
    (shape.len() == repeats.len())
        .then(|| shape.iter().zip(repeats).flat_map(|(dim, n)| [n.clone(), Number::of(dim)]).collect())
}

/// The extents times the repeats.
pub(crate) fn tile_3(shape: &[Dim], repeats: &[Number]) -> Option<Vec<Number>> {
    shape.iter().zip(repeats).map(|(dim, n)| Number::of(dim).times(n)).collect()
}
