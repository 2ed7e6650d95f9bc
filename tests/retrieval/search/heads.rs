//! Searches whose first pass is a product of heads and tails.

use super::*;

/// Rows whose columns differ less and less.
const SPECTRUM: [&str; 2] = [
    "a * exp(-0.25 * cast(arange(stop=D), dtype=f32)) + 3.0",
    "b * exp(-0.25 * cast(arange(stop=D), dtype=f32)) + 3.0",
];
const MAIN: &str = r#""main": "principal_axes(x, count=7, sample=2000)","#;

#[test]
fn the_nearest_rows_are_found_by_principal_axes() {
    for call in [
        "nearest(q, x, main, main.mean, k=10)",
        "nearest(q, x, main, k=10)",
        "nearest(q, x, main, main.mean, k=1, margin=0)",
        "nearest(q, x, main, main.mean, k=10, coarse=\\\"bf16\\\")",
        "nearest(q, x, main, k=10, metric=\\\"ip\\\")",
        "nearest(q, x, main, k=10, metric=\\\"cosine\\\")",
    ] {
        Case { sizes: [37, 5003, 24], formulas: SPECTRUM, call, nodes: MAIN }.check(false);
    }
    for call in ["nearest(q, x, main, k=800, margin=0)", "nearest(q, x, main, k=900)"] {
        Case { sizes: [1, 900, 24], formulas: SPECTRUM, call, nodes: MAIN }.check(false);
    }
    let groups = ["round(2.0 * a) + 0.01 * sin(100.0 * a)", "round(2.0 * b) + 0.01 * sin(100.0 * b)"];
    let uniform = ["sin(20.0 * a)", "sin(20.0 * b)"];
    for formulas in [groups, uniform] {
        let call = "nearest(q, x, main, main.mean, k=6)";
        Case { sizes: [19, 3001, 9], formulas, call, nodes: MAIN }.check(false);
    }
}

#[test]
fn few_rows_are_compared_where_few_axes_matter() {
    let call = "nearest(q, x, main, main.mean, k=10)";
    let case = Case { sizes: [60, 5003, 24], formulas: SPECTRUM, call, nodes: MAIN };
    for device in devices() {
        let Found { scanned, certified, .. } = case.run(device);
        let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
        assert!(mean(&scanned) < 0.15 * 5003.0 && mean(&certified) > 0.9, "{scanned:?} {certified:?}");
        assert!(scanned.iter().all(|count| *count >= 10.0 && *count <= 5003.0), "{scanned:?}");
    }
}

/// Bounds of all queries and rows would be larger than the rows by far.
#[test]
fn a_part_of_the_bounds_is_in_memory_at_a_time() {
    let (m, n) = (2048, 3001);
    let text = format!(
        "graph search {{\ninput q: f32[{m}, 24]\ninput x: f32[{n}, 24]\ninput axes: f32[24, 6]\n\
         (d: f32[{m}, 5], i: i32[{m}, 5], c: bool[{m}], s: i32[{m}]) = nearest(q, x, axes, k=5)\noutput i = i\n}}\n"
    );
    let registry = engine::Engine::new().registry;
    let graph = engine::core::ir::parse(&text, &registry).unwrap();
    let options = Options { device: present::cpu(2).model(), ..Options::default() };
    let plan = engine::core::compile::compile(&graph, &registry, &options).plan;
    let largest = plan.buffers.iter().map(|buffer| buffer.ty.numel()).max().unwrap();
    assert!(largest <= m * n / 16, "{largest} elements");
    assert!(plan.arena_bytes < m * n, "{} bytes", plan.arena_bytes);
}

#[test]
fn results_do_not_depend_on_the_threads() {
    let call = "nearest(q, x, main, main.mean, k=10)";
    let case = Case { sizes: [65, 3001, 24], formulas: SPECTRUM, call, nodes: MAIN };
    let [one, two] = [1, 2].map(|threads| case.run((present::cpu(threads), true)));
    let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(one.ids, two.ids);
    assert_eq!(bits(&one.distances), bits(&two.distances));
    assert_eq!(one.scanned, two.scanned);
}

#[test]
fn rows_far_from_the_origin_are_certain_once_their_mean_is_taken_off() {
    let formulas = ["10000.0 + 0.01 * a", "10000.0 + 0.01 * b"];
    let call = "nearest(q, x, main, main.mean, k=7)";
    let case = Case { sizes: [5, 3000, 16], formulas, call, nodes: MAIN };
    case.check(false);
    let call = "nearest(q, x, main, k=7)";
    Case { call, ..case }.check(false);
}

