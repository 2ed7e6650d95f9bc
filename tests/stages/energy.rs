//! Energy-based models against the enumeration of all their states.

use super::offline;
use super::present::{cpu, gpus};
use engine::core::compile::Options;
use engine::runtime::device::Device;
use engine::runtime::tensor::HostTensor;
use indexmap::IndexMap;
use std::sync::Arc;

/// Ten spins, coupled between even and odd ones, in 16384 independent chains.
const SPINS: &str = r#"(
    seed: 4,
    nodes: {
        "i": "cast(arange(stop=10), dtype=f32)",
        "k": "reshape(i, shape=[10, 1])",
        "b": "sin(i) * 0.4",
        "j": "where((i + k) % 2.0 == 1.0, cos(i * k + i + k) * 0.3, 0.0)",
        "start": "where(uniform(shape=[16384, 10]) < 0.3, 1.0, -1.0)",
        "s": "ising_sweep(start, b, j, arange(stop=10) % 2 == 0, beta=0.8, repeat=SWEEPS)",
        "energy": "ising_energy(s, b, j, beta=0.8)",
        "moments": "ising_moments(s)",
        "pair": "moments.pair * 1.0",
        "gradient": "ising_gradient(start, s, beta=0.8)",
        "gradient_j": "gradient.j * 1.0",
    },
    stages: {"go": Run(outputs: ["s", "gradient_j"])},
)"#;

const SHOWN: [&str; 9] = ["b", "j", "s", "start", "energy", "moments", "pair", "gradient", "gradient_j"];

pub(super) type Outputs = IndexMap<String, HostTensor>;

/// All elements of some nodes.
pub(super) fn run_on(device: &Arc<dyn Device>, text: &str, names: &[&str]) -> Outputs {
    let device = Arc::clone(device);
    let names: Vec<Arc<str>> = names.iter().map(|&name| name.into()).collect();
    offline::session(text, device, Options::default()).run(&names, &IndexMap::new()).unwrap()
}

pub(super) fn of(outputs: &Outputs, name: &str) -> Vec<f64> {
    outputs[name].to_f64()
}

fn chains(device: &Arc<dyn Device>, n_sweeps: usize) -> Outputs {
    run_on(device, &SPINS.replace("SWEEPS", &n_sweeps.to_string()), &SHOWN)
}

/// The spins of state `n`.
fn spins(n: usize) -> Vec<f64> {
    (0..10).map(|i| if n >> i & 1 == 1 { 1.0 } else { -1.0 }).collect()
}

/// Minus the exponent of the law: -0.8 (b·s + the sum of j s s over pairs).
fn energy(s: &[f64], b: &[f64], j: &[f64]) -> f64 {
    let pairs = (0..10).flat_map(|i| (0..i).map(move |k| j[10 * i + k] * s[i] * s[k]));
    -0.8 * (pairs.sum::<f64>() + s.iter().zip(b).map(|(s, b)| s * b).sum::<f64>())
}

fn log_z(b: &[f64], j: &[f64]) -> f64 {
    (0..1024).map(|n| (-energy(&spins(n), b, j)).exp()).sum::<f64>().ln()
}

/// Means of products of spins i and k under the law; of spin i where k is none.
fn expected(b: &[f64], j: &[f64], i: usize, k: Option<usize>) -> f64 {
    let z = log_z(b, j);
    let term = |s: Vec<f64>| (-energy(&s, b, j) - z).exp() * s[i] * k.map_or(1.0, |k| s[k]);
    (0..1024).map(|n| term(spins(n))).sum()
}

/// Moments of all chains lie within 5 deviations of a mean of 16384 independent signs.
fn assert_law(outputs: &Outputs) {
    let [b, j, means, pairs] = ["b", "j", "moments", "pair"].map(|name| of(outputs, name));
    let assert_near = |got: f64, exact: f64| {
        let deviation = ((1.0 - exact * exact).max(0.0) / 16384.0).sqrt();
        assert!((got - exact).abs() <= 5.0 * deviation + 1e-6, "{got} is not {exact}");
    };
    for i in 0..10 {
        assert_near(means[i], expected(&b, &j, i, None));
        (0..10).for_each(|k| assert_near(pairs[10 * i + k], expected(&b, &j, i, Some(k))));
    }
}

#[test]
fn ising_chains_have_the_moments_of_all_states() {
    let outputs = chains(&cpu(2), 40);
    assert_law(&outputs);
    let [b, j, s, energies] = ["b", "j", "s", "energy"].map(|name| of(&outputs, name));
    assert_eq!(s.len(), 163840);
    for (s, got) in s.chunks_exact(10).zip(energies) {
        assert!((got - energy(s, &b, &j)).abs() < 1e-5);
    }
}

