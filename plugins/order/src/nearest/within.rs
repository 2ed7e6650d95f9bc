//! Range search: `within`.

use super::coarse;
use super::filter::{Filter, expect_filter};
use super::first_pass::FirstPass;
use super::metric::Metric;
use crate::ragged::{Compacted, bounds, cap, capacity, limits};
use engine_core::ir::{Attrs, Builder, DType, Dim, E, Literal, Requirement, Type, Value};
use engine_core::op::{AttrSpec, Lowering, OpForm, TypeIssue};

/// All rows of a base within a radius of each query, exactly, without a matrix of distances: `(f32[m, d], f32[n, d], radius)`
/// to limits `i32[m + 1]`, ids `i32[cap]` and values `f32[cap]`. The ids of query i are `ids[lims[i]..lims[i + 1]]` and
/// ascend. Behind the end are the id -1 and an infinite value. `scanned`, `i32[m]`, counts the rows that each query was
/// compared with by differences.
///
/// The radius is one number, or one for each query, in the unit of the values: a squared distance for `l2`, a distance for
/// `euclidean`, `1 - cos` for `cosine`. It is a least inner product for `ip`. Bounds are inclusive. A radius of -inf has no
/// rows (for `ip`, inf), and so has NaN; any other negative radius is an error (E0613), but not for `ip`. A row with a NaN is
/// never within. Rows that a filter hides are left out.
///
/// More than `cap` rows in all are an error that states a capacity with enough room (E0612).
///
/// 1. As in `nearest_rows`, a product bounds the least value of each block of rows from below, and is not stored.
/// 2. Blocks whose bound is at most the radius are listed: at most `cap`, a quarter more, and 1024. If there are more, the
///    error states the number of their rows, which is a capacity that has room for all results.
/// 3. Their rows are compared by differences in `f32`, and those within are listed.
pub fn within() -> OpForm {
    OpForm::new("within", "Finds all rows within a radius of each query, exactly.")
        .input("queries", "floats `[m, d]`")
        .input("base", "the rows to search, `[n, d]` of the same element type")
        .input("radius", "numbers `[]` or `[m]`, in the unit of the values")
        .optional("filter", "whether each row may be found: `bool[n]`, or `bool[m, n]` for each query")
        .results(&["lims", "ids", "values", "scanned"])
        .attr(AttrSpec::choice(
            "metric",
            "l2: the squared distance; euclidean: the distance; ip: the inner product, at least the radius; cosine: 1 \
             minus the cosine (1 for a zero vector)",
            &["l2", "euclidean", "ip", "cosine"],
        ))
        .attr(cap("the most rows found, for all queries together; less than 2²⁴"))
        .attr(coarse())
        .types(types)
        .expand(expansion)
        .no_grad("which rows are within is piecewise constant; take the distances of the rows found")
        .example(
            "squared distances, of one row and of two",
            "within(a, b, c, cap=4)",
            &[
                ("f32[2, 2]", &[0.0, 0.0, 2.0, 2.0]),
                ("f32[4, 2]", &[1.0, 0.0, 3.0, 3.0, 0.0, -2.0, 2.0, 2.5]),
                ("f32[]", &[2.0]),
            ],
            &[
                ("i32[3]", &[0.0, 1.0, 3.0]),
                ("i32[4]", &[0.0, 1.0, 3.0, -1.0]),
                ("f32[4]", &[1.0, 2.0, 0.25, f64::INFINITY]),
                ("i32[2]", &[4.0, 4.0]),
            ],
        )
        .example(
            "inner products, with a radius for each query and a filter",
            "within(a, b, c, d, metric=\"ip\", cap=3)",
            &[
                ("f32[2, 2]", &[1.0, -1.0, 2.0, 0.0]),
                ("f32[3, 2]", &[1.0, 1.0, 2.0, -1.0, 3.0, 0.0]),
                ("f32[2]", &[0.0, 6.0]),
                ("bool[3]", &[0.0, 1.0, 1.0]),
            ],
            &[
                ("i32[3]", &[0.0, 2.0, 3.0]),
                ("i32[3]", &[1.0, 2.0, 2.0]),
                ("f32[3]", &[3.0, 3.0, 6.0]),
                ("i32[2]", &[3.0, 3.0]),
            ],
        )
}

