//! Copies of matrices that matmuls cannot read through views.

use super::*;
use crate::fusion::{copy_once, share_copies};
use crate::ir::Dim;
use crate::oracle::{Oracle, OracleTensor};
use std::collections::HashMap;

/// Heads side by side, as a matrix of rows and as its transpose, as the simplifier writes it.
#[test]
fn a_transposed_copy_is_a_view_of_the_copy() {
    let graph = with_builder(|b| {
        let [y, w, dy] = [("y", vec![24, 16, 64]), ("w", vec![768, 40]), ("dy", vec![32, 56])]
            .map(|(name, extents)| b.input(name, InputKind::Data, f32s(&extents)));
        let heads = b.reshape(y, &[2, 12, 16, 64]);
        let rows = b.permute(heads, &[0, 2, 1, 3]);
        let rows = b.reshape(rows, &[32, 768]);
        let columns = b.permute(heads, &[1, 3, 0, 2]);
        let columns = b.reshape(columns, &[768, 32]);
        let z = b.mm(rows, w);
        let dw = b.mm(columns, dy);
        // Another matmul reads the transposed copy as well.
        let other = b.input("other", InputKind::Data, f32s(&[32, 8]));
        let du = b.mm(columns, other);
        output(b, "z", z);
        output(b, "dw", dw);
        output(b, "du", du);
    });
    assert_eq!(signature(&graph).lines().filter(|line| line.contains("map")).count(), 1);
    let kernels = fuse(&graph, true).kernels;
    assert_eq!(kernels.iter().map(|kernel| kernel.uses(Use::Write).count()).sum::<usize>(), 5);
    let shared = share_copies(&graph);
    let kernels = fuse(&shared, true).kernels;
    assert_eq!(kernels.iter().map(|kernel| kernel.uses(Use::Write).count()).sum::<usize>(), 4);
    assert_eq!(verify(&shared, &kernels), Vec::<String>::new());
}

/// Weights with their first two axes in this order, times a matrix for each item.
fn weighted(n_items: usize, order: [usize; 2]) -> Graph {
    with_builder(|b| {
        let w = b.input("w", InputKind::Data, f32s(&[6, 5, 3]));
        let [rows, k] = if order == [0, 1] { [6, 15] } else { [5, 18] };
        let x = b.input("x", InputKind::Data, f32s(&[n_items, k, 7]));
        let all = b.broadcast_axes(w, &[1, 2, 3], &[n_items, 6, 5, 3].map(Dim::Fixed));
        let turned = b.permute(all, &[0, order[0] + 1, order[1] + 1, 3]);
        let matrix = b.reshape(turned, &[n_items, rows, k]);
        let y = b.matmul(matrix, x, MatmulSpec::new(vec![(0, 0)], vec![(2, 1)]));
        output(b, "y", y);
    })
}

/// The copy of `w` has 360 bytes.
#[test]
fn a_matrix_that_repeats_is_copied_once() {
    for device in [DeviceModel::CPU, DeviceModel::H200] {
        let settings = Settings { device, ..Settings::default() };
        let graph = weighted(4, [1, 0]);
        let once = copy_once(&graph, &settings).unwrap();
        let written = |graph: &Graph| -> u64 {
            let kernels = fuse_with(graph, &settings).kernels;
            assert_eq!(verify(graph, &kernels), Vec::<String>::new());
            kernels.iter().map(|kernel| kernel.bytes_written).sum()
        };
        assert_eq!([written(&graph), written(&once)], [4 * 360 + 560, 360 + 560]);
        assert!(copy_once(&once, &settings).is_none());
        // One item repeats nothing, and weights in their own order need no copy.
        assert!(
            [weighted(1, [1, 0]), weighted(4, [0, 1])]
                .iter()
                .all(|graph| copy_once(graph, &settings).is_none())
        );
    }
}

#[test]
fn a_matrix_that_is_copied_once_has_the_same_product() {
    let registry = Registry::new();
    let graph = weighted(4, [1, 0]);
    let tensor = |extents: &[usize], step: usize| {
        let n: usize = extents.iter().product();
        let values: Vec<f64> = (0..n).map(|i| (i * step % 17) as f64 - 8.0).collect();
        OracleTensor::new(DType::F32, extents, &values)
    };
    let inputs =
        HashMap::from([("w".to_owned(), tensor(&[6, 5, 3], 7)), ("x".to_owned(), tensor(&[4, 18, 7], 5))]);
    let run = |graph: &Graph| Oracle::new(&registry).run(graph, &inputs, 0, 0).unwrap().outputs[0].to_f64();
    assert_eq!(run(&graph), run(&copy_once(&graph, &Settings::default()).unwrap()));
}
