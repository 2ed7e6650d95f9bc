//! What expansions know of the device that a graph is lowered for.

use super::DType;
use crate::numerics::Precision;

/// The properties of a device that expansions decide from. The default holds for any device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The precision of products of `f32`.
    pub matmul: Precision,
    /// Whether blocks of columns of a product of `f32` are reduced without storing the product.
    pub folds_columns: bool,
    /// The same of products of halves.
    pub folds_columns_of_halves: bool,
}

impl Target {
    /// Whether blocks of columns of a product of matrices of that type are reduced without storing the product.
    pub fn folds_columns_of(&self, dtype: DType) -> bool {
        match dtype {
            DType::F16 | DType::BF16 => self.folds_columns_of_halves,
            _ => self.folds_columns,
        }
    }
}
