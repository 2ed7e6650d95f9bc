//! `nearest_rows`.

use super::candidates::Search;
use super::filter::Filter;
use super::first_pass::{FirstPass, block_width};
use super::flat::compared_with_all;
use super::head::Head;
use super::metric::Metric;
use super::{attrs, operands, sorted, topk, types};
use crate::axis::called;
use engine_core::ir::{Attr, Attrs, Builder, DType, E, Literal, PART, Symbol, Type, Value};
use engine_core::op::{Example, Grad, GradCheck, Lower, Lowering, OpForm, Role, Rounding, TypeRule};

/// The numbers of the k rows nearest to each query, ascending: `(f32[m, d], f32[n, d])` to `i32[m, k]`. The second result,
/// `bool[m]`, tells whether they are certain, and the third, `i32[m]`, how many rows were compared with each query.
///
/// 1. A product of queries and rows, perhaps in less than `f32`, gives scores. Of each block of neighbouring rows only the
///    least score is kept, so neither products nor scores are stored. Short bases, and devices whose products cannot
///    reduce blocks, keep the score of each row.
/// 2. The rows of the `k + margin` best blocks are compared with the query by differences.
/// 3. The k nearest of these are certain if the least score of the other blocks, less the error of a score, lies behind
///    them: see `certificate.rs`.
/// 4. Queries without that proof are compared with every row, if `exact` is set. They are then certain as well. A GPU has a
///    loop for this: see `flat.rs`.
///
/// Rows that a filter hides count as infinitely far in the product, and as NaN in comparisons. Where fewer than k rows are
/// left, any others fill up.
///
/// With `axes`, the product is one of heads and tails: see `head.rs`. It has fewer columns, and its scores are lower. A CPU
/// then keeps the scores of all rows and compares as many rows as it needs to be certain. So it does where many queries search
/// among few rows.
pub fn nearest_rows() -> OpForm {
    let base = [5.0, 0.0, 1.0, 1.0, 0.0, 3.0, 2.0, 2.0];
    OpForm {
        name: "nearest_rows".into(),
        family: "order".into(),
        summary: "Finds the numbers of the k rows nearest to each query, in ascending order.".into(),
        inputs: operands(),
        outputs: vec!["rows".into(), "certified".into(), "scanned".into()],
        attrs: attrs(),
        types: TypeRule::custom(|inputs, attrs| Ok(types("nearest_rows", inputs, attrs, false)?.to_vec())),
        lower: Lower::expand(expansion),
        grad: Grad::None { why: "its results are numbers of rows; `nearest` has a gradient" },
        check: GradCheck::None { why: "its results are numbers of rows" },
        examples: vec![Example::new(
            "by squared distance",
            "nearest_rows(a, b, k=2)",
            &[("f32[1, 2]", &[1.0, 0.5]), ("f32[4, 2]", &base)],
            &[("i32[1, 2]", &[1.0, 3.0]), ("bool[1]", &[1.0]), ("i32[1]", &[4.0])],
        )],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

/// The most rows that are all compared by differences.
const FEW_ROWS: usize = 64;
/// The most rows, and the fewest queries, for which a CPU lists rows by their bounds rather than by blocks.
const ROWS_BY_LISTS: usize = 16384;
const QUERIES_BY_LISTS: usize = 4096;
/// The fewest blocks for each one that is chosen; with fewer, choosing rows compares less.
const FEWEST_BLOCKS: usize = 4;

fn expansion(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let [given_queries, given_base] = [call.inputs[0], call.inputs[1]];
    let dtype = b.dtype(given_queries).accumulator();
    let (m, n, k) = (b.extents(given_queries)[0], b.extents(given_base)[0], call.attrs.int("k") as usize);
    let [queries, base] = [given_queries, given_base].map(|x| b.cast(x, dtype));
    let (filter, heads) = Filter::split(b, &call.inputs[2..]);
    let search = Search { metric: Metric::of(call.attrs), queries, base, filter, k };
    let all = b.full(Literal::Int(1), Type::new(DType::Bool, &[m]));
    let counted =
        |b: &mut Builder, count: usize| b.full(Literal::Int(count as i64), Type::new(DType::I32, &[m]));
    let n_candidates = k + margin(call.attrs, !heads.is_empty(), k);
    if n <= n_candidates.max(FEW_ROWS) {
        let every = b.iota(1, Type::new(DType::I32, &[m, n]));
        return vec![search.best(b, every).0, all, counted(b, n)];
    }
    let first = match Head::of(b, heads, dtype) {
        Some(head) => {
            let first = FirstPass::of_heads(b, call, search.metric, [queries, base], &head);
            if b.target.ends_rows_early {
                let (found, compared) = by_lists(b, call, &search, &first);
                return vec![found, all, compared];
            }
            first
        }
        None => FirstPass::new(b, call, search.metric, [queries, base]),
    };
    if b.target.ends_rows_early && call.attrs.bool("exact") && n <= ROWS_BY_LISTS && m >= QUERIES_BY_LISTS {
        let (found, compared) = by_lists(b, call, &search, &first);
        return vec![found, all, compared];
    }
    let folds = first.folds_columns(b);
    let width = useful_width(n, n_candidates).filter(|_| folds);
    let (candidates, least) = match width {
        Some(width) => of_blocks(b, &first, filter, n_candidates, width),
        None => of_rows(b, &first, filter, n_candidates),
    };
    let (found, farthest) = search.best(b, candidates);
    let mut certified = first.certified(b, [least, farthest]);
    if filter.is_some() {
        // Only hidden rows are left outside.
        certified = b.map(&[certified, least], |v| v[0] | v[1].eq(f64::INFINITY));
    }
    let compared = b.extents(candidates)[1];
    let scanned = counted(b, compared);
    if !call.attrs.bool("exact") {
        return vec![found, certified, scanned];
    }
    let scanned = b.map(&[certified, scanned], |v| E::select(v[0], v[1], n as f64));
    let found = match b.target.ends_rows_early {
        true => {
            let counts = b.map(&[certified], |v| E::select(v[0], k as f64, -1.0).cast(DType::I32));
            search.nearest_of_lists(b, found, counts)
        }
        false => compared_with_all(b, &search, found, certified),
    };
    vec![found, certified, scanned]
}

/// The room of a list: a place for so many rows of the base, and so many places at most.
const ROWS_OF_A_PLACE: usize = 16;
const MOST_ROOM: usize = 4096;
/// The most queries whose scores are in memory at a time, if there are so many, and the parts of all queries at most.
const PART_QUERIES: usize = 128;
const MOST_PARTS: usize = 32;

/// The rows that kernels find which compare as many rows as they need to, and how many these are. Parts of the queries list
/// rows one after the other, so that the scores of one part at a time are in memory.
fn by_lists(b: &mut Builder, call: &Lowering, search: &Search, first: &FirstPass) -> (Value, Value) {
    let (mark, scope) = (b.no_fuse(), b.scope());
    let m = b.extents(search.queries)[0];
    let count = m.div_ceil(MOST_PARTS).max(PART_QUERIES);
    let [slope, offset] = first.errors.moderate_bound(b, search.metric, first.norms[0]);
    let attrs = Attrs::default()
        .with("k", Attr::from(search.k as i64))
        .with("metric", call.attrs.get("metric").clone());
    let n = b.extents(search.base)[0];
    let room = (n / ROWS_OF_A_PLACE).clamp(1, MOST_ROOM).max(search.k);
    let listed = attrs.with("room", Attr::from(room as i64));
    let mut parts = [vec![], vec![], vec![]];
    for start in (0..m.max(1)).step_by(count) {
        let rows = count.min(m - start);
        if rows < m {
            b.set_no_fuse(Some(Symbol::from(format!("{scope}{PART}{start}"))));
        }
        let [slope, offset] = [slope, offset].map(|x| b.slice(x, &[start], &[rows], &[1]));
        let [queries, factor] = [search.queries, first.factors[0]].map(|x| {
            let d = b.extents(x)[1];
            b.slice(x, &[start, 0], &[rows, d], &[1, 1])
        });
        let filter = search.filter.map(|filter| filter.part(b, start, rows));
        let scores = first.errors.scores(b, search.metric, [factor, first.factors[1]], first.norms[1]);
        let scores = first.errors.moderate(b, search.metric, scores);
        let scores = filter.map_or(scores, |filter| filter.hide_scores(b, scores, 0));
        let operands = [queries, search.base, scores, slope, offset];
        let operands = operands.into_iter().chain(filter.map(|filter| filter.value()));
        let results = called(b, "rows_by_bounds", &operands.collect::<Vec<_>>(), listed.clone());
        parts.iter_mut().zip(results).for_each(|(part, result)| part.push(result));
    }
    b.set_no_fuse(mark);
    let [lists, counts, compared] = parts.map(|parts| b.concat(&parts, 0));
    (search.nearest_of_lists(b, lists, counts), b.add(compared, counts))
}

/// Candidates beyond k. Rounded factors leave more doubt, and heads even more. The k-th of many rows has more neighbours within
/// the doubt.
fn margin(attrs: &Attrs, has_head: bool, k: usize) -> usize {
    match (attrs.int("margin"), attrs.str("coarse")) {
        (-1, _) if has_head => (k / 3).max(128),
        (-1, "bf16") => (k / 3).max(16),
        (-1, _) => (k / 8).max(8),
        (given, _) => given as usize,
    }
}

/// Rows of a block, if a choice among blocks pays off.
fn useful_width(n: usize, n_chosen: usize) -> Option<usize> {
    let width = block_width(n);
    (n / width >= FEWEST_BLOCKS * n_chosen).then_some(width)
}

/// The `count` rows of the least scores, ascending, and the next score.
fn of_rows(b: &mut Builder, first: &FirstPass, filter: Option<Filter>, count: usize) -> (Value, Value) {
    let scores = first.scores(b, first.factors[0], filter);
    chosen(b, scores, count)
}

/// The rows of the `count` blocks of the least scores and the rows behind the last whole block, ascending; and the least
/// score of the other blocks.
fn of_blocks(
    b: &mut Builder,
    first: &FirstPass,
    filter: Option<Filter>,
    count: usize,
    width: usize,
) -> (Value, Value) {
    let [m, n] = first.factors.map(|x| b.extents(x)[0]);
    let (n_blocks, whole) = (n / width, n / width * width);
    let least = first.minima(b, [0, n_blocks, width], filter);
    let (blocks, least) = chosen(b, least, count);
    let shape = Type::new(DType::I32, &[m, count, width]);
    let first = b.broadcast_axes(blocks, &[0, 1], &shape.shape);
    let within = b.iota(2, shape);
    let rows = b.map(&[first, within], |v| v[0] * width as f64 + v[1]);
    let rows = b.reshape(rows, &[m, count * width]);
    let behind = b.iota(1, Type::new(DType::I32, &[m, n - whole]));
    let behind = b.map(&[behind], |v| v[0] + whole as f64);
    (b.concat(&[rows, behind], 1), least)
}

/// The places of the `count` least of each row, ascending, and the next of them.
fn chosen(b: &mut Builder, scores: Value, count: usize) -> (Value, Value) {
    let m = b.extents(scores)[0];
    let best = topk(b, scores, count + 1, false);
    let next = b.slice(best[0], &[0, count], &[m, 1], &[1, 1]);
    let places = b.slice(best[1], &[0, 0], &[m, count], &[1, 1]);
    (sorted(b, places), b.reshape(next, &[m]))
}
