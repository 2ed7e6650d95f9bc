//! NaN in rows, on devices whose maximum drops NaN.

use super::targets::POOR;
use super::*;
use crate::codegen::analysis::nan::may_skip_nan;
use crate::fusion::Reg;

/// Registers of a softmax: the maximum, differences, exponentials, their sum, and the quotient.
fn steps_of_softmax(s: &mut Sketch) -> [Reg; 5] {
    let x = s.input(DType::F32, Class::Element);
    let m = s.reduce(Monoid::Max, x);
    let shifted = s.binary(Binary::Sub, x, m);
    let e = s.unary(Unary::Exp, shifted);
    let sum = s.reduce(Monoid::Sum, e);
    [m, shifted, e, sum, s.binary(Binary::Div, e, sum)]
}

/// Whether the maximum may skip NaN if a softmax stores the register that `pick` returns.
fn forgets(pick: impl FnOnce(&mut Sketch, [Reg; 5]) -> Reg) -> bool {
    let mut s = Sketch::new(3, 40, 1);
    let steps = steps_of_softmax(&mut s);
    let stored = pick(&mut s, steps);
    s.store(stored);
    may_skip_nan(&s.body, steps[0])
}

#[test]
fn a_maximum_may_skip_nan_if_a_sum_restores_it() {
    assert!(forgets(|_, [.., y]| y));
    // The logarithm through a difference that is NaN at some elements only.
    assert!(forgets(|s, [_, shifted, _, sum, _]| {
        let log = s.unary(Unary::Log, sum);
        s.binary(Binary::Sub, shifted, log)
    }));
    // An index reduction of elements that are all NaN or all numbers.
    assert!(forgets(|s, [.., y]| s.reduce(Monoid::ArgMax, y)));
    assert!(forgets(|s, [.., y]| {
        let half = s.constant(DType::F32, 0.5);
        s.binary(Binary::Gt, y, half)
    }));
}

#[test]
fn a_maximum_keeps_nan_if_a_user_needs_it() {
    assert!(!forgets(|_, [m, ..]| m));
    assert!(!forgets(|_, [_, shifted, ..]| shifted));
    assert!(!forgets(|_, [_, _, e, ..]| e));
    // An index computed before the sum differs from the exact one.
    assert!(!forgets(|s, [_, shifted, ..]| s.reduce(Monoid::ArgMax, shifted)));
    assert!(!forgets(|s, [_, shifted, ..]| {
        let zero = s.constant(DType::F32, 0.0);
        let is_largest = s.binary(Binary::Ge, shifted, zero);
        let is_largest = s.scalar(Scalar::Cast(DType::F32), &[is_largest]);
        s.reduce(Monoid::Sum, is_largest)
    }));
    // A sum of a function that hides NaN.
    assert!(!forgets(|s, [_, shifted, ..]| {
        let zero = s.constant(DType::F32, 0.0);
        let is_low = s.binary(Binary::Lt, shifted, zero);
        let hidden = s.scalar(Scalar::Select, &[is_low, shifted, zero]);
        let sum = s.reduce(Monoid::Sum, hidden);
        s.binary(Binary::Sub, shifted, sum)
    }));
}

#[test]
fn rows_with_nan_are_nan_as_a_whole() {
    // In registers, through memory, and read again in each pass.
    for (columns, device) in [(40, POOR), (300, POOR), (9000, POOR), (300, DeviceModel { plane: 32, ..POOR })]
    {
        let mut s = Sketch::new(4, columns, 1);
        let [.., sum, y] = steps_of_softmax(&mut s);
        let best = s.reduce(Monoid::ArgMax, y);
        [y, sum, best].into_iter().for_each(|reg| s.store(reg));
        let mut x = numbers(4 * columns);
        (x[3], x[columns + columns - 2]) = (f32::NAN, -f32::NAN);
        x[2 * columns..][..columns / 2].fill(f32::NEG_INFINITY);
        let kernel = s.row();
        let text = KernelSpec::launches(&kernel, device).unwrap().remove(0).cuda_source().unwrap().text;
        assert!(text.contains(" = max("), "{text}");
        let Some(buffers) = on_host::run_on(&kernel, device, &[bytes(&x)], 0) else { return };
        let expected = x.chunks(columns).flat_map(|row| {
            let row: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
            let m = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|x| (x - m).exp()).sum();
            row.into_iter().map(move |x| (x - m).exp() / sum).collect::<Vec<f64>>()
        });
        let expected: Vec<f64> = expected.collect();
        assert!(expected[..2 * columns].iter().all(|y| y.is_nan()));
        assert_close(&f32s(&buffers[1]), expected);
        assert_eq!(i32s(&buffers[3])[..2], [0, 0], "the first of all NaN");
    }
}

#[test]
fn extremes_of_rows_keep_nan_by_a_test_of_its_bits() {
    for columns in [40, 300, 9000] {
        let mut s = Sketch::new(5, columns, 1);
        let x = s.input(DType::F32, Class::Element);
        let found =
            [Monoid::Max, Monoid::Min, Monoid::ArgMax, Monoid::ArgMin].map(|monoid| s.reduce(monoid, x));
        found.into_iter().for_each(|reg| s.store(reg));
        let mut x = vec![-0.5; 5 * columns];
        (x[7], x[35], x[9], x[columns - 2]) = (2.0, 2.0, -1.0, -1.0);
        (x[columns + 33], x[columns + 39]) = (f32::NAN, f32::NAN);
        (x[2 * columns + 5], x[2 * columns + 6]) = (f32::INFINITY, -f32::NAN);
        x[3 * columns..4 * columns].fill(f32::NEG_INFINITY);
        x[4 * columns..].fill(f32::INFINITY);
        let Some(buffers) = on_host::run_on(&s.row(), POOR, &[bytes(&x)], 0) else { return };
        let infinity = f64::INFINITY;
        assert_close(&f32s(&buffers[1]), [2.0, f64::NAN, f64::NAN, -infinity, infinity]);
        assert_close(&f32s(&buffers[2]), [-1.0, f64::NAN, f64::NAN, -infinity, infinity]);
        assert_eq!(i32s(&buffers[3]), [7, 33, 6, 0, 0]);
        assert_eq!(i32s(&buffers[4]), [9, 33, 6, 0, 0]);
    }
}
