//! Matmuls: by point, blocked, split, and with epilogues that a library absorbs.

use super::*;
use crate::codegen::schedule::matmul_blocked::MatmulBlocked;
use crate::device_model::TensorCores;
use crate::fusion::{MatmulBody, MatrixOperand, Side, SideSum};
use crate::numerics::Precision;
use crate::program::{Activation, MatmulCall, absorbed};

/// `tanh(lhs · rhs + bias)` and the sums of both factors along the contracted axis, with factors in the given
/// layout.
pub(super) struct Product {
    batch: usize,
    shape: [usize; 3],
    is_lhs_transposed: bool,
    is_rhs_transposed: bool,
    /// Whether the epilogue has row registers.
    has_rows: bool,
}

impl Product {
    pub fn kernel(&self) -> Kernel {
        self.kernel_of(DType::F32)
    }

    /// The kernel with factors of a type.
    pub fn kernel_of(&self, dtype: DType) -> Kernel {
        let [m, n, k] = self.shape;
        let n_points = self.batch * m * n;
        let mut s = Sketch::new(self.batch * m, n, 1);
        let lhs = s.operand(dtype, self.batch * m * k, Use::Read);
        let rhs = s.operand(dtype, self.batch * k * n, Use::Read);
        let bias = Access::strided(&[self.batch * m, n], &[0, 1]);
        let bias = s.load(DType::F32, n, bias, Class::Element);
        let row_factor = match self.has_rows {
            true => s.input(DType::F32, Class::Row),
            false => {
                let access = Access::strided(&[self.batch * m, n], &[1, 0]);
                s.load(DType::F32, self.batch * m, access, Class::Element)
            }
        };
        let product = s.push(FusedOp::Accumulator, DType::F32, Class::Element);
        let y = s.binary(Binary::Add, product, bias);
        let y = s.binary(Binary::Mul, y, row_factor);
        let y = s.unary(Unary::Tanh, y);
        s.store(y);
        let lhs_sum = s.operand(DType::F32, self.batch * m, Use::Write);
        let rhs_sum = s.operand(DType::F32, self.batch * n, Use::Write);
        let matrix = |operand: usize, [rows, columns]: [usize; 2], is_transposed: bool| {
            let (row, col) = if is_transposed { (1, rows as i64) } else { (columns as i64, 1) };
            MatrixOperand { operand, offset: 0, batch: (rows * columns) as i64, row, col }
        };
        let body = MatmulBody {
            batch: self.batch,
            m,
            n,
            k,
            lhs: matrix(lhs, [m, k], self.is_lhs_transposed),
            rhs: matrix(rhs, [k, n], self.is_rhs_transposed),
            uneven: [None, None],
            dtype,
            precision: None,
            epilogue: s.body,
            side_sums: vec![
                SideSum { side: Side::Lhs, operand: lhs_sum },
                SideSum { side: Side::Rhs, operand: rhs_sum },
            ],
            rows: None,
        };
        assert_eq!(s.operands[4].ty.numel(), n_points);
        kernel(KernelBody::Matmul(body), s.operands)
    }

    pub fn inputs(&self) -> [Vec<f32>; 4] {
        let [m, n, k] = self.shape;
        let scaled = |n: usize| numbers(n).iter().map(|x| x / 8.0).collect();
        [scaled(self.batch * m * k), scaled(self.batch * k * n), scaled(n), scaled(self.batch * m)]
    }

    fn lhs(&self, inputs: &[Vec<f32>; 4], b: usize, i: usize, p: usize) -> f64 {
        let [m, _, k] = self.shape;
        f64::from(inputs[0][b * m * k + if self.is_lhs_transposed { p * m + i } else { i * k + p }])
    }

    fn rhs(&self, inputs: &[Vec<f32>; 4], b: usize, p: usize, j: usize) -> f64 {
        let [_, n, k] = self.shape;
        f64::from(inputs[1][b * k * n + if self.is_rhs_transposed { j * k + p } else { p * n + j }])
    }

    fn sums(&self, inputs: &[Vec<f32>; 4]) -> Vec<f64> {
        let [m, n, k] = self.shape;
        let points = (0..self.batch * m * n).map(|point| (point / (m * n), point / n % m, point % n));
        points
            .map(|(b, i, j)| (0..k).map(|p| self.lhs(inputs, b, i, p) * self.rhs(inputs, b, p, j)).sum())
            .collect()
    }

