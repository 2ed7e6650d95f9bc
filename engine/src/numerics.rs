//! How exact results are: choices of a pipeline that rules, plans and code generation keep to.

/// The precision of `f32` matmuls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// In `f32`.
    #[default]
    F32,
    /// Factors are rounded to 10 bits of mantissa and sums are in `f32`, on devices where this is faster.
    Tf32,
}

impl Precision {
    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Tf32 => "tf32",
        }
    }
}

/// The numeric freedom of rewriting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Numerics {
    /// Only rewrites that keep every bit.
    Strict,
    /// Also rewrites that are equal over the reals and never less accurate. Compute-bound kernels may compute
    /// exponentials and logarithms to 10⁻⁵.
    #[default]
    Default,
    /// Also rewrites that round differently for the sake of speed.
    Fast,
}
