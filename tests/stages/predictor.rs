//! The prediction of trainings against the same arithmetic in double precision.

use super::energy::{of, run_on};
use super::present::{cpu, gpus};
use engine::runtime::device::Device;
use std::sync::Arc;

/// Two trainings that pushed COUNT values. Slots that were never written hold NaN.
const FEATURES: &str = r#"(
    nodes: {
        "count": "full(shape=[], value=COUNT, dtype=i32)",
        "n": "count - 1 - remainder(count - 1 - arange(stop=256), 256)",
        "m": "count - 1 - remainder(count - 1 - arange(stop=64), 64)",
        "one": "cos(cast(n, dtype=f32)) * 0.3 + 1.0",
        "other": "cos(cast(m, dtype=f32)) * 0.3 + 1.0",
        "losses": "stack(where(n < 0, nan, one), where(n < 0, nan, one * 2.0), axis=1)",
        "norms": "stack(where(m < 0, nan, other), where(m < 0, nan, other * 1e-12), axis=1)",
        "moments": "reshape(cast(arange(stop=8), dtype=f32), shape=[2, 4])",
        "rate": "full(shape=[2], value=1e-3)",
        "phase": "cast(arange(stop=2), dtype=f32)",
        "x": "training_features(losses, norms, count, moments, rate, phase, phase * 30.0)",
    },
    stages: {"go": Run(outputs: ["x"])},
)"#;

/// The mean, or 0 of nothing.
fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len().max(1) as f64
}

fn deviation(x: &[f64]) -> f64 {
    mean(&x.iter().map(|value| (value - mean(x)).powi(2)).collect::<Vec<_>>()).sqrt()
}

/// The latest value, mean, deviation, least and largest value of the last `n`.
fn statistics(history: &[f64], n: usize) -> Vec<f64> {
    let held = &history[history.len().saturating_sub(n)..];
    let Some(&latest) = held.last() else { return vec![0.0; 5] };
    let [least, largest] = [f64::min, f64::max].map(|of| held.iter().copied().reduce(of).unwrap());
    vec![latest, mean(held), deviation(held), least, largest]
}

/// The 64 features of training `row` after `count` steps.
fn features(row: usize, count: usize) -> Vec<f64> {
    let pushed =
        |scale: f64| (0..count).map(|i| ((i as f64).cos() * 0.3 + 1.0) * scale).collect::<Vec<f64>>();
    let (losses, norms) = (pushed([1.0, 2.0][row]), pushed([1.0, 1e-12][row]));
    let late = |from: usize| mean(&losses[count - from - 16..count - from]);
    let (trend, ratio) =
        if count < 32 { (0.0, 1.0) } else { (late(0) - late(16), late(0) / late(16).max(1e-8)) };
    let mut x = statistics(&losses, 256);
    x.extend([trend, ratio, count as f64 / 1e4]);
    let of_norms = statistics(&norms, 64);
    let (norm, scale, std) = (of_norms[0], of_norms[1].max(1e-8), of_norms[2]);
    x.extend(of_norms);
    x.extend([norm.log10().max(-10.0), (norm / scale).min(10.0), std / scale]);
    x.extend((0..4).map(|i| (4 * row + i) as f64));
    x.extend([-3.0, 0.9f64.powi(count as i32), 0.999f64.powi(count as i32), 0.0]);
    x.extend([row as f64, row as f64 * 0.3]);
    assert_eq!(x.len(), 26);
    x.resize(64, 0.0);
    x
}

#[track_caller]
fn assert_close(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{what}[{at}]: {a} is not {b}");
    }
}

fn check_features(device: &Arc<dyn Device>) {
    for count in [0, 1, 20, 31, 32, 100, 300] {
        let x = of(&run_on(device, &FEATURES.replace("COUNT", &count.to_string()), &["x"]), "x");
        let expected = [features(0, count), features(1, count)].concat();
        assert_close(&format!("features after {count} steps"), &x, &expected);
    }
}

#[test]
fn features_of_trainings_are_those_of_their_histories() {
    check_features(&cpu(2));
    gpus().iter().for_each(check_features);
}

