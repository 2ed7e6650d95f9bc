//! Recurrent networks: the weights of each gate are put in the order of the engine, and a step runs over the sequence.

use engine_core::diag::Diagnostic;
use engine_core::ir::{DType, Type};

use crate::fault::broken;
use crate::known::{Known, Number};
use crate::node::{Attribute, Node};
use crate::table::expression;
use crate::tensor::Stored;
use crate::translate::Translation;

/// A kind of network.
struct Kind {
    /// The function of a step.
    step: &'static str,
    /// For each gate of the engine, its number in ONNX.
    gates: &'static [usize],
    /// Whether a step also carries a cell.
    has_cell: bool,
    /// Further settings of a step.
    settings: &'static str,
}

/// Gates i, f, c, o of the engine, which ONNX orders i, o, f, c.
pub(crate) fn lstm(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let allowed = [
        "activation_alpha",
        "activation_beta",
        "activations",
        "direction",
        "hidden_size",
        "layout",
        "input_forget",
    ];
    expect_plain(node, &allowed, &["Sigmoid", "Tanh", "Tanh"])?;
    if node.input(7).is_some() || node.int("input_forget", 0) != 0 {
        return Err(node.fault("has peepholes, or couples its gates"));
    }
    network(of, node, &Kind { step: "lstm_step", gates: &[0, 2, 3, 1], has_cell: true, settings: "" })
}

/// `DynamicQuantizeLSTM`: an LSTM whose weights are bytes with scales, `[directions, n, gates * H]`.
pub(crate) fn quantized_lstm(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let input = |at: usize| node.input(at).unwrap_or_default().to_owned();
    let mut inputs: Vec<String> = (0..8).map(input).collect();
    for (at, scale) in [(1, 8), (2, 10)] {
        let weights = dequantized(of, node, [at, scale, scale + 1])?;
        inputs[at] = format!(
            "{}/{}",
            node.outputs.iter().find(|name| !name.is_empty()).map_or("", |name| name),
            inputs[at]
        );
        of.values.add_stored(&inputs[at], weights);
    }
    lstm(of, &Node { inputs, ..node.clone() })
}

/// Weights as floats, `[directions, gates * H, n]`. Scales and zero points are one number for each direction, or for each gate.
fn dequantized(of: &Translation, node: &Node, [at, scale, zero]: [usize; 3]) -> Result<Stored, Diagnostic> {
    let unfit =
        || broken(format!("{} has weights of unexpected shape", node.describe()), "export the model again");
    let stored = constant(of, node, at)?.ok_or_else(unfit)?;
    let numbers = |at: usize| -> Result<Vec<f64>, Diagnostic> {
        let known = constant(of, node, at)?.and_then(Known::of).ok_or_else(unfit)?;
        known.elements.iter().map(Number::float).collect::<Option<_>>().ok_or_else(unfit)
    };
    let (scales, zeros) = (numbers(scale)?, numbers(zero)?);
    let [directions, columns, rows] = stored.dims[..] else { return Err(unfit()) };
    let is_fit = |n: usize| n == directions || Some(n) == directions.checked_mul(rows);
    let is_byte = matches!(stored.dtype, DType::I8 | DType::U8);
    if !is_fit(scales.len()) || !is_fit(zeros.len()) || !is_byte {
        return Err(unfit());
    }
    let of_gate = |items: &[f64], direction: usize, row: usize| {
        let place = if items.len() == directions { direction } else { direction * rows + row };
        items.get(place).copied().unwrap_or(0.0)
    };
    let mut bytes = Vec::with_capacity(stored.bytes.len().saturating_mul(4));
    for direction in 0..directions {
        for row in 0..rows {
            let (scale, zero) = (of_gate(&scales, direction, row), of_gate(&zeros, direction, row));
            for column in 0..columns {
                let byte =
                    *stored.bytes.get((direction * columns + column) * rows + row).ok_or_else(unfit)?;
                let number = if stored.dtype == DType::I8 { f64::from(byte as i8) } else { f64::from(byte) };
                bytes.extend_from_slice(&(((number - zero) * scale) as f32).to_le_bytes());
            }
        }
    }
    Ok(Stored::new(DType::F32, vec![directions, rows, columns], bytes.into()))
}

/// Gates r, z, n of the engine, which ONNX orders z, r, n.
pub(crate) fn gru(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let allowed = [
        "activation_alpha",
        "activation_beta",
        "activations",
        "direction",
        "hidden_size",
        "layout",
        "linear_before_reset",
    ];
    expect_plain(node, &allowed, &["Sigmoid", "Tanh"])?;
    let step = if node.int("linear_before_reset", 0) == 0 { "gru_reset_step" } else { "gru_step" };
    network(of, node, &Kind { step, gates: &[1, 0, 2], has_cell: false, settings: "" })
}

