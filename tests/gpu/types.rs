//! Ops in the types that they take, forward and backward: a GPU runs every case that the CPU runs.
//!
//! A sample of one in 17 examples and types is run. `ENGINE_TYPES=all cargo test --test gpu types` runs all.

use super::*;
use engine::core::grad::differentiate;
use engine::core::op::Example;
use engine::core::testing;

const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
/// Without `i16`, which `small.rs` has.
const INTEGERS: [DType; 6] = [DType::U8, DType::I8, DType::U16, DType::I32, DType::U32, DType::I64];

/// Of ops that graphs for GPUs do not have: `rows_by_bounds` and `nearest_of_lists`, in two types each, and `near_least`.
const ON_CPUS_ALONE: &str = " runs on the processor only";

#[test]
fn gpus_run_every_type_that_the_cpu_runs() {
    let found = compared(gpus(), |error| error.contains(ON_CPUS_ALONE));
    assert!(found.n_run > 1500 / sample() * gpus().len(), "{} were run", found.n_run);
    assert!(found.n_refused <= 4 * gpus().len(), "{} were refused", found.n_refused);
}

#[test]
fn the_least_gpu_runs_every_type_that_it_has() {
    let Some(gpu) = least_gpu() else { return };
    let found = compared(&[gpu], |error| {
        let reasons = ["the device has no f64", "the device has no i64", "can be bound at once"];
        error.contains(ON_CPUS_ALONE) || reasons.iter().any(|reason| error.ends_with(reason))
    });
    let (n_run, n_refused) = (found.n_run * sample(), found.n_refused * sample());
    assert!(n_run > 1000 && n_refused > 100, "{} were run, {} refused", found.n_run, found.n_refused);
}

/// One in so many examples and types is run.
fn sample() -> usize {
    // Prime to the number of types, so that neighbouring examples are run in different ones.
    if std::env::var("ENGINE_TYPES").is_ok_and(|which| which == "all") { 1 } else { 17 }
}

/// The number of graphs that ran, and of those refused for a valid reason.
struct Compared {
    n_run: usize,
    n_refused: usize,
}

