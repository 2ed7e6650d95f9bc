//! Attention of onnxruntime: `MultiHeadAttention`, and `Attention` whose node multiplies the weights itself.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::compose::node_of;
use crate::fault::broken;
use crate::known::Number;
use crate::literal::{list, of_number};
use crate::node::{Attribute, Node};
use crate::operands::operand;
use crate::table::expression;
use crate::translate::Translation;

/// The number that onnxruntime adds to the scores of masked keys.
const FILTER: f64 = -10000.0;

/// Queries, keys and values as `[batch, heads, positions, depth]`, named values of the model.
pub(crate) struct Heads {
    pub(crate) q: String,
    pub(crate) k: String,
    pub(crate) v: String,
}

/// Further parts of attention.
#[derive(Default)]
pub(crate) struct Rule {
    /// What is added to the scores, or which keys are seen.
    pub(crate) mask: Option<String>,
    pub(crate) is_causal: bool,
    pub(crate) scale: Option<f64>,
    /// Scores are capped to this size; 0 if they are not.
    pub(crate) cap: f64,
    /// A score for each head that takes part in the softmax without a value.
    pub(crate) sink: Option<String>,
}

pub(crate) fn unfit(node: &Node) -> Diagnostic {
    broken(format!("{} has operands of unexpected shapes", node.describe()), "export the model again")
}

/// A name for a step of a node.
pub(crate) fn step_name(node: &Node, part: &str) -> String {
    format!("{}/{part}", node.outputs.iter().find(|name| !name.is_empty()).map_or("", String::as_str))
}

/// Gives an expression a name, and returns its tensor.
pub(crate) fn step(of: &mut Translation, node: &Node, part: &str, text: &str) -> Result<String, Diagnostic> {
    of.values.define(&step_name(node, part), expression(text))
}

/// The extents of a step.
fn extents_of(of: &Translation, node: &Node, part: &str) -> Result<Vec<Number>, Diagnostic> {
    let ty = of.values.type_of(&step_name(node, part)).ok_or_else(|| unfit(node))?;
    Ok(ty.shape.iter().map(Number::of).collect())
}

/// The number of heads that an attribute names.
pub(crate) fn count(node: &Node, name: &str) -> Result<i64, Diagnostic> {
    match node.int(name, 0) {
        n if n > 0 => Ok(n),
        _ => Err(node.lacking("does not say how many heads it has")),
    }
}

/// Fails for attributes that ask for something else than their values here.
pub(crate) fn expect_default(node: &Node, defaults: &[(&str, i64)]) -> Result<(), Diagnostic> {
    match defaults.iter().find(|(name, default)| node.int(name, *default) != *default) {
        Some((name, _)) => Err(node.lacking(&format!("sets `{name}`, which has no translation"))),
        None => Ok(()),
    }
}

/// A result of a node, if it is wanted.
pub(crate) fn wanted(node: &Node, at: usize) -> Option<&str> {
    node.outputs.get(at).map(String::as_str).filter(|name| !name.is_empty())
}

/// `[batch, positions, heads * depth]` as `[batch, heads, positions, depth]`.
pub(crate) fn split(x: &str, shape: &[Number], heads: i64) -> Option<String> {
    let [batch, rows, _] = shape else { return None };
    let shape = list(&[batch.clone(), rows.clone(), Number::Int(heads), crate::shapes::open()]);
    Some(format!("permute(reshape({x}, shape={shape}), axes=[0, 2, 1, 3])"))
}

/// The scale that an attribute names; 0 stands for the usual one.
pub(crate) fn scale(node: &Node) -> Option<f64> {
    Some(node.float("scale", 0.0)).filter(|scale| *scale != 0.0)
}

