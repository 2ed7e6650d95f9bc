//! `Attention` of opset 23: heads side by side or on an axis of their own, masks, and keys of earlier calls.

use engine_core::diag::Diagnostic;
use engine_core::ir::{DType, Type};

use crate::fault::broken;
use crate::known::Number;
use crate::literal::{list, of_number};
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

/// `Attention(q, k, v, mask, past_key, past_value, number of keys)`
pub(crate) fn attention(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
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
    let mut mask = mask(of, node, [&n_keys, &n_past])?;
    let mut settings = String::new();
    let is_plain =
        node.outputs.get(3).is_none_or(|name| name.is_empty()) && node.float("softcap", 0.0) == 0.0;
    if node.int("is_causal", 0) != 0 {
        // The engine lets the last query see the last key.
        match n_queries == n_keys && is_plain {
            true => settings += ", causal=true",
            false => mask = Some(triangle(of, node, mask, [&n_queries, &n_keys, &n_past])?),
        }
    }
    let scale = match node.attributes.get("scale") {
        Some(Attribute::Float(scale)) => Some(*scale),
        _ => None,
    };
    let y = match is_plain {
        true => {
            settings += &scale.map(|scale| format!(", scale={scale:?}")).unwrap_or_default();
            let mask = mask.map(|mask| format!(", {mask}")).unwrap_or_default();
            format!("attention({q}, {k}, {v}{mask}{settings})")
        }
        false => spelled(of, node, [q, k, v], mask, scale)?,
    };
    if !is_flat {
        return of.values.define(&node.outputs[0], expression(&y)).map(drop);
    }
    let shape = type_of(of, node, 0)?.shape;
    let [batch, rows] = [0, 1].map(|axis| of_number(&Number::of(&shape[axis])));
    let y = of.values.define(&format!("{}.heads", node.outputs[0]), expression(&y))?;
    let flat = format!("reshape(permute({y}, axes=[0, 2, 1, 3]), shape=[{batch}, {rows}, _])");
    of.values.define(&node.outputs[0], expression(&flat)).map(drop)
}

fn is_truth(of: &Translation, node: &Node) -> bool {
    node.input(3).and_then(|name| of.values.type_of(name)).is_none_or(|ty| ty.dtype == DType::Bool)
}

/// The mask for all keys. Keys behind its end, and behind the given numbers of keys, are not seen.
fn mask(
    of: &mut Translation,
    node: &Node,
    [n_keys, n_past]: [&Number; 2],
) -> Result<Option<String>, Diagnostic> {
    let mut mask = None;
    if let Some(name) = node.input(3) {
        let ty = of.values.type_of(name).ok_or_else(|| node.fault("has no such mask"))?;
        let given = of.values.operand(name, None)?;
        let all = n_keys.plus(n_past).and_then(|n| n.int());
        let own = ty.shape.last().and_then(|dim| dim.fixed()).map(|n| n as i64);
        mask = Some(match (all, own) {
            (Some(all), Some(own)) if own < all && own > 1 => {
                let side = |last: i64| {
                    list(&[vec![Number::Int(0); ty.rank() - 1], vec![Number::Int(last)]].concat())
                };
                let value = if ty.dtype == DType::Bool { "false" } else { "-inf" };
                format!("pad({given}, before={}, after={}, value={value})", side(0), side(all - own))
            }
            _ => given.to_string(),
        });
    }
    let Some(name) = node.input(6) else { return Ok(mask) };
    let counts = of.values.operand(name, None)?;
    let all = n_keys.plus(n_past).ok_or_else(|| node.fault("has too many keys"))?;
    let dtype = of.values.type_of(name).map_or(DType::I64, |ty| ty.dtype);
    let places = format!("iota(shape=[1, 1, 1, {}], axis=3, dtype={dtype})", of_number(&all));
    let seen = format!("{places} < reshape({counts}, shape=[_, 1, 1, 1])");
    Ok(Some(seen_by(of, node, mask, seen)))
}

/// A mask whose other places are not seen.
fn seen_by(of: &Translation, node: &Node, mask: Option<String>, seen: String) -> String {
    match mask {
        None => seen,
        Some(mask) if is_truth(of, node) => format!("({mask}) & ({seen})"),
        Some(mask) => format!("where({seen}, {mask}, -inf)"),
    }
}

