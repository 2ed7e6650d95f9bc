//! Incremental decoding: the next rows of a causal graph from new tokens and a cache of what earlier tokens gave.
//!
//! A language model computes each row of its logits from the tokens up to that row. Its graph is rebuilt so that it
//! computes the rows of new tokens alone. Where an op needs all rows of a value, such as the keys of attention, the
//! value becomes a state: new rows are inserted, and the op reads the state. No op is known by name. The pass asks of
//! each primitive which parts of its operands some rows of its result need.

mod demand;
mod need;
mod place;
mod places;
mod rebuild;
#[cfg(test)]
mod tests;

use place::Place;

use crate::ir::{Graph, OpSet};

/// The rows that a step decodes.
#[derive(Clone, Copy, Debug)]
pub struct Decoding<'d> {
    /// The input of tokens, `[rows, n]`.
    pub tokens: &'d str,
    /// The tokens of each row that a step takes, at most n.
    pub n_new: usize,
}

/// The graph of a decoding step, given the graph of all n tokens in primitives, with one result whose leading extents
/// are those of the tokens or their product.
///
/// The step takes `n_new` tokens, `[rows, n_new]`, and yields their rows of the result. The number of the step is the
/// place of its first token; a number above `n - n_new` counts as that. Values that later tokens need are states called `cache.NODE`. They
/// hold the rows of earlier places; rows behind the new tokens are of no meaning, and a causal graph does not use them.
///
/// Returns nothing if the result does not depend on the tokens, or its rows follow them along another axis.
pub fn decoding(graph: &Graph, decoding: &Decoding, ops: &dyn OpSet) -> Option<Graph> {
    let tokens = graph.find(decoding.tokens)?;
    let [rows, n] = graph.ty(tokens).extents()[..] else { return None };
    let (name, result) = graph.outputs.first()?;
    let shape = graph.ty(*result).extents();
    let of_tokens = Place { axis: 1, inner: 1 };
    let row: usize = shape.iter().product::<usize>().checked_div(rows * n)?;
    let wanted = of_tokens.reshaped(&[rows, n, row], &shape, n)?;
    let places = places::places(graph, tokens, n);
    let found = places.of(*result);
    let follows = found.contains(&wanted) || found.is_empty() && places.is_dependent(result.node);
    if n < 2 || !follows {
        return None;
    }
    let demands = demand::demands(graph, &places, (*result, wanted), n);
    let mut rebuilt = rebuild::rebuild(graph, &places, &demands, (tokens, decoding.n_new), ops);
    rebuilt.graph.outputs = vec![(name.clone(), rebuilt.rows(*result, wanted))];
    Some(rebuilt.graph.pruned())
}
