//! Copies of matrices that matmuls cannot read through views.

use super::*;
use crate::fusion::share_copies;

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
        let z = b.matmul(rows, w);
        let dw = b.matmul(columns, dy);
        // Another matmul reads the transposed copy as well.
        let other = b.input("other", InputKind::Data, f32s(&[32, 8]));
        let du = b.matmul(columns, other);
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
