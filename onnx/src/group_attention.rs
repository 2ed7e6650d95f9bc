//! `GroupQueryAttention` of onnxruntime: a head of keys serves several of queries, behind the keys of earlier calls.

use engine_core::diag::Diagnostic;

use crate::attention::rotary;
use crate::compose::node_of;
use crate::fault::unsupported;
use crate::heads::{
    Heads, Rule, attend, count, expect_default, joined, scale, split, step, step_name, unfit, wanted,
};
use crate::known::Number;
use crate::literal::{list, of_number};
use crate::node::{Attribute, Node};
use crate::operands::operand;
use crate::translate::Translation;

/// The places of the operands.
const PAST: [usize; 2] = [3, 4];
const LENGTHS: usize = 5;
const TABLES: [usize; 2] = [7, 8];
const POSITIONS: usize = 9;
const BIAS: usize = 10;
const SINK: usize = 11;
const K_NORM: usize = 15;

/// The numbers of items, new positions and earlier positions.
struct Extents {
    batch: Number,
    new: Number,
    past: Number,
    all: Number,
}

impl Extents {
    fn of(of: &Translation, node: &Node) -> Result<Extents, Diagnostic> {
        let (_, shape) = operand(of, node, 0)?;
        let [batch, new, _] = &shape[..] else { return Err(unfit(node)) };
        let past = match node.input(PAST[0]) {
            Some(_) => operand(of, node, PAST[0])?.1.get(2).cloned().ok_or_else(|| unfit(node))?,
            None => Number::Int(0),
        };
        let all = past.plus(new).ok_or_else(|| unfit(node))?;
        Ok(Extents { batch: batch.clone(), new: new.clone(), past, all })
    }

    /// The number of earlier positions as a tensor without axes.
    fn past_count(&self, of: &mut Translation, node: &Node) -> Result<String, Diagnostic> {
        match &self.past {
            Number::Int(n) => Ok(n.to_string()),
            past => {
                let one_more = past.plus(&Number::Int(1)).ok_or_else(|| unfit(node))?;
                let last = format!("select(iota(shape={}), index=-1)", list(&[one_more]));
                step(of, node, "past", &last)
            }
        }
    }
}

/// `GroupQueryAttention(q, k, v, past keys, past values, last positions, number of positions, cos, sin, positions, bias,
/// sink)`.
pub(crate) fn group_query(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    expect_plain(node)?;
    let extents = Extents::of(of, node)?;
    let mut heads = parts(of, node)?;
    if node.int("do_rotary", 0) != 0 {
        let positions = positions(of, node, &extents)?;
        heads.q = turned(of, node, "q", &positions)?;
        heads.k = turned(of, node, "k", &positions)?;
    }
    let [past_k, past_v] = PAST.map(|at| node.input(at).map(str::to_owned));
    let mut tensor = |name: Option<String>| name.map(|name| of.values.tensor(&name)).transpose();
    let (past_k, past_v) = (tensor(past_k)?.map(|(name, _)| name), tensor(past_v)?.map(|(name, _)| name));
    heads.k = joined(of, node, (past_k, wanted(node, 1)), ("all_k", &heads.k))?;
    heads.v = joined(of, node, (past_v, wanted(node, 2)), ("all_v", &heads.v))?;
    heads.q = checked(of, node, &extents, &heads.q)?;
    let rule = rule(of, node, &extents)?;
    attend(of, node, &heads, &rule)
}

/// Fails for parts without a translation.
fn expect_plain(node: &Node) -> Result<(), Diagnostic> {
    expect_default(node, &[("sliding_window_cache", 0), ("qk_output", 0), ("kv_cache_bit_width", 0)])?;
    let is_quantized =
        ["k_quant_type", "v_quant_type"].iter().any(|name| !matches!(node.text(name, "NONE"), "NONE" | ""));
    match is_quantized || (12..K_NORM + 2).any(|at| node.input(at).is_some()) || wanted(node, 3).is_some() {
        true => Err(unsupported(
            format!("{} keeps quantized or normalised keys, or returns scores", node.describe()),
            "export the model without these parts",
        )),
        false => Ok(()),
    }
}

/// The queries, keys and values of this call, under the names `q`, `k` and `v`.
fn parts(of: &mut Translation, node: &Node) -> Result<Heads, Diagnostic> {
    let (n, groups) = (count(node, "num_heads")?, count(node, "kv_num_heads")?);
    let (name, shape) = operand(of, node, 0)?;
    let x = of.values.tensor(name)?.0;
    let unfit = || unfit(node);
    let [q, k, v] = match node.input(1) {
        Some(_) => {
            let ((k, keys), (v, values)) = (operand(of, node, 1)?, operand(of, node, 2)?);
            let (k, v) = (of.values.tensor(k)?.0, of.values.tensor(v)?.0);
            [split(&x, &shape, n), split(&k, &keys, groups), split(&v, &values, groups)]
        }
        None => {
            let all = groups.checked_mul(2).and_then(|both| n.checked_add(both)).ok_or_else(unfit)?;
            let width = shape.get(2).and_then(Number::int).filter(|width| width % all == 0);
            let depth = width.ok_or_else(unfit)? / all;
            let part = |start: i64, heads: i64| {
                let [start, stop] = [start, start + heads].map(|at| at * depth);
                split(&format!("slice({x}, axis=2, start={start}, stop={stop})"), &shape, heads)
            };
            [part(0, n), part(n, groups), part(n + groups, groups)]
        }
    };
    let mut named = |part: &str, text: Option<String>| step(of, node, part, &text.ok_or_else(unfit)?);
    Ok(Heads { q: named("q", q)?, k: named("k", k)?, v: named("v", v)? })
}

