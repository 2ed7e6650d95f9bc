//! Cases as a pipeline: its text, and its results in a session.

use super::fixtures::{Case, Kind, Operand, weight};
use engine::Engine;
use engine::core::compile::Options;
use engine::core::front::layers;
use engine::core::ir::{DType, Literal};
use engine::core::pipeline::Given;
use engine::runtime::data::source::LoadContext;
use engine::runtime::device::Device;
use engine::runtime::session::Report;
use engine::runtime::tensor::HostTensor;
use std::path::Path;
use std::sync::Arc;

/// The results of a case.
pub struct Results {
    /// The results of the call, in order.
    pub outputs: Vec<Vec<f64>>,
    /// Gradients by operand, where the case has one.
    pub grads: Vec<Option<Vec<f64>>>,
}

/// Computes cases of one op in one pipeline.
///
/// # Errors
/// If the pipeline is refused or does not run; the message holds its text.
pub fn run(
    engine: &Engine,
    op: &str,
    cases: &[&Case],
    dtype: DType,
    device: &Arc<dyn Device>,
    fuse: bool,
) -> Result<Vec<Results>, String> {
    let names = result_names(engine, op);
    let text = text(cases, dtype, &names);
    let explain = |error: String| format!("{error}\n{text}");
    let pipeline = engine.read("case.ron", &text).map_err(|faults| explain(faults.to_string()))?;
    let options = Options { fuse, ..Options::default() };
    let data = LoadContext::offline_in(Path::new("no/such/folder"));
    let session = engine.session(pipeline, Arc::clone(device), &data, options, &mut |_| {});
    let mut session = session.map_err(|error| explain(error.to_string()))?;
    for (name, given) in cases.iter().enumerate().flat_map(|(c, case)| given(c, case)) {
        session.give(&name, given).map_err(|error| explain(error.to_string()))?;
    }
    let params = cases.iter().enumerate().flat_map(|(c, case)| params(c, case));
    session.set_parameters(params.collect()).map_err(|error| explain(error.to_string()))?;
    let report = session.run_stages(None, &mut |_| {}).map_err(|error| explain(error.to_string()))?;
    Ok(cases.iter().enumerate().map(|(c, case)| results(&report, c, case, &names)).collect())
}

/// A pipeline whose node `c0` is the call of the first case, `c0_0` its first operand and `c0_w0` the weights of its
/// first result.
fn text(cases: &[&Case], dtype: DType, names: &[String]) -> String {
    let (mut inputs, mut nodes, mut outputs, mut terms) = (vec![], vec![], vec![], vec![]);
    for (c, case) in cases.iter().enumerate() {
        let mut call = case.call.replace("$T", &dtype.to_string());
        for (i, operand) in case.inputs[..case.n_operands()].iter().enumerate().rev() {
            call = call.replace(&format!("${i}"), &input(c, case, i));
            inputs.push(declared(input(c, case, i), operand, dtype));
        }
        nodes.push(format!("\"c{c}\": {call:?},"));
        outputs.extend((0..case.outputs.len()).map(|r| format!("{:?}", output(c, r, names))));
        for &r in &case.weighs {
            inputs.push(declared(format!("c{c}_w{r}"), &case.outputs[r], dtype));
            terms.push(format!("cast(sum({} * c{c}_w{r}), dtype=f32)", output(c, r, names)));
        }
        let has_grad = |i: &usize| case.grads.get(*i).is_some_and(Option::is_some);
        outputs
            .extend((0..case.inputs.len()).filter(has_grad).map(|i| format!("\"d.{}\"", input(c, case, i))));
    }
    let loss = match terms.is_empty() {
        true => String::new(),
        false => {
            nodes.push(format!("\"loss\": \"{}\",", terms.join(" + ")));
            ", loss: \"loss\"".to_string()
        }
    };
    format!(
        "(\n  inputs: {{{}}},\n  nodes: {{\n    {}\n  }},\n  stages: {{\"go\": Run(outputs: [{}]{loss})}},\n)\n",
        inputs.join(", "),
        nodes.join("\n    "),
        outputs.join(", ")
    )
}

fn declared(name: String, operand: &Operand, dtype: DType) -> String {
    let extents: Vec<String> = operand.shape.iter().map(usize::to_string).collect();
    format!("\"{name}\": \"{}[{}]\"", operand.dtype(dtype), extents.join(", "))
}

/// The name of result `r` of case `c`.
fn output(c: usize, r: usize, names: &[String]) -> String {
    if r == 0 { format!("c{c}") } else { format!("c{c}.{}", names[r]) }
}

/// The names of the results of an op or a layer.
fn result_names(engine: &Engine, op: &str) -> Vec<String> {
    let layer = || layers(&engine.registry).into_iter().find(|form| form.name == op);
    engine.registry.op(op).or_else(layer).unwrap().outputs.clone()
}

/// The name of an operand or a parameter of case `c`.
fn input(c: usize, case: &Case, i: usize) -> String {
    match i.checked_sub(case.n_operands()) {
        None => format!("c{c}_{i}"),
        Some(param) => format!("c{c}.{}", case.params[param]),
    }
}

/// The values of all inputs of a case, without parameters.
fn given(c: usize, case: &Case) -> Vec<(String, Given)> {
    let operands = case.inputs[..case.n_operands()].iter().enumerate();
    let operands = operands.map(|(i, operand)| (input(c, case, i), value(operand)));
    let weights = case.weighs.iter().map(|&r| {
        let elements = (0..case.outputs[r].elements.len()).map(|i| Literal::Float(weight(i, r))).collect();
        (format!("c{c}_w{r}"), Given::Elements { shape: case.outputs[r].shape.clone(), elements })
    });
    operands.chain(weights).collect()
}

/// The values of all parameters of a case.
fn params(c: usize, case: &Case) -> impl Iterator<Item = (String, HostTensor)> {
    let tensor = |operand: &Operand| {
        let elements: Vec<f32> = operand.elements.iter().map(|&x| x as f32).collect();
        HostTensor::from_slice(&operand.shape, &elements).unwrap()
    };
    (case.n_operands()..case.inputs.len()).map(move |i| (input(c, case, i), tensor(&case.inputs[i])))
}

fn value(operand: &Operand) -> Given {
    let is_whole = |x: f64| x.fract() == 0.0 && x.abs() < 9e15 && !(x == 0.0 && x.is_sign_negative());
    let literal = |&x: &f64| match operand.kind {
        Kind::Fixed(DType::Bool) => Literal::Bool(x != 0.0),
        _ if is_whole(x) => Literal::Int(x as i64),
        _ => Literal::Float(x),
    };
    Given::Elements { shape: operand.shape.clone(), elements: operand.elements.iter().map(literal).collect() }
}

fn results(report: &Report, c: usize, case: &Case, names: &[String]) -> Results {
    let of = |name: String| report.outputs[&*name].values.to_f64();
    let grad =
        |(i, grad): (usize, &Option<Vec<f64>>)| grad.as_ref().map(|_| of(format!("d.{}", input(c, case, i))));
    Results {
        outputs: (0..case.outputs.len()).map(|r| of(output(c, r, names))).collect(),
        grads: case.grads.iter().enumerate().map(grad).collect(),
    }
}
