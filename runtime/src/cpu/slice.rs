//! Elementwise kernels over slices: the instructions of the block interpreter.
//!
//! Every function here reads whole slices and writes a whole slice of the same length that is none of its inputs.
//! Integers wrap; an integer divided by 0 gives 0, and so does its remainder; a negative power of an integer is the
//! truncated reciprocal; shifts by the width or more, or by less than 0, leave the sign.
//! Booleans are `u8`, 0 or 1. f16 and bf16 are computed in
//! f32 between two [`cast`]s.

use super::math;
use super::simd::isa::{Isa, Kernel, dispatch};
use super::simd::prefetch::{CHUNK, Prefetch};
use engine_core::ir::{Binary, Unary};
use half::{bf16, f16, slice::HalfFloatSliceExt};

/// An argument of a kernel: one value an element, or one for all.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a, T> {
    /// One value for each element; as long as the output.
    Slice(&'a [T]),
    /// The same value for every element.
    Scalar(T),
}

/// `out[i] = op(x[i])`.
///
/// # Panics
/// If the lengths differ, or if `op` does not take `T` to `T` (a transcendental function of an integer, [`is_nan`]).
pub fn unary<T: Element>(op: Unary, x: &[T], out: &mut [T]) {
    unary_with_prefetch(op, x, out, Prefetch::NOTHING);
}

/// Like [`unary`], and a loop over f32 asks meanwhile for the memory in `ahead`.
pub(super) fn unary_with_prefetch<T: Element>(op: Unary, x: &[T], out: &mut [T], ahead: Prefetch) {
    assert_eq!(x.len(), out.len());
    dispatch(UnaryKernel { op, x, out, ahead });
    T::finish_unary(op, x, out);
}

/// `out[i] = op(x[i]·scale + shift)`, the product and the sum each rounded; asks meanwhile for the memory in `ahead`.
///
/// # Panics
/// If the lengths differ, or if `op` is not one of the exponential, logarithm, hyperbolic tangent and error functions.
pub(super) fn affine_unary(op: Unary, x: &[f32], scale: f32, shift: f32, out: &mut [f32], ahead: Prefetch) {
    assert_eq!(x.len(), out.len());
    dispatch(AffineKernel { op, x, scale, shift, out, ahead });
}

/// `out[i] = op(a[i], b[i])`.
///
/// # Panics
/// If the lengths differ, or if `op` does not take `T` to `T` (a bit operation on floats, a comparison).
pub fn binary<T: Element>(op: Binary, a: Operand<T>, b: Operand<T>, out: &mut [T]) {
    binary_with_prefetch(op, a, b, out, Prefetch::NOTHING);
}

/// Like [`binary`], and a loop over f32 asks meanwhile for the memory in `ahead`.
pub(super) fn binary_with_prefetch<T: Element>(
    op: Binary,
    a: Operand<T>,
    b: Operand<T>,
    out: &mut [T],
    ahead: Prefetch,
) {
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

/// `out[i] = 1` where `x[i]` is not equal to itself, else 0.
///
/// # Panics
/// If the lengths differ.
pub fn is_nan<T: Element>(x: &[T], out: &mut [u8]) {
    compare(Binary::Ne, Operand::Slice(x), Operand::Slice(x), out);
}

/// `out[i] = 1` where `x[i]` is 0, else 0.
///
/// # Panics
/// If the lengths differ.
pub fn logical_not(x: &[u8], out: &mut [u8]) {
    compare(Binary::Eq, Operand::Slice(x), Operand::Scalar(0), out);
}

/// `out[i] = a[i]·b[i] + c[i]`, in one rounding on floats where the machine has the instruction.
///
/// # Panics
/// If the lengths differ.
pub fn mul_add<T: Element>(a: &[T], b: Operand<T>, c: Operand<T>, out: &mut [T]) {
    assert_eq!(a.len(), out.len());
    dispatch(MulAddKernel { a, b: b.checked(out.len()), c: c.checked(out.len()), out });
}

/// `out[i] = x[i]` in another type: floats to integers truncate and saturate (NaN is 0), integers wrap, floats round
/// to nearest even.
///
/// # Panics
/// If the lengths differ.
pub fn cast<S: CastTo<D>, D>(x: &[S], out: &mut [D]) {
    assert_eq!(x.len(), out.len());
    S::cast_slice(x, out);
}

impl<T> Operand<'_, T> {
    fn checked(self, len: usize) -> Self {
        if let Operand::Slice(values) = &self {
            assert_eq!(values.len(), len);
        }
        self
    }
}

