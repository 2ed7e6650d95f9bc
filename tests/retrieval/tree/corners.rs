//! Corners of searches of an index: queries that are no numbers, few rows, capacities, and gradients.

use super::*;
use engine::runtime::diagnostic::Coded;

/// Outputs of a graph in their order.
fn values_of(text: &str, device: (Arc<dyn Device>, bool), names: &[&str]) -> Vec<Vec<f64>> {
    outputs(text, device, names).into_values().collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|&value| if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }).collect()
}

/// A search for three queries, the second of which is one value in its first column, and the same search of all rows.
fn search_for(value: &str, metric: &str, settings: &str) -> String {
    let reach = if metric == "ip" { "-inf" } else { "inf" };
    format!(
        r#"(
            nodes: {{
                "x": "normal(shape=[50, 3])",
                "is_second": "reshape(arange(stop=3), shape=[3, 1]) == 1",
                "is_first": "arange(stop=3) == 0",
                "q": "where(is_second & is_first, {value}, slice(x, stop=3) + 0.5)",
                "index": "tree(x, block=8, metric=\"{metric}\")",
                "near": "tree_nearest(q, index.*, metric=\"{metric}\", {settings})",
                "flat": "nearest(q, x, metric=\"{metric}\", k=4)",
                "reach": "full(shape=[], value={reach})",
                "inside": "tree_within(q, index.*, reach, cap=150, pairs=30, metric=\"{metric}\")",
                "all": "within(q, x, reach, cap=150, metric=\"{metric}\")",
            }},
            stages: {{"go": Run(outputs: [
                "near.indices", "flat.indices", "inside", "all", "near", "flat",
            ])}},
        )"#
    )
}

#[test]
fn queries_that_are_no_numbers_find_what_a_search_of_all_rows_finds() {
    let names = ["near.indices", "flat.indices", "inside", "all", "near", "flat"];
    for (metric, value) in [
        ("l2", "nan"),
        ("l2", "inf"),
        ("cosine", "nan"),
        ("cosine", "inf"),
        ("cosine", "-inf"),
        ("ip", "nan"),
        ("ip", "inf"),
    ] {
        for settings in ["k=4", "k=4, budget=1"] {
            for device in [(present::cpu(2), true), (present::cpu(1), false)] {
                let name = format!("{metric} of {value}, {settings}");
                let found = values_of(&search_for(value, metric, settings), device, &names);
                assert_eq!(found[0], found[1], "{name}");
                assert_eq!(found[2], found[3], "{name}");
                // The values of the query are NaN, infinite or 1, so they are exact.
                assert_eq!(bits(&found[4][4..8]), bits(&found[5][4..8]), "{name}");
                assert_eq!(found[3][2] - found[3][1], if value == "nan" { 0.0 } else { 50.0 }, "{name}");
            }
        }
    }
}

#[test]
fn a_first_pass_has_room_for_all_k_rows() {
    let names = ["near.indices", "flat.indices", "few.indices"];
    for k in [1, 7, 8, 9, 39, 40, 41, 60] {
        let text = format!(
            r#"(
                nodes: {{
                    "x": "normal(shape=[37, 3])",
                    "q": "normal(shape=[5, 3])",
                    "index": "tree(x, block=8)",
                    "near": "tree_nearest(q, index.*, k={k}, budget=0)",
                    "few": "tree_nearest(q, index.*, k={k}, budget=0, exact=false)",
                    "flat": "nearest(q, x, k={k}, pad=true)",
                }},
                stages: {{"go": Run(outputs: ["near.indices", "flat.indices", "few.indices"])}},
            )"#
        );
        for device in devices() {
            let found = values_of(&text, device, &names);
            assert_eq!(found[0], found[1], "k = {k}");
            assert!(k < 37 || found[2] == found[1], "k = {k}");
        }
    }
}

