//! `Run` stages as graphs.

use super::declared::expect_state;
use super::{StageIssue, Wanted, expect_distinct, optimize, select};
use crate::diag::Code;
use crate::ir::{Graph, Level, Symbol, Value};
use crate::op::Registry;
use crate::pass::sound;
use crate::pipeline::{Given, Pipeline, RunStage, StageKind};

impl StageKind for RunStage {
    fn keyword(&self) -> &'static str {
        "Run"
    }

    fn expect_declared(&self, _: &str, pipeline: &Pipeline) -> Result<(), StageIssue> {
        expect_state(pipeline, &self.state)
    }

    fn rehearse(&self, _: &str, pipeline: &Pipeline, registry: &Registry) -> Result<(), StageIssue> {
        let graph = running(pipeline, self, registry)?;
        for (input, given) in &self.inputs {
            // Outputs may not need the input.
            let Some(value) = graph.find(input) else { continue };
            let ty = graph.ty(value);
            if let Given::Elements { shape, .. } = given
                && *shape != ty.extents()
            {
                let message = format!("`{input}` is {ty}, the stage gives it a value of shape {shape:?}");
                let issue = StageIssue::new(message, None).help("give as many elements, or correct `dims`");
                return Err(StageIssue { code: Code::E0506, ..issue });
            }
        }
        Ok(())
    }
}

/// One step of a `Run` stage from the pipeline's plain inputs.
///
/// # Errors
/// As for [`super::inference()`], and if there is no gradient that the stage asks for.
pub fn running(pipeline: &Pipeline, stage: &RunStage, registry: &Registry) -> Result<Graph, StageIssue> {
    let shown: Vec<_> = stage.outputs.iter().chain(&stage.gradients).cloned().collect();
    expect_distinct(&Wanted {
        outputs: &shown,
        state: &stage.state,
        mode: stage.mode,
        precision: stage.precision,
    })?;
    let Some(loss) = stage.loss.as_ref().filter(|_| !stage.gradients.is_empty()) else {
        let wanted = Wanted {
            outputs: &stage.outputs,
            state: &stage.state,
            mode: stage.mode,
            precision: stage.precision,
        };
        return select(pipeline, &wanted, &stage.dims);
    };
    // Until the graph is bound, outputs hold the loss and the nodes by which it is differentiated. No node has a space
    // in its name.
    let by = stage.gradients.iter().map(|(_, node)| node);
    let held = [loss].into_iter().chain(by).enumerate();
    let held = held.map(|(place, node)| (format!(" {place}").into(), node.clone()));
    let outputs: Vec<(Symbol, Symbol)> = stage.outputs.iter().cloned().chain(held).collect();
    let wanted =
        Wanted { outputs: &outputs, state: &stage.state, mode: stage.mode, precision: stage.precision };
    let mut graph = select(pipeline, &wanted, &stage.dims)?;
    let held = graph.outputs.split_off(stage.outputs.len());
    // An output has the declared type of its node, the node may be computed in another.
    let by = stage.gradients.iter().filter_map(|(_, node)| graph.find(node));
    let by: Vec<Value> = by.collect();
    let names = stage.gradients.iter().map(|(name, _)| name.clone()).collect();
    let graph = optimize::differentiated(&graph, held[0].1, (names, &by), registry)?;
    Ok(sound("gradient", Level::Bound, graph.pruned()))
}
