//! Rows of scores that are an online softmax, and rows that are not; the keys that they see.

use super::*;
use crate::compile::{Options, compile};
use crate::fusion::AttentionBody;
use crate::ir::{E, MatmulSpec, NodeOp};
use expect_test::expect;

const QUERIES: usize = 24;
const KEYS: usize = 40;

/// The body of `rows(scores) · values`, over two heads. The rows may add stores of their own.
fn attention(rows: impl FnOnce(&mut Builder, Value) -> Value) -> AttentionBody {
    attention_in(DType::F32, rows)
}

fn attention_in(dtype: DType, rows: impl FnOnce(&mut Builder, Value) -> Value) -> AttentionBody {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("attention"), &registry);
    let mut input =
        |name: &str, extents: [usize; 3]| b.input(name, InputKind::Data, TensorType::new(dtype, &extents));
    let [q, k, v] = [input("q", [2, QUERIES, 8]), input("k", [2, KEYS, 8]), input("v", [2, KEYS, 4])];
    let by = |l, r| MatmulSpec::new(vec![(0, 0)], vec![(l, r)]);
    let scores = b.matmul_wide(q, k, by(2, 2));
    let weights = rows(&mut b, scores);
    let weights = b.cast(weights, dtype);
    let y = b.matmul(weights, v, by(2, 1));
    b.graph.outputs.push(("y".into(), y));
    let plan = compile(&b.graph.pruned(), &registry, &Options::default()).plan;
    let [kernel] = &plan.kernels[..] else { panic!("{} kernels", plan.kernels.len()) };
    let KernelBody::Attention(body) = &kernel.body else { panic!("{}", kernel.kind()) };
    (**body).clone()
}

/// A softmax whose rows of `-inf` weigh nothing, and its logarithm as an output.
pub fn guarded(b: &mut Builder, x: Value) -> Value {
    let m = b.reduce(Monoid::Max, x, &[2]);
    let m = b.map(&[m], |m| E::select(m[0].eq(f64::NEG_INFINITY), 0.0, m[0]));
    let wide = b.unreduce(m, &[2], x);
    let e = b.map(&[x, wide], |v| (v[0] - v[1]).exp());
    let sum = b.sum(e, &[2]);
    let lse = b.map(&[sum, m], |v| v[0].log() + v[1]);
    b.graph.outputs.push(("lse".into(), lse));
    let sum = b.map(&[sum], |s| E::select(s[0].eq(0.0), 1.0, s[0]));
    let sum = b.unreduce(sum, &[2], x);
    b.div(e, sum)
}

/// `exp(x) / Σ exp(x)`, which simplification shifts by the largest score.
fn spelled_out(b: &mut Builder, x: Value) -> Value {
    let e = b.unary(Unary::Exp, x);
    let sum = b.sum(e, &[2]);
    let sum = b.unreduce(sum, &[2], x);
    b.div(e, sum)
}

fn coordinates(b: &mut Builder, x: Value) -> [Value; 2] {
    let ty = b.ty(x).with_dtype(DType::I32);
    [1, 2].map(|axis| b.iota(axis, ty.clone()))
}

/// Hides keys more than `after` after their query, and those `before` or more before it.
fn banded(b: &mut Builder, x: Value, after: i64, before: i64) -> Value {
    let [query, key] = coordinates(b, x);
    b.map(&[query, key, x], |v| {
        let seen = v[1].le(v[0] + E::from(after)) & (v[0] - v[1]).lt(E::from(before));
        E::select(seen, v[2], f64::NEG_INFINITY)
    })
}

fn found(body: &AttentionBody) -> OnlineSoftmax {
    OnlineSoftmax::of(body).unwrap_or_else(|| panic!("no online softmax: {}", body.rows))
}