    pub fn result(&self, inputs: &[Vec<f32>; 4]) -> Vec<f64> {
        let n = self.shape[1];
        let product = self.sums(inputs).into_iter().enumerate();
        let biased = product.map(|(i, x)| (x + f64::from(inputs[2][i % n])) * f64::from(inputs[3][i / n]));
        biased.map(f64::tanh).collect()
    }
}

pub(super) const fn product(batch: usize, shape: [usize; 3], turned: [bool; 2], has_rows: bool) -> Product {
    Product { batch, shape, is_lhs_transposed: turned[0], is_rhs_transposed: turned[1], has_rows }
}

const PRODUCTS: [Product; 5] = [
    product(1, [7, 10, 33], [false, false], true),
    product(3, [4, 5, 6], [true, false], false),
    product(2, [20, 17, 300], [false, true], true),
    product(2, [5, 6, 100], [true, true], false),
    product(1, [3, 4, 40], [false, false], false),
];

#[test]
fn a_matmul_sums_its_products_and_runs_the_epilogue() {
    for product in PRODUCTS {
        let inputs = product.inputs();
        let buffers = inputs.each_ref().map(|input| bytes(input));
        let Some(buffers) = on_host::run(&product.kernel(), &buffers, 0) else { return };
        assert_close(&f32s(&buffers[4]), product.result(&inputs));
    }
}

/// Blocked, with tiles and a last slice that exceed the matrices.
#[test]
fn a_large_matmul_is_blocked() {
    let turns = [[false, false], [true, false], [false, true], [true, true]];
    let ragged = turns.map(|turned| product(2, [90, 100, 37], turned, turned[0]));
    // Two points of a thread along each side.
    let larger = product(1, [400, 300, 20], [false, false], false);
    for product in ragged.into_iter().chain([larger]) {
        let fused = KernelSpec::own_product(&product.kernel(), DeviceModel::H200);
        assert!(fused.schedule.as_any().is::<MatmulBlocked>());
        let inputs = product.inputs();
        let buffers = inputs.each_ref().map(|input| bytes(input));
        let Some(buffers) = on_host::run(&product.kernel(), &buffers, 0) else { return };
        assert_close(&f32s(&buffers[4]), product.result(&inputs));
    }
}

/// Two points of a thread along each side, neighbours in shared memory; tiles and the last slice exceed the
/// matrices.
#[test]
fn the_text_of_a_blocked_matmul() {
    let product = product(1, [400, 300, 20], [false, true], false);
    expect_file!["../../../../tests/golden/matmul_blocked.cu"]
        .assert_eq(&kernel_text(&KernelSpec::own_product(&product.kernel(), DeviceModel::H200)));
}

/// Few points and long sums: the epilogue adds up the parts.
#[test]
fn every_split_of_a_matmul_gives_the_same_result() {
    let no_library = DeviceModel { library: None, ..DeviceModel::H200 };
    let long = [[false, false], [true, true]].map(|turned| product(1, [80, 70, 512], turned, turned[0]));
    let whole = product(2, [90, 100, 37], [false, true], true);
    // Less than nine tenths of tiles of 128 rows would be used.
    let fitted = product(1, [220, 70, 256], [true, false], false);
    let mut n_launches = vec![];
    let narrow = product(1, [900, 10, 256], [true, false], false);
    let short = product(1, [130, 140, 10], [false, true], false);
    for product in long.into_iter().chain([whole, fitted, narrow, short]) {
        let (kernel, inputs) = (product.kernel(), product.inputs());
        for cut in KernelSpec::splits(&kernel, no_library) {
            let launches = KernelSpec::split_k_product(&kernel, no_library, cut);
            n_launches.push(launches.len());
            let buffers = inputs.each_ref().map(|input| bytes(input));
            let Some(buffers) = on_host::run_launches(&kernel, &launches, &buffers, 0) else { return };
            assert_close(&f32s(&buffers[4]), product.result(&inputs));
        }
    }
    assert!(n_launches.contains(&1) && n_launches.contains(&2), "{n_launches:?}");
}

