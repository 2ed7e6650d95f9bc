//! Replacements for features that a language lacks: packed elements, exchange through memory, functions. The tests
//! run on the host, so they need no GPU. The text is CUDA's, the definition another language's.

use super::*;
use half::{bf16, f16};

/// CUDA C++ without every feature that WGSL lacks.
pub const POOR: DeviceModel = DeviceModel {
    has_narrow: false,
    plane: 1,
    has_exact_functions: false,
    library: None,
    has_extremes: false,
    exp_keeps_nan: false,
    compares_widened: false,
    double_buffer_bytes: 0,
    adds_four: false,
    has_exact_grid: false,
    most_threads: 256,
    ..DeviceModel::H200
};

type Widen = fn(u16) -> f32;
type Narrow = fn(f32) -> u16;

/// `f(x)` at each element.
fn map_of(from: DType, n: usize, f: impl FnOnce(&mut Sketch, usize) -> usize) -> Kernel {
    let mut s = Sketch::new(1, n, 1);
    let x = s.input(from, Class::Element);
    let y = f(&mut s, x);
    s.store(y);
    kernel(KernelBody::Map(s.body), s.operands)
}

#[test]
fn all_halves_are_read_and_written_from_words() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let packed: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let widened: [(DType, Widen); 2] = [
        (DType::F16, |bits| f16::from_bits(bits).to_f32()),
        (DType::BF16, |bits| bf16::from_bits(bits).to_f32()),
    ];
    for (dtype, value) in widened {
        // A length of whole vectors, and one less.
        for n in [bits.len(), bits.len() - 1] {
            let kernel = map_of(dtype, n, |s, x| s.scalar(Scalar::Cast(DType::F32), &[x]));
            let Some(buffers) = on_host::run_on(&kernel, POOR, &[packed[..2 * n].to_vec()], 0) else {
                return;
            };
            for (&bits, found) in bits.iter().zip(f32s(&buffers[1])) {
                let expected = value(bits);
                assert!(
                    found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
                    "{bits:#x}"
                );
            }
        }
    }
}

#[test]
fn numbers_are_rounded_to_the_nearest_half() {
    let mut state = 1u32;
    let mut numbers: Vec<f32> = (0..60_000)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            f32::from_bits(state)
        })
        .collect();
    // Between two halves, on their ties, and at the ends.
    for bits in (0..0x7C00u16).step_by(3) {
        let [low, high] = [bits, bits + 1].map(|bits| f16::from_bits(bits).to_f32());
        numbers.extend([low, -low, (low + high) / 2.0, (low + high) / -2.0]);
    }
    numbers.extend([
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        65519.996,
        65520.0,
        1e-8,
    ]);
    let n = numbers.len();
    let rounded: [(DType, Narrow); 2] =
        [(DType::F16, |x| f16::from_f32(x).to_bits()), (DType::BF16, |x| bf16::from_f32(x).to_bits())];
    for (dtype, bits) in rounded {
        let kernel = map_of(DType::F32, n, |s, x| s.scalar(Scalar::Cast(dtype), &[x]));
        let Some(buffers) = on_host::run_on(&kernel, POOR, &[bytes(&numbers)], 0) else { return };
        for (&x, found) in numbers.iter().zip(buffers[1].as_chunks().0) {
            let (found, expected) = (u16::from_le_bytes(*found), bits(x));
            let is_nan = |bits: u16| match dtype {
                DType::F16 => f16::from_bits(bits).is_nan(),
                _ => bf16::from_bits(bits).is_nan(),
            };
            assert!(
                found == expected || (is_nan(found) && is_nan(expected)),
                "{x}: {found:#x}, not {expected:#x}"
            );
        }
    }
}

#[test]
fn bytes_wrap_around_in_words() {
    let n = 259;
    let numbers: Vec<u8> = (0..n).map(|i| i as u8).collect();
    let kernel = map_of(DType::U8, n, |s, x| {
        let tripled = s.scalar(Scalar::MulAdd, &[x, x, x]);
        s.scalar(Scalar::Unary(Unary::Not), &[tripled])
    });
    let Some(buffers) = on_host::run_on(&kernel, POOR, std::slice::from_ref(&numbers), 0) else { return };
    let expected = numbers.iter().map(|&x| !x.wrapping_mul(x).wrapping_add(x));
    assert_eq!(buffers[1], expected.collect::<Vec<u8>>());
}

