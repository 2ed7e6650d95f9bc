//! Tests of the examples and gradients of a form.

use super::case::{case, tensor};
use super::failure::Failure;
use super::gradients::{run_gradients, weighed, weighed_gradients};
use crate::ir::{DType, Graph, Symbol, Value};
use crate::op::{Example, GradCheck, OpForm, Registry, Role};
use crate::oracle::{Elements, Oracle, OracleTensor};
use std::collections::HashMap;

/// Runs every example of every op and returns the failures.
pub fn examples(registry: &Registry) -> Vec<Failure> {
    registry.ops().flat_map(|form| op_examples(form, registry)).collect()
}

/// Runs every example of one op and returns the failures. An op without examples is a failure, too, unless it is a
/// function of other ops.
pub fn op_examples(form: &OpForm, registry: &Registry) -> Vec<Failure> {
    if form.examples.is_empty() && form.role != Role::Function {
        return vec![Failure { op: form.name.clone(), example: "".into(), message: "it has none".into() }];
    }
    each_example(form, |example| check(example, registry))
}

/// Runs one example.
///
/// # Errors
/// If the example cannot be read or run, or its results differ. The message says which.
pub fn check(example: &Example, registry: &Registry) -> Result<(), String> {
    let case = case(example, registry)?;
    let run = Oracle::rounded(registry).run(&case.graph, &case.inputs, 0, 0);
    let run = run.map_err(|error| error.to_string())?;
    let mut outputs = run.outputs.iter().zip(&case.expected);
    outputs.try_for_each(|((name, found), expected)| difference(name, found.to_f64(), expected))
}

/// Compares gradients with central differences, for every op whose form asks for it, and returns the failures. Operands
/// are random and have the types of the op's examples. Integers and truth values are those of the examples.
pub fn gradients(registry: &Registry) -> Vec<Failure> {
    registry.ops().flat_map(|form| op_gradients(form, registry)).collect()
}

/// As [`gradients`], for one op.
pub fn op_gradients(form: &OpForm, registry: &Registry) -> Vec<Failure> {
    each_example(form, |example| match &form.check {
        GradCheck::FiniteDifferences { range, avoid } => {
            let case = case(example, registry)?;
            let inputs = randomized(&case.inputs, *range, avoid);
            check_gradient(&case.graph, &inputs, registry)
        }
        GradCheck::Convention { .. } | GradCheck::None { .. } => Ok(()),
    })
}

/// Compares the gradients of every op whose gradient is a convention with the values that the convention prescribes.
pub fn conventions(registry: &Registry) -> Vec<Failure> {
    registry.ops().flat_map(|form| op_conventions(form, registry)).collect()
}

/// As [`conventions`], for one op.
pub fn op_conventions(form: &OpForm, registry: &Registry) -> Vec<Failure> {
    let grads = match &form.check {
        GradCheck::Convention { grads, .. } => grads.as_slice(),
        _ => &[],
    };
    let failure = |(example, grads): (&Example, &Vec<Vec<f64>>)| {
        let message = check_convention(example, grads, registry).err()?;
        Some(Failure { op: form.name.clone(), example: example.title.into(), message })
    };
    form.examples.iter().zip(grads).filter_map(failure).collect()
}

fn check_convention(example: &Example, grads: &[Vec<f64>], registry: &Registry) -> Result<(), String> {
    let found = weighed_gradients(&case(example, registry)?, registry)?;
    if found.len() != grads.len() {
        return Err(format!("{} operands have gradients, {} are given", found.len(), grads.len()));
    }
    let mut pairs = found.iter().zip(grads);
    pairs.try_for_each(|((name, found), grad)| difference(name, found.to_f64(), &tensor(&found.ty(), grad)?))
}

fn each_example(form: &OpForm, check: impl Fn(&Example) -> Result<(), String>) -> Vec<Failure> {
    let failure = |example: &Example| {
        let message = check(example).err()?;
        Some(Failure { op: form.name.clone(), example: example.title.into(), message })
    };
    form.examples.iter().filter_map(failure).collect()
}