/// The largest capacity, so that rows of listed blocks can be counted in `i32`.
const LARGEST: usize = 1 << 24;
/// The most pairs of queries and blocks that are all compared by differences.
const FEW_PAIRS: usize = 256;
/// The fewest rows of a block, where pairs of queries and blocks have to be counted in `i32`.
const NARROWEST: usize = 16;
/// Rows of a block.
const WIDTHS: [usize; 3] = [NARROWEST, 32, 64];
/// Bytes that the bound of a block moves: it is stored, read and compared, and the result counted.
const BOUND_BYTES: usize = 10;

fn types(inputs: &[Type], attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
    let [queries, base, radius] = [&inputs[0], &inputs[1], &inputs[2]];
    for (operand, ty) in inputs[..2].iter().enumerate() {
        ty.expect_dtype("within", operand, DType::is_float, "floats")?;
        if ty.rank() != 2 {
            return Err(TypeIssue::new(format!("`within` takes matrices, not {ty}"))
                .at(operand, format!("this is {ty}"))
                .help("rows are vectors: reshape it to two axes"));
        }
    }
    if queries.dtype != base.dtype || queries.shape[1] != base.shape[1] {
        return Err(TypeIssue::new(format!("`within` of {queries} and {base}"))
            .at(1, format!("this is {base}"))
            .help("both need the same element type and vectors of the same length"));
    }
    radius.expect_dtype("within", 2, |dtype| dtype != DType::Bool, "numbers")?;
    if radius.rank() != 0 && radius.shape[..] != queries.shape[..1] {
        return Err(TypeIssue::new(format!("`within` of {queries} with radii {radius}"))
            .at(2, format!("this is {radius}"))
            .help("give one radius, or one for each query"));
    }
    if let Some(filter) = inputs.get(3) {
        expect_filter("within", [queries, base], filter, 3)?;
    }
    let cap = capacity("within", attrs, 1)?;
    let [m, n] = [queries, base].map(|ty| ty.shape[0].fixed().unwrap_or(0));
    let is_countable = match inputs.get(3) {
        Some(filter) if filter.rank() == 2 => m.saturating_mul(n) < i32::MAX as usize,
        _ => m.saturating_mul(n.div_ceil(NARROWEST)) < i32::MAX as usize,
    };
    if cap >= LARGEST || !is_countable {
        return Err(TypeIssue::new(format!("`within` of {queries} and {base} with room for {cap}"))
            .help("results and blocks are counted in `i32`: take fewer queries at a time"));
    }
    let ids = Type::new(DType::I32, &[cap]);
    let values = ids.with_dtype(queries.dtype.accumulator());
    let scanned = Type { dtype: DType::I32, shape: queries.shape[..1].to_vec() };
    Ok(vec![limits("within", &Dim::clone(&queries.shape[0]))?, ids, values, scanned])
}

