//! Exact search on every device that is present, beside a search in double precision.

use crate::ways::devices;
use crate::{offline, present};
use engine::core::compile::Options;
use engine::core::numerics::Precision;
use engine::runtime::device::Device;
use std::collections::BTreeSet;
use std::sync::Arc;

mod filters;
mod heads;
mod scales;

/// A search among generated rows.
struct Case {
    /// Queries, rows and their length.
    sizes: [usize; 3],
    /// Formulas of queries `q` and rows `x` over normal numbers `a` and `b` and the number of the row `i`.
    formulas: [&'static str; 2],
    /// The call, over `q` and `x`.
    call: &'static str,
    /// Other nodes that the call needs.
    nodes: &'static str,
}

/// Values by query, k each.
struct Found {
    ids: Vec<f64>,
    distances: Vec<f64>,
    certified: Vec<f64>,
    scanned: Vec<f64>,
    /// The distances of these rows, in double precision.
    exact: Vec<f64>,
    /// The least distances of all, in double precision, and their rows.
    truth: [Vec<f64>; 2],
}

impl Case {
    fn run(&self, (device, fuse): (Arc<dyn Device>, bool)) -> Found {
        let [m, n, d] = self.sizes;
        let [q, x] = self.formulas;
        let (call, nodes, k) = (self.call, self.nodes, self.k());
        let wide = if device.model().has_f64 { "f64" } else { "f32" };
        let (qs, xs) = (
            format!("reshape(cast(q, dtype={wide}), shape=[M, 1, D])"),
            format!("reshape(cast(x, dtype={wide}), shape=[1, N, D])"),
        );
        let exact = match self.metric() {
            "ip" => "0.0 - sum(qs * xs, axis=2)".to_owned(),
            "cosine" => "1.0 - where(lengths == 0.0, lengths, sum(qs * xs, axis=2) / lengths)".to_owned(),
            _ => "sum(square(qs - xs), axis=2)".to_owned(),
        };
        let text = format!(
            r#"(
                dims: {{"M": {m}, "N": {n}, "D": {d}}},
                nodes: {{
                    "a": "normal(shape=[M, D])",
                    "b": "normal(shape=[N, D])",
                    "i": "reshape(arange(stop=N), shape=[N, 1])",
                    "q": "{q}",
                    "x": "{x}",
                    {nodes}
                    "found": "{call}",
                    "qs": "{qs}",
                    "xs": "{xs}",
                    "lengths": "sqrt(sum(square(qs), axis=2) * sum(square(xs), axis=2))",
                    "all": "{exact}",
                    "truth": "topk(all, k={k}, largest=false)",
                    "exact": "gather(all, found.indices, axis=1)",
                }},
                stages: {{"go": Run(outputs: [
                    "found", "found.indices", "found.certified", "found.scanned", "truth", "truth.indices", "exact",
                ])}},
            )"#
        );
        let options = Options { fuse, matmul: Precision::Tf32, ..Options::default() };
        let report = offline::session(&text, device, options).run_stages(None, &mut |_| {}).unwrap();
        let output = |name: &str| report.outputs[name].values.to_f64();
        Found {
            ids: output("found.indices"),
            distances: output("found"),
            certified: output("found.certified"),
            scanned: output("found.scanned"),
            exact: output("exact"),
            truth: [output("truth"), output("truth.indices")],
        }
    }

    fn metric(&self) -> &'static str {
        ["ip", "cosine"].into_iter().find(|name| self.call.contains(name)).unwrap_or("l2")
    }

    fn k(&self) -> usize {
        let (_, behind) = self.call.split_once("k=").unwrap();
        behind.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    }

    /// Checks what is found on each device. Whole numbers are compared exactly, with ties by row.
    fn check(&self, is_whole: bool) {
        for device in devices() {
            let name = format!("{} on {} fused {}", self.call, device.0.info().name, device.1);
            let found = self.run(device);
            let [truth, rows] = &found.truth;
            assert_eq!(found.ids.len(), self.sizes[0] * self.k(), "{name}");
            if is_whole {
                assert_eq!(&found.ids, rows, "{name}");
                continue;
            }
            for (query, ids) in found.ids.chunks(self.k()).enumerate() {
                let distinct: BTreeSet<i64> = ids.iter().map(|&id| id as i64).collect();
                assert_eq!(distinct.len(), ids.len(), "{name}, query {query}: {ids:?}");
            }
            let sign = if self.metric() == "ip" { -1.0 } else { 1.0 };
            for (at, &least) in truth.iter().enumerate() {
                let near = |found: f64| (found - least).abs() <= 2e-5 * least.abs().max(1e-3);
                let (exact, shown) = (found.exact[at], sign * found.distances[at]);
                assert!(near(exact) && near(shown), "{name}, at {at}: {exact}, {shown} for {least}");
            }
        }
    }
}

