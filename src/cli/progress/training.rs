//! The numbers of training beside its bar, or in a line from time to time where there is no terminal.

use std::time::{Duration, Instant};

use engine_runtime::session::{Measure, StepReport};

use crate::cli::machine::peak_bytes;
use crate::cli::meter::{Meter, Speed};

/// The pause between two measurements at a bar.
const REFRESH: Duration = Duration::from_millis(500);
/// The pause between two lines without a bar.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// The numbers of the running training stage.
pub(super) struct Numbers {
    meter: Meter,
    speed: Option<Speed>,
    last: Instant,
    is_first: bool,
    pause: Duration,
}

impl Numbers {
    /// The numbers of a stage that starts now. At a bar they are shown at once.
    pub(super) fn new(has_bar: bool) -> Self {
        let pause = if has_bar { REFRESH } else { PAUSE };
        Numbers { meter: Meter::default(), speed: None, last: Instant::now(), is_first: true, pause }
    }

    /// The numbers as texts, if it is time to show them.
    pub(super) fn see(&mut self, measure: Measure<'_>, has_bar: bool) -> Option<Vec<String>> {
        let now = Instant::now();
        let is_first = std::mem::take(&mut self.is_first);
        if !is_first && now - self.last < self.pause {
            return None;
        }
        self.last = now;
        let measured = measure.take();
        self.speed = self.meter.speed(&measured).or(self.speed);
        (has_bar || !is_first).then(|| texts(&measured, self.speed, peak_bytes()))
    }
}

/// Speed, the learning rate, the norm of the gradients, and the peaks of memory: of the device, and of this process on the
/// host.
fn texts(measured: &StepReport, speed: Option<Speed>, host_bytes: Option<u64>) -> Vec<String> {
    let speed = speed.map(|Speed { steps_per_second: steps, rows_per_second: rows }| {
        [format!("{} steps/s", amount(steps)), format!("{} rows/s", amount(rows))]
    });
    let rate = measured.rates.get("lr").map(|rate| format!("lr {rate:.1e}"));
    let norm = measured.grad_norm.map(|norm| match norm {
        0.01..1000.0 => format!("|grad| {}", amount(norm)),
        _ => format!("|grad| {norm:.1e}"),
    });
    let device = Some(format!("device {}", bytes(measured.device_bytes as f64)));
    let host = host_bytes.map(|host| format!("host {}", bytes(host as f64)));
    speed.into_iter().flatten().chain([rate, norm, device, host].into_iter().flatten()).collect()
}

/// A number with two or three digits: `3.12`, `31.2`, `312`, `3.1k`.
pub(super) fn amount(number: f64) -> String {
    let (number, unit) = scaled(number, 1000.0, &["", "k", "M", "G"]);
    match number {
        0.0..9.995 if unit.is_empty() => format!("{number:.2}"),
        0.0..9.95 => format!("{number:.1}{unit}"),
        0.0..99.95 if unit.is_empty() => format!("{number:.1}"),
        _ => format!("{number:.0}{unit}"),
    }
}

/// Bytes with one or more digits: `3.1 GiB`, `312 MiB`.
fn bytes(bytes: f64) -> String {
    let (number, unit) = scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]);
    match number < 9.95 && unit != "B" {
        true => format!("{number:.1} {unit}"),
        false => format!("{number:.0} {unit}"),
    }
}

/// A number in the largest of some units, each `base` times the one before, in which it is at least 1.
fn scaled<'u>(mut number: f64, base: f64, units: &[&'u str]) -> (f64, &'u str) {
    let mut unit = 0;
    while number >= 999.5 && unit + 1 < units.len() {
        (number, unit) = (number / base, unit + 1);
    }
    (number, units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use indexmap::IndexMap;

    #[test]
    fn the_numbers_fit_a_terminal_of_80_columns() {
        let measured = StepReport {
            rates: IndexMap::from([("lr".to_string(), 9.38e-4)]),
            grad_norm: Some(0.8317),
            device_bytes: 52 << 20,
            ..StepReport::default()
        };
        let speed = Some(Speed { steps_per_second: 31.23, rows_per_second: 37_210.0 });
        let text = texts(&measured, speed, Some(5 << 28)).join("  ");
        assert_eq!(text, "31.2 steps/s  37k rows/s  lr 9.4e-4  |grad| 0.83  device 52 MiB  host 1.2 GiB");
        assert!(text.len() < 78, "{}", text.len());
        assert_eq!(texts(&StepReport::default(), None, None), ["device 0 B"]);
    }

    #[test]
    fn amounts_have_few_digits() {
        let cases = [
            (0.0, "0.00"),
            (0.5, "0.50"),
            (9.999, "10.0"),
            (312.4, "312"),
            (999.7, "1.0k"),
            (3712.0, "3.7k"),
        ];
        cases.iter().for_each(|(number, text)| assert_eq!(amount(*number), *text, "{number}"));
        assert_eq!([amount(372_100.0), amount(4.2e7)], ["372k", "42M"]);
        assert_eq!([0.0, 1000.0, 1e4, 3.3e9].map(bytes), ["0 B", "1.0 KiB", "9.8 KiB", "3.1 GiB"]);
    }
}
