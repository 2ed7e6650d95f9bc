//! Maps that their reader computes.

use super::*;
use crate::device_model::DeviceModel;

/// The kernels for a GPU of `n` squarings, whose last result is transposed and added to a matrix.
fn n_kernels(n: usize) -> usize {
    let graph = with_builder(|b| {
        let [x, y] = ["x", "y"].map(|name| b.input(name, InputKind::Data, f32s(&[600, 600])));
        let squared = (0..n).fold(x, |x, _| b.mul(x, x));
        let turned = b.permute(squared, &[1, 0]);
        let sum = b.add(turned, y);
        output(b, "sum", sum);
    });
    signature_with(&graph, &Settings { device: DeviceModel::H200, ..Settings::default() }).lines().count()
}

/// Each squaring doubles the paths to the operand.
#[test]
fn a_map_with_many_paths_is_no_part_of_its_reader() {
    assert_eq!([n_kernels(1), n_kernels(6), n_kernels(7), n_kernels(40)], [1, 1, 2, 2]);
}
