//! Range search on every device that is present, beside a search in double precision.

use crate::offline;
use crate::ways::devices;
use engine::Engine;
use engine::core::compile::{Options, compile};
use engine::core::ir::{DType, Literal, NodeOp, Symbol, parse};
use engine::core::numerics::Precision;
use engine::core::oracle::{Oracle, OracleTensor};
use engine::runtime::device::Device;
use indexmap::IndexMap;
use std::collections::HashMap;
use std::sync::Arc;

/// Radii that differ from query to query, 20 of them: -inf, inf, and multiples of a step.
const RADII: &str = "where(k == 0.0, log(0.0 * k), where(k == 1.0, 1.0 / (0.0 * k), step * (k - 2.0)))";
/// The same with radii of both signs, for inner products.
const SIGNED: &str = "where(k == 0.0, log(0.0 * k), where(k == 1.0, 1.0 / (0.0 * k), step * (k - 10.0)))";

/// A search among generated rows.
#[derive(Clone)]
struct Case {
    /// Queries, rows and their length.
    sizes: [usize; 3],
    /// Formulas of queries `q` and rows `x` over normal numbers `a` and `b`, and the number of the row `i`.
    formulas: [&'static str; 2],
    /// A formula of radii over `k`, the number of the query modulo 20.
    radius: String,
    metric: &'static str,
    cap: usize,
    /// More operands and settings, which begin with a comma.
    more: &'static str,
}

/// Results of a search and its operands.
struct Found {
    lims: Vec<f64>,
    ids: Vec<f64>,
    values: Vec<f64>,
    scanned: Vec<f64>,
    queries: Vec<f64>,
    base: Vec<f64>,
    radii: Vec<f64>,
}

impl Case {
    fn text(&self) -> String {
        let [m, n, d] = self.sizes;
        let [q, x] = self.formulas;
        let Case { radius, metric, cap, more, .. } = self;
        format!(
            r#"(
                dims: {{"M": {m}, "N": {n}, "D": {d}}},
                nodes: {{
                    "a": "normal(shape=[M, D])",
                    "b": "normal(shape=[N, D])",
                    "i": "reshape(arange(stop=N), shape=[N, 1])",
                    "k": "cast(remainder(arange(stop=M), 20), dtype=f32)",
                    "q": "{q}",
                    "x": "{x}",
                    "radius": "{radius} + 0.0 * k",
                    "odd": "remainder(arange(stop=N), 2) == 1",
                    "mixed": "remainder(arange(stop=N) + reshape(arange(stop=M), shape=[M, 1]), 2) == 1",
                    "found": "within(q, x, radius{more}, metric=\"{metric}\", cap={cap})",
                }},
                stages: {{"go": Run(outputs: ["found", "found.ids", "found.values", "found.scanned", "q", "x", "radius"])}},
            )"#
        )
    }

    fn run(&self, (device, fuse): (Arc<dyn Device>, bool)) -> Found {
        let text = self.text();
        let options = Options { fuse, matmul: Precision::Tf32, ..Options::default() };
        let names = ["found", "found.ids", "found.values", "found.scanned", "q", "x", "radius"];
        let outputs = offline::session(&text, device, options)
            .run(&names.map(Symbol::from), &IndexMap::new())
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let output = |name: &str| outputs[name].to_f64();
        Found {
            lims: output("found"),
            ids: output("found.ids"),
            values: output("found.values"),
            scanned: output("found.scanned"),
            queries: output("q"),
            base: output("x"),
            radii: output("radius"),
        }
    }

    /// The value of a query and a row in double precision.
    fn value(&self, q: &[f64], x: &[f64]) -> f64 {
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let square: f64 = q.iter().zip(x).map(|(q, x)| (q - x) * (q - x)).sum();
        match self.metric {
            "ip" => product(q, x),
            "euclidean" => square.sqrt(),
            "cosine" => match (product(q, q) * product(x, x)).sqrt() {
                0.0 => 1.0,
                lengths => 1.0 - product(q, x) / lengths,
            },
            _ => square,
        }
    }

