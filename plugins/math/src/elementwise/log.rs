//! `log`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// The natural logarithm: -∞ at 0, NaN below.
pub fn log() -> OpForm {
    Unary {
        name: "log",
        summary: "Takes the natural logarithm of each element.",
        takes: DType::is_float,
        formula: |x| x.log(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (0.5, 3.0), avoid: &[] },
        examples: vec![Example {
            title: "minus infinity at zero, NaN below",
            call: "log(a)",
            inputs: vec![("f32[4]", vec![1.0, 7.0, 0.0, -1.0])],
            outputs: vec![("f32[4]", vec![0.0, 1.9459101490553132, f64::NEG_INFINITY, f64::NAN])],
        }],
    }
    .form("elementwise")
}
