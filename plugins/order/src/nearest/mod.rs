//! Exact search: `nearest` and the op that finds its rows.

mod by_bounds;
mod candidates;
mod centre;
mod certificate;
mod choice;
mod comparison;
mod filter;
mod first_pass;
mod flat;
mod head;
mod lengths;
mod metric;
mod near_least;
mod number;
mod of_lists;
mod rows;
mod sums;
mod within;

pub use by_bounds::rows_by_bounds;
pub use centre::nearest_centre;
pub use near_least::near_least;
pub use of_lists::nearest_of_lists;
pub use rows::nearest_rows;
pub use within::within;

use crate::axis::called;
use engine_core::ir::{Attr, Attrs, Builder, DType, Dim, E, Literal, Type, Value};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, Lowering, OpForm, Role, Rounding,
    TypeIssue, TypeRule,
};
use filter::{Filter, expect_filter};
use metric::Metric;

/// The k rows of a matrix nearest to each query, exactly, without a matrix of distances. It maps
/// `(f32[m, d], f32[n, d])` to distances `[m, k]`, in order, and indices `i32[m, k]`. Equal distances are ordered by
/// index. The third result, `bool[m]`, is whether one pass was certain of the rows of each query, and the fourth, `i32[m]`,
/// how many rows were compared with it.
///
/// A filter hides rows: `bool[n]` for all queries, or `bool[m, n]` for each of them. Hidden rows are not found, and neither
/// are rows at a distance of NaN then. Missing rows have the index -1 and an infinite distance without a gradient. Other
/// optional operands may take the place of the filter.
///
/// `axes` are directions in which the rows differ most, such as those of `principal_axes`. Lower bounds of the distances
/// then follow from a product of few columns. The result is the same.
///
/// [`nearest_rows`] finds the rows. Their distances are computed from differences, with an error relative to the
/// distance itself, and these alone decide the order. Gradients are those of the distances.
pub fn nearest() -> OpForm {
    OpForm {
        name: "nearest".into(),
        family: "order".into(),
        summary: "Finds the k rows nearest to each query, exactly, without storing a matrix of distances."
            .into(),
        inputs: operands(),
        outputs: ["distances", "indices", "certified", "scanned"].map(String::from).to_vec(),
        attrs: [attrs(), vec![pad()]].concat(),
        types: TypeRule::custom(|inputs, attrs| {
            let [ids, certified, scanned] = types("nearest", inputs, attrs, attrs.bool("pad"))?;
            Ok(vec![ids.with_dtype(inputs[0].dtype.accumulator()), ids, certified, scanned])
        }),
        lower: Lower::expand(expansion),
        grad: Grad::Derive,
        check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[] },
        examples: vec![
            Example::new(
                "by squared distance",
                "nearest(a, b, k=2)",
                &[
                    ("f32[2, 2]", &[0.0, 0.0, 2.0, 2.0]),
                    ("f32[4, 2]", &[1.0, 0.0, 3.0, 3.0, 0.0, -1.0, 2.0, 2.5]),
                ],
                &[
                    ("f32[2, 2]", &[1.0, 1.0, 0.25, 2.0]),
                    ("i32[2, 2]", &[0.0, 2.0, 3.0, 1.0]),
                    ("bool[2]", &[1.0, 1.0]),
                    ("i32[2]", &[4.0, 4.0]),
                ],
            ),
            Example::new(
                "by inner product",
                "nearest(a, b, k=1, metric=\"ip\")",
                &[("f32[1, 2]", &[1.0, -1.0]), ("f32[3, 2]", &[1.0, 1.0, 2.0, -1.0, -5.0, 0.0])],
                &[("f32[1, 1]", &[3.0]), ("i32[1, 1]", &[1.0]), ("bool[1]", &[1.0]), ("i32[1]", &[3.0])],
            ),
            Example::new(
                "with a filter for each query, which leaves two rows",
                "nearest(a, b, c, k=2)",
                &[
                    ("f32[2, 1]", &[0.0, 1.0]),
                    ("f32[3, 1]", &[3.0, 1.0, -1.0]),
                    ("bool[2, 3]", &[1.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
                ],
                &[
                    ("f32[2, 2]", &[1.0, 9.0, 0.0, 4.0]),
                    ("i32[2, 2]", &[2.0, 0.0, 1.0, 2.0]),
                    ("bool[2]", &[1.0, 1.0]),
                    ("i32[2]", &[3.0, 3.0]),
                ],
            ),
        ],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

/// The operands of a search.
fn operands() -> Vec<InputSpec> {
    vec![
        InputSpec::required("queries", "floats `[m, d]`"),
        InputSpec::required("base", "the rows to search, `[n, d]` of the same element type"),
        InputSpec::optional(
            "filter",
            "whether each row may be found: `bool[n]`, or `bool[m, n]` for each query",
        ),
        InputSpec::optional(
            "axes",
            "orthonormal columns, `[d, count]`; the further they are from that, the less is certain after one pass",
        ),
        InputSpec::optional(
            "mean",
            "a vector `[d]` that is taken off all others for the first pass; for `l2` alone",
        ),
    ]
}

/// The attributes of a search.
fn attrs() -> Vec<AttrSpec> {
    vec![
        AttrSpec::must("k", "how many, at least 1", AttrKind::Int),
        metric(),
        AttrSpec::with_default(
            "margin",
            "rows, or blocks of rows, beyond k whose distances are computed; the more there are, the more queries are \
             certain after one pass. -1 chooses: 8 or k/8, 16 or k/3 with rounded factors, 128 or k/3 with axes, whichever is \
             more",
            AttrKind::Int,
            -1i64,
        ),
        coarse(),
        AttrSpec::with_default(
            "exact",
            "whether queries that are uncertain after the first pass are compared with every row; `certified` is \
             about the first pass",
            AttrKind::Bool,
            true,
        ),
    ]
}

fn metric() -> AttrSpec {
    AttrSpec::with_default(
        "metric",
        "l2: the squared distance; ip: the inner product, largest first; cosine: 1 minus the cosine (1 for a \
         zero vector)",
        AttrKind::choice(&["l2", "ip", "cosine"]),
        "l2",
    )
}

fn coarse() -> AttrSpec {
    AttrSpec::with_default(
        "coarse",
        "the factors of the first pass over `f32`: in TF32 where the device has such matmuls, in every precision \
         of the pipeline; rounded to bf16; or in f32. The certificate counts their errors, and results are compared in f32",
        AttrKind::choice(&["tf32", "bf16", "f32"]),
        "tf32",
    )
}

fn pad() -> AttrSpec {
    AttrSpec::with_default(
        "pad",
        "whether k may exceed the number of rows: index -1 at an infinite distance fills up",
        AttrKind::Bool,
        false,
    )
}

/// The types of indices `i32[m, k]`, of certificates `bool[m]` and of counts `i32[m]`.
fn types(op: &str, inputs: &[Type], attrs: &Attrs, may_pad: bool) -> Result<[Type; 3], TypeIssue> {
    let [queries, base] = [&inputs[0], &inputs[1]];
    let has_filter = inputs.get(2).is_some_and(|ty| ty.dtype == DType::Bool);
    let heads = 2 + usize::from(has_filter);
    for (operand, ty) in inputs.iter().enumerate().filter(|(at, _)| *at < 2 || *at == heads) {
        if ty.rank() != 2 {
            return Err(TypeIssue::new(format!("`{op}` takes matrices, not {ty}"))
                .at(operand, format!("this is {ty}"))
                .help("rows are vectors: reshape it to two axes"));
        }
        ty.expect_dtype(op, operand, DType::is_float, "floats")?;
    }
    if queries.dtype != base.dtype || queries.shape[1] != base.shape[1] {
        return Err(TypeIssue::new(format!("`{op}` of {queries} and {base}"))
            .at(1, format!("this is {base}"))
            .help("both need the same element type and vectors of the same length"));
    }
    if has_filter || inputs.len() > 4 {
        expect_filter(op, [queries, base], &inputs[2], 2)?;
    }
    expect_axes(op, inputs, heads, attrs)?;
    let (k, margin) = (attrs.int("k"), attrs.int("margin"));
    let Some(k) = usize::try_from(k).ok().filter(|k| *k >= 1 && margin >= -1) else {
        return Err(TypeIssue::new(format!("`{op}` of k = {k} and margin = {margin}"))
            .help("k is at least 1, the margin at least 0, or -1"));
    };
    if let (Dim::Fixed(n), false) = (&base.shape[0], may_pad)
        && k > *n
    {
        return Err(TypeIssue::new(format!("`{op}` of k = {k} among {n} rows"))
            .at(1, format!("this is {base}"))
            .help("`pad=true` fills up with index -1"));
    }
    let m = queries.shape[0].clone();
    let ids = Type { dtype: DType::I32, shape: vec![m.clone(), Dim::Fixed(k)] };
    let certified = Type { dtype: DType::Bool, shape: vec![m] };
    Ok([ids, certified.clone(), certified.with_dtype(DType::I32)])
}

/// Checks the operands of heads, from number `at` on: axes `[d, count]` and a mean `[d]`.
fn expect_axes(op: &str, inputs: &[Type], at: usize, attrs: &Attrs) -> Result<(), TypeIssue> {
    let (base, Some(axes)) = (&inputs[1], inputs.get(at)) else { return Ok(()) };
    let too_many = matches!(&axes.shape[..], [Dim::Fixed(d), Dim::Fixed(count)] if count > d);
    let is_empty = axes.shape[1] == Dim::Fixed(0);
    if axes.dtype != base.dtype || axes.shape[0] != base.shape[1] || too_many || is_empty {
        return Err(TypeIssue::new(format!("`{op}` among {base} by axes {axes}"))
            .at(at, format!("this is {axes}"))
            .help(
                "axes are columns of the length of a row, at most as many as that, of the same element type",
            ));
    }
    let Some(mean) = inputs.get(at + 1) else { return Ok(()) };
    if mean.dtype != base.dtype || mean.shape[..] != base.shape[1..] {
        return Err(TypeIssue::new(format!("`{op}` among {base} by a mean {mean}"))
            .at(at + 1, format!("this is {mean}"))
            .help("the mean is a vector of the length of a row, of the same element type"));
    }
    match attrs.str("metric") {
        "l2" => Ok(()),
        metric => Err(TypeIssue::new(format!("`{op}` with a mean, by `{metric}`"))
            .at(at + 1, format!("this is {mean}"))
            .help("only distances stay the same if a mean is taken off: leave it out")),
    }
}

fn expansion(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let [queries, base] = [call.inputs[0], call.inputs[1]];
    let dtype = b.dtype(queries).accumulator();
    let (m, n, k) = (b.extents(queries)[0], b.extents(base)[0], call.attrs.int("k") as usize);
    if n == 0 {
        let none = b.full(Literal::Float(f64::INFINITY), Type::new(dtype, &[m, k]));
        let ids = b.full(Literal::Int(-1), Type::new(DType::I32, &[m, k]));
        let certified = b.full(Literal::Int(1), Type::new(DType::Bool, &[m]));
        return vec![none, ids, certified, b.full(Literal::Int(0), Type::new(DType::I32, &[m]))];
    }
    let mut attrs = Attrs::default().with("k", Attr::from(k.min(n) as i64));
    for name in ["metric", "margin", "coarse", "exact"] {
        attrs = attrs.with(name, call.attrs.get(name).clone());
    }
    let found = called(b, "nearest_rows", call.inputs, attrs);
    let [queries, base] = [queries, base].map(|x| b.cast(x, dtype));
    let metric = Metric::of(call.attrs);
    let (filter, _) = Filter::split(b, &call.inputs[2..]);
    let allowed = filter.map(|filter| filter.at(b, found[0]));
    let mut values = metric.values_where(b, queries, base, found[0], allowed);
    if let Some(allowed) = allowed {
        values = b.map(&[values, allowed], |v| E::select(v[1], v[0], f64::NAN));
    }
    let best = topk(b, values, k, call.attrs.bool("pad"));
    let (mut values, mut ids) = (best[0], picked(b, found[0], best[1]));
    if filter.is_some() {
        ids = b.map(&[values, ids], |v| E::select(v[0].is_nan(), -1.0, v[1]));
        values = b.map(&[values], |v| E::select(v[0].is_nan(), f64::INFINITY, v[0]));
    }
    vec![metric.shown(b, values), ids, found[1], found[2]]
}

/// The k least of each row, and their places.
fn topk(b: &mut Builder, x: Value, k: usize, pad: bool) -> Vec<Value> {
    let attrs = Attrs::default()
        .with("k", Attr::from(k as i64))
        .with("largest", Attr::from(false))
        .with("pad", Attr::from(pad));
    called(b, "topk_rows", &[x], attrs)
}

/// Each row in ascending order.
fn sorted(b: &mut Builder, x: Value) -> Value {
    called(b, "sort_rows", &[x], Attrs::default())[0]
}

/// The numbers at these places of their rows; -1 for a missing place.
fn picked(b: &mut Builder, ids: Value, places: Value) -> Value {
    let inside = b.map(&[places], |v| v[0].max(0.0));
    let found = b.gather(ids, inside, 1, 1);
    b.map(&[places, found], |v| E::select(v[0].ge(0.0), v[1], -1.0))
}
