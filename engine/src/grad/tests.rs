#![allow(clippy::unwrap_used)]

mod conditions;
mod loops;
mod primitives;

use super::differentiate;
use crate::ir::{
    Attrs, Body, Builder, Combine, DType, E, Graph, InputKind, Level, Literal, MatmulSpec, Monoid, NodeOp,
    Type, Value, parse, verify,
};
use crate::op::{Grad, Lower, OpForm, Registry};
use crate::oracle::{Oracle, OracleTensor};
use expect_test::expect;
use std::collections::HashMap;
use std::sync::Arc;

// ---- A few forms, as a plugin defines them.

fn form(name: &str, lower: Lower, grad: Grad) -> OpForm {
    OpForm::new(name, "A test.").input("x", "the operand").takes(DType::is_float).lower(lower).grad(grad)
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(form("silu", Lower::map(1, |x| x[0] / (1.0 + (-x[0]).exp())), Grad::Derive));
    registry.add(form("softmax", Lower::expand(|b, call| vec![softmax(b, call.inputs[0])]), Grad::Derive));
    // Calls other ops and draws random numbers.
    registry.add(form(
        "noisy",
        Lower::expand(|b, call| {
            let y = b.call("softmax", &[call.inputs[0]], Attrs::default()).unwrap()[0];
            let extents = b.extents(y);
            let u = b.random_uniform("u", &extents);
            vec![b.mul(y, u)]
        }),
        Grad::Derive,
    ));
    registry.add(form(
        "nested",
        Lower::expand(|b, call| {
            let y = b.call("noisy", &[call.inputs[0]], Attrs::default()).unwrap()[0];
            b.call("silu", &[y], Attrs::default()).unwrap()
        }),
        Grad::Derive,
    ));
    // Random numbers in an op with a gradient rule of its own.
    let masked = |b: &mut Builder, x: Value| {
        let extents = b.extents(x);
        let u = b.random_uniform("u", &extents);
        b.mul(x, u)
    };
    registry.add(form(
        "drop",
        Lower::expand(move |b, call| vec![masked(b, call.inputs[0])]),
        Grad::rule(|b, call| {
            let two = b.add(call.outputs[0], call.outputs[0]);
            let ratio = b.div(two, call.inputs[0]);
            let half = b.scale(ratio, 0.5);
            vec![call.grads[0].map(|g| b.mul(g, half))]
        }),
    ));
    registry.add(form(
        "dropped",
        Lower::expand(|b, call| {
            let y = b.call("silu", &[call.inputs[0]], Attrs::default()).unwrap()[0];
            b.call("drop", &[y], Attrs::default()).unwrap()
        }),
        Grad::Derive,
    ));
    registry.add(form(
        "straight_through",
        Lower::map(1, |x| x[0].sign()),
        Grad::rule(|_, call| vec![call.grads[0]]),
    ));
    registry.add(form("opaque", Lower::map(1, |x| x[0].exp()), Grad::None { why: "none was written" }));
    registry
}

fn softmax(b: &mut Builder, x: Value) -> Value {
    let axes = [b.ty(x).rank() - 1];
    let top = b.reduce(Monoid::Max, x, &axes);
    let top = b.unreduce(top, &axes, x);
    let e = b.map(&[x, top], |x| (x[0] - x[1]).exp());
    let sum = b.sum(e, &axes);
    let sum = b.unreduce(sum, &axes, x);
    b.div(e, sum)
}

fn call(b: &mut Builder, op: &str, x: Value) -> Value {
    b.call(op, &[x], Attrs::default()).unwrap()[0]
}

// ---- Central differences.

/// Operands: extents and elements.
type Operands<'o> = &'o [(&'o [usize], &'o [f64])];

/// Distinct numbers, none of them zero or near a half.
fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 37 + 11) % 101) as f64 * 0.037 - 1.83).collect()
}

/// The graph of a function of parameters `x0`, `x1`, ..., reduced to a scalar with fixed weights.
fn graph(
    registry: &Registry,
    operands: Operands,
    function: &dyn Fn(&mut Builder, &[Value]) -> Value,
) -> Graph {
    let mut b = Builder::new(Graph::new("test"), registry);
    let inputs: Vec<Value> = operands
        .iter()
        .enumerate()
        .map(|(i, (extents, _))| b.input(&format!("x{i}"), InputKind::Param, Type::new(DType::F32, extents)))
        .collect();
    let y = function(&mut b, &inputs);
    let loss = weighted_sum(&mut b, y, 0.7);
    let mut graph = b.graph;
    graph.outputs = vec![("loss".into(), loss)];
    graph
}

