//! Reductions of blocks of columns behind a matmul.

use super::*;
use crate::device_model::DeviceModel;

/// `monoid` of blocks of `width` columns of a product of `n` columns.
fn blocks(dtype: DType, n: usize, width: usize, monoid: Monoid) -> Graph {
    let graph = with_builder(|b| {
        let q = b.input("q", InputKind::Data, Type::new(dtype, &[100, 32]));
        let x = b.input("x", InputKind::Data, Type::new(dtype, &[n, 32]));
        let products = b.matmul(q, x, MatmulSpec::new(vec![], vec![(1, 1)]));
        let products = b.cast(products, DType::F32);
        let blocks = b.reshape(products, &[100, n / width, width]);
        let best = b.reduce(monoid, blocks, &[2]);
        output(b, "best", best);
    });
    graph.pruned()
}

#[test]
fn blocks_of_columns_are_reduced_in_tiles_and_on_tensor_cores() {
    let on = |device: DeviceModel, graph: &Graph| {
        let settings = Settings { device, ..Settings::default() };
        fuse_with(graph, &settings).kernels.len()
    };
    let on_h200 = |n: usize, width: usize, monoid: Monoid| {
        on(DeviceModel::H200, &blocks(DType::BF16, n, width, monoid))
    };
    for monoid in [Monoid::Min, Monoid::Max, Monoid::Sum] {
        assert_eq!(on_h200(1024, 64, monoid), 1, "{monoid:?}");
    }
    assert_eq!(on_h200(1024, 8, Monoid::Min), 2, "narrow blocks");
    assert_eq!(on_h200(960, 48, Monoid::Min), 2, "blocks that cross a tile");
    assert_eq!(on_h200(64, 32, Monoid::Min), 2, "short rows");
    assert_eq!(on_h200(1024, 64, Monoid::ArgMin), 2, "indices within a block");
    for (device, n_kernels) in [(DeviceModel::CPU, 1), (DeviceModel::DESKTOP, 2)] {
        assert_eq!(on(device, &blocks(DType::F32, 1024, 64, Monoid::Min)), n_kernels);
    }
}

#[test]
fn the_text_of_a_fold_names_its_blocks() {
    let settings = Settings { device: DeviceModel::H200, ..Settings::default() };
    let kernels = fuse_with(&blocks(DType::F32, 512, 32, Monoid::Max), &settings).kernels;
    let text = kernels[0].body_text();
    assert!(text.contains("= max of 32 columns of each row, as it is computed"), "{text}");
}