type Whole = fn(i64) -> i64;

#[test]
fn bits_that_are_1_are_counted_in_every_type_of_integers() {
    let ints: Vec<DType> = DType::ALL.into_iter().filter(|dtype| dtype.is_int()).collect();
    for (dtype, device) in ints.into_iter().flat_map(|dtype| [(dtype, POOR), (dtype, DeviceModel::H200)]) {
        if dtype.size() == 8 && !device.has_i64 {
            continue;
        }
        let (low, high) = dtype.int_range().unwrap();
        let numbers = [low, low + 1, 0, 1, 12, 100, high / 2, high - 1, high];
        let bits = |n: i64| n.to_le_bytes()[..dtype.size()].to_vec();
        let kernel = map_of(dtype, numbers.len(), |s, x| s.scalar(Scalar::Unary(Unary::Popcount), &[x]));
        let given = numbers.into_iter().flat_map(bits).collect();
        let Some(buffers) = on_host::run_on(&kernel, device, &[given], 0) else { return };
        let count = |n: i64| bits(n).iter().map(|byte| byte.count_ones()).sum::<u32>();
        let expected: Vec<u8> = numbers.into_iter().flat_map(|n| bits(count(n).into())).collect();
        assert_eq!(buffers[1], expected, "{dtype}");
    }
}

#[test]
fn small_integers_wrap_around_in_registers_of_32_bits() {
    let types: [(DType, Whole); 4] = [
        (DType::U8, |x| i64::from(x as u8)),
        (DType::I8, |x| i64::from(x as i8)),
        (DType::I16, |x| i64::from(x as i16)),
        (DType::U16, |x| i64::from(x as u16)),
    ];
    let formulas: [(Scalar, Whole); 7] = [
        (Scalar::MulAdd, |x| x * x + x),
        (Scalar::Unary(Unary::Not), |x| !x),
        (Scalar::Unary(Unary::Neg), |x| -x),
        (Scalar::Unary(Unary::Abs), i64::abs),
        (Scalar::Unary(Unary::Sign), i64::signum),
        (Scalar::Binary(Binary::Shl), |x| if (0..16).contains(&x) { x << x } else { 0 }),
        (Scalar::Binary(Binary::Shr), |x| if (0..16).contains(&x) { x >> x } else { x >> 63 }),
    ];
    for ((dtype, narrow), device) in types.into_iter().flat_map(|ty| [(ty, POOR), (ty, DeviceModel::H200)]) {
        let numbers: Vec<i64> =
            [-32769, -32768, 32767, 65535].into_iter().chain(-300..300).map(narrow).collect();
        let bytes = |dtype: DType, numbers: &[i64]| -> Vec<u8> {
            numbers.iter().flat_map(|n| n.to_le_bytes()[..dtype.size()].to_vec()).collect()
        };
        // One kernel stores all results: a text takes longer to compile than to run.
        let mut s = Sketch::new(1, numbers.len(), 1);
        let x = s.input(dtype, Class::Element);
        for (op, _) in &formulas {
            let y = s.scalar(op.clone(), &vec![x; op.arity()]);
            for result in [dtype, DType::I64] {
                let y = s.scalar(Scalar::Cast(result), &[y]);
                s.store(y);
            }
        }
        let kernel = kernel(KernelBody::Map(s.body), s.operands);
        let Some(buffers) = on_host::run_on(&kernel, device, &[bytes(dtype, &numbers)], 0) else { return };
        for ((op, formula), results) in formulas.iter().zip(buffers[1..].chunks(2)) {
            let expected: Vec<i64> = numbers.iter().map(|&x| narrow(formula(x))).collect();
            assert_eq!(results[0], bytes(dtype, &expected), "{op:?} of {dtype}");
            assert_eq!(results[1], bytes(DType::I64, &expected), "{op:?} of {dtype} as i64");
        }
    }
}

