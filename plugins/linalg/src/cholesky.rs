//! `cholesky`.

use crate::algorithm::{Algorithm, Grid, Operands, Real, Results, dot, lowered};
use crate::matrices::{call, expect_square, only, product, transposed, where_row};
use engine_core::cubecl;
use engine_core::cubecl::ir::Scope;
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::ir::{Attr, Attrs, Binary, Builder, E, Value};
use engine_core::op::gpu::GpuArguments;
use engine_core::op::kernel::KernelCall;
use engine_core::op::{Grad, GradCall, GradCheck, OpForm};

/// The lower triangular L with `L·Lᵀ = x` and a positive diagonal. If a matrix is not positive definite, its factor is
/// NaN from the first column that shows it.
pub fn cholesky() -> OpForm {
    OpForm::new("cholesky", "Factors symmetric positive definite matrices into L·Lᵀ.")
        .input("x", "[…, n, n]; the lower triangles are read")
        .types(|types, _| {
            expect_square("cholesky", 0, &types[0])?;
            Ok(vec![types[0].clone()])
        })
        .lower(lowered::<Cholesky>())
        .grad(Grad::rule(|b, call| vec![gradient(b, call)]))
        .check(GradCheck::Convention {
            why: "the gradient is symmetric, as if both triangles were read",
            grads: vec![vec![vec![0.125, 0.25, 0.25, 1.0]], vec![vec![f64::NAN; 4]]],
        })
        .example(
            "two rows",
            "cholesky(a)",
            &[("f32[2, 2]", &[4., 99., 2., 5.])],
            &[("f32[2, 2]", &[2., 0., 1., 2.])],
        )
        .example(
            "not positive definite",
            "cholesky(a)",
            &[("f32[2, 2]", &[1., 2., 2., 1.])],
            &[("f32[2, 2]", &[1., 0., 2., f64::NAN])],
        )
}

/// `½(S + Sᵀ)` with `S = L⁻ᵀ·Φ(Lᵀ·g)·L⁻¹`. Φ keeps the lower triangle and halves the diagonal.
fn gradient(b: &mut Builder, given: &GradCall) -> Option<Value> {
    let (l, grad) = (given.outputs[0], given.grads[0]?);
    let upper = transposed(b, l);
    let grad = only(b, Binary::Ge, grad);
    let products = product(b, upper, grad);
    let kept = only(b, Binary::Ge, products);
    let on = where_row(b, Binary::Eq, kept);
    let phi = b.map(&[on, kept], |x| E::select(x[0], x[1] * 0.5, x[1]));
    let of_upper = Attrs::default().with("lower", Attr::from(false));
    let left = call(b, "solve_triangular", &[upper, phi], of_upper.clone())[0];
    let left = transposed(b, left);
    let s = call(b, "solve_triangular", &[upper, left], of_upper)[0];
    let other = transposed(b, s);
    Some(b.map(&[s, other], |x| (x[0] + x[1]) * 0.5))
}

/// Threads of a block, which factors a matrix.
const THREADS: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Cholesky {
    n: usize,
}

impl Algorithm for Cholesky {
    const NAME: &'static str = "cholesky";

    fn of(call: &KernelCall) -> Cholesky {
        Cholesky { n: call.rows().1 }
    }

    fn run<T: Real>(self, [x, _]: Operands<T>, [l, _]: Results<T>) {
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

    fn grid(self, count: usize, device: &DeviceModel) -> Grid {
        Grid { cubes: count, threads: THREADS.min(device.most_threads) }
    }

    fn emit<F: Float>(self, scope: &mut Scope, given: &GpuArguments, threads: usize) {
        let (x, l) = (given.array(0), given.array(1));
        factor::expand::<F>(scope, x, l, self.n, threads);
    }
}

/// A column at a time: threads compute its elements, then divide them by the root of the pivot.
#[cube]
fn factor<F: Float>(x: &Array<F>, l: &mut Array<F>, #[comptime] n: usize, #[comptime] threads: usize) {
    let base = CUBE_POS * n;
    let unit = UNIT_POS_X as usize;
    let mut column = 0usize.runtime();
    while column < n {
        let mut row = unit;
        while row < n {
            let place = (base + row) * n;
            let mut rest = F::new(0.0);
            if row >= column {
                rest = x[place + column];
                let mut k = 0usize.runtime();
                while k < column {
                    rest -= l[place + k] * l[(base + column) * n + k];
                    k += 1usize;
                }
            }
            l[place + column] = rest;
            row += threads;
        }
        sync_storage();
        let own = (base + column) * n + column;
        let pivot = l[own];
        // The root of a negative number is NaN, and no compiler knows that it is one.
        let root = F::sqrt(select(pivot > F::new(0.0), pivot, F::new(-1.0)));
        let by = F::recip(root);
        let mut row = unit;
        while row < n {
            if row > column {
                l[(base + row) * n + column] *= by;
            }
            row += threads;
        }
        sync_storage();
        if unit == column % threads {
            l[own] = root;
        }
        column += 1usize;
    }
}
