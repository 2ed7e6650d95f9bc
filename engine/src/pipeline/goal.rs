//! Better and worse values of a metric.

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Lower values are better, as of a loss.
    Min,
    /// Higher values are better, as of an accuracy.
    Max,
}

impl Goal {
    /// Whether `value` is better than `known` by more than `min_delta`. A value that is not finite is never better.
    pub fn improves(self, value: f64, known: f64, min_delta: f64) -> bool {
        value.is_finite()
            && match self {
                Goal::Min => value < known - min_delta,
                Goal::Max => value > known + min_delta,
            }
    }
}
