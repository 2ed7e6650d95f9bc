//! `solve`, `inverse` and the factorisation behind them.

use crate::algorithm::{Algorithm, Grid, Operands, Real, Results, lowered};
use crate::matrices::{call, expect_square, product_by_rows, transposed, where_row};
use crate::solve_triangular::solution;
use engine_core::cubecl;
use engine_core::cubecl::ir::Scope;
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::ir::{Attrs, Binary, Builder, Dim, Type, Value};
use engine_core::op::gpu::GpuArguments;
use engine_core::op::kernel::KernelCall;
use engine_core::op::{Grad, OpForm};

/// The x with `a·x = b`, by elimination with partial pivoting. A singular matrix gives infinities or NaN.
pub fn solve() -> OpForm {
    OpForm::new("solve", "Solves linear equations.")
        .input("a", "[…, n, n]")
        .input("b", "[…, n, m], or […, n] for one right-hand side")
        .types(|types, _| {
            let (a, b) = (&types[0], &types[1]);
            solution("solve", a, &column_type(a, b))?;
            Ok(vec![b.clone()])
        })
        .expand(|b, call| vec![solved(b, call.inputs[0], call.inputs[1])])
        .grad(Grad::rule(|b, given| {
            let Some(grad) = given.grads[0] else { return vec![None, None] };
            let turned = transposed(b, given.inputs[0]);
            let of_b = call(b, "solve", &[turned, grad], Attrs::default())[0];
            let [left, right] = [of_b, given.outputs[0]].map(|x| columns(b, given.inputs[0], x));
            let products = product_by_rows(b, left, right);
            vec![Some(b.scale(products, -1.0)), Some(of_b)]
        }))
        .example(
            "rows must be exchanged",
            "solve(a, b)",
            &[("f32[2, 2]", &[0., 2., 1., 3.]), ("f32[2, 1]", &[4., 7.])],
            &[("f32[2, 1]", &[1., 2.])],
        )
        .example(
            "singular",
            "solve(a, b)",
            &[("f32[2, 2]", &[1., 2., 2., 4.]), ("f32[2, 1]", &[1., 1.])],
            &[("f32[2, 1]", &[f64::NEG_INFINITY, f64::INFINITY])],
        )
        .example(
            "one right-hand side",
            "solve(a, b)",
            &[("f32[2, 2]", &[2., 1., 1., 3.]), ("f32[2]", &[4., 7.])],
            &[("f32[2]", &[1., 2.])],
        )
}

/// The inverse. A singular matrix gives infinities or NaN.
pub fn inverse() -> OpForm {
    OpForm::new("inverse", "Inverts square matrices.")
        .input("x", "[…, n, n]")
        .types(|types, _| {
            expect_square("inverse", 0, &types[0])?;
            Ok(vec![types[0].clone()])
        })
        .expand(|b, call| {
            let x = call.inputs[0];
            let on = where_row(b, Binary::Eq, x);
            let unit = b.cast(on, b.dtype(x));
            vec![solved(b, x, unit)]
        })
        .grad(Grad::rule(|b, call| {
            let turned = transposed(b, call.outputs[0]);
            let grad = call.grads[0].map(|grad| {
                let left = crate::matrices::product(b, turned, grad);
                let products = crate::matrices::product(b, left, turned);
                b.scale(products, -1.0)
            });
            vec![grad]
        }))
        .example(
            "two rows",
            "inverse(a)",
            &[("f32[2, 2]", &[4., 7., 2., 6.])],
            &[("f32[2, 2]", &[0.6, -0.7, -0.2, 0.4])],
        )
}

