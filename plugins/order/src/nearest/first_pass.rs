//! The product of queries and rows that a search begins with.

use super::certificate::{Errors, Factor, rounded};
use super::filter::Filter;
use super::head::{Coordinates, Head};
use super::lengths::{Lengths, inverses, squared_norms, times};
use super::metric::Metric;
use engine_core::ir::{Builder, DType, E, Monoid, Value};
use engine_core::numerics::Precision;
use engine_core::op::Lowering;

/// The product of queries and rows.
pub struct FirstPass {
    metric: Metric,
    /// The errors of its scores.
    pub errors: Errors,
    /// Queries and base, perhaps rounded.
    pub factors: [Value; 2],
    /// The squared norms of the queries, and those of the base. A head takes its mean off before. For cosines, they are
    /// the inverse norms of the factors, infinite if nothing is known of angles.
    pub norms: [Value; 2],
    /// Whether a row of the base may be NaN.
    has_nan: bool,
}

impl FirstPass {
    /// The product of a call's operands. `vectors` are these in the type of their accumulator.
    pub fn new(b: &mut Builder, call: &Lowering, metric: Metric, vectors: [Value; 2]) -> FirstPass {
        let given = [call.inputs[0], call.inputs[1]];
        if metric == Metric::Cosine {
            return FirstPass::of_angles(b, call, given, vectors);
        }
        let norms = vectors.map(|x| squared_norms(b, x));
        FirstPass::of_factors(b, call, metric, given, norms)
    }

    /// The product for cosines. Queries are scaled, and so is a copy of the base that is rounded: other copies would cost
    /// more than the product gains.
    fn of_angles(b: &mut Builder, call: &Lowering, given: [Value; 2], vectors: [Value; 2]) -> FirstPass {
        let lengths = vectors.map(|x| Lengths::of(b, x));
        let dtype = b.dtype(given[0]);
        // `f16` holds few powers of two, and its squares are far from the limits of `f32`.
        let is_scaled = [dtype != DType::F16, is_rounded(b, call, given[1])];
        let factors = [0, 1].map(|side| {
            if !is_scaled[side] {
                return given[side];
            }
            let scaled = times(b, vectors[side], lengths[side].scales);
            b.cast(scaled, dtype)
        });
        let norms = [0, 1].map(|side| lengths[side].known_inverses(b, is_scaled[side]));
        let squares = lengths.map(|lengths| lengths.squares);
        let first = FirstPass::of_factors(b, call, Metric::Cosine, factors, squares);
        FirstPass { norms, ..first }
    }

    /// The product of heads and tails.
    pub fn of_heads(
        b: &mut Builder,
        call: &Lowering,
        metric: Metric,
        vectors: [Value; 2],
        head: &Head,
    ) -> FirstPass {
        let (exact, d) = (b.dtype(vectors[0]), b.extents(vectors[0])[1]);
        let lengths = (metric == Metric::Cosine).then(|| vectors.map(|x| Lengths::of(b, x)));
        let Coordinates { factors, norms, error } = head.coordinates(b, vectors, lengths);
        let first = FirstPass::of_factors(b, call, metric, factors, norms);
        let norms = match lengths {
            Some(lengths) => lengths.map(|lengths| lengths.known_inverses(b, true)),
            None => first.norms,
        };
        FirstPass { errors: first.errors.of_coordinates(b, exact, error, d), norms, ..first }
    }

    /// The product of factors that stand for vectors of these squared norms.
    fn of_factors(
        b: &mut Builder,
        call: &Lowering,
        metric: Metric,
        [mut queries, mut base]: [Value; 2],
        norms: [Value; 2],
    ) -> FirstPass {
        let (given, d) = (b.dtype(base), b.extents(base)[1]);
        let [mut of_queries, mut of_base] = norms;
        if metric == Metric::Inner {
            let lengths = inverses(b, of_queries);
            let lengths = b.unreduce(lengths, &[1], queries);
            queries = b.widen(queries);
            queries = b.map(&[queries, lengths], |v| v[0] * v[1]);
            of_queries = squared_norms(b, queries);
        }
        let (factor, rounded_by, has_nan);
        if metric == Metric::Inner && given.accumulator() != given {
            // Queries of halves are rounded when they are scaled; the base is as it was given.
            let of_query;
            (queries, of_query) = rounded(b, queries, of_queries, given);
            rounded_by = Some([of_query, b.full_like(of_query, 0.0)]);
            (factor, has_nan) = (Factor { dtype: given, precision: None }, true);
        } else if is_rounded(b, call, base) {
            has_nan = metric == Metric::Inner;
            if metric == Metric::Squared {
                [base, of_base] = without_far_rows(b, base, of_base);
            }
            let (of_query, of_row);
            [(queries, of_query), (base, of_row)] =
                [(queries, of_queries), (base, of_base)].map(|(x, norms)| rounded(b, x, norms, DType::BF16));
            rounded_by = Some([of_query, of_row]);
            factor = Factor { dtype: DType::BF16, precision: None };
        } else {
            (rounded_by, has_nan) = (None, true);
            factor = Factor { dtype: given, precision: precision(b, call, given) };
        }
        let errors = Errors::of(b, given, factor, d, rounded_by);
        FirstPass { metric, errors, factors: [queries, base], norms: [norms[0], of_base], has_nan }
    }