/// A type that kernels compute in.
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
    /// Computes anew the few elements that the loops of [`unary`] do not serve.
    fn finish_unary(_op: Unary, _x: &[Self], _out: &mut [Self]) {}
}

/// A type whose slices convert to slices of `D`.
pub trait CastTo<D>: Sized {
    /// The loop of [`cast`].
    fn cast_slice(x: &[Self], out: &mut [D]);
}

// The loops are macros and not closures because nothing may hinder their inlining: a call left inside a loop
// would keep it from being vectorised.

macro_rules! map {
    ($x:expr, $out:expr, $v:ident => $value:expr) => {
        for (out, &$v) in $out.iter_mut().zip($x) {
            *out = $value;
        }
    };
}

/// Chunks of a constant length need no bookkeeping at their ends.
macro_rules! map_with_prefetch {
    ($x:expr, $out:expr, $ahead:expr, $v:ident => $value:expr) => {{
        let (chunks, rest) = $x.as_chunks::<CHUNK>();
        let (out_chunks, out_rest) = $out.as_chunks_mut::<CHUNK>();
        let mut requests = $ahead.over(chunks.len());
        for (out, x) in out_chunks.iter_mut().zip(chunks) {
            requests.step();
            map!(x, out, $v => $value);
        }
        map!(rest, out_rest, $v => $value);
    }};
}

/// A function of whole chunks, of `argument`.
macro_rules! map_chunks {
    ($x:expr, $out:expr, $ahead:expr, $v:ident => $function:expr, $argument:expr) => {{
        let (chunks, rest) = $x.as_chunks::<CHUNK>();
        let (out_chunks, out_rest) = $out.as_chunks_mut::<CHUNK>();
        let mut requests = $ahead.over(chunks.len());
        let mut values = [0f32; CHUNK];
        for (out, x) in out_chunks.iter_mut().zip(chunks) {
            requests.step();
            map!(x, values, $v => $argument);
            $function(&mut values);
            *out = values;
        }
        if !rest.is_empty() {
            map!(rest, values, $v => $argument);
            $function(&mut values);
            out_rest.copy_from_slice(&values[..rest.len()]);
        }
    }};
}

macro_rules! zip {
    ($a:expr, $b:expr, $out:expr, ($u:ident, $v:ident) => $value:expr) => {
        match ($a, $b) {
            (Operand::Slice(a), Operand::Slice(b)) => {
                for ((out, &$u), &$v) in $out.iter_mut().zip(a).zip(b) {
                    *out = $value;
                }
            }
            (Operand::Slice(a), Operand::Scalar($v)) => map!(a, $out, $u => $value),
            (Operand::Scalar($u), Operand::Slice(b)) => map!(b, $out, $v => $value),
            (Operand::Scalar($u), Operand::Scalar($v)) => $out.fill($value),
        }
    };
}

