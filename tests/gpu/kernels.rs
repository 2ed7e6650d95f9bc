//! One test for each kind of kernel, except matmuls.

use super::*;

#[test]
fn maps_and_views_agree() {
    Case::new(|b| {
        let x = data(b, "x", DType::F32, &[37, 50]);
        let y = data(b, "y", DType::F32, &[50]);
        let y = b.broadcast_like(y, x);
        let sum = b.add(x, y);
        let curve = b.unary(Unary::Tanh, sum);
        let turned = b.permute(curve, &[1, 0]);
        let padded = b.pad(turned, &[2, 1], &[0, 3], Literal::Float(-1.5));
        let exp = b.unary(Unary::Exp, x);
        vec![padded, exp]
    })
    .check(1e-5);
}

#[test]
fn rows_of_all_lengths_agree() {
    rows_of_all_lengths(|case, bounds| case.check_within(gpus().iter(), bounds));
}

#[test]
fn rows_agree_where_threads_exchange_values_through_memory() {
    let plain = plain_gpu();
    rows_of_all_lengths(|case, bounds| case.check_within(plain.iter(), bounds));
}

pub fn rows_of_all_lengths(check: impl Fn(&Case, &[Closeness])) {
    for (rows, length) in [(40, 5), (7, 33), (5, 300), (3, 5000), (2, 20_000), (1, 1)] {
        let case = Case::new(|b| {
            let x = data(b, "x", DType::F32, &[rows, length]);
            let peak = b.reduce(Monoid::Max, x, &[1]);
            let best = b.reduce(Monoid::ArgMax, x, &[1]);
            let peak = b.unreduce(peak, &[1], x);
            let shifted = b.sub(x, peak);
            let exp = b.unary(Unary::Exp, shifted);
            let sum = b.sum(exp, &[1]);
            let sum = b.unreduce(sum, &[1], x);
            let softmax = b.div(exp, sum);
            let columns = b.sum(x, &[0]);
            let all = b.sum(x, &[0, 1]);
            vec![softmax, best, columns, all]
        });
        let sums = [rows, rows * length].map(Closeness::of_sum);
        check(&case, &[Closeness(1e-5), Closeness(0.0), sums[0], sums[1]]);
    }
}

/// Each device has its own memory, kernels and streams. An allocation of one does not count for the other.
#[test]
fn devices_of_one_process_share_nothing() {
    for gpu in gpus() {
        let again: Arc<dyn Device> = match gpu.info().kind {
            DeviceKind::Cuda => Arc::new(CudaDevice::new(0).unwrap()),
            _ => Arc::new(
                WgpuDevice::new(Adapter::Gpu(0)).or_else(|_| WgpuDevice::new(Adapter::Software)).unwrap(),
            ),
        };
        let shape = [128, 96, 40];
        let case = epilogues_and_side_sums(DType::F32, shape);
        std::thread::scope(|scope| {
            for device in [gpu, &again] {
                let case = &case;
                let bounds = bounds_of_epilogues(DType::F32, shape);
                scope.spawn(move || case.check_within([device].into_iter(), &bounds));
            }
        });
        let plan = case.plan(&**gpu, true);
        let mut executable = gpu.prepare(Arc::clone(&plan), 7).unwrap();
        let foreign = again.allocate(case.inputs["x"].len()).unwrap();
        assert_eq!(executable.bind("x", &foreign), Err(DeviceError::ForeignBuffer));
    }
}

#[test]
fn attention_to_selected_keys_agrees() {
    for (dtype, tolerance) in [(DType::F32, 1e-4), (DType::BF16, 2e-2)] {
        for (n_selected, depth, width) in [(2, 8, 8), (33, 20, 12), (300, 128, 128), (5000, 64, 40)] {
            selected_attention(dtype, n_selected, depth, width).check(tolerance);
        }
    }
}

pub fn selected_attention(dtype: DType, n_selected: usize, depth: usize, width: usize) -> Case {
    Case::new(|b| {
        let query = data(b, "query", dtype, &[6, 1, depth]);
        let (keys, values) = (data(b, "keys", dtype, &[11, depth]), data(b, "values", dtype, &[11, width]));
        let selected = data(b, "selected", DType::I32, &[6, n_selected]);
        let selected = b.check_index(selected, 11);
        let (keys, values) = (b.gather(keys, selected, 0, 0), b.gather(values, selected, 0, 0));
        let by = |left, right| MatmulSpec::new(vec![(0, 0)], vec![(left, right)]);
        let scores = b.matmul(query, keys, by(2, 2));
        let scores = b.cast(scores, DType::F32);
        let peak = b.reduce(Monoid::Max, scores, &[2]);
        let peak = b.unreduce(peak, &[2], scores);
        let shifted = b.sub(scores, peak);
        let weights = b.unary(Unary::Exp, shifted);
        let total = b.sum(weights, &[2]);
        let total = b.unreduce(total, &[2], weights);
        let weights = b.div(weights, total);
        let weights = b.cast(weights, dtype);
        vec![b.matmul(weights, values, by(2, 1))]
    })
}

