//! Comparison of a device with the interpreter: the results of a plan on operands of several sorts.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use engine_core::fusion::{FusedOp, KernelBody, RowConsumer};
use engine_core::ir::{Graph, Node, NodeOp, Symbol, Value};
use engine_core::numerics;
use engine_core::op::Registry;
use engine_core::oracle::{Oracle, OracleRun, OracleTensor, Precision};
use engine_core::plan::Plan;
use engine_runtime::device::{Device, DeviceKind};
use indexmap::IndexMap;

use super::errors::{Histogram, instead_of_nan, nearer};
use crate::cli::comparison::operands::{Sort, operands};
use crate::cli::comparison::part::STEP;
use crate::cli::comparison::{Fault, Tolerance, Trial, run, state_name};

/// Runs a plan of a graph on operands of some sorts, and counts the errors of outputs and next states. A device that
/// may flush subnormal numbers may do so anywhere. `typed` is the graph with the ops, which know the ranges of their
/// operands.
pub(super) fn compare(
    graph: &Graph,
    typed: &Graph,
    plan: Plan,
    device: &Arc<dyn Device>,
    sorts: &[Sort],
) -> Result<Histogram, Fault> {
    let registry = Registry::new();
    let tolerance = Tolerance::of(graph);
    let of_products = product_tolerance(graph, &plan, &**device);
    let plan = Arc::new(plan);
    let weighed = weighed_values(&plan);
    let (graph, selections) = (&with_sources(graph), selections(graph));
    let mut histogram = Histogram::default();
    for &sort in sorts {
        let (trial, exact) = expected(graph, typed, sort, &registry)?;
        let interpret = |precision: Precision| {
            let oracle = Oracle { registry: &registry, precision };
            interpreted(&oracle, graph, &trial).map(|(results, _)| results)
        };
        let spread = Spread::new(&exact, &interpret);
        let found = run(device, &plan, &trial)?;
        for (name, expected) in &exact {
            let Some(found) = found.get(name) else { continue };
            let source = selections.get(name).and_then(|_| exact.get(&source_name(name)));
            let allowed = tolerance.at(source.unwrap_or(expected).dtype).max(of_products);
            let attempt = |expected: &OracleTensor, spread: &[f64]| {
                let mut counts = histogram.clone();
                counts.count(found, expected, allowed, spread).map(|()| counts)
            };
            let mut counted = match source {
                Some(source) => {
                    let mut counts = histogram.clone();
                    counts.count_places(found, expected, source, allowed).map(|()| counts)
                }
                None => attempt(expected, &[]),
            };
            if counted.is_err() && device.model().may_flush && source.is_none() {
                counted = attempt(&nearer(found, expected, &interpret(Precision::Flushed)?[name]), &[]);
            }
            if counted.is_err() && !weighed.is_empty() && source.is_none() {
                let oracle = Oracle { registry: &registry, precision: Precision::Rounded };
                let (finite, _) = interpreted(&oracle, graph, &with_finite(&trial, &weighed))?;
                counted = attempt(&instead_of_nan(found, expected, &finite[name]), &[]).or(counted);
            }
            if let Err(why) = counted {
                counted = attempt(expected, spread.of(name)?).map_err(|_| why);
            }
            histogram = counted.map_err(|why| Fault::Wrong(format!("`{name}`{why} ({})", trial.sort)))?;
        }
    }
    Ok(histogram)
}

/// Results of the interpreter: outputs, and next states under the names of their states.
type Exact = IndexMap<Symbol, OracleTensor>;

/// Operands, and the interpreter's results. Tame operands are scaled down until no intermediate value overflows, if
/// that helps. A plan may compute in another way than its graph, and stay finite where the graph overflows.
fn expected(
    graph: &Graph,
    typed: &Graph,
    sort: Sort,
    registry: &Registry,
) -> Result<(Trial<'static>, Exact), Fault> {
    let precision = if sort.is_tame() { Precision::F64 } else { Precision::Rounded };
    let mut first = None;
    for &scale in sort.scales() {
        let drawn =
            operands(graph, typed, sort, scale).map_err(|error| Fault::Unsupported(error.to_string()))?;
        let trial = Trial::of(sort, drawn, STEP);
        let (results, overflows) = interpreted(&Oracle { registry, precision }, graph, &trial)?;
        if !overflows {
            return Ok((trial, results));
        }
        first.get_or_insert((trial, results));
    }
    first.ok_or_else(|| Fault::Unsupported("there are no operands".to_owned()))
}

/// The names of the values that attention weighs in a plan. A key that it hides contributes nothing, even if its value is no number.
/// The interpreter multiplies the value by a weight of 0.
fn weighed_values(plan: &Plan) -> Vec<&Symbol> {
    let mut names = vec![];
    for launch in &plan.launches {
        let KernelBody::Attention(body) = &plan.kernels[launch.kernel].body else { continue };
        names.extend(body.value.body.insts.iter().filter_map(|inst| match inst.op {
            FusedOp::Load { operand, .. } => Some(&plan.buffers[launch.buffers[operand]].name),
            _ => None,
        }));
    }
    names
}

