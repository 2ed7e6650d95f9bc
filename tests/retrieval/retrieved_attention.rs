//! Attention to blocks that bounds choose, on every device that is present, beside attention in double precision.

use crate::ways::devices;
use crate::{offline, present};
use engine::core::compile::Options;
use engine::core::ir::Symbol;
use engine::runtime::device::Device;
use indexmap::IndexMap;
use std::sync::Arc;

mod case;

use case::{B, Case, E, PLAIN, n_listed};

/// Queries, and keys of which those of a block are near each other.
const CLUSTERED: [&str; 2] =
    ["a * 2.0", "b * 0.2 + 2.0 * cos(cast((i / 8 * 7 + 1) * (arange(stop=D) + 3), dtype=f32))"];

const RULES: [&str; 9] = [
    "topk_blocks(p, n=3)",
    "topk_blocks(p, n=99)",
    "threshold_blocks(p, 9.0)",
    "threshold_blocks(p, -inf)",
    "threshold_blocks(p, 1e9)",
    "threshold_blocks(p, 9.0, most=2)",
    "budget_blocks(p, k, rows=20, size=W)",
    "mass_blocks(p, box, least, k, 0.02, size=W)",
    "mass_blocks(p, ball, least, k, 0.0, size=W)",
];

#[test]
fn every_rule_keeps_its_promise() {
    let plain = Case { choices: RULES.to_vec(), formulas: CLUSTERED, ..PLAIN };
    for case in [plain.clone(), Case { per_head: true, ..plain }] {
        case.check(|found| {
            found.each(|at| {
                let lists: Vec<&[f64]> = (0..RULES.len()).map(|i| found.listed(i, at)).collect();
                assert_eq!(
                    lists.iter().map(|list| list.len()).collect::<Vec<_>>(),
                    [3, 99, 7, 7, 7, 2, 3, 7, 7]
                );
                let counts: Vec<usize> = lists.iter().map(|list| n_listed(list)).collect();
                assert_eq!([counts[0], counts[1], counts[3], counts[4], counts[8]], [3, 7, 7, 0, 7]);
                assert_eq!([1, 3, 8].map(|i| found.missed(i, at)), [0.0; 3]);
                assert_eq!(
                    (found.missed(4, at), found.row("y4.lse", found.query(at), 1)[0]),
                    (1.0, f64::NEG_INFINITY)
                );
                // No block reaches the threshold.
                for form in ["y4", "z4"] {
                    assert_eq!(found.row(form, found.query(at), E), [0.0; E]);
                }
                for (key, ..) in found.seen(at).iter().filter(|(_, score, _)| *score >= 9.0) {
                    assert!(
                        lists[2].contains(&((key / 8) as f64)),
                        "key {key} of {at:?} is not in {:?}",
                        lists[2]
                    );
                }
                let rows = lists[6]
                    .iter()
                    .filter(|block| **block >= 0.0)
                    .map(|block| if *block == 6.0 { 2 } else { 8 });
                assert!((10..=20).contains(&rows.sum::<i32>()), "{:?}", lists[6]);
                assert!(found.missed(7, at) <= 0.02 + 1e-6, "{} of {at:?}", found.missed(7, at));
            });
            let fewest = (0..B).map(|b| n_listed(found.listed(7, [b, 0, 0]))).min();
            assert!(fewest < Some(7), "an allowed share leaves out some block");
        });
    }
}

#[test]
fn a_budget_of_mass_takes_no_more_blocks_than_it_needs() {
    // All keys weigh alike: 24 of 50 are less than half, and 32 are more.
    let choices =
        vec!["mass_blocks(p, box, least, k, 0.5, size=W)", "mass_blocks(p, box, least, k, 1.0, size=W)"];
    let case = Case { formulas: ["a", "b * 0.0 + 0.7"], choices, ..PLAIN };
    case.check(|found| {
        found.each(|at| {
            assert_eq!(found.listed(0, at), [0.0, 1.0, 2.0, 3.0, -1.0, -1.0, -1.0]);
            assert_eq!(n_listed(found.listed(1, at)), 0);
        });
    });
}