/// Defines the first result: attention, with heads side by side.
pub(crate) fn attend(
    of: &mut Translation,
    node: &Node,
    heads: &Heads,
    rule: &Rule,
) -> Result<(), Diagnostic> {
    let Heads { q, k, v } = heads;
    let y = match rule.cap == 0.0 && rule.sink.is_none() {
        true => {
            let mask = rule.mask.as_ref().map(|mask| format!(", {mask}")).unwrap_or_default();
            let causal = if rule.is_causal { ", causal=true" } else { "" };
            let scale = rule.scale.map(|scale| format!(", scale={scale:?}")).unwrap_or_default();
            format!("attention({q}, {k}, {v}{mask}{causal}{scale})")
        }
        false => spelled(of, node, heads, rule)?,
    };
    let y = step(of, node, "heads", &y)?;
    let shape = extents_of(of, node, "heads")?;
    let [batch, _, rows, _] = &shape[..] else { return Err(unfit(node)) };
    let shape = list(&[batch.clone(), rows.clone(), crate::shapes::open()]);
    let Some(output) = wanted(node, 0) else { return Ok(()) };
    let flat = format!("reshape(permute({y}, axes=[0, 2, 1, 3]), shape={shape})");
    of.values.define(output, expression(&flat)).map(drop)
}

/// Attention in single steps, for scores that are capped, and for sinks.
fn spelled(of: &mut Translation, node: &Node, heads: &Heads, rule: &Rule) -> Result<String, Diagnostic> {
    let q = step(of, node, "queries", &format!("copy({})", heads.q))?;
    let k = step(of, node, "keys", &format!("copy({})", heads.k))?;
    let (queries, keys) = (extents_of(of, node, "queries")?, extents_of(of, node, "keys")?);
    let n = |shape: &[Number], axis: usize| shape.get(axis).and_then(Number::int).filter(|n| *n > 0);
    let (Some(n_heads), Some(n_groups), Some(depth)) = (n(&queries, 1), n(&keys, 1), n(&queries, 3)) else {
        return Err(unfit(node));
    };
    let repeats = n_heads / n_groups;
    let shared = |x: &str| match repeats {
        1 => x.to_owned(),
        n => format!("repeat_interleave({x}, repeats={n}, axis=1)"),
    };
    let scale = rule.scale.unwrap_or_else(|| (depth as f64).powf(-0.5));
    let mut scores = step(of, node, "scores", &format!("{q} @ transpose({}) * {scale:?}", shared(&k)))?;
    if rule.cap != 0.0 {
        scores = step(of, node, "capped", &format!("{0:?} * tanh({scores} / {0:?})", rule.cap))?;
    }
    if let Some(mask) = &rule.mask {
        scores = step(of, node, "masked", &format!("where({mask}, {scores}, -inf)"))?;
    }
    let weights = match &rule.sink {
        None => format!("softmax({scores}, axis=3)"),
        Some(sink) => {
            let shape = list(&[&queries[..3], &[Number::Int(1)]].concat());
            let all = format!("concat({scores}, broadcast_to({sink}, shape={shape}), axis=3)");
            format!("slice(softmax({all}, axis=3), axis=3, stop=-1)")
        }
    };
    Ok(format!("{weights} @ {}", shared(&heads.v)))
}

/// Keys or values behind those of earlier calls, which are a result, too.
pub(crate) fn joined(
    of: &mut Translation,
    node: &Node,
    (past, output): (Option<String>, Option<&str>),
    (part, new): (&str, &str),
) -> Result<String, Diagnostic> {
    let all = match past {
        None => new.to_owned(),
        Some(past) => step(of, node, part, &format!("concat({past}, {new}, axis=2)"))?,
    };
    match output {
        Some(name) => of.values.define(name, expression(&format!("copy({all})"))),
        None => Ok(all),
    }
}

/// What masks and biases add to scores: the mask at one place of the operands, the bias at another.
fn added(
    of: &mut Translation,
    node: &Node,
    [mask, bias]: [usize; 2],
    (batch, keys): (&Number, &Number),
) -> Result<Option<String>, Diagnostic> {
    let bias = match node.input(bias) {
        Some(name) => Some(of.values.tensor(name)?.0),
        None => None,
    };
    let Some(_) = node.input(mask) else { return Ok(bias) };
    let seen = seen(of, node, mask, (batch, keys))?;
    let filter = node.float("mask_filter_value", FILTER);
    let mask = step(of, node, "mask", &format!("where({seen}, 0.0, {filter:?})"))?;
    Ok(Some(bias.map_or(mask.clone(), |bias| format!("{bias} + {mask}"))))
}

