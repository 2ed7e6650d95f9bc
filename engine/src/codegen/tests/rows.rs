//! Compute-bound rows: fast math, double buffering, and known positions.

use super::*;

/// The kernel's results on the host, with its text for a device.
fn run_for(kernel: &Kernel, device: DeviceModel, inputs: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    on_host::run_on(kernel, device, inputs, 5)
}

fn text_for(kernel: &Kernel, device: DeviceModel) -> String {
    KernelSpec::launches(kernel, device).unwrap().remove(0).cuda_source().unwrap().text
}

/// A softmax of values that are slow to compute.
fn slow_softmax(dtype: DType, rows: usize, columns: usize) -> Kernel {
    let mut s = Sketch::new(rows, columns, 1);
    let x = s.input(dtype, Class::Element);
    let x = s.scalar(Scalar::Cast(DType::F32), &[x]);
    let [sine, tanh, erf] = [Unary::Sin, Unary::Tanh, Unary::Erf].map(|op| s.unary(op, x));
    let x = s.binary(Binary::Add, sine, tanh);
    let x = s.binary(Binary::Add, x, erf);
    let m = s.reduce(Monoid::Max, x);
    let shifted = s.binary(Binary::Sub, x, m);
    let e = s.unary(Unary::Exp, shifted);
    let sum = s.reduce(Monoid::Sum, e);
    let y = s.binary(Binary::Div, e, sum);
    let y = s.scalar(Scalar::Cast(dtype), &[y]);
    s.store(y);
    s.row()
}

#[test]
fn compute_bound_long_rows_are_double_buffered() {
    // The last group of the second length is partial.
    for columns in [32768, 32000] {
        let (rows, few) = (5, DeviceModel { n_processors: 2, ..DeviceModel::H200 });
        let kernel = slow_softmax(DType::F32, rows, columns);
        let fused = KernelSpec::launches(&kernel, few).unwrap().remove(0);
        assert_eq!(fused.blocks_for(rows), 2, "blocks go over several rows");
        assert!(fused.cuda_source().unwrap().text.contains("copy_async("));
        let x = numbers(rows * columns);
        let Some(buffers) = run_for(&kernel, few, &[bytes(&x)]) else { return };
        let scores = x.chunks(columns).flat_map(|row| {
            let e: Vec<f64> = row
                .iter()
                .map(|&x| {
                    let x = f64::from(x);
                    (x.sin() + x.tanh() + libm::erf(x)).exp()
                })
                .collect();
            let sum: f64 = e.iter().sum();
            e.into_iter().map(move |e| e / sum)
        });
        assert_close(&f32s(&buffers[1]), scores);
    }
}

#[test]
fn only_compute_bound_rows_are_double_buffered() {
    let is_double_buffered =
        |kernel: &Kernel, device: DeviceModel| text_for(kernel, device).contains("copy_async(");
    let slow = slow_softmax(DType::F32, 5, 32768);
    assert!(is_double_buffered(&slow, DeviceModel::H200));
    assert!(
        !is_double_buffered(&slow, DeviceModel { double_buffer_bytes: 0, ..DeviceModel::H200 }),
        "double buffering needs asynchronous copies"
    );
    assert!(
        !is_double_buffered(&slow, DeviceModel { double_buffer_bytes: 100 << 10, ..DeviceModel::H200 }),
        "a row of 128 KiB"
    );
    assert!(
        !is_double_buffered(&slow_softmax(DType::F32, 5, 8192), DeviceModel::H200),
        "several blocks share a processor"
    );
    assert!(!is_double_buffered(&softmax(DType::F32, 5, 32768), DeviceModel::H200), "memory bounds it");
    assert!(is_double_buffered(&slow_softmax(DType::BF16, 5, 32768), DeviceModel::H200));
}

/// The whole text, including the definition of the copy instruction. The shortest double-buffered rows have three
/// vectors per thread.
#[test]
fn the_text_of_double_buffered_rows() {
    let mut s = Sketch::new(5, 3 * 8 * 1024, 1);
    let x = s.input(DType::BF16, Class::Element);
    let x = s.scalar(Scalar::Cast(DType::F32), &[x]);
    let m = s.reduce(Monoid::Max, x);
    let shifted = s.binary(Binary::Sub, x, m);
    let e = s.unary(Unary::Exp, shifted);
    let sum = s.reduce(Monoid::Sum, e);
    let log = s.unary(Unary::Log, sum);
    let y = s.binary(Binary::Add, log, m);
    s.store(y);
    expect_file!["../../../../tests/golden/double_buffer.cu"]
        .assert_eq(&text_for(&s.row(), DeviceModel::H200));
}

