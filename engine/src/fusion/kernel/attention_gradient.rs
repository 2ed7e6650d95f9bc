//! Kernels of the gradient of attention.

use super::attention::Source;
use super::body::{FusedBody, FusedOp, Reg};
use super::work::Work;
use crate::ir::DType;

/// A product `Σ_d rows[b, i, d] · columns[b, j, d]` at each point of the body.
#[derive(Clone, Debug, PartialEq)]
pub struct PointProduct {
    /// Extent summed over.
    pub k: usize,
    /// `[batch, m, k]`
    pub rows: Source,
    /// `[batch, n, k]`
    pub columns: Source,
}

/// A product of a value at the points with another matrix, and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct PointSum {
    /// The register of the points' body that is multiplied.
    pub value: Reg,
    /// Whether the sum is over keys, `[batch, m, n] · [batch, n, width]`, or else over queries,
    /// `[batch, m, n]ᵀ · [batch, m, width]`.
    pub over_keys: bool,
    /// Columns of the other matrix and of the result.
    pub width: usize,
    /// The other matrix.
    pub other: Source,
    /// Runs at each point of the result (domain `outer = batch · m` or `batch · n`, `row = width`, `inner = 1`), and stores
    /// it.
    pub end: FusedBody,
}

/// Two products with the same points, a body over these points, and products of its values over queries or keys. In the
/// gradient of attention, the products are scores and the gradients of weights; the sums are the gradients of queries, keys
/// and values. Nothing of the size of the points goes through memory.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionGradientBody {
    /// Number of matrices.
    pub batch: usize,
    /// Queries.
    pub m: usize,
    /// Keys.
    pub n: usize,
    /// Element type of the matrices.
    pub dtype: DType,
    /// The products whose results are the accumulators of the body.
    pub products: [PointProduct; 2],
    /// Runs at each point (domain `outer = batch · m`, `row = n`, `inner = 1`). Stores nothing.
    pub points: FusedBody,
    /// The products of its values.
    pub sums: Vec<PointSum>,
}

/// The fewest parts of the work, so that there is some for many threads.
const LEAST_PARTS: usize = 8;
/// The fewest queries of a part.
const PART: usize = 128;

impl AttentionGradientBody {
    /// The parts into which the queries of a matrix are cut. Each has sums over queries of its own.
    pub fn n_parts(&self) -> usize {
        LEAST_PARTS.div_ceil(self.batch.max(1)).min(self.m.div_ceil(PART)).max(1)
    }

    /// Whether sums over queries are stored before they are finished: there are several parts of them, or maps follow.
    pub fn has_partial_sums(&self) -> bool {
        let accumulator = self.dtype.accumulator();
        // Nothing but the accumulator and its store.
        let is_bare = |sum: &PointSum| match &sum.end.insts[..] {
            [sum, _] => sum.op == FusedOp::Accumulator && sum.dtype == accumulator,
            _ => false,
        };
        self.n_parts() > 1 || self.sums.iter().any(|sum| !sum.over_keys && !is_bare(sum))
    }

    /// The elements of the partial sums over queries, of all parts and sums.
    pub fn partial_sums(&self) -> usize {
        let widths = self.sums.iter().filter(|sum| !sum.over_keys).map(|sum| sum.width);
        self.batch * self.n_parts() * self.n * widths.sum::<usize>()
    }
}

impl Work for AttentionGradientBody {
    fn kind(&self) -> &'static str {
        "attention gradient"
    }

    fn lines(&self) -> Vec<String> {
        let AttentionGradientBody { batch, m, n, dtype, products, points, sums } = self;
        let mut lines = vec![format!("batch {batch} m {m} n {n} {dtype}")];
        for (name, PointProduct { k, rows, columns }) in ["first", "second"].into_iter().zip(products) {
            lines.extend(rows.body.titled(&format!("{name} product over {k}, rows %{}", rows.value)));
            lines.extend(columns.body.titled(&format!("{name} product, columns %{}", columns.value)));
        }
        lines.extend(points.titled("points"));
        for PointSum { value, over_keys, width, other, end } in sums {
            let over = if *over_keys { "keys" } else { "queries" };
            let title = format!("sum over {over} of %{value} times {width} columns %{}", other.value);
            lines.extend(other.body.titled(&title));
            lines.extend(end.titled("end"));
        }
        lines
    }

    fn bodies(&self) -> Vec<&FusedBody> {
        let products = self.products.iter().flat_map(|product| [&product.rows.body, &product.columns.body]);
        let sums = self.sums.iter().flat_map(|sum| [&sum.other.body, &sum.end]);
        products.chain([&self.points]).chain(sums).collect()
    }

    fn more_flops(&self) -> usize {
        let depths = self.products.iter().map(|product| product.k);
        2 * self.batch * self.m * self.n * depths.chain(self.sums.iter().map(|sum| sum.width)).sum::<usize>()
    }

    fn workspace_bytes(&self) -> usize {
        if self.has_partial_sums() { self.partial_sums() * self.dtype.accumulator().size() } else { 0 }
    }
}