    /// Checks results on all devices: each row within, in ascending order, with its value. A row may be missing or may be
    /// one too many if its value is the radius within `slack`. The number of results.
    fn check(&self, slack: f64) -> usize {
        let mut n_found = 0;
        for device in devices() {
            let name = format!("{} {:?} on {}", self.metric, self.sizes, device.0.info().name);
            let found = self.run(device);
            n_found = self.check_one(&found, slack, &name);
        }
        n_found
    }

    fn check_one(&self, found: &Found, slack: f64, name: &str) -> usize {
        let [m, n, d] = self.sizes;
        let is_inner = self.metric == "ip";
        let is_hidden = |query: usize, row: usize| match self.more {
            _ if self.more.contains("odd") => row.is_multiple_of(2),
            _ if self.more.contains("mixed") => (row + query).is_multiple_of(2),
            _ => false,
        };
        // Sums of products of both signs are rounded relative to their terms.
        let least = if matches!(self.metric, "ip" | "cosine") { 0.1 } else { 1e-3 };
        assert_eq!(found.lims.len(), m + 1, "{name}");
        for query in 0..m {
            let [from, to] = [query, query + 1].map(|at| found.lims[at] as usize);
            let ids: Vec<usize> = found.ids[from..to].iter().map(|&id| id as usize).collect();
            let scanned = found.scanned[query];
            assert!(scanned >= ids.len() as f64 && scanned <= n as f64, "{name}, query {query}: {scanned}");
            assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{name}, query {query}: {ids:?}");
            let radius = found.radii[query];
            // Nothing is compared for a radius without rows, unless all pairs are few.
            assert!(
                scanned == 0.0 || m * n < 5000 || is_inner || radius > f64::NEG_INFINITY,
                "{name}: {scanned}"
            );
            let q = &found.queries[query * d..][..d];
            for row in 0..n {
                let value = self.value(q, &found.base[row * d..][..d]);
                let is_within =
                    !is_hidden(query, row) && if is_inner { value >= radius } else { value <= radius };
                let place = ids.binary_search(&row);
                let near = (value - radius).abs() <= slack * radius.abs().max(least);
                assert!(
                    place.is_ok() == is_within || near,
                    "{name}, query {query}, row {row}: {value} for {radius}"
                );
                if let Ok(place) = place {
                    assert!(!is_hidden(query, row), "{name}, query {query}, row {row}");
                    let shown = found.values[from + place];
                    let close = (shown - value).abs() <= 3e-5 * value.abs().max(least.max(1e-2));
                    assert!(close || shown == value, "{name}, query {query}, row {row}: {shown} for {value}");
                }
            }
        }
        let end = found.lims[m] as usize;
        let missing = if is_inner { f64::NEG_INFINITY } else { f64::INFINITY };
        assert!(found.ids[end..].iter().all(|&id| id == -1.0), "{name}");
        assert!(found.values[end..].iter().all(|&value| value == missing), "{name}");
        end
    }
}

/// A case of scattered rows with a step of radii.
fn scattered(sizes: [usize; 3], metric: &'static str, step: &str) -> Case {
    let radius = if metric == "ip" { SIGNED } else { RADII }.replace("step", step);
    Case { sizes, formulas: ["a", "b"], radius, metric, cap: sizes[0] * sizes[1], more: "" }
}

#[test]
fn rows_within_twenty_radii_are_found() {
    for (metric, step) in [("l2", "2.5"), ("euclidean", "0.5"), ("ip", "0.7"), ("cosine", "0.07")] {
        for sizes in [[40, 803, 12], [20, 70, 3]] {
            let n_found = scattered(sizes, metric, step).check(1e-5);
            // One query of twenty has all rows.
            assert!(n_found > sizes[0] / 20 * sizes[1], "{n_found}");
        }
    }
}