/// The relative tolerance of computed elements of a type.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1e-2,
        DType::BF16 => 2e-2,
        _ => 1e-5,
    }
}

/// Compares the elements of a result with the expected ones.
///
/// # Errors
/// If an element differs by more than the tolerance of its type. The message names the first.
pub fn difference(
    name: &Symbol,
    found: impl IntoIterator<Item = f64>,
    expected: &OracleTensor,
) -> Result<(), String> {
    let tolerance = tolerance(expected.dtype);
    for (i, (a, b)) in found.into_iter().zip(expected.to_f64()).enumerate() {
        let is_equal = a == b || (a.is_nan() && b.is_nan());
        // Any number is near an infinite one by this measure.
        let is_near =
            expected.dtype.is_float() && b.is_finite() && (a - b).abs() <= tolerance * b.abs() + 1e-6;
        if !(is_equal || is_near) {
            return Err(format!("{name}[{i}] is {a} instead of {b}"));
        }
    }
    Ok(())
}

// ---- Central differences.

/// Operands with their floats replaced by fixed pseudo-random numbers in a range, at a distance from some points.
fn randomized(
    inputs: &HashMap<String, OracleTensor>,
    (low, high): (f64, f64),
    avoid: &[f64],
) -> HashMap<String, OracleTensor> {
    let mut names: Vec<&String> = inputs.keys().collect();
    names.sort();
    let mut number = 0u64;
    let mut random = || {
        number += 1;
        // The fractional parts of multiples of the golden ratio are distinct and evenly spread.
        let fraction = (number as f64 * 0.618_033_988_749_894_9 + 0.137).fract();
        low + (high - low) * fraction
    };
    let replaced = names.into_iter().map(|name| {
        let mut tensor = inputs[name].clone();
        if let Elements::Float(elements) = &mut tensor.elements {
            elements.iter_mut().for_each(|x| *x = away_from(avoid, random()));
        }
        (name.clone(), tensor)
    });
    replaced.collect()
}

fn away_from(avoid: &[f64], x: f64) -> f64 {
    match avoid.iter().find(|&&point| (x - point).abs() < 1e-2) {
        Some(point) => point + if x < *point { -2e-2 } else { 2e-2 },
        None => x,
    }
}

/// Compares the gradients of Σ cos(i)·y_i over all float results with central differences in f64.
fn check_gradient(
    graph: &Graph,
    inputs: &HashMap<String, OracleTensor>,
    registry: &Registry,
) -> Result<(), String> {
    let Some((graph, loss)) = weighed(graph, registry, |i| i.cos()) else { return Ok(()) };
    let is_float = |value: &Value| graph.ty(*value).dtype.is_float();
    let wrt: Vec<Value> = graph.inputs().map(|(id, _)| Value::of(id)).filter(is_float).collect();
    let found = run_gradients(&graph, loss, &wrt, inputs, registry)?;
    let oracle = Oracle::new(registry);
    for (name, found) in &found.outputs {
        let slopes = slopes(&oracle, &graph, inputs, name)?;
        for (i, (a, b)) in found.to_f64().into_iter().zip(slopes).enumerate() {
            let is_near = (a - b).abs() <= 1e-5 * (1.0 + b.abs());
            if !is_near {
                return Err(format!("the gradient of {name}[{i}] is {a}, central differences give {b}"));
            }
        }
    }
    Ok(())
}

fn slopes(
    oracle: &Oracle,
    graph: &Graph,
    inputs: &HashMap<String, OracleTensor>,
    name: &Symbol,
) -> Result<Vec<f64>, String> {
    let loss = |i: usize, by: f64| {
        let mut inputs = inputs.clone();
        if let Some(Elements::Float(elements)) = inputs.get_mut(&**name).map(|tensor| &mut tensor.elements) {
            elements[i] += by;
        }
        let run = oracle.run(graph, &inputs, 0, 0).map_err(|error| error.to_string())?;
        Ok::<f64, String>(run.outputs[0].float(0))
    };
    let h = 1e-5;
    (0..inputs[&**name].len()).map(|i| Ok((loss(i, h)? - loss(i, -h)?) / (2.0 * h))).collect()
}
