//! Values that a stage keeps beside those of the pipeline.

use crate::diag::Code;
use crate::ir::{Builder, Graph, InputKind, Type, Value};
use crate::pipeline::StageIssue;

/// An input that the stage needs under just this name, since the session knows it by that.
pub(super) fn own_input(
    builder: &mut Builder,
    name: &str,
    kind: InputKind,
    ty: Type,
) -> Result<Value, StageIssue> {
    expect_free(&builder.graph, name)?;
    Ok(builder.input(name, kind, ty))
}

pub(super) fn expect_free(graph: &Graph, name: &str) -> Result<(), StageIssue> {
    let Some(taken) = graph.find(name) else { return Ok(()) };
    let message = format!("the stage keeps a value of its own under the name `{name}`");
    let issue = StageIssue::new(message, graph.nodes[taken.node].span);
    Err(StageIssue { code: Code::E0302, ..issue.help("give the node another name") })
}
