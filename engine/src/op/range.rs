//! Ranges of positions, by Python's rules.

use super::TypeIssue;

/// The positions of `start:stop:step` among a number of elements. Negative positions count from the end, positions
/// beyond the ends are clipped, and a negative step walks backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first position; 0 if the range is empty.
    pub start: usize,
    /// Number of positions.
    pub count: usize,
    /// Stride; 1 for fewer than two positions.
    pub step: i64,
}

impl Range {
    /// The range for `n` elements; `start` and `stop` default to the ends.
    ///
    /// # Errors
    /// If the step is 0.
    pub fn of(n: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> Result<Range, TypeIssue> {
        let n = n as i64;
        if step == 0 {
            return Err(TypeIssue::new("a slice cannot have step 0"));
        }
        // Backwards, positions run from n - 1 down to 0, and -1 is the position before the first.
        let (lowest, highest) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let clip = |at: i64| (if at < 0 { at.saturating_add(n) } else { at }).clamp(lowest, highest);
        let (from, to) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
        let start = start.map_or(from, clip);
        let stop = stop.map_or(to, clip);
        let span = if step > 0 { stop - start } else { start - stop };
        let count = if span > 0 { (span - 1) / step.saturating_abs() + 1 } else { 0 };
        // An empty slice has no start. 0 is a valid position of every slice.
        let start = if count == 0 { 0 } else { start };
        Ok(Range { start: start as usize, count: count as usize, step: if count < 2 { 1 } else { step } })
    }
}
