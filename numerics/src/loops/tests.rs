//! The loops against the library.

use super::*;
use engine_core::ir::{Binary, Unary};
use half::{bf16, f16};

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

fn of_unary<T: Number + Default>(op: Unary, x: &[T]) -> Vec<T> {
    let mut out = vec![T::default(); x.len()];
    unary(op, x, &mut out, Prefetch::NOTHING);
    out
}

fn of_binary<T: Number + Default>(op: Binary, a: &[T], b: &[T]) -> Vec<T> {
    let mut out = vec![T::default(); a.len()];
    binary(op, Operand::Slice(a), Operand::Slice(b), &mut out, Prefetch::NOTHING);
    out
}

/// Bits, which tell −0 from 0; the same for every NaN.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect()
}

#[test]
fn rounding_keeps_signs_and_goes_half_to_even() {
    let x = [2.5, 3.5, -0.5, -2.7, 1e9, NAN, -INF];
    assert_eq!(bits(&of_unary(Unary::Round, &x)), bits(&[2.0, 4.0, -0.0, -3.0, 1e9, NAN, -INF]));
    assert_eq!(bits(&of_unary(Unary::Floor, &x)), bits(&[2.0, 3.0, -1.0, -3.0, 1e9, NAN, -INF]));
    assert_eq!(bits(&of_unary(Unary::Ceil, &x)), bits(&[3.0, 4.0, -0.0, -2.0, 1e9, NAN, -INF]));
    assert_eq!(bits(&of_unary(Unary::Trunc, &x)), bits(&[2.0, 3.0, -0.0, -2.0, 1e9, NAN, -INF]));
}

#[test]
fn simple_functions_of_floats() {
    let x = [4.0, -0.0, -INF, NAN];
    assert_eq!(bits(&of_unary(Unary::Neg, &x)), bits(&[-4.0, 0.0, INF, NAN]));
    assert_eq!(bits(&of_unary(Unary::Abs, &x)), bits(&[4.0, 0.0, INF, NAN]));
    assert_eq!(bits(&of_unary(Unary::Sign, &x)), bits(&[1.0, -0.0, -1.0, NAN]));
    assert_eq!(bits(&of_unary(Unary::Sqrt, &x)), bits(&[2.0, -0.0, NAN, NAN]));
    assert_eq!(bits(&of_unary(Unary::Recip, &x)), bits(&[0.25, -INF, -0.0, NAN]));
}

/// Slices longer than a vector, and no multiple of it, against the library in f64.
#[test]
fn transcendental_loops_compute_their_function() {
    let x: Vec<f32> = (1..=77).map(|i| i as f32 * 0.03).collect();
    let wide: Vec<f64> = x.iter().map(|&v| v as f64).collect();
    for op in [
        Unary::Exp,
        Unary::Expm1,
        Unary::Log,
        Unary::Log1p,
        Unary::Rsqrt,
        Unary::Sin,
        Unary::Cos,
        Unary::Tanh,
        Unary::Erf,
    ] {
        let pairs = of_unary(op, &x).into_iter().zip(of_unary(op, &wide));
        for (narrow, wide) in pairs {
            assert!(
                (narrow as f64 - wide).abs() <= 3e-7 * wide.abs().max(0.03),
                "{op:?}: {narrow} for {wide}"
            );
        }
    }
    assert_eq!(of_unary(Unary::Exp, &[1.0f64]), [std::f64::consts::E]);
    assert_eq!(of_unary(Unary::Erf, &[0.5f64]), [0.520_499_877_813_046_5]);
}

#[test]
fn sines_of_huge_arguments_are_those_of_the_library() {
    let x = [1.0, 1e30, 3.0e6, INF, NAN];
    let expected = [1f32.sin(), 1e30f32.sin(), 3.0e6f32.sin(), NAN, NAN];
    assert_eq!(bits(&of_unary(Unary::Sin, &x)), bits(&expected));
    assert!((of_unary(Unary::Cos, &[7e20f32])[0] as f64 - (7e20f32 as f64).cos()).abs() < 1e-7);
}

#[test]
fn extremes_and_relations_with_nan() {
    let (a, b) = ([1.0, NAN, 2.0, NAN], [2.0, 1.0, NAN, NAN]);
    assert_eq!(bits(&of_binary(Binary::Max, &a, &b)), bits(&[2.0, NAN, NAN, NAN]));
    assert_eq!(bits(&of_binary(Binary::Min, &a, &b)), bits(&[1.0, NAN, NAN, NAN]));
    let relation = |op| {
        let mut out = [9; 4];
        compare(op, Operand::Slice(&a), Operand::Slice(&b), &mut out);
        out
    };
    assert_eq!(relation(Binary::Ne), [1, 1, 1, 1]);
    for op in [Binary::Eq, Binary::Gt, Binary::Ge] {
        assert_eq!(relation(op), [0, 0, 0, 0], "{op:?}");
    }
    for op in [Binary::Lt, Binary::Le] {
        assert_eq!(relation(op), [1, 0, 0, 0], "{op:?}");
    }
}

#[test]
fn a_scalar_operand_is_the_same_as_a_slice_of_it() {
    let a: Vec<f32> = (0..50).map(|i| i as f32 - 20.5).collect();
    let threes = vec![3.0; 50];
    for op in [Binary::Sub, Binary::Div, Binary::Rem, Binary::Pow, Binary::Max] {
        let mut right = vec![0.0; 50];
        binary(op, Operand::Slice(&a), Operand::Scalar(3.0), &mut right, Prefetch::NOTHING);
        assert_eq!(bits(&right), bits(&of_binary(op, &a, &threes)), "{op:?}");
        let mut left = vec![0.0; 50];
        binary(op, Operand::Scalar(3.0), Operand::Slice(&a), &mut left, Prefetch::NOTHING);
        assert_eq!(bits(&left), bits(&of_binary(op, &threes, &a)), "{op:?}");
    }
    let mut both = [0.0; 3];
    binary(Binary::Sub, Operand::Scalar(5.0), Operand::Scalar(3.0), &mut both, Prefetch::NOTHING);
    assert_eq!(both, [2.0; 3]);
}