/// Which keys a mask lets be seen. It has a number for each key, or the bounds of the keys of each item.
fn seen(
    of: &mut Translation,
    node: &Node,
    at: usize,
    (batch, keys): (&Number, &Number),
) -> Result<String, Diagnostic> {
    let (name, shape) = operand(of, node, at)?;
    let (mask, ty) = of.values.tensor(name)?;
    let one = Number::Int(1);
    let places = format!("iota(shape=[1, 1, 1, {}], axis=3, dtype={})", of_number(keys), ty.dtype);
    let bounds = list(&[batch.clone(), one.clone(), one.clone(), one.clone()]);
    match &shape[..] {
        [n] if n == batch => Ok(format!("{places} < reshape({mask}, shape={bounds})")),
        [n] => {
            let (Some(items), Some(n)) = (batch.int(), n.int()) else {
                return Err(node.fault("has a mask of unknown kind"));
            };
            let ends = format!("reshape(slice({mask}, stop={items}), shape={bounds})");
            match n {
                _ if Some(n) == items.checked_mul(2) => {
                    let starts = format!("reshape(slice({mask}, start={items}), shape={bounds})");
                    Ok(format!("({places} < {ends}) & ({places} >= {starts})"))
                }
                _ if Some(n) == items.checked_mul(3).and_then(|n| n.checked_add(2)) => {
                    Ok(format!("{places} < {ends}"))
                }
                _ => Err(unfit(node)),
            }
        }
        [items, n] if n.equals(keys) != Some(false) => {
            let shape = list(&[items.clone(), one.clone(), one, n.clone()]);
            Ok(format!("reshape({mask}, shape={shape}) != {}", zero(ty.dtype)))
        }
        [items, rows, n] => {
            let shape = list(&[items.clone(), one, rows.clone(), n.clone()]);
            Ok(format!("reshape({mask}, shape={shape}) != {}", zero(ty.dtype)))
        }
        _ => Err(node.lacking("has a mask of a shape without translation")),
    }
}

fn zero(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "false",
        _ if dtype.is_float() => "0.0",
        _ => "0",
    }
}

/// `MultiHeadAttention(q, k, v, bias, mask, added, past keys, past values)`. Queries, keys and values may lie in one operand.
pub(crate) fn multi_head(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    if node.input(8).is_some() || node.input(9).is_some() || wanted(node, 3).is_some() {
        return Err(node.lacking("shares its buffers, or returns scores"));
    }
    let n = count(node, "num_heads")?;
    let parts = parts(of, node, n)?;
    let past = |of: &mut Translation, at: usize| -> Result<Option<String>, Diagnostic> {
        node.input(at).map(|name| of.values.tensor(name).map(|(name, _)| name)).transpose()
    };
    let new = extents_of(of, node, "k")?;
    let (past_k, past_v) = (past(of, 6)?, past(of, 7)?);
    let k = joined(of, node, (past_k, wanted(node, 1)), ("all_k", &parts.k))?;
    let v = joined(of, node, (past_v, wanted(node, 2)), ("all_v", &parts.v))?;
    finish(of, node, Heads { q: parts.q, k, v }, (&new, [4, 5]))
}

/// Attention of heads, of which `new` are the extents of the keys of this call.
fn finish(
    of: &mut Translation,
    node: &Node,
    heads: Heads,
    (new, masks): (&[Number], [usize; 2]),
) -> Result<(), Diagnostic> {
    let unfit = || unfit(node);
    let all = of.values.tensor_type(&heads.k).cloned().ok_or_else(unfit)?;
    let rows = of.values.tensor_type(&heads.q).cloned().ok_or_else(unfit)?;
    let (batch, keys) = (all.shape.first().ok_or_else(unfit)?, all.shape.get(2).ok_or_else(unfit)?);
    let mask = added(of, node, masks, (&Number::of(batch), &Number::of(keys)))?;
    let is_causal = node.int("unidirectional", 0) != 0;
    let rows = rows.shape.get(2).map(Number::of).ok_or_else(unfit)?;
    if is_causal && new.get(2) != Some(&rows) {
        return Err(node.lacking("is causal between positions of unequal number"));
    }
    attend(of, node, &heads, &Rule { mask, is_causal, scale: scale(node), ..Rule::default() })
}

