//! Corrections by residuals against the same arithmetic in double precision.

use super::run;

/// The outputs of the stage of a pipeline.
fn outputs(text: &str) -> impl Fn(&str) -> Vec<f64> + use<> {
    let outputs = run(text).unwrap().outputs;
    move |name| outputs[name].values.to_f64()
}

#[track_caller]
fn assert_close(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{what}[{at}]: {a} is not {b}");
    }
}

/// The first matrix by rows, times the second one.
fn matmul(a: &[f64], b: &[f64], k: usize) -> Vec<f64> {
    let n = b.len() / k;
    let row = |row: &[f64]| (0..n).map(|j| (0..k).map(|i| row[i] * b[i * n + j]).sum()).collect::<Vec<f64>>();
    a.chunks(k).flat_map(row).collect()
}

fn transposed(a: &[f64], n: usize) -> Vec<f64> {
    (0..n).flat_map(|j| a.iter().skip(j).step_by(n).copied()).collect()
}

#[test]
fn low_rank_factors_give_their_matrix_and_get_its_gradient() {
    let value = outputs(
        r#"(
        seed: 1,
        params: {
            "u": (type: "f32[5, 2]", init: Normal(0, 1)), "s": (type: "f32[2]", init: Uniform(0.5, 2)),
            "v": (type: "f32[2, 3]", init: Normal(0, 1)), "g": (type: "f32[5, 3]", init: Normal(0, 1)),
        },
        nodes: {
            "a": "reconstruct(u, s, v)",
            "two": "reconstruct(stack(u, u * 2.0), stack(reshape(s, shape=[1, 2]), reshape(s, shape=[1, 2])), stack(v, v))",
            "loss": "sum(a * g)",
        },
        stages: {"go": Run(outputs: ["u", "s", "v", "g", "a", "two", "d.u", "d.s", "d.v"], loss: "loss")},
    )"#,
    );
    let (u, s, v, g) = (value("u"), value("s"), value("v"), value("g"));
    let scaled = |x: &[f64]| x.iter().enumerate().map(|(i, x)| x * s[i % 2]).collect::<Vec<f64>>();
    let a = matmul(&scaled(&u), &v, 2);
    assert_close("a", &value("a"), &a);
    let doubled: Vec<f64> = a.iter().copied().chain(a.iter().map(|x| 2.0 * x)).collect();
    assert_close("two", &value("two"), &doubled);
    let gv = matmul(&g, &transposed(&v, 3), 3);
    assert_close("d.u", &value("d.u"), &scaled(&gv));
    let d_s = |k: usize| (0..5).map(|i| u[2 * i + k] * gv[2 * i + k]).sum::<f64>();
    assert_close("d.s", &value("d.s"), &[d_s(0), d_s(1)]);
    assert_close("d.v", &value("d.v"), &matmul(&transposed(&scaled(&u), 2), &g, 5));
}

/// A ring of 6 rows of which COUNT were written, the last one short; two queries, the second one 0.
const STORE: &str = r#"(
    seed: 2,
    params: {
        "rows": (type: "f32[5, 64]", init: Normal(0, 1)), "one": (type: "f32[1, 64]", init: Normal(0, 1)),
    },
    nodes: {
        "store": "concat(rows, full(shape=[1, 64], value=1e-12), axis=0)",
        "query": "concat(one, zeros(shape=[1, 64]), axis=0)",
        "found": "find_similar(query, store, full(shape=[], value=COUNT, dtype=i32), n=4)",
    },
    stages: {"go": Run(outputs: ["rows", "one", "found", "found.number"])},
)"#;

#[test]
fn similar_rows_are_those_of_largest_cosine() {
    for count in [0, 3, 6, 100] {
        let value = outputs(&STORE.replace("COUNT", &count.to_string()));
        let (rows, one) = (value("rows"), value("one"));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let cosine = |row: &[f64]| dot(row, &one) / (dot(row, row) * dot(&one, &one)).sqrt();
        let mut expected: Vec<(f64, f64)> =
            rows.chunks(64).map(cosine).chain([0.0]).zip((0..6).map(f64::from)).collect();
        expected.truncate(count);
        expected.sort_by(|a, b| b.0.total_cmp(&a.0));
        expected.resize(expected.len().max(4), (f64::NEG_INFINITY, -1.0));
        let (found, numbers) = (value("found"), value("found.number"));
        for (place, (cosine, number)) in expected.into_iter().take(4).enumerate() {
            assert!(found[place] == cosine || (found[place] - cosine).abs() < 1e-5, "{found:?}");
            assert_eq!(numbers[place], number);
        }
        // Rows are equally far from a query of length 0, and come in their order.
        let n = count.min(4);
        assert!(found[4..4 + n].iter().all(|&cosine| cosine == 0.0), "{found:?}");
        assert_eq!(numbers[4..4 + n], [0.0, 1.0, 2.0, 3.0][..n]);
    }
}

