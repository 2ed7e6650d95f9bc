//! Laws of what is drawn by layers, functions and the order of batches.

use super::energy::{of, run_on};
use super::present::{cpu, gpus};
use super::{offline, run};
use engine::core::compile::Options;
use engine::runtime::device::Device;
use std::sync::Arc;

fn devices() -> impl Iterator<Item = Arc<dyn Device>> {
    std::iter::once(cpu(2)).chain(gpus().iter().cloned())
}

/// Pearson's χ² of counts that should be equal on average, at most a bound that one of 10,000 exceeds (Wilson and
/// Hilferty 1931).
#[track_caller]
fn assert_equal_shares(what: &str, counts: &[f64]) {
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let distance: f64 = counts.iter().map(|n| (n - mean).powi(2) / mean).sum();
    let degrees = counts.len() as f64 - 1.0;
    let spread = 2.0 / (9.0 * degrees);
    let bound = degrees * (1.0 - spread + 3.719 * spread.sqrt()).powi(3);
    assert!(distance < bound, "{what}: χ² is {distance}, not below {bound}; {counts:?}");
}

/// Each pair of two neighbouring draws of a row is as likely as any other, without the positive item.
#[test]
fn random_negatives_are_uniform_and_independent() {
    let text = r#"(
        seed: 2,
        nodes: {
            "item": "arange(stop=7)",
            "drawn": "random_negatives(item, count=8000, items=7)",
        },
        stages: {"go": Run(outputs: ["drawn"])},
    )"#;
    for device in devices() {
        let drawn = of(&run_on(&device, text, &["drawn"]), "drawn");
        for (item, row) in drawn.chunks_exact(8000).enumerate() {
            let mut pairs = vec![0.0; 49];
            row.chunks_exact(2).for_each(|pair| pairs[pair[0] as usize * 7 + pair[1] as usize] += 1.0);
            let is_possible = |pair: &usize| pair / 7 != item && pair % 7 != item;
            let (possible, others): (Vec<usize>, Vec<usize>) = (0..49).partition(is_possible);
            assert!(others.iter().all(|&pair| pairs[pair] == 0.0), "item {item}: {pairs:?}");
            let counts: Vec<f64> = possible.iter().map(|&pair| pairs[pair]).collect();
            assert_equal_shares(&format!("item {item} on {}", device.info().name), &counts);
        }
    }
}

/// The layer drops a share p of the elements, and divides the others by 1 - p. Its gradient has the same mask.
#[test]
fn the_dropout_layer_drops_its_share_and_scales_the_others() {
    for (p, fuse) in [(0.1f64, true), (0.5, false), (0.8, true)] {
        let text = format!(
            r#"(
            seed: 9,
            params: {{"x": (type: "f32[1000]", init: 3.0)}},
            nodes: {{"y": "Dropout(x, p={p})", "loss": "sum(y)"}},
            stages: {{"go": Run(outputs: ["y", "d.x"], loss: "loss", mode: Train)}},
        )"#
        );
        for device in devices() {
            let place = format!("p={p} on {}", device.info().name);
            let mut session = offline::session(&text, device, Options { fuse, ..Options::default() });
            let outputs = session.run_stages(None, &mut |_| {}).unwrap().outputs;
            let [y, slope] = ["y", "d.x"].map(|name| outputs[name].values.to_f64());
            let kept = y.iter().filter(|&&y| y != 0.0).count() as f64;
            let deviation = (1000.0 * p * (1.0 - p)).sqrt();
            assert!((kept - 1000.0 * (1.0 - p)).abs() < 4.0 * deviation, "{place}: {kept} are kept");
            let scaled = 3.0 / (1.0 - p);
            assert!(y.iter().all(|&y| y == 0.0 || (y - scaled).abs() < 1e-5 * scaled), "{place}");
            assert!(y.iter().zip(&slope).all(|(y, d)| (y - 3.0 * d).abs() <= 1e-6 * y.abs()), "{place}");
            // Neighbours are dropped independently: runs of two have the share p².
            let both = y.chunks_exact(2).filter(|pair| *pair == [0.0, 0.0]).count() as f64;
            let deviation = (500.0 * p * p * (1.0 - p * p)).sqrt();
            assert!((both - 500.0 * p * p).abs() < 4.0 * deviation, "{place}: {both} pairs");
        }
    }
}

/// Hard choices have the frequencies of the softmax, for any temperature.
#[test]
fn hard_choices_follow_the_softmax() {
    let text = r#"(
        seed: 4,
        nodes: {
            "logits": "log(1.0 + cast(arange(stop=4), dtype=f32)) + zeros(shape=[20000, 4])",
            "hard": "gumbel_softmax(logits, tau=TAU, hard=true)",
            "counts": "sum(hard, axis=0)",
        },
        stages: {"go": Run(outputs: ["counts"])},
    )"#;
    for (device, tau) in devices().flat_map(|device| [(device.clone(), "0.2"), (device, "3.0")]) {
        let counts = of(&run_on(&device, &text.replace("TAU", tau), &["counts"]), "counts");
        assert_eq!(counts.iter().sum::<f64>(), 20000.0);
        // Probabilities are tenths. The 99.99th percentile of χ² with three degrees of freedom is 21.1.
        let distance: f64 = (1..)
            .zip(&counts)
            .map(|(k, n)| (n - 2000.0 * f64::from(k)).powi(2) / (2000.0 * f64::from(k)))
            .sum();
        assert!(distance < 21.1, "{counts:?} on {}", device.info().name);
    }
}

/// Four rows in batches of one: the metric of an epoch is a number with the rows as digits, divided by 4.
#[test]
fn each_order_of_batches_is_as_likely_as_any_other() {
    let text = r#"(
        seed: 6,
        data: {"rows": (source: "numbers", n_train: 4)},
        inputs: {"row": (type: "i32[B]", from: "rows.number")},
        params: {"w": (type: "f32[]", init: 1.0)},
        nodes: {
            "x": "sum(cast(row, dtype=f32))",
            "digit": "x * 4.0 ** cast(step % 4, dtype=f32)",
            "loss": "square(w) + 0.0 * x",
        },
        stages: {"fit": Train(data: "rows.train", batch: 1, epochs: 1200, loss: "loss", optimizer: Sgd(lr: 0.0), metrics: ["digit"])},
    )"#;
    let report = run(text).unwrap();
    let mut counts = std::collections::BTreeMap::<u32, f64>::new();
    for epoch in &report.stages[0].epochs {
        *counts.entry((epoch.train_metrics["digit"] * 4.0).round() as u32).or_default() += 1.0;
    }
    let rows = |code: u32| {
        let mut rows = [code % 4, code / 4 % 4, code / 16 % 4, code / 64];
        rows.sort_unstable();
        rows
    };
    assert!(counts.keys().all(|&code| rows(code) == [0, 1, 2, 3]), "{counts:?}");
    assert_eq!(counts.len(), 24);
    assert_equal_shares("orders", &counts.into_values().collect::<Vec<_>>());
}
