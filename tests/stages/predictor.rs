//! The prediction of trainings against the same arithmetic in double precision.

use super::energy::{of, run_on};
use super::present::{cpu, gpus};
use super::refused;
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

/// A sequence of six steps of two rows by the step, by gates in the order of `GRU`, and by the head's own input.
const SEQUENCE: &str = r#"(
    seed: 3,
    dims: {"H": 3, "T": 6, "I": 2},
    params: {
        "u": (type: "f32[H, 3 * H]", init: Normal(0, 0.7)),
        "h": (type: "f32[2, H]", init: Normal(0, 1)),
        "z": (type: "f32[2, T, 3 * H]", init: Normal(0, 1)),
        "v": (type: "f32[H, 3 * H]", init: Normal(0, 0.7)),
        "w": (type: "f32[I + H, 3 * H]", init: Normal(0, 0.7)),
        "x": (type: "f32[2, I]", init: Normal(0, 1)),
    },
    functions: {
        "turned": (
            summary: "The gates r, -k and n of k, r and n.",
            inputs: ["g"],
            nodes: {"k": "slice(g, axis=-1, stop=H)", "r": "slice(g, axis=-1, start=H, stop=2 * H)"},
            output: "concat(r, -k, slice(g, axis=-1, start=2 * H), axis=-1)",
        ),
    },
    nodes: {
        "y": "gru_update_step(h, z, u, over=1)",
        "other": "gru_reset_step(h, turned(z), turned(u), zeros(shape=[3 * H]), over=1)",
        "first": "select(z, axis=1, index=0)",
        "closed": "gru_closed_step(h, zeros(shape=[2, T]), first, v, u, over=1)",
        "cell": "gru_update_cell(h, x, w, zeros(shape=[3 * H]) + 0.5)",
        "loss": "sum(square(y))",
    },
    stages: {"go": Run(
        outputs: ["u", "h", "z", "v", "w", "x", "y", "other", "closed", "cell", "d.u", "d.h", "d.z"], loss: "loss",
    )},
)"#;

/// The outputs of the stage of a pipeline.
fn outputs(text: &str) -> impl Fn(&str) -> Vec<f64> + use<> {
    let outputs = super::run(text).unwrap().outputs;
    move |name| outputs[name].values.to_f64()
}

/// All states of both rows; `sums` gives those of a step from the row, the step and the state.
fn states(h: &[f64], u: &[f64], sums: impl Fn(usize, usize, &[f64]) -> Vec<f64>) -> Vec<f64> {
    let mut all = vec![];
    for row in 0..2 {
        let mut h = h[3 * row..][..3].to_vec();
        for t in 0..6 {
            h = step(&h, &sums(row, t, &h), u);
            all.extend_from_slice(&h);
        }
    }
    all
}

#[test]
fn sequences_of_steps_are_those_of_their_formulas() {
    let value = outputs(SEQUENCE);
    let (h, z, u, v) = (value("h"), value("z"), value("u"), value("v"));
    let given = |row: usize, t: usize, _: &[f64]| z[(6 * row + t) * 9..][..9].to_vec();
    assert_close("y", &value("y"), &states(&h, &u, given));
    assert_close("other", &value("other"), &value("y"));
    let predicted = |row: usize, _: usize, h: &[f64]| {
        product(h, &v, 9, 0, 9).iter().zip(&z[54 * row..]).map(|(a, b)| a + b).collect()
    };
    assert_close("closed", &value("closed"), &states(&h, &u, predicted));
    let (x, w) = (value("x"), value("w"));
    let cell = (0..2).flat_map(|row| {
        let z: Vec<f64> = product(&x[2 * row..][..2], &w[..18], 9, 0, 9).iter().map(|z| z + 0.5).collect();
        step(&h[3 * row..][..3], &z, &w[18..])
    });
    assert_close("cell", &value("cell"), &cell.collect::<Vec<f64>>());
}

/// Central differences of the sum of squares of all states.
#[test]
fn the_gradient_goes_back_through_all_steps() {
    let value = outputs(SEQUENCE);
    let given = [value("u"), value("h"), value("z")];
    let loss = |given: &[Vec<f64>; 3]| {
        let sums = |row: usize, t: usize, _: &[f64]| given[2][(6 * row + t) * 9..][..9].to_vec();
        states(&given[1], &given[0], sums).iter().map(|y| y * y).sum::<f64>()
    };
    for (operand, name) in ["d.u", "d.h", "d.z"].into_iter().enumerate() {
        let slope = |at: usize| {
            let moved = |by: f64| {
                let mut given = given.clone();
                given[operand][at] += by;
                loss(&given)
            };
            (moved(1e-5) - moved(-1e-5)) / 2e-5
        };
        assert_close(name, &value(name), &(0..given[operand].len()).map(slope).collect::<Vec<f64>>());
    }
}

