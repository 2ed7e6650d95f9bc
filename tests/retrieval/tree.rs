//! Indexes of rows on every device that is present, beside a search of all rows in double precision.

use crate::run::run;
use crate::ways::devices;
use crate::{offline, present};
use engine::Engine;
use engine::core::compile::{Options, compile};
use engine::core::device_model::DeviceModel;
use engine::core::ir::Symbol;
use engine::core::pipeline::RunStage;
use engine::core::stage;
use engine::runtime::device::Device;
use indexmap::IndexMap;
use std::sync::Arc;

mod corners;
mod scales;

/// Whole outputs of the only graph of a pipeline.
fn outputs(
    text: &str,
    (device, fuse): (Arc<dyn Device>, bool),
    names: &[&str],
) -> IndexMap<Symbol, Vec<f64>> {
    let names: Vec<Symbol> = names.iter().map(|name| Symbol::from(*name)).collect();
    let options = Options { fuse, ..Options::default() };
    let found = offline::session(text, device, options).run(&names, &IndexMap::new());
    let found = found.unwrap_or_else(|error| panic!("{error}\n{text}"));
    names.into_iter().map(|name| (name.clone(), found[&*name].to_f64())).collect()
}

/// A search of an index of generated rows.
#[derive(Clone, Copy)]
struct Case {
    /// Queries, rows and their length.
    sizes: [usize; 3],
    /// Formulas of queries `q` and rows `x` over normal numbers `a` and `b`, and the number of the row `i`.
    formulas: [&'static str; 2],
    /// A radius of the metric's unit.
    radius: f64,
    k: usize,
    block: usize,
    /// Groups that give the index its blocks; 0 for halves of halves.
    n_groups: usize,
}

/// What both searches yield, and their operands.
const NAMES: [&str; 10] = [
    "q",
    "x",
    "near",
    "near.indices",
    "near.scanned",
    "few.indices",
    "few.certified",
    "inside",
    "inside.ids",
    "inside.values",
];

const GROUPED: Case = Case {
    sizes: [23, 700, 9],
    formulas: ["a", "0.2 * b + slice(a, start=0, stop=1) * cast(remainder(i, 7), dtype=f32)"],
    radius: 3.0,
    k: 5,
    block: 8,
    n_groups: 0,
};

impl Case {
    fn text(&self, metric: &str, bound: &str) -> String {
        let block = self.block;
        let index = match self.n_groups {
            0 => format!(r#"tree(x, block={block}, metric=\"{metric}\")"#),
            n => format!(
                r#"tree_of_groups(x, remainder(arange(stop=N) * 5, {n}), groups={n}, block={block}, metric=\"{metric}\")"#
            ),
        };
        let [m, n, d] = self.sizes;
        let ([q, x], Case { radius, k, .. }) = (self.formulas, self);
        let settings = format!(r#"metric=\"{metric}\", bound=\"{bound}\""#);
        format!(
            r#"(
                dims: {{"M": {m}, "N": {n}, "D": {d}}},
                nodes: {{
                    "a": "normal(shape=[M, D])",
                    "b": "normal(shape=[N, D])",
                    "i": "reshape(arange(stop=N), shape=[N, 1])",
                    "q": "({q}) + 0.0 * a",
                    "x": "({x}) + 0.0 * b",
                    "index": "{index}",
                    "reach": "full(shape=[], value={radius:?})",
                    "near": "tree_nearest(q, index.*, k={k}, budget=2, {settings})",
                    "few": "tree_nearest(q, index.*, k={k}, budget=2, exact=false, {settings})",
                    "inside": "tree_within(q, index.*, reach, cap={n}*M, pairs={n}*M, {settings})",
                }},
                stages: {{"go": Run(outputs: {NAMES:?})}},
            )"#
        )
    }

    /// Values of a query and all rows in double precision, in which less is nearer.
    fn values(&self, metric: &str, q: &[f64], x: &[f64]) -> Vec<f64> {
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let value = |x: &[f64]| match metric {
            "ip" => -product(q, x),
            "cosine" => match (product(q, q) * product(x, x)).sqrt() {
                0.0 => 1.0,
                lengths => 1.0 - product(q, x) / lengths,
            },
            _ => q.iter().zip(x).map(|(q, x)| (q - x) * (q - x)).sum(),
        };
        x.chunks_exact(self.sizes[2]).map(value).collect()
    }

    /// Checks both searches with each metric and bound.
    fn check(self) {
        for metric in ["l2", "cosine", "ip"] {
            for bound in ["ball", "box", "both"] {
                self.check_on(metric, bound, (present::cpu(2), true));
            }
        }
    }

    /// Checks both searches in each way that must agree.
    fn check_everywhere(self) {
        for metric in ["l2", "cosine", "ip"] {
            devices().into_iter().for_each(|device| self.check_on(metric, "both", device));
        }
    }

    fn check_on(&self, metric: &str, bound: &str, device: (Arc<dyn Device>, bool)) {
        let name = format!("{metric} {bound} {:?} on {}", self.sizes, device.0.info().name);
        let found = outputs(&self.text(metric, bound), device, &NAMES);
        self.check_one(metric, &|name: &str| found[name].clone(), &name);
    }

    fn check_one(&self, metric: &str, output: &impl Fn(&str) -> Vec<f64>, name: &str) {
        let ([m, n, d], k) = (self.sizes, self.k);
        let (queries, x) = (output("q"), output("x"));
        let [near, near_ids, few_ids, few_certain] =
            ["near", "near.indices", "few.indices", "few.certified"].map(output);
        let [lims, ids, inside] = ["inside", "inside.ids", "inside.values"].map(output);
        let sign = if metric == "ip" { -1.0 } else { 1.0 };
        let limit = sign * self.radius;
        for query in 0..m {
            let values = self.values(metric, &queries[query * d..][..d], &x);
            let size =
                values.iter().copied().filter(|v| v.is_finite()).fold(1e-6, |a: f64, v| a.max(v.abs()));
            let slack = 1e-5 * if metric == "l2" { 0.0 } else { size };
            let is_close = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-5 * b.abs() + slack + 1e-30;
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let (found, found_ids) = (&near[query * k..][..k], &near_ids[query * k..][..k]);
            for place in 0..k.min(n) {
                let value = sign * found[place];
                assert!(
                    is_close(value, sorted[place]),
                    "{name}, query {query}: {value} is not {}",
                    sorted[place]
                );
                assert!(is_close(values[found_ids[place] as usize], value), "{name}, query {query}");
                let is_twice = found_ids[..place].contains(&found_ids[place]);
                assert!(!is_twice, "{name}, query {query}: {found_ids:?}");
            }
            assert!(found_ids[n.min(k)..].iter().all(|&id| id == -1.0), "{name}: {found_ids:?}");
            // A certificate is never given to a wrong set.
            if few_certain[query] == 1.0 {
                assert_eq!(few_ids[query * k..][..k], *found_ids, "{name}, query {query}");
            }
            let [from, to] = [query, query + 1].map(|at| lims[at] as usize);
            let (hits, of_hits) = (&ids[from..to], &inside[from..to]);
            assert!(hits.windows(2).all(|pair| pair[0] < pair[1]), "{name}, query {query}: {hits:?}");
            for (row, &value) in values.iter().enumerate() {
                let place = hits.iter().position(|&id| id == row as f64);
                let is_at_the_limit = (value - limit).abs() <= 1e-5 * limit.abs() + slack;
                assert!(
                    place.is_some() == (value <= limit) || is_at_the_limit,
                    "{name}, query {query}, row {row}: {value}"
                );
                if let Some(place) = place {
                    assert!(is_close(sign * of_hits[place], value), "{name}, query {query}, row {row}");
                }
            }
        }
        let n_hits = lims[m] as usize;
        assert!(ids[n_hits..].iter().all(|&id| id == -1.0), "{name}");
    }
}

#[test]
fn searches_equal_those_of_all_rows() {
    GROUPED.check();
    GROUPED.check_everywhere();
    Case { n_groups: 7, ..GROUPED }.check();
    Case { n_groups: 900, ..GROUPED }.check();
    Case { sizes: [40, 333, 3], formulas: ["2.0 * a", "b"], radius: 1.0, k: 12, block: 16, n_groups: 0 }
        .check();
    // More rows wanted than there are; one row; fewer rows than a block; one column.
    Case { sizes: [3, 6, 4], formulas: ["a", "b"], radius: 2.0, k: 9, block: 16, n_groups: 0 }.check();
    Case { sizes: [2, 1, 1], formulas: ["a", "b"], radius: 2.0, k: 1, block: 4, n_groups: 0 }.check();
    Case { sizes: [17, 130, 1], formulas: ["a", "b"], radius: 0.1, k: 3, block: 4, n_groups: 0 }.check();
}

#[test]
fn rows_that_are_hard_to_tell_apart_are_found() {
    // Long vectors with small differences; equal rows and zero rows; a query at a row and at the centre of all.
    Case { sizes: [20, 400, 6], formulas: ["1e4 + 1e-2 * a", "1e4 + 1e-2 * b"], radius: 5e-4, ..GROUPED }
        .check();
    let with_equal = "where(remainder(i, 3) == 0, 0.0 * b, where(remainder(i, 3) == 1, 0.0 * b + 1.0, b))";
    let at_rows = "where(a > 1.0, 0.0 * a, 0.0 * a + 1.0)";
    Case { formulas: [at_rows, with_equal], radius: 1.0, ..GROUPED }.check();
    // Squares of such differences vanish in f32, and those of large ones overflow.
    let formulas = ["1e-25 * a", "1e-25 * b"];
    Case { sizes: [9, 100, 4], formulas, radius: 0.0, k: 100, ..GROUPED }.check_ids_of_all();
}

impl Case {
    /// All rows are found, each once.
    fn check_ids_of_all(self) {
        for device in devices() {
            let found = outputs(&self.text("l2", "both"), device, &NAMES);
            let output = |name: &str| found[name].clone();
            for ids in output("near.indices").chunks_exact(self.k) {
                let mut ids = ids.to_vec();
                ids.sort_by(f64::total_cmp);
                assert_eq!(ids, (0..self.sizes[1]).map(|id| id as f64).collect::<Vec<_>>());
            }
            assert_eq!(output("inside").last(), Some(&((self.sizes[0] * self.sizes[1]) as f64)));
        }
    }
}

/// Rows of small whole numbers, which f32 computes exactly, so that ids have to be those of the oracle.
#[test]
fn equal_values_are_ordered_by_id() {
    let whole = ["round(2.0 * a)", "round(b)"];
    let case = Case { sizes: [30, 500, 3], formulas: whole, radius: 2.0, k: 20, block: 8, n_groups: 0 };
    for device in devices() {
        let found = outputs(&case.text("l2", "both"), device, &NAMES);
        let output = |name: &str| found[name].clone();
        let [q, x, ids, hits, lims] = ["q", "x", "near.indices", "inside.ids", "inside"].map(output);
        for query in 0..30 {
            let values = case.values("l2", &q[query * 3..][..3], &x);
            let mut order: Vec<usize> = (0..500).collect();
            order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
            let wanted: Vec<f64> = order[..20].iter().map(|&id| id as f64).collect();
            assert_eq!(ids[query * 20..][..20], wanted, "query {query}");
            let within = (0..500).filter(|&row| values[row] <= 2.0).map(|row| row as f64).collect::<Vec<_>>();
            assert_eq!(hits[lims[query] as usize..lims[query + 1] as usize], within, "query {query}");
        }
    }
}

/// The number of rows outside the ball, the ring or the box of their block, in double precision.
fn n_outside(n: usize, d: usize, block: usize, formula: &str, seed: usize) -> f64 {
    let l = n.div_ceil(block);
    let text = format!(
        r#"(
            seed: {seed},
            nodes: {{
                "b": "normal(shape=[{n}, {d}])",
                "t": "tree({formula}, block={block})",
                "x": "cast(reshape(t, shape=[{l}, {block}, {d}]), dtype=f64)",
                "is_row": "reshape(t.ids >= 0, shape=[{l}, {block}])",
                "c": "reshape(cast(t.center, dtype=f64), shape=[{l}, 1, {d}])",
                "r": "sqrt(sum(square(x - c), axis=2))",
                "far": "r > cast(reshape(t.radius, shape=[{l}, 1]), dtype=f64)",
                "near": "r < cast(reshape(t.inner, shape=[{l}, 1]), dtype=f64)",
                "low": "cast(reshape(t.low, shape=[{l}, 1, {d}]), dtype=f64)",
                "high": "cast(reshape(t.high, shape=[{l}, 1, {d}]), dtype=f64)",
                "beside": "any((x < low) | (x > high), axis=2)",
                "outside": "sum(cast(is_row & (far | near | beside), dtype=i32))",
                "ids": "sort(t.ids).values",
                "count": "t.count",
            }},
            stages: {{"go": Run(outputs: ["outside", "ids", "count"])}},
        )"#
    );
    let found = outputs(&text, (present::cpu(1), true), &["outside", "ids", "count"]);
    let output = |name: &str| found[name].clone();
    let ids: Vec<f64> = output("ids").into_iter().filter(|&id| id >= 0.0).collect();
    assert_eq!(ids, (0..n).map(|id| id as f64).collect::<Vec<_>>(), "{n} rows: each is there once");
    assert_eq!(output("count"), [n as f64]);
    output("outside")[0]
}

#[test]
fn blocks_hold_their_rows() {
    let formulas = ["b", "1e4 + 1e-3 * b", "1e-22 * b", "round(0.5 * b)", "1e15 * b * b * b"];
    for seed in 0..40 {
        let (n, d, block) = (1 + seed * 37 % 300, [1, 2, 7, 33, 1024][seed % 5], [1, 4, 16, 64][seed % 4]);
        let formula = formulas[seed / 5 % 5];
        assert_eq!(n_outside(n, d, block, formula, seed), 0.0, "{n} x {d}, blocks of {block}, {formula}");
    }
}

#[test]
fn an_index_has_the_same_bits_for_any_number_of_threads() {
    let names = ["t", "t.ids", "t.center", "t.inner", "t.radius", "t.low", "t.high"];
    let text = format!(
        r#"(nodes: {{"t": "tree(normal(shape=[5000, 20]), block=32)"}}, stages: {{"go": Run(outputs: {names:?})}})"#
    );
    let [one, two] = [1, 2].map(|n| outputs(&text, (present::cpu(n), true), &names));
    assert_eq!(one, two);
}

/// The graph of the repository, with fewer trips.
#[test]
fn an_index_that_changes_equals_a_search_of_all_rows() {
    let text = include_str!("../../graphs/index_online.ron");
    for (device, fuse) in devices() {
        let trips = if device.info().name.contains("cpu") || !fuse { 20 } else { 8 };
        let text = text.replace("times: 50", &format!("times: {trips}"));
        let output = run(&text, (device, fuse)).unwrap();
        assert_eq!(output("wrong"), [0.0]);
        assert!(output("scanned")[0] < 0.8, "{:?}", output("scanned"));
    }
}

/// A pipeline with an index as state.
fn with_state(nodes: &str, stages: &str) -> String {
    format!(
        r#"(
            dims: {{"D": 4}},
            layers: {{"memory": "TreeMemory(rows=64, dim=D, block=8)"}},
            nodes: {{
                "m": "memory()",
                "x": "normal(shape=[40, D])",
                "q": "normal(shape=[5, D])",
                "built": "tree(x, room=64, block=8)",
                {nodes}
            }},
            stages: {{{stages}}},
        )"#
    )
}

