//! Arithmetic on vectors as types, so that a loop is compiled for each operation.

use engine_core::ir::Binary;
use engine_core::op::simd::Lanes;

/// An operation on two vectors.
pub trait Operation {
    /// # Safety
    /// As for [`Lanes`].
    unsafe fn apply<V: Lanes>(a: V, b: V) -> V;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident: |$a:ident, $b:ident| $value:expr;)*) => {
        $(
            $(#[$doc])*
            pub struct $name;
            impl Operation for $name {
                #[inline(always)]
                unsafe fn apply<V: Lanes>($a: V, $b: V) -> V {
                    // SAFETY: the caller's.
                    unsafe { $value }
                }
            }
        )*

        /// An [`Operation`] as a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Arithmetic {
            $($(#[$doc])* $name,)*
        }

        #[cfg(test)]
        impl Arithmetic {
            /// All operations.
            pub const ALL: &[Arithmetic] = &[$(Arithmetic::$name),*];
        }
    };
}
operations! {
    /// a + b
    Add: |a, b| a.plus(b);
    /// a - b
    Sub: |a, b| a.minus(b);
    /// b - a
    SubFrom: |a, b| b.minus(a);
    /// a · b
    Mul: |a, b| a.times(b);
    /// a / b
    Div: |a, b| a.over(b);
    /// b / a
    DivInto: |a, b| b.over(a);
    /// The larger; NaN if either is NaN.
    Max: |a, b| a.larger(b);
    /// The smaller; NaN if either is NaN.
    Min: |a, b| a.smaller(b);
}

impl Arithmetic {
    /// `op`, if it can be part of a pair.
    pub fn of(op: Binary) -> Option<Arithmetic> {
        Some(match op {
            Binary::Add => Arithmetic::Add,
            Binary::Sub => Arithmetic::Sub,
            Binary::Mul => Arithmetic::Mul,
            Binary::Div => Arithmetic::Div,
            Binary::Max => Arithmetic::Max,
            Binary::Min => Arithmetic::Min,
            _ => return None,
        })
    }

    /// The operation with its operands exchanged; none for extremes, whose order decides between NaNs and zeros.
    pub fn flipped(self) -> Option<Arithmetic> {
        Some(match self {
            Arithmetic::Add | Arithmetic::Mul => self,
            Arithmetic::Sub => Arithmetic::SubFrom,
            Arithmetic::SubFrom => Arithmetic::Sub,
            Arithmetic::Div => Arithmetic::DivInto,
            Arithmetic::DivInto => Arithmetic::Div,
            Arithmetic::Max | Arithmetic::Min => return None,
        })
    }
}
