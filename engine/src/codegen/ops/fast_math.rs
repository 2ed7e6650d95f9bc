//! Exponentials and logarithms to 10⁻⁵, for kernels that arithmetic bounds rather than memory, with the two instructions
//! that there are for powers and logarithms of two.
//!
//! Where a language's own functions are rough ones, they are those: WGSL promises 2⁻²¹ where 2⁻²² is said here, and for eˣ
//! `(3 + 2|x|)·2⁻²³`, which is 10⁻⁵ for |x| ≤ 40.
//!
//! - eˣ is 2 to the power of `x·log₂ e`: within `(4 + |x|)·2⁻²⁴` of itself; below 2⁻¹²⁶ it is 0.
//! - ln x of a number that is known to be within (0, 1) is a series above ⅞, else `ln 2 · log₂ x`: within 2⁻¹⁹ of itself.
//! - ln x that is only added to something is `ln 2 · log₂ x`, within 2⁻²² absolutely or of itself: the sum is no worse than if
//!   its terms had been rounded a little earlier.

use crate::codegen::ir::builder::{Code, F32};
use crate::codegen::ir::intrinsics::Intrinsic;
use crate::codegen::ops::body::operands;
use crate::codegen::target::Target;
use crate::fusion::{Class, FusedBody, FusedInst, FusedOp, Reg};
use crate::ir::{Binary, DType, Scalar, Unary};
use cubecl_core::ir::{Arithmetic, Comparison, Variable};
use std::f64::consts::{LN_2, LOG2_E};

/// How many additions' time a byte takes, about.
const COST_OF_BYTE: usize = 4;
/// How long a function takes, and a random number, in additions.
const COST_OF_SLOW: usize = 12;
/// How long a function takes that is made of sums and products.
const COST_OF_MADE: usize = 30;

/// Whether arithmetic takes longer than memory: by the additions that a point is worth, and the bytes that it moves.
pub fn is_bound_by_arithmetic(tile: &FusedBody, target: Target) -> bool {
    let elements = || tile.insts.iter().filter(|inst| inst.class == Class::Element);
    let cost: usize = elements().map(|inst| cost(inst, target)).sum();
    let n_sums = tile.insts.iter().filter(|inst| matches!(inst.op, FusedOp::Reduce { .. })).count();
    let bytes: usize = elements().filter(|inst| is_memory(&inst.op)).map(|inst| inst.dtype.size()).sum();
    cost + n_sums > COST_OF_BYTE * bytes
}

fn is_memory(op: &FusedOp) -> bool {
    matches!(op, FusedOp::Load { .. } | FusedOp::Store { .. })
}

/// How long an instruction takes, in additions.
pub fn cost(inst: &FusedInst, target: Target) -> usize {
    use Unary::{Abs, Neg, Not, Recip, Sqrt};
    match &inst.op {
        FusedOp::Random { .. } => COST_OF_SLOW,
        FusedOp::Scalar(Scalar::Unary(Abs | Neg | Not | Recip | Sqrt), _) => 1,
        FusedOp::Scalar(Scalar::Unary(_) | Scalar::Foreign(_), _) => match target.has_exact_functions {
            true => COST_OF_SLOW,
            false => COST_OF_MADE,
        },
        FusedOp::Const(_) => 0,
        _ => 1,
    }
}

/// The function of an element of `f32` that register `reg` holds; none if it has to be exact.
pub fn unary(code: &mut Code, tile: &FusedBody, reg: Reg, x: Variable) -> Option<Variable> {
    let inst = &tile.insts[reg];
    let FusedOp::Scalar(Scalar::Unary(op), args) = &inst.op else { return None };
    let is_element = inst.class == Class::Element && inst.dtype == DType::F32;
    if !is_element || !code.target.has_fast_math {
        return None;
    }
    match op {
        Unary::Exp => Some(exp(code, x)),
        Unary::Log => {
            let (low, high) = range(tile, args[0])?;
            let is_normal = low >= f64::from(f32::MIN_POSITIVE);
            match (is_normal, is_only_added(tile, reg)) {
                (false, _) => None,
                (true, true) => Some(by_log2(code, x)),
                (true, false) => (high < 1.0).then(|| log_below_one(code, x)),
            }
        }
        _ => None,
    }
}

