//! What functions of special ops share: the operands of a node, and parts of them.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;
use engine_core::text::expr::Expr;

use crate::fault::broken;
use crate::known::{Known, Number};
use crate::literal::of_number;
use crate::node::Node;
use crate::shapes;
use crate::table::expression;
use crate::tensor::Stored;
use crate::translate::Translation;
use crate::values::extents;

/// The most axes that one node cuts, pads or indexes.
pub(crate) const MOST_AXES: usize = 64;

/// The name of an operand, and its extents.
pub(crate) fn operand<'n>(
    of: &Translation,
    node: &'n Node,
    at: usize,
) -> Result<(&'n str, Vec<Number>), Diagnostic> {
    let found = node.input(at).and_then(|name| Some((name, extents(&of.values.type_of(name)?))));
    found.ok_or_else(|| broken(format!("{} lacks an operand", node.describe()), "export the model again"))
}

/// The numbers of an operand as a formula has them, if it is there.
pub(crate) fn numbers(of: &Translation, node: &Node, at: usize) -> Result<Option<Vec<Number>>, Diagnostic> {
    let Some(name) = node.input(at) else { return Ok(None) };
    let known = of.values.known(name).cloned();
    let known = known.or_else(|| of.values.stored(name).and_then(Known::of));
    let known = known.or_else(|| of.values.listed(name).cloned()).ok_or_else(|| {
        node.fault(&format!("needs the numbers of `{name}`, which are not known at import"))
    })?;
    Ok(Some(known.decimals()))
}

/// Whole numbers.
pub(crate) fn ints(items: &[i64]) -> Vec<Number> {
    items.iter().map(|&n| Number::Int(n)).collect()
}

/// Adds a tensor of f32 under a name.
pub(crate) fn matrix(
    of: &mut Translation,
    name: &str,
    dims: &[usize],
    elements: &[f64],
) -> Result<String, Diagnostic> {
    let bytes = elements.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
    of.values.add_stored(name, Stored::new(DType::F32, dims.to_vec(), bytes));
    of.values.tensor(name).map(|(name, _)| name)
}

/// An axis, counted from the front.
pub(crate) fn axis(node: &Node, axis: i64, rank: usize) -> Result<usize, Diagnostic> {
    shapes::axis(axis, rank, 0)
        .ok_or_else(|| broken(format!("{} has no axis {axis}", node.describe()), "export the model again"))
}

/// The numbers from one to another, whose distance is an extent.
pub(crate) fn positions(start: &Number, end: &Number, dtype: DType) -> Option<Expr> {
    let count = end.minus(start)?.dim()?;
    let dtype = if dtype == DType::I32 { String::new() } else { format!(", dtype={dtype}") };
    let numbers = format!("iota(shape=[{}]{dtype})", of_number(&Number::of(&count)));
    match start {
        Number::Int(0) => Some(expression(&numbers)),
        Number::Int(n) => Some(expression(&format!("{numbers} + {n}"))),
        _ => None,
    }
}

/// A part along an axis; no expression if it is the whole. Nothing if the bounds are unclear.
pub(crate) fn cut(
    x: &Expr,
    extent: &Number,
    (start, end): (&Number, &Number),
    along: usize,
    step: i64,
) -> Option<Option<Expr>> {
    let (low, high) = (bound(start, extent), bound(end, extent));
    // A slice that walks away from the end begins behind the last element, and one that walks to the front ends there.
    let beyond = |at: Option<Option<i64>>, is_past: bool| match at {
        Some(None) if is_past => extent.int().map(Some),
        other => other,
    };
    if let (Some(low), Some(high)) = (beyond(low, step > 0), beyond(high, step < 0)) {
        let low = low.filter(|&low| !(low == 0 && step > 0));
        if (low, high, step) == (None, None, 1) {
            return Some(None);
        }
        let mut text = format!("slice({x}");
        if along != 0 {
            text += &format!(", axis={along}");
        }
        for (name, value) in [("start", low), ("stop", high)] {
            text += &value.map(|value| format!(", {name}={value}")).unwrap_or_default();
        }
        if step != 1 {
            text += &format!(", step={step}");
        }
        return Some(Some(expression(&(text + ")"))));
    }
    let rows = positions(start, end, DType::I32).filter(|_| step == 1)?;
    let axis = if along == 0 { String::new() } else { format!(", axis={along}") };
    Some(Some(expression(&format!("index_select({x}, {rows}{axis})"))))
}

/// A bound as a number: from the front, or negative from the end. No number if it is behind the last element.
fn bound(at: &Number, extent: &Number) -> Option<Option<i64>> {
    match (at, extent) {
        (Number::Int(at), Number::Int(extent)) if at >= extent => Some(None),
        (Number::Int(at), _) if *at >= i64::from(i32::MAX) => Some(None),
        (Number::Int(at), _) => Some(Some(*at)),
        _ => match at.minus(extent)?.int()? {
            n if n >= 0 => Some(None),
            n => Some(Some(n)),
        },
    }
}
