//! Searches among the rows that a filter allows.

use super::*;

/// A search with a filter `f`, a formula over the number `i` of a row and the number `j` of a query.
struct Filtered {
    sizes: [usize; 3],
    formulas: [&'static str; 2],
    call: &'static str,
    filter: &'static str,
    /// Other nodes that the call needs.
    nodes: &'static str,
}

/// Values by query, k each.
struct Compared {
    /// What the call finds: rows, distances, and the distances of these rows in double precision.
    found: [Vec<f64>; 3],
    /// The rows and the distances of double precision; -1 and ∞ for missing rows.
    truth: [Vec<f64>; 2],
    certified: Vec<f64>,
}

impl Filtered {
    fn run(&self, (device, fuse): (Arc<dyn Device>, bool)) -> Compared {
        let [m, n, d] = self.sizes;
        let ([q, x], call, filter, nodes) = (self.formulas, self.call, self.filter, self.nodes);
        let (_, behind) = call.split_once("k=").unwrap();
        let k: String = behind.chars().take_while(char::is_ascii_digit).collect();
        let wide = if device.model().has_f64 { "f64" } else { "f32" };
        let exact = match call {
            _ if call.contains("ip") => "0.0 - sum(qs * xs, axis=2)",
            _ if call.contains("cosine") => "1.0 - sum(qs * xs, axis=2) / lengths",
            _ => "sum(square(qs - xs), axis=2)",
        };
        let text = format!(
            r#"(
                dims: {{"M": {m}, "N": {n}, "D": {d}}},
                nodes: {{
                    "a": "normal(shape=[M, D])",
                    "b": "normal(shape=[N, D])",
                    "i": "arange(stop=N)",
                    "j": "reshape(arange(stop=M), shape=[M, 1])",
                    "q": "{q}",
                    "x": "{x}",
                    "f": "{filter}",
                    {nodes}
                    "found": "{call}",
                    "qs": "reshape(cast(q, dtype={wide}), shape=[M, 1, D])",
                    "xs": "reshape(cast(x, dtype={wide}), shape=[1, N, D])",
                    "lengths": "sqrt(sum(square(qs), axis=2) * sum(square(xs), axis=2))",
                    "open": "where(f, {exact}, inf)",
                    "truth": "topk(open, k={k}, largest=false)",
                    "rows": "where(truth < inf, truth.indices, -1)",
                    "exact": "gather(open, maximum(found.indices, 0), axis=1)",
                }},
                stages: {{"go": Run(outputs: [
                    "found", "found.indices", "found.certified", "truth", "rows", "exact",
                ])}},
            )"#
        );
        let options = Options { fuse, matmul: Precision::Tf32, ..Options::default() };
        let report = offline::session(&text, device, options).run_stages(None, &mut |_| {}).unwrap();
        let output = |name: &str| report.outputs[name].values.to_f64();
        Compared {
            found: ["found.indices", "found", "exact"].map(output),
            truth: ["rows", "truth"].map(output),
            certified: output("found.certified"),
        }
    }

    /// Checks what is found on each device. Whole numbers are compared exactly, with ties by row.
    fn check(&self, is_whole: bool) {
        for device in devices() {
            let name =
                format!("{} by {} on {} fused {}", self.call, self.filter, device.0.info().name, device.1);
            let Compared { found: [rows, shown, exact], truth: [true_rows, least], .. } = self.run(device);
            if is_whole {
                assert_eq!(rows, true_rows, "{name}");
            }
            // Terms of an inner product may cancel.
            let (sign, smallest) = if self.call.contains("ip") { (-1.0, 1.0) } else { (1.0, 1e-3) };
            for at in 0..rows.len() {
                let is_missing = true_rows[at] < 0.0;
                assert_eq!(rows[at] == -1.0, is_missing, "{name}, at {at}: {rows:?} for {true_rows:?}");
                let near = |value: f64| (value - least[at]).abs() <= 2e-5 * least[at].abs().max(smallest);
                let value = sign * shown[at];
                let is_shown = if is_missing { value == f64::INFINITY } else { near(value) };
                assert!(is_shown, "{name}, at {at}: {} for {}", shown[at], least[at]);
                assert!(is_missing || near(exact[at]), "{name}, at {at}: {} for {}", exact[at], least[at]);
            }
        }
    }
}

/// Of all queries, of each, and filters that leave fewer rows than are wanted, or none.
const FILTERS: [&str; 6] = [
    "remainder(i, 3) == 0",
    "remainder(i + j, 5) == 0",
    "i > 4990",
    "remainder(i, 1000) == j",
    "(i < 40) & (j > 3)",
    "(i * 0 + j) < 9",
];

#[test]
fn the_nearest_of_allowed_rows_are_found() {
    for filter in FILTERS {
        for call in ["nearest(q, x, f, k=10)", "nearest(q, x, f, k=10, metric=\\\"ip\\\")"] {
            Filtered { sizes: [17, 5003, 24], formulas: ["a", "b"], call, filter, nodes: "" }.check(false);
        }
    }
    for call in [
        "nearest(q, x, f, k=10, metric=\\\"cosine\\\")",
        "nearest(q, x, f, k=10, coarse=\\\"bf16\\\")",
        "nearest(q, x, f, k=1, margin=0)",
    ] {
        Filtered { sizes: [17, 5003, 24], formulas: ["a", "b"], call, filter: FILTERS[1], nodes: "" }
            .check(false);
    }
}

