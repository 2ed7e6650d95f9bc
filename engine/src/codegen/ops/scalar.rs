//! Scalar primitives as instructions.
//!
//! Half-precision registers are held in `f32` and rounded where they are stored or cast. Unsigned bytes are computed as
//! bytes where the language has them, and other small integers in registers of 32 bits.

use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{BOOL, Code, F32, F64};
use crate::codegen::ir::intrinsics::Intrinsic;
use crate::codegen::ops::functions;
use crate::codegen::ops::functions::{division, doubles};
use crate::codegen::ops::integers::{self, within_type};
use crate::codegen::ops::packed_types;
use crate::ir::{Binary, DType, Foreign, Literal, Scalar, Unary};
use cubecl_core::ir::{Arithmetic, Bitwise, Comparison, ConstantValue, ElemType, Variable, VariableKind};
use cubecl_core::prelude::NativeExpand;

/// A register from an element as memory holds it.
pub fn widened(code: &mut Code, dtype: DType, x: Variable) -> Variable {
    match dtype {
        DType::Bool => {
            let zero = code.int(x.elem_type(), 0);
            code.cmp(Comparison::NotEqual, x, zero)
        }
        _ if code.device.lanes(dtype) > 1 => packed_types::widened(code, dtype, x),
        _ => code.cast(code.device.register(dtype), x),
    }
}

/// An element as memory holds it, from a register.
pub fn narrowed(code: &mut Code, dtype: DType, x: Variable) -> Variable {
    if code.device.lanes(dtype) > 1 {
        return packed_types::narrowed(code, dtype, x);
    }
    code.cast(code.device.memory(dtype), x)
}

/// A literal in a register.
pub fn literal(code: &mut Code, dtype: DType, value: Literal) -> Variable {
    match code.device.register(dtype) {
        elem @ ElemType::Float(_) => code.float(elem, value.as_f64()),
        ElemType::Bool => code.bool(value.as_f64() != 0.0),
        elem => code.int(elem, value.as_i64()),
    }
}

/// Emits one primitive. `from` is the dtype of the first operand, `to` that of the result.
pub fn scalar(
    code: &mut Code,
    scalar: &Scalar,
    args: &[Variable],
    from: DType,
    to: DType,
) -> Result<Variable, CodegenError> {
    let value = match (scalar, args) {
        (Scalar::Unary(Unary::Popcount), &[x]) if from.is_int() => integers::popcount(code, from, x),
        (Scalar::Unary(op), &[x]) => unary(code, *op, x)?,
        (Scalar::Binary(op), &[a, b]) => binary(code, *op, a, b)?,
        (Scalar::Select, &[cond, a, b]) => code.select(cond, a, b),
        (Scalar::MulAdd, &[a, b, c]) if is_float(a) => code.fma(a, b, c),
        (Scalar::MulAdd, &[a, b, c]) => {
            let product = code.bin(Arithmetic::Mul, a, b);
            code.bin(Arithmetic::Add, product, c)
        }
        (Scalar::Cast(_), &[x]) => cast(code, x, from, to),
        (Scalar::Foreign(foreign), args) => foreign_call(code, foreign, args, code.device.register(to)),
        (other, args) => crate::bug!("`{}` does not take {} operands", other.name(), args.len()),
    };
    Ok(within_type(code, to, value))
}

