//! Errors of code generation.

use crate::ir::DType;
use thiserror::Error;

/// Why a kernel has no text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CodegenError {
    /// A product whose rows are folded as they come, by something else than a selection that fits.
    #[error("rows of a product are folded so on the processor only; take the ops apart with `fuse: Never`")]
    Fold,
    /// Attention that does not fit.
    #[error(
        "attention over so many keys, to values so wide, or in f64, is no one kernel here; take the ops apart with \
         `fuse: Never`"
    )]
    Attend,
    /// An opaque op that brings no GPU launch.
    #[error("`{op}` runs on the processor only: {why}")]
    Opaque {
        /// The op.
        op: String,
        /// What its form says.
        why: &'static str,
    },
    /// A primitive that the device lacks for a type.
    #[error("`{op}` of {dtype} has no cube form")]
    Scalar {
        /// The primitive.
        op: String,
        /// The type of its operands.
        dtype: String,
    },
    /// A type that the device lacks.
    #[error("the device has no {dtype}")]
    Type {
        /// The type.
        dtype: DType,
    },
    /// Positions that take 64 bits, on a device that has 32.
    #[error("it counts more than 2³² elements, and the device has no 64-bit integers")]
    Wide,
    /// CubeCL refused the kernel.
    #[error("cubecl: {0}")]
    Compiler(String),
}

impl CodegenError {
    /// Whether the device lacks what the kernel needs. If not, the kernel should never have been made.
    pub fn is_of_device(&self) -> bool {
        match self {
            CodegenError::Opaque { .. } | CodegenError::Type { .. } | CodegenError::Wide => true,
            CodegenError::Fold
            | CodegenError::Attend
            | CodegenError::Scalar { .. }
            | CodegenError::Compiler(_) => false,
        }
    }
}
