//! Errors of code generation.

use crate::ir::DType;
use thiserror::Error;

/// The reason why a kernel has no text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CodegenError {
    /// A matmul fold that stores its product, or has none.
    #[error("this matmul fold has no GPU kernel; separate its ops with `fuse: Never`")]
    Fold,
    /// An attention kernel that exceeds the device's limits.
    #[error(
        "the attention kernel takes fewer keys, narrower values and no f64; separate its ops with `fuse: Never`"
    )]
    Attend,
    /// A gradient of attention, on a device without such a kernel.
    #[error("the device has no kernel of the gradient of attention")]
    AttentionGradient,
    /// An opaque op without a GPU launch.
    #[error("`{op}` runs on the processor only: {why}")]
    Opaque {
        /// The op.
        op: String,
        /// The reason in the op's form.
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
    /// A kernel with 64-bit element numbers, on a device without 64-bit integers.
    #[error("it counts more than 2³² elements, and the device has no 64-bit integers")]
    Wide,
    /// CubeCL rejected the kernel.
    #[error("cubecl: {0}")]
    Compiler(String),
}

impl CodegenError {
    /// Whether the device lacks something that the kernel needs. If not, an earlier pass should have rejected the
    /// kernel.
    pub fn is_of_device(&self) -> bool {
        match self {
            CodegenError::Opaque { .. } | CodegenError::Type { .. } | CodegenError::Wide => true,
            CodegenError::Fold
            | CodegenError::Attend
            | CodegenError::AttentionGradient
            | CodegenError::Scalar { .. }
            | CodegenError::Compiler(_) => false,
        }
    }
}
