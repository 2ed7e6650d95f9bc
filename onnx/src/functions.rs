//! Functions that a model defines: a call is replaced by the nodes of the function.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use bytes::Bytes;
use engine_core::diag::Diagnostic;
use prost::Message;

use crate::fault::{broken, malformed};
use crate::node::{Attribute, Node, attributes};
use crate::proto::{FunctionProto, OperatorSetIdProto};

/// The functions of a model, by domain and name.
pub(crate) type Functions = HashMap<(String, String), Function>;

/// A function of a model.
pub(crate) struct Function {
    inputs: Vec<String>,
    outputs: Vec<String>,
    nodes: Vec<Node>,
    /// Attributes with a default.
    defaults: BTreeMap<String, Attribute>,
    /// The opsets of its nodes.
    pub(crate) opsets: Vec<OperatorSetIdProto>,
}

/// Reads the functions of a model.
///
/// # Errors
/// If one is malformed.
pub(crate) fn read(encoded: &[Bytes], folder: Option<&Path>) -> Result<Functions, Diagnostic> {
    let mut functions = Functions::new();
    for bytes in encoded {
        let proto = FunctionProto::decode(bytes.clone()).map_err(|error| malformed("a function", &error))?;
        let nodes = proto.node.iter().map(|bytes| Node::read(bytes, folder));
        let function = Function {
            inputs: proto.input,
            outputs: proto.output,
            nodes: nodes.collect::<Result<_, _>>()?,
            defaults: attributes(proto.attribute_proto, folder)?,
            opsets: proto.opset_import,
        };
        functions.insert((proto.domain, proto.name), function);
    }
    Ok(functions)
}

impl Function {
    /// The number of its nodes.
    pub(crate) fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes of a call, under names of their own.
    ///
    /// # Errors
    /// If the call has too many operands or results, or a node has a graph of its own.
    pub(crate) fn body(&self, call: &Node) -> Result<Vec<Node>, Diagnostic> {
        if call.inputs.len() > self.inputs.len() || call.outputs.len() > self.outputs.len() {
            let message = format!("{} has more operands or results than its function", call.describe());
            return Err(broken(message, "export the model again"));
        }
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.map(|(at, name)| (name.as_str(), call.inputs.get(at).map_or("", String::as_str)));
        let given = self.outputs.iter().zip(&call.outputs).filter(|(_, given)| !given.is_empty());
        let names: HashMap<&str, &str> =
            inputs.chain(given.map(|(own, given)| (own.as_str(), given.as_str()))).collect();
        let stem = call.outputs.iter().find(|name| !name.is_empty()).map_or("", String::as_str);
        let renamed = |name: &String| match names.get(name.as_str()) {
            Some(known) => (*known).to_owned(),
            None if name.is_empty() => String::new(),
            None => format!("{stem}/{name}"),
        };
        let node = |node: &Node| {
            Ok(Node {
                inputs: node.inputs.iter().map(renamed).collect(),
                outputs: node.outputs.iter().map(renamed).collect(),
                attributes: self.settled(node, call)?,
                ..node.clone()
            })
        };
        self.nodes.iter().map(node).collect()
    }

    /// The attributes of a node, with those of the call in place of references.
    fn settled(&self, node: &Node, call: &Node) -> Result<BTreeMap<String, Attribute>, Diagnostic> {
        let mut settled = BTreeMap::new();
        for (name, value) in &node.attributes {
            let value = match value {
                Attribute::Reference(outer) => {
                    call.attributes.get(outer).or_else(|| self.defaults.get(outer))
                }
                Attribute::Graph(_) => return Err(node.fault("has a graph within a function")),
                own => Some(own),
            };
            settled.extend(value.map(|value| (name.clone(), value.clone())));
        }
        Ok(settled)
    }
}
