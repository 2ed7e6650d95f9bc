//! Ranks: unsigned numbers in the order of the elements.

use engine_core::op::kernel::Element;
use half::{bf16, f16};

/// Elements with an order.
pub trait Ranked: Element + PartialOrd {
    /// An unsigned number that is smaller for an element that comes first. Equal elements have equal ranks, and NaN has
    /// the largest.
    fn rank(self, descending: bool) -> u64;

    /// The element with that rank.
    fn of_rank(rank: u64, descending: bool) -> Self;

    /// The value for a missing element: the number that comes last.
    fn last(descending: bool) -> Self;

    /// Whether ranks have 32 bits, so that an index fits into the same word.
    const IS_NARROW: bool;
}

macro_rules! ranked_ints {
    ($($ty:ty, $bits:ty, $flip:expr;)*) => {$(
        impl Ranked for $ty {
            fn rank(self, descending: bool) -> u64 {
                let ascending = self as $bits ^ $flip;
                (if descending { !ascending } else { ascending }) as u64
            }

            fn of_rank(rank: u64, descending: bool) -> $ty {
                let ascending = if descending { !(rank as $bits) } else { rank as $bits };
                (ascending ^ $flip) as $ty
            }

            fn last(descending: bool) -> $ty {
                if descending { <$ty>::MIN } else { <$ty>::MAX }
            }

            const IS_NARROW: bool = size_of::<$ty>() <= 4;
        }
    )*};
}
ranked_ints! {
    u8, u8, 0;
    u32, u32, 0;
    i8, u8, 1 << 7;
    i16, u16, 1 << 15;
    u16, u16, 0;
    i32, u32, 1 << 31;
    i64, u64, 1 << 63;
}

/// Flips the sign bit of positive numbers, and all bits of negative ones, so that bits compare like numbers. The rank
/// of both zeros is 0's, and that of NaN is all ones. No number has the rank of NaN, in either direction.
macro_rules! ranked_floats {
    ($($ty:ty, $bits:ty, $zero:expr, $nan:expr;)*) => {$(
        impl Ranked for $ty {
            fn rank(self, descending: bool) -> u64 {
                if self.is_nan() {
                    return <$bits>::MAX as u64;
                }
                let bits = if self == $zero { 0 } else { self.to_bits() };
                let sign = 1 << (<$bits>::BITS - 1);
                let ascending = if bits & sign == 0 { bits | sign } else { !bits };
                (if descending { !ascending } else { ascending }) as u64
            }

            fn of_rank(rank: u64, descending: bool) -> $ty {
                if rank as $bits == <$bits>::MAX {
                    return $nan;
                }
                let ascending = if descending { !(rank as $bits) } else { rank as $bits };
                let sign = 1 << (<$bits>::BITS - 1);
                <$ty>::from_bits(if ascending & sign == 0 { !ascending } else { ascending & !sign })
            }

            fn last(descending: bool) -> $ty {
                if descending { <$ty>::NEG_INFINITY } else { <$ty>::INFINITY }
            }

            const IS_NARROW: bool = size_of::<$ty>() <= 4;
        }
    )*};
}
ranked_floats! {
    f32, u32, 0.0, f32::NAN;
    f64, u64, 0.0, f64::NAN;
    f16, u16, f16::ZERO, f16::NAN;
    bf16, u16, bf16::ZERO, bf16::NAN;
}

/// Binds `$T` to the Rust type of the elements of a tensor.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            engine_core::ir::DType::Bool | engine_core::ir::DType::U8 => {
                type $T = u8;
                $body
            }
            engine_core::ir::DType::I8 => {
                type $T = i8;
                $body
            }
            engine_core::ir::DType::I16 => {
                type $T = i16;
                $body
            }
            engine_core::ir::DType::U16 => {
                type $T = u16;
                $body
            }
            engine_core::ir::DType::I32 => {
                type $T = i32;
                $body
            }
            engine_core::ir::DType::I64 => {
                type $T = i64;
                $body
            }
            engine_core::ir::DType::U32 => {
                type $T = u32;
                $body
            }
            engine_core::ir::DType::F16 => {
                type $T = half::f16;
                $body
            }
            engine_core::ir::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            engine_core::ir::DType::F32 => {
                type $T = f32;
                $body
            }
            engine_core::ir::DType::F64 => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(crate) use with_element;

