//! `nearest_rows`.

use super::candidates::Search;
use super::certificate::{Errors, rounded};
use super::flat::compared_with_all;
use super::metric::{Metric, inverses, squared_norms};
use super::{attrs, joined, operands, sorted, topk, types};
use engine_core::ir::{Attrs, Builder, DType, E, Literal, Monoid, Type, Value};
use engine_core::op::{Example, Grad, GradCheck, Lower, Lowering, OpForm, Role, Rounding, TypeRule};

/// The numbers of the k rows nearest to each query, ascending: `(f32[m, d], f32[n, d])` to `i32[m, k]`. The second result,
/// `bool[m]`, tells whether they are certain.
///
/// 1. A product of queries and rows, perhaps in less than `f32`, gives scores. Of each block of neighbouring rows only the
///    least score is kept, so neither products nor scores are stored. Short bases keep the score of each row.
/// 2. The rows of the `k + margin` best blocks are compared with the query by differences.
/// 3. The k nearest of these are certain if the least score of the other blocks, less the error of a score, lies behind
///    them: see [`Errors`].
/// 4. Queries without that proof are compared with every row, if `exact` is set. They are then certain as well.
pub fn nearest_rows() -> OpForm {
    let base = [5.0, 0.0, 1.0, 1.0, 0.0, 3.0, 2.0, 2.0];
    OpForm {
        name: "nearest_rows".into(),
        family: "order".into(),
        summary: "Finds the numbers of the k rows nearest to each query, in ascending order.".into(),
        inputs: operands(),
        outputs: vec!["rows".into(), "certified".into()],
        attrs: attrs(),
        types: TypeRule::custom(|inputs, attrs| Ok(types("nearest_rows", inputs, attrs, false)?.to_vec())),
        lower: Lower::expand(expansion),
        grad: Grad::None { why: "its results are numbers of rows; `nearest` has a gradient" },
        check: GradCheck::None { why: "its results are numbers of rows" },
        examples: vec![Example::new(
            "by squared distance",
            "nearest_rows(a, b, k=2)",
            &[("f32[1, 2]", &[0.0, 0.0]), ("f32[4, 2]", &base)],
            &[("i32[1, 2]", &[1.0, 3.0]), ("bool[1]", &[1.0])],
        )],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

/// The most rows that are all compared by differences.
const FEW_ROWS: usize = 64;
/// The fewest blocks for each one that is chosen; with fewer, choosing rows compares less.
const FEWEST_BLOCKS: usize = 4;

fn expansion(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let [given_queries, given_base] = [call.inputs[0], call.inputs[1]];
    let dtype = b.dtype(given_queries).accumulator();
    let (m, n, k) = (b.extents(given_queries)[0], b.extents(given_base)[0], call.attrs.int("k") as usize);
    let [queries, base] = [given_queries, given_base].map(|x| b.cast(x, dtype));
    let search = Search { metric: Metric::of(call.attrs), queries, base, k };
    let all = b.full(Literal::Int(1), Type::new(DType::Bool, &[m]));
    let n_candidates = k + margin(call.attrs);
    if n <= n_candidates.max(FEW_ROWS) {
        let every = b.iota(1, Type::new(DType::I32, &[m, n]));
        return vec![search.best(b, every).0, all];
    }
    let norms = [queries, base].map(|x| squared_norms(b, x));
    let first = FirstPass::new(b, call, search.metric, norms);
    let folds = b.target.folds_columns_of(b.dtype(first.factors[0]));
    let width = block_width(n, n_candidates).filter(|_| folds);
    let (candidates, least) = match width {
        Some(width) => first.of_blocks(b, n_candidates, width),
        None => first.of_rows(b, n_candidates),
    };
    let (found, farthest) = search.best(b, candidates);
    let certified = first.errors.certified(b, search.metric, [norms[0], least, farthest]);
    match call.attrs.bool("exact") {
        true => vec![compared_with_all(b, &search, found, certified), certified],
        false => vec![found, certified],
    }
}

/// Candidates beyond k. Rounded factors leave more doubt.
fn margin(attrs: &Attrs) -> usize {
    match (attrs.int("margin"), attrs.str("coarse")) {
        (-1, "bf16") => 16,
        (-1, _) => 8,
        (given, _) => given as usize,
    }
}

/// Rows of a block, if a choice among blocks pays off. Blocks are wider in a large base: a block costs a number in memory,
/// and a row of a chosen block costs d numbers.
fn block_width(n: usize, n_chosen: usize) -> Option<usize> {
    let width = if n >= 1 << 18 { 64 } else { 16 };
    (n / width >= FEWEST_BLOCKS * n_chosen).then_some(width)
}

/// The product of queries and rows.
struct FirstPass {
    metric: Metric,
    errors: Errors,
    /// Queries and base, perhaps rounded.
    factors: [Value; 2],
    /// The squared norms of the base.
    norms: Value,
    /// Whether a row of the base may be NaN.
    has_nan: bool,
}

impl FirstPass {
    /// The product of a call's operands, given their squared norms in the type of their accumulator.
    fn new(b: &mut Builder, call: &Lowering, metric: Metric, norms: [Value; 2]) -> FirstPass {
        let [mut queries, mut base] = [call.inputs[0], call.inputs[1]];
        let (given, d) = (b.dtype(base), b.extents(base)[1]);
        let is_rounded = given == DType::F32 && call.attrs.str("coarse") == "bf16";
        let [mut of_queries, mut of_base] = norms;
        if metric == Metric::Inner {
            let lengths = inverses(b, of_queries);
            let lengths = b.unreduce(lengths, &[1], queries);
            queries = b.map(&[queries, lengths], |v| v[0] * v[1]);
            queries = b.cast(queries, given);
            of_queries = squared_norms(b, queries);
        }
        if !is_rounded {
            let errors = Errors::of(b, given, given, d, None);
            return FirstPass { metric, errors, factors: [queries, base], norms: of_base, has_nan: true };
        }
        let has_nan = metric == Metric::Inner;
        if !has_nan {
            // The copy leaves out rows that are farther away than any other.
            of_base = b.map(&[of_base], |v| E::select(v[0].lt(f64::INFINITY), v[0], f64::INFINITY));
            let of_row = b.unreduce(of_base, &[1], base);
            base = b.map(&[base, of_row], |v| E::select(v[1].lt(f64::INFINITY), v[0], 0.0));
        }
        let [(queries, of_query), (base, of_row)] =
            [(queries, of_queries), (base, of_base)].map(|(x, norms)| rounded(b, x, norms));
        let errors = Errors::of(b, given, DType::BF16, d, Some([of_query, of_row]));
        FirstPass { metric, errors, factors: [queries, base], norms: of_base, has_nan }
    }

    /// The `count` rows of the least scores, ascending, and the next score.
    fn of_rows(&self, b: &mut Builder, count: usize) -> (Value, Value) {
        let scores = self.errors.scores(b, self.metric, self.factors, self.norms);
        chosen(b, scores, count)
    }

    /// The rows of the `count` blocks of the least scores and the rows behind the last whole block, ascending; and the least
    /// score of the other blocks.
    fn of_blocks(&self, b: &mut Builder, count: usize, width: usize) -> (Value, Value) {
        let [queries, base] = self.factors;
        let (m, [n, d]) = (b.extents(queries)[0], [b.extents(base)[0], b.extents(base)[1]]);
        let (n_blocks, whole) = (n / width, n / width * width);
        let base = b.slice(base, &[0, 0], &[whole, d], &[1, 1]);
        let of_rows = b.slice(self.norms, &[0], &[whole], &[1]);
        let scores = self.errors.scores(b, self.metric, [queries, base], of_rows);
        let scores = b.reshape(scores, &[m, n_blocks, width]);
        let least = b.reduce(Monoid::Min, scores, &[2]);
        // A NaN hides the other rows of its block, which is then always chosen.
        let least = match self.has_nan {
            true => b.map(&[least], |v| E::select(v[0].is_nan(), f64::NEG_INFINITY, v[0])),
            false => least,
        };
        let (blocks, least) = chosen(b, least, count);
        let shape = Type::new(DType::I32, &[m, count, width]);
        let first = b.broadcast_axes(blocks, &[0, 1], &shape.shape);
        let within = b.iota(2, shape);
        let rows = b.map(&[first, within], |v| v[0] * width as f64 + v[1]);
        let rows = b.reshape(rows, &[m, count * width]);
        let behind = b.iota(1, Type::new(DType::I32, &[m, n - whole]));
        let behind = b.map(&[behind], |v| v[0] + whole as f64);
        (joined(b, rows, behind), least)
    }
}

/// The places of the `count` least of each row, ascending, and the next of them.
fn chosen(b: &mut Builder, scores: Value, count: usize) -> (Value, Value) {
    let m = b.extents(scores)[0];
    let best = topk(b, scores, count + 1, false);
    let next = b.slice(best[0], &[0, count], &[m, 1], &[1, 1]);
    let places = b.slice(best[1], &[0, 0], &[m, count], &[1, 1]);
    (sorted(b, places), b.reshape(next, &[m]))
}