/// The queries, keys and values of this call, under the names `q`, `k` and `v`.
fn parts(of: &mut Translation, node: &Node, n: i64) -> Result<Heads, Diagnostic> {
    let (name, shape) = operand(of, node, 0)?;
    let x = of.values.tensor(name)?.0;
    if shape.len() == 5 {
        let part = |at: i64| format!("permute(select({x}, axis=3, index={at}), axes=[0, 2, 1, 3])");
        return named(of, node, [part(0), part(1), part(2)]);
    }
    let (name, keys) = operand(of, node, 1)?;
    let k = of.values.tensor(name)?.0;
    let bias = node.input(3).map(|bias| of.values.tensor(bias).map(|(bias, _)| bias)).transpose()?;
    let last = |shape: &[Number]| shape.last().and_then(Number::int);
    let width = last(&shape).ok_or_else(|| unfit(node))?;
    let biased = |x: String, start: i64, stop: Option<i64>| match &bias {
        None => x,
        Some(bias) => {
            let stop = stop.map(|stop| format!(", stop={stop}")).unwrap_or_default();
            format!("({x} + slice({bias}, start={start}{stop}))")
        }
    };
    let q = split(&biased(x, 0, Some(width)), &shape, n).ok_or_else(|| unfit(node))?;
    match keys.len() {
        5 => {
            let part = |at: i64| format!("permute(select({k}, axis=3, index={at}), axes=[0, 2, 1, 3])");
            named(of, node, [q, part(0), part(1)])
        }
        rank => {
            let (name, values) = operand(of, node, 2)?;
            let v = of.values.tensor(name)?.0;
            if rank == 4 {
                return named(of, node, [q, format!("copy({k})"), format!("copy({v})")]);
            }
            let behind = width.checked_add(last(&keys).ok_or_else(|| unfit(node))?);
            let k = split(&biased(k, width, behind), &keys, n);
            let v = split(&biased(v, behind.ok_or_else(|| unfit(node))?, None), &values, n);
            named(of, node, [q, k.ok_or_else(|| unfit(node))?, v.ok_or_else(|| unfit(node))?])
        }
    }
}

fn named(of: &mut Translation, node: &Node, [q, k, v]: [String; 3]) -> Result<Heads, Diagnostic> {
    Ok(Heads { q: step(of, node, "q", &q)?, k: step(of, node, "k", &k)?, v: step(of, node, "v", &v)? })
}

/// `Attention(x, weights, bias, mask, past, added)`: products with the weights are queries, keys and values side by side.
pub(crate) fn packed(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let (x, weights) = (operand(of, node, 0)?.0, operand(of, node, 1)?.0);
    let (x, weights) = (of.values.tensor(x)?.0, of.values.tensor(weights)?.0);
    let bias = match node.input(2) {
        Some(bias) => format!(" + {}", of.values.tensor(bias)?.0),
        None => String::new(),
    };
    if node.input(6).is_some() {
        return Err(node.lacking("shares its buffers"));
    }
    of_product(of, node, &format!("{x} @ {weights}{bias}"), [3, 4, 5])
}

