//! `softsign`: a scalar body. It fuses with its neighbours, and is differentiated symbolically.

use engine::core::ir::DType;
use engine::core::op::OpForm;

/// x / (1 + |x|).
pub fn softsign() -> OpForm {
    OpForm::unary("softsign", "Divides each element by one more than its magnitude.", DType::is_float, |x| {
        x / (x.abs() + 1.0)
    })
    .avoiding(&[0.0])
    .example(
        "of both signs",
        "softsign(a)",
        &[("f32[3]", &[-1.0, 0.0, 3.0])],
        &[("f32[3]", &[-0.5, 0.0, 0.75])],
    )
}
