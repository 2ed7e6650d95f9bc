//! What a pipeline declares must go together. A reader of pipelines says so with places; this holds for pipelines that a
//! program has put together, too.

use super::StageIssue;
use super::parts::expect_parts;
use crate::diag::{Code, nearest};
use crate::ir::{InputKind, NodeOp, Symbol, Value};
use crate::pipeline::{ParamDecl, Pipeline, TrainStage, expect_match};
use std::collections::HashSet;

/// Looks for declarations that do not go together.
///
/// # Errors
/// If a name is declared twice; if parameters and inputs are not those of the graph; if an input or a stage takes data
/// that is not declared; if a training stage has no way, or two ways, to change its parameters; if state gets a value of
/// another type.
pub fn expect_declared(pipeline: &Pipeline) -> Result<(), StageIssue> {
    let data: Vec<&Symbol> = pipeline.data.iter().map(|decl| &decl.name).collect();
    expect_distinct("data sources", data.iter().copied())?;
    expect_distinct("inputs", pipeline.inputs.iter().map(|decl| &decl.name))?;
    expect_distinct("parameters", pipeline.params.iter().map(|decl| &decl.name))?;
    expect_distinct("stages", pipeline.stages.iter().map(|stage| &stage.name))?;
    expect_parts(pipeline)?;
    pipeline.params.iter().try_for_each(|param| expect_input(pipeline, param))?;
    expect_params(pipeline)?;
    expect_untrained(pipeline, &pipeline.updates)?;
    expect_state(pipeline, &pipeline.updates)?;
    for input in &pipeline.inputs {
        if let Some((source, _)) = &input.from {
            expect_data(pipeline, source).map_err(|issue| StageIssue { span: input.span, ..issue })?;
        }
    }
    pipeline.stages.iter().try_for_each(|stage| {
        let checked = stage.kind.expect_declared(&stage.name, pipeline);
        checked.map_err(|issue| StageIssue { span: issue.span.or(stage.span), ..issue })
    })
}

fn issue(code: Code, message: String, help: impl Into<String>) -> StageIssue {
    StageIssue { code, ..StageIssue::new(message, None).help(help) }
}

fn expect_distinct<'n>(what: &str, names: impl Iterator<Item = &'n Symbol>) -> Result<(), StageIssue> {
    let mut known = HashSet::new();
    match names.into_iter().find(|name| !known.insert(*name)) {
        Some(name) => {
            let message = format!("there are two {what} called `{name}`");
            Err(issue(Code::E0302, message, "leave one of them out"))
        }
        None => Ok(()),
    }
}

/// A parameter is an input of the graph, of its kind and type.
fn expect_input(pipeline: &Pipeline, param: &ParamDecl) -> Result<(), StageIssue> {
    let graph = &pipeline.graph;
    let found = graph.find(&param.name);
    let fits = |value: Value| {
        graph.nodes[value.node].op == NodeOp::Input(param.kind) && *graph.ty(value) == param.ty
    };
    if found.is_some_and(fits) {
        return Ok(());
    }
    let message = match found {
        Some(value) => {
            format!("the graph's `{}` is {}, the parameter is {}", param.name, graph.ty(value), param.ty)
        }
        None => format!("the parameter `{}` is no input of the graph", param.name),
    };
    let help = format!("add an input `{}` of kind {:?} to the graph: {}", param.name, param.kind, param.ty);
    Err(StageIssue { span: param.span, ..issue(Code::E0211, message, help) })
}

/// Inputs of the graph that are parameters are declared.
fn expect_params(pipeline: &Pipeline) -> Result<(), StageIssue> {
    let declared: HashSet<&Symbol> = pipeline.params.iter().map(|param| &param.name).collect();
    let graph = &pipeline.graph;
    let kinds = [InputKind::Param, InputKind::State];
    let mut held = graph.inputs().filter(|(_, kind)| kinds.contains(kind)).map(|(id, _)| &graph.nodes[id]);
    match held.find(|node| !declared.contains(node.name())) {
        Some(node) => {
            let message = format!("the parameter `{}` of the graph is not declared", node.name());
            let found = issue(Code::E0211, message, "declare it, with the value that it starts from");
            Err(StageIssue { span: node.span, ..found })
        }
        None => Ok(()),
    }
}

pub(super) fn expect_data(pipeline: &Pipeline, name: &Symbol) -> Result<(), StageIssue> {
    let known = || pipeline.data.iter().map(|decl| &*decl.name);
    if known().any(|known| *known == **name) {
        return Ok(());
    }
    let help = match (nearest(name, known()), known().next()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, Some(_)) => format!("there are {}", known().collect::<Vec<_>>().join(", ")),
        (None, None) => "declare it under `data`".to_owned(),
    };
    Err(issue(Code::E0202, format!("there is no data source `{name}`"), help))
}

/// A training stage has an optimizer or updates of state; batches whose gradients are averaged need the former. All
/// settings of an optimizer go together.
pub(super) fn expect_one_way(name: &str, train: &TrainStage, pipeline: &Pipeline) -> Result<(), StageIssue> {
    let (message, help) = match (&train.optimizer, train.state.is_empty()) {
        (Some(_), _) if train.clip_norm.is_some() && train.clip_value.is_some() => {
            ("clips gradients by value and by norm, which give different steps", "leave one of them out")
        }
        (Some(optimizer), _) => {
            let patterns = optimizer.groups.iter().flat_map(|group| &group.params);
            patterns.into_iter().try_for_each(|pattern| expect_match(pipeline, pattern))?;
            return expect_untrained(pipeline, &train.state);
        }
        (None, false) if train.accumulate <= 1 => return Ok(()),
        (None, false) => ("averages gradients and has no optimizer", "give it an optimizer"),
        (None, true) => ("says nothing about how parameters change", "give it an optimizer"),
    };
    Err(issue(Code::E0206, format!("stage `{name}` {message}"), help))
}

/// States that are updated beside an optimizer are none of its parameters.
fn expect_untrained(pipeline: &Pipeline, links: &[(Symbol, Symbol)]) -> Result<(), StageIssue> {
    let is_param = |name: &Symbol| {
        pipeline.params.iter().any(|param| param.name == *name && param.kind == InputKind::Param)
    };
    match links.iter().find(|(state, _)| is_param(state)) {
        Some((state, _)) => {
            let message = format!("`{state}` is no state, so it cannot be updated beside an optimizer");
            Err(issue(Code::E0206, message, "declare it as a state, or leave the update out"))
        }
        None => Ok(()),
    }
}

/// An updated state is a parameter or another state, and keeps its type.
pub(super) fn expect_state(pipeline: &Pipeline, links: &[(Symbol, Symbol)]) -> Result<(), StageIssue> {
    for (state, node) in links {
        let Some(param) = pipeline.params.iter().find(|param| param.name == *state) else {
            let near = nearest(state, pipeline.params.iter().map(|param| &*param.name));
            let help = near.map_or("name a parameter".to_owned(), |near| format!("did you mean `{near}`?"));
            return Err(issue(Code::E0206, format!("`{state}` is no parameter"), help));
        };
        // A missing node is reported when the stage takes its part of the graph.
        if let Some(next) = pipeline.graph.find(node)
            && *pipeline.graph.ty(next) != param.ty
        {
            let ty = pipeline.graph.ty(next);
            let message = format!("`{state}` is {}, its next value is {ty}", param.ty);
            return Err(issue(Code::E0206, message, "state keeps its type"));
        }
    }
    Ok(())
}
