//! Compiled access maps: from ranges of points to stretches of equally distant elements.

use super::flat::{Flat, Runs, Stretch};
use super::span::Span;
use super::spread::{Spread, run_length};
use engine_core::fusion::{Access, Axis, Level};
use engine_core::ir::Literal;
use std::ops::Range;

/// A compiled access map.
#[derive(Clone, Debug)]
pub struct Address {
    access: Access,
    /// The map as one level, if it can be one.
    flat: Option<Flat>,
    /// The map, if it spreads elements with one value between them.
    spread: Option<Spread>,
    /// Whether it is one level without guards.
    is_plain: bool,
}

/// The most axes of a level that is walked with an odometer.
const MAX_AXES: usize = 16;

impl Address {
    /// Compiles an access map: axes that follow each other in memory become one.
    pub fn new(access: &Access) -> Address {
        let access = access.normalized();
        let is_plain = matches!(&access.levels[..], [level] if level.guards.is_empty());
        Address { flat: Flat::new(&access), spread: Spread::new(&access), access, is_plain }
    }

    /// Compiles an access map, with each fill value as the bits of the element type.
    pub fn with_fills(access: &Access, bits: impl Fn(&Literal) -> u64) -> Address {
        let mut address = Address::new(access);
        for guard in address.access.levels.iter_mut().flat_map(|level| &mut level.guards) {
            guard.fill = Literal::Int(bits(&guard.fill) as i64);
        }
        let flat = address.flat.iter_mut().map(|flat| &mut flat.fill);
        for fill in flat.chain(address.spread.iter_mut().map(|spread| &mut spread.fill)) {
            *fill = Literal::Int(bits(fill) as i64);
        }
        address
    }

    /// The first element and the stride of the points `start..start + len`, if they are one stretch.
    pub fn single(&self, start: usize, len: usize) -> Option<(i64, i64)> {
        let [level] = &self.access.levels[..] else { return None };
        if !level.guards.is_empty() {
            return None;
        }
        let Some(last) = level.axes.last() else { return Some((level.offset, 0)) };
        let coordinate = start % last.extent.max(1);
        if coordinate + len > last.extent {
            return None;
        }
        let first = level.at(start).ok()?;
        Some((first, if len == 1 { 0 } else { last.stride }))
    }

    /// The points `start..start + len`, if they are one stretch.
    pub fn stretch(&self, start: usize, len: usize) -> Option<Stretch> {
        match &self.flat {
            Some(flat) if !self.is_plain => flat.stretch(start, len),
            _ => self.single(start, len).map(|(first, stride)| Stretch::Elements { first, stride }),
        }
    }

    /// The element of a point, unless a guard excludes the point.
    pub fn element(&self, point: usize) -> Option<u64> {
        self.access.at(point).ok().map(|element| element as u64)
    }

    /// Whether points outside the tensor are zeros, and there are some.
    pub fn is_zero_outside(&self) -> bool {
        let mut fills = self.access.levels.iter().flat_map(|level| &level.guards).map(|guard| guard.fill);
        !self.is_plain
            && self.flat.is_some()
            && fills.next() == Some(Literal::Int(0))
            && fills.all(|fill| fill == Literal::Int(0))
    }

    /// Whether point `i` is element `i`, for `n` points.
    pub fn is_identity(&self, n: usize) -> bool {
        self.access.is_identity(n)
    }

