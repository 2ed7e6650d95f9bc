//! Matmuls without a library. Large ones are blocked. Short sums take a thread per point, and long sums of few
//! points a row reduction per point.

use crate::codegen::analysis::operands::with_registers;
use crate::codegen::error::CodegenError;
use crate::codegen::kernel::KernelSpec;
use crate::codegen::operand::OperandForm;
use crate::codegen::schedule::epilogue::matmul_body;
use crate::codegen::schedule::matmul_fold;
use crate::codegen::schedule::matmul_point::{MatmulByPoint, ProductForm};
use crate::codegen::schedule::row::Row;
use crate::codegen::schedule::split_k;
use crate::device_model::DeviceModel;
use crate::fusion::{
    Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, MatmulBody, MatrixOperand, Reg,
};
use crate::ir::{Binary, Monoid, Scalar};

/// The longest contracted axis that one thread sums.
const LONGEST_BY_THREAD: usize = 32;

/// The launches of a matmul without a library.
///
/// # Errors
/// If its rows are folded by a reduction that has no kernel.
pub fn launches(
    kernel: &Kernel,
    body: &MatmulBody,
    device: DeviceModel,
) -> Result<Vec<KernelSpec>, CodegenError> {
    let launches = match (&body.rows, split_k::splits(body, device).first()) {
        (Some(rows), _) => matmul_fold::launches(kernel, body, rows, &device)?,
        (None, Some(&split)) => split_k::launches(kernel, body, split, device),
        (None, None) => vec![own_product(kernel, body, device)],
    };
    let launches = launches.into_iter().chain(KernelSpec::side_sums(kernel, device));
    Ok(launches.collect())
}

/// The product with its epilogue as one launch, without side sums.
fn own_product(kernel: &Kernel, body: &MatmulBody, device: DeviceModel) -> KernelSpec {
    if let Some(split) = split_k::whole(body, device)
        && let Some(fused) = split_k::launches(kernel, body, split, device).pop()
    {
        return fused;
    }
    let is_plain = |inst: &FusedInst| inst.class != Class::Row && !matches!(inst.op, FusedOp::Check { .. });
    if body.k > LONGEST_BY_THREAD && body.epilogue.insts.iter().all(is_plain) {
        return KernelSpec::of_used_operands(as_rows(body), Row, OperandForm::of(kernel), device);
    }
    let schedule = MatmulByPoint(ProductForm::of(body));
    KernelSpec::new(body.epilogue.clone(), schedule, OperandForm::of(kernel), device)
}

/// The matmul as a row kernel: the row of a point holds its products.
fn as_rows(body: &MatmulBody) -> FusedBody {
    let &MatmulBody { batch, m, n, k, lhs, rhs, dtype, .. } = body;
    let load = |matrix: MatrixOperand, strides: [i64; 4]| {
        let mut access = Access::strided(&[batch, m, n, k], &strides);
        access.levels[0].offset = matrix.offset;
        let op = FusedOp::Load { operand: matrix.operand, access, index: None };
        FusedInst { op, dtype, class: Class::Element }
    };
    let sum = |op: FusedOp, class: Class| FusedInst { op, dtype: dtype.accumulator(), class };
    let mut insts = vec![
        load(lhs, [lhs.batch, lhs.row, 0, lhs.col]),
        load(rhs, [rhs.batch, 0, rhs.col, rhs.row]),
        sum(FusedOp::Scalar(Scalar::Binary(Binary::Mul), vec![0, 1]), Class::Element),
        sum(FusedOp::Reduce { monoid: Monoid::Sum, value: 2 }, Class::Row),
    ];
    let n_own = insts.len();
    let is_sum = |reg: Reg| body.epilogue.insts[reg].op == FusedOp::Accumulator;
    // A copy replaces each accumulator, so that registers keep their distances.
    let renamed = |reg: Reg| if is_sum(reg) { n_own - 1 } else { reg + n_own };
    for inst in &body.epilogue.insts {
        let class = if inst.class == Class::Element { Class::Row } else { inst.class };
        let op = match &inst.op {
            FusedOp::Accumulator => FusedOp::Scalar(Scalar::Cast(dtype.accumulator()), vec![n_own - 1]),
            op => with_registers(op, renamed),
        };
        insts.push(FusedInst { op, dtype: inst.dtype, class });
    }
    FusedBody { domain: Domain { outer: batch * m * n, row: k, inner: 1 }, insts }
}

impl KernelSpec {
    /// A matmul without a library as one launch, without side sums.
    ///
    /// # Panics
    /// If the kernel is no matmul.
    pub fn own_product(kernel: &Kernel, device: DeviceModel) -> KernelSpec {
        own_product(kernel, matmul_body(kernel), device)
    }
}
