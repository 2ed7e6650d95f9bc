//! The number of runs and the seed of mutation tests. `ENGINE_FUZZ_SECONDS` (roughly) and `ENGINE_FUZZ_SEED` change
//! them for runs by hand.

#![allow(clippy::unwrap_used)]

use crate::philox::WordStream;

/// Calls `run` repeatedly for about a second, or for as long as the environment says, and returns the number of calls.
/// The inputs are fixed unless the environment sets a seed.
pub(crate) fn many_times(domain: u32, mut run: impl FnMut(&mut WordStream)) -> u64 {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let n_runs = 4_000 * number("ENGINE_FUZZ_SECONDS").unwrap_or(1);
    let mut stream = WordStream::new(number("ENGINE_FUZZ_SEED").unwrap_or(0), domain, 0);
    (0..n_runs).for_each(|_| run(&mut stream));
    n_runs
}
