//! Operands of a kernel, and the targets of a launch's pointers.

use crate::codegen::types::LARGEST_NARROW;
use crate::device_model::DeviceModel;
use crate::fusion::{Kernel, Operand, Use};
use crate::ir::DType;
use crate::op::gpu::View;
use cubecl_core::ir::ElemType;

/// The target of a pointer argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// An operand of the kernel.
    Operand(usize),
    /// The product of a matmul that a library has computed, dense.
    Product,
    /// Part of a workspace that all launches of the kernel share.
    Workspace {
        /// The first byte; a multiple of 16.
        start: usize,
        /// The number of bytes.
        bytes: usize,
    },
    /// The error flag, in which failed assertions are recorded.
    Flag,
    /// The error flag, which a guarded kernel reads before it writes and closes if an assertion failed.
    Guard,
}

/// An operand as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandForm {
    /// The target of its pointer.
    pub argument: Argument,
    /// Type of its elements.
    pub dtype: DType,
    /// Whether the kernel writes it.
    pub is_written: bool,
    /// Whether it has no elements.
    pub is_empty: bool,
    /// Whether its elements are counted in 64 bits.
    pub is_wide: bool,
    /// Whether a written operand may have the same memory.
    pub may_share: bool,
    /// Whether threads add to its elements atomically.
    pub is_atomic: bool,
    /// Whether the kernel reads its elements as unsigned integers with the same bits.
    pub as_bits: bool,
}

impl OperandForm {
    /// A part of the workspace, as words.
    pub fn words(start: usize, n_words: usize) -> OperandForm {
        OperandForm::workspace(start, n_words, DType::U32)
    }

    /// A part of the workspace, as elements of at least 32 bits.
    pub fn workspace(start: usize, n_elements: usize, dtype: DType) -> OperandForm {
        OperandForm {
            argument: Argument::Workspace { start, bytes: n_elements * dtype.size() },
            dtype,
            is_written: true,
            is_empty: false,
            is_wide: n_elements > LARGEST_NARROW,
            may_share: true,
            is_atomic: false,
            as_bits: false,
        }
    }

    /// The operands of a fused kernel, in order.
    pub fn of(kernel: &Kernel) -> Vec<OperandForm> {
        let operands = kernel.operands.iter().enumerate();
        operands.map(|(i, operand)| OperandForm::of_operand(i, operand, &kernel.operands)).collect()
    }

    fn of_operand(i: usize, operand: &Operand, all: &[Operand]) -> OperandForm {
        let n = operand.ty.numel();
        let may_share =
            all.iter().any(|other| other.usage == Use::Write && other.ty.bytes() == operand.ty.bytes());
        OperandForm {
            argument: Argument::Operand(i),
            dtype: operand.ty.dtype,
            is_written: operand.usage == Use::Write,
            is_empty: n == 0,
            is_wide: n > LARGEST_NARROW,
            may_share,
            is_atomic: false,
            as_bits: false,
        }
    }

    /// The type of its elements in memory.
    pub fn element(&self, device: DeviceModel) -> ElemType {
        if self.as_bits { View::bits(self.dtype).0 } else { device.memory(self.dtype) }
    }
}
