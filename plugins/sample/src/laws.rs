//! Tests that random numbers and draws follow their distributions.

#![allow(clippy::unwrap_used)]

use super::Sample;
use super::distributions::gumbel_of;
use engine_core::ir::{Builder, DType, E, Graph, InputKind, Type, parse};
use engine_core::oracle::{Oracle, OracleTensor};
use engine_core::testing;
use engine_order::Order;
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

const N_ROWS: usize = 20_000;

/// The elements that nodes draw from equal rows, for the types of their results and their calls.
fn drawn_from(row: &[f64], calls: &[(&str, &str)]) -> Vec<Vec<f64>> {
    let registry = testing::registry(&[&Reduce, &Order, &Sample]);
    let nodes = calls.iter().enumerate().map(|(i, (ty, call))| format!("y{i}: {ty} = {call}\n"));
    let outputs = (0..calls.len()).map(|i| format!("output y{i} = y{i}\n"));
    let (nodes, outputs): (String, String) = (nodes.collect(), outputs.collect());
    let text = format!("graph test {{\ninput a: f32[{N_ROWS}, {}]\n{nodes}{outputs}}}\n", row.len());
    let graph = parse(&text, &registry).unwrap();
    let rows = OracleTensor::new(DType::F32, &[N_ROWS, row.len()], &row.repeat(N_ROWS));
    let inputs = HashMap::from([("a".into(), rows)]);
    let run = Oracle::new(&registry).run(&graph, &inputs, 11, 0).unwrap();
    run.outputs.values().map(OracleTensor::to_f64).collect()
}

/// The cell of a list of classes in a table with this number of classes along each axis.
fn cell(classes: &[f64], n_classes: usize) -> usize {
    classes.iter().fold(0, |cell, &class| {
        assert!((0.0..n_classes as f64).contains(&class), "class {class} of {n_classes}");
        cell * n_classes + class as usize
    })
}

/// The law of two independent classes.
fn pairs(law: &[f64]) -> Vec<f64> {
    law.iter().flat_map(|p| law.iter().map(move |q| p * q)).collect()
}

/// Compares counts of cells with their probabilities by Pearson's χ². Draws that follow the law exceed the bound with a
/// probability of 1e-4 (Wilson and Hilferty 1931).
fn assert_law(what: &str, cells: impl Iterator<Item = usize>, law: &[f64]) {
    let mut counts = vec![0.0f64; law.len()];
    cells.for_each(|cell| counts[cell] += 1.0);
    let n: f64 = counts.iter().sum();
    let (mut distance, mut degrees): (f64, f64) = (0.0, -1.0);
    for (cell, (count, p)) in counts.iter().zip(law).enumerate() {
        if *p == 0.0 {
            assert_eq!(*count, 0.0, "{what}: cell {cell} has no probability");
            continue;
        }
        distance += (count - n * p).powi(2) / (n * p);
        degrees += 1.0;
    }
    let spread = 2.0 / (9.0 * degrees);
    let bound = degrees * (1.0 - spread + 3.719 * spread.sqrt()).powi(3);
    assert!(distance < bound, "{what}: χ² is {distance}, not below {bound}");
}

/// Three classes in order, by the weights of the classes that are left. Their counts hold how often each class is drawn
/// at all.
#[test]
fn three_classes_without_replacement_follow_their_weights() {
    let weights = [1.0, 2.0, 0.0, 3.0, 4.0];
    let ty = format!("i32[{N_ROWS}, 3]");
    let drawn = drawn_from(&weights, &[(ty.as_str(), "multinomial(a, num_samples=3)")]);
    let mut law = vec![0.0; 125];
    for (place, p) in law.iter_mut().enumerate() {
        let [i, j, k] = [place / 25, place / 5 % 5, place % 5];
        if i != j && j != k && i != k {
            let left = 10.0 - weights[i];
            *p = weights[i] / 10.0 * (weights[j] / left) * (weights[k] / (left - weights[j]));
        }
    }
    assert!((law.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert_law("multinomial", drawn[0].chunks(3).map(|row| cell(row, 5)), &law);
}

/// Two tokens of a row, by the probabilities that are left after the cut.
#[test]
fn samples_of_a_row_are_independent() {
    let weights = [1.0, 2.0, 3.0, 4.0f64];
    let logits = weights.map(f64::ln);
    let all = weights.map(|w| w / 10.0);
    let cut = [0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0];
    let ty = format!("i32[{N_ROWS}, 2]");
    for (row, call, law) in [
        (logits, "sample_logits(a, num_samples=2)", all),
        (logits, "sample_logits(a, num_samples=2, top_k=3)", cut),
        (logits, "sample_logits(a, num_samples=2, top_p=0.75)", cut),
        (weights, "multinomial(a, num_samples=2, replacement=true)", all),
    ] {
        let drawn = drawn_from(&row, &[(ty.as_str(), call)]);
        assert_law(call, drawn[0].chunks(2).map(|row| cell(row, 4)), &pairs(&law));
    }
}

/// Pairs of two nodes, and of neighbouring rows of one node.
#[test]
fn nodes_and_rows_draw_independent_classes() {
    let indices = format!("i32[{N_ROWS}]");
    let bits = format!("f32[{N_ROWS}, 1]");
    let total: f64 = [0.5, -1.0, 2.0].into_iter().map(f64::exp).sum();
    let softmax: Vec<f64> = [0.5, -1.0, 2.0].into_iter().map(|x: f64| x.exp() / total).collect();
    let up = 1.0 / (1.0 + f64::exp(-0.4));
    for (row, ty, call, law) in [
        (vec![0.5, -1.0, 2.0], &indices, "gumbel_argmax(a)", softmax.clone()),
        (vec![0.5, -1.0, 2.0], &indices, "categorical_sample(a)", softmax),
        (vec![0.4], &bits, "sigmoid_bernoulli(a, scale=1.0)", vec![1.0 - up, up]),
    ] {
        let drawn = drawn_from(&row, &[(ty.as_str(), call), (ty.as_str(), call)]);
        let of_nodes = drawn[0].iter().zip(&drawn[1]).map(|(&x, &y)| cell(&[x, y], law.len()));
        assert_law(&format!("{call} of two nodes"), of_nodes, &pairs(&law));
        let of_rows = drawn[0].chunks(2).map(|pair| cell(pair, law.len()));
        assert_law(&format!("{call} of two rows"), of_rows, &pairs(&law));
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