#[test]
fn causal_queries_choose_blocks_before_them_and_merge_the_tail() {
    let mut choices = RULES.to_vec();
    choices[7] = "mass_blocks(p, box, least, k, 0.1, size=W, causal=true, tail=R)";
    choices[8] = "mass_blocks(p, box, least, k, 0.1, attention(q, tail_k, tail_v, causal=true).lse, size=W, causal=true, tail=R)";
    for sizes in [[4, 2, 50, 50, 0], [2, 1, 9, 21, 5], [3, 3, 12, 5, 3], [2, 2, 1, 33, 7]] {
        let case = Case {
            sizes,
            is_causal: true,
            priority: ", sinks=1, window=2",
            choices: choices.clone(),
            formulas: ["a * 2.0", "b"],
            ..PLAIN
        };
        case.check(|found| {
            found.each(|at| {
                assert!(found.missed(7, at) <= 0.1 + 1e-6 && found.missed(8, at) <= 0.1 + 1e-6);
                let place = (sizes[3] + sizes[4] + at[2]) as i64 - sizes[2] as i64;
                let own = place.div_euclid(8);
                if place >= 0 {
                    assert!(found.listed(0, at).contains(&0.0), "the first block is a sink");
                }
                for list in (0..choices.len()).map(|i| found.listed(i, at)) {
                    assert!(list.iter().all(|block| *block <= own as f64), "{list:?} of {at:?}");
                }
            });
        });
    }
}

#[test]
fn bounds_hold_for_rows_of_any_length() {
    let unit = "a * 10.0 / sqrt(sum(square(a), axis=3, keepdim=true))";
    let formulas = [
        ["a", "b * 0.01 + 3000.0"],
        ["a", "b * 0.0 + 0.7"],
        ["a", "b * 0.0"],
        ["a", "where(i % 7 == 3, 0.0, b)"],
        ["a * 0.0", "b"],
        [unit, "b"],
        ["a * 1e4", "b * 1e-3"],
        ["-abs(a)", "abs(b) * cast(i + 1, dtype=f32)"],
    ];
    for formulas in formulas {
        let choices = vec!["topk_blocks(p, n=2)", "threshold_blocks(block_priority(ball, k, size=W), 0.0)"];
        let case = Case { formulas, choices, sizes: [2, 1, 4, 45, 0], ..PLAIN };
        case.check(|found| {
            found.each(|at| {
                for (key, score, _) in found.seen(at).iter().filter(|(_, score, _)| *score >= 0.0) {
                    let listed = found.listed(1, at);
                    assert!(
                        listed.contains(&((key / 8) as f64)),
                        "{formulas:?}: key {key} with {score} of {at:?}"
                    );
                }
            });
        });
    }
}

#[test]
fn blocks_of_all_sizes() {
    // Keys and rows of a block: single rows, one block, a last block of one row, whole blocks.
    for (n_keys, width) in [(1, 1), (1, 8), (7, 1), (7, 7), (7, 100), (65, 16), (64, 16)] {
        let choices = vec![
            "topk_blocks(p, n=1)",
            "topk_blocks(p, n=200)",
            "mass_blocks(p, box, least, k, 0.3, size=W)",
        ];
        let case = Case { sizes: [2, 2, 2, n_keys, 0], width, choices, ..PLAIN };
        case.check(|found| found.each(|at| assert_eq!(found.missed(1, at), 0.0)));
    }
}

#[test]
fn blocks_that_are_listed_twice_count_once() {
    let short = "reshape(arange(stop=B * G * T * 9) * 5 % 8 - 1, shape=[B, G, T, 9])";
    let long = "reshape(arange(stop=B * G * T * 70) * 5 % 8 - 1, shape=[B, G, T, 70])";
    let case = Case { choices: vec![short, long], ..PLAIN };
    case.check(|found| found.each(|at| assert_eq!(found.missed(1, at), 0.0)));
}

/// The blocks that one threshold chooses for each head, by formulas of queries and keys.
fn chosen(q: &'static str, k: &'static str, choice: &'static str) -> Vec<f64> {
    let case = Case { formulas: [q, k], choices: vec![choice], per_head: true, ..PLAIN };
    let found = case.run((present::cpu(1), true));
    found.tensors["c0"].clone()
}

#[test]
fn scaling_does_not_change_the_choice_by_threshold() {
    let plain = chosen("a", "b", "threshold_blocks(p, 6.0)");
    assert!((1..plain.len()).contains(&n_listed(&plain)));
    assert_eq!(chosen("a * 8.0", "b", "threshold_blocks(p, 48.0)"), plain);
    assert_eq!(chosen("a * 0.125", "b * 3.0", "threshold_blocks(p, 2.25)"), plain);
}

/// One query among 100 keys.
fn attended_by(choice: &'static str) -> Case {
    Case { sizes: [1, 1, 1, 100, 0], formulas: CLUSTERED, choices: vec![choice], ..PLAIN }
}

#[test]
fn test_sparse_attention_basic() {
    let case = attended_by("threshold_blocks(p, 9.0)");
    case.check(|found| assert!((1..13).contains(&n_listed(found.listed(0, [0, 0, 0])))));
}

