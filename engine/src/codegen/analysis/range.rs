//! Range of a register, and whether its value only enters sums.

use crate::codegen::analysis::operands::operands;
use crate::fusion::{Class, FusedBody, FusedOp, Reg};
use crate::ir::{Binary, DType, Scalar, Unary};

/// Whether every user of a value is a sum, possibly after a change of sign.
pub fn is_only_added(body: &FusedBody, reg: Reg) -> bool {
    let mut users =
        body.insts.iter().enumerate().filter(|(_, inst)| operands(&inst.op).contains(&reg)).peekable();
    users.peek().is_some()
        && users.all(|(user, inst)| match &inst.op {
            FusedOp::Scalar(Scalar::Binary(Binary::Add | Binary::Sub), args) => args[0] != args[1],
            FusedOp::Scalar(Scalar::Unary(Unary::Neg), _) => is_only_added(body, user),
            _ => false,
        })
}

/// The bounds of a register's values, if they are known.
pub fn range(body: &FusedBody, reg: Reg) -> Option<(f64, f64)> {
    let of = |reg: Reg| range(body, reg);
    let inst = &body.insts[reg];
    match &inst.op {
        FusedOp::Const(value) => Some((value.as_f64(), value.as_f64())),
        FusedOp::Random { access, .. } if access.is_identity(body.domain.points(Class::Element)) => {
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
