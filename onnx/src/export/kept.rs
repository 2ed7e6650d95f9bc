//! Calls that ONNX has an op for, and that would be slow as primitives: convolution and pooling.
//!
//! Such a call is cut out of the graph before it is lowered: its operands become outputs, and its result an input.

use std::collections::HashMap;

use engine_core::ir::{Attr, Attrs, Call, Graph, InputKind, Node, NodeOp, Symbol, Value};

use super::writer::{Writer, int, ints};
use crate::proto::AttributeProto;

/// Items and channels.
const LEAD: usize = 2;

/// Writes the attributes of a call, given the sizes of its windows.
type Settings = fn(&Attrs, &[i64]) -> Vec<AttributeProto>;

/// Ops of the engine, their counterparts, and the settings of these.
const KEPT: [(&str, &str, Settings); 4] = [
    ("conv", "Conv", |attrs, sizes| {
        [windows(attrs, sizes.len()), vec![int("group", attrs.int("groups"))]].concat()
    }),
    ("conv_transpose", "ConvTranspose", |attrs, sizes| {
        let extra = ints("output_padding", per_axis(&attrs.ints("extra"), sizes.len()));
        [windows(attrs, sizes.len()), vec![int("group", attrs.int("groups")), extra]].concat()
    }),
    ("max_pool", "MaxPool", pooling),
    ("avg_pool", "AveragePool", |attrs, sizes| {
        let counts = int("count_include_pad", i64::from(attrs.bool("count_padding")));
        [pooling(attrs, sizes), vec![counts]].concat()
    }),
];

/// A call that was cut out.
pub(super) struct Kept {
    op: &'static str,
    attributes: Vec<AttributeProto>,
    /// The names of its operands among the outputs.
    operands: Vec<Symbol>,
}

/// A number for each axis.
fn per_axis(given: &[i64], n: usize) -> Vec<i64> {
    if given.len() == 1 { vec![given[0]; n] } else { given.to_vec() }
}

/// The numbers before all axes, then those behind.
fn pads(given: &[i64], n: usize) -> Vec<i64> {
    let given = per_axis(given, n);
    if given.len() == n { given.repeat(2) } else { given }
}

fn windows(attrs: &Attrs, n: usize) -> Vec<AttributeProto> {
    vec![
        ints("strides", per_axis(&attrs.ints("stride"), n)),
        ints("pads", pads(&attrs.ints("padding"), n)),
        ints("dilations", per_axis(&attrs.ints("dilation"), n)),
    ]
}

fn pooling(attrs: &Attrs, sizes: &[i64]) -> Vec<AttributeProto> {
    let stride = match attrs.get("stride") {
        Attr::None => attrs.clone().with("stride", Attr::Ints(sizes.to_vec())),
        _ => attrs.clone(),
    };
    [vec![ints("kernel_shape", sizes.to_vec())], windows(&stride, sizes.len())].concat()
}

/// The graph without such calls, and the calls by the names of their results.
pub(super) fn cut(graph: &Graph) -> (Graph, HashMap<Symbol, Kept>) {
    let mut cut = graph.clone();
    let mut calls = HashMap::new();
    for (id, node) in graph.nodes.iter().enumerate() {
        let NodeOp::Call(Call { op, attrs }) = &node.op else { continue };
        let Some((_, op, settings)) = KEPT.iter().find(|(name, ..)| *name == op.name()) else { continue };
        let n = graph.ty(node.inputs[0]).rank() - LEAD;
        let sizes = match node.inputs.get(1) {
            Some(weights) => graph.ty(*weights).extents()[LEAD..].iter().map(|&n| n as i64).collect(),
            None => per_axis(&attrs.ints("size"), n),
        };
        let labels = (0..node.inputs.len()).map(|at| Symbol::from(format!("{}:{at}", node.name())));
        let operands: Vec<Symbol> = labels.collect();
        cut.outputs.extend(operands.iter().cloned().zip(node.inputs.iter().copied()));
        cut.nodes[id] = Node { op: NodeOp::Input(InputKind::Data), inputs: vec![], ..node.clone() };
        calls.insert(node.name().clone(), Kept { op, attributes: settings(attrs, &sizes), operands });
    }
    (cut, calls)
}

impl Kept {
    /// The operands in the graph without the call.
    pub(super) fn operands(&self, graph: &Graph) -> Vec<Value> {
        let of = |wanted: &Symbol| {
            graph.outputs.iter().find(|(label, _)| label == wanted).map(|(_, value)| *value)
        };
        self.operands.iter().filter_map(of).collect()
    }

    /// Writes the call.
    pub(super) fn write(&self, writer: &mut Writer, value: Value) {
        let operands = self.operands(writer.graph);
        let names: Vec<String> = operands.into_iter().map(|operand| writer.whole(operand)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        writer.give(self.op, &names, self.attributes.clone(), value);
    }
}
