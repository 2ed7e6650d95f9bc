//! A linear layer.

use crate::gemm::expect_addend;
use crate::matmul::{expect_matrix, product_type};
use engine_core::ir::{Attrs, Builder, MatmulSpec, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, checked};

/// `act(x · w + bias)` for `x […, in]`, `w [in, out]` (or `[out, in]` if transposed) and `bias [out]`. The activation is the
/// op with that name.
pub fn linear() -> OpForm {
    OpForm::new("linear", "Applies a linear layer: a matrix product, a bias and an activation.")
        .rounds_operands()
        .input("x", "[…, in]")
        .input("w", "[in, out], or [out, in] if transposed")
        .optional("bias", "[out]")
        .attr(AttrSpec::flag("trans_w", "whether the weights are [out, in]", false))
        .attr(AttrSpec::choice(
            "act",
            "the op applied to the result",
            &["none", "relu", "gelu", "silu", "tanh", "sigmoid"],
        ))
        .types(|types, attrs| {
            expect_matrix("linear", 1, &types[1])?;
            let mut w = types[1].clone();
            if attrs.bool("trans_w") {
                w.shape.reverse();
            }
            let y = product_type(&types[0], &w)?;
            types.get(2).map_or(Ok(()), |bias| expect_addend("linear", 2, bias, &y))?;
            Ok(vec![y])
        })
        .expand(|b, call| {
            let y = affine(b, call);
            vec![activated(b, y, call.attrs)]
        })
        .example(
            "two features to one",
            "linear(a, b, c)",
            &[("f32[2, 2]", &[1., 2., 3., 4.]), ("f32[2, 1]", &[0.5, -1.]), ("f32[1]", &[10.])],
            &[("f32[2, 1]", &[8.5, 7.5])],
        )
}

fn affine(b: &mut Builder, call: &Lowering) -> Value {
    let inner = b.ty(call.inputs[0]).rank() - 1;
    let w_axis = if call.attrs.bool("trans_w") { 1 } else { 0 };
    let spec = MatmulSpec::new(vec![], vec![(inner, w_axis)]);
    let y = b.matmul(call.inputs[0], call.inputs[1], spec);
    match call.inputs.get(2) {
        Some(&bias) => b.map(&[y, bias], |v| v[0] + v[1]),
        None => y,
    }
}

fn activated(b: &mut Builder, y: Value, attrs: &Attrs) -> Value {
    match attrs.str("act") {
        "none" => y,
        act => checked(b.call(act, &[y], Attrs::default()))[0],
    }
}
