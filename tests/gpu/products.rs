//! Matmuls: layouts, types, epilogues, side sums and folds.

use super::*;

/// Infinities and NaN times zero are NaN, although a compiler may assume that a product with zero is zero.
#[test]
fn a_product_by_a_constant_zero_is_no_constant() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let mut case = Case::new(|b| {
            let x = data(b, "x", dtype, &[6]);
            vec![b.scale(x, 0.0), b.scale(x, -0.0)]
        });
        let values = HostTensor::from_slice(&[6], &[2.0, -2.0, 0.0, -0.0, f64::INFINITY, f64::NAN]).unwrap();
        case.inputs.insert("x".into(), values.cast(dtype).unwrap().bytes().to_vec());
        case.check(0.0);
    }
}

/// Shapes that tensor cores support.
#[test]
fn products_of_halves_in_whole_blocks_agree() {
    for (lhs_transposed, rhs_transposed) in [(false, false), (true, false), (false, true), (true, true)] {
        let (batch, m, n, k) = (2, 128, 192, 96);
        Case::new(|b| {
            let lhs = if lhs_transposed { [batch, k, m] } else { [batch, m, k] };
            let rhs = if rhs_transposed { [batch, n, k] } else { [batch, k, n] };
            let (lhs, rhs) = (data(b, "lhs", DType::F16, &lhs), data(b, "rhs", DType::F16, &rhs));
            let contracted = vec![(if lhs_transposed { 1 } else { 2 }, if rhs_transposed { 2 } else { 1 })];
            let product = b.matmul(lhs, rhs, MatmulSpec::new(vec![(0, 0)], contracted));
            vec![b.unary(Unary::Tanh, product)]
        })
        .check(1e-2);
    }
}

#[test]
fn products_of_all_layouts_and_types_agree() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32] {
        for [batch, m, n, k] in
            [[1, 128, 256, 784], [1, 128, 10, 256], [3, 17, 5, 9], [1, 1, 40, 33], [2, 30, 1, 8]]
        {
            for (lhs_transposed, rhs_transposed) in [(false, false), (true, false), (false, true)] {
                Case::new(|b| {
                    let lhs = if lhs_transposed { [batch, k, m] } else { [batch, m, k] };
                    let rhs = if rhs_transposed { [batch, n, k] } else { [batch, k, n] };
                    let (lhs, rhs) = (data(b, "lhs", dtype, &lhs), data(b, "rhs", dtype, &rhs));
                    let contracted =
                        vec![(if lhs_transposed { 1 } else { 2 }, if rhs_transposed { 2 } else { 1 })];
                    let product = b.matmul(lhs, rhs, MatmulSpec::new(vec![(0, 0)], contracted));
                    vec![product]
                })
                .check_within(gpus().iter(), &[Closeness::of_product(dtype, k)]);
            }
        }
    }
}

/// The batch is a grid axis, whose extent is limited.
#[test]
fn a_product_of_many_small_ones_agrees() {
    // Adjacent f16 numbers differ by 2⁻¹⁰ of themselves.
    for (dtype, bound) in [(DType::F32, Closeness::of_sum(3)), (DType::F16, Closeness(2e-3))] {
        Case::new(|b| {
            let (lhs, rhs) = (data(b, "lhs", dtype, &[70_000, 2, 3]), data(b, "rhs", dtype, &[70_000, 3, 2]));
            vec![b.matmul(lhs, rhs, MatmulSpec::new(vec![(0, 0)], vec![(2, 1)]))]
        })
        .check_within(gpus().iter(), &[bound]);
    }
}

#[test]
fn epilogues_and_side_sums_agree() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for shape in [[128, 96, 40], [256, 512, 384]] {
            let bounds = bounds_of_epilogues(dtype, shape);
            epilogues_and_side_sums(dtype, shape).check_within(gpus().iter(), &bounds);
        }
    }
}

/// The tolerances of four outputs. They are a matmul with a bias, the tangent of a scaled matmul, a matmul along the
/// other axis, and sums along that axis.
///
/// The second has the scale of a matmul with nine terms. Unfused, three nodes before it are rounded. In bf16, devices
/// then differ by at most 2⁻⁷, of which |x|/cosh²x < 0.45 remains, so 0.011. Its own neighbours differ by 2⁻⁸.
pub fn bounds_of_epilogues(dtype: DType, [m, k, _]: [usize; 3]) -> [Closeness; 4] {
    [k, 9, m, m].map(|n| Closeness::of_product(dtype, n))
}

