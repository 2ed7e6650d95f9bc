//! Parity: several devices compute equal graphs on equal operands.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use engine_core::codegen;
use engine_core::compile::{Compiled, Options, compile};
use engine_core::fusion::{self, Kernel, fuse_with};
use engine_core::ir::{Binary, DType, Graph, InputKind, NodeOp, Scalar, Symbol, Value};
use engine_core::op::{OpForm, Registry};
use engine_core::plan::{Plan, plan};
use engine_core::testing::{self, Case};
use engine_runtime::device::{Device, DeviceError, RunError};
use engine_runtime::tensor::HostTensor;

use super::difference::{Allowed, Difference};
use super::oracle;
use super::page::{self, Peer, Row};
use super::stages::stages_of;
use crate::Engine;
use crate::cli::args::VerifyArgs;
use crate::cli::comparison::operands::{Sort, enlarged, enlarged_operands, operands};
use crate::cli::comparison::part::{SEED, STEP, edges_of, part};
use crate::cli::comparison::{Fault, Results, Tolerance, Trial, run};
use crate::cli::device::compile_options_for;
use crate::cli::output::{Failure, print};
use crate::devices::Choice;

pub(super) fn compare_devices(
    engine: &Engine,
    args: &VerifyArgs,
    devices: &[Arc<dyn Device>],
) -> Result<(), Failure> {
    let peer = |(&choice, device): (&Choice, &Arc<dyn Device>)| {
        let options = compile_options_for(&args.compile, &**device);
        Peer { choice, device: Arc::clone(device), options }
    };
    let peers: Vec<Peer> = args.device.iter().zip(devices).map(peer).collect();
    let mut verdict = Verdict::default();
    let mut show = |title: &str, rows: &[Row]| {
        print(if args.markdown { page::markdown } else { page::text }(title, &peers, rows));
        rows.iter().for_each(|row| verdict.see(row, &peers));
    };
    if args.markdown {
        print(page::head(&peers));
    }
    if args.all || args.graphs.is_empty() {
        show("ops", &op_rows(&engine.registry, args.filter.as_deref(), &peers)?);
    }
    for graph in &args.graphs {
        for (stage, rows) in stage_rows(engine, args, graph, &peers)? {
            show(&format!("{}, stage {stage}", graph.display()), &rows);
        }
    }
    verdict.finish()
}

/// Violations of the tolerances.
#[derive(Default)]
struct Verdict {
    n_rows: usize,
    n_beyond: usize,
    worst: Option<(f64, String)>,
}