/// The value with the positions of all rows: those given, or the ones behind the earlier positions.
fn positions(of: &mut Translation, node: &Node, extents: &Extents) -> Result<String, Diagnostic> {
    if let Some(positions) = node.input(POSITIONS) {
        return Ok(positions.to_owned());
    }
    let past = extents.past_count(of, node)?;
    let new = of_number(&extents.new);
    let shape = list(&[extents.batch.clone(), extents.new.clone()]);
    let text = format!("broadcast_to(iota(shape=[1, {new}], axis=1) + {past}, shape={shape})");
    step(of, node, "positions", &text)?;
    Ok(step_name(node, "positions"))
}

/// Queries or keys under their rotary embedding.
fn turned(of: &mut Translation, node: &Node, part: &str, positions: &str) -> Result<String, Diagnostic> {
    let (_, table) = operand(of, node, TABLES[0])?;
    let half = table.get(1).and_then(Number::int).and_then(|half| half.checked_mul(2));
    let attributes = [
        ("interleaved", Attribute::Int(node.int("rotary_interleaved", 0))),
        ("rotary_embedding_dim", Attribute::Int(half.ok_or_else(|| unfit(node))?)),
    ];
    let table = |at: usize| node.input(at).unwrap_or_default().to_owned();
    let inputs = vec![step_name(node, part), table(TABLES[0]), table(TABLES[1]), positions.to_owned()];
    let output = step_name(node, &format!("{part}_turned"));
    rotary(of, &node_of(node, "RotaryEmbedding", inputs, vec![output.clone()], attributes))?;
    Ok(of.values.tensor(&output)?.0)
}

/// The queries, if all items have as many earlier positions as their buffer: other items would need a buffer with gaps.
fn checked(of: &mut Translation, node: &Node, extents: &Extents, q: &str) -> Result<String, Diagnostic> {
    let Some(lengths) = node.input(LENGTHS) else { return Err(unfit(node)) };
    if extents.past == Number::Int(0) {
        return Ok(q.to_owned());
    }
    let lengths = of.values.tensor(lengths)?.0;
    let past = extents.past_count(of, node)?;
    let count = format!("sum(full(value=1, shape={}, dtype=i32))", list(std::slice::from_ref(&extents.new)));
    let fits = format!("all(({lengths} + 1 == {past} + {count}) | ({past} == 0))");
    let fits = match &extents.past {
        Number::Int(_) => format!("all({lengths} + 1 == {past} + {count})"),
        _ => fits,
    };
    step(of, node, "checked", &format!("require({q}, {fits})"))
}

/// Which keys are seen, and how scores are changed.
fn rule(of: &mut Translation, node: &Node, extents: &Extents) -> Result<Rule, Diagnostic> {
    let is_causal = node.int("causal", 1) != 0;
    let window = node.int("local_window_size", -1);
    let bias = node.input(BIAS).map(|bias| of.values.tensor(bias).map(|(bias, _)| bias)).transpose()?;
    let sink = match node.input(SINK) {
        Some(sink) => Some(format!("reshape({}, shape=[1, _, 1, 1])", of.values.tensor(sink)?.0)),
        None if node.int("smooth_softmax", 0) > 0 => {
            let dtype = of.values.type_of(node.input(0).unwrap_or_default()).map(|ty| ty.dtype);
            Some(format!("zeros(shape=[1, 1, 1, 1], dtype={})", dtype.ok_or_else(|| unfit(node))?))
        }
        None => None,
    };
    let cap = node.float("softcap", 0.0);
    let mut rule = Rule { mask: bias, is_causal, scale: scale(node), cap, sink };
    let is_spelled = cap != 0.0 || rule.sink.is_some();
    if is_causal && (window > 0 || is_spelled) {
        // Positions are counted from the last one, which queries and keys share.
        let [new, all] = [&extents.new, &extents.all].map(of_number);
        let query = format!("slice(iota(shape=[{new}, 1]), step=-1)");
        let key = format!("slice(iota(shape=[1, {all}], axis=1), axis=1, step=-1)");
        let behind = step(of, node, "behind", &format!("{key} - {query}"))?;
        let seen = match window {
            n if n > 0 => format!("({behind} >= 0) & ({behind} < {n})"),
            _ => format!("{behind} >= 0"),
        };
        if is_spelled && rule.mask.is_some() {
            return Err(node.lacking("adds to scores that are capped"));
        }
        rule.mask = Some(match rule.mask {
            Some(bias) => format!("where({seen}, {bias}, -inf)"),
            None => step(of, node, "seen", &seen)?,
        });
        rule.is_causal = false;
    }
    Ok(rule)
}
