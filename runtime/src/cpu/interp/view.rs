//! Memory of blocks and operands, typed at run time.

use engine_core::ir::{DType, Literal};
use engine_numerics::loops::Operand;
use half::{bf16, f16};

/// The memory of an operand.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// The first byte.
    pub start: *mut u8,
    /// The number of elements.
    pub len: usize,
    /// The bytes of an element.
    pub size: usize,
}

// SAFETY: a buffer is an address; all access is `unsafe` with its own argument.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The buffer of an operand that is not bound.
    pub const UNBOUND: Buffer = Buffer { start: std::ptr::null_mut(), len: 0, size: 1 };
}

/// A block of values: one for each point, or one for all points.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The first value.
    pub start: *const u8,
    /// Whether it is the value of all points.
    pub is_scalar: bool,
}

// SAFETY: a view is an address; reading through it is `unsafe` with its own argument.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// A view that is not set.
    pub const UNSET: View = View { start: std::ptr::null(), is_scalar: true };

    /// A block of `len` values.
    pub fn block(start: *const u8, len: usize) -> View {
        View { start, is_scalar: len == 1 }
    }

    /// # Safety
    /// The values must be of type `T`, `len` of them or one if scalar, and not written while the operand lives.
    pub unsafe fn operand<'a, T: Copy>(self, len: usize) -> Operand<'a, T> {
        // SAFETY: the caller's.
        unsafe {
            if self.is_scalar {
                Operand::Scalar(*self.start.cast::<T>())
            } else {
                Operand::Slice(std::slice::from_raw_parts(self.start.cast(), len))
            }
        }
    }

    /// # Safety
    /// As for [`View::operand`]; the view must not be scalar, unless `len` is 1.
    pub unsafe fn slice<'a, T>(self, len: usize) -> &'a [T] {
        debug_assert!(!self.is_scalar || len == 1);
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts(self.start.cast(), len) }
    }
}

/// Binds `$T` to the Rust type that a type is computed in. Half precision is computed in f32.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        engine_numerics::match_type!(
            $dtype, $T => $body,
            DType::Bool | DType::U8 => u8,
            DType::I8 => i8,
            DType::I16 => i16,
            DType::U16 => u16,
            DType::I32 => i32,
            DType::I64 => i64,
            DType::U32 => u32,
            DType::F32 => f32,
            DType::F64 => f64;
            DType::F16 | DType::BF16 => panic!("bug: half precision is computed in f32")
        )
    };
}
pub(crate) use with_type;

/// Binds `$T` to the unsigned type of a size in bytes, to move elements of any type.
macro_rules! with_size {
    ($size:expr, $T:ident => $body:expr) => {
        engine_numerics::match_type!($size, $T => $body, 1 => u8, 2 => u16, 4 => u32, _ => u64)
    };
}
pub(crate) use with_size;

/// # Safety
/// `start` must be valid for `len` values, and the slice must be their only user while it lives.
pub unsafe fn slice_mut<'a, T>(start: *mut u8, len: usize) -> &'a mut [T] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), len) }
}

/// Repeats or copies an operand.
pub fn copy<T: Copy>(from: Operand<T>, out: &mut [T]) {
    match from {
        Operand::Slice(values) => out.copy_from_slice(values),
        Operand::Scalar(value) => out.fill(value),
    }
}

/// The bytes of a literal in a type, in the low end.
pub fn literal_bits(literal: &Literal, dtype: DType) -> u64 {
    match dtype {
        DType::Bool => (literal.as_f64() != 0.0) as u64,
        DType::F16 => f16::from_f64(literal.as_f64()).to_bits() as u64,
        DType::BF16 => bf16::from_f64(literal.as_f64()).to_bits() as u64,
        DType::F32 => (literal.as_f64() as f32).to_bits() as u64,
        DType::F64 => literal.as_f64().to_bits(),
        _ => literal.as_i64() as u64 & (u64::MAX >> (64 - 8 * dtype.size())),
    }
}