/// A network without gates.
pub(crate) fn rnn(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let allowed =
        ["activation_alpha", "activation_beta", "activations", "direction", "hidden_size", "layout"];
    let rectifies = matches!(node.attributes.get("activations"), Some(Attribute::Texts(words)) if words.iter().all(|word| word == "Relu"));
    expect_plain(node, &allowed, &[if rectifies { "Relu" } else { "Tanh" }])?;
    let settings = if rectifies { ", rectify=true" } else { "" };
    network(of, node, &Kind { step: "rnn_step", gates: &[0], has_cell: false, settings })
}

fn expect_plain(node: &Node, allowed: &[&str], activations: &[&str]) -> Result<(), Diagnostic> {
    if let Some(unknown) = node.attributes.keys().find(|name| !allowed.contains(&name.as_str())) {
        return Err(node.fault(&format!("has the attribute `{unknown}`")));
    }
    let is_default = |attribute: Option<&Attribute>| match attribute {
        None => true,
        Some(Attribute::Texts(words)) => {
            words.iter().zip(activations.iter().cycle()).all(|(word, known)| word == known)
        }
        Some(_) => false,
    };
    match is_default(node.attributes.get("activations")) {
        true => Ok(()),
        false => Err(node.fault("has other activations")),
    }
}

/// Whether items come before positions.
fn is_batch_first(node: &Node) -> bool {
    node.int("layout", 0) != 0
}

fn network(of: &mut Translation, node: &Node, kind: &Kind) -> Result<(), Diagnostic> {
    let type_of = |at: usize| node.input(at).and_then(|name| of.values.type_of(name));
    let (Some(mut x), Some(w)) = (type_of(0), type_of(1)) else {
        return Err(broken(format!("{} lacks an operand", node.describe()), "export the model again"));
    };
    let directions: &[bool] = match node.attributes.get("direction") {
        Some(Attribute::Text(text)) if text == "reverse" => &[true],
        Some(Attribute::Text(text)) if text == "bidirectional" => &[false, true],
        _ => &[false],
    };
    if w.shape.first().and_then(|dim| dim.fixed()) != Some(directions.len()) || x.rank() != 3 {
        return Err(broken(
            format!("{} has operands of unexpected shapes", node.describe()),
            "export the model again",
        ));
    }
    if is_batch_first(node) {
        x.shape.swap(0, 1);
    }
    expect_whole(of, node, &x)?;
    let runs =
        directions.iter().enumerate().map(|(at, &is_reverse)| run(of, node, kind, &x, (at, is_reverse)));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let [all, last, cell]: [Vec<&str>; 3] =
        [0, 1, 2].map(|i| runs.iter().map(|run| run[i].as_str()).collect());
    for (output, parts) in node.outputs.iter().zip([all, last, cell]).filter(|(output, _)| !output.is_empty())
    {
        let is_sequence = node.outputs.first() == Some(output);
        let parts = parts.join(", ");
        let expr = match (is_sequence, is_batch_first(node)) {
            (true, false) => format!("stack({parts}, axis=1)"),
            (true, true) => format!("permute(stack({parts}, axis=1), axes=[2, 0, 1, 3])"),
            (false, false) => format!("stack({parts}, axis=0)"),
            (false, true) => format!("stack({parts}, axis=1)"),
        };
        of.values.define(output, expression(&expr))?;
    }
    Ok(())
}

/// Fails unless all sequences are as long as the first axis.
fn expect_whole(of: &Translation, node: &Node, x: &Type) -> Result<(), Diagnostic> {
    let Some(name) = node.input(4) else { return Ok(()) };
    let length = Number::of(&x.shape[0]);
    match of.values.known(name) {
        Some(known) if known.elements.iter().all(|n| *n == length) => Ok(()),
        Some(known) if length.int().is_some() && known.ints().is_some() => {
            Err(node.fault("has sequences that are shorter than its operand"))
        }
        _ => Err(node.fault("has sequences whose lengths are not known at import")),
    }
}

