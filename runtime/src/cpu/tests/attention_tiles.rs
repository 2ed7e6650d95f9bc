//! Attention in tiles, and its gradient, against the oracle, fused and unfused.

use super::attention::{Shape, along, causal, kinds, masked_softmax};
use super::*;

/// What happens to the scores before the softmax.
#[derive(Clone, Copy, Debug)]
enum Scores {
    Plain,
    /// Keys that lie this far or further after their query are hidden.
    Causal(f64),
    /// Causal, and keys this far or further before their query are hidden.
    Window(f64, f64),
    /// A bias by query and key, from memory.
    Bias,
    /// `50·tanh(x / 50)`
    SoftCap,
    /// Truth values by query and key, from memory, and causal.
    Mask,
}

fn scored(b: &mut Builder, x: Value, how: Scores) -> Value {
    let x = b.scale(x, 0.125);
    match how {
        Scores::Plain => x,
        Scores::Causal(gap) => causal(b, x, gap),
        Scores::Window(gap, width) => {
            let x = causal(b, x, gap);
            let (rank, ty) = (b.ty(x).rank(), b.ty(x).with_dtype(DType::I32));
            let row = b.push(NodeOp::Iota { axis: rank - 2 }, vec![], ty.clone());
            let column = b.push(NodeOp::Iota { axis: rank - 1 }, vec![], ty);
            b.map(&[row, column, x], |v| E::select((v[0] - v[1]).lt(width), v[2], f64::NEG_INFINITY))
        }
        Scores::Bias => {
            let extents = b.extents(x);
            let bias = data(b, "bias", b.dtype(x), &extents[1..]);
            let bias = b.broadcast_like(bias, x);
            b.add(x, bias)
        }
        Scores::SoftCap => b.map(&[x], |x| (x[0] * 0.02).tanh() * 50.0),
        Scores::Mask => {
            let extents = b.extents(x);
            let mask = data(b, "mask", DType::I32, &extents[1..]);
            let mask = b.broadcast_like(mask, x);
            let x = b.map(&[mask, x], |v| E::select(v[0].ne(0i64), v[1], f64::NEG_INFINITY));
            causal(b, x, 3.0)
        }
    }
}

struct Given {
    q: Value,
    k: Value,
    v: Value,
}

fn given(b: &mut Builder, shape: Shape, dtype: DType) -> Given {
    let Shape { batch, queries, keys, depth, width } = shape;
    Given {
        q: data(b, "q", dtype, &[batch, queries, depth]),
        k: data(b, "k", dtype, &[batch, keys, depth]),
        v: data(b, "v", dtype, &[batch, keys, width]),
    }
}

/// `y` and `lse`, and where asked for the gradients of queries, keys and values from `dy`.
fn attention(shape: Shape, dtype: DType, how: Scores, with_gradient: bool) -> Graph {
    graph(|b| {
        let Given { q, k, v } = given(b, shape, dtype);
        let scores = b.matmul_wide(q, k, along((2, 2), true));
        let scores = scored(b, scores, how);
        let (weights, lse) = masked_softmax(b, scores);
        let weights = b.cast(weights, dtype);
        let y = b.matmul(weights, v, along((2, 1), true));
        output(b, "y", y);
        output(b, "lse", lse);
        if with_gradient {
            gradient(b, Given { q, k, v }, [y, lse], how);
        }
    })
}

fn gradient(b: &mut Builder, Given { q, k, v }: Given, [y, lse]: [Value; 2], how: Scores) {
    let dtype = b.dtype(q);
    let extents = b.extents(y);
    let dy = data(b, "dy", dtype, &extents);
    let scores = b.matmul_wide(q, k, along((2, 2), true));
    let scores = scored_again(b, scores, how);
    let lse = b.map(&[lse], |x| E::select(x[0].eq(f64::NEG_INFINITY), 0.0, x[0]));
    let lse = b.unreduce(lse, &[2], scores);
    let p = b.map(&[scores, lse], |v| (v[0] - v[1]).exp());
    let dp = b.matmul_wide(dy, v, along((2, 2), true));
    let (wide_dy, wide_y) = (b.cast(dy, b.dtype(p)), b.cast(y, b.dtype(p)));
    let products = b.mul(wide_dy, wide_y);
    let total = b.sum(products, &[2]);
    let total = b.unreduce(total, &[2], scores);
    let ds = b.map(&[p, dp, total], |v| v[0] * (v[1] - v[2]) * 0.125);
    let (p, ds) = (b.cast(p, dtype), b.cast(ds, dtype));
    let dv = b.matmul(p, dy, along((1, 1), true));
    let dq = b.matmul(ds, k, along((2, 1), true));
    let dk = b.matmul(ds, q, along((1, 1), true));
    output(b, "dq", dq);
    output(b, "dk", dk);
    output(b, "dv", dv);
}