/// Slices that are vectors or not, of all layouts, of many and of few rows; some tiles and slices exceed the matrices.
#[test]
fn slices_of_the_contracted_axis_add_up() {
    let turns = [[false, false], [true, false], [false, true], [true, true]];
    let shapes = [(1, [32, 64, 256]), (2, [36, 40, 100]), (3, [9, 33, 50]), (1, [512, 256, 36])];
    for (batch, shape) in shapes {
        turns
            .into_iter()
            .for_each(|turned| check_sliced(product(batch, shape, turned, turned[0]), DType::F32));
    }
    for (batch, shape) in [(1, [1, 256, 200]), (2, [3, 40, 96]), (1, [8, 1000, 36]), (3, [5, 33, 50])] {
        for (turned, dtype) in turns.into_iter().zip([DType::F32, DType::F16, DType::BF16, DType::BF16]) {
            check_sliced(product(batch, shape, turned, turned[0]), dtype);
        }
    }
}

fn check_sliced(product: Product, dtype: DType) {
    let (kernel, mut inputs) = (product.kernel_of(dtype), product.inputs());
    let fused = KernelSpec::sliced_product(&kernel, DeviceModel::H200).unwrap();
    // With eight bits, numbers are exact in all types.
    inputs[..2].iter_mut().flatten().for_each(|x| *x = (*x * 256.0).round() / 256.0);
    let [lhs, rhs] =
        [0, 1].map(|i| if dtype == DType::F32 { bytes(&inputs[i]) } else { dtype_bytes(dtype, &inputs[i]) });
    let buffers = [lhs, rhs, bytes(&inputs[2]), bytes(&inputs[3])];
    let Some(buffers) = on_host::run_launches(&kernel, &[fused], &buffers, 0) else { return };
    assert_close(&f32s(&buffers[4]), product.result(&inputs));
}

/// Factors of all layouts that tensor cores read, of three types; tiles and steps that exceed the matrices, several
/// tiles of a block, and a ring that is filled again.
#[test]
fn products_on_tensor_cores_add_up() {
    [DeviceModel::H200, DeviceModel::A100].into_iter().for_each(check_on_tensor_cores);
}

/// The tile for warps instead of one with more sums of a thread.
fn narrow(tile: ResultTile) -> ResultTile {
    ResultTile { columns: tile.columns.min(128 * 128 / tile.rows), ..tile }
}

fn check_on_tensor_cores(model: DeviceModel) {
    let device = DeviceModel { n_processors: 2, ..model };
    let turns =
        [[[false, false], [true, true]], [[false, true], [true, false]], [[true, false], [false, true]]];
    let shapes = [(2, [136, 264, 72]), (1, [264, 40, 520]), (3, [8, 8, 8])];
    for (((batch, shape), tile), turns) in shapes.into_iter().zip(ResultTile::ALL).zip(turns) {
        let tile = if model.tensor_cores == Some(TensorCores::Warps) { narrow(tile) } else { tile };
        for (turned, dtype) in turns.into_iter().zip(HALVES) {
            let product = product(batch, shape, turned, turned[0]);
            let kernel = product.kernel_of(dtype);
            let fused = KernelSpec::on_tensor_cores(&kernel, Precision::F32, tile, device).unwrap();
            let mut inputs = product.inputs();
            // With eight bits, numbers are exact in both types.
            inputs[..2].iter_mut().flatten().for_each(|x| *x = (*x * 256.0).round() / 256.0);
            let halves = |input: &[f32]| dtype_bytes(dtype, input);
            let buffers = [halves(&inputs[0]), halves(&inputs[1]), bytes(&inputs[2]), bytes(&inputs[3])];
            let Some(buffers) = on_host::run_launches(&kernel, &[fused], &buffers, 0) else { return };
            assert_close(&f32s(&buffers[4]), product.result(&inputs));
        }
    }
    let product = product(2, [36, 72, 100], [false, true], true);
    let (kernel, inputs) = (product.kernel(), product.inputs());
    let fused = KernelSpec::on_tensor_cores(&kernel, Precision::Tf32, ResultTile::ALL[2], device).unwrap();
    let buffers = inputs.each_ref().map(|input| bytes(input));
    let Some(buffers) = on_host::run_launches(&kernel, &[fused], &buffers, 0) else { return };
    assert_close(&f32s(&buffers[4]), product.result(&inputs));
}