/// Attention of a product, with the places of mask, past and bias among the operands.
pub(crate) fn of_product(
    of: &mut Translation,
    node: &Node,
    product: &str,
    [mask, past, bias]: [usize; 3],
) -> Result<(), Diagnostic> {
    expect_default(node, &[("do_rotary", 0), ("past_present_share_buffer", 0)])?;
    let n = count(node, "num_heads")?;
    let product = step(of, node, "product", product)?;
    let shape = extents_of(of, node, "product")?;
    let width = shape.get(2).and_then(Number::int).ok_or_else(|| unfit(node))?;
    let sizes = match node.ints("qkv_hidden_sizes") {
        Some(&[q, k, v]) => [q, k, v],
        _ => [width / 3; 3],
    };
    let whole = sizes.iter().try_fold(0i64, |sum, size| sum.checked_add(*size).filter(|_| *size > 0));
    if whole != Some(width) {
        return Err(unfit(node));
    }
    let part = |start: i64, size: i64| {
        split(&format!("slice({product}, axis=2, start={start}, stop={})", start + size), &shape, n)
            .ok_or_else(|| unfit(node))
    };
    let [q, k, v] = sizes;
    let heads = [part(0, q)?, part(q, k)?, part(q + k, v)?];
    let Heads { q, mut k, mut v } = named(of, node, heads)?;
    let new = extents_of(of, node, "k")?;
    if let Some(past) = node.input(past) {
        let past = of.values.tensor(past)?.0;
        let earlier = |at: i64| Some(format!("select({past}, index={at})"));
        k = joined(of, node, (earlier(0), None), ("all_k", &k))?;
        v = joined(of, node, (earlier(1), None), ("all_v", &v))?;
    }
    if let Some(output) = wanted(node, 1) {
        of.values.define(output, expression(&format!("stack({k}, {v}, axis=0)")))?;
    }
    finish(of, node, Heads { q, k, v }, (&new, [mask, bias]))
}

/// `DecoderMaskedMultiHeadAttention` with its operands in the order of `MultiHeadAttention`.
pub(crate) fn decoder(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    expect_default(node, &[("past_present_share_buffer", 0), ("output_qk", 0)])?;
    if node.input(9).is_some() {
        return Err(node.lacking("chooses among beams"));
    }
    let input = |at: usize| node.input(at).unwrap_or_default().to_owned();
    let inputs = [0, 1, 2, 10, 3, 4, 5, 6].map(input).to_vec();
    multi_head(of, &Node { inputs, ..node.clone() })
}

/// `RotaryEmbedding(x, positions, cos, sin)` with its operands in the order of the op of ONNX.
pub(crate) fn rotary(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    expect_default(node, &[("is_packed_batching", 0)])?;
    if node.float("scale", 1.0) != 1.0 {
        return Err(node.lacking("scales its angles"));
    }
    let ((x, shape), (positions, places)) = (operand(of, node, 0)?, operand(of, node, 1)?);
    let (_, table) = operand(of, node, 2)?;
    let half = table.get(1).and_then(Number::int).filter(|half| *half > 0).ok_or_else(|| unfit(node))?;
    let (batch, rows, heads) = match &shape[..] {
        [batch, rows, width] => {
            let depth = half.checked_mul(2).ok_or_else(|| unfit(node))?;
            let by_table = width.int().map_or(0, |width| width / depth);
            (batch, rows, Some(node.int("num_heads", 0)).filter(|n| *n > 0).unwrap_or(by_table))
        }
        [batch, _, rows, _] => (batch, rows, 0),
        _ => return Err(unfit(node)),
    };
    let positions = match places.len() {
        1 => {
            let first = of.values.tensor(positions)?.0;
            let counted = format!("iota(shape={}, dtype=i64)", list(std::slice::from_ref(rows)));
            let all = list(&[batch.clone(), rows.clone()]);
            step(of, node, "positions", &format!("broadcast_to({first} + {counted}, shape={all})"))?;
            step_name(node, "positions")
        }
        _ => positions.to_owned(),
    };
    let input = |at: usize| node.input(at).unwrap_or_default().to_owned();
    let attributes = [
        ("interleaved", Attribute::Int(node.int("interleaved", 0))),
        ("num_heads", Attribute::Int(heads)),
        ("rotary_embedding_dim", Attribute::Int(node.int("rotary_embedding_dim", 0))),
    ];
    let inputs = vec![x.to_owned(), input(2), input(3), positions];
    let turned = node_of(node, "RotaryEmbedding", inputs, node.outputs.clone(), attributes);
    crate::attention::rotary(of, &turned)
}
