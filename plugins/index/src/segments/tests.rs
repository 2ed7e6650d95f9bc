#![allow(clippy::unwrap_used)]
//! Errors of sums and means by label, and labels without rows.

use crate::Index;
use engine_core::op::{Example, Registry};
use engine_core::testing;
use engine_order::Order;

type Tensor = (&'static str, Vec<f64>);

/// Checks a call with these results.
fn checked(call: &'static str, inputs: &[Tensor], outputs: [Tensor; 2]) -> Result<(), String> {
    let registry: Registry = testing::registry(&[&Order, &Index]);
    let example = Example { title: "a test", call, inputs: inputs.to_vec(), outputs: outputs.to_vec() };
    testing::check(&example, &registry)
}

/// The error of a call whose results have two labels.
fn error_of(call: &'static str, inputs: &[Tensor]) -> String {
    checked(call, inputs, [("f32[2, 1]", vec![0.0; 2]), ("i32[2]", vec![0.0; 2])]).unwrap_err()
}

/// Checks the means of four labels, and the number of rows of each.
fn assert_means(call: &'static str, inputs: &[Tensor], means: [f64; 4], counts: [i32; 4]) {
    let outputs = [("f32[4, 1]", means.to_vec()), ("i32[4]", counts.map(f64::from).to_vec())];
    assert_eq!(checked(call, inputs, outputs), Ok(()), "{call}");
}

#[test]
fn labels_and_rows_that_are_refused_are_named() {
    let x = || ("f32[3, 1]", vec![1.0, f64::NAN, 2.0]);
    let c = || ("f32[2, 1]", vec![0.0; 2]);
    let label = |at: f64| ("i32[3]", vec![0.0, at, 1.0]);
    let error = error_of("segment_sum(a, b, segments=2)", &[x(), label(2.0)]);
    assert!(error.contains("index 2 at position 1 is not in 0..2"), "{error}");
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let rows = ("f32[3, 1]", vec![1.0, bad, 2.0]);
        let error = error_of("segment_mean(a, b, c)", &[rows, label(1.0), c()]);
        assert!(error.contains("index -1 at position 1 is not in 0..2"), "{bad}: {error}");
        let weights = ("f32[3]", vec![1.0, bad, 2.0]);
        let rows = ("f32[3, 1]", vec![1.0, 3.0, 2.0]);
        let error = error_of("segment_mean(a, b, c, d)", &[rows, label(1.0), c(), weights]);
        assert!(error.contains("index -1 at position 1 is not in 0..2"), "{bad}: {error}");
    }
    let rows = ("f32[3, 1]", vec![1.0, 3.0, 2.0]);
    let call = "segment_mean(a, b, c, empty=\"error\")";
    let error = error_of(call, &[rows, ("i32[3]", vec![1.0; 3]), c()]);
    assert!(error.contains("the condition at position 0 does not hold"), "{error}");
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let x = || ("f32[3, 1]", vec![1.0, 3.0, 2.0]);
    let label = || ("i32[3]", vec![0.0, 1.0, 1.0]);
    let few = ("i32[2]", vec![0.0, 1.0]);
    let deep = ("f32[2, 1, 1]", vec![0.0; 2]);
    for (call, operands, why) in [
        ("segment_sum(a, b, segments=-1)", vec![x(), label()], "there cannot be -1 segments"),
        ("segment_sum(a, b, segments=2)", vec![x(), few], "of f32[3, 1] by labels i32[2]"),
        ("segment_sum(b, a, segments=2)", vec![x(), label()], "segment_sum"),
        ("segment_mean(a, b, c)", vec![x(), label(), deep], "for means f32[2, 1, 1]"),
        ("segment_mean(a, b, a, a)", vec![x(), label()], "with weights f32[3, 1]"),
    ] {
        let error = error_of(call, &operands);
        assert!(error.contains(why), "{call}: {error}");
    }
}

#[test]
fn labels_without_rows_get_distinct_rows_or_halves() {
    // Two rows are equally far from their centres: the lower one comes first.
    let x = || ("f32[4, 1]", vec![5.0, 1.0, 9.0, 6.0]);
    let c = || ("f32[4, 1]", vec![3.0, 100.0, 7.0, 200.0]);
    let label = || ("i32[4]", vec![0.0, 0.0, 2.0, 2.0]);
    let operands = || [x(), label(), c()];
    let counts = [2, 0, 2, 0];
    assert_means("segment_mean(a, b, c)", &operands(), [3.0, 100.0, 7.5, 200.0], counts);
    let farthest = "segment_mean(a, b, c, empty=\"farthest\")";
    assert_means(farthest, &operands(), [3.0, 5.0, 7.5, 1.0], counts);
    // Labels 0 and 2 have two rows each, so label 1 shares with 0 and label 3 with 2.
    let e = 2f64.powi(-10);
    let (plus, minus) = (1.0 + e, 1.0 - e);
    let split = "segment_mean(a, b, c, empty=\"split\")";
    assert_means(split, &operands(), [3.0 * minus, 3.0 * plus, 7.5 * minus, 7.5 * plus], counts);
    // One label has all rows, and only one other can share with it.
    let operands = [x(), ("i32[4]", vec![3.0; 4]), c()];
    assert_means(split, &operands, [5.25 * plus, 100.0, 7.0, 5.25 * minus], [0, 0, 0, 4]);
    // There are fewer rows than labels without one.
    let operands = [("f32[1, 1]", vec![5.0]), ("i32[1]", vec![2.0]), c()];
    assert_means(farthest, &operands, [5.0, 100.0, 5.0, 200.0], [0, 0, 1, 0]);
    let none = [("f32[0, 1]", vec![]), ("i32[0]", vec![]), c()];
    for call in ["segment_mean(a, b, c)", farthest, split] {
        assert_means(call, &none, [3.0, 100.0, 7.0, 200.0], [0; 4]);
    }
}

#[test]
fn rows_without_weight_are_counted_and_give_no_mean() {
    let operands = [
        ("f32[3, 1]", vec![1.0, 50.0, 3.0]),
        ("i32[3]", vec![0.0, 1.0, 0.0]),
        ("f32[4, 1]", vec![7.0, 8.0, 9.0, 10.0]),
        ("f32[3]", vec![1.0, 0.0, 3.0]),
    ];
    assert_means("segment_mean(a, b, c, d)", &operands, [2.5, 8.0, 9.0, 10.0], [2, 1, 0, 0]);
    // The row without weight is farther from its centre than any other, and comes last.
    let farthest = "segment_mean(a, b, c, d, empty=\"farthest\")";
    assert_means(farthest, &operands, [2.5, 1.0, 3.0, 50.0], [2, 1, 0, 0]);
}
