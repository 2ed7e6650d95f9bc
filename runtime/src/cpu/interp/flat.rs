//! Access maps of several levels or with guards, as one level: each coordinate of a point adds to the address, and to the
//! sums that guards bound. Windows over the border of an image are of this kind.

use super::span::Span;
use engine_core::fusion::{Access, Level};
use engine_core::ir::{Literal, dense_strides};

/// The most axes.
const MAX_AXES: usize = 16;
/// The address, and the most sums that guards bound.
const MAX_SUMS: usize = 8;

/// The address, and the sums of guards.
type Sums = [i64; MAX_SUMS];

/// The elements of consecutive points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stretch {
    /// Elements `first`, `first + stride`, …
    Elements {
        /// The element of the first point.
        first: i64,
        /// The distance of neighbours.
        stride: i64,
    },
    /// The value of points outside the tensor.
    Fill(Literal),
}

/// The elements of consecutive points that are several whole runs of the last axis, or one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Runs {
    /// Elements `first + i · strides[0] + j · strides[1]`, where `j` counts the points of a run.
    Elements {
        /// The element of the first point.
        first: i64,
        /// The distance of runs, and of the points of a run.
        strides: [i64; 2],
        /// The points of a run.
        len: usize,
    },
    /// The value of points outside the tensor.
    Fill(Literal),
}

/// Equally distant runs of points of one length that have elements. All other points lie outside the tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// The place of the first point in the block.
    pub at: usize,
    /// The distance of runs among the points.
    pub pitch: usize,
    pub n_runs: usize,
    /// The points of a run.
    pub len: usize,
    /// The element of the first point.
    pub first: i64,
    /// The distances of runs and of neighbours among the elements.
    pub strides: [i64; 2],
}

impl From<(usize, Stretch)> for Runs {
    fn from((len, stretch): (usize, Stretch)) -> Runs {
        match stretch {
            Stretch::Elements { first, stride } => Runs::Elements { first, strides: [0, stride], len },
            Stretch::Fill(fill) => Runs::Fill(fill),
        }
    }
}

/// A map whose points outside all have one value.
#[derive(Clone, Debug)]
pub struct Flat {
    axes: Vec<SumAxis>,
    /// The sums of the first point.
    start: Sums,
    /// For each guard, its bounds. Its sum follows the address and those of earlier guards.
    guards: Vec<[i64; 2]>,
    /// The value of points outside.
    pub fill: Literal,
}

#[derive(Clone, Copy, Debug)]
struct SumAxis {
    extent: usize,
    /// The change of the sums from one point to the next, and from the last point to the first one of the next outer point.
    step: Sums,
    carry: Sums,
}

impl Flat {
    /// The map as one level; `None` if the levels do not combine, or if points outside have several values.
    pub fn new(access: &Access) -> Option<Flat> {
        let [first, rest @ ..] = &access.levels[..] else { return None };
        let guard = access.levels.iter().flat_map(|level| &level.guards).next();
        let fill = guard.map_or(Literal::Int(0), |guard| guard.fill);
        let mut map = Combined::new(first, fill)?;
        for level in rest {
            map = map.followed_by(level, fill)?;
        }
        let is_small = map.steps.len() <= MAX_AXES && !map.steps.is_empty() && map.guards.len() < MAX_SUMS;
        is_small.then(|| map.flat(fill))
    }

    /// Calls `emit(first point - start, count, stretch)` for the points `start..start + len`, in order.
    pub fn walk(&self, start: usize, len: usize, mut emit: impl FnMut(usize, usize, Stretch)) {
        let (last, mut odometer) = (self.axes.len() - 1, self.odometer(start));
        let step = &self.axes[last].step;
        let mut at = 0;
        while at < len {
            let count = (self.axes[last].extent - odometer.coordinates[last]).min(len - at);
            let [low, high] = self.inside(&odometer.sums, step, count as i64);
            let first = odometer.sums[0] + low * step[0];
            let [low, high] = [low as usize, high as usize];
            if low > 0 {
                emit(at, low, Stretch::Fill(self.fill));
            }
            if high > low {
                emit(at + low, high - low, Stretch::Elements { first, stride: step[0] });
            }
            if count > high {
                emit(at + high, count - high, Stretch::Fill(self.fill));
            }
            at += count;
            self.advance(&mut odometer, last, count);
        }
    }

