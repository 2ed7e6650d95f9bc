//! Means that follow rows, step by step.

use super::{assert_near, squared};
use crate::run::run;
use crate::ways::devices;

/// Balls around centres that move hold all rows of all steps.
#[test]
fn radii_hold_all_rows_that_were_met() {
    let text = r#"(
        params: {
            "c": (type: "f32[3, 2]", state: true),
            "n": (type: "i32[3]", state: true),
            "r": (type: "f32[3]", state: true),
        },
        nodes: {
            "i": "arange(stop=70)",
            "label": "(i * i + step) % 3",
            "x": "reshape(cast(arange(stop=140) * 7919 % 101, dtype=f32) + cast(step * step, dtype=f32), shape=[70, 2])",
            "moved": "online_means(c, n, x, label)",
            "next": "moved * 1.0",
            "count": "moved.n",
            "radius": "online_radii(r, c, next, x, label)",
        },
        stages: {"follow": Run(state: {"c": "next", "n": "count", "r": "radius"}, steps: STEPS, outputs: ["next", "radius"])},
    )"#;
    let row = |step: usize, i: usize| [0, 1].map(|j| ((2 * i + j) * 7919 % 101 + step * step) as f64);
    let label = |step: usize, i: usize| (i * i + step) % 3;
    for device in devices() {
        let mut before = (vec![0.0; 6], vec![0.0; 3]);
        for steps in 1..=4 {
            let of = run(&text.replace("STEPS", &steps.to_string()), device.clone()).unwrap();
            let (c, r) = (of("next"), of("radius"));
            for k in 0..3 {
                let far = |step: usize| {
                    let own = (0..70).filter(move |&i| label(step, i) == k);
                    own.map(|i| squared(&row(step, i), &c[2 * k..2 * k + 2]).sqrt()).fold(0.0, f64::max)
                };
                assert!((0..steps).all(|step| far(step) <= r[k]), "step {steps}, ball {k}");
                let moved = squared(&c[2 * k..2 * k + 2], &before.0[2 * k..2 * k + 2]).sqrt();
                let least = far(steps - 1).max(before.1[k] + moved);
                assert!(r[k] <= least * (1.0 + 1e-5) + 1e-12, "step {steps}, ball {k}: {} for {least}", r[k]);
            }
            before = (c, r);
        }
    }
}

/// A row of a step before the last counts 2^(-age / halflife).
#[test]
fn earlier_rows_count_less_by_the_half_life() {
    let text = r#"(
        params: {"c": (type: "f32[3, 2]", state: true), "n": (type: "f32[3]", state: true)},
        nodes: {
            "i": "arange(stop=70)",
            "x": "reshape(cast(arange(stop=140) * 7919 % 101, dtype=f32) + cast(step * step, dtype=f32), shape=[70, 2])",
            "moved": "online_means(c, n, x, (i * i + step) % 3, halflife=2.5)",
            "next": "moved * 1.0",
            "count": "moved.n",
        },
        stages: {"follow": Run(state: {"c": "next", "n": "count"}, steps: 6, outputs: ["next", "count"])},
    )"#;
    for device in devices() {
        let name = device.0.info().name.clone();
        let of = run(text, device).unwrap();
        for label in 0..3 {
            let (mut total, mut sums) = (0.0, [0.0; 2]);
            for step in 0..6 {
                for i in (0..70).filter(|i| (i * i + step) % 3 == label) {
                    let weight = 0.5f64.powf((5 - step) as f64 / 2.5);
                    total += weight;
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum += weight * ((2 * i + j) * 7919 % 101 + step * step) as f64;
                    }
                }
            }
            assert_near(&of("count")[label..=label], &[total], &name);
            assert_near(&of("next")[2 * label..2 * label + 2], &sums.map(|sum| sum / total), &name);
        }
    }
}
