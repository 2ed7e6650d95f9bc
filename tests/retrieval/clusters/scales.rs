//! Angles of rows whose squares leave the range of `f32`.

use super::*;

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The cosine of two vectors, in double precision.
fn cosine(a: &[f64], b: &[f64]) -> f64 {
    product(a, b) / product(a, a).sqrt() / product(b, b).sqrt()
}

/// Factors of rows, each of another size: a formula over the number of the row `i`.
const MIXED: &str = "where(i % 4 == 0, 1e-25, where(i % 4 == 1, 1e25, where(i % 4 == 2, 1e-35, 1e36)))";

/// Products are rounded, on a GPU perhaps to TF32, so a centre may be nearly the best one.
#[test]
fn centres_by_cosine_do_not_depend_on_lengths() {
    let factors = [("1e-25", "1e-25"), ("1e25", "1e25"), ("1.0", "1e-35"), ("1.0", "1e36"), ("1e25", MIXED)];
    for (of_rows, of_centres) in factors {
        let text = format!(
            r#"(
                nodes: {{
                    "i": "reshape(arange(stop=4), shape=[4, 1])",
                    "x": "reshape(sin(cast(arange(stop=300), dtype=f32) * 1.7), shape=[100, 3])",
                    "c": "reshape(cos(cast(arange(stop=12), dtype=f32) * 2.3) * cast(arange(stop=12) + 1, dtype=f32), shape=[4, 3])",
                    "far_x": "x * {of_rows}",
                    "far_c": "c * {of_centres}",
                    "label": "assign_cosine(far_x, far_c)",
                    "halves": "assign_cosine(cast(far_x, dtype=bf16), cast(far_c, dtype=bf16))",
                    "heads": "assign_cosine(reshape(far_x, shape=[2, 50, 3]), stack(far_c, far_c))",
                }},
                stages: {{"go": Run(outputs: ["x", "c", "label", "halves", "heads"])}},
            )"#
        );
        for device in devices() {
            let of = run(&text, device).unwrap();
            let (x, c) = (of("x"), of("c"));
            for (name, most) in [("label", 2e-3), ("halves", 2e-2), ("heads", 2e-3)] {
                for (x, label) in x.chunks(3).zip(of(name)) {
                    let cosines: Vec<f64> = c.chunks(3).map(|c| cosine(x, c)).collect();
                    let best = cosines.iter().copied().fold(-1.0, f64::max);
                    let found = cosines[label as usize];
                    assert!(best - found <= most, "{of_rows}, {of_centres}, {name}: {found} of {cosines:?}");
                }
            }
        }
    }
}

#[test]
fn clusters_of_unit_rows_do_not_depend_on_lengths() {
    for factor in ["1e-25", "1.0", "1e25"] {
        let text = format!(
            r#"(
                seed: 3,
                nodes: {{
                    "i": "reshape(cast(remainder(arange(stop=400), 4), dtype=f32), shape=[400, 1])",
                    "at": "concat(cos(i), sin(i), sin(2.0 * i), axis=1)",
                    "x": "(at + 0.1 * normal(shape=[400, 3])) * {factor}",
                    "fit": "kmeans(unit_rows(x), k=4, nredo=8, assign=assign_cosine)",
                    "label": "fit.label * 1",
                }},
                stages: {{"go": Run(outputs: ["label"])}},
            )"#
        );
        for device in devices() {
            let label = run(&text, device).unwrap()("label");
            let is_one_of_four =
                (0..4).all(|group| (group + 4..400).step_by(4).all(|row| label[row] == label[group]));
            assert!(is_one_of_four, "{factor}: {label:?}");
            assert!((1..4).all(|row| label[row] != label[row - 1]), "{factor}: {:?}", &label[..4]);
        }
    }
}

#[test]
fn unit_rows_have_length_1_at_every_scale() {
    for (factor, dtype, most) in [
        ("1e-35", "f32", 1e-6),
        ("1e-25", "f32", 1e-6),
        ("1e-12", "f32", 1e-6),
        ("1.0", "f32", 1e-6),
        ("1e12", "f32", 1e-6),
        ("1e25", "f32", 1e-6),
        ("1e37", "f32", 1e-6),
        ("1e25", "bf16", 2e-2),
        ("1e-25", "bf16", 2e-2),
        ("1e-3", "f16", 2e-3),
        ("1e4", "f16", 2e-3),
    ] {
        let text = format!(
            r#"(
                nodes: {{
                    "x": "concat(sin(reshape(cast(arange(stop=30), dtype=f32), shape=[10, 3])), zeros(shape=[1, 3]), axis=0)",
                    "unit": "unit_rows(cast(x * {factor}, dtype={dtype}))",
                }},
                stages: {{"go": Run(outputs: ["x", "unit"])}},
            )"#
        );
        for device in devices() {
            let of = run(&text, device).unwrap();
            for (x, unit) in of("x").chunks(3).zip(of("unit").chunks(3)) {
                let length = product(x, x).sqrt();
                let exact = x.iter().map(|x| if length > 0.0 { x / length } else { 0.0 });
                let is_near = exact.zip(unit).all(|(exact, found)| (exact - found).abs() <= most);
                assert!(is_near, "{factor}, {dtype}: {unit:?} of {x:?}");
            }
        }
    }
}

/// The gradient by the direction of a row is that at any length, over the length.
#[test]
fn gradients_of_unit_rows_do_not_depend_on_lengths() {
    let moved = |factor: &str| {
        let text = format!(
            r#"(
                params: {{"w": (type: "f32[4, 3]", init: Normal(0, 1))}},
                data: {{"rows": (source: "numbers", n_train: 8, n_test: 8)}},
                nodes: {{
                    "weights": "reshape(cast(arange(stop=12), dtype=f32), shape=[4, 3])",
                    "loss": "sum(unit_rows(w * {factor}) * weights)",
                    "next": "w * 1.0",
                }},
                stages: {{
                    "train": Train(data: "rows.train", batch: 8, epochs: 1, loss: "loss", optimizer: Sgd(lr: 0.1)),
                    "go": Run(outputs: ["next"]),
                }},
            )"#
        );
        run(&text, (present::cpu(1), true)).unwrap()("next")
    };
    let plain = moved("1.0");
    for factor in ["1e-25", "1e-12", "1e12", "1e25"] {
        let far = moved(factor);
        assert!(far.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-5), "{factor}: {far:?}, {plain:?}");
    }
}

/// Rows far from the origin, such as coordinates of places in metres: products of rows would lose the distances.
#[test]
fn rows_far_from_the_origin_are_grouped_by_their_distances() {
    let near = r#"
        "v": "uniform(shape=[30, 2]) * 40000.0",
        "near": "index_select(v, cast(uniform(shape=[3000]) * 30.0, dtype=i32), axis=0) + 200.0 * normal(shape=[3000, 2])","#;
    let fit = |rows: &str| {
        let of =
            run(&grouped(1, &format!("{near} {rows}"), "kmeans(x, k=30)"), (present::cpu(2), true)).unwrap();
        assert_eq!(of("is_done"), vec![1.0], "{rows}");
        of("cost")[0]
    };
    let (near, far) = (fit(r#""x": "near * 1.0","#), fit(r#""x": "near + 5400000.0","#));
    assert!(far < 1.5 * near && near < 1.5 * far, "{far} and {near}");
}
