//! Learning rates as values of a step's graph.

use super::mode::set_mode;
use super::own::own_input;
use crate::ir::{Body, Builder, DType, E, Graph, InputKind, Inst, Node, NodeOp, Output, Type, Value};
use crate::op::Registry;
use crate::pipeline::{Mode, Rate, Schedule, StageIssue};
use std::sync::Arc;

/// The value of a schedule at the current step, `f32[]`. A schedule that depends on a metric is the state `name`, which
/// the session writes.
pub fn rate(
    b: &mut Builder,
    (name, schedule): (&str, &Schedule),
    n_steps: usize,
    mode: Mode,
) -> Result<Value, StageIssue> {
    b.set_scope(name, None);
    match schedule.rate() {
        Rate::OfStep(formula) => Ok(of_step(b, &|step, last| formula(schedule, step, last), n_steps)),
        Rate::OfMetric(_) => own_input(b, name, InputKind::State, Type::scalar(DType::F32)),
        Rate::Expression(graph) => {
            let mut graph = Graph::clone(graph);
            set_mode(&mut graph, mode);
            Ok(appended(b, graph))
        }
    }
}

/// A schedule as a graph of the step alone, whose one output is the rate; nothing for one that depends on a metric.
/// `n_steps` is the number of steps of the stage.
pub fn rate_of_step(schedule: &Schedule, n_steps: usize, mode: Mode, registry: &Registry) -> Option<Graph> {
    if schedule.metric_rate().is_some() {
        return None;
    }
    let mut b = Builder::new(Graph::default(), registry);
    let rate = rate(&mut b, ("lr", schedule), n_steps, mode).ok()?;
    b.graph.outputs.push(("lr".into(), rate));
    Some(b.graph)
}

fn of_step(b: &mut Builder, formula: &dyn Fn(E, f64) -> E, n_steps: usize) -> Value {
    let step = b.step();
    let step = b.cast(step, DType::F32);
    let last = (n_steps.max(2) - 1) as f64;
    let body = Body::new(1, |step| vec![formula(step[0], last)]);
    match body.insts[body.outputs[0]] {
        Inst::Const(value) => b.constant(value.as_f64(), DType::F32),
        _ => b.map_body(&[step], Arc::new(body))[0],
    }
}

/// The output of a graph whose only input is the step, appended under derived names.
fn appended(b: &mut Builder, graph: Graph) -> Value {
    let mut map: Vec<Vec<Value>> = vec![];
    for node in graph.nodes {
        map.push(match node.op {
            NodeOp::Input(_) => vec![b.step()],
            _ => {
                let inputs = node.inputs.iter().map(|input| map[input.node][input.port]).collect();
                let named = |output: Output| Output { name: b.fresh_name(), ..output };
                let outputs: Vec<Output> = node.outputs.clone().into_iter().map(named).collect();
                let n_outputs = outputs.len();
                let id = b.graph.push(Node { inputs, outputs, ..node });
                (0..n_outputs).map(|port| Value { node: id, port }).collect()
            }
        });
    }
    let (_, value) = graph.outputs[0];
    map[value.node][value.port]
}
