//! Attention: graphs that become one kernel, and graphs that do not.

use super::*;
use crate::device_model::{DeviceModel, KernelLimits};
use crate::ir::{Dim, E, NodeOp};

fn batched(pair: (usize, usize)) -> MatmulSpec {
    MatmulSpec::new(vec![(0, 0)], vec![pair])
}

fn softmax(b: &mut Builder, x: Value) -> (Value, Value) {
    let axis = b.ty(x).rank() - 1;
    let m = b.reduce(Monoid::Max, x, &[axis]);
    let spread = b.unreduce(m, &[axis], x);
    let shifted = b.sub(x, spread);
    let e = b.unary(Unary::Exp, shifted);
    let s = b.sum(e, &[axis]);
    let log = b.unary(Unary::Log, s);
    let lse = b.add(log, m);
    let s = b.unreduce(s, &[axis], x);
    (b.div(e, s), lse)
}

fn inputs(b: &mut Builder, extents: [usize; 3]) -> [Value; 3] {
    ["q", "k", "v"].map(|name| b.input(name, InputKind::Data, f32s(&extents)))
}

/// Scores with -inf for keys after the query.
fn causal(b: &mut Builder, scores: Value) -> Value {
    let ty = Type::new(DType::I32, &[512, 512]);
    let (row, column) = (b.iota(0, ty.clone()), b.iota(1, ty));
    let seen = b.binary(Binary::Le, column, row);
    let shape = b.ty(scores).shape.clone();
    let seen = b.broadcast_dims(seen, &shape);
    let hidden = b.full_like(scores, f64::NEG_INFINITY);
    b.scalar(crate::ir::Scalar::Select, &[seen, scores, hidden])
}

