//! Rewriting a graph node by node.

use crate::ir::{Graph, Node, NodeId, NodeOp, Output, StateLink, Symbol, Type, Value};
use std::collections::HashSet;

/// A graph made of the nodes of another one, in their order.
pub struct Rewrite<'g> {
    pub old: &'g Graph,
    pub new: Graph,
    /// By old node: the new one.
    pub map: Vec<NodeId>,
    /// The names of all values.
    taken: HashSet<Symbol>,
}

impl<'g> Rewrite<'g> {
    /// Without nodes.
    pub fn new(old: &'g Graph) -> Rewrite<'g> {
        let outputs = old.nodes.iter().flat_map(|node| &node.outputs);
        let taken = outputs.map(|output| output.name.clone()).collect();
        Rewrite { old, new: Graph::new(old.name.clone()), map: vec![], taken }
    }

    /// What an old value is now.
    pub fn value(&self, value: Value) -> Value {
        Value { node: self.map[value.node], port: value.port }
    }

    /// An old node.
    pub fn copied(&mut self, id: NodeId) -> NodeId {
        let node = &self.old.nodes[id];
        let inputs = node.inputs.iter().map(|&input| self.value(input)).collect();
        self.new.push(Node { inputs, ..node.clone() })
    }

    /// A node beside an old one, whose name it takes with an ending, and a number if there is such a name.
    pub fn beside(&mut self, id: NodeId, ending: &str, op: NodeOp, inputs: Vec<Value>, ty: Type) -> Value {
        let node = &self.old.nodes[id];
        let first = format!("{}.{ending}", node.name());
        let further = (2..).map(|number| format!("{first}.{number}"));
        let mut names = [first.clone()].into_iter().chain(further).map(Symbol::from);
        let name = names.find(|name| !self.taken.contains(name)).unwrap_or_else(|| first.as_str().into());
        self.taken.insert(name.clone());
        let output = Output { name, ty };
        Value::of(self.new.push(Node { op, inputs, outputs: vec![output], ..node.clone() }))
    }

    /// A new node of one value, under the name of an old node that is not copied.
    pub fn renamed(&mut self, value: Value, id: NodeId) -> NodeId {
        self.new.nodes[value.node].outputs[value.port].name = self.old.nodes[id].name().clone();
        value.node
    }

    /// The new graph, once all nodes are mapped.
    pub fn finish(mut self) -> Graph {
        let moved = |value: &Value| Value { node: self.map[value.node], port: value.port };
        self.new.outputs =
            self.old.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
        let link = |link: &StateLink| StateLink { input: self.map[link.input], next: moved(&link.next) };
        self.new.state = self.old.state.iter().map(link).collect();
        self.new.pruned()
    }
}
