//! `LinearAttention`: a state for each head, to which every position adds the product of its key and its value.

use engine_core::diag::Diagnostic;
use engine_core::ir::Type;

use crate::fault::broken;
use crate::known::Number;
use crate::literal::{list, of_number};
use crate::loops::Trip;
use crate::node::Node;
use crate::operands::{ints, operand};
use crate::proto::ValueInfoProto;
use crate::shapes;
use crate::table::expression;
use crate::translate::Translation;
use crate::values::Item;

/// The extents of the heads.
struct Heads {
    batch: Number,
    positions: Number,
    /// Heads of keys and values.
    n: i64,
    /// Heads of queries for each of them.
    shared: i64,
    key: i64,
    value: i64,
}

/// The rule by which a state changes.
struct Rule {
    decays: bool,
    /// Whether only what a state lacks of a value is added.
    is_delta: bool,
}

fn unfit(node: &Node) -> Diagnostic {
    broken(format!("{} has operands of unexpected shapes", node.describe()), "export the model again")
}

impl Heads {
    fn of(of: &Translation, node: &Node) -> Result<Heads, Diagnostic> {
        let (n_queries, n) = (node.int("q_num_heads", 0), node.int("kv_num_heads", 0));
        if n <= 0 || n_queries <= 0 || n_queries % n != 0 {
            return Err(unfit(node));
        }
        let width = |at: usize, n: i64| {
            let (_, shape) = operand(of, node, at)?;
            let width = shape.get(2).filter(|_| shape.len() == 3).and_then(Number::int);
            width
                .filter(|width| *width > 0 && width % n == 0)
                .map(|width| width / n)
                .ok_or_else(|| unfit(node))
        };
        let (_, shape) = operand(of, node, 0)?;
        let (query, key, value) = (width(0, n_queries)?, width(1, n)?, width(2, n)?);
        match query == key {
            true => Ok(Heads {
                batch: shape[0].clone(),
                positions: shape[1].clone(),
                n,
                shared: n_queries / n,
                key,
                value,
            }),
            false => Err(unfit(node)),
        }
    }

    /// Extents behind those of items and heads.
    fn behind(&self, extents: &[i64]) -> String {
        list(&[&[self.batch.clone(), Number::Int(self.n)], &ints(extents)[..]].concat())
    }
}

