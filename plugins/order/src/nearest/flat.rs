//! Comparisons with every row, for queries whose rows are not certain.
//!
//! A loop takes the uncertain queries in groups, and the base in segments. It ends after the first segment if no query is
//! uncertain.

use super::candidates::Search;
use super::filter::Filter;
use super::{picked, sorted, topk};
use engine_core::ir::{
    Binary, Builder, Combine, DType, E, Graph, InputKind, Keep, Literal, NodeOp, Output, Symbol, Type, Value,
};

/// The most queries of a group.
const GROUP: usize = 8;
/// The most segments of the base.
const SEGMENTS: usize = 32;
/// The fewest rows of a segment.
const SEGMENT_ROWS: usize = 1024;

/// The rows `found`, `i32[m, k]`, with those of the queries that are not `certified` replaced by the k nearest of all rows.
pub fn compared_with_all(b: &mut Builder, search: &Search, found: Value, certified: Value) -> Value {
    let (m, n) = (b.extents(found)[0], b.extents(search.base)[0]);
    if m == 0 {
        return found;
    }
    let shape = Shape::new(m, n, search.k);
    let order = shape.order(b, certified);
    let uncertain = b.map(&[certified], |v| E::select(v[0], 0.0, 1.0).cast(DType::I32));
    let n_uncertain = b.sum(uncertain, &[0]);
    let all = b.pad(found, &[0, 0], &[shape.n_places - m, 0], Literal::Int(0));
    let group = [shape.group, search.k];
    let dtype = b.dtype(search.queries);
    let values = b.full(Literal::Float(0.0), Type::new(dtype, &group));
    let rows = b.full(Literal::Int(0), Type::new(DType::I32, &group));
    let carried = [all, values, rows];
    let mut given = vec![search.queries, search.base, order, n_uncertain];
    given.extend(search.filter.map(|filter| filter.value()));
    let region = Trip::region(b, &shape, search, carried, &given);
    let trips = shape.n_segments * shape.n_places / shape.group;
    let op = NodeOp::Loop {
        trips,
        n_given: given.len(),
        until: true,
        counted: false,
        reverse: false,
        keep: Keep::All,
    };
    let mut types: Vec<Type> = carried.iter().map(|&value| b.ty(value).clone()).collect();
    types.push(Type::scalar(DType::I32));
    let outputs = types.into_iter().map(|ty| Output { name: b.fresh_name(), ty }).collect();
    let node = b.push_node(op, [&carried[..], &given[..]].concat(), outputs);
    b.graph.nodes[node].regions = vec![region];
    b.slice(Value::of(node), &[0, 0], &[m, search.k], &[1, 1])
}

/// The cut of the work.
struct Shape {
    m: usize,
    n: usize,
    k: usize,
    /// Queries of a group.
    group: usize,
    /// The number of queries, rounded up to whole groups.
    n_places: usize,
    n_segments: usize,
    /// Rows of a segment. The first k rows belong to none: the best of a group start with them.
    segment: usize,
}

impl Shape {
    fn new(m: usize, n: usize, k: usize) -> Shape {
        let group = m.min(GROUP);
        let n_segments = ((n - k) / SEGMENT_ROWS).clamp(1, SEGMENTS);
        let segment = (n - k).div_ceil(n_segments);
        Shape { m, n, k, group, n_places: m.next_multiple_of(group), n_segments, segment }
    }

    /// All places, `i32[n_places]`: those of uncertain queries first, both in ascending order.
    fn order(&self, b: &mut Builder, certified: Value) -> Value {
        let n = self.n_places;
        let certified = b.pad(certified, &[0], &[n - self.m], Literal::Int(1).cast(DType::Bool));
        let place = b.iota(0, Type::new(DType::I32, &[n]));
        let keys = b.map(&[place, certified], |v| v[0] + E::select(v[1], n as f64, 0.0).cast(DType::I32));
        let keys = b.reshape(keys, &[1, n]);
        let keys = sorted(b, keys);
        let keys = b.reshape(keys, &[n]);
        b.map(&[keys], |v| E::select(v[0].ge(n as f64), v[0] - n as f64, v[0]))
    }
}

/// One trip: a group of queries and a segment of the base.
struct Trip<'s> {
    shape: &'s Shape,
    /// The number of the segment, `i32[]`.
    segment: Value,
    /// The search of the group's queries.
    search: Search,
}