macro_rules! zip_with_prefetch {
    ($a:expr, $b:expr, $out:expr, $ahead:expr, ($u:ident, $v:ident) => $value:expr) => {
        match ($a, $b) {
            (Operand::Slice(a), Operand::Slice(b)) => {
                let ((a_chunks, a_rest), (b_chunks, b_rest)) = (a.as_chunks::<CHUNK>(), b.as_chunks::<CHUNK>());
                let (out_chunks, out_rest) = $out.as_chunks_mut::<CHUNK>();
                let mut requests = $ahead.over(a_chunks.len());
                for ((out, a), b) in out_chunks.iter_mut().zip(a_chunks).zip(b_chunks) {
                    requests.step();
                    for ((out, &$u), &$v) in out.iter_mut().zip(a).zip(b) {
                        *out = $value;
                    }
                }
                for ((out, &$u), &$v) in out_rest.iter_mut().zip(a_rest).zip(b_rest) {
                    *out = $value;
                }
            }
            (Operand::Slice(a), Operand::Scalar($v)) => map_with_prefetch!(a, $out, $ahead, $u => $value),
            (Operand::Scalar($u), Operand::Slice(b)) => map_with_prefetch!(b, $out, $ahead, $v => $value),
            (Operand::Scalar($u), Operand::Scalar($v)) => $out.fill($value),
        }
    };
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

struct AffineKernel<'a> {
    op: Unary,
    x: &'a [f32],
    scale: f32,
    shift: f32,
    out: &'a mut [f32],
    ahead: Prefetch,
}
impl Kernel for AffineKernel<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let AffineKernel { op, x, scale, shift, out, ahead } = self;
        macro_rules! affine {
            ($function:path) => {
                map_with_prefetch!(x, out, ahead, v => $function(v * scale + shift))
            };
        }
        match op {
            Unary::Exp => map_chunks!(x, out, ahead, v => math::chunks::exp::<I>, v * scale + shift),
            Unary::Expm1 => affine!(math::expm1::<I>),
            Unary::Log => map_chunks!(x, out, ahead, v => math::chunks::log::<I>, v * scale + shift),
            Unary::Log1p => affine!(math::log1p::<I>),
            Unary::Tanh => affine!(math::tanh::<I>),
            Unary::Erf => affine!(math::erf::<I>),
            other => undefined(other, "functions of a scaled argument"),
        }
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
        macro_rules! each {
            ($elements:expr, $pattern:pat => $u:expr, $v:expr) => {
                for ((out, &c), $pattern) in out.iter_mut().zip(condition).zip($elements) {
                    *out = if c != 0 { $u } else { $v };
                }
            };
        }
        match (a, b) {
            (Operand::Slice(a), Operand::Slice(b)) => each!(a.iter().zip(b), (&u, &v) => u, v),
            (Operand::Slice(a), Operand::Scalar(v)) => each!(a, &u => u, v),
            (Operand::Scalar(u), Operand::Slice(b)) => each!(b, &v => u, v),
            (Operand::Scalar(u), Operand::Scalar(v)) => map!(condition, out, c => if c != 0 { u } else { v }),
        }
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
        macro_rules! each {
            ($elements:expr, $pattern:pat => $v:expr, $w:expr) => {
                for ((out, &u), $pattern) in out.iter_mut().zip(a).zip($elements) {
                    *out = T::mul_add::<I>(u, $v, $w);
                }
            };
        }
        match (b, c) {
            (Operand::Slice(b), Operand::Slice(c)) => each!(b.iter().zip(c), (&v, &w) => v, w),
            (Operand::Slice(b), Operand::Scalar(w)) => each!(b, &v => v, w),
            (Operand::Scalar(v), Operand::Slice(c)) => each!(c, &w => v, w),
            (Operand::Scalar(v), Operand::Scalar(w)) => map!(a, out, u => T::mul_add::<I>(u, v, w)),
        }
    }
}

impl Element for f32 {
    const IS_HOT: bool = true;

    #[inline(always)]
    fn unary_loops<I: Isa>(op: Unary, x: &[f32], out: &mut [f32], ahead: Prefetch) {
        match op {
            Unary::Neg => map_with_prefetch!(x, out, ahead, v => -v),
            Unary::Abs => map_with_prefetch!(x, out, ahead, v => v.abs()),
            Unary::Sign => map_with_prefetch!(x, out, ahead, v => math::sign(v)),
            Unary::Exp => map_chunks!(x, out, ahead, v => math::chunks::exp::<I>, v),
            Unary::Expm1 => map_with_prefetch!(x, out, ahead, v => math::expm1::<I>(v)),
            Unary::Log => map_chunks!(x, out, ahead, v => math::chunks::log::<I>, v),
            Unary::Log1p => map_with_prefetch!(x, out, ahead, v => math::log1p::<I>(v)),
            Unary::Sqrt => map_with_prefetch!(x, out, ahead, v => v.sqrt()),
            Unary::Rsqrt => map_with_prefetch!(x, out, ahead, v => math::rsqrt(v)),
            Unary::Sin => map_with_prefetch!(x, out, ahead, v => math::sin::<I>(v)),
            Unary::Cos => map_with_prefetch!(x, out, ahead, v => math::cos::<I>(v)),
            Unary::Tanh => map_with_prefetch!(x, out, ahead, v => math::tanh::<I>(v)),
            Unary::Erf => map_with_prefetch!(x, out, ahead, v => math::erf::<I>(v)),
            Unary::Floor => map!(x, out, v => v.floor()),
            Unary::Ceil => map!(x, out, v => v.ceil()),
            Unary::Trunc => map!(x, out, v => v.trunc()),
            Unary::Round => map!(x, out, v => v.round_ties_even()),
            Unary::Recip => map_with_prefetch!(x, out, ahead, v => 1.0 / v),
            Unary::Not | Unary::IsNan => undefined(op, "floats"),
        }
    }

