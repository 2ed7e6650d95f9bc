//! Where NaN may come late.
//!
//! A largest element that is NaN if any element is costs a language without such an instruction many operations. In a softmax
//! nobody needs it: whatever is stored is NaN through the sum of the exponentials anyway.

use crate::codegen::analysis::operands::operands;
use crate::fusion::{Class, FusedBody, FusedOp, Reg};
use crate::ir::{Binary, Monoid, Scalar, Unary};

/// Whether an extreme may be that of the numbers alone where some elements are NaN, because nothing that leaves the body tells
/// the difference: it is NaN through a sum over all elements.
pub fn may_forget_nan(body: &FusedBody, extreme: Reg) -> bool {
    let FusedOp::Reduce { monoid: Monoid::Max | Monoid::Min, value } = body.insts[extreme].op else {
        return false;
    };
    let mut known = vec![Known::Same; body.insts.len()];
    known[value] = Known::SameAndNanThere;
    for (reg, inst) in body.insts.iter().enumerate().filter(|(reg, _)| *reg != value) {
        let of: Vec<Known> = operands(&inst.op).into_iter().map(|operand| known[operand]).collect();
        known[reg] = match &inst.op {
            _ if reg == extreme => Known::Differs,
            FusedOp::Reduce { monoid: Monoid::Sum, .. } if of[0].is_nan_there() => Known::Nan,
            FusedOp::Scalar(scalar, _) if inst.dtype.is_float() && passes_nan(scalar) => {
                strict(&of, inst.class)
            }
            FusedOp::Scalar(..) | FusedOp::Reduce { .. } => {
                if of.iter().any(|known| known.differs()) {
                    Known::Differs
                } else {
                    Known::Same
                }
            }
            // What leaves the body, or decides what is read.
            _ if of.iter().any(|known| known.differs()) => return false,
            _ => Known::Same,
        };
    }
    true
}

/// What is known of a register, compared with what it would be had the extreme kept NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The same.
    Same,
    /// The same, and NaN at the elements that are.
    SameAndNanThere,
    /// Another, but NaN at the elements that are.
    DiffersButNanThere,
    /// Another, if any element is NaN.
    Differs,
    /// NaN in both cases if any element is.
    Nan,
}

impl Known {
    fn differs(self) -> bool {
        matches!(self, Known::Differs | Known::DiffersButNanThere)
    }

    fn is_nan_there(self) -> bool {
        matches!(self, Known::SameAndNanThere | Known::DiffersButNanThere | Known::Nan)
    }
}

/// A function that is NaN if an operand is.
fn strict(of: &[Known], class: Class) -> Known {
    let differs = of.iter().any(|known| known.differs());
    let is_nan_there = class == Class::Element && of.iter().any(|known| known.is_nan_there());
    match (differs, is_nan_there) {
        _ if of.contains(&Known::Nan) => Known::Nan,
        (true, true) => Known::DiffersButNanThere,
        (true, false) => Known::Differs,
        (false, true) => Known::SameAndNanThere,
        (false, false) => Known::Same,
    }
}

fn passes_nan(scalar: &Scalar) -> bool {
    match scalar {
        Scalar::Unary(op) => matches!(op, Unary::Neg | Unary::Abs | Unary::Exp | Unary::Log | Unary::Sqrt),
        Scalar::Binary(op) => matches!(op, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div),
        Scalar::MulAdd | Scalar::Cast(_) => true,
        Scalar::Select | Scalar::Foreign(_) => false,
    }
}
