//! `gather_attention`.

use crate::heads::{Heads, result_types};
use crate::layout::{Layout, Slopes, like_operands, operands};
use crate::scores::{Hiding, scale, scale_attr};
use engine_core::ir::{Attrs, Builder, Combine, DType, E, Literal, MatmulSpec, Monoid, NodeOp, Type, Value};
use engine_core::op::{AttrSpec, Grad, GradCall, InputSpec, OpForm, TypeIssue};

/// Attention of each query to its own selection of keys: `softmax(q·k[idx]ᵀ·scale)·v[idx]` for q [.., H, T, D], k [..,
/// G, N, D], v [.., G, N, W] and idx [.., H, T, S], with H a multiple of G. The second result is the logarithm of each
/// softmax's sum. With all keys selected it is `attention`. A query without a counting key yields 0, and -inf. The
/// gradient recomputes the weights from `lse`, and adds up at the selected keys and values.
pub fn gather_attention() -> OpForm {
    let idx = InputSpec::required("idx", "numbers of the keys of each query, […, heads, queries, selected]");
    OpForm::new(
        "gather_attention",
        "Adds up selected values, weighed by how well their keys match each query.",
    )
    .inputs(operands())
    .inputs([idx])
    .results(&["y", "lse"])
    .attr(AttrSpec::choice(
        "oob",
        "an index out of range is an error, or counts for nothing: -1 fills up lists that are shorter",
        &["error", "skip"],
    ))
    .attr(AttrSpec::flag("unique", "whether a key that a query selects twice counts once", false))
    .attr(scale_attr())
    .types(|types, _| {
        let results = result_types("gather_attention", types)?;
        expect_selection(&types[0], &types[3])?;
        Ok(results)
    })
    .expand(|b, call| Selection::of(b, call.inputs, call.attrs).layout.results(b))
    .grad(Grad::rule(gradient))
    .example(
        "the second of three keys alone",
        "gather_attention(a, b, c, d)",
        &[
            ("f32[1, 1]", &[1.]),
            ("f32[3, 1]", &[5., 2., 7.]),
            ("f32[3, 2]", &[1., 2., 3., 4., 5., 6.]),
            ("i32[1, 1]", &[1.]),
        ],
        &[("f32[1, 2]", &[3., 4.]), ("f32[1]", &[2.])],
    )
    .example(
        "a list that is filled up with -1",
        "gather_attention(a, b, c, d, oob=\"skip\")",
        &[
            ("f32[1, 1]", &[0.]),
            ("f32[3, 1]", &[5., 2., 7.]),
            ("f32[3, 1]", &[1., 3., 5.]),
            ("i32[1, 3]", &[2., 0., -1.]),
        ],
        &[("f32[1, 1]", &[3.]), ("f32[1]", &[std::f64::consts::LN_2])],
    )
}

fn expect_selection(q: &Type, idx: &Type) -> Result<(), TypeIssue> {
    let rank = q.rank();
    if idx.dtype.is_index() && idx.rank() == rank && idx.shape[..rank - 1] == q.shape[..rank - 1] {
        return Ok(());
    }
    Err(TypeIssue::new(format!("`gather_attention` of {q} by {idx}"))
        .at(3, format!("this is {idx}"))
        .help("indices are integers other than u32, with a list for each query of each head"))
}

/// `[g, r, d] · [g, r, s, d] -> [g, r, s]`
fn query_by_keys() -> MatmulSpec {
    MatmulSpec::new(vec![(0, 0), (1, 1)], vec![(2, 3)])
}

/// `[g, r, s] · [g, r, s, w] -> [g, r, w]`
fn weights_by_values() -> MatmulSpec {
    MatmulSpec::new(vec![(0, 0), (1, 1)], vec![(2, 2)])
}

/// Keys and values in the selection of each query.
struct Selection {
    layout: Layout,
    idx: Value,
}