#[test]
fn rows_are_reduced_through_memory() {
    for (rows, columns) in [(300, 3), (40, 20), (9, 250), (3, 1000), (2, 10_000)] {
        let x = numbers(rows * columns);
        let kernel = softmax(DType::F32, rows, columns);
        let Some(buffers) = on_host::run_on(&kernel, POOR, &[bytes(&x)], 0) else { return };
        let expected = x.chunks(columns).flat_map(|row| {
            let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let exps: Vec<f64> = row.iter().map(|&x| f64::from(x - peak).exp()).collect();
            let total: f64 = exps.iter().sum();
            exps.into_iter().map(move |e| e / total).collect::<Vec<f64>>()
        });
        assert_close(&f32s(buffers.last().unwrap()), expected);
    }
}

/// A function, its exact value, and its stated error in ULP.
type Stated = (Unary, fn(f64) -> f64, f64);

#[test]
fn functions_are_within_their_stated_errors() {
    let functions: [Stated; 9] = [
        (Unary::Exp, f64::exp, 1.6),
        (Unary::Expm1, f64::exp_m1, 2.1),
        (Unary::Log, f64::ln, 1.4),
        (Unary::Log1p, f64::ln_1p, 4.0),
        (Unary::Tanh, f64::tanh, 3.4),
        (Unary::Erf, libm::erf, 7.0),
        (Unary::Rsqrt, |x| 1.0 / x.sqrt(), 1.6),
        (Unary::Sin, f64::sin, 2.0),
        (Unary::Cos, f64::cos, 2.0),
    ];
    let mut inputs: Vec<f32> = (0..40_000).map(|i| (i as f32 - 20_000.0) * 0.0051).collect();
    inputs.extend((0..20_000).map(|i| f32::from_bits(0x0080_0000 + i * 0x1_9000)));
    inputs.extend((0..20_000).map(|i| -f32::from_bits(0x0080_0000 + i * 0x1_9000)));
    inputs.extend([0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    for (function, exact, limit) in functions {
        let is_periodic = matches!(function, Unary::Sin | Unary::Cos);
        let wanted = |x: &f32| !is_periodic || x.is_nan() || x.is_infinite() || x.abs() < 1e6;
        let inputs: Vec<f32> = inputs.iter().copied().filter(wanted).collect();
        let kernel = map_of(DType::F32, inputs.len(), |s, x| s.scalar(Scalar::Unary(function), &[x]));
        let Some(buffers) = on_host::run_on(&kernel, POOR, &[bytes(&inputs)], 0) else { return };
        for (&x, found) in inputs.iter().zip(f32s(&buffers[1])) {
            let expected = exact(f64::from(x));
            if expected.is_nan() || (expected as f32).is_infinite() {
                assert!(found.is_nan() == expected.is_nan(), "{function:?}({x}) is {found}");
                assert!(
                    found.is_nan() || f64::from(found) == expected || found.abs() > 3.4e38,
                    "{function:?}({x}): {found}"
                );
                continue;
            }
            let unit = f64::from(f32::EPSILON) * expected.abs().max(if is_periodic { 0.06 } else { 1e-37 });
            let error = (f64::from(found) - expected).abs() / unit;
            assert!(error <= limit, "{function:?}({x}) is {found} instead of {expected}: {error} units off");
        }
    }
}

#[test]
fn segments_take_several_launches_if_a_launch_takes_few_tensors() {
    let lengths = [3, 600, 40, 77];
    let kernel = step_of_descent(&lengths);
    let few = DeviceModel { most_tensors: 7, ..POOR };
    let launches = KernelSpec::launches(&kernel, few).unwrap();
    assert!(
        launches.len() > 1 && launches.iter().all(|fused| fused.arguments().len() <= 7),
        "{}",
        launches.len()
    );
    assert_eq!(KernelSpec::launches(&kernel, POOR).unwrap().len(), 1);
    check_descent_on(few, &lengths);
}

#[test]
fn functions_of_doubles_are_within_their_stated_errors() {
    let functions: [Stated; 9] = [
        (Unary::Exp, f64::exp, 2.1),
        (Unary::Expm1, f64::exp_m1, 3.0),
        (Unary::Log, f64::ln, 2.0),
        (Unary::Log1p, f64::ln_1p, 3.5),
        (Unary::Tanh, f64::tanh, 4.0),
        (Unary::Erf, libm::erf, 3.0),
        (Unary::Rsqrt, |x| 1.0 / x.sqrt(), 2.1),
        (Unary::Sin, f64::sin, 2.0),
        (Unary::Cos, f64::cos, 2.0),
    ];
    let mut inputs: Vec<f64> = (0..40_000).map(|i| (f64::from(i) - 20_000.0) * 0.0371).collect();
    let spread = (0..20_000).map(|i| f64::from_bits(0x0010_0000_0000_0000 + i * 0x0001_9999_0000_1111));
    inputs.extend(spread.flat_map(|x| [x, -x]));
    inputs.extend([0.0, -0.0, 1.0, -1.0, 5e-324, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
    for (function, exact, limit) in functions {
        let is_periodic = matches!(function, Unary::Sin | Unary::Cos);
        let wanted = |x: &f64| !is_periodic || !x.is_finite() || x.abs() < 1e12;
        let inputs: Vec<f64> = inputs.iter().copied().filter(wanted).collect();
        for (x, found) in inputs.iter().zip(doubles(function, &inputs)) {
            let expected = exact(*x);
            if !expected.is_finite() {
                let is_same = found == expected || (found.is_nan() && expected.is_nan());
                assert!(is_same, "{function:?}({x}) is {found} instead of {expected}");
                continue;
            }
            let least = if is_periodic { 0.06 } else { 1e-300 };
            let error = (found - expected).abs() / (f64::EPSILON * expected.abs().max(least));
            assert!(error <= limit, "{function:?}({x}) is {found} instead of {expected}: {error} units off");
        }
    }
}

/// A function of each double; empty without a C++ compiler.
fn doubles(function: Unary, x: &[f64]) -> Vec<f64> {
    let kernel = map_of(DType::F64, x.len(), |s, x| s.scalar(Scalar::Unary(function), &[x]));
    let given: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let buffers = on_host::run_on(&kernel, POOR, &[given], 0);
    buffers.map_or(vec![], |buffers| f64s(&buffers[1]))
}

fn f64s(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

#[test]
fn powers_of_doubles_are_within_their_stated_error() {
    let numbers = [
        0.0,
        -0.0,
        0.5,
        1.0,
        -1.0,
        2.0,
        -3.0,
        1e-100,
        1e100,
        -2.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let pairs: Vec<[f64; 2]> = numbers.iter().flat_map(|&x| numbers.map(|y| [x, y])).collect();
    let mut s = Sketch::new(1, pairs.len(), 1);
    let [x, y] = [0, 1].map(|_| s.input(DType::F64, Class::Element));
    let power = s.scalar(Scalar::Binary(Binary::Pow), &[x, y]);
    s.store(power);
    let given = [0, 1].map(|i| pairs.iter().flat_map(|pair| pair[i].to_le_bytes()).collect::<Vec<u8>>());
    let kernel = kernel(KernelBody::Map(s.body), s.operands);
    let Some(buffers) = on_host::run_on(&kernel, POOR, &given, 0) else { return };
    for ([x, y], found) in pairs.into_iter().zip(f64s(&buffers[2])) {
        let expected = x.powf(y);
        let is_near = found == expected || (found - expected).abs() <= 2e-13 * expected.abs();
        assert!(is_near || (found.is_nan() && expected.is_nan()), "{x}^{y} is {found} instead of {expected}");
    }
}

#[test]
fn powers_are_within_their_stated_error() {
    let bases =
        [0.0f32, -0.0, 0.5, 1.0, -1.0, 2.0, -3.0, 1e-10, 1e10, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let exponents = [0.0f32, 1.0, -1.0, 2.0, 3.0, 0.5, -2.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let pairs: Vec<(f32, f32)> = bases.iter().flat_map(|&x| exponents.map(|y| (x, y))).collect();
    let mut s = Sketch::new(1, pairs.len(), 1);
    let (x, y) = (s.input(DType::F32, Class::Element), s.input(DType::F32, Class::Element));
    let power = s.scalar(Scalar::Binary(Binary::Pow), &[x, y]);
    s.store(power);
    let (x, y): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    let kernel = kernel(KernelBody::Map(s.body), s.operands);
    let Some(buffers) = on_host::run_on(&kernel, POOR, &[bytes(&x), bytes(&y)], 0) else { return };
    for ((x, y), found) in pairs.into_iter().zip(f32s(&buffers[2])) {
        let expected = x.powf(y);
        let is_near = found == expected || (found - expected).abs() <= 1e-5 * expected.abs();
        assert!(is_near || (found.is_nan() && expected.is_nan()), "{x}^{y} is {found} instead of {expected}");
    }
}
