//! `small_triangular`.

use crate::algorithm::{Algorithm, Grid, Operands, Real, Results, lowered};
use crate::matrices::expect_small;
use crate::solve_triangular::solution;
use engine_core::cubecl;
use engine_core::cubecl::ir::Scope;
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::op::gpu::GpuArguments;
use engine_core::op::kernel::KernelCall;
use engine_core::op::{AttrSpec, OpForm};

/// The solution of [`crate::solve_triangular()`] for matrices of at most 64 rows. A group of threads
/// solves for each column.
pub fn small_triangular() -> OpForm {
    OpForm::new("small_triangular", "Solves at most 64 triangular linear equations, for `solve_triangular`.")
        .input("a", "[…, n, n]; one triangle is read")
        .input("b", "[…, n, m]")
        .attr(AttrSpec::flag("lower", "whether the lower triangle is read, else the upper one", true))
        .types(|types, _| {
            let solution = solution("small_triangular", &types[0], &types[1])?;
            expect_small("small_triangular", &types[0])?;
            Ok(vec![solution])
        })
        .lower(lowered::<Triangular>())
        .no_grad("it is a step of `solve_triangular`, which has a gradient")
        .tested_on(0.5, 2.0)
        .example(
            "the lower triangle",
            "small_triangular(a, b)",
            &[("f32[2, 2]", &[2., 99., 1., 4.]), ("f32[2, 2]", &[2., 4., 9., 6.])],
            &[("f32[2, 2]", &[1., 2., 2., 1.])],
        )
        .example(
            "the upper triangle",
            "small_triangular(a, b, lower=false)",
            &[("f32[2, 2]", &[2., 1., 99., 4.]), ("f32[2, 1]", &[4., 8.])],
            &[("f32[2, 1]", &[1., 2.])],
        )
}

/// Columns of a block.
const LANES: usize = 32;
/// Threads that solve for a column.
const GROUPS: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Triangular {
    n: usize,
    m: usize,
    is_lower: bool,
}

impl Algorithm for Triangular {
    const NAME: &'static str = "small_triangular";

    fn of(call: &KernelCall) -> Triangular {
        let extents = call.inputs[1].extents();
        let [n, m] = [2, 1].map(|from_end| extents[extents.len() - from_end]);
        Triangular { n, m, is_lower: call.attrs().bool("lower") }
    }

    fn run<T: Real>(self, [a, given]: Operands<T>, results: Results<T>) {
        let [x, _] = results.matrices;
        let Triangular { n, m, is_lower, .. } = self;
        x.copy_from_slice(given);
        for step in 0..n {
            let row = if is_lower { step } else { n - 1 - step };
            for before in 0..step {
                let known = if is_lower { before } else { n - 1 - before };
                let by = a[row * n + known];
                for column in 0..m {
                    x[row * m + column] = x[row * m + column] - by * x[known * m + column];
                }
            }
            for element in &mut x[row * m..(row + 1) * m] {
                *element = *element / a[row * n + row];
            }
        }
    }

    fn grid(self, count: usize, _: &DeviceModel) -> Grid {
        Grid { cubes: count * self.m.div_ceil(LANES), threads: LANES * GROUPS }
    }

    fn emit<F: Float>(self, scope: &mut Scope, given: &GpuArguments, _: usize) {
        let [a, b, x] = [0, 1, 2].map(|argument| given.array::<F>(argument));
        let n_rows = self.n.div_ceil(GROUPS);
        substitute::expand::<F>(scope, a, b, x, self.n, self.m, self.is_lower, n_rows);
    }
}

/// Substitution, a row at a time. Each thread holds what is left of every 8th row of its column in registers. The thread
/// that holds the next row shares its solution. Shared memory also holds the triangle without its diagonal, packed by rows.
#[cube]
fn substitute<F: Float>(
    a: &Array<F>,
    b: &Array<F>,
    x: &mut Array<F>,
    #[comptime] n: usize,
    #[comptime] m: usize,
    #[comptime] is_lower: bool,
    #[comptime] n_rows: usize,
) {
    let unit = UNIT_POS_X as usize;
    let lane = unit % LANES;
    let group = unit / LANES;
    let blocks = comptime!(m.div_ceil(LANES).max(1));
    let of_a = CUBE_POS / blocks * n * n;
    let of_x = CUBE_POS / blocks * n * m;
    let column = CUBE_POS % blocks * LANES + lane;
    let mut held = Array::<F>::new(comptime!(n_rows.max(1)));
    let mut triangle =
        SharedMemory::<F>::new(comptime!((n_rows * GROUPS * (n_rows * GROUPS + 1) / 2).max(1)));
    // Two solutions by turns, so that one barrier a row is enough.
    let mut found = SharedMemory::<F>::new(comptime!(2 * LANES));
    load_triangle::<F>(a, &mut triangle, of_a, n, is_lower);
    #[unroll]
    for i in 0..n_rows {
        let step = group + comptime!(i * GROUPS);
        let row = if comptime!(is_lower) { step } else { comptime!(n.max(1) - 1) - step };
        let mut element = F::new(0.0);
        if step < n && column < m {
            element = b[of_x + row * m + column];
        }
        held[i] = element;
    }
    sync_cube();
    #[unroll]
    for i in 0..n_rows {
        let mut own = 0usize.runtime();
        while own < comptime!(GROUPS.min(n - i * GROUPS)) {
            let step = own + comptime!(i * GROUPS);
            let row = if comptime!(is_lower) { step } else { comptime!(n.max(1) - 1) - step };
            let at = step % 2usize * LANES + lane;
            if group == own {
                let solution = held[i] / a[of_a + row * n + row];
                found[at] = solution;
                if column < m {
                    x[of_x + row * m + column] = solution;
                }
            }
            sync_cube();
            let solution = found[at];
            #[unroll]
            for k in i..n_rows {
                let other = group + comptime!(k * GROUPS);
                let less = held[k] - triangle[other * (other + 1usize) / 2usize - other + step] * solution;
                held[k] = select(other > step, less, held[k]);
            }
            own += 1usize;
        }
    }
}

/// Loads the triangle without its diagonal. The upper one is turned by half a circle.
#[cube]
fn load_triangle<F: Float>(
    a: &Array<F>,
    triangle: &mut SharedMemory<F>,
    of_a: usize,
    #[comptime] n: usize,
    #[comptime] is_lower: bool,
) {
    let mut point = UNIT_POS_X as usize;
    while point < comptime!(n * n) {
        let row = point / n;
        let before = point % n;
        if before < row {
            let from = if comptime!(is_lower) { point } else { comptime!(n * n - 1) - point };
            triangle[row * (row + 1usize) / 2usize - row + before] = a[of_a + from];
        }
        point += comptime!(LANES * GROUPS);
    }
}
