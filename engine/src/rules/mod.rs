//! Simplification: local rewriting of primitive graphs.
//!
//! The graph is rebuilt node by node. Every node passes one smart constructor, which folds constants, applies rules and
//! merges equal nodes. So a rule sees simplified operands, and its result is simplified in turn. Rules are directional:
//! the right side is never worse, and no rule undoes another.

mod fold;
mod pattern;
mod rewriter;
mod structure;
mod table;

pub use rewriter::Rewriter;
pub use table::{Class, Rewrite, Rule, rules};

use crate::ir::{Graph, NodeOp, StateLink, Type, Value};
use crate::numerics::Numerics;

/// Settings of the simplifier.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The classes of rules that apply.
    pub numerics: Numerics,
    /// Names of rules that are switched off. Rules that later passes rely on stay on.
    pub without: Vec<String>,
    /// The maximum number of rule applications, for bisecting a wrong rule. Rules that later passes rely on do not
    /// count.
    pub fuel: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { numerics: Numerics::Default, without: vec![], fuel: usize::MAX }
    }
}

/// Rewrites a primitive graph until no rule applies.
pub fn simplify(graph: &Graph, settings: &Settings) -> Graph {
    simplify_counting(graph, settings).0
}

/// Rewrites a primitive graph until no rule applies. The second result is the remaining fuel.
pub fn simplify_counting(graph: &Graph, settings: &Settings) -> (Graph, usize) {
    let active: Vec<Rule> = rules().into_iter().filter(|rule| is_active(rule, settings)).collect();
    rewrite(graph, &active, settings.fuel)
}

fn rewrite(graph: &Graph, rules: &[Rule], fuel: usize) -> (Graph, usize) {
    let simplified = |r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type| {
        fold::fold(r, op, inputs, ty).or_else(|| applied(rules, r, op, inputs, ty))
    };
    let mut rewriter = Rewriter::new(graph, &simplified, fuel);
    let mut map: Vec<Vec<Value>> = vec![];
    for node in &graph.nodes {
        let inputs: Vec<Value> = node.inputs.iter().map(|input| map[input.node][input.port]).collect();
        map.push(rewriter.rebuild(node, inputs));
    }
    let moved = |value: &Value| map[value.node][value.port];
    let (mut result, fuel) = (rewriter.graph, rewriter.fuel);
    result.outputs = graph.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
    let link = |l: &StateLink| StateLink { input: map[l.input][0].node, next: moved(&l.next) };
    result.state = graph.state.iter().map(link).collect();
    (result.pruned(), fuel)
}

/// The value by the first rule that applies.
fn applied(rules: &[Rule], r: &mut Rewriter, op: &NodeOp, inputs: &[Value], ty: &Type) -> Option<Value> {
    for rule in rules {
        if (r.fuel > 0 || rule.is_needed)
            && let Some(value) = rule.apply(r, op, inputs, ty)
        {
            r.fuel -= !rule.is_needed as usize;
            return Some(value);
        }
    }
    None
}

fn is_active(rule: &Rule, settings: &Settings) -> bool {
    let is_wanted =
        rule.class.is_allowed(settings.numerics) && !settings.without.iter().any(|name| name == rule.name);
    is_wanted || rule.is_needed
}

#[cfg(test)]
mod tests;
