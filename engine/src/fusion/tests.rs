#![allow(clippy::unwrap_used)]
//! Plans of small graphs, as text.

mod attention;
mod columns;
mod copies;
mod joined;
mod moved;
mod narrow;
mod remade;
mod row_folds;
mod row_writes;
mod scans;
mod scatter;

use super::*;
use crate::device_model::DeviceModel;
use crate::ir::{
    Binary, Builder, Combine, DType, InputKind, Literal, MatmulSpec, Monoid, StateLink, Type, Unary, Value,
    parse,
};
use crate::op::Registry;
use expect_test::{Expect, expect};

fn f32s(extents: &[usize]) -> Type {
    Type::new(DType::F32, extents)
}

/// One line per kernel: kind, tensors that it reads and tensors that it writes.
fn signature(graph: &Graph) -> String {
    signature_with(graph, &Settings::default())
}

fn signature_with(graph: &Graph, settings: &Settings) -> String {
    let kernels = fuse_with(graph, settings).kernels;
    assert_eq!(verify(graph, &kernels), Vec::<String>::new());
    let list = |kernel: &Kernel, usage: Use| -> String {
        let names = kernel.uses(usage).map(|operand| graph.name_of(operand.value).to_string());
        names.collect::<Vec<_>>().join(" ")
    };
    let line = |kernel: &Kernel| {
        format!("{}: {} -> {}\n", kernel.kind(), list(kernel, Use::Read), list(kernel, Use::Write))
    };
    kernels.iter().map(line).collect()
}

fn check(graph: Graph, expected: Expect) {
    expected.assert_eq(&signature(&graph.pruned()));
}

fn with_builder(build: impl FnOnce(&mut Builder)) -> Graph {
    let registry = Registry::new();
    let mut builder = Builder::new(Graph::new("test"), &registry);
    build(&mut builder);
    builder.graph
}

fn output(b: &mut Builder, name: &str, value: Value) {
    b.graph.outputs.push((name.into(), value));
}

#[test]
fn every_pass_does_what_its_example_shows() {
    for pass in PASSES {
        let (name, example) = (pass.name(), pass.example());
        let graph =
            parse(example.graph, &Registry::new()).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let on = |device: DeviceModel| Settings { device, ..Settings::default() };
        let with =
            [DeviceModel::CPU, DeviceModel::H200].map(on).into_iter().find(|settings| pass.pays_on(settings));
        let with = with.unwrap_or_else(|| panic!("{name} pays nowhere"));
        let without = Settings { without: vec![name.into()], ..with.clone() };
        assert_eq!(signature_with(&graph, &with).trim_end(), example.with, "with {name}");
        assert_eq!(signature_with(&graph, &without).trim_end(), example.without, "without {name}");
        assert!(pass.about().ends_with('.') && example.with != example.without, "{name}");
    }
}

fn row_softmax(b: &mut Builder, x: Value) -> Value {
    let m = b.reduce(Monoid::Max, x, &[1]);
    let m = b.unreduce(m, &[1], x);
    let shifted = b.sub(x, m);
    let e = b.unary(Unary::Exp, shifted);
    let s = b.sum(e, &[1]);
    let s = b.unreduce(s, &[1], x);
    b.div(e, s)
}