#[test]
fn a_causal_chain_is_one_kernel_that_reads_no_mask() {
    let graph = with_builder(|b| {
        let [q, k, v] = inputs(b, [6, 512, 64]);
        let scores = b.matmul(q, k, batched((2, 2)));
        let scores = b.scale(scores, 0.125);
        let scores = causal(b, scores);
        let (weights, lse) = softmax(b, scores);
        let y = b.matmul(weights, v, batched((2, 1)));
        output(b, "y", y);
        output(b, "lse", lse);
    });
    let kernels = fuse(&graph, true).kernels;
    expect![[r#"
        attention t.16  # gemm mul select reduce_max sub exp reduce_sum log add div gemm
          reads 2359296 B, writes 798720 B, 413669376 flop
          read @0 q: f32[6, 512, 64]
          read @1 k: f32[6, 512, 64]
          read @2 v: f32[6, 512, 64]
          write @3 t.16: f32[6, 512]
          write @4 t.19: f32[6, 512, 64]
          batch 6 m 512 n 512 k 64 width 64 f32
          query %0
            points [3072, 64, 1]
            %0: f32 element = @0[196608:1]
          key %0
            points [3072, 64, 1]
            %0: f32 element = @1[196608:1]
          value %0
            points [3072, 64, 1]
            %0: f32 element = @2[196608:1]
          rows of scores, weight %12
            points [3072, 512, 1]
            %0: i32 element = point[3072:0, 512:1]
            %1: i32 row = point[6:0, 512:1]
            %2: bool element = le(%0, %1)
            %3: f32 element = accumulator
            %4: f32 uniform = 0.125
            %5: f32 element = mul(%3, %4)
            %6: f32 uniform = -inf
            %7: f32 element = select(%2, %5, %6)
            %8: f32 row = reduce_max(%7)
            %9: f32 element = sub(%7, %8)
            %10: f32 element = exp(%9)
            %11: f32 row = reduce_sum(%10)
            %12: f32 element = div(%10, %11)
            %13: f32 row = log(%11)
            %14: f32 row = add(%13, %8)
            @3[3072:1] = %14
          end
            points [3072, 64, 1]
            %0: f32 element = accumulator
            @4[196608:1] = %0
    "#]]
    .assert_eq(&kernels[0].describe(&graph));
    assert_eq!(kernels.len(), 1);
}

#[test]
fn selected_keys_are_read_through_their_indices() {
    let graph = with_builder(|b| {
        let q = b.input("q", InputKind::Data, f32s(&[1000, 64]));
        let k = b.input("k", InputKind::Data, f32s(&[5000, 64]));
        let v = b.input("v", InputKind::Data, f32s(&[5000, 32]));
        let idx = b.input("idx", InputKind::Data, Type::new(DType::I32, &[1000, 128]));
        let idx = b.check_index(idx, 5000);
        let (k, v) = (b.gather(k, idx, 0, 0), b.gather(v, idx, 0, 0));
        let scores = b.matmul(k, q, MatmulSpec::new(vec![(0, 0)], vec![(2, 1)]));
        let (weights, _) = softmax(b, scores);
        let y = b.matmul(weights, v, MatmulSpec::new(vec![(0, 0)], vec![(1, 1)]));
        output(b, "y", y);
    });
    let kernels = fuse(&graph, true).kernels;
    expect![[r#"
        attention t.14  # check gather gather gemm reduce_max sub exp reduce_sum log add div gemm
          reads 2688000 B, writes 128000 B, 25216000 flop
          read @0 q: f32[1000, 64]
          read @1 idx: i32[1000, 128]
          read @2 k: f32[5000, 64]
          read @3 v: f32[5000, 32]
          write @4 t.14: f32[1000, 32]
          batch 1000 m 1 n 128 k 64 width 32 f32
          query %0
            points [1000, 64, 1]
            %0: f32 element = @0[64000:1]
          key %2
            points [128000, 64, 1]
            %0: i32 row = @1[128000:1]
            %1: i32 row = check(%0, bound=5000)
            %2: f32 element = @2[128000:0, 64:1] + %1*64
          value %2
            points [128000, 32, 1]
            %0: i32 row = @1[128000:1]
            %1: i32 row = check(%0, bound=5000)
            %2: f32 element = @3[128000:0, 32:1] + %1*32
          rows of scores, weight %5
            points [1000, 128, 1]
            %0: f32 element = accumulator
            %1: f32 row = reduce_max(%0)
            %2: f32 element = sub(%0, %1)
            %3: f32 element = exp(%2)
            %4: f32 row = reduce_sum(%3)
            %5: f32 element = div(%3, %4)
          end
            points [1000, 32, 1]
            %0: f32 element = accumulator
            @4[32000:1] = %0
    "#]]
    .assert_eq(&kernels[0].describe(&graph));
}

#[test]
fn a_product_of_rows_without_a_reduction_stays_two_products() {
    let graph = with_builder(|b| {
        let [q, k, v] = inputs(b, [2, 40, 16]);
        let scores = b.matmul(q, k, batched((2, 2)));
        let h = b.unary(Unary::Tanh, scores);
        let y = b.matmul(h, v, batched((2, 1)));
        output(b, "y", y);
    });
    check(
        graph,
        expect![[r#"
            matmul: q k -> t.2
            matmul: t.2 v -> t.3
        "#]],
    );
}

#[test]
fn gathered_keys_with_other_users_are_read_through_their_indices() {
    let graph = with_builder(|b| {
        let q = b.input("q", InputKind::Data, f32s(&[300, 8]));
        let k = b.input("k", InputKind::Data, f32s(&[50, 8]));
        let idx = b.input("idx", InputKind::Data, Type::new(DType::I32, &[300, 70]));
        let k = b.gather(k, idx, 0, 0);
        let scores = b.matmul(q, k, MatmulSpec::new(vec![(0, 0)], vec![(1, 2)]));
        let (weights, _) = softmax(b, scores);
        let y = b.matmul(weights, k, MatmulSpec::new(vec![(0, 0)], vec![(1, 1)]));
        output(b, "y", y);
        output(b, "k", k);
    });
    check(
        graph,
        expect![[r#"
            map: idx k -> t.1
            attention: q idx k -> t.12
        "#]],
    );
}

/// The indices of the keys are computed and read in one kernel, which must store them for another one.
#[test]
fn indices_of_keys_with_other_users_are_stored() {
    let graph = with_builder(|b| {
        let x = b.input("x", InputKind::Data, f32s(&[4, 4]));
        let numbers = b.cast(x, DType::I32);
        let largest = b.reduce(Monoid::Max, numbers, &[1]);
        let chosen = b.check_index(largest, 4);
        let keys = b.gather(x, chosen, 0, 0);
        let by_rows = MatmulSpec::new(vec![], vec![(1, 1)]);
        let by_columns = MatmulSpec::new(vec![], vec![(1, 0)]);
        let scores = b.matmul(x, keys, by_rows);
        let (weights, _) = softmax(b, scores);
        let y = b.matmul(weights, x, by_columns);
        let others = b.add(keys, x);
        output(b, "y", y);
        output(b, "others", others);
    });
    for most_operands in [3, 4, 5, 12] {
        let kernels = KernelLimits { most_operands, ..KernelLimits::default() };
        let device = DeviceModel { kernels, ..DeviceModel::CPU };
        let kernels = fuse_with(&graph, &Settings { device, ..Settings::default() }).kernels;
        assert_eq!(verify(&graph, &kernels), Vec::<String>::new());
        assert!(kernels.iter().any(|kernel| kernel.kind() == "attention"));
        assert!(kernels.iter().all(|kernel| kernel.operands.len() <= most_operands), "{kernels:#?}");
    }
}

/// A cheap map would be computed inside if it were not the source of a gather.
#[test]
fn the_source_of_a_gather_by_scores_is_stored() {
    let graph = with_builder(|b| {
        let x = b.input("x", InputKind::Data, f32s(&[300, 300]));
        let by_columns = || MatmulSpec::new(vec![], vec![(1, 0)]);
        let scores = b.matmul(x, x, by_columns());
        let numbers = b.cast(scores, DType::I32);
        let largest = b.reduce(Monoid::Max, numbers, &[1]);
        let chosen = b.check_index(largest, 300);
        let twice = b.add(x, x);
        let weights = b.gather(twice, chosen, 0, 0);
        let y = b.matmul(weights, twice, by_columns());
        output(b, "y", y);
    });
    let kernels = fuse(&graph, true).kernels;
    assert_eq!(verify(&graph, &kernels), Vec::<String>::new());
}

#[test]
fn scores_that_a_gradient_needs_are_made_again() {
    let graph = with_builder(|b| {
        let [q, k, v] = inputs(b, [2, 300, 16]);
        let scores = b.matmul(q, k, batched((2, 2)));
        let scores = b.scale(scores, 0.25);
        let (weights, lse) = softmax(b, scores);
        let y = b.matmul(weights, v, batched((2, 1)));
        output(b, "y", y);
        let lse = b.unreduce(lse, &[2], scores);
        let again = b.map(&[scores, lse], |v: &[E]| (v[0] - v[1]).exp());
        let dv = b.matmul(again, y, batched((1, 1)));
        output(b, "dv", dv);
    });
    let registry = Registry::new();
    let graph = crate::lower::primitives(&graph, &registry);
    let separated = separate_scores(&graph, false);
    assert_eq!(crate::ir::verify(&separated, crate::ir::Level::Primitive), Ok(()));
    check(
        separated,
        expect![[r#"
            attention: q k v -> t.10 t.13
            matmul: q k t.10 -> t.15
            matmul: t.15 t.13 -> t.16
        "#]],
    );
}

#[test]
fn a_kernel_between_scores_and_weights_prevents_attention() {
    let graph = with_builder(|b| {
        let [q, k, v] = inputs(b, [1, 40, 16]);
        let scores = b.matmul(q, k, batched((2, 2)));
        let turned = b.permute(scores, &[0, 2, 1]);
        let turned = b.unary(Unary::Exp, turned);
        let scores = b.add(scores, turned);
        let (weights, _) = softmax(b, scores);
        let y = b.matmul(weights, v, batched((2, 1)));
        output(b, "y", y);
    });
    let kinds: Vec<&str> = fuse(&graph.pruned(), true).kernels.iter().map(|kernel| kernel.kind()).collect();
    assert!(!kinds.contains(&"attention"), "{kinds:?}");
}

#[test]
fn heads_that_share_keys_copy_none() {
    let graph = with_builder(|b| {
        let q = b.input("q", InputKind::Data, f32s(&[8, 20, 16]));
        let k = b.input("k", InputKind::Data, f32s(&[2, 30, 16]));
        let shape: Vec<Dim> = [2, 4, 30, 16].map(Dim::Fixed).to_vec();
        let k = b.broadcast_axes(k, &[0, 2, 3], &shape);
        let k = b.push(NodeOp::View(crate::ir::View::Reshape), vec![k], f32s(&[8, 30, 16]));
        let scores = b.matmul(q, k, batched((2, 2)));
        let (weights, _) = softmax(b, scores);
        let y = b.matmul(weights, k, batched((2, 1)));
        output(b, "y", y);
    });
    let kernels = fuse(&graph, true).kernels;
    let KernelBody::Attention(body) = &kernels[0].body else { panic!("{}", kernels[0].kind()) };
    let window = body.key.window(30).unwrap();
    assert_eq!((kernels.len(), window.strides, window.index), (1, [16, 1], None));
    assert_eq!([0, 3, 4, 7].map(|head| window.access.at(head * 30 * 16)), [0, 0, 480, 480].map(Ok));
}

/// A softmax between two matmuls, and gradients of all operands as autodiff makes them.
fn softmax_with_gradients() -> Graph {
    with_builder(|b| {
        let [q, k, v] = inputs(b, [2, 512, 16]);
        let dy = b.input("dy", InputKind::Data, f32s(&[2, 512, 16]));
        let scores = b.matmul(q, k, batched((2, 2)));
        let scores = causal(b, scores);
        let (weights, _) = softmax(b, scores);
        let y = b.matmul(weights, v, batched((2, 1)));
        let dv = b.matmul(weights, dy, batched((1, 1)));
        let slope = b.matmul(dy, v, batched((2, 2)));
        let products = b.mul(slope, weights);
        let total = b.sum(products, &[2]);
        let total = b.unreduce(total, &[2], slope);
        let centred = b.sub(slope, total);
        let ds = b.mul(weights, centred);
        let dq = b.matmul(ds, k, batched((2, 1)));
        let turned = b.matmul(q, ds, batched((1, 1)));
        let dk = b.permute(turned, &[0, 2, 1]);
        ["y", "dq", "dk", "dv"].iter().zip([y, dq, dk, dv]).for_each(|(name, value)| output(b, name, value));
    })
}

#[test]
fn a_spelled_out_softmax_and_its_gradient_are_two_kernels_and_sums_of_rows() {
    let registry = Registry::new();
    let graph = crate::lower::primitives(&softmax_with_gradients().pruned(), &registry);
    let separated = separate_scores(&graph, true);
    assert_eq!(crate::ir::verify(&separated, crate::ir::Level::Primitive), Ok(()));
    check(
        separated,
        expect![[r#"
            attention: q k v -> t.16.again.again t.17
            row: dy t.17 -> t.21.sums
            attention gradient: q k dy v t.16.again.again t.21.sums -> t.18 t.25 t.27
        "#]],
    );
}

#[test]
fn the_body_of_a_gradient_reads_rows_and_its_own_operands() {
    let registry = Registry::new();
    let graph = crate::lower::primitives(&softmax_with_gradients().pruned(), &registry);
    let graph = separate_scores(&graph, true);
    let kernels = fuse(&graph, true).kernels;
    let gradient = kernels.iter().find(|kernel| kernel.kind() == "attention gradient").unwrap();
    let text = gradient.describe(&graph);
    let points = &text[text.find("points\n    points").unwrap()..text.find("  sum over").unwrap()];
    expect![[r#"
        points
            points [1024, 512, 1]
            %0: i32 element = point[1024:0, 512:1]
            %1: i32 row = point[2:0, 512:1]
            %2: bool element = le(%0, %1)
            %3: f32 element = accumulator
            %4: f32 uniform = -inf
            %5: f32 element = select(%2, %3, %4)
            %6: f32 row = @4[1024:1]
            %7: f32 element = sub(%5, %6)
            %8: f32 element = exp(%7)
            %9: f32 element = second accumulator
            %10: f32 row = @5[1024:1]
            %11: f32 element = sub(%9, %10)
            %12: f32 element = mul(%8, %11)
    "#]]
    .assert_eq(points);
}

#[test]
fn a_device_without_the_kernel_keeps_matmuls() {
    let registry = Registry::new();
    let graph = crate::lower::primitives(&softmax_with_gradients().pruned(), &registry);
    let graph = separate_scores(&graph, false);
    let settings = Settings { device: DeviceModel::H200, ..Settings::default() };
    let kernels = fuse_with(&graph, &settings).kernels;
    assert!(kernels.iter().all(|kernel| kernel.kind() != "attention gradient"));
}

// ---- Marks.

/// The softmax with its gradients, whose nodes have marks.
fn marked(mark: impl Fn(&str) -> Option<&'static str>) -> Graph {
    let registry = Registry::new();
    let mut graph = crate::lower::primitives(&softmax_with_gradients().pruned(), &registry);
    for node in graph.nodes.iter_mut().filter(|node| !matches!(node.op, NodeOp::Input(_))) {
        node.no_fuse = mark(node.name()).map(Into::into);
    }
    separate_scores(&graph, true)
}

#[test]
fn a_recomputed_layer_has_the_kernels_of_a_plain_one() {
    let [recomputed, plain] =
        [Some("layer again"), None].map(|mark: Option<&'static str>| signature(&marked(|_| mark)));
    assert_eq!(recomputed, plain);
}

#[test]
fn marks_that_keep_nodes_apart_prevent_kernels_of_attention() {
    fn has_attention(mark: impl Fn(&str) -> Option<&'static str>) -> bool {
        signature(&marked(mark)).contains("attention")
    }
    assert!(has_attention(|_| None) && has_attention(|_| Some("layer again")));
    assert!(!has_attention(|_| Some("layer")), "`fuse: Never`");
    assert!(!has_attention(|_| Some("layer part 1")), "a part of an op");
    // The sum of exponentials and two matmuls of the gradient.
    let is_other = |name: &str| ["t.12", "t.18", "t.25"].contains(&name);
    assert!(!has_attention(|name| is_other(name).then_some("layer again")));
    assert!(!has_attention(|name| Some(if is_other(name) { "other again" } else { "layer again" })));
}
