//! Side sums: a matmul also sums one of its operands along the contracted axis.

use super::pass::{Example, FusionPass};
use crate::fusion::groups::FusionGroups;
use crate::fusion::legality::{fits_operands, side_of};
use crate::fusion::place::Place;
use crate::ir::{Monoid, NodeId, NodeOp};
use std::collections::BTreeSet;

/// The pass `side-sums`.
pub struct SideSums;

impl FusionPass for SideSums {
    fn name(&self) -> &'static str {
        "side-sums"
    }

    fn about(&self) -> &'static str {
        "Joins a matmul and the sum of one of its operands along the contracted axis, such as the gradient of a bias."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph bias {
                input x: f32[512, 300]
                input d: f32[512, 400]
                dw: f32[300, 400] = .matmul(x, d, contracted=[[0, 0]])
                db: f32[400] = .sum(d, axes=[0])
                output dw = dw
                output db = db
            }",
            with: "matmul: x d -> dw db",
            without: "matmul: x d -> dw\nrow: d -> db",
        }
    }

    fn grow(&self, groups: &mut FusionGroups) {
        for node in 0..groups.group_of.len() {
            let Some(id) = groups.group_of[node] else { continue };
            let Some(anchor) = anchor_of(groups, node) else { continue };
            let target = groups.group_of[anchor].unwrap_or(id);
            let is_free = groups.fuel > 0 && groups.no_fuse(id) == groups.no_fuse(target);
            let is_fit = groups.groups[id].is_single()
                && groups.groups[target].is_matmul()
                && fits_operands(groups, &groups.nodes_of_both(id, target), &BTreeSet::new()).is_ok();
            // A matmul that reads the sum, as a factor or in its epilogue, cannot compute it.
            let needs_sum = groups.order.leads(id, target) || groups.order.surrounds(&[id, target]);
            if is_free && is_fit && !needs_sum {
                groups.fuel -= 1;
                groups.merge(id, target, groups.groups[target].kind, |_| Place::Side);
            }
        }
    }
}

/// The matmul that reads the tensor of a reduction and sums over its axis.
fn anchor_of(groups: &FusionGroups, node: NodeId) -> Option<NodeId> {
    let NodeOp::Reduce { monoid: Monoid::Sum, .. } = groups.graph.op(node) else { return None };
    let [edge] = &groups.graph.edges[node][..] else { return None };
    let users = groups.graph.users[edge.producer.node].iter().copied();
    users.filter(|&user| user != node).find(|&user| side_of(groups.graph, user, node).is_some())
}
