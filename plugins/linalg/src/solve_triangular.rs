//! `solve_triangular`.

use crate::algorithm::{Algorithm, Grid, Operands, Real, Results, lowered};
use crate::matrices::{call, expect_matrices, expect_square, only, product_by_rows, transposed};
use engine_core::cubecl;
use engine_core::cubecl::ir::Scope;
use engine_core::cubecl::prelude::*;
use engine_core::device_model::DeviceModel;
use engine_core::ir::{Attr, Attrs, Binary, Type};
use engine_core::op::gpu::GpuArguments;
use engine_core::op::kernel::KernelCall;
use engine_core::op::{AttrSpec, Grad, OpForm, TypeIssue};

/// The x with `a·x = b` for triangular a. A zero on the diagonal gives infinities and NaN.
pub fn solve_triangular() -> OpForm {
    OpForm::new("solve_triangular", "Solves triangular linear equations.")
        .input("a", "[…, n, n]; one triangle is read")
        .input("b", "[…, n, m]")
        .attr(AttrSpec::flag("lower", "whether the lower triangle is read, else the upper one", true))
        .types(|types, _| Ok(vec![solution("solve_triangular", &types[0], &types[1])?]))
        .lower(lowered::<Triangular>())
        .grad(Grad::rule(|b, given| {
            let Some(grad) = given.grads[0] else { return vec![None, None] };
            let is_lower = given.attrs.bool("lower");
            let turned = transposed(b, given.inputs[0]);
            let other = Attrs::default().with("lower", Attr::from(!is_lower));
            let of_b = call(b, "solve_triangular", &[turned, grad], other)[0];
            let products = product_by_rows(b, of_b, given.outputs[0]);
            let products = b.scale(products, -1.0);
            vec![Some(only(b, if is_lower { Binary::Ge } else { Binary::Le }, products)), Some(of_b)]
        }))
        .tested_on(0.5, 2.0)
        .example(
            "the lower triangle",
            "solve_triangular(a, b)",
            &[("f32[2, 2]", &[2., 99., 1., 4.]), ("f32[2, 2]", &[2., 4., 9., 6.])],
            &[("f32[2, 2]", &[1., 2., 2., 1.])],
        )
        .example(
            "the upper triangle",
            "solve_triangular(a, b, lower=false)",
            &[("f32[2, 2]", &[2., 1., 99., 4.]), ("f32[2, 1]", &[4., 8.])],
            &[("f32[2, 1]", &[1., 2.])],
        )
}

/// The type of x with `a·x = b`: that of b. Leading extents are equal.
pub fn solution(op: &str, a: &Type, b: &Type) -> Result<Type, TypeIssue> {
    expect_square(op, 0, a)?;
    expect_matrices(op, 1, b)?;
    let rows = a.rank() - 1;
    match a.dtype == b.dtype && a.rank() == b.rank() && a.shape[..rows] == b.shape[..rows] {
        true => Ok(b.clone()),
        false => Err(TypeIssue::new(format!("`{op}` of {a} and {b}"))
            .at(1, format!("this is {b}"))
            .help("it takes […, n, n] and […, n, m] of one type, with equal leading extents")),
    }
}

/// Threads of a block. Each solves for one column.
const THREADS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Triangular {
    n: usize,
    m: usize,
    is_lower: bool,
    n_columns: usize,
}

impl Algorithm for Triangular {
    const NAME: &'static str = "solve_triangular";

    fn of(call: &KernelCall) -> Triangular {
        let extents = call.inputs[1].extents();
        let [n, m] = [2, 1].map(|from_end| extents[extents.len() - from_end]);
        let n_columns = call.inputs[1].numel().checked_div(n).unwrap_or(0);
        Triangular { n, m, is_lower: call.attrs().bool("lower"), n_columns }
    }

    fn run<T: Real>(self, [a, given]: Operands<T>, [x, _]: Results<T>) {
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

    fn grid(self, _: usize, device: &DeviceModel) -> Grid {
        let threads = THREADS.min(device.most_threads);
        Grid { cubes: self.n_columns.div_ceil(threads), threads }
    }

    fn emit<F: Float>(self, scope: &mut Scope, given: &GpuArguments, _: usize) {
        let [a, b, x] = [0, 1, 2].map(|argument| given.array::<F>(argument));
        substitute::expand::<F>(scope, a, b, x, self.n, self.m, self.is_lower, self.n_columns);
    }
}

/// Substitution for one column.
#[cube]
fn substitute<F: Float>(
    a: &Array<F>,
    b: &Array<F>,
    x: &mut Array<F>,
    #[comptime] n: usize,
    #[comptime] m: usize,
    #[comptime] is_lower: bool,
    #[comptime] n_columns: usize,
) {
    let point = ABSOLUTE_POS;
    if point < n_columns {
        let base = point / m * n;
        let column = point % m;
        let mut step = 0usize.runtime();
        while step < n {
            let row = if comptime!(is_lower) { step } else { n - 1usize - step };
            let place = (base + row) * n;
            let mut rest = b[(base + row) * m + column];
            let mut before = 0usize.runtime();
            while before < step {
                let known = if comptime!(is_lower) { before } else { n - 1usize - before };
                rest -= a[place + known] * x[(base + known) * m + column];
                before += 1usize;
            }
            x[(base + row) * m + column] = rest / a[place + row];
            step += 1usize;
        }
    }
}
