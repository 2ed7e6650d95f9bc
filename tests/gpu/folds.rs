//! Folds of the rows of a product on tensor cores, by adopted choices.

use super::*;
use crate::kernels::called;
use crate::products::on_tensor_cores;

/// Whole numbers are exact in all types, so the results are those of the CPU, ties included.
fn case(dtype: DType, [m, n, k]: [usize; 3], fold: impl FnOnce(&mut Builder, Value) -> Value) -> Case {
    let mut case = Case::new(|b| {
        let (rows, columns) = (data(b, "rows", dtype, &[m, k]), data(b, "columns", dtype, &[n, k]));
        let bias = data(b, "bias", DType::F32, &[n]);
        let products = b.matmul(rows, columns, MatmulSpec::new(vec![], vec![(1, 1)]));
        let products = b.cast(products, DType::F32);
        let bias = b.broadcast_like(bias, products);
        let scores = b.sub(products, bias);
        vec![fold(b, scores)]
    });
    for (name, extents) in [("rows", vec![m, k]), ("columns", vec![n, k]), ("bias", vec![n])] {
        let ty = Type::new(if name == "bias" { DType::F32 } else { dtype }, &extents);
        let values = noise(ty.numel(), extents[0] as u32).map(|x| (x * 1.4).round());
        case.inputs.insert(name.into(), tensor(&ty, values));
    }
    let matmul = if dtype == DType::F32 { Precision::Tf32 } else { Precision::F32 };
    Case { matmul, ..case }
}

fn check(case: &Case) {
    case.check_within(on_tensor_cores(case).iter(), &[Closeness(0.0)]);
}

/// Many rows, pieces of the columns, and rows too long to stay in shared memory.
#[test]
fn extremes_behind_a_product_on_tensor_cores_agree() {
    let shapes = [[20_000, 1000, 128], [40, 30_001, 128], [700, 520, 1032]];
    for (dtype, shape) in [DType::BF16, DType::F16, DType::F32].into_iter().zip(shapes) {
        for monoid in [Monoid::ArgMax, Monoid::Min] {
            check(&case(dtype, shape, |b, scores| b.reduce(monoid, scores, &[1])));
        }
    }
}

#[test]
fn blocks_of_columns_behind_a_product_on_tensor_cores_agree() {
    let cases = [
        (DType::BF16, [1000, 2048, 128], 16, Monoid::Min),
        (DType::F16, [300, 12_800, 64], 128, Monoid::Sum),
        (DType::F32, [700, 864, 256], 32, Monoid::Max),
    ];
    for (dtype, [m, n, k], width, monoid) in cases {
        check(&case(dtype, [m, n, k], |b, scores| {
            let blocks = b.reshape(scores, &[m, n / width, width]);
            b.reduce(monoid, blocks, &[2])
        }));
    }
}

/// Panels along both axes, the last ones ragged. Devices without a library multiply them by kernels of their own.
#[test]
fn folds_of_panels_agree() {
    let gpus: Vec<_> = gpus().iter().cloned().chain(plain_gpu()).collect();
    // Few tiles with long sums, which a matmul alone would cut into parts.
    let few = case(DType::F32, [64, 8192, 256], |b, scores| b.reduce(Monoid::Max, scores, &[1]));
    few.check_within(gpus.iter(), &[Closeness(0.0)]);
    let first = case(DType::F32, [2500, 5003, 8], |b, scores| b.reduce(Monoid::ArgMin, scores, &[1]));
    first.check_within(gpus.iter(), &[Closeness(0.0)]);
    let least = case(DType::F16, [300, 30_001, 16], |b, scores| {
        called(b, "topk_rows", scores, &[("k", Attr::from(10i64)), ("largest", Attr::from(false))])[1]
    });
    least.check_within(gpus.iter(), &[Closeness(0.0)]);
}