    /// Whether points may lie outside the tensor.
    pub fn has_guards(&self) -> bool {
        !self.guards.is_empty()
    }

    /// Calls `emit` for those of the points `start..start + len` that have elements. Whole runs of the last axis come
    /// together as far as guards cut all of them alike.
    pub fn walk_blocks(&self, start: usize, len: usize, mut emit: impl FnMut(Block)) {
        let (last, mut odometer) = (self.axes.len() - 1, self.odometer(start));
        let SumAxis { extent, step, .. } = &self.axes[last];
        let mut at = 0;
        while at < len {
            let coordinate = odometer.coordinates[last];
            let n_whole = if coordinate == 0 { (len - at) / extent } else { 0 };
            let n_even = self.n_even_runs(&odometer, n_whole);
            let (count, n_runs) =
                if n_even > 0 { (*extent, n_even) } else { ((extent - coordinate).min(len - at), 1) };
            let outer = if n_even > 0 { self.axes[last - 1].step } else { [0; MAX_SUMS] };
            let across = |guard: usize| outer[guard + 1] != 0;
            let [from_run, to_run] = self.inside_of(&odometer.sums, &outer, n_runs as i64, across);
            let [from, to] = self.inside_of(&odometer.sums, step, count as i64, |guard| !across(guard));
            if from < to && from_run < to_run {
                emit(Block {
                    at: at + from_run as usize * extent + from as usize,
                    pitch: *extent,
                    n_runs: (to_run - from_run) as usize,
                    len: (to - from) as usize,
                    first: odometer.sums[0] + from_run * outer[0] + from * step[0],
                    strides: [outer[0], step[0]],
                });
            }
            at += count * n_runs;
            match n_even {
                0 => self.advance(&mut odometer, last, count),
                n_runs => self.advance(&mut odometer, last - 1, n_runs),
            }
        }
    }

    /// How many of the runs of the last axis from one on follow each other along the axis before it, and have guards that
    /// bound runs or points within a run alone.
    fn n_even_runs(&self, odometer: &Odometer, most: usize) -> usize {
        let Some(outer) = self.axes.len().checked_sub(2) else { return 0 };
        let (outer_step, step) = (&self.axes[outer].step, &self.axes[outer + 1].step);
        let is_even = (1..=self.guards.len()).all(|guard| outer_step[guard] == 0 || step[guard] == 0);
        if is_even { (self.axes[outer].extent - odometer.coordinates[outer]).min(most) } else { 0 }
    }

    /// Calls `emit(place in the block, count, runs)` for the runs of a span, in order. Those that are evenly spaced come
    /// together, and so do those outside.
    pub fn walk_runs(&self, span: Span, mut emit: impl FnMut(usize, usize, Runs)) {
        let (width, height) = span.runs();
        let stride = self.axes[self.axes.len() - 1].step[0];
        let mut row = 0;
        while row < height {
            let start = span.start + row * span.pitch;
            let odometer = self.odometer(start);
            let Some((count, step)) = self.even_runs(&odometer, width, height - row, span.pitch) else {
                self.walk(start, width, |at, count, stretch| {
                    emit(row * width + at, count, (count, stretch).into());
                });
                row += 1;
                continue;
            };
            let [from, to] = self.inside(&odometer.sums, &step, count as i64);
            let strides = [step[0], stride];
            let elements = Runs::Elements { first: odometer.sums[0] + from * step[0], strides, len: width };
            let [from, to] = [from as usize, to as usize];
            let parts =
                [(0, from, Runs::Fill(self.fill)), (from, to, elements), (to, count, Runs::Fill(self.fill))];
            for (from, to, runs) in parts.into_iter().filter(|(from, to, _)| to > from) {
                emit((row + from) * width, (to - from) * width, runs);
            }
            row += count;
        }
    }