/// Uniform u with `-ln u`, or with `sin x - ln(-ln u)` and the index of its maximum.
fn noisy(n: usize, is_added: bool) -> Kernel {
    let mut s = Sketch::new(1, n, 1);
    let x = s.input(DType::F32, Class::Element);
    let step = s.load(DType::I32, 1, Access::dense(&[1]), Class::Uniform);
    let random = FusedOp::Random { stream: 3, step, iteration: None, access: Access::dense(&[n]) };
    let bits = s.push(random, DType::U32, Class::Element);
    let constants = [(DType::U32, 9.0), (DType::F32, 0.5), (DType::F32, (-23f64).exp2())];
    let [shift, half, scale] = constants.map(|(dtype, value)| s.constant(dtype, value));
    let top = s.binary(Binary::Shr, bits, shift);
    let top = s.scalar(Scalar::Cast(DType::F32), &[top]);
    let u = s.binary(Binary::Add, top, half);
    let u = s.binary(Binary::Mul, u, scale);
    let log = s.unary(Unary::Log, u);
    let e = s.unary(Unary::Neg, log);
    let x = s.unary(Unary::Sin, x);
    let y = if is_added {
        let g = s.unary(Unary::Log, e);
        s.binary(Binary::Sub, x, g)
    } else {
        // Another slow function, so that this kernel is compute-bound, too.
        let x = s.unary(Unary::Tanh, x);
        s.binary(Binary::Max, x, e)
    };
    let best = s.reduce(Monoid::ArgMax, y);
    [u, y, best].into_iter().for_each(|reg| s.store(reg));
    s.row()
}

#[test]
fn fast_logarithms_are_within_their_stated_error() {
    let n = 200_000;
    let inputs = [vec![0; 4 * n], 0i32.to_le_bytes().to_vec()];
    for is_added in [false, true] {
        let Some(buffers) = run_for(&noisy(n, is_added), DeviceModel::H200, &inputs) else { return };
        let [u, y] = [2, 3].map(|i| f32s(&buffers[i]));
        for (u, y) in u.iter().zip(&y) {
            let (e, y) = (-f64::from(*u).ln(), f64::from(*y));
            let is_close = match is_added {
                false => (y / e - 1.0).abs() < (-19f64).exp2(),
                true => (y + e.ln()).abs() < (-19f64).exp2() * e.ln().abs().max(1.0),
            };
            assert!(is_close, "{y} of {u}");
        }
        let first = |best: usize, i: usize| if y[i] > y[best] { i } else { best };
        assert_eq!(i32s(&buffers[4]), [(0..n).fold(0, first) as i32]);
    }
}

#[test]
fn functions_are_exact_in_memory_bound_kernels_or_on_request() {
    let exact = DeviceModel { has_fast_math: false, ..DeviceModel::H200 };
    let is_fast = |text: String| text.contains("rough_log2(") || text.contains("rough_exp2(");
    assert!(is_fast(text_for(&noisy(100, true), DeviceModel::H200)));
    assert!(!is_fast(text_for(&noisy(100, true), exact)));
    assert!(!is_fast(text_for(&softmax(DType::F32, 3, 40), DeviceModel::H200)), "memory bounds it");
}

/// Rows in registers, or read again; extremes that propagate NaN, or a test of the bits.
#[test]
fn the_first_extreme_of_a_long_row_is_found() {
    let poor = super::targets::POOR;
    for (device, columns) in [DeviceModel::H200, poor]
        .into_iter()
        .flat_map(|device| [300, 1000, 5000, 9000, 40000].map(|columns| (device, columns)))
    {
        let mut s = Sketch::new(4, columns, 1);
        let x = s.input(DType::F32, Class::Element);
        let monoids = [Monoid::ArgMax, Monoid::ArgMin, Monoid::Max, Monoid::Min];
        let found = monoids.map(|monoid| s.reduce(monoid, x));
        found.into_iter().for_each(|reg| s.store(reg));
        let mut x = vec![0.5; 4 * columns];
        (x[7], x[columns - 1], x[90], x[298]) = (2.0, 2.0, -1.0, -1.0);
        (x[columns + 33], x[2 * columns - 2], x[columns + 4]) = (f32::NAN, f32::NAN, 9.0);
        x[2 * columns..3 * columns].fill(f32::NEG_INFINITY);
        x[3 * columns..].fill(f32::INFINITY);
        let Some(buffers) = run_for(&s.row(), device, &[bytes(&x)]) else { return };
        assert_eq!(i32s(&buffers[1]), [7, 33, 0, 0], "{columns} columns");
        assert_eq!(i32s(&buffers[2]), [90, 33, 0, 0], "{columns} columns");
        for (values, of_the_first) in [(&buffers[3], 2.0), (&buffers[4], -1.0)] {
            let [first, second, third, fourth] = f32s(values)[..] else { panic!("four rows") };
            assert_eq!((first, third, fourth), (of_the_first, f32::NEG_INFINITY, f32::INFINITY));
            assert!(second.is_nan(), "{columns} columns: {second}");
        }
    }
}