fn unary(code: &mut Code, op: Unary, x: Variable) -> Result<Variable, CodegenError> {
    let elem = x.elem_type();
    let float = is_float(x);
    Ok(match op {
        Unary::Not if elem == BOOL => code.not(x),
        Unary::Not if !float => code.bit_not(x),
        Unary::IsNan if float => code.is_nan(x),
        Unary::IsNan => code.bool(false),
        _ if elem == BOOL => return Err(unsupported(op.name(), x)),
        // Languages without negation of unsigned integers subtract.
        Unary::Neg if matches!(elem, ElemType::UInt(_)) => {
            let zero = code.int(elem, 0);
            code.bin(Arithmetic::Sub, zero, x)
        }
        Unary::Neg => code.un(Arithmetic::Neg, x),
        Unary::Sign => sign(code, x),
        Unary::Abs if matches!(elem, ElemType::UInt(_)) => x,
        Unary::Abs => code.un(Arithmetic::Abs, x),
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round if !float => x,
        _ if !float => return Err(unsupported(op.name(), x)),
        // CubeCL has no `expm1`.
        Unary::Expm1 => functions::unary(code, op, x),
        _ if !code.device.has_exact_functions && functions::has(op) => functions::unary(code, op, x),
        Unary::Exp => code.un(Arithmetic::Exp, x),
        Unary::Log => code.un(Arithmetic::Log, x),
        Unary::Log1p => code.un(Arithmetic::Log1p, x),
        Unary::Sqrt => code.un(Arithmetic::Sqrt, x),
        Unary::Rsqrt => code.un(Arithmetic::InverseSqrt, x),
        Unary::Recip => code.un(Arithmetic::Recip, x),
        Unary::Sin => code.un(Arithmetic::Sin, x),
        Unary::Cos => code.un(Arithmetic::Cos, x),
        Unary::Tanh => code.un(Arithmetic::Tanh, x),
        Unary::Erf => code.un(Arithmetic::Erf, x),
        Unary::Floor => code.un(Arithmetic::Floor, x),
        Unary::Ceil => code.un(Arithmetic::Ceil, x),
        Unary::Trunc => code.un(Arithmetic::Trunc, x),
        Unary::Round if elem == F64 && !code.device.has_exact_functions => doubles::round(code, x),
        Unary::Round => code.un(Arithmetic::Round, x),
        Unary::Not | Unary::Popcount => return Err(unsupported(op.name(), x)),
    })
}

/// The sign of x; zeros and NaN are returned unchanged.
fn sign(code: &mut Code, x: Variable) -> Variable {
    let elem = x.elem_type();
    let [one, zero] = [1.0, 0.0].map(|value| code.constant(elem, value));
    let above = code.cmp(Comparison::Greater, x, zero);
    if matches!(elem, ElemType::UInt(_)) {
        return code.select(above, one, zero);
    }
    let minus_one = code.constant(elem, -1.0);
    let below = code.less(x, zero);
    let rest = code.select(below, minus_one, x);
    code.select(above, one, rest)
}

fn binary(code: &mut Code, op: Binary, a: Variable, b: Variable) -> Result<Variable, CodegenError> {
    let float = is_float(a);
    let bool = a.elem_type() == BOOL;
    Ok(match op {
        Binary::Eq => code.cmp(Comparison::Equal, a, b),
        Binary::Ne => not_equal(code, a, b),
        Binary::And | Binary::Min | Binary::Mul if bool => code.and(a, b),
        Binary::Or | Binary::Max if bool => code.or(a, b),
        Binary::Xor if bool => code.cmp(Comparison::NotEqual, a, b),
        // False is below true; WGSL orders numbers only.
        Binary::Lt if bool => and_not(code, b, a),
        Binary::Gt if bool => and_not(code, a, b),
        Binary::Le if bool => implies(code, a, b),
        Binary::Ge if bool => implies(code, b, a),
        Binary::Lt => code.cmp(Comparison::Lower, a, b),
        Binary::Le => code.cmp(Comparison::LowerEqual, a, b),
        Binary::Gt => code.cmp(Comparison::Greater, a, b),
        Binary::Ge => code.cmp(Comparison::GreaterEqual, a, b),
        _ if bool => return Err(unsupported(op.name(), a)),
        Binary::Add => code.bin(Arithmetic::Add, a, b),
        Binary::Sub => code.bin(Arithmetic::Sub, a, b),
        Binary::Mul if is_zero(b) && !code.device.has_exact_functions => division::times_zero(code, a, b),
        Binary::Mul if is_zero(a) && !code.device.has_exact_functions => division::times_zero(code, b, a),
        Binary::Mul => code.bin(Arithmetic::Mul, a, b),
        Binary::Div if is_zero(b) && !code.device.has_exact_functions => division::over_zero(code, a, b),
        Binary::Div if a.elem_type() == F32 && !code.device.has_exact_functions => {
            division::quotient(code, a, b)
        }
        Binary::Div => code.bin(Arithmetic::Div, a, b),
        Binary::Rem if float => division::remainder(code, a, b),
        Binary::Rem if is_signed(a) && !code.device.has_exact_functions => integers::remainder(code, a, b),
        // CubeCL's `Modulo` is C's `%`, with the sign of a.
        Binary::Rem => code.bin(Arithmetic::Modulo, a, b),
        Binary::Pow if float && !code.device.has_exact_functions => functions::pow(code, a, b),
        Binary::Pow if float => code.bin(Arithmetic::Powf, a, b),
        Binary::Max => extremum(code, Extreme::Largest, a, b),
        Binary::Min => extremum(code, Extreme::Smallest, a, b),
        _ if float => return Err(unsupported(op.name(), a)),
        Binary::Pow => integers::power(code, a, b),
        Binary::And => code.bit(Bitwise::BitwiseAnd, a, b),
        Binary::Or => code.bit(Bitwise::BitwiseOr, a, b),
        Binary::Xor => code.bit(Bitwise::BitwiseXor, a, b),
        Binary::Shl | Binary::Shr => integers::shift(code, op, a, b),
    })
}

