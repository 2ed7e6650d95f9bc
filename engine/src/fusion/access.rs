//! Access maps: which element of a dense tensor each point of a kernel's domain reads or writes.

use super::Domain;
use crate::ir::{Literal, View, dense_strides};
use std::fmt;

/// One axis of a level: `extent` points, `stride` elements apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Number of points.
    pub extent: usize,
    /// Distance of neighbours, in elements of what the level maps to.
    pub stride: i64,
}

/// Points whose coordinate on `axis` lies outside `low..high` read `fill` instead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// Index into the level's axes.
    pub axis: usize,
    /// First coordinate inside.
    pub low: usize,
    /// First coordinate past the inside.
    pub high: usize,
    /// What points outside hold.
    pub fill: Literal,
}

/// One step from a linear index to another: split row-major by the axes' extents, then `offset + Σ coordinate·stride`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Level {
    /// Added always.
    pub offset: i64,
    /// Axes, outermost first; their extents multiply to the number of points.
    pub axes: Vec<Axis>,
    /// What lies outside.
    pub guards: Vec<Guard>,
}

/// A map from points (a linear, row-major index) to elements, in one or more levels: the first level takes the point,
/// the last yields the element. Nearly always a single strided level; a reshape of something transposed needs two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Never empty.
    pub levels: Vec<Level>,
}

impl Level {
    fn dense(extents: &[usize]) -> Level {
        let strides = dense_strides(extents);
        let axes =
            extents.iter().zip(strides).map(|(&extent, stride)| Axis { extent, stride: stride as i64 });
        Level { offset: 0, axes: axes.collect(), guards: vec![] }
    }

    /// Whether a normalized level maps every index to itself.
    fn changes_nothing(&self) -> bool {
        let is_identity = match self.axes[..] {
            [] => true,
            [axis] => axis.stride == 1,
            _ => false,
        };
        self.offset == 0 && self.guards.is_empty() && is_identity
    }

    /// The result for a point, or the fill of the guard that it violates.
    pub fn at(&self, point: usize) -> Result<i64, Literal> {
        let mut rest = point;
        let mut address = self.offset;
        for (i, axis) in self.axes.iter().enumerate().rev() {
            let coordinate = rest % axis.extent.max(1);
            rest /= axis.extent.max(1);
            if let Some(guard) =
                self.guards.iter().find(|g| g.axis == i && !(g.low..g.high).contains(&coordinate))
            {
                return Err(guard.fill);
            }
            address += coordinate as i64 * axis.stride;
        }
        Ok(address)
    }
}

impl Access {
    /// Every point reads the element of its own index in a dense tensor of that shape.
    pub fn dense(extents: &[usize]) -> Access {
        Access { levels: vec![Level::dense(extents)] }
    }

    /// A map with given strides over a shape.
    pub fn strided(extents: &[usize], strides: &[i64]) -> Access {
        let axes = extents.iter().zip(strides).map(|(&extent, &stride)| Axis { extent, stride }).collect();
        Access { levels: vec![Level { offset: 0, axes, guards: vec![] }] }
    }

    /// The element that a point reads, or the fill value where a guard keeps it out.
    pub fn at(&self, point: usize) -> Result<i64, Literal> {
        self.levels.iter().try_fold(point as i64, |index, level| level.at(index as usize))
    }

    /// The map of `view(x)` of shape `result`, where `self` is the map of `x`.
    pub fn then(&self, view: &View, result: &[usize]) -> Access {
        let mut access = self.clone();
        let level = &mut access.levels[0];
        match view {
            View::Permute { perm } => level.permute(perm),
            View::Broadcast { axes } => level.broadcast(axes, result),
            View::Slice { start, step } => level.slice(start, step, result),
            View::Pad { low, high, fill } => level.pad(low, high, *fill),
            View::Reshape => match level.reshaped(result) {
                Some(reshaped) => *level = reshaped,
                None => access.levels.insert(0, Level::dense(result)),
            },
        }
        access
    }