#[test]
fn ising_chains_on_gpus_have_the_same_law() {
    gpus().iter().for_each(|gpu| assert_law(&chains(gpu, 20)));
}

/// The mean energy of the data plus ln Z, differentiated by central differences.
#[test]
fn ising_gradient_is_that_of_the_divergence() {
    let outputs = chains(&cpu(2), 40);
    let [b, j, data] = ["b", "j", "start"].map(|name| of(&outputs, name));
    let [by_b, by_j] = ["gradient", "gradient_j"].map(|name| of(&outputs, name));
    let loss = |b: &[f64], j: &[f64]| {
        data.chunks_exact(10).map(|s| energy(s, b, j)).sum::<f64>() / 16384.0 + log_z(b, j)
    };
    // Five deviations of a mean of signs, times beta.
    let error = 5.0 * 0.8 / 128.0;
    for i in 0..10 {
        let moved = |by: f64| {
            let mut b = b.clone();
            b[i] += by;
            loss(&b, &j)
        };
        let slope = (moved(1e-3) - moved(-1e-3)) / 2e-3;
        assert!((by_b[i] - slope).abs() < error, "b {i}: {} is not {slope}", by_b[i]);
    }
    let moved = |by: f64| {
        let mut j = j.clone();
        (j[21], j[12]) = (j[21] + by, j[12] + by);
        loss(&b, &j)
    };
    let slope = (moved(1e-3) - moved(-1e-3)) / 2e-3;
    assert!((by_j[21] - slope).abs() < error && by_j[21] == by_j[12], "{} is not {slope}", by_j[21]);
}

/// Four variables of three categories: the counts of all 81 states against their law.
#[test]
fn categorical_chains_have_the_law_of_all_states() {
    let text = r#"(
        seed: 9,
        nodes: {
            "n": "cast(arange(stop=12), dtype=f32)",
            "m": "reshape(n, shape=[12, 1])",
            "place": "floor_divide(n, 3.0) + floor_divide(m, 3.0)",
            "flat": "where(remainder(place, 2.0) == 1.0, sin(n * m + n + m) * 0.8, 0.0)",
            "a": "reshape(cos(n) * 0.5, shape=[4, 3])",
            "w": "reshape(flat, shape=[4, 3, 4, 3])",
            "start": "one_hot(cast(uniform(shape=[16384, 4]) * 3, dtype=i32), classes=3)",
            "x": "potts_sweep(start, a, w, arange(stop=4) % 2 == 0, repeat=40)",
            "state": "argmax(x, axis=2)",
            "energy": "potts_energy(x, a, w)",
        },
        stages: {"go": Run(outputs: ["a", "flat", "state", "energy"])},
    )"#;
    let outputs = run_on(&cpu(2), text, &["a", "flat", "state", "energy"]);
    let [a, w, states, energies] = ["a", "flat", "state", "energy"].map(|name| of(&outputs, name));
    let energy = |s: [usize; 4]| {
        let pairs = (0..4).flat_map(|i| (0..i).map(move |k| (3 * i + s[i]) * 12 + 3 * k + s[k]));
        -(pairs.map(|at| w[at]).sum::<f64>() + (0..4).map(|i| a[3 * i + s[i]]).sum::<f64>())
    };
    let digits = |n: usize| [n / 27, n / 9 % 3, n / 3 % 3, n % 3];
    let mut counts = [0.0; 81];
    for (row, got) in states.chunks_exact(4).zip(energies) {
        let n = row.iter().fold(0, |n, &digit| 3 * n + digit as usize);
        counts[n] += 1.0;
        assert!((got - energy(digits(n))).abs() < 1e-5);
    }
    let weights: Vec<f64> = (0..81).map(|n| (-energy(digits(n))).exp()).collect();
    let share = 16384.0 / weights.iter().sum::<f64>();
    let distance: f64 = counts.iter().zip(&weights).map(|(n, w)| (n - share * w).powi(2) / (share * w)).sum();
    // Chi squared with 80 degrees of freedom: mean 80, deviation 12.6.
    assert!(distance < 143.0, "{distance}");
}

