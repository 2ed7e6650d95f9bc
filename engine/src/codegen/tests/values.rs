//! Results of maps, rows, segmented maps and scans on the host.

use super::*;

#[test]
fn a_map_computes_its_formula_and_keeps_nan() {
    let (mut x, b) = (numbers(70 * 10), numbers(10));
    x[33] = f32::NAN;
    let Some(buffers) = on_host::run(&scale_shift_relu(70, 10), &[bytes(&x), bytes(&[1.5]), bytes(&b)], 0)
    else {
        return;
    };
    let relu = |x: f64| if x < 0.0 { 0.0 } else { x };
    let expected = x.iter().enumerate().map(|(i, &x)| relu(x as f64 * 1.5 + b[i % 10] as f64));
    assert_close(&f32s(&buffers[3]), expected);
}

pub(super) fn check_softmax(rows: usize, columns: usize) {
    let x = numbers(rows * columns);
    let Some(buffers) = on_host::run(&softmax(DType::F32, rows, columns), &[bytes(&x)], 0) else { return };
    let expected = x.chunks(columns).flat_map(|row| {
        let e: Vec<f64> = row.iter().map(|&x| (x as f64).exp()).collect();
        let sum: f64 = e.iter().sum();
        e.into_iter().map(move |e| e / sum)
    });
    assert_close(&f32s(&buffers[1]), expected);
}

#[test]
fn softmax_of_short_rows_shares_a_warp() {
    check_softmax(37, 10);
    check_softmax(3, 32);
}

#[test]
fn softmax_rows_stay_in_the_registers_of_a_warp_or_block() {
    check_softmax(9, 200);
    check_softmax(3, 1000);
}

#[test]
fn softmax_of_long_rows_reads_the_rows_again() {
    check_softmax(2, 40_001);
}

#[test]
fn a_cross_entropy_row_gives_loss_prediction_and_gradient() {
    let (rows, classes) = (21, 10);
    let x = numbers(rows * classes);
    let labels: Vec<u8> = (0..rows).map(|i| (i * 7 % 10) as u8).collect();
    let Some(buffers) = on_host::run(&cross_entropy(rows, classes), &[bytes(&x), labels.clone()], 0) else {
        return;
    };
    let exp: Vec<f64> = x.iter().map(|&x| (x as f64).exp()).collect();
    let sums: Vec<f64> = exp.chunks(classes).map(|row| row.iter().sum()).collect();
    let label = |row: usize| labels[row] as usize;
    assert_close(&f32s(&buffers[2]), (0..rows).map(|i| sums[i].ln() - x[i * classes + label(i)] as f64));
    let best =
        x.chunks(classes).map(|row| (0..classes).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as i32);
    assert_eq!(i32s(&buffers[3]), best.collect::<Vec<_>>());
    let onehot = |at: usize| (at % classes == label(at / classes)) as u8 as f64;
    assert_close(&f32s(&buffers[4]), (0..x.len()).map(|at| exp[at] / sums[at / classes] - onehot(at)));
    assert_eq!(reported(&buffers[5]), None);
}

#[test]
fn padding_reads_its_fill_and_no_memory() {
    let mut s = Sketch::new(1, 6, 1);
    let pad = View::Pad { low: vec![1], high: vec![2], fill: Literal::Float(-1.0) };
    let x = s.load(DType::F32, 3, Access::dense(&[3]).then(&pad, &[6]), Class::Element);
    let nothing = s.load(
        DType::F32,
        0,
        Access::dense(&[0]).then(&View::Pad { low: vec![6], high: vec![0], fill: Literal::Float(0.5) }, &[6]),
        Class::Element,
    );
    let y = s.binary(Binary::Add, x, nothing);
    s.store(y);
    let Some(buffers) = on_host::run(&s.map(), &[bytes(&[1.0, 2.0, 3.0]), vec![]], 0) else { return };
    assert_eq!(f32s(&buffers[2]), [-0.5, 1.5, 2.5, 3.5, -0.5, -0.5]);
}