#[test]
fn division_by_one_number_is_division_bit_for_bit() {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state ^ state >> 15
    };
    for round in 0..4000 {
        // All of f32, and the range that is divided by multiplications.
        let exponent = |bits: u32, low: u32, span: u32| bits & 0x807F_FFFF | (low + bits / 7 % span) << 23;
        let mut divisor = f32::from_bits(exponent(next(), 100, 54));
        if round % 8 == 0 {
            divisor = f32::from_bits(next());
        }
        let plain: Vec<f32> = (0..64).map(|_| f32::from_bits(exponent(next(), 20, 210))).collect();
        let any: Vec<f32> = (0..70).map(|_| f32::from_bits(next())).collect();
        for mut x in [plain, any] {
            x[3] = 0.0;
            let mut out = vec![0.0; x.len()];
            binary(Binary::Div, Operand::Slice(&x), Operand::Scalar(divisor), &mut out, Prefetch::NOTHING);
            let expected: Vec<f32> = x.iter().map(|u| u / divisor).collect();
            assert_eq!(bits(&out), bits(&expected), "by {divisor:e}");
        }
    }
    let mut out = [0f32];
    binary(Binary::Div, Operand::Slice(&[-0.0]), Operand::Scalar(3.0), &mut out, Prefetch::NOTHING);
    assert_eq!(out[0].to_bits(), (-0.0f32).to_bits());
}

#[test]
fn integer_arithmetic_wraps_and_truncates() {
    let (a, b) = ([7, -7, i32::MIN, 5, i32::MAX], [2, 2, -1, 0, 2]);
    assert_eq!(of_binary(Binary::Div, &a, &b), [3, -3, i32::MIN, 0, i32::MAX / 2]);
    assert_eq!(of_binary(Binary::Rem, &a, &b), [1, -1, 0, 0, 1]);
    assert_eq!(of_binary(Binary::Mul, &a, &b), [14, -14, i32::MIN, 0, -2]);
    assert_eq!(
        of_binary(Binary::Pow, &[3i64, -1, 2, 0, -2], &[39, -3, -1, 0, 3]),
        [3i64.pow(39), -1, 0, 1, -8]
    );
    assert_eq!(of_binary(Binary::Shr, &[-8, 8, -8], &[1, 33, 33]), [-4, 0, -1]);
    assert_eq!(of_binary(Binary::Xor, &[6u8, 1], &[3, 1]), [5, 0]);
    assert_eq!(of_unary(Unary::Sign, &[-9i64, 0, 4]), [-1, 0, 1]);
    assert_eq!(of_unary(Unary::Not, &[0u32, 1]), [u32::MAX, u32::MAX - 1]);
    assert_eq!(of_unary(Unary::Popcount, &[0i8, -1, i8::MIN, i8::MAX]), [0, 8, 1, 7]);
    assert_eq!(of_unary(Unary::Popcount, &[0i64, -1, i64::MIN, i64::MAX, 1 << 40]), [0, 64, 1, 63, 1]);
}

#[test]
fn select_ignores_the_other_branch() {
    let mut out = [0.0; 3];
    select(&[1, 0, 2], Operand::Slice(&[1.0, NAN, 3.0]), Operand::Scalar(-1.0), &mut out);
    assert_eq!(out, [1.0, -1.0, 3.0]);
    select(&[1, 0, 0], Operand::Scalar(9.0), Operand::Slice(&[NAN, 5.0, 6.0]), &mut out);
    assert_eq!(out, [9.0, 5.0, 6.0]);
    select(&[1, 0, 1], Operand::Slice(&[1.0; 3]), Operand::Slice(&[2.0; 3]), &mut out);
    assert_eq!(out, [1.0, 2.0, 1.0]);
    select(&[0, 0, 1], Operand::Scalar(3.0), Operand::Scalar(4.0), &mut out);
    assert_eq!(out, [4.0, 4.0, 3.0]);
}

#[test]
fn mul_add_in_every_form() {
    let (a, b, c) = ([1.0f32, 2.0], [3.0, 4.0], [10.0, 20.0]);
    let of = |b, c| {
        let mut out = [0.0; 2];
        mul_add(&a, b, c, &mut out);
        out
    };
    assert_eq!(of(Operand::Slice(&b), Operand::Slice(&c)), [13.0, 28.0]);
    assert_eq!(of(Operand::Slice(&b), Operand::Scalar(1.0)), [4.0, 9.0]);
    assert_eq!(of(Operand::Scalar(2.0), Operand::Slice(&c)), [12.0, 24.0]);
    assert_eq!(of(Operand::Scalar(2.0), Operand::Scalar(1.0)), [3.0, 5.0]);
}

#[test]
fn casts_truncate_saturate_and_round_to_even() {
    let mut ints = [0i32; 4];
    cast(&[2.9f32, -2.9, 1e20, NAN], &mut ints);
    assert_eq!(ints, [2, -2, i32::MAX, 0]);
    let mut halves = [bf16::ZERO; 3];
    cast(&[1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 3.4e38f32], &mut halves);
    assert_eq!(halves.map(|v| v.to_f32()), [1.0, 1.015_625, INF]);
    let mut floats = [0f32; 2];
    cast(&[f16::from_f32(0.1), f16::INFINITY], &mut floats);
    assert_eq!(floats, [0.099_975_586, INF]);
}
