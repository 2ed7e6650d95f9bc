//! Element types of the kernel language, and values of the `#[cube]` functions written in it.

use cubecl_core::ir::{ElemType, FloatKind, IntKind, ManagedVariable, UIntKind, Variable};
use cubecl_core::prelude::{CubeType, NativeExpand};

pub const BOOL: ElemType = ElemType::Bool;
pub const U8: ElemType = ElemType::UInt(UIntKind::U8);
pub const U16: ElemType = ElemType::UInt(UIntKind::U16);
pub const U32: ElemType = ElemType::UInt(UIntKind::U32);
pub const U64: ElemType = ElemType::UInt(UIntKind::U64);
pub const I8: ElemType = ElemType::Int(IntKind::I8);
pub const I16: ElemType = ElemType::Int(IntKind::I16);
pub const I32: ElemType = ElemType::Int(IntKind::I32);
pub const I64: ElemType = ElemType::Int(IntKind::I64);
pub const F16: ElemType = ElemType::Float(FloatKind::F16);
pub const BF16: ElemType = ElemType::Float(FloatKind::BF16);
pub const F32: ElemType = ElemType::Float(FloatKind::F32);
pub const F64: ElemType = ElemType::Float(FloatKind::F64);

/// A variable as a value of CubeCL's kernel language.
pub fn native<T: CubeType>(variable: Variable) -> NativeExpand<T> {
    ManagedVariable::Plain(variable).into()
}
