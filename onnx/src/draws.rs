//! Draws that the table cannot say.

use engine_core::diag::Diagnostic;

use crate::fault::broken;
use crate::known::Number;
use crate::literal::list;
use crate::node::{Attribute, Node};
use crate::operands::{numbers, operand};
use crate::table::expression;
use crate::translate::Translation;

/// The setting `seed` of a draw; empty if the node has none.
fn seed(node: &Node) -> String {
    let given = match node.attributes.get("seed") {
        Some(Attribute::Int(n)) => Some(Number::Int(*n)),
        Some(Attribute::Float(x)) => Some(Number::Float(*x)),
        _ => None,
    };
    given.as_ref().and_then(Number::stream).map(|seed| format!(", seed={seed}")).unwrap_or_default()
}

/// `Dropout(x, ratio, training_mode)`: x in inference. In training, elements are zeros by the ratio, and others grow as much
/// as keeps the mean.
pub(crate) fn dropout(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let first = |at| numbers(of, node, at).map(|found| found.and_then(|found| found.first()?.float()));
    let is_training = first(2)?.is_some_and(|mode| mode != 0.0);
    let ratio = match is_training {
        true => first(1)?.unwrap_or_else(|| node.float("ratio", 0.5)),
        false => 0.0,
    };
    if !(0.0..=1.0).contains(&ratio) {
        let message = format!("{} has the ratio {ratio}", node.describe());
        return Err(broken(message, "a ratio lies in 0..1"));
    }
    let (result, mask) = (&node.outputs[0], node.outputs.get(1).filter(|name| !name.is_empty()));
    if ratio == 0.0 {
        of.values.alias(result, name);
        let Some(mask) = mask else { return Ok(()) };
        let x = of.values.tensor(name)?.0;
        let ones = expression(&format!("cast(full_like({x}, value=1), dtype=bool)"));
        return of.values.define(mask, ones).map(drop);
    }
    let kept = expression(&format!("uniform(shape={}{}) >= {ratio:?}", list(&shape), seed(node)));
    let label = format!("{result}/kept");
    let kept = of.values.define(mask.unwrap_or(&label), kept)?;
    let x = of.values.tensor(name)?.0;
    // Nothing is kept by the ratio 1, so the factor does not matter.
    let factor = if ratio < 1.0 { 1.0 / (1.0 - ratio) } else { 1.0 };
    of.values.define(result, expression(&format!("where({kept}, {x} * {factor:?}, 0 * {x})"))).map(drop)
}
