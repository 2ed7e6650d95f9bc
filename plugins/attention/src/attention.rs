//! `attention`.

use crate::heads::{Heads, result_types};
use crate::layout::{Layout, Slopes, like_operands, operands};
use crate::scores::{Hiding, expect_mask, scale, scale_attr};
use engine_core::ir::{Attrs, Builder, Dim, MatmulSpec, Type, Value};
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
        .expand(|b, call| match causal_parts(b, call.inputs, call.attrs) {
            Some(rows) => in_parts(b, call.inputs, call.attrs, rows),
            None => layout(b, call.inputs, call.attrs).results(b),
        })
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
fn rows_by_rows() -> MatmulSpec {
    MatmulSpec::new(vec![(0, 0)], vec![(2, 2)])
}

/// `[g, r, s] · [g, s, w] -> [g, r, w]`
fn rows_by_keys() -> MatmulSpec {
    MatmulSpec::new(vec![(0, 0)], vec![(2, 1)])
}

/// `[g, r, s] · [g, r, d] -> [g, s, d]`
fn keys_by_rows() -> MatmulSpec {
    MatmulSpec::new(vec![(0, 0)], vec![(1, 1)])
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

/// Scores of a part. Smaller parts are not worth their launches.
const PART_SCORES: usize = 1 << 23;
/// Queries of a part are a multiple of this.
const PART_QUERIES: usize = 128;
const MOST_PARTS: usize = 8;

/// The number of queries of a part, where a device would store scores that causal attention hides.
fn causal_parts(b: &Builder, inputs: &[Value], attrs: &Attrs) -> Option<usize> {
    let heads = Heads::of(b, inputs[0], inputs[1], inputs[2]);
    let Heads { queries, keys, .. } = heads;
    let n_scores = heads.groups * heads.shared * queries * keys;
    let columns = [0, 2].into_iter().filter_map(|i| b.extents(inputs[i]).last().copied()).max()?;
    let stores_hidden_scores = attrs.bool("causal") && !b.target.attends_in(b.dtype(inputs[0]), columns);
    let n_parts = (n_scores / PART_SCORES).min(MOST_PARTS);
    if !stores_hidden_scores || queries > keys || n_parts < 2 {
        return None;
    }
    let rows = queries.div_ceil(n_parts).next_multiple_of(PART_QUERIES);
    (rows < queries).then_some(rows)
}

/// Causal attention by so many queries at a time, each with the keys that its last query sees. The scores of a few parts are
/// little more than half of all.
fn in_parts(b: &mut Builder, inputs: &[Value], attrs: &Attrs, rows: usize) -> Vec<Value> {
    let [n_queries, n_keys] = [0, 1].map(|i| b.extents(inputs[i])[b.ty(inputs[i]).rank() - 2]);
    let mut parts = [vec![], vec![]];
    for start in (0..n_queries).step_by(rows) {
        let end = (start + rows).min(n_queries);
        let seen = n_keys - n_queries + end;
        let mut operands = vec![
            window(b, inputs[0], 2, [start, end]),
            window(b, inputs[1], 2, [0, seen]),
            window(b, inputs[2], 2, [0, seen]),
        ];
        if let Some(&mask) = inputs.get(3) {
            let by_query = if is_wide(b, mask, 2) { window(b, mask, 2, [start, end]) } else { mask };
            operands.push(if is_wide(b, mask, 1) { window(b, by_query, 1, [0, seen]) } else { by_query });
        }
        let results = layout(b, &operands, attrs).results(b);
        parts.iter_mut().zip(results).for_each(|(parts, result)| parts.push(result));
    }
    let axis = b.ty(inputs[0]).rank() - 2;
    parts.iter().map(|parts| b.concat(parts, axis)).collect()
}

/// Whether a mask has an axis of more than one element that far from the end.
fn is_wide(b: &Builder, mask: Value, from_end: usize) -> bool {
    let extents = b.extents(mask);
    extents.len() >= from_end && extents[extents.len() - from_end] > 1
}

/// `x[.., start..end, ..]` along an axis, counted from the end.
fn window(b: &mut Builder, x: Value, from_end: usize, [start, end]: [usize; 2]) -> Value {
    let extents = b.extents(x);
    let axis = extents.len() - from_end;
    let (mut starts, mut counts) = (vec![0; extents.len()], extents.clone());
    (starts[axis], counts[axis]) = (start, end - start);
    b.slice(x, &starts, &counts, &vec![1; extents.len()])
}

fn gradient(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let layout = layout(b, call.inputs, call.attrs);
    let (heads, dtype) = (&layout.heads, b.dtype(layout.q));
    let Slopes { dy, p, ds } = layout.slopes(b, call);
    let p = b.cast(p, dtype);
    let dv = b.matmul(p, dy, keys_by_rows());
    let scaled = b.map(&[ds], |x| x[0] * layout.scale);
    let scaled = b.cast(scaled, dtype);
    let dq = b.matmul(scaled, layout.k, rows_by_keys());
    let dk = b.matmul(scaled, layout.q, keys_by_rows());
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
