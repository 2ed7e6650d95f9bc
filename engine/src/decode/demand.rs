//! Demands: the forms of each node that a step computes.

use super::need::{Part, operands};
use super::place::Place;
use super::places::Places;
use crate::ir::{Graph, NodeId, NodeOp, Value};
use indexmap::IndexSet;

/// A form of a value that the step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Demand {
    /// The rows of the new tokens.
    Rows(Place),
    /// All rows, computed from all rows of the operands.
    Whole,
    /// All rows, from a state with the rows of earlier tokens.
    Cached(Place),
}

/// The forms of each node that the rows of a result need.
pub fn demands(
    graph: &Graph,
    places: &Places,
    (result, place): (Value, Place),
    n: usize,
) -> Vec<IndexSet<Demand>> {
    let mut demands = vec![IndexSet::new(); graph.nodes.len()];
    demands[result.node].insert(Demand::Rows(place));
    for id in (0..=result.node).rev() {
        let node = graph.node(id);
        let is_input = matches!(node.op, NodeOp::Input(_));
        // A form may need another form of the node itself, which is appended to the set.
        let mut done = 0;
        while let Some(&demand) = demands[id].get_index(done) {
            done += 1;
            let parts = match demand {
                Demand::Cached(place) => {
                    demands[id].insert(Demand::Rows(place));
                    continue;
                }
                Demand::Rows(place) if is_input && places.of(Value::of(id)).contains(&place) => continue,
                Demand::Rows(place) => operands(graph, id, place, n),
                Demand::Whole => Some(vec![Part::All; node.inputs.len()]),
            };
            let Some(parts) = parts else {
                demands[id].insert(whole(places, id, is_input));
                continue;
            };
            for (input, part) in node.inputs.iter().zip(parts) {
                demands[input.node].insert(match part {
                    Part::Rows(place) => Demand::Rows(place),
                    Part::All => all(places, *input),
                });
            }
        }
    }
    demands
}

/// All of a node, where its rows are not computed by themselves.
fn whole(places: &Places, id: NodeId, is_input: bool) -> Demand {
    match places.of(Value::of(id)) {
        [place, ..] if is_input => Demand::Cached(*place),
        _ => Demand::Whole,
    }
}

/// All of a value: cached if its rows follow the tokens.
pub fn all(places: &Places, value: Value) -> Demand {
    match places.of(value) {
        [place] => Demand::Cached(*place),
        _ => Demand::Whole,
    }
}