#[test]
fn removed_rows_are_not_found_and_unknown_ids_are_counted() {
    let text = with_state(
        r#""left": "tree_remove(m.ids, gone)", "missing": "left.missing", "gone": "remainder(arange(stop=12) * 7, 50)",
           "near": "tree_nearest(q, m.*, k=40)", "rows": "near.indices""#,
        r#""build": Run(state: {"memory.*": "built.*"}), "remove": Run(state: {"memory.ids": "left"}, outputs: ["missing", "gone"]),
           "search": Run(outputs: ["rows"])"#,
    );
    for device in devices() {
        let output = run(&text, device).unwrap();
        let gone = output("gone");
        let n_unknown = gone.iter().filter(|&&id| id >= 40.0).count();
        assert!(n_unknown > 0);
        assert_eq!(output("missing"), [n_unknown as f64]);
        for ids in output("rows").chunks_exact(40) {
            assert_eq!(ids.iter().filter(|&&id| id == -1.0).count(), gone.len() - n_unknown);
            assert!(ids.iter().all(|id| !gone.contains(id)));
        }
    }
}

#[test]
fn misuse_ends_in_an_error_that_names_the_requirement() {
    let search = r#""near": "tree_nearest(q, m.*, k=3)""#;
    let go = r#""go": Run(outputs: ["near"])"#;
    let build = r#""build": Run(state: {"memory.*": "built.*"}), "#;
    let cases = [
        (with_state(search, go), "near.queries.index_is_built_for_this_metric"),
        (
            with_state(r#""near": "tree_nearest(q, m.*, k=3, metric=\"cosine\")""#, &format!("{build}{go}")),
            "near.queries.index_is_built_for_this_metric",
        ),
        (
            with_state(
                r#""near": "tree_within(q, built.*, full(shape=[], value=-0.5), cap=200, pairs=40)""#,
                go,
            ),
            "near.radius_is_not_negative",
        ),
        (with_state(r#""near": "tree(where(x > 1.5, nan, x))""#, go), "near.all_rows_are_finite"),
        (
            with_state(
                r#""near": "tree_of_groups(x, remainder(arange(stop=40), 5), groups=4, block=8)""#,
                go,
            ),
            "near.labels_are_groups",
        ),
        (
            with_state(r#""near": "tree_insert(built.*, normal(shape=[30, D]), 40 + arange(stop=30))""#, go),
            "near.index_has_room",
        ),
        (
            with_state(
                r#""near": "tree_insert(built.keys, built.ids, built.count - 100, built.kind, built.center,
                    built.inner, built.radius, built.low, built.high, normal(shape=[3, D]), 40 + arange(stop=3))""#,
                go,
            ),
            "near.index_has_room",
        ),
    ];
    for (text, name) in cases {
        for device in devices() {
            let error = run(&text, device).map(|_| ()).unwrap_err();
            assert!(error.contains(name) && error.contains("does not hold"), "{name}: {error}");
        }
    }
}

#[test]
fn room_that_is_too_small_is_an_error_that_states_how_much_is_needed() {
    let text = with_state(
        r#""near": "tree_within(q, built.*, full(shape=[], value=inf), cap=100, pairs=40)""#,
        r#""go": Run(outputs: ["near"])"#,
    );
    for device in devices() {
        let error = run(&text, device).map(|_| ()).unwrap_err();
        assert!(error.contains("it needs room for 200 results and has room for 100"), "{error}");
    }
}

/// Nothing of queries times rows is stored.
#[test]
fn plans_hold_bounds_of_blocks_and_rows_of_visited_ones() {
    let text = r#"(
        dims: {"M": 512, "N": 65536, "D": 32},
        params: {"x": (type: "f32[N, D]", init: Normal(0, 1)), "q": (type: "f32[M, D]", init: Normal(0, 1))},
        nodes: {
            "index": "tree(x)",
            "near": "tree_nearest(q, index.*, k=10)",
            "inside": "tree_within(q, index.*, full(shape=[], value=9.0), cap=20000, pairs=4000)",
        },
        stages: {"go": Run(outputs: ["near", "inside"])},
    )"#;
    let program = Engine::new().read("tree.ron", text).unwrap_or_else(|errors| panic!("{errors}"));
    let stage: &RunStage = program.pipeline.stages.iter().find_map(|stage| stage.get()).unwrap();
    let graph = stage::running(&program.pipeline, stage, &program.registry).unwrap();
    for device in [DeviceModel::CPU, DeviceModel::H200] {
        let compiled = compile(&graph, &program.registry, &Options { device, ..Options::default() });
        for (kernel, _) in compiled.all_kernels() {
            let largest = kernel.operands.iter().map(|operand| operand.ty.numel()).max().unwrap();
            assert!(largest <= 512 * 65536 / 16, "{largest} in\n{}", kernel.body_text());
        }
    }
}

/// Searches of an index with a filter, beside a search of all rows with it.
#[test]
fn filters_hide_rows_of_an_index() {
    for filter in ["remainder(i, 3) == 0", "i < 40", "(i > 100) & (i < 103)", "i < 0"] {
        let text = format!(
            r#"(
                nodes: {{
                    "q": "normal(shape=[20, 6])",
                    "i": "arange(stop=900)",
                    "x": "normal(shape=[900, 6]) * 0.2 + cast(reshape(i / 90, shape=[900, 1]), dtype=f32)",
                    "allowed": "{filter}",
                    "index": "tree_where(tree(x, block=8).*, allowed)",
                    "near": "tree_nearest(q, index.*, k=5)",
                    "flat": "nearest(q, x, allowed, k=5)",
                    "reach": "full(shape=[], value=9.0)",
                    "inside": "tree_within(q, index.*, reach, cap=20000, pairs=20000)",
                    "all_inside": "within(q, x, reach, allowed, cap=20000)",
                    "shares": "near.scanned",
                    "ids": "near.indices",
                    "flat_ids": "flat.indices",
                    "inside_ids": "inside.ids",
                    "all_inside_ids": "all_inside.ids",
                }},
                stages: {{"go": Run(outputs: [
                    "ids", "flat_ids", "inside", "all_inside", "inside_ids", "all_inside_ids", "shares",
                ])}},
            )"#
        );
        let names = ["ids", "flat_ids", "inside", "all_inside", "inside_ids", "all_inside_ids", "shares"];
        for device in devices() {
            let name = format!("{filter} on {}", device.0.info().name);
            let found = outputs(&text, device, &names);
            assert_eq!(found["ids"], found["flat_ids"], "{name}");
            assert_eq!(found["inside"], found["all_inside"], "{name}");
            assert_eq!(found["inside_ids"], found["all_inside_ids"], "{name}");
            if filter != "remainder(i, 3) == 0" {
                assert!(found["shares"].iter().all(|&share| share < 0.2), "{name}: {:?}", found["shares"]);
            }
        }
    }
}
