//! Scalar primitives on blocks whose element type is known only at run time.

use super::loops::{self, CastTo, Element, Operand};
use super::simd::prefetch::Prefetch;
use engine_core::ir::{Binary, DType, Foreign, Literal, Scalar, Unary};
use half::{bf16, f16};

/// A block of values: one for each point, or one for all.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The first value.
    pub start: *const u8,
    /// Whether it stands for all points.
    pub is_scalar: bool,
}

// SAFETY: a view is an address; reading through it is `unsafe` with its own argument.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// A view of nothing yet.
    pub const UNSET: View = View { start: std::ptr::null(), is_scalar: true };

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

/// Binds `$T` to the Rust type that a type is computed in; half precision is not computed in.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::Bool | DType::U8 => {
                type $T = u8;
                $body
            }
            DType::I32 => {
                type $T = i32;
                $body
            }
            DType::I64 => {
                type $T = i64;
                $body
            }
            DType::U32 => {
                type $T = u32;
                $body
            }
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::F16 | DType::BF16 => panic!("bug: half precision is computed in f32"),
        }
    };
}
pub(super) use with_type;

/// Binds `$T` to an unsigned type of so many bytes, to move elements whatever they mean.
macro_rules! with_size {
    ($size:expr, $T:ident => $body:expr) => {
        match $size {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            _ => {
                type $T = u64;
                $body
            }
        }
    };
}
pub(super) use with_size;

/// Most operands of a scalar primitive.
pub const MAX_ARITY: usize = 8;

/// Computes `op` of blocks of `dtype` (of the second operand, for a select) into `len` values at `out`; arithmetic
/// of f32 asks meanwhile for the memory in `ahead`.
///
/// # Safety
/// Views must hold values of that type (the condition of a select: bools); `out` must be valid for the results, and
/// overlap no view.
pub unsafe fn run_scalar(
    op: &Scalar,
    dtype: DType,
    args: &[View],
    out: *mut u8,
    len: usize,
    ahead: Prefetch,
) {
    // SAFETY: the caller's, in every arm.
    unsafe {
        match op {
            Scalar::Unary(op) => run_unary(*op, dtype, args[0], out, len, ahead),
            Scalar::Binary(op) => run_binary(*op, dtype, [args[0], args[1]], out, len, ahead),
            Scalar::Select => with_size!(dtype.size(), T => {
                let out = slice_mut::<T>(out, len);
                match args[0].operand::<u8>(len) {
                    Operand::Slice(c) => loops::select(c, args[1].operand(len), args[2].operand(len), out),
                    Operand::Scalar(c) => copy(if c != 0 { args[1] } else { args[2] }.operand(len), out),
                }
            }),
            Scalar::MulAdd => with_type!(dtype, T => mul_add::<T>([args[0], args[1], args[2]], out, len)),
            Scalar::Cast(to) => cast(dtype, *to, args[0], out, len),
            Scalar::Foreign(foreign) => run_foreign(foreign, dtype, args, out, len),
        }
    }
}

/// The bytes of a literal in a type, in the low end.
pub fn literal_bits(literal: &Literal, dtype: DType) -> u64 {
    match dtype {
        DType::Bool => (literal.as_f64() != 0.0) as u64,
        DType::U8 => literal.as_i64() as u8 as u64,
        DType::I32 => literal.as_i64() as i32 as u32 as u64,
        DType::U32 => literal.as_i64() as u32 as u64,
        DType::I64 => literal.as_i64() as u64,
        DType::F16 => f16::from_f64(literal.as_f64()).to_bits() as u64,
        DType::BF16 => bf16::from_f64(literal.as_f64()).to_bits() as u64,
        DType::F32 => (literal.as_f64() as f32).to_bits() as u64,
        DType::F64 => literal.as_f64().to_bits(),
    }
}

/// # Safety
/// `start` must be valid for `len` values that nothing else touches meanwhile.
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

unsafe fn run_unary(op: Unary, dtype: DType, x: View, out: *mut u8, len: usize, ahead: Prefetch) {
    // SAFETY: the caller's; a scalar view here has `len` 1, as blocks of scalars are computed once.
    unsafe {
        match op {
            Unary::IsNan => with_type!(dtype, T => {
                let x = x.slice::<T>(len);
                loops::compare(Binary::Ne, Operand::Slice(x), Operand::Slice(x), slice_mut(out, len));
            }),
            Unary::Not if dtype == DType::Bool => {
                loops::compare(Binary::Eq, x.operand::<u8>(len), Operand::Scalar(0), slice_mut(out, len));
            }
            op => {
                with_type!(dtype, T => loops::unary(op, x.slice::<T>(len), slice_mut(out, len), ahead))
            }
        }
    }
}

unsafe fn run_binary(op: Binary, dtype: DType, [a, b]: [View; 2], out: *mut u8, len: usize, ahead: Prefetch) {
    // SAFETY: the caller's.
    unsafe {
        with_type!(dtype, T => {
            let (a, b) = (a.operand::<T>(len), b.operand::<T>(len));
            match op.is_comparison() {
                true => loops::compare(op, a, b, slice_mut(out, len)),
                false => loops::binary(op, a, b, slice_mut(out, len), ahead),
            }
        })
    }
}