    /// The lowest and highest element that any point reads, if the access map has one level; 0 and -1 if none is read.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        let [level] = &self.access.levels[..] else { return None };
        let (mut low, mut high) = (level.offset, level.offset);
        for (i, axis) in level.axes.iter().enumerate() {
            let (mut first, mut last) = (0, axis.extent as i64 - 1);
            for guard in level.guards.iter().filter(|guard| guard.axis == i) {
                first = first.max(guard.low as i64);
                last = last.min(guard.high as i64 - 1);
            }
            if first > last {
                return Some((0, -1));
            }
            low += (first * axis.stride).min(last * axis.stride);
            high += (first * axis.stride).max(last * axis.stride);
        }
        Some((low, high))
    }

    /// The map, if it is one level with guards whose points outside have one value.
    pub fn padded(&self) -> Option<&Flat> {
        self.flat.as_ref().filter(|flat| flat.has_guards())
    }

    /// The map, if it spreads elements with one value between them.
    pub fn spread(&self) -> Option<&Spread> {
        self.spread.as_ref()
    }

    /// Calls `emit(place in the block, count, stretch)` for the points of a span, in order.
    pub fn walk_span(&self, span: Span, mut emit: impl FnMut(usize, usize, Stretch)) {
        self.walk_runs(span, |at, count, runs| match runs {
            Runs::Fill(fill) => emit(at, count, Stretch::Fill(fill)),
            Runs::Elements { first, strides: [run, stride], len } => {
                for (i, at) in (at..at + count).step_by(len.max(1)).enumerate() {
                    emit(at, len, Stretch::Elements { first: first + i as i64 * run, stride });
                }
            }
        });
    }

    /// Calls `emit(place in the block, count, runs)` for the points of a span, in order. Runs of the span, or of the last axis,
    /// come together as far as they are evenly spaced.
    pub fn walk_runs(&self, span: Span, mut emit: impl FnMut(usize, usize, Runs)) {
        let (width, height) = span.runs();
        match (&self.flat, &self.access.levels[..]) {
            (Some(flat), _) if height > 1 => flat.walk_runs(span, emit),
            (_, [level]) if self.is_plain && height == 1 && (2..=MAX_AXES).contains(&level.axes.len()) => {
                walk_level_runs(level, span.start, width, emit);
            }
            _ => (0..height).for_each(|row| {
                self.walk(span.start + row * span.pitch, width, |at, count, stretch| {
                    emit(row * width + at, count, (count, stretch).into());
                });
            }),
        }
    }

    /// Calls `emit(first point - start, count, stretch)` for the points `start..start + len`, in order.
    pub fn walk(&self, start: usize, len: usize, mut emit: impl FnMut(usize, usize, Stretch)) {
        if let Some(flat) = self.flat.as_ref().filter(|_| !self.is_plain) {
            return flat.walk(start, len, emit);
        }
        match &self.access.levels[..] {
            [level] if level.axes.len() <= MAX_AXES => walk_level(level, start, len, emit),
            levels => walk_levels(levels, [start as i64, 1], 0..len, &mut emit),
        }
    }
}

/// Walks the indices `first`, `first + stride`, … of the first of some levels through all of them, as the points `points`
/// of a block.
fn walk_levels(
    levels: &[Level],
    [first, stride]: [i64; 2],
    points: Range<usize>,
    emit: &mut impl FnMut(usize, usize, Stretch),
) {
    let Some((level, rest)) = levels.split_first() else {
        return emit(points.start, points.len(), Stretch::Elements { first, stride });
    };
    let along = level.axes.last().map_or(0, |axis| axis.stride);
    let mut at = points.start;
    while at < points.end {
        let index = first + (at - points.start) as i64 * stride;
        let count = run_length(level, index, stride).min(points.end - at);
        match level.at(index as usize) {
            Ok(element) => walk_levels(rest, [element, stride * along], at..at + count, emit),
            Err(fill) => emit(at, count, Stretch::Fill(fill)),
        }
        at += count;
    }
}

fn walk_level(level: &Level, start: usize, len: usize, mut emit: impl FnMut(usize, usize, Stretch)) {
    let Some(last) = level.axes.len().checked_sub(1) else {
        return emit(0, len, Stretch::Elements { first: level.offset, stride: 0 });
    };
    let mut odometer = Odometer::at(level, start);
    let Axis { extent, stride } = level.axes[last];
    let mut at = 0;
    while at < len {
        let coordinate = odometer.coordinates[last];
        let count = (extent - coordinate).min(len - at);
        if level.guards.is_empty() {
            emit(at, count, Stretch::Elements { first: odometer.address, stride });
        } else {
            guarded_run(level, &odometer, count, |skip, count, stretch| emit(at + skip, count, stretch));
        }
        at += count;
        odometer.advance(level, last, count);
    }
}