#[test]
fn navigator_energy_and_cone() {
    let text = r#"(
        nodes: {
            "zero": "zeros(shape=[4])",
            "k": "cast(arange(stop=4), dtype=f32)",
            "energy": "navigator_energy(k * 0.25, k, zero + 1.0, k * 2.0)",
            // Phi of 6.2 lies 0.183 before phi of 0.1, across 2π.
            "inside": "in_cone(zero + 1.0, zero + 6.2, zero + 1.0, k * 0.1 + 0.1, aperture=0.2)",
        },
        stages: {"go": Run(outputs: ["energy", "inside"])},
    )"#;
    let outputs = run_on(&cpu(2), text, &["energy", "inside"]);
    for (k, got) in of(&outputs, "energy").into_iter().enumerate() {
        let k = k as f64;
        assert!((got - (-0.25 * k + 0.1 * (k - 1.0).powi(2) - 0.02 * k)).abs() < 1e-6);
    }
    // Distances: sin 1 times 0.183, 0.283, 0.383 and 0.483.
    assert_eq!(of(&outputs, "inside"), [1.0, 0.0, 0.0, 0.0]);
}

/// Weights of candidates, by the energies of a query and given noise, and their straight-through gradient.
#[test]
fn targets_are_selected_by_their_energies() {
    let text = r#"(
        seed: 6,
        params: {
            "query": (type: "f32[2, 4]", init: Normal(0, 1)), "others": (type: "f32[2, 3, 4]", init: Normal(0, 1)),
            "noise": (type: "f32[2, 3]", init: Uniform(0.01, 0.99)), "g": (type: "f32[2, 3]", init: Normal(0, 1)),
            "energy": (type: "f32[2, 3]", init: Normal(0, 1)),
        },
        nodes: {
            "zero": "zeros(shape=[2, 3])",
            "of_query": "navigator_energy(cosine_similarity(query, others), zero, zero, zero)",
            "soft": "gumbel_select_targets(of_query, noise, tau=0.5)",
            "hard": "gumbel_select_targets(energy, noise, tau=0.5, hard=true)",
            "drawn": "gumbel_select_targets(energy * 1000.0, hard=true)",
            "empty": "gumbel_select_targets(zeros(shape=[2, 0]))",
            "near": "next_nodes(energy, k=3)",
            "loss": "sum(hard * g)",
        },
        stages: {"go": Run(
            outputs: ["query", "others", "noise", "g", "energy", "soft", "hard", "drawn", "empty", "near", "near.number", "d.energy"],
            loss: "loss",
        )},
    )"#;
    let outputs = super::run(text).unwrap().outputs;
    let value = |name: &str| outputs[name].values.to_f64();
    let (query, others, noise, energy, g) =
        (value("query"), value("others"), value("noise"), value("energy"), value("g"));
    let weights = |energy: &[f64], row: usize| {
        let raw = |i: usize| ((-energy[i] - (-noise[3 * row + i].ln()).ln()) / 0.5).exp();
        let total: f64 = (0..3).map(raw).sum();
        (0..3).map(|i| raw(i) / total).collect::<Vec<f64>>()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for row in 0..2 {
        let q = &query[4 * row..][..4];
        let cosines = others[12 * row..][..12].chunks(4).map(|e| dot(q, e) / (dot(q, q) * dot(e, e)).sqrt());
        let soft = weights(&cosines.map(|cosine| -cosine).collect::<Vec<f64>>(), row);
        let (energy, g) = (&energy[3 * row..][..3], &g[3 * row..][..3]);
        let hard = weights(energy, row);
        let largest = hard.iter().copied().fold(0.0, f64::max);
        let mut order = [0, 1, 2];
        order.sort_by(|&a, &b| energy[a].total_cmp(&energy[b]));
        for i in 0..3 {
            let at = 3 * row + i;
            assert!((value("soft")[at] - soft[i]).abs() < 1e-5);
            assert_eq!(value("hard")[at], (hard[i] == largest) as u8 as f64);
            let slope = -hard[i] * (g[i] - dot(g, &hard)) / 0.5;
            assert!((value("d.energy")[at] - slope).abs() < 1e-5 * (1.0 + slope.abs()));
            assert_eq!(value("near.number")[at], order[i] as f64);
            assert_eq!(value("near")[at], energy[order[i]]);
            assert_eq!(value("drawn")[at], (order[0] == i) as u8 as f64);
        }
    }
    assert!(value("empty").is_empty());
}

/// Cones around phi of 0.1 and around theta of 2.
#[test]
fn cones_are_merged() {
    let text = r#"(
        nodes: {
            "theta": "1.0 + cast(arange(stop=4), dtype=f32) * 0.3",
            "phi": "full(shape=[4], value=6.2)",
            "axis": "1.0 + cast(arange(stop=2), dtype=f32)",
            "axis_phi": "full(shape=[2], value=6.2) - cast(arange(stop=2), dtype=f32) * 0.1",
            "inside": "in_any_cone(theta, phi, axis, axis_phi, aperture=0.2)",
        },
        stages: {"go": Run(outputs: ["inside"])},
    )"#;
    // Distances of theta are 0, 0.3, 0.6, 0.9 and 1, 0.7, 0.4, 0.1; the second axis lies 0.1 sin 2 away in phi.
    assert_eq!(of(&run_on(&cpu(2), text, &["inside"]), "inside"), [1.0, 0.0, 0.0, 1.0]);
}

