//! How often and with which seed the mutation tests run: `ENGINE_FUZZ_SECONDS` (roughly) and `ENGINE_FUZZ_SEED` change it
//! for runs by hand.

#![allow(clippy::unwrap_used)]

use crate::philox::WordStream;

/// Calls `run` so many times that it takes about a second, or as many times more as the environment says, and returns
/// how often. The inputs are always the same ones unless the environment says otherwise.
pub(crate) fn many_times(domain: u32, mut run: impl FnMut(&mut WordStream)) -> u64 {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let n_runs = 4_000 * number("ENGINE_FUZZ_SECONDS").unwrap_or(1);
    let mut stream = WordStream::new(number("ENGINE_FUZZ_SEED").unwrap_or(0), domain, 0);
    (0..n_runs).for_each(|_| run(&mut stream));
    n_runs
}
