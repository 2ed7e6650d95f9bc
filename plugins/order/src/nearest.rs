//! `nearest`.

use engine_core::ir::{Attr, Attrs, Builder, Contract, DType, Dim, E, Literal, Type, Value};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, Lowering, OpForm, Role, Rounding,
    TypeIssue, TypeRule,
};

/// The k rows of a matrix nearest to each query, exactly, without a matrix of distances. It maps
/// `(f32[m, d], f32[n, d])` to distances `[m, k]`, in order, and indices `i32[m, k]`. Equal distances are ordered by
/// index.
///
/// Candidates are selected from the matmul of queries and rows by a matmul fold. The squared distance
/// `|q|² - 2·q·x + |x|²` cancels: its error in f32 is up to about `2⁻²²·(|q| + |x|)²`. Rows whose distances differ by
/// less may be in the wrong order. So `k + margin` candidates are kept. Their distances are computed again from differences, with an
/// error relative to the distance itself. A neighbour is lost only if more than `margin` others are closer than that
/// error. Gradients are those of the distances.
pub fn nearest() -> OpForm {
    OpForm {
        name: "nearest".into(),
        family: "order".into(),
        summary: "Finds the k rows nearest to each query, exactly, without storing a matrix of distances."
            .into(),
        inputs: vec![
            InputSpec::required("queries", "floats `[m, d]`"),
            InputSpec::required("base", "the rows to search, `[n, d]` of the same element type"),
        ],
        outputs: vec!["distances".into(), "indices".into()],
        attrs: vec![
            AttrSpec::must("k", "how many, at least 1", AttrKind::Int),
            AttrSpec::with_default(
                "metric",
                "l2: the squared distance; ip: the inner product, largest first; cosine: 1 minus the cosine (1 for a \
                 zero vector)",
                AttrKind::choice(&["l2", "ip", "cosine"]),
                "l2",
            ),
            AttrSpec::with_default(
                "margin",
                "candidates beyond k whose distances are recomputed; not for ip, which does not cancel",
                AttrKind::Int,
                8i64,
            ),
            AttrSpec::with_default(
                "pad",
                "whether k may exceed the number of rows: index -1 at an infinite distance fills up",
                AttrKind::Bool,
                false,
            ),
        ],
        types: TypeRule::custom(types),
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
                &[("f32[2, 2]", &[1.0, 1.0, 0.25, 2.0]), ("i32[2, 2]", &[0.0, 2.0, 3.0, 1.0])],
            ),
            Example::new(
                "by inner product",
                "nearest(a, b, k=1, metric=\"ip\")",
                &[("f32[1, 2]", &[1.0, -1.0]), ("f32[3, 2]", &[1.0, 1.0, 2.0, -1.0, -5.0, 0.0])],
                &[("f32[1, 1]", &[3.0]), ("i32[1, 1]", &[1.0])],
            ),
        ],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

fn types(inputs: &[Type], attrs: &Attrs) -> Result<Vec<Type>, TypeIssue> {
    let [queries, base] = [&inputs[0], &inputs[1]];
    for (operand, ty) in inputs.iter().enumerate() {
        if ty.rank() != 2 {
            return Err(TypeIssue::new(format!("`nearest` takes matrices, not {ty}"))
                .at(operand, format!("this is {ty}"))
                .help("rows are vectors: reshape it to two axes"));
        }
        ty.expect_dtype("nearest", operand, DType::is_float, "floats")?;
    }
    if queries.dtype != base.dtype || queries.shape[1] != base.shape[1] {
        return Err(TypeIssue::new(format!("`nearest` of {queries} and {base}"))
            .at(1, format!("this is {base}"))
            .help("both need the same element type and vectors of the same length"));
    }
    let (k, margin) = (attrs.int("k"), attrs.int("margin"));
    let Some(k) = usize::try_from(k).ok().filter(|k| *k >= 1 && margin >= 0) else {
        return Err(TypeIssue::new(format!("`nearest` of k = {k} and margin = {margin}"))
            .help("k is at least 1, the margin at least 0"));
    };
    if let (Dim::Fixed(n), false) = (&base.shape[0], attrs.bool("pad"))
        && k > *n
    {
        return Err(TypeIssue::new(format!("`nearest` of k = {k} among {n} rows"))
            .at(1, format!("this is {base}"))
            .help("`pad=true` fills up with index -1"));
    }
    let shape = vec![queries.shape[0].clone(), Dim::Fixed(k)];
    let dtype = queries.dtype.accumulator();
    Ok(vec![Type { dtype, shape: shape.clone() }, Type { dtype: DType::I32, shape }])
}

