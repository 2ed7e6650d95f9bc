#![allow(clippy::unwrap_used, missing_docs)]
//! Whole steps of training compared with PyTorch, and a test that each op's tests notice small mistakes in it.

use engine::Engine;
use engine::core::testing;
use serde_json::Value as Json;

#[path = "numbers/layers.rs"]
mod layers;
#[path = "numbers/models.rs"]
mod models;
#[path = "numbers/networks.rs"]
mod networks;
#[path = "common/parsed.rs"]
mod parsed;
#[path = "numbers/stepping.rs"]
mod stepping;
#[path = "numbers/training.rs"]
mod training;

use training::{near, trains_well};

fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn random_draws_are_those_of_another_implementation() {
    assert_eq!(testing::recorded(&Engine::new().registry, include_str!("examples/draws.json")), []);
}

// ---- Mutants.

/// Mutants that are equivalent to the original: the op, a part of the change, and the reason.
const EXPLAINED: &[(&str, &str, &str)] = &[
    ("lerp", "with 0.5 negated", "both forms are the same line; the choice is one of rounding"),
    ("relu_squared", "step 2, max, negated", "a square has no sign"),
    ("qr", "|a| select(a == 0.0, 1.0, a)` with 1.0 negated", "a column of zeros has no sign"),
    ("svd", "|a| select(a == 0.0, 1.0, a)` with 1.0 negated", "a matrix of zeros has no sign"),
    ("svd", "select(a, 1.0, (b - c) * (b + c))` with 1.0 negated", "the diagonal is divided into 0"),
    ("eigh", "|a| select(a == 0.0, 1.0, a)` with 1.0 negated", "a matrix of zeros has no sign"),
    ("eigh", "= .sqrt(", "the identity minus a matrix has the eigenvectors of the matrix"),
    (
        "eigh",
        "a / select(b == 0.0, 1.0, b) + c",
        "the identity minus a matrix has the eigenvectors of the matrix",
    ),
    ("eigh", "b / select(a, 1.0, c - d))` with 1.0 negated", "the diagonal is replaced by 0"),
    ("var", "= .sub(a, y", "a square has no sign"),
    ("std", "= .sub(a, y", "a square has no sign"),
    (
        "dropout",
        "with 0.5 negated",
        "moves a number by 2⁻²³; the oracle's tests hold the ends of the interval",
    ),
    (
        "uniform",
        "with 0.5 negated",
        "moves a number by 2⁻²³; the oracle's tests hold the ends of the interval",
    ),
    ("dropout", "step 7, mul, negated", "a dropped element is zero, of either sign"),
    ("nonzero", "% 3.0, d)` with 3.0 negated", "a remainder has the sign of the dividend"),
    ("segment_softmax", "exp(a - b)` with step 3, exp, negated", "the sign cancels in the quotient"),
    ("softmax", ".exp(y0.4)` negated", "the sign cancels in the quotient"),
    ("softmax", "select(a == 0.0, 1.0, a)` with 1.0 negated", "a quotient of zero is zero, of either sign"),
    (
        "cross_entropy",
        "select(b == 0.0, 1.0, b)` with 1.0 negated",
        "a quotient of zero is zero, of either sign",
    ),
    ("normal", "`|a| (a + 0.5) * 1.1920928955078125e-7`", "of the angle: a cosine is even"),
    ("normal", "with 6.283185307179586 negated", "a cosine is even"),
    ("normal", "step 7, mul, negated", "of the angle: a cosine is even"),
    ("ring_push", "`|a| a % 3` with 3 negated", "a remainder has the sign of the dividend"),
    ("paged_scatter", "`|a| a % 2` with 2 negated", "a remainder has the sign of the dividend"),
    (
        "nearest",
        "select(a >= 0.0, b, -1.0)",
        "only padding shows it, at infinite distances, which central differences cannot follow",
    ),
    (
        "nearest",
        "select(is_nan(a), -1.0, b)",
        "only a filter that leaves too few rows shows it, at infinite distances; `tests/retrieval/search/filters.rs` has such",
    ),
    ("nearest_rows", "step 2, sub", "a square has no sign"),
    ("nearest_rows", "topk_rows(y0.6, k=2, largest=false)` negated", "few rows need no certificate"),
    ("nearest_rows", "select(a >= 0.0, b, -1.0)", "no place of a selection is missing"),
    ("segment_mean", "abs(a)` with step 1, abs, negated", "only rows that are not finite show it"),
    ("segment_mean", ".max(y0.1, axes=[1])` negated", "only rows that are not finite show it"),
    ("segment_mean", "select(a, b, -1)", "only rows that are not finite show it"),
    ("segment_mean", "min(a, 2)` with step 2, min, negated", "it bounds places that are not read"),
    ("segment_mean", "step 2, rem, negated", "a remainder of zero has no sign"),
    ("mse_loss", "step 2, sub", "a square has no sign"),
    ("l1_loss", "step 2, sub", "a magnitude has no sign"),
    ("huber_loss", "step 2, sub", "a magnitude has no sign"),
    ("cosine_similarity", "with 1e-8 negated", "far below what single precision shows of norms near 1"),
    ("sigmoid_bernoulli", "gradient: `|a, b| b * (recip", "σ(x)(1 - σ(x)) is even"),
    ("log2", "pow", "whole numbers are chosen for the last digit"),
    ("log10", "pow", "whole numbers are chosen for the last digit"),
    ("asin", "gradient: `|a, b| b / sqrt((1.0 - a) * (1.0 + a))` with 1.0 negated", "the product is even"),
    ("acos", "gradient: `|a, b| -(b / sqrt((1.0 - a) * (1.0 + a)))` with 1.0 negated", "the product is even"),
    ("acosh", "gradient: `|a, b| b * rsqrt((a - 1.0) * (a + 1.0))` with 1.0 negated", "the product is even"),
    ("atanh", "gradient: `|a, b| b / ((1.0 - a) * (1.0 + a))` with 1.0 negated", "the product is even"),
    ("sinh", "with 1.0 negated", "both forms are a sinh; the choice is one of rounding"),
    ("sinh", "step 12, exp, negated", "the root is squared"),
    ("sinh", "gradient: `|a, b| b * (exp", "a cosine is even, and the root is squared"),
    ("cosh", "step 2, mul, negated", "a cosine is even"),
    ("cosh", "step 3, exp, negated", "the root is squared"),
    ("cosh", "gradient: `|a, b| b * (sign", "both forms are a sinh; the choice is one of rounding"),
    ("erfinv", "with 1.0507500716444169e-9 negated", "far below what single precision shows"),
    ("erfinv", "step 88, mul", "that coefficient"),
    ("lgamma", "step 10, sub", "the magnitude of a sine is even"),
    ("lgamma", "step 12, mul", "the magnitude of a sine is even"),
    ("lgamma", "step 13, sin", "the magnitude of a sine is even"),
    ("lgamma", "with -5.395239384953e-6 negated", "far below what single precision shows"),
    ("lgamma", "step 86, add", "the term of that coefficient"),
    ("lgamma", "step 87, div", "the term of that coefficient"),
    ("lgamma", "with -0.004166666666666667 negated", "far below what single precision shows"),
    ("lgamma", "step 23, mul", "the term of that coefficient"),
    ("lgamma", "with 0.003968253968253968 negated", "far below what single precision shows"),
    ("lgamma", "step 25, add", "the terms of these coefficients"),
    ("lgamma", "step 26, mul", "the terms of these coefficients"),
    ("lgamma", "with 3.141592653589793 negated", "the sign cancels in the quotient"),
    ("digamma", "with -0.004166666666666667 negated", "far below what single precision shows"),
    ("digamma", "step 22, mul", "the term of that coefficient"),
    ("digamma", "with 0.003968253968253968 negated", "far below what single precision shows"),
    ("digamma", "step 24, add", "the terms of these coefficients"),
    ("digamma", "step 25, mul", "the terms of these coefficients"),
    ("digamma", "with 3.141592653589793 negated", "the sign cancels in the quotient and in the square"),
    ("digamma", "step 4, round", "the square of a sine has the period π"),
    ("digamma", "step 5, sub", "the square of a sine is even"),
    ("digamma", "step 7, mul", "the square of a sine is even"),
    ("digamma", "step 8, sin", "the square of a sine is even"),
    ("digamma", "step 9, div", "the square of a sine is even"),
    ("digamma", "step 24, mul", "far below what single precision shows"),
    ("digamma", "with 0.023809523809523808 negated", "far below what single precision shows"),
    ("digamma", "step 26, add", "the terms of these coefficients"),
    ("digamma", "step 27, mul", "the terms of these coefficients"),
    ("digamma", "step 36, add", "a square has no sign"),
    ("digamma", "step 41, add", "a square has no sign"),
    ("digamma", "step 46, add", "a square has no sign"),
    ("digamma", "step 51, add", "a square has no sign"),
    ("digamma", "step 56, add", "a square has no sign"),
    ("small_float", "with 0.125 negated", "rounding is odd, so the sign of the unit cancels"),
    ("small_float", "step 26, mul, negated", "rounding is odd, so the sign of the unit cancels"),
    ("eye", ".sub(y0.2, y0.1)", "an equality has no sign"),
    ("logcumsumexp", "step 6, sub", "a magnitude has no sign"),
    (
        "logcumsumexp",
        "gradient: `|a, b| select(a == b, a + 0.693",
        "no two sums of falling gradients are equal",
    ),
    ("fft", "complex_mul(y0.5, y0.6)` with operands 0 and 1 exchanged", "a product commutes"),
    ("fft", "complex_mul(y0.9, y0.10)` with operands 0 and 1 exchanged", "a product commutes"),
    ("rfft", "complex_mul(y0.7, y0.8)` with operands 0 and 1 exchanged", "a product commutes"),
    ("rfft", "complex_mul(y0.11, y0.12)` with operands 0 and 1 exchanged", "a product commutes"),
    ("repeat_interleave", ".sum(y0.9, axes=[0])` negated", "a number that must be 0 has no sign"),
    ("searchsorted", "`|a| min(a + 1, 160) - 1` with 1 negated", "the last step takes away what it adds"),
    ("bucketize", "`|a| min(a + 1, 160) - 1` with 1 negated", "the last step takes away what it adds"),
    (
        "nearest",
        "select(a < 4.930380657631324e-32",
        "any power of two near the inverse of a size scales a row",
    ),
    ("nearest", "select(is_nan(a), a, 0.0)", "rows of NaN are in tests/retrieval/search"),
    ("nearest", "`|a, b| a * b` with step 2, mul, negated", "both vectors of a cosine are negated"),
    ("nearest", "(a - b * c * d)", "a square has no sign"),
    (
        "within",
        "select(a < 4.930380657631324e-32",
        "any power of two near the inverse of a size scales a row",
    ),
    ("within", "select(is_nan(a), a, 0.0)", "rows of NaN are in tests/retrieval/search"),
    ("within", "`|a, b| a * b` with step 2, mul, negated", "both vectors of a cosine are negated"),
    ("within", "(a - b * c * d)", "a square has no sign"),
    ("nearest", ".const(1.925929944387236e-34)", "rows so long are in tests/retrieval/search"),
    ("within", ".const(1.925929944387236e-34)", "rows so long are in tests/retrieval/search"),
    ("nearest", "select(is_nan(a), inf, a)` with inf negated", "rows of NaN are in tests/retrieval/search"),
];

