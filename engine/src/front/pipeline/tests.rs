#![allow(clippy::unwrap_used)]

mod calls;
mod declarations;
mod expressions;
mod functions;
mod layers;
mod overrides;
mod stages;
mod training;

use super::*;
use crate::diag::Look;
use crate::ir::{Attr, DType, Dim, E, Literal, Type};
use crate::op::{
    AttrKind, AttrSpec, Grad, GradCheck, InputSpec, Lower, OpForm, Role, Rounding, TypeIssue, TypeRule,
};
use crate::pipeline::{Schedule, TrainStage};
use crate::work::counted::{assert_linear, work_of};
use expect_test::{Expect, expect};
use proptest::prelude::*;

// ---- A few ops.

fn op(name: &str, inputs: &[&str], attrs: Vec<AttrSpec>, types: TypeRule) -> OpForm {
    let input = |name: &&str| InputSpec::required(name, "an operand");
    OpForm {
        name: name.into(),
        family: "test".into(),
        summary: "Stands in for an op.".into(),
        inputs: inputs.iter().map(input).collect(),
        outputs: vec!["out".into()],
        attrs,
        types,
        lower: Lower::map(inputs.len(), |x: &[E]| x[0]),
        grad: Grad::rule(|b, call| {
            let zero = |&x: &_| b.dtype(x).is_float().then(|| b.full_like(x, 0.0));
            call.inputs.iter().map(zero).collect()
        }),
        check: GradCheck::None { why: "a stand-in" },
        examples: vec![],
        role: Role::Plain,
        rounding: Rounding::Never,
    }
}

fn setting(name: &str, kind: AttrKind, default: Option<Attr>) -> AttrSpec {
    AttrSpec { name: name.into(), doc: format!("what `{name}` decides"), kind, default, range: None }
}

fn first_type() -> TypeRule {
    TypeRule::custom(|types, _| Ok(vec![types[0].clone()]))
}

fn matmul_type() -> TypeRule {
    TypeRule::custom(|types, _| match (&types[0].shape[..], &types[1].shape[..]) {
        ([m, k], [l, n]) if k == l => {
            Ok(vec![Type { dtype: types[0].dtype, shape: vec![m.clone(), n.clone()] }])
        }
        _ => Err(TypeIssue::new(format!("cannot multiply {} by {}", types[0], types[1]))
            .at(1, format!("this is {}", types[1]))
            .help("the inner extents must agree")),
    })
}

fn reshape_type() -> TypeRule {
    TypeRule::custom(|types, attrs| {
        let shape = attrs.shape("shape");
        match Dim::product(&types[0].shape) == Dim::product(&shape) {
            true => Ok(vec![Type { dtype: types[0].dtype, shape }]),
            false => Err(TypeIssue::new(format!("{} has another number of elements", types[0]))),
        }
    })
}

/// All axes vanish, or the one given by `axis`.
fn reduced(dtype: Option<DType>, types: &[Type], attrs: &crate::ir::Attrs) -> Vec<Type> {
    let mut shape = types[0].shape.clone();
    match attrs.opt_int("axis") {
        Some(axis) if (axis as usize) < shape.len() => _ = shape.remove(axis as usize),
        _ => shape.clear(),
    }
    vec![Type { dtype: dtype.unwrap_or(types[0].dtype), shape }]
}