    /// The same map with adjacent axes joined where one runs on from the other, with axes of extent 1 and levels that
    /// change nothing gone, and with levels joined where the first moves whole axes of the second.
    pub fn normalized(&self) -> Access {
        let mut levels: Vec<Level> = self.levels.iter().map(Level::normalized).collect();
        while let Some(at) = levels.iter().position(Level::changes_nothing).filter(|_| levels.len() > 1) {
            levels.remove(at);
        }
        while let Some((at, joined)) = first_joined(&levels) {
            levels[at] = joined.normalized();
            levels.remove(at + 1);
        }
        Access { levels }
    }

    /// The map from rows instead of points, if all points of a row read the same; rows lie along the last axis, and there
    /// are several of several points.
    pub fn along_rows(&self, domain: Domain) -> Option<Access> {
        let has_rows = domain.inner == 1 && domain.row > 1 && domain.outer > 1;
        if !has_rows || self.trailing_strides(&[domain.row]) != Some(vec![0]) {
            return None;
        }
        let mut rows = self.normalized();
        let last = rows.levels[0].axes.last_mut()?;
        last.extent /= domain.row;
        Some(rows.normalized())
    }

    /// Strides of the last axes of the domain, if it ends in axes of these extents that are strided evenly, whatever
    /// comes before them.
    pub fn trailing_strides(&self, extents: &[usize]) -> Option<Vec<i64>> {
        let access = self.normalized();
        let [level] = &access.levels[..] else { return None };
        if !level.guards.is_empty() {
            return None;
        }
        let mut axes = level.axes.iter().rev().copied();
        let mut current = Axis { extent: 1, stride: 0 };
        let mut strides = vec![0; extents.len()];
        for (slot, &extent) in strides.iter_mut().zip(extents).rev().filter(|(_, extent)| **extent != 1) {
            if current.extent == 1 {
                current = axes.next()?;
            }
            if extent == 0 || !current.extent.is_multiple_of(extent) {
                return None;
            }
            *slot = current.stride;
            current = Axis { extent: current.extent / extent, stride: current.stride * extent as i64 };
        }
        Some(strides)
    }

    /// Whether point `i` reads element `i` for all of `n` points.
    pub fn is_identity(&self, n: usize) -> bool {
        let access = self.normalized();
        let [level] = &access.levels[..] else { return false };
        level.offset == 0
            && level.guards.is_empty()
            && match level.axes[..] {
                [] => n <= 1,
                [axis] => axis.stride == 1 && axis.extent == n,
                _ => false,
            }
    }

    /// Whether all points read element 0.
    pub fn is_uniform(&self) -> bool {
        let [level] = &self.levels[..] else { return false };
        level.offset == 0
            && level.guards.is_empty()
            && level.axes.iter().all(|axis| axis.stride == 0 || axis.extent == 1)
    }
}

/// The first two levels that are one, and that one.
fn first_joined(levels: &[Level]) -> Option<(usize, Level)> {
    levels.windows(2).enumerate().find_map(|(at, pair)| Some((at, pair[0].joined(&pair[1])?)))
}

impl Level {
    /// This level and the next as one, if each axis of this one steps along axes of the next, or parts of them, and no
    /// two of them carry over into another.
    fn joined(&self, next: &Level) -> Option<Level> {
        let is_plain =
            |level: &Level| level.guards.is_empty() && level.axes.iter().all(|axis| axis.extent > 0);
        if self.offset != 0 || !is_plain(self) || !is_plain(next) {
            return None;
        }
        let extents: Vec<usize> = next.axes.iter().map(|axis| axis.extent).collect();
        let strides = dense_strides(&extents);
        // How far each coordinate of the next level can still go.
        let mut room: Vec<usize> = extents.iter().map(|extent| extent - 1).collect();
        let mut axes = vec![];
        for axis in &self.axes {
            let mut pieces = vec![];
            let (mut step, mut left) = (usize::try_from(axis.stride).ok()?, axis.extent);
            while left > 1 && step > 0 {
                let along = (0..extents.len()).find(|&j| {
                    step % strides[j] == 0 && (strides[j]..strides[j] * extents[j]).contains(&step)
                })?;
                let times = step / strides[along];
                let extent = left.min(extents[along].div_ceil(times));
                if extent == 1 || left % extent != 0 {
                    return None;
                }
                room[along] = room[along].checked_sub(times * (extent - 1))?;
                pieces.push(Axis { extent, stride: times as i64 * next.axes[along].stride });
                (step, left) = (step * extent, left / extent);
            }
            axes.push(Axis { extent: left, stride: 0 });
            axes.extend(pieces.into_iter().rev());
        }
        Some(Level { offset: next.offset, axes, guards: vec![] })
    }