/// The solution and the packed factors of `P·a = L·U`: U in the upper triangle, and L, whose diagonal is 1, below it.
/// P exchanges rows such that no element of L is above 1 in magnitude.
pub fn lu_solve() -> OpForm {
    OpForm::new("lu_solve", "Solves linear equations, and returns the packed factors L and U.")
        .results(&["x", "factors"])
        .input("a", "[…, n, n]")
        .input("b", "[…, n, m]")
        .types(|types, _| Ok(vec![solution("lu_solve", &types[0], &types[1])?, types[0].clone()]))
        .lower(lowered::<Elimination>())
        .no_grad("the order of rows is piecewise constant; `solve` has a gradient")
        .example(
            "rows must be exchanged",
            "lu_solve(a, b)",
            &[("f32[2, 2]", &[1., 3., 2., 4.]), ("f32[2, 1]", &[7., 10.])],
            &[("f32[2, 1]", &[1., 2.]), ("f32[2, 2]", &[2., 4., 0.5, 1.])],
        )
}

/// The type of `b` as columns.
fn column_type(a: &Type, b: &Type) -> Type {
    let mut ty = b.clone();
    if b.rank() + 1 == a.rank() {
        ty.shape.push(Dim::Fixed(1));
    }
    ty
}

/// `b` as columns.
fn columns(b: &mut Builder, a: Value, x: Value) -> Value {
    let extents = column_type(b.ty(a), b.ty(x)).extents();
    b.reshape(x, &extents)
}

fn solved(b: &mut Builder, a: Value, given: Value) -> Value {
    let extents = b.extents(given);
    let given = columns(b, a, given);
    let x = call(b, "lu_solve", &[a, given], Attrs::default())[0];
    b.reshape(x, &extents)
}

/// Threads of a block, which solves the equations of a matrix.
const THREADS: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Elimination {
    n: usize,
    m: usize,
}

impl Algorithm for Elimination {
    const NAME: &'static str = "lu_solve";

    fn of(call: &KernelCall) -> Elimination {
        let extents = call.inputs[1].extents();
        let [n, m] = [2, 1].map(|from_end| extents[extents.len() - from_end]);
        Elimination { n, m }
    }

    fn run<T: Real>(self, [a, given]: Operands<T>, [x, lu]: Results<T>) {
        let Elimination { n, m } = self;
        lu.copy_from_slice(a);
        x.copy_from_slice(given);
        for step in 0..n {
            let mut pivot = step;
            for row in step + 1..n {
                if lu[row * n + step].abs() > lu[pivot * n + step].abs() {
                    pivot = row;
                }
            }
            for column in 0..n {
                lu.swap(step * n + column, pivot * n + column);
            }
            for column in 0..m {
                x.swap(step * m + column, pivot * m + column);
            }
            for row in step + 1..n {
                let by = lu[row * n + step] / lu[step * n + step];
                lu[row * n + step] = by;
                subtract(lu, n, [row, step], by, step + 1);
                subtract(x, m, [row, step], by, 0);
            }
        }
        for row in (0..n).rev() {
            for known in row + 1..n {
                subtract(x, m, [row, known], lu[row * n + known], 0);
            }
            for element in &mut x[row * m..(row + 1) * m] {
                *element = *element / lu[row * n + row];
            }
        }
    }

    fn grid(self, count: usize, device: &DeviceModel) -> Grid {
        Grid { cubes: count, threads: THREADS.min(device.most_threads) }
    }

    fn emit<F: Float>(self, scope: &mut Scope, given: &GpuArguments, threads: usize) {
        let [a, b, x, lu] = [0, 1, 2, 3].map(|argument| given.array::<F>(argument));
        eliminate::expand::<F>(scope, a, b, x, lu, self.n, self.m, threads);
    }
}

/// Subtracts a multiple of one row from another, from a column on.
fn subtract<T: Real>(x: &mut [T], width: usize, [row, other]: [usize; 2], by: T, from: usize) {
    for column in from..width {
        x[row * width + column] = x[row * width + column] - by * x[other * width + column];
    }
}

