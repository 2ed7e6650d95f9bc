//! `Attention` of opset 23: heads side by side or on an axis of their own, masks, and keys of earlier calls.

use engine_core::diag::Diagnostic;
use engine_core::ir::{DType, Type};

use crate::fault::broken;
use crate::known::Number;
use crate::literal::of_number;
use crate::node::{Attribute, Node};
use crate::table::expression;
use crate::translate::Translation;

/// The attributes that are read.
const KNOWN: [&str; 7] = [
    "is_causal",
    "kv_num_heads",
    "q_num_heads",
    "qk_matmul_output_mode",
    "scale",
    "softcap",
    "softmax_precision",
];

/// `Attention(q, k, v, mask, past_key, past_value)`
pub(crate) fn attention(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let float = |name: &str| match node.attributes.get(name) {
        Some(Attribute::Float(x)) => Some(*x),
        _ => None,
    };
    let has_scores = node.outputs.get(3).is_some_and(|name| !name.is_empty());
    if has_scores || float("softcap").is_some_and(|cap| cap != 0.0) || node.input(6).is_some() {
        return Err(node.fault("caps or returns its scores, or has keys of several lengths"));
    }
    if let Some(unknown) = node.attributes.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(node.fault(&format!("has the attribute `{unknown}`")));
    }
    let is_flat = type_of(of, node, 0)?.rank() == 3;
    let q = with_heads(of, node, 0, "q_num_heads")?;
    let k = with_heads(of, node, 1, "kv_num_heads")?;
    let v = with_heads(of, node, 2, "kv_num_heads")?;
    let (n_queries, n_keys) = (axis(&type_of(of, node, 0)?, node)?, axis(&type_of(of, node, 1)?, node)?);
    let past = node.input(4).and_then(|name| of.values.type_of(name));
    let n_past = past.and_then(|ty| ty.shape.get(2).map(Number::of)).unwrap_or(Number::Int(0));
    let (k, v) = (joined(of, node, (4, 1), k)?, joined(of, node, (5, 2), v)?);
    let mut settings = String::new();
    let mut mask =
        node.input(3).map(|name| of.values.operand(name, None)).transpose()?.map(|mask| mask.to_string());
    if node.int("is_causal", 0) != 0 {
        // The engine lets the last query see the last key.
        match n_queries == n_keys {
            true => settings += ", causal=true",
            false => mask = Some(triangle(of, node, mask, [&n_queries, &n_keys, &n_past])?),
        }
    }
    settings += &float("scale").map(|scale| format!(", scale={scale:?}")).unwrap_or_default();
    let mask = mask.map(|mask| format!(", {mask}")).unwrap_or_default();
    let y = format!("attention({q}, {k}, {v}{mask}{settings})");
    if !is_flat {
        return of.values.define(&node.outputs[0], expression(&y)).map(drop);
    }
    let shape = type_of(of, node, 0)?.shape;
    let [batch, rows] = [0, 1].map(|axis| of_number(&Number::of(&shape[axis])));
    let y = of.values.define(&format!("{}.heads", node.outputs[0]), expression(&y))?;
    let flat = format!("reshape(permute({y}, axes=[0, 2, 1, 3]), shape=[{batch}, {rows}, _])");
    of.values.define(&node.outputs[0], expression(&flat)).map(drop)
}

fn type_of(of: &Translation, node: &Node, at: usize) -> Result<Type, Diagnostic> {
    let ty = node.input(at).and_then(|name| of.values.type_of(name));
    let unfit =
        || broken(format!("{} has operands of unexpected shapes", node.describe()), "export the model again");
    ty.filter(|ty| matches!(ty.rank(), 3 | 4)).ok_or_else(unfit)
}

/// The number of positions.
fn axis(ty: &Type, node: &Node) -> Result<Number, Diagnostic> {
    let dim = ty.shape.len().checked_sub(2).and_then(|axis| ty.shape.get(axis));
    dim.map(Number::of).ok_or_else(|| node.fault("has no positions"))
}

/// An operand with an axis of heads: `[batch, heads, positions, depth]`.
fn with_heads(of: &mut Translation, node: &Node, at: usize, heads: &str) -> Result<String, Diagnostic> {
    let ty = type_of(of, node, at)?;
    let x = of.values.operand(node.input(at).unwrap_or_default(), None)?;
    if ty.rank() == 4 {
        return Ok(x.to_string());
    }
    let heads = node.int(heads, 0);
    if heads <= 0 {
        return Err(node.fault("does not say how many heads it has"));
    }
    let [batch, rows] = [0, 1].map(|axis| of_number(&Number::of(&ty.shape[axis])));
    Ok(format!("permute(reshape({x}, shape=[{batch}, {rows}, {heads}, _]), axes=[0, 2, 1, 3])"))
}

/// Keys or values behind those of earlier calls, which are a result, too.
fn joined(
    of: &mut Translation,
    node: &Node,
    (input, output): (usize, usize),
    new: String,
) -> Result<String, Diagnostic> {
    let all = match node.input(input) {
        None => new,
        Some(past) => format!("concat({}, {new}, axis=2)", of.values.operand(past, None)?),
    };
    match node.outputs.get(output).filter(|name| !name.is_empty()) {
        Some(name) => of.values.define(name, expression(&all)),
        None => Ok(all),
    }
}

/// The mask, in which query i sees the first i + 1 keys behind the earlier ones.
fn triangle(
    of: &Translation,
    node: &Node,
    mask: Option<String>,
    [n_queries, n_keys, n_past]: [&Number; 3],
) -> Result<String, Diagnostic> {
    let n_all = n_keys.plus(n_past).ok_or_else(|| node.fault("has too many keys"))?;
    let [queries, all, past] = [n_queries, &n_all, n_past].map(of_number);
    let past = match n_past {
        Number::Int(0) => String::new(),
        Number::Int(_) => format!(" + {past}"),
        _ => return Err(node.fault("has earlier keys of open number")),
    };
    let seen = format!("iota(shape=[{queries}, 1]){past} >= iota(shape=[1, {all}], axis=1)");
    let is_truth =
        node.input(3).and_then(|name| of.values.type_of(name)).is_some_and(|ty| ty.dtype == DType::Bool);
    Ok(match mask {
        None => seen,
        Some(mask) if is_truth => format!("{mask} & ({seen})"),
        Some(mask) => format!("where({seen}, {mask}, -inf)"),
    })
}
