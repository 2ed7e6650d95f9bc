//! The origin of a NaN or an infinity. Steps run one by one, with a copy of the state before each. The oracle repeats the
//! first step whose state or results contain a NaN or an infinity, node by node.

use std::collections::HashMap;

use engine_core::fusion::op_name;
use engine_core::ir::{Graph, InputKind, NodeOp, Symbol, Value};
use engine_core::op::Registry;
use engine_core::oracle::{Computed, Oracle, OracleTensor};
use indexmap::IndexMap;

use super::batches::{Batches, Ready};
use super::error::SessionError;
use super::origin::{Origin, OriginNode};
use super::state::{State, carried};
use crate::tensor::HostTensor;

/// Takes one step of a stage; fails if it leaves a number that is none where there was none before. `data` are inputs
/// that are neither parameters nor state.
pub(super) fn traced_step(
    stage: &Symbol,
    batches: &mut Batches,
    (state, seed, step): (&State, u64, u64),
    data: &dyn Fn(&str) -> Result<Option<HostTensor>, SessionError>,
) -> Result<(), SessionError> {
    batches.step_by(step, &mut |ready, number| traced_run(stage, ready, (state, seed, number), data))
}

/// As [`traced_step`], for one run of a plan that is given this step number.
pub(super) fn traced_run(
    stage: &Symbol,
    ready: &mut Ready,
    (state, seed, step): (&State, u64, u32),
    data: &dyn Fn(&str) -> Result<Option<HostTensor>, SessionError>,
) -> Result<(), SessionError> {
    let names: Vec<Symbol> = carried(&ready.plan.plan).map(|(name, _)| name.clone()).collect();
    let before = state.snapshot(&names)?;
    let ran = ready.run(step, 1);
    ran.map_err(|source| SessionError::Run { stage: stage.clone(), source })?;
    let after = state.snapshot(&names)?;
    let was_finite = |name: &str| before.get(name).is_none_or(is_finite);
    let spoilt = after.iter().any(|(name, tensor)| was_finite(name) && !is_finite(tensor));
    // An infinity in a result may be intended. An unintended one eventually reaches a state.
    if !spoilt && !ready.outputs(|_| true)?.iter().any(|(_, tensor)| has_nan(tensor)) {
        return Ok(());
    }
    let inputs = inputs(&ready.plan.graph, &before, data)?;
    let origin = Origin { step: u64::from(step), node: first(&ready.plan.graph, &inputs, seed, step) };
    Err(SessionError::NotFinite { stage: stage.clone(), origin: Box::new(origin) })
}

fn is_finite(tensor: &HostTensor) -> bool {
    !tensor.dtype().is_float() || tensor.to_f64().iter().all(|x| x.is_finite())
}

fn has_nan(tensor: &HostTensor) -> bool {
    tensor.dtype().is_float() && tensor.to_f64().iter().any(|x| x.is_nan())
}

fn inputs(
    graph: &Graph,
    state: &IndexMap<String, HostTensor>,
    data: &dyn Fn(&str) -> Result<Option<HostTensor>, SessionError>,
) -> Result<HashMap<String, OracleTensor>, SessionError> {
    let mut inputs = HashMap::new();
    for (id, kind) in graph.inputs().filter(|(_, kind)| *kind != InputKind::Step) {
        let name = graph.nodes[id].name();
        let tensor = match state.get(&**name) {
            Some(tensor) => Some(tensor.clone()),
            None => data(name)?,
        };
        if let Some(tensor) = tensor {
            let ty = graph.ty(Value::of(id));
            inputs.insert(name.to_string(), OracleTensor::new(ty.dtype, &ty.extents(), &tensor.to_f64()));
        } else if kind != InputKind::State {
            engine_core::bug!("nothing is known of input `{name}`");
        }
    }
    Ok(inputs)
}

/// The first node of the graph that makes a NaN where no operand has one, or an infinity out of finite operands.
/// Constants are meant so.
fn first(graph: &Graph, inputs: &HashMap<String, OracleTensor>, seed: u64, step: u32) -> Option<OriginNode> {
    let mut found = None;
    let registry = Registry::new();
    let outcome = Oracle::rounded(&registry).watch(graph, inputs, seed, i64::from(step), &mut |computed| {
        let is_meant = matches!(computed.graph.nodes[computed.node].op, NodeOp::Const(_) | NodeOp::Input(_));
        if found.is_none() && !is_meant {
            let made = |result| Some(origin(computed, result, made_at(&computed.operands, result)?));
            found = computed.results.iter().find_map(made);
        }
    });
    // A failed assertion ends the computation. The values before it remain valid.
    drop(outcome);
    found
}

/// The first element of a result that is a NaN or an infinity and owes that to the node alone.
fn made_at(operands: &[&OracleTensor], result: &OracleTensor) -> Option<usize> {
    let first = |tensor: &OracleTensor, is_sought: fn(f64) -> bool| {
        let is_float = tensor.dtype.is_float();
        (0..tensor.len()).find(|&i| is_float && is_sought(tensor.float(i)))
    };
    let made = |is_sought: fn(f64) -> bool, explains: fn(f64) -> bool| {
        let is_given = || operands.iter().any(|operand| first(operand, explains).is_some());
        first(result, is_sought).filter(|_| !is_given())
    };
    made(f64::is_nan, f64::is_nan).or_else(|| made(f64::is_infinite, |x| !x.is_finite()))
}

fn origin(computed: &Computed<'_>, result: &OracleTensor, at: usize) -> OriginNode {
    let graph = computed.graph;
    let node = &graph.nodes[computed.node];
    let names: Vec<String> = node.inputs.iter().map(|&input| graph.name_of(input).to_string()).collect();
    let operands = names.iter().zip(&computed.operands);
    OriginNode {
        name: format!("{}: {}", node.name(), node.outputs[0].ty),
        formula: format!("{}({})", op_name(&node.op), names.join(", ")),
        span: node.span,
        trips: computed.trips.clone(),
        value: result.float(at),
        position: coordinates(at, &result.extents),
        operands: operands.map(|(name, operand)| described(name, operand, result, at)).collect(),
    }
}

/// The range of an operand, and its element at the place if it has one there.
fn described(name: &str, operand: &OracleTensor, result: &OracleTensor, at: usize) -> String {
    let values = operand.to_f64();
    let range = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick);
    let Some((low, high)) = range(f64::min).zip(range(f64::max)) else { return format!("`{name}` is empty") };
    let there = match operand.extents == result.extents {
        true => format!(", {} there", values[at]),
        false => String::new(),
    };
    format!("`{name}` is in {low}..{high}{there}")
}

fn coordinates(mut at: usize, extents: &[usize]) -> Vec<usize> {
    let mut coordinates: Vec<usize> = extents
        .iter()
        .rev()
        .map(|&extent| {
            let coordinate = at % extent.max(1);
            at /= extent.max(1);
            coordinate
        })
        .collect();
    coordinates.reverse();
    coordinates
}