#[test]
fn test_sparse_attention_high_threshold() {
    let case = attended_by("threshold_blocks(p, 1e4)");
    case.check(|found| {
        found.each(|at| assert_eq!((n_listed(found.listed(0, at)), found.missed(0, at)), (0, 1.0)))
    });
}

#[test]
fn test_sparse_attention_low_threshold() {
    let case = attended_by("threshold_blocks(p, -1e4)");
    case.check(|found| {
        found.each(|at| assert_eq!((n_listed(found.listed(0, at)), found.missed(0, at)), (13, 0.0)))
    });
}

#[test]
fn test_sparse_attention_max_candidates() {
    let case = attended_by("threshold_blocks(p, -1e4, most=5)");
    case.check(|found| {
        found.each(|at| {
            let mut best: Vec<usize> = (0..13).collect();
            let bounds = found.row("box", found.query(at), 13);
            best.sort_by(|&a, &b| bounds[b].total_cmp(&bounds[a]));
            let listed: Vec<usize> = found.listed(0, at).iter().map(|block| *block as usize).collect();
            assert_eq!(listed, best[..5]);
        });
    });
}

/// Attention to chosen blocks and a tail: by a mask, by lists of one width, and by lists one after the other.
const FORMS: [&str; 3] = [
    r#""near": "attention(q, k, v, mask)", "last": "attention(q, tail_k, tail_v)",
       "y": "merge_state(near, near.lse, last, last.lse)""#,
    r#""y": "retrieved_attention(q, k, v, c, box, tail_k, tail_v, size=4)""#,
    r#""l": "ragged_blocks(c, cap=72)",
       "y": "ragged_attention(q, k, v, l.lims, l.ids, box, tail_k, tail_v, size=4)""#,
];

fn gradients(y: &str, (choice, width): (&str, usize), device: (Arc<dyn Device>, bool)) -> Vec<Vec<f64>> {
    let text = format!(
        r#"(
            nodes: {{
                "q": "normal(shape=[2, 4, 3, 6])",
                "k": "normal(shape=[2, 2, 22, 6])",
                "v": "normal(shape=[2, 2, 22, 5])",
                "tail_k": "normal(shape=[2, 2, 3, 6])",
                "tail_v": "normal(shape=[2, 2, 3, 5])",
                "bounds": "block_bounds(k, size=4)",
                "box": "box_bounds(q, bounds.low, bounds.high)",
                "p": "block_priority(box, k, size=4)",
                "c": "{choice}",
                "own": "reshape(c, shape=[2, 2, 1, 3, {width}, 1]) == arange(stop=22) / 4",
                "mask": "reshape(broadcast_to(any(own, axis=4), shape=[2, 2, 2, 3, 22]), shape=[2, 4, 3, 22])",
                {y},
                "loss": "sum(y * normal(shape=[2, 4, 3, 5]))",
            }},
            stages: {{"go": Run(loss: "loss", outputs: ["loss", "d.q", "d.k", "d.v", "d.tail_k", "d.tail_v"])}},
        )"#
    );
    let (device, fuse) = device;
    let mut report = offline::session(&text, device, Options { fuse, ..Options::default() });
    let outputs = report.run_stages(None, &mut |_| {}).unwrap().outputs;
    ["loss", "d.q", "d.k", "d.v", "d.tail_k", "d.tail_v"].map(|name| outputs[name].values.to_f64()).to_vec()
}

#[test]
fn gradients_are_those_of_a_mask() {
    // The threshold leaves some queries without a block.
    let choices = [("topk_blocks(p, n=2)", 2), ("threshold_blocks(p, 7.0)", 6)];
    for (device, choice) in
        devices().into_iter().flat_map(|device| choices.map(|choice| (device.clone(), choice)))
    {
        let [masked, listed, ragged] = FORMS.map(|y| gradients(y, choice, device.clone()));
        for (sparse, masked) in listed.iter().chain(&ragged).zip(masked.iter().chain(&masked)) {
            assert!(sparse.len() == masked.len() && masked.iter().any(|x| x.abs() > 0.01));
            for (a, b) in sparse.iter().zip(masked) {
                let near = (a - b).abs() <= 2e-5 * (1.0 + b.abs());
                assert!(near, "{a} for {b} of {choice:?} on {}", device.0.info().name);
            }
        }
    }
}

