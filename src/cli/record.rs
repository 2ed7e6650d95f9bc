//! The course of training, for logs and pages: points that are dense at first and thin out as the run goes on.

use std::time::{Duration, Instant};

use engine_runtime::session::{EpochReport, Event, RunEnd, StepReport};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::log::Log;
use super::machine::peak_bytes;
use super::meter::{Meter, Point};
use super::output::Failure;

/// The share of a run's time between two points, which bounds their number.
const SHARE: f64 = 1e-3;

/// A curve: (step, value).
pub(super) type Curve = Vec<(u64, f64)>;

/// The curves of a training stage.
#[derive(Default)]
pub(super) struct Course {
    /// Metrics of single steps on the rows of training, the loss first.
    pub(super) training: IndexMap<String, Curve>,
    /// Means of the epochs, by the same names.
    pub(super) means: IndexMap<String, Curve>,
    /// The split of the evaluation, and its metrics.
    pub(super) evaluated: IndexMap<String, Curve>,
    pub(super) evaluated_on: Option<String>,
    pub(super) rates: IndexMap<String, Curve>,
    /// Norm of the gradients, speed and memory.
    pub(super) numbers: IndexMap<&'static str, Curve>,
}

/// Records events.
pub(super) struct Recorder {
    /// Steps between points; without it, time decides.
    every: Option<u64>,
    start: Instant,
    last: Option<Instant>,
    meter: Meter,
    log: Option<Log>,
    /// By training stage.
    pub(super) courses: IndexMap<String, Course>,
}

impl Recorder {
    pub(super) fn new(log: Option<Log>, every: Option<u64>) -> Self {
        let (start, meter) = (Instant::now(), Meter::default());
        Recorder { every, start, last: None, meter, log, courses: IndexMap::new() }
    }

    /// Begins a run. It starts over if another device takes the place of one that failed.
    pub(super) fn begin(
        &mut self,
        facts: impl FnOnce() -> Map<String, Value>,
        settings: &[(String, String)],
    ) {
        self.courses.clear();
        if let Some(log) = &mut self.log {
            log.begin(facts(), settings);
        }
    }

    /// Ends the log with the outcome of the run. A log that could not be written is a failure of a run without another.
    pub(super) fn end(&mut self, ended: Result<(), Failure>, end: Option<RunEnd>) -> Result<(), Failure> {
        let Some(log) = self.log.take() else { return ended };
        let error = ended.as_ref().err().map(|failure| failure.text.clone());
        let logged = log.end(end.unwrap_or_default(), error);
        ended.and(logged)
    }

    pub(super) fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::Progress { stage, step, n_steps, measure, .. } if self.is_due(*step, step == n_steps) => {
                let measured = measure.take();
                let speed = self.meter.speed(&measured);
                self.point(&Point { stage, measured, speed, process_bytes: peak_bytes() });
            }
            Event::StageStarted { .. } => self.meter.start(),
            Event::EpochDone { stage, report, .. } => self.epoch(stage, report),
            _ => {}
        }
        if let Some(log) = &mut self.log {
            log.see(event);
        }
    }

    fn is_due(&mut self, step: u64, is_last: bool) -> bool {
        let now = Instant::now();
        let pause = Duration::from_secs_f64((now - self.start).as_secs_f64() * SHARE);
        let is_due = is_last
            || match self.every {
                Some(every) => step.is_multiple_of(every),
                None => self.last.is_none_or(|last| now - last >= pause),
            };
        if is_due {
            self.last = Some(now);
        }
        is_due
    }

    fn point(&mut self, point: &Point<'_>) {
        let course = self.courses.entry(point.stage.to_string()).or_default();
        let StepReport { step, metrics, rates, .. } = &point.measured;
        for (curves, values) in [(&mut course.training, metrics), (&mut course.rates, rates)] {
            values.iter().for_each(|(name, value)| add(curves, name.clone(), (*step, *value)));
        }
        point.numbers().for_each(|(name, value)| add(&mut course.numbers, name, (*step, value)));
        if let Some(log) = &mut self.log {
            log.point(point);
        }
    }

    fn epoch(&mut self, stage: &str, report: &EpochReport) {
        let course = self.courses.entry(stage.to_string()).or_default();
        add(&mut course.means, "loss".to_string(), (report.step, report.train_loss));
        let metrics = [(&mut course.means, &report.train_metrics), (&mut course.evaluated, &report.metrics)];
        for (curves, values) in metrics {
            values.iter().for_each(|(name, value)| add(curves, name.clone(), (report.step, *value)));
        }
        course.evaluated_on.clone_from(&report.evaluated_on);
    }
}

fn add<K: std::hash::Hash + Eq>(curves: &mut IndexMap<K, Curve>, name: K, point: (u64, f64)) {
    curves.entry(name).or_default().push(point);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_taken_at_multiples_and_at_the_end() {
        let mut recorder = Recorder::new(None, Some(4));
        let due: Vec<u64> = (1..=10).filter(|&step| recorder.is_due(step, step == 10)).collect();
        assert_eq!(due, [4, 8, 10]);
    }

    #[test]
    fn points_thin_out_with_time() {
        let mut recorder = Recorder::new(None, None);
        assert!(recorder.is_due(1, false) && recorder.is_due(2, false));
        // After half an hour, a pause is two seconds.
        let Some(start) = Instant::now().checked_sub(Duration::from_secs(1800)) else { return };
        recorder.start = start;
        assert!(!recorder.is_due(3, false) && recorder.is_due(4, true));
    }
}