/// The results of an op with attributes.
pub fn called(b: &mut Builder, op: &str, x: Value, attrs: &[(&str, Attr)]) -> Vec<Value> {
    let attrs = attrs.iter().fold(Attrs::default(), |attrs, (name, value)| attrs.with(name, value.clone()));
    b.call(op, &[x], attrs).unwrap()
}

#[test]
fn sorts_and_selections_agree() {
    for dtype in [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::BF16,
        DType::I32,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::U16,
    ] {
        let falls = [("descending", Attr::from(true))];
        let k = |k: i64| [("k", Attr::from(k)), ("largest", Attr::from(k % 2 == 0))];
        let check = |op: &str, extents: [usize; 2], attrs: &[(&'static str, Attr)]| {
            let called = |b: &mut Builder| {
                let x = data(b, "x", dtype, &extents);
                called(b, op, x, attrs)
            };
            Case::new(called).check(0.0);
        };
        let (short, long) = ([37, 50], [3, 40001]);
        check("sort_rows", short, &[]);
        check("sort_rows", long, &falls);
        check("topk_rows", short, &k(7));
        [64, 1024, 3001].into_iter().for_each(|n| check("topk_rows", long, &k(n)));
    }
}

/// The threshold of such a selection is zero or the number behind it, which some GPUs take for zero.
#[test]
fn selections_among_zeros_agree() {
    for dtype in [DType::F32, DType::F64, DType::F16] {
        for (is_largest, n) in [(false, 1325), (true, 1325), (false, 40_001), (true, 40_001)] {
            let called = |b: &mut Builder| {
                let x = data(b, "x", dtype, &[3, n]);
                let zeros = b.map(&[x], |v| if is_largest { v[0].min(0.0) } else { v[0].max(0.0) });
                called(b, "topk_rows", zeros, &[("k", Attr::from(100)), ("largest", Attr::from(is_largest))])
            };
            Case::new(called).check(0.0);
        }
    }
}

/// A full buffer is trimmed by histograms of its ranks, or sorted where equal elements fill a bin of them.
#[test]
fn long_selections_agree_where_elements_are_equal() {
    for (dtype, n_values) in [(DType::F32, 1e6), (DType::F32, 1e3), (DType::F32, 3.0), (DType::F64, 1e3)] {
        for (k, n) in [(100, 5000), (700, 20_001), (2000, 20_000)] {
            let called = |b: &mut Builder| {
                let x = data(b, "x", dtype, &[2, n]);
                let x = b.map(&[x], |v| (v[0] * n_values).floor());
                called(b, "topk_rows", x, &[("k", Attr::from(k)), ("largest", Attr::from(k != 700))])
            };
            Case::new(called).check(0.0);
        }
    }
}

/// A compiler may take such a selection for the smaller of two numbers, of which its own function drops NaN.
#[test]
fn limits_by_comparison_keep_nan() {
    let mut case = Case::new(|b| {
        let x = data(b, "x", DType::F32, &[1000]);
        let above = b.map(&[x], |v| E::select(v[0].gt(0.25), 0.25, v[0]));
        let both = b.map(&[above], |v| E::select(v[0].lt(-0.25), -0.25, v[0]));
        let other = b.map(&[x], |v| E::select(v[0].ge(-0.25), v[0], -0.25));
        vec![both, other]
    });
    let x = noise(1000, 3).enumerate().map(|(i, x)| if i % 7 == 0 { f64::NAN } else { x });
    case.inputs.insert("x".to_string(), tensor(&Type::new(DType::F32, &[1000]), x));
    case.check(0.0);
}

#[test]
fn random_bits_are_the_same() {
    Case::new(|b| {
        let bits = b.random_bits("bits", &[1000]);
        let uniform = b.random_uniform("uniform", &[33, 7]);
        vec![bits, uniform]
    })
    .check(0.0);
}

/// Few and many updates, of few and many rows. Several rows have the maximum number of updates.
#[test]
fn updates_in_the_order_of_their_indices_have_the_bits_of_the_cpu() {
    for [n_rows, n, columns] in [[10, 200, 48], [70_000, 3000, 3], [300, 70_000, 1], [40, 5000, 64]] {
        for (dtype, combine) in
            [(DType::F32, Combine::Add), (DType::F16, Combine::Add), (DType::F32, Combine::Set)]
        {
            let mut case = Case::new(|b| {
                let base = data(b, "base", dtype, &[n_rows, columns]);
                let updates = data(b, "updates", dtype, &[n, columns]);
                let idx = data(b, "idx", DType::I32, &[n]);
                let updates = b.add(updates, updates);
                vec![b.scatter(base, idx, updates, 0, 0, combine)]
            });
            let most = n_rows as f64 / 2.0;
            let row = |x: f64| if x < -0.5 { most } else { ((x + 0.5) * most).floor() };
            let rows = tensor(&Type::new(DType::I32, &[n]), noise(n, 9).map(row));
            case.inputs.insert("idx".to_string(), rows);
            Case { is_in_order: true, ..case }.check(0.0);
        }
    }
}