/// Runs every op in every type on GPUs and on the CPU. `is_expected` marks errors that are allowed.
fn compared(gpus: &[Arc<dyn Device>], is_expected: fn(&str) -> bool) -> Compared {
    let (registry, cpu) = (Engine::new().registry, cpu());
    let (mut n_run, mut n_refused, mut failures) = (0, 0, vec![]);
    let examples: Vec<Example> = registry.ops().flat_map(|form| form.examples.clone()).collect();
    for (example, dtype) in examples
        .iter()
        .flat_map(|example| FLOATS.into_iter().chain(INTEGERS).map(move |dtype| (example, dtype)))
        .step_by(sample())
    {
        for case in retyped(example, dtype, &registry) {
            // Indices may be out of range on the CPU, too.
            let Ok(expected) = case.run(&*cpu, true) else { continue };
            for gpu in gpus {
                let problem = match case.run(&**gpu, true).map_err(|error| error.to_string()) {
                    Ok(found) => difference(&found, &expected, tolerance(example, dtype)),
                    Err(error) if is_expected(&error) => {
                        n_refused += 1;
                        continue;
                    }
                    Err(error) => Some(error),
                };
                n_run += 1;
                let name = gpu.info().name;
                failures.extend(problem.map(|why| format!("{} in {dtype} on {name}: {why}", example.call)));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {n_run} are wrong:\n{}", failures.len(), failures.join("\n"));
    Compared { n_run, n_refused }
}

/// The tolerance between devices, relative to the largest element.
fn tolerance(example: &Example, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1e-2,
        DType::BF16 => 2e-2,
        // One op has an attribute for the type of its computation.
        DType::F64 if !example.call.contains("compute=f32") => 1e-12,
        _ => 1e-5,
    }
}

/// The first element beyond the tolerance.
fn difference(found: &[Vec<f64>], expected: &[Vec<f64>], tolerance: f64) -> Option<String> {
    found.iter().zip(expected).enumerate().find_map(|(output, (found, expected))| {
        let sizes = expected.iter().map(|x| x.abs()).filter(|x| x.is_finite());
        let allowed = tolerance * sizes.fold(1.0, f64::max);
        let is_near = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= allowed;
        let wrong = (0..expected.len()).find(|&i| !is_near(found[i], expected[i]))?;
        Some(format!("out{output}[{wrong}] is {} instead of {}", found[wrong], expected[wrong]))
    })
}

/// An example with its numbers in another type, if its op takes them: its results, and its gradients if it has any.
/// Floats replace floats, integers replace integers.
fn retyped(example: &Example, dtype: DType, registry: &Registry) -> Vec<Case> {
    let given = testing::case(example, registry).unwrap();
    let is_replaced = |ty: &Type| ty.dtype != DType::Bool && ty.dtype.is_float() == dtype.is_float();
    let mut b = Builder::new(Graph::new("case"), registry);
    let mut inputs = HashMap::new();
    let mut moved: HashMap<Value, Value> = HashMap::new();
    let mut is_other = false;
    for (id, node) in given.graph.nodes.iter().enumerate() {
        let results = match &node.op {
            NodeOp::Input(_) => {
                let (name, mut ty) = (node.name().to_string(), node.outputs[0].ty.clone());
                let mut numbers = given.inputs[&name].to_f64();
                if is_replaced(&ty) {
                    (is_other, ty) = (true, ty.with_dtype(dtype));
                    numbers.iter_mut().for_each(|x| *x = near_enough(*x, dtype));
                }
                inputs.insert(name.clone(), tensor(&ty, numbers.into_iter()));
                vec![b.input(&name, InputKind::Data, ty)]
            }
            NodeOp::Call(call) => {
                let operands: Vec<Value> = node.inputs.iter().map(|input| moved[input]).collect();
                let Ok(results) = b.call(&call.form().name, &operands, call.attrs.clone()) else {
                    return vec![];
                };
                results
            }
            other => panic!("an example is a call, not {other:?}"),
        };
        moved
            .extend(results.into_iter().enumerate().map(|(port, result)| (Value { node: id, port }, result)));
    }
    if !is_other {
        return vec![];
    }
    let results: Vec<Value> = given.graph.outputs.iter().map(|(_, value)| moved[value]).collect();
    let forward = Graph { outputs: numbered(&results), ..b.graph.clone() };
    let graphs = [forward].into_iter().chain(gradients(b, &results, registry));
    graphs
        .map(|graph| Case {
            graph: graph.pruned(),
            inputs: inputs.clone(),
            is_in_order: false,
            matmul: Precision::F32,
        })
        .collect()
}

/// In halves, large numbers lose their differences.
fn near_enough(x: f64, dtype: DType) -> f64 {
    if dtype.is_float() && dtype.size() == 2 && x.is_finite() { x.clamp(-8.0, 8.0) } else { x }
}

fn numbered(values: &[Value]) -> Vec<(Symbol, Value)> {
    values.iter().enumerate().map(|(i, &value)| (format!("out{i}").into(), value)).collect()
}

/// The gradients of a sum of the float results, each element weighted by its number.
fn gradients(mut b: Builder, results: &[Value], registry: &Registry) -> Option<Graph> {
    let mut loss = None;
    for &result in results {
        if !b.dtype(result).is_float() {
            continue;
        }
        let count = b.ty(result).numel();
        let flat = b.reshape(result, &[count]);
        let flat = b.cast(flat, DType::F32);
        let number = b.iota(0, Type::new(DType::I32, &[count]));
        let number = b.cast(number, DType::F32);
        let terms = b.map(&[flat, number], |x| x[0] * (x[1] * 0.125 + 1.0));
        let sum = b.sum(terms, &[0]);
        loss = Some(loss.map_or(sum, |known| b.add(known, sum)));
    }
    let loss = loss?;
    let graph = Graph { outputs: vec![("loss".into(), loss)], ..b.graph };
    let inputs = graph.inputs().map(|(id, _)| Value::of(id));
    let floats: Vec<Value> = inputs.filter(|&value| graph.ty(value).dtype.is_float()).collect();
    let found = differentiate(&graph, registry, loss, &floats).ok().filter(|_| !floats.is_empty())?;
    Some(Graph { outputs: numbered(&found.grads), ..found.graph })
}
