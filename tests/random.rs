#![allow(clippy::unwrap_used, missing_docs)]
//! Random pipelines, executed as they are planned. Their results equal those of the interpreter in double precision,
//! fused and unfused, for any number of threads.
//!
//! `PROPTEST_CASES=5000 cargo test --release --test random` runs many.

use engine::Engine;
use engine::core::compile::{Options, compile};
use engine::core::grad::differentiate;
use engine::core::ir::{Builder, DType, Graph, InputKind, Value};
use engine::core::op::Registry;
use engine::core::oracle::{Oracle, OracleRun, OracleTensor};
use engine::core::pipeline::RunStage;
use engine::core::plan::Plan;
use engine::core::stage;
use engine::runtime::device::Device;
use engine::runtime::plan_runner::Once;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, LazyLock};

#[path = "common/few.rs"]
mod few;
#[path = "common/parsed.rs"]
mod parsed;
#[path = "common/present.rs"]
mod present;

#[path = "random/generate.rs"]
mod generate;

use few::few;
use generate::{Numbers, Recipe, Written, recipe};
use parsed::parsed;

const SEED: u64 = 3;

proptest! {
    #![proptest_config(few(48))]

    #[test]
    fn plans_agree_with_the_interpreter(recipe in recipe(Numbers::Exact, 60, false)) {
        check(&recipe, on_cpu())?;
    }

    #[test]
    fn state_machines_agree_with_the_interpreter(recipe in recipe(Numbers::Exact, 24, true)) {
        check(&recipe, on_cpu())?;
    }

    #[test]
    fn smooth_plans_are_near_the_interpreter(recipe in recipe(Numbers::Smooth, 40, true)) {
        check(&recipe, on_cpu())?;
    }

    #[test]
    fn gradients_are_those_of_finite_differences(recipe in recipe(Numbers::Smooth, 24, false)) {
        check_gradient(&recipe)?;
    }
}

proptest! {
    #![proptest_config(few(6))]

    #[test]
    fn gpus_agree_with_the_interpreter(recipe in recipe(Numbers::Exact, 24, true)) {
        check(&recipe, &on_gpus())?;
    }

    #[test]
    fn smooth_plans_on_gpus_are_near_the_interpreter(recipe in recipe(Numbers::Smooth, 16, true)) {
        check(&recipe, &on_gpus())?;
    }

    #[test]
    fn verify_takes_no_rounding_for_a_fault(recipe in recipe(Numbers::Smooth, 24, true)) {
        let written = recipe.write();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("random.ron");
        std::fs::write(&file, &written.text).unwrap();
        let verify = Command::new(env!("CARGO_BIN_EXE_engine")).arg("verify").arg(&file).args(["--device", "cpu"]).output();
        let verify = verify.unwrap();
        let said = String::from_utf8_lossy(&verify.stdout);
        prop_assert!(verify.status.success(), "{said}\n{}", written.text);
    }
}

/// The graph of one step of the stage.
fn graph_of(written: &Written) -> (Graph, Registry) {
    static OPS: LazyLock<Registry> = LazyLock::new(|| Engine::new().registry);
    let mut registry = OPS.clone();
    let pipeline = parsed("random.ron", written.text.clone(), &mut registry);
    let run = pipeline.stages[0].get::<RunStage>().unwrap();
    (stage::running(&pipeline, run, &registry).unwrap(), registry)
}

/// The initial states.
fn first_states(recipe: &Recipe, written: &Written) -> HashMap<String, OracleTensor> {
    let number = |salt: usize, i: usize| {
        let mixed = ((i * 31 + salt * 17 + 7) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match recipe.numbers {
            Numbers::Exact => (mixed % 11) as f64 - 5.0,
            Numbers::Smooth => f64::from(((mixed % 4001) as f64 / 2000.0 - 1.0) as f32),
        }
    };
    let tensor = |(salt, (name, shape)): (usize, &(String, Vec<usize>))| {
        let numbers: Vec<f64> = (0..shape.iter().product()).map(|i| number(salt, i)).collect();
        (name.clone(), OracleTensor::new(DType::F32, shape, &numbers))
    };
    written.states.iter().enumerate().map(tensor).collect()
}

/// A device, and whether kernels are fused for it.
type Setup = (Arc<dyn Device>, bool);

/// Fused and unfused, on some threads.
fn on_cpu() -> &'static [Setup] {
    static SETUPS: LazyLock<Vec<Setup>> =
        LazyLock::new(|| vec![(present::cpu(1), true), (present::cpu(3), true), (present::cpu(2), false)]);
    &SETUPS
}

