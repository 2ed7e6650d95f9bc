//! Calls of a library that multiplies column-major matrices, as data.
//!
//! A row-major matrix is the column-major transpose of itself, and the transpose of a product is the product of the
//! transposes in reverse order: such a library computes `resultᵀ = rhsᵀ · lhsᵀ`, so the right matrix comes first.

use super::matrix_units::Block;
use super::variant::TuneKey;
use crate::device_model::Library;
use crate::fusion::{Convolution, MatmulBody, MatrixOperand};
use crate::ir::DType;
use crate::numerics::Precision;
use std::fmt;

/// Rules that an algorithm must observe. Another text whenever they change, for algorithms that were chosen by other rules
/// are void.
const RULES: &str = "parts of sums in f32, NaN through ReLU";
/// The same for convolutions.
const RULES_OF_CONVOLUTIONS: &str = "parts of sums in f32, also with channels last";

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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Multiplier {
    /// The device's library.
    Library,
    /// The device's library of convolutions, which takes the tensors instead of the matrices.
    Convolution(Box<Convolution>),
    /// A kernel on matrix units.
    MatrixUnits(Block),
}

impl Multiplier {
    /// Whether it is a library.
    pub fn is_library(&self) -> bool {
        !matches!(self, Multiplier::MatrixUnits(_))
    }
}

/// An epilogue that a library can run: `result = activation(product + added + bias)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epilogue {
    /// Whether one value per element is added, of the type of the result. It may lie where the result goes.
    pub adds: bool,
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

    /// Whether what multiplies can give results of this type with this epilogue: convolutions have the type of their factors,
    /// and no epilogue.
    pub fn is_possible(&self) -> bool {
        let is_convolution = matches!(self.multiplier, Multiplier::Convolution(_));
        !is_convolution || self.result == self.dtype && self.epilogue == Epilogue::default()
    }

    /// Bytes of the result.
    pub fn result_bytes(&self) -> usize {
        self.batch * self.m * self.n * self.result.size()
    }

    /// Bytes of the left and of the right operand up to the last element that is read.
    pub fn factor_bytes(&self) -> [usize; 2] {
        let &MatmulCall { batch, m, n, k, .. } = self;
        let reach = |matrix: &MatrixOperand, extents: [usize; 3]| {
            let strides = [matrix.batch, matrix.row, matrix.col];
            extents.iter().zip(strides).map(|(&extent, stride)| (extent as i64 - 1) * stride).sum::<i64>()
        };
        let last = match &self.multiplier {
            Multiplier::Convolution(convolution) => convolution.factor_reaches(),
            _ => [reach(&self.lhs, [batch, m, k]), reach(&self.rhs, [batch, k, n])],
        };
        let [left, right] = [self.lhs.offset + last[0], self.rhs.offset + last[1]];
        [left, right].map(|last| (last + 1) as usize * self.dtype.size())
    }

    /// Bytes of workspace that an algorithm may use. A convolution may copy its tensors to another order of their axes.
    pub fn workspace_bytes(&self, library: Library) -> usize {
        match &self.multiplier {
            Multiplier::Convolution(convolution) => {
                library.workspace_bytes + convolution.n_elements() * self.dtype.size()
            }
            _ => library.workspace_bytes,
        }
    }

    /// Under what its algorithm is recorded.
    pub fn key(&self) -> TuneKey {
        let rules = match self.multiplier {
            Multiplier::Convolution(_) => RULES_OF_CONVOLUTIONS,
            _ => RULES,
        };
        TuneKey { subject: format!("algorithm of {}", self.shape()), details: format!("{self}, {rules}") }
    }

    /// The product in a few words: `matmul f32 128x784 @ 784x256 in tf32`.
    pub fn title(&self) -> String {
        match &self.multiplier {
            Multiplier::Convolution(convolution) => {
                format!("convolution {} {}{}", self.dtype, convolution.shape(), self.rounding())
            }
            _ => format!("matmul {}", self.shape()),
        }
    }

    /// The shape of the product: `f32 128x784 @ 784x256 in tf32`.
    pub fn shape(&self) -> String {
        let MatmulCall { batch, m, n, k, dtype, .. } = self;
        let batches = if *batch > 1 { format!("{batch} of ") } else { String::new() };
        format!("{batches}{dtype} {m}x{k} @ {k}x{n}{}", self.rounding())
    }

    fn rounding(&self) -> &'static str {
        match self.precision {
            Precision::Tf32 if self.dtype == DType::F32 => " in tf32",
            _ => "",
        }
    }
}

/// ` + added + bias, relu`, or nothing.
impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.adds, " + added"),
            (self.has_bias, " + bias"),
            (self.activation == Activation::Relu, ", relu"),
        ];
        parts.into_iter().filter(|(is_there, _)| *is_there).try_for_each(|(_, part)| f.write_str(part))
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
        write!(f, "{}", self.epilogue)?;
        if let Multiplier::Convolution(convolution) = &self.multiplier {
            write!(f, ", convolution {convolution}")?;
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
