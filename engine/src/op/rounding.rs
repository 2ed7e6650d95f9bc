//! How an op takes part in mixed precision.

use super::form::{Lower, OpForm};

/// The element type in which an op computes where a stage computes in a half type, `bf16` or `f16`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// In `f32`: reductions, norms, softmax, losses, and every op that declares nothing.
    #[default]
    Never,
    /// In the half type: contractions, whose `f32` operands are rounded. Their sums and statistics are `f32`.
    Operands,
    /// In the half type if an operand has it and all others are parameters or constants, otherwise in `f32`: ops that
    /// move elements or map each of them.
    Follows,
}

impl OpForm {
    /// This form with operands that may be rounded to a half type; see [`Rounding::Operands`]. Its lowering must add up in
    /// `f32`.
    pub fn rounds_operands(self) -> OpForm {
        OpForm { rounding: Rounding::Operands, ..self }
    }

    /// This form for an op that follows the element type of its operands; see [`Rounding::Follows`]. Scalar bodies over
    /// broadcast operands do so without a declaration.
    pub fn follows_operands(self) -> OpForm {
        OpForm { rounding: Rounding::Follows, ..self }
    }

    /// The declared rounding, or that of a scalar body.
    pub fn rounding_rule(&self) -> Rounding {
        match (&self.lower, self.rounding) {
            (Lower::Map(_), Rounding::Never) => Rounding::Follows,
            (_, declared) => declared,
        }
    }
}
