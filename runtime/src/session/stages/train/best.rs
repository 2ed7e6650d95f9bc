//! The best epoch of a training so far.

use engine_core::pipeline::Goal;
use indexmap::IndexMap;

/// The best epoch so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Best {
    /// The best value of the monitored metric.
    pub(super) metric: Option<f64>,
    /// Its epoch, counted from 1.
    pub(super) epoch: u64,
    /// Steps taken until then.
    pub(super) step: Option<u64>,
    /// The value that a later one must improve on by `min_delta`, for patience to start over.
    reference: Option<f64>,
    /// Epochs since then.
    pub(super) stale: u64,
}

impl Best {
    /// Takes note of the metric after an epoch; whether that is the best epoch so far.
    pub(super) fn judge(
        &mut self,
        (epoch, step): (u64, u64),
        metric: f64,
        (goal, min_delta): (Goal, f64),
    ) -> bool {
        let improves = |known: Option<f64>, min_delta: f64| match known {
            Some(known) => goal.improves(metric, known, min_delta),
            None => metric.is_finite(),
        };
        let is_best = improves(self.metric, 0.0);
        if is_best {
            (self.metric, self.epoch, self.step) = (Some(metric), epoch, Some(step));
        }
        match improves(self.reference, min_delta) {
            true => (self.reference, self.stale) = (Some(metric), 0),
            false => self.stale += 1,
        }
        is_best
    }

    /// Entries of a checkpoint's `extra`.
    pub(super) fn to_extra(self) -> IndexMap<String, String> {
        let number =
            |name: &str, value: Option<f64>| value.map(|value| (name.to_string(), format!("{value:?}")));
        let numbers = [number("best_metric", self.metric), number("patience_metric", self.reference)];
        let step = self.step.map(|step| ("best_step", step));
        let counts = [("best_epoch", self.epoch), ("stale_epochs", self.stale)].into_iter().chain(step);
        let counts = counts.map(|(name, count)| (name.to_string(), count.to_string()));
        numbers.into_iter().flatten().chain(counts).collect()
    }

    /// Parses the text of [`Best::to_extra`]; `None` if it is invalid.
    pub(super) fn from_extra(extra: &IndexMap<String, String>) -> Option<Self> {
        let number = |name: &str| extra.get(name).map(|text| text.parse::<f64>()).transpose().ok();
        let count = |name: &str| extra.get(name).map_or(Some(0), |text| text.parse().ok());
        let metric = number("best_metric")?;
        let step = extra.get("best_step").map(|text| text.parse()).transpose().ok()?;
        Some(Best {
            metric,
            epoch: count("best_epoch")?,
            step,
            reference: number("patience_metric")?.or(metric),
            stale: count("stale_epochs")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best epochs and the longest patience of a run of metrics.
    fn judged(metrics: &[f64], goal: (Goal, f64)) -> (Vec<u64>, Best) {
        let mut best = Best::default();
        let epochs =
            (1..).zip(metrics).filter(|&(epoch, &metric)| best.judge((epoch, 10 * epoch), metric, goal));
        (epochs.map(|(epoch, _)| epoch).collect(), best)
    }

    #[test]
    fn the_goal_decides_which_values_are_better() {
        let metrics = [3.0, 2.0, 4.0, 1.0, f64::NAN, f64::INFINITY];
        let (epochs, best) = judged(&metrics, (Goal::Min, 0.0));
        assert_eq!((epochs, best.metric, best.epoch, best.stale), (vec![1, 2, 4], Some(1.0), 4, 2));
        let (epochs, best) = judged(&metrics, (Goal::Max, 0.0));
        assert_eq!((epochs, best.metric, best.epoch, best.stale), (vec![1, 3], Some(4.0), 3, 3));
    }

    #[test]
    fn small_improvements_are_the_best_but_wear_patience_out() {
        let (epochs, best) = judged(&[1.0, 0.95, 0.91, 0.85], (Goal::Min, 0.1));
        assert_eq!((epochs, best.stale), (vec![1, 2, 3, 4], 0));
        let (epochs, best) = judged(&[1.0, 0.95, 0.91], (Goal::Min, 0.1));
        assert_eq!((epochs, best.stale), (vec![1, 2, 3], 2));
    }

    #[test]
    fn a_checkpoint_carries_it_along() {
        for metrics in [&[][..], &[0.1, 0.3], &[f64::NAN]] {
            let (_, best) = judged(metrics, (Goal::Min, 0.01));
            assert_eq!(Best::from_extra(&best.to_extra()), Some(best));
        }
        let odd = IndexMap::from([("best_metric".to_string(), "much".to_string())]);
        assert_eq!(Best::from_extra(&odd), None);
    }
}