impl Trip<'_> {
    /// The region of the loop: carried values, the number of the trip, given values.
    fn region(outer: &Builder, shape: &Shape, whole: &Search, carried: [Value; 3], given: &[Value]) -> Graph {
        let mut b = Builder::new(Graph::new("uncertain"), outer.ops);
        let b = &mut b;
        let input = |b: &mut Builder, name: &str, ty: Type| b.input(name, InputKind::Data, ty);
        let [all, values, rows] = [("all", carried[0]), ("values", carried[1]), ("rows", carried[2])]
            .map(|(name, value)| input(b, name, outer.ty(value).clone()));
        let number = input(b, "number", Type::scalar(DType::I32));
        let [queries, base, order, n_uncertain] =
            [("queries", given[0]), ("base", given[1]), ("order", given[2]), ("n_uncertain", given[3])]
                .map(|(name, value)| input(b, name, outer.ty(value).clone()));
        let filter = given.get(4).map(|&value| Filter::given(input(b, "filter", outer.ty(value).clone())));
        let n_segments = b.full(Literal::Int(shape.n_segments as i64), Type::scalar(DType::I32));
        let segment = b.binary(Binary::Rem, number, n_segments);
        let group = b.binary(Binary::Div, number, n_segments);
        let first = b.map(&[group], |v| v[0] * shape.group as f64);
        let place = b.iota(0, Type::new(DType::I32, &[shape.group]));
        let place = b.map(&[place, first], |v| v[0] + v[1]);
        let places = b.gather(order, place, 0, 0);
        let of_queries = b.map(&[places], |v| v[0].min((shape.m - 1) as f64));
        let queries = b.gather(queries, of_queries, 0, 0);
        let filter = filter.map(|filter| filter.of_queries(b, of_queries));
        let trip = Trip { shape, segment, search: Search { queries, base, filter, ..*whole } };
        let (values, rows) = trip.best(b, values, rows);
        let all = trip.written(b, all, rows, [places, place, n_uncertain]);
        let ends = b.map(&[segment, first, n_uncertain], |v| {
            let is_last = v[0].eq((shape.n_segments - 1) as f64) & (v[1] + shape.group as f64).ge(v[2]);
            is_last | v[2].eq(0.0)
        });
        let results = [("all", all), ("values", values), ("rows", rows), ("ends", ends)];
        b.graph.outputs = results.map(|(name, value)| (Symbol::from(format!("next.{name}")), value)).to_vec();
        std::mem::replace(&mut b.graph, Graph::new("uncertain"))
    }

    /// The best of the group so far and of this segment: values and rows, `[group, k]`.
    fn best(&self, b: &mut Builder, values: Value, rows: Value) -> (Value, Value) {
        let Shape { group, k, n, segment, .. } = *self.shape;
        let is_first = b.map(&[self.segment], |v| v[0].eq(0.0));
        let first_rows = b.iota(1, Type::new(DType::I32, &[group, k]));
        let first_values = self.search.values(b, first_rows);
        let values = b.map(&[is_first, first_values, values], |v| E::select(v[0], v[1], v[2]));
        let rows = b.map(&[is_first, first_rows, rows], |v| E::select(v[0], v[1], v[2]));
        let within = b.iota(1, Type::new(DType::I32, &[group, segment]));
        let own = b.map(&[within, self.segment], |v| v[0] + v[1] * segment as f64 + k as f64);
        let inside = b.map(&[own], |v| v[0].min((n - 1) as f64));
        let own_values = self.search.values(b, inside);
        // Rows behind the last one come behind all others, as NaN does.
        let own_values = b.map(&[own, own_values], |v| E::select(v[0].lt(n as f64), v[1], f64::NAN));
        let values = b.concat(&[values, own_values], 1);
        let rows = b.concat(&[rows, own], 1);
        let best = topk(b, values, k, false);
        (best[0], picked(b, rows, best[1]))
    }

    /// The rows of all queries with those of the group, after its last segment.
    fn written(&self, b: &mut Builder, all: Value, rows: Value, at: [Value; 3]) -> Value {
        let [places, place, n_uncertain] = at;
        let rows = sorted(b, rows);
        let before = b.gather(all, places, 0, 0);
        let last = (self.shape.n_segments - 1) as f64;
        let counts = b.map(&[place, n_uncertain, self.segment], |v| v[0].lt(v[1]) & v[2].eq(last));
        let counts = b.unreduce(counts, &[1], rows);
        let rows = b.map(&[counts, rows, before], |v| E::select(v[0], v[1], v[2]));
        b.scatter(all, places, rows, 0, 0, Combine::Set)
    }
}
