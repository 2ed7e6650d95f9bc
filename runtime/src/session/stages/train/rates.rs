//! Learning rates: those that depend on the monitored metric, and the numbers that all of them are at a step.

use std::collections::HashMap;

use engine_core::ir::{Graph, Symbol};
use engine_core::op::Registry;
use engine_core::oracle::Oracle;
use engine_core::pipeline::{Goal, MetricRate, Schedule, TrainStage};
use engine_core::stage::rate_of_step;
use indexmap::IndexMap;

use crate::device::DeviceError;
use crate::session::state::State;
use crate::tensor::HostTensor;

/// The learning rates of a stage.
pub(super) struct Rates {
    /// Those that each epoch may change. Each is a state of the plans, by its name.
    rates: Vec<Carried>,
    /// The others by name, each as a graph of the step.
    of_step: Vec<(Symbol, Graph)>,
}

/// A learning rate, and the numbers that its rule carries from epoch to epoch, the rate first.
struct Carried {
    name: Symbol,
    schedule: Schedule,
    rule: MetricRate,
    numbers: Vec<f64>,
}

impl Rates {
    /// The rates at the start of training.
    pub(super) fn new(stage: &TrainStage) -> Self {
        let rates = stage.optimizer.iter().flat_map(|optimizer| optimizer.metric_rates());
        let carried = |(name, schedule, rule): (Symbol, &Schedule, MetricRate)| Carried {
            name,
            schedule: schedule.clone(),
            rule,
            numbers: (rule.begin)(schedule),
        };
        Rates { rates: rates.map(carried).collect(), of_step: vec![] }
    }

    /// With the rates that depend on the step, for [`Rates::at`].
    pub(super) fn by_step(self, stage: &TrainStage, n_steps: u64, registry: &Registry) -> Self {
        let rates = stage.optimizer.iter().flat_map(|optimizer| optimizer.rates());
        let of_step = rates.filter_map(|(name, schedule)| {
            Some((name, rate_of_step(schedule, n_steps.max(1) as usize, stage.mode, registry)?))
        });
        Rates { of_step: of_step.collect(), ..self }
    }

    /// The rates of a step, counted from 0, by name. Plans compute the same formulas in single precision.
    pub(super) fn at(&self, step: u64, registry: &Registry) -> IndexMap<String, f64> {
        let oracle = Oracle::new(registry);
        let value = |graph: &Graph| {
            let run = oracle.run(graph, &HashMap::new(), 0, step as i64).ok()?;
            run.outputs.values().next().map(|rate| rate.float(0))
        };
        let of_step = self.of_step.iter().filter_map(|(name, graph)| Some((name.to_string(), value(graph)?)));
        let carried = self.rates.iter().map(|rate| (rate.name.to_string(), rate.numbers[0]));
        let mut rates: IndexMap<String, f64> = of_step.chain(carried).collect();
        rates.sort_unstable_keys();
        rates
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
            (rate.rule.next)(&rate.schedule, &mut rate.numbers, metric, goal);
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

impl Carried {
    fn key(&self) -> String {
        format!("rate.{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

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
            Rates {
                rates: vec![Carried { name: "lr".into(), schedule: schedule.clone(), rule, numbers }],
                of_step: vec![],
            }
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