/// Walks a level of at least two axes that has no guards.
fn walk_level_runs(level: &Level, start: usize, len: usize, mut emit: impl FnMut(usize, usize, Runs)) {
    let last = level.axes.len() - 1;
    let mut odometer = Odometer::at(level, start);
    let (outer, Axis { extent, stride }) = (level.axes[last - 1], level.axes[last]);
    let strides = [outer.stride, stride];
    let mut at = 0;
    while at < len {
        let [runs, coordinate] = [odometer.coordinates[last - 1], odometer.coordinates[last]];
        let n_runs = (outer.extent - runs).min((len - at) / extent);
        let first = odometer.address;
        let count = match coordinate == 0 && n_runs > 0 {
            true => n_runs * extent,
            false => (extent - coordinate).min(len - at),
        };
        emit(at, count, Runs::Elements { first, strides, len: count.min(extent) });
        at += count;
        match count < extent {
            true => odometer.advance(level, last, count),
            false => odometer.advance(level, last - 1, n_runs),
        }
    }
}

/// A point of a level, as coordinates and as an address.
struct Odometer {
    coordinates: [usize; MAX_AXES],
    address: i64,
}

impl Odometer {
    fn at(level: &Level, point: usize) -> Odometer {
        let mut odometer = Odometer { coordinates: [0; MAX_AXES], address: level.offset };
        let mut rest = point;
        for (i, axis) in level.axes.iter().enumerate().rev() {
            let coordinate = rest % axis.extent.max(1);
            rest /= axis.extent.max(1);
            odometer.coordinates[i] = coordinate;
            odometer.address += coordinate as i64 * axis.stride;
        }
        odometer
    }

    /// Advances by `count` steps of an axis, which do not pass its end.
    fn advance(&mut self, level: &Level, axis: usize, count: usize) {
        let mut i = axis;
        self.coordinates[i] += count;
        self.address += count as i64 * level.axes[i].stride;
        while i > 0 && self.coordinates[i] == level.axes[i].extent {
            self.address -= level.axes[i].extent as i64 * level.axes[i].stride;
            self.coordinates[i] = 0;
            i -= 1;
            self.coordinates[i] += 1;
            self.address += level.axes[i].stride;
        }
    }
}

/// Splits a run along the last axis at the bounds of its guards, all of which have one fill.
fn guarded_run(
    level: &Level,
    odometer: &Odometer,
    count: usize,
    mut emit: impl FnMut(usize, usize, Stretch),
) {
    let last = level.axes.len() - 1;
    let (start, stride) = (odometer.coordinates[last], level.axes[last].stride);
    let outer = (0..last).rev().find_map(|axis| violated(level, axis, odometer.coordinates[axis]));
    let mut emit_until = |skip: &mut usize, end: usize, fill: Option<Literal>| {
        let end = end.clamp(start + *skip, start + count) - start;
        if end > *skip {
            let first = odometer.address + *skip as i64 * stride;
            emit(*skip, end - *skip, fill.map_or(Stretch::Elements { first, stride }, Stretch::Fill));
        }
        *skip = end;
    };
    let mut skip = 0;
    let mut own = level.guards.iter().filter(|guard| guard.axis == last);
    if let (Some(guard), None) = (own.next(), own.next()) {
        emit_until(&mut skip, guard.low, Some(guard.fill));
        emit_until(&mut skip, guard.high, outer);
        return emit_until(&mut skip, start + count, Some(guard.fill));
    }
    while skip < count {
        let coordinate = start + skip;
        let edges = level.guards.iter().filter(|guard| guard.axis == last).flat_map(|g| [g.low, g.high]);
        let end = edges.filter(|&edge| edge > coordinate).min().unwrap_or(usize::MAX);
        emit_until(&mut skip, end, violated(level, last, coordinate).or(outer));
    }
}