/// Elimination on `lu` and `x` side by side, then substitution.
#[cube]
fn eliminate<F: Float>(
    a: &Array<F>,
    b: &Array<F>,
    x: &mut Array<F>,
    lu: &mut Array<F>,
    #[comptime] n: usize,
    #[comptime] m: usize,
    #[comptime] threads: usize,
) {
    let unit = UNIT_POS_X as usize;
    let of_lu = CUBE_POS * n * n;
    let of_x = CUBE_POS * n * m;
    copy::<F>(a, lu, of_lu, comptime!(n * n), threads);
    copy::<F>(b, x, of_x, comptime!(n * m), threads);
    sync_storage();
    let mut step = 0usize.runtime();
    while step < n {
        let pivot = pivot_of::<F>(lu, of_lu, step, n);
        sync_storage();
        let mut column = unit;
        while column < comptime!(n + m) {
            if column < n {
                exchange(lu, of_lu + step * n + column, of_lu + pivot * n + column);
            } else {
                exchange(x, of_x + step * m + column - n, of_x + pivot * m + column - n);
            }
            column += threads;
        }
        sync_storage();
        let mut row = step + 1usize + unit;
        while row < n {
            let by = lu[of_lu + step * n + step];
            lu[of_lu + row * n + step] /= by;
            row += threads;
        }
        sync_storage();
        subtract_row::<F>(x, lu, of_x, of_lu, step, n, m, threads);
        sync_storage();
        step += 1usize;
    }
    substitute::<F>(x, lu, of_x, of_lu, n, m, threads);
}

#[cube]
fn copy<F: Float>(
    from: &Array<F>,
    to: &mut Array<F>,
    start: usize,
    #[comptime] count: usize,
    #[comptime] threads: usize,
) {
    let mut point = UNIT_POS_X as usize;
    while point < count {
        to[start + point] = from[start + point];
        point += threads;
    }
}

/// The row of the pivot. Each thread finds it for itself, so all agree without a word of shared memory.
#[cube]
fn pivot_of<F: Float>(lu: &Array<F>, of_lu: usize, step: usize, #[comptime] n: usize) -> usize {
    let mut pivot = step;
    let mut largest = F::abs(lu[of_lu + step * n + step]);
    let mut row = step + 1usize;
    while row < n {
        let size = F::abs(lu[of_lu + row * n + step]);
        if size > largest {
            largest = size;
            pivot = row;
        }
        row += 1usize;
    }
    pivot
}

/// Subtracts multiples of the row of the pivot from all rows below it.
#[cube]
fn subtract_row<F: Float>(
    x: &mut Array<F>,
    lu: &mut Array<F>,
    of_x: usize,
    of_lu: usize,
    step: usize,
    #[comptime] n: usize,
    #[comptime] m: usize,
    #[comptime] threads: usize,
) {
    let first = step + 1usize;
    let width = comptime!(n + m) - first;
    let mut point = UNIT_POS_X as usize;
    while point < (n - first) * width {
        let row = first + point / width;
        let column = first + point % width;
        let by = lu[of_lu + row * n + step];
        if column < n {
            let other = by * lu[of_lu + step * n + column];
            lu[of_lu + row * n + column] -= other;
        } else {
            let other = by * x[of_x + step * m + column - n];
            x[of_x + row * m + column - n] -= other;
        }
        point += threads;
    }
}

/// Solves for the columns of `x` by the upper triangle of `lu`, each thread for its columns.
#[cube]
fn substitute<F: Float>(
    x: &mut Array<F>,
    lu: &Array<F>,
    of_x: usize,
    of_lu: usize,
    #[comptime] n: usize,
    #[comptime] m: usize,
    #[comptime] threads: usize,
) {
    let mut column = UNIT_POS_X as usize;
    while column < m {
        let mut step = 0usize.runtime();
        while step < n {
            let row = n - 1usize - step;
            let mut rest = x[of_x + row * m + column];
            let mut known = row + 1usize;
            while known < n {
                rest -= lu[of_lu + row * n + known] * x[of_x + known * m + column];
                known += 1usize;
            }
            x[of_x + row * m + column] = rest / lu[of_lu + row * n + row];
            step += 1usize;
        }
        column += threads;
    }
}

#[cube]
fn exchange<F: Float>(x: &mut Array<F>, first: usize, second: usize) {
    let kept = x[first];
    x[first] = x[second];
    x[second] = kept;
}
