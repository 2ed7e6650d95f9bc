//! Places: the axes of each value along which its rows follow the tokens.

use super::need::{Part, operands};
use super::place::Place;
use crate::ir::{Graph, NodeId, NodeOp, Value};

/// The places of all values that depend on the tokens.
pub struct Places {
    by_node: Vec<Option<Vec<Place>>>,
}

impl Places {
    /// Whether a value depends on the tokens.
    pub fn is_dependent(&self, node: NodeId) -> bool {
        self.by_node[node].is_some()
    }

    /// The places of a value: none if it does not depend on the tokens, or not token by token.
    pub fn of(&self, value: Value) -> &[Place] {
        self.by_node[value.node].as_deref().filter(|_| value.port == 0).unwrap_or_default()
    }
}

/// Finds the places of all values. A place of a result is one whose rows need rows of a dependent operand at a place of
/// that operand. Rows that need all of an operand, or rows of one without a place, are rows of a causal graph: it hides
/// later tokens.
pub fn places(graph: &Graph, tokens: Value, n: usize) -> Places {
    let mut places = Places { by_node: vec![] };
    for (id, node) in graph.nodes.iter().enumerate() {
        let found = if id == tokens.node {
            Some(vec![Place { axis: 1, inner: 1 }])
        } else {
            let depends = node.inputs.iter().any(|input| places.is_dependent(input.node));
            depends.then(|| places_of(graph, &places, id, n))
        };
        places.by_node.push(found);
    }
    places
}

fn places_of(graph: &Graph, known: &Places, id: NodeId, n: usize) -> Vec<Place> {
    let node = graph.node(id);
    if matches!(node.op, NodeOp::Call(_) | NodeOp::Cond | NodeOp::Loop { .. }) {
        return vec![];
    }
    let fits = |place: &Place| {
        let Some(parts) = operands(graph, id, *place, n) else { return false };
        let mut follows = false;
        for (input, part) in node.inputs.iter().zip(parts) {
            match part {
                Part::Rows(_) if known.of(*input).is_empty() => {}
                Part::Rows(place) if !known.of(*input).contains(&place) => return false,
                Part::Rows(_) => follows = true,
                Part::All => {}
            }
        }
        follows
    };
    candidates(&graph.ty(Value::of(id)).extents(), n).filter(fits).collect()
}

/// All places that n tokens can have in that shape.
fn candidates(extents: &[usize], n: usize) -> impl Iterator<Item = Place> {
    let of_axis = move |(axis, &extent): (usize, &usize)| {
        let most = if extent.is_multiple_of(n) { extent / n } else { 0 };
        let divisors = (1..=most.isqrt()).filter(move |inner| most.is_multiple_of(*inner));
        let pairs = divisors.flat_map(move |inner| [inner, most / inner]);
        let mut inner: Vec<usize> = pairs.collect();
        inner.sort_unstable();
        inner.dedup();
        inner.into_iter().map(move |inner| Place { axis, inner })
    };
    extents.iter().enumerate().flat_map(of_axis).collect::<Vec<_>>().into_iter()
}
