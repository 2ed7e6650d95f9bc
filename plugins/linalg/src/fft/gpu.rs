//! Fourier transforms on a GPU: a launch for the roots of unity, and one for each pass.
//!
//! Passes are those of [`super::host`]. A thread makes four sums of four numbers, or one sum of another radix. Passes go
//! back and forth between the workspace and the result.

use super::lines::{radices, rows};
use engine_core::cubecl;
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::ir::DType;
use engine_core::op::KernelCall;
use engine_core::op::gpu::{CubeBody, GpuArgument, GpuKernel, GpuLaunch, View, WORKSPACE_ALIGNMENT};
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;

const INPUT: GpuArgument = GpuArgument::Input(0, View::Elements);
const RESULT: GpuArgument = GpuArgument::Output(0, View::Elements);

/// The launches of a call.
pub fn launches(call: &KernelCall, device: &DeviceModel) -> GpuKernel {
    let (dtype, (n_rows, n)) = (call.inputs[0].dtype, rows(&call.inputs[0]));
    let radices =
        radices(n, &[4]).unwrap_or_else(|| engine_core::bug!("the type rule let {n} complex numbers pass"));
    let threads = THREADS.min(device.most_threads);
    let part = |start: usize, count: usize| GpuArgument::Workspace { start, n_elements: 2 * count, dtype };
    let roots_bytes = (2 * n * dtype.size()).next_multiple_of(WORKSPACE_ALIGNMENT);
    let (roots, between) = (part(0, n), part(roots_bytes, n_rows * n));
    let launch = |name, count: usize, arguments, scalars, body| {
        let cubes = if n_rows == 0 { 0 } else { count.div_ceil(threads) };
        GpuLaunch { name, cubes, threads, arguments, scalars, body }
    };
    let is_inverse = call.attrs().bool("inverse");
    let mut all = vec![launch("fft_roots", n, vec![roots], vec![n], roots_body(dtype, is_inverse))];
    let (mut from, mut done) = (INPUT, 1);
    for (number, &radix) in radices.iter().enumerate() {
        let to = if (radices.len() - number).is_multiple_of(2) { between } else { RESULT };
        let operands = vec![from, roots, to];
        all.push(match radix {
            4 => {
                let count = n_rows * n / 4;
                launch("fft_pass_of_four", count, operands, vec![count, n, done], four_body(dtype))
            }
            _ => launch("fft_pass", n_rows * n, operands, vec![n_rows * n, n, done, radix], pass_body(dtype)),
        });
        (from, done) = (to, done * radix);
    }
    let between_bytes = if radices.len() > 1 { 2 * n_rows * n * dtype.size() } else { 0 };
    GpuKernel { workspace_bytes: roots_bytes + between_bytes, launches: all }
}

fn roots_body(dtype: DType, is_inverse: bool) -> CubeBody {
    Arc::new(move |scope, given| match dtype {
        DType::F64 => roots_of_unity::expand::<f64>(scope, given.array(0), given.scalar(0), is_inverse),
        _ => roots_of_unity::expand::<f32>(scope, given.array(0), given.scalar(0), is_inverse),
    })
}

fn pass_body(dtype: DType) -> CubeBody {
    Arc::new(move |scope, given| {
        let scalars = [0, 1, 2, 3].map(|number| given.scalar(number));
        let [count, n, done, radix] = scalars;
        match dtype {
            DType::F64 => {
                let [x, roots, y] = [0, 1, 2].map(|argument| given.array::<f64>(argument));
                pass::expand::<f64>(scope, x, roots, y, count, n, done, radix);
            }
            _ => {
                let [x, roots, y] = [0, 1, 2].map(|argument| given.array::<f32>(argument));
                pass::expand::<f32>(scope, x, roots, y, count, n, done, radix);
            }
        }
    })
}

/// π in three parts, each of which is exact in `f32`.
const PI: [f32; 3] = [std::f32::consts::PI, -8.742278e-8, -3.430249e-15];

fn four_body(dtype: DType) -> CubeBody {
    Arc::new(move |scope, given| {
        let [count, n, done] = [0, 1, 2].map(|number| given.scalar(number));
        match dtype {
            DType::F64 => {
                let [x, roots, y] = [0, 1, 2].map(|argument| given.array::<f64>(argument));
                pass_of_four::expand::<f64>(scope, x, roots, y, count, n, done);
            }
            _ => {
                let [x, roots, y] = [0, 1, 2].map(|argument| given.array::<f32>(argument));
                pass_of_four::expand::<f32>(scope, x, roots, y, count, n, done);
            }
        }
    })
}

/// Terms of the series of sine and cosine, enough for an eighth of a turn in double precision.
const TERMS: usize = 9;