/// A rank with the index of its element: entries compare by rank, then by index.
pub trait Entry: Copy + Ord + Send + Sync + 'static {
    /// An entry.
    fn new(rank: u64, index: usize) -> Self;
    /// The rank.
    fn rank(self) -> u64;
    /// The index.
    fn index(self) -> usize;
    /// Memory as entries. A remainder smaller than an entry is omitted.
    fn slice(words: &mut [u64]) -> &mut [Self];
    /// The entry in these words.
    fn read(words: &[u64]) -> Self;
}

impl Entry for u64 {
    fn new(rank: u64, index: usize) -> u64 {
        rank << 32 | index as u64
    }

    fn rank(self) -> u64 {
        self >> 32
    }

    fn index(self) -> usize {
        (self & u64::from(u32::MAX)) as usize
    }

    fn slice(words: &mut [u64]) -> &mut [u64] {
        words
    }

    fn read(words: &[u64]) -> u64 {
        words[0]
    }
}

impl Entry for [u64; 2] {
    fn new(rank: u64, index: usize) -> [u64; 2] {
        [rank, index as u64]
    }

    fn rank(self) -> u64 {
        self[0]
    }

    fn index(self) -> usize {
        self[1] as usize
    }

    fn slice(words: &mut [u64]) -> &mut [[u64; 2]] {
        words.as_chunks_mut().0
    }

    fn read(words: &[u64]) -> [u64; 2] {
        [words[0], words[1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Ranked + std::fmt::Debug>(ascending: &[T]) {
        for descending in [false, true] {
            let ranks: Vec<u64> = ascending.iter().map(|x| x.rank(descending)).collect();
            let is_sorted = ranks.windows(2).all(|pair| (pair[0] < pair[1]) != descending);
            assert!(is_sorted, "{ascending:?}");
            for (x, rank) in ascending.iter().zip(ranks) {
                assert_eq!(T::of_rank(rank, descending), *x);
            }
        }
    }

    #[test]
    fn ranks_sort_as_elements_do_and_can_be_undone() {
        let inf = f32::INFINITY;
        check(&[-inf, f32::MIN, -1.0, -1e-45, 0.0, f32::MIN_POSITIVE, 1.0, f32::MAX, inf]);
        check(&[f64::NEG_INFINITY, -1.5, 0.0, 1e-300, f64::INFINITY]);
        check(&[f16::NEG_INFINITY, -f16::ONE, f16::ZERO, f16::ONE, f16::INFINITY]);
        check(&[bf16::NEG_INFINITY, -bf16::ONE, bf16::ZERO, bf16::ONE, bf16::INFINITY]);
        check(&[i32::MIN, -1, 0, 1, i32::MAX]);
        check(&[i64::MIN, -1, 0, 1, i64::MAX]);
        check(&[0u32, 1, u32::MAX]);
        check(&[0u8, 1, u8::MAX]);
        check(&[i8::MIN, -1, 0, 1, i8::MAX]);
        check(&[i16::MIN, -1, 0, 1, i16::MAX]);
        check(&[0u16, 1, u16::MAX]);
    }

    #[test]
    fn zeros_are_equal_and_nan_comes_last() {
        for descending in [false, true] {
            assert_eq!((-0.0f32).rank(descending), 0.0f32.rank(descending));
            for x in [f32::NEG_INFINITY, f32::INFINITY] {
                assert!(f32::NAN.rank(descending) > x.rank(descending));
            }
            assert_eq!((-f32::NAN).rank(descending), f32::NAN.rank(descending));
            assert!(f32::of_rank(f32::NAN.rank(descending), descending).is_nan());
        }
    }
}