/// The same scores; inputs have their names already.
fn scored_again(b: &mut Builder, x: Value, how: Scores) -> Value {
    let input = |b: &Builder, name: &str| {
        let named = b.graph.inputs().find(|(node, _)| &**b.graph.nodes[*node].name() == name);
        Value::of(named.unwrap().0)
    };
    match how {
        Scores::Bias => {
            let x = b.scale(x, 0.125);
            let bias = input(b, "bias");
            let bias = b.broadcast_like(bias, x);
            b.add(x, bias)
        }
        Scores::Mask => {
            let x = b.scale(x, 0.125);
            let mask = input(b, "mask");
            let mask = b.broadcast_like(mask, x);
            let x = b.map(&[mask, x], |v| E::select(v[0].ne(0i64), v[1], f64::NEG_INFINITY));
            causal(b, x, 3.0)
        }
        how => scored(b, x, how),
    }
}

const SHAPE: Shape = Shape { batch: 2, queries: 150, keys: 300, depth: 8, width: 12 };

fn all_scores() -> [Scores; 8] {
    [
        Scores::Plain,
        Scores::Causal(151.0),
        // Early queries see no keys.
        Scores::Causal(-70.0),
        Scores::Window(1.0, 40.0),
        Scores::Window(100.0, -90.0),
        Scores::Bias,
        Scores::SoftCap,
        Scores::Mask,
    ]
}

#[test]
fn rows_of_many_keys_in_tiles() {
    for how in all_scores() {
        check_given(&attention(SHAPE, DType::F32, how, false), 1e-5, &[]);
    }
    for (batch, queries, keys, depth, width) in
        [(1, 4, 257, 3, 1), (3, 129, 513, 16, 40), (1, 300, 260, 1, 5), (20, 17, 400, 33, 64)]
    {
        let shape = Shape { batch, queries, keys, depth, width };
        for how in [Scores::Plain, Scores::Causal(1.0)] {
            check_given(&attention(shape, DType::F32, how, false), 1e-5, &[]);
        }
    }
}

#[test]
fn tiles_in_all_float_types() {
    for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F16, 1e-2), (DType::BF16, 5e-2)] {
        for how in [Scores::Causal(151.0), Scores::Causal(-70.0)] {
            check_given(&attention(SHAPE, dtype, how, false), tolerance, &[]);
        }
    }
}

/// A query that sees no key yields 0, and the logarithm -inf.
#[test]
fn queries_without_keys_yield_zeros() {
    let graph = attention(SHAPE, DType::F32, Scores::Causal(-70.0), false);
    let mut run = Run::new(&graph, true, 2, &HashMap::new());
    run.executable.run(0, 1).unwrap();
    let y = numbers_of(&ty(DType::F32, &[2 * 150 * 12]), &run.output("y"));
    let lse = numbers_of(&ty(DType::F32, &[2 * 150]), &run.output("lse"));
    for row in 0..300 {
        let is_hidden = row % 150 <= 70;
        assert_eq!(lse[row] == f64::NEG_INFINITY, is_hidden, "row {row}");
        assert_eq!(y[row * 12..][..12].iter().all(|&y| y == 0.0), is_hidden, "row {row}");
    }
}

/// The first query is NaN, the second one infinite; a key that only late queries see is NaN.
#[test]
fn nan_and_infinities_poison_the_rows_that_see_them() {
    let graph = attention(SHAPE, DType::F32, Scores::Causal(1.0), false);
    let mut q = numbers("q", &ty(DType::F32, &[2, 150, 8]));
    let mut k = numbers("k", &ty(DType::F32, &[2, 300, 8]));
    (q[0], q[8 * 9]) = (f64::NAN, f64::INFINITY);
    k[8 * 140] = f64::NAN;
    let mut run = Run::new(&graph, true, 2, &HashMap::from([("q".into(), q), ("k".into(), k)]));
    run.executable.run(0, 1).unwrap();
    let y = numbers_of(&ty(DType::F32, &[2 * 150 * 12]), &run.output("y"));
    for row in 0..300 {
        let is_poisoned = row == 0 || row == 9 || (140..150).contains(&row);
        assert_eq!(y[row * 12].is_nan(), is_poisoned, "row {row}");
    }
}

