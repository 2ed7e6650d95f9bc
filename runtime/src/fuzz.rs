//! How long and with which seed the mutation tests run: `ENGINE_FUZZ_SECONDS` and `ENGINE_FUZZ_SEED` change it for runs by
//! hand.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use crate::philox::WordStream;

/// Calls `run` for a second, or as long as the environment says, and returns how often.
pub(crate) fn for_a_while(domain: u32, mut run: impl FnMut(&mut WordStream)) -> u64 {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let length = Duration::from_secs(number("ENGINE_FUZZ_SECONDS").unwrap_or(1));
    let mut stream = WordStream::new(number("ENGINE_FUZZ_SEED").unwrap_or(0), domain, 0);
    let (start, mut n_runs) = (Instant::now(), 0);
    while start.elapsed() < length {
        run(&mut stream);
        n_runs += 1;
    }
    eprintln!("{n_runs} runs");
    n_runs
}