impl Verdict {
    fn see(&mut self, row: &Row, peers: &[Peer]) {
        self.n_rows += 1;
        self.n_beyond += usize::from(row.cells.iter().any(|cell| cell.beyond.is_some()));
        for (cell, peer) in row.cells.iter().zip(&peers[1..]) {
            if let Some((excess, why)) = &cell.beyond
                && self.worst.as_ref().is_none_or(|(most, _)| excess > most)
            {
                self.worst = Some((*excess, format!("{} on {}: {why}", row.name, peer.name())));
            }
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let Verdict { n_rows, n_beyond, worst } = self;
        match worst {
            None => {
                print(format!("\n{n_rows} rows: all within the tolerances of `engine selftest` and `verify`"))
            }
            Some((_, worst)) => {
                let text = format!("{n_rows} rows: {n_beyond} beyond tolerance; the worst is {worst}");
                return Err(Failure::graph(text));
            }
        }
        Ok(())
    }
}

// ---- Ops.

fn op_rows(registry: &Registry, filter: Option<&str>, peers: &[Peer]) -> Result<Vec<Row>, Failure> {
    let is_wanted = |form: &&Arc<OpForm>| filter.is_none_or(|part| form.name.contains(part));
    let rows = registry.ops().filter(is_wanted).map(|form| op_row(form, registry, peers));
    let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
    match rows.is_empty() {
        true => Err(Failure::graph("no op has a name like that; `engine ops` lists them")),
        false => Ok(rows),
    }
}

fn op_row(form: &OpForm, registry: &Registry, peers: &[Peer]) -> Result<Row, Failure> {
    let mut row = empty_row(&form.name, peers);
    for example in &form.examples {
        match testing::case(example, registry) {
            Ok(case) => compare_example(&case, example.title, registry, peers, &mut row)?,
            Err(why) => row.note = Some(why),
        }
    }
    Ok(row)
}

/// Compares an example as it is and with larger operands, if its op accepts them.
fn compare_example(
    case: &Case,
    title: &str,
    registry: &Registry,
    peers: &[Peer],
    row: &mut Row,
) -> Result<(), Failure> {
    let example = Trial { operands: case.inputs.clone(), seed: SEED, step: STEP, sort: title };
    Programs::of_calls(&case.graph, registry, peers).compare([example].into_iter(), peers, row)?;
    let Some(larger) = enlarged(&case.graph) else { return Ok(()) };
    // Each trial has a step of its own, for random numbers.
    let trial = |(step, sort)| Trial::of(sort, enlarged_operands(case, &larger, sort), step);
    let trials = (STEP..).zip(Sort::ALL).map(trial);
    Programs::of_calls(&larger, registry, peers).compare(trials, peers, row)
}

// ---- Graphs.

/// The kernels of each stage, as they are cut for the first device.
fn stage_rows(
    engine: &Engine,
    args: &VerifyArgs,
    graph: &Path,
    peers: &[Peer],
) -> Result<Vec<(Symbol, Vec<Row>)>, Failure> {
    let (stages, is_ordered) = stages_of(engine, args, graph, peers[0].options.clone())?;
    let rows = |compiled: &Compiled| {
        let kernels = compiled.all_kernels().into_iter();
        kernels
            .map(|(kernel, compiled)| kernel_row(kernel, compiled, is_ordered, peers))
            .collect::<Result<_, _>>()
    };
    stages.iter().map(|(name, compiled)| Ok((name.clone(), rows(compiled)?))).collect()
}

pub(super) fn kernel_row(
    kernel: &Kernel,
    compiled: &Compiled,
    is_ordered: bool,
    peers: &[Peer],
) -> Result<Row, Failure> {
    let mut row = empty_row(&kernel.name, peers);
    let Some((sources, results)) = edges_of(kernel, &compiled.simplified) else {
        row.note = Some("it copies a state".to_string());
        return Ok(row);
    };
    let part = part(&compiled.simplified, &sources, &results);
    let programs = Programs::of_part(&part, compiled, is_ordered, peers);
    for sort in Sort::ALL {
        let drawn = match operands(&part, &compiled.typed, sort, 1.0) {
            Ok(drawn) => drawn,
            Err(error) => {
                row.note = Some(format!("of {}, {error}", sort.text()));
                continue;
            }
        };
        let earlier: Vec<_> = row.cells.iter_mut().map(|cell| cell.beyond.take()).collect();
        programs.compare([Trial::of(sort, drawn, STEP)].into_iter(), peers, &mut row)?;
        // Devices that differ may both be right: an index is chosen by rounded numbers, and small numbers are flushed.
        let is_right = |i: usize| {
            let plan = (*programs.plans[i]).clone();
            oracle::compare(&part, &compiled.typed, plan, &peers[i].device, &[sort]).is_ok()
        };
        for (i, (cell, earlier)) in row.cells.iter_mut().zip(earlier).enumerate() {
            if cell.beyond.is_some() && is_right(0) && is_right(i + 1) {
                cell.both_right = cell.beyond.take().map(|(_, why)| why);
            }
            if let Some((excess, why)) = earlier {
                cell.exceed(excess, why);
            }
        }
    }
    Ok(row)
}

// ---- Running on all.

/// A graph, compiled for every device.
struct Programs {
    plans: Vec<Arc<Plan>>,
    tolerance: Tolerance,
    /// Random results, which must be bit-identical everywhere.
    drawn: Vec<Symbol>,
}

impl Programs {
    fn of_calls(graph: &Graph, registry: &Registry, peers: &[Peer]) -> Programs {
        let compiled: Vec<Compiled> =
            peers.iter().map(|peer| compile(graph, registry, &peer.options)).collect();
        let simplified = compiled[0].simplified.clone();
        Programs::new(&simplified, compiled.into_iter().map(|compiled| compiled.plan))
    }

    /// The programs for a part of a simplified graph. Each device cuts it into kernels in its own way.
    fn of_part(part: &Graph, compiled: &Compiled, is_ordered: bool, peers: &[Peer]) -> Programs {
        let planned = |peer: &Peer| {
            let Options { fuse, without, fuel, device, .. } = peer.options.clone();
            let n_streams = device.n_streams;
            let shared_attention = codegen::SHARED_ATTENTION;
            let settings = fusion::Settings {
                fuse,
                without,
                fuel,
                device,
                deterministic: is_ordered,
                shared_attention,
                first_site: 0,
            };
            let plan = plan(part, fuse_with(part, &settings).kernels, n_streams);
            Plan { matmul: compiled.plan.matmul, numerics: compiled.plan.numerics, ..plan }
        };
        Programs::new(part, peers.iter().map(planned))
    }

    fn new(graph: &Graph, plans: impl Iterator<Item = Plan>) -> Programs {
        let is_drawn = |(_, value): &&(Symbol, Value)| is_drawn(graph, *value);
        let drawn = graph.outputs.iter().filter(is_drawn).map(|(name, _)| name.clone()).collect();
        Programs { plans: plans.map(Arc::new).collect(), tolerance: Tolerance::of(graph), drawn }
    }