unsafe fn mul_add<T: Element>([a, b, c]: [View; 3], out: *mut u8, len: usize) {
    // SAFETY: the caller's.
    unsafe {
        let out = slice_mut::<T>(out, len);
        match (a.operand::<T>(len), b.operand::<T>(len), c.operand(len)) {
            (Operand::Slice(a), b, c) => loops::mul_add(a, b, c, out),
            (a, Operand::Slice(b), c) => loops::mul_add(b, a, c, out),
            // The product is one number: the sum, rounded once, is that of a slice of it.
            (Operand::Scalar(a), b, Operand::Slice(c)) => {
                for (out, c) in out.chunks_mut(64).zip(c.chunks(64)) {
                    let n = out.len();
                    loops::mul_add(&[a; 64][..n], b, Operand::Slice(c), out);
                }
            }
            (Operand::Scalar(a), b, c) => {
                let mut sum = [a];
                loops::mul_add(&[a], b, c, &mut sum);
                out.fill(sum[0]);
            }
        }
    }
}

unsafe fn run_foreign(foreign: &Foreign, dtype: DType, args: &[View], out: *mut u8, len: usize) {
    const BLOCK: usize = 256;
    let n_args = foreign.arity.min(args.len());
    for start in (0..len).step_by(BLOCK) {
        let n = BLOCK.min(len - start);
        // SAFETY: the caller's; the part `start..start + n` is inside.
        unsafe {
            if dtype == DType::F64 {
                let out = slice_mut::<f64>(out.add(8 * start), n);
                for (i, out) in out.iter_mut().enumerate() {
                    let mut values = [0.0; MAX_ARITY];
                    for (value, arg) in values.iter_mut().zip(args) {
                        *value = *arg.start.cast::<f64>().add(if arg.is_scalar { 0 } else { start + i });
                    }
                    *out = (foreign.f64)(&values[..n_args]);
                }
            } else {
                let mut repeated = [[0f32; BLOCK]; MAX_ARITY];
                let mut slices = [&[][..]; MAX_ARITY];
                for ((slice, repeated), arg) in slices.iter_mut().zip(&mut repeated).zip(args) {
                    *slice = match arg.operand::<f32>(len) {
                        Operand::Slice(values) => &values[start..start + n],
                        Operand::Scalar(value) => {
                            repeated.fill(value);
                            &repeated[..n]
                        }
                    };
                }
                (foreign.f32_slice)(&slices[..n_args], slice_mut(out.add(4 * start), n));
            }
        }
    }
}

/// Converts a block, by the rules of [`loops::cast`]; to bool is `x != 0`.
///
/// # Safety
/// As for [`run_scalar`].
pub unsafe fn cast(from: DType, to: DType, x: View, out: *mut u8, len: usize) {
    // SAFETY: the caller's.
    unsafe {
        if from == to || (from == DType::Bool && to == DType::U8) {
            return with_size!(to.size(), T => copy(x.operand::<T>(len), slice_mut(out, len)));
        }
        match (from, to) {
            (DType::F16, _) => from_half::<f16>(to, x.slice(len), out),
            (DType::BF16, _) => from_half::<bf16>(to, x.slice(len), out),
            (_, DType::F16) => to_half::<f16>(from, x, out, len),
            (_, DType::BF16) => to_half::<bf16>(from, x, out, len),
            (_, DType::Bool) => with_type!(from, T => {
                let zero = T::default();
                loops::compare(Binary::Ne, x.operand::<T>(len), Operand::Scalar(zero), slice_mut(out, len))
            }),
            _ => {
                with_type!(from, S => with_type!(to, D => loops::cast::<S, D>(x.slice(len), slice_mut(out, len))))
            }
        }
    }
}

const HALF_BLOCK: usize = 512;

unsafe fn from_half<H: CastTo<f32> + Copy>(to: DType, x: &[H], out: *mut u8) {
    if to == DType::F32 {
        // SAFETY: the caller's.
        return unsafe { loops::cast(x, slice_mut(out, x.len())) };
    }
    let mut wide = [0f32; HALF_BLOCK];
    for (i, x) in x.chunks(HALF_BLOCK).enumerate() {
        let wide = &mut wide[..x.len()];
        loops::cast(x, wide);
        let view = View { start: wide.as_ptr().cast(), is_scalar: false };
        // SAFETY: the caller's; the part is inside.
        unsafe { cast(DType::F32, to, view, out.add(i * HALF_BLOCK * to.size()), x.len()) };
    }
}

unsafe fn to_half<H>(from: DType, x: View, out: *mut u8, len: usize)
where
    f32: CastTo<H>,
{
    // SAFETY: the caller's.
    unsafe {
        if from == DType::F32 {
            return loops::cast::<f32, H>(x.slice(len), slice_mut(out, len));
        }
        let mut wide = [0f32; HALF_BLOCK];
        for start in (0..len).step_by(HALF_BLOCK) {
            let n = HALF_BLOCK.min(len - start);
            let part = View { start: x.start.add(start * from.size()), ..x };
            cast(from, DType::F32, part, wide.as_mut_ptr().cast(), n);
            loops::cast::<f32, H>(&wide[..n], slice_mut(out.add(start * 2), n));
        }
    }
}
