//! Attention: dense and sparse, against the oracle, fused and unfused.

use super::*;
use crate::device::RunError;
use proptest::prelude::*;

/// The shape of an attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub batch: usize,
    pub queries: usize,
    pub keys: usize,
    pub depth: usize,
    pub width: usize,
}

pub(super) fn along(pair: (usize, usize), batched: bool) -> MatmulSpec {
    MatmulSpec::new(if batched { vec![(0, 0)] } else { vec![] }, vec![pair])
}

/// Weights along the last axis, all 0 where a row is -inf throughout.
pub(super) fn masked_softmax(b: &mut Builder, x: Value) -> (Value, Value) {
    let axis = b.ty(x).rank() - 1;
    let largest = b.reduce(Monoid::Max, x, &[axis]);
    let largest = b.map(&[largest], |m| E::select(m[0].eq(f64::NEG_INFINITY), 0.0, m[0]));
    let reference = b.unreduce(largest, &[axis], x);
    let shifted = b.sub(x, reference);
    let e = b.unary(Unary::Exp, shifted);
    let total = b.sum(e, &[axis]);
    let lse = b.map(&[total, largest], |v| v[0].log() + v[1]);
    let total = b.map(&[total], |t| E::select(t[0].eq(0.0), 1.0, t[0]));
    let total = b.unreduce(total, &[axis], x);
    (b.div(e, total), lse)
}

/// Hides keys that lie `gap` or more after their query.
pub(super) fn causal(b: &mut Builder, scores: Value, gap: f64) -> Value {
    let (rank, ty) = (b.ty(scores).rank(), b.ty(scores).with_dtype(DType::I32));
    let row = b.push(NodeOp::Iota { axis: rank - 2 }, vec![], ty.clone());
    let column = b.push(NodeOp::Iota { axis: rank - 1 }, vec![], ty);
    b.map(&[row, column, scores], |v| E::select(v[1].lt(v[0] + gap), v[2], f64::NEG_INFINITY))
}

pub(super) fn kinds(graph: &Graph) -> Vec<&'static str> {
    fuse(graph, true).kernels.iter().map(|kernel| kernel.kind()).collect()
}

fn dense(shape: Shape, dtype: DType, gap: f64) -> Graph {
    let Shape { batch, queries, keys, depth, width } = shape;
    graph(|b| {
        let q = data(b, "q", dtype, &[batch, queries, depth]);
        let k = data(b, "k", dtype, &[batch, keys, depth]);
        let v = data(b, "v", dtype, &[batch, keys, width]);
        let scores = b.matmul(q, k, along((2, 2), true));
        let scores = b.scale(scores, 0.5);
        let scores = causal(b, scores, gap);
        let (weights, lse) = masked_softmax(b, scores);
        let y = b.matmul(weights, v, along((2, 1), true));
        output(b, "y", y);
        output(b, "lse", lse);
    })
}

fn sparse(shape: Shape, n_tokens: usize) -> Graph {
    let Shape { batch, keys, depth, width, .. } = shape;
    graph(|b| {
        let q = f32s(b, "q", &[batch, depth]);
        let k = f32s(b, "k", &[n_tokens, depth]);
        let v = f32s(b, "v", &[n_tokens, width]);
        let idx = data(b, "idx", DType::I32, &[batch, keys]);
        let idx = b.check_index(idx, n_tokens);
        let k = b.gather(k, idx, 0, 0);
        let v = b.gather(v, idx, 0, 0);
        let scores = b.matmul(q, k, along((1, 2), true));
        let scores = b.scale(scores, 0.5);
        let (weights, lse) = masked_softmax(b, scores);
        let y = b.matmul(weights, v, along((1, 1), true));
        output(b, "y", y);
        output(b, "lse", lse);
    })
}