fn exp(code: &mut Code, x: Variable) -> Variable {
    if !code.target.has_exact_functions {
        let power = code.un(Arithmetic::Exp, x);
        if code.target.exp_keeps_nan {
            return power;
        }
        let is_nan = code.is_nan(x);
        return code.select(is_nan, x, power);
    }
    let scale = code.float(F32, LOG2_E);
    let power = code.bin(Arithmetic::Mul, x, scale);
    code.call(Intrinsic::Exp2, &[power])
}

fn by_log2(code: &mut Code, x: Variable) -> Variable {
    if !code.target.has_exact_functions {
        return code.un(Arithmetic::Log, x);
    }
    let log = code.call(Intrinsic::Log2, &[x]);
    let scale = code.float(F32, LN_2);
    code.bin(Arithmetic::Mul, log, scale)
}

/// Near 1 the logarithm is so small that an absolute error is too much: `ln(1 + f)` there, of which f is exact.
fn log_below_one(code: &mut Code, x: Variable) -> Variable {
    let [one, bound] = [1.0, 0.875].map(|value| code.float(F32, value));
    let f = code.bin(Arithmetic::Sub, x, one);
    let series = code.horner(f, SERIES);
    let near = code.bin(Arithmetic::Mul, series, f);
    let far = by_log2(code, x);
    let is_near = code.cmp(Comparison::Greater, x, bound);
    code.select(is_near, near, far)
}

/// `ln(1 + f) / f` for -⅛ ≤ f ≤ 0; fitted by reweighted least squares on Chebyshev nodes, towards the least relative error.
const SERIES: [f64; 5] = [1.0, -0.499_994_67, 0.333_668_86, -0.242_701_8, 0.262_869_18];

/// Whether a value goes nowhere but into sums, also with its sign changed.
fn is_only_added(tile: &FusedBody, reg: Reg) -> bool {
    let mut users =
        tile.insts.iter().enumerate().filter(|(_, inst)| operands(&inst.op).contains(&reg)).peekable();
    users.peek().is_some()
        && users.all(|(user, inst)| match &inst.op {
            FusedOp::Scalar(Scalar::Binary(Binary::Add | Binary::Sub), args) => args[0] != args[1],
            FusedOp::Scalar(Scalar::Unary(Unary::Neg), _) => is_only_added(tile, user),
            _ => false,
        })
}

/// Between which numbers a register lies, if that is known.
fn range(tile: &FusedBody, reg: Reg) -> Option<(f64, f64)> {
    let of = |reg: Reg| range(tile, reg);
    let inst = &tile.insts[reg];
    match &inst.op {
        FusedOp::Const(value) => Some((value.as_f64(), value.as_f64())),
        FusedOp::Random { access, .. } if access.is_identity(tile.domain.points(Class::Element)) => {
            Some((0.0, f64::from(u32::MAX)))
        }
        FusedOp::Scalar(scalar, args) => match (scalar, &args[..]) {
            (Scalar::Cast(DType::F32), &[x]) => of(x),
            (Scalar::Unary(Unary::Neg), &[x]) => of(x).map(|(low, high)| (-high, -low)),
            (Scalar::Unary(Unary::Log), &[x]) => {
                of(x).filter(|&(low, _)| low > 0.0).map(|(low, high)| (low.ln(), high.ln()))
            }
            (Scalar::Binary(Binary::Shr), &[x, by]) => {
                let ((low, high), (by, _)) = (of(x)?, of(by)?);
                (low >= 0.0).then(|| ((low / by.exp2()).floor(), (high / by.exp2()).floor()))
            }
            (Scalar::Binary(Binary::Add), &[a, b]) => {
                let (a, b) = (of(a)?, of(b)?);
                Some((a.0 + b.0, a.1 + b.1))
            }
            (Scalar::Binary(Binary::Mul), &[a, b]) => {
                let (a, b) = (of(a)?, of(b)?);
                let products = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
                Some(
                    products
                        .into_iter()
                        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x))),
                )
            }
            _ => None,
        },
        _ => None,
    }
}
