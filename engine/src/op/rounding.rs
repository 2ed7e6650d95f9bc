//! How an op takes part in mixed precision.

/// The element type in which an op computes where a stage computes in a half type, `bf16` or `f16`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// In `f32`: reductions, norms, softmax, losses, and every op that declares nothing.
    #[default]
    Never,
    /// In the half type: matmuls, whose `f32` operands are rounded. Their sums and statistics are `f32`.
    Operands,
    /// In the half type if an operand has it and all others are parameters or constants, otherwise in `f32`: ops that
    /// move elements or map each of them.
    Follows,
}
