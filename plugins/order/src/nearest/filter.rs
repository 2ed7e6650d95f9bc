//! Filters: the rows that a query may find.

use engine_core::ir::{Builder, DType, Dim, E, Type, Value};
use engine_core::op::TypeIssue;
use engine_core::op::kernel::KernelCall;
use engine_core::oracle::OracleTensor;

/// The largest score of a row that is not hidden. A lower score is still a lower bound.
const LARGEST: f64 = f32::MAX as f64;

/// Whether each row may be found: `bool[n]` for all queries, or `bool[m, n]` for each of them.
#[derive(Clone, Copy)]
pub struct Filter(Value);

impl Filter {
    /// The filter among optional operands, if the first of them is one, and the other operands.
    pub fn split<'v>(b: &Builder, operands: &'v [Value]) -> (Option<Filter>, &'v [Value]) {
        match operands {
            [first, others @ ..] if b.dtype(*first) == DType::Bool => (Some(Filter(*first)), others),
            _ => (None, operands),
        }
    }

    /// The filter that a loop was given.
    pub fn given(value: Value) -> Filter {
        Filter(value)
    }

    pub fn value(&self) -> Value {
        self.0
    }

    fn is_of_queries(&self, b: &Builder) -> bool {
        b.ty(self.0).rank() == 2
    }

    /// The filter of some queries: those from `start` on.
    pub fn part(&self, b: &mut Builder, start: usize, count: usize) -> Filter {
        if !self.is_of_queries(b) {
            return *self;
        }
        let n = b.extents(self.0)[1];
        Filter(b.slice(self.0, &[start, 0], &[count, n], &[1, 1]))
    }

    /// The filter of queries with these numbers.
    pub fn of_queries(&self, b: &mut Builder, queries: Value) -> Filter {
        if self.is_of_queries(b) { Filter(b.gather(self.0, queries, 0, 0)) } else { *self }
    }

    /// Scores `[m, count]` of the rows from `first` on. Those of hidden rows, and no others, are infinite. A NaN becomes -∞.
    pub fn hide_scores(&self, b: &mut Builder, scores: Value, first: usize) -> Value {
        let [m, count] = [0, 1].map(|axis| b.extents(scores)[axis]);
        let allowed = match self.is_of_queries(b) {
            true => b.slice(self.0, &[0, first], &[m, count], &[1, 1]),
            false => b.slice(self.0, &[first], &[count], &[1]),
        };
        b.map(&[scores, allowed], |v| {
            let unknown = E::select(v[0].gt(LARGEST), LARGEST, f64::NEG_INFINITY);
            let score = E::select(v[0].le(LARGEST), v[0], unknown);
            E::select(v[1], score, f64::INFINITY)
        })
    }

    /// Whether the rows `[m, count]` may be found.
    pub fn at(&self, b: &mut Builder, rows: Value) -> Value {
        match self.is_of_queries(b) {
            true => b.gather(self.0, rows, 1, 1),
            false => b.gather(self.0, rows, 0, 0),
        }
    }

    /// Whether rows `[pairs, count]` may be found by the queries with the numbers `[pairs]`.
    pub fn at_pairs(&self, b: &mut Builder, queries: Value, rows: Value) -> Value {
        if !self.is_of_queries(b) {
            return self.at(b, rows);
        }
        let [m, n] = [0, 1].map(|axis| b.extents(self.0)[axis]);
        let flat = b.reshape(self.0, &[m * n]);
        let queries = b.unreduce(queries, &[1], rows);
        let places = b.map(&[queries, rows], |v| v[0] * n as f64 + v[1]);
        b.gather(flat, places, 0, 0)
    }

    /// Values of the rows `[m, count]`. Those of hidden rows are NaN, behind all others.
    pub fn hide(&self, b: &mut Builder, values: Value, rows: Value) -> Value {
        let allowed = self.at(b, rows);
        b.map(&[values, allowed], |v| E::select(v[1], v[0], f64::NAN))
    }
}

/// A filter of a host kernel.
#[derive(Clone, Copy)]
pub struct Flags<'a> {
    flags: &'a [u8],
    rank: usize,
}

impl<'a> Flags<'a> {
    /// The rank of a call's filter, 0 without one.
    pub fn rank(call: &KernelCall, operand: usize) -> usize {
        call.inputs.get(operand).map_or(0, |filter| filter.extents().len())
    }

    /// The filter of that rank, if it is one.
    pub fn new(rank: usize, flags: impl FnOnce() -> &'a [u8]) -> Option<Flags<'a>> {
        (rank > 0).then(|| Flags { flags: flags(), rank })
    }

    /// Whether each of n rows may be found by a query.
    pub fn of_query(self, query: usize, n: usize) -> &'a [u8] {
        if self.rank == 2 { &self.flags[query * n..(query + 1) * n] } else { self.flags }
    }
}

/// The bytes of an oracle's filter.
pub fn flags_of(filter: Option<&&OracleTensor>) -> Vec<u8> {
    filter.map_or(vec![], |filter| filter.to_f64().into_iter().map(|x| u8::from(x != 0.0)).collect())
}

/// Checks that a filter is `bool[n]`, or `bool[m, n]`.
pub fn expect_filter(
    op: &str,
    [queries, base]: [&Type; 2],
    filter: &Type,
    at: usize,
) -> Result<(), TypeIssue> {
    let of_queries: [&Dim; 2] = [&queries.shape[0], &base.shape[0]];
    let fits = filter.shape[..] == base.shape[..1] || filter.shape.iter().eq(of_queries);
    if filter.dtype == DType::Bool && fits {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`{op}` of {queries} among {base} with a filter {filter}"))
        .at(at, format!("this is {filter}"))
        .help("a filter is a truth value for each row of the base, or for each query and row"))
}