/// Attention in single steps, for scores that are capped or returned.
fn spelled(
    of: &mut Translation,
    node: &Node,
    [q, k, v]: [String; 3],
    mask: Option<String>,
    scale: Option<f64>,
) -> Result<String, Diagnostic> {
    let stem = node.outputs[0].clone();
    let step = |of: &mut Translation, name: &str, expr: &str| -> Result<(String, Type), Diagnostic> {
        let label = format!("{stem}.{name}");
        of.values.define(&label, expression(expr))?;
        of.values.tensor(&label)
    };
    let ((q, ty), (k, keys), (v, _)) = (step(of, "q", &q)?, step(of, "k", &k)?, step(of, "v", &v)?);
    let fixed = |ty: &Type, axis: usize| ty.shape.get(axis).and_then(|dim| dim.fixed());
    let [heads, groups, depth] = [fixed(&ty, 1), fixed(&keys, 1), fixed(&ty, 3)].map(|n| n.unwrap_or(0));
    if groups == 0 || heads % groups != 0 || depth == 0 {
        return Err(node.fault("has heads of unexpected number"));
    }
    let shared = |x: &str| match heads / groups {
        1 => x.to_owned(),
        n => format!("repeat_interleave({x}, repeats={n}, axis=1)"),
    };
    let scale = scale.unwrap_or_else(|| (depth as f64).powf(-0.5));
    let plain = step(of, "scores", &format!("{q} @ transpose({}) * {scale:?}", shared(&k)))?.0;
    let cap = node.float("softcap", 0.0);
    let capped = match cap == 0.0 {
        true => plain.clone(),
        false => step(of, "capped", &format!("{cap:?} * tanh({plain} / {cap:?})"))?.0,
    };
    let masked = match mask {
        None => capped.clone(),
        Some(mask) if is_truth(of, node) => step(of, "masked", &format!("where({mask}, {capped}, -inf)"))?.0,
        Some(mask) => step(of, "masked", &format!("{capped} + ({mask})"))?.0,
    };
    let weights = step(of, "weights", &format!("softmax({masked}, axis=3)"))?.0;
    if let Some(output) = node.outputs.get(3).filter(|name| !name.is_empty()) {
        let found = match node.int("qk_matmul_output_mode", 0) {
            0 => &plain,
            1 => &capped,
            2 => &masked,
            _ => &weights,
        };
        of.values.define(output, expression(&format!("copy({found})")))?;
    }
    Ok(format!("{weights} @ {}", shared(&v)))
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
    Ok(seen_by(of, node, mask, seen))
}

/// `RotaryEmbedding(x, cos, sin, positions)`: pairs of elements are turned by angles from tables, at the position of their
/// row. A pair is two neighbours, or an element of each half.
pub(crate) fn rotary(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let ty = type_of(of, node, 0)?;
    let x = with_heads(of, node, 0, "num_heads")?;
    let stem = node.outputs[0].clone();
    let x = of.values.define(&format!("{stem}.x"), expression(&x))?;
    let heads = of.values.tensor(&format!("{stem}.x"))?.1;
    let fixed = heads.shape.last().and_then(|dim| dim.fixed());
    let depth = fixed.ok_or_else(|| node.fault("has heads of open depth"))? as i64;
    let turned = match node.int("rotary_embedding_dim", 0) {
        0 => depth,
        n if (2..=depth).contains(&n) && n % 2 == 0 => n,
        _ => return Err(node.fault("turns a part of unexpected size")),
    };
    let mut table = |at: usize| -> Result<String, Diagnostic> {
        let name = node.input(at).ok_or_else(|| node.fault("lacks a table of angles"))?;
        let table = of.values.tensor(name)?.0;
        let rows = match node.input(3) {
            Some(positions) => format!("index_select({table}, {})", of.values.tensor(positions)?.0),
            None => table,
        };
        let [batch, positions] = [0, 2].map(|axis| of_number(&Number::of(&heads.shape[axis])));
        let rows = format!("reshape({rows}, shape=[{batch}, 1, {positions}, {}])", turned / 2);
        of.values.define(&format!("{stem}.angle{at}"), expression(&rows))
    };
    let (cos, sin) = (table(1)?, table(2)?);
    let half = turned / 2;
    let is_paired = node.int("interleaved", 0) != 0;
    let (a, b) = match is_paired {
        true => (
            format!("slice({x}, axis=3, stop={turned}, step=2)"),
            format!("slice({x}, axis=3, start=1, stop={turned}, step=2)"),
        ),
        false => (
            format!("slice({x}, axis=3, stop={half})"),
            format!("slice({x}, axis=3, start={half}, stop={turned})"),
        ),
    };
    let (real, imaginary) = (format!("{cos} * {a} - {sin} * {b}"), format!("{sin} * {a} + {cos} * {b}"));
    let [batch, n_heads, rows] = [0, 1, 2].map(|axis| of_number(&Number::of(&heads.shape[axis])));
    let mut y = match is_paired {
        true => format!(
            "reshape(stack({real}, {imaginary}, axis=4), shape=[{batch}, {n_heads}, {rows}, {turned}])"
        ),
        false => format!("concat({real}, {imaginary}, axis=3)"),
    };
    if turned < depth {
        y = format!("concat({y}, slice({x}, axis=3, start={turned}), axis=3)");
    }
    if ty.rank() == 3 {
        y = format!("reshape(permute({y}, axes=[0, 2, 1, 3]), shape=[{batch}, {rows}, _])");
    }
    of.values.define(&node.outputs[0], expression(&y)).map(drop)
}
