//! Attention kernels.

use super::body::{FusedBody, FusedInst, FusedOp, Reg};
use super::work::Work;
use crate::fusion::access::Access;
use crate::fusion::domain::Class;
use crate::ir::DType;

/// A stack of matrices whose elements are computed where they are read. Most sources are a window on an operand, or rows
/// of one selected by an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Runs at each of the `batch · rows · columns` points (domain `outer = batch · rows`, `row = columns`); without
    /// reductions and stores.
    pub body: FusedBody,
    /// The register that holds an element of the matrix.
    pub value: Reg,
}

/// A matrix of a source as elements of an operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Index into the kernel's operands.
    pub operand: usize,
    /// From points of the source to elements; evaluated at the first point of a matrix.
    pub access: Access,
    /// Strides of rows and columns.
    pub strides: [i64; 2],
    /// A computed index by row and its stride in elements.
    pub index: Option<(Reg, i64)>,
}

impl Source {
    /// The source as matrices of so many rows in an operand, if no element is computed. The other instructions compute
    /// the index, if there is one.
    pub fn window(&self, rows: usize) -> Option<Window> {
        let FusedInst { op: FusedOp::Load { operand, access, index }, class: Class::Element, .. } =
            &self.body.insts[self.value]
        else {
            return None;
        };
        if index.is_some_and(|(index, _)| self.body.insts[index].class == Class::Element) {
            return None;
        }
        let strides = access.trailing_strides(&[rows, self.body.domain.row])?;
        Some(Window {
            operand: *operand,
            access: access.clone(),
            strides: [strides[0], strides[1]],
            index: *index,
        })
    }
}

/// Attention: `score[b, i, j] = Σ_d query[b, i, d] · key[b, j, d]`, a body over rows of scores that yields weights, and
/// `end` at each point of `Σ_j weight[b, i, j] · value[b, j, w]`.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionBody {
    /// Number of matrices.
    pub batch: usize,
    /// Queries.
    pub m: usize,
    /// Keys, and values.
    pub n: usize,
    /// Extent of a query and a key.
    pub k: usize,
    /// Extent of a value.
    pub width: usize,
    /// Element type of the values and the result.
    pub dtype: DType,
    /// Queries, `[batch, m, k]`.
    pub query: Source,
    /// Keys, `[batch, n, k]`.
    pub key: Source,
    /// Values, `[batch, n, width]`.
    pub value: Source,
    /// Runs over rows of scores (domain `outer = batch · m`, `row = n`, `inner = 1`): the accumulator is a score. Stores
    /// values of rows only.
    pub rows: FusedBody,
    /// The register of `rows` that holds a weight.
    pub weight: Reg,
    /// Runs at each point of the result (domain `outer = batch · m`, `row = width`, `inner = 1`), and stores it.
    pub end: FusedBody,
}

impl Work for AttentionBody {
    fn kind(&self) -> &'static str {
        "attention"
    }

    fn lines(&self) -> Vec<String> {
        let AttentionBody { batch, m, n, k, width, dtype, query, key, value, rows, weight, end } = self;
        let mut lines = vec![format!("batch {batch} m {m} n {n} k {k} width {width} {dtype}")];
        for (name, source) in [("query", query), ("key", key), ("value", value)] {
            lines.extend(source.body.titled(&format!("{name} %{}", source.value)));
        }
        lines.extend(rows.titled(&format!("rows of scores, weight %{weight}")));
        lines.extend(end.titled("end"));
        lines
    }

    fn bodies(&self) -> Vec<&FusedBody> {
        vec![&self.query.body, &self.key.body, &self.value.body, &self.rows, &self.end]
    }

    fn more_flops(&self) -> usize {
        2 * (self.batch * self.m * self.n * (self.k + self.width))
    }
}
