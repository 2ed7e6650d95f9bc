//! Elementwise loops over slices.

use super::macros::{map, zip, zip_with_slice};
use crate::simd::prefetch::Prefetch;
use engine_core::ir::{Binary, Unary};
use engine_core::op::simd::{Isa, Kernel, dispatch};

/// An argument of a loop: one value for each element, or one for all.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a, T> {
    /// One value for each element; as long as the output.
    Slice(&'a [T]),
    /// The same value for every element.
    Scalar(T),
}

/// `out[i] = if condition[i] != 0 { a[i] } else { b[i] }`.
///
/// # Panics
/// If the lengths differ.
pub fn select<T: Copy + 'static>(condition: &[u8], a: Operand<T>, b: Operand<T>, out: &mut [T]) {
    assert_eq!(condition.len(), out.len());
    dispatch(SelectKernel { condition, a: a.checked(out.len()), b: b.checked(out.len()), out });
}

impl<T> Operand<'_, T> {
    pub(super) fn checked(self, len: usize) -> Self {
        if let Operand::Slice(values) = &self {
            assert_eq!(values.len(), len);
        }
        self
    }
}

/// A type that loops compute in.
pub trait Element: Copy + PartialOrd + Send + Sync + 'static {
    /// Whether loops over the type are worth a version for each instruction set.
    const IS_HOT: bool = false;
    /// The loops of `unary`.
    fn unary_loops<I: Isa>(op: Unary, x: &[Self], out: &mut [Self], ahead: Prefetch);
    /// The loops of `binary`.
    fn binary_loops<I: Isa>(
        op: Binary,
        a: Operand<Self>,
        b: Operand<Self>,
        out: &mut [Self],
        ahead: Prefetch,
    );
    /// `a·b + c` of one element.
    fn mul_add<I: Isa>(a: Self, b: Self, c: Self) -> Self;
    /// Computes the few elements that the loops of `unary` do not cover.
    fn finish_unary(_op: Unary, _x: &[Self], _out: &mut [Self]) {}
}

/// `unary` as a loop of an instruction set.
pub struct UnaryKernel<'a, T> {
    pub(super) op: Unary,
    pub(super) x: &'a [T],
    pub(super) out: &'a mut [T],
    pub(super) ahead: Prefetch,
}
impl<T: Element> Kernel for UnaryKernel<'_, T> {
    type Output = ();
    const IS_HOT: bool = T::IS_HOT;
    #[inline(always)]
    fn run<I: Isa>(self) {
        T::unary_loops::<I>(self.op, self.x, self.out, self.ahead);
    }
}

/// `binary` as a loop of an instruction set.
pub struct BinaryKernel<'a, T> {
    pub(super) op: Binary,
    pub(super) a: Operand<'a, T>,
    pub(super) b: Operand<'a, T>,
    pub(super) out: &'a mut [T],
    pub(super) ahead: Prefetch,
}
impl<T: Element> Kernel for BinaryKernel<'_, T> {
    type Output = ();
    const IS_HOT: bool = T::IS_HOT;
    #[inline(always)]
    fn run<I: Isa>(self) {
        T::binary_loops::<I>(self.op, self.a, self.b, self.out, self.ahead);
    }
}

/// `compare` as a loop of an instruction set.
pub struct CompareKernel<'a, T> {
    pub(super) op: Binary,
    pub(super) a: Operand<'a, T>,
    pub(super) b: Operand<'a, T>,
    pub(super) out: &'a mut [u8],
}
impl<T: Element> Kernel for CompareKernel<'_, T> {
    type Output = ();
    const IS_HOT: bool = T::IS_HOT;
    #[inline(always)]
    fn run<I: Isa>(self) {
        let CompareKernel { op, a, b, out } = self;
        match op {
            Binary::Eq => zip!(a, b, out, (u, v) => (u == v) as u8),
            Binary::Ne => zip!(a, b, out, (u, v) => (u != v) as u8),
            Binary::Lt => zip!(a, b, out, (u, v) => (u < v) as u8),
            Binary::Le => zip!(a, b, out, (u, v) => (u <= v) as u8),
            Binary::Gt => zip!(a, b, out, (u, v) => (u > v) as u8),
            Binary::Ge => zip!(a, b, out, (u, v) => (u >= v) as u8),
            other => undefined(other, "comparisons"),
        }
    }
}

struct SelectKernel<'a, T> {
    condition: &'a [u8],
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    out: &'a mut [T],
}
impl<T: Copy + 'static> Kernel for SelectKernel<'_, T> {
    type Output = ();
    const IS_HOT: bool = size_of::<T>() == size_of::<f32>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let SelectKernel { condition, a, b, out } = self;
        zip_with_slice!(condition, a, b, out, (c, u, v) => std::hint::select_unpredictable(c != 0, u, v));
    }
}

/// `mul_add` as a loop of an instruction set.
pub struct MulAddKernel<'a, T> {
    pub(super) a: &'a [T],
    pub(super) b: Operand<'a, T>,
    pub(super) c: Operand<'a, T>,
    pub(super) out: &'a mut [T],
}
impl<T: Element> Kernel for MulAddKernel<'_, T> {
    type Output = ();
    const IS_HOT: bool = T::IS_HOT;
    #[inline(always)]
    fn run<I: Isa>(self) {
        let MulAddKernel { a, b, c, out } = self;
        zip_with_slice!(a, b, c, out, (u, v, w) => T::mul_add::<I>(u, v, w));
    }
}

#[cold]
pub(super) fn undefined(op: impl std::fmt::Debug, kind: &str) -> ! {
    panic!("bug: {op:?} is not defined on {kind}, and typing should have refused it")
}
