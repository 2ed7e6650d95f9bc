//! The length of queue submissions, and of measurements, each of which is one. Drivers reset a GPU that works on one
//! submission for too long: Windows after 2 s, Linux on AMD after 10 s. The measured time of earlier steps keeps each
//! submission well below that.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

/// The largest number of steps in a submission, so that the host encodes one submission while the GPU executes another.
pub const MOST_STEPS: u32 = 16;
/// The intended limit of a submission. It leaves a margin for other processes on the GPU and for lower clock rates.
const LONGEST: Duration = Duration::from_millis(250);
/// The number of submissions of an untimed step, whose length is unknown.
const UNTIMED_PARTS: usize = 16;
/// The factor by which the parts of a long step exceed the least number. Parts have equal numbers of dispatches, but unequal
/// times.
const SPARE_PARTS: f64 = 4.0;

/// The least length of a measurement in seconds. The overhead at its ends is long compared with a short kernel.
const LEAST_SECONDS: f64 = 300e-6;
/// The repetitions of a measurement, unless they exceed the length of a submission.
const REPETITIONS: RangeInclusive<usize> = 4..=64;

/// The steps that are submitted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Whole steps.
    pub n_steps: u32,
    /// The number of submissions of these steps; more than one only for a single step.
    pub n_parts: usize,
}

impl Portion {
    /// The portions of a run whose steps take the time `step`. Untimed steps are submitted one by one. The first portions are
    /// short, so that the GPU starts while the host encodes the others.
    pub fn all(step: Option<Duration>, n_steps: u32) -> impl Iterator<Item = Portion> {
        let largest = Portion::new(step);
        let (mut left, mut next) = (n_steps, 1);
        std::iter::from_fn(move || {
            let n_steps = largest.n_steps.min(next).min(left);
            (left, next) = (left - n_steps, 2 * n_steps);
            (n_steps > 0).then_some(Portion { n_steps, ..largest })
        })
    }

    /// The largest portion.
    pub fn new(step: Option<Duration>) -> Portion {
        let Some(step) = step else { return Portion { n_steps: 1, n_parts: UNTIMED_PARTS } };
        if step > LONGEST {
            let n_parts = SPARE_PARTS * step.as_secs_f64() / LONGEST.as_secs_f64();
            return Portion { n_steps: 1, n_parts: n_parts.ceil() as usize };
        }
        Portion { n_steps: fitting(step).clamp(1, u64::from(MOST_STEPS)) as u32, n_parts: 1 }
    }

    /// The dispatches of each submission. Without dispatches, there is one empty submission.
    pub fn parts(self, n_dispatches: usize) -> impl Iterator<Item = Range<usize>> {
        let n_parts = self.n_parts.clamp(1, n_dispatches.max(1));
        (0..n_parts).map(move |part| n_dispatches * part / n_parts..n_dispatches * (part + 1) / n_parts)
    }
}

/// How many times work of this length fits into a submission.
fn fitting(time: Duration) -> u64 {
    let n = LONGEST.as_nanos() / time.as_nanos().max(1);
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The repetitions in a measurement of work that takes about `seconds`. One more runs before them.
pub fn n_repetitions(seconds: f64) -> usize {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let most = usize::try_from(fitting(time)).unwrap_or(usize::MAX).saturating_sub(1);
    let n_repetitions = (LEAST_SECONDS / seconds.max(1e-9)) as usize;
    n_repetitions.clamp(*REPETITIONS.start(), *REPETITIONS.end()).min(most.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portion(seconds: f64) -> (u32, usize) {
        let Portion { n_steps, n_parts } = Portion::new(Some(Duration::from_secs_f64(seconds)));
        (n_steps, n_parts)
    }

    #[test]
    fn sixteen_short_steps_share_a_submission() {
        for seconds in [0.0, 1e-9, 10e-6, 1e-3, 15.6e-3] {
            assert_eq!(portion(seconds), (16, 1), "{seconds}");
        }
    }

    #[test]
    fn slow_steps_share_a_submission_up_to_its_limit() {
        for (seconds, n_steps) in [(16e-3, 15), (25e-3, 10), (0.1, 2), (0.13, 1), (0.25, 1)] {
            assert_eq!(portion(seconds), (n_steps, 1), "{seconds}");
            assert!(f64::from(n_steps) * seconds <= LONGEST.as_secs_f64());
        }
    }

    #[test]
    fn a_step_beyond_the_limit_is_cut_into_parts() {
        for (seconds, n_parts) in [(0.251, 5), (1.0, 16), (60.0, 960)] {
            assert_eq!(portion(seconds), (1, n_parts), "{seconds}");
        }
    }

    #[test]
    fn an_untimed_step_is_submitted_alone_in_parts() {
        assert_eq!(Portion::new(None), Portion { n_steps: 1, n_parts: UNTIMED_PARTS });
    }

    #[test]
    fn parts_cover_all_dispatches_in_order() {
        for n_parts in [1, 5, 16, 960] {
            for n_dispatches in [0, 1, 7, 16, 100] {
                let parts: Vec<Range<usize>> = Portion { n_steps: 1, n_parts }.parts(n_dispatches).collect();
                assert_eq!(parts.len(), n_parts.min(n_dispatches).max(1));
                assert!(parts.iter().cloned().flatten().eq(0..n_dispatches), "{parts:?}");
                assert!(parts.iter().all(|part| part.len() <= n_dispatches.div_ceil(n_parts)), "{parts:?}");
            }
        }
    }

    #[test]
    fn portions_cover_all_steps_of_a_run() {
        let portions = |seconds: Option<f64>, n_steps: u32| {
            let all = Portion::all(seconds.map(Duration::from_secs_f64), n_steps);
            all.map(|portion| portion.n_steps).collect::<Vec<u32>>()
        };
        assert_eq!(portions(Some(100e-6), 40), [1, 2, 4, 8, 16, 9], "the first ones are short");
        assert_eq!(portions(Some(0.08), 10), [1, 2, 3, 3, 1], "slow steps, fewer at a time");
        assert_eq!(portions(Some(1.0), 3), [1; 3]);
        assert_eq!(portions(None, 1), [1]);
        assert_eq!(portions(Some(100e-6), 0), [0; 0]);
    }

    #[test]
    fn long_kernels_are_measured_by_few_repetitions() {
        let of = [0.0, 1e-6, 40e-6, 1e-3, 70e-3, 3.0, f64::INFINITY].map(n_repetitions);
        assert_eq!(of, [64, 64, 7, 4, 2, 1, 1]);
    }
}
