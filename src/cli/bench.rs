//! `engine bench`: the time of steps.

use std::sync::Arc;

use engine_core::fusion::Kernel;
use engine_core::ir::Symbol;
use engine_core::op::Registry;
use engine_runtime::data::source::{DataSet, LoadContext};
use engine_runtime::device::{Device, DeviceKind};
use engine_runtime::session::{self, CompilingPlanner, Effort, Session, StageMeasure};
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::args::{BenchArgs, CompileArgs, PipelineArgs};
use super::compare::Earlier;
use super::device::{compile_options_for, on_device};
use super::open::{Opened, open};
use super::output::{Failure, print};
use crate::Engine;

pub(super) fn bench(engine: Engine, args: &BenchArgs) -> Result<(), Failure> {
    let loaded = Loaded::new(&engine, &args.pipeline)?;
    loaded.opened.expect_stages("--stage", &args.stage)?;
    if let Some(file) = &args.compare {
        return compare(&loaded, args, &Earlier::read(file)?);
    }
    let (name, measured, price) = on_device(&args.machine.place, |device| {
        let mut session = loaded.session(&args.machine.compile, device)?;
        args.residency.apply(&mut session);
        let effort = Effort { warmup: args.warmup, steps: args.steps, at_once: args.at_once, profiled: 0 };
        let measured = measure(&loaded.opened, &mut session, args.stage.as_deref(), effort)?;
        drop(session);
        let price = order_price(&engine, args, &loaded.opened, device, &measured)?;
        Ok((device.info().name, measured, price))
    })?;
    if args.json {
        let stages: Vec<Value> = measured.iter().map(as_json).collect();
        print(format!("{:#}", json!({ "device": name, "stages": stages, "order": price.as_json() })));
        return Ok(());
    }
    print(format!(
        "{:<16} {:>8} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "stage", "kernels", "compile ms", "median µs", "p95 µs", "max µs", "host µs"
    ));
    for stage in &measured {
        let times = Times::of(&stage.steps);
        print(format!(
            "{:<16} {:>8} {:>12.1} {:>12.1} {:>12.1} {:>12.1} {:>12}",
            stage.name,
            stage.plan.launches.len(),
            stage.compile_seconds * 1e3,
            times.median * 1e6,
            times.p95 * 1e6,
            times.max * 1e6,
            host_us(stage).map_or("-".to_string(), |host| format!("{host:.1}"))
        ));
    }
    price.lines().into_iter().for_each(print);
    Ok(())
}

/// Measures as often as before, and compares.
fn compare(loaded: &Loaded, args: &BenchArgs, earlier: &Earlier) -> Result<(), Failure> {
    let runs = on_device(&args.machine.place, |device| {
        let mut session = loaded.session(&args.machine.compile, device)?;
        args.residency.apply(&mut session);
        let effort = Effort { warmup: args.warmup, steps: args.steps, at_once: args.at_once, profiled: 0 };
        let mut runs = vec![];
        for _ in 0..earlier.n_runs() {
            let measured = measure(&loaded.opened, &mut session, args.stage.as_deref(), effort)?;
            let median = |stage: &StageMeasure| (stage.name.to_string(), Times::of(&stage.steps).median);
            runs.push(measured.iter().map(median).collect());
        }
        Ok(runs)
    })?;
    earlier.compare(&runs)
}

/// The maximum number of timed steps in the other order of sums.
const MOST_STEPS_AGAIN: usize = 5;

/// The cost of adding floats in the order of their indices.
enum OrderPrice {
    /// No stage adds updates with equal indices.
    Nothing,
    /// The device always adds in order.
    Free,
    /// By stage: its name, and the medians in order and in any order, in seconds.
    Paid(Vec<(String, [f64; 2])>),
}

/// Measures the stages again in the other order of sums, if the device supports both.
fn order_price(
    engine: &Engine,
    args: &BenchArgs,
    opened: &Opened,
    device: &Arc<dyn Device>,
    measured: &[StageMeasure],
) -> Result<OrderPrice, Failure> {
    let has_choice = |stage: &&StageMeasure| stage.plan.kernels.iter().any(Kernel::adds_where_indices_meet);
    let stages: Vec<&StageMeasure> = measured.iter().filter(has_choice).collect();
    if stages.is_empty() {
        return Ok(OrderPrice::Nothing);
    }
    if device.info().kind == DeviceKind::Cpu {
        return Ok(OrderPrice::Free);
    }
    let is_in_order = opened.pipeline.deterministic;
    let mut pipeline = args.pipeline.clone();
    pipeline.graph.changes.set.push(("deterministic".into(), (!is_in_order).to_string()));
    let other = Loaded::new(engine, &pipeline)?;
    let mut session = other.session(&args.machine.compile, device)?;
    args.residency.apply(&mut session);
    // The other order may be many times slower.
    let steps = args.steps.min(MOST_STEPS_AGAIN);
    let effort = Effort { warmup: args.warmup, steps, at_once: args.at_once, profiled: 0 };
    let mut paid = vec![];
    for stage in stages {
        let again = measure(&other.opened, &mut session, Some(&stage.name), effort)?;
        let mut medians = [stage, &again[0]].map(|stage| Times::of(&stage.steps).median);
        if !is_in_order {
            medians.reverse();
        }
        paid.push((stage.name.to_string(), medians));
    }
    Ok(OrderPrice::Paid(paid))
}