/// Fused and unfused, on each GPU that is present.
fn on_gpus() -> Vec<Setup> {
    present::gpus().iter().flat_map(|gpu| [(Arc::clone(gpu), true), (Arc::clone(gpu), false)]).collect()
}

fn plan_for(graph: &Graph, registry: &Registry, (device, fuse): &Setup) -> Arc<Plan> {
    let model = device.model();
    let options = Options { fuse: *fuse, device: model, ..Options::default() };
    Arc::new(compile(graph, registry, &options).plan)
}

fn check(recipe: &Recipe, setups: &[Setup]) -> TestCaseResult {
    let written = recipe.write();
    let (graph, registry) = graph_of(&written);
    let states = first_states(recipe, &written);
    let steps = |oracle: Oracle| -> Vec<OracleRun> {
        let mut states = states.clone();
        let step = |step: usize| {
            let done = oracle.run(&graph, &states, SEED, step as i64).unwrap();
            states.extend(done.state.iter().map(|(name, next)| (name.to_string(), next.clone())));
            done
        };
        (0..recipe.steps).map(step).collect()
    };
    let exact = steps(Oracle::new(&registry));
    let moved = [1, 2, 3].map(|seed| steps(Oracle::perturbed(&registry, seed)));
    for setup in setups {
        let plan = plan_for(&graph, &registry, setup);
        let mut once = Once::new(&setup.0, plan, &states, SEED).unwrap();
        for (step, exact) in exact.iter().enumerate() {
            once.run(step as u32).unwrap();
            let outputs = once.outputs().unwrap();
            let place = format!("step {step}, fuse {}, {}", setup.1, setup.0.info().name);
            for (name, expected) in &exact.outputs {
                let near = Near::to(recipe, expected, moved.iter().map(|run| &run[step].outputs[name]));
                near.check(&format!("{name} of {place}"), &outputs[name].to_f64(), &written)?;
            }
            for (name, expected) in &exact.state {
                let near = Near::to(recipe, expected, moved.iter().map(|run| &run[step].state[name]));
                near.check(
                    &format!("state {name} of {place}"),
                    &once.input(name).unwrap().to_f64(),
                    &written,
                )?;
            }
        }
    }
    Ok(())
}

/// Numbers and their tolerances.
struct Near {
    expected: Vec<f64>,
    allowed: f64,
}

impl Near {
    /// Small integers are exact. Other numbers may be off by some roundings. Their effect is measured by runs of the
    /// interpreter whose arithmetic is off by a few units in the last place.
    fn to<'t>(recipe: &Recipe, exact: &OracleTensor, moved: impl Iterator<Item = &'t OracleTensor>) -> Near {
        let expected = exact.to_f64();
        let allowed = match recipe.numbers {
            Numbers::Exact => 0.0,
            Numbers::Smooth => {
                let pairs = moved.flat_map(|moved| expected.iter().copied().zip(moved.to_f64()));
                let roundings = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
                8.0 * roundings + 1e-5 * largest + 1e-6
            }
        };
        Near { expected, allowed }
    }

    fn check(&self, what: &str, found: &[f64], written: &Written) -> TestCaseResult {
        for (i, (x, y)) in found.iter().zip(&self.expected).enumerate() {
            let is_near = x == y || (x - y).abs() <= self.allowed || x.is_nan() && y.is_nan();
            prop_assert!(is_near, "{what}: [{i}] is {x} instead of {y}\n{}", written.text);
        }
        Ok(())
    }
}