fn ops() -> Registry {
    let mut ops = Registry::new();
    let float: fn(DType) -> bool = DType::is_float;
    for name in ["add", "sub", "mul", "div", "pow", "maximum"] {
        ops.add(op(name, &["a", "b"], vec![], TypeRule::Broadcast { allowed: |dtype| dtype != DType::Bool }));
    }
    for name in ["neg", "relu", "sigmoid", "exp"] {
        ops.add(op(name, &["x"], vec![], TypeRule::Broadcast { allowed: float }));
    }
    for name in ["eq", "lt", "gt"] {
        ops.add(op(name, &["a", "b"], vec![], TypeRule::Compare));
    }
    ops.add(op("and", &["a", "b"], vec![], TypeRule::Broadcast { allowed: |dtype| dtype == DType::Bool }));
    let axis = |default| setting("axis", AttrKind::Int, default);
    ops.add(op("softmax", &["x"], vec![axis(Some(Attr::Lit(Literal::Int(-1))))], first_type()));
    let mean = TypeRule::custom(|types, attrs| {
        Ok(reduced((types[0].dtype == DType::Bool).then_some(DType::F32), types, attrs))
    });
    ops.add(op("mean", &["x"], vec![axis(Some(Attr::None))], mean));
    ops.add(op(
        "argmax",
        &["x"],
        vec![axis(None)],
        TypeRule::custom(|t, a| Ok(reduced(Some(DType::I32), t, a))),
    ));
    ops.add(op("matmul", &["a", "b"], vec![], matmul_type()));
    ops.add(op("reshape", &["x"], vec![setting("shape", AttrKind::Shape, None)], reshape_type()));
    let cast = TypeRule::custom(|types, attrs| Ok(vec![types[0].with_dtype(attrs.dtype("dtype"))]));
    ops.add(op("cast", &["x"], vec![setting("dtype", AttrKind::DType, None)], cast));
    let loss = TypeRule::custom(|types, _| match types[1].dtype {
        DType::I32 => Ok(vec![Type::scalar(types[0].dtype)]),
        other => {
            Err(TypeIssue::new(format!("labels are i32, not {other}")).at(1, format!("this is {}", types[1])))
        }
    });
    ops.add(op("cross_entropy", &["logits", "labels"], vec![], loss));
    let uniform =
        TypeRule::custom(|_, attrs| Ok(vec![Type { dtype: DType::F32, shape: attrs.shape("shape") }]));
    ops.add(op("uniform", &[], vec![setting("shape", AttrKind::Shape, None)], uniform));
    let take = TypeRule::custom(|types, _| match types[1].dtype {
        DType::I32 => Ok(vec![Type { dtype: types[0].dtype, shape: types[1].shape.clone() }]),
        other => Err(TypeIssue::new(format!("indices are i32, not {other}")).at(1, "this is no index")),
    });
    ops.add(op("take", &["x", "index"], vec![], take));
    let topk = TypeRule::custom(|types, attrs| {
        let shape = vec![types[0].shape[0].clone(), Dim::Fixed(attrs.int("k") as usize)];
        Ok(vec![Type { dtype: types[0].dtype, shape: shape.clone() }, Type { dtype: DType::I32, shape }])
    });
    let mut topk = op("topk", &["x"], vec![setting("k", AttrKind::Int, None)], topk);
    topk.outputs = vec!["values".into(), "indices".into()];
    ops.add(topk);
    let beta = setting("beta1", AttrKind::Float, Some(Attr::Lit(Literal::Float(0.9))));
    let decay = setting("weight_decay", AttrKind::Float, Some(Attr::Lit(Literal::Float(0.0))));
    let mut adam = op("adam", &["param", "grad", "lr", "m"], vec![beta, decay], first_type());
    adam.role = Role::Optimizer { slots: vec!["m".into()] };
    ops.add(adam);
    ops
}

// ---- Checks.

fn read(text: &str, overrides: &[(&str, &str)]) -> (Option<Pipeline>, Diagnostics, Sources) {
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let file = sources.add("mnist.ron", text);
    let overrides: Vec<_> =
        overrides.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
    let pipeline = load(&mut sources, file, &mut ops(), &overrides, &[], &mut diags);
    (pipeline, diags, sources)
}

/// The graph of a file without faults; warnings are none either.
#[track_caller]
fn graph_of(text: &str) -> Graph {
    let (pipeline, diags, sources) = read(text, &[]);
    assert_eq!(diags.render(&sources, Look::Plain), "");
    pipeline.unwrap().graph
}

fn check_graph(text: &str, expected: Expect) {
    expected.assert_eq(&graph_of(text).to_string());
}

fn check_faults(text: &str, expected: Expect) {
    let (pipeline, diags, sources) = read(text, &[]);
    assert_eq!(pipeline.is_none(), diags.has_errors());
    expected.assert_eq(&diags.render(&sources, Look::Plain));
}