fn expansion(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let dtype = b.dtype(call.inputs[0]).accumulator();
    let [queries, base] = [call.inputs[0], call.inputs[1]].map(|x| b.cast(x, dtype));
    let (m, n, cap) = (b.extents(queries)[0], b.extents(base)[0], call.attrs.int("cap") as usize);
    let metric = Metric::of(call.attrs);
    let is_root = call.attrs.str("metric") == "euclidean";
    let missing = if metric == Metric::Inner { f64::NEG_INFINITY } else { f64::INFINITY };
    if m == 0 || n == 0 {
        return vec![
            b.full(Literal::Int(0), Type::new(DType::I32, &[m + 1])),
            b.full(Literal::Int(-1), Type::new(DType::I32, &[cap])),
            b.full(Literal::Float(missing), Type::new(dtype, &[cap])),
            b.full(Literal::Int(0), Type::new(DType::I32, &[m])),
        ];
    }
    let limit = checked_limit(b, call.inputs[2], metric, Type::new(dtype, &[m]));
    let range =
        Range { metric, is_root, queries, base, limit, filter: Filter::split(b, &call.inputs[3..]).0 };
    let (hits, width) = range.hits(b, call, cap);
    let pairs = Pairs::new(b, hits, width, cap);
    let values = range.values(b, &pairs);
    let found = range.found(b, &pairs, values, cap);
    let ids = pairs.rows_at(b, found.positions);
    let ids = b.map(&[found.is_there, ids], |v| E::select(v[0], v[1], -1.0));
    let flat = b.reshape(values, &[pairs.room * width]);
    let values = b.gather(flat, found.positions, 0, 0);
    let values = metric.shown(b, values);
    let values = b.map(&[found.is_there, values], |v| E::select(v[0], v[1], missing));
    vec![found.lims, ids, values, pairs.scanned(b, n)]
}

/// The largest value within, `[m]`: the radius, or its negative for inner products. -inf takes the place of NaN. Negative
/// distances are an error.
fn checked_limit(b: &mut Builder, radius: Value, metric: Metric, ty: Type) -> Value {
    let radius = b.cast(radius, ty.dtype);
    let radius = b.broadcast_dims(radius, &ty.shape);
    if metric == Metric::Inner {
        return b.map(&[radius], |v| E::select(v[0].is_nan(), f64::NEG_INFINITY, -v[0]));
    }
    let sign = b
        .map(&[radius], |v| E::select(v[0].lt(0.0) & v[0].gt(f64::NEG_INFINITY), -1.0, 0.0).cast(DType::I32));
    let sign = b.check(sign, Requirement::Distance);
    b.map(&[radius, sign], |v| E::select(v[0].is_nan() | v[1].lt(0.0), f64::NEG_INFINITY, v[0]))
}

/// A search of all rows within a radius.
struct Range {
    metric: Metric,
    /// Whether values are square roots of those of the metric.
    is_root: bool,
    /// The queries in the type of their accumulator.
    queries: Value,
    /// The base, likewise.
    base: Value,
    /// The largest value within, for each query.
    limit: Value,
    /// Whether each row may be found.
    filter: Option<Filter>,
}

impl Range {
    /// Whether each block may hold a row within, `bool[m, blocks]`, and the rows of a block. A few are all compared. Where the
    /// device would store a product to reduce its columns by blocks, each row is a block.
    fn hits(&self, b: &mut Builder, call: &Lowering, cap: usize) -> (Value, usize) {
        let [m, n] = [self.queries, self.base].map(|x| b.extents(x)[0]);
        if m * n.div_ceil(NARROWEST) <= FEW_PAIRS {
            let all = Type::new(DType::Bool, &[m, n.div_ceil(NARROWEST)]);
            return (b.full(Literal::Bool(true), all), NARROWEST);
        }
        let first = FirstPass::new(b, call, self.metric, [self.queries, self.base]);
        let folds = first.folds_columns(b);
        let width = if folds || m * n >= i32::MAX as usize { self.width(b, cap) } else { 1 };
        let least = match width {
            1 => first.scores(b, first.factors[0], self.filter),
            _ => self.minima(b, &first, width),
        };
        // Squares are rounded, and so are roots.
        let widened =
            1.0 + 8.0 * if b.dtype(least) == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let limit = match self.is_root {
            true => {
                b.map(&[self.limit], |v| E::select(v[0].ge(0.0), v[0] * v[0] * widened, f64::NEG_INFINITY))
            }
            false => self.limit,
        };
        let [limits, norms] = [limit, first.norms[0]].map(|x| b.unreduce(x, &[1], least));
        let certified = first.errors.certified(b, self.metric, [norms, least, limits]);
        let mut hits = b.map(&[certified, limits], |v| E::select(v[0], false, v[1].gt(f64::NEG_INFINITY)));
        if self.filter.is_some() {
            // Only hidden rows are infinite.
            hits = b.map(&[hits, least], |v| v[0] & v[1].lt(f64::INFINITY));
        }
        (hits, width)
    }

