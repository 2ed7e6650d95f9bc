//! Folds of rows behind a product on tensor cores.

use super::*;
use crate::codegen::schedule::tensor_core::ResultTile;
use crate::fusion::{MatmulBody, MatrixOperand, RowConsumer, RowsBody};
use crate::numerics::Precision;

/// An extreme of the rows of `lhs · rhs − bias`, with a bias by column, and another by element.
#[derive(Clone, Copy)]
struct Scores {
    dtype: DType,
    batch: usize,
    shape: [usize; 3],
    monoid: Monoid,
    /// Whether each element has a bias of its own, too.
    has_other: bool,
    /// Columns of a block that is reduced; none if rows are.
    block: Option<usize>,
}

impl Scores {
    fn kernel(self) -> Kernel {
        let Scores { dtype, batch, shape: [m, n, k], monoid, has_other, block } = self;
        let mut s = Sketch::new(batch * m, n, 1);
        let lhs = s.operand(dtype, batch * m * k, Use::Read);
        let rhs = s.operand(dtype, batch * n * k, Use::Read);
        let access = Access::strided(&[batch * m, n], &[0, 1]);
        let bias = s.load(DType::F32, n, access, Class::Element);
        let product = s.push(FusedOp::Accumulator, DType::F32, Class::Element);
        let mut value = s.binary(Binary::Sub, product, bias);
        if has_other {
            let other = s.input(DType::F32, Class::Element);
            value = s.binary(Binary::Add, value, other);
        }
        s.push(FusedOp::Fold { value }, DType::F32, Class::Element);
        let dtype_of_result = if monoid.is_index() { DType::I32 } else { DType::F32 };
        let n_results = batch * m * block.map_or(1, |columns| n / columns);
        let result = s.operand(dtype_of_result, n_results, Use::Write);
        let matrix = |operand: usize, lines: usize, [row, col]: [i64; 2]| MatrixOperand {
            operand,
            offset: 0,
            batch: (lines * k) as i64,
            row,
            col,
        };
        let consumer = match block {
            None => RowConsumer::Extreme(monoid, DType::F32),
            Some(columns) => RowConsumer::Blocks { monoid, dtype: DType::F32, columns },
        };
        let body = MatmulBody {
            batch,
            m,
            n,
            k,
            lhs: matrix(lhs, m, [k as i64, 1]),
            rhs: matrix(rhs, n, [1, k as i64]),
            uneven: [None, None],
            dtype,
            precision: None,
            epilogue: s.body,
            side_sums: vec![],
            rows: Some(Box::new(RowsBody::new(consumer, vec![result], [batch, m, n]))),
        };
        kernel(KernelBody::Matmul(body), s.operands)
    }

    /// Small whole numbers, so that products are exact in all types, with many ties. A few biases are special.
    fn inputs(self) -> Vec<Vec<f32>> {
        let Scores { batch, shape: [m, n, k], has_other, .. } = self;
        let whole = |n: usize, salt: usize| {
            (0..n).map(|i| ((i + salt) * 7919 % 1009 % 7) as f32 - 3.0).collect::<Vec<f32>>()
        };
        let mut bias = whole(n, 5);
        (bias[n / 3], bias[n - 1]) = (bias[0], f32::INFINITY);
        let mut inputs = vec![whole(batch * m * k, 0), whole(batch * n * k, 3), bias];
        if has_other {
            let mut other = whole(batch * m * n, 1);
            (other[n / 2], other[n - 1], other[3]) = (f32::NAN, f32::NAN, f32::INFINITY);
            // A row of which nothing is finite.
            let last = other.len() - n;
            other[last..].fill(f32::NEG_INFINITY);
            inputs.push(other);
        }
        inputs
    }

    fn buffers(self) -> Vec<Vec<u8>> {
        let inputs = self.inputs();
        let factors = inputs[..2].iter().map(|input| match self.dtype {
            DType::F32 => bytes(input),
            dtype => products::dtype_bytes(dtype, input),
        });
        factors.chain(inputs[2..].iter().map(|input| bytes(input))).collect()
    }

    /// By row, the best score and its column: NaN precedes all, and the first of equals wins.
    fn best(self) -> Vec<(f32, i32)> {
        let Scores { batch, shape: [m, n, k], monoid, .. } = self;
        let inputs = self.inputs();
        let is_largest = matches!(monoid, Monoid::Max | Monoid::ArgMax);
        let score = |row: usize, j: usize| {
            let (left, right) = (&inputs[0][row * k..][..k], &inputs[1][(row / m * n + j) * k..][..k]);
            let product: f32 = left.iter().zip(right).map(|(a, b)| a * b).sum();
            product - inputs[2][j] + inputs.get(3).map_or(0.0, |other| other[row * n + j])
        };
        let best_of = |row: usize| {
            let scores = (0..n).map(|j| (score(row, j), j as i32));
            let first = |best: (f32, i32), x: (f32, i32)| {
                let beats = if is_largest { x.0 > best.0 } else { x.0 < best.0 };
                if !best.0.is_nan() && (x.0.is_nan() || beats) { x } else { best }
            };
            scores.reduce(first).unwrap()
        };
        (0..batch * m).map(best_of).collect()
    }

