//! How much of a run is handed in at once. Drivers take a GPU that works for seconds on one submission for one that hangs, and
//! reset it: Windows after 2 s, Linux on AMD after 10. So a submission holds what is done in a fraction of that, by the time
//! that steps took before.

use std::ops::Range;
use std::time::Duration;

/// Steps of a submission at most: the GPU works on some while the host writes down the next.
pub const MOST_STEPS: u32 = 16;
/// What a submission may take. The next may be slower: other programs work on the GPU, and its clock changes.
const LONGEST: Duration = Duration::from_millis(250);
/// Submissions of a step that nobody has timed yet, which may be of any length.
const UNTIMED_PARTS: usize = 16;
/// A step that is longer than a submission may be is cut where its dispatches are, by their number: parts of equal numbers
/// take unequal times, so there are so many times as many as would do.
const SPARE_PARTS: f64 = 4.0;

/// What is handed in at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Whole steps.
    pub n_steps: u32,
    /// Submissions that the dispatches of these steps are spread over; more than one only of a single step.
    pub n_parts: usize,
}

impl Portion {
    /// The portions of a run of steps that take so long; of steps that nobody has timed, each goes by itself. The first ones
    /// are short, so that the GPU works while the host writes down the others.
    pub fn all(step: Option<Duration>, n_steps: u32) -> impl Iterator<Item = Portion> {
        let largest = Portion::new(step);
        let (mut left, mut next) = (n_steps, 1);
        std::iter::from_fn(move || {
            let n_steps = largest.n_steps.min(next).min(left);
            (left, next) = (left - n_steps, 2 * n_steps);
            (n_steps > 0).then_some(Portion { n_steps, ..largest })
        })
    }

    /// As much as may be handed in.
    pub fn new(step: Option<Duration>) -> Portion {
        let Some(step) = step else { return Portion { n_steps: 1, n_parts: UNTIMED_PARTS } };
        if step > LONGEST {
            let n_parts = SPARE_PARTS * step.as_secs_f64() / LONGEST.as_secs_f64();
            return Portion { n_steps: 1, n_parts: n_parts.ceil() as usize };
        }
        Portion { n_steps: fitting(step).clamp(1, u64::from(MOST_STEPS)) as u32, n_parts: 1 }
    }

    /// The dispatches of each submission; there is one also where there are none.
    pub fn parts(self, n_dispatches: usize) -> impl Iterator<Item = Range<usize>> {
        let n_parts = self.n_parts.clamp(1, n_dispatches.max(1));
        (0..n_parts).map(move |part| n_dispatches * part / n_parts..n_dispatches * (part + 1) / n_parts)
    }
}

/// How many times something that takes so long fits into a submission.
pub fn fitting(time: Duration) -> u64 {
    let n = LONGEST.as_nanos() / time.as_nanos().max(1);
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portion(seconds: f64) -> (u32, usize) {
        let Portion { n_steps, n_parts } = Portion::new(Some(Duration::from_secs_f64(seconds)));
        (n_steps, n_parts)
    }

    #[test]
    fn short_steps_go_sixteen_at_a_time() {
        for seconds in [0.0, 1e-9, 10e-6, 1e-3, 15.6e-3] {
            assert_eq!(portion(seconds), (16, 1), "{seconds}");
        }
    }

    #[test]
    fn slow_steps_go_as_many_at_a_time_as_fit() {
        for (seconds, n_steps) in [(16e-3, 15), (25e-3, 10), (0.1, 2), (0.13, 1), (0.25, 1)] {
            assert_eq!(portion(seconds), (n_steps, 1), "{seconds}");
            assert!(f64::from(n_steps) * seconds <= LONGEST.as_secs_f64());
        }
    }

    #[test]
    fn steps_that_are_too_long_go_in_parts() {
        for (seconds, n_parts) in [(0.251, 5), (1.0, 16), (60.0, 960)] {
            assert_eq!(portion(seconds), (1, n_parts), "{seconds}");
        }
    }

    #[test]
    fn what_nobody_has_timed_goes_alone_and_in_parts() {
        assert_eq!(Portion::new(None), Portion { n_steps: 1, n_parts: UNTIMED_PARTS });
    }

    #[test]
    fn parts_are_all_dispatches_in_their_order() {
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
    fn a_run_is_all_its_steps_in_portions_of_what_fits() {
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
}