#[test]
fn a_reshaped_transpose_goes_through_two_levels() {
    let access = Access::dense(&[2, 3])
        .then(&View::Permute { perm: vec![1, 0] }, &[3, 2])
        .then(&View::Reshape, &[6])
        .then(&View::Slice { start: vec![5], step: vec![-2] }, &[3]);
    let mut s = Sketch::new(1, 3, 1);
    let x = s.load(DType::F32, 6, access, Class::Element);
    s.store(x);
    let x: Vec<f32> = (0..6).map(|i| i as f32).collect();
    let Some(buffers) = on_host::run(&s.map(), &[bytes(&x)], 0) else { return };
    assert_eq!(f32s(&buffers[1]), [5.0, 4.0, 3.0]);
}

pub(super) fn random_bits(n: usize) -> Kernel {
    let mut s = Sketch::new(1, n, 1);
    let step = s.load(DType::I32, 1, Access::dense(&[1]), Class::Uniform);
    let random = FusedOp::Random { stream: 0xa4093822, step, iteration: None, access: Access::dense(&[n]) };
    let bits = s.push(random, DType::U32, Class::Element);
    s.store(bits);
    s.map()
}

#[test]
pub(super) fn random_bits_are_those_of_the_reference_generator() {
    // Key [seed, stream], counter [element / 4, 0, step, 0]; the expected words are from a Philox in Python that
    // passes Random123's known-answer tests.
    let Some(buffers) = on_host::run(&random_bits(9), &[7i32.to_le_bytes().to_vec()], 0x299f31d0) else {
        return;
    };
    let found: Vec<u32> = i32s(&buffers[1]).into_iter().map(|word| word as u32).collect();
    assert_eq!(
        found,
        [
            0xf5cac6e8, 0x88596cb2, 0xa9715e4f, 0xa49912f4, 0xde2d3a6f, 0x94fe5530, 0x56f082b8, 0xc5148d15,
            0xec113432
        ]
    );
}

#[test]
fn extrema_of_rows_find_nan_and_the_first_of_equals() {
    let columns = 40;
    let mut s = Sketch::new(3, columns, 1);
    let x = s.input(DType::F32, Class::Element);
    let found = [Monoid::Max, Monoid::Min, Monoid::ArgMax, Monoid::ArgMin].map(|monoid| s.reduce(monoid, x));
    found.into_iter().for_each(|reg| s.store(reg));
    let mut x = vec![0.5; 3 * columns];
    (x[7], x[35], x[9], x[38]) = (2.0, 2.0, -1.0, -1.0);
    (x[columns + 33], x[columns + 39]) = (f32::NAN, f32::NAN);
    x[2 * columns..].fill(f32::NEG_INFINITY);
    let Some(buffers) = on_host::run(&s.row(), &[bytes(&x)], 0) else { return };
    assert_close(&f32s(&buffers[1]), [2.0, f64::NAN, f64::NEG_INFINITY]);
    assert_close(&f32s(&buffers[2]), [-1.0, f64::NAN, f64::NEG_INFINITY]);
    assert_eq!(i32s(&buffers[3]), [7, 33, 0]);
    assert_eq!(i32s(&buffers[4]), [9, 33, 0]);
}

#[test]
fn strided_rows_and_empty_rows_are_reduced() {
    let sums = |outer: usize, row: usize, inner: usize| {
        let mut s = Sketch::new(outer, row, inner);
        let x = s.input(DType::F32, Class::Element);
        let sum = s.reduce(Monoid::Sum, x);
        s.store(sum);
        let x: Vec<f32> = (0..outer * row * inner).map(|i| (i * 7919 % 13) as f32).collect();
        let Some(buffers) = on_host::run(&s.row(), &[bytes(&x)], 0) else { return };
        let at = |o: usize, r: usize, i: usize| x[(o * row + r) * inner + i] as f64;
        let expected = (0..outer * inner).map(|q| (0..row).map(|r| at(q / inner, r, q % inner)).sum());
        assert_close(&f32s(&buffers[1]), expected);
    };
    sums(2, 5, 7);
    sums(2, 100, 33);
    sums(1, 300, 40);
    sums(4, 0, 1);
    sums(1, 0, 3);
}

