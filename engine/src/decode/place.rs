//! Places: the axis of each value along which its rows follow the tokens.

use super::need::{Part, operands};
use crate::ir::{Graph, NodeId, NodeOp, Value};

/// The part of an axis that counts the tokens: the axis has the extent `outer · n · inner`, for n tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The axis.
    pub axis: usize,
    /// Elements of the axis by token.
    pub inner: usize,
}

impl Place {
    /// The place in `to` of the same elements, row-major, whose place in `from` this is. None if the tokens are divided
    /// among axes.
    pub fn reshaped(self, from: &[usize], to: &[usize], n: usize) -> Option<Place> {
        let outer = from[..self.axis].iter().product::<usize>() * self.outer(from, n)?;
        let inner = from[self.axis + 1..].iter().product::<usize>() * self.inner;
        (0..to.len()).find_map(|axis| {
            let before: usize = to[..axis].iter().product();
            let after: usize = to[axis + 1..].iter().product();
            let exact =
                |whole: usize, part: usize| (part > 0 && whole.is_multiple_of(part)).then(|| whole / part);
            let place = Place { axis, inner: exact(inner, after)? };
            (place.outer(to, n)? == exact(outer, before)?).then_some(place)
        })
    }

    /// How often the axis runs through the tokens.
    pub fn outer(self, extents: &[usize], n: usize) -> Option<usize> {
        let extent = *extents.get(self.axis)?;
        let once = n * self.inner;
        (once > 0 && extent > 0 && extent.is_multiple_of(once)).then(|| extent / once)
    }

    /// The extents with `n_new` of n tokens.
    pub fn shortened(self, extents: &[usize], n: usize, n_new: usize) -> Vec<usize> {
        let mut extents = extents.to_vec();
        extents[self.axis] = extents[self.axis] / n * n_new;
        extents
    }

    /// The extents with the tokens as an axis of their own, which is the next one after `axis`.
    pub fn split(self, extents: &[usize], n: usize) -> Vec<usize> {
        let outer = extents[self.axis] / (n * self.inner);
        [&extents[..self.axis], &[outer, n, self.inner], &extents[self.axis + 1..]].concat()
    }
}

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
        let found = if super::is_tokens(graph, Value::of(id), tokens) {
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
