//! Fourier transforms on the CPU.
//!
//! A pass of radix r takes r numbers at a distance and writes their sums next to each other (Stockham 1966), so numbers
//! are in order after the last pass. Passes go from one half of a workspace to the other. Real and imaginary parts lie
//! apart, and several short rows lie interleaved, so that inner loops run over neighbours.

use super::lines::{radices, rows};
use crate::algorithm::Real;
use engine_core::ir::DType;
use engine_core::op::HostKernel;
use engine_core::op::kernel::{KernelCall, Lent, words_as};
use engine_core::oracle::OracleTensor;

/// The most rows that are computed together, the most complex numbers of such a group, and the fewest groups that leave
/// work for several threads.
const MOST_LANES: usize = 8;
const GROUP: usize = 1 << 19;
const LEAST_GROUPS: usize = 4;
/// The maximum number of parts over which rows are spread, and the complex numbers in the workspaces of all parts.
const MAX_PARTS: usize = 64;
const IN_WORK: usize = 1 << 22;

/// The kernel of a call.
pub fn prepared(call: &KernelCall) -> HostKernel {
    match call.inputs[0].dtype {
        DType::F64 => kernel::<f64>(call),
        _ => kernel::<f32>(call),
    }
}

fn kernel<T: Real>(call: &KernelCall) -> HostKernel {
    let (n_rows, n) = rows(&call.inputs[0]);
    let plan = Plan::<T>::new(n, call.attrs().bool("inverse"));
    let lanes = (GROUP / n).clamp(1, MOST_LANES).min(n_rows.div_ceil(LEAST_GROUPS).max(1));
    let most_parts = (IN_WORK / (n * lanes)).clamp(4, MAX_PARTS);
    let n_parts = n_rows.div_ceil(lanes).clamp(1, most_parts);
    HostKernel {
        workspace_bytes: n_parts * (4 * n * lanes * size_of::<T>()).next_multiple_of(8),
        run: Box::new(move |lent: &mut Lent| {
            let x = lent.input::<T>(0);
            lent.parallel_for(n_rows, n_parts, &|mut part| {
                let (work, first) = (words_as::<T>(part.workspace), part.units.start);
                let given = &x[2 * n * first..2 * n * part.units.end];
                let results = part.results.take::<T>(0);
                for (x, y) in given.chunks(2 * n * lanes).zip(results.chunks_mut(2 * n * lanes)) {
                    plan.run(x, y, work);
                }
            });
        }),
    }
}

/// The same transforms in double precision.
pub fn oracle(call: &KernelCall, args: &[&OracleTensor]) -> Vec<OracleTensor> {
    let (_, n) = rows(&call.inputs[0]);
    let plan = Plan::<f64>::new(n, call.attrs().bool("inverse"));
    let (x, mut work) = (args[0].to_f64(), vec![0.0; 4 * n]);
    let mut y = vec![0.0; x.len()];
    for (x, y) in x.chunks(2 * n).zip(y.chunks_mut(2 * n)) {
        plan.run(x, y, &mut work);
    }
    vec![OracleTensor::floats(call.outputs[0].dtype, &call.outputs[0].extents(), y)]
}

/// The real and the imaginary parts of as many complex numbers.
type Parts<'a, T> = [&'a [T]; 2];
type PartsMut<'a, T> = [&'a mut [T]; 2];

/// The passes of transforms of one length.
struct Plan<T> {
    n: usize,
    radices: Vec<usize>,
    /// `e^(∓2πi·k/n)` for each k.
    roots: Vec<[T; 2]>,
}

impl<T: Real> Plan<T> {
    fn new(n: usize, is_inverse: bool) -> Plan<T> {
        let radices = radices(n, &[4])
            .unwrap_or_else(|| engine_core::bug!("the type rule let {n} complex numbers pass"));
        let roots = (0..n).map(|k| root(k, n, is_inverse).map(T::of)).collect();
        Plan { n, radices, roots }
    }

