//! Access maps: which element of a dense tensor each point of a kernel's domain reads or writes.

use super::domain::Domain;
use crate::ir::{Literal, View, dense_strides};
use std::fmt;

#[cfg(test)]
mod tests;

/// One axis of a level: `extent` points, `stride` elements apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Number of points.
    pub extent: usize,
    /// Distance of neighbours, in elements that the level maps to.
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
    /// The value of points outside.
    pub fill: Literal,
}

/// One step from a linear index to another: split row-major by the axes' extents, then `offset + Σ coordinate·stride`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Level {
    /// Added always.
    pub offset: i64,
    /// Axes, outermost first; their extents multiply to the number of points.
    pub axes: Vec<Axis>,
    /// The guards of points outside. All have one fill, so their order is of no meaning.
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
        if access.levels[0].needs_another(view, result) {
            let extents: Vec<usize> = access.levels[0].axes.iter().map(|axis| axis.extent).collect();
            access.levels.insert(0, Level::dense(&extents));
        }
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
            View::Window { axis, step, dilation } => level.window(*axis, [*step, *dilation], result),
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

    /// Whether all points of a row read the row's own element.
    pub fn is_row_pattern(&self, domain: Domain) -> bool {
        let own = Access::strided(&[domain.outer, domain.row, domain.inner], &[domain.inner as i64, 0, 1]);
        self.normalized() == own.normalized()
    }

    /// Strides of the last axes of the domain, if it ends in axes of these extents with even strides. The axes before
    /// them may be uneven.
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

    /// The offset and, for each axis of a domain of these extents, the axes that it consists of, outermost first. None if
    /// there are guards, if two levels do not join, or if an axis ends within one of the domain's.
    pub fn axes_by_axis(&self, extents: &[usize]) -> Option<(i64, Vec<Vec<Axis>>)> {
        let access = self.normalized();
        let [level] = &access.levels[..] else { return None };
        if !level.guards.is_empty() || extents.contains(&0) {
            return None;
        }
        let mut rest = level.axes.clone();
        let mut by_axis = vec![vec![]; extents.len()];
        for (axes, &extent) in by_axis.iter_mut().zip(extents).rev() {
            let mut left = extent;
            while left > 1 {
                let Axis { extent, stride } = rest.pop()?;
                let taken = extent.min(left);
                if extent % taken != 0 || left % taken != 0 {
                    return None;
                }
                if taken < extent {
                    rest.push(Axis { extent: extent / taken, stride: stride * taken as i64 });
                }
                axes.insert(0, Axis { extent: taken, stride });
                left /= taken;
            }
        }
        Some((level.offset, by_axis))
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

/// The first two levels that can be one, and their joined level.
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

    /// Whether a view goes to a new level before this one: it repeats or cuts an axis with a guard, or pads with another fill.
    fn needs_another(&self, view: &View, result: &[usize]) -> bool {
        self.guards.iter().any(|guard| match view {
            View::Broadcast { axes } => self.axes[guard.axis].extent != result[axes[guard.axis]],
            View::Window { axis, .. } => guard.axis == *axis,
            View::Pad { fill, .. } => guard.fill != *fill && !self.is_empty(),
            View::Permute { .. } | View::Slice { .. } | View::Reshape => false,
        })
    }

    /// Whether there are no points.
    fn is_empty(&self) -> bool {
        self.axes.iter().any(|axis| axis.extent == 0)
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

    /// No guard is on the axis.
    fn window(&mut self, axis: usize, steps: [usize; 2], result: &[usize]) {
        let stride = self.axes[axis].stride;
        let parts =
            [0, 1].map(|part| Axis { extent: result[axis + part], stride: stride * steps[part] as i64 });
        self.axes.splice(axis..=axis, parts);
        self.guards.iter_mut().filter(|guard| guard.axis > axis).for_each(|guard| guard.axis += 1);
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

    /// The guards have that fill, unless the level is empty.
    fn pad(&mut self, low: &[usize], high: &[usize], fill: Literal) {
        if self.is_empty() {
            // All points are new ones.
            self.guards.clear();
        }
        for (i, axis) in self.axes.iter_mut().enumerate() {
            for guard in self.guards.iter_mut().filter(|guard| guard.axis == i) {
                guard.low += low[i];
                guard.high += low[i];
            }
            if low[i] + high[i] > 0 {
                self.guards.push(Guard { axis: i, low: low[i], high: low[i] + axis.extent, fill });
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
            // A domain without points: any axes do.
            let axes = result.iter().map(|&extent| Axis { extent, stride: 0 }).collect();
            return Some(Level { offset: 0, axes, guards: vec![] });
        }
        let source = self.normalized();
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
