//! `orthogonal_rows`.

use crate::algorithm::{Algorithm, Grid, Operands, Real, Results, dot, lowered};
use crate::matrices::expect_matrices;
use engine_core::cubecl;
use engine_core::cubecl::ir::Scope;
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::ir::DType;
use engine_core::op::OpForm;
use engine_core::op::gpu::GpuArguments;
use engine_core::op::kernel::KernelCall;

/// Rotates pairs of rows until all are orthogonal: `w = t·x` with orthogonal t (one-sided Jacobi, Hestenes 1958). The norms
/// of the rows of w are the singular values of x. Rows that are smaller than the precision times the largest element of
/// magnitude 1 are left, so the elements of x are scaled first. NaN reaches all results that depend on it.
pub fn orthogonal_rows() -> OpForm {
    OpForm::new("orthogonal_rows", "Rotates the rows of matrices until they are orthogonal.")
        .results(&["w", "t"])
        .input("x", "[…, p, q]")
        .types(|types, _| {
            let x = &types[0];
            expect_matrices("orthogonal_rows", 0, x)?;
            let mut square = x.clone();
            let rows = x.rank() - 2;
            square.shape[rows + 1] = x.shape[rows].clone();
            Ok(vec![x.clone(), square])
        })
        .lower(lowered::<Jacobi>())
        .no_grad("rotations stop at the precision; `svd` and `eigh` have gradients")
        .example(
            "a turn by 45 degrees",
            "orthogonal_rows(a)",
            &[("f32[2, 2]", &[2., 1., 1., 2.])],
            &[
                (
                    "f32[2, 2]",
                    &[
                        std::f64::consts::FRAC_1_SQRT_2,
                        -std::f64::consts::FRAC_1_SQRT_2,
                        3.0 * std::f64::consts::FRAC_1_SQRT_2,
                        3.0 * std::f64::consts::FRAC_1_SQRT_2,
                    ],
                ),
                (
                    "f32[2, 2]",
                    &[
                        std::f64::consts::FRAC_1_SQRT_2,
                        -std::f64::consts::FRAC_1_SQRT_2,
                        std::f64::consts::FRAC_1_SQRT_2,
                        std::f64::consts::FRAC_1_SQRT_2,
                    ],
                ),
            ],
        )
        .example(
            "orthogonal already",
            "orthogonal_rows(a)",
            &[("f64[2, 3]", &[0., 2., 0., 3., 0., 0.])],
            &[("f64[2, 3]", &[0., 2., 0., 3., 0., 0.]), ("f64[2, 2]", &[1., 0., 0., 1.])],
        )
}

/// The most sweeps over all pairs on the host. The angles shrink quadratically.
const MOST_SWEEPS: usize = 40;
/// Sweeps on a GPU, where all blocks take the same steps.
const SWEEPS: [usize; 2] = [12, 16];
/// The most threads of a block.
const THREADS: usize = 512;
/// Threads that turn a pair of rows together.
const GROUP: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Jacobi {
    p: usize,
    q: usize,
    is_double: bool,
}

impl Algorithm for Jacobi {
    const NAME: &'static str = "orthogonal_rows";

    fn of(call: &KernelCall) -> Jacobi {
        let extents = call.inputs[0].extents();
        let [p, q] = [2, 1].map(|from_end| extents[extents.len() - from_end]);
        Jacobi { p, q, is_double: call.inputs[0].dtype == DType::F64 }
    }

    fn run<T: Real>(self, [x, _]: Operands<T>, results: Results<T>) {
        let [w, t] = results.matrices;
        let Jacobi { p, q, .. } = self;
        w.copy_from_slice(x);
        t.fill(T::of(0.0));
        (0..p).for_each(|row| t[row * p + row] = T::of(1.0));
        for _ in 0..MOST_SWEEPS {
            let mut is_done = true;
            for first in 0..p {
                for second in first + 1..p {
                    let [a, b] = [first, second].map(|row| &w[row * q..(row + 1) * q]);
                    if let Some([c, s]) = rotation(dot(a, a), dot(b, b), dot(a, b)) {
                        is_done = false;
                        turn(w, q, [first, second], [c, s]);
                        turn(t, p, [first, second], [c, s]);
                    }
                }
            }
            if is_done {
                break;
            }
        }
    }

