//! `small_cholesky`.

use crate::algorithm::{Algorithm, Grid, Operands, Real, Results, dot, lowered};
use crate::matrices::{expect_small, expect_square};
use engine_core::cubecl;
use engine_core::cubecl::ir::Scope;
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::op::OpForm;
use engine_core::op::gpu::GpuArguments;
use engine_core::op::kernel::KernelCall;

/// The factor of [`crate::cholesky()`] for matrices of at most 64 rows, each computed by one block.
pub fn small_cholesky() -> OpForm {
    OpForm::new("small_cholesky", "Factors matrices of at most 64 rows into L·Lᵀ, for `cholesky`.")
        .input("x", "[…, n, n]; the lower triangles are read")
        .types(|types, _| {
            expect_square("small_cholesky", 0, &types[0])?;
            expect_small("small_cholesky", &types[0])?;
            Ok(vec![types[0].clone()])
        })
        .lower(lowered::<Cholesky>())
        .no_grad("it is a step of `cholesky`, which has a gradient")
        .example(
            "two rows",
            "small_cholesky(a)",
            &[("f32[2, 2]", &[4., 99., 2., 5.])],
            &[("f32[2, 2]", &[2., 0., 1., 2.])],
        )
        .example(
            "not positive definite",
            "small_cholesky(a)",
            &[("f32[2, 2]", &[1., 2., 2., 1.])],
            &[("f32[2, 2]", &[1., 0., 2., f64::NAN])],
        )
}

/// Threads along the columns of a matrix.
const LANES: usize = 32;
/// Threads along its rows.
const ROWS: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Cholesky {
    n: usize,
}

impl Algorithm for Cholesky {
    const NAME: &'static str = "small_cholesky";

    fn of(call: &KernelCall) -> Cholesky {
        Cholesky { n: call.rows().1 }
    }

    fn run<T: Real>(self, [x, _]: Operands<T>, results: Results<T>) {
        let [l, _] = results.matrices;
        let n = self.n;
        l.fill(T::of(0.0));
        for row in 0..n {
            let (done, rest) = l.split_at_mut(row * n);
            let own = &mut rest[..n];
            for column in 0..row {
                let other = &done[column * n..][..n];
                let rest = x[row * n + column] - dot(&own[..column], &other[..column]);
                own[column] = rest / other[column];
            }
            let pivot = x[row * n + row] - dot(&own[..row], &own[..row]);
            own[row] = if pivot > T::of(0.0) { pivot.sqrt() } else { T::of(f64::NAN) };
        }
    }

    fn grid(self, count: usize, _: &DeviceModel) -> Grid {
        Grid { cubes: count, threads: LANES * ROWS }
    }

    fn emit<F: Float>(self, scope: &mut Scope, given: &GpuArguments, _: usize) {
        let (x, l) = (given.array(0), given.array(1));
        factor::expand::<F>(scope, x, l, self.n, self.n.div_ceil(ROWS), self.n.div_ceil(LANES));
    }
}

/// A column at a time. Each thread holds the elements of every 8th row and every 32nd column in registers. Those that
/// hold the next column share it, and all take its products from their elements. Elements that are done, and those above
/// the diagonal, become numbers without a meaning.
#[cube]
fn factor<F: Float>(
    x: &Array<F>,
    l: &mut Array<F>,
    #[comptime] n: usize,
    #[comptime] n_rows: usize,
    #[comptime] n_columns: usize,
) {
    let of_x = CUBE_POS * n * n;
    let unit = UNIT_POS_X as usize;
    let lane = unit % LANES;
    let first = unit / LANES;
    let padded = comptime!(LANES * n_columns.max(1));
    let mut held = Array::<F>::new(comptime!((n_rows * n_columns).max(1)));
    // Two columns by turns, so that one barrier a column is enough.
    let mut shared = SharedMemory::<F>::new(comptime!(2 * padded));
    load::<F>(x, l, &mut held, n, n_rows, n_columns);
    #[unroll]
    for j in 0..n_columns {
        let mut own = 0usize.runtime();
        while own < comptime!(LANES.min(n - j * LANES)) {
            let step = own + comptime!(j * LANES);
            let at = step % 2usize * padded;
            if lane == own {
                #[unroll]
                for i in 0..n_rows {
                    shared[at + first + comptime!(i * ROWS)] = held[comptime!(i * n_columns + j)];
                }
            }
            sync_cube();
            let pivot = shared[at + step];
            // The root of a negative number is NaN, and no compiler knows that it is one.
            let root = F::sqrt(select(pivot > F::new(0.0), pivot, F::new(-1.0)));
            let by = F::recip(root);
            #[unroll]
            for i in 0..n_rows {
                let row = first + comptime!(i * ROWS);
                let element = shared[at + row] * by;
                if lane == own && row >= step && row < n {
                    l[of_x + row * n + step] = select(row == step, root, element);
                }
                #[unroll]
                for k in j..n_columns {
                    let other = shared[at + lane + comptime!(k * LANES)] * by;
                    held[comptime!(i * n_columns + k)] -= element * other;
                }
            }
            own += 1usize;
        }
    }
}

/// Loads this thread's elements of the lower triangle, and clears those above it in the result.
#[cube]
fn load<F: Float>(
    x: &Array<F>,
    l: &mut Array<F>,
    held: &mut Array<F>,
    #[comptime] n: usize,
    #[comptime] n_rows: usize,
    #[comptime] n_columns: usize,
) {
    let of_x = CUBE_POS * n * n;
    let unit = UNIT_POS_X as usize;
    let lane = unit % LANES;
    let first = unit / LANES;
    #[unroll]
    for i in 0..n_rows {
        #[unroll]
        for j in 0..n_columns {
            let row = first + comptime!(i * ROWS);
            let column = lane + comptime!(j * LANES);
            let mut element = F::new(0.0);
            if row < n && column < n {
                if column <= row {
                    element = x[of_x + row * n + column];
                } else {
                    l[of_x + row * n + column] = F::new(0.0);
                }
            }
            held[comptime!(i * n_columns + j)] = element;
        }
    }
}
