//! What a `Predict` stage asks of the graph: one input that takes rows, and outputs with a value for each of them.

use super::{StageIssue, Wanted, part, select};
use crate::ir::{Dim, Graph, InputKind, NodeOp, Scalar, Symbol, Type, Value, View};
use crate::op::Registry;
use crate::pipeline::{Pipeline, PredictStage, StageKind};

impl StageKind for PredictStage {
    fn keyword(&self) -> &'static str {
        "Predict"
    }

    fn rehearse(&self, _: &str, pipeline: &Pipeline, _: &Registry) -> Result<(), StageIssue> {
        prediction(pipeline, self).map(drop)
    }
}

/// What a `Predict` stage is fed with.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The one input that its outputs depend on.
    pub input: Symbol,
    /// Its type, the leading extent named.
    pub ty: Type,
    /// The name of the leading extent.
    pub rows: Symbol,
}

/// Checks a `Predict` stage, and says which input takes the rows.
///
/// # Errors
/// If its outputs depend on none or several inputs, have no value for every row, or do not fit a batch.
pub fn prediction(pipeline: &Pipeline, stage: &PredictStage) -> Result<Prediction, StageIssue> {
    let wanted = Wanted { outputs: &stage.outputs, state: &[], mode: stage.mode };
    let graph = part(pipeline, &wanted)?;
    let (input, ty) = fed_input(&graph)?;
    let Some(Dim::Named(rows)) = ty.shape.first() else {
        let message = format!("input `{input}: {ty}` cannot take rows");
        let help = "name its first extent, as in `f32[B, 4]`";
        return Err(StageIssue::new(message, span_of(&graph, &input)).help(help));
    };
    for (name, value) in &graph.outputs {
        let found = graph.ty(*value);
        if found.shape.first() != ty.shape.first() {
            let message = format!("output `{name}` is {found} and has no value for every row of `{input}`");
            let help = format!("its first extent must be `{rows}`");
            return Err(StageIssue::new(message, graph.nodes[value.node].span).help(help));
        }
    }
    select(pipeline, &wanted, &[(rows.clone(), stage.batch.max(1))])?;
    let rows = rows.clone();
    Ok(Prediction { input, ty, rows })
}

/// The one plain input of a graph.
fn fed_input(graph: &Graph) -> Result<(Symbol, Type), StageIssue> {
    let inputs = graph.nodes.iter().filter(|node| node.op == NodeOp::Input(InputKind::Data));
    let inputs: Vec<_> = inputs.map(|node| &node.outputs[0]).collect();
    match inputs[..] {
        [input] => Ok((input.name.clone(), input.ty.clone())),
        _ => {
            let names: Vec<String> = inputs.iter().map(|input| format!("`{}`", input.name)).collect();
            let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            let message = format!("the outputs must depend on one input, they depend on {names}");
            let span = inputs.get(1).and_then(|second| span_of(graph, &second.name));
            Err(StageIssue::new(message, span).help("name outputs that follow from the rows of one input"))
        }
    }
}

fn span_of(graph: &Graph, name: &str) -> Option<crate::diag::Span> {
    graph.nodes[graph.find(name)?.node].span
}

/// How many there are to pick from, if a value in primitives is the place of an extreme among the elements of an axis.
pub fn picks_among(graph: &Graph, value: Value) -> Option<usize> {
    let node = graph.node(value.node);
    match &node.op {
        NodeOp::Reduce { monoid, axes } if monoid.is_index() && axes.len() == 1 => {
            graph.ty(node.inputs[0]).shape[axes[0]].fixed()
        }
        NodeOp::View(View::Reshape) | NodeOp::Scalar(Scalar::Cast(_)) => picks_among(graph, node.inputs[0]),
        _ => None,
    }
}