    fn grid(self, count: usize, device: &DeviceModel) -> Grid {
        let threads = (self.p.div_ceil(2).max(1) * GROUP).next_multiple_of(32);
        Grid { cubes: count, threads: threads.min(THREADS).min(device.most_threads) }
    }

    fn emit<F: Float>(self, scope: &mut Scope, given: &GpuArguments, threads: usize) {
        let [x, w, t] = [0, 1, 2].map(|argument| given.array::<F>(argument));
        let epsilon = if self.is_double { f64::EPSILON as f32 } else { f32::EPSILON };
        let players = self.p.next_multiple_of(2).max(2);
        let n_rounds = SWEEPS[usize::from(self.is_double)] * (players - 1);
        sweep::expand::<F>(scope, x, w, t, self.p, self.q, players, n_rounds, epsilon, threads);
    }
}

/// Cosine and sine of the angle that makes two rows orthogonal, from their squares and their product. None if they are
/// orthogonal, or one is of no size.
fn rotation<T: Real>(aa: T, bb: T, ab: T) -> Option<[T; 2]> {
    let is_small = aa <= T::EPSILON * T::EPSILON || bb <= T::EPSILON * T::EPSILON;
    if ab.abs() <= T::EPSILON * aa.sqrt() * bb.sqrt() || is_small {
        return None;
    }
    let z = (bb - aa) / (T::of(2.0) * ab);
    let size = T::of(1.0) / (z.abs() + (T::of(1.0) + z * z).sqrt());
    let tangent = if z < T::of(0.0) { -size } else { size };
    let c = T::of(1.0) / (T::of(1.0) + tangent * tangent).sqrt();
    Some([c, c * tangent])
}

/// Turns two rows.
fn turn<T: Real>(x: &mut [T], width: usize, [first, second]: [usize; 2], [c, s]: [T; 2]) {
    for column in 0..width {
        let [i, j] = [first, second].map(|row| row * width + column);
        let (a, b) = (x[i], x[j]);
        x[i] = c * a - s * b;
        x[j] = s * a + c * b;
    }
}

/// All pairs of rows, a round at a time: in a round every row is in one pair, and a group of threads turns it.
#[cube]
fn sweep<F: Float>(
    x: &Array<F>,
    w: &mut Array<F>,
    t: &mut Array<F>,
    #[comptime] p: usize,
    #[comptime] q: usize,
    #[comptime] players: usize,
    #[comptime] n_rounds: usize,
    #[comptime] epsilon: f32,
    #[comptime] threads: usize,
) {
    let unit = UNIT_POS_X as usize;
    let of_w = CUBE_POS * p * q;
    let of_t = CUBE_POS * p * p;
    start::<F>(x, w, t, of_w, of_t, p, q, threads);
    sync_storage();
    let mut sums = SharedMemory::<F>::new(comptime!(3 * threads));
    let others = comptime!(players - 1);
    let slots = comptime!(threads / GROUP);
    let mut round = 0usize.runtime();
    while round < n_rounds {
        let mut base = 0usize.runtime();
        while base < comptime!(players / 2) {
            let pair = base + unit / GROUP;
            let turned = 1usize + (pair + comptime!(players - 2) + round) % others;
            let first = select(pair == 0usize, 0usize, turned);
            let second = 1usize + (round + comptime!(players - 2) - pair) % others;
            let is_pair = pair < comptime!(players / 2) && first < p && second < p;
            let w_first = of_w + first * q;
            let w_second = of_w + second * q;
            if is_pair {
                add_products::<F>(w, &mut sums, w_first, w_second, q, threads);
            }
            sync_cube();
            if is_pair {
                turn_pair::<F>(
                    w,
                    t,
                    &sums,
                    w_first,
                    w_second,
                    of_t + first * p,
                    of_t + second * p,
                    p,
                    q,
                    epsilon,
                    threads,
                );
            }
            sync_cube();
            base += slots;
        }
        sync_storage();
        round += 1usize;
    }
}

