//! Measures the building blocks of the CPU device: the fork/join of the pool, matrix products of the shapes of a
//! small classifier, and the slice kernels. `cargo run --release -p engine-runtime --example cpu_kernels`

use engine_core::ir::{Binary, Unary};
use engine_numerics::gemm::{Matrix, Scratch, TileMut, Tiles, gemm_tile};
use engine_numerics::loops::philox::philox_u32;
use engine_numerics::loops::reduce::Fold;
use engine_numerics::loops::{Operand, Prefetch, argmax, binary, fold, fold_rows, mul_add, unary};
use engine_runtime::cpu::pool::Pool;
use std::hint::black_box;
use std::time::Instant;

fn main() -> std::io::Result<()> {
    let mut pool = Pool::new(2)?;
    println!(
        "fork/join of 2 threads: {:.2} µs",
        1e6 * seconds(|| pool.run(2, &|chunk, _| _ = black_box(chunk)))
    );
    for shape in SHAPES {
        measure_product(&mut pool, shape);
    }
    measure_slices();
    Ok(())
}

/// m, n, k, whether a and b are transposed.
const SHAPES: [(usize, usize, usize, bool, bool); 9] = [
    (128, 256, 784, false, false),
    (128, 10, 256, false, false),
    (256, 10, 128, true, false),
    (128, 256, 10, false, true),
    (784, 256, 128, true, false),
    (128, 784, 256, false, true),
    (1024, 256, 784, false, false),
    (1024, 1024, 1024, false, false),
    (1024, 1024, 1024, true, true),
];

fn measure_product(
    pool: &mut Pool,
    (m, n, k, a_is_transposed, b_is_transposed): (usize, usize, usize, bool, bool),
) {
    let (a, b, mut out) = (vec![0.5f32; m * k], vec![0.25f32; k * n], vec![0f32; m * n]);
    let view = |data, rows, columns, is_transposed| match is_transposed {
        true => Matrix::row_major(data, columns, rows).transposed(),
        false => Matrix::row_major(data, rows, columns),
    };
    let (a_view, b_view) = (view(&a, m, k, a_is_transposed), view(&b, k, n, b_is_transposed));
    let tiles = Tiles::new(m, n, k, false);
    let mut scratch: Vec<_> = (0..pool.n_threads()).map(|_| Scratch::new()).collect();
    let out = Output(out.as_mut_ptr());
    let out = &out;
    let time = seconds(|| {
        pool.run_with(tiles.len(), &mut scratch, |tile, scratch| {
            let (rows, columns) = tiles.tile(tile);
            let start = out.0.wrapping_add(rows.start * n + columns.start);
            // SAFETY: tiles lie inside the output and do not overlap.
            let mut tile = unsafe { TileMut::from_raw(start, rows.len(), columns.len(), n) };
            gemm_tile(scratch, a_view.part(rows, 0..k), b_view.part(0..k, columns).into(), &mut tile);
        });
    });
    let transposes =
        format!("{}·{}", if a_is_transposed { "aᵀ" } else { "a" }, if b_is_transposed { "bᵀ" } else { "b" });
    let rate = 2e-9 * (m * n * k) as f64 / time;
    println!(
        "[{m},{n}] = {transposes}, k = {k}: {:.1} µs, {rate:.0} GFLOP/s, {} tiles",
        1e6 * time,
        tiles.len()
    );
}

/// The output that workers write tiles of.
struct Output(*mut f32);
// SAFETY: tiles do not overlap.
unsafe impl Sync for Output {}

fn measure_slices() {
    const N: usize = 4096;
    let x: Vec<f32> = (0..N).map(|i| 0.1 + i as f32 / 900.0).collect();
    let mut out = vec![0f32; N];
    let report = |what: &str, time: f64| println!("{what}: {:.2} elements/ns", 1e-9 * N as f64 / time);
    use Unary::*;
    for op in [Neg, Abs, Exp, Expm1, Log, Log1p, Sqrt, Rsqrt, Sin, Cos, Tanh, Erf, Round, Recip] {
        report(&format!("{op:?}"), seconds(|| unary(op, black_box(&x), &mut out, Prefetch::NOTHING)));
    }
    for op in [Binary::Add, Binary::Div, Binary::Max, Binary::Pow] {
        let (a, b) = (Operand::Slice(&x[..]), Operand::Scalar(black_box(1.7)));
        report(&format!("{op:?}"), seconds(|| binary(op, black_box(a), b, &mut out, Prefetch::NOTHING)));
    }
    let (b, c) = (Operand::Slice(&x[..]), Operand::Slice(&x[..]));
    report("MulAdd", seconds(|| mul_add(black_box(&x), b, c, &mut out)));
    report("sum", seconds(|| _ = black_box(fold(Fold::Sum, black_box(&x)))));
    report("max", seconds(|| _ = black_box(fold(Fold::Max, black_box(&x)))));
    report("argmax", seconds(|| _ = black_box(argmax(black_box(&x)))));
    report(
        "sum of 16 rows of 256",
        seconds(|| fold_rows(Fold::Sum, black_box(&x), 16, 256, &mut out[..256])),
    );
    let mut bits = vec![0; N];
    report("philox", seconds(|| philox_u32(black_box(&mut bits), [1, 2], 0, 3, 4)));
}

/// The least mean time of a call over 20 batches of about 5 ms.
fn seconds(mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    call();
    let n_calls = (5e-3 / begin.elapsed().as_secs_f64().max(1e-8)).ceil() as usize;
    let mut batch = || {
        let begin = Instant::now();
        (0..n_calls).for_each(|_| call());
        begin.elapsed().as_secs_f64() / n_calls as f64
    };
    (0..20).map(|_| batch()).fold(f64::INFINITY, f64::min)
}