#[test]
fn a_guarded_softmax_with_its_logarithm_is_online() {
    let body = attention(|b, x| {
        let x = b.scale(x, 0.5);
        guarded(b, x)
    });
    let online = found(&body);
    assert_eq!(online.reference, Reference::LargestOrZero);
    let inst = |reg: usize| &body.rows.insts[reg].op;
    assert!(matches!(inst(online.exp), FusedOp::Scalar(Scalar::Unary(Unary::Exp), _)));
    assert!(matches!(inst(online.sum), FusedOp::Reduce { monoid: Monoid::Sum, .. }));
    assert!(!online.visible.hides());
    let (score, _) = online.score_part(&body.rows, false);
    expect![[r#"
        points [48, 40, 1]
        %0: f32 element = accumulator
        %1: f32 uniform = 0.5
        %2: f32 element = mul(%0, %1)
    "#]]
    .assert_eq(&score.to_string());
    let [largest, sum] =
        [7, 8].map(|operand| FusedOp::Load { operand, access: Access::strided(&[48], &[1]), index: None });
    let last = online.last_part(&body.rows, body.weight, [largest, sum]);
    expect![[r#"
        points [48, 1, 1]
        %0: f32 row = @7[48:1]
        %1: f32 uniform = -inf
        %2: bool row = eq(%0, %1)
        %3: f32 uniform = 0.0
        %4: f32 row = select(%2, %3, %0)
        %5: f32 uniform = 1.0
        %6: f32 row = @8[48:1]
        %7: bool row = eq(%6, %3)
        %8: f32 uniform = 1.0
        %9: f32 row = select(%7, %8, %6)
        %10: f32 row = div(%5, %9)
        %11: f32 row = log(%6)
        %12: f32 row = add(%11, %4)
        @3[48:1] = %12
        factor %10"#]]
    .assert_eq(&format!("{}factor %{}", last.body, last.factor));
}

#[test]
fn a_spelled_out_softmax_is_online() {
    let online = found(&attention(spelled_out));
    assert_eq!(online.reference, Reference::FiniteOrZero);
}

#[test]
fn an_unguarded_softmax_in_halves_is_online() {
    for dtype in [DType::F16, DType::BF16, DType::F64] {
        let body = attention_in(dtype, |b, x| {
            let m = b.reduce(Monoid::Max, x, &[2]);
            let m = b.unreduce(m, &[2], x);
            let e = b.map(&[x, m], |v| (v[0] - v[1]).exp());
            let sum = b.sum(e, &[2]);
            let sum = b.unreduce(sum, &[2], x);
            b.div(e, sum)
        });
        assert_eq!(found(&body).reference, Reference::Largest);
    }
}

#[test]
fn soft_caps_and_biases_are_part_of_the_score() {
    let body = attention(|b, x| {
        let bias = b.input("bias", InputKind::Data, TensorType::new(DType::F32, &[QUERIES, KEYS]));
        let x = b.map(&[x, bias], |v| (v[0] * 0.02).tanh() * 50.0 + v[1]);
        let x = banded(b, x, 0, 1000);
        guarded(b, x)
    });
    let online = found(&body);
    assert_eq!((online.visible.first, online.visible.end), (Some(-999), Some(1)));
    let (masked, _) = online.score_part(&body.rows, false);
    let (all, _) = online.score_part(&body.rows, true);
    assert!(all.insts.len() < masked.insts.len() && !all.to_string().contains("select"), "{all}");
    assert!(all.to_string().contains("tanh"), "{all}");
}

#[test]
fn other_rows_are_no_online_softmax() {
    let size = attention(|b, x| {
        let x = b.unary(Unary::Tanh, x);
        let size = b.unary(Unary::Abs, x);
        let sum = b.sum(size, &[2]);
        let sum = b.unreduce(sum, &[2], x);
        b.div(x, sum)
    });
    assert_eq!(OnlineSoftmax::of(&size), None);
    // The weight of a key depends on more than its exponential and its row.
    let dropped = attention(|b, x| {
        let weights = guarded(b, x);
        b.mul(weights, x)
    });
    assert_eq!(OnlineSoftmax::of(&dropped), None);
    // The shift is another maximum.
    let other = attention(|b, x| {
        let twice = b.scale(x, 2.0);
        let m = b.reduce(Monoid::Max, twice, &[2]);
        let m = b.unreduce(m, &[2], x);
        let e = b.map(&[x, m], |v| (v[0] - v[1]).exp());
        let sum = b.sum(e, &[2]);
        let sum = b.unreduce(sum, &[2], x);
        b.div(e, sum)
    });
    assert_eq!(OnlineSoftmax::of(&other), None);
}

#[test]
fn a_causal_mask_and_a_window_bound_the_keys() {
    let gap = (KEYS - QUERIES) as i64;
    let causal = found(&attention(|b, x| {
        let x = banded(b, x, gap, 1000);
        guarded(b, x)
    }));
    let visible = causal.visible;
    assert_eq!((visible.period, visible.end), (QUERIES, Some(gap + 1)));
    assert_eq!(visible.of_rows(0..1), 0..17);
    assert_eq!(visible.of_rows(QUERIES + 4..QUERIES + 8), 0..24);
    assert_eq!(visible.of_rows(0..2 * QUERIES), 0..KEYS);
    assert!(visible.are_seen(4..8, 0..21) && !visible.are_seen(4..8, 0..22));
    let window = found(&attention(|b, x| {
        let x = banded(b, x, 0, 5);
        guarded(b, x)
    }));
    let visible = window.visible;
    assert_eq!((visible.first, visible.end), (Some(-4), Some(1)));
    assert_eq!([visible.of_rows(0..2), visible.of_rows(10..12)], [0..2, 6..12]);
    assert_eq!(
        [visible.queries_of(0..8), visible.queries_of(8..16), visible.queries_of(30..40)],
        [0..12, 8..20, 24..24]
    );
    assert!(visible.are_seen(10..12, 7..11) && !visible.are_seen(10..12, 6..11));
}

#[test]
fn bounds_agree_with_each_score_that_a_mask_hides() {
    for (after, before) in [(0, 3), (-2, 9), (16, 1000), (5, 1), (100, 7), (-30, 4)] {
        let online = found(&attention(|b, x| {
            let x = banded(b, x, after, before);
            guarded(b, x)
        }));
        for row in 0..2 * QUERIES {
            let query = (row % QUERIES) as i64;
            let seen = |key: &usize| *key as i64 <= query + after && query - (*key as i64) < before;
            let keys: Vec<usize> = (0..KEYS).filter(seen).collect();
            let bounds = online.visible.of_rows(row..row + 1);
            assert_eq!(bounds.clone().collect::<Vec<_>>(), keys, "row {row} of {after}, {before}");
            assert!(keys.is_empty() || online.visible.are_seen(row..row + 1, bounds));
            let is_listed = |key: usize| online.visible.queries_of(key..key + 1).contains(&(row % QUERIES));
            assert!((0..KEYS).all(|key| is_listed(key) == keys.contains(&key)));
        }
    }
}

#[test]
fn masks_in_memory_hide_nothing_for_certain() {
    let masked = |order: [bool; 2]| {
        attention(|b, x| {
            let mask = b.input("mask", InputKind::Data, TensorType::new(DType::Bool, &[QUERIES, KEYS]));
            let shape = b.ty(x).shape.clone();
            let mask = b.broadcast_dims(mask, &shape);
            let hide = |b: &mut Builder, x| b.map(&[mask, x], |v| E::select(v[0], v[1], f64::NEG_INFINITY));
            let mut x = x;
            for is_mask in order {
                x = if is_mask { hide(b, x) } else { banded(b, x, 0, 1000) };
            }
            guarded(b, x)
        })
    };
    let inner = masked([true, false]);
    let online = found(&inner);
    assert_eq!(online.visible.end, Some(1));
    let (all, _) = online.score_part(&inner.rows, true);
    assert!(all.to_string().contains("select") && !all.to_string().contains("le("), "{all}");
    let outer = found(&masked([false, true]));
    assert_eq!((outer.visible.end, outer.visible.unmasked), (Some(1), None));
}

#[test]
fn queries_that_share_keys_start_again() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("attention"), &registry);
    let mut input = |name: &str, extents: [usize; 3]| {
        b.input(name, InputKind::Data, TensorType::new(DType::F32, &extents))
    };
    let [q, k] = [input("q", [2, 3 * 10, 8]), input("k", [2, 10, 8])];
    let by = |l, r| MatmulSpec::new(vec![(0, 0)], vec![(l, r)]);
    let scores = b.matmul(q, k, by(2, 2));
    let ty = TensorType::new(DType::I32, &[2, 3, 10, 10]);
    let [query, key] = [2, 3].map(|axis| b.push(NodeOp::Iota { axis }, vec![], ty.clone()));
    let seen = b.map(&[query, key], |v| v[1].le(v[0]));
    let seen = b.reshape(seen, &[2, 30, 10]);
    let scores = b.map(&[seen, scores], |v| E::select(v[0], v[1], f64::NEG_INFINITY));
    let weights = guarded(&mut b, scores);
    let y = b.matmul(weights, k, by(2, 1));
    b.graph.outputs.push(("y".into(), y));
    let plan = compile(&b.graph.pruned(), &registry, &Options::default()).plan;
    let KernelBody::Attention(body) = &plan.kernels[0].body else { panic!("{}", plan.kernels[0].kind()) };
    let visible = found(body).visible;
    assert_eq!((visible.period, visible.end), (10, Some(1)));
    assert_eq!(
        [visible.of_rows(12..14), visible.of_rows(8..12), visible.of_rows(30..31)],
        [0..4, 0..10, 0..1]
    );
}

#[test]
fn the_points_of_a_gradient_see_the_keys_of_its_scores() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("gradient"), &registry);
    let mut input =
        |name: &str, extents: &[usize]| b.input(name, InputKind::Data, TensorType::new(DType::F32, extents));
    let [q, k, v, dy] = ["q", "k", "v", "dy"].map(|name| input(name, &[2, 30, 8]));
    let lse = input("lse", &[2, 30]);
    let by = |l, r| MatmulSpec::new(vec![(0, 0)], vec![(l, r)]);
    let scores = b.matmul(q, k, by(2, 2));
    let scores = banded(&mut b, scores, 0, 5);
    let lse = b.unreduce(lse, &[2], scores);
    let p = b.map(&[scores, lse], |v| (v[0] - v[1]).exp());
    let dp = b.matmul(dy, v, by(2, 2));
    let ds = b.map(&[p, dp], |v| v[0] * v[1] * 0.5);
    let sums = [b.matmul(ds, k, by(2, 1)), b.matmul(ds, q, by(1, 1)), b.matmul(p, dy, by(1, 1))];
    for (name, sum) in ["dq", "dk", "dv"].iter().zip(sums) {
        b.graph.outputs.push(((*name).into(), sum));
    }
    let plan = compile(&b.graph.pruned(), &registry, &Options::default()).plan;
    let KernelBody::AttentionGradient(body) = &plan.kernels[0].body else {
        panic!("{}", plan.kernels[0].kind())
    };
    let values: Vec<usize> = body.sums.iter().map(|sum| sum.value).collect();
    let visible = visible_points(&body.points, &values);
    assert_eq!((visible.period, visible.first, visible.end), (30, Some(-4), Some(1)));
    let unmasked = visible.without_mask(&body.points).unwrap();
    assert_eq!(unmasked.insts.len(), body.points.insts.len());
    let sub = unmasked.insts.iter().find(|inst| {
        inst.dtype == DType::F32 && matches!(inst.op, FusedOp::Scalar(Scalar::Binary(Binary::Sub), _))
    });
    let FusedOp::Scalar(_, args) = &sub.unwrap().op else { panic!("a difference") };
    assert_eq!(unmasked.insts[args[0]].op, FusedOp::Accumulator);
    assert_eq!(plan.kernels.len(), 1);
}