pub fn epilogues_and_side_sums(dtype: DType, [m, k, n]: [usize; 3]) -> Case {
    Case::new(|b| {
        let x = data(b, "x", dtype, &[m, k]);
        let w = data(b, "w", dtype, &[k, n]);
        let bias = data(b, "bias", dtype, &[n]);
        let product = b.mm(x, w);
        let wide = b.broadcast_like(bias, product);
        let biased = b.add(product, wide);
        let zero = b.full_like(biased, 0.0);
        let relu = b.binary(Binary::Max, biased, zero);
        let other = data(b, "other", dtype, &[m, n]);
        let product = b.mm(x, w);
        let product = b.scale(product, 3.0 / (k as f64).sqrt());
        let mixed = b.mul(product, other);
        let mixed = b.unary(Unary::Tanh, mixed);
        let gradient = b.matmul(x, other, MatmulSpec::new(vec![], vec![(0, 0)]));
        let sums = b.sum(other, &[0]);
        vec![relu, mixed, gradient, sums]
    })
}

/// Factors have ten bits of mantissa, and sums are in f32.
#[test]
fn products_in_tf32_agree_as_far_as_that_goes() {
    for [m, k, n] in [[128, 784, 256], [300, 64, 72]] {
        let case = Case::new(|b| {
            let (x, w) = (data(b, "x", DType::F32, &[m, k]), data(b, "w", DType::F32, &[k, n]));
            // The largest of these sums are about one, with a tolerance of a thousandth: factors lose up to 2⁻¹⁰ each.
            let product = b.mm(x, w);
            vec![b.scale(product, 0.7 / (k as f64).sqrt())]
        });
        Case { matmul: Precision::Tf32, ..case }.check(1e-3);
    }
}

/// The relu runs in our own kernels for small matmuls, and in a library, some of whose algorithms turn NaN into 0.
#[test]
fn a_relu_in_an_epilogue_keeps_nan() {
    let types = [
        (DType::F32, Precision::F32),
        (DType::F32, Precision::Tf32),
        (DType::F16, Precision::F32),
        (DType::BF16, Precision::F32),
    ];
    for (dtype, matmul) in types {
        for [m, k, n] in [[16, 32, 64], [64, 64, 64], [40, 72, 1028], [128, 784, 256]] {
            for is_biased in [true, false] {
                let case = Case { matmul, ..linear_with_relu(dtype, [m, k, n], is_biased, 2) };
                for gpu in gpus() {
                    let relu = case.run(&**gpu, true).unwrap().remove(0);
                    let is_nan: Vec<bool> = relu.iter().map(|x| x.is_nan()).collect();
                    let is_expected: Vec<bool> = (0..m * n).map(|i| i / n == 2).collect();
                    let name = gpu.info().name;
                    assert!(is_nan == is_expected, "{dtype} {matmul:?} {m}x{k}x{n} {is_biased} on {name}");
                }
            }
        }
    }
}

/// A library may split long sums, and must not store the parts as halves: they overflow and cancel each other.
#[test]
fn partial_sums_of_halves_are_in_single_precision() {
    for [m, k, n] in [[64, 8192, 64], [40, 1028, 1028], [256, 4096, 32]] {
        for has_relu in [true, false] {
            let mut case = Case::new(|b| {
                let (x, w) = (data(b, "x", DType::F16, &[m, k]), data(b, "w", DType::F16, &[k, n]));
                let product = b.mm(x, w);
                let zero = b.full_like(product, 0.0);
                vec![if has_relu { b.binary(Binary::Max, product, zero) } else { product }]
            });
            let values = (0..m * k).map(|i| if i % k < k / 2 { 64.0 } else { -64.0 });
            case.inputs.insert("x".into(), tensor(&Type::new(DType::F16, &[m, k]), values));
            let values = std::iter::repeat_n(64.0, k * n);
            case.inputs.insert("w".into(), tensor(&Type::new(DType::F16, &[k, n]), values));
            for gpu in gpus() {
                let found = case.run(&**gpu, true).unwrap().remove(0);
                let name = gpu.info().name;
                assert!(found.iter().all(|&x| x == 0.0), "{m}x{k}x{n} on {name}: {:?}", &found[..4]);
            }
        }
    }
}

/// One element of `x` in row `nan_row` is NaN.
fn linear_with_relu(dtype: DType, [m, k, n]: [usize; 3], is_biased: bool, nan_row: usize) -> Case {
    let mut case = Case::new(|b| {
        let (x, w) = (data(b, "x", dtype, &[m, k]), data(b, "w", dtype, &[k, n]));
        let mut product = b.mm(x, w);
        if is_biased {
            let bias = data(b, "bias", dtype, &[n]);
            let wide = b.broadcast_like(bias, product);
            product = b.add(product, wide);
        }
        let zero = b.full_like(product, 0.0);
        vec![b.binary(Binary::Max, product, zero)]
    });
    // A float with all bits set is NaN.
    let element = nan_row * k * dtype.size();
    case.inputs.get_mut("x").unwrap()[element..][..dtype.size()].fill(0xFF);
    case
}

