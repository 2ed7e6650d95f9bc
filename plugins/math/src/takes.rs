//! Element types that ops take.

use engine_core::ir::DType;

/// Floats and integers.
pub fn numbers(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_int()
}

/// Numbers that can be negative.
pub fn signed(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_signed_int()
}

/// Truth values and integers.
pub fn bits(dtype: DType) -> bool {
    dtype == DType::Bool || dtype.is_int()
}

/// Every element type.
pub fn anything(_: DType) -> bool {
    true
}
