//! Kernels of all kinds on a GPU without features and with the least limits of WebGPU: 8 buffers per kernel, 256
//! threads, and 16 KiB of shared memory.

use super::*;

fn check(case: Case, tolerance: f64) {
    let bounds = vec![Closeness(tolerance); case.graph.outputs.len()];
    check_within(case, &bounds);
}

fn check_within(case: Case, bounds: &[Closeness]) {
    case.check_within(least_gpu().iter(), bounds);
}

/// Without float atomics, a sum is written by compare-exchange until no other thread has intervened.
#[test]
fn sums_by_indices_agree() {
    for [n_rows, n, columns] in [[10, 200, 48], [3, 5000, 1], [700, 3000, 3], [40, 5000, 64]] {
        check_within(
            Case::new(|b| {
                let base = data(b, "base", DType::F32, &[n_rows, columns]);
                let updates = data(b, "updates", DType::F32, &[n, columns]);
                let idx = data(b, "idx", DType::I32, &[n]);
                // The numbers of a case are 0 to 9.
                let most = b.full_like(idx, n_rows as f64 - 1.0);
                let idx = b.binary(Binary::Min, idx, most);
                let updates = b.add(updates, updates);
                vec![b.scatter(base, idx, updates, 0, 0, Combine::Add)]
            }),
            &[Closeness::of_sum(n)],
        );
    }
}

#[test]
fn updates_in_their_order_agree() {
    for (dtype, combine) in
        [(DType::F16, Combine::Add), (DType::F32, Combine::Add), (DType::F32, Combine::Set)]
    {
        let case = Case::new(|b| {
            let base = data(b, "base", dtype, &[10, 48]);
            let updates = data(b, "updates", dtype, &[700, 48]);
            let idx = data(b, "idx", DType::I32, &[700]);
            vec![b.scatter(base, idx, updates, 0, 0, combine)]
        });
        check(Case { is_in_order: true, ..case }, 0.0);
    }
}

#[test]
fn scans_agree() {
    for extents in [[37, 50], [3, 40_001], [1, 1]] {
        let [along_columns, along_rows] = extents.map(Closeness::of_sum);
        check_within(
            Case::new(|b| {
                let x = data(b, "x", DType::F32, &extents);
                let scan = |b: &mut Builder, monoid, axis| {
                    let ty = b.ty(x).clone();
                    b.push(NodeOp::Scan { monoid, axis }, vec![x], ty)
                };
                [(Monoid::Sum, 1), (Monoid::Max, 1), (Monoid::Sum, 0)]
                    .map(|(monoid, axis)| scan(b, monoid, axis))
                    .to_vec()
            }),
            &[along_rows, Closeness(0.0), along_columns],
        );
    }
}

#[test]
fn sorts_and_selections_agree() {
    for dtype in [DType::F32, DType::F16, DType::I32, DType::U8, DType::I8, DType::U16] {
        let check = |op: &str, extents: [usize; 2], attrs: &[(&str, Attr)]| {
            let called = |b: &mut Builder| {
                let x = data(b, "x", dtype, &extents);
                called(b, op, x, attrs)
            };
            check(Case::new(called), 0.0);
        };
        let k = |k: i64| [("k", Attr::from(k)), ("largest", Attr::from(k % 2 == 0))];
        check("sort_rows", [37, 50], &[]);
        check("sort_rows", [3, 20_001], &[("descending", Attr::from(true))]);
        check("topk_rows", [37, 50], &k(7));
        [64, 1024, 3001].into_iter().for_each(|n| check("topk_rows", [3, 20_001], &k(n)));
    }
}

#[test]
fn products_agree() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I32] {
        for [batch, m, n, k] in [[1, 128, 256, 784], [3, 17, 5, 9], [1, 1, 40, 33], [2, 128, 128, 64]] {
            check_within(
                Case::new(|b| {
                    let (lhs, rhs) =
                        (data(b, "lhs", dtype, &[batch, m, k]), data(b, "rhs", dtype, &[batch, k, n]));
                    let by = MatmulSpec::new(vec![(0, 0)], vec![(2, 1)]);
                    vec![b.matmul(lhs, rhs, by)]
                }),
                &[Closeness::of_product(dtype, k)],
            );
        }
    }
    let shape = [128, 96, 40];
    check_within(epilogues_and_side_sums(DType::F32, shape), &bounds_of_epilogues(DType::F32, shape));
}

#[test]
fn attention_agrees() {
    for (n_selected, depth, width) in [(2, 8, 8), (33, 20, 12), (300, 128, 128)] {
        check(selected_attention(DType::F32, n_selected, depth, width), 1e-4);
    }
}

/// A kernel with more tensors than can be bound is split.
#[test]
fn a_map_of_many_tensors_agrees() {
    check(
        Case::new(|b| {
            let first = data(b, "x", DType::F32, &[33, 7]);
            let mut sum = first;
            for i in 0..12 {
                let x = data(b, &format!("x{i}"), DType::F32, &[33, 7]);
                let x = b.unary(Unary::Tanh, x);
                sum = b.add(sum, x);
            }
            let total = b.sum(sum, &[1]);
            vec![sum, total]
        }),
        1e-5,
    );
}

#[test]
fn training_steps_have_the_losses_of_the_cpu() {
    let Some(gpu) = least_gpu() else { return };
    let on_gpu = Trainer::new("mnist_decomposed.ron", true, gpu).losses(10);
    let on_cpu = Trainer::new("mnist_decomposed.ron", true, cpu()).losses(10);
    assert_close(&on_gpu, &on_cpu, 2.8e-4);
}

/// The rows need a count of 64 bits, which this GPU lacks.
#[test]
fn rows_of_more_points_than_32_bits_count_are_refused() {
    let Some(gpu) = least_gpu() else { return };
    let error = rows::wide_rows().run(&*gpu, true).unwrap_err().to_string();
    assert!(
        error.contains("it counts more than 2³² elements, and the device has no 64-bit integers"),
        "{error}"
    );
}
