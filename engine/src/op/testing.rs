//! Tests of examples and gradients that follow from the forms, run by the oracle.
//!
//! A plugin's test is `testing::assert_families(&[&MyPlugin], include_str!("recorded.json"))`.

mod mutation;
mod recorded;

pub use mutation::{Survivor, survivors};
pub use recorded::{recorded, recorded_examples};

use super::{Example, GradCheck, OpForm, Plugin, Registry};
use crate::grad::differentiate;
use crate::ir::{Builder, DType, E, Graph, Level, Symbol, Type, Value, parse, verify};
use crate::oracle::{Elements, Oracle, OracleRun, OracleTensor};
use std::collections::HashMap;
use std::fmt;

/// A difference between an op's form and the oracle.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// The op.
    pub op: String,
    /// Title of the example.
    pub example: String,
    /// The fault: lower case, no full stop.
    pub message: String,
}

/// Prints as ``softmax, "of one row": y[2] is 0.5 instead of 0.25``.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:?}: {}", self.op, self.example, self.message)
    }
}
/// Prints like `Display`, so that a failed assertion is readable.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// An example as a graph with inputs and expected outputs.
#[derive(Clone, Debug)]
pub struct Case {
    /// The call, with inputs `a`, `b`, ... and outputs `y0`, `y1`, ...
    pub graph: Graph,
    /// Operands by name.
    pub inputs: HashMap<String, OracleTensor>,
    /// The expected outputs, in order.
    pub expected: Vec<OracleTensor>,
}

/// A registry of these families only.
pub fn registry(families: &[&dyn Plugin]) -> Registry {
    let mut registry = Registry::new();
    families.iter().for_each(|family| _ = registry.plugin(*family));
    registry
}

/// Runs all tests that follow from the forms of these families, and the cases of [`recorded`] as JSON.
///
/// # Panics
/// If a test fails. The message lists all failures.
pub fn assert_families(families: &[&dyn Plugin], cases: &str) {
    let registry = registry(families);
    let failures = [examples(&registry), gradients(&registry), recorded(&registry, cases)].concat();
    assert_eq!(failures, []);
}

/// Runs every example of every op and returns the failures.
pub fn examples(registry: &Registry) -> Vec<Failure> {
    registry.ops().flat_map(|form| op_examples(form, registry)).collect()
}

/// Runs every example of one op and returns the failures.
pub fn op_examples(form: &OpForm, registry: &Registry) -> Vec<Failure> {
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
    outputs.try_for_each(|((name, found), expected)| difference(name, found, expected))
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
    pairs.try_for_each(|((name, found), grad)| difference(name, found, &tensor(&found.ty(), grad)?))
}

/// Gradients of Σ (i + 1)·y_i over all float results, by float operand.
fn weighed_gradients(case: &Case, registry: &Registry) -> Result<Vec<(Symbol, OracleTensor)>, String> {
    let (graph, loss) = weighed(&case.graph, registry, |i| i + 1.0).ok_or("no float result has gradients")?;
    let is_float = |value: &Value| graph.ty(*value).dtype.is_float();
    let wrt: Vec<Value> = graph.inputs().map(|(id, _)| Value::of(id)).filter(is_float).collect();
    let run = run_gradients(&graph, loss, &wrt, &case.inputs, registry)?;
    Ok(run.outputs.into_iter().collect())
}

fn each_example(form: &OpForm, check: impl Fn(&Example) -> Result<(), String>) -> Vec<Failure> {
    let failure = |example: &Example| {
        let message = check(example).err()?;
        Some(Failure { op: form.name.clone(), example: example.title.into(), message })
    };
    form.examples.iter().filter_map(failure).collect()
}