#[test]
fn the_tests_of_each_op_notice_a_flipped_sign_and_exchanged_operands() {
    let recordings = [
        include_str!("examples/math.json"),
        include_str!("examples/reduce.json"),
        include_str!("examples/tensor.json"),
        include_str!("examples/draws.json"),
        include_str!("examples/index.json"),
        include_str!("examples/norm.json"),
        include_str!("examples/sample.json"),
        include_str!("examples/order.json"),
        include_str!("examples/attention.json"),
        include_str!("examples/muon.json"),
        include_str!("examples/linalg.json"),
        include_str!("examples/ragged.json"),
    ];
    let survivors = testing::survivors(&Engine::new().registry, &recordings, trains_well);
    let explains = |explained: &(&str, &str, &str), survivor: &testing::Survivor| {
        explained.0 == survivor.op && survivor.change.contains(explained.1)
    };
    let is_open = |survivor: &&testing::Survivor| !EXPLAINED.iter().any(|known| explains(known, survivor));
    let open: Vec<String> = survivors.iter().filter(is_open).map(ToString::to_string).collect();
    assert!(open.is_empty(), "{} mutants survive:\n{open:#?}", open.len());
    let is_stale = |known: &&(&str, &str, &str)| !survivors.iter().any(|survivor| explains(known, survivor));
    let stale: Vec<_> = EXPLAINED.iter().filter(is_stale).collect();
    assert!(stale.is_empty(), "these mutants are found by now:\n{stale:#?}");
}