#[test]
fn the_nearest_of_scattered_rows_are_found() {
    for call in [
        "nearest(q, x, k=10)",
        "nearest(q, x, k=10, metric=\\\"ip\\\")",
        "nearest(q, x, k=10, metric=\\\"cosine\\\")",
        "nearest(q, x, k=1, margin=0)",
        "nearest(q, x, k=10, coarse=\\\"bf16\\\")",
        "nearest(q, x, k=10, margin=0, coarse=\\\"bf16\\\")",
    ] {
        Case { sizes: [37, 5003, 24], formulas: ["a", "b"], call, nodes: "" }.check(false);
    }
}

#[test]
fn most_of_scattered_rows_are_certain_after_one_pass() {
    let case = Case { sizes: [100, 5000, 24], formulas: ["a", "b"], call: "nearest(q, x, k=10)", nodes: "" };
    for device in devices() {
        let certified = case.run(device).certified;
        assert!(certified.iter().sum::<f64>() > 90.0, "{certified:?}");
    }
}

#[test]
fn rows_far_from_the_origin_are_never_confused() {
    // Products of such rows cancel: their scores say nothing about their order, and no query is certain at first.
    let formulas = ["10000.0 + 0.01 * a", "10000.0 + 0.01 * b"];
    let case = Case { sizes: [5, 3000, 16], formulas, call: "nearest(q, x, k=7)", nodes: "" };
    case.check(false);
    for device in devices() {
        assert_eq!(case.run(device).certified, [0.0; 5]);
    }
}

#[test]
fn equal_distances_are_ordered_by_row() {
    let formulas = ["round(a)", "round(b)"];
    for call in
        ["nearest(q, x, k=20)", "nearest(q, x, k=20, metric=\\\"ip\\\")", "nearest(q, x, k=3, margin=0)"]
    {
        Case { sizes: [33, 4000, 3], formulas, call, nodes: "" }.check(true);
    }
    // All rows are equal.
    Case {
        sizes: [3, 2000, 3],
        formulas: ["round(a)", "0.0 * b + 1.0"],
        call: "nearest(q, x, k=5)",
        nodes: "",
    }
    .check(true);
}

#[test]
fn rows_of_nan_and_of_zeros_hide_no_others() {
    let with_nan = "where(remainder(i, 3) == 0, b * 0.0 / 0.0, round(4.0 * b))";
    let with_zeros = "where(remainder(i, 3) == 0, b * 0.0, b)";
    for call in [
        "nearest(q, x, k=9)",
        "nearest(q, x, k=9, metric=\\\"ip\\\")",
        "nearest(q, x, k=9, coarse=\\\"bf16\\\")",
    ] {
        Case { sizes: [9, 3001, 4], formulas: ["round(4.0 * a)", with_nan], call, nodes: "" }.check(true);
    }
    for call in ["nearest(q, x, k=9)", "nearest(q, x, k=9, metric=\\\"cosine\\\")"] {
        Case { sizes: [9, 3001, 4], formulas: ["a", with_zeros], call, nodes: "" }.check(false);
    }
}

#[test]
fn halves_are_searched_without_rounding() {
    let formulas = ["cast(a, dtype=bf16)", "cast(b, dtype=bf16)"];
    Case { sizes: [21, 3000, 40], formulas, call: "nearest(q, x, k=6)", nodes: "" }.check(false);
}

#[test]
fn uncertain_rows_are_told_where_they_are_not_searched_again() {
    let formulas = ["10000.0 + 0.01 * a", "10000.0 + 0.01 * b"];
    let case = Case { sizes: [5, 3000, 16], formulas, call: "nearest(q, x, k=7, exact=false)", nodes: "" };
    for device in devices() {
        assert_eq!(case.run(device).certified, [0.0; 5]);
    }
}

/// The first pass alone, of a thousand queries in each case: how many are certain, and how many of these lack a row that is
/// nearer than what they found.
fn certain_and_wrong(d: usize, formulas: [&str; 2], nodes: &str, settings: &str) -> [f64; 2] {
    let [q, x] = formulas;
    let is_inner = settings.contains("ip");
    let all = if is_inner {
        "0.0 - cast(q, dtype=f64) @ transpose(cast(x, dtype=f64))"
    } else {
        "sum(square(reshape(cast(q, dtype=f64), shape=[M, 1, D]) - reshape(cast(x, dtype=f64), shape=[1, N, D])), axis=2)"
    };
    // The rounding of values.
    let rounding = match is_inner {
        true => "1e-6 * D * amax(abs(cast(q, dtype=f64))) * amax(abs(cast(x, dtype=f64)))",
        false => "1e-5 * amax(truth, axis=1)",
    };
    let text = format!(
        r#"(
            dims: {{"M": 1000, "N": 2000, "D": {d}}},
            nodes: {{
                "a": "normal(shape=[M, D])",
                "b": "normal(shape=[N, D])",
                "q": "{q}",
                "x": "{x}",
                {nodes}
                "found": "nearest(q, x, {settings}, k=3, exact=false)",
                "all": "{all}",
                "truth": "topk(all, k=3, largest=false)",
                "lost": "amax(gather(all, found.indices, axis=1) - truth, axis=1)",
                "lacks": "cast(lost > {rounding}, dtype=f32)",
                "certain": "sum(cast(found.certified, dtype=f32))",
                "wrong": "sum(where(found.certified, lacks, 0.0 * lacks))",
            }},
            stages: {{"go": Run(outputs: ["certain", "wrong"])}},
        )"#
    );
    let report =
        offline::session(&text, present::cpu(2), Options::default()).run_stages(None, &mut |_| {}).unwrap();
    ["certain", "wrong"].map(|name| report.outputs[name].values.to_f64()[0])
}