/// Chains of a layer keep their spins from one step of a training to the next: with couplings of 100, pairs that once
/// agree never change.
#[test]
fn chains_of_a_layer_persist() {
    let text = r#"(
        seed: 5,
        data: {"rows": (source: "numbers", n_train: 8, n_test: 8)},
        inputs: {"row": (type: "i32[B]", from: "rows.number")},
        params: {"w": (type: "f32[]", init: 1), "old": (type: "f32[64, 2]", state: true)},
        nodes: {
            "j": "reshape(where(arange(stop=4) % 3 == 0, 0.0, 100.0), shape=[2, 2])",
            "s": "IsingChains(zeros(shape=[2]), j, arange(stop=2) == 0, count=64)",
            "loss": "square(w) + 0.0 * mean(cast(row, dtype=f32)) + 0.0 * sum(s)",
            "kept": "mean(cast(old == s, dtype=f32))",
            "up": "mean(s)",
        },
        stages: {
            "train": Train(
                data: "rows.train", batch: 2, epochs: 2, loss: "loss", optimizer: Sgd(lr: 0.1), metrics: ["kept", "up"],
                state: {"old": "s"},
            ),
        },
    )"#;
    let report = super::run(text).unwrap();
    let metrics = &report.stages[0].epochs;
    // In the first step of four, nothing is kept yet.
    assert_eq!(metrics[0].train_metrics["kept"], 0.75);
    assert_eq!(metrics[1].train_metrics["kept"], 1.0);
    assert!(metrics[1].train_metrics["up"].abs() < 0.5, "all chains agree");
}

/// Half the distance of counts and law is 0.028 on average for 16384 draws from 81 states, or less.
#[test]
fn shipped_graph_of_categories_draws_from_its_law() {
    let outputs =
        run_on(&cpu(2), include_str!("../../graphs/categorical_ebm.ron"), &["distance", "law", "off"]);
    assert!(of(&outputs, "distance")[0] < 0.04, "{outputs:?}");
    assert!(of(&outputs, "off")[0] < 1e-5, "{outputs:?}");
    assert!((of(&outputs, "law").iter().sum::<f64>() - 1.0).abs() < 1e-5);
}

#[test]
fn shipped_ising_graph_tells_digits_from_noise() {
    let report = super::run(include_str!("../../graphs/ising.ron")).unwrap();
    let before = report.stages[0].metrics["gap"];
    let gaps: Vec<f64> = report.stages[1].epochs.iter().map(|epoch| epoch.metrics["gap"]).collect();
    assert!(before.abs() < 1.0 && gaps.len() == 4, "{before} {gaps:?}");
    assert!(gaps[0] > 50.0 && gaps.is_sorted(), "{gaps:?}");
}

#[test]
fn hinton_start_draws_from_the_fields_alone() {
    let text = r#"(
        nodes: {"mean": "mean(hinton_start(full(shape=[16384, 1], value=1.5), beta=0.5), axis=0)"},
        stages: {"go": Run(outputs: ["mean"])},
    )"#;
    // The mean of signs is 2 sigmoid(0.75) - 1 = tanh(0.375); five deviations are 0.037.
    let got = of(&run_on(&cpu(2), text, &["mean"]), "mean")[0];
    assert!((got - 0.375_f64.tanh()).abs() < 0.037, "{got}");
}

/// The temperature of `graphs/navigator.ron` falls from 1 by a thousandth of itself a step, down to a tenth.
#[test]
fn temperature_schedule() {
    let graph = include_str!("../../graphs/navigator.ron");
    let node = graph.lines().find(|line| line.trim().starts_with("\"tau\": ")).unwrap();
    let tau = |step: usize| {
        let stages = format!("\"go\": Run(steps: {}, outputs: [\"tau\"])", step + 1);
        let report = super::run(&format!("(nodes: {{{node}}}, stages: {{{stages}}})")).unwrap();
        report.outputs["tau"].values.to_f64()[0]
    };
    assert_eq!(tau(0), 1.0);
    assert!((tau(500) - (-0.5f64).exp()).abs() < 1e-6);
    assert!((tau(5000) - 0.1).abs() < 1e-7);
}