#[test]
fn one_query_one_row_and_few_rows_are_searched() {
    for metric in ["l2", "euclidean", "ip", "cosine"] {
        for sizes in [[1, 500, 5], [40, 1, 5], [1, 1, 1], [20, 17, 2], [20, 16, 2]] {
            scattered(sizes, metric, "0.3").check(1e-5);
        }
    }
}

#[test]
fn bounds_are_inclusive_and_equal_rows_are_all_found() {
    // Whole numbers: many values equal a radius.
    for (metric, step) in [("l2", "1.0"), ("euclidean", "1.0"), ("ip", "1.0")] {
        let case = Case { formulas: ["round(a)", "round(b)"], ..scattered([40, 900, 3], metric, step) };
        assert!(case.check(0.0) > 2000);
    }
    let all_equal = Case { formulas: ["round(a)", "0.0 * b + 1.0"], ..scattered([20, 300, 3], "l2", "1.0") };
    all_equal.check(0.0);
}

#[test]
fn a_radius_that_is_a_value_found_has_that_row() {
    for (metric, radius) in [("l2", "14.0"), ("euclidean", "3.9"), ("cosine", "0.7")] {
        let nodes = Case { radius: radius.into(), ..scattered([30, 900, 10], metric, "1.0") }.text();
        let more = format!(
            "\"farthest\": \"segment_reduce(found.values, found, by=\\\"max\\\")\",\n\
             \"again\": \"within(q, x, where(farthest > 0.0, farthest, 0.0 * farthest), metric=\\\"{metric}\\\", cap=27000)\",\n}},\nstages"
        );
        let text = nodes.replacen("},\n                stages", &more, 1);
        for (device, fuse) in devices() {
            let options = Options { fuse, ..Options::default() };
            let name = device.info().name.clone();
            let names = ["found", "found.ids", "again", "again.ids"].map(Symbol::from);
            let outputs = offline::session(&text, device, options).run(&names, &IndexMap::new()).unwrap();
            let output = |name: &str| outputs[name].to_f64();
            assert_eq!(output("again"), output("found"), "{metric} on {name}");
            assert_eq!(output("again.ids"), output("found.ids"), "{metric} on {name}");
            assert!(output("found")[30] > 500.0, "{metric} on {name}");
        }
    }
}

#[test]
fn rows_far_from_the_origin_are_compared_by_differences() {
    // Products of such rows cancel, so that each block has to be examined.
    let formulas = ["10000.0 + 0.001 * a", "10000.0 + 0.001 * b"];
    for (metric, step) in [("l2", "0.000001"), ("euclidean", "0.0005")] {
        let case = Case { formulas, ..scattered([20, 500, 8], metric, step) };
        assert!(case.check(1e-5) > 1000);
    }
}

#[test]
fn rows_of_nan_and_of_zeros_hide_no_others() {
    let with_nan = "where(remainder(i, 3) == 0, b * 0.0 / 0.0, round(4.0 * b))";
    let with_zeros = "where(remainder(i, 3) == 0, b * 0.0, b)";
    for (metric, step) in [("l2", "3.0"), ("ip", "4.0")] {
        for more in ["", ", coarse=\\\"bf16\\\""] {
            let formulas = ["round(4.0 * a)", with_nan];
            Case { formulas, more, ..scattered([20, 601, 4], metric, step) }.check(0.0);
        }
    }
    for (metric, step) in [("l2", "0.5"), ("ip", "0.3"), ("cosine", "0.1")] {
        let formulas = ["where(k0 == 1.0, 0.0 * a, a)", with_zeros];
        let case = Case { formulas, ..scattered([20, 601, 4], metric, step) };
        let formulas = [case.formulas[0].replace("k0", "reshape(k, shape=[M, 1])"), case.formulas[1].into()];
        let formulas = formulas.map(|formula: String| &*formula.leak());
        Case { formulas, ..case }.check(1e-5);
    }
}

