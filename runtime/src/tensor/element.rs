//! Rust types whose slices view tensors.

use engine_core::ir::DType;
use half::{bf16, f16};

/// A Rust type whose slices view a tensor in place. [`DType::Bool`] is viewed as `u8`.
///
/// # Safety
/// The type has no padding, accepts every bit pattern, is `DTYPE.size()` bytes long, and has an alignment of at most 64
/// bytes.
pub unsafe trait Element: Copy + 'static {
    /// The element type of tensors made from this type.
    const DTYPE: DType;
}

// SAFETY: plain numbers whose sizes are those of `DType::size`.
unsafe impl Element for u8 {
    const DTYPE: DType = DType::U8;
}

// SAFETY: as above.
unsafe impl Element for i8 {
    const DTYPE: DType = DType::I8;
}

// SAFETY: as above.
unsafe impl Element for i16 {
    const DTYPE: DType = DType::I16;
}

// SAFETY: as above.
unsafe impl Element for u16 {
    const DTYPE: DType = DType::U16;
}

// SAFETY: as above.
unsafe impl Element for i32 {
    const DTYPE: DType = DType::I32;
}

// SAFETY: as above.
unsafe impl Element for i64 {
    const DTYPE: DType = DType::I64;
}

// SAFETY: as above.
unsafe impl Element for u32 {
    const DTYPE: DType = DType::U32;
}

// SAFETY: as above; `f16` wraps a `u16` transparently.
unsafe impl Element for f16 {
    const DTYPE: DType = DType::F16;
}

// SAFETY: as above; `bf16` wraps a `u16` transparently.
unsafe impl Element for bf16 {
    const DTYPE: DType = DType::BF16;
}

// SAFETY: as above.
unsafe impl Element for f32 {
    const DTYPE: DType = DType::F32;
}

// SAFETY: as above.
unsafe impl Element for f64 {
    const DTYPE: DType = DType::F64;
}
