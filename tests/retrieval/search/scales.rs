//! Cosines of rows whose squares leave the range of `f32`.

use super::*;
use engine::core::ir::Symbol;
use indexmap::IndexMap;

const SIZES: [usize; 3] = [23, 1501, 4];
const K: usize = 7;

/// A search by cosine among rows of normal numbers times a factor.
struct Scaled<'a> {
    /// Factors of queries and rows: formulas over the number of the row `i`.
    factors: [&'a str; 2],
    dtype: &'a str,
    /// More operands and settings, which begin with a comma.
    more: &'a str,
}

impl Scaled<'_> {
    /// Checks ids and distances on each device beside double precision.
    fn check(&self) {
        for (device, fuse) in devices() {
            let name = format!("{:?}{} on {}", self.factors, self.more, device.info().name);
            let options = Options { fuse, matmul: Precision::Tf32, ..Options::default() };
            let names = ["found.indices", "found", "wide_q", "wide_x"];
            let session = offline::session(&self.text(), device, options);
            let outputs = session.run(&names.map(Symbol::from), &IndexMap::new()).unwrap();
            let [ids, shown, q, x] = names.map(|name| outputs[name].to_f64());
            let d = SIZES[2];
            for (query, q) in q.chunks(d).enumerate() {
                let mut truth: Vec<(f64, usize)> =
                    x.chunks(d).map(|x| distance(q, x)).enumerate().map(|(row, far)| (far, row)).collect();
                truth.sort_by(|a, b| a.partial_cmp(b).unwrap());
                let of_query = query * K..(query + 1) * K;
                let rows: Vec<f64> = truth[..K].iter().map(|(_, row)| *row as f64).collect();
                assert_eq!(ids[of_query.clone()], rows, "{name}, query {query}");
                for (shown, (exact, _)) in shown[of_query].iter().zip(&truth) {
                    assert!((shown - exact).abs() < 1e-6, "{name}, query {query}: {shown} for {exact}");
                }
            }
        }
    }

    fn text(&self) -> String {
        let [m, n, d] = SIZES;
        let Scaled { factors: [of_query, of_row], dtype, more } = self;
        format!(
            r#"(
                dims: {{"M": {m}, "N": {n}, "D": {d}}},
                nodes: {{
                    "i": "reshape(arange(stop=N), shape=[N, 1])",
                    "q": "cast(normal(shape=[M, D]) * {of_query}, dtype={dtype})",
                    "x": "cast(normal(shape=[N, D]) * {of_row}, dtype={dtype})",
                    "wide_q": "cast(q, dtype=f32)",
                    "wide_x": "cast(x, dtype=f32)",
                    "main": "cast(qr(normal(shape=[D, D])), dtype={dtype})",
                    "found": "nearest(q, x{more}, k={K}, metric=\"cosine\")",
                }},
                stages: {{"go": Run(outputs: ["found", "found.indices", "wide_q", "wide_x"])}},
            )"#
        )
    }
}

/// 1 minus the cosine, in double precision.
fn distance(q: &[f64], x: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let [q_length, x_length] = [product(q, q), product(x, x)].map(f64::sqrt);
    if q_length == 0.0 || x_length == 0.0 { 1.0 } else { 1.0 - product(q, x) / q_length / x_length }
}

const SCALES: [&str; 5] = ["1e-25", "1e-19", "1.0", "1e19", "1e20"];
/// Rows of all scales, and some of zeros.
const MIXED: &str = "where(remainder(i, 6) == 0, 1e20, where(remainder(i, 6) == 1, 1e-25, where(remainder(i, 6) == 2, 1e30, \
                     where(remainder(i, 6) == 3, 1e-30, where(remainder(i, 6) == 4, 0.0, 1.0)))))";

#[test]
fn cosines_do_not_depend_on_the_scale_of_rows() {
    for coarse in ["tf32", "bf16", "f32"] {
        let more = format!(", coarse=\\\"{coarse}\\\"");
        for scale in SCALES {
            Scaled { factors: [scale, scale], dtype: "f32", more: &more }.check();
        }
        for of_query in ["1e-25", "1e20"] {
            Scaled { factors: [of_query, MIXED], dtype: "f32", more: &more }.check();
        }
    }
}

#[test]
fn cosines_by_axes_with_filters_and_of_halves_do_not_depend_on_scales() {
    for scale in ["1e-25", "1e20", MIXED] {
        let of_query = if scale == MIXED { "1e20" } else { scale };
        for more in [", slice(main, axis=1, stop=2)", ", slice(main, axis=1, stop=2), coarse=\\\"bf16\\\""] {
            Scaled { factors: [of_query, scale], dtype: "f32", more }.check();
        }
        let all = ", reshape(i, shape=[N]) >= 0";
        Scaled { factors: [of_query, scale], dtype: "f32", more: all }.check();
        Scaled { factors: [of_query, scale], dtype: "bf16", more: "" }.check();
    }
    for scale in ["0.0001", "1000.0"] {
        Scaled { factors: [scale, scale], dtype: "f16", more: "" }.check();
    }
}

#[test]
fn queries_of_all_scales_are_certain_after_one_pass() {
    for scale in SCALES {
        for coarse in ["tf32", "bf16"] {
            let call = format!("nearest(q, x, k=10, metric=\\\"cosine\\\", coarse=\\\"{coarse}\\\")");
            let [q, x] = ["a", "b"].map(|rows| &*format!("{rows} * {scale}").leak());
            let case = Case { sizes: [100, 5000, 24], formulas: [q, x], call: call.leak(), nodes: "" };
            for device in devices() {
                let certified = case.run(device).certified;
                assert!(certified.iter().sum::<f64>() > 90.0, "{scale}, {coarse}: {certified:?}");
            }
        }
    }
}

/// Gradients of cosines are those of unit rows over lengths.
#[test]
fn gradients_of_cosines_are_finite_at_all_scales() {
    for scale in SCALES {
        let text = format!(
            r#"(
                params: {{"w": (type: "f32[8]", init: Ones)}},
                data: {{"rows": (source: "numbers", n_train: 40, n_test: 8)}},
                nodes: {{
                    "q": "normal(shape=[4, 8]) * w * {scale}",
                    "x": "normal(shape=[300, 8]) * w * {scale}",
                    "found": "nearest(q, x, k=5, metric=\"cosine\")",
                    "near": "sum(found)",
                    "factors": "w * 1.0",
                }},
                stages: {{
                    "train": Train(data: "rows.train", batch: 8, epochs: 1, max_steps: 3, loss: "near", optimizer: Sgd(lr: 0.01)),
                    "go": Run(outputs: ["factors"]),
                }},
            )"#
        );
        for device in devices() {
            let report =
                offline::session(&text, device.0, Options::default()).run_stages(None, &mut |_| {}).unwrap();
            let factors = report.outputs["factors"].values.to_f64();
            assert!(factors.iter().all(|factor| factor.is_finite()), "{scale}: {factors:?}");
            assert!(factors.iter().any(|&factor| factor != 1.0), "{scale}: {factors:?}");
        }
    }
}
