//! Examples as graphs.

use crate::ir::{Graph, Level, Type, Value, parse, verify};
use crate::op::{Example, Registry};
use crate::oracle::OracleTensor;
use std::collections::HashMap;

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

pub(super) fn tensor(ty: &Type, elements: &[f64]) -> Result<OracleTensor, String> {
    match ty.numel() == elements.len() {
        true => Ok(OracleTensor::new(ty.dtype, &ty.extents(), elements)),
        false => Err(format!("{ty} has {} elements, {} are given", ty.numel(), elements.len())),
    }
}
