//! The scalar primitives on `f64` and `i64`.

use super::number::combine_floats;
use super::tensor::Precision;
use crate::ir::{Binary, DType, Literal, Monoid, Scalar, Type, Unary};
use crate::op::reference::{Elements, OracleTensor};

/// One primitive over operands of the result's shape.
pub(super) fn apply(op: &Scalar, args: &[&OracleTensor], ty: &Type, precision: Precision) -> OracleTensor {
    let extents = ty.extents();
    let count = ty.numel();
    let floats =
        |f: &dyn Fn(usize) -> f64| OracleTensor::floats(ty.dtype, &extents, (0..count).map(f).collect());
    let ints = |f: &dyn Fn(usize) -> i64| OracleTensor::ints(ty.dtype, &extents, (0..count).map(f).collect());
    let x = args[0];
    let of_floats = x.dtype.is_float();
    match op {
        Scalar::Unary(Unary::IsNan) => ints(&|i| x.float(i).is_nan() as i64),
        Scalar::Unary(op) if of_floats => floats(&|i| unary_float(*op, x.float(i))),
        Scalar::Unary(op) => ints(&|i| unary_int(*op, x.int(i), ty.dtype)),
        Scalar::Binary(op) if op.is_comparison() && of_floats => {
            ints(&|i| compare(*op, &x.float(i), &args[1].float(i)) as i64)
        }
        Scalar::Binary(op) if op.is_comparison() => {
            ints(&|i| compare(*op, &x.int(i), &args[1].int(i)) as i64)
        }
        Scalar::Binary(op) if of_floats => floats(&|i| binary_float(*op, x.float(i), args[1].float(i))),
        Scalar::Binary(op) => ints(&|i| binary_int(*op, x.int(i), args[1].int(i), ty.dtype)),
        Scalar::Select => selected(x, args[1], args[2]),
        Scalar::MulAdd if of_floats => floats(&|i| x.float(i).mul_add(args[1].float(i), args[2].float(i))),
        Scalar::MulAdd => ints(&|i| x.int(i).wrapping_mul(args[1].int(i)).wrapping_add(args[2].int(i))),
        Scalar::Cast(dtype) => cast(x, *dtype, precision),
        Scalar::Foreign(foreign) => floats(&|i| {
            let operands: Vec<f64> = args.iter().map(|arg| arg.float(i)).collect();
            (foreign.f64)(&operands)
        }),
    }
}

fn selected(condition: &OracleTensor, a: &OracleTensor, b: &OracleTensor) -> OracleTensor {
    let mut result = b.clone();
    for i in (0..condition.len()).filter(|&i| condition.int(i) != 0) {
        result.copy_from(i, a, i);
    }
    result
}

fn cast(x: &OracleTensor, dtype: DType, precision: Precision) -> OracleTensor {
    let count = x.len();
    if dtype.is_float() {
        let result = OracleTensor::floats(dtype, &x.extents, (0..count).map(|i| x.float(i)).collect());
        return result.rounded(precision);
    }
    let int = |i: usize| match &x.elements {
        Elements::Float(elements) => dtype.saturate(elements[i]),
        Elements::Int(elements) if dtype == DType::Bool => (elements[i] != 0) as i64,
        Elements::Int(elements) => elements[i],
    };
    OracleTensor::ints(dtype, &x.extents, (0..count).map(int).collect())
}

