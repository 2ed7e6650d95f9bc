//! Types of elements in memory, in registers and between threads, and sizes of blocks and warps.

use crate::codegen::ir::types::{BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32};
use crate::device_model::DeviceModel;
use crate::ir::DType;
use cubecl_core::ir::ElemType;

/// Threads of a block, unless a schedule says otherwise.
pub const THREADS: usize = 256;
/// The most elements that 32 bits count: the numbers of threads past the end must not wrap around.
pub const LARGEST_NARROW: usize = u32::MAX as usize - THREADS;
/// Threads of a warp on CUDA. On every device, up to this many threads share a short row.
pub const PLANE: usize = 32;

/// The type in which threads exchange values of a dtype: narrow integers travel as words.
pub fn carried_type(dtype: DType) -> ElemType {
    match dtype {
        DType::Bool | DType::U8 | DType::U16 | DType::U32 => U32,
        DType::I8 | DType::I16 | DType::I32 => I32,
        DType::I64 => I64,
        DType::F16 | DType::BF16 | DType::F32 => F32,
        DType::F64 => F64,
    }
}

impl DeviceModel {
    /// The type of registers that hold a dtype. Small integers lie in registers of 32 bits, sign-extended.
    pub fn register(&self, dtype: DType) -> ElemType {
        match dtype {
            DType::Bool => BOOL,
            DType::U8 if self.has_narrow => U8,
            DType::U8 | DType::U16 | DType::U32 => U32,
            DType::I8 | DType::I16 | DType::I32 => I32,
            DType::I64 => I64,
            DType::F16 | DType::BF16 | DType::F32 => F32,
            DType::F64 => F64,
        }
    }

    /// The type of an element as memory holds it. A packed element is the low bits of a word.
    pub fn memory(&self, dtype: DType) -> ElemType {
        match dtype {
            _ if self.lanes(dtype) > 1 => U32,
            DType::Bool => U8,
            DType::I8 => I8,
            DType::I16 => I16,
            DType::U16 => U16,
            DType::F16 => F16,
            DType::BF16 => BF16,
            other => self.register(other),
        }
    }

    /// Elements per word in memory.
    pub fn lanes(&self, dtype: DType) -> usize {
        if self.has_narrow { 1 } else { 4 / dtype.size().min(4) }
    }

    /// Whether the device computes with values of a type.
    pub fn has(&self, dtype: DType) -> bool {
        match dtype {
            DType::I64 => self.has_i64,
            DType::F64 => self.has_f64,
            _ => true,
        }
    }

    /// Whether the device adds numbers of a type to memory atomically.
    pub fn adds(&self, dtype: DType) -> bool {
        match dtype {
            DType::I32 | DType::U32 => true,
            DType::F32 => self.adds_f32,
            DType::F64 => self.adds_f64,
            _ => false,
        }
    }
}