    #[inline(always)]
    fn binary_loops<I: Isa>(op: Binary, a: Operand<f32>, b: Operand<f32>, out: &mut [f32], ahead: Prefetch) {
        match op {
            Binary::Add => zip_with_prefetch!(a, b, out, ahead, (u, v) => u + v),
            Binary::Sub => zip_with_prefetch!(a, b, out, ahead, (u, v) => u - v),
            Binary::Mul => zip_with_prefetch!(a, b, out, ahead, (u, v) => u * v),
            Binary::Div => match (a, b) {
                (Operand::Slice(a), Operand::Scalar(v)) if I::FMA && math::has_plain_reciprocal(v) => {
                    divide_by::<I>(a, v, out, ahead);
                }
                _ => zip_with_prefetch!(a, b, out, ahead, (u, v) => u / v),
            },
            Binary::Rem => zip!(a, b, out, (u, v) => u % v),
            Binary::Pow => zip!(a, b, out, (u, v) => math::pow::<I>(u, v)),
            Binary::Min => zip_with_prefetch!(a, b, out, ahead, (u, v) => math::min(u, v)),
            Binary::Max => zip_with_prefetch!(a, b, out, ahead, (u, v) => math::max(u, v)),
            other => undefined(other, "floats"),
        }
    }

    #[inline(always)]
    fn mul_add<I: Isa>(a: f32, b: f32, c: f32) -> f32 {
        math::fma::<I>(a, b, c)
    }

    fn finish_unary(op: Unary, x: &[f32], out: &mut [f32]) {
        match op {
            Unary::Sin => finish_trig(x, out, f32::sin),
            Unary::Cos => finish_trig(x, out, f32::cos),
            _ => {}
        }
    }
}

/// `x / v`, bit for bit, by three multiplications where the elements are neither tiny nor huge: a vector division takes
/// several times as long. One element that needs the division makes its chunk need it.
#[inline(always)]
fn divide_by<I: Isa>(x: &[f32], v: f32, out: &mut [f32], ahead: Prefetch) {
    let reciprocal = 1.0 / v;
    let (chunks, rest) = x.as_chunks::<CHUNK>();
    let (out_chunks, out_rest) = out.as_chunks_mut::<CHUNK>();
    let mut requests = ahead.over(chunks.len());
    for (x, out) in chunks.iter().zip(out_chunks) {
        requests.step();
        let mut is_plain = true;
        for (out, &u) in out.iter_mut().zip(x) {
            is_plain &= math::is_plain_dividend(u);
            *out = math::quotient::<I>(u, v, reciprocal);
        }
        if !is_plain {
            map!(x, out, u => u / v);
        }
    }
    map!(rest, out_rest, u => u / v);
}

/// Replaces the sine or cosine of large arguments by the library's.
fn finish_trig(x: &[f32], out: &mut [f32], function: fn(f32) -> f32) {
    if !dispatch(AnyLarge(x)) {
        return;
    }
    for (out, &v) in out.iter_mut().zip(x) {
        if v.abs() > math::TRIG_LIMIT {
            *out = function(v);
        }
    }
}

struct AnyLarge<'a>(&'a [f32]);
impl Kernel for AnyLarge<'_> {
    type Output = bool;
    #[inline(always)]
    fn run<I: Isa>(self) -> bool {
        self.0.iter().fold(false, |any, v| any | (v.abs() > math::TRIG_LIMIT))
    }
}

