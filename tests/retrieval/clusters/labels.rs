//! Labels of rows among many centres, beside squared distances by differences.

use super::*;

/// Compares the distance of each row to its centre with that of the nearest one. With `most = 0`, the label is that of the first
/// of equal centres.
fn check(name: &str, of: &dyn Fn(&str) -> Vec<f64>, most: f64) {
    let (label, first, best, found) = (of("label"), of("first"), of("best"), of("found"));
    for row in 0..label.len() {
        let at = format!("{name}, row {row}: {} of centre {}, best {}", found[row], label[row], best[row]);
        assert!(found[row] <= best[row] * (1.0 + most), "{at}");
        assert!(most > 0.0 || label[row] == first[row], "{at} of {}", first[row]);
    }
}

fn labels(x: &str, c: &str, dims: [usize; 3]) -> String {
    let [n, k, d] = dims;
    format!(
        r#"(
            seed: 11,
            dims: {{"N": {n}, "K": {k}, "D": {d}}},
            nodes: {{
                "i": "reshape(arange(stop=N), shape=[N, 1])",
                "j": "reshape(arange(stop=K), shape=[K, 1])",
                "l": "arange(stop=D)",
                "drawn": "normal(shape=[N, D])",
                "places": "normal(shape=[K, D])",
                "x": "{x}",
                "c": "{c}",
                "label": "assign_l2(x, c)",
                "squares": "sum(square(reshape(x, shape=[N, 1, D]) - reshape(c, shape=[1, K, D])), axis=2)",
                "distances": "where(isfinite(squares), squares, inf)",
                "first": "argmin(distances, axis=1)",
                "best": "amin(distances, axis=1)",
                "found": "sum(where(reshape(arange(stop=K), shape=[1, K]) == reshape(label, shape=[N, 1]), distances, 0.0), axis=1)",
            }},
            stages: {{"go": Run(outputs: ["label", "first", "best", "found"])}},
        )"#
    )
}

/// On a CPU, products of bf16 choose the centres that are compared.
#[test]
fn labels_are_those_of_the_nearest_centres() {
    let around = "index_select(places, remainder(arange(stop=N), K)) + drawn * 0.5";
    let cases = [
        // Rows around centres, rows without one nearby, and rows far from the origin.
        ("around centres", around, "places", [500, 300, 48], 1e-5),
        ("anywhere", "drawn", "places", [500, 300, 33], 1e-5),
        ("far from the origin", "drawn + 100.0", "places + 100.0", [300, 200, 64], 1e-3),
        (
            "short rows among long ones",
            "drawn * exp(cast(i % 9 - 4, dtype=f32) * 3.0)",
            "places",
            [300, 200, 32],
            1e-4,
        ),
        ("long centres", "drawn", "places * exp(cast(j % 5, dtype=f32) * 2.0)", [300, 200, 32], 1e-4),
        ("few axes", "drawn", "places", [300, 200, 7], 1e-5),
        ("few centres", "drawn", "places", [300, 20, 40], 1e-5),
    ];
    for device in devices() {
        for (name, x, c, dims, most) in cases {
            let of = run(&labels(x, c, dims), device.clone()).unwrap();
            // Products of other devices may be in TF32, or cancel far from the origin.
            let most = if device.0.info().kind == DeviceKind::Cpu { most } else { f64::max(most, 2e-2) };
            check(&format!("{name}, {}", device.0.info().name), &of, most);
        }
    }
}

/// Whole numbers, whose distances are exact: equal ones, more of them than a row lists, and centres that are not finite.
#[test]
fn the_first_of_equal_centres_is_taken() {
    let small = |name: &'static str, x, c| (name, x, c, [400, 256, 32]);
    let whole = "cast(remainder(i * 7 + l * l * 13, 5), dtype=f32)";
    let cases = [
        small("each centre three times", whole, "cast(remainder(j % 85 * 11 + l * 3, 7), dtype=f32)"),
        small("all centres equal", whole, "cast(j * 0 + l, dtype=f32)"),
        small(
            "all rows and centres zero",
            "cast(i * 0 + l * 0, dtype=f32)",
            "cast(j * 0 + l * 0, dtype=f32)",
        ),
        small(
            "a third of the centres infinite or NaN",
            whole,
            "where(j % 3 == 1, where(j % 2 == 0, inf, nan), cast(remainder(j * 11 + l * 3, 7), dtype=f32))",
        ),
        (
            "infinite centres of a few",
            whole,
            "where(j == 1, inf, cast(remainder(j * 11 + l * 3, 7), dtype=f32))",
            [50, 9, 32],
        ),
    ];
    for device in devices() {
        for (name, x, c, dims) in cases {
            check(name, &run(&labels(x, c, dims), device.clone()).unwrap(), 0.0);
        }
    }
}
