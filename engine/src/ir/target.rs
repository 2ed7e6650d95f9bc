//! What expansions know of the device that a graph is lowered for.

use super::DType;
use crate::numerics::Precision;

/// Elements of a row of `f32` that a block of any GPU selects.
pub const MOST_SELECTED: usize = 512;

/// The properties of a device that expansions decide from. The default holds for any device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The precision of products of `f32` that do not ask for one.
    pub matmul: Precision,
    /// Whether the device has products in TF32.
    pub has_tf32: bool,
    /// Whether blocks of columns of a product of `f32` are reduced without storing the product.
    pub folds_columns: bool,
    /// The same of a product in TF32.
    pub folds_columns_in_tf32: bool,
    /// The same of products of halves.
    pub folds_columns_of_halves: bool,
    /// The most columns of queries and values for which attention of many queries in `f32` stores no scores; 0 if it stores
    /// them always.
    pub attended_in_f32: usize,
    /// The same of halves.
    pub attended_in_halves: usize,
    /// The same of `f64`.
    pub attended_in_f64: usize,
    /// The most elements of a row of `f32` that a kernel selects and goes on with; 0 if each op has a kernel of its own.
    pub most_selected: usize,
    /// Whether the device computes in double precision.
    pub has_f64: bool,
    /// Whether a row of a kernel may end before another, as on the threads of a CPU.
    pub ends_rows_early: bool,
}

impl Target {
    /// The precision of a product of matrices that asks for one.
    pub fn precision(&self, asked: Option<Precision>) -> Precision {
        match asked.unwrap_or(self.matmul) {
            Precision::Tf32 if self.has_tf32 => Precision::Tf32,
            _ => Precision::F32,
        }
    }

    /// Whether attention of many queries of that type stores no scores, given the most columns of a query or a value.
    pub fn attends_in(&self, dtype: DType, columns: usize) -> bool {
        columns
            <= match dtype {
                DType::F16 | DType::BF16 => self.attended_in_halves,
                DType::F64 => self.attended_in_f64,
                _ => self.attended_in_f32,
            }
    }

    /// Whether blocks of columns of a product of matrices of that type are reduced without storing the product.
    pub fn folds_columns_of(&self, dtype: DType, asked: Option<Precision>) -> bool {
        match dtype {
            DType::F16 | DType::BF16 => self.folds_columns_of_halves,
            DType::F32 if self.precision(asked) == Precision::Tf32 => self.folds_columns_in_tf32,
            _ => self.folds_columns,
        }
    }
}
