#![allow(clippy::unwrap_used)]
//! Matmuls in `f32` by terms in bf16 on tensor cores.

use super::products::product;
use super::*;
use crate::device_model::TensorCores;
use crate::fusion::{MatmulBody, MatrixOperand};

const TILE: ResultTile = ResultTile { rows: 128, columns: 128 };

/// All layouts, batches, rows of factors that the copy engine could not read in place, tiles and steps that exceed the matrices,
/// and a ring that is filled again.
#[test]
fn products_in_terms_add_up() {
    let device = DeviceModel { n_processors: 2, ..DeviceModel::H200 };
    let turns = [[false, false], [true, true], [false, true], [true, false]];
    let shapes = [(2, [136, 136, 72]), (1, [130, 40, 333]), (3, [8, 8, 1]), (1, [5, 264, 37])];
    for ((batch, shape), turned) in shapes.into_iter().zip(turns) {
        let product = product(batch, shape, turned, turned[0]);
        let (kernel, inputs) = (product.kernel(), product.inputs());
        let launches = KernelSpec::in_terms(&kernel, TILE, device).unwrap();
        let buffers = inputs.each_ref().map(|input| bytes(input));
        let Some(buffers) = on_host::run_launches(&kernel, &launches, &buffers, 0) else { return };
        assert_close(&f32s(&buffers[4]), product.result(&inputs));
    }
}

/// `lhs · rhs`, where the left matrix is that of each product of a batch.
fn plain(batch: usize, [m, n, k]: [usize; 3]) -> Kernel {
    let mut s = Sketch::new(batch * m, n, 1);
    let lhs = s.operand(DType::F32, m * k, Use::Read);
    let rhs = s.operand(DType::F32, batch * k * n, Use::Read);
    let y = s.push(FusedOp::Accumulator, DType::F32, Class::Element);
    s.store(y);
    let matrix = |operand: usize, batch: usize, row: usize| MatrixOperand {
        operand,
        offset: 0,
        batch: batch as i64,
        row: row as i64,
        col: 1,
    };
    let body = MatmulBody {
        batch,
        m,
        n,
        k,
        lhs: matrix(lhs, 0, k),
        rhs: matrix(rhs, k * n, n),
        uneven: [None, None],
        dtype: DType::F32,
        precision: None,
        epilogue: s.body,
        side_sums: vec![],
        rows: None,
    };
    kernel(KernelBody::Matmul(body), s.operands)
}

/// Numbers of 24 bits over seven decades.
fn mixed(n: usize, seed: u32) -> Vec<f32> {
    let words = (0..n as u32).map(|i| (i + seed).wrapping_mul(2_654_435_769).wrapping_add(seed << 7));
    let number = |word: u32| {
        let fraction = (word >> 8) as f32 / (1 << 24) as f32 - 0.5;
        fraction * 10f32.powi((word % 8) as i32 - 3)
    };
    words.map(number).collect()
}

/// The error is that of sums in `f32`: of the sum of all magnitudes, less than the last bit of an `f32`.
#[test]
fn terms_lose_no_digits() {
    let [batch, m, n, k] = [2, 24, 40, 200];
    let kernel = plain(batch, [m, n, k]);
    let (lhs, rhs) = (mixed(m * k, 1), mixed(batch * k * n, 2));
    let launches = KernelSpec::in_terms(&kernel, TILE, DeviceModel::H200).unwrap();
    let Some(found) = on_host::run_launches(&kernel, &launches, &[bytes(&lhs), bytes(&rhs)], 0) else {
        return;
    };
    for (point, found) in f32s(&found[2]).into_iter().enumerate() {
        let (b, i, j) = (point / (m * n), point / n % m, point % n);
        let factors = |p: usize| f64::from(lhs[i * k + p]) * f64::from(rhs[b * k * n + p * n + j]);
        let (exact, size): (f64, f64) =
            (0..k).map(factors).fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
        let error = (f64::from(found) - exact).abs();
        assert!(error <= size * 2f64.powi(-23), "{point}: {found} for {exact}, of {size}");
    }
}

/// Sums with infinities, NaN and the largest number are those in `f32`: infinite times zero is NaN, times one infinite.
#[test]
fn terms_keep_what_is_not_finite() {
    let [m, n, k] = [8, 8, 3];
    let kernel = plain(1, [m, n, k]);
    let (mut lhs, mut rhs) = (vec![1.0; m * k], vec![1.0; k * n]);
    (lhs[0], lhs[k], lhs[2 * k + 1], lhs[3 * k]) = (f32::INFINITY, f32::NAN, f32::MAX, f32::NEG_INFINITY);
    (rhs[0], rhs[1], rhs[2]) = (0.0, -1.0, 0.5);
    (rhs[n + 3], rhs[n + 4]) = (0.5, -1.0);
    let launches = KernelSpec::in_terms(&kernel, TILE, DeviceModel::H200).unwrap();
    let Some(found) = on_host::run_launches(&kernel, &launches, &[bytes(&lhs), bytes(&rhs)], 0) else {
        return;
    };
    for (point, found) in f32s(&found[2]).into_iter().enumerate() {
        let (i, j) = (point / n, point % n);
        let expected = (0..k).fold(0.0f32, |sum, p| lhs[i * k + p].mul_add(rhs[p * n + j], sum));
        let is_equal = found == expected || (found.is_nan() && expected.is_nan());
        assert!(is_equal, "{i}, {j}: {found} for {expected}");
    }
}

#[test]
fn other_devices_and_types_have_no_terms() {
    let product = product(1, [128, 64, 64], [false, false], false);
    let of = |kernel: &Kernel, device: DeviceModel| KernelSpec::in_terms(kernel, TILE, device).is_some();
    assert!(of(&product.kernel(), DeviceModel::H200));
    assert!(!of(&product.kernel(), DeviceModel::A100));
    assert!(!of(&product.kernel(), DeviceModel { tensor_cores: None, ..DeviceModel::H200 }));
    assert!(!of(&product.kernel_of(DType::BF16), DeviceModel::H200));
    assert_eq!(DeviceModel::H200.tensor_cores, Some(TensorCores::Warpgroups));
}

/// The launches that split both factors, and the product.
#[test]
fn the_text_of_a_matmul_in_terms() {
    let launches = KernelSpec::in_terms(&plain(1, [256, 136, 100]), TILE, DeviceModel::H200).unwrap();
    let texts: Vec<String> = launches.iter().map(kernel_text).collect();
    expect_file!["../../../../tests/golden/matmul_in_terms.cu"].assert_eq(&texts.join("\n"));
}
