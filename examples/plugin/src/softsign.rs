//! `softsign`: a scalar body. It fuses with its neighbours, and is differentiated symbolically.

use engine::core::ir::DType;
use engine::core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// x / (1 + |x|).
pub fn softsign() -> OpForm {
    Unary {
        name: "softsign",
        summary: "Divides each element by one more than its magnitude.",
        takes: DType::is_float,
        formula: |x| x / (x.abs() + 1.0),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.0] },
        examples: vec![Example {
            title: "of both signs",
            call: "softsign(a)",
            inputs: vec![("f32[3]", vec![-1.0, 0.0, 3.0])],
            outputs: vec![("f32[3]", vec![-0.5, 0.0, 0.75])],
        }],
    }
    .form("my_plugin")
}
