//! Elements around a tensor.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;
use engine_core::text::expr::Expr;

use crate::known::Number;
use crate::literal::{list, of_number};
use crate::node::{Attribute, Node};
use crate::operands::{MOST_AXES, axis, cut, ints, numbers, operand};
use crate::table::expression;
use crate::translate::Translation;

/// Elements that are added before and behind an axis, or cut off where they are negative.
type Pads = Vec<[i64; 2]>;

/// `Pad(x, pads, value, axes)`; negative pads cut.
pub(crate) fn pad(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let given = match node.ints("pads") {
        Some(pads) => ints(pads),
        None => numbers(of, node, 1)?.unwrap_or_default(),
    };
    let value = match node.attributes.get("value") {
        Some(Attribute::Float(value)) => Some(Number::Float(*value)),
        _ => numbers(of, node, 2)?.and_then(|found| found.first().cloned()),
    };
    let axes = numbers(of, node, 3)?.unwrap_or_else(|| Number::vector(0..shape.len() as i64));
    if axes.len() > MOST_AXES {
        return Err(node.fault("pads too many axes"));
    }
    let mut pads = vec![[0; 2]; shape.len()];
    for (at, along) in axes.iter().enumerate() {
        let along = axis(node, along.int().unwrap_or(i64::MAX), shape.len())?;
        let [before, after] = [at, axes.len() + at].map(|at| given.get(at).and_then(Number::int));
        let (Some(before), Some(after)) = (before, after) else {
            return Err(node.fault("has pads that are not known at import"));
        };
        pads[along] = [before, after];
    }
    let mode = node.text("mode", "constant");
    if !["constant", "reflect", "edge", "wrap"].contains(&mode) {
        return Err(node.fault("pads by an unknown mode"));
    }
    let x = of.values.operand(name, None)?;
    let x = padded(of, node, (x, shape), &pads, (mode, value.unwrap_or(Number::Int(0))))?;
    of.values.define(&node.outputs[0], x).map(drop)
}

/// `CenterCropPad(x, shape)`: the middle of each axis, or zeros around it.
pub(crate) fn center_crop_pad(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let wanted = numbers(of, node, 1)?.unwrap_or_default();
    let axes = node.ints("axes").map_or_else(|| (0..shape.len() as i64).collect(), <[i64]>::to_vec);
    let mut pads = vec![[0; 2]; shape.len()];
    for (along, wanted) in axes.iter().zip(&wanted) {
        let along = axis(node, *along, shape.len())?;
        let change = wanted.minus(&shape[along]).and_then(|change| change.int());
        let change = change.ok_or_else(|| node.fault("has an open extent"))?;
        // The front gets the smaller half, and loses it.
        let first = if change < 0 { -(change.saturating_neg() / 2) } else { change / 2 };
        pads[along] = [first, change - first];
    }
    let x = of.values.operand(name, None)?;
    let x = padded(of, node, (x, shape), &pads, ("constant", Number::Int(0)))?;
    of.values.define(&node.outputs[0], x).map(drop)
}

/// A tensor that is cut and then padded. Axes of open extent can grow by a constant only.
fn padded(
    of: &Translation,
    node: &Node,
    (mut x, mut shape): (Expr, Vec<Number>),
    pads: &Pads,
    (mode, value): (&str, Number),
) -> Result<Expr, Diagnostic> {
    for (along, [before, after]) in pads.iter().enumerate() {
        let end = if *after < 0 { *after } else { i64::MAX };
        let bounds = (&Number::Int(before.saturating_neg().max(0)), &Number::Int(end));
        x = cut(&x, &shape[along], bounds, along, 1).flatten().unwrap_or(x);
        let change = Number::Int(before.min(&0).saturating_add(*after.min(&0)));
        shape[along] = shape[along].plus(&change).ok_or_else(|| node.fault("cuts too much"))?;
    }
    let name = node.input(0).unwrap_or_default();
    let dtype = of.values.type_of(name).map_or(DType::F32, |ty| ty.dtype);
    let grows = |side: usize, along: usize| pads[along][side].max(0);
    let is_known =
        |along: usize| shape[along].int().is_some() || (grows(0, along), grows(1, along)) == (0, 0);
    if (0..shape.len()).all(is_known) {
        let side =
            |side: usize| list(&ints(&(0..shape.len()).map(|along| grows(side, along)).collect::<Vec<_>>()));
        let (before, after) = (side(0), side(1));
        let mode = match mode {
            "constant" if value.float() == Some(0.0) => String::new(),
            "constant" => format!(", value={}", of_number(&value)),
            other => format!(", mode={other}"),
        };
        let is_whole = pads.iter().flatten().all(|&n| n <= 0);
        return Ok(if is_whole {
            x
        } else {
            expression(&format!("pad({x}, before={before}, after={after}{mode})"))
        });
    }
    if mode != "constant" {
        return Err(node.fault("continues an axis of open extent"));
    }
    for along in 0..shape.len() {
        let part = |n: i64| {
            let mut shape = shape.clone();
            shape[along] = Number::Int(n);
            format!("full(value={}, shape={}, dtype={dtype})", of_number(&value), list(&shape))
        };
        let [before, after] = [grows(0, along), grows(1, along)];
        let parts =
            [(before > 0).then(|| part(before)), Some(x.to_string()), (after > 0).then(|| part(after))];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.len() > 1 {
            x = expression(&format!("concat({}, axis={along})", parts.join(", ")));
        }
        let grown = Number::Int(before.saturating_add(after));
        shape[along] = shape[along].plus(&grown).ok_or_else(|| node.fault("grows too much"))?;
    }
    Ok(x)
}
