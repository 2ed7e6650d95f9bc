//! Calls of a library that multiplies column-major matrices, as data.
//!
//! A row-major matrix is the column-major transpose of itself, and the transpose of a product is the product of the
//! transposes in reverse order: such a library computes `resultᵀ = rhsᵀ · lhsᵀ`, so the right matrix comes first.

use super::matrix_units::Block;
use super::variant::TuneKey;
use crate::fusion::{MatmulBody, MatrixOperand};
use crate::ir::DType;
use crate::numerics::Precision;
use std::fmt;

/// Rules that an algorithm must observe. Another text whenever they change, for algorithms that were chosen by other rules
/// are void.
const RULES: &str = "parts of sums in f32, NaN through ReLU";

/// A matmul of matrices that lie so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MatmulCall {
    /// Number of matrices.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Extent that is summed over.
    pub k: usize,
    /// The left matrix.
    pub lhs: MatrixOperand,
    /// The right matrix.
    pub rhs: MatrixOperand,
    /// Element type of the matrices.
    pub dtype: DType,
    /// Element type of the result.
    pub result: DType,
    /// What is done to each element of the product.
    pub epilogue: Epilogue,
    /// How factors are rounded.
    pub precision: Precision,
    /// What multiplies.
    pub multiplier: Multiplier,
}

/// What multiplies matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Multiplier {
    /// The device's library.
    Library,
    /// A kernel on matrix units.
    MatrixUnits(Block),
}

/// An epilogue that a library can run: `result = activation(product + bias)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epilogue {
    /// Whether one value per column is added, of the type of the result.
    pub has_bias: bool,
    /// What is done last.
    pub activation: Activation,
}

/// What a library does to an element after the bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Nothing.
    #[default]
    Identity,
    /// max(x, 0).
    Relu,
}

/// A matrix as a library takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LibraryMatrix {
    /// Elements before the first.
    pub offset: i64,
    /// Elements from one matrix of the batch to the next.
    pub batch: i64,
    /// Elements from one column to the next.
    pub leading: i64,
    /// Whether it is to be transposed before it is multiplied.
    pub is_transposed: bool,
}

impl MatmulCall {
    /// The product of a kernel's matrices, in the type that sums are held in.
    pub fn new(body: &MatmulBody, precision: Precision) -> MatmulCall {
        let &MatmulBody { batch, m, n, k, lhs, rhs, dtype, .. } = body;
        MatmulCall {
            batch,
            m,
            n,
            k,
            lhs,
            rhs,
            dtype,
            result: dtype.accumulator(),
            epilogue: Epilogue::default(),
            precision,
            multiplier: Multiplier::Library,
        }
    }

    /// The right and the left factor for a library; none if the type is not its own, or a stride is in the way.
    pub fn matrices(&self) -> Option<[LibraryMatrix; 2]> {
        let is_empty = [self.batch, self.m, self.n, self.k].contains(&0);
        let right = library_matrix(&self.rhs, self.k, self.n)?;
        let left = library_matrix(&self.lhs, self.m, self.k)?;
        (self.dtype.is_float() && !is_empty).then_some([right, left])
    }

    /// Bytes of the result.
    pub fn result_bytes(&self) -> usize {
        self.batch * self.m * self.n * self.result.size()
    }

    /// Under what its algorithm is recorded.
    pub fn key(&self) -> TuneKey {
        TuneKey { subject: format!("algorithm of {}", self.shape()), details: format!("{self}, {RULES}") }
    }

    /// The product in a few words: `f32 128x784 @ 784x256 in tf32`.
    pub fn shape(&self) -> String {
        let MatmulCall { batch, m, n, k, dtype, .. } = self;
        let batches = if *batch > 1 { format!("{batch} of ") } else { String::new() };
        let precision = match self.precision {
            Precision::Tf32 if *dtype == DType::F32 => " in tf32",
            _ => "",
        };
        format!("{batches}{dtype} {m}x{k} @ {k}x{n}{precision}")
    }
}

/// All of it in one line, with the strides of both matrices.
impl fmt::Display for MatmulCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matrix = |matrix: &MatrixOperand| {
            let MatrixOperand { offset, batch, row, col, .. } = matrix;
            format!("{offset} + [{batch}, {row}, {col}]")
        };
        write!(f, "{} as {} + {}, {}", self.shape(), matrix(&self.lhs), matrix(&self.rhs), self.result)?;
        if self.epilogue.has_bias {
            f.write_str(" + bias")?;
        }
        if self.epilogue.activation == Activation::Relu {
            f.write_str(", relu")?;
        }
        Ok(())
    }
}

fn library_matrix(matrix: &MatrixOperand, rows: usize, columns: usize) -> Option<LibraryMatrix> {
    let &MatrixOperand { offset, batch, row, col, .. } = matrix;
    let leading = |fast: (usize, i64), slow: (usize, i64)| {
        let is_dense = fast.0 == 1 || fast.1 == 1;
        let leading = if slow.0 == 1 { fast.0 as i64 } else { slow.1 };
        (is_dense && leading >= fast.0 as i64).then_some(leading)
    };
    let (rows, columns) = ((rows, row), (columns, col));
    let as_it_lies = leading(columns, rows).map(|leading| (leading, false));
    let (leading, is_transposed) = as_it_lies.or_else(|| Some((leading(rows, columns)?, true)))?;
    Some(LibraryMatrix { offset, batch, leading, is_transposed })
}