    fn permute(&mut self, perm: &[usize]) {
        self.axes = perm.iter().map(|&axis| self.axes[axis]).collect();
        for guard in &mut self.guards {
            guard.axis = perm.iter().position(|&axis| axis == guard.axis).unwrap_or(0);
        }
    }

    fn broadcast(&mut self, axes: &[usize], result: &[usize]) {
        let mut out: Vec<Axis> = result.iter().map(|&extent| Axis { extent, stride: 0 }).collect();
        for (from, &to) in axes.iter().enumerate() {
            if self.axes[from].extent == result[to] {
                out[to] = self.axes[from];
            }
        }
        self.guards.iter_mut().for_each(|guard| guard.axis = axes[guard.axis]);
        self.axes = out;
    }

    fn slice(&mut self, start: &[usize], step: &[i64], result: &[usize]) {
        if !self.guards.is_empty() {
            self.slice_guards(start, step);
        }
        for (i, axis) in self.axes.iter_mut().enumerate() {
            self.offset += start[i] as i64 * axis.stride;
            axis.stride *= step[i];
            axis.extent = result[i];
        }
    }

    fn slice_guards(&mut self, start: &[usize], step: &[i64]) {
        for guard in &mut self.guards {
            let (start, step) = (start[guard.axis] as i64, step[guard.axis]);
            // Coordinates j with low <= start + j*step < high.
            let bound =
                |edge: i64| (edge - start).div_euclid(step) + ((edge - start).rem_euclid(step) != 0) as i64;
            let (low, high) = match step > 0 {
                true => (bound(guard.low as i64), bound(guard.high as i64)),
                false => (
                    (start - guard.high as i64).div_euclid(-step) + 1,
                    (start - guard.low as i64).div_euclid(-step) + 1,
                ),
            };
            guard.low = low.max(0) as usize;
            guard.high = high.max(0) as usize;
        }
    }

    fn pad(&mut self, low: &[usize], high: &[usize], fill: Literal) {
        for (i, axis) in self.axes.iter_mut().enumerate() {
            for guard in self.guards.iter_mut().filter(|guard| guard.axis == i) {
                guard.low += low[i];
                guard.high += low[i];
            }
            if low[i] + high[i] > 0 {
                // A new guard goes first: it is the outer one, its fill wins.
                self.guards.insert(0, Guard { axis: i, low: low[i], high: low[i] + axis.extent, fill });
            }
            self.offset -= low[i] as i64 * axis.stride;
            axis.extent += low[i] + high[i];
        }
    }

    /// The same map over another shape, if splitting and joining axes is enough.
    fn reshaped(&self, result: &[usize]) -> Option<Level> {
        if !self.guards.is_empty() {
            return None;
        }
        if result.contains(&0) {
            // No point is ever asked for.
            let axes = result.iter().map(|&extent| Axis { extent, stride: 0 }).collect();
            return Some(Level { offset: 0, axes, guards: vec![] });
        }
        let source = self.normalized();
        if result.contains(&0) {
            // There is no element whose place could be wrong.
            let axes = result.iter().map(|&extent| Axis { extent, stride: 0 }).collect();
            return Some(Level { axes, ..source });
        }
        let mut axes = vec![Axis { extent: 1, stride: 0 }; result.len()];
        let mut sources = source.axes.iter().rev().copied();
        let mut current = Axis { extent: 1, stride: 0 };
        for (slot, &extent) in axes.iter_mut().zip(result).rev() {
            slot.extent = extent;
            if extent == 1 {
                continue;
            }
            if current.extent == 1 {
                current = sources.next()?;
            }
            if !current.extent.is_multiple_of(extent) {
                return None;
            }
            slot.stride = current.stride;
            current = Axis { extent: current.extent / extent, stride: current.stride * extent as i64 };
        }
        (current.extent == 1 && sources.next().is_none()).then_some(Level { axes, ..source })
    }

