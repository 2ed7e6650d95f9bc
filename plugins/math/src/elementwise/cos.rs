//! `cos`.

use engine_core::ir::DType;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// cos x, of radians, accurate for large x too; NaN at ±∞.
pub fn cos() -> OpForm {
    Unary {
        name: "cos",
        summary: "Takes the cosine of each element.",
        takes: DType::is_float,
        formula: |x| x.cos(),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![Example {
            title: "also far from zero",
            call: "cos(a)",
            inputs: vec![("f32[4]", vec![0.0, 0.5, -2.0, 100000.0])],
            outputs: vec![(
                "f32[4]",
                vec![1.0, 0.8775825618903728, -0.4161468365471424, -0.9993608074382124],
            )],
        }],
    }
    .form("elementwise")
}
