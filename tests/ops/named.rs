//! Laws of sampling and losses that `tests/coverage.txt` names. The ops run as kernels, fused and unfused.

use super::defects::{Tensor, assert_near, found};

#[test]
fn soft_rows_add_up_to_one() {
    let inputs: [Tensor; 3] = [
        ("f32[2, 3]", &[0.3, -40.0, 2.0, 80.0, 0.0, -1.0]),
        ("f32[]", &[0.1]),
        ("f32[2, 3]", &[0.01, 0.5, 0.99, 0.2, 0.7, 0.4]),
    ];
    let soft = &found("gumbel_softmax(a, b, c)", &inputs, &["f32[2, 3]"]).unwrap()["y0"];
    soft.chunks_exact(3).for_each(|row| assert_near(&[row.iter().sum()], &[1.0]));
    assert!(soft.iter().all(|&x| (0.0..=1.0).contains(&x)), "{soft:?}");
}

/// The slope of the probability sigmoid(2x) is 2p(1 - p), which is ½ for a spin without field.
#[test]
fn spin_without_field_has_the_slope_of_one_half() {
    let inputs: [Tensor; 2] = [("f32[3]", &[0.0, 0.0, 0.5]), ("f32[3]", &[0.4, 0.6, 0.5])];
    let found = found("sigmoid_bernoulli(a, b)", &inputs, &["f32[3]"]).unwrap();
    assert_eq!(found["y0"], [1.0, 0.0, 1.0]);
    let p = 1.0 / (1.0 + (-1.0f64).exp());
    assert_near(&found["d_a"], &[0.5, 1.0, 3.0 * 2.0 * p * (1.0 - p)]);
}

/// Numbers of one element of each of two rows of the batch, whose axes have two positions each.
#[test]
fn multi_index_gather_of_one_to_eight_numbers() {
    const TYPES: [(&str, &str); 8] = [
        ("f32[2, 2]", "i32[2, 1]"),
        ("f32[2, 2, 2]", "i32[2, 2]"),
        ("f32[2, 2, 2, 2]", "i32[2, 3]"),
        ("f32[2, 2, 2, 2, 2]", "i32[2, 4]"),
        ("f32[2, 2, 2, 2, 2, 2]", "i32[2, 5]"),
        ("f32[2, 2, 2, 2, 2, 2, 2]", "i32[2, 6]"),
        ("f32[2, 2, 2, 2, 2, 2, 2, 2]", "i32[2, 7]"),
        ("f32[2, 2, 2, 2, 2, 2, 2, 2, 2]", "i32[2, 8]"),
    ];
    for (n, (x_type, index_type)) in (1..).zip(TYPES) {
        let x: Vec<f64> = (0..2 << n).map(|i| f64::from(i) * 0.5).collect();
        let bits: Vec<usize> = (0..2 * n).map(|i| i * i % 3 % 2).collect();
        let place = |row: usize| bits[row * n..][..n].iter().fold(row, |place, bit| 2 * place + bit);
        let indices: Vec<f64> = bits.iter().map(|&bit| bit as f64).collect();
        let inputs: [Tensor; 2] = [(x_type, &x), (index_type, &indices)];
        let found = found("multi_index_gather(a, b)", &inputs, &["f32[2]"]).unwrap();
        assert_eq!(found["y0"], [x[place(0)], x[place(1)]], "{n} numbers");
        let slope = |at: usize| (0..2).find(|&row| place(row) == at).map_or(0.0, |row| row as f64 + 1.0);
        assert_eq!(found["d_a"], (0..x.len()).map(slope).collect::<Vec<_>>(), "{n} numbers");
    }
}

const LOGITS: [f64; 6] = [0.5, -1.5, 2.0, 3.0, 0.25, -2.0];
const TARGETS: [f64; 2] = [2.0, 1.0];

/// The loss of a row, and its slopes.
fn cross_entropy(row: &[f64], target: usize) -> (f64, Vec<f64>) {
    let total: f64 = row.iter().map(|x| x.exp()).sum();
    let slope = |(i, x): (usize, &f64)| x.exp() / total - f64::from(i == target);
    (total.ln() - row[target], row.iter().enumerate().map(slope).collect())
}

#[test]
fn cross_entropy_in_halves() {
    let rows: Vec<(f64, Vec<f64>)> = LOGITS
        .chunks_exact(3)
        .zip(TARGETS)
        .map(|(row, target)| cross_entropy(row, target as usize))
        .collect();
    let slopes = |weights: [f64; 2]| -> Vec<f64> {
        rows.iter()
            .zip(weights)
            .flat_map(|((_, slopes), weight)| slopes.iter().map(move |x| x * weight))
            .collect()
    };
    let losses = [rows[0].0, rows[1].0];
    for (x_type, one, two, unit) in [
        ("f16[2, 3]", "f16[]", "f16[2]", 0.5f64.powi(11)),
        ("bf16[2, 3]", "bf16[]", "bf16[2]", 0.5f64.powi(8)),
    ] {
        let inputs: [Tensor; 2] = [(x_type, &LOGITS), ("i32[2]", &TARGETS)];
        let check = |call, y_type, y: &[f64], d: Vec<f64>| {
            let found = found(call, &inputs, &[y_type]).unwrap();
            for (a, b) in found["y0"].iter().chain(&found["d_a"]).zip(y.iter().chain(&d)) {
                assert!((a - b).abs() <= unit * b.abs(), "{call} of {x_type}: {a} is not {b}");
            }
        };
        let mean = 0.5 * (losses[0] + losses[1]);
        check("cross_entropy(a, b)", one, &[mean], slopes([0.5, 0.5]));
        check("cross_entropy(a, b, reduction=\"none\")", two, &losses, slopes([1.0, 2.0]));
    }
}

#[test]
fn cross_entropy_of_ignored_rows_alone_is_zero() {
    let inputs: [Tensor; 2] = [("f32[2, 3]", &LOGITS), ("i32[2]", &[-1.0, -1.0])];
    let found = found("cross_entropy(a, b, ignore_index=-1)", &inputs, &["f32[]"]).unwrap();
    assert_eq!((&found["y0"][..], &found["d_a"][..]), (&[0.0][..], &[0.0; 6][..]));
}

#[test]
fn cross_entropy_by_bytes_is_a_weighted_mean() {
    let [first, second] = [cross_entropy(&LOGITS[..3], 2), cross_entropy(&LOGITS[3..], 1)];
    let of_bytes = |bytes: &[f64; 3]| {
        let inputs: [Tensor; 3] = [("f32[2, 3]", &LOGITS), ("i32[2]", &TARGETS), ("i32[3]", bytes)];
        found("cross_entropy(a, b, c, reduction=\"byte_mean\")", &inputs, &["f32[]"]).unwrap()
    };
    let some = of_bytes(&[7.0, 1.0, 4.0]);
    assert_near(&some["y0"], &[(4.0 * first.0 + second.0) / 5.0]);
    let slopes = first.1.iter().map(|x| 0.8 * x).chain(second.1.iter().map(|x| 0.2 * x));
    assert_near(&some["d_a"], &slopes.collect::<Vec<_>>());
    // Tokens without bytes weigh nothing.
    let none = of_bytes(&[1.0, 0.0, 0.0]);
    assert_eq!((none["y0"][0], &none["d_a"][..]), (0.0, &[0.0; 6][..]));
}