fn is_signed(x: Variable) -> bool {
    matches!(x.elem_type(), ElemType::Int(_))
}

/// a ≠ b. A language may treat NaN as equal, so this negates `a = b`.
fn not_equal(code: &mut Code, a: Variable, b: Variable) -> Variable {
    if !is_float(a) || code.device.has_exact_functions {
        return code.cmp(Comparison::NotEqual, a, b);
    }
    let is_equal = code.cmp(Comparison::Equal, a, b);
    code.not(is_equal)
}

/// a ∧ ¬b
fn and_not(code: &mut Code, a: Variable, b: Variable) -> Variable {
    let not = code.not(b);
    code.and(a, not)
}

/// b ∨ ¬a
fn implies(code: &mut Code, a: Variable, b: Variable) -> Variable {
    let not = code.not(a);
    code.or(b, not)
}

/// The end of the number range that an extreme is at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extreme {
    Largest,
    Smallest,
}

/// The larger or smaller number; NaN if either is NaN. The device's own function would drop NaN.
pub fn extremum(code: &mut Code, which: Extreme, a: Variable, b: Variable) -> Variable {
    if !is_float(a) {
        return match which {
            Extreme::Largest => code.bin(Arithmetic::Max, a, b),
            Extreme::Smallest => code.bin(Arithmetic::Min, a, b),
        };
    }
    if code.device.has_extremes && a.elem_type() == F32 {
        return match which {
            Extreme::Largest => code.call(Intrinsic::Largest, &[a, b]),
            Extreme::Smallest => code.call(Intrinsic::Smallest, &[a, b]),
        };
    }
    // All comparisons with NaN are false, so a NaN in `a` stays unless `b` is NaN.
    let mut is_b = match which {
        Extreme::Largest => code.cmp(Comparison::Greater, b, a),
        Extreme::Smallest => code.less(b, a),
    };
    if !is_number(b) {
        let is_nan = code.is_nan(b);
        is_b = code.or(is_b, is_nan);
    }
    let value = code.select(is_b, b, a);
    if code.device.has_exact_functions {
        return value;
    }
    // The compiler may replace this by the device's own function, so a NaN is restored by a test of its bits.
    let is_nan = code.is_nan(a);
    code.select(is_nan, a, value)
}

/// `a / b` where many `a` share a `b`: one division for all of them and two products for each. The error is within
/// 1.5 ULP. Zero, subnormal and infinite divisors behave as in a division.
pub fn quotient_by(code: &mut Code, a: Variable, b: Variable) -> Variable {
    if let VariableKind::Constant(ConstantValue::Float(value)) = b.kind
        && (1e-30..1e30).contains(&value.abs())
    {
        let inverse = code.float(F32, 1.0 / value);
        return code.bin(Arithmetic::Mul, a, inverse);
    }
    // The inverse of the scaled divisor is a normal number unless the divisor is 0 or infinite.
    let [small, large] = [100, -100].map(|exponent| code.float(F32, (-f64::from(exponent)).exp2()));
    let [up, same, down] = [64f64, 0.0, -64.0].map(|exponent| code.float(F32, exponent.exp2()));
    let size = code.un(Arithmetic::Abs, b);
    let is_small = code.less(size, small);
    let is_large = code.less(large, size);
    let scale = code.select(is_large, down, same);
    let scale = code.select(is_small, up, scale);
    let scaled = code.bin(Arithmetic::Mul, b, scale);
    let inverse = code.bin(Arithmetic::Div, same, scaled);
    let quotient = code.bin(Arithmetic::Mul, a, inverse);
    code.bin(Arithmetic::Mul, quotient, scale)
}

