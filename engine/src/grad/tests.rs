#![allow(clippy::unwrap_used)]

use super::differentiate;
use crate::ir::{
    Attrs, Body, Builder, Combine, Contract, DType, E, Graph, InputKind, Level, Literal, Monoid, NodeOp,
    Type, Value, parse, verify,
};
use crate::op::{Example, Grad, GradCheck, InputSpec, Lower, OpForm, Registry, Role, TypeRule};
use crate::oracle::{Oracle, OracleTensor};
use expect_test::expect;
use std::collections::HashMap;
use std::sync::Arc;

// ---- A few forms, as a plugin defines them.

fn form(name: &str, lower: Lower, grad: Grad) -> OpForm {
    let input = InputSpec::required("x", "the operand");
    OpForm {
        name: name.into(),
        family: "test".into(),
        summary: "A test.".into(),
        inputs: vec![input],
        outputs: vec!["y".into()],
        attrs: vec![],
        types: TypeRule::Broadcast { allowed: DType::is_float },
        lower,
        grad,
        check: GradCheck::None { why: "a test" },
        examples: Vec::<Example>::new(),
        role: Role::Plain,
    }
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
    registry.add(form("opaque", Lower::map(1, |x| x[0].exp()), Grad::None { why: "nobody wrote it down" }));
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

// ---- Primitives.

#[test]
fn scalar_primitives() {
    check_one(&[5], |b, x| b.map(&[x], |x| x[0].tanh() * x[0].exp() + (x[0] * x[0] + 1.0).log()));
    check_one(&[5], |b, x| b.map(&[x], |x| x[0].abs().sqrt() + x[0].erf() - x[0].sin() / (2.0 + x[0].cos())));
    check(&[(&[2], &[0.5, 1.5]), (&[2], &[1.2, -0.7])], |b, x| b.map(x, |x| x[0].pow(x[1])));
    check_one(&[4], |b, x| {
        let y = b.mul(x, x);
        b.unary(crate::ir::Unary::Exp, y)
    });
}

#[test]
fn broadcasting_is_undone_by_sums() {
    let (a, c) = (numbers(6), numbers(3));
    check(&[(&[2, 3], &a), (&[3], &c)], |b, x| b.map(x, |x| x[0] * x[1] * x[1]));
    check(&[(&[2, 3], &a), (&[1, 3], &c)], |b, x| b.map(x, |x| x[0].exp() * x[1]));
    check(&[(&[2, 1, 3], &a), (&[3, 1], &c)], |b, x| b.mul(x[0], x[1]));
}

#[test]
fn views() {
    let squared = |b: &mut Builder, x: Value| b.mul(x, x);
    check_one(&[2, 3], |b, x| {
        let y = b.reshape(x, &[3, 2]);
        squared(b, y)
    });
    check_one(&[2, 3, 2], |b, x| {
        let y = b.permute(x, &[2, 0, 1]);
        squared(b, y)
    });
    check_one(&[2, 1], |b, x| {
        let y = b.broadcast_axes(x, &[1, 2], &[4.into(), 2.into(), 3.into()]);
        squared(b, y)
    });
    check_one(&[2, 2], |b, x| {
        let y = b.pad(x, &[1, 0], &[0, 2], Literal::Float(3.0));
        squared(b, y)
    });
}

#[test]
fn slices_of_any_stride_and_direction() {
    for (start, count, step) in
        [(0, 7, 1), (2, 3, 1), (1, 3, 2), (0, 3, 3), (6, 7, -1), (5, 3, -2), (3, 1, -4)]
    {
        check_one(&[7, 2], |b, x| {
            let y = b.slice(x, &[start, 1], &[count, 1], &[step, 1]);
            b.mul(y, y)
        });
    }
}

#[test]
fn reductions() {
    for monoid in [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min] {
        check_one(&[3, 4], |b, x| {
            let y = b.reduce(monoid, x, &[1]);
            b.mul(y, y)
        });
        check_one(&[2, 3, 2], |b, x| b.reduce(monoid, x, &[0, 2]));
    }
}

#[test]
fn products_with_zeros() {
    let x = [2.0, 3.0, 4.0, 2.0, 0.0, 4.0, 0.0, 0.0, 4.0];
    let registry = registry();
    let product = |b: &mut Builder, x: &[Value]| b.reduce(Monoid::Prod, x[0], &[1]);
    check_once(&registry, &graph(&registry, &[(&[3, 3], &x)], &product), &[(&[3, 3], &x)]);
    check_once(
        &registry,
        &graph(&registry, &[(&[3, 3], &x)], &|b, x| {
            let ty = b.ty(x[0]).clone();
            b.push(NodeOp::Scan { monoid: Monoid::Prod, axis: 1 }, vec![x[0]], ty)
        }),
        &[(&[3, 3], &x)],
    );
}

#[test]
fn ties_share_evenly() {
    let registry = registry();
    let x: Operands = &[(&[4], &[1.0, 5.0, 5.0, 5.0])];
    let graph = graph(&registry, x, &|b, x| b.reduce(Monoid::Max, x[0], &[0]));
    let g = run(&registry, &gradient_graph(&registry, &graph), &feed(x));
    let third = 0.7f64.cos() / 3.0;
    assert_close(&g[0], &[0.0, third, third, third], "g");
}

#[test]
fn scans() {
    for monoid in [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min] {
        for axis in [0, 1] {
            check_one(&[3, 4], |b, x| {
                let ty = b.ty(x).clone();
                let y = b.push(NodeOp::Scan { monoid, axis }, vec![x], ty);
                b.mul(y, y)
            });
        }
    }
}

/// An index tensor: (11·i + 2) mod `bound`, with repetitions.
fn indices(b: &mut Builder, extents: &[usize], bound: usize) -> Value {
    let flat = b.iota(0, Type::new(DType::I32, &[extents.iter().product()]));
    let idx = b.map(&[flat], |x| (x[0] * 11.0 + 2.0) % bound as f64);
    b.reshape(idx, extents)
}

#[test]
fn gathers() {
    check_one(&[2, 5, 3], |b, x| {
        let idx = indices(b, &[2, 4], 5);
        let y = b.gather(x, idx, 1, 0);
        b.mul(y, y)
    });
    check_one(&[2, 3, 5], |b, x| {
        let idx = indices(b, &[2, 4], 5);
        let y = b.gather(x, idx, 2, 1);
        b.mul(y, y)
    });
}

#[test]
fn scatters() {
    let (base, updates) = (numbers(2 * 5 * 3), numbers(2 * 8 * 3));
    for combine in [Combine::Add, Combine::Set] {
        check(&[(&[2, 5, 3], &base), (&[2, 2, 4, 3], &updates)], |b, x| {
            let idx = indices(b, &[2, 4], 5);
            let y = b.scatter(x[0], idx, x[1], 1, 0, combine);
            b.mul(y, y)
        });
        check(&[(&[2, 5, 3], &base), (&[2, 8, 3], &updates)], |b, x| {
            let idx = indices(b, &[2, 8], 5);
            let y = b.scatter(x[0], idx, x[1], 1, 1, combine);
            b.mul(y, y)
        });
    }
}

#[test]
fn contractions() {
    let (a, c) = (numbers(6), numbers(12));
    check(&[(&[2, 3], &a), (&[3, 4], &c)], |b, x| b.matmul(x[0], x[1]));
    let (a, c) = (numbers(2 * 3 * 2 * 4), numbers(4 * 2 * 2 * 2));
    // Axes in every order: lhs [k2, free, batch, k1], rhs [k1, batch, free, k2].
    let contract = Contract { batch: vec![(2, 1)], contracted: vec![(3, 0), (0, 3)] };
    check(&[(&[2, 3, 2, 4], &a), (&[4, 2, 2, 2], &c)], |b, x| b.contract(x[0], x[1], contract.clone()));
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
        let h = b.matmul(x[0], x[1]);
        let h = b.add(h, x[2]);
        let h = call(b, "silu", h);
        let y = b.matmul(h, x[3]);
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
    assert_eq!((&*issue.node, issue.why.as_str()), ("t.1", "nobody wrote it down"));
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
    let y = b.matmul(x, w);
    let y = b.add(y, bias);
    let loss = b.sum(y, &[0, 1]);
    let mut graph = b.graph;
    graph.outputs = vec![("loss".into(), loss)];
    expect![[r#"
        graph layer {
          input x: f32[2, 3]
          param w: f32[3, 4]
          param b: f32[4]
          y.1: f32[2, 4] = .contract(x, w, contracted=[[1, 0]])
          y.2: f32[2, 4] = .broadcast(b, axes=[1])
          d.loss.1: f32[] = .const(1.0)
          d.y.4.1: f32[2, 4] = .broadcast(d.loss.1, axes=[])
          (d.y.3.1: f32[2, 4], d.y.3.2: f32[2, 4]) = map(y.1, y.2, d.y.4.1) |a, b, c| c, c
          d.y.2.1: f32[4] = .sum(d.y.3.2, axes=[0])
          d.y.1.1: f32[3, 4] = .contract(x, d.y.3.1, contracted=[[0, 0]])
          output g0 = d.y.1.1
          output g1 = d.y.2.1
        }
    "#]]
    .assert_eq(&gradient_graph(&registry, &graph).pruned().to_string());
}

// ---- Conditions.

/// `c ? log(x)·k : k²·x`: two results, and a nested condition.
const CONDITION: &str = "
    graph g {
      input c: bool[]
      param x: f32[2]
      param k: f32[2]
      (y: f32[2], z: f32[2]) = .cond(c, x, k) {
        graph yes {
          input a: f32[2]
          input b: f32[2]
          l: f32[2] = .log(a)
          p: f32[2] = .mul(l, b)
          output p = p
          output l = l
        }
        graph no {
          input a: f32[2]
          input b: f32[2]
          t: bool[] = .const(true)
          q: f32[2] = .cond(t, b) {
            graph square {
              input d: f32[2]
              e: f32[2] = .mul(d, d)
              output e = e
            }
            graph nothing {
              input d: f32[2]
              e: f32[2] = .sqrt(d)
              output e = e
            }
          }
          r: f32[2] = .mul(q, a)
          output r = r
          output a = a
        }
      }
      w: f32[2] = .mul(y, z)
      loss: f32[] = .sum(w, axes=[0])
      output loss = loss
    }";

fn condition(c: f64, x: &[f64], k: &[f64]) -> HashMap<String, OracleTensor> {
    let tensor = |elements: &[f64]| OracleTensor::new(DType::F32, &[2], elements);
    let c = OracleTensor::new(DType::Bool, &[], &[c]);
    HashMap::from([("c".into(), c), ("x".into(), tensor(x)), ("k".into(), tensor(k))])
}

#[test]
fn the_gradient_of_a_condition_is_that_of_the_side_taken() {
    let registry = Registry::new();
    let graph = parse(CONDITION, &registry).unwrap();
    let grads = gradient_graph(&registry, &graph);
    // y·z is k·ln²x on one side and k²·x² on the other.
    let (x, k) = ([2.0f64, 0.5], [3.0, -1.5]);
    let taken = run(&registry, &grads, &condition(1.0, &x, &k));
    assert_close(&taken[0], &[0, 1].map(|i| 2.0 * k[i] * x[i].ln() / x[i]), "x");
    assert_close(&taken[1], &[0, 1].map(|i| x[i].ln().powi(2)), "k");
    let other = run(&registry, &grads, &condition(0.0, &x, &k));
    assert_close(&other[0], &[0, 1].map(|i| 2.0 * k[i] * k[i] * x[i]), "x");
    assert_close(&other[1], &[0, 1].map(|i| 2.0 * k[i] * x[i] * x[i]), "k");
}

#[test]
fn values_of_the_side_not_taken_do_not_leak() {
    let registry = Registry::new();
    let grads = gradient_graph(&registry, &parse(CONDITION, &registry).unwrap());
    // The logarithms of 0 and -1 and their slopes are infinite or NaN. So is the root of -1.5 in the nested condition.
    let (x, k) = ([0.0, -1.0], [3.0, -1.5]);
    let found = run(&registry, &grads, &condition(0.0, &x, &k));
    assert_close(&found[0], &[0, 1].map(|i| 2.0 * k[i] * k[i] * x[i]), "x");
    assert_close(&found[1], &[0, 1].map(|i| 2.0 * k[i] * x[i] * x[i]), "k");
}

#[test]
fn conditions_can_be_differentiated_twice() {
    let registry = Registry::new();
    let mut graph = gradient_graph(&registry, &parse(CONDITION, &registry).unwrap());
    let mut b = Builder::new(graph.clone(), &registry);
    let loss = b.sum(graph.outputs[0].1, &[0]);
    graph = Graph { outputs: vec![("loss".into(), loss)], ..b.graph };
    let (x, k) = ([2.0f64, 0.5], [3.0, -1.5]);
    let found = run(&registry, &gradient_graph(&registry, &graph), &condition(1.0, &x, &k));
    assert_close(&found[0], &[0, 1].map(|i| 2.0 * k[i] * (1.0 - x[i].ln()) / (x[i] * x[i])), "x");
    assert_close(&found[1], &[0, 1].map(|i| 2.0 * x[i].ln() / x[i]), "k");
}
