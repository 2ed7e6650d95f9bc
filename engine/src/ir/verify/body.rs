//! Checks of scalar bodies.

use super::check::{Check, ensure, same_types};
use crate::ir::TypeIssue;
use crate::ir::{Binary, Body, DType, Inst, Scalar, Type, Unary, broadcast_shapes};

pub(super) fn check_map(body: &Body, inputs: &[Type], outputs: &[Type]) -> Check {
    check_steps_of(body)?;
    let shape = broadcast_shapes(inputs).ok_or_else(|| TypeIssue::new("the operands do not broadcast"))?;
    let params: Vec<DType> = inputs.iter().map(|ty| ty.dtype).collect();
    let dtypes = body.dtypes(&params);
    for inst in &body.insts {
        if let Inst::Apply(scalar, operands) = inst {
            check_scalar_dtypes(scalar, &body.operand_dtypes(scalar, operands, &dtypes))?;
        }
    }
    let expected: Vec<Type> =
        body.outputs.iter().map(|&reg| Type { dtype: dtypes[reg], shape: shape.clone() }).collect();
    same_types(&expected, outputs)
}

/// Checks that each step of a body uses earlier steps only.
fn check_steps_of(body: &Body) -> Check {
    for (reg, inst) in body.insts.iter().enumerate() {
        let fits = match inst {
            Inst::Param(i) => *i == reg && reg < body.n_params,
            Inst::Const(_) => reg >= body.n_params,
            Inst::Apply(scalar, operands) => {
                let earlier = operands.iter().all(|&operand| operand < reg);
                reg >= body.n_params && operands.len() == scalar.arity() && earlier
            }
        };
        ensure(fits, || format!("step {reg} of the scalar body is malformed"))?;
    }
    let n_steps = body.insts.len();
    ensure(n_steps >= body.n_params && body.outputs.iter().all(|&reg| reg < n_steps), || {
        "the scalar body lacks a parameter or a result".into()
    })
}

/// Checks that a scalar primitive accepts operands of these element types.
pub(super) fn check_scalar_dtypes(scalar: &Scalar, dtypes: &[DType]) -> Check {
    let same = |dtypes: &[DType]| dtypes.windows(2).all(|pair| pair[0] == pair[1]);
    let takes = match scalar {
        Scalar::Unary(op) => unary_takes(*op, dtypes[0]),
        Scalar::Binary(op) => same(dtypes) && binary_takes(*op, dtypes[0]),
        Scalar::Select => dtypes[0] == DType::Bool && same(&dtypes[1..]),
        Scalar::MulAdd => same(dtypes) && dtypes[0] != DType::Bool,
        Scalar::Cast(_) => true,
        Scalar::Foreign(_) => same(dtypes) && dtypes.iter().all(|dtype| dtype.is_float()),
    };
    let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    ensure(takes, || format!("`{}` does not take {}", scalar.name(), names.join(", ")))
}

fn unary_takes(op: Unary, dtype: DType) -> bool {
    match op {
        Unary::Not => !dtype.is_float(),
        Unary::Popcount => dtype.is_int(),
        Unary::Neg | Unary::Abs | Unary::Sign => dtype != DType::Bool,
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => dtype != DType::Bool,
        _ => dtype.is_float(),
    }
}

fn binary_takes(op: Binary, dtype: DType) -> bool {
    match op {
        Binary::And | Binary::Or | Binary::Xor => !dtype.is_float(),
        Binary::Shl | Binary::Shr => dtype.is_int(),
        Binary::Max | Binary::Min => true,
        op => op.is_comparison() || dtype != DType::Bool,
    }
}