/// An epilogue whose operand is read before the products, with results of half precision.
#[test]
fn an_epilogue_on_tensor_cores_reads_its_operand_early() {
    for (tile, [m, n, k]) in [(ResultTile::ALL[0], [136, 264, 72]), (ResultTile::ALL[1], [256, 128, 64])] {
        let inputs = [m * k, k * n, m * n].map(|n| rounded(&numbers(n)));
        let kernel = gated([m, n, k]);
        let spec = KernelSpec::on_tensor_cores(&kernel, Precision::F32, tile, DeviceModel::H200).unwrap();
        assert!(spec.cuda_source().unwrap().text.contains("held_"));
        let buffers = inputs.each_ref().map(|input| dtype_bytes(DType::BF16, input));
        let Some(buffers) = on_host::run_launches(&kernel, &[spec], &buffers, 0) else { return };
        let words = buffers[3].chunks_exact(2).map(|half| u16::from_le_bytes(half.try_into().unwrap()));
        for (point, word) in words.enumerate() {
            let (i, j) = (point / n, point % n);
            let sum: f32 = (0..k).map(|p| inputs[0][i * k + p] * inputs[1][p * n + j]).sum();
            let (found, expected) = (f32::from_bits(u32::from(word) << 16), sum * inputs[2][point]);
            assert!(
                (found - expected).abs() <= expected.abs() / 256.0 + 1e-4,
                "{point}: {found} for {expected}"
            );
        }
    }
}

/// `lhs · rhs * gate`, all in bf16.
fn gated([m, n, k]: [usize; 3]) -> Kernel {
    let mut s = Sketch::new(m, n, 1);
    let [lhs, rhs] = [m * k, k * n].map(|n| s.operand(DType::BF16, n, Use::Read));
    let gate = s.load(DType::BF16, m * n, Access::strided(&[m * n], &[1]), Class::Element);
    let product = s.push(FusedOp::Accumulator, DType::BF16, Class::Element);
    let y = s.push(
        FusedOp::Scalar(Scalar::Binary(Binary::Mul), vec![product, gate]),
        DType::BF16,
        Class::Element,
    );
    s.store(y);
    let matrix = |operand: usize, columns: usize| MatrixOperand {
        operand,
        offset: 0,
        batch: 0,
        row: columns as i64,
        col: 1,
    };
    let body = MatmulBody {
        batch: 1,
        m,
        n,
        k,
        lhs: matrix(lhs, k),
        rhs: matrix(rhs, n),
        uneven: [None, None],
        dtype: DType::BF16,
        precision: None,
        epilogue: s.body,
        side_sums: vec![],
        rows: None,
    };
    kernel(KernelBody::Matmul(body), s.operands)
}

/// Numbers of eight bits.
pub fn rounded(values: &[f32]) -> Vec<f32> {
    values
        .iter()
        .map(|x| (x * 64.0).round() / 64.0)
        .map(|x| f32::from_bits(x.to_bits() & 0xFFFF_0000))
        .collect()
}

const HALVES: [DType; 2] = [DType::BF16, DType::F16];

/// Numbers with eight significant bits as halves.
pub fn dtype_bytes(dtype: DType, values: &[f32]) -> Vec<u8> {
    let half = |x: f32| match dtype {
        DType::BF16 => (x.to_bits() >> 16) as u16,
        _ => half::f16::from_f32(x).to_bits(),
    };
    values.iter().flat_map(|&x| half(x).to_le_bytes()).collect()
}

#[test]
fn tensor_cores_read_aligned_matrices_only() {
    let is_read = |shape: [usize; 3], turned: [bool; 2], dtype: DType, precision: Precision| {
        let kernel = product(1, shape, turned, false).kernel_of(dtype);
        let tile = ResultTile::ALL[0];
        KernelSpec::on_tensor_cores(&kernel, precision, tile, DeviceModel::H200).is_some()
    };
    let (straight, turned) = ([false, false], [false, true]);
    assert!(is_read([128, 64, 64], straight, DType::BF16, Precision::F32));
    assert!(is_read([128, 64, 64], turned, DType::F32, Precision::Tf32));
    assert!(!is_read([128, 64, 64], straight, DType::F32, Precision::Tf32), "columns of words");
    assert!(!is_read([128, 64, 64], turned, DType::F32, Precision::F32), "exact products");
    assert!(!is_read([128, 64, 60], turned, DType::BF16, Precision::F32), "rows of 120 bytes");
    assert!(!is_read([128, 60, 64], turned, DType::BF16, Precision::F32), "60 columns");
}

