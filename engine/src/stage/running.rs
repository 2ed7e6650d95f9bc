//! `Run` stages as graphs.

use super::declared::expect_state;
use super::own::own_input;
use super::{StageIssue, Wanted, expect_distinct, optimize, select};
use crate::diag::Code;
use crate::ir::{Binary, Builder, DType, Graph, InputKind, Level, Scalar, StateLink, Symbol, Type, Value};
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

/// The state that says whether a `Run` stage has ended: not 0 once the node of its `until` held.
pub const ENDED: &str = "ended";

/// One step of a `Run` stage from the pipeline's plain inputs. With `until`, a step after the one in which the node held
/// changes no state.
///
/// # Errors
/// As for [`super::inference()`], if there is no gradient that the stage asks for, and if `until` is no truth value.
pub fn running(pipeline: &Pipeline, stage: &RunStage, registry: &Registry) -> Result<Graph, StageIssue> {
    let shown: Vec<_> = stage.outputs.iter().chain(&stage.gradients).cloned().collect();
    expect_distinct(&Wanted {
        outputs: &shown,
        state: &stage.state,
        mode: stage.mode,
        precision: stage.precision,
    })?;
    // Until the graph is bound, outputs hold the condition, the loss and the nodes by which it is differentiated. No node
    // has a space in its name.
    let loss = stage.loss.as_ref().filter(|_| !stage.gradients.is_empty());
    let by = stage.gradients.iter().map(|(_, node)| node).filter(|_| loss.is_some());
    let held = stage.until.iter().chain(loss).chain(by).enumerate();
    let held = held.map(|(place, node)| (format!(" {place}").into(), node.clone()));
    let outputs: Vec<(Symbol, Symbol)> = stage.outputs.iter().cloned().chain(held).collect();
    let wanted =
        Wanted { outputs: &outputs, state: &stage.state, mode: stage.mode, precision: stage.precision };
    let mut graph = select(pipeline, &wanted, &stage.dims)?;
    let mut held = graph.outputs.split_off(stage.outputs.len()).into_iter().map(|(_, value)| value);
    if let Some(until) = &stage.until {
        let condition = held.next().unwrap_or_else(|| crate::bug!("the condition is an output"));
        graph = ended(graph, until, condition, registry)?;
    }
    let Some(loss) = held.next() else { return Ok(graph.pruned()) };
    // An output has the declared type of its node, the node may be computed in another.
    let by = stage.gradients.iter().filter_map(|(_, node)| graph.find(node));
    let by: Vec<Value> = by.collect();
    let names = stage.gradients.iter().map(|(name, _)| name.clone()).collect();
    let graph = optimize::differentiated(&graph, loss, (names, &by), registry)?;
    Ok(sound("gradient", Level::Bound, graph.pruned()))
}

/// The graph with a state that remembers whether the condition held, and that keeps all other states from then on.
fn ended(graph: Graph, until: &Symbol, condition: Value, registry: &Registry) -> Result<Graph, StageIssue> {
    let (ty, span) = (graph.ty(condition).clone(), graph.nodes[condition.node].span);
    if ty != Type::scalar(DType::Bool) {
        let message = format!("`until` is one truth value, `{until}` is {ty}");
        let issue = StageIssue::new(message, span).help("compare it with a bound: `moved < 1e-5`");
        return Err(StageIssue { code: Code::E0205, ..issue });
    }
    let mut builder = Builder::new(graph, registry);
    let state = own_input(&mut builder, ENDED, InputKind::State, Type::scalar(DType::I32))?;
    builder.set_scope(ENDED, None);
    let zero = builder.constant(0.0, DType::I32);
    let is_over = builder.binary(Binary::Ne, state, zero);
    for at in 0..builder.graph.state.len() {
        let StateLink { input, next } = builder.graph.state[at];
        let kept = builder.scalar(Scalar::Select, &[is_over, Value::of(input), next]);
        builder.graph.state[at].next = kept;
    }
    let ends = builder.binary(Binary::Or, is_over, condition);
    let next = builder.cast(ends, DType::I32);
    builder.graph.state.push(StateLink { input: state.node, next });
    Ok(sound("until", Level::Bound, builder.graph))
}