#[test]
fn a_filter_hides_rows() {
    for (metric, step) in [("l2", "1.5"), ("euclidean", "0.4"), ("ip", "0.7"), ("cosine", "0.07")] {
        let case = Case { more: ", odd", ..scattered([20, 807, 6], metric, step) };
        assert!(case.check(1e-5) > 400);
        let case = Case { more: ", mixed", ..scattered([20, 807, 6], metric, step) };
        assert!(case.check(1e-5) > 400);
    }
}

#[test]
fn rounded_factors_and_halves_lose_no_rows() {
    for metric in ["l2", "ip", "cosine"] {
        let step = if metric == "cosine" { "0.07" } else { "1.5" };
        let case = scattered([20, 700, 20], metric, step);
        Case { more: ", coarse=\\\"bf16\\\"", ..case.clone() }.check(1e-5);
        let formulas = ["cast(a, dtype=bf16)", "cast(b, dtype=bf16)"];
        Case { formulas, ..case }.check(1e-5);
    }
}

#[test]
fn cosines_do_not_depend_on_the_scale_of_rows() {
    let scales = ["1e-25", "1e-19", "1.0", "1e19", "1e20"];
    for (of_query, of_row) in scales.map(|scale| (scale, scale)).into_iter().chain([("1e20", "1e-25")]) {
        let formulas = [format!("a * {of_query}"), format!("b * {of_row}")];
        let formulas = formulas.map(|formula| &*formula.leak());
        for more in ["", ", odd", ", coarse=\\\"bf16\\\"", ", coarse=\\\"f32\\\""] {
            let case = Case { formulas, more, ..scattered([20, 601, 4], "cosine", "0.07") };
            assert!(case.check(1e-5) > 300, "{of_query}, {of_row}");
        }
    }
}

/// Blocks without a row within are passed over at every scale, so that a small capacity has room.
#[test]
fn bounds_of_cosines_do_not_depend_on_the_scale_of_rows() {
    for formulas in [["a * 1e-25", "b * 1e-25"], ["a * 1e20", "b * 1e20"]] {
        let radius = "0.15".into();
        let case = Case { formulas, radius, cap: 50, ..scattered([20, 3001, 12], "cosine", "") };
        assert!(case.check(1e-5) > 0);
    }
}

#[test]
fn a_row_of_nan_has_no_cosine() {
    let formulas = ["round(4.0 * a)", "where(remainder(i, 3) == 0, b * 0.0 / 0.0, round(4.0 * b))"];
    for more in ["", ", coarse=\\\"bf16\\\""] {
        Case { formulas, more, ..scattered([20, 601, 4], "cosine", "0.3") }.check(1e-5);
    }
}

#[test]
fn results_without_room_are_an_error_that_states_their_number() {
    let case = Case { cap: 1000, ..scattered([20, 900, 3], "l2", "1.0") };
    for (device, fuse) in devices() {
        let options = Options { fuse, ..Options::default() };
        let error =
            offline::session(&case.text(), device, options).run_stages(None, &mut |_| {}).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("it needs room for "), "{error}");
        assert!(error.ends_with(" results and has room for 1,000"), "{error}");
        // With the room that the error states, it has enough at the second try at the latest.
        let needed = error.split("room for ").nth(1).unwrap().split(' ').next().unwrap().replace(',', "");
        assert!(needed.parse::<usize>().unwrap() > 1000, "{error}");
    }
}