/// Starts with the rows of x, and with the identity.
#[cube]
fn start<F: Float>(
    x: &Array<F>,
    w: &mut Array<F>,
    t: &mut Array<F>,
    of_w: usize,
    of_t: usize,
    #[comptime] p: usize,
    #[comptime] q: usize,
    #[comptime] threads: usize,
) {
    let unit = UNIT_POS_X as usize;
    let mut point = unit;
    while point < comptime!(p * q) {
        w[of_w + point] = x[of_w + point];
        point += threads;
    }
    let mut point = unit;
    while point < comptime!(p * p) {
        t[of_t + point] = select(point / p == point % p, F::new(1.0), F::new(0.0));
        point += threads;
    }
}

/// The parts of three sums that this thread adds: of the squares of both rows, and of their products.
#[cube]
fn add_products<F: Float>(
    w: &Array<F>,
    sums: &mut SharedMemory<F>,
    first: usize,
    second: usize,
    #[comptime] q: usize,
    #[comptime] threads: usize,
) {
    let unit = UNIT_POS_X as usize;
    let mut aa = F::new(0.0);
    let mut bb = F::new(0.0);
    let mut ab = F::new(0.0);
    let mut column = unit % GROUP;
    while column < q {
        let a = w[first + column];
        let b = w[second + column];
        aa += a * a;
        bb += b * b;
        ab += a * b;
        column += GROUP;
    }
    sums[unit] = aa;
    sums[threads + unit] = bb;
    sums[comptime!(2 * threads) + unit] = ab;
}

/// Makes a pair of rows orthogonal, and turns the rows of t alike.
#[cube]
fn turn_pair<F: Float>(
    w: &mut Array<F>,
    t: &mut Array<F>,
    sums: &SharedMemory<F>,
    w_first: usize,
    w_second: usize,
    t_first: usize,
    t_second: usize,
    #[comptime] p: usize,
    #[comptime] q: usize,
    #[comptime] epsilon: f32,
    #[comptime] threads: usize,
) {
    let start = UNIT_POS_X as usize / GROUP * GROUP;
    let mut aa = F::new(0.0);
    let mut bb = F::new(0.0);
    let mut ab = F::new(0.0);
    let mut lane = 0usize.runtime();
    while lane < GROUP {
        aa += sums[start + lane];
        bb += sums[start + lane + threads];
        ab += sums[start + lane + comptime!(2 * threads)];
        lane += 1usize;
    }
    let least = F::new(comptime!(epsilon * epsilon));
    let is_done = F::abs(ab) <= F::new(epsilon) * F::sqrt(aa) * F::sqrt(bb);
    if !(is_done || aa <= least || bb <= least) {
        let z = (bb - aa) / (F::new(2.0) * ab);
        let size = F::recip(F::abs(z) + F::sqrt(F::new(1.0) + z * z));
        let tangent = select(z < F::new(0.0), F::new(0.0) - size, size);
        let c = F::recip(F::sqrt(F::new(1.0) + tangent * tangent));
        let s = c * tangent;
        turn_elements::<F>(w, w_first, w_second, c, s, q);
        turn_elements::<F>(t, t_first, t_second, c, s, p);
    }
}

#[cube]
fn turn_elements<F: Float>(
    x: &mut Array<F>,
    first: usize,
    second: usize,
    c: F,
    s: F,
    #[comptime] width: usize,
) {
    let mut column = UNIT_POS_X as usize % GROUP;
    while column < width {
        let a = x[first + column];
        let b = x[second + column];
        x[first + column] = c * a - s * b;
        x[second + column] = s * a + c * b;
        column += GROUP;
    }
}
