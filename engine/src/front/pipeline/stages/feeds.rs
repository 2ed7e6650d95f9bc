//! Inputs that a stage needs.

use super::reader::StageReader;
use crate::diag::{Code, Span};
use crate::ir::{Attr, Dim, Graph, InputKind, NodeId, NodeOp, Symbol};
use crate::pipeline::SplitRef;
use std::collections::BTreeSet;

/// Rows and extents that a stage provides for the inputs of the graph.
pub struct Feeds<'f> {
    /// The stage.
    pub stage: Span,
    /// The split whose rows feed the inputs; without it, the caller gives them.
    pub split: Option<&'f SplitRef>,
    /// Whether the number of rows in a batch settles leading extents.
    pub in_batches: bool,
    /// Other extents that the stage settles.
    pub dims: &'f [(Symbol, usize)],
}

impl<'f> Feeds<'f> {
    /// The feeds of a stage that takes rows in batches.
    pub fn batches(stage: Span, split: Option<&'f SplitRef>) -> Self {
        Feeds { stage, split, in_batches: true, dims: &[] }
    }
}

/// The names of the extents that a graph leaves open.
pub(super) fn open_extents(graph: &Graph) -> BTreeSet<Symbol> {
    let mut open = BTreeSet::new();
    for node in &graph.nodes {
        let attrs = match &node.op {
            NodeOp::Call(call) => Some(call.attrs.0.values()),
            _ => None,
        };
        let written = attrs.into_iter().flatten().filter_map(|attr| match attr {
            Attr::Shape(shape) => Some(shape),
            _ => None,
        });
        let shapes = node.outputs.iter().map(|output| &output.ty.shape).chain(written);
        open.extend(shapes.flatten().flat_map(Dim::names).cloned());
        open.extend(node.regions.iter().flat_map(open_extents));
    }
    open
}

impl StageReader<'_> {
    /// Checks that the stage feeds all inputs behind these nodes.
    pub fn check_feeds<'n>(&mut self, used: impl Iterator<Item = &'n Symbol>, feeds: &Feeds) {
        let live = self.pipeline.graph.reached(used.filter_map(|name| self.find(name)));
        let mut told = vec![];
        for (id, kind) in self.pipeline.graph.inputs() {
            if live[id] && kind == InputKind::Data && self.check_source(id, feeds) {
                self.check_extents(id, feeds, &mut told);
            }
        }
    }

    /// Whether the input has rows in the split that the stage reads.
    fn check_source(&mut self, input: NodeId, feeds: &Feeds) -> bool {
        let Some(split) = feeds.split else {
            return true;
        };
        let node = self.pipeline.graph.node(input);
        let name = node.name();
        let decl = self.pipeline.inputs.iter().find(|decl| decl.name == *name);
        let from = decl.and_then(|decl| decl.from.as_ref());
        if from.is_some_and(|(data, _)| *data == split.data) {
            return true;
        }
        let from = from.map_or("the caller".to_owned(), |(data, field)| format!("`{data}.{field}`"));
        let message =
            format!("`{name}` comes from {from}, but this stage reads `{}.{}`", split.data, split.split);
        let error = self.diags.error(Code::E0203, feeds.stage, message);
        error.help(format!("declare the input with `from: \"{}.…\"`", split.data));
        if let Some(span) = node.span {
            error.also(span, "declared here");
        }
        false
    }

    /// Whether the stage settles all extents of the input; each open one is reported once.
    fn check_extents(&mut self, input: NodeId, feeds: &Feeds, told: &mut Vec<Symbol>) {
        let node = self.pipeline.graph.node(input);
        let ty = &node.outputs[0].ty;
        let rows = ty.shape.first().filter(|_| feeds.in_batches);
        for dim in &ty.shape {
            let Dim::Named(extent) = dim else {
                continue;
            };
            let settled = rows == Some(dim) || feeds.dims.iter().any(|(known, _)| known == extent);
            if settled || told.contains(extent) {
                continue;
            }
            told.push(extent.clone());
            let message = format!("this stage does not say how large `{extent}` is");
            let error = self.diags.error(Code::E0112, feeds.stage, message);
            error.help(match feeds.in_batches {
                true => format!(
                    "batches settle leading extents only: add `dims: {{\"{extent}\": …}}` to the pipeline"
                ),
                false => format!("add `dims: {{\"{extent}\": …}}`"),
            });
            if let Some(span) = node.span {
                error.also(span, format!("`{}` is {ty}", node.name()));
            }
        }
    }
}
