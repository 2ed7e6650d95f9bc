//! Matmul kernels with an epilogue and side sums.

use super::body::{FusedBody, FusedOp};
use super::row_fold::{RowConsumer, RowsBody};
use super::work::Work;
use crate::fusion::access::Axis;
use crate::ir::DType;
use crate::numerics::Precision;

/// A matrix operand: element `(b, i, j)` lies at `offset + b·batch + i·row + j·col`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixOperand {
    /// Index into the kernel's operands.
    pub operand: usize,
    /// Elements before the first.
    pub offset: i64,
    /// Stride of the batch.
    pub batch: i64,
    /// Stride of the first matrix axis (m of the left, k of the right).
    pub row: i64,
    /// Stride of the second matrix axis (k of the left, n of the right).
    pub col: i64,
}

/// The axes of a matrix whose rows or columns are not evenly spaced: the windows of an image, which an implicit GEMM reads
/// where they lie. Element `(b, i, j)` lies at the operand's offset, plus its coordinates on these axes times their strides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnevenAxes {
    /// The axes of the batch, outermost first.
    pub batch: Vec<Axis>,
    /// The axes of its rows: m of the left matrix, k of the right one.
    pub rows: Vec<Axis>,
    /// The axes of its columns: k of the left matrix, n of the right one.
    pub columns: Vec<Axis>,
}

/// The matrix that a side sum reduces along the contracted axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The left one, giving `[batch, m]`.
    Lhs,
    /// The right one, giving `[batch, n]`.
    Rhs,
}

/// A sum of an operand along the contracted axis, such as a bias gradient beside a weight gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SideSum {
    /// The summed matrix.
    pub side: Side,
    /// The written kernel operand, dense.
    pub operand: usize,
}

/// A matmul `acc[b, i, j] = Σ_k lhs[b, i, k] · rhs[b, k, j]`, then the epilogue at each point.
#[derive(Clone, Debug, PartialEq)]
pub struct MatmulBody {
    /// Number of matrices.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Extent summed over.
    pub k: usize,
    /// Left matrix.
    pub lhs: MatrixOperand,
    /// Right matrix.
    pub rhs: MatrixOperand,
    /// The axes of the left and of the right matrix where they are uneven; the strides of the matrix are 0 then.
    pub uneven: [Option<Box<UnevenAxes>>; 2],
    /// Element type of the matrices.
    pub dtype: DType,
    /// The precision of a product of `f32`; `None` is that of the plan.
    pub precision: Option<Precision>,
    /// Runs at each of the `batch · m · n` points (domain `outer = batch · m`, `row = n`, `inner = 1`), reads the
    /// accumulator, stores. `Row` class is per result row.
    pub epilogue: FusedBody,
    /// Sums of the operands.
    pub side_sums: Vec<SideSum>,
    /// The row reduction of a matmul fold: it takes the rows of the epilogue's result, which are not stored.
    pub rows: Option<Box<RowsBody>>,
}

impl Work for MatmulBody {
    fn kind(&self) -> &'static str {
        "matmul"
    }

    fn lines(&self) -> Vec<String> {
        let matrix = |m: &MatrixOperand, uneven: &Option<Box<UnevenAxes>>| match uneven {
            None => format!("@{} + {} strides [{}, {}, {}]", m.operand, m.offset, m.batch, m.row, m.col),
            Some(axes) => format!("@{} + {} {}", m.operand, m.offset, uneven_text(axes)),
        };
        let precision =
            self.precision.map(|precision| format!(" as {}", precision.name())).unwrap_or_default();
        let mut lines = vec![
            format!("batch {} m {} n {} k {} {}{precision}", self.batch, self.m, self.n, self.k, self.dtype),
            format!("lhs {}", matrix(&self.lhs, &self.uneven[0])),
            format!("rhs {}", matrix(&self.rhs, &self.uneven[1])),
        ];
        for sum in &self.side_sums {
            let side = if sum.side == Side::Lhs { "lhs" } else { "rhs" };
            lines.push(format!("@{} = sum of {side} over k", sum.operand));
        }
        if let Some(rows) = &self.rows {
            let results: Vec<String> = rows.results.iter().map(|operand| format!("@{operand}")).collect();
            let (results, name) = (results.join(", "), rows.consumer.name());
            let part = match rows.consumer {
                RowConsumer::Blocks { columns, .. } => format!("{columns} columns of each row"),
                _ => "each row".to_string(),
            };
            lines.push(format!("{results} = {name} of {part}, as it is computed"));
        }
        lines.extend(self.epilogue.lines());
        lines
    }

    fn bodies(&self) -> Vec<&FusedBody> {
        vec![&self.epilogue]
    }

    fn reads_whole(&self, operand: usize) -> bool {
        [self.lhs.operand, self.rhs.operand].contains(&operand)
    }

    fn more_flops(&self) -> usize {
        2 * (self.batch * self.m * self.n * self.k)
    }

    /// The rows' partial states of a matmul fold.
    fn workspace_bytes(&self) -> usize {
        let Some(rows) = &self.rows else { return 0 };
        8 * self.batch * self.m * rows.n_pieces * rows.state_words
    }
}

/// The axes of an uneven matrix, each as `extent:stride`, in the order batch, rows, columns.
fn uneven_text(UnevenAxes { batch, rows, columns }: &UnevenAxes) -> String {
    let axis = |axis: &Axis| format!("{}:{}", axis.extent, axis.stride);
    let axes = |axes: &[Axis]| axes.iter().map(axis).collect::<Vec<_>>().join(", ");
    format!("axes [{}] [{}] [{}]", axes(batch), axes(rows), axes(columns))
}

impl MatmulBody {
    /// The type that the epilogue reads the product in: that of the sums, or a narrower one that they are rounded to.
    pub fn product_type(&self) -> DType {
        let read = self.epilogue.insts.iter().find(|inst| inst.op == FusedOp::Accumulator);
        read.map_or(self.dtype.accumulator(), |inst| inst.dtype)
    }

    /// The axes of a matrix, uneven or not.
    pub fn axes(&self, side: Side) -> UnevenAxes {
        let (matrix, uneven, rows, columns) = match side {
            Side::Lhs => (self.lhs, &self.uneven[0], self.m, self.k),
            Side::Rhs => (self.rhs, &self.uneven[1], self.k, self.n),
        };
        let axes = |extent: usize, stride: i64| match extent {
            1 => vec![],
            _ => vec![Axis { extent, stride }],
        };
        uneven.as_deref().cloned().unwrap_or_else(|| UnevenAxes {
            batch: axes(self.batch, matrix.batch),
            rows: axes(rows, matrix.row),
            columns: axes(columns, matrix.col),
        })
    }
}
