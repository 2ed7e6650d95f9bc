#![allow(clippy::unwrap_used)]
//! Counts how the work of compiling grows with the graph.

mod hoist;

use super::*;
use crate::grad::differentiate;
use crate::ir::{Builder, DType, InputKind, StateLink, Type, Unary, Value};
use crate::op::Registry;
use crate::work::counted::work_of;

const WIDTH: usize = 64;

/// A GRU over `n_steps` steps, like benches/gru_unrolled.py.
fn gru(b: &mut Builder, n_steps: usize, weights: &[Value]) -> Value {
    let &[w, u, bias, c] = weights else { unreachable!() };
    let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[8, n_steps, 3]));
    let mut h = b.full(crate::ir::Literal::Float(0.0), Type::new(DType::F32, &[8, WIDTH]));
    for step in 0..n_steps {
        let x = b.slice(x, &[0, step, 0], &[8, 1, 3], &[1, 1, 1]);
        let x = b.reshape(x, &[8, 3]);
        let [from_x, from_h] = [(x, w, bias), (h, u, c)].map(|(x, w, bias)| {
            let product = b.mm(x, w);
            let bias = b.broadcast_like(bias, product);
            b.add(product, bias)
        });
        let mut part = |x: Value, number: usize| b.slice(x, &[0, number * WIDTH], &[8, WIDTH], &[1, 1]);
        let parts = [0, 1, 2].map(|number| [part(from_x, number), part(from_h, number)]);
        let [r, z] = [parts[0], parts[1]].map(|[x, h]| {
            let sum = b.add(x, h);
            b.unary(Unary::Tanh, sum)
        });
        let reset = b.mul(r, parts[2][1]);
        let sum = b.add(parts[2][0], reset);
        let n = b.unary(Unary::Tanh, sum);
        let change = b.sub(h, n);
        let kept = b.mul(z, change);
        h = b.add(n, kept);
    }
    h
}

/// The forward pass of the GRU; with `trains`, also one step of gradient descent.
fn unrolled(n_steps: usize, trains: bool) -> Graph {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("gru"), &registry);
    let shapes: [&[usize]; 4] = [&[3, 3 * WIDTH], &[WIDTH, 3 * WIDTH], &[3 * WIDTH], &[3 * WIDTH]];
    let names = ["w", "u", "b", "c"].into_iter().zip(shapes);
    let weights: Vec<Value> =
        names.map(|(name, shape)| b.input(name, InputKind::Param, Type::new(DType::F32, shape))).collect();
    let h = gru(&mut b, n_steps, &weights);
    let loss = b.sum(h, &[0, 1]);
    b.graph.outputs.push(("loss".into(), loss));
    if !trains {
        return b.graph;
    }
    let found = differentiate(&b.graph, &registry, loss, &weights).unwrap();
    let weights = weights.iter().map(|weight| found.map[weight.node][weight.port]);
    let pairs: Vec<(Value, Value)> = weights.zip(found.grads).collect();
    let mut b = Builder::new(found.graph, &registry);
    for (weight, grad) in pairs {
        let step = b.scale(grad, 0.01);
        let next = b.sub(weight, step);
        b.graph.state.push(StateLink { input: weight.node, next });
    }
    b.graph
}

/// Twice the steps cause at most 2.3 times the work. The surplus allows for logarithms. Buffers are compared in pairs
/// only if several streams leave their order open.
#[test]
fn work_grows_as_the_graph_does() {
    let registry = Registry::new();
    for (trains, n_streams, most) in [(false, 1, 2.3), (false, 3, 2.3), (true, 1, 2.3), (true, 3, 3.3)] {
        let options = Options { device: DeviceModel { n_streams, ..DeviceModel::CPU }, ..Options::default() };
        let works = [25, 50, 100].map(|n_steps| {
            let graph = unrolled(n_steps, trains);
            work_of(|| assert!(compile(&graph, &registry, &options).plan.launches.len() > 2 * n_steps))
        });
        for [few, many] in [[works[0], works[1]], [works[1], works[2]]] {
            let grows = |few: usize, many: usize| many as f64 > most * few as f64;
            let what = format!("trains: {trains}, streams: {n_streams}: {few:?}, then {many:?}");
            assert!(!grows(few.steps, many.steps) && !grows(few.bytes, many.bytes), "{what}");
        }
    }
}