fn unary_float(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign if x == 0.0 || x.is_nan() => x,
        Unary::Sign => x.signum(),
        Unary::Exp => x.exp(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Log => x.ln(),
        Unary::Log1p => x.ln_1p(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => x.sqrt().recip(),
        Unary::Recip => x.recip(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tanh => x.tanh(),
        Unary::Erf => libm::erf(x),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Trunc => x.trunc(),
        Unary::Round => x.round_ties_even(),
        Unary::Not | Unary::Popcount | Unary::IsNan => crate::bug!("`{}` does not yield floats", op.name()),
    }
}

fn unary_int(op: Unary, x: i64, dtype: DType) -> i64 {
    match op {
        Unary::Neg => x.wrapping_neg(),
        Unary::Abs => x.wrapping_abs(),
        Unary::Sign => x.signum(),
        Unary::Not if dtype == DType::Bool => 1 - x,
        Unary::Not => !x,
        // The sign of a negative number fills all 64 bits.
        Unary::Popcount => i64::from((x << (64 - 8 * dtype.size())).count_ones()),
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => x,
        other => crate::bug!("`{}` does not take integers", other.name()),
    }
}

fn compare<T: PartialOrd>(op: Binary, a: &T, b: &T) -> bool {
    match op {
        Binary::Eq => a == b,
        Binary::Ne => a != b,
        Binary::Lt => a < b,
        Binary::Le => a <= b,
        Binary::Gt => a > b,
        Binary::Ge => a >= b,
        other => crate::bug!("`{}` does not compare", other.name()),
    }
}

fn binary_float(op: Binary, a: f64, b: f64) -> f64 {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Rem => a % b,
        Binary::Pow => a.powf(b),
        Binary::Max => combine_floats(Monoid::Max, a, b),
        Binary::Min => combine_floats(Monoid::Min, a, b),
        other => crate::bug!("`{}` does not yield floats", other.name()),
    }
}

fn binary_int(op: Binary, a: i64, b: i64, dtype: DType) -> i64 {
    match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div => a.checked_div(b).unwrap_or(if b == 0 { 0 } else { a }),
        Binary::Rem => a.checked_rem(b).unwrap_or(0),
        Binary::Pow => power(a, b),
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl => shift(a, b, dtype, |a, b| a << b),
        Binary::Shr => shift(a, b, dtype, |a, b| a >> b),
        other => crate::bug!("`{}` does not yield integers", other.name()),
    }
}

/// Repeated wrapping multiplication. A negative exponent gives the inverse truncated to an integer, and 0 for the
/// inverse of 0.
fn power(a: i64, b: i64) -> i64 {
    match (a, b) {
        (_, 0..) => (0..64 - b.leading_zeros()).rev().fold(1i64, |y, bit| {
            let squared = y.wrapping_mul(y);
            if b >> bit & 1 == 1 { squared.wrapping_mul(a) } else { squared }
        }),
        (1, _) => 1,
        (-1, _) => 1 - 2 * (b & 1),
        _ => 0,
    }
}

/// Shifts by the width or more keep only the sign.
fn shift(a: i64, b: i64, dtype: DType, by: fn(i64, i64) -> i64) -> i64 {
    let width = 8 * dtype.size() as i64;
    match b {
        _ if (0..width).contains(&b) => by(a, b),
        _ if by(1, 1) == 0 && a < 0 => -1,
        _ => 0,
    }
}

/// The initial value of a reduction.
pub(super) fn neutral(monoid: Monoid, dtype: DType) -> Literal {
    let (low, high) = dtype.int_range().unwrap_or((0, 1));
    match monoid {
        Monoid::Sum => Literal::Int(0).cast(dtype),
        Monoid::Prod => Literal::Int(1).cast(dtype),
        Monoid::Max if dtype.is_float() => Literal::Float(f64::NEG_INFINITY),
        Monoid::Min if dtype.is_float() => Literal::Float(f64::INFINITY),
        Monoid::Max => Literal::Int(low),
        Monoid::Min => Literal::Int(high),
        Monoid::ArgMax | Monoid::ArgMin => crate::bug!("`{}` starts from its first element", monoid.name()),
    }
}

/// Whether element `i` replaces an earlier element `best`. NaN replaces every number, and the first of equals stays.
pub(super) fn beats(monoid: Monoid, x: &OracleTensor, i: usize, best: usize) -> bool {
    match (&x.elements, monoid) {
        (Elements::Float(x), _) if x[best].is_nan() => false,
        (Elements::Float(x), _) if x[i].is_nan() => true,
        (Elements::Float(x), Monoid::ArgMax) => x[i] > x[best],
        (Elements::Float(x), _) => x[i] < x[best],
        (Elements::Int(x), Monoid::ArgMax) => x[i] > x[best],
        (Elements::Int(x), _) => x[i] < x[best],
    }
}