    /// How many runs from one on, `pitch` points apart, change all sums by the same step, and this step. None if the first one
    /// crosses the end of the last axis, or bounds of guards cut runs.
    fn even_runs(
        &self,
        odometer: &Odometer,
        width: usize,
        most: usize,
        pitch: usize,
    ) -> Option<(usize, Sums)> {
        let last = self.axes.len() - 1;
        let SumAxis { extent, step, .. } = &self.axes[last];
        let coordinate = odometer.coordinates[last];
        let rest = extent.checked_sub(coordinate + width)?;
        let by = |step: &Sums, n: usize| step.map(|step| step * n as i64);
        let (count, of_run) = match last.checked_sub(1).map(|outer| (outer, &self.axes[outer])) {
            Some((i, outer)) if pitch.is_multiple_of(*extent) => {
                let n = pitch / extent;
                ((outer.extent - odometer.coordinates[i]).div_ceil(n), by(&outer.step, n))
            }
            _ => (rest / pitch + 1, by(step, pitch)),
        };
        let count = count.min(most);
        let is_whole = |(guard, [low, high]): (usize, &[i64; 2])| {
            let sum = odometer.sums[guard + 1];
            let (along, across) =
                (step[guard + 1] * (width as i64 - 1), of_run[guard + 1] * (count as i64 - 1));
            let corners = [sum, sum + along, sum + across, sum + along + across];
            along == 0 || corners.iter().all(|corner| (*low..*high).contains(corner))
        };
        self.guards.iter().enumerate().all(is_whole).then_some((count, of_run))
    }

    /// The points `start..start + len`, if they are one stretch.
    pub fn stretch(&self, start: usize, len: usize) -> Option<Stretch> {
        let last = self.axes.last()?;
        if start % last.extent.max(1) + len > last.extent {
            return None;
        }
        let sums = self.odometer(start).sums;
        let stride = if len == 1 { 0 } else { last.step[0] };
        match self.inside(&sums, &last.step, len as i64) {
            [0, to] if to == len as i64 => Some(Stretch::Elements { first: sums[0], stride }),
            [from, _] if from == len as i64 => Some(Stretch::Fill(self.fill)),
            _ => None,
        }
    }

    /// The points of a run of `count` that no guard keeps out.
    #[inline(always)]
    fn inside(&self, sums: &Sums, step: &Sums, count: i64) -> [i64; 2] {
        self.inside_of(sums, step, count, |_| true)
    }

    /// The points of a run of `count` that none of some guards keeps out.
    #[inline(always)]
    fn inside_of(&self, sums: &Sums, step: &Sums, count: i64, is_asked: impl Fn(usize) -> bool) -> [i64; 2] {
        let (mut from, mut to) = (0, count);
        for (guard, [low, high]) in self.guards.iter().enumerate().filter(|(guard, _)| is_asked(*guard)) {
            let (sum, step) = (sums[guard + 1], step[guard + 1]);
            if *low <= sum && sum + step * (count - 1) < *high {
                continue;
            }
            if step == 0 {
                return [count, count];
            }
            // The first point at or above a bound.
            let steps = |distance: i64| match step {
                1 => distance,
                _ => (distance + step - 1).div_euclid(step),
            };
            let reaches = |bound: i64| steps(bound - sum).clamp(0, count);
            (from, to) = (from.max(reaches(*low)), to.min(reaches(*high)));
        }
        if from < to { [from, to] } else { [count, count] }
    }

    fn odometer(&self, point: usize) -> Odometer {
        let mut odometer = Odometer { coordinates: [0; MAX_AXES], sums: self.start };
        let mut rest = point;
        for (i, axis) in self.axes.iter().enumerate().rev() {
            let coordinate = rest % axis.extent.max(1);
            rest /= axis.extent.max(1);
            odometer.coordinates[i] = coordinate;
            odometer.add(&axis.step, coordinate as i64);
        }
        odometer
    }

    /// Advances by `count` points of an axis, which do not pass its end.
    #[inline(always)]
    fn advance(&self, odometer: &mut Odometer, mut axis: usize, count: usize) {
        odometer.coordinates[axis] += count;
        odometer.add(&self.axes[axis].step, count as i64);
        while axis > 0 && odometer.coordinates[axis] == self.axes[axis].extent {
            odometer.coordinates[axis] = 0;
            odometer.add(&self.axes[axis].carry, 1);
            axis -= 1;
            odometer.coordinates[axis] += 1;
        }
    }
}

/// A point as coordinates and as sums.
struct Odometer {
    coordinates: [usize; MAX_AXES],
    sums: Sums,
}

