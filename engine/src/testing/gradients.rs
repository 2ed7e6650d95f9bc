//! Gradients of weighed sums of an example's results.

use super::case::Case;
use crate::grad::differentiate;
use crate::ir::{Builder, DType, E, Graph, Level, Symbol, Type, Value, verify};
use crate::op::Registry;
use crate::oracle::{Oracle, OracleRun, OracleTensor};
use std::collections::HashMap;

/// Gradients of Σ (i + 1)·y_i over all float results, by float operand.
pub(super) fn weighed_gradients(
    case: &Case,
    registry: &Registry,
) -> Result<Vec<(Symbol, OracleTensor)>, String> {
    let (graph, loss) = weighed(&case.graph, registry, |i| i + 1.0).ok_or("no float result has gradients")?;
    let is_float = |value: &Value| graph.ty(*value).dtype.is_float();
    let wrt: Vec<Value> = graph.inputs().map(|(id, _)| Value::of(id)).filter(is_float).collect();
    let run = run_gradients(&graph, loss, &wrt, &case.inputs, registry)?;
    Ok(run.outputs.into_iter().collect())
}

/// The gradients of `loss` at these inputs, by name of the value in `wrt`.
pub(super) fn run_gradients(
    graph: &Graph,
    loss: Value,
    wrt: &[Value],
    inputs: &HashMap<String, OracleTensor>,
    registry: &Registry,
) -> Result<OracleRun, String> {
    let differentiated = differentiate(graph, registry, loss, wrt)
        .map_err(|issue| format!("no gradient through `{}`: {}", issue.node, issue.why))?;
    let mut grads = differentiated.graph;
    grads.outputs = wrt.iter().map(|&v| graph.name_of(v).clone()).zip(differentiated.grads).collect();
    verify(&grads, Level::Bound).map_err(|problems| format!("the gradient graph: {}", problems[0]))?;
    Oracle::new(registry).run(&grads, inputs, 0, 0).map_err(|error| error.to_string())
}

/// The graph with one scalar output, Σ w(i)·y_i over every float result. `None` if there is no float result.
pub(super) fn weighed(graph: &Graph, registry: &Registry, weight: fn(E) -> E) -> Option<(Graph, Value)> {
    let mut b = Builder::new(graph.clone(), registry);
    let mut loss: Option<Value> = None;
    for (_, value) in &graph.outputs {
        if b.dtype(*value).is_float() {
            let term = weighed_sum(&mut b, *value, weight);
            loss = Some(loss.map_or(term, |known| b.add(known, term)));
        }
    }
    let loss = loss?;
    let graph = Graph { outputs: vec![("loss".into(), loss)], ..b.graph };
    Some((graph, loss))
}

fn weighed_sum(b: &mut Builder, y: Value, weight: fn(E) -> E) -> Value {
    let count = b.ty(y).numel();
    let flat = b.reshape(y, &[count]);
    let flat = b.cast(flat, DType::F64);
    let number = b.iota(0, Type::new(DType::I32, &[count]));
    let number = b.cast(number, DType::F64);
    let terms = b.map(&[flat, number], |x| x[0] * weight(x[1]));
    b.sum(terms, &[0])
}
