//! Conversions to wider floats.

use super::*;
use crate::fusion::Use;

/// The result of a matmul in halves is stored as halves, although all of its readers convert it.
#[test]
fn what_is_converted_to_a_wider_float_is_stored_narrow() {
    let graph = with_builder(|b| {
        let halves = |extents: &[usize]| Type::new(DType::BF16, extents);
        let x = b.input("x", InputKind::Data, halves(&[64, 32]));
        let w = b.input("w", InputKind::Data, halves(&[32, 48]));
        let product = b.mm(x, w);
        let wide = b.cast(product, DType::F32);
        let exp = b.unary(Unary::Exp, wide);
        let sum = b.sum(exp, &[0]);
        let rows = b.reduce(Monoid::Max, wide, &[1]);
        output(b, "sum", sum);
        output(b, "rows", rows);
    });
    let kernels = fuse(&graph, true).kernels;
    let stored = kernels[0].uses(Use::Write).map(|operand| operand.ty.dtype).collect::<Vec<_>>();
    assert_eq!((kernels[0].kind(), stored), ("matmul", vec![DType::BF16]));
    assert_eq!(verify(&graph, &kernels), Vec::<String>::new());
}