    /// Runs the launches for a device, and compares the results bit by bit.
    fn check(self, tile: ResultTile, device: DeviceModel, n_launches: usize) {
        let kernel = self.kernel();
        let launches = KernelSpec::fold_on_tensor_cores(&kernel, Precision::Tf32, tile, device).unwrap();
        assert_eq!(launches.len(), n_launches, "{:?}", self.shape);
        let buffers = self.buffers();
        let Some(found) = on_host::run_launches(&kernel, &launches, &buffers, 0) else { return };
        let (found, expected) = (&found[buffers.len()], self.best());
        let shape = self.shape;
        if self.monoid.is_index() {
            let columns: Vec<i32> = expected.iter().map(|best| best.1).collect();
            assert_eq!(i32s(found), columns, "{shape:?} {tile}");
        } else {
            for (row, (x, (y, _))) in f32s(found).iter().zip(expected).enumerate() {
                assert!(*x == y || (x.is_nan() && y.is_nan()), "{shape:?} {tile}, row {row}: {x} for {y}");
            }
        }
    }
}

const fn scores(dtype: DType, shape: [usize; 3], monoid: Monoid, has_other: bool) -> Scores {
    Scores { dtype, batch: 1, shape, monoid, has_other, block: None }
}

/// Ragged rows and columns, one row, an odd number of columns, rows that stay in shared memory once and twice or come
/// through the ring, several matrices, ties, NaN and infinities.
#[test]
fn extremes_behind_a_product_are_found_in_registers() {
    [DeviceModel::H200, DeviceModel::A100].into_iter().for_each(check_extremes);
}

/// The tiles that a device takes.
fn tiles(model: DeviceModel) -> [ResultTile; 3] {
    ResultTile::of(model.tensor_cores.unwrap()).try_into().unwrap()
}

fn check_extremes(model: DeviceModel) {
    let [a, b, c] = tiles(model);
    let few = DeviceModel { n_processors: 2, ..model };
    let one = DeviceModel { n_processors: 1, ..model };
    scores(DType::BF16, [136, 264, 72], Monoid::ArgMax, true).check(a, one, 1);
    scores(DType::F16, [300, 130, 40], Monoid::Min, true).check(b, few, 1);
    scores(DType::F32, [136, 257, 100], Monoid::ArgMin, false).check(c, few, 1);
    scores(DType::F32, [1, 300, 8], Monoid::Max, false).check(c, one, 1);
    scores(DType::BF16, [40, 200, 1600], Monoid::ArgMax, false).check(c, one, 1);
    let batched = Scores { batch: 3, ..scores(DType::F16, [20, 90, 16], Monoid::ArgMin, true) };
    batched.check(c, few, 1);
}

/// Few rows leave processors idle, unless the columns are cut.
#[test]
fn pieces_of_columns_are_merged_in_their_order() {
    let tile = ResultTile::ALL[2];
    for (n_processors, monoid) in [(3, Monoid::ArgMax), (7, Monoid::ArgMin), (16, Monoid::Max)] {
        let device = DeviceModel { n_processors, ..DeviceModel::H200 };
        scores(DType::BF16, [9, 128 * 17 + 3, 8], monoid, true).check(tile, device, 2);
    }
}

#[test]
fn tensor_cores_fold_what_registers_hold() {
    let is_folded = |scores: Scores, precision: Precision| {
        let tile = ResultTile::ALL[0];
        KernelSpec::fold_on_tensor_cores(&scores.kernel(), precision, tile, DeviceModel::H200).is_some()
    };
    let shape = [128, 512, 64];
    assert!(is_folded(scores(DType::BF16, shape, Monoid::ArgMax, false), Precision::F32));
    assert!(is_folded(scores(DType::F32, shape, Monoid::ArgMax, false), Precision::Tf32));
    assert!(!is_folded(scores(DType::F32, shape, Monoid::ArgMax, false), Precision::F32), "exact products");
    assert!(!is_folded(scores(DType::BF16, [128, 512, 60], Monoid::Max, false), Precision::F32), "odd rows");
}