/// Σ yᵢ·cos(i + phase)
fn weighted_sum(b: &mut Builder, y: Value, phase: f64) -> Value {
    let count = b.ty(y).numel();
    let flat = b.reshape(y, &[count]);
    let number = b.iota(0, Type::new(DType::I32, &[count]));
    let terms = b.map(&[flat, number], |x| x[0] * (x[1].cast(DType::F32) + phase).cos());
    b.sum(terms, &[0])
}

fn feed(operands: Operands) -> HashMap<String, OracleTensor> {
    let tensor = |(extents, elements): &(&[usize], &[f64])| OracleTensor::new(DType::F32, extents, elements);
    operands.iter().enumerate().map(|(i, operand)| (format!("x{i}"), tensor(operand))).collect()
}

fn run(registry: &Registry, graph: &Graph, inputs: &HashMap<String, OracleTensor>) -> Vec<Vec<f64>> {
    let run = Oracle::new(registry).run(graph, inputs, 7, 3).unwrap();
    run.outputs.values().map(OracleTensor::to_f64).collect()
}

/// A graph whose outputs are the gradients of another graph's first output with respect to all its parameters.
fn gradient_graph(registry: &Registry, graph: &Graph) -> Graph {
    let wrt: Vec<Value> =
        graph.inputs().filter(|(_, kind)| *kind == InputKind::Param).map(|(id, _)| Value::of(id)).collect();
    let differentiated = differentiate(graph, registry, graph.outputs[0].1, &wrt).unwrap();
    let mut graph = differentiated.graph;
    let named = differentiated.grads.iter().enumerate().map(|(i, &v)| (format!("g{i}").into(), v));
    graph.outputs = named.collect();
    assert_eq!(verify(&graph, Level::Bound), Ok(()));
    graph
}

fn assert_close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{what}[{i}]: {a} instead of {b}");
    }
}

fn differences(registry: &Registry, graph: &Graph, operands: Operands) -> Vec<Vec<f64>> {
    let moved = |operand: usize, i: usize, by: f64| {
        let mut elements = operands[operand].1.to_vec();
        elements[i] += by;
        let mut inputs = feed(operands);
        inputs.insert(format!("x{operand}"), OracleTensor::new(DType::F32, operands[operand].0, &elements));
        run(registry, graph, &inputs)[0][0]
    };
    let h = 1e-5;
    let slope = |operand, i| (moved(operand, i, h) - moved(operand, i, -h)) / (2.0 * h);
    let count = |operand: usize| operands[operand].1.len();
    (0..operands.len()).map(|o| (0..count(o)).map(|i| slope(o, i)).collect()).collect()
}

/// Checks first derivatives against central differences of the function, and second derivatives against those of the
/// first.
fn check(operands: Operands, function: impl Fn(&mut Builder, &[Value]) -> Value) {
    let registry = registry();
    let first = graph(&registry, operands, &function);
    check_once(&registry, &first, operands);
    let grads = gradient_graph(&registry, &first);
    let mut b = Builder::new(grads.clone(), &registry);
    let mut loss = b.constant(0.0, DType::F32);
    for (i, (_, grad)) in grads.outputs.iter().enumerate() {
        let term = weighted_sum(&mut b, *grad, i as f64);
        loss = b.add(loss, term);
    }
    let second = Graph { outputs: vec![("loss".into(), loss)], ..b.graph };
    check_once(&registry, &second, operands);
}

fn check_once(registry: &Registry, graph: &Graph, operands: Operands) {
    let found = run(registry, &gradient_graph(registry, graph), &feed(operands));
    for (i, (found, expected)) in found.iter().zip(differences(registry, graph, operands)).enumerate() {
        assert_close(found, &expected, &format!("x{i}"));
    }
}

fn check_one(extents: &[usize], function: impl Fn(&mut Builder, Value) -> Value) {
    let elements = numbers(extents.iter().product());
    check(&[(extents, &elements)], |b, x| function(b, x[0]));
}

// ---- Ops.

#[test]
fn expansions_and_bodies_of_ops() {
    check_one(&[2, 3], |b, x| call(b, "silu", x));
    check_one(&[2, 3], |b, x| call(b, "softmax", x));
}

#[test]
fn a_small_network() {
    let (x, w1, b1, w2) = (numbers(6), numbers(12), numbers(4), numbers(8));
    check(&[(&[2, 3], &x), (&[3, 4], &w1), (&[4], &b1), (&[4, 2], &w2)], |b, x| {
        let h = b.mm(x[0], x[1]);
        let h = b.add(h, x[2]);
        let h = call(b, "silu", h);
        let y = b.mm(h, x[3]);
        call(b, "softmax", y)
    });
}