/// Tiles of 128 rows and 128 columns, with an operand that is read early.
#[test]
fn the_text_of_a_matmul_on_tensor_cores() {
    let kernel = gated([384, 264, 72]);
    let text = |tile: ResultTile, device: DeviceModel| {
        let spec = KernelSpec::on_tensor_cores(&kernel, Precision::F32, tile, device);
        kernel_text(&spec.unwrap())
    };
    let [_, high, small] = ResultTile::ALL;
    expect_file!["../../../../tests/golden/matmul_tensor_cores.cu"]
        .assert_eq(&text(small, DeviceModel::H200));
    expect_file!["../../../../tests/golden/matmul_tensor_cores_of_warps.cu"]
        .assert_eq(&text(narrow(high), DeviceModel::A100));
}

/// Slices in vectors along the contracted axis on the left, and across it on the right.
#[test]
fn the_text_of_a_sliced_matmul() {
    let product = product(1, [32, 64, 256], [false, false], false);
    let fused = KernelSpec::sliced_product(&product.kernel(), DeviceModel::H200).unwrap();
    expect_file!["../../../../tests/golden/matmul_sliced.cu"].assert_eq(&kernel_text(&fused));
}

#[test]
fn short_narrow_and_large_matmuls_are_not_sliced() {
    let is_sliced = |batch: usize, shape: [usize; 3]| {
        let kernel = product(batch, shape, [false, false], false).kernel();
        KernelSpec::sliced_product(&kernel, DeviceModel::H200).is_some()
    };
    assert!(
        !is_sliced(1, [128, 10, 256]) && !is_sliced(1, [128, 256, 10]) && !is_sliced(1, [2048, 1024, 64])
    );
    assert!(is_sliced(5, [32, 512, 256]) && is_sliced(1, [1, 256, 256]));
    // However large the right matrix is, few rows read it once.
    assert!(is_sliced(1, [8, 32_000, 768]));
}

#[test]
fn an_epilogue_runs_on_a_product_in_memory() {
    for product in PRODUCTS {
        let inputs = product.inputs();
        let fused = KernelSpec::epilogue(&product.kernel(), DType::F32, DeviceModel::H200);
        let arguments: Vec<Argument> =
            [2, 3, 4].map(Argument::Operand).into_iter().chain([Argument::Product]).collect();
        assert_eq!(fused.arguments(), arguments);
        let sums: Vec<f32> = product.sums(&inputs).into_iter().map(|x| x as f32).collect();
        let result = vec![0; 4 * sums.len()];
        let buffers = vec![bytes(&inputs[2]), bytes(&inputs[3]), result, bytes(&sums)];
        let Some(buffers) = on_host::run_arguments(&fused, buffers, 0) else { return };
        assert_close(&f32s(&buffers[2]), product.result(&inputs));
    }
}

#[test]
fn side_sums_follow_the_contracted_axis() {
    for product in PRODUCTS {
        let [m, n, k] = product.shape;
        let inputs = product.inputs();
        let sums = KernelSpec::side_sums(&product.kernel(), DeviceModel::H200);
        let at = |b: usize, i: usize, side: Side| -> f64 {
            (0..k)
                .map(|p| match side {
                    Side::Lhs => product.lhs(&inputs, b, i, p),
                    Side::Rhs => product.rhs(&inputs, b, p, i),
                })
                .sum()
        };
        for (fused, (input, side, extent)) in sums.iter().zip([(0, Side::Lhs, m), (1, Side::Rhs, n)]) {
            let n_sums = product.batch * extent;
            let buffers = vec![bytes(&inputs[input]), vec![0; 4 * n_sums]];
            let Some(buffers) = on_host::run_arguments(fused, buffers, 0) else { return };
            assert_close(&f32s(&buffers[1]), (0..n_sums).map(|i| at(i / extent, i % extent, side)));
        }
    }
}

