//! Shared parts of losses over classes: targets, and the reduction of rows.

use engine_core::ir::{Attrs, Builder, DType, E, Type, Value};
use engine_core::op::{AttrKind, AttrSpec, TypeIssue};

/// `ignore_index`, `reduction` out of `reductions`, the first by default, and `empty`.
pub fn attrs(reductions: &[&str]) -> Vec<AttrSpec> {
    vec![
        ignore_index(),
        AttrSpec::choice("reduction", "the reduction of the rows", reductions),
        AttrSpec::choice("empty", "the mean if no row counts", &["zero", "nan"]),
    ]
}

/// The target that excludes a row.
pub fn ignore_index() -> AttrSpec {
    AttrSpec::open(
        "ignore_index",
        "rows with this target count for nothing and get no gradient",
        AttrKind::Int,
    )
}

/// The type of one number per row, for `scores` f[…, V] and `targets` i[…].
pub fn row_type(op: &str, scores: &Type, targets: &Type) -> Result<Type, TypeIssue> {
    scores.expect_dtype(op, 0, DType::is_float, "floats")?;
    targets.expect_dtype(op, 1, DType::is_index, "integers other than u32")?;
    let Some((_, rows)) = scores.shape.split_last() else {
        return Err(
            TypeIssue::new(format!("`{op}` needs an axis of classes")).at(0, format!("this is {scores}"))
        );
    };
    if rows != targets.shape {
        let wanted = Type { dtype: targets.dtype, shape: rows.to_vec() };
        return Err(TypeIssue::new(format!("`{op}` of {scores} and targets {targets}"))
            .at(1, format!("this is {targets}"))
            .help(format!("targets hold one class per row: {wanted}")));
    }
    Ok(Type { dtype: scores.dtype, shape: rows.to_vec() })
}

/// Checks that `weights` holds a number for each class.
pub fn expect_per_class(op: &str, scores: &Type, weights: &Type) -> Result<(), TypeIssue> {
    let n_classes = scores.shape.last().and_then(|dim| dim.fixed());
    let fits = match (weights.shape.as_slice(), n_classes) {
        ([only], Some(n_classes)) => only.fixed().is_none_or(|n| n >= n_classes),
        ([_], None) => true,
        _ => false,
    };
    if fits && weights.dtype != DType::Bool {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`{op}` of {scores} cannot look classes up in {weights}"))
        .at(2, format!("this is {weights}"))
        .help("give a vector with a number for each class"))
}

/// Targets, checked against the number of classes, and whether each row counts.
pub struct Targets {
    /// The class of each row; 0 where the row does not count.
    pub class: Value,
    /// Whether each row counts. All count if it is missing.
    pub counts: Option<Value>,
}

/// Reads targets.
pub fn targets(b: &mut Builder, given: Value, n_classes: usize, attrs: &Attrs) -> Targets {
    // Bounds beyond 255 do not fit a byte.
    let given = b.cast(given, b.dtype(given).index_type());
    let Some(ignored) = attrs.opt_int("ignore_index") else {
        return Targets { class: b.check_index(given, n_classes), counts: None };
    };
    let counts = b.map(&[given], |t| t[0].ne(ignored));
    let class = b.map(&[counts, given], |v| E::select(v[0], v[1], 0i64));
    Targets { class: b.check_index(class, n_classes), counts: Some(counts) }
}

/// `x[…, class[…]]` along the last axis.
pub fn pick(b: &mut Builder, x: Value, class: Value) -> Value {
    let rows = b.extents(class);
    let one_each: Vec<usize> = rows.iter().copied().chain([1]).collect();
    let class = b.reshape(class, &one_each);
    let picked = b.gather(x, class, rows.len(), rows.len());
    b.reshape(picked, &rows)
}

/// Replaces the losses of rows that do not count by 0.
pub fn masked(b: &mut Builder, loss: Value, targets: &Targets) -> Value {
    match targets.counts {
        Some(counts) => b.map(&[counts, loss], |v| E::select(v[0], v[1], 0.0)),
        None => loss,
    }
}

/// Reduces masked losses. `weights` holds a number per class.
pub fn reduce(
    b: &mut Builder,
    loss: Value,
    targets: &Targets,
    weights: Option<Value>,
    attrs: &Attrs,
) -> Value {
    let weight = row_weight(b, loss, targets, weights);
    let loss = weighted(b, loss, weight.filter(|_| weights.is_some()));
    averaged(b, loss, weight, attrs)
}

/// Losses times the weights of their rows.
pub fn weighted(b: &mut Builder, loss: Value, weight: Option<Value>) -> Value {
    weight.map_or(loss, |weight| b.mul(loss, weight))
}

/// Reduces weighted losses. The mean is their sum over that of the weights, which are 1 if they are missing.
pub fn averaged(b: &mut Builder, loss: Value, weight: Option<Value>, attrs: &Attrs) -> Value {
    let axes: Vec<usize> = (0..b.ty(loss).rank()).collect();
    match attrs.str("reduction") {
        "none" => loss,
        "sum" => b.sum(loss, &axes),
        _ => {
            let total = b.sum(loss, &axes);
            let count = match weight {
                Some(weight) => b.sum(weight, &axes),
                None => b.full_like(total, b.ty(loss).numel() as f64),
            };
            ratio(b, total, count, attrs)
        }
    }
}

/// The weight of each row. `None` if every weight is 1.
pub fn row_weight(b: &mut Builder, loss: Value, targets: &Targets, weights: Option<Value>) -> Option<Value> {
    let dtype = b.dtype(loss);
    let Some(weights) = weights else { return targets.counts.map(|counts| b.cast(counts, dtype)) };
    let weights = b.cast(weights, dtype);
    let weight = b.gather(weights, targets.class, 0, 0);
    Some(masked(b, weight, targets))
}

fn ratio(b: &mut Builder, total: Value, count: Value, attrs: &Attrs) -> Value {
    match attrs.str("empty") {
        // Dividing by 1 instead of 0 gives 0, and gradients of 0 rather than NaN.
        "zero" => b.map(&[total, count], |v| v[0] / E::select(v[1].eq(0.0), 1.0, v[1])),
        _ => b.div(total, count),
    }
}
