//! Quantised ops of onnxruntime that are more than steps in a row: products with scales, and parts side by side.

use engine_core::diag::Diagnostic;
use engine_core::ir::DType;

use crate::compose::node_of;
use crate::heads::{of_product, unfit};
use crate::known::Number;
use crate::node::{Attribute, Node};
use crate::operands::operand;
use crate::quantize::{beside, centred, converted, element_of, rounded};
use crate::table::expression;
use crate::translate::Translation;

/// The places of an operand, its scale and its zero point.
type Places = (usize, usize, usize);

/// A scale as a number, or as one for each column.
fn scale(of: &mut Translation, node: &Node, at: usize) -> Result<String, Diagnostic> {
    let (_, own) = operand(of, node, at)?;
    match &own[..] {
        [n] if *n != Number::Int(1) => converted(of, node, at, DType::F32),
        _ => beside(of, node, (at, DType::F32), &own),
    }
}

/// A product of integers times its scales.
fn scaled(of: &mut Translation, node: &Node, [a, b]: [Places; 2]) -> Result<String, Diagnostic> {
    let x = centred(of, node, (a.0, a.2), DType::I32, |n| vec![n, Number::Int(1)])?;
    let w = centred(of, node, (b.0, b.2), DType::I32, |n| vec![n])?;
    let (s, t) = (scale(of, node, a.1)?, scale(of, node, b.1)?);
    Ok(format!("cast({x} @ {w}, dtype=f32) * ({s} * {t})"))
}

/// `MatMulIntegerToFloat(a, b, scale, scale, zero, zero, bias)`
pub(crate) fn matmul_to_float(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let product = scaled(of, node, [(0, 2, 4), (1, 3, 5)])?;
    let bias = match node.input(6) {
        Some(bias) => format!(" + {}", of.values.tensor(bias)?.0),
        None => String::new(),
    };
    of.values.define(&node.outputs[0], expression(&format!("{product}{bias}"))).map(drop)
}

/// `DynamicQuantizeMatMul(a, b, scale, zero, bias)`: the first operand becomes bytes here.
pub(crate) fn dynamic_matmul(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let input = |at: usize| node.input(at).unwrap_or_default().to_owned();
    let part = |name: &str| format!("{}/{name}", node.outputs[0]);
    let bytes = [part("bytes"), part("scale"), part("zero")];
    let first = node_of(node, "DynamicQuantizeLinear", vec![input(0)], bytes.to_vec(), []);
    let [bytes, scale, zero] = bytes;
    let inputs = vec![bytes, input(1), scale, input(2), zero, input(3), input(4)];
    let second = node_of(node, "MatMulIntegerToFloat", inputs, node.outputs.clone(), []);
    of.translate_composed(&[first, Node { domain: node.domain.clone(), ..second }])
}

/// `QAttention(x, weights, bias, scale, scale, mask, zero, zero, past)`
pub(crate) fn attention(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let product = scaled(of, node, [(0, 3, 6), (1, 4, 7)])?;
    let bias = operand(of, node, 2)?.0;
    let bias = of.values.tensor(bias)?.0;
    of_product(of, node, &format!("{product} + {bias}"), [5, 8, 9])
}

/// `QGemm(a, scale, zero, b, scale, zero, c, scale of the result, zero of the result)`
pub(crate) fn gemm(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let is_turned = |name: &str| node.int(name, 0) != 0;
    // A zero point for each column lies beside columns, before they become rows.
    let x = centred(of, node, (0, 2), DType::I32, |n| vec![n, Number::Int(1)])?;
    let behind = is_turned("transB");
    let w = centred(of, node, (3, 5), DType::I32, |n| match behind {
        true => vec![n, Number::Int(1)],
        false => vec![n],
    })?;
    let x = if is_turned("transA") { format!("transpose({x})") } else { x };
    let w = if behind { format!("transpose({w})") } else { w };
    let c = match node.input(6) {
        Some(c) => format!(" + {}", of.values.tensor(c)?.0),
        None => String::new(),
    };
    let (s, t) = (scale(of, node, 1)?, scale(of, node, 4)?);
    let alpha = node.float("alpha", 1.0);
    let sums = format!("cast({x} @ {w}{c}, dtype=f32)");
    if node.input(7).is_none() {
        let y = format!("{sums} * ({s} * {t} * {alpha:?})");
        return of.values.define(&node.outputs[0], expression(&y)).map(drop);
    }
    let result = scale(of, node, 7)?;
    let element = element_of(of, node, 8)?;
    let zero = node.input(8).map(|_| beside(of, node, (8, DType::F32), &[])).transpose()?;
    let quotient = format!("{sums} * ({s} * {t} * {alpha:?} / {result})");
    of.values.define(&node.outputs[0], rounded(&quotient, zero, element, true)).map(drop)
}

/// `QLinearConcat(scale, zero, x, scale, zero, …)`: all parts get the scale of the result.
pub(crate) fn concat(of: &mut Translation, node: &Node) -> Result<(), Diagnostic> {
    let parts = node.inputs.get(2..).unwrap_or_default();
    let axis = node.attributes.get("axis").cloned().ok_or_else(|| unfit(node))?;
    if parts.is_empty() || parts.len() % 3 != 0 {
        return Err(unfit(node));
    }
    let (mut nodes, mut floats) = (vec![], vec![]);
    for (at, part) in parts.chunks(3).enumerate() {
        let name = format!("{}/part{at}", node.outputs[0]);
        nodes.push(node_of(node, "DequantizeLinear", part.to_vec(), vec![name.clone()], []));
        floats.push(name);
    }
    let all = format!("{}/all", node.outputs[0]);
    nodes.push(node_of(node, "Concat", floats, vec![all.clone()], [("axis", axis)]));
    let inputs = [&[all], &node.inputs[..2]].concat();
    let element = node.input(2).and_then(|name| of.values.type_of(name)).map(|ty| ty.dtype);
    let number = if element == Some(DType::I8) { 3 } else { 2 };
    let attributes = [("output_dtype", Attribute::Int(number))];
    nodes.push(node_of(node, "QuantizeLinear", inputs, node.outputs.clone(), attributes));
    of.translate_composed(&nodes)
}