/// Reads an example.
///
/// # Errors
/// If the call is not in the syntax of the text form, or the types differ from those of the op's rule.
pub fn case(example: &Example, registry: &Registry) -> Result<Case, String> {
    let letters = ('a'..='z').map(String::from);
    let names: Vec<String> = letters.take(example.inputs.len()).collect();
    let inputs = names.iter().zip(&example.inputs).map(|(name, (ty, _))| format!("input {name}: {ty}\n"));
    let results: Vec<String> =
        example.outputs.iter().enumerate().map(|(i, (ty, _))| format!("y{i}: {ty}")).collect();
    let binder = match &results[..] {
        [one] => one.clone(),
        several => format!("({})", several.join(", ")),
    };
    let outputs = (0..results.len()).map(|i| format!("output y{i} = y{i}\n"));
    let (inputs, outputs): (String, String) = (inputs.collect(), outputs.collect());
    let text = format!("graph example {{\n{inputs}{binder} = {}\n{outputs}}}\n", example.call);
    let graph = parse(&text, registry).map_err(|error| format!("{error} in\n{text}"))?;
    verify(&graph, Level::Bound)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let operands = graph.inputs().zip(&example.inputs).map(|((id, _), (_, elements))| {
        tensor(graph.ty(Value::of(id)), elements).map(|tensor| (graph.node(id).name().to_string(), tensor))
    });
    let inputs = operands.collect::<Result<_, String>>()?;
    let results = graph.outputs.iter().zip(&example.outputs);
    let expected = results.map(|((_, value), (_, elements))| tensor(graph.ty(*value), elements));
    Ok(Case { expected: expected.collect::<Result<_, String>>()?, inputs, graph })
}

fn tensor(ty: &Type, elements: &[f64]) -> Result<OracleTensor, String> {
    match ty.numel() == elements.len() {
        true => Ok(OracleTensor::new(ty.dtype, &ty.extents(), elements)),
        false => Err(format!("{ty} has {} elements, {} are given", ty.numel(), elements.len())),
    }
}

/// The first element that differs by more than the tolerance of its type.
fn difference(name: &Symbol, found: &OracleTensor, expected: &OracleTensor) -> Result<(), String> {
    let tolerance = match expected.dtype {
        DType::F16 => 1e-2,
        DType::BF16 => 2e-2,
        _ => 1e-5,
    };
    for i in 0..expected.len() {
        let (a, b) = (found.float(i), expected.float(i));
        let is_equal = a == b || (a.is_nan() && b.is_nan());
        let is_near = expected.dtype.is_float() && (a - b).abs() <= tolerance * b.abs() + 1e-6;
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

/// The gradients of `loss` at these inputs, by name of the value in `wrt`.
fn run_gradients(
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
fn weighed(graph: &Graph, registry: &Registry, weight: fn(E) -> E) -> Option<(Graph, Value)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Grad, InputSpec, Lower, Role, TypeRule};
    use expect_test::expect;

    /// A form that squares, with an example.
    fn square(formula: fn(&[E]) -> E, grad: Grad) -> Registry {
        let mut registry = Registry::new();
        registry.add(OpForm {
            name: "square".into(),
            family: "test".into(),
            summary: "Squares.".into(),
            inputs: vec![InputSpec::required("x", "the operand")],
            outputs: vec!["y".into()],
            attrs: vec![],
            types: TypeRule::Broadcast { allowed: DType::is_float },
            lower: Lower::map(1, formula),
            grad,
            check: GradCheck::FiniteDifferences { range: (-2.0, 2.0), avoid: &[0.0] },
            examples: vec![Example::new(
                "of two",
                "square(a)",
                &[("f32[2]", &[3.0, -1.5])],
                &[("f32[2]", &[9.0, 2.25])],
            )],
            role: Role::Plain,
        });
        registry
    }

    #[test]
    fn a_sound_form_passes() {
        let registry = square(|x| x[0] * x[0], Grad::Derive);
        assert_eq!((examples(&registry), gradients(&registry)), (vec![], vec![]));
    }

    #[test]
    fn a_wrong_formula_is_found() {
        let registry = square(|x| x[0] * x[0].abs(), Grad::Derive);
        expect![[r#"[square, "of two": y0[1] is -2.25 instead of 2.25]"#]]
            .assert_eq(&format!("{:?}", examples(&registry)));
        assert_eq!(gradients(&registry), []);
    }

    #[test]
    fn a_wrong_gradient_is_found() {
        let registry =
            square(|x| x[0] * x[0], Grad::rule(|b, call| vec![call.grads[0].map(|g| b.scale(g, -1.0))]));
        assert_eq!(examples(&registry), []);
        assert_eq!(gradients(&registry).len(), 1);
    }
}
