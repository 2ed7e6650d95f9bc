//! Sampling of a class from logits.

use engine_core::pipeline::Sampling;

/// The class that the uniform number `u` in `[0, 1)` picks.
///
/// Logits are divided by the temperature. Then `top_k` keeps the classes of the largest logits, and `top_p` the fewest
/// of these whose probabilities add up to at least p (Holtzman et al. 2020). A temperature of 0 picks the largest logit.
/// Among equal logits, the lower class comes first. NaN counts as the smallest number.
pub fn sample(logits: &[f32], sampling: &Sampling, u: f64) -> usize {
    let value =
        |class: usize| if logits[class].is_nan() { f64::NEG_INFINITY } else { f64::from(logits[class]) };
    let descending = |&a: &usize, &b: &usize| value(b).total_cmp(&value(a)).then(a.cmp(&b));
    let Some(first) = (0..logits.len()).min_by(descending) else { return 0 };
    if sampling.temperature == 0.0 {
        return first;
    }
    let mut kept: Vec<usize> = (0..logits.len()).collect();
    if let Some(k) = sampling.top_k.filter(|k| *k < kept.len()) {
        kept.select_nth_unstable_by(k.max(1) - 1, descending);
        kept.truncate(k.max(1));
    }
    if sampling.top_p < 1.0 || sampling.top_k.is_some() {
        kept.sort_unstable_by(descending);
    }
    let weight = |class: &usize| ((value(*class) - value(first)) / sampling.temperature).exp();
    let mut weights: Vec<f64> = kept.iter().map(weight).collect();
    let total: f64 = weights.iter().sum();
    if sampling.top_p < 1.0 {
        let mut sum = 0.0;
        let last = weights.iter().position(|weight| {
            sum += weight;
            sum >= sampling.top_p * total
        });
        weights.truncate(last.map_or(weights.len(), |last| last + 1));
    }
    let mut rest = u * weights.iter().sum::<f64>();
    let picked = weights.iter().position(|weight| {
        rest -= weight;
        rest < 0.0
    });
    kept[picked.unwrap_or(weights.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [1.0, 3.0, 2.0, 3.0];

    fn with(temperature: f64, top_k: Option<usize>, top_p: f64) -> Sampling {
        Sampling { temperature, top_k, top_p }
    }

    /// The share of each class among evenly spread numbers.
    fn shares(sampling: &Sampling) -> [f64; 4] {
        const N: usize = 10_000;
        let mut counts = [0.0; 4];
        (0..N).for_each(|i| counts[sample(&LOGITS, sampling, (i as f64 + 0.5) / N as f64)] += 1.0 / N as f64);
        counts
    }

    #[test]
    fn classes_come_with_their_probabilities() {
        let weights = [1.0f64, 3.0, 2.0, 3.0].map(|logit| (logit / 0.5).exp());
        let total: f64 = weights.iter().sum();
        for (share, weight) in shares(&with(0.5, None, 1.0)).iter().zip(weights) {
            assert!((share - weight / total).abs() < 2e-4, "{share} instead of {}", weight / total);
        }
    }

    #[test]
    fn a_temperature_of_zero_picks_the_first_of_the_largest() {
        assert!([0.0, 0.5, 0.999].iter().all(|&u| sample(&LOGITS, &with(0.0, None, 1.0), u) == 1));
        assert_eq!(sample(&[f32::NAN, -1.0], &with(0.0, None, 1.0), 0.9), 1);
    }

    #[test]
    fn the_most_likely_classes_stay() {
        let two = shares(&with(1.0, Some(2), 1.0));
        assert!((two[1] - 0.5).abs() < 1e-3 && (two[3] - 0.5).abs() < 1e-3);
        // Probabilities are 0.39, 0.39, 0.14, 0.05 in descending order.
        assert_eq!(shares(&with(1.0, None, 0.9))[0], 0.0);
        assert!(shares(&with(1.0, None, 0.9))[2] > 0.1);
        assert_eq!(shares(&with(1.0, None, 0.7))[2], 0.0);
    }
}