/// A block has at least a warp of threads, as these run together anyway.
#[test]
fn few_short_rows_are_spread_over_all_sms() {
    let rows_of_block = |rows: usize, columns: usize| {
        let mut s = Sketch::new(rows, columns, 1);
        let x = s.input(DType::F32, Class::Element);
        let best = s.reduce(Monoid::Max, x);
        let y = s.binary(Binary::Sub, x, best);
        s.store(y);
        row_plan::RowPlan::of(&s.body, DeviceModel::H200).rows
    };
    let of_rows = |columns: usize| [1, 128, 512, 2048, 100_000].map(|rows| rows_of_block(rows, columns));
    assert_eq!(of_rows(256), [2, 2, 4, 16, 16], "16 threads each");
    assert_eq!(of_rows(4), [32, 32, 32, 32, 256], "a thread each");
    assert_eq!(of_rows(1000), [1; 5], "a block each");
}

#[test]
fn long_rows_that_are_read_once_do_not_stay_in_registers() {
    let held = |row: usize, is_read_again: bool, device: DeviceModel| {
        let mut s = Sketch::new(4, row, 1);
        let x = s.input(DType::F32, Class::Element);
        let best = s.reduce(Monoid::Max, x);
        let y = if is_read_again { s.binary(Binary::Sub, x, best) } else { best };
        s.store(y);
        row_plan::RowPlan::of(&s.body, device).groups
    };
    let wgsl = DeviceModel { most_threads: 1024, ..DeviceModel::WEBGPU };
    assert_eq!(held(32768, false, wgsl), None);
    assert_eq!(held(32768, true, wgsl), Some(16));
    assert_eq!(held(16384, false, wgsl), Some(8));
    assert_eq!(held(32768, false, DeviceModel::H200), Some(8));
}

#[test]
fn a_position_in_the_row_takes_no_division() {
    let text = only_source(&cross_entropy(4, 1000)).text;
    assert!(!text.contains("% uint32(1000)") && !text.contains("/ uint32(1000)"), "{text}");
}

#[test]
fn a_half_precision_result_is_rounded_once() {
    let mut s = Sketch::new(4, 1024, 1);
    let x = s.input(DType::BF16, Class::Element);
    let x = s.scalar(Scalar::Cast(DType::F32), &[x]);
    let sum = s.reduce(Monoid::Sum, x);
    let y = s.binary(Binary::Mul, x, sum);
    let y = s.scalar(Scalar::Cast(DType::BF16), &[y]);
    s.store(y);
    // The product is rounded by the store alone; the sum uses the unrounded product.
    let text = only_source(&s.row()).text;
    let rounded: Vec<&str> =
        text.lines().filter_map(|line| line.split_once("= __nv_bfloat16(")).map(|(_, x)| x).collect();
    assert!(!rounded.is_empty());
    for name in rounded {
        let name = name.trim_end_matches(");");
        let made = text.lines().find(|line| line.starts_with(&format!("const float {name} ="))).unwrap();
        assert!(made.contains(" * "), "{made}");
    }
}

/// Packed elements take more space in registers than in the cache.
#[test]
fn long_rows_of_packed_elements_are_read_again() {
    let device = DeviceModel { most_threads: 1024, ..DeviceModel::WEBGPU };
    let is_held = |kernel: &Kernel, device: DeviceModel| {
        let KernelBody::Row(body) = &kernel.body else { unreachable!() };
        row_plan::RowPlan::of(body, device).groups.is_some()
    };
    assert!(!is_held(&softmax(DType::BF16, 5, 32000), device));
    assert!(!is_held(&softmax(DType::F16, 5, 32768), device));
    assert!(is_held(&softmax(DType::BF16, 5, 16384), device), "the row fits in registers");
    assert!(is_held(&softmax(DType::F32, 5, 32000), device));
    assert!(is_held(&softmax(DType::BF16, 5, 32000), DeviceModel::H200));
    assert!(is_held(&slow_softmax(DType::BF16, 5, 32000), device), "slow functions would be computed again");
}
