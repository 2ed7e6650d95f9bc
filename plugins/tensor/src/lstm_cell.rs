//! A cell of long short-term memory.

use crate::gates::{activated, expect_cell, sums, weights};
use engine_core::ir::{Builder, Value};
use engine_core::op::{Lowering, OpForm};

/// `c' = f·c + i·g` and `h' = o·tanh(c')` with `i, f, o = σ(x·W + h·U)` and `g = tanh(x·W + h·U)`, each with its own weights, and
/// biases beside each product (Hochreiter and Schmidhuber 1997, Gers et al. 2000). Gates lie in the order i, f, g, o, as
/// in PyTorch's `LSTMCell`, whose weights are transposed.
pub fn lstm_cell() -> OpForm {
    OpForm::new("lstm_cell", "Takes a step of a long short-term memory.")
        .rounds_operands()
        .input("x", "[…, in], the input of this step")
        .input("h", "[…, H], the hidden state")
        .input("c", "[…, H], the state of the cell")
        .inputs(weights(4))
        .results(&["h_next", "c_next"])
        .types(|types, _| {
            expect_cell("lstm_cell", 4, 2, types)?;
            Ok(vec![types[1].clone(), types[2].clone()])
        })
        .expand(stepped)
        .example(
            "gates half open, nothing new",
            "lstm_cell(a, b, c, d, e)",
            &[
                ("f32[1, 1]", &[1.0]),
                ("f32[1, 1]", &[2.0]),
                ("f32[1, 1]", &[4.0]),
                ("f32[1, 4]", &[0.0; 4]),
                ("f32[1, 4]", &[0.0; 4]),
            ],
            &[("f32[1, 1]", &[0.4820137900379085]), ("f32[1, 1]", &[2.0])],
        )
        .example(
            "two rows and two units",
            "lstm_cell(a, b, c, d, e)",
            &[
                ("f32[2, 2]", &[1., -1., 2., 0.5]),
                ("f32[2, 2]", &[0.5, 0., -0.25, 1.]),
                ("f32[2, 2]", &[1., -1., 0., 0.5]),
                (
                    "f32[2, 8]",
                    &[
                        -0.5, -0.375, -0.25, -0.125, 0., 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.,
                        1.125, 1.25, 1.375,
                    ],
                ),
                (
                    "f32[2, 8]",
                    &[
                        1.375, 1.25, 1.125, 1., 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0., -0.125,
                        -0.25, -0.375, -0.5,
                    ],
                ),
            ],
            &[
                ("f32[2, 2]", &[0.05858924539, -0.17308254673, 0.032689227, 0.24971193722]),
                ("f32[2, 2]", &[0.1769313033, -0.60344765937, 0.05078554926, 0.37748453398]),
            ],
        )
}

fn stepped(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let [x, h, c, w, u] = [0, 1, 2, 3, 4].map(|operand| call.inputs[operand]);
    let of_x: [Value; 4] = sums(b, x, w, call.inputs.get(5));
    let of_h: [Value; 4] = sums(b, h, u, call.inputs.get(6));
    let [i, f, g, o] = [(0, "sigmoid"), (1, "sigmoid"), (2, "tanh"), (3, "sigmoid")].map(|(gate, name)| {
        let sum = b.add(of_x[gate], of_h[gate]);
        activated(b, name, sum)
    });
    let wide = b.widen(c);
    let cell = b.map(&[f, wide, i, g], |v| v[0] * v[1] + v[2] * v[3]);
    let hidden = b.map(&[o, cell], |v| v[0] * v[1].tanh());
    vec![b.cast(hidden, b.dtype(h)), b.cast(cell, b.dtype(c))]
}
