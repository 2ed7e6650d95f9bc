//! Analysis of extremes that may drop NaN.
//!
//! A maximum that propagates NaN takes many operations in a language without such an instruction. A softmax does
//! not need it: the sum of the exponentials makes every stored value NaN anyway.

use crate::codegen::analysis::operands::operands;
use crate::fusion::{Class, FusedBody, FusedOp, Reg};
use crate::ir::{Binary, Monoid, Scalar, Unary};

/// Whether an extreme may skip NaN elements. It may if every value that leaves the body is NaN through a sum over
/// all elements.
pub fn may_skip_nan(body: &FusedBody, extreme: Reg) -> bool {
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
            // A store, an assertion or an index needs the exact value.
            _ if of.iter().any(|known| known.differs()) => return false,
            _ => Known::Same,
        };
    }
    true
}

/// A register's value if the extreme skips NaN, compared with its value if the extreme keeps NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The values are equal.
    Same,
    /// The values are equal, and NaN at each NaN element.
    SameAndNanThere,
    /// The values differ, but both are NaN at each NaN element.
    DiffersButNanThere,
    /// The values differ if any element is NaN.
    Differs,
    /// Both values are NaN if any element is NaN.
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

/// The fact about the result of a function that is NaN if an operand is NaN.
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