#[test]
fn equal_distances_are_ordered_by_row_with_axes() {
    let nodes = r#""main": "qr(slice(b, stop=D))", "one": "slice(qr(slice(b, stop=D)), axis=1, stop=1)","#;
    for call in [
        "nearest(q, x, main, k=20)",
        "nearest(q, x, one, k=20)",
        "nearest(q, x, one, k=20, metric=\\\"ip\\\")",
        "nearest(q, x, main, k=3, margin=0)",
    ] {
        let formulas = ["round(a)", "round(b)"];
        Case { sizes: [33, 4000, 3], formulas, call, nodes }.check(true);
        // All rows are equal.
        Case { sizes: [3, 2000, 3], formulas: ["round(a)", "0.0 * b + 1.0"], call, nodes }.check(true);
    }
}

#[test]
fn rows_of_nan_and_of_zeros_hide_no_others_with_axes() {
    let nodes = r#""main": "qr(slice(b, stop=D))","#;
    let with_nan = "where(remainder(i, 3) == 0, b * 0.0 / 0.0, round(4.0 * b))";
    let with_zeros = "where(remainder(i, 3) == 0, b * 0.0, b)";
    for call in ["nearest(q, x, main, k=9)", "nearest(q, x, main, k=9, metric=\\\"ip\\\")"] {
        Case { sizes: [9, 3001, 4], formulas: ["round(4.0 * a)", with_nan], call, nodes }.check(true);
    }
    for call in ["nearest(q, x, main, k=9)", "nearest(q, x, main, k=9, metric=\\\"cosine\\\")"] {
        Case { sizes: [9, 3001, 4], formulas: ["a", with_zeros], call, nodes }.check(false);
    }
}

/// Bounds count how far axes are from orthonormal ones.
#[test]
fn axes_that_are_not_orthonormal_lose_no_row() {
    for nodes in [
        r#""v": "slice(b, stop=D)","#,
        r#""v": "0.0 * slice(b, stop=D)","#,
        r#""v": "slice(b, stop=D) / 0.0","#,
        r#""v": "1.01 * qr(slice(b, stop=D))","#,
        r#""v": "slice(qr(slice(b, stop=D)), axis=1, stop=4) @ ones(shape=[4, 4]) / 2.0","#,
        r#""v": "qr(slice(b, stop=D)) + 0.003 * slice(b, start=D, stop=16)","#,
    ] {
        let call = "nearest(q, x, v, k=5)";
        Case { sizes: [11, 2500, 8], formulas: ["a", "b"], call, nodes }.check(false);
    }
}

#[test]
fn no_bound_is_too_high() {
    let spreads = [["a", "b"], ["3.0 + a", "3.0 + b"], ["0.001 * a", "b"], ["100.0 + a", "100.0 + 0.1 * b"]];
    let nodes = r#""main": "principal_axes(x, count=2, sample=500)","#;
    for (d, formulas) in [2, 17].into_iter().flat_map(|d| spreads.map(|formulas| (d, formulas))) {
        for settings in ["main, main.mean", "main", "main, coarse=\\\"bf16\\\"", "main, metric=\\\"ip\\\""] {
            let [certain, wrong] = certain_and_wrong(d, formulas, nodes, settings);
            assert_eq!([certain, wrong], [1000.0, 0.0], "{settings} of {formulas:?}, {d} numbers each");
        }
    }
}

#[test]
fn axes_that_do_not_fit_are_refused() {
    let refused = |call: &str, said: &str| {
        let text = format!(
            r#"(nodes: {{"q": "ones(shape=[3, 4])", "x": "ones(shape=[9, 4])", "v": "eye(n=4)", "w": "ones(shape=[4, 5])",
                "mean": "ones(shape=[4])", "y": "{call}"}}, stages: {{"go": Run(outputs: ["y"])}})"#
        );
        let Err(faults) = engine::Engine::new().read("axes.ron", &text) else { panic!("{call} is accepted") };
        assert!(faults.to_string().contains(said), "{faults}");
    };
    refused("nearest(q, x, w, k=2)", "`nearest` among f32[9, 4] by axes f32[4, 5]");
    refused("nearest(q, x, x, k=2)", "by axes f32[9, 4]");
    refused("nearest(q, x, v, q, k=2)", "by a mean f32[3, 4]");
    refused("nearest(q, x, v, mean, k=2, metric=\\\"ip\\\")", "`nearest` with a mean, by `ip`");
}