    /// Whether the device reduces blocks of columns of the product without storing it.
    pub fn folds_columns(&self, b: &Builder) -> bool {
        b.target.folds_columns_of(b.dtype(self.factors[0]), self.errors.precision)
    }

    /// The scores of queries, a part of the first factor, and all rows: `[m, n]`. The filter is that of these queries.
    pub fn scores(&self, b: &mut Builder, queries: Value, filter: Option<Filter>) -> Value {
        let scores = self.errors.scores(b, self.metric, [queries, self.factors[1]], self.norms[1]);
        match filter {
            Some(filter) => filter.hide_scores(b, scores, 0),
            None => scores,
        }
    }

    /// Whether no row outside the candidates is nearer than the k-th of them, `bool[m]`: from the least score outside, and
    /// the k-th value of the candidates. Scores that overflowed to NaN may be missing in the least score.
    pub fn certified(&self, b: &mut Builder, [least, farthest]: [Value; 2]) -> Value {
        let certified = self.errors.certified(b, self.metric, [self.norms[0], least, farthest]);
        if self.metric != Metric::Inner {
            return certified;
        }
        // Products with a row of an infinite norm may overflow.
        let overflows = b.map(&[self.norms[1]], |v| v[0].eq(f64::INFINITY).cast(DType::I32));
        let overflows = b.reduce(Monoid::Max, overflows, &[0]);
        b.map(&[certified, overflows], |v| v[0] & v[1].eq(0.0))
    }

    /// The least score of each block of `width` rows, `[m, blocks]`, for blocks that begin with row `first`. Rows that the
    /// filter hides do not count. A block with a NaN has the score -∞.
    pub fn minima(
        &self,
        b: &mut Builder,
        [first, n_blocks, width]: [usize; 3],
        filter: Option<Filter>,
    ) -> Value {
        let [queries, base] = self.factors;
        let (m, d) = (b.extents(queries)[0], b.extents(base)[1]);
        let n = n_blocks * width;
        let base = b.slice(base, &[first, 0], &[n, d], &[1, 1]);
        let of_rows = b.slice(self.norms[1], &[first], &[n], &[1]);
        let mut scores = self.errors.scores(b, self.metric, [queries, base], of_rows);
        if let Some(filter) = filter {
            scores = filter.hide_scores(b, scores, first);
        }
        let scores = b.reshape(scores, &[m, n_blocks, width]);
        let least = b.reduce(Monoid::Min, scores, &[2]);
        // A NaN hides the other rows of its block, which is then always chosen.
        match self.has_nan {
            true => b.map(&[least], |v| E::select(v[0].is_nan(), f64::NEG_INFINITY, v[0])),
            false => least,
        }
    }
}

/// Whether products are those of copies in bf16.
fn is_rounded(b: &Builder, call: &Lowering, base: Value) -> bool {
    b.dtype(base) == DType::F32 && call.attrs.str("coarse") == "bf16"
}

/// Rows and their squared norms without rows that are farther away than any other: zeros of an infinite norm.
pub fn without_far_rows(b: &mut Builder, base: Value, norms: Value) -> [Value; 2] {
    let norms = b.map(&[norms], |v| E::select(v[0].lt(f64::INFINITY), v[0], f64::INFINITY));
    let of_row = b.unreduce(norms, &[b.ty(base).rank() - 1], base);
    [b.map(&[base, of_row], |v| E::select(v[1].lt(f64::INFINITY), v[0], 0.0)), norms]
}

/// Rows of a block. Blocks are wider in a large base: a block costs a number in memory, and a row of a chosen block costs d
/// numbers.
pub fn block_width(n: usize) -> usize {
    if n >= 1 << 18 { 64 } else { 16 }
}

/// The precision that the first pass over numbers of a type asks for, if it is not that of the pipeline.
fn precision(b: &Builder, call: &Lowering, given: DType) -> Option<Precision> {
    let asked = if call.attrs.str("coarse") == "tf32" { Precision::Tf32 } else { Precision::F32 };
    let precision = b.target.precision(Some(asked));
    (given == DType::F32 && precision != b.target.precision(None)).then_some(precision)
}
