//! Passes: a pass maps a graph to a graph, and the verifier checks the result.
//!
//! A pass that yields an unsound graph, or one with other inputs, outputs or states, has a bug. So has the plugin whose
//! lowering it ran. The pass is named at once, before a later pass fails on its result.

use crate::ir::{Graph, InputKind, Level, Problem, Symbol, Type, Value, verify};
use std::collections::HashMap;
use std::fmt;

/// A faulty pass and the invariants that its result violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The pass.
    pub pass: &'static str,
    /// The violated invariants; not empty.
    pub problems: Vec<Problem>,
}

/// Prints the first problem and the number of further ones.
impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pass `{}` has left a broken graph: {}", self.pass, self.problems[0])?;
        match self.problems.len() {
            1 => Ok(()),
            n => write!(f, " (and {} more)", n - 1),
        }
    }
}

/// Runs a pass that keeps inputs, outputs and states.
///
/// # Errors
/// If the result is unsound at `level`, or has another interface than `graph`. Unneeded inputs may vanish, and the step
/// may be added.
pub fn checked(
    pass: &'static str,
    level: Level,
    graph: &Graph,
    run: impl FnOnce(&Graph) -> Graph,
) -> Result<Graph, Broken> {
    let after = run(graph);
    let mut problems = verify(&after, level).err().unwrap_or_default();
    if problems.is_empty() {
        let message = interface_change(graph, &after);
        problems.extend(message.map(|message| Problem { graph: after.name.clone(), line: None, message }));
    }
    if problems.is_empty() { Ok(after) } else { Err(Broken { pass, problems }) }
}

/// The graph, if it is sound. This is for passes that change inputs, outputs or states on purpose.
///
/// # Panics
/// If the graph is unsound at `level`: `pass` has a bug.
pub fn sound(pass: &'static str, level: Level, graph: Graph) -> Graph {
    match verify(&graph, level) {
        Ok(()) => graph,
        Err(problems) => crate::bug!("{}", Broken { pass, problems }),
    }
}

fn interface_change(before: &Graph, after: &Graph) -> Option<String> {
    let known: HashMap<&Symbol, (InputKind, &Type)> = inputs(before).collect();
    for (name, (kind, ty)) in inputs(after).filter(|(_, (kind, _))| *kind != InputKind::Step) {
        match known.get(name) {
            None => return Some(format!("{} `{name}` is new", kind.name())),
            Some(&(old, old_ty)) if (old, old_ty) != (kind, ty) => {
                let (old, kind) = (old.name(), kind.name());
                return Some(format!("`{name}` was {old} of {old_ty} and is {kind} of {ty}"));
            }
            Some(_) => {}
        }
    }
    let change = |what: &str, before: Vec<(&Symbol, &Type)>, after: Vec<(&Symbol, &Type)>| {
        let at = (0..before.len().max(after.len())).find(|&i| before.get(i) != after.get(i))?;
        let text = |list: &[(&Symbol, &Type)]| {
            list.get(at).map_or("nothing".into(), |(name, ty)| format!("`{name}: {ty}`"))
        };
        Some(format!("{what} {at} was {} and is {}", text(&before), text(&after)))
    };
    change("output", outputs(before), outputs(after))
        .or_else(|| change("state", states(before), states(after)))
}

fn inputs(graph: &Graph) -> impl Iterator<Item = (&Symbol, (InputKind, &Type))> {
    graph.inputs().map(|(id, kind)| (graph.node(id).name(), (kind, graph.ty(Value::of(id)))))
}

fn outputs(graph: &Graph) -> Vec<(&Symbol, &Type)> {
    graph.outputs.iter().map(|(name, value)| (name, graph.ty(*value))).collect()
}

fn states(graph: &Graph) -> Vec<(&Symbol, &Type)> {
    graph.state.iter().map(|link| (graph.node(link.input).name(), graph.ty(link.next))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::ir::{DType, NodeOp, parse};
    use crate::op::Registry;

    const GRAPH: &str = "
        graph g {
          input x: f32[2]
          input unused: f32[3]
          param w: f32[2]
          y: f32[2] = .add(x, w)
          state w = y
          output y = y
        }";

    /// The error for a pass that damages the graph in this way.
    fn fault(damage: fn(&mut Graph)) -> String {
        let graph = parse(GRAPH, &Registry::new()).unwrap();
        let broken = checked("damage", Level::Primitive, &graph, |graph| {
            let mut graph = graph.clone();
            damage(&mut graph);
            graph
        });
        broken.unwrap_err().to_string()
    }

    #[test]
    fn a_sound_pass_hands_its_graph_on() {
        let graph = parse(GRAPH, &Registry::new()).unwrap();
        assert_eq!(checked("prune", Level::Primitive, &graph, Graph::pruned), Ok(graph.pruned()));
    }

    #[test]
    fn a_pass_that_breaks_its_graph_is_named() {
        assert_eq!(
            fault(|graph| graph.nodes[3].inputs[1] = Value::of(1)),
            "pass `damage` has left a broken graph: in `g`: y: f32[2] = .add(x, unused): \
             operand 1 is f32[3], which is not of the result's shape"
        );
        assert_eq!(
            fault(|graph| graph.nodes.swap(2, 3)).split(": ").next().unwrap(),
            "pass `damage` has left a broken graph"
        );
    }

    #[test]
    fn a_pass_that_changes_the_interface_is_named() {
        let said = |damage| fault(damage).replace("pass `damage` has left a broken graph: in `g`: ", "");
        assert_eq!(said(|g| g.outputs[0].0 = "z".into()), "output 0 was `y: f32[2]` and is `z: f32[2]`");
        assert_eq!(said(|g| g.outputs.clear()), "output 0 was `y: f32[2]` and is nothing");
        assert_eq!(said(|g| g.state.clear()), "state 0 was `w: f32[2]` and is nothing");
        assert_eq!(said(|g| g.nodes[0].outputs[0].name = "v".into()), "input `v` is new");
        assert_eq!(
            said(|g| g.nodes[0].op = NodeOp::Input(InputKind::Param)),
            "`x` was input of f32[2] and is param of f32[2]"
        );
        assert_eq!(
            said(|g| g.nodes[1].outputs[0].ty = Type::scalar(DType::I32)),
            "`unused` was input of f32[3] and is input of i32[]"
        );
    }
}
