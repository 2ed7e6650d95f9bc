//! Loops that stay loops: a trip is compiled like a step, whose states are the carried values.

use crate::fusion::{Kernel, KernelBody, LoopBody};
use crate::ir::{Graph, InputKind, Level, NodeId, NodeOp, StateLink, Symbol, Value};
use crate::pass::sound;
use crate::plan::{LoopPlan, Plan};
use std::sync::Arc;

/// The largest figure of a loop: without a bound on its trips, their sum has no meaning, and must not overflow.
const MOST: u64 = 1 << 56;

/// A compiled trip: its plan, the number of nodes that may check, and its forms.
pub(super) struct CompiledTrip<T> {
    pub(super) plan: Plan,
    pub(super) n_sites: usize,
    pub(super) forms: T,
}

/// Compiles a trip of each loop, and completes the kernels of the loops. `compile` takes the numbers of nodes that check
/// from a first one on. Returns the forms of each trip by the node of its loop, and the plans.
pub(super) fn compile<T>(
    graph: &Graph,
    kernels: &mut [Kernel],
    first_site: NodeId,
    compile: impl Fn(&Graph, NodeId) -> CompiledTrip<T>,
) -> (Vec<(NodeId, T)>, Vec<LoopPlan>) {
    let (mut forms, mut plans) = (vec![], vec![]);
    let mut site = first_site + graph.nodes.len();
    for kernel in kernels {
        let KernelBody::Loop(body) = &mut kernel.body else { continue };
        let trip = Trip::of(graph, body);
        let compiled = compile(&trip.graph, site);
        site += compiled.n_sites;
        let Trip { carried, number, given, ends, .. } = trip;
        let plan = LoopPlan { node: body.node, step: Arc::new(compiled.plan), carried, number, given, ends };
        body.workspace_bytes = plan.workspace_bytes();
        body.checks = plan.step.check_nodes().collect();
        let trips = body.trips as u64;
        let sum = |of: fn(&Kernel) -> u64| {
            plan.step.kernels.iter().map(of).sum::<u64>().saturating_mul(trips).min(MOST)
        };
        (kernel.bytes_read, kernel.bytes_written) = (sum(|k| k.bytes_read), sum(|k| k.bytes_written));
        kernel.flops = sum(|k| k.flops);
        forms.push((body.node, compiled.forms));
        plans.push(plan);
    }
    (forms, plans)
}

/// A plan with the plans of its loops, whose checks are its own.
pub(super) fn planned(mut plan: Plan, first_site: NodeId, loops: Vec<LoopPlan>) -> Plan {
    plan.assertions.iter_mut().for_each(|check| check.node += first_site);
    for trip in &loops {
        plan.assertions.extend(trip.step.assertions.iter().cloned());
        plan.places.extend(trip.step.places.iter().cloned());
    }
    plan.loops = loops;
    plan
}

/// A trip as the graph of a step, and the names of its inputs.
struct Trip {
    graph: Graph,
    carried: Vec<Symbol>,
    number: Symbol,
    given: Vec<Symbol>,
    ends: Option<Symbol>,
}

impl Trip {
    fn of(graph: &Graph, body: &LoopBody) -> Trip {
        let mut trip = graph.nodes[body.node].regions[0].clone();
        let inputs: Vec<NodeId> = trip.inputs().map(|(id, _)| id).collect();
        let names: Vec<Symbol> = inputs.iter().map(|&id| trip.nodes[id].name().clone()).collect();
        for &input in &inputs[..body.n_carried] {
            trip.nodes[input].op = NodeOp::Input(InputKind::State);
        }
        let mut next: Vec<Value> = trip.outputs.iter().map(|(_, value)| *value).collect();
        trip.outputs = trip.outputs.split_off(body.n_carried);
        next.truncate(body.n_carried);
        trip.state = inputs.iter().zip(next).map(|(&input, next)| StateLink { input, next }).collect();
        let trip = sound("loop", Level::Primitive, trip);
        Trip {
            ends: trip.outputs.first().map(|(name, _)| name.clone()),
            carried: names[..body.n_carried].to_vec(),
            number: names[body.n_carried].clone(),
            given: names[body.n_carried + 1..].to_vec(),
            graph: trip,
        }
    }
}
