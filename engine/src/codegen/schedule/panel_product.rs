//! The product of a panel, for devices without a library of matmuls.

use crate::codegen::kernel::KernelSpec;
use crate::device_model::DeviceModel;
use crate::fusion::{
    Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, KernelBody, MatmulBody, MatrixOperand,
    Operand, Use,
};
use crate::ir::Type;

impl KernelSpec {
    /// The product of panels of so many rows and columns, for devices without a library. Its arguments are the left and the right
    /// matrix from the panel on, and the panel.
    pub fn panel_product(
        kernel: &Kernel,
        body: &MatmulBody,
        [m, n]: [usize; 2],
        device: DeviceModel,
    ) -> KernelSpec {
        let dtype = body.dtype.accumulator();
        let [lhs, rhs] = [body.lhs, body.rhs].map(|matrix| kernel.operands[matrix.operand].clone());
        let panel = Operand { ty: Type::new(dtype, &[m, n]), usage: Use::Write, ..lhs.clone() };
        let inst = |op: FusedOp| FusedInst { op, dtype, class: Class::Element };
        let store =
            FusedOp::Store { operand: 2, access: Access::strided(&[m * n], &[1]), value: 0, index: None };
        let product = MatmulBody {
            batch: 1,
            m,
            n,
            lhs: MatrixOperand { operand: 0, batch: 0, ..body.lhs },
            rhs: MatrixOperand { operand: 1, batch: 0, ..body.rhs },
            epilogue: FusedBody {
                domain: Domain { outer: m, row: n, inner: 1 },
                insts: vec![inst(FusedOp::Accumulator), inst(store)],
            },
            side_sums: vec![],
            rows: None,
            ..body.clone()
        };
        let operands = vec![lhs, rhs, panel];
        let product = Kernel { body: KernelBody::Matmul(product), operands, ..kernel.clone() };
        KernelSpec::own_product(&product, device)
    }
}
