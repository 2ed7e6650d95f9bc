//! Fast math for compute-bound kernels: exponentials and logarithms to 10⁻⁵, from the hardware instructions for
//! powers and logarithms of two.
//!
//! Where a language's own functions are approximate, those are used. WGSL promises 2⁻²¹ where 2⁻²² is stated here.
//! For eˣ it promises `(3 + 2|x|)·2⁻²³`, which is 10⁻⁵ for |x| ≤ 40.
//!
//! - eˣ is 2 to the power of `x·log₂ e`, with a relative error of `(4 + |x|)·2⁻²⁴`; results below 2⁻¹²⁶ are 0.
//! - ln x of a number in (0, 1) is a series above ⅞, and `ln 2 · log₂ x` below. Its relative error is 2⁻¹⁹.
//! - ln x that only enters sums is `ln 2 · log₂ x`, with an absolute or relative error of 2⁻²². The sum is as
//!   exact as if its terms had been rounded earlier.

use crate::codegen::analysis::range::{is_only_added, range};
use crate::codegen::error::CodegenError;
use crate::codegen::ir::builder::{Code, F32};
use crate::codegen::ir::intrinsics::Intrinsic;
use crate::codegen::ops::scalar::scalar;
use crate::fusion::{Class, FusedBody, FusedOp, Reg};
use crate::ir::{DType, Scalar, Unary};
use cubecl_core::ir::{Arithmetic, Comparison, Variable};
use std::f64::consts::{LN_2, LOG2_E};

/// The fast-math form of register `reg`, a function of `f32`; none if the result must be exact.
pub fn unary(code: &mut Code, body: &FusedBody, reg: Reg, x: Variable) -> Option<Variable> {
    let inst = &body.insts[reg];
    let FusedOp::Scalar(Scalar::Unary(op), args) = &inst.op else { return None };
    let is_element = inst.class == Class::Element && inst.dtype == DType::F32;
    if !is_element || !code.device.has_fast_math {
        return None;
    }
    match op {
        Unary::Exp => Some(exp(code, x)),
        Unary::Log => {
            let (low, high) = range(body, args[0])?;
            let is_normal = low >= f64::from(f32::MIN_POSITIVE);
            match (is_normal, is_only_added(body, reg)) {
                (false, _) => None,
                (true, true) => Some(by_log2(code, x)),
                (true, false) => (high < 1.0).then(|| log_below_one(code, x)),
            }
        }
        _ => None,
    }
}

/// eˣ of an `f32`, as fast as the kernel may compute it.
pub fn exponential(code: &mut Code, x: Variable) -> Result<Variable, CodegenError> {
    match code.device.has_fast_math {
        true => Ok(exp(code, x)),
        false => scalar(code, &Scalar::Unary(Unary::Exp), &[x], DType::F32, DType::F32),
    }
}

fn exp(code: &mut Code, x: Variable) -> Variable {
    if !code.device.has_exact_functions {
        let power = code.un(Arithmetic::Exp, x);
        if code.device.exp_keeps_nan {
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
    if !code.device.has_exact_functions {
        return code.un(Arithmetic::Log, x);
    }
    let log = code.call(Intrinsic::Log2, &[x]);
    let scale = code.float(F32, LN_2);
    code.bin(Arithmetic::Mul, log, scale)
}

/// Near 1 the logarithm is small, so an absolute error would be too large. The series in `f = x - 1`, which is
/// exact there, avoids it.
fn log_below_one(code: &mut Code, x: Variable) -> Variable {
    let [one, bound] = [1.0, 0.875].map(|value| code.float(F32, value));
    let f = code.bin(Arithmetic::Sub, x, one);
    let series = code.horner(f, SERIES);
    let near = code.bin(Arithmetic::Mul, series, f);
    let far = by_log2(code, x);
    let is_near = code.cmp(Comparison::Greater, x, bound);
    code.select(is_near, near, far)
}

/// `ln(1 + f) / f` for -⅛ ≤ f ≤ 0, fitted by reweighted least squares on Chebyshev nodes for the least relative
/// error.
const SERIES: [f64; 5] = [1.0, -0.499_994_67, 0.333_668_86, -0.242_701_8, 0.262_869_18];
