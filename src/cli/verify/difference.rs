//! Differences between the results of two devices.

use engine_core::ir::DType;
use engine_runtime::tensor::HostTensor;

use super::errors::{Near, is_equal, smallest_normal, units_between};

/// The differences of a device from the first one, over all results of an op or a kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Difference {
    /// Elements compared.
    n: usize,
    /// Elements with different bits.
    n_unlike: usize,
    /// Integers and truth values among them.
    n_unlike_integers: usize,
    /// Floats that overflow or underflow on one device only. They have no distance.
    n_lost: usize,
    /// The largest difference in units in the last place.
    units: f64,
    /// The largest difference relative to the largest magnitude of its result.
    relative: f64,
    /// The largest violation of the tolerance: its factor, and its place.
    pub(super) beyond: Option<(f64, String)>,
    /// The place of a violation where both devices are within the tolerance of the interpreter.
    pub(super) both_right: Option<String>,
    /// Why the device does not run all of it.
    pub(super) unable: Option<String>,
}

/// The tolerance of results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Allowed {
    /// Identical bits.
    Nothing,
    /// A share of an element and of the largest element. Integers must be equal.
    Share(f64),
}

impl Difference {
    /// Compares a result. `place` names it.
    pub(super) fn see(&mut self, found: &HostTensor, expected: &HostTensor, allowed: Allowed, place: &str) {
        let (dtype, size) = (expected.dtype(), expected.dtype().size());
        let (a, b) = (found.to_f64(), expected.to_f64());
        let share = if let Allowed::Share(share) = allowed { share } else { 0.0 };
        let near = Near::to(&b, dtype, share);
        let bits = found.bytes().chunks(size).zip(expected.bytes().chunks(size));
        let number = |x: f64| if dtype.is_float() { format!("{x:?}") } else { x.to_string() };
        self.n += b.len();
        for (i, _) in bits.enumerate().filter(|(_, (found, expected))| found != expected) {
            self.n_unlike += 1;
            self.measure(a[i], b[i], dtype, near.largest);
            let is_exact = allowed == Allowed::Nothing || !dtype.is_float();
            let excess = if is_exact { f64::INFINITY } else { near.excess(a[i], b[i]) };
            if excess > 0.0 {
                self.exceed(excess, format!("{place}[{i}] is {} instead of {}", number(a[i]), number(b[i])));
            }
        }
    }

    /// Records a violation of the tolerance by a factor.
    pub(super) fn exceed(&mut self, excess: f64, why: String) {
        if self.beyond.as_ref().is_none_or(|(most, _)| excess > *most) {
            self.beyond = Some((excess, why));
        }
    }

    fn measure(&mut self, a: f64, b: f64, dtype: DType, largest: f64) {
        if !dtype.is_float() {
            self.n_unlike_integers += 1;
            return;
        }
        let error = (a - b).abs();
        let normal = smallest_normal(dtype);
        let vanishes = error < normal && a.abs().min(b.abs()) < normal;
        match is_equal(a, b) {
            true => {}
            false if vanishes || !error.is_finite() => self.n_lost += 1,
            false => {
                self.units = self.units.max(units_between(a, b, dtype));
                self.relative = self.relative.max(error / largest);
            }
        }
    }

    /// Prints like `2 ULP (1e-7)`. `device` is its name.
    pub(super) fn text(&self, device: &str) -> String {
        let mut facts = vec![];
        if self.n > 0 || (self.unable.is_none() && self.beyond.is_none()) {
            facts.push(self.distance());
        }
        if self.n_lost > 0 {
            facts.push(format!("{} over- or underflow on one alone", self.n_lost));
        }
        facts.extend(self.both_right.as_ref().map(|why| format!("both right: {why}")));
        facts.extend(self.beyond.as_ref().map(|(_, why)| format!("BEYOND TOLERANCE: {why}")));
        facts.extend(self.unable.as_ref().map(|why| match self.n {
            0 => format!("not on {device}: {why}"),
            _ => format!("in part not on {device}: {why}"),
        }));
        facts.join("; ")
    }

    fn distance(&self) -> String {
        let integers = format!("{} of {} differ", self.n_unlike_integers, self.n);
        let floats = match self.units {
            units if units < 1e5 => format!("{} ULP ({:.0e})", units.ceil(), self.relative),
            units => format!("{units:.0e} ULP ({:.0e})", self.relative),
        };
        match (self.n_unlike, self.n_unlike_integers) {
            (0, _) => "same bits".to_string(),
            (_, 0) if self.units == 0.0 => "0 ULP".to_string(),
            (_, 0) => floats,
            _ if self.units == 0.0 => integers,
            _ => format!("{floats}, {integers}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn difference<T: engine_runtime::tensor::Element>(
        found: &[T],
        expected: &[T],
        allowed: Allowed,
    ) -> Difference {
        let tensor = |elements: &[T]| HostTensor::from_slice(&[elements.len()], elements).unwrap();
        let mut difference = Difference::default();
        difference.see(&tensor(found), &tensor(expected), allowed, "`y`");
        difference
    }

    #[test]
    fn distances_are_said_as_they_are() {
        let share = Allowed::Share(1e-5);
        let near = [1.0f32, 2.0 + 2.0 * 2.0 * f32::EPSILON];
        assert_eq!(difference(&near, &near, Allowed::Nothing).text("b"), "same bits");
        assert_eq!(difference(&near, &[1.0, 2.0], share).text("b"), "2 ULP (2e-7)");
        assert_eq!(difference(&[-0.0f32], &[0.0], share).text("b"), "0 ULP");
        assert_eq!(
            difference(&[f32::INFINITY, 0.0], &[3e38, 1e-40], share).text("b"),
            "0 ULP; 2 over- or underflow on one alone"
        );
        assert_eq!(
            difference(&[1i32, 2], &[1, 3], share).text("b"),
            "1 of 2 differ; BEYOND TOLERANCE: `y`[1] is 2 instead of 3"
        );
        // A result that must be bit-identical violates its tolerance even if it is near.
        assert!(difference(&near, &[1.0, 2.0], share).beyond.is_none());
        assert!(difference(&near, &[1.0, 2.0], Allowed::Nothing).beyond.is_some());
        assert!(difference(&[f32::NAN], &[1.0], share).beyond.is_some());
    }

    #[test]
    fn the_largest_violation_is_recorded() {
        let mut difference = Difference::default();
        let wrong = HostTensor::from_slice(&[3], &[1.0f32, 3.0, 2.0]).unwrap();
        let right = HostTensor::from_slice(&[3], &[1.5f32, 1.0, 2.0]).unwrap();
        difference.see(&wrong, &right, Allowed::Share(1e-5), "`y`");
        assert_eq!(difference.beyond.unwrap().1, "`y`[1] is 3.0 instead of 1.0");
        let unable = Difference { unable: Some("no f64".to_string()), ..Difference::default() };
        assert_eq!(unable.text("gpu"), "not on gpu: no f64");
    }
}
