//! The precision of a stage.

use super::Mode;
use crate::ir::DType;

/// The element type in which a stage computes what tolerates rounding. Parameters, optimizer states and checkpoints are
/// `f32` in each case; see [`precision`](crate::precision).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MixedPrecision {
    /// All nodes in the types that they declare.
    #[default]
    F32,
    /// In `bf16`, which has the range of `f32`.
    Bf16,
    /// In `f16`. Training scales its loss, so that small gradients do not vanish.
    F16(LossScale),
}

/// The factor of a loss, which adapts to the range of `f16` (Micikevicius et al. 2018). A step whose gradients are not finite
/// is skipped, and halves the factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LossScale {
    /// The first factor.
    pub start: usize,
    /// Steps with finite gradients in a row after which the factor doubles.
    pub growth_interval: usize,
}

impl Default for LossScale {
    fn default() -> LossScale {
        LossScale { start: 1 << 16, growth_interval: 2000 }
    }
}

impl MixedPrecision {
    /// The half type, if there is one.
    pub const fn half(self) -> Option<DType> {
        match self {
            MixedPrecision::F32 => None,
            MixedPrecision::Bf16 => Some(DType::BF16),
            MixedPrecision::F16(_) => Some(DType::F16),
        }
    }

    /// The factor of the loss in training.
    pub const fn loss_scale(self) -> Option<LossScale> {
        match self {
            MixedPrecision::F16(scale) => Some(scale),
            MixedPrecision::F32 | MixedPrecision::Bf16 => None,
        }
    }
}

/// How the ops of a stage behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Behaviour {
    /// Whether they behave as in training.
    pub mode: Mode,
    /// The precision that they compute in.
    pub precision: MixedPrecision,
}

impl From<(Mode, MixedPrecision)> for Behaviour {
    fn from((mode, precision): (Mode, MixedPrecision)) -> Behaviour {
        Behaviour { mode, precision }
    }
}

impl From<Mode> for Behaviour {
    fn from(mode: Mode) -> Behaviour {
        Behaviour { mode, precision: MixedPrecision::F32 }
    }
}
