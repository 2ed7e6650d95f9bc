//! Scalar primitives and conversions of blocks.

use super::view::{View, copy, slice_mut, with_size, with_type};
use engine_core::ir::{Binary, DType, Foreign, Scalar, Unary};
use engine_numerics::loops::{self, CastTo, Number, Operand, Prefetch};
use half::{bf16, f16};

/// The most operands of a scalar primitive.
pub const MAX_ARITY: usize = 8;

/// Computes `op` of blocks of `dtype` into `len` values at `out`; of a select, `dtype` is the type of its choices.
/// Arithmetic of f32 requests the memory in `ahead`.
///
/// # Safety
/// Views must hold values of that type, and bools for the condition of a select. `out` must be valid for the results and
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

unsafe fn run_unary(op: Unary, dtype: DType, x: View, out: *mut u8, len: usize, ahead: Prefetch) {
    // SAFETY: the caller's; a scalar view has `len` 1, because blocks of scalars are computed once.
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

unsafe fn mul_add<T: Number>([a, b, c]: [View; 3], out: *mut u8, len: usize) {
    // SAFETY: the caller's.
    unsafe {
        let out = slice_mut::<T>(out, len);
        match (a.operand::<T>(len), b.operand::<T>(len), c.operand(len)) {
            (Operand::Slice(a), b, c) => loops::mul_add(a, b, c, out),
            (a, Operand::Slice(b), c) => loops::mul_add(b, a, c, out),
            // The sum is rounded once, so one factor becomes a slice.
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

/// Converts a block by the rules of [`loops::cast`]; bool is `x != 0`.
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