fn violated(level: &Level, axis: usize, coordinate: usize) -> Option<Literal> {
    let guard = level.guards.iter().find(|g| g.axis == axis && !(g.low..g.high).contains(&coordinate))?;
    Some(guard.fill)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use engine_core::ir::View;
    use proptest::prelude::*;

    /// The result of a walk for each point.
    fn walked(access: &Access, start: usize, len: usize) -> Vec<Result<i64, Literal>> {
        let (mut points, address) = (vec![], Address::new(access));
        address.walk(start, len, |at, count, stretch| {
            assert_eq!(at, points.len());
            points.extend((0..count as i64).map(|i| match stretch {
                Stretch::Elements { first, stride } => Ok(first + i * stride),
                Stretch::Fill(fill) => Err(fill),
            }));
        });
        if let Some(spread) = address.spread() {
            let mut by_columns = vec![Err(spread.fill); len];
            spread.walk(start, len, |column| {
                let element = |i: usize| Ok(column.first + i as i64 * column.stride);
                (0..column.count).for_each(|i| by_columns[column.at + i * column.pitch] = element(i));
            });
            assert_eq!(by_columns, points);
        }
        if let Some(flat) = address.padded() {
            let mut by_blocks = vec![Err(flat.fill); len];
            flat.walk_blocks(start, len, |block| {
                for (run, i) in (0..block.n_runs).flat_map(|run| (0..block.len).map(move |i| (run, i))) {
                    let [of_run, stride] = block.strides;
                    let element = block.first + run as i64 * of_run + i as i64 * stride;
                    by_blocks[block.at + run * block.pitch + i] = Ok(element);
                }
            });
            assert_eq!(by_blocks, points);
        }
        points
    }

    /// A line, and runs of all widths and distances.
    fn assert_walks_spans(access: &Access, start: usize, len: usize) {
        let runs = (2..=len).flat_map(|pitch| (1..pitch).map(move |width| (width, pitch)));
        let spans = runs.map(|(width, pitch)| {
            let height = (len - width) / pitch + 1;
            Span { width, height, pitch, ..Span::line(start, width) }
        });
        let address = Address::new(access);
        for span in spans.chain([Span::line(start, len)]) {
            let (mut by_runs, mut by_stretches) = (vec![], vec![]);
            address.walk_runs(span, |at, count, runs| {
                assert_eq!(at, by_runs.len());
                by_runs.extend((0..count as i64).map(|i| match runs {
                    Runs::Elements { first, strides: [run, point], len } => {
                        Ok(first + i / len as i64 * run + i % len as i64 * point)
                    }
                    Runs::Fill(fill) => Err(fill),
                }));
            });
            address.walk_span(span, |at, count, stretch| {
                assert_eq!(at, by_stretches.len());
                by_stretches.extend((0..count as i64).map(|i| match stretch {
                    Stretch::Elements { first, stride } => Ok(first + i * stride),
                    Stretch::Fill(fill) => Err(fill),
                }));
            });
            let points = (0..span.height).flat_map(|run| (0..span.width).map(move |i| run * span.pitch + i));
            let expected: Vec<_> = points.map(|point| access.at(start + point)).collect();
            assert_eq!(by_runs, expected, "{access} by runs of {span:?}");
            assert_eq!(by_stretches, expected, "{access} by stretches of {span:?}");
        }
    }

    fn assert_walks_like_it_reads(access: &Access, n: usize) {
        for (start, len) in [(0, n), (n / 3, n - n / 3), (n / 2, n / 4)] {
            let expected: Vec<_> = (start..start + len).map(|point| access.at(point)).collect();
            assert_eq!(walked(access, start, len), expected, "{access} from {start}");
            for (start, len) in [(start, len), (start, 1), (start, 3.min(len))] {
                let points = |stretch: Stretch| {
                    (0..len as i64).map(move |i| match stretch {
                        Stretch::Elements { first, stride } => Ok(first + i * stride),
                        Stretch::Fill(fill) => Err(fill),
                    })
                };
                let stretch =
                    Address::new(access).stretch(start, len).map(|stretch| points(stretch).collect());
                let expected: Vec<_> = (start..start + len).map(|point| access.at(point)).collect();
                assert!(stretch.is_none_or(|stretch: Vec<_>| stretch == expected), "{access} as one stretch");
            }
            assert_walks_spans(access, start, len);
            if let Some((low, high)) = Address::new(access).bounds() {
                assert!(expected.iter().flatten().all(|element| (low..=high).contains(element)));
            }
        }
    }

    #[test]
    fn views_of_views_are_walked_as_they_are_read() {
        let dense = Access::dense(&[4, 5, 6]);
        let permuted = dense.then(&View::Permute { perm: vec![2, 0, 1] }, &[6, 4, 5]);
        assert_walks_like_it_reads(&dense, 120);
        assert_walks_like_it_reads(&permuted, 120);
        assert_walks_like_it_reads(&permuted.then(&View::Reshape, &[120]), 120);
        let row = Access::dense(&[6]).then(&View::Broadcast { axes: vec![1] }, &[7, 6]);
        assert_walks_like_it_reads(&row, 42);
    }

    #[test]
    fn windows_over_a_border_are_walked_as_they_are_read() {
        for (step, dilation) in [(1, 1), (2, 1), (3, 1), (1, 2), (2, 3)] {
            let pad = View::Pad { low: vec![0, 1], high: vec![0, 2], fill: Literal::Int(7) };
            let padded = Access::dense(&[4, 11]).then(&pad, &[4, 14]);
            let count = (14 - 2 * dilation - 1) / step + 1;
            let window = View::Window { axis: 1, step, dilation };
            let windows = padded.then(&window, &[4, count, 3]);
            assert!(Flat::new(&windows.normalized()).is_some(), "{windows} is one level");
            assert_walks_like_it_reads(&windows, 12 * count);
            let by_place = windows.then(&View::Permute { perm: vec![0, 2, 1] }, &[4, 3, count]);
            assert_walks_like_it_reads(&by_place, 12 * count);
            let start = vec![3, 0, count - 1];
            let back = by_place.then(&View::Slice { start, step: vec![-1, 1, -1] }, &[4, 3, count]);
            assert_walks_like_it_reads(&back, 12 * count);
            assert_walks_like_it_reads(&back.then(&View::Reshape, &[12 * count]), 12 * count);
        }
    }

    /// The gradient of a window of stride 2 with a border: zeros between elements and around them.
    #[test]
    fn spread_elements_are_walked_by_columns() {
        let pad = |low: &[usize], high: &[usize]| View::Pad {
            low: low.to_vec(),
            high: high.to_vec(),
            fill: Literal::Int(0),
        };
        let spread = Access::dense(&[3, 4])
            .then(&View::Reshape, &[3, 1, 4, 1])
            .then(&pad(&[0; 4], &[0, 1, 0, 1]), &[3, 2, 4, 2])
            .then(&View::Reshape, &[6, 8])
            .then(&View::Slice { start: vec![0, 0], step: vec![1, 1] }, &[5, 7])
            .then(&pad(&[1, 1], &[1, 1]), &[7, 9]);
        assert!(Address::new(&spread).spread().is_some());
        assert_walks_like_it_reads(&spread, 63);
    }

    proptest! {
        #[test]
        fn pads_and_slices_are_walked_as_they_are_read(
            low in prop::array::uniform2(0usize..3),
            high in prop::array::uniform2(0usize..3),
            step in prop::array::uniform2(prop::sample::select(vec![-2i64, -1, 1, 2])),
            again in 0usize..2,
        ) {
            let pad = |access: &Access, shape: [usize; 2], fill: i64| {
                let padded = [shape[0] + low[0] + high[0], shape[1] + low[1] + high[1]];
                let view = View::Pad { low: low.to_vec(), high: high.to_vec(), fill: Literal::Int(fill) };
                (access.then(&view, &padded), padded)
            };
            let (mut access, mut shape) = pad(&Access::dense(&[3, 4]), [3, 4], 7);
            let taken = [0, 1].map(|i| shape[i].div_ceil(step[i].unsigned_abs() as usize));
            let start = [0, 1].map(|i| if step[i] < 0 { shape[i] - 1 } else { 0 });
            access = access.then(&View::Slice { start: start.to_vec(), step: step.to_vec() }, &taken);
            shape = taken;
            if again == 1 {
                (access, shape) = pad(&access, shape, 9);
            }
            assert_walks_like_it_reads(&access, shape[0] * shape[1]);
        }
    }
}