fn expansion(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let dtype = b.dtype(call.inputs[0]).accumulator();
    let queries = b.cast(call.inputs[0], dtype);
    let base = b.cast(call.inputs[1], dtype);
    let (m, n, k) = (b.extents(queries)[0], b.extents(base)[0], call.attrs.int("k") as usize);
    if n == 0 {
        let none = b.full(Literal::Float(f64::INFINITY), Type::new(dtype, &[m, k]));
        return vec![none, b.full(Literal::Int(-1), Type::new(DType::I32, &[m, k]))];
    }
    if call.attrs.str("metric") == "ip" {
        let products = products(b, queries, base);
        return topk(b, products, k, true, call.attrs.bool("pad"));
    }
    let is_cosine = call.attrs.str("metric") == "cosine";
    let n_candidates = (k + call.attrs.int("margin") as usize).min(n);
    let candidates = candidates(b, [queries, base], n_candidates, is_cosine);
    let distances = match is_cosine {
        true => cosine_distances(b, queries, base, candidates),
        false => squared_distances(b, queries, base, candidates),
    };
    let best = topk(b, distances, k, false, call.attrs.bool("pad"));
    vec![best[0], picked(b, candidates, best[1])]
}

/// `q · x` for all queries and rows.
fn products(b: &mut Builder, queries: Value, base: Value) -> Value {
    b.contract(queries, base, Contract { batch: vec![], contracted: vec![(1, 1)] })
}

fn topk(b: &mut Builder, x: Value, k: usize, largest: bool, pad: bool) -> Vec<Value> {
    let attrs = Attrs::default()
        .with("k", Attr::from(k as i64))
        .with("largest", Attr::from(largest))
        .with("pad", Attr::from(pad));
    called(b, "topk_rows", x, attrs)
}

fn called(b: &mut Builder, op: &str, x: Value, attrs: Attrs) -> Vec<Value> {
    b.call(op, &[x], attrs)
        .unwrap_or_else(|issue| engine_core::bug!("the type rule let this pass: {}", issue.message))
}

/// Indices of the probably nearest rows, `i32[m, count]`, ascending in each row, so that equal distances are ordered by
/// index. Terms that do not depend on the row are omitted, since they do not change the order.
fn candidates(b: &mut Builder, [queries, base]: [Value; 2], count: usize, is_cosine: bool) -> Value {
    let products = products(b, queries, base);
    let scores = match is_cosine {
        true => {
            let inverse = inverse_norms(b, base);
            b.map(&[products, inverse], |v| -(v[0] * v[1]))
        }
        false => {
            let squares = squared_norms(b, base);
            b.map(&[products, squares], |v| v[1] - 2.0 * v[0])
        }
    };
    let indices = topk(b, scores, count, false, false)[1];
    called(b, "sort_rows", indices, Attrs::default())[0]
}

/// `|x|²` of each row.
fn squared_norms(b: &mut Builder, x: Value) -> Value {
    let squares = b.map(&[x], |v| v[0] * v[0]);
    b.sum(squares, &[1])
}

/// `1 / |x|` of each row, 0 of a zero row.
fn inverse_norms(b: &mut Builder, x: Value) -> Value {
    let squares = squared_norms(b, x);
    b.map(&[squares], |v| E::select(v[0].gt(0.0), v[0].rsqrt(), 0.0))
}

/// `Σ (q - x)²`, `[m, count]`.
fn squared_distances(b: &mut Builder, queries: Value, base: Value, candidates: Value) -> Value {
    let rows = b.gather(base, candidates, 0, 0);
    let queries = paired(b, queries, rows);
    let squares = b.map(&[queries, rows], |v| (v[0] - v[1]) * (v[0] - v[1]));
    b.sum(squares, &[2])
}

/// `1 - cos`, as `½·Σ (q/|q| - x/|x|)²`, which does not cancel.
fn cosine_distances(b: &mut Builder, queries: Value, base: Value, candidates: Value) -> Value {
    let rows = b.gather(base, candidates, 0, 0);
    let of_rows = inverse_norms(b, base);
    let of_rows = b.gather(of_rows, candidates, 0, 0);
    let of_queries = inverse_norms(b, queries);
    let of_queries = b.unreduce(of_queries, &[1], candidates);
    let [q, i, j] = [paired(b, queries, rows), of_queries, of_rows];
    let [i_all, j_all] = [i, j].map(|norms| b.unreduce(norms, &[2], rows));
    let squares = b.map(&[q, i_all, rows, j_all], |v| {
        let difference = v[0] * v[1] - v[2] * v[3];
        difference * difference
    });
    let sums = b.sum(squares, &[2]);
    b.map(&[sums, i, j], |v| E::select((v[1] * v[2]).gt(0.0), v[0] * 0.5, 1.0))
}

/// Each query paired with each of its rows.
fn paired(b: &mut Builder, queries: Value, rows: Value) -> Value {
    let shape = b.ty(rows).shape.clone();
    b.broadcast_axes(queries, &[0, 2], &shape)
}

/// The candidates at these places of their rows; -1 for a missing place.
fn picked(b: &mut Builder, candidates: Value, places: Value) -> Value {
    let inside = b.map(&[places], |v| v[0].max(0.0));
    let found = b.gather(candidates, inside, 1, 1);
    b.map(&[places, found], |v| E::select(v[0].ge(0.0), v[1], -1.0))
}