/// Squares of long rows leave the range of `f32`.
#[test]
fn similar_rows_are_those_of_long_rows_too() {
    let near = STORE.replace("COUNT", "5");
    let far = near.replace("find_similar(query, store", "find_similar(query * 1e25, store * 1e25");
    let [near, far] = [near, far].map(|text| outputs(&text));
    assert_close("cosines", &far("found"), &near("found"));
    assert_eq!(far("found.number"), near("found.number"));
}

/// What FIFO means: the fourth and fifth row replace the first two of three.
#[test]
fn a_full_store_forgets_the_oldest_row() {
    let value = outputs(
        r#"(
        params: {"store": (type: "f32[3, 2]", state: true), "count": (type: "i32[]", state: true)},
        nodes: {
            "row": "stack(cast(step, dtype=f32), 1.0 + 0.0 * cast(step, dtype=f32))",
            "more": "ring_push(store, row, count)",
            "found": "find_similar(reshape(row, shape=[1, 2]), more, more.count_next, n=3)",
        },
        stages: {"go": Run(steps: 5, state: {"store": "more", "count": "more.count_next"}, outputs: ["found.number", "more"])},
    )"#,
    );
    assert_eq!(value("more"), [3.0, 1.0, 4.0, 1.0, 2.0, 1.0]);
    assert_eq!(value("found.number"), [1.0, 0.0, 2.0]);
}

#[test]
fn corrections_are_weighted_and_bounded() {
    let value = outputs(
        r#"(
        seed: 4,
        params: {
            "residuals": (type: "f32[2, 3, 2]", init: Normal(0, 1)), "features": (type: "f32[2, 4]", init: Normal(0, 1)),
            "model": (type: "f32[4, 2]", init: Normal(0, 1)), "bias": (type: "f32[2]", init: Normal(0, 1)),
        },
        nodes: {
            "age": "reshape(cast(arange(stop=6), dtype=f32) * 70.0, shape=[2, 3])",
            "trust": "reshape(cast(arange(stop=6) % 5, dtype=f32) * 0.2, shape=[2, 3])",
            "weights": "residual_weights(age, trust)",
            "unused": "residual_weights(age, trust * 0.0)",
            "predicted": "reshape(cast(arange(stop=4), dtype=f32) * 20.0 - 30.0, shape=[2, 2])",
            "wide": "weighted_correction(predicted, residuals, weights, features, model, bias)",
            "narrow": "weighted_correction(predicted * 1e-3, residuals, weights, features, model, bias)",
            "next": "correct_online(select(residuals, axis=1, index=0), features, model, bias, bias * 0.0 + 2.0)",
        },
        stages: {"go": Run(outputs: [
            "residuals", "features", "model", "bias", "weights", "unused", "wide", "narrow", "next", "next.bias", "next.average",
        ])},
    )"#,
    );
    let (residuals, features, model, bias) =
        (value("residuals"), value("features"), value("model"), value("bias"));
    let raw: Vec<f64> = (0..6).map(|i| 0.95f64.powf(0.7 * i as f64) * (i % 5) as f64 * 0.2).collect();
    let weights: Vec<f64> = (0..6).map(|i| raw[i] / raw[i / 3 * 3..][..3].iter().sum::<f64>()).collect();
    assert_close("weights", &value("weights"), &weights);
    assert_eq!(value("unused"), [0.0; 6]);
    let linear: Vec<f64> =
        matmul(&features, &model, 4).iter().enumerate().map(|(i, x)| x + bias[i % 2]).collect();
    let weighted =
        |i: usize| (0..3).map(|k| weights[i / 2 * 3 + k] * residuals[i / 2 * 6 + 2 * k + i % 2]).sum::<f64>();
    let corrections: Vec<f64> = (0..4).map(|i| 0.7 * weighted(i) + 0.3 * linear[i]).collect();
    let bounded = |scale: f64| {
        let limit = |i: usize| 0.2 * (20.0 * i as f64 - 30.0).abs() * scale;
        (0..4).map(|i| corrections[i].clamp(-limit(i), limit(i))).collect::<Vec<f64>>()
    };
    assert_close("wide", &value("wide"), &bounded(1.0));
    assert_close("narrow", &value("narrow"), &bounded(1e-3));
    assert!(corrections.iter().any(|correction| bounded(1.0).contains(correction)), "{corrections:?}");
    // A step of gradient descent of half the mean square of the errors.
    let errors: Vec<f64> = (0..4).map(|i| residuals[i / 2 * 6 + i % 2] - linear[i]).collect();
    let slope = matmul(&transposed(&features, 4), &errors, 2);
    let stepped: Vec<f64> = model.iter().zip(slope).map(|(w, s)| w + 0.01 / 2.0 * s).collect();
    assert_close("next", &value("next"), &stepped);
    let mean = |j: usize, of: fn(f64) -> f64| (of(errors[j]) + of(errors[2 + j])) / 2.0;
    let biases: Vec<f64> = (0..2).map(|j| bias[j] + 0.01 * mean(j, |e| e)).collect();
    assert_close("next.bias", &value("next.bias"), &biases);
    let averages: Vec<f64> = (0..2).map(|j| 1.8 + 0.1 * mean(j, f64::abs)).collect();
    assert_close("next.average", &value("next.average"), &averages);
}