impl OrderPrice {
    fn lines(&self) -> Vec<String> {
        match self {
            OrderPrice::Nothing => vec![],
            OrderPrice::Free => {
                vec!["sums where indices meet: in order, which costs nothing on this device".into()]
            }
            OrderPrice::Paid(stages) => stages.iter().map(price_line).collect(),
        }
    }

    fn as_json(&self) -> Value {
        let OrderPrice::Paid(stages) = self else { return json!([]) };
        let stage = |(name, [in_order, in_any]): &(String, [f64; 2])| json!({ "name": name, "deterministic_us": in_order * 1e6, "median_us": in_any * 1e6 });
        stages.iter().map(stage).collect()
    }
}

fn price_line((name, [in_order, in_any]): &(String, [f64; 2])) -> String {
    format!(
        "sums where indices meet: `{name}` takes {:.2} times as long with `deterministic: true` ({:.1} to {:.1} µs)",
        in_order / in_any,
        in_order * 1e6,
        in_any * 1e6
    )
}

/// A pipeline with its data.
pub(super) struct Loaded {
    pub(super) opened: Opened,
    registry: Registry,
    sets: IndexMap<Symbol, DataSet>,
}

impl Loaded {
    pub(super) fn new(engine: &Engine, pipeline: &PipelineArgs) -> Result<Loaded, Failure> {
        let Engine { registry, sources } = engine;
        let mut registry = registry.clone();
        let opened = open(&pipeline.graph, &mut registry)?;
        let context = LoadContext::from_env(pipeline.data_dir());
        let sets = session::load_data(&opened.pipeline, sources, &context, &mut |_| {});
        let sets = sets.map_err(|error| opened.failure(error))?;
        Ok(Loaded { opened, registry, sets })
    }

    /// A session on a device.
    pub(super) fn session(&self, args: &CompileArgs, device: &Arc<dyn Device>) -> Result<Session, Failure> {
        let (pipeline, registry) = (&self.opened.pipeline, self.registry.clone());
        let planner =
            CompilingPlanner::new(Arc::clone(pipeline), registry, compile_options_for(args, &**device));
        let (device, sets) = (Arc::clone(device), self.sets.clone());
        let session = Session::new(Arc::clone(pipeline), Arc::new(planner), device, sets);
        session.map_err(|error| self.opened.failure(error))
    }
}

/// The measurements of the stages. Fails if there is no stage to measure.
pub(super) fn measure(
    opened: &Opened,
    session: &mut Session,
    only: Option<&str>,
    effort: Effort,
) -> Result<Vec<StageMeasure>, Failure> {
    let measured = session.measure(only, effort).map_err(|error| opened.failure(error))?;
    match (measured.is_empty(), only) {
        (false, _) => Ok(measured),
        (true, Some(name)) => Err(Failure::graph(format!("`{name}` takes no steps"))),
        (true, None) => Err(Failure::graph(
            "the pipeline has no stage that takes steps: Train, Evaluate, Search, Run or Generate",
        )),
    }
}

/// Order statistics of some times, in seconds.
pub(super) struct Times {
    pub(super) median: f64,
    p95: f64,
    max: f64,
}

impl Times {
    pub(super) fn of(times: &[f64]) -> Times {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let last = sorted.len().saturating_sub(1) as f64;
            sorted.get((share * last).round() as usize).copied().unwrap_or(0.0)
        };
        Times { median: at(0.5), p95: at(0.95), max: at(1.0) }
    }
}

/// The median host time for submitting a step. `None` if the host computes the step itself.
fn host_us(stage: &StageMeasure) -> Option<f64> {
    (!stage.host.is_empty()).then(|| Times::of(&stage.host).median * 1e6)
}

fn as_json(stage: &StageMeasure) -> Value {
    let Times { median, p95, max } = Times::of(&stage.steps);
    json!({
        "name": &*stage.name,
        "kernels": stage.plan.launches.len(),
        "compile_seconds": stage.compile_seconds,
        "steps": stage.steps.len(),
        "median_us": median * 1e6,
        "p95_us": p95 * 1e6,
        "max_us": max * 1e6,
        "host_us": host_us(stage),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_of_order_is_printed_by_stage() {
        let paid = OrderPrice::Paid(vec![("train".into(), [150e-6, 100e-6])]);
        let line = "sums where indices meet: `train` takes 1.50 times as long with `deterministic: true` \
                    (150.0 to 100.0 µs)";
        assert_eq!(paid.lines(), [line]);
        assert_eq!(OrderPrice::Nothing.lines(), Vec::<String>::new());
    }

    #[test]
    fn the_tail_is_that_of_the_sorted_times() {
        let times: Vec<f64> = (0..101).rev().map(f64::from).collect();
        let Times { median, p95, max } = Times::of(&times);
        assert_eq!((median, p95, max), (50.0, 95.0, 100.0));
        assert_eq!(Times::of(&[3.0]).p95, 3.0);
    }
}
