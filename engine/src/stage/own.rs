//! Values that a stage keeps beside those of the pipeline.

use crate::diag::Code;
use crate::ir::{Builder, Graph, InputKind, Symbol, Type, Value};
use crate::pipeline::StageIssue;
use std::collections::HashMap;

/// The names of a graph that grows. A graph with thousands of parameters is searched for several names of each.
#[derive(Default)]
pub(super) struct Names {
    values: HashMap<Symbol, Value>,
    n_nodes: usize,
}

impl Names {
    /// The value with that name. Nodes that were renamed since they were first seen keep their name here.
    pub(super) fn find(&mut self, graph: &Graph, name: &str) -> Option<Value> {
        let new = graph.nodes.iter().enumerate().skip(self.n_nodes);
        for (node, port, output) in
            new.flat_map(|(id, node)| node.outputs.iter().enumerate().map(move |(port, it)| (id, port, it)))
        {
            self.values.entry(output.name.clone()).or_insert(Value { node, port });
        }
        self.n_nodes = graph.nodes.len();
        self.values.get(name).copied()
    }

    /// Notes that a value has a further name.
    pub(super) fn add(&mut self, name: Symbol, value: Value) {
        self.values.entry(name).or_insert(value);
    }

    /// An input that the stage needs under just this name, since the session knows it by that.
    pub(super) fn own_input(
        &mut self,
        builder: &mut Builder,
        name: &str,
        kind: InputKind,
        ty: Type,
    ) -> Result<Value, StageIssue> {
        match self.find(&builder.graph, name) {
            Some(taken) => Err(name_is_taken(&builder.graph, name, taken)),
            None => Ok(builder.input(name, kind, ty)),
        }
    }
}

/// As [`Names::own_input`], for one input.
pub(super) fn own_input(
    builder: &mut Builder,
    name: &str,
    kind: InputKind,
    ty: Type,
) -> Result<Value, StageIssue> {
    Names::default().own_input(builder, name, kind, ty)
}

pub(super) fn expect_free(graph: &Graph, name: &str) -> Result<(), StageIssue> {
    graph.find(name).map_or(Ok(()), |taken| Err(name_is_taken(graph, name, taken)))
}

fn name_is_taken(graph: &Graph, name: &str, taken: Value) -> StageIssue {
    let message = format!("the stage keeps a value of its own under the name `{name}`");
    let issue = StageIssue::new(message, graph.nodes[taken.node].span);
    StageIssue { code: Code::E0302, ..issue.help("give the node another name") }
}