impl Element for f64 {
    #[inline(always)]
    fn unary_loops<I: Isa>(op: Unary, x: &[f64], out: &mut [f64], _prefetch: Prefetch) {
        match op {
            Unary::Neg => map!(x, out, v => -v),
            Unary::Abs => map!(x, out, v => v.abs()),
            Unary::Sign => map!(x, out, v => if v > 0.0 { 1.0 } else if v < 0.0 { -1.0 } else { v }),
            Unary::Exp => map!(x, out, v => v.exp()),
            Unary::Expm1 => map!(x, out, v => v.exp_m1()),
            Unary::Log => map!(x, out, v => v.ln()),
            Unary::Log1p => map!(x, out, v => v.ln_1p()),
            Unary::Sqrt => map!(x, out, v => v.sqrt()),
            Unary::Rsqrt => map!(x, out, v => 1.0 / v.sqrt()),
            Unary::Sin => map!(x, out, v => v.sin()),
            Unary::Cos => map!(x, out, v => v.cos()),
            Unary::Tanh => map!(x, out, v => v.tanh()),
            Unary::Erf => map!(x, out, v => libm::erf(v)),
            Unary::Floor => map!(x, out, v => v.floor()),
            Unary::Ceil => map!(x, out, v => v.ceil()),
            Unary::Trunc => map!(x, out, v => v.trunc()),
            Unary::Round => map!(x, out, v => v.round_ties_even()),
            Unary::Recip => map!(x, out, v => 1.0 / v),
            Unary::Not | Unary::IsNan => undefined(op, "floats"),
        }
    }

    #[inline(always)]
    fn binary_loops<I: Isa>(
        op: Binary,
        a: Operand<f64>,
        b: Operand<f64>,
        out: &mut [f64],
        _prefetch: Prefetch,
    ) {
        match op {
            Binary::Add => zip!(a, b, out, (u, v) => u + v),
            Binary::Sub => zip!(a, b, out, (u, v) => u - v),
            Binary::Mul => zip!(a, b, out, (u, v) => u * v),
            Binary::Div => zip!(a, b, out, (u, v) => u / v),
            Binary::Rem => zip!(a, b, out, (u, v) => u % v),
            Binary::Pow => zip!(a, b, out, (u, v) => u.powf(v)),
            Binary::Min => zip!(a, b, out, (u, v) => if u < v || u.is_nan() { u } else { v }),
            Binary::Max => zip!(a, b, out, (u, v) => if u > v || u.is_nan() { u } else { v }),
            other => undefined(other, "floats"),
        }
    }

    #[inline(always)]
    fn mul_add<I: Isa>(a: f64, b: f64, c: f64) -> f64 {
        math::fma_f64::<I>(a, b, c)
    }
}

macro_rules! integer_element {
    ($($type:ident: $abs:expr, $sign:expr, $pow:expr;)*) => { $(
        impl Element for $type {
            #[inline(always)]
            fn unary_loops<I: Isa>(op: Unary, x: &[$type], out: &mut [$type], _prefetch: Prefetch) {
                match op {
                    Unary::Neg => map!(x, out, v => v.wrapping_neg()),
                    Unary::Abs => map!(x, out, v => $abs(v)),
                    Unary::Sign => map!(x, out, v => $sign(v)),
                    Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => out.copy_from_slice(x),
                    Unary::Not => map!(x, out, v => !v),
                    other => undefined(other, "integers"),
                }
            }

            #[inline(always)]
            fn binary_loops<I: Isa>(op: Binary, a: Operand<$type>, b: Operand<$type>, out: &mut [$type], _prefetch: Prefetch) {
                match op {
                    Binary::Add => zip!(a, b, out, (u, v) => u.wrapping_add(v)),
                    Binary::Sub => zip!(a, b, out, (u, v) => u.wrapping_sub(v)),
                    Binary::Mul => zip!(a, b, out, (u, v) => u.wrapping_mul(v)),
                    Binary::Div => zip!(a, b, out, (u, v) => if v == 0 { 0 } else { u.wrapping_div(v) }),
                    Binary::Rem => zip!(a, b, out, (u, v) => if v == 0 { 0 } else { u.wrapping_rem(v) }),
                    Binary::Pow => zip!(a, b, out, (u, v) => $pow(u, v)),
                    Binary::Min => zip!(a, b, out, (u, v) => u.min(v)),
                    Binary::Max => zip!(a, b, out, (u, v) => u.max(v)),
                    Binary::And => zip!(a, b, out, (u, v) => u & v),
                    Binary::Or => zip!(a, b, out, (u, v) => u | v),
                    Binary::Xor => zip!(a, b, out, (u, v) => u ^ v),
                    Binary::Shl => zip!(a, b, out, (u, v) => if is_shift::<$type>(v as i64) { u.wrapping_shl(v as u32) } else { 0 }),
                    Binary::Shr => zip!(a, b, out, (u, v) => {
                        let last = <$type>::BITS - 1;
                        let (inside, sign) = (u.wrapping_shr(v as u32), u.wrapping_shr(last).wrapping_shr(1));
                        // Of an unsigned number nothing is left; of a signed one, -1 or 0.
                        let sign = if <$type>::MIN == 0 { 0 } else { sign };
                        if is_shift::<$type>(v as i64) { inside } else { sign }
                    }),
                    other => undefined(other, "integers"),
                }
            }

            #[inline(always)]
            fn mul_add<I: Isa>(a: $type, b: $type, c: $type) -> $type {
                a.wrapping_mul(b).wrapping_add(c)
            }
        }
    )* };
}