/// `LinearAttention(q, k, v, state, decay, beta)`: a loop over the positions.
pub(crate) fn linear_attention(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let rule = match node.text("update_rule", "gated_delta") {
        "linear" => Rule { decays: false, is_delta: false },
        "gated" => Rule { decays: true, is_delta: false },
        "delta" => Rule { decays: false, is_delta: true },
        "gated_delta" => Rule { decays: true, is_delta: true },
        other => return Err(node.fault(&format!("has the rule `{other}`"))),
    };
    let heads = Heads::of(of, node)?;
    let (sequence, widths) = packed(of, node, &heads, &rule)?;
    let ty = of.values.tensor_type(&sequence).cloned().ok_or_else(|| unfit(node))?;
    let name = |at: usize, default: &str| {
        node.outputs.get(at).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| default.to_owned())
    };
    let output = name(0, "output");
    let start = match node.input(3) {
        Some(past) => past.to_owned(),
        None => {
            let start = format!("{output}/start");
            let shape = heads.behind(&[heads.key, heads.value]);
            let zeros = format!("full(value=0, shape={shape}, dtype={})", ty.dtype);
            of.values.define(&start, expression(&zeros))?;
            start
        }
    };
    // The loop hands the state on, and the outputs are its rows.
    let turned = Node { outputs: vec![name(1, "state"), output.clone()], ..node.clone() };
    let state = [ValueInfoProto { name: "state".to_owned(), r#type: None }];
    let row = Type { shape: ty.shape[1..].to_vec(), ..ty };
    let trip = Trip::begin(of, &turned, (&[start], &state), ("position", row, None))?;
    let (state, row) = (trip.carried_name(0), trip.visited_name());
    let found = step(of, node, (&heads, &rule, &widths), [&state, &row])?;
    let results = trip.results(of, found)?;
    let mut items = trip.counted(of, results, (sequence, &heads.positions))?.into_iter();
    let (Some(state), Some(rows)) = (items.next(), items.next()) else { return Err(unfit(node)) };
    if let Some(output) = node.outputs.get(1).filter(|name| !name.is_empty()) {
        of.values.put(output, state);
    }
    let rows = of.values.tensor_of(&output, rows)?.0;
    let shape = list(&[heads.batch, heads.positions, shapes::open()]);
    of.values.define(
        &output,
        expression(&format!("reshape(permute({rows}, axes=[1, 0, 2, 3, 4]), shape={shape})")),
    )?;
    Ok(())
}

/// Queries, keys, values, decays and rates of all positions side by side, and their widths: `[T, B, heads, width]`.
fn packed(
    of: &mut Translation,
    node: &Node,
    heads: &Heads,
    rule: &Rule,
) -> Result<(String, Vec<i64>), Diagnostic> {
    let (mut parts, mut widths) = (vec![], vec![]);
    let needed = [(0, true), (1, true), (2, true), (4, rule.decays), (5, rule.is_delta)];
    for (at, _) in needed.into_iter().filter(|(_, is_needed)| *is_needed) {
        let (name, shape) = operand(of, node, at)?;
        let width = shape.get(2).and_then(Number::int).ok_or_else(|| unfit(node))?;
        let x = of.values.tensor(name)?.0;
        // One rate may stand for all heads.
        let is_single = width == 1 && heads.n > 1;
        let own = if is_single { 1 } else { width / heads.n };
        let shape = |n: i64| {
            let lead = [heads.batch.clone(), heads.positions.clone()];
            list(&[&lead[..], &ints(&[n, own])].concat())
        };
        parts.push(match is_single {
            true => format!("broadcast_to(reshape({x}, shape={}), shape={})", shape(1), shape(heads.n)),
            false => format!("reshape({x}, shape={})", shape(heads.n)),
        });
        widths.push(own);
    }
    let sequence = format!("permute(concat({}, axis=3), axes=[1, 0, 2, 3])", parts.join(", "));
    let label = format!("{}/positions", node.outputs[0]);
    let item = of.values.derive(&label, &sequence, None)?;
    Ok((of.values.tensor_of(&label, item)?.0, widths))
}

/// The state behind a position, and its outputs.
fn step(
    of: &mut Translation,
    node: &Node,
    (heads, rule, widths): (&Heads, &Rule, &[i64]),
    [state, row]: [&str; 2],
) -> Result<Vec<Item>, Diagnostic> {
    let part = |at: usize, shape: &[i64]| {
        let start: i64 = widths[..at].iter().sum();
        let cut = format!("slice({row}, axis=2, start={start}, stop={})", start + widths[at]);
        format!("reshape({cut}, shape={})", heads.behind(shape))
    };
    let mut define = |name: &str, text: &str| -> Result<(String, Item), Diagnostic> {
        let item = of.values.derive(name, text, None)?;
        let tensor = of.values.tensor_of(name, item.clone())?;
        Ok((tensor.0, item))
    };
    let key = define("key", &part(1, &[heads.key, 1]))?.0;
    let mut value = define("value", &part(2, &[1, heads.value]))?.0;
    let mut before = state.to_owned();
    if rule.decays {
        let decay = part(3, &[widths[3], 1]);
        before = define("decayed", &format!("{state} * exp({decay})"))?.0;
    }
    if rule.is_delta {
        let rate = part(widths.len() - 1, &[1, 1]);
        let known = format!("sum({before} * {key}, axis=2, keepdim=true)");
        value = define("lack", &format!("{rate} * ({value} - {known})"))?.0;
    }
    let (next, state) = define("state", &format!("{before} + {key} * {value}"))?;
    let given = node.float("scale", 0.0);
    let scale = if given == 0.0 { (heads.key as f64).powf(-0.5) } else { given };
    let query = part(0, &[heads.shared, heads.key]);
    let output = define("output", &format!("({query} @ {next}) * {}", of_number(&Number::Float(scale))))?.1;
    Ok(vec![state, output])
}