    fn allowed(&self, name: &Symbol, dtype: DType) -> Allowed {
        match self.drawn.contains(name) {
            true => Allowed::Nothing,
            false => Allowed::Share(self.tolerance.at(dtype)),
        }
    }

    /// Adds the results of all trials to a row. Operands that the first device refuses are skipped: a computed index
    /// may be out of range.
    ///
    /// # Errors
    /// If a device is lost or has no memory.
    fn compare<'t>(
        &self,
        trials: impl Iterator<Item = Trial<'t>>,
        peers: &[Peer],
        row: &mut Row,
    ) -> Result<(), Failure> {
        for trial in trials {
            let run = |i: usize| run(&peers[i].device, &self.plans[i], &trial);
            let expected = match run(0) {
                Ok(expected) => expected,
                Err(error) => {
                    row.note = Some(format!("{}: {}", peers[0].name(), reason(error)?.0));
                    continue;
                }
            };
            row.n += expected.values().map(HostTensor::n_elements).sum::<usize>();
            row.dtypes.extend(expected.values().map(HostTensor::dtype));
            for (i, cell) in row.cells.iter_mut().enumerate() {
                match run(i + 1) {
                    Ok(found) => self.see(&found, &expected, trial.sort, cell),
                    Err(error) => refuse(cell, error, trial.sort)?,
                }
            }
        }
        Ok(())
    }

    fn see(&self, found: &Results, expected: &Results, sort: &str, cell: &mut Difference) {
        for (name, expected) in expected {
            let Some(found) = found.get(name) else { continue };
            let place = format!("of {sort}, `{name}`");
            cell.see(found, expected, self.allowed(name, expected.dtype()), &place);
        }
    }
}

fn refuse(cell: &mut Difference, error: RunError, sort: &str) -> Result<(), Failure> {
    match reason(error)? {
        (why, true) => _ = cell.unable.get_or_insert(why),
        (why, false) => cell.exceed(f64::INFINITY, format!("of {sort}, {why}")),
    }
    Ok(())
}

/// Why a device did not run a program, and whether it does not support it.
///
/// # Errors
/// If the device is lost or has no memory, which does not judge its computation.
fn reason(error: RunError) -> Result<(String, bool), Failure> {
    if let RunError::Device(DeviceError::Unsupported { reason, .. }) = error {
        return Ok((reason, true));
    }
    match Fault::from(error) {
        Fault::Machine(error) => Err(error.into()),
        Fault::Unsupported(why) | Fault::Wrong(why) => Ok((why, false)),
    }
}

fn empty_row(name: &str, peers: &[Peer]) -> Row {
    let cells = vec![Difference::default(); peers.len() - 1];
    Row { name: name.to_string(), dtypes: BTreeSet::new(), n: 0, note: None, cells }
}

/// Whether a value depends on random bits and constants alone, without a float function that devices may round
/// differently. This holds for uniform numbers, but not for normal ones.
fn is_drawn(graph: &Graph, value: Value) -> bool {
    let (mut stack, mut is_random) = (vec![value], false);
    while let Some(value) = stack.pop() {
        let node = &graph.nodes[value.node];
        is_random |= matches!(node.op, NodeOp::Random { .. });
        let is_exact = match &node.op {
            NodeOp::Input(kind) => *kind == InputKind::Step,
            NodeOp::Random { .. } | NodeOp::Const(_) | NodeOp::Iota { .. } | NodeOp::View(_) => true,
            NodeOp::Scalar(Scalar::Binary(op)) => {
                !graph.ty(value).dtype.is_float() || matches!(op, Binary::Add | Binary::Sub | Binary::Mul)
            }
            NodeOp::Scalar(scalar) => matches!(scalar, Scalar::Cast(_) | Scalar::MulAdd | Scalar::Select),
            _ => false,
        };
        if !is_exact {
            return false;
        }
        stack.extend(&node.inputs);
    }
    is_random
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cli::selftest::tests::{failing, is_of_machine};
    use crate::devices;

    #[test]
    fn a_lost_or_full_device_has_no_differences() {
        let registry = Engine::new().registry;
        let form = registry.ops().find(|form| form.name.contains("softmax")).unwrap();
        for (device, code) in failing() {
            let sound = devices::open(Choice::Cpu, Some(1)).unwrap().device;
            let peer =
                |device: Arc<dyn Device>| Peer { choice: Choice::Cpu, device, options: Options::default() };
            let peers = [peer(sound), peer(Arc::new(device))];
            let Err(failure) = op_row(form, &registry, &peers) else { panic!("nothing is told") };
            assert!(is_of_machine(&failure, code), "{}", failure.text);
        }
    }
}