    /// Transforms the rows of `x`, which fit the workspace.
    fn run(&self, x: &[T], y: &mut [T], work: &mut [T]) {
        let lanes = x.len() / (2 * self.n);
        let size = self.n * lanes;
        let (now, next) = work[..4 * size].split_at_mut(2 * size);
        let ([now_re, now_im], [next_re, next_im]) = (halves(now), halves(next));
        let (mut now, mut next) = ([now_re, now_im], [next_re, next_im]);
        for (lane, row) in x.chunks_exact(2 * self.n).enumerate() {
            for (k, z) in row.as_chunks::<2>().0.iter().enumerate() {
                [now[0][k * lanes + lane], now[1][k * lanes + lane]] = *z;
            }
        }
        let mut done = 1;
        for &radix in &self.radices {
            let [re, im] = &mut next;
            self.pass(radix, done * lanes, done, [&*now[0], &*now[1]], [&mut **re, &mut **im]);
            std::mem::swap(&mut now, &mut next);
            done *= radix;
        }
        for (lane, row) in y.chunks_exact_mut(2 * self.n).enumerate() {
            for (k, z) in row.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                *z = [now[0][k * lanes + lane], now[1][k * lanes + lane]];
            }
        }
    }

    /// A pass after passes whose radices have the product `done`. `stride` is that times the number of rows.
    fn pass(&self, radix: usize, stride: usize, done: usize, x: Parts<T>, [y_re, y_im]: PartsMut<T>) {
        let groups = self.n / (radix * done);
        let outputs = y_re.chunks_exact_mut(radix * stride).zip(y_im.chunks_exact_mut(radix * stride));
        for (p, (y_re, y_im)) in outputs.enumerate() {
            let operand = |j: usize| {
                let start = stride * (p + groups * j);
                x.map(|part| &part[start..start + stride])
            };
            let twiddle = |k: usize| self.roots[p * k * done];
            match radix {
                4 => {
                    let twiddles = (p > 0).then(|| [1, 2, 3].map(twiddle));
                    self.of_four([0, 1, 2, 3].map(operand), twiddles, [y_re, y_im]);
                }
                _ => {
                    let results = y_re.chunks_exact_mut(stride).zip(y_im.chunks_exact_mut(stride));
                    for (k, (re, im)) in results.enumerate() {
                        self.term_by_term([radix, k], &operand, (p * k > 0).then(|| twiddle(k)), [re, im]);
                    }
                }
            }
        }
    }

    /// `t·Σⱼ xⱼ·w^(jk)` with w = `e^(∓2πi/r)`. There may be no factor t.
    fn term_by_term<'x>(
        &self,
        [radix, k]: [usize; 2],
        operand: &impl Fn(usize) -> Parts<'x, T>,
        twiddle: Option<[T; 2]>,
        [y_re, y_im]: PartsMut<T>,
    ) where
        T: 'x,
    {
        let step = self.n / radix;
        let [x_re, x_im] = operand(0);
        y_re.copy_from_slice(x_re);
        y_im.copy_from_slice(x_im);
        for j in 1..radix {
            let w = self.roots[j * k % radix * step];
            let [x_re, x_im] = operand(j);
            for ((y_re, y_im), (&re, &im)) in y_re.iter_mut().zip(&mut *y_im).zip(x_re.iter().zip(x_im)) {
                let [re, im] = times([re, im], w);
                (*y_re, *y_im) = (*y_re + re, *y_im + im);
            }
        }
        if let Some(twiddle) = twiddle {
            for (re, im) in y_re.iter_mut().zip(y_im) {
                [*re, *im] = times([*re, *im], twiddle);
            }
        }
    }

    /// Four sums from four numbers, by two sums of two each. There may be no factors.
    fn of_four(&self, x: [Parts<T>; 4], twiddles: Option<[[T; 2]; 3]>, [y_re, y_im]: PartsMut<T>) {
        let stride = x[0][0].len();
        let sign = self.roots[self.n / 4][1];
        let x = x.map(|[re, im]| [&re[..stride], &im[..stride]]);
        let [y0, y1, y2, y3] = quarters(y_re, stride);
        let [z0, z1, z2, z3] = quarters(y_im, stride);
        for q in 0..stride {
            let at = |j: usize| [x[j][0][q], x[j][1][q]];
            let (even, odd) = (plus(at(0), at(2)), plus(at(1), at(3)));
            let (left, right) = (minus(at(0), at(2)), minus(at(1), at(3)));
            // ±i times the difference.
            let right = [-sign * right[1], sign * right[0]];
            [y0[q], z0[q]] = plus(even, odd);
            let sums = [plus(left, right), minus(even, odd), minus(left, right)];
            [[y1[q], z1[q]], [y2[q], z2[q]], [y3[q], z3[q]]] = match twiddles {
                Some([a, b, c]) => [times(sums[0], a), times(sums[1], b), times(sums[2], c)],
                None => sums,
            };
        }
    }
}