#[test]
fn dense_attention_is_one_kernel() {
    for (shape, gap) in [
        (Shape { batch: 3, queries: 40, keys: 40, depth: 16, width: 24 }, 1.0),
        (Shape { batch: 2, queries: 300, keys: 70, depth: 9, width: 5 }, 1000.0),
        (Shape { batch: 1, queries: 7, keys: 700, depth: 64, width: 64 }, 690.0),
        // Early queries have no keys.
        (Shape { batch: 5, queries: 6, keys: 8, depth: 1, width: 1 }, -2.0),
        (Shape { batch: 9, queries: 1, keys: 33, depth: 32, width: 17 }, 30.0),
        (Shape { batch: 1, queries: 1, keys: 2, depth: 3, width: 2 }, 9.0),
    ] {
        let graph = dense(shape, DType::F32, gap);
        assert_eq!(kinds(&graph), ["attention"], "{shape:?}");
        check_given(&graph, 1e-5, &[]);
    }
}

#[test]
fn attention_works_in_all_float_types() {
    let shape = Shape { batch: 2, queries: 20, keys: 30, depth: 8, width: 12 };
    for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F16, 1e-2), (DType::BF16, 5e-2)] {
        let graph = dense(shape, dtype, 1.0);
        assert_eq!(kinds(&graph), ["attention"]);
        check_given(&graph, tolerance, &[]);
    }
}

#[test]
fn sparse_attention_is_one_kernel() {
    for (batch, keys, depth, width, n_tokens) in
        [(50, 8, 16, 16, 7), (300, 65, 64, 64, 7), (1, 5, 3, 2, 7), (33, 2, 1, 70, 9)]
    {
        let graph = sparse(Shape { batch, queries: 1, keys, depth, width }, n_tokens);
        assert_eq!(kinds(&graph), ["attention"]);
        check_given(&graph, 1e-5, &[]);
    }
}

#[test]
fn selecting_all_keys_gives_the_dense_result() {
    let shape = Shape { batch: 40, queries: 1, keys: 60, depth: 16, width: 8 };
    let all: Vec<f64> = (0..40 * 60).map(|i| (i % 60) as f64).collect();
    let mut some = Run::new(&sparse(shape, 60), true, 2, &HashMap::from([("idx".to_string(), all)]));
    some.executable.run(0, 1).unwrap();
    let whole = graph(|b| {
        let (q, k, v) = (f32s(b, "q", &[40, 16]), f32s(b, "k", &[60, 16]), f32s(b, "v", &[60, 8]));
        let scores = b.matmul(q, k, along((1, 1), false));
        let scores = b.scale(scores, 0.5);
        let (weights, lse) = masked_softmax(b, scores);
        let y = b.matmul(weights, v, along((1, 0), false));
        output(b, "y", y);
        output(b, "lse", lse);
    });
    assert_eq!(kinds(&whole), ["attention"]);
    let mut all = Run::new(&whole, true, 2, &HashMap::new());
    all.executable.run(0, 1).unwrap();
    for name in ["y", "lse"] {
        let ty = ty(DType::F32, &[some.output(name).len() / 4]);
        let (some, all) = (numbers_of(&ty, &some.output(name)), numbers_of(&ty, &all.output(name)));
        let furthest = some.iter().zip(&all).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(furthest < 1e-5, "`{name}` differs by {furthest}");
    }
}

#[test]
fn a_selected_key_out_of_range_is_an_error() {
    let graph = sparse(Shape { batch: 3, queries: 1, keys: 4, depth: 8, width: 8 }, 5);
    let mut idx = vec![1.0; 12];
    idx[6] = 5.0;
    let mut run = Run::new(&graph, true, 1, &HashMap::from([("idx".to_string(), idx)]));
    let error = run.executable.run(0, 1).unwrap_err();
    let found = (6, 5, Requirement::Index { bound: 5 });
    let RunError::Assertion { position, value, requirement, .. } = error else { panic!("{error:?}") };
    assert_eq!((position, value, requirement), found);
}

