//! `attention`.

use crate::heads::{Heads, result_types};
use crate::layout::{Layout, Slopes, like_operands, operands};
use crate::scores::{Hiding, expect_mask, scale, scale_attr};
use engine_core::ir::{Attrs, Builder, Contract, Dim, Type, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, OpForm};

/// `softmax(q·kᵀ·scale + mask)·v` and the logarithm of each softmax's sum. The operands are q [.., H, T, D],
/// k [.., G, S, D] and v [.., G, S, W], with H a multiple of G. From the scores on, it is computed in f32 or wider. A query that sees no key
/// yields 0, and -inf. The gradient recomputes the weights from the scores and `lse`, as in FlashAttention (Dao et al.
/// 2022): `p = exp(s - lse)`, `dv = pᵀ·dy`, `ds = p·(dy·vᵀ - Σ dy·y)`, `dq = ds·k·scale`, `dk = dsᵀ·q·scale`.
pub fn attention() -> OpForm {
    let causal = AttrSpec::flag(
        "causal",
        "whether a query sees no key after its own; the last query sees the last key",
        false,
    );
    OpForm::new("attention", "Adds up values, weighed by how well their keys match each query.")
        .rounds_operands()
        .inputs(operands())
        .optional("mask", "bool (true attends) or float (added), broadcast to […, heads, queries, keys]")
        .results(&["y", "lse"])
        .attr(causal)
        .attr(scale_attr())
        .types(|types, _| {
            let results = result_types("attention", types)?;
            if let Some(mask) = types.get(3) {
                let scores = score_type(&types[0], &types[1]);
                expect_mask("attention", mask, &types[0], &scores)?;
            }
            Ok(results)
        })
        .expand(|b, call| layout(b, call.inputs, call.attrs).results(b))
        .grad(Grad::rule(gradient))
        .example(
            "a query that matches both keys alike",
            "attention(a, b, c)",
            &[("f32[1, 2]", &[0., 0.]), ("f32[2, 2]", &[1., 2., 3., 4.]), ("f32[2, 1]", &[10., 20.])],
            &[("f32[1, 1]", &[15.]), ("f32[1]", &[std::f64::consts::LN_2])],
        )
        .example(
            "the first query sees the first key only",
            "attention(a, b, c, causal=true)",
            &[("f32[2, 1]", &[1., 0.]), ("f32[2, 1]", &[2., 3.]), ("f32[2, 1]", &[10., 20.])],
            &[("f32[2, 1]", &[10., 15.]), ("f32[2]", &[2., std::f64::consts::LN_2])],
        )
}

/// `[…, heads, queries, keys]`
fn score_type(q: &Type, k: &Type) -> Type {
    let rank = q.rank();
    let shape: Vec<Dim> = q.shape[..rank - 1].iter().chain(&k.shape[rank - 2..rank - 1]).cloned().collect();
    Type { dtype: q.dtype, shape }
}

/// `[g, r, d] · [g, s, d] -> [g, r, s]`
fn rows_by_rows() -> Contract {
    Contract::new(vec![(0, 0)], vec![(2, 2)])
}

/// `[g, r, s] · [g, s, w] -> [g, r, w]`
fn rows_by_keys() -> Contract {
    Contract::new(vec![(0, 0)], vec![(2, 1)])
}

/// `[g, r, s] · [g, r, d] -> [g, s, d]`
fn keys_by_rows() -> Contract {
    Contract::new(vec![(0, 0)], vec![(1, 1)])
}

fn layout(b: &mut Builder, inputs: &[Value], attrs: &Attrs) -> Layout {
    let heads = Heads::of(b, inputs[0], inputs[1], inputs[2]);
    let mask = inputs.get(3).map(|&mask| {
        let shape: Vec<Dim> =
            heads.lead.iter().chain([&heads.keys]).map(|&extent| Dim::Fixed(extent)).collect();
        let mask = b.broadcast_dims(mask, &shape);
        heads.by_query(b, mask, heads.keys)
    });
    Layout {
        q: heads.by_query(b, inputs[0], heads.depth),
        k: heads.by_key(b, inputs[1], heads.depth),
        v: heads.by_key(b, inputs[2], heads.width),
        hiding: Hiding { mask, counts: None, causal: attrs.bool("causal") },
        scale: scale(attrs, &heads),
        by_row: rows_by_rows(),
        by_weight: rows_by_keys(),
        heads,
    }
}

fn gradient(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let layout = layout(b, call.inputs, call.attrs);
    let (heads, dtype) = (&layout.heads, b.dtype(layout.q));
    let Slopes { dy, p, ds } = layout.slopes(b, call);
    let p = b.cast(p, dtype);
    let dv = b.contract(p, dy, keys_by_rows());
    let scaled = b.map(&[ds], |x| x[0] * layout.scale);
    let scaled = b.cast(scaled, dtype);
    let dq = b.contract(scaled, layout.k, rows_by_keys());
    let dk = b.contract(scaled, layout.q, keys_by_rows());
    let mut grads = like_operands(b, call, [dq, dk, dv]);
    if let Some(&mask) = call.inputs.get(3) {
        grads.push(b.dtype(mask).is_float().then(|| {
            let ds = heads.like_queries(b, ds, &[heads.keys]);
            let summed = sum_to(b, ds, mask);
            b.cast(summed, dtype)
        }));
    }
    grads
}

/// Sums over the axes along which `like` was broadcast to the shape of `x`.
fn sum_to(b: &mut Builder, x: Value, like: Value) -> Value {
    let (from, to) = (b.extents(x), b.extents(like));
    let lead = from.len() - to.len();
    let repeats = |axis: &usize| *axis < lead || to[axis - lead] == 1;
    let axes: Vec<usize> = (0..from.len()).filter(repeats).collect();
    let summed = b.sum(x, &axes);
    b.reshape(summed, &to)
}