/// The ids that `within` finds are blocks of one key. Two of the nine queries find none.
#[test]
fn lists_of_another_op_are_attended_to() {
    let text = r#"(
        nodes: {
            "q": "normal(shape=[1, 1, 9, 6])",
            "k": "normal(shape=[1, 1, 40, 6])",
            "v": "normal(shape=[1, 1, 40, 5])",
            "found": "within(reshape(q, shape=[9, 6]), reshape(k, shape=[40, 6]), 2.5, cap=100, metric=ip)",
            "upper": "q @ transpose(k)",
            "some": "ragged_attention(q, k, v, found.lims, found.ids, upper, size=1)",
            "masked": "attention(q, k, v, upper >= 2.5)",
            "y": "some * 1.0", "expected": "masked * 1.0",
            "slack": "some.error - norm(some - attention(q, k, v), axis=3)",
            "counts": "slice(found.lims, start=1) - slice(found.lims, stop=9)",
        },
        stages: {"go": Run(outputs: ["y", "expected", "slack", "counts"])},
    )"#;
    for device in devices() {
        let [y, expected, slack, counts] = outputs(text, ["y", "expected", "slack", "counts"], device);
        assert_eq!(counts.iter().filter(|count| **count == 0.0).count(), 2);
        assert!(slack.iter().all(|slack| *slack >= 0.0), "{slack:?}");
        let near = y.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 2e-6 * (1.0 + b.abs()));
        assert!(near, "{y:?} for {expected:?}");
    }
}

#[test]
fn keys_and_values_stay_together_when_both_are_reordered() {
    let text = |order: &str| {
        format!(
            r#"(
                nodes: {{
                    "order": "{order}",
                    "q": "normal(shape=[1, 2, 3, 6])",
                    "k": "index_select(normal(shape=[1, 2, 40, 6]), order, axis=2)",
                    "v": "index_select(normal(shape=[1, 2, 40, 5]), order, axis=2)",
                    "bounds": "block_bounds(k, size=1)",
                    "box": "box_bounds(q, bounds.low, bounds.high)",
                    "c": "threshold_blocks(block_priority(box, k, size=1), 1.0)",
                    "y": "retrieved_attention(q, k, v, c, box, size=1)",
                    "missed": "y.missed",
                }},
                stages: {{"go": Run(outputs: ["y", "missed"])}},
            )"#
        )
    };
    let run = |order: &str| {
        let session = offline::session(&text(order), present::cpu(2), Options::default());
        let outputs = session.run(&["y", "missed"].map(Symbol::from), &IndexMap::new()).unwrap();
        [outputs["y"].to_f64(), outputs["missed"].to_f64()].concat()
    };
    let (plain, reordered) = (run("arange(stop=40)"), run("arange(stop=40) * 7 % 40"));
    let is_near = plain.iter().zip(&reordered).all(|(a, b)| (a - b).abs() <= 1e-5 * (1.0 + b.abs()));
    assert!(is_near, "{plain:?}\n{reordered:?}");
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let cases = [
        ("block_bounds(k, size=0)", "`21 % 0` is known of two numbers, the second of them not 0"),
        ("box_bounds(q, low, low)", "axis 3 of `low` is 7, not 6"),
        (
            "retrieved_attention(q, k, v, c, zeros(shape=[2, 4, 3, 5]), size=8)",
            "axis 1 of `seen` is 3, not 5",
        ),
        (
            "retrieved_attention(q, k, slice(v, axis=2, stop=20), c, upper, size=8)",
            "axis 2 of `v` is 20, not 22",
        ),
        ("retrieved_attention(q, k, v, cast(c, dtype=f32), upper, size=8)", "`blocks` is i32, not f32"),
        (
            "retrieved_attention(q, k, v, c, upper, k, slice(v, axis=2, stop=3), size=8)",
            "axis 2 of `tail_v` is 3, not 22",
        ),
        (
            "retrieved_attention(q, k, v, zeros(shape=[2, 3, 3, 1], dtype=i32), upper, size=8)",
            "the extent `4` cannot be divided by `3` without a remainder",
        ),
        (
            "ragged_attention(q, k, v, zeros(shape=[8], dtype=i32), c, upper, size=8)",
            "`ids` has 1 axis, not 4",
        ),
        (
            "ragged_attention(q, k, v, zeros(shape=[8], dtype=i32), zeros(shape=[5], dtype=i32), upper, size=8)",
            "the extent `7` cannot be divided by `6` without a remainder",
        ),
        (
            "block_priority(zeros(shape=[2, 3, 3, 3]), k, size=8)",
            "the extent `3` cannot be divided by `2` without a remainder",
        ),
    ];
    for (call, expected) in cases {
        let text = format!(
            r#"(
                nodes: {{
                    "q": "zeros(shape=[2, 4, 3, 6])", "k": "zeros(shape=[2, 2, 22, 6])", "v": "zeros(shape=[2, 2, 22, 5])",
                    "low": "zeros(shape=[2, 2, 3, 7])", "upper": "zeros(shape=[2, 4, 3, 3])",
                    "c": "zeros(shape=[2, 2, 3, 1], dtype=i32)", "y": "{call}",
                }},
                stages: {{"go": Run(outputs: ["y"])}},
            )"#
        );
        let error = engine::Engine::new().read("test.ron", &text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{call}: {error}");
    }
}