/// One direction: the states of all positions, the last state, and the last cell, as expressions.
fn run(
    of: &mut Translation,
    node: &Node,
    kind: &Kind,
    x: &Type,
    (at, is_reverse): (usize, bool),
) -> Result<[String; 3], Diagnostic> {
    let [w, u] = [1, 2].map(|operand| weights(of, node, kind, (operand, at)));
    let (w, u) = (param(of, node, "w", w?), param(of, node, "u", u?));
    let [b, d] = [0, 1].map(|half| bias(of, node, kind, (half, at, x.dtype)));
    let (w, u, b, d) = (w?, u?, param(of, node, "b", b?)?, param(of, node, "d", d?)?);
    let hidden = of.values.type_of(&u).map_or(0, |ty| ty.shape[0].fixed().unwrap_or(0));
    let given = of.values.operand(node.input(0).unwrap_or_default(), None)?;
    let given = match is_batch_first(node) {
        true => expression(&format!("permute({given}, axes=[1, 0, 2])")),
        false => given,
    };
    let state = |of: &mut Translation, operand: usize| match node.input(operand) {
        Some(name) => of.values.operand(name, None).map(|initial| match is_batch_first(node) {
            true => format!("select({initial}, axis=1, index={at})"),
            false => format!("select({initial}, index={at})"),
        }),
        None => Ok(format!("zeros(shape=[{}, {hidden}], dtype={})", x.shape[1], x.dtype)),
    };
    let mut states = vec![state(of, 5)?];
    if kind.has_cell {
        states.push(state(of, 6)?);
    }
    let [w, u, b, d] = [w, u, b, d].map(|name| of.values.tensor(&name).map(|(name, _)| name));
    let sequence = if is_reverse { format!("slice({given}, step=-1)") } else { given.to_string() };
    let (w, u, b, d) = (w?, u?, b?, d?);
    let call = format!(
        "{}({}, {sequence} @ {w} + {b}, {u}, {d}, over=0{})",
        kind.step,
        states.join(", "),
        kind.settings
    );
    let stem = node.outputs.iter().find(|name| !name.is_empty()).cloned().unwrap_or_default();
    let steps = of.values.define(&format!("{stem}.steps{at}"), expression(&call))?;
    let all = if is_reverse { format!("slice({steps}, step=-1)") } else { steps.clone() };
    Ok([all, format!("select({steps}, index=-1)"), format!("select({steps}.c, index=-1)")])
}

/// Adds a parameter under a name of its own, and returns the name.
fn param(of: &mut Translation, node: &Node, part: &str, value: Stored) -> Result<String, Diagnostic> {
    let operand = if part == "w" || part == "b" { 1 } else { 2 };
    let stem = node.input(operand).unwrap_or_default();
    let name = (0..).map(|number| format!("{stem}.{part}{number}")).find(|name| !of.values.has(name));
    let name = name.unwrap_or_default();
    of.values.add_stored(&name, value);
    Ok(name)
}

/// The constant behind an operand.
fn constant<'v>(of: &'v Translation, node: &Node, operand: usize) -> Result<Option<&'v Stored>, Diagnostic> {
    let Some(name) = node.input(operand) else { return Ok(None) };
    let found = of.values.stored(name);
    found.map(Some).ok_or_else(|| node.fault("has weights that are no constants"))
}

/// Weights `[directions, gates * H, n]` of one direction as `[n, gates * H]`, gates in the order of the engine.
fn weights(
    of: &Translation,
    node: &Node,
    kind: &Kind,
    (operand, at): (usize, usize),
) -> Result<Stored, Diagnostic> {
    let unfit =
        || broken(format!("{} has weights of unexpected shape", node.describe()), "export the model again");
    let stored = constant(of, node, operand)?.ok_or_else(unfit)?;
    let [_, rows, columns] = stored.dims[..] else { return Err(unfit()) };
    let (n_gates, size) = (kind.gates.len(), stored.dtype.size());
    if rows % n_gates != 0 {
        return Err(unfit());
    }
    let hidden = rows / n_gates;
    let mut bytes = Vec::with_capacity(rows * columns * size);
    for column in 0..columns {
        for row in kind.gates.iter().flat_map(|gate| gate * hidden..(gate + 1) * hidden) {
            let start = ((at * rows + row) * columns + column) * size;
            bytes.extend_from_slice(stored.bytes.get(start..start + size).ok_or_else(unfit)?);
        }
    }
    Ok(Stored::new(stored.dtype, vec![columns, rows], bytes.into()))
}

/// One half of the biases `[directions, 2 * gates * H]`: those of the input or of the state.
fn bias(
    of: &Translation,
    node: &Node,
    kind: &Kind,
    (half, at, dtype): (usize, usize, DType),
) -> Result<Stored, Diagnostic> {
    let unfit =
        || broken(format!("{} has biases of unexpected shape", node.describe()), "export the model again");
    let n_gates = kind.gates.len();
    let Some(stored) = constant(of, node, 3)? else {
        let rows = constant(of, node, 1)?.and_then(|w| w.dims.get(1).copied()).ok_or_else(unfit)?;
        let zeros = Known { dtype, dims: vec![rows], elements: vec![Number::Float(0.0); rows] };
        return zeros.stored().ok_or_else(unfit);
    };
    let [_, width] = stored.dims[..] else { return Err(unfit()) };
    let (rows, size) = (width / 2, stored.dtype.size());
    let hidden = rows / n_gates;
    let part = |gate: &usize| {
        let start = (at * width + half * rows + gate * hidden) * size;
        stored.bytes.get(start..start + hidden * size)
    };
    let parts = kind.gates.iter().map(part).collect::<Option<Vec<_>>>().ok_or_else(unfit)?;
    Ok(Stored::new(stored.dtype, vec![rows], parts.concat().into()))
}
