//! How long and with which seed the mutation tests run: `ENGINE_FUZZ_SECONDS` (roughly) and `ENGINE_FUZZ_SEED` change it
//! for runs by hand.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// A fixed number of cases, always the same ones unless the environment says otherwise. They take about a second.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let cases = cases.saturating_mul(seconds() as u32);
    let rng_seed = RngSeed::Fixed(1 + seed());
    ProptestConfig { rng_seed, failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// How many times as long as usual.
pub(crate) fn seconds() -> u64 {
    number("ENGINE_FUZZ_SECONDS").unwrap_or(1)
}

/// What makes the cases other ones.
pub(crate) fn seed() -> u64 {
    number("ENGINE_FUZZ_SEED").unwrap_or(0)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}
