//! `Repeat` stages, and the graphs of their conditions.

use super::{StageIssue, inference};
use crate::diag::Code;
use crate::ir::{DType, Graph, InputKind, Symbol, Type};
use crate::op::Registry;
use crate::pipeline::{Mode, PartDecl, Pipeline, RepeatStage, StageKind};

impl StageKind for RepeatStage {
    fn keyword(&self) -> &'static str {
        "Repeat"
    }

    fn parts(&self) -> &[PartDecl] {
        &self.parts
    }

    fn rehearse(&self, _: &str, pipeline: &Pipeline, _: &Registry) -> Result<(), StageIssue> {
        let conditions = self.parts.iter().filter_map(|part| part.when.as_ref()).chain(&self.until);
        conditions.into_iter().try_for_each(|node| condition(pipeline, node).map(drop))
    }
}

/// The graph of a truth value that decides about a trip, from parameters and states. `step` is the number of the trip.
///
/// # Errors
/// If there is no such node, or it is no truth value or needs rows of data.
pub fn condition(pipeline: &Pipeline, node: &Symbol) -> Result<Graph, StageIssue> {
    let graph = &pipeline.graph;
    let span = graph.find(node).and_then(|value| graph.nodes[value.node].span);
    let reached = graph.reached(graph.find(node));
    let fed = graph.inputs().find(|(id, kind)| reached[*id] && *kind == InputKind::Data);
    if let Some((input, _)) = fed {
        let name = graph.nodes[input].name();
        let message = format!("the condition `{node}` needs `{name}`, which has rows within a stage alone");
        let help = "keep the value that it needs in a state, which a stage updates";
        return Err(StageIssue { code: Code::E0203, ..StageIssue::new(message, span).help(help) });
    }
    let graph = inference(pipeline, &[(node.clone(), node.clone())], &[], (Mode::Eval, pipeline.precision))?;
    let ty = graph.ty(graph.outputs[0].1);
    if *ty != Type::scalar(DType::Bool) {
        let message = format!("a condition is one truth value, `{node}` is {ty}");
        let issue = StageIssue::new(message, span).help("compare it with a bound: `error < 0.1`");
        return Err(StageIssue { code: Code::E0205, ..issue });
    }
    Ok(graph)
}