    /// The rows of a block for which bounds of all blocks and the rows of all pairs move the fewest bytes.
    fn width(&self, b: &Builder, cap: usize) -> usize {
        let [m, n] = [self.queries, self.base].map(|x| b.extents(x)[0]);
        let row_bytes = b.extents(self.base)[1] * b.dtype(self.base).size();
        let bytes = |width: usize| m * n / width * BOUND_BYTES + room_for_pairs(cap) * width * row_bytes;
        WIDTHS.into_iter().min_by_key(|&width| bytes(width)).unwrap_or(NARROWEST)
    }

    /// The least score of each block. The last one may have fewer rows.
    fn minima(&self, b: &mut Builder, first: &FirstPass, width: usize) -> Value {
        let n = b.extents(self.base)[0];
        let (n_blocks, whole) = (n / width, n / width * width);
        let rest = (n > whole).then(|| first.minima(b, [whole, 1, n - whole], self.filter));
        let blocks = (n_blocks > 0).then(|| first.minima(b, [0, n_blocks, width], self.filter));
        match (blocks, rest) {
            (Some(blocks), Some(rest)) => b.concat(&[blocks, rest], 1),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => engine_core::bug!("a search of no rows"),
        }
    }

    /// The values of all rows of listed blocks, `[pairs, width]`; less is nearer.
    fn values(&self, b: &mut Builder, pairs: &Pairs) -> Value {
        let n = b.extents(self.base)[0];
        let queries = b.gather(self.queries, pairs.query, 0, 0);
        let rows = pairs.rows(b);
        let rows = b.map(&[rows], |v| v[0].min((n - 1) as f64));
        let values = self.metric.values(b, queries, self.base, rows);
        match self.is_root {
            true => b.map(&[values], |v| v[0].sqrt()),
            false => values,
        }
    }

    /// The places of the rows within.
    fn found(&self, b: &mut Builder, pairs: &Pairs, values: Value, cap: usize) -> Compacted {
        let n = b.extents(self.base)[0];
        let rows = pairs.rows(b);
        let limit = b.gather(self.limit, pairs.query, 0, 0);
        let [limit, is_there] = [limit, pairs.is_there].map(|x| b.unreduce(x, &[1], rows));
        let mut flags = b.map(&[values, limit, is_there, rows], |v| {
            // An infinite inner product is not within an infinite radius.
            v[0].le(v[1]) & v[1].gt(f64::NEG_INFINITY) & v[2] & v[3].lt(n as f64)
        });
        if let Some(filter) = self.filter {
            let inside = b.map(&[rows], |v| v[0].min((n - 1) as f64));
            let allowed = filter.at_pairs(b, pairs.query, inside);
            flags = b.map(&[flags, allowed], |v| v[0] & v[1]);
        }
        let width = pairs.width as f64;
        let bounds = b.map(&[pairs.lims], |v| v[0] * width);
        let m = b.extents(self.queries)[0];
        if pairs.width <= NARROWEST || m * n.div_ceil(NARROWEST) <= room_for_pairs(cap) {
            return Compacted::new(b, flags, bounds, cap);
        }
        // A larger capacity may make blocks narrower, and pairs more.
        Compacted::counting(b, flags, bounds, cap, |b, count| {
            let needed = b.map(&[count, pairs.count], |v| {
                let for_both = v[0].max(capacity_for(v[1], pairs.width));
                E::select(v[0].gt(cap as f64), for_both, v[0])
            });
            b.check(needed, Requirement::Capacity { room: cap })
        })
    }
}