const MNIST: &str = r#"(
    name: "mnist", seed: 42,
    dims: {"H": 256},
    data: {"digits": (source: "mnist", limit: 100)},
    inputs: {
        "image": (type: "u8[B, 784]", from: "digits.images"),
        "label": (type: "u8[B]", from: "digits.labels"),
    },
    params: {
        "w1": (type: "f32[784, H]", init: Kaiming), "b1": "f32[H]",
        "w2": (type: "f32[H, 10]", init: Uniform(-0.1, 0.1)), "b2": (type: "f32[10]"),
    },
    nodes: {
        "logits": "h @ w2 + b2",
        "x": "cast(image, dtype=f32) / 255.0",
        "h": "relu(x @ w1 + b1)",
        "loss": "cross_entropy(logits, cast(label, dtype=i32))",
        "accuracy": "mean(argmax(logits, axis=1) == cast(label, dtype=i32))",
    },
    stages: {
        "train": Train(
            data: "digits.train", batch: 128, epochs: 5, loss: "loss",
            optimizer: Adam(lr: Cosine(start: 1e-3, end: 1e-5, warmup: 10), beta1: 0.8),
            clip_norm: 1.0, last_batch: Drop, metrics: ["accuracy"],
            evaluate: Evaluate(data: "digits.test", batch: 1000, metrics: {"accuracy": "accuracy"}),
            monitor: Max("accuracy"), early_stop: 3, checkpoint: (path: "mnist.safetensors", best: Some("best.safetensors")),
        ),
        "test": Evaluate(data: "digits.test", batch: 1000, metrics: {"accuracy": "accuracy"}),
        "save": Save(path: "mnist.safetensors"),
    },
)"#;

