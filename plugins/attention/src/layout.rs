//! The shared parts of attention to all keys and to selected keys, from operands to results and back.

use crate::heads::Heads;
use crate::scores::{Hiding, hidden, score_grads, weights, weights_again};
use engine_core::ir::{Builder, MatmulSpec, Value};
use engine_core::op::{GradCall, InputSpec};

/// `q`, `k` and `v`.
pub fn operands() -> [InputSpec; 3] {
    [
        InputSpec::required("q", "queries, […, heads, queries, depth]"),
        InputSpec::required("k", "keys, […, heads, keys, depth]; of one head may serve several of queries"),
        InputSpec::required("v", "values, […, heads, keys, width]"),
    ]
}

/// Operands as stacks of matrices.
pub struct Layout {
    /// Their extents.
    pub heads: Heads,
    /// Queries, `[groups, rows, depth]`.
    pub q: Value,
    /// Keys, by group, or by group and row.
    pub k: Value,
    /// Values, laid out like the keys.
    pub v: Value,
    /// The hidden keys.
    pub hiding: Hiding,
    /// Factor of the scores.
    pub scale: f64,
    /// Rows with keys or values: `[groups, rows, n]`.
    pub by_row: MatmulSpec,
    /// Weights with keys or values: `[groups, rows, columns]`.
    pub by_weight: MatmulSpec,
}

/// Intermediate gradients, by row and key.
pub struct Slopes {
    /// The gradient of the result, `[groups, rows, width]`.
    pub dy: Value,
    /// The weights, in the type of the scores.
    pub p: Value,
    /// The gradient of the scores before scaling.
    pub ds: Value,
}

impl Layout {
    /// The results `y` and `lse`, shaped like the queries.
    pub fn results(&self, b: &mut Builder) -> Vec<Value> {
        let scores = self.scores(b);
        let (p, lse) = weights(b, scores);
        let p = b.cast(p, b.dtype(self.v));
        let y = b.matmul(p, self.v, self.by_weight.clone());
        let y = self.heads.like_queries(b, y, &[self.heads.width]);
        vec![y, self.heads.like_queries(b, lse, &[])]
    }

    /// Recomputes the weights, and their gradients.
    pub fn slopes(&self, b: &mut Builder, call: &GradCall) -> Slopes {
        let heads = &self.heads;
        let y = heads.by_query(b, call.outputs[0], heads.width);
        let dy = match call.grads[0] {
            Some(dy) => heads.by_query(b, dy, heads.width),
            None => b.full_like(y, 0.0),
        };
        let flat = [heads.groups, heads.rows()];
        let lse = b.reshape(call.outputs[1], &flat);
        let dlse = call.grads[1].map(|dlse| b.reshape(dlse, &flat));
        let scores = self.scores(b);
        let p = weights_again(b, scores, lse);
        let dp = b.matmul_wide(dy, self.v, self.by_row.clone());
        Slopes { dy, p, ds: score_grads(b, p, dp, [dy, y], dlse) }
    }

    fn scores(&self, b: &mut Builder) -> Value {
        let products = b.matmul_wide(self.q, self.k, self.by_row.clone());
        hidden(b, products, &self.heads, self.scale, self.hiding)
    }
}

/// Gradients of `q`, `k` and `v`, in the shapes of the operands.
pub fn like_operands(b: &mut Builder, call: &GradCall, grads: [Value; 3]) -> Vec<Option<Value>> {
    let pairs = grads.into_iter().zip(call.inputs);
    let shaped = |(grad, &operand): (Value, &Value)| {
        let extents = b.extents(operand);
        Some(b.reshape(grad, &extents))
    };
    pairs.map(shaped).collect()
}
