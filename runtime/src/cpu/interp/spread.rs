//! Access maps that spread elements with one value between them, as the gradient of a strided window does. They are read
//! by columns: points that are equally far from each other and have equally distant elements.

use engine_core::fusion::{Access, Level};
use engine_core::ir::Literal;

/// The longest axis whose points are columns.
const LONGEST: usize = 8;

/// Points that are equally far from each other, and their elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// The place of the first point in the block.
    pub at: usize,
    /// The distance of points.
    pub pitch: usize,
    /// The number of points.
    pub count: usize,
    /// The element of the first point.
    pub first: i64,
    /// The distance of elements.
    pub stride: i64,
}

/// A map with a level whose short last axis has points without elements.
#[derive(Clone, Debug)]
pub struct Spread {
    levels: Vec<SpreadLevel>,
    /// The value of points without elements.
    pub fill: Literal,
}

#[derive(Clone, Debug)]
struct SpreadLevel {
    level: Level,
    /// By coordinate along the last axis that has elements: the level of the other axes there. Empty if the axis is long or
    /// has no guard.
    columns: Vec<(i64, Level)>,
}

impl Spread {
    /// The map, if it spreads elements and all of its fills are one.
    pub fn new(access: &Access) -> Option<Spread> {
        let mut fills = access.levels.iter().flat_map(|level| &level.guards).map(|guard| guard.fill);
        let fill = fills.next()?;
        let levels: Vec<SpreadLevel> = access.levels.iter().map(SpreadLevel::new).collect();
        let spreads = levels.iter().any(|level| !level.columns.is_empty());
        (spreads && fills.all(|other| other == fill)).then_some(Spread { levels, fill })
    }

    /// Calls `emit` for the points `start..start + len` that have elements.
    pub fn walk(&self, start: usize, len: usize, mut emit: impl FnMut(Column)) {
        let all = Column { at: 0, pitch: 1, count: len, first: start as i64, stride: 1 };
        walk(&self.levels, all, &mut emit);
    }
}

impl SpreadLevel {
    fn new(level: &Level) -> SpreadLevel {
        SpreadLevel { columns: columns(level).unwrap_or_default(), level: level.clone() }
    }
}

/// The levels of the other axes at each coordinate of a short last axis with guards.
fn columns(level: &Level) -> Option<Vec<(i64, Level)>> {
    let last = level.axes.len().checked_sub(1)?;
    let (own, others): (Vec<_>, Vec<_>) = level.guards.iter().partition(|guard| guard.axis == last);
    if own.is_empty() || !(2..=LONGEST).contains(&level.axes[last].extent) {
        return None;
    }
    let has_elements = |at: &usize| own.iter().all(|guard| (guard.low..guard.high).contains(at));
    let at = |at: usize| Level {
        offset: level.offset + at as i64 * level.axes[last].stride,
        axes: level.axes[..last].to_vec(),
        guards: others.iter().map(|&guard| guard.clone()).collect(),
    };
    Some((0..level.axes[last].extent).filter(has_elements).map(|i| (i as i64, at(i))).collect())
}

/// Walks a column of indices of the first of some levels through all of them.
fn walk(levels: &[SpreadLevel], column: Column, emit: &mut impl FnMut(Column)) {
    let Some((SpreadLevel { level, columns }, rest)) = levels.split_first() else { return emit(column) };
    let extent = level.axes.last().map_or(1, |axis| axis.extent);
    if columns.is_empty() || column.stride != 1 || column.count <= extent {
        return walk_level(level, rest, column, emit);
    }
    for (coordinate, others) in columns {
        let skipped = (coordinate - column.first).rem_euclid(extent as i64) as usize;
        if skipped < column.count {
            let own = Column {
                at: column.at + skipped * column.pitch,
                pitch: column.pitch * extent,
                count: (column.count - skipped).div_ceil(extent),
                first: (column.first + skipped as i64) / extent as i64,
                stride: 1,
            };
            walk_level(others, rest, own, emit);
        }
    }
}

/// Walks a column of indices of a level, run by run, through it and the levels behind it.
fn walk_level(level: &Level, rest: &[SpreadLevel], column: Column, emit: &mut impl FnMut(Column)) {
    let along = level.axes.last().map_or(0, |axis| axis.stride);
    let mut done = 0;
    while done < column.count {
        let index = column.first + done as i64 * column.stride;
        let count = run_length(level, index, column.stride).min(column.count - done);
        if let Ok(first) = level.at(index as usize) {
            let at = column.at + done * column.pitch;
            walk(rest, Column { at, count, first, stride: column.stride * along, ..column }, emit);
        }
        done += count;
    }
}

/// How many indices from one on, `stride` apart, lie on one run of the last axis and on one side of its guards' bounds.
pub fn run_length(level: &Level, index: i64, stride: i64) -> usize {
    let Some(last) = level.axes.len().checked_sub(1).filter(|_| stride != 0) else { return usize::MAX };
    let extent = level.axes[last].extent as i64;
    let coordinate = index % extent;
    let guards = level.guards.iter().filter(|guard| guard.axis == last);
    let bounds = guards.flat_map(|guard| [guard.low as i64, guard.high as i64]).chain([0, extent]);
    let steps = bounds.filter_map(|bound| match stride > 0 {
        true => (bound > coordinate).then(|| (bound - coordinate + stride - 1) / stride),
        false => (bound <= coordinate).then(|| (coordinate - bound) / -stride + 1),
    });
    steps.min().map_or(1, |steps| steps as usize)
}