#[test]
fn mnist_as_a_typed_graph() {
    check_graph(
        MNIST,
        expect![[r#"
        graph mnist {
          input image: u8[B, 784]
          input label: u8[B]
          param w1: f32[784, 256]
          param b1: f32[256]
          param w2: f32[256, 10]
          param b2: f32[10]
          x.1: f32[B, 784] = cast(image, dtype=f32)
          x.2: f32[] = .const(255.0)
          x: f32[B, 784] = div(x.1, x.2)
          h.1: f32[B, 256] = matmul(x, w1)
          h.2: f32[B, 256] = add(h.1, b1)
          h: f32[B, 256] = relu(h.2)
          logits.1: f32[B, 10] = matmul(h, w2)
          logits: f32[B, 10] = add(logits.1, b2)
          loss.1: i32[B] = cast(label, dtype=i32)
          loss: f32[] = cross_entropy(logits, loss.1)
          accuracy.1: i32[B] = argmax(logits, axis=1)
          accuracy.2: i32[B] = cast(label, dtype=i32)
          accuracy.3: bool[B] = eq(accuracy.1, accuracy.2)
          accuracy: f32[] = mean(accuracy.3)
        }
    "#]],
    );
}

#[test]
fn mnist_as_a_pipeline() {
    let pipeline = read(MNIST, &[]).0.unwrap();
    let data = pipeline.data.iter().map(|data| format!("{data:?}"));
    let inputs = pipeline.inputs.iter().map(|input| format!("{input:?}"));
    let params = pipeline.params.iter().map(|param| format!("{param:?}"));
    let stages = pipeline.stages.iter().map(|stage| format!("{stage:?}"));
    let lines = data.chain(inputs).chain(params).chain(stages);
    // Places are of no interest here.
    let lines: Vec<_> = lines.map(|line| line.split(", span").next().unwrap().to_owned()).collect();
    expect![[r#"
        DataDecl { name: "digits", source: "mnist", options: [("limit", Lit(Int(100)))]
        InputDecl { name: "image", from: Some(("digits", "images"))
        InputDecl { name: "label", from: Some(("digits", "labels"))
        ParamDecl { name: "w1", kind: Param, ty: Type { dtype: F32, shape: [Fixed(784), Fixed(256)] }, init: Kaiming
        ParamDecl { name: "b1", kind: Param, ty: Type { dtype: F32, shape: [Fixed(256)] }, init: Zeros
        ParamDecl { name: "w2", kind: Param, ty: Type { dtype: F32, shape: [Fixed(256), Fixed(10)] }, init: Uniform { low: -0.1, high: 0.1 }
        ParamDecl { name: "b2", kind: Param, ty: Type { dtype: F32, shape: [Fixed(10)] }, init: Zeros
        Stage { name: "train", kind: TrainStage { name: "train", data: SplitRef { data: "digits", split: "train" }, batch: 128, accumulate: 1, epochs: 5, max_steps: None, loss: "loss", mode: Train, precision: F32, metrics: [("accuracy", "accuracy")], optimizer: Some(OptimizerDecl { op: "adam", attrs: Attrs({"beta1": Lit(Float(0.8)), "weight_decay": Lit(Float(0.0))}), lr: Cosine { start: 0.001, end: 1e-5, warmup: 10.0 }, decay_bias: true, groups: [] }), state: [], clip_norm: Some(1.0), clip_value: None, last_batch: Drop, evaluate: Some(Evaluation { data: SplitRef { data: "digits", split: "test" }, batch: 1000, mode: Eval, precision: F32, metrics: [("accuracy", "accuracy")] }), monitor: Some(Monitor { metric: "accuracy", goal: Max }), early_stop: Some(EarlyStop { patience: 3, min_delta: 0.0, restore_best: false }), checkpoint: Some(CheckpointDecl { path: "mnist.safetensors", every: 1, best: Some("best.safetensors") }) }
        Stage { name: "test", kind: Evaluation { data: SplitRef { data: "digits", split: "test" }, batch: 1000, mode: Eval, precision: F32, metrics: [("accuracy", "accuracy")] }
        Stage { name: "save", kind: SaveStage { path: "mnist.safetensors", names: [] }
    "#]].assert_eq(&(lines.join("\n") + "\n"));
}

/// A file that computes these nodes from `x: f32[B, 4]`, `i: i32[B]`, `u: u8[B]` and runs `y`.
fn with_nodes(nodes: &str) -> String {
    format!(
        r#"(inputs: {{"x": "f32[B, 4]", "i": "i32[B]", "u": "u8[B]"}}, nodes: {nodes},
  stages: {{"go": Run(outputs: ["y"], dims: {{"B": 2}})}})"#
    )
}

fn check_nodes(nodes: &str, expected: Expect) {
    let (pipeline, diags, sources) = read(&with_nodes(nodes), &[]);
    assert!(!diags.has_errors(), "{}", diags.render(&sources, Look::Plain));
    let graph = pipeline.unwrap().graph.to_string();
    let lines = graph.lines().filter(|line| !line.contains("input ") && line.starts_with("  "));
    expected.assert_eq(&(lines.map(str::trim).collect::<Vec<_>>().join("\n") + "\n"));
}

#[test]
fn numbers_take_the_type_beside_them() {
    check_nodes(
        r#"{"y": "x * 2 + 1 / 4"}"#,
        expect![[r#"
        y.1: f32[] = .const(2.0)
        y.2: f32[B, 4] = mul(x, y.1)
        y.3: f32[] = .const(0.25)
        y: f32[B, 4] = add(y.2, y.3)
    "#]],
    );
    check_nodes(
        r#"{"y": "(i + 2 ** 3) * 4"}"#,
        expect![[r#"
        y.1: i32[] = .const(8)
        y.2: i32[B] = add(i, y.1)
        y.3: i32[] = .const(4)
        y: i32[B] = mul(y.2, y.3)
    "#]],
    );
    check_nodes(
        r#"{"y": "x * (7 % 4)", "z": "i + -7 % 4"}"#,
        expect![[r#"
        y.1: f32[] = .const(3.0)
        y: f32[B, 4] = mul(x, y.1)
        z.1: i32[] = .const(-3)
        z: i32[B] = add(i, z.1)
    "#]],
    );
    check_nodes(
        r#"{"y": "maximum(0, u) == 255"}"#,
        expect![[r#"
        y.1: u8[] = .const(0)
        y.2: u8[B] = maximum(y.1, u)
        y.3: u8[] = .const(255)
        y: bool[B] = eq(y.2, y.3)
    "#]],
    );
    check_nodes(
        r#"{"y": "take(x, 3)"}"#,
        expect![[r#"
        y.1: i32[] = .const(3)
        y: f32[] = take(x, y.1)
    "#]],
    );
    check_nodes(
        r#"{"y": 2.5}"#,
        expect![[r#"
        y: f32[] = .const(2.5)
    "#]],
    );
    check_nodes(
        r#"{"y": "-(1 - 3)"}"#,
        expect![[r#"
        y: i32[] = .const(2)
    "#]],
    );
}

#[test]
fn results_have_names() {
    check_nodes(
        r#"{"t": "topk(x, k=2)", "y": "t.indices + t.1", "z": "t.values"}"#,
        expect![[r#"
        (t: f32[B, 2], t.indices: i32[B, 2]) = topk(x, k=2)
        y: i32[B, 2] = add(t.indices, t.indices)
        z: f32[B, 2] = map(t) |a| a
    "#]],
    );
    check_nodes(
        r#"{"y": "topk(x, k=2).indices"}"#,
        expect![[r#"
        (y.values: f32[B, 2], y: i32[B, 2]) = topk(x, k=2)
    "#]],
    );
    check_nodes(
        r#"{"y": "x"}"#,
        expect![[r#"
        y: f32[B, 4] = map(x) |a| a
    "#]],
    );
}

#[test]
fn names_may_have_dots() {
    check_nodes(
        r#"{"x.m": "exp(x)", "y": "x.m + t.values", "t": "topk(x.m, k=4)", "t.indices": "x.m"}"#,
        expect![[r#"
            x.m: f32[B, 4] = exp(x)
            (t: f32[B, 4], t.1: i32[B, 4]) = topk(x.m, k=4)
            y: f32[B, 4] = add(x.m, t)
            t.indices: f32[B, 4] = map(x.m) |a| a
        "#]],
    );
}

#[test]
fn nodes_in_full_read_as_calls() {
    let full = r#"[
        (name: "y", op: "add", inputs: ["t", "s * 2"]),
        {"s": "softmax(x, axis=1)"},
        (name: "t", op: "topk", inputs: ["x"], attrs: {"k": 4}, type: "f32[B, 4]"),
        (name: "d", expr: "cast(u, dtype=f32)"),
        (name: "e", op: cast, inputs: ["u"], attrs: {"dtype": "f32"}),
    ]"#;
    check_nodes(
        full,
        expect![[r#"
        (t: f32[B, 4], t.indices: i32[B, 4]) = topk(x, k=4)
        s: f32[B, 4] = softmax(x, axis=1)
        y.1: f32[] = .const(2.0)
        y.2: f32[B, 4] = mul(s, y.1)
        y: f32[B, 4] = add(t, y.2)
        d: f32[B] = cast(u, dtype=f32)
        e: f32[B] = cast(u, dtype=f32)
    "#]],
    );
}

#[test]
fn steps_and_extents_are_numbers() {
    let text = r#"(dims: {"D": 4}, inputs: {"x": "f32[B, D]"},
        nodes: {"y": "x / D ** 0.5", "z": "cast(step, dtype=f32) * 0.1", "r": "uniform(shape=[B, D])"},
        stages: {"go": Run(outputs: ["y", "z", "r"], dims: {"B": 2})})"#;
    check_graph(
        text,
        expect![[r#"
        graph mnist {
          input x: f32[B, 4]
          y.1: f32[] = .const(2.0)
          y: f32[B, 4] = div(x, y.1)
          step step: i32[]
          z.1: f32[] = cast(step, dtype=f32)
          z.2: f32[] = .const(0.1)
          z: f32[] = mul(z.1, z.2)
          r: f32[B, 4] = uniform(shape=[B, 4])
        }
    "#]],
    );
}

// ---- Size and noise.

fn chain(n_nodes: usize) -> String {
    let mut nodes = String::from("\"n0\": \"exp(x)\",");
    for i in (1..n_nodes).rev() {
        nodes += &format!("\"n{i}\": \"relu(n{} * 0.5 + n{})\",\n", i - 1, i / 2);
    }
    format!("(inputs: {{\"x\": \"f32[B, 4]\"}}, nodes: {{{nodes}}})")
}

#[test]
fn big_graphs_are_checked_in_linear_time() {
    assert_linear("checking a chain", 1024, chain, |text| assert!(read(text, &[]).0.is_some()));
}

#[test]
fn big_faulty_graphs_are_checked_in_linear_time() {
    type Fault = (&'static str, fn(usize) -> String);
    let faults: [Fault; 3] = [
        ("an unknown operand", |n| chain(n).replace("exp(x)", "exp(xx)")),
        ("as many unknown operands as nodes", |n| chain(n).replace("0.5", "z")),
        ("a circle of all nodes", |n| chain(n).replace("exp(x)", &format!("n{} + 1", n - 1))),
    ];
    for (fault, text) in faults {
        assert_linear(fault, 1024, text, |text| assert!(read(text, &[]).0.is_none()));
    }
}

proptest! {
    #![proptest_config(crate::text::fuzz::config(600))]

    #[test]
    fn damaged_pipelines_are_errors_not_panics(damage in prop::collection::vec((any::<prop::sample::Index>(), "[()\\[\\]{},:\"a0.@*+= -]{0,2}", 0..6usize), 1..4)) {
        let mut chars: Vec<char> = MNIST.chars().collect();
        for (at, inserted, removed) in damage {
            let at = at.index(chars.len() + 1);
            let end = (at + removed).min(chars.len());
            chars.splice(at..end, inserted.chars());
        }
        let (pipeline, diags, sources) = read(&chars.into_iter().collect::<String>(), &[]);
        prop_assert_eq!(pipeline.is_none(), diags.has_errors());
        diags.render(&sources, Look::Plain);
    }
}