#[test]
fn an_unguarded_softmax_without_visible_keys_is_nan() {
    let graph = graph(|b| {
        let Given { q, k, v } = given(b, SHAPE, DType::F32);
        let scores = b.matmul(q, k, along((2, 2), true));
        let scores = causal(b, scores, -70.0);
        let weights = softmax(b, scores, 2);
        let y = b.matmul(weights, v, along((2, 1), true));
        output(b, "y", y);
    });
    assert_eq!(kinds(&graph), ["attention"]);
    check_given(&graph, 1e-5, &[]);
}

#[test]
fn exponentials_without_a_shift_are_added_up_as_they_are() {
    let graph = graph(|b| {
        let Given { q, k, v } = given(b, SHAPE, DType::F32);
        let scores = b.matmul(q, k, along((2, 2), true));
        let e = b.unary(Unary::Exp, scores);
        let sum = b.sum(e, &[2]);
        let sum = b.unreduce(sum, &[2], e);
        let weights = b.div(e, sum);
        let y = b.matmul(weights, v, along((2, 1), true));
        output(b, "y", y);
    });
    assert_eq!(kinds(&graph), ["attention"]);
    check_given(&graph, 1e-5, &[]);
}

#[test]
fn maps_follow_the_tiles() {
    let graph = graph(|b| {
        let Given { q, k, v } = given(b, SHAPE, DType::F32);
        let residual = f32s(b, "residual", &[2, 150, 12]);
        let scores = b.matmul(q, k, along((2, 2), true));
        let (weights, _) = masked_softmax(b, scores);
        let y = b.matmul(weights, v, along((2, 1), true));
        let y = b.add(y, residual);
        let y = b.unary(Unary::Tanh, y);
        output(b, "y", y);
    });
    assert_eq!(kinds(&graph), ["attention"]);
    check_given(&graph, 1e-5, &[]);
}

// ---- Gradients.

/// The gradient is one kernel beside the attention and the sums of `dy·y`, and nothing has the size of the scores.
fn assert_fused(graph: &Graph, n_scores: usize) {
    let kernels = fuse(graph, true).kernels;
    let n_gradients = kernels.iter().filter(|kernel| kernel.kind() == "attention gradient").count();
    assert_eq!(n_gradients, 1, "{:?}", kinds(graph));
    for kernel in &kernels {
        assert!(kernel.operands.iter().all(|operand| operand.ty.numel() < n_scores));
        assert!(kernel.workspace_bytes() < 4 * n_scores || kernel.kind() != "attention");
    }
}

#[test]
fn the_gradient_of_attention_is_one_kernel() {
    for how in all_scores() {
        let graph = attention(SHAPE, DType::F32, how, true);
        if !matches!(how, Scores::Bias | Scores::Mask) {
            assert_fused(&graph, 2 * 150 * 300);
        }
        check_given(&graph, 2e-5, &[]);
    }
}

#[test]
fn gradients_of_ragged_shapes() {
    for (batch, queries, keys, depth, width) in [
        (1, 5, 2, 3, 1),
        (3, 129, 130, 16, 40),
        (1, 300, 60, 1, 5),
        (9, 17, 140, 33, 20),
        (8, 1, 7, 4, 4),
        (1, 700, 20, 2, 3),
    ] {
        let shape = Shape { batch, queries, keys, depth, width };
        for how in [Scores::Plain, Scores::Causal(1.0)] {
            check_given(&attention(shape, DType::F32, how, true), 3e-5, &[]);
        }
    }
}

#[test]
fn gradients_in_all_float_types() {
    let shape = Shape { batch: 2, queries: 40, keys: 150, depth: 8, width: 12 };
    for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F16, 2e-2), (DType::BF16, 1e-1)] {
        let graph = attention(shape, dtype, Scores::Causal(100.0), true);
        assert_fused(&graph, 2 * 40 * 150);
        check_given(&graph, tolerance, &[]);
    }
}

/// Values of rows may be read between the products and at their users.
#[test]
fn two_matmuls_whose_maps_have_other_users_stay_apart() {
    let graph = graph(|b| {
        let Given { q, k, v } = given(b, SHAPE, DType::F32);
        let dy = f32s(b, "dy", &[2, 150, 12]);
        let scores = b.matmul(q, k, along((2, 2), true));
        let p = b.unary(Unary::Tanh, scores);
        let dp = b.matmul(dy, v, along((2, 2), true));
        let ds = b.mul(p, dp);
        let (dq, dk) = (b.matmul(ds, k, along((2, 1), true)), b.matmul(ds, q, along((1, 1), true)));
        let total = b.sum(ds, &[2]);
        output(b, "dq", dq);
        output(b, "dk", dk);
        output(b, "total", total);
    });
    assert!(!kinds(&graph).contains(&"attention gradient"));
    check_given(&graph, 1e-4, &[]);
}
