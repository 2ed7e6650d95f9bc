//! How many random cases a test runs.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// `PROPTEST_CASES` random cases, or a few fixed ones by default.
pub fn few(cases: u32) -> ProptestConfig {
    let many = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    let rng_seed = if many.is_some() { RngSeed::Random } else { RngSeed::Fixed(3) };
    let cases = many.unwrap_or(cases);
    // A failing case is reported after a minute of shrinking.
    ProptestConfig { cases, rng_seed, max_shrink_time: 60_000, ..ProptestConfig::default() }
}
