//! From scores to weights, and back for gradients.

use crate::heads::Heads;
use engine_core::ir::{Attrs, Builder, DType, E, Literal, Monoid, NodeOp, Type, Unary, Value};
use engine_core::op::{AttrKind, AttrSpec, TypeIssue};

/// The keys that are hidden from queries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hiding {
    /// Truth values (true attends) or numbers that are added, laid out like the scores.
    pub mask: Option<Value>,
    /// Truth values laid out like the scores: whether a selected key counts.
    pub counts: Option<Value>,
    /// Whether a query sees no key after its own position. The last query sees the last key.
    pub causal: bool,
}

/// `scale`.
pub fn scale_attr() -> AttrSpec {
    AttrSpec::open("scale", "factor of the scores; 1/√depth unless given", AttrKind::Float)
}

/// The factor of the scores.
pub fn scale(attrs: &Attrs, heads: &Heads) -> f64 {
    attrs.opt_float("scale").unwrap_or_else(|| 1.0 / (heads.depth as f64).sqrt())
}

/// Checks that a mask broadcasts to scores of that shape.
pub fn expect_mask(op: &str, mask: &Type, q: &Type, scores: &Type) -> Result<(), TypeIssue> {
    let is_mask = mask.dtype == DType::Bool || mask.dtype == q.dtype;
    let over = engine_core::ir::broadcast_shapes(&[scores.clone(), mask.clone()]);
    if is_mask && over.as_deref() == Some(&scores.shape[..]) {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`{op}` with a mask {mask}"))
        .at(3, format!("this is {mask}"))
        .help(format!("a mask is bool (true attends) or {} (added), and broadcasts to {scores}", q.dtype)))
}

/// The scores for the weights: as wide as `products`, scaled, and -inf at hidden keys.
pub fn hidden(b: &mut Builder, products: Value, heads: &Heads, scale: f64, hiding: Hiding) -> Value {
    let mut x = b.map(&[products], |x| x[0] * scale);
    let hide = |b: &mut Builder, seen: Value, x: Value| {
        b.map(&[seen, x], |v| E::select(v[0], v[1], f64::NEG_INFINITY))
    };
    if let Some(mask) = hiding.mask {
        x = match b.dtype(mask) {
            DType::Bool => hide(b, mask, x),
            _ => {
                let bias = b.cast(mask, b.dtype(x));
                b.add(x, bias)
            }
        };
    }
    if let Some(counts) = hiding.counts {
        x = hide(b, counts, x);
    }
    if hiding.causal {
        let seen = not_after(b, heads);
        x = hide(b, seen, x);
    }
    x
}

/// Whether a key is not after its query, `[groups, rows, keys]`.
fn not_after(b: &mut Builder, heads: &Heads) -> Value {
    let extents = [heads.groups, heads.shared, heads.queries, heads.keys];
    let ty = Type::new(DType::I32, &extents);
    let query = b.push(NodeOp::Iota { axis: 2 }, vec![], ty.clone());
    let key = b.push(NodeOp::Iota { axis: 3 }, vec![], ty);
    let gap = heads.keys as i64 - heads.queries as i64;
    let seen = b.map(&[query, key], |v| v[1].le(v[0] + E::from(gap)));
    b.reshape(seen, &[heads.groups, heads.rows(), heads.keys])
}

/// Weights along the last axis, all 0 for a row without visible keys, and the logarithm of their divisor.
pub fn weights(b: &mut Builder, x: Value) -> (Value, Value) {
    let last = b.ty(x).rank() - 1;
    if b.extents(x)[last] == 0 {
        let rows = b.ty(x).shape[..last].to_vec();
        let ty = Type { dtype: b.dtype(x), shape: rows };
        return (x, b.full(Literal::Float(f64::NEG_INFINITY), ty));
    }
    let largest = b.reduce(Monoid::Max, x, &[last]);
    let reference = finite(b, largest);
    let spread = b.unreduce(reference, &[last], x);
    let shifted = b.sub(x, spread);
    let exps = b.unary(Unary::Exp, shifted);
    let total = b.sum(exps, &[last]);
    let lse = b.map(&[total, reference], |v| v[0].log() + v[1]);
    // A row with a visible key has a total of at least exp 0, so only an empty row has the total 0.
    let divisor = b.map(&[total], |t| E::select(t[0].eq(0.0), 1.0, t[0]));
    let divisor = b.unreduce(divisor, &[last], x);
    (b.div(exps, divisor), lse)
}

/// Replaces -inf by 0.
fn finite(b: &mut Builder, x: Value) -> Value {
    b.map(&[x], |x| E::select(x[0].eq(f64::NEG_INFINITY), 0.0, x[0]))
}

/// Recomputes the weights from the logarithm of their divisor.
pub fn weights_again(b: &mut Builder, x: Value, lse: Value) -> Value {
    let last = b.ty(x).rank() - 1;
    let lse = finite(b, lse);
    let lse = b.unreduce(lse, &[last], x);
    b.map(&[x, lse], |v| (v[0] - v[1]).exp())
}

/// Gradients of the scores from those of the weights: `p·(dp - Σ dp·p + dlse)`. The sum, one term per query, equals
/// that of `dy·y`.
pub fn score_grads(b: &mut Builder, p: Value, dp: Value, [dy, y]: [Value; 2], dlse: Option<Value>) -> Value {
    let last = b.ty(p).rank() - 1;
    let (dy, y) = (b.cast(dy, b.dtype(p)), b.cast(y, b.dtype(p)));
    let products = b.mul(dy, y);
    let total = b.sum(products, &[last]);
    let total = match dlse {
        Some(dlse) => b.sub(total, dlse),
        None => total,
    };
    let total = b.unreduce(total, &[last], p);
    b.map(&[p, dp, total], |v| v[0] * (v[1] - v[2]))
}