/// The gradient of hard draws is that of the soft ones: y·(g - Σ g·y) / tau.
#[test]
fn draws_of_categories_have_a_straight_through_gradient() {
    let value = outputs(
        r#"(
        seed: 8,
        params: {
            "logits": (type: "f32[2, 3, 4]", init: Normal(0, 1)), "g": (type: "f32[2, 3, 4]", init: Normal(0, 1)),
            "noise": (type: "f32[2, 3, 4]", init: Uniform(0.01, 0.99)),
        },
        nodes: {"s": "categorical_state(logits, noise, tau=0.5)", "loss": "sum(s * g)"},
        stages: {"go": Run(outputs: ["logits", "g", "noise", "s", "d.logits"], loss: "loss")},
    )"#,
    );
    let (logits, g, noise) = (value("logits"), value("g"), value("noise"));
    let mut expected = vec![];
    for at in (0..24).step_by(4) {
        let weights: Vec<f64> =
            (at..at + 4).map(|i| ((logits[i] - (-noise[i].ln()).ln()) / 0.5).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mean: f64 = (0..4).map(|k| g[at + k] * weights[k] / total).sum();
        expected.extend((0..4).map(|k| weights[k] / total * (g[at + k] - mean) / 0.5));
    }
    assert_close("d.logits", &value("d.logits"), &expected);
    assert!(value("s").chunks(4).all(|row| row.iter().sum::<f64>() == 1.0 && row.contains(&1.0)));
}

#[test]
fn statistics_of_the_ensemble_and_metrics_of_a_rollout() {
    let value = outputs(
        r#"(
        nodes: {
            // Two members, four steps, one training.
            "losses": "reshape(cast(arange(stop=8), dtype=f32) ** 2.0, shape=[2, 4, 1])",
            "s": "ensemble_statistics(losses)",
            "m": "rollout_metrics(losses, stack(losses, losses * 0.75, axis=3))",
            "errors": "full(shape=[64, 1], value=0.25)",
            "few": "combined_confidence(s.confidence, errors, full(shape=[], value=9, dtype=i32))",
            "many": "combined_confidence(s.confidence, errors, full(shape=[], value=10, dtype=i32))",
        },
        stages: {"go": Run(outputs: [
            "s", "s.std", "s.sigma", "s.low", "s.high", "s.confidence",
            "m", "m.norms", "m.variance", "m.smoothness", "few", "many",
        ])},
    )"#,
    );
    // Losses are 0 1 4 9 and 16 25 36 49.
    let sigma = 20.0 * 1.2;
    let confidence = 1.0 / (1.0 + sigma);
    let expected: [(&str, &[f64]); 12] = [
        ("s", &[8.0, 13.0, 20.0, 29.0]),
        ("s.std", &[8.0, 12.0, 16.0, 20.0]),
        ("s.sigma", &[sigma]),
        ("s.low", &[29.0 - 2.0 * sigma]),
        ("s.high", &[29.0 + 2.0 * sigma]),
        ("s.confidence", &[confidence]),
        ("m", &[1.0, 3.0, 5.0, 9.0, 11.0, 13.0]),
        ("m.norms", &[0.0, 1.25, 5.0, 11.25, 20.0, 31.25, 45.0, 61.25]),
        ("m.variance", &[12.25, 152.25]),
        ("m.smoothness", &[2.0, 2.0]),
        ("few", &[0.6 * confidence + 0.2]),
        ("many", &[0.6 * confidence + 0.4 / 1.25]),
    ];
    expected.into_iter().for_each(|(name, expected)| assert_close(name, &value(name), expected));
}

/// Without a step, the state is the present one, and it is certain.
#[test]
fn a_rollout_may_have_no_steps() {
    let value = outputs(
        r#"(
        seed: 3,
        params: {
            "x": (type: "f32[2, 3]", init: Normal(0, 1)), "h": (type: "f32[5, 2, 4]", init: Normal(0, 1)),
            "w": (type: "f32[5, 3, 12]", init: Normal(0, 1)), "b": "f32[5, 1, 12]",
            "u": (type: "f32[5, 4, 12]", init: Normal(0, 1)),
        },
        nodes: {
            "empty": "ensemble_rollout(x, h, w, b, u, steps=0)", "end": "rollout_end(empty, h) * 1.0",
            "s": "ensemble_statistics(mean(empty, axis=3))", "one": "ensemble_rollout(x, h, w, b, u, steps=1)",
            "after": "rollout_end(one, h)", "same": "reshape(one, shape=[5, 2, 4])",
        },
        stages: {"go": Run(outputs: ["h", "empty", "end", "s", "s.sigma", "s.confidence", "s.low", "after", "same"])},
    )"#,
    );
    assert_eq!((value("empty").len(), value("s").len()), (0, 0));
    assert_eq!((value("end"), value("after")), (value("h"), value("same")));
    assert_eq!((value("s.sigma"), value("s.confidence")), (vec![0.0; 2], vec![1.0; 2]));
    assert!(value("s.low").iter().all(|low| low.is_nan()));
    assert_ne!(value("after"), value("h"));
}

