//! Element types.

use std::fmt;

/// The type of one element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Truth value, one byte (0 or 1).
    Bool,
    /// Unsigned byte.
    U8,
    /// 32-bit signed integer; the type of indices unless asked otherwise.
    I32,
    /// 64-bit signed integer.
    I64,
    /// 32-bit unsigned integer; the type of random bits.
    U32,
    /// IEEE half precision; accumulates in [`DType::F32`].
    F16,
    /// bfloat16; accumulates in [`DType::F32`].
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision; the type of the reference interpreter.
    F64,
}

impl DType {
    /// Every element type, in order of declaration.
    pub const ALL: [DType; 9] = [
        DType::Bool,
        DType::U8,
        DType::I32,
        DType::I64,
        DType::U32,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Bytes that one element takes.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 => 1,
            DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// The name used in graphs: `f32`, `bool`, ...
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U32 => "u32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The type of that name, if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Whether this is an integer type (booleans are not).
    pub const fn is_int(self) -> bool {
        matches!(self, DType::U8 | DType::I32 | DType::I64 | DType::U32)
    }

    /// The type in which sums of this type are kept: `f32` for the small floats, itself otherwise.
    pub const fn accumulator(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