// ---- Gradients.

/// Gradients of a weighted sum of all outputs. The plan's gradients equal the interpreter's, and those agree with
/// finite differences.
fn check_gradient(recipe: &Recipe) -> TestCaseResult {
    let written = recipe.write();
    let (graph, registry) = graph_of(&written);
    let states = first_states(recipe, &written);
    let (graph, loss) = with_loss(graph, &registry);
    let wrt: Vec<Value> =
        graph.inputs().filter(|(_, kind)| *kind != InputKind::Step).map(|(id, _)| Value::of(id)).collect();
    let done = differentiate(&graph, &registry, loss, &wrt).unwrap();
    let names: Vec<String> = wrt.iter().map(|value| graph.name_of(*value).to_string()).collect();
    let mut both = done.graph;
    both.state.clear();
    both.outputs = names.iter().map(|name| format!("d_{name}").into()).zip(done.grads).collect();
    let both = both.pruned();
    let exact = Oracle::new(&registry).run(&both, &states, SEED, 0).unwrap();
    let moved =
        [1, 2, 3].map(|seed| Oracle::perturbed(&registry, seed).run(&both, &states, SEED, 0).unwrap());
    for setup in on_cpu() {
        let plan = plan_for(&both, &registry, setup);
        let mut once = Once::new(&setup.0, plan, &states, SEED).unwrap();
        once.run(0).unwrap();
        for (name, found) in once.outputs().unwrap() {
            let near = Near::to(recipe, &exact.outputs[&name], moved.iter().map(|run| &run.outputs[&name]));
            near.check(&format!("{name}, fuse {}", setup.1), &found.to_f64(), &written)?;
        }
    }
    let mut only_loss = graph.clone();
    only_loss.state.clear();
    only_loss.outputs = vec![("loss".into(), loss)];
    let only_loss = only_loss.pruned();
    for name in &names {
        let gradient = exact.outputs[&*format!("d_{name}")].to_f64();
        let direction = |i: usize| ((i * 7919 + 13) % 17) as f64 / 8.0 - 1.0;
        let at = |h: f64| {
            let mut moved = states.clone();
            let tensor = &moved[name];
            let numbers = tensor.to_f64().into_iter().enumerate().map(|(i, x)| x + h * direction(i));
            let tensor = OracleTensor::new(DType::F32, &tensor.extents, &numbers.collect::<Vec<_>>());
            moved.insert(name.clone(), tensor);
            Oracle::new(&registry).run(&only_loss, &moved, SEED, 0).unwrap().outputs["loss"].to_f64()[0]
        };
        let along: f64 = gradient.iter().enumerate().map(|(i, g)| g * direction(i)).sum();
        let size: f64 = gradient.iter().map(|g| g.abs()).sum::<f64>() + 1.0;
        let difference = |h: f64| (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
        // A loss with strong curvature, such as norms of vectors near zero, needs smaller steps.
        let steps = [1e-4, 1e-5, 1e-6];
        prop_assert!(
            steps.into_iter().any(|h| (difference(h) - along).abs() <= 1e-5 * size),
            "d.{name} along a direction is {along}, differences of smaller and smaller steps say {:?}\n{}",
            steps.map(difference),
            written.text
        );
    }
    Ok(())
}

/// The graph with a scalar that depends on all outputs.
fn with_loss(graph: Graph, registry: &Registry) -> (Graph, Value) {
    let outputs = graph.outputs.clone();
    let mut b = Builder::new(graph, registry);
    b.set_scope("the.loss", None);
    let mut loss = b.constant(0.0, DType::F32);
    for (i, (_, output)) in outputs.into_iter().enumerate() {
        let axes: Vec<usize> = (0..b.ty(output).rank()).collect();
        let sum = b.sum(output, &axes);
        let sum = b.scale(sum, 1.0 / (i + 1) as f64);
        loss = b.add(loss, sum);
    }
    (b.graph, loss)
}
