//! Elementwise loops over slices.

use super::super::simd::prefetch::Prefetch;
use super::macros::{map, zip, zip_with_slice};
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

/// `out[i] = op(x[i])`; loops over f32 request the memory in `ahead`.
///
/// # Panics
/// If the lengths differ, or if `op` does not take `T` to `T`, such as a transcendental function of an integer.
pub fn unary<T: Element>(op: Unary, x: &[T], out: &mut [T], ahead: Prefetch) {
    assert_eq!(x.len(), out.len());
    dispatch(UnaryKernel { op, x, out, ahead });
    T::finish_unary(op, x, out);
}

/// `out[i] = op(a[i], b[i])`; loops over f32 request the memory in `ahead`.
///
/// # Panics
/// If the lengths differ, or if `op` does not take `T` to `T`, such as a bit operation on floats or a comparison.
pub fn binary<T: Element>(op: Binary, a: Operand<T>, b: Operand<T>, out: &mut [T], ahead: Prefetch) {
    dispatch(BinaryKernel { op, a: a.checked(out.len()), b: b.checked(out.len()), out, ahead });
}

/// `out[i] = op(a[i], b[i])` as 0 or 1; all comparisons but `Ne` are false where an argument is NaN.
///
/// # Panics
/// If the lengths differ, or if `op` is not a comparison.
pub fn compare<T: Element>(op: Binary, a: Operand<T>, b: Operand<T>, out: &mut [u8]) {
    dispatch(CompareKernel { op, a: a.checked(out.len()), b: b.checked(out.len()), out });
}

/// `out[i] = if condition[i] != 0 { a[i] } else { b[i] }`.
///
/// # Panics
/// If the lengths differ.
pub fn select<T: Copy + 'static>(condition: &[u8], a: Operand<T>, b: Operand<T>, out: &mut [T]) {
    assert_eq!(condition.len(), out.len());
    dispatch(SelectKernel { condition, a: a.checked(out.len()), b: b.checked(out.len()), out });
}

/// `out[i] = a[i]·b[i] + c[i]`, in one rounding on floats where the machine has the instruction.
///
/// # Panics
/// If the lengths differ.
pub fn mul_add<T: Element>(a: &[T], b: Operand<T>, c: Operand<T>, out: &mut [T]) {
    assert_eq!(a.len(), out.len());
    dispatch(MulAddKernel { a, b: b.checked(out.len()), c: c.checked(out.len()), out });
}

impl<T> Operand<'_, T> {
    fn checked(self, len: usize) -> Self {
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
    /// The loops of [`unary`].
    fn unary_loops<I: Isa>(op: Unary, x: &[Self], out: &mut [Self], ahead: Prefetch);
    /// The loops of [`binary`].
    fn binary_loops<I: Isa>(
        op: Binary,
        a: Operand<Self>,
        b: Operand<Self>,
        out: &mut [Self],
        ahead: Prefetch,
    );
    /// `a·b + c` of one element.
    fn mul_add<I: Isa>(a: Self, b: Self, c: Self) -> Self;
    /// Computes the few elements that the loops of [`unary`] do not cover.
    fn finish_unary(_op: Unary, _x: &[Self], _out: &mut [Self]) {}
}

struct UnaryKernel<'a, T> {
    op: Unary,
    x: &'a [T],
    out: &'a mut [T],
    ahead: Prefetch,
}
impl<T: Element> Kernel for UnaryKernel<'_, T> {
    type Output = ();
    const IS_HOT: bool = T::IS_HOT;
    #[inline(always)]
    fn run<I: Isa>(self) {
        T::unary_loops::<I>(self.op, self.x, self.out, self.ahead);
    }
}

struct BinaryKernel<'a, T> {
    op: Binary,
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    out: &'a mut [T],
    ahead: Prefetch,
}
impl<T: Element> Kernel for BinaryKernel<'_, T> {
    type Output = ();
    const IS_HOT: bool = T::IS_HOT;
    #[inline(always)]
    fn run<I: Isa>(self) {
        T::binary_loops::<I>(self.op, self.a, self.b, self.out, self.ahead);
    }
}

struct CompareKernel<'a, T> {
    op: Binary,
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    out: &'a mut [u8],
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
        zip_with_slice!(condition, a, b, out, (c, u, v) => if c != 0 { u } else { v });
    }
}

struct MulAddKernel<'a, T> {
    a: &'a [T],
    b: Operand<'a, T>,
    c: Operand<'a, T>,
    out: &'a mut [T],
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
