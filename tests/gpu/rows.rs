//! Long rows, more of them than SMs: the domain of the fastest kernels.

use super::*;
use engine::core::grad::differentiate;

/// Row lengths: the classes of a language model, and a length whose last group of threads is not full.
const LENGTHS: [usize; 2] = [32768, 32000];

/// Several rows per SM, and fewer on an emulated GPU.
fn n_rows(gpu: &Arc<dyn Device>) -> usize {
    if gpu.info().name.contains("llvmpipe") { 3 } else { 300 }
}

/// Compares the outputs of a graph on a GPU, fused and not, with those on the CPU. `build` is given the number of rows.
fn compare(
    build: impl Fn(&mut Builder, usize) -> Vec<Value>,
    check: impl Fn(&str, &[Vec<f64>], &[Vec<f64>]),
) {
    compare_cases(|rows| Case::new(|b| build(b, rows)), check);
}

fn compare_cases(case: impl Fn(usize) -> Case, check: impl Fn(&str, &[Vec<f64>], &[Vec<f64>])) {
    for gpu in gpus() {
        let case = case(n_rows(gpu));
        let expected = case.run(&*cpu(), true).unwrap();
        for fuse in [true, false] {
            let found = case.run(&**gpu, fuse).unwrap();
            check(&format!("{}, fuse: {fuse}", gpu.info().name), &found, &expected);
        }
    }
}

/// Checks each element within `tolerance` of itself and of the mean of all.
fn are_near(tolerance: f64) -> impl Fn(&str, &[Vec<f64>], &[Vec<f64>]) {
    move |place, found, expected| {
        for (output, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(found.len(), expected.len());
            let mean = expected.iter().map(|x| x.abs()).sum::<f64>() / expected.len() as f64;
            assert!(mean > 0.0 && mean.is_finite(), "out{output} says nothing");
            for (i, (a, b)) in found.iter().zip(expected).enumerate() {
                let is_near = (a - b).abs() <= tolerance * (b.abs() + mean);
                assert!(is_near, "out{output}[{i}] on {place} is {a}, {b} on the CPU");
            }
        }
    }
}

/// Scores with the spread of a model's.
fn scores(b: &mut Builder, dtype: DType, extents: &[usize]) -> Value {
    let x = data(b, "scores", DType::F32, extents);
    let x = b.scale(x, 6.0);
    b.cast(x, dtype)
}

#[test]
fn softmax_of_long_rows_agrees() {
    for length in LENGTHS {
        let build = |b: &mut Builder, rows: usize| {
            let x = scores(b, DType::F32, &[rows, length]);
            let mut found = called(b, "softmax", x, &[]);
            found.extend(called(b, "log_softmax", x, &[]));
            found
        };
        compare(build, are_near(1e-5));
    }
}

/// The noise varies a row's sum and its largest element. Such rows use fast math: the inner logarithm is exact to 2⁻¹⁹
/// of itself, the outer one to 2⁻²² of numbers up to 16. Half that again is lost to rounding when the score is added.
/// Divided by `tau`, that is 1.5·10⁻⁵ of a weight, and as much again of a row's sum.
#[test]
fn drawn_weights_of_long_rows_agree() {
    for length in LENGTHS {
        let build = |b: &mut Builder, rows: usize| {
            let x = scores(b, DType::F32, &[rows, length]);
            called(b, "gumbel_softmax", x, &[("tau", Attr::from(0.5))])
        };
        compare(build, are_near(1e-4));
    }
}

/// Two nearly equal elements may change places, which is rare.
#[test]
fn drawn_positions_of_long_rows_agree() {
    for length in LENGTHS {
        let build = |b: &mut Builder, rows: usize| {
            let x = scores(b, DType::F32, &[rows, length]);
            let hard = [("tau", Attr::from(0.5)), ("hard", Attr::from(true))];
            let hard = called(b, "gumbel_softmax", x, &hard)[0];
            let place = b.reduce(Monoid::ArgMax, hard, &[1]);
            let total = b.sum(hard, &[1]);
            let drawn = called(b, "gumbel_argmax", x, &[])[0];
            vec![place, total, drawn]
        };
        compare(build, |place, found, expected| {
            assert!(found[1].iter().all(|&total| total == 1.0), "{place}: one of each row");
            for output in [0, 2] {
                let rows = found[output].iter().zip(&expected[output]);
                let n_moved = rows.filter(|(a, b)| a != b).count();
                assert!(n_moved * 100 <= found[output].len(), "out{output}, {n_moved} rows, {place}");
            }
        });
    }
}

fn loss_and_gradient(dtype: DType, rows: usize, length: usize) -> Case {
    let registry = Engine::new().registry;
    let mut builder = Builder::new(Graph::new("loss"), &registry);
    let b = &mut builder;
    let x = scores(b, dtype, &[rows, length]);
    // The numbers of a case are 0 to 9. Targets must be spread over the row.
    let targets = data(b, "targets", DType::I32, &[rows]);
    let far = b.full_like(targets, (length / 10) as f64);
    let targets = b.mul(targets, far);
    let loss = b.call("cross_entropy", &[x, targets], Attrs::default()).unwrap()[0];
    let mut done = differentiate(&builder.graph, &registry, loss, &[x]).unwrap();
    let loss = done.map[loss.node][loss.port];
    done.graph.outputs = vec![("loss".into(), loss), ("gradient".into(), done.grads[0])];
    Case::of(done.graph.pruned())
}

