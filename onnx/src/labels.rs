//! Values in place of others: `LabelEncoder`, and `ZipMap`, whose maps become columns.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::fault::{broken, unsupported};
use crate::heads::{step, step_name};
use crate::known::{Known, Number};
use crate::literal::of_number;
use crate::node::{Attribute, Node};
use crate::operands::{ints, operand};
use crate::table::expression;
use crate::translate::Translation;

/// The numbers of an attribute under one of its names.
fn listed(node: &Node, stem: &str) -> Result<Known, Diagnostic> {
    let named = |kind: &str| node.attributes.get(&format!("{stem}_{kind}"));
    let floats = |items: &[f64]| items.iter().map(|x| Number::Float(*x)).collect::<Vec<_>>();
    let found = match (named("int64s"), named("floats"), named("tensor")) {
        (Some(Attribute::Ints(items)), ..) => Known::new(DType::I64, vec![items.len()], ints(items)),
        (_, Some(Attribute::Floats(items)), _) => Known::new(DType::F32, vec![items.len()], floats(items)),
        (.., Some(Attribute::Tensor(stored))) => Known::of(stored),
        _ => {
            let message = format!("{} has texts as keys or values, or none", node.describe());
            return Err(unsupported(message, "export the model with numbers as keys and values"));
        }
    };
    found.ok_or_else(|| node.lacking("has too many keys"))
}

/// A key as a float, itself, and its value.
type Pair = (f64, Number, Number);

/// The pairs in the order of their keys. Of equal keys, the last one counts.
fn distinct(mut pairs: Vec<Pair>) -> Vec<Pair> {
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.int().cmp(&b.1.int())));
    let mut found: Vec<Pair> = vec![];
    for pair in pairs {
        match found.last_mut().filter(|last| last.1 == pair.1) {
            Some(last) => *last = pair,
            None => found.push(pair),
        }
    }
    found
}

/// `LabelEncoder(x)`: each key has a value, and other elements a default.
pub(crate) fn encoder(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, _) = operand(of, node, 0)?;
    let (x, ty) = of.values.tensor(name)?;
    let (keys, values) = (listed(node, "keys")?, listed(node, "values")?);
    if keys.elements.len() != values.elements.len() || keys.elements.is_empty() || keys.dtype != ty.dtype {
        return Err(broken(format!("{} has unfit keys", node.describe()), "export the model again"));
    }
    let default = match node.attributes.get("default_tensor") {
        Some(Attribute::Tensor(stored)) => Known::of(stored).and_then(|known| known.single().cloned()),
        _ if values.dtype.is_float() => Some(Number::Float(node.float("default_float", -0.0))),
        _ => Some(Number::Int(node.int("default_int64", -1))),
    };
    let default = default.ok_or_else(|| node.lacking("has no default"))?.decimal(values.dtype);
    // NaN is a key of its own.
    let mut pairs = vec![];
    let mut nan = None;
    for (key, value) in keys.elements.iter().zip(&values.elements) {
        match key.float() {
            Some(x) if x.is_nan() => nan = Some(value.decimal(values.dtype)),
            Some(x) => pairs.push((x, key.clone(), value.clone())),
            None => return Err(node.lacking("has open keys")),
        }
    }
    let distinct = distinct(pairs);
    let n = distinct.len();
    let default = format!("full_like({{at}}, value={})", of_number(&default));
    let y = match n {
        0 => return Err(node.lacking("has no key but NaN")),
        n => {
            let column = |of: &mut Translation, part: &str, dtype, elements: Vec<Number>| {
                let label = step_name(node, part);
                of.values.add_known(&label, Known { dtype, dims: vec![n], elements });
                of.values.tensor(&label).map(|(name, _)| name)
            };
            let own = distinct.iter().map(|pair| pair.1.clone()).collect();
            let own = column(of, "keys", keys.dtype, own)?;
            let given = distinct.into_iter().map(|pair| pair.2).collect();
            let given = column(of, "values", values.dtype, given)?;
            let at = format!("clamp(bucketize({x}, {own}), min=0, max={})", n - 1);
            let at = step(of, node, "places", &at)?;
            let found = step(of, node, "found", &format!("index_select({given}, {at})"))?;
            let default = default.replace("{at}", &found);
            format!("where(index_select({own}, {at}) == {x}, {found}, {default})")
        }
    };
    let y = match nan {
        Some(value) if ty.dtype.is_float() => {
            let y = step(of, node, "known", &y)?;
            format!("where(isnan({x}), full_like({y}, value={}), {y})", of_number(&value))
        }
        _ => y,
    };
    of.values.define(&node.outputs[0], expression(&y)).map(drop)
}

/// `ZipMap(x)`: a map of each row has the numbers of that row. They stay a tensor, with a column for each key.
pub(crate) fn columns(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (name, _) = operand(of, node, 0)?;
    let name = name.to_owned();
    of.values.alias(&node.outputs[0], &name);
    Ok(())
}