#[test]
fn a_softmax_is_one_row_kernel() {
    let graph = with_builder(|b| {
        let x = b.input("x", InputKind::Data, f32s(&[128, 1000]));
        let y = row_softmax(b, x);
        output(b, "y", y);
    });
    check(
        graph,
        expect![[r#"
        row: x -> t.7
    "#]],
    );
}

#[test]
fn noise_scale_and_softmax_are_one_row_kernel() {
    let graph = with_builder(|b| {
        let x = b.input("logits", InputKind::Data, f32s(&[128, 1000]));
        let v = b.input("values", InputKind::Param, f32s(&[1000, 64]));
        let bits = b.random_bits("u", &[128, 1000]);
        let u = b.cast(bits, DType::F32);
        let l = b.unary(Unary::Log, u);
        let noisy = b.add(x, l);
        let scaled = b.scale(noisy, 0.5);
        let y = row_softmax(b, scaled);
        let out = b.mm(y, v);
        output(b, "y", out);
    });
    check(
        graph,
        expect![[r#"
            row: logits step -> t.13
            matmul: t.13 values -> t.14
        "#]],
    );
}

#[test]
fn a_chain_of_maps_is_one_kernel_and_reads_each_tensor_once() {
    let graph = with_builder(|b| {
        let x = b.input("x", InputKind::Data, f32s(&[1 << 20]));
        let g = b.input("g", InputKind::Data, f32s(&[1 << 20]));
        let a = b.input("a", InputKind::Param, f32s(&[]));
        let y = b.mul(x, a);
        let y = b.add(y, a);
        let y = b.unary(Unary::Tanh, y);
        let y = b.mul(y, g);
        output(b, "y", y);
    });
    check(
        graph,
        expect![[r#"
        map: x a g -> t.6
    "#]],
    );
}

#[test]
fn a_long_column_sum_is_not_joined_to_what_reads_rows() {
    let graph = with_builder(|b| {
        let x = b.input("x", InputKind::Data, f32s(&[512, 512]));
        let e = b.unary(Unary::Exp, x);
        let rows = b.sum(e, &[1]);
        let columns = b.sum(e, &[0]);
        output(b, "rows", rows);
        output(b, "columns", columns);
    });
    check(
        graph,
        expect![[r#"
        row: x -> t.1 t.2
        row: t.1 -> t.3
    "#]],
    );
}

/// The rows of a step: 128 in the order of an epoch.
fn batch_of_rows(b: &mut Builder, order: Value) -> Value {
    let step = b.step();
    let steps = b.full(Literal::Int(468), Type::scalar(DType::I32));
    let at = b.binary(Binary::Rem, step, steps);
    let at = b.scale(at, 128.0);
    let i = b.iota(0, Type::new(DType::I32, &[128]));
    let i = b.add(at, i);
    b.gather(order, i, 0, 0)
}

/// One update of a parameter by its momentum.
fn momentum(b: &mut Builder, [param, grad]: [Value; 2], name: &str, shape: &[usize]) {
    let moment = b.input(&format!("{name}.m"), InputKind::State, f32s(shape));
    let m = b.scale(moment, 0.9);
    let g = b.scale(grad, 0.1);
    let m = b.add(m, g);
    let step = b.step();
    let lr = b.cast(step, DType::F32);
    let lr = b.unary(Unary::Sqrt, lr);
    let delta = b.mul(m, lr);
    let next = b.sub(param, delta);
    b.graph.state.push(StateLink { input: param.node, next });
    b.graph.state.push(StateLink { input: moment.node, next: m });
}

/// The training step of a 784-256-10 network, in primitives, by hand.
fn mnist_step() -> Graph {
    with_builder(|b| {
        let images = b.input("images", InputKind::Data, Type::new(DType::U8, &[60000, 784]));
        let labels = b.input("labels", InputKind::Data, Type::new(DType::U8, &[60000]));
        let order = b.input("order", InputKind::Data, Type::new(DType::I32, &[60000]));
        let shapes: [(&str, &[usize]); 4] =
            [("w1", &[784, 256]), ("b1", &[256]), ("w2", &[256, 10]), ("b2", &[10])];
        let params = shapes.map(|(name, shape)| b.input(name, InputKind::Param, f32s(shape)));
        let [w1, b1, w2, b2] = params;
        let rows = batch_of_rows(b, order);
        let x = b.gather(images, rows, 0, 0);
        let x = b.cast(x, DType::F32);
        let k = b.full_like(x, 255.0);
        let x = b.div(x, k);
        let label = b.gather(labels, rows, 0, 0);
        let label = b.cast(label, DType::I32);
        let pre = b.mm(x, w1);
        let pre = b.add(pre, b1);
        let zero = b.full_like(pre, 0.0);
        let h = b.binary(Binary::Max, pre, zero);
        let logits = b.mm(h, w2);
        let logits = b.add(logits, b2);
        let m = b.reduce(Monoid::Max, logits, &[1]);
        let mb = b.unreduce(m, &[1], logits);
        let shifted = b.sub(logits, mb);
        let e = b.unary(Unary::Exp, shifted);
        let s = b.sum(e, &[1]);
        let lse = b.unary(Unary::Log, s);
        let label2 = b.reshape(label, &[128, 1]);
        let checked = b.check_index(label2, 10);
        let picked = b.gather(logits, checked, 1, 1);
        let picked = b.reshape(picked, &[128]);
        let picked = b.sub(picked, m);
        let nll = b.sub(lse, picked);
        let loss = b.mean(nll, &[0]);
        output(b, "loss", loss);
        let sb = b.unreduce(s, &[1], logits);
        let p = b.div(e, sb);
        let classes = b.iota(1, Type::new(DType::I32, &[128, 10]));
        let label_b = b.broadcast_axes(label, &[0], &[128usize.into(), 10usize.into()]);
        let hit = b.binary(Binary::Eq, classes, label_b);
        let hit = b.cast(hit, DType::F32);
        let d = b.sub(p, hit);
        let d = b.scale(d, 1.0 / 128.0);
        let db2 = b.sum(d, &[0]);
        let dw2 = b.matmul(h, d, MatmulSpec::new(vec![], vec![(0, 0)]));
        let dh = b.matmul(d, w2, MatmulSpec::new(vec![], vec![(1, 1)]));
        let mask = b.binary(Binary::Gt, h, zero);
        let dh = b.scalar(crate::ir::Scalar::Select, &[mask, dh, zero]);
        let db1 = b.sum(dh, &[0]);
        let dw1 = b.matmul(x, dh, MatmulSpec::new(vec![], vec![(0, 0)]));
        for ((param, grad), (name, shape)) in params.into_iter().zip([dw1, db1, dw2, db2]).zip(shapes) {
            momentum(b, [param, grad], name, shape);
        }
    })
}

#[test]
fn an_mnist_step_is_nine_kernels() {
    check(
        mnist_step(),
        expect![[r#"
            map: step order images -> t.12
            matmul: t.12 w1 b1 -> t.19
            matmul: t.19 w2 b2 -> t.22
            row: t.22 step order labels -> t.34 t.46
            row: t.34 -> t.37
            matmul: t.19 t.46 -> t.48 t.47
            matmul: t.46 w2 t.19 -> t.51
            matmul: t.12 t.51 -> t.53 t.52
            segmented map: w1.m t.53 w1 step b1.m t.52 b1 w2.m t.48 w2 b2.m t.47 b2 -> t.58 t.63 t.68 t.73 t.78 t.83 t.88 t.93
        "#]],
    );
}

#[test]
fn without_fusion_every_node_that_works_is_a_kernel() {
    let graph = mnist_step().pruned();
    let views = |node: &crate::ir::Node| {
        matches!(
            node.op,
            crate::ir::NodeOp::View(_)
                | crate::ir::NodeOp::Const(_)
                | crate::ir::NodeOp::Iota { .. }
                | crate::ir::NodeOp::Input(_)
        )
    };
    let working = graph.nodes.iter().filter(|node| !views(node)).count();
    assert_eq!(fuse(&graph, false).kernels.len(), working);
}

fn product_and_argmax(n: usize, is_output: bool) -> Graph {
    with_builder(|b| {
        let x = b.input("x", InputKind::Data, f32s(&[100, 32]));
        let w = b.input("w", InputKind::Param, f32s(&[32, n]));
        let y = b.mm(x, w);
        let best = b.reduce(Monoid::ArgMax, y, &[1]);
        output(b, "best", best);
        if is_output {
            output(b, "y", y);
        }
    })
}

#[test]
fn a_product_that_only_an_argmax_of_long_rows_reads_is_never_stored() {
    check(
        product_and_argmax(1000, false),
        expect![[r#"
            matmul: x w -> t.2
        "#]],
    );
    let reason = |n: usize, is_output: bool| {
        let fused = fuse(&product_and_argmax(n, is_output).pruned(), true);
        fused.not_fused.iter().map(|edge| edge.reason.clone()).collect::<Vec<_>>().join("; ")
    };
    expect!["the product has other users (800000 bytes through memory)"].assert_eq(&reason(1000, true));
    expect!["rows this short are faster to store and read from cache (20000 bytes through memory)"]
        .assert_eq(&reason(25, false));
}

// ---- `fuse: Never`, and passes that are switched off.

/// A bias, an activation and a row maximum behind a product. The node `no_fuse` has `fuse: Never`.
fn layer(no_fuse: &str) -> Graph {
    let text = "graph layer {
          input x: f32[512, 300]
          input w: f32[300, 400]
          input b: f32[400]
          p: f32[512, 400] = .matmul(x, w, contracted=[[1, 0]])
          wide: f32[512, 400] = .broadcast(b, axes=[1])
          q: f32[512, 400] = .add(p, wide)
          h: f32[512, 400] = .tanh(q)
          e: f32[512, 400] = .exp(h)
          m: f32[512] = .max(e, axes=[1])
          s: f32[512] = .sum(e, axes=[1])
          output m = m
          output s = s
        }";
    let marked = format!("\n          [{no_fuse}] {no_fuse}: ");
    let text = text.replace(&format!("\n          {no_fuse}: "), &marked);
    parse(&text, &Registry::new()).unwrap()
}

fn reasons(graph: &Graph, settings: &Settings) -> Vec<String> {
    let line = |edge: &NotFused| {
        let (from, to) = (graph.name_of(edge.from), graph.node(edge.to).name());
        format!("{from} {to}: {}", edge.reason)
    };
    fuse_with(graph, settings).not_fused.iter().map(line).collect()
}

#[test]
fn a_node_that_is_never_fused_is_a_kernel_of_its_own() {
    let free = "matmul: x w b -> e\nrow: e -> m s\n";
    assert_eq!(signature(&layer("nothing")), free);
    assert_eq!(signature(&layer("h")), "matmul: x w b -> q\nmap: q -> h\nrow: h -> m s\n");
    assert_eq!(signature(&layer("p")), "matmul: x w -> p\nrow: p b -> m s\n");
    assert_eq!(signature(&layer("m")), "matmul: x w b -> e\nrow: e -> m\nrow: e -> s\n");
    assert_eq!(signature(&layer("wide")), "map: b -> wide\nmatmul: x w wide -> e\nrow: e -> m s\n");
}

#[test]
fn an_edge_of_a_node_that_is_never_fused_says_so() {
    expect![[r#"
        [
            "q h: `fuse: Never` keeps them apart (1638400 bytes through memory)",
            "h e: `fuse: Never` keeps them apart (1638400 bytes through memory)",
        ]
    "#]]
    .assert_debug_eq(&reasons(&layer("h"), &Settings::default()));
}

#[test]
fn equal_maps_of_two_nodes_stay_apart() {
    let graph = |mark: &str| {
        let text = format!(
            "graph g {{
               input x: f32[300, 300]
               input y: f32[200, 300]
               a: f32[300, 300] = .exp(x)
               {mark}b: f32[200, 300] = .exp(y)
               output a = a
               output b = b
             }}"
        );
        parse(&text, &Registry::new()).unwrap()
    };
    assert_eq!(signature(&graph("")), "segmented map: x y -> a b\n");
    assert_eq!(signature(&graph("[b] ")), "map: x -> a\nmap: y -> b\n");
}

/// `x * sigmoid(x)` of a product, then a diamond within a diamond; and the same where a value in between is a result, is
/// summed, or is kept apart.
#[test]
fn an_epilogue_takes_in_maps_whose_uses_meet() {
    let graph = |mark: &str, more: &str| {
        let text = format!(
            "graph g {{
               input x: f32[512, 300]
               input w: f32[300, 400]
               p: f32[512, 400] = .matmul(x, w, contracted=[[1, 0]])
               a: f32[512, 400] = .exp(p)
               b: f32[512, 400] = .tanh(a)
               {mark}c: f32[512, 400] = .mul(a, b)
               y: f32[512, 400] = .mul(c, p)
               {more}
               output y = y
             }}"
        );
        parse(&text, &Registry::new()).unwrap()
    };
    assert_eq!(signature(&graph("", "")), "matmul: x w -> y\n");
    assert_eq!(signature(&graph("", "output c = c")), "matmul: x w -> p\nmap: p -> c y\n");
    assert_eq!(
        signature(&graph("[c] ", "")),
        "matmul: x w -> p\nmap: p -> a b\nmap: a b -> c\nmap: c p -> y\n"
    );
    let summed = "s: f32[512] = .sum(a, axes=[1])\noutput s = s";
    assert_eq!(signature(&graph("", summed)), "matmul: x w -> p\nrow: p -> y s\n");
}

#[test]
fn passes_can_be_switched_off_by_name() {
    let kinds = |without: &str| {
        let settings = Settings { without: vec![without.into()], ..Settings::default() };
        let fused = fuse_with(&layer("nothing"), &settings);
        assert_eq!(verify(&layer("nothing"), &fused.kernels), Vec::<String>::new());
        fused.kernels.iter().map(|kernel| kernel.kind()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(kinds("nothing"), "matmul row");
    assert_eq!(kinds("epilogues"), "matmul row");
    assert_eq!(kinds("edges"), "matmul row");
    assert_eq!(kinds("siblings"), "matmul row row");
}

#[test]
fn fuel_lets_kernels_grow_one_by_one() {
    let graph = layer("nothing");
    let n_kernels = |fuel: usize| {
        let kernels = fuse_with(&graph, &Settings { fuel, ..Settings::default() }).kernels;
        assert_eq!(verify(&graph, &kernels), Vec::<String>::new());
        kernels.len()
    };
    let counts: Vec<usize> = (0..5).map(n_kernels).collect();
    assert!(counts.windows(2).all(|pair| pair[0] >= pair[1]), "{counts:?}");
    assert_eq!((counts[0], counts[4]), (6, 2));
    let held = reasons(&graph, &Settings { fuel: 0, ..Settings::default() });
    assert!(held.iter().any(|reason| reason.contains("the settings hold fusion back")), "{held:?}");
}

#[test]
fn a_missing_kernel_and_a_wrong_order_are_noticed() {
    let graph = layer("h");
    let mut kernels = fuse(&graph, true).kernels;
    assert_eq!(verify(&graph, &kernels), Vec::<String>::new());
    kernels.swap(0, 1);
    assert_eq!(verify(&graph, &kernels), ["kernel `h`: `q` is read before it is written"]);
    kernels.pop();
    kernels.push(kernels[0].clone());
    assert_eq!(verify(&graph, &kernels)[1..], ["`h` is written twice", "no kernel writes `m`"]);
}

/// Kernels have so many operations at most, so that a long chain compiles in linear time.
#[test]
fn a_long_chain_of_maps_is_several_kernels() {
    let graph = with_builder(|b| {
        let x = b.input("x", InputKind::Data, f32s(&[64]));
        let y = (0..2500).fold(x, |y, _| b.unary(Unary::Tanh, y));
        output(b, "y", y);
    });
    let kernels = fuse_with(&graph, &Settings::default()).kernels;
    assert_eq!(kernels.iter().map(|kernel| kernel.nodes.len()).collect::<Vec<_>>(), [1024, 1024, 452]);
}

/// Rows of keys and of values in one tensor are taken apart by one kernel, since a launch takes longer than its points.
#[test]
fn few_points_of_different_elements_are_one_kernel() {
    let graph = |n: usize| {
        with_builder(|b| {
            let x = b.input("x", InputKind::Data, f32s(&[3 * n]));
            let [first, second] = [0, n].map(|start| b.slice(x, &[start], &[n], &[1]));
            let first = b.unary(Unary::Exp, first);
            let second = b.unary(Unary::Tanh, second);
            output(b, "first", first);
            output(b, "second", second);
        })
    };
    let n_kernels = |n: usize| fuse_with(&graph(n).pruned(), &Settings::default()).kernels.len();
    assert_eq!([n_kernels(64), n_kernels(1 << 16)], [1, 2]);
}
