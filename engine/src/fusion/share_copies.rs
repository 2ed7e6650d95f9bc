//! Operands of matmuls that are transposed copies of each other become one copy.
//!
//! A matmul cannot read the heads of attention side by side through views, so they are copied. The gradient of its weights reads
//! the same matrix transposed. The simplifier moves a transpose before a reshape, so that it would be a copy of its own.

use super::access::Access;
use super::graph::{is_one_level, through};
use super::rewrite::Rewrite;
use crate::ir::{Graph, NodeOp, Value, View};
use std::collections::HashMap;

/// The most axes of which all orders are tried.
const MOST_AXES: usize = 3;

/// A graph in which the operands of matmuls read transposed copies through views.
pub fn share_copies(graph: &Graph) -> Graph {
    let mut rewrite = Rewrite::new(graph);
    let (mut copies, mut turned) = (Vec::<Copied>::new(), HashMap::<Value, Value>::new());
    for id in 0..graph.nodes.len() {
        if !matches!(graph.nodes[id].op, NodeOp::Matmul(_)) {
            let new = rewrite.copied(id);
            rewrite.map.push(new);
            continue;
        }
        let mut inputs = vec![];
        for &input in &graph.nodes[id].inputs {
            let own = turned.get(&input).copied().unwrap_or(rewrite.value(input));
            let copied = Copied::of(graph, input).filter(|_| !turned.contains_key(&input));
            let view =
                copied.as_ref().and_then(|copied| copied.permuted_from(&copies)).map(|(known, perm)| {
                    let (from, ty) = (rewrite.value(known.value), graph.ty(input).clone());
                    rewrite.beside(
                        input.node,
                        "transposed",
                        NodeOp::View(View::Permute { perm }),
                        vec![from],
                        ty,
                    )
                });
            turned.extend(view.map(|view| (input, view)));
            inputs.push(view.unwrap_or(own));
            copies.extend(copied.filter(|_| view.is_none()));
        }
        let new = rewrite.copied(id);
        rewrite.new.nodes[new].inputs = inputs;
        rewrite.map.push(new);
    }
    rewrite.finish()
}

/// An operand that consists of views, which no stride describes.
struct Copied {
    value: Value,
    extents: Vec<usize>,
    base: Value,
    access: Access,
}

impl Copied {
    fn of(graph: &Graph, value: Value) -> Option<Copied> {
        let extents = graph.ty(value).extents();
        let (mut views, mut base) = (vec![], value);
        while let NodeOp::View(view) = &graph.nodes[base.node].op {
            views.push((view, graph.ty(base).extents()));
            base = graph.nodes[base.node].inputs[0];
        }
        let views = views.iter().rev().map(|(view, shape)| (*view, &shape[..]));
        let access = through(&graph.ty(base).extents(), views);
        let is_copy = graph.ty(base).numel() == graph.ty(value).numel() && !is_one_level(&access);
        (is_copy && extents.len() <= MOST_AXES).then_some(Copied { value, extents, base, access })
    }

    /// A known copy of the same elements, and the order of its axes that yields this one.
    fn permuted_from<'c>(&self, copies: &'c [Copied]) -> Option<(&'c Copied, Vec<usize>)> {
        let same = copies.iter().filter(|known| known.base == self.base && known.value != self.value);
        same.flat_map(|known| orders(known.extents.len()).into_iter().map(move |perm| (known, perm))).find(
            |(known, perm)| {
                let shape: Vec<usize> = perm.iter().map(|&axis| known.extents[axis]).collect();
                let turned = || known.access.then(&View::Permute { perm: perm.clone() }, &shape);
                shape == self.extents && turned().normalized() == self.access.normalized()
            },
        )
    }
}

/// All orders of so many axes.
fn orders(n_axes: usize) -> Vec<Vec<usize>> {
    (0..n_axes).fold(vec![vec![]], |orders, axis| {
        let inserted = |order: Vec<usize>| {
            (0..=order.len()).map(move |at| [&order[..at], &[axis], &order[at..]].concat())
        };
        orders.into_iter().flat_map(inserted).collect()
    })
}