#[test]
fn allowed_rows_are_found_by_principal_axes() {
    let nodes = r#""main": "principal_axes(x, count=7, sample=2000)","#;
    let formulas = [
        "a * exp(-0.25 * cast(arange(stop=D), dtype=f32)) + 3.0",
        "b * exp(-0.25 * cast(arange(stop=D), dtype=f32)) + 3.0",
    ];
    for filter in FILTERS {
        for call in
            ["nearest(q, x, f, main, main.mean, k=10)", "nearest(q, x, f, main, k=10, metric=\\\"ip\\\")"]
        {
            Filtered { sizes: [17, 5003, 24], formulas, call, filter, nodes }.check(false);
        }
    }
}

#[test]
fn allowed_rows_of_few_and_of_equal_ones_are_found() {
    let formulas = ["round(2.0 * a)", "round(2.0 * b)"];
    for (sizes, filter) in [
        ([9, 50, 3], "remainder(i, 3) == 0"),
        ([9, 50, 3], "i < j"),
        ([9, 700, 3], "remainder(i + j, 100) == 0"),
        ([9, 3000, 3], "remainder(i + j, 2) == 0"),
        ([9, 3000, 3], "i < j"),
    ] {
        Filtered { sizes, formulas, call: "nearest(q, x, f, k=7)", filter, nodes: "" }.check(true);
    }
    // Rows of one place are certain of no order, so that each is compared.
    let call = "nearest(q, x, f, k=20, margin=0)";
    let formulas = ["0.0 * a", "0.0 * b"];
    Filtered { sizes: [3, 3000, 4], formulas, call, filter: "remainder(i + j, 7) == 0", nodes: "" }
        .check(true);
}

#[test]
fn hidden_rows_leave_queries_certain() {
    for filter in ["i > 4990", "i < 0", "remainder(i + j, 50) == 0"] {
        let call = "nearest(q, x, f, k=20)";
        let case = Filtered { sizes: [40, 5003, 24], formulas: ["a", "b"], call, filter, nodes: "" };
        for device in devices() {
            let certified = case.run(device).certified;
            assert!(certified.iter().sum::<f64>() > 35.0, "{filter}: {certified:?}");
        }
    }
}

/// What hidden rows hold is without effect, on results and on gradients.
#[test]
fn hidden_rows_may_be_nan() {
    for device in devices() {
        let text = r#"(
            params: {"q": "f32[4, 8]", "w": (type: "f32[8]", init: Ones)},
            data: {"rows": (source: "numbers", n_train: 40, n_test: 8)},
            dims: {"N": 3000},
            nodes: {
                "i": "arange(stop=N)",
                "f": "i < 3",
                "x": "where(reshape(f, shape=[N, 1]), normal(shape=[N, 8]) * w, nan)",
                "found": "nearest(q, x, f, k=5)",
                "near": "sum(where(found.indices >= 0, found, 0.0))",
                "ids": "found.indices",
                "queries": "q * 1.0",
                "factors": "w * 1.0",
            },
            stages: {
                "train": Train(data: "rows.train", batch: 8, epochs: 1, max_steps: 3, loss: "near", optimizer: Sgd(lr: 0.01)),
                "go": Run(outputs: ["ids", "near", "queries", "factors"]),
            },
        )"#;
        let report =
            offline::session(text, device.0, Options::default()).run_stages(None, &mut |_| {}).unwrap();
        let output = |name: &str| report.outputs[name].values.to_f64();
        assert!(output("near")[0].is_finite());
        for name in ["queries", "factors"] {
            assert!(output(name).iter().all(|x| x.is_finite()), "{name}: {:?}", output(name));
        }
        assert!(output("factors").iter().any(|&factor| factor != 1.0));
        for ids in output("ids").chunks(5) {
            assert_eq!(ids.iter().filter(|&&id| id < 0.0).count(), 2, "{ids:?}");
        }
    }
}

#[test]
fn filters_of_other_shapes_are_refused() {
    let refused = |filter: &str, call: &str| {
        let text = format!(
            r#"(
                params: {{"q": "f32[4, 8]", "x": "f32[100, 8]", "axes": "f32[8, 2]", "f": (type: "{filter}", state: true)}},
                nodes: {{"found": "{call}"}},
                stages: {{"go": Run(outputs: ["found"])}},
            )"#
        );
        engine::Engine::new().read("test.ron", &text).unwrap_err().to_string()
    };
    let said = "a filter is a truth value for each row of the base, or for each query and row";
    for shape in ["[99]", "[5, 100]", "[100, 4]", "[]"] {
        for call in
            ["nearest(q, x, f, k=5)", "nearest_rows(q, x, f, axes, k=5)", "within(q, x, 1.0, f, cap=9)"]
        {
            let error = refused(&format!("bool{shape}"), call);
            assert!(error.contains(said), "{call}: {error}");
        }
    }
    let error = refused("i32[100]", "nearest(q, x, f, k=5)");
    assert!(error.contains("`nearest` takes matrices, not i32[100]"), "{error}");
    let error = refused("f32[8, 2]", "nearest(q, x, f, axes, axes, k=5)");
    assert!(error.contains(said), "{error}");
}