/// Pairs of a query and a block of rows.
struct Pairs {
    /// Where the pairs of each query begin, and where the last ones end.
    lims: Value,
    /// The query of each pair.
    query: Value,
    /// The block of each pair.
    block: Value,
    /// Whether there is a pair.
    is_there: Value,
    /// How many there are.
    count: Value,
    /// The most pairs.
    room: usize,
    /// Rows of a block.
    width: usize,
}

impl Pairs {
    /// The pairs that `hits`, `bool[m, blocks]`, flags.
    fn new(b: &mut Builder, hits: Value, width: usize, cap: usize) -> Pairs {
        let [m, n_blocks] = [b.extents(hits)[0], b.extents(hits)[1]];
        let room = (m * n_blocks).min(room_for_pairs(cap));
        let bounds = b.iota(0, Type::new(DType::I32, &[m + 1]));
        let bounds = b.map(&[bounds], |v| v[0] * n_blocks as f64);
        let found = Compacted::counting(b, hits, bounds, room, |b, count| {
            if room == m * n_blocks {
                return count;
            }
            let n_rows = (m * n_blocks).saturating_mul(width).min(LARGEST - 1).max(cap + 1) as f64;
            let needed = b.map(&[count], |v| {
                let rows = v[0].min(LARGEST.div_ceil(width) as f64) * width as f64;
                E::select(v[0].gt(room as f64), rows.min(n_rows).max((cap + 1) as f64), 0.0)
            });
            let checked = b.check(needed, Requirement::Capacity { room: cap });
            // A GPU runs on with 0 in place of a number that fails, so `needed` decides. `checked` only orders the check first.
            b.map(&[count, needed, checked], |v| {
                let is_right = v[1].le(cap as f64) & v[2].le(cap as f64);
                E::select(is_right, v[0], 0.0)
            })
        });
        let query = b.map(&[found.positions], |v| v[0] / n_blocks as f64);
        let block = b.map(&[found.positions], |v| v[0] % n_blocks as f64);
        let Compacted { lims, is_there, count, .. } = found;
        Pairs { lims, query, block, is_there, count, room, width }
    }

    /// How many of `n` rows lie in the blocks of each query, `i32[m]`.
    fn scanned(&self, b: &mut Builder, n: usize) -> Value {
        let limits = bounds(b, self.lims);
        b.map(&limits, |v| ((v[1] - v[0]) * self.width as f64).min(n as f64))
    }

    /// The rows of all blocks, `[pairs, width]`. Those of the last block may lie behind the last row.
    fn rows(&self, b: &mut Builder) -> Value {
        let shape = Type::new(DType::I32, &[self.room, self.width]);
        let first = b.broadcast_axes(self.block, &[0], &shape.shape);
        let place = b.iota(1, shape);
        b.map(&[first, place], |v| v[0] * self.width as f64 + v[1])
    }

    /// The rows at flat positions of all blocks.
    fn rows_at(&self, b: &mut Builder, positions: Value) -> Value {
        let width = self.width as f64;
        let pair = b.map(&[positions], |v| v[0] / width);
        let block = b.gather(self.block, pair, 0, 0);
        b.map(&[block, positions], |v| v[0] * width + v[1] % width)
    }
}

/// Pairs for results of a capacity. A block that holds a result is one pair; bounds add blocks without results.
fn room_for_pairs(cap: usize) -> usize {
    cap + cap / 4 + 1024
}

/// A capacity with room for so many pairs of `width` rows, as blocks of any width.
fn capacity_for(pairs: E, width: usize) -> E {
    let pairs = pairs.min(room_for_pairs(LARGEST) as f64) * width.div_ceil(NARROWEST) as f64;
    ((pairs - 1024.0) / 5.0 * 4.0 + 4.0).min((LARGEST - 1) as f64)
}
