//! Measurements of training, and the speed from one to a later one.

use engine_runtime::session::StepReport;

/// Remembers the last measurement.
#[derive(Default)]
pub(super) struct Meter {
    /// Steps, rows and seconds until then.
    last: Option<(u64, u64, f64)>,
}

/// The speed of some steps, evaluations apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Speed {
    pub(super) steps_per_second: f64,
    pub(super) rows_per_second: f64,
}

impl Meter {
    /// Starts where a process begins or resumes training.
    pub(super) fn start(&mut self) {
        self.last = None;
    }

    /// The speed since the last measurement. The first one has none, since it includes steps before a resumed checkpoint
    /// and the start of the device.
    pub(super) fn speed(&mut self, measured: &StepReport) -> Option<Speed> {
        let now = (measured.step, measured.rows, measured.seconds);
        let (step, rows, seconds) = self.last.replace(now)?;
        let took = now.2 - seconds;
        (took > 0.0).then(|| Speed {
            steps_per_second: now.0.saturating_sub(step) as f64 / took,
            rows_per_second: now.1.saturating_sub(rows) as f64 / took,
        })
    }
}

/// A step of training with the speed since the point before.
pub(super) struct Point<'a> {
    pub(super) stage: &'a str,
    pub(super) measured: StepReport,
    pub(super) speed: Option<Speed>,
    pub(super) process_bytes: Option<u64>,
}

impl Point<'_> {
    /// All numbers but metrics and rates, by name.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let speed = self.speed;
        let numbers = [
            ("grad_norm", self.measured.grad_norm),
            ("steps_per_second", speed.map(|speed| speed.steps_per_second)),
            ("rows_per_second", speed.map(|speed| speed.rows_per_second)),
            ("device_bytes", Some(self.measured.device_bytes as f64)),
            ("process_bytes", self.process_bytes.map(|bytes| bytes as f64)),
        ];
        numbers.into_iter().filter_map(|(name, number)| Some((name, number?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_that_between_two_measurements() {
        let mut meter = Meter::default();
        let at = |step, rows, seconds| StepReport { step, rows, seconds, ..StepReport::default() };
        assert_eq!(meter.speed(&at(100, 1000, 2.0)), None);
        let speed = Speed { steps_per_second: 20.0, rows_per_second: 150.0 };
        assert_eq!(meter.speed(&at(110, 1075, 2.5)), Some(speed));
        assert_eq!(meter.speed(&at(110, 1075, 2.5)), None);
        meter.start();
        assert_eq!(meter.speed(&at(120, 1150, 3.0)), None);
    }
}