/// `e^(∓2πi·k/n)` for each k. The angle is reduced to an eighth of a turn, where the series need no fast functions, which
/// some devices round coarsely.
#[cube]
fn roots_of_unity<F: Float>(roots: &mut Array<F>, n: usize, #[comptime] is_inverse: bool) {
    let k = ABSOLUTE_POS;
    if k < n {
        let quarter = (4usize * k + n / 2usize) / n;
        let eighths = F::cast_from(i32::cast_from(4usize * k) - i32::cast_from(quarter * n));
        let pi = F::new(comptime!(PI[0])) + (F::new(comptime!(PI[1])) + F::new(comptime!(PI[2])));
        let angle = eighths / F::cast_from(2usize * n) * pi;
        let square = angle * angle;
        let mut sin = F::new(1.0);
        let mut cos = F::new(1.0);
        #[unroll]
        for i in 0..TERMS {
            let m = comptime!(2 * (TERMS - i)) as u32;
            sin = F::new(1.0) - square * sin / F::cast_from(m * (m + 1u32));
            cos = F::new(1.0) - square * cos / F::cast_from(m * (m - 1u32));
        }
        sin *= angle;
        let turn = quarter % 4usize;
        let is_odd = turn % 2usize == 1usize;
        let re = select(is_odd, sin, cos);
        let im = select(is_odd, cos, sin);
        let zero = F::new(0.0);
        roots[2usize * k] = select(turn == 1usize || turn == 2usize, zero - re, re);
        let is_negative = turn == 2usize || turn == 3usize;
        let turned = select(is_negative, zero - im, im);
        roots[2usize * k + 1usize] = if comptime!(is_inverse) { turned } else { zero - turned };
    }
}

/// `y[q + s·(r·p + k)] = w^(p·k·s)·Σⱼ x[q + s·(p + m·j)]·w^(j·k·n/r)` for each row, with stride s and radix r; m is n/(r·s).
#[cube]
fn pass<F: Float>(
    x: &Array<F>,
    roots: &Array<F>,
    y: &mut Array<F>,
    count: usize,
    n: usize,
    stride: usize,
    radix: usize,
) {
    let point = ABSOLUTE_POS;
    if point < count {
        let place = point % n;
        let row = point - place;
        let q = place % stride;
        let k = place / stride % radix;
        let p = place / stride / radix;
        let step = n / radix;
        let mut at = row + q + stride * p;
        let mut re = x[2usize * at];
        let mut im = x[2usize * at + 1usize];
        let mut turn = 0usize.runtime();
        let mut j = 1usize.runtime();
        while j < radix {
            at += step;
            turn += k;
            if turn >= radix {
                turn -= radix;
            }
            let root = 2usize * (turn * step);
            let (c, s) = (roots[root], roots[root + 1usize]);
            let (a, b) = (x[2usize * at], x[2usize * at + 1usize]);
            re += a * c - b * s;
            im += a * s + b * c;
            j += 1usize;
        }
        put(y, 2usize * point, re, im, roots, p * k * stride);
    }
}

/// A pass of radix 4: two sums of two numbers each, then two of these.
#[cube]
fn pass_of_four<F: Float>(
    x: &Array<F>,
    roots: &Array<F>,
    y: &mut Array<F>,
    count: usize,
    n: usize,
    stride: usize,
) {
    let point = ABSOLUTE_POS;
    if point < count {
        let quarter = n / 4usize;
        let place = point % quarter;
        let row = 4usize * (point - place);
        let (q, p) = (place % stride, place / stride);
        let step = 2usize * quarter;
        let from = 2usize * (row + place);
        let (re0, im0) = (x[from], x[from + 1usize]);
        let (re1, im1) = (x[from + step], x[from + step + 1usize]);
        let (re2, im2) = (x[from + 2usize * step], x[from + 2usize * step + 1usize]);
        let (re3, im3) = (x[from + 3usize * step], x[from + 3usize * step + 1usize]);
        let sign = roots[step + 1usize];
        let (even_re, even_im) = (re0 + re2, im0 + im2);
        let (odd_re, odd_im) = (re1 + re3, im1 + im3);
        let (left_re, left_im) = (re0 - re2, im0 - im2);
        // ±i times the difference.
        let right_re = sign * (im3 - im1);
        let right_im = sign * (re1 - re3);
        let to = 2usize * (row + q + 4usize * stride * p);
        let root = p * stride;
        put(y, to, even_re + odd_re, even_im + odd_im, roots, 0usize);
        put(y, to + 2usize * stride, left_re + right_re, left_im + right_im, roots, root);
        put(y, to + 4usize * stride, even_re - odd_re, even_im - odd_im, roots, 2usize * root);
        put(y, to + 6usize * stride, left_re - right_re, left_im - right_im, roots, 3usize * root);
    }
}

/// Writes a number times a root of unity. Times number 0, which is 1, it stays as it is.
#[cube]
fn put<F: Float>(y: &mut Array<F>, at: usize, re: F, im: F, roots: &Array<F>, root: usize) {
    let (c, s) = (roots[2usize * root], roots[2usize * root + 1usize]);
    y[at] = select(root == 0usize, re, re * c - im * s);
    y[at + 1usize] = select(root == 0usize, im, re * s + im * c);
}