/// The same run with 0 for all elements of some operands that are no finite numbers.
fn with_finite(trial: &Trial<'static>, names: &[&Symbol]) -> Trial<'static> {
    let finite = |tensor: &OracleTensor| {
        let numbers = tensor.to_f64().into_iter().map(|x| if x.is_finite() { x } else { 0.0 });
        OracleTensor::new(tensor.dtype, &tensor.extents, &numbers.collect::<Vec<f64>>())
    };
    let operands = trial.operands.iter().map(|(name, tensor)| {
        let is_weighed = names.iter().any(|known| ***known == **name);
        (name.clone(), if is_weighed { finite(tensor) } else { tensor.clone() })
    });
    Trial { operands: operands.collect(), ..*trial }
}

/// The results, and whether an intermediate number exceeds the range of its type.
fn interpreted(oracle: &Oracle, graph: &Graph, trial: &Trial<'_>) -> Result<(Exact, bool), Fault> {
    let mut overflows = false;
    let done = oracle.watch(graph, &trial.operands, trial.seed, i64::from(trial.step), &mut |computed| {
        let is_within = |tensor: &OracleTensor| {
            let largest = tensor.dtype.largest();
            !tensor.dtype.is_float() || tensor.to_f64().iter().all(|x| x.is_nan() || x.abs() <= largest)
        };
        let is_new =
            !computed.operands.is_empty() && computed.operands.iter().all(|operand| is_within(operand));
        overflows = overflows || is_new && !computed.results.iter().all(is_within);
    });
    let done = done.map_err(|error| Fault::Unsupported(error.to_string()))?;
    Ok((results(done), overflows))
}

fn results(run: OracleRun) -> Exact {
    let next = run.state.into_iter().map(|(name, next)| (state_name(&name), next));
    run.outputs.into_iter().chain(next).collect()
}

/// The sensitivity of results to errors of some units in the last place in all arithmetic. Where terms cancel, or a
/// selection depends on the last bits, an error of that size is no fault.
struct Spread<'r> {
    exact: &'r Exact,
    interpret: &'r dyn Fn(Precision) -> Result<Exact, Fault>,
    found: OnceCell<HashMap<Symbol, Vec<f64>>>,
}

impl<'r> Spread<'r> {
    /// More runs find more near ties.
    const N_RUNS: u64 = 4;

    fn new(exact: &'r Exact, interpret: &'r dyn Fn(Precision) -> Result<Exact, Fault>) -> Spread<'r> {
        Spread { exact, interpret, found: OnceCell::new() }
    }

    /// The sensitivity of each element of a result, computed on first use.
    fn of(&self, name: &Symbol) -> Result<&[f64], Fault> {
        if self.found.get().is_none() {
            let _ = self.found.set(self.measure()?);
        }
        Ok(self.found.get().map_or(&[], |found| &found[name]))
    }

    fn measure(&self) -> Result<HashMap<Symbol, Vec<f64>>, Fault> {
        let zeros =
            |(name, tensor): (&Symbol, &OracleTensor)| (name.clone(), vec![0.0; tensor.to_f64().len()]);
        let mut spread: HashMap<Symbol, Vec<f64>> = self.exact.iter().map(zeros).collect();
        for seed in 0..Spread::N_RUNS {
            for (name, moved) in (self.interpret)(Precision::Perturbed(seed))? {
                let (exact, moved) = (self.exact[&name].to_f64(), moved.to_f64());
                for (most, (a, b)) in
                    spread.entry(name).or_default().iter_mut().zip(exact.into_iter().zip(moved))
                {
                    let difference = if a == b || a.is_nan() && b.is_nan() { 0.0 } else { (a - b).abs() };
                    *most = if difference.is_nan() { f64::INFINITY } else { most.max(difference) };
                }
            }
        }
        Ok(spread)
    }
}

/// The tolerance for matmuls in TF32, whose factors have ten bits; zero if there are none.
fn product_tolerance(part: &Graph, plan: &Plan, device: &dyn Device) -> f64 {
    let is_fast = |node: &Node| match &node.op {
        NodeOp::Matmul(spec) => spec.precision.unwrap_or(plan.matmul) == numerics::Precision::Tf32,
        _ => false,
    };
    let has_fast = device.info().kind == DeviceKind::Cuda && part.nodes.iter().any(is_fast);
    if has_fast { 1e-3 } else { 0.0 }
}

/// Results that are positions in the rows of a computed value, by name, with that value.
fn selections(part: &Graph) -> HashMap<Symbol, Value> {
    let source = |result: Value| {
        let consumer = RowConsumer::of(part, result.node)?;
        let source = part.nodes[result.node].inputs[0];
        let is_given = matches!(part.nodes[source.node].op, NodeOp::Input(_));
        let last = part.ty(source).rank().checked_sub(1)?;
        let is_along_rows = match &part.nodes[result.node].op {
            NodeOp::Reduce { axes, .. } => axes[..] == [last],
            _ => true,
        };
        (consumer.positions() == Some(result.port) && !is_given && is_along_rows).then_some(source)
    };
    part.outputs.iter().filter_map(|(name, value)| Some((name.clone(), source(*value)?))).collect()
}

/// The part with the sources of its selections as further results.
fn with_sources(part: &Graph) -> Graph {
    let mut part = part.clone();
    part.outputs.extend(selections(&part).into_iter().map(|(name, value)| (source_name(&name), value)));
    part
}

fn source_name(result: &Symbol) -> Symbol {
    format!("what {result} is of").into()
}