#[test]
fn several_warps_find_the_first_maximum_of_each_column() {
    let (row, inner) = (300, 3);
    let mut s = Sketch::new(1, row, inner);
    let x = s.input(DType::F32, Class::Element);
    let best = s.reduce(Monoid::ArgMax, x);
    s.store(best);
    let mut x = vec![0.0; row * inner];
    for (r, i, value) in [(299, 0, 1.0), (200, 1, 2.0), (45, 1, 2.0), (17, 2, f32::NAN), (3, 2, 9.0)] {
        x[r * inner + i] = value;
    }
    let Some(buffers) = on_host::run(&s.row(), &[bytes(&x)], 0) else { return };
    assert_eq!(i32s(&buffers[1]), [299, 45, 17]);
}

/// `p - rate·g` of tensors of these lengths, each with its own rate.
pub(super) fn step_of_descent(lengths: &[usize]) -> Kernel {
    let mut s = Sketch::new(1, lengths[1], 1);
    let p = s.input(DType::F32, Class::Element);
    let g = s.input(DType::F32, Class::Element);
    let rate = s.constant(DType::F32, 0.1);
    let change = s.binary(Binary::Mul, g, rate);
    let next = s.binary(Binary::Sub, p, change);
    s.store(next);
    let n = lengths.len();
    let mut operands = vec![];
    for usage in [Use::Read, Use::Read, Use::Write] {
        operands.extend(lengths.iter().map(|&length| Operand {
            value: Value { node: 0, port: 0 },
            ty: TensorType::new(DType::F32, &[length]),
            usage,
        }));
    }
    let segments = lengths.iter().enumerate().map(|(i, &points)| Segment {
        operands: vec![i, n + i, 2 * n + i],
        points,
        constants: vec![Literal::Float(rate_of(i))],
    });
    kernel(KernelBody::Segmented(SegmentedBody { body: s.body, segments: segments.collect() }), operands)
}

fn rate_of(segment: usize) -> f64 {
    if segment == 0 { 0.1 } else { 0.2 }
}

pub(super) fn check_descent(lengths: &[usize]) {
    check_descent_on(DeviceModel::H200, lengths);
}

pub(super) fn check_descent_on(device: DeviceModel, lengths: &[usize]) {
    let n = lengths.len();
    let inputs: Vec<Vec<u8>> = (0..2 * n).map(|i| bytes(&numbers(lengths[i % n] + i)[i..])).collect();
    let Some(buffers) = on_host::run_on(&step_of_descent(lengths), device, &inputs, 0) else { return };
    for i in 0..n {
        let (p, g) = (f32s(&inputs[i]), f32s(&inputs[n + i]));
        let expected = p.iter().zip(g).map(|(&p, g)| p as f64 - rate_of(i) * g as f64);
        assert_close(&f32s(&buffers[2 * n + i]), expected);
    }
}

#[test]
fn a_segmented_map_updates_tensors_of_several_lengths() {
    check_descent(&[3, 600, 256]);
}

fn scan(monoid: Monoid, dtype: DType, [outer, row, inner]: [usize; 3]) -> Kernel {
    let domain = Domain { outer, row, inner };
    let ty = TensorType::new(dtype, &[outer, row, inner]);
    let operand = |node, usage| Operand { value: Value { node, port: 0 }, ty: ty.clone(), usage };
    kernel(KernelBody::Scan(ScanBody { monoid, domain }), vec![operand(0, Use::Read), operand(1, Use::Write)])
}

#[test]
fn scans_run_along_rows_of_all_lengths() {
    for shape in [[5, 7, 1], [3, 9, 4], [2, 100, 1], [2, 3000, 1], [1, 1024, 1], [1, 1, 1]] {
        let [outer, row, inner] = shape;
        let x: Vec<f32> = numbers(outer * row * inner).iter().map(|x| x / 64.0).collect();
        for (monoid, plus) in [(Monoid::Sum, (|a, b| a + b) as fn(f64, f64) -> f64), (Monoid::Max, f64::max)]
        {
            let Some(buffers) = on_host::run(&scan(monoid, DType::F32, shape), &[bytes(&x)], 0) else {
                return;
            };
            let mut expected: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            for point in 0..expected.len() {
                if point / inner % row > 0 {
                    expected[point] = plus(expected[point - inner], expected[point]);
                }
            }
            assert_close(&f32s(&buffers[1]), expected);
        }
    }
}