#[test]
fn losses_of_long_rows_agree() {
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::BF16, 1e-2)] {
        for length in LENGTHS {
            compare_cases(|rows| loss_and_gradient(dtype, rows, length), are_near(tolerance));
        }
    }
}

#[test]
fn norms_of_half_precision_agree() {
    for length in [4096, 4104] {
        let build = |b: &mut Builder, rows: usize| {
            let x = scores(b, DType::BF16, &[rows, length]);
            let by_square = called(b, "rms_norm", x, &[])[0];
            let by_moments = called(b, "layer_norm", x, &[])[0];
            vec![by_square, by_moments]
        };
        compare(build, are_near(2e-2));
    }
}

/// Ten rows of a table receive all updates.
#[test]
fn sums_by_indices_that_meet_agree() {
    for columns in [256, 6] {
        let build = |b: &mut Builder, rows: usize| {
            let base = data(b, "base", DType::F32, &[10, columns]);
            let index = data(b, "index", DType::I32, &[4 * rows]);
            let updates = data(b, "updates", DType::F32, &[4 * rows, columns]);
            vec![b.call("scatter_add", &[base, index, updates], Attrs::default()).unwrap()[0]]
        };
        compare(build, are_near(1e-5));
    }
}

/// Ties, NaN among greater numbers, and rows without a number greater than the smallest one.
#[test]
fn first_extremes_of_long_rows_agree() {
    for length in LENGTHS {
        let mut case = Case::new(|b| {
            let x = data(b, "x", DType::F32, &[4, length]);
            [Monoid::ArgMax, Monoid::ArgMin].map(|monoid| b.reduce(monoid, x, &[1])).to_vec()
        });
        let mut x = vec![0.5; 4 * length];
        (x[7], x[length - 1], x[90], x[298]) = (2.0, 2.0, -1.0, -1.0);
        (x[length + 20_033], x[2 * length - 2], x[length + 4]) = (f64::NAN, f64::NAN, 9.0);
        x[2 * length..3 * length].fill(f64::NEG_INFINITY);
        x[3 * length..].fill(f64::INFINITY);
        case.inputs.insert("x".into(), tensor(&Type::new(DType::F32, &[4, length]), x.into_iter()));
        for gpu in gpus() {
            let found = case.run(&**gpu, true).unwrap();
            assert_eq!(found[0], [7.0, 20_033.0, 0.0, 0.0], "{}", gpu.info().name);
            assert_eq!(found[1], [90.0, 20_033.0, 0.0, 0.0], "{}", gpu.info().name);
        }
    }
}

/// The variant for a product's panels is tuned on the first of them, in memory that another kernel has used before.
#[test]
fn a_search_in_many_panels_agrees() {
    for gpu in gpus().iter().filter(|gpu| gpu.info().kind == DeviceKind::Cuda) {
        let bytes = vec![0xff; 1 << 30];
        let used: Vec<DeviceBuffer> = (0..3).map(|_| gpu.allocate(bytes.len()).unwrap()).collect();
        used.iter().for_each(|buffer| gpu.write(buffer, 0, &bytes).unwrap());
        drop((used, bytes));
        let case = Case::new(|b| {
            let (queries, base) =
                (data(b, "queries", DType::F32, &[4100, 8]), data(b, "base", DType::F32, &[75_000, 8]));
            b.call("nearest", &[queries, base], Attrs::default().with("k", Attr::from(10))).unwrap()
        });
        let (found, expected) = (case.run(&**gpu, true).unwrap(), case.run(&*cpu(), true).unwrap());
        // Distances are sums of eight squared differences, so each loses at most 10·2⁻²⁴.
        are_near(1e-5)(&gpu.info().name, &found[..1], &expected[..1]);
        let n_moved = found[1].iter().zip(&expected[1]).filter(|(a, b)| a != b).count();
        assert!(n_moved * 100 <= found[1].len(), "{n_moved} of {} are others", found[1].len());
    }
}

/// Rows of differences that are never stored: more points than 32 bits count, from few numbers.
pub fn wide_rows() -> Case {
    const N: usize = 66_000;
    Case::new(|b| {
        let (rows, columns) = (data(b, "rows", DType::F32, &[N]), data(b, "columns", DType::F32, &[N]));
        let shape = [Dim::Fixed(N), Dim::Fixed(N)];
        let (rows, columns) = (b.broadcast_axes(rows, &[0], &shape), b.broadcast_axes(columns, &[1], &shape));
        let apart = b.sub(rows, columns);
        let apart = b.unary(Unary::Abs, apart);
        vec![b.sum(apart, &[1])]
    })
}

#[test]
fn rows_of_more_points_than_32_bits_count_agree() {
    for gpu in gpus() {
        if gpu.info().name.contains("llvmpipe") {
            eprintln!("skipped on {}: it takes minutes where the processor is the GPU", gpu.info().name);
            continue;
        }
        let case = wide_rows();
        let (found, expected) = (case.run(&**gpu, true).unwrap(), case.run(&*cpu(), true).unwrap());
        are_near(1e-5)(&gpu.info().name, &found, &expected);
    }
}
