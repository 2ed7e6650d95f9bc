//! Arithmetic on vectors as types, so that a loop is compiled for each operation.

use super::lanes::Lanes;

/// An operation on two vectors.
pub trait Operation {
    /// # Safety
    /// As for [`Lanes`].
    unsafe fn apply<V: Lanes>(a: V, b: V) -> V;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident: |$a:ident, $b:ident| $value:expr;)*) => { $(
        $(#[$doc])*
        pub struct $name;
        impl Operation for $name {
            #[inline(always)]
            unsafe fn apply<V: Lanes>($a: V, $b: V) -> V {
                // SAFETY: the caller's.
                unsafe { $value }
            }
        }
    )* };
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