/// Whether x is a float constant, which is never NaN: [`Code::float`] makes NaN from bits.
pub fn is_number(x: Variable) -> bool {
    matches!(x.kind, VariableKind::Constant(ConstantValue::Float(_)))
}

/// Whether x is a constant 0 of either sign.
fn is_zero(x: Variable) -> bool {
    matches!(x.kind, VariableKind::Constant(ConstantValue::Float(value)) if value == 0.0)
}

/// A conversion. Float to integer truncates and saturates, with 0 for NaN; to bool is `x ≠ 0`; others are as in
/// C++.
fn cast(code: &mut Code, x: Variable, from: DType, to: DType) -> Variable {
    let (source, device) = (code.device.register(from), code.device.register(to));
    match (from, to) {
        (_, DType::Bool) if from != DType::Bool => {
            let zero = code.constant(source, 0.0);
            not_equal(code, x, zero)
        }
        (_, DType::F16) if from != DType::F16 => rounded(code, x, DType::F16),
        (_, DType::BF16) if from != DType::BF16 => rounded(code, x, DType::BF16),
        _ if from.is_float() && to.is_int() => saturated(code, x, to),
        _ => code.cast(device, x),
    }
}

fn rounded(code: &mut Code, x: Variable, to: DType) -> Variable {
    let single = code.cast(F32, x);
    if code.device.lanes(to) > 1 {
        let bits = packed_types::narrowed_for_arithmetic(code, to, single);
        return packed_types::widened(code, to, bits);
    }
    let half = code.device.memory(to);
    let half = code.cast(half, single);
    code.cast(F32, half)
}

fn saturated(code: &mut Code, x: Variable, to: DType) -> Variable {
    let (source, device) = (x.elem_type(), code.device.register(to));
    let (low, high) = int_range(to);
    // Both bounds are powers of two or 0, so they are exact in every float type.
    let first_above = code.float(source, high as f64 + 1.0);
    let lowest = code.float(source, low as f64);
    let [minimum, maximum, zero] = [low, high, 0].map(|value| code.int(device, value));
    let is_above = code.cmp(Comparison::GreaterEqual, x, first_above);
    let is_below = code.cmp(Comparison::LowerEqual, x, lowest);
    let is_nan = code.is_nan(x);
    let is_outside = code.or(is_above, is_below);
    let is_outside = code.or(is_outside, is_nan);
    // Conversion of a number out of range is undefined, so 0 is converted instead.
    let nothing = code.float(source, 0.0);
    let safe = code.select(is_outside, nothing, x);
    let inside = code.cast(device, safe);
    let inside = code.select(is_below, minimum, inside);
    let inside = code.select(is_above, maximum, inside);
    code.select(is_nan, zero, inside)
}

/// The smallest and the largest number of a type of integers, or of truth values.
pub fn int_range(dtype: DType) -> (i64, i64) {
    dtype.int_range().unwrap_or((0, 1))
}

fn foreign_call(code: &mut Code, foreign: &Foreign, args: &[Variable], elem: ElemType) -> Variable {
    let args: Vec<NativeExpand<f32>> = args.iter().map(|&x| code.cast(F32, x)).map(managed).collect();
    let result: Variable = (foreign.cube)(code.scope, &args).into();
    code.cast(elem, result)
}

fn managed(x: Variable) -> NativeExpand<f32> {
    cubecl_core::ir::ManagedVariable::Plain(x).into()
}

fn is_float(x: Variable) -> bool {
    matches!(x.elem_type(), ElemType::Float(_))
}

fn unsupported(op: &str, x: Variable) -> CodegenError {
    CodegenError::Scalar { op: op.to_string(), dtype: x.elem_type().to_string() }
}