#[test]
fn a_loss_that_is_nan_shows_in_the_features_and_in_their_encoding() {
    let text = FEATURES.replace("COUNT", "40").replace("other * 1e-12", "other * nan").replace(
        "},\n    stages",
        "\"code\": \"encode_state(x, ones(shape=[64, 2]), zeros(shape=[2]))\"},\n    stages",
    );
    let outputs = run_on(&cpu(2), &text, &["x", "code"]);
    assert!(of(&outputs, "x")[64 + 8..64 + 13].iter().all(|value| value.is_nan()));
    let code = of(&outputs, "code");
    assert!(code[0] > 0.0 && code[2].is_nan(), "{code:?}");
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `x @ w` for a row x and columns `from..to` of a matrix with rows of length `width`.
fn product(x: &[f64], w: &[f64], width: usize, from: usize, to: usize) -> Vec<f64> {
    let column = |j: usize| x.iter().enumerate().map(|(i, x)| x * w[i * width + j]).sum();
    (from..to).map(column).collect()
}

/// A step of one row: gates k, r and n in the sums z and in u.
fn step(h: &[f64], z: &[f64], u: &[f64]) -> Vec<f64> {
    let n = h.len();
    let gates = product(h, u, 3 * n, 0, 2 * n);
    let gate = |i: usize| sigmoid(z[i] + gates[i]);
    let reset: Vec<f64> = (0..n).map(|i| gate(n + i) * h[i]).collect();
    let own = product(&reset, u, 3 * n, 2 * n, 3 * n);
    (0..n).map(|i| (1.0 - gate(i)) * h[i] + gate(i) * (z[2 * n + i] + own[i]).tanh()).collect()
}

/// The shipped graph with fewer trainings and narrower layers.
fn rollout(steps: usize) -> String {
    let graph = include_str!("../../graphs/rssm_rollout.ron");
    let small = r#"dims: {"B": 3, "M": 5, "T": STEPS, "E": 6, "H": 8, "N": 3, "K": 4}"#;
    let dims = r#"dims: {"B": 32, "M": 5, "T": 10, "E": 128, "H": 256, "N": 32, "K": 32}"#;
    assert!(graph.contains(dims));
    // Wide spread weights, which a wrong gate would not survive.
    graph.replace(dims, &small.replace("STEPS", &steps.to_string())).replace("0.07", "0.7")
}

const VALUES: [&str; 18] = [
    "features",
    "encoder",
    "encoder_bias",
    "x",
    "hidden",
    "w",
    "b",
    "u",
    "states",
    "classes",
    "noise",
    "drawn",
    "entropy",
    "loss_head",
    "predicted",
    "delta_head",
    "deltas",
    "confidence",
];

fn check_rollout(device: &Arc<dyn Device>, steps: usize) {
    let outputs = run_on(device, &rollout(steps), &VALUES);
    let value = |name: &str| of(&outputs, name);
    let (x, w, b, u, hidden, states) =
        (value("x"), value("w"), value("b"), value("u"), value("hidden"), value("states"));
    let (features, encoder) = (value("features"), value("encoder"));
    let encoded: Vec<f64> = features.chunks(64).flat_map(|row| product(row, &encoder, 6, 0, 6)).collect();
    assert_close("x", &x, &encoded.iter().map(|x| x.max(0.0)).collect::<Vec<f64>>());
    let mut expected = vec![0.0; 5 * steps * 3 * 8];
    for (member, row) in (0..5).flat_map(|member| (0..3).map(move |row| (member, row))) {
        let (w, u) = (&w[member * 144..][..144], &u[member * 192..][..192]);
        let z: Vec<f64> = product(&x[row * 6..][..6], w, 24, 0, 24);
        let z: Vec<f64> = z.iter().zip(&b[member * 24..]).map(|(z, b)| z + b).collect();
        let mut h = hidden[(member * 3 + row) * 8..][..8].to_vec();
        for t in 0..steps {
            h = step(&h, &z, u);
            expected[((member * steps + t) * 3 + row) * 8..][..8].copy_from_slice(&h);
        }
    }
    assert_close("states", &states, &expected);
    check_heads(steps, &value);
}

/// The categorical states, their entropies, the heads and the confidence, from the states.
fn check_heads(steps: usize, value: &dyn Fn(&str) -> Vec<f64>) {
    let (states, classes, noise, drawn) = (value("states"), value("classes"), value("noise"), value("drawn"));
    let (losses, deltas) = (value("loss_head"), value("delta_head"));
    let (mut entropies, mut predicted, mut changes, mut draws) = (vec![], vec![], vec![], vec![]);
    for (row, h) in states.chunks(8).enumerate() {
        let member = row / (3 * steps);
        let logits = product(h, &classes[member * 96..][..96], 12, 0, 12);
        let mut combined = h.to_vec();
        let mut entropy = 0.0;
        for (i, logits) in logits.chunks(4).enumerate() {
            let total: f64 = logits.iter().map(|x| x.exp()).sum();
            entropy -= logits.iter().map(|x| x.exp() / total * (x - total.ln())).sum::<f64>();
            let noisy = |k: usize| logits[k] - (-noise[row * 12 + 4 * i + k].ln()).ln();
            let best = (0..4).max_by(|&a, &b| noisy(a).total_cmp(&noisy(b))).unwrap();
            combined.extend((0..4).map(|k| (k == best) as u8 as f64));
        }
        entropies.push(entropy);
        draws.extend_from_slice(&combined[8..]);
        predicted.push(product(&combined, &losses[member * 20..][..20], 1, 0, 1)[0].exp().max(1e-6));
        changes.extend(product(&combined, &deltas[member * 200..][..200], 10, 0, 10));
    }
    assert_eq!(drawn, draws);
    assert_close("entropy", &value("entropy"), &entropies);
    assert_close("predicted", &value("predicted"), &predicted);
    assert_close("deltas", &value("deltas"), &changes);
    let last =
        |row: usize| (0..5).map(|m| predicted[(m * steps + steps - 1) * 3 + row]).collect::<Vec<f64>>();
    let sigma = |row: usize| deviation(&last(row)) * (1.0 + 0.1 * (steps as f64).sqrt());
    let confidence: Vec<f64> = (0..3).map(|row| 1.0 / (1.0 + sigma(row))).collect();
    assert_close("confidence", &value("confidence"), &confidence);
}

#[test]
fn a_rollout_of_the_ensemble_is_that_of_its_formulas() {
    for steps in [3, 10, 50] {
        check_rollout(&cpu(2), steps);
    }
    gpus().iter().for_each(|gpu| check_rollout(gpu, 10));
}

#[test]
fn a_long_rollout_is_a_loop_with_the_same_states() {
    check_rollout(&cpu(2), 150);
}