/// The outputs of all stages of a pipeline.
fn outputs<const N: usize>(
    text: &str,
    names: [&str; N],
    (device, fuse): (Arc<dyn Device>, bool),
) -> [Vec<f64>; N] {
    let mut session = offline::session(text, device, Options { fuse, ..Options::default() });
    let report = session.run_stages(None, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    names.map(|name| report.outputs[name].values.to_f64())
}

#[test]
fn a_key_that_is_inserted_is_found() {
    let text = r#"(
        params: {"k": (type: "f32[1, 1, 20, 4]", state: true)},
        nodes: {
            "key": "ones(shape=[1, 1, 1, 4])",
            "k_next": "kv_insert(k, key, 13)",
            "box": "box_bounds(key, block_bounds(k, size=4).low, block_bounds(k, size=4).high)",
            "before": "threshold_blocks(block_priority(box, k, size=4), 4.0)",
            "after": "before * 1",
        },
        stages: {
            "ask": Run(outputs: ["before"]),
            "insert": Run(state: {"k": "k_next"}),
            "ask_again": Run(outputs: ["after"]),
        },
    )"#;
    for device in devices() {
        let [before, after] = outputs(text, ["before", "after"], device);
        assert_eq!([before, after], [vec![-1.0; 5], vec![-1.0, -1.0, -1.0, 3.0, -1.0]]);
    }
}

#[test]
fn the_rest_is_estimated_from_means() {
    // Keys of a block are equal, so the estimate of their weights is exact.
    let text = r#"(
        nodes: {
            "q": "normal(shape=[2, 4, 3, 6])",
            "k": "repeat_interleave(normal(shape=[2, 2, 6, 6]), repeats=4, axis=2)",
            "v": "normal(shape=[2, 2, 24, 5])",
            "bounds": "block_bounds(k, size=4)",
            "box": "box_bounds(q, bounds.low, bounds.high)",
            "c": "topk_blocks(block_priority(box, k, size=4), n=2)",
            "some": "retrieved_attention(q, k, v, c, box, size=4)",
            "all": "estimate_rest(some, some.lse, q, k, c, bounds.mean, block_bounds(v, size=4).mean, size=4)",
            "dense": "attention(q, k, v)",
            "y": "all * 1.0", "lse": "all.lse", "expected": "dense * 1.0", "expected_lse": "dense.lse",
        },
        stages: {"go": Run(outputs: ["y", "lse", "expected", "expected_lse"])},
    )"#;
    for device in devices() {
        let [y, lse, expected, expected_lse] =
            outputs(text, ["y", "lse", "expected", "expected_lse"], device);
        for (a, b) in y.iter().chain(&lse).zip(expected.iter().chain(&expected_lse)) {
            assert!((a - b).abs() <= 2e-6 * (1.0 + b.abs()), "{a} for {b}");
        }
    }
}

#[test]
fn bounds_hold_in_a_pipeline_of_halves() {
    for precision in ["Bf16", "F16"] {
        let text = format!(
            r#"(
                precision: {precision},
                params: {{"q": (type: "f32[1, 2, 3, 6]", init: Normal(0, 3)), "k": (type: "f32[1, 1, 40, 6]", init: Normal(0, 3))}},
                nodes: {{
                    "bounds": "block_bounds(k, size=8)",
                    "box": "box_bounds(q, bounds.low, bounds.high)", "ball": "ball_bounds(q, bounds.mean, bounds.radius)",
                }},
                stages: {{"go": Run(outputs: ["q", "k", "box", "ball"])}},
            )"#
        );
        let [q, k, by_box, ball] = outputs(&text, ["q", "k", "box", "ball"], (present::cpu(1), true));
        for (query, q) in q.chunks(6).enumerate() {
            for (key, k) in k.chunks(6).enumerate() {
                let score: f64 = q.iter().zip(k).map(|(a, b)| a * b).sum();
                let [by_box, ball] = [&by_box, &ball].map(|bounds| bounds[query * 5 + key / 8]);
                assert!(
                    score <= by_box && score <= ball && by_box < score.abs() + 400.0,
                    "{score}: {by_box}, {ball}"
                );
            }
        }
    }
}
