//! Learning rates that depend on the monitored metric.

use engine_core::ir::Symbol;
use engine_core::pipeline::{Goal, MetricRate, Schedule, TrainStage};
use indexmap::IndexMap;

use crate::device::DeviceError;
use crate::session::state::State;
use crate::tensor::HostTensor;

/// The learning rates of a stage that each epoch may change. Each is a state of the plans, by its name.
pub(super) struct Rates<'p> {
    rates: Vec<Carried<'p>>,
}

/// A learning rate, and the numbers that its rule carries from epoch to epoch, the rate first.
struct Carried<'p> {
    name: Symbol,
    schedule: &'p Schedule,
    rule: MetricRate,
    numbers: Vec<f64>,
}

impl<'p> Rates<'p> {
    /// The rates at the start of training.
    pub(super) fn new(stage: &'p TrainStage) -> Self {
        let rates = stage.optimizer.iter().flat_map(|optimizer| optimizer.metric_rates());
        let carried = |(name, schedule, rule): (Symbol, &'p Schedule, MetricRate)| Carried {
            name,
            schedule,
            rule,
            numbers: (rule.begin)(schedule),
        };
        Rates { rates: rates.map(carried).collect() }
    }

    /// Writes the rates where the plans read them.
    pub(super) fn write(&self, state: &State) -> Result<(), DeviceError> {
        let write = |rate: &Carried| state.write(&rate.name, &HostTensor::scalar(rate.numbers[0] as f32));
        self.rates.iter().try_for_each(write)
    }

    /// Changes the rates by the metric of an epoch. Returns the new rates that differ, by name.
    pub(super) fn judge(&mut self, metric: f64, goal: Goal) -> Vec<(Symbol, f64)> {
        let mut changed = vec![];
        for rate in &mut self.rates {
            let before = rate.numbers[0];
            (rate.rule.next)(rate.schedule, &mut rate.numbers, metric, goal);
            if rate.numbers[0] != before {
                changed.push((rate.name.clone(), rate.numbers[0]));
            }
        }
        changed
    }

    /// Entries of a checkpoint's `extra`.
    pub(super) fn to_extra(&self) -> impl Iterator<Item = (String, String)> {
        let text =
            |rate: &Carried| rate.numbers.iter().map(|x| format!("{x:?}")).collect::<Vec<_>>().join(" ");
        self.rates.iter().map(move |rate| (rate.key(), text(rate)))
    }

    /// Takes over the numbers of a checkpoint; `None` if it has none for a rate.
    pub(super) fn restore(&mut self, extra: &IndexMap<String, String>) -> Option<()> {
        for rate in &mut self.rates {
            let numbers = extra.get(&rate.key())?.split(' ').map(|number| number.parse().ok());
            let numbers = numbers.collect::<Option<Vec<f64>>>()?;
            if numbers.len() != rate.numbers.len() {
                return None;
            }
            rate.numbers = numbers;
        }
        Some(())
    }
}

impl Carried<'_> {
    fn key(&self) -> String {
        format!("rate.{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use engine_core::op::Registry;
    use engine_core::pipeline::ScheduleForm;

    use super::*;

    #[test]
    fn a_checkpoint_carries_them_along() {
        let registry = Registry::new();
        let form: &ScheduleForm = registry.form("Plateau").unwrap();
        let schedule = Schedule::new(form, [0.1, 0.3, 1.0, 1e-4, 2.0, 0.0]);
        let begin = || {
            let rule = schedule.metric_rate().unwrap();
            let numbers = (rule.begin)(&schedule);
            Rates { rates: vec![Carried { name: "lr".into(), schedule: &schedule, rule, numbers }] }
        };
        let metrics = [1.0, 1.0, 1.5, 1.1, 1.0, 0.3, 0.7, 0.7, 0.7, 0.7];
        let mut whole = begin();
        for (n_done, metric) in metrics.iter().enumerate() {
            let extra: IndexMap<String, String> = whole.to_extra().collect();
            let mut resumed = begin();
            resumed.restore(&extra).unwrap();
            whole.judge(*metric, Goal::Min);
            resumed.judge(*metric, Goal::Min);
            let bits = |rates: &Rates| rates.rates[0].numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&resumed), bits(&whole), "after {n_done} epochs");
        }
        assert_eq!(whole.rates[0].numbers[0], 0.1 * 0.3 * 0.3);
        for odd in [vec![], vec![("rate.lr", "0.1")], vec![("rate.lr", "0.1 NaN 0 much")]] {
            let odd = odd.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            assert_eq!(begin().restore(&odd), None);
        }
    }
}