    fn normalized(&self) -> Level {
        let guarded = |axis: usize| self.guards.iter().any(|guard| guard.axis == axis);
        let mut axes: Vec<Axis> = vec![];
        let mut fixed: Vec<bool> = vec![];
        let mut renamed = vec![0; self.axes.len()];
        for (i, axis) in self.axes.iter().enumerate() {
            let keep = guarded(i);
            if axis.extent == 1 && !keep {
                continue;
            }
            match (axes.last_mut(), fixed.last()) {
                (Some(last), Some(false)) if !keep && last.stride == axis.stride * axis.extent as i64 => {
                    *last = Axis { extent: last.extent * axis.extent, stride: axis.stride };
                }
                _ => {
                    axes.push(*axis);
                    fixed.push(keep);
                }
            }
            renamed[i] = axes.len() - 1;
        }
        let guards = self.guards.iter().map(|g| Guard { axis: renamed[g.axis], ..g.clone() }).collect();
        Level { offset: self.offset, axes, guards }
    }
}

/// `3 + [128:784, 784:1]`, levels from point to element joined by ` -> `, guards as `{axis 0 in 1..5 else 0.0}`.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, level) in self.normalized().levels.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { " -> " })?;
            if level.offset != 0 {
                write!(f, "{} + ", level.offset)?;
            }
            let axes: Vec<String> = level.axes.iter().map(|a| format!("{}:{}", a.extent, a.stride)).collect();
            write!(f, "[{}]", axes.join(", "))?;
            for g in &level.guards {
                write!(f, "{{axis {} in {}..{} else {}}}", g.axis, g.low, g.high, g.fill)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn elements(access: &Access, n: usize) -> Vec<Option<i64>> {
        (0..n).map(|point| access.at(point).ok()).collect()
    }

    #[test]
    fn a_transposed_matrix_reads_columns() {
        let access = Access::dense(&[2, 3]).then(&View::Permute { perm: vec![1, 0] }, &[3, 2]);
        assert_eq!(elements(&access, 6), [0, 3, 1, 4, 2, 5].map(Some));
    }

    #[test]
    fn a_reshaped_transpose_needs_a_second_level() {
        let access = Access::dense(&[2, 3])
            .then(&View::Permute { perm: vec![1, 0] }, &[3, 2])
            .then(&View::Reshape, &[6])
            .then(&View::Slice { start: vec![5], step: vec![-2] }, &[3]);
        assert_eq!(access.levels.len(), 2);
        assert_eq!(elements(&access, 3), [5, 4, 3].map(Some));
    }

    /// Rows that were picked for each query of a head, taken as columns and back: a head's rows, whatever the query.
    #[test]
    fn levels_that_move_whole_axes_are_one() {
        let picked = Access::strided(&[2, 3, 4, 5], &[100, 0, 0, 1]);
        let columns = picked
            .then(&View::Permute { perm: vec![0, 1, 3, 2] }, &[2, 3, 5, 4])
            .then(&View::Reshape, &[6, 5, 4])
            .then(&View::Reshape, &[6, 20])
            .then(&View::Reshape, &[6, 5, 4])
            .then(&View::Permute { perm: vec![0, 2, 1] }, &[6, 4, 5]);
        let one = columns.normalized();
        assert_eq!(one.levels.len(), 1, "{columns} is {one}");
        assert_eq!(elements(&one, 120), elements(&columns, 120));
        assert_eq!(columns.trailing_strides(&[4, 5]), Some(vec![0, 1]));
    }

    #[test]
    fn joined_levels_read_what_the_levels_read() {
        let permutations = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let shapes: [&[usize]; 6] = [&[4, 3, 2], &[2, 2, 6], &[12, 2, 1], &[1, 8, 3], &[2, 3, 4], &[6, 1, 4]];
        let permuted = |shape: &[usize], perm: [usize; 3]| perm.map(|axis| shape[axis]);
        let mut n_joined = 0;
        for (first, second) in shapes.iter().flat_map(|a| shapes.iter().map(move |b| (a, b))) {
            for (p, q) in permutations.iter().flat_map(|p| permutations.iter().map(move |q| (p, q))) {
                let access = Access::dense(first)
                    .then(&View::Permute { perm: p.to_vec() }, &permuted(first, *p))
                    .then(&View::Reshape, second)
                    .then(&View::Permute { perm: q.to_vec() }, &permuted(second, *q));
                let one = access.normalized();
                assert_eq!(elements(&one, 24), elements(&access, 24), "{access:?} is {one:?}");
                n_joined += (one.levels.len() < access.levels.len()) as usize;
            }
        }
        assert!(n_joined > 50, "{n_joined} were joined");
    }

    #[test]
    fn splitting_and_joining_axes_stays_one_level() {
        let access = Access::dense(&[4, 6]).then(&View::Reshape, &[2, 2, 2, 3]).then(&View::Reshape, &[24]);
        assert!(access.is_identity(24));
    }

    #[test]
    fn nothing_can_be_reshaped_to_nothing() {
        for extents in [vec![0, 2], vec![0], vec![2, 0, 3]] {
            let access = Access::dense(&[0]).then(&View::Reshape, &extents);
            assert_eq!(elements(&access, 0), []);
        }
    }

    #[test]
    fn a_pad_reads_its_fill_outside() {
        let pad = View::Pad { low: vec![1], high: vec![2], fill: Literal::Float(0.0) };
        let access = Access::dense(&[3]).then(&pad, &[6]);
        assert_eq!(elements(&access, 6), [None, Some(0), Some(1), Some(2), None, None]);
        let back = access.then(&View::Slice { start: vec![5], step: vec![-2] }, &[3]);
        assert_eq!(elements(&back, 3), [None, Some(2), Some(0)]);
    }

    #[test]
    fn what_is_the_same_along_a_row_is_read_once_a_row() {
        let access = Access::strided(&[2, 3, 4], &[0, 1, 0]);
        let rows = access.along_rows(Domain { outer: 6, row: 4, inner: 1 }).unwrap();
        assert_eq!(elements(&rows, 6), [0, 1, 2, 0, 1, 2].map(Some));
        assert_eq!(access.along_rows(Domain { outer: 2, row: 12, inner: 1 }), None);
        assert_eq!(Access::dense(&[6, 4]).along_rows(Domain { outer: 6, row: 4, inner: 1 }), None);
    }

    #[test]
    fn the_last_axes_may_be_even_where_the_first_are_not() {
        let heads =
            Access::dense(&[2, 1, 4, 3]).then(&View::Broadcast { axes: vec![0, 1, 2, 3] }, &[2, 5, 4, 3]);
        let joined = heads.then(&View::Reshape, &[10, 4, 3]);
        assert_eq!(joined.trailing_strides(&[4, 3]), Some(vec![3, 1]));
        assert_eq!(joined.trailing_strides(&[10, 4, 3]), None);
        assert_eq!(Access::dense(&[6, 4]).trailing_strides(&[2, 1, 4]), Some(vec![4, 0, 1]));
    }

    #[test]
    fn a_broadcast_row_repeats() {
        let access = Access::dense(&[3]).then(&View::Broadcast { axes: vec![1] }, &[2, 3]);
        assert_eq!(elements(&access, 6), [0, 1, 2, 0, 1, 2].map(Some));
        assert!(Access::dense(&[1]).then(&View::Broadcast { axes: vec![0] }, &[5]).is_uniform());
    }
}
