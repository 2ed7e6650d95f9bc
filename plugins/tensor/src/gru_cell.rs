//! A gated recurrent unit.

use crate::gates::{activated, expect_cell, sums, weights};
use engine_core::ir::{Builder, Value};
use engine_core::op::{Lowering, OpForm};

/// `h' = (1 - z)·n + z·h` with `r = σ(x·Wr + h·Ur)`, `z = σ(x·Wz + h·Uz)` and `n = tanh(x·Wn + r·(h·Un))`, biases beside each
/// product (Cho et al. 2014). Gates lie in the order r, z, n, as in PyTorch's `GRUCell`, whose weights are transposed.
pub fn gru_cell() -> OpForm {
    OpForm::new("gru_cell", "Takes a step of a gated recurrent unit.")
        .rounds_operands()
        .input("x", "[…, in], the input of this step")
        .input("h", "[…, H], the hidden state")
        .inputs(weights(3))
        .results(&["h_next"])
        .types(|types, _| {
            expect_cell("gru_cell", 3, 1, types)?;
            Ok(vec![types[1].clone()])
        })
        .expand(|b, call| vec![stepped(b, call)])
        .example(
            "gates half open",
            "gru_cell(a, b, c, d)",
            &[
                ("f32[1, 1]", &[1.0]),
                ("f32[1, 1]", &[4.0]),
                ("f32[1, 3]", &[0.0, 0.0, -1.0]),
                ("f32[1, 3]", &[0.0, 0.0, 0.5]),
            ],
            &[("f32[1, 1]", &[2.0])],
        )
        .example(
            "two rows and two units",
            "gru_cell(a, b, c, d)",
            &[
                ("f32[2, 2]", &[1., -1., 2., 0.5]),
                ("f32[2, 2]", &[0.5, 0., -0.25, 1.]),
                (
                    "f32[2, 6]",
                    &[-0.5, -0.375, -0.25, -0.125, 0., 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875],
                ),
                (
                    "f32[2, 6]",
                    &[0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0., -0.125, -0.25, -0.375, -0.5],
                ),
            ],
            &[("f32[2, 2]", &[-0.15961410627, -0.37583198377, 0.05933644626, 0.69256119266])],
        )
}

fn stepped(b: &mut Builder, call: &Lowering) -> Value {
    let [x, h, w, u] = [0, 1, 2, 3].map(|operand| call.inputs[operand]);
    let of_x: [Value; 3] = sums(b, x, w, call.inputs.get(4));
    let of_h: [Value; 3] = sums(b, h, u, call.inputs.get(5));
    let [r, z] = [0, 1].map(|gate| {
        let sum = b.add(of_x[gate], of_h[gate]);
        activated(b, "sigmoid", sum)
    });
    let new = b.map(&[of_x[2], r, of_h[2]], |v| (v[0] + v[1] * v[2]).tanh());
    let wide = b.widen(h);
    let next = b.map(&[z, new, wide], |v| (1.0 - v[0]) * v[1] + v[0] * v[2]);
    b.cast(next, b.dtype(h))
}
