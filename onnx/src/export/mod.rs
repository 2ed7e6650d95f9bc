//! A graph as an ONNX model: each primitive becomes one op of ONNX or a few.

mod kept;
mod scalar;
mod tensor;
mod writer;

use engine_core::diag::Diagnostic;
use engine_core::ir::{Call, Graph, InputKind, Node, NodeOp, Value};
use engine_core::lower::primitives;
use engine_core::op::Registry;
use engine_core::rules::{Settings, simplify};

use crate::fault::unsupported;
use crate::known::{Known, Number};
use crate::tensor::Stored;
use writer::Writer;

/// The first bytes of exported models: the version of the format, and the producer.
pub const EXPORTED_START: &[u8] = b"\x08\x09\x12\x06engine";

/// Writes a bound graph as a model. `weight` gives the values of parameters and state by their names.
///
/// # Errors
/// If a node has no counterpart in ONNX, or the model would have more bytes than protobuf allows.
pub fn export(
    graph: &Graph,
    registry: &Registry,
    weight: &dyn Fn(&str) -> Option<Stored>,
) -> Result<Vec<u8>, Diagnostic> {
    let (cut, calls) = kept::cut(graph);
    let simplified = simplify(&primitives(&cut, registry), &Settings::default());
    let mut writer = Writer::new(&simplified, graph.outputs.len());
    let mut pending: Vec<usize> = (0..simplified.nodes.len()).collect();
    // The operands of a call that was cut out may stand behind its result.
    while !pending.is_empty() {
        let n_pending = pending.len();
        let mut later = vec![];
        for id in pending {
            let node = &simplified.nodes[id];
            let call = calls.get(node.name());
            let operands = call.map_or_else(|| node.inputs.clone(), |call| call.operands(&simplified));
            match (operands.iter().all(|operand| writer.has(*operand)), call) {
                (false, _) => later.push(id),
                (true, Some(call)) => call.write(&mut writer, Value::of(id)),
                (true, None) => written(&mut writer, (id, node), weight)?,
            }
        }
        if later.len() == n_pending {
            engine_core::bug!("the nodes of a graph depend on each other in a circle");
        }
        pending = later;
    }
    writer.finish()
}

fn written(
    writer: &mut Writer,
    (id, node): (usize, &Node),
    weight: &dyn Fn(&str) -> Option<Stored>,
) -> Result<(), Diagnostic> {
    let value = Value::of(id);
    let ty = &node.outputs[0].ty;
    match &node.op {
        NodeOp::Input(InputKind::Data) => writer.input(value),
        NodeOp::Input(InputKind::Step) => known(writer, value, vec![], vec![Number::Int(0)]),
        NodeOp::Input(_) => {
            let stored = weight(node.name()).ok_or_else(|| without(node, "has no value"))?;
            writer.weight(value, stored);
        }
        NodeOp::Const(literal) => known(writer, value, vec![], vec![writer::number(literal)]),
        NodeOp::Scalar(op) => scalar::scalar(writer, (value, node), op)?,
        NodeOp::Iota { axis } => {
            let mut dims = vec![1; ty.rank()];
            dims[*axis] = ty.extents()[*axis];
            let places = Number::vector(0..dims[*axis] as i64);
            known(writer, value, dims, places);
        }
        // ONNX leaves it to the runtime what becomes of a wrong index.
        NodeOp::Check(_) => writer.same(value, node.inputs[0]),
        NodeOp::View(view) => tensor::view(writer, (value, node), view),
        NodeOp::Reduce { monoid, axes } => tensor::reduce(writer, (value, node), *monoid, axes),
        NodeOp::Scan { monoid, axis } => tensor::scan(writer, (value, node), *monoid, *axis)?,
        NodeOp::Gather { axis, batch } => tensor::gather(writer, (value, node), *axis, *batch),
        NodeOp::Scatter { axis, batch, combine } => {
            tensor::scatter(writer, (value, node), (*axis, *batch), *combine);
        }
        NodeOp::Matmul(spec) => tensor::matmul(writer, (value, node), spec),
        NodeOp::Call(Call { op, attrs }) => match op.name() {
            "topk_rows" if !attrs.bool("pad") => {
                tensor::top(writer, (id, node), attrs.int("k"), attrs.bool("largest"));
            }
            "sort_rows" => {
                let n = ty.extents().last().map_or(1, |&n| n as i64);
                tensor::top(writer, (id, node), n, attrs.bool("descending"));
            }
            other => {
                return Err(without(node, &format!("calls `{other}`, which has no counterpart in ONNX")));
            }
        },
        NodeOp::Random { .. } => return Err(without(node, "draws random bits, which ONNX cannot repeat")),
        NodeOp::Loop { .. } => return Err(without(node, "is a loop, which the export does not write")),
        NodeOp::Map(_) | NodeOp::Cond => {
            return Err(without(node, "has no counterpart in ONNX"));
        }
    }
    Ok(())
}

/// Known numbers, which broadcast to the shape of a value.
fn known(writer: &mut Writer, value: Value, dims: Vec<usize>, elements: Vec<Number>) {
    let name = writer.constant(Known { dtype: writer.ty(value).dtype, dims, elements });
    writer.set_narrow(value, name);
}

fn without(node: &Node, fact: &str) -> Diagnostic {
    unsupported(format!("the node `{}` {fact}", node.name()), "export an output that does not depend on it")
}