#[test]
fn random_numbers_are_the_same_before_and_after_differentiation() {
    check_one(&[2, 3], |b, x| call(b, "noisy", x));
    check_one(&[2, 3], |b, x| call(b, "nested", x));
    // The rule of `drop` divides by its operand, so its gradient is right only to first order.
    let registry = registry();
    let x = numbers(6);
    let operands: Operands = &[(&[2, 3], &x)];
    check_once(&registry, &graph(&registry, operands, &|b, x| call(b, "dropped", x[0])), operands);
}

#[test]
fn a_rule_wins_over_the_lowering() {
    let registry = registry();
    let x: Operands = &[(&[2], &[3.0, -0.5])];
    let graph = graph(&registry, x, &|b, x| call(b, "straight_through", x[0]));
    let g = run(&registry, &gradient_graph(&registry, &graph), &feed(x));
    assert_close(&g[0], &[0.7f64.cos(), 1.7f64.cos()], "g");
}

#[test]
fn an_op_without_gradient_states_its_reason() {
    let registry = registry();
    let graph = graph(&registry, &[(&[2], &[1.0, 2.0])], &|b, x| call(b, "opaque", x[0]));
    let issue = differentiate(&graph, &registry, graph.outputs[0].1, &[Value::of(0)]).unwrap_err();
    assert_eq!((&*issue.node, issue.why.as_str()), ("t.1", "none was written"));
}

#[test]
fn integers_pass_nothing_on() {
    check_one(&[2, 3], |b, x| {
        let best = b.reduce(Monoid::ArgMax, x, &[1]);
        let best = b.cast(best, DType::F32);
        let sum = b.sum(x, &[1]);
        b.mul(best, sum)
    });
}

#[test]
fn values_without_influence_on_the_loss_have_gradient_zero() {
    let registry = registry();
    let operands: Operands = &[(&[2], &[1.0, 2.0]), (&[3], &[1.0, 2.0, 3.0])];
    let graph = graph(&registry, operands, &|b, x| b.mul(x[0], x[0]));
    let g = run(&registry, &gradient_graph(&registry, &graph), &feed(operands));
    assert_eq!(g[1], [0.0; 3]);
}

#[test]
fn a_body_of_several_results() {
    check_one(&[3], |b, x| {
        let body = Body::new(1, |x: &[E]| vec![x[0].exp(), x[0] * x[0]]);
        let results = b.map_body(&[x], Arc::new(body));
        b.mul(results[0], results[1])
    });
}

#[test]
fn small_floats_keep_their_type() {
    let registry = registry();
    let mut b = Builder::new(Graph::new("half"), &registry);
    let x = b.input("x", InputKind::Param, Type::new(DType::BF16, &[2, 3]));
    let y = call(&mut b, "softmax", x);
    let y = b.reduce(Monoid::Prod, y, &[1]);
    let y = b.reduce(Monoid::Max, y, &[0]);
    let mut graph = b.graph;
    graph.outputs = vec![("loss".into(), y)];
    let graph = gradient_graph(&registry, &graph);
    assert_eq!(*graph.ty(graph.outputs[0].1), Type::new(DType::BF16, &[2, 3]));
}

#[test]
fn the_gradient_of_a_dense_layer_as_text() {
    let registry = registry();
    let mut b = Builder::new(Graph::new("layer"), &registry);
    let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[2, 3]));
    let w = b.input("w", InputKind::Param, Type::new(DType::F32, &[3, 4]));
    let bias = b.input("b", InputKind::Param, Type::new(DType::F32, &[4]));
    b.set_scope("y", None);
    let y = b.mm(x, w);
    let y = b.add(y, bias);
    let loss = b.sum(y, &[0, 1]);
    let mut graph = b.graph;
    graph.outputs = vec![("loss".into(), loss)];
    expect![[r#"
        graph layer {
          input x: f32[2, 3]
          param w: f32[3, 4]
          param b: f32[4]
          y.1: f32[2, 4] = .matmul(x, w, contracted=[[1, 0]])
          y.2: f32[2, 4] = .broadcast(b, axes=[1])
          d.loss.1: f32[] = .const(1.0)
          d.y.4.1: f32[2, 4] = .broadcast(d.loss.1, axes=[])
          (d.y.3.1: f32[2, 4], d.y.3.2: f32[2, 4]) = map(y.1, y.2, d.y.4.1) |a, b, c| c, c
          d.y.2.1: f32[4] = .sum(d.y.3.2, axes=[0])
          d.y.1.1: f32[3, 4] = .matmul(x, d.y.3.1, contracted=[[0, 0]])
          output g0 = d.y.1.1
          output g1 = d.y.2.1
        }
    "#]]
    .assert_eq(&gradient_graph(&registry, &graph).pruned().to_string());
}
