//! Results of scalar primitives on the host.

use super::*;

/// The expected result of a primitive for its operands.
pub(super) type Formula<'f> = &'f dyn Fn(&[f64]) -> f64;

/// Runs a map of primitives over the same operands and compares each with its formula.
pub(super) fn check_scalars(cases: &[(Scalar, Formula)], operands: &[&[f32]]) {
    let n = operands[0].len();
    let mut s = Sketch::new(1, n, 1);
    let args: Vec<usize> = operands.iter().map(|_| s.input(DType::F32, Class::Element)).collect();
    for (op, _) in cases {
        let y = s.scalar(op.clone(), &args);
        let y = s.scalar(Scalar::Cast(DType::F32), &[y]);
        s.store(y);
    }
    let inputs: Vec<Vec<u8>> = operands.iter().map(|values| bytes(values)).collect();
    let Some(buffers) = on_host::run(&s.map(), &inputs, 0) else { return };
    for ((op, formula), found) in cases.iter().zip(&buffers[operands.len()..]) {
        eprintln!("{}", op.name());
        let at = |i: usize| operands.iter().map(|values| values[i] as f64).collect::<Vec<_>>();
        assert_close(&f32s(found), (0..n).map(|i| formula(&at(i))));
    }
}

pub(super) const SPECIAL: [f32; 16] = [
    0.0,
    -0.0,
    0.3,
    -0.3,
    0.999,
    -1.0,
    1.0,
    1.5,
    2.5,
    -2.5,
    7.25,
    -7.25,
    1e-6,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

#[test]
fn unary_primitives_follow_their_definitions() {
    type UnaryFormula = fn(f64) -> f64;
    let cases: [(Unary, UnaryFormula); 18] = [
        (Unary::Neg, |x| -x),
        (Unary::Abs, f64::abs),
        (Unary::Sign, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
        (Unary::Exp, f64::exp),
        (Unary::Expm1, f64::exp_m1),
        (Unary::Log, f64::ln),
        (Unary::Log1p, f64::ln_1p),
        (Unary::Sqrt, f64::sqrt),
        (Unary::Rsqrt, |x| 1.0 / x.sqrt()),
        (Unary::Recip, |x| 1.0 / x),
        (Unary::Sin, f64::sin),
        (Unary::Cos, f64::cos),
        (Unary::Tanh, f64::tanh),
        (Unary::Floor, f64::floor),
        (Unary::Ceil, f64::ceil),
        (Unary::Trunc, f64::trunc),
        (Unary::Round, f64::round_ties_even),
        (Unary::IsNan, |x| x.is_nan() as u8 as f64),
    ];
    let formulas = cases.map(|(op, formula)| (Scalar::Unary(op), move |x: &[f64]| formula(x[0])));
    let cases: Vec<(Scalar, Formula)> =
        formulas.iter().map(|(op, formula)| (op.clone(), formula as Formula)).collect();
    check_scalars(&cases, &[&SPECIAL]);
}

#[test]
fn binary_primitives_follow_their_definitions() {
    let pairs: Vec<(f32, f32)> = SPECIAL.iter().flat_map(|&a| SPECIAL.map(|b| (a, b))).collect();
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
    let truth = |holds: bool| holds as u8 as f64;
    let nan_or = |x: &[f64], value: f64| if x[0].is_nan() || x[1].is_nan() { f64::NAN } else { value };
    let cases: [(Binary, Formula); 8] = [
        (Binary::Max, &|x| nan_or(x, x[0].max(x[1]))),
        (Binary::Min, &|x| nan_or(x, x[0].min(x[1]))),
        (Binary::Rem, &|x| x[0] % x[1]),
        (Binary::Pow, &|x| x[0].powf(x[1])),
        (Binary::Div, &|x| x[0] / x[1]),
        (Binary::Sub, &|x| x[0] - x[1]),
        (Binary::Le, &|x| truth(x[0] <= x[1])),
        (Binary::Ne, &|x| truth(x[0] != x[1])),
    ];
    check_scalars(&cases.map(|(op, formula)| (Scalar::Binary(op), formula)), &[&a, &b]);
}

#[test]
fn floats_become_integers_by_truncation_and_saturation() {
    let x = [0.0, -0.9, 2.9, -2.9, 255.5, 300.0, 3e9, 5e9, -3e9, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    for dtype in [DType::U8, DType::I8, DType::I16, DType::U16, DType::I32, DType::U32] {
        let mut s = Sketch::new(1, x.len(), 1);
        let reg = s.input(DType::F32, Class::Element);
        let y = s.scalar(Scalar::Cast(dtype), &[reg]);
        s.store(y);
        let Some(buffers) = on_host::run(&s.map(), &[bytes(&x)], 0) else { return };
        // Rust's `as` has the same rule.
        let expected: Vec<u8> = x
            .iter()
            .flat_map(|&x| match dtype {
                DType::U8 => vec![x as u8],
                DType::I8 => (x as i8).to_le_bytes().to_vec(),
                DType::I16 => (x as i16).to_le_bytes().to_vec(),
                DType::U16 => (x as u16).to_le_bytes().to_vec(),
                DType::U32 => (x as u32).to_le_bytes().to_vec(),
                _ => (x as i32).to_le_bytes().to_vec(),
            })
            .collect();
        assert_eq!(buffers[1], expected, "{dtype}");
    }
}

#[test]
fn half_precision_is_rounded_where_it_is_stored() {
    let mut s = Sketch::new(1, 3, 1);
    let x = s.input(DType::BF16, Class::Element);
    let third = s.constant(DType::BF16, 1.0 / 3.0);
    let y = s.binary(Binary::Mul, x, third);
    s.store(y);
    let inputs: Vec<u8> = [1.0f32, 2.0, -5.0].iter().flat_map(|x| x.to_le_bytes()[2..].to_vec()).collect();
    let Some(buffers) = on_host::run(&s.map(), &[inputs], 0) else { return };
    // 0.33333, 0.66667 and -1.66667 with 8 significant bits.
    assert_eq!(buffers[1], [0xAB, 0x3E, 0x2B, 0x3F, 0xD5, 0xBF]);
}