/// `relu(product + bias + added)` of `[m, n]`, or a part of that.
fn absorbable(has_bias: bool, adds: bool, has_relu: bool) -> (Kernel, MatmulBody) {
    let [m, n, k] = [4, 5, 6];
    let mut s = Sketch::new(m, n, 1);
    let [lhs, rhs] = [m * k, k * n].map(|n| s.operand(DType::F32, n, Use::Read));
    let mut y = s.push(FusedOp::Accumulator, DType::F32, Class::Element);
    if has_bias {
        let bias = s.load(DType::F32, n, Access::strided(&[m, n], &[0, 1]), Class::Element);
        y = s.binary(Binary::Add, y, bias);
    }
    if adds {
        let added = s.load(DType::F32, m * n, Access::dense(&[m, n]), Class::Element);
        y = s.binary(Binary::Add, added, y);
    }
    if has_relu {
        let zero = s.constant(DType::F32, 0.0);
        y = s.binary(Binary::Max, y, zero);
    }
    s.store(y);
    let matrix =
        |operand, columns: usize| MatrixOperand { operand, offset: 0, batch: 0, row: columns as i64, col: 1 };
    let (lhs, rhs, epilogue) = (matrix(lhs, k), matrix(rhs, n), s.body);
    let body = MatmulBody {
        batch: 1,
        m,
        n,
        k,
        lhs,
        rhs,
        uneven: [None, None],
        dtype: DType::F32,
        precision: None,
        epilogue,
        side_sums: vec![],
        rows: None,
    };
    (kernel(KernelBody::Matmul(body.clone()), s.operands), body)
}

#[test]
fn a_library_absorbs_sums_and_relu_and_nothing_else() {
    let taken = |has_bias, adds, has_relu| {
        let (kernel, body) = absorbable(has_bias, adds, has_relu);
        absorbed(&kernel, &body).map(|whole| (whole.bias, whole.added, whole.epilogue.activation))
    };
    assert_eq!(taken(false, false, false), Some((None, None, Activation::Identity)));
    assert_eq!(taken(true, false, false), Some((Some(2), None, Activation::Identity)));
    assert_eq!(taken(false, false, true), Some((None, None, Activation::Relu)));
    assert_eq!(taken(true, false, true), Some((Some(2), None, Activation::Relu)));
    assert_eq!(taken(false, true, false), Some((None, Some(2), Activation::Identity)));
    assert_eq!(taken(true, true, true), Some((Some(2), Some(3), Activation::Relu)));
    let (kernel, mut body) = absorbable(true, false, true);
    let transposed = Access::strided(&[4, 5], &[1, 4]);
    body.epilogue.insts[1].op = FusedOp::Load { operand: 2, access: transposed, index: None };
    assert_eq!(absorbed(&kernel, &body), None, "a transposed matrix is read by no library");
    let (kernel, mut body) = absorbable(true, true, false);
    let dense = Access::dense(&[20]);
    body.epilogue.insts[1].op = FusedOp::Load { operand: 2, access: dense, index: None };
    assert_eq!(absorbed(&kernel, &body), None, "a library adds one matrix");
    let product = PRODUCTS[0].kernel();
    let KernelBody::Matmul(body) = &product.body else { unreachable!() };
    assert_eq!(absorbed(&product, body), None, "there is no tanh");
}

#[test]
fn a_library_gets_the_right_factor_first_in_its_own_layout() {
    let matrices = |body: &MatmulBody| {
        let matrices = MatmulCall::new(body, Precision::F32).matrices();
        matrices.map(|matrices| matrices.map(|matrix| (matrix.leading, matrix.is_transposed)))
    };
    let (_, body) = absorbable(false, false, false);
    assert_eq!(matrices(&body), Some([(5, false), (6, false)]));
    let transposed = MatrixOperand { row: 1, col: 4, ..body.lhs };
    assert_eq!(matrices(&MatmulBody { lhs: transposed, ..body.clone() }), Some([(5, false), (4, true)]));
    let column = MatrixOperand { row: 7, col: 1, ..body.rhs };
    assert_eq!(matrices(&MatmulBody { rhs: column, n: 1, ..body.clone() }), Some([(7, false), (6, false)]));
    let repeated = MatrixOperand { row: 0, col: 1, ..body.lhs };
    assert_eq!(matrices(&MatmulBody { lhs: repeated, ..body.clone() }), None);
    let scattered = MatrixOperand { row: 12, col: 2, ..body.lhs };
    assert_eq!(matrices(&MatmulBody { lhs: scattered, ..body.clone() }), None);
    assert_eq!(matrices(&MatmulBody { dtype: DType::I32, ..body.clone() }), None);
    assert_eq!(matrices(&MatmulBody { k: 0, ..body }), None);
}