#[test]
fn rows_of_a_product_are_folded_panel_by_panel() {
    for [batch, m, n] in [[1, 3000, 9001], [1, 1, 100_000], [2, 300, 30_000]] {
        Case::new(|b| {
            let (q, x) =
                (data(b, "q", DType::F32, &[batch, m, 40]), data(b, "x", DType::F32, &[batch, n, 40]));
            let squares = data(b, "squares", DType::F32, &[n]);
            let products = b.matmul(q, x, MatmulSpec::new(vec![(0, 0)], vec![(2, 2)]));
            let squares = b.broadcast_like(squares, products);
            let scores = b.map(&[products, squares], |v| v[1] - 2.0 * v[0]);
            // Matmuls are rounded differently, so neighbours may change places, but their values must agree.
            let best =
                called(b, "topk_rows", scores, &[("k", Attr::from(18)), ("largest", Attr::from(false))]);
            vec![best[0]]
        })
        .check_within(gpus().iter(), &[Closeness::of_product(DType::F32, 40)]);
    }
    Case::new(|b| {
        let (q, x) = (data(b, "q", DType::F32, &[2000, 16]), data(b, "x", DType::F32, &[16, 8000]));
        let products = b.mm(q, x);
        vec![b.reduce(Monoid::Max, products, &[1])]
    })
    .check_within(gpus().iter(), &[Closeness::of_product(DType::F32, 16)]);
}

/// Each tile of the kernels on tensor cores, by adopted choices: layouts, ragged edges, and an epilogue that the library
/// lacks.
#[test]
fn products_on_tensor_cores_agree() {
    let (batch, m, n, k) = (2, 712, 520, 456);
    for (dtype, lhs_transposed, rhs_transposed) in [
        (DType::BF16, false, false),
        (DType::BF16, true, false),
        (DType::F16, false, true),
        (DType::F16, true, true),
    ] {
        let case = Case::new(|b| {
            let lhs = if lhs_transposed { [batch, k, m] } else { [batch, m, k] };
            let rhs = if rhs_transposed { [batch, n, k] } else { [batch, k, n] };
            let (lhs, rhs) = (data(b, "lhs", dtype, &lhs), data(b, "rhs", dtype, &rhs));
            let gate = data(b, "gate", dtype, &[batch, m, n]);
            let contracted = vec![(if lhs_transposed { 1 } else { 2 }, if rhs_transposed { 2 } else { 1 })];
            let product = b.matmul(lhs, rhs, MatmulSpec::new(vec![(0, 0)], contracted));
            let tanh = b.unary(Unary::Tanh, product);
            let gated = b.mul(tanh, gate);
            vec![b.mul(gated, product)]
        });
        case.check_within(on_tensor_cores(&case).iter(), &[Closeness(4e-2)]);
    }
}

/// CUDA devices that have adopted a kernel on tensor cores for every product of a case: one for each tile, but warps may lack
/// one.
pub fn on_tensor_cores(case: &Case) -> Vec<Arc<dyn Device>> {
    let device = usable("cuda", CudaDevice::new(0).map(|device| Arc::new(device) as Arc<dyn Device>));
    let tiles = device.and_then(|device| device.model().tensor_cores).map_or(&[][..], ResultTile::of);
    let choosing = |tile| choosing(case, &format!("tensor cores {tile}"));
    let adopted: Vec<_> = tiles.iter().filter_map(choosing).collect();
    assert!(adopted.len() + 1 >= tiles.len(), "{} of {} tiles", adopted.len(), tiles.len());
    adopted
}

/// A CUDA device that has adopted this variant for every product of a case. None without one that has the variant, which warps
/// may lack.
fn choosing(case: &Case, variant: &str) -> Option<Arc<dyn Device>> {
    let open = || usable("cuda", CudaDevice::new(0).map(|device| Arc::new(device) as Arc<dyn Device>));
    let device = open()?;
    device.model().tensor_cores?;
    let run = |device: &Arc<dyn Device>| [true, false].map(|fuse| case.run(&**device, fuse).unwrap());
    run(&device);
    let mut tuning = device.tuning().unwrap();
    let is_variant = |name: &str| ["variant of", "panels of"].iter().any(|start| name.starts_with(start));
    tuning.choices.retain(|name, _| is_variant(name));
    assert!(!tuning.choices.is_empty());
    tuning.choices.values_mut().for_each(|text| *text = variant.to_string());
    let device = open()?;
    assert!(device.adopt(&tuning));
    run(&device);
    let is_adopted = device.tuning().unwrap().choices.values().any(|text| text == variant);
    assert!(is_adopted || device.model().tensor_cores == Some(TensorCores::Warps), "{variant}");
    is_adopted.then_some(device)
}
