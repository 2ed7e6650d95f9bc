//! Tests that random numbers follow their distributions.

#![allow(clippy::unwrap_used)]

use super::Sample;
use super::distributions::gumbel_of;
use engine_core::ir::{Builder, DType, E, Graph, InputKind, Type, parse};
use engine_core::oracle::{Oracle, OracleTensor};
use engine_core::testing;
use engine_reduce::Reduce;
use std::collections::HashMap;

const N_DRAWS: usize = 1 << 14;

/// The numbers that a call draws at a step, for a seed.
fn draws(call: &str, seed: u64, step: i64) -> Vec<f64> {
    let registry = testing::registry(&[&Reduce, &Sample]);
    let text = format!("graph test {{\ny: f32[{N_DRAWS}] = {call}\noutput y = y\n}}\n");
    let graph = parse(&text, &registry).unwrap();
    Oracle::rounded(&registry).run(&graph, &HashMap::new(), seed, step).unwrap().outputs["y"].to_f64()
}

/// The expected distribution of a call: its mean, variance and distribution function.
struct Law {
    call: String,
    mean: f64,
    variance: f64,
    distribution: fn(f64) -> f64,
}

/// Φ by Abramowitz and Stegun 26.2.17, to 1e-7.
fn normal_distribution(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.2316419 * x.abs());
    let tail = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt()
        * t
        * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
    if x < 0.0 { tail } else { 1.0 - tail }
}

fn laws() -> [Law; 5] {
    let of = |call: &str| format!("{call}shape=[{N_DRAWS}])");
    let pi = std::f64::consts::PI;
    [
        Law { call: of("uniform("), mean: 0.5, variance: 1.0 / 12.0, distribution: |x| x },
        Law {
            call: of("uniform(low=-3.0, high=1.0, "),
            mean: -1.0,
            variance: 16.0 / 12.0,
            distribution: |x| (x + 3.0) / 4.0,
        },
        Law { call: of("normal("), mean: 0.0, variance: 1.0, distribution: normal_distribution },
        Law {
            call: of("normal(mean=2.0, std=0.5, "),
            mean: 2.0,
            variance: 0.25,
            distribution: |x| normal_distribution((x - 2.0) / 0.5),
        },
        Law {
            call: of("sample_gumbel("),
            // The Euler-Mascheroni constant.
            mean: 0.577_215_664_901_532_9,
            variance: pi * pi / 6.0,
            distribution: |x| (-(-x).exp()).exp(),
        },
    ]
}

fn mean(x: impl Iterator<Item = f64>) -> f64 {
    x.sum::<f64>() / N_DRAWS as f64
}

#[test]
fn draws_follow_their_laws() {
    let n = N_DRAWS as f64;
    for Law { call, mean: expected, variance, distribution } in laws() {
        for (seed, step) in [(0, 0), (0, 1), (7, 0), (u64::MAX, 1000)] {
            let mut x = draws(&call, seed, step);
            let what = format!("{call}, seed {seed}, step {step}");
            let average = mean(x.iter().copied());
            let off = (average - expected) / (variance / n).sqrt();
            assert!(off.abs() < 4.0, "{what}: the mean is off by {off} standard errors");
            let found = mean(x.iter().map(|x| (x - average).powi(2)));
            assert!((found / variance - 1.0).abs() < 0.08, "{what}: variance {found}, not {variance}");
            let lagged = mean(x.windows(2).map(|pair| (pair[0] - average) * (pair[1] - average)));
            assert!((lagged / variance).abs() < 4.0 / n.sqrt(), "{what}: neighbours are correlated");
            // Kolmogorov and Smirnov: the statistic exceeds 1.95/√n with a probability of 0.1 %.
            x.sort_by(f64::total_cmp);
            let gap = |(i, &x): (usize, &f64)| {
                let (below, above) = (i as f64 / n, (i + 1) as f64 / n);
                (distribution(x) - below).abs().max((distribution(x) - above).abs())
            };
            let gap = x.iter().enumerate().map(gap).fold(0.0, f64::max);
            assert!(gap < 1.95 / n.sqrt(), "{what}: the distribution is off by {gap}");
        }
    }
}

#[test]
fn seeds_steps_and_nodes_draw_other_numbers() {
    let call = format!("normal(shape=[{N_DRAWS}])");
    let first = draws(&call, 0, 0);
    assert_eq!(first, draws(&call, 0, 0));
    for other in [draws(&call, 1, 0), draws(&call, 0, 1)] {
        let product = mean(first.iter().zip(&other).map(|(x, y)| x * y));
        assert!(product.abs() < 4.0 / (N_DRAWS as f64).sqrt(), "correlated by {product}");
    }
}

#[test]
fn the_extreme_uniform_numbers_give_finite_draws() {
    let registry = testing::registry(&[&Reduce, &Sample]);
    let mut b = Builder::new(Graph::new("ends"), &registry);
    let bits = b.input("bits", InputKind::Data, Type::new(DType::U32, &[2]));
    // The numbers that `random_uniform` makes of all bits 0 and all bits 1.
    let top = b.map(&[bits], |x| x[0] >> E::from(9i64));
    let k = b.cast(top, DType::F32);
    let u = b.map(&[k], |x| (x[0] + 0.5) * 0.5f64.powi(23));
    let noise = b.map(&[u], |u| gumbel_of(u[0]));
    let radius = b.map(&[u], |u| (u[0].log() * -2.0).sqrt());
    b.graph.outputs = vec![("u".into(), u), ("noise".into(), noise), ("radius".into(), radius)];
    let bits = OracleTensor::ints(DType::U32, &[2], vec![0, i64::from(u32::MAX)]);
    let inputs = HashMap::from([("bits".into(), bits)]);
    let run = Oracle::rounded(&registry).run(&b.graph, &inputs, 0, 0).unwrap();
    assert!(run.outputs["u"].to_f64().iter().all(|u| 0.0 < *u && *u < 1.0));
    for name in ["noise", "radius"] {
        assert!(run.outputs[name].to_f64().iter().all(|x| x.is_finite()), "{:?}", run.outputs[name]);
    }
}