impl Odometer {
    #[inline(always)]
    fn add(&mut self, step: &Sums, count: i64) {
        self.sums.iter_mut().zip(step).for_each(|(sum, step)| *sum += count * step);
    }
}

/// Levels combined so far: the index that they lead to is a sum over the axes of the first one.
struct Combined {
    extents: Vec<usize>,
    offset: i64,
    steps: Vec<i64>,
    guards: Vec<SumGuard>,
}

/// A bound on a sum over the axes.
struct SumGuard {
    start: i64,
    steps: Vec<i64>,
    bounds: [i64; 2],
}

impl Combined {
    fn new(level: &Level, fill: Literal) -> Option<Combined> {
        let n_axes = level.axes.len();
        let own = |axis: usize| (0..n_axes).map(|i| i64::from(i == axis)).collect();
        let guards = level.guards.iter().map(|guard| {
            let bounds = [guard.low as i64, guard.high as i64];
            (guard.fill == fill).then(|| SumGuard { start: 0, steps: own(guard.axis), bounds })
        });
        Some(Combined {
            extents: level.axes.iter().map(|axis| axis.extent).collect(),
            offset: level.offset,
            steps: level.axes.iter().map(|axis| axis.stride).collect(),
            guards: guards.collect::<Option<_>>()?,
        })
    }

    /// The combination with a further level, if each coordinate of it is a sum of its own over the axes: no sum carries into
    /// the next coordinate.
    fn followed_by(mut self, level: &Level, fill: Literal) -> Option<Combined> {
        let extents: Vec<usize> = level.axes.iter().map(|axis| axis.extent).collect();
        let dense = dense_strides(&extents);
        let digits = |number: i64| -> Option<Vec<i64>> {
            let mut rest = usize::try_from(number).ok()?;
            let digits = dense.iter().map(|&stride| {
                let digit = rest / stride.max(1);
                rest -= digit * stride.max(1);
                digit as i64
            });
            let digits: Vec<i64> = digits.collect();
            (rest == 0).then_some(digits)
        };
        let start = digits(self.offset)?;
        let by_axis: Vec<Vec<i64>> = self.steps.iter().map(|&step| digits(step)).collect::<Option<_>>()?;
        for (i, &extent) in extents.iter().enumerate() {
            let steps =
                by_axis.iter().zip(&self.extents).map(|(digits, &n)| digits[i] * (n as i64 - 1).max(0));
            if start[i] + steps.sum::<i64>() >= extent as i64 {
                return None;
            }
        }
        if level.guards.iter().any(|guard| guard.fill != fill) {
            return None;
        }
        for guard in &level.guards {
            let steps = by_axis.iter().map(|digits| digits[guard.axis]).collect();
            let bounds = [guard.low as i64, guard.high as i64];
            self.guards.push(SumGuard { start: start[guard.axis], steps, bounds });
        }
        let sum = |digits: &[i64]| -> i64 {
            digits.iter().zip(&level.axes).map(|(digit, axis)| digit * axis.stride).sum()
        };
        self.offset = level.offset + sum(&start);
        self.steps = by_axis.iter().map(|digits| sum(digits)).collect();
        Some(self)
    }

    fn flat(&self, fill: Literal) -> Flat {
        let sums = |address: i64, of: &dyn Fn(&SumGuard) -> i64| {
            let mut sums = [0; MAX_SUMS];
            sums[0] = address;
            sums[1..].iter_mut().zip(&self.guards).for_each(|(sum, guard)| *sum = of(guard));
            sums
        };
        let steps: Vec<Sums> = self
            .steps
            .iter()
            .enumerate()
            .map(|(i, &step)| sums(step, &|guard: &SumGuard| guard.steps[i]))
            .collect();
        let axes = self.extents.iter().enumerate().map(|(i, &extent)| {
            let outer = if i == 0 { [0; MAX_SUMS] } else { steps[i - 1] };
            let carry = std::array::from_fn(|sum| outer[sum] - extent as i64 * steps[i][sum]);
            SumAxis { extent, step: steps[i], carry }
        });
        let guards = self.guards.iter().map(|guard| guard.bounds).collect();
        Flat { axes: axes.collect(), start: sums(self.offset, &|guard: &SumGuard| guard.start), guards, fill }
    }
}