/// A GPU runs on with a fallback in place of a number that fails a check, so no index may rely on the check alone. 5,640 blocks
/// are near, and there is room for 1,036.
#[test]
fn a_failed_check_leads_no_index_astray() {
    const TEXT: &str = "
        graph g {
          input q: f32[40, 4]
          input x: f32[9000, 4]
          input r: f32[]
          (lims: i32[41], ids: i32[10], values: f32[10]) = within(q, x, r, cap=10)
          output lims = lims
          output ids = ids
          output values = values
        }";
    let registry = Engine::new().registry;
    let graph = parse(TEXT, &registry).unwrap();
    let mut primitives = compile(&graph, &registry, &Options::default()).primitives;
    let mut n_checks = 0;
    for node in &mut primitives.nodes {
        if let NodeOp::Check(requirement) = node.op {
            node.op = NodeOp::Const(Literal::Int(requirement.fallback()));
            node.inputs.clear();
            n_checks += 1;
        }
    }
    assert_eq!(n_checks, 3);
    let inputs = [("q", vec![40, 4]), ("x", vec![9000, 4]), ("r", vec![])].map(|(name, extents)| {
        let n = extents.iter().product();
        let values: Vec<f64> = (0..n).map(|i| if name == "r" { 1e6 } else { (i % 17) as f64 }).collect();
        (name.to_owned(), OracleTensor::new(DType::F32, &extents, &values))
    });
    let found = Oracle::new(&registry).run(&primitives, &HashMap::from(inputs), 0, 0).unwrap();
    assert!(found.outputs["lims"].to_f64().iter().all(|&limit| limit == 0.0));
}

#[test]
fn a_negative_distance_is_an_error_with_its_query() {
    for metric in ["l2", "euclidean", "cosine"] {
        let radius = "where(k == 7.0, 0.0 - 0.5, 1.0)".into();
        let case = Case { radius, ..scattered([20, 300, 3], metric, "1.0") };
        for (device, fuse) in devices() {
            let options = Options { fuse, ..Options::default() };
            let error =
                offline::session(&case.text(), device, options).run_stages(None, &mut |_| {}).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("the distance at position 7 is negative"), "{error}");
        }
    }
}

/// The first list that is too short states a capacity that has room for both.
#[test]
fn the_stated_capacity_has_enough_room() {
    let cases =
        [([20, 1000, 8], "l2", "6.0"), ([60, 3000, 4], "cosine", "0.4"), ([60, 3000, 4], "ip", "2.0")];
    for (sizes, metric, radius) in cases {
        let mut n_stated = 0;
        for cap in [1, 50, 700, 3000] {
            let case = Case { cap, radius: radius.into(), ..scattered(sizes, metric, "") };
            // The capacities are integers, which one case shows on every device.
            for (device, fuse) in devices().into_iter().take(if cap == 50 { usize::MAX } else { 1 }) {
                let options = Options { fuse, ..Options::default() };
                let run = |case: &Case| {
                    let mut session = offline::session(&case.text(), device.clone(), options.clone());
                    session.run_stages(None, &mut |_| {}).map(|_| ()).map_err(|error| error.to_string())
                };
                let Err(error) = run(&case) else { continue };
                n_stated += 1;
                let stated = error.split("room for ").nth(1).unwrap().split(' ').next().unwrap();
                let stated: usize = stated.replace(',', "").parse().unwrap();
                assert!(stated > cap && stated <= sizes[0] * (sizes[1] + 63), "{error}");
                assert_eq!(run(&Case { cap: stated, ..case.clone() }), Ok(()), "{metric}, {cap}: {error}");
            }
        }
        assert!(n_stated > 0, "{metric}: all results have room");
    }
}

#[test]
fn an_infinite_product_is_not_within_an_infinite_radius() {
    // A few pairs of a query and a block are all compared; more have bounds.
    for sizes in [[3, 50, 3], [20, 600, 3]] {
        let formulas = ["1e30 * a", "1e30 * b"];
        for radius in ["1.0 / (0.0 * k)", "(0.0 * k) / (0.0 * k)"] {
            let case = Case { formulas, radius: radius.into(), ..scattered(sizes, "ip", "") };
            for device in devices() {
                assert_eq!(case.run(device).lims, vec![0.0; sizes[0] + 1], "{radius}");
            }
        }
    }
}