/// A value is scaled by those before it. Two series; the second one is constant until it jumps.
#[test]
fn running_statistics_scale_values_by_those_before() {
    let (n, jump) = (40, 30);
    let text = r#"(
        params: {
            "mean": (type: "f32[2]", state: true), "squares": (type: "f32[2]", state: true),
            "count": (type: "i32[]", state: true), "averages": (type: "f32[3, 2]", state: true),
            "course": (type: "f32[40, 2]", state: true), "warm": (type: "f32[40]", state: true),
        },
        nodes: {
            "t": "cast(step, dtype=f32)",
            "x": "stack(sin(t * t) * 3.0 + 5.0, where(step < 30, 0.25, 1e4), axis=0)",
            "r": "running_stats(x, mean, squares, count)",
            "course_next": "ring_push(course, r.normal, step)",
            "a": "loss_averages(averages, x, count)",
            "warm_next": "ring_push(warm, cast(a.is_warm, dtype=f32), step)",
        },
        stages: {"go": Run(
            steps: 40, outputs: [],
            state: {
                "mean": "r.mean_next", "squares": "r.squares_next", "count": "r.count_next", "course": "course_next",
                "averages": "a", "warm": "warm_next",
            },
        ), "end": Run(outputs: ["mean", "squares", "count", "course", "averages", "warm"])},
    )"#;
    let value = outputs(text);
    let x = |t: usize| [((t * t) as f64).sin() * 3.0 + 5.0, if t < jump { 0.25 } else { 1e4 }];
    let series = |row: usize, n: usize| (0..n).map(|t| x(t)[row]).collect::<Vec<f64>>();
    let scaled = |t: usize, row: usize| {
        let before = series(row, t);
        let off = (x(t)[row] - mean(&before)) / deviation(&before).max(1e-8);
        if t < 2 { 0.0 } else { off.clamp(-10.0, 10.0) }
    };
    let expected: Vec<f64> = (0..n).flat_map(|t| [scaled(t, 0), scaled(t, 1)]).collect();
    assert_eq!(expected[2 * jump + 1], 10.0);
    for (at, (found, expected)) in value("course").iter().zip(&expected).enumerate() {
        assert!((found - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{at}: {found} is not {expected}");
    }
    let whole = [series(0, n), series(1, n)];
    let squares = whole.each_ref().map(|it| deviation(it).powi(2) * n as f64);
    assert_close("mean", &value("mean"), &whole.each_ref().map(|it| mean(it)));
    assert!(value("squares").iter().zip(squares).all(|(found, it)| (found / it - 1.0).abs() < 1e-4));
    assert_eq!(value("count"), [n as f64]);
    let paces = [0.25, 0.0625, 0.015625];
    let average = |pace: f64, row: usize| {
        let values = series(row, n);
        values[1..].iter().fold(values[0], |average, x| average + pace * (x - average))
    };
    let averages: Vec<f64> = paces.iter().flat_map(|&pace| [average(pace, 0), average(pace, 1)]).collect();
    assert_close("averages", &value("averages"), &averages);
    let warm: Vec<f64> = (0..n).map(|t| f64::from(u8::from(t + 1 >= 16))).collect();
    assert_eq!(value("warm"), warm);
}

#[test]
fn wrong_widths_are_refused() {
    let refusals = [
        ("gru_update_step(f(2, 4), f(2, 8), f(4, 12))", "axis 1 of `z` is 8, not 12"),
        ("gru_update_step(f(2, 4), f(2, 12), f(5, 12))", "axis 0 of `u` is 5, not 4"),
        ("gru_update_cell(f(2, 4), f(2, 3), f(8, 12), f(12))", "axis 0 of `w` is 8, not 7"),
        (
            "ensemble_rollout(f(2, 3), f(5, 2, 4), f(4, 3, 12), f(5, 1, 12), f(5, 4, 12), steps=2)",
            "axis 0 of `w` is 4, not 5",
        ),
        ("categorical_state(f(2, 3, 4), f(2, 3, 5))", "axis 2 of `noise` is 5, not 4"),
        ("reconstruct(f(3, 2), f(3), f(2, 4))", "axis 0 of `s` is 3, not 2"),
        ("find_similar(f(1, 5), f(3, 4), step)", "axis 1 of `store` is 4, not 5"),
        ("find_similar(f(1, 4), f(3, 4), step, n=4)", "`topk` of k = 4 from 3 elements"),
        ("next_nodes(f(3), k=4)", "`topk` of k = 4 from 3 elements"),
        (
            "training_features(f(256, 2), f(64, 2), step, f(2, 3), f(2), f(2), f(2))",
            "axis 1 of `moments` is 3, not 4",
        ),
    ];
    for (call, expected) in refusals {
        let mut parts = call.split("f(");
        let first = parts.next().unwrap().to_string();
        let call = parts.fold(first, |text, part| text + "zeros(shape=[" + &part.replacen(')', "])", 1));
        let error =
            refused(&format!("(nodes: {{\"y\": \"{call}\"}}, stages: {{\"go\": Run(outputs: [\"y\"])}})"));
        assert!(error.contains(expected), "{call}: {error}");
    }
}
