//! Steps of optimizers, from the domain `ai.onnx.preview.training`. A node updates any number of tensors.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::fault::broken;
use crate::node::Node;
use crate::table::expression;
use crate::translate::Translation;

/// The operands of one tensor: the tensor, its gradient and its states. The gradient has the penalty of the norm.
struct Part {
    x: String,
    gradient: String,
    states: Vec<String>,
}

/// The rate, the number of steps so far, and the parts of a node whose tensors have so many states.
fn parts(
    of: &mut Translation,
    node: &Node,
    n_states: usize,
) -> Result<(String, String, Vec<Part>), Diagnostic> {
    let n_groups = n_states + 2;
    let given = node.inputs.len().saturating_sub(2);
    let n = given / n_groups;
    if n == 0 || given != n * n_groups || node.outputs.len() != n * (n_states + 1) {
        let message = format!("{} has {} operands", node.describe(), node.inputs.len());
        return Err(broken(
            message,
            "a rate, a count, then tensors, gradients and states in groups of one length",
        ));
    }
    let names: Vec<String> = node
        .inputs
        .iter()
        .map(|name| of.values.tensor(name).map(|(name, _)| name))
        .collect::<Result<_, _>>()?;
    let penalty = node.float("norm_coefficient", 0.0);
    let part = |at: usize| {
        let operand = |group: usize| names[2 + group * n + at].clone();
        let (x, gradient) = (operand(0), operand(1));
        let gradient = match penalty == 0.0 {
            true => gradient,
            false => format!("({penalty:?} * {x} + {gradient})"),
        };
        Part { x, gradient, states: (2..n_groups).map(operand).collect() }
    };
    let parts = (0..n).map(part).collect();
    Ok((names[0].clone(), names[1].clone(), parts))
}

/// The element type of the first tensor.
fn dtype(of: &Translation, node: &Node) -> DType {
    of.values.type_of(&node.inputs[2]).map_or(DType::F32, |ty| ty.dtype)
}

/// Defines the result of a group for a part.
fn define(
    of: &mut Translation,
    node: &Node,
    (group, at, n): (usize, usize, usize),
    text: &str,
) -> Result<String, Diagnostic> {
    of.values.define(&node.outputs[group * n + at], expression(text))
}

/// `Adagrad(R, T, X…, G…, H…)`
pub(crate) fn adagrad(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (decay, epsilon) = (node.float("decay_factor", 0.0), node.float("epsilon", 1e-6));
    let (rate, count, parts) = parts(of, node, 1)?;
    let (n, dtype) = (parts.len(), dtype(of, node));
    for (at, Part { x, gradient, states }) in parts.iter().enumerate() {
        let squares = define(of, node, (1, at, n), &format!("{} + square({gradient})", states[0]))?;
        let rate = match decay == 0.0 {
            true => rate.clone(),
            false => format!("{rate} / (1.0 + {decay:?} * cast({count}, dtype={dtype}))"),
        };
        let step = format!("{x} - ({rate}) * {gradient} / (sqrt({squares}) + {epsilon:?})");
        define(of, node, (0, at, n), &step)?;
    }
    Ok(())
}

/// `Adam(R, T, X…, G…, V…, H…)`; the rate is corrected from the second step on.
pub(crate) fn adam(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (alpha, beta) = (node.float("alpha", 0.9), node.float("beta", 0.999));
    let (epsilon, shrink) = (node.float("epsilon", 1e-6), node.float("norm_coefficient_post", 0.0));
    let (rate, count, parts) = parts(of, node, 2)?;
    let n = parts.len();
    let dtype = dtype(of, node);
    let power = |base: f64| format!("{base:?} ** cast({count}, dtype={dtype})");
    let factor = format!("sqrt(1.0 - {}) / (1.0 - {})", power(beta), power(alpha));
    for (at, Part { x, gradient, states }) in parts.iter().enumerate() {
        let mean = format!("{alpha:?} * {} + {:?} * {gradient}", states[0], 1.0 - alpha);
        let mean = define(of, node, (1, at, n), &mean)?;
        let squares = format!("{beta:?} * {} + {:?} * square({gradient})", states[1], 1.0 - beta);
        let squares = define(of, node, (2, at, n), &squares)?;
        let rate = format!("where({count} > 0, {rate} * {factor}, {rate})");
        let mut step = format!("{x} - {rate} * {mean} / (sqrt({squares}) + {epsilon:?})");
        if shrink != 0.0 {
            step = format!("{:?} * ({step})", 1.0 - shrink);
        }
        define(of, node, (0, at, n), &step)?;
    }
    Ok(())
}

/// `Momentum(R, T, X…, G…, V…)`, standard or by Nesterov. The first step takes the whole gradient.
pub(crate) fn momentum(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (alpha, beta) = (node.float("alpha", 0.0), node.float("beta", 0.0));
    let is_nesterov = match node.text("mode", "standard") {
        "standard" => false,
        "nesterov" => true,
        other => return Err(node.fault(&format!("has the mode `{other}`"))),
    };
    let (rate, count, parts) = parts(of, node, 1)?;
    let n = parts.len();
    for (at, Part { x, gradient, states }) in parts.iter().enumerate() {
        let share = format!("where({count} > 0, {beta:?} * {gradient}, {gradient})");
        let velocity = format!("{alpha:?} * {} + {share}", states[0]);
        let velocity = define(of, node, (1, at, n), &velocity)?;
        let step = match is_nesterov {
            true => format!("{x} - {rate} * ({gradient} + {alpha:?} * {velocity})"),
            false => format!("{x} - {rate} * {velocity}"),
        };
        define(of, node, (0, at, n), &step)?;
    }
    Ok(())
}