/// Rows that stay in shared memory, a bias by column, and pieces.
#[test]
fn the_text_of_a_fold_on_tensor_cores() {
    let kernel = scores(DType::F32, [384, 1000, 64], Monoid::ArgMin, false).kernel();
    let tile = ResultTile::ALL[2];
    let launches = KernelSpec::fold_on_tensor_cores(&kernel, Precision::Tf32, tile, DeviceModel::H200);
    expect_file!["../../../../tests/golden/fold_tensor_cores.cu"]
        .assert_eq(&kernel_text(&launches.unwrap()[0]));
}

/// A reduction of blocks of columns, of a score that is the product or has a bias. Whole numbers are exact.
fn check_blocks(scores: Scores, columns: usize, tile: ResultTile, device: DeviceModel) {
    let scores = Scores { block: Some(columns), ..scores };
    let (kernel, [m, n, k]) = (scores.kernel(), scores.shape);
    let mut buffers = scores.buffers();
    let bias: Vec<f32> = (0..n).map(|j| (j * 5 % 11) as f32).collect();
    buffers[2] = bytes(&bias);
    let inputs = scores.inputs();
    let score = |row: usize, j: usize| {
        let (left, right) = (&inputs[0][row * k..][..k], &inputs[1][j * k..][..k]);
        left.iter().zip(right).map(|(a, b)| a * b).sum::<f32>() - bias[j]
    };
    let of_two = |x: f32, y: f32| match scores.monoid {
        Monoid::Max => x.max(y),
        Monoid::Min => x.min(y),
        _ => x + y,
    };
    let starts = (0..m).flat_map(|row| (0..n).step_by(columns).map(move |start| (row, start)));
    let expected: Vec<f32> = starts
        .map(|(row, start)| (start..start + columns).map(|j| score(row, j)).reduce(of_two).unwrap())
        .collect();
    let launches = KernelSpec::fold_on_tensor_cores(&kernel, Precision::Tf32, tile, device).unwrap();
    assert_eq!(launches.len(), 1);
    let Some(found) = on_host::run_launches(&kernel, &launches, &buffers, 0) else { return };
    assert_eq!(f32s(&found[3]), expected, "{:?} {tile} {columns}", scores.shape);
}

/// All widths and reductions, ragged rows and columns, and pieces that need no merge.
#[test]
fn blocks_of_columns_are_reduced_in_registers() {
    [DeviceModel::H200, DeviceModel::A100].into_iter().for_each(check_all_blocks);
}

fn check_all_blocks(model: DeviceModel) {
    let [a, b, c] = tiles(model);
    let device = |n_processors: usize| DeviceModel { n_processors, ..model };
    check_blocks(scores(DType::BF16, [136, 320, 72], Monoid::Max, false), 16, a, device(1));
    check_blocks(scores(DType::F16, [300, 160, 40], Monoid::Min, false), 32, b, device(3));
    check_blocks(scores(DType::F32, [20, 704, 36], Monoid::Sum, false), 64, c, device(5));
    check_blocks(scores(DType::BF16, [70, 384, 16], Monoid::Sum, false), 128, c, device(1));
}

/// The launches behind a product in memory: the product itself, the scores, and the reduction.
#[test]
fn blocks_of_a_product_in_memory_are_reduced() {
    let scores = Scores { block: Some(16), ..scores(DType::F32, [6, 64, 8], Monoid::Max, false) };
    let kernel = scores.kernel();
    let launches = KernelSpec::column_blocks(&kernel, DeviceModel::H200).unwrap();
    assert_eq!(launches.len(), 2, "an epilogue and a reduction");
    let (inputs, buffers) = (scores.inputs(), scores.buffers());
    let product: Vec<f32> = (0..6 * 64)
        .map(|point| (0..8).map(|p| inputs[0][point / 64 * 8 + p] * inputs[1][point % 64 * 8 + p]).sum())
        .collect();
    let alone = KernelSpec::product_alone(&kernel, DeviceModel::H200);
    let [lhs, rhs] = [0, 1].map(|i| buffers[i].clone());
    let unused = || vec![0; 4 * 64];
    let given = vec![lhs, rhs, unused(), unused(), vec![0; 4 * 6 * 64]];
    let Some(found) = on_host::run_arguments(&alone, given, 0) else { return };
    assert_eq!(f32s(&found[4]), product);
    let found = on_host::run_arguments(&launches[0], vec![buffers[2].clone(), bytes(&product)], 0).unwrap();
    let found = on_host::run_arguments(&launches[1], vec![vec![0; 4 * 24], found[1].clone()], 0).unwrap();
    let score = |point: usize| product[point] - inputs[2][point % 64];
    let block = |block: usize| (block * 16..block * 16 + 16).map(score).reduce(f32::max).unwrap();
    assert_eq!(f32s(&found[0]), (0..24).map(block).collect::<Vec<f32>>());
}