/// Queries of the first pass and queries that visit further blocks have the gradient of a search of all rows.
#[test]
fn distances_have_the_gradient_of_a_search_of_all_rows() {
    let losses = [("sum(near * w)", false), ("sum(near * w) - sum(flat * w)", true)];
    for (metric, (loss, is_zero)) in
        ["l2", "ip", "cosine"].into_iter().flat_map(|metric| losses.map(|of| (metric, of)))
    {
        let text = format!(
            r#"(
                params: {{
                    "q": (type: "f32[20, 5]", init: Normal(0, 1)),
                    "x": (type: "f32[300, 5]", init: Normal(0, 1)),
                }},
                nodes: {{
                    "w": "normal(shape=[20, 6])",
                    "index": "tree(x, block=8, metric=\"{metric}\")",
                    "near": "tree_nearest(q, index.*, k=6, budget=1, metric=\"{metric}\")",
                    "flat": "nearest(q, x, k=6, metric=\"{metric}\")",
                    "seen": "sum(flat)",
                    "loss": "{loss}",
                }},
                stages: {{"go": Run(outputs: ["d.q", "d.x", "seen"], loss: "loss")}},
            )"#
        );
        for device in devices() {
            let output = run(&text, device).unwrap();
            for name in ["d.q", "d.x"] {
                let largest = output(name).into_iter().fold(0.0, |a: f64, b| a.max(b.abs()));
                assert_eq!(largest < 1e-4, is_zero, "{metric}, {loss}, {name}: {largest}");
            }
        }
    }
}

#[test]
fn the_capacity_that_is_too_small_is_named() {
    for (settings, node, setting) in
        [("cap=500, pairs=3", "near.room_for_pairs", "pairs"), ("cap=3, pairs=100", "near.hit", "cap")]
    {
        let text = format!(
            r#"(
                nodes: {{
                    "index": "tree(normal(shape=[40, 4]), block=8)",
                    "near": "tree_within(normal(shape=[5, 4]), index.*, full(shape=[], value=inf), {settings})",
                }},
                stages: {{"go": Run(outputs: ["near"])}},
            )"#
        );
        for (device, fuse) in devices() {
            let options = Options { fuse, ..Options::default() };
            let error = offline::session(&text, device, options).run_stages(None, &mut |_| {}).unwrap_err();
            let needed = if setting == "pairs" { 25 } else { 200 };
            let message = format!("`{node}`: it needs room for {needed} results and has room for 3");
            assert!(error.to_string().contains(&message), "{error}");
            assert!(error.help().unwrap().starts_with(&format!("raise `{setting}`;")), "{:?}", error.help());
        }
    }
}

/// A row that is left out may hold anything, and rows so long that squares overflow have no direction: neither takes the
/// room of further rows.
#[test]
fn rows_left_out_and_very_long_ones_leave_room_for_others() {
    let is_first = "reshape(arange(stop=60), shape=[60, 1]) == 0";
    for (x, ids, count) in [
        (format!("where({is_first}, nan, normal(shape=[60, 4]))"), "arange(stop=60) - 1", 59.0),
        (format!("where({is_first}, inf, normal(shape=[60, 4]))"), "arange(stop=60) - 1", 59.0),
        ("normal(shape=[60, 4]) * 1e20".into(), "arange(stop=60)", 60.0),
    ] {
        let text = format!(
            r#"(
                nodes: {{
                    "built": "tree({x}, {ids}, block=8, room=100)",
                    "count": "built.count",
                    "more": "tree_insert(built.*, normal(shape=[9, 4]), 100 + arange(stop=9))",
                    "rows": "tree_check(more.*)",
                }},
                stages: {{"go": Run(outputs: ["count", "rows"])}},
            )"#
        );
        for device in [(present::cpu(2), true), (present::cpu(1), false)] {
            let found = values_of(&text, device, &["count", "rows"]);
            assert_eq!(found, [[count], [count + 9.0]], "{x}");
        }
    }
}