#[test]
fn no_wrong_result_is_certain() {
    let spreads = [["a", "b"], ["3.0 + a", "3.0 + b"], ["0.001 * a", "b"], ["100.0 + a", "100.0 + 0.1 * b"]];
    let mut n_certain = 0.0;
    for (d, formulas) in [2, 17].into_iter().flat_map(|d| spreads.map(|formulas| (d, formulas))) {
        for metric in ["l2", "ip"] {
            for settings in ["margin=0", "margin=0, coarse=\\\"bf16\\\"", "margin=2, coarse=\\\"bf16\\\""] {
                let settings = format!("metric=\\\"{metric}\\\", {settings}");
                let [certain, wrong] = certain_and_wrong(d, formulas, "", &settings);
                assert_eq!(wrong, 0.0, "{settings} of {formulas:?}, {d} numbers each");
                n_certain += certain;
            }
        }
    }
    assert!(n_certain > 10_000.0, "{n_certain}");
}

/// Squared norms of some rows overflow, and so do products with them.
#[test]
fn rows_of_infinite_norms_are_not_lost() {
    for call in
        ["nearest(q, x, k=10)", "nearest(q, x, k=10, margin=0)", "nearest(q, x, k=3, coarse=\\\"bf16\\\")"]
    {
        for (q, x) in [
            ("a", "where(remainder(i, 7) == 0, 1e19 * b, b)"),
            ("1e19 * (1.0 + 0.01 * a)", "where(remainder(i, 7) == 0, 1e19 * (1.0 + 0.01 * b), b)"),
        ] {
            Case { sizes: [5, 3000, 8], formulas: [q, x], call, nodes: "" }.check(false);
        }
    }
}

/// On a CPU, queries list rows by their bounds then. Whole numbers have exact distances, and ties by row.
#[test]
fn many_queries_among_few_rows_find_the_nearest() {
    let distances = "sum(square(reshape(q, shape=[M, 1, D]) - reshape(x, shape=[1, N, D])), axis=2)";
    let hidden = format!("where(allowed, {distances}, inf)");
    let products = "0.0 - q @ transpose(x)";
    let cases = [
        ("nearest(q, x, k=10)", distances),
        ("nearest(q, x, k=10, coarse=\\\"bf16\\\")", distances),
        ("nearest(q, x, k=1)", distances),
        ("nearest(q, x, allowed, k=10)", &hidden),
        ("nearest(q, x, k=10, metric=\\\"ip\\\")", products),
    ];
    for (call, all) in cases {
        let (_, k) = call.split_once("k=").unwrap();
        let k = if k.starts_with("10") { 10 } else { 1 };
        let text = format!(
            r#"(
                dims: {{"M": 4200, "N": 300, "D": 8}},
                nodes: {{
                    "q": "cast(remainder(reshape(arange(stop=M * D), shape=[M, D]) * 7919, 23), dtype=f32)",
                    "x": "cast(remainder(reshape(arange(stop=N * D), shape=[N, D]) * 104729, 19), dtype=f32)",
                    "allowed": "remainder(arange(stop=N), 3) != 1",
                    "found": "{call}",
                    "all": "{all}",
                    "truth": "topk(all, k={k}, largest=false)",
                    "wrong": "sum(cast(found.indices != truth.indices, dtype=i32))",
                    "apart": "amax(abs(abs(found) - abs(truth)))",
                    "uncertain": "sum(1 - cast(found.certified, dtype=i32))",
                }},
                stages: {{"go": Run(outputs: ["wrong", "apart", "uncertain"])}},
            )"#
        );
        for (threads, fuse) in [(1, true), (2, true), (2, false)] {
            let of = crate::run::run(&text, (present::cpu(threads), fuse)).unwrap();
            assert_eq!([of("wrong"), of("apart"), of("uncertain")], [[0.0], [0.0], [0.0]], "{call}, {fuse}");
        }
    }
}
