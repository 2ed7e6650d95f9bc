//! What a `Predict` stage asks of the graph: inputs that take rows, and outputs with a value for each of them.

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
    /// The inputs that its outputs depend on, in the order of the graph. The leading extent of each type is `rows`.
    pub inputs: Vec<(Symbol, Type)>,
    /// The name of the leading extent.
    pub rows: Symbol,
}

/// Checks a `Predict` stage, and says which inputs take the rows.
///
/// # Errors
/// If its outputs depend on no input or on one that takes no rows, have no value for every row, or do not fit a batch.
pub fn prediction(pipeline: &Pipeline, stage: &PredictStage) -> Result<Prediction, StageIssue> {
    let wanted = Wanted { outputs: &stage.outputs, state: &[], mode: stage.mode, precision: stage.precision };
    let graph = part(pipeline, &wanted)?;
    let fed = fed_inputs(&graph)?;
    for (name, value) in &graph.outputs {
        let found = graph.ty(*value);
        if found.shape.first() != Some(&Dim::Named(fed.rows.clone())) {
            let (input, rows) = (&fed.inputs[0].0, &fed.rows);
            let message = format!("output `{name}` is {found} and has no value for every row of `{input}`");
            let help = format!("its first extent must be `{rows}`");
            return Err(StageIssue::new(message, graph.nodes[value.node].span).help(help));
        }
    }
    select(pipeline, &wanted, &[(fed.rows.clone(), stage.batch.max(1))])?;
    Ok(fed)
}

/// The plain inputs of a graph, which have a leading extent in common.
fn fed_inputs(graph: &Graph) -> Result<Prediction, StageIssue> {
    let inputs = graph.nodes.iter().filter(|node| node.op == NodeOp::Input(InputKind::Data));
    let inputs: Vec<(Symbol, Type)> =
        inputs.map(|node| (node.name().clone(), node.outputs[0].ty.clone())).collect();
    let mut extents: Vec<&Symbol> = vec![];
    for (input, ty) in &inputs {
        let Some(Dim::Named(rows)) = ty.shape.first() else {
            let message = format!("input `{input}: {ty}` cannot take rows");
            let help = "name its first extent, as in `f32[B, 4]`";
            return Err(StageIssue::new(message, span_of(graph, input)).help(help));
        };
        extents.push(rows);
    }
    let Some(&rows) = extents.first() else {
        let message = "the outputs depend on no input, so they have no value for every row";
        return Err(StageIssue::new(message, None).help("name outputs that follow from the rows of inputs"));
    };
    if let Some(other) = extents.iter().position(|extent| *extent != rows) {
        let (first, (second, _)) = (&inputs[0].0, &inputs[other]);
        let message = format!("inputs `{first}` and `{second}` take rows by different extents");
        let help = format!("write `{rows}` in place of `{}`, if both have equally many rows", extents[other]);
        return Err(StageIssue::new(message, span_of(graph, second)).help(help));
    }
    let rows = rows.clone();
    Ok(Prediction { inputs, rows })
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