integer_element! {
    i32: i32::wrapping_abs, i32::signum, pow_i32;
    i64: i64::wrapping_abs, i64::signum, pow_i64;
    u32: |v| v, |v: u32| v.min(1), |u: u32, v| u.wrapping_pow(v);
    u8: |v| v, |v: u8| v.min(1), |u: u8, v| u.wrapping_pow(v as u32);
}

fn pow_i32(base: i32, exponent: i32) -> i32 {
    if exponent >= 0 {
        base.wrapping_pow(exponent as u32)
    } else {
        truncated_reciprocal(base as i64, exponent as i64) as i32
    }
}

fn pow_i64(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return truncated_reciprocal(base, exponent);
    }
    let (mut power, mut square, mut left) = (1i64, base, exponent as u64);
    while left > 0 {
        if left & 1 == 1 {
            power = power.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    power
}

/// A negative power: only those of ±1 are not fractions; that of 0 counts as 0.
fn truncated_reciprocal(base: i64, exponent: i64) -> i64 {
    match base {
        1 => 1,
        -1 => 1 - 2 * (exponent & 1),
        _ => 0,
    }
}

#[cold]
fn undefined(op: impl std::fmt::Debug, kind: &str) -> ! {
    panic!("bug: {op:?} is not defined on {kind}, and typing should have refused it")
}

macro_rules! plain_casts {
    ($($from:ident => $($to:ident)*;)*) => { $($(
        impl CastTo<$to> for $from {
            fn cast_slice(x: &[$from], out: &mut [$to]) {
                struct Loop<'a>(&'a [$from], &'a mut [$to]);
                impl Kernel for Loop<'_> {
                    type Output = ();
                    const IS_HOT: bool = <$from as Element>::IS_HOT || <$to as Element>::IS_HOT;
                    #[inline(always)]
                    fn run<I: Isa>(self) {
                        map!(self.0, self.1, v => v as $to);
                    }
                }
                dispatch(Loop(x, out));
            }
        }
    )*)* };
}

plain_casts! {
    f32 => f32 f64 i32 i64 u32 u8;
    f64 => f64 f32 i32 i64 u32 u8;
    i32 => i32 f32 f64 i64 u32 u8;
    i64 => i64 f32 f64 i32 u32 u8;
    u32 => u32 f32 f64 i32 i64 u8;
    u8 => u8 f32 f64 i32 i64 u32;
}

/// Whether an integer can be shifted by so many bits.
#[inline(always)]
fn is_shift<T>(by: i64) -> bool {
    (0..8 * size_of::<T>() as i64).contains(&by)
}

macro_rules! half_casts {
    ($($half:ident)*) => { $(
        impl CastTo<f32> for $half {
            fn cast_slice(x: &[$half], out: &mut [f32]) {
                x.convert_to_f32_slice(out);
            }
        }
        impl CastTo<$half> for f32 {
            fn cast_slice(x: &[f32], out: &mut [$half]) {
                out.convert_from_f32_slice(x);
            }
        }
    )* };
}
half_casts! { f16 bf16 }

#[cfg(test)]
mod tests;
