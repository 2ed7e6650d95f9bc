//! `widen`.

use engine_core::ir::Type;
use engine_core::op::OpForm;

/// Floats of 16 bits become `f32`; all other types stay. Sums and squares of halves keep their digits and their range in
/// it, and a formula for any type of float needs no type of its own.
pub fn widen() -> OpForm {
    OpForm::new("widen", "Converts halves to f32, and leaves other types as they are.")
        .input("x", "any shape and element type")
        .types(|inputs, _| {
            let dtype = inputs[0].dtype;
            Ok(vec![Type { dtype: dtype.accumulator(), ..inputs[0].clone() }])
        })
        .expand(|b, call| vec![b.widen(call.inputs[0])])
        .example(
            "halves",
            "widen(a)",
            &[("f16[3]", &[1.0, -0.5, f64::INFINITY])],
            &[("f32[3]", &[1.0, -0.5, f64::INFINITY])],
        )
        .example("integers stay", "widen(a)", &[("i32[2]", &[1.0, -2.0])], &[("i32[2]", &[1.0, -2.0])])
}