#[test]
fn heads_that_share_keys_read_them_in_place() {
    let graph = graph(|b| {
        let q = f32s(b, "q", &[12, 5, 8]);
        let shared = |b: &mut Builder, name: &str| {
            let x = f32s(b, name, &[2, 2, 9, 8]);
            let dims: Vec<Dim> = [2, 2, 3, 9, 8].map(Dim::Fixed).to_vec();
            let x = b.broadcast_axes(x, &[0, 1, 3, 4], &dims);
            b.reshape(x, &[12, 9, 8])
        };
        let (k, v) = (shared(b, "k"), shared(b, "v"));
        let scores = b.matmul(q, k, along((2, 2), true));
        let (weights, _) = masked_softmax(b, scores);
        let y = b.matmul(weights, v, along((2, 1), true));
        output(b, "y", y);
    });
    assert_eq!(kinds(&graph), ["attention"]);
    let kernels = fuse(&graph, true).kernels;
    let engine_core::fusion::KernelBody::Attention(body) = &kernels[0].body else {
        panic!("an attend kernel")
    };
    assert!(body.key.window(9).is_some() && body.value.window(9).is_some(), "nothing is copied");
    check_given(&graph, 1e-5, &[]);
}

#[test]
fn queries_share_selected_keys() {
    let graph = graph(|b| {
        let (q, k, v) = (f32s(b, "q", &[3, 50, 8]), f32s(b, "k", &[3, 20, 8]), f32s(b, "v", &[3, 20, 4]));
        let idx = data(b, "idx", DType::U8, &[3, 6]);
        let k = b.gather(k, idx, 1, 1);
        let v = b.gather(v, idx, 1, 1);
        let bias = f32s(b, "bias", &[50, 6]);
        let scores = b.matmul(q, k, along((2, 2), true));
        let bias = b.broadcast_like(bias, scores);
        let scores = b.add(scores, bias);
        let (weights, _) = masked_softmax(b, scores);
        let y = b.matmul(weights, v, along((2, 1), true));
        output(b, "y", y);
    });
    assert_eq!(kinds(&graph), ["attention"]);
    check_given(&graph, 1e-5, &[]);
}

#[test]
fn rows_need_not_be_a_softmax() {
    let graph = graph(|b| {
        let (q, k, v) = (f32s(b, "q", &[70, 8]), f32s(b, "k", &[30, 8]), f32s(b, "v", &[30, 4]));
        let scores = b.matmul(q, k, along((1, 1), false));
        let weights = b.unary(Unary::Tanh, scores);
        let size = b.unary(Unary::Abs, weights);
        let total = b.sum(size, &[1]);
        let total = b.unreduce(total, &[1], weights);
        let weights = b.div(weights, total);
        let y = b.matmul(weights, v, along((1, 0), false));
        output(b, "y", y);
    });
    assert_eq!(kinds(&graph), ["attention"]);
    check_given(&graph, 1e-5, &[]);
}

#[test]
fn maps_follow_the_result() {
    let graph = graph(|b| {
        let (q, k, v) = (f32s(b, "q", &[70, 8]), f32s(b, "k", &[30, 8]), f32s(b, "v", &[30, 4]));
        let residual = f32s(b, "residual", &[70, 4]);
        let scores = b.matmul(q, k, along((1, 1), false));
        let (weights, _) = masked_softmax(b, scores);
        let y = b.matmul(weights, v, along((1, 0), false));
        let y = b.add(y, residual);
        let y = b.unary(Unary::Tanh, y);
        let y = b.reshape(y, &[7, 40]);
        output(b, "y", y);
    });
    assert_eq!(kinds(&graph), ["attention"]);
    check_given(&graph, 1e-5, &[]);
}

#[test]
fn weights_with_other_users_are_materialized() {
    let graph = graph(|b| {
        let (q, k, v) = (f32s(b, "q", &[70, 8]), f32s(b, "k", &[30, 8]), f32s(b, "v", &[30, 4]));
        let scores = b.matmul(q, k, along((1, 1), false));
        let (weights, _) = masked_softmax(b, scores);
        let y = b.matmul(weights, v, along((1, 0), false));
        output(b, "weights", weights);
        output(b, "y", y);
    });
    assert_eq!(kinds(&graph), ["matmul", "row", "matmul"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_shape(batch in 0usize..4, queries in 0usize..9, keys in 1usize..20, depth in 0usize..9, width in 0usize..9, gap in -3i32..20) {
        check_given(&dense(Shape { batch, queries, keys, depth, width }, DType::F32, gap as f64), 1e-5, &[]);
        check_given(&sparse(Shape { batch: batch * queries, queries: 1, keys, depth, width }, 7), 1e-5, &[]);
    }
}
