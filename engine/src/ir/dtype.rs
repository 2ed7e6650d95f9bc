//! Element types.

use std::fmt;

/// The type of one element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Truth value, one byte (0 or 1).
    Bool,
    /// Unsigned byte.
    U8,
    /// 8-bit signed integer.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit signed integer; the default type of indices.
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
    pub const ALL: [DType; 12] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::U16,
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
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// The name used in graphs: `f32`, `bool`, ...
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U32 => "u32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The type with that name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Whether this is an integer type (booleans are not).
    pub const fn is_int(self) -> bool {
        self.int_range().is_some()
    }

    /// Whether this is an integer type with negative numbers.
    pub const fn is_signed_int(self) -> bool {
        matches!(self.int_range(), Some((low, _)) if low < 0)
    }

    /// Whether numbers of this type can be indices: every integer type but [`DType::U32`], the type of random bits.
    pub const fn is_index(self) -> bool {
        self.is_int() && !matches!(self, DType::U32)
    }

    /// The type in which indices of an index type are compared with extents: `i32`, or `i64` for itself.
    pub const fn index_type(self) -> DType {
        if self.size() == 8 { DType::I64 } else { DType::I32 }
    }

    /// The distance from 1 to the next larger number of a float type; 0 for all others.
    pub const fn epsilon(self) -> f64 {
        match self {
            DType::F16 => 1.0 / (1u64 << 10) as f64,
            DType::BF16 => 1.0 / (1u64 << 7) as f64,
            DType::F32 => 1.0 / (1u64 << 23) as f64,
            DType::F64 => 1.0 / (1u64 << 52) as f64,
            _ => 0.0,
        }
    }

    /// The smallest and the largest value of an integer type.
    pub const fn int_range(self) -> Option<(i64, i64)> {
        match self {
            DType::U8 => Some((0, u8::MAX as i64)),
            DType::I8 => Some((i8::MIN as i64, i8::MAX as i64)),
            DType::I16 => Some((i16::MIN as i64, i16::MAX as i64)),
            DType::U16 => Some((0, u16::MAX as i64)),
            DType::I32 => Some((i32::MIN as i64, i32::MAX as i64)),
            DType::U32 => Some((0, u32::MAX as i64)),
            DType::I64 => Some((i64::MIN, i64::MAX)),
            DType::Bool | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => None,
        }
    }

    /// The largest finite value of the type.
    pub const fn largest(self) -> f64 {
        match self {
            DType::F16 => 65504.0,
            DType::BF16 => f32::from_bits(0x7f7f_0000) as f64,
            DType::F32 => f32::MAX as f64,
            DType::F64 => f64::MAX,
            DType::Bool => 1.0,
            _ => match self.int_range() {
                Some((_, high)) => high as f64,
                None => 0.0,
            },
        }
    }

    /// An integer without the bits above the width of an integer type, sign-extended if that has negative numbers. A
    /// truth value is `x != 0`.
    pub const fn wrap(self, x: i64) -> i64 {
        let unused = 64 - 8 * self.size() as u32;
        match self.int_range() {
            Some((0, _)) => ((x as u64) << unused >> unused) as i64,
            Some(_) => x << unused >> unused,
            None => (x != 0) as i64,
        }
    }

    /// A number as an element of an integer type: truncated, at the end of the range if it lies outside, and 0 for NaN.
    /// A truth value is `x != 0`.
    pub fn saturate(self, x: f64) -> i64 {
        match self.int_range() {
            Some((low, high)) => (x as i64).clamp(low, high),
            None => (x != 0.0) as i64,
        }
    }

    /// The accumulator type of sums: `f32` for the small floats, the type itself otherwise.
    pub const fn accumulator(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// Whether both are floats, and `to` has more digits and a larger range: each number of this type is one of `to`.
    pub const fn widens_to(self, to: DType) -> bool {
        self.is_float() && to.is_float() && 2 * self.size() <= to.size()
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::DType;

    /// Rust's `as` wraps integers, and truncates and saturates floats.
    #[test]
    fn integers_wrap_and_saturate_as_those_of_rust_do() {
        let wholes = [
            0,
            1,
            -1,
            127,
            128,
            -128,
            -129,
            255,
            256,
            32767,
            32768,
            -32769,
            65535,
            65536,
            i64::MIN,
            i64::MAX,
        ];
        let floats = [
            0.0,
            -0.9,
            0.9,
            127.9,
            128.0,
            -129.5,
            256.0,
            -32769.0,
            65536.5,
            1e10,
            -1e30,
            f64::INFINITY,
            f64::NAN,
        ];
        macro_rules! check {
            ($($dtype:ident $type:ident)*) => { $(
                for n in wholes {
                    assert_eq!(DType::$dtype.wrap(n), n as $type as i64, "{n}");
                }
                for x in floats {
                    assert_eq!(DType::$dtype.saturate(x), x as $type as i64, "{x}");
                }
                assert_eq!(DType::$dtype.int_range(), Some(($type::MIN as i64, $type::MAX as i64)));
            )* };
        }
        check! { U8 u8 I8 i8 I16 i16 U16 u16 I32 i32 I64 i64 U32 u32 }
        for dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
            assert_eq!(dtype.is_int(), dtype.name().starts_with(['i', 'u']), "{dtype}");
            assert_eq!(dtype.is_signed_int(), dtype.name().starts_with('i'), "{dtype}");
        }
    }
}
