//! Nodes of opset 6 in the form of opset 7.

use engine_core::diag::Diagnostic;

use crate::fault::broken;
use crate::known::Number;
use crate::literal::list;
use crate::node::{Attribute, Node};
use crate::operands::{axis, operand};
use crate::translate::Translation;

/// Attributes that only tell of training, or of storage.
const GONE: [&str; 3] = ["is_test", "consumed_inputs", "broadcast"];

/// The node as opset 7 writes it. A second operand that is broadcast along an axis gets its further axes.
pub(crate) fn modern(of: &mut Translation, node: &Node) -> Result<Node, Diagnostic> {
    let mut node = node.clone();
    let broadcasts = node.int("broadcast", 0) != 0;
    let slope = node.op == "PRelu";
    if (broadcasts && matches!(node.attributes.get("axis"), Some(Attribute::Int(_)))) || slope {
        let ((_, x), (name, own)) = (operand(of, &node, 0)?, operand(of, &node, 1)?);
        // The slopes of `PRelu` are those of channels.
        let first = if slope { 1.min(x.len()) } else { axis(&node, node.int("axis", 0), x.len())? };
        let behind = x.len().checked_sub(first + own.len()).filter(|_| own.len() == 1 || !slope);
        let behind = match (behind, slope) {
            (Some(n), _) => n,
            (None, true) => 0,
            (None, false) => {
                let message = format!("{} has an operand that does not fit its axis", node.describe());
                return Err(broken(message, "export the model again"));
            }
        };
        if behind > 0 && own.iter().any(|n| *n != Number::Int(1)) {
            let shape = [&own[..], &vec![Number::Int(1); behind]].concat();
            let narrow = of.values.element(name).and_then(|(_, narrow)| narrow);
            let x = of.values.tensor(name)?.0;
            let label = format!("{}/{name}", node.outputs.first().map_or("", String::as_str));
            let item = of.values.derive(&label, &format!("reshape({x}, shape={})", list(&shape)), narrow)?;
            of.values.put(&label, item);
            node.inputs[1] = label;
        }
        if !slope {
            node.attributes.remove("axis");
        }
    }
    GONE.iter().for_each(|name| _ = node.attributes.remove(*name));
    Ok(node)
}