impl Selection {
    fn of(b: &mut Builder, inputs: &[Value], attrs: &Attrs) -> Selection {
        let heads = Heads::of(b, inputs[0], inputs[1], inputs[2]);
        let n_selected = b.extents(inputs[3])[b.ty(inputs[3]).rank() - 1];
        let given = b.cast(inputs[3], b.dtype(inputs[3]).index_type());
        let given = heads.by_query(b, given, n_selected);
        let last = heads.keys as i64 - 1;
        let skips = attrs.str("oob") == "skip" && heads.keys > 0;
        let idx = match skips {
            true => b.map(&[given], |i| i[0].max(0i64).min(last)),
            false => b.check_index(given, heads.keys),
        };
        let mut counts = skips.then(|| b.map(&[given], |i| i[0].ge(0i64) & i[0].le(last)));
        if attrs.bool("unique") {
            let first = is_first(b, given);
            counts = Some(match counts {
                Some(counts) => b.map(&[counts, first], |c| c[0] & c[1]),
                None => first,
            });
        }
        let (k, v) = (heads.by_key(b, inputs[1], heads.depth), heads.by_key(b, inputs[2], heads.width));
        let layout = Layout {
            q: heads.by_query(b, inputs[0], heads.depth),
            k: b.gather(k, idx, 1, 1),
            v: b.gather(v, idx, 1, 1),
            hiding: Hiding { mask: None, counts, causal: false },
            scale: scale(attrs, &heads),
            by_row: query_by_keys(),
            by_weight: weights_by_values(),
            heads,
        };
        Selection { layout, idx }
    }

    /// The gradient of a tensor by key, from the gradient of its selected rows.
    fn added_up(&self, b: &mut Builder, grad: Value, columns: usize) -> Value {
        let ty = Type::new(b.dtype(grad), &[self.layout.heads.groups, self.layout.heads.keys, columns]);
        let zeros = b.full(Literal::Float(0.0), ty);
        b.scatter(zeros, self.idx, grad, 1, 1, Combine::Add)
    }
}

/// Whether an index is the first of its value in its list.
fn is_first(b: &mut Builder, idx: Value) -> Value {
    let [g, r, s] = b.extents(idx)[..] else { engine_core::bug!("indices lie as [groups, rows, selected]") };
    let over = Type::new(DType::I32, &[g, r, s, s]);
    let own = b.broadcast_axes(idx, &[0, 1, 2], &over.shape);
    let other = b.broadcast_axes(idx, &[0, 1, 3], &over.shape);
    let own_place = b.push(NodeOp::Iota { axis: 2 }, vec![], over.clone());
    let other_place = b.push(NodeOp::Iota { axis: 3 }, vec![], over);
    let repeats = b.map(&[own, other, own_place, other_place], |v| v[0].eq(v[1]) & v[3].lt(v[2]));
    let repeats = b.cast(repeats, DType::I32);
    let n_repeats = b.reduce(Monoid::Sum, repeats, &[3]);
    b.map(&[n_repeats], |n| n[0].eq(E::from(0i64)))
}

fn gradient(b: &mut Builder, call: &GradCall) -> Vec<Option<Value>> {
    let selection = Selection::of(b, call.inputs, call.attrs);
    let layout = &selection.layout;
    let (heads, dtype) = (&layout.heads, b.dtype(layout.q));
    let Slopes { dy, p, ds } = layout.slopes(b, call);
    let ds = b.map(&[ds], |x| x[0] * layout.scale);
    let (p, ds) = (b.cast(p, dtype), b.cast(ds, dtype));
    let dq = b.matmul(ds, layout.k, weights_by_values());
    let dk = outer(b, ds, layout.q);
    let dk = selection.added_up(b, dk, heads.depth);
    let dv = outer(b, p, dy);
    let dv = selection.added_up(b, dv, heads.width);
    let mut grads = like_operands(b, call, [dq, dk, dv]);
    grads.push(None);
    grads
}

/// The outer product of `[g, r, s]` and `[g, r, d]`, `[g, r, s, d]`.
fn outer(b: &mut Builder, weights: Value, rows: Value) -> Value {
    let [g, r, s] = b.extents(weights)[..] else {
        engine_core::bug!("weights lie as [groups, rows, selected]")
    };
    let columns = b.extents(rows)[2];
    let over = Type::new(b.dtype(weights), &[g, r, s, columns]);
    let weights = b.broadcast_axes(weights, &[0, 1, 2], &over.shape);
    let rows = b.broadcast_axes(rows, &[0, 1, 3], &over.shape);
    b.map(&[weights, rows], |v| v[0] * v[1])
}