fn halves<T>(x: &mut [T]) -> [&mut [T]; 2] {
    let (re, im) = x.split_at_mut(x.len() / 2);
    [re, im]
}

fn quarters<T>(x: &mut [T], stride: usize) -> [&mut [T]; 4] {
    let (low, high) = x.split_at_mut(2 * stride);
    let ((a, b), (c, d)) = (low.split_at_mut(stride), high[..2 * stride].split_at_mut(stride));
    [a, b, c, d]
}

fn plus<T: Real>(a: [T; 2], b: [T; 2]) -> [T; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

fn minus<T: Real>(a: [T; 2], b: [T; 2]) -> [T; 2] {
    [a[0] - b[0], a[1] - b[1]]
}

fn times<T: Real>(a: [T; 2], b: [T; 2]) -> [T; 2] {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// `e^(∓2πi·k/n)`. The angle is reduced to an eighth of a turn, so that multiples of a quarter are exact.
fn root(k: usize, n: usize, is_inverse: bool) -> [f64; 2] {
    let quarter = (4 * k + n / 2) / n;
    let angle = (4 * k) as f64 - (quarter * n) as f64;
    let (sin, cos) = (angle / (2 * n) as f64 * std::f64::consts::PI).sin_cos();
    let [re, im] = match quarter % 4 {
        0 => [cos, sin],
        1 => [-sin, cos],
        2 => [-cos, -sin],
        _ => [sin, -cos],
    };
    [re, if is_inverse { im } else { -im }]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [usize; 14] = [1, 2, 3, 4, 7, 12, 61, 100, 128, 243, 1000, 1024, 3600, 4096];

    /// Numbers of magnitude up to 1 without a period.
    fn wave(n: usize) -> Vec<f64> {
        (0..2 * n).map(|i| (2.3 * i as f64 + 0.37 * (i * i) as f64).sin()).collect()
    }

    fn transformed<T: Real>(n: usize, x: &[T], is_inverse: bool) -> Vec<T> {
        let mut y = vec![T::of(0.0); x.len()];
        Plan::<T>::new(n, is_inverse).run(x, &mut y, &mut vec![T::of(0.0); 2 * x.len()]);
        y
    }

    /// The norm of a difference, divided by that of the numbers.
    fn error(found: &[f64], expected: &[f64]) -> f64 {
        let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
        norm(&mut found.iter().zip(expected).map(|(a, b)| a - b)) / norm(&mut expected.iter().copied())
    }

    #[test]
    fn transforms_are_sums_over_all_numbers() {
        for n in LENGTHS.into_iter().filter(|&n| n <= 1024) {
            let x = wave(n);
            for is_inverse in [false, true] {
                let roots: Vec<[f64; 2]> = (0..n).map(|k| root(k, n, is_inverse)).collect();
                let sum = |k: usize| {
                    let terms = x.as_chunks::<2>().0.iter().enumerate();
                    terms.fold([0.0, 0.0], |sum, (j, &z)| plus(sum, times(z, roots[j * k % n])))
                };
                let expected: Vec<f64> = (0..n).flat_map(sum).collect();
                let found = error(&transformed(n, &x, is_inverse), &expected);
                assert!(found < 1e-14 * (n as f64).sqrt(), "{n} numbers: {found:e}");
            }
        }
    }

    #[test]
    fn single_precision_loses_little_beside_double() {
        for n in LENGTHS {
            let x: Vec<f32> = wave(n).iter().map(|&x| x as f32).collect();
            let wide: Vec<f64> = x.iter().map(|&x| x.into()).collect();
            let found: Vec<f64> = transformed(n, &x, false).iter().map(|&y| y.into()).collect();
            let found = error(&found, &transformed(n, &wide, false));
            assert!(found < 2e-7, "{n} numbers: {found:e}");
        }
    }

    #[test]
    fn rows_that_lie_interleaved_are_transformed_as_they_are_alone() {
        let (n, x) = (12, wave(12 * 5));
        let together = transformed(n, &x, false);
        let alone: Vec<f64> = x.chunks(2 * n).flat_map(|x| transformed(n, x, false)).collect();
        assert_eq!(together, alone);
    }
}
