//! Epilogues: maps of a matmul's result run inside the matmul (docs/decisions/004-matmul-epilogues.md).

use super::pass::{Example, FusionPass};
use crate::fusion::groups::{FusionGroups, Group, Kind};
use crate::fusion::legality::can_join_neighbour;
use crate::fusion::place::Place;
use crate::ir::NodeId;

/// The pass `epilogues`.
pub struct Epilogues;

impl FusionPass for Epilogues {
    fn name(&self) -> &'static str {
        "epilogues"
    }

    fn about(&self) -> &'static str {
        "Joins a matmul and the chain of maps behind it, where each value has the next map for its only user."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph epilogue {
                input x: f32[512, 300]
                input w: f32[300, 400]
                input b: f32[400]
                product: f32[512, 400] = .contract(x, w, contracted=[[1, 0]])
                wide: f32[512, 400] = .broadcast(b, axes=[1])
                biased: f32[512, 400] = .add(product, wide)
                flat: f32[204800] = .reshape(biased)
                y: f32[204800] = .tanh(flat)
                output y = y
            }",
            with: "matmul: x w b -> y",
            without: "matmul: x w -> product\nmap: product b -> y",
        }
    }

    fn grow(&self, groups: &mut FusionGroups) {
        for node in 0..groups.group_of.len() {
            let Some(id) = groups.group_of[node] else { continue };
            let is_anchor = matches!(groups.groups[id].kind, Kind::Matmul(anchor, _) if anchor == node);
            if is_anchor && groups.fuel > 0 {
                grow_epilogue(groups, id, node);
            }
        }
    }
}

/// Adds the chain of maps that starts at a matmul. A chain that ends at a map that cannot join is left to that map's
/// kernel: a part of it would save no bytes. A map that reads the chain's elements at other points, such as the border of
/// an image, takes no part of it either way.
fn grow_epilogue(groups: &mut FusionGroups, id: usize, anchor: NodeId) {
    let before = groups.groups[id].clone();
    let mut taken: Vec<(usize, Group)> = vec![];
    let mut end = anchor;
    while let Some(next) = only_map_user(groups, end) {
        let from = groups.group_of[next].unwrap_or(id);
        // The map is the only reader of the chain, so no third kernel stands between them.
        if !groups.groups[from].is_single() || can_join_neighbour(groups, id, from).is_err() {
            if moves_elements(groups, end, next) || groups.graph.numel(next) != groups.graph.numel(end) {
                break;
            }
            taken.into_iter().for_each(|(from, group)| groups.replace(from, group));
            groups.groups[id] = before;
            return;
        }
        taken.push((from, groups.groups[from].clone()));
        groups.move_members(from, id, groups.groups[id].kind, |_| Place::Element);
        end = next;
    }
    groups.fuel -= (end != anchor) as usize;
    taken.iter().for_each(|&(from, _)| groups.order.merge(&[from, id], id));
}

/// Whether a map reads a node at points other than its own.
fn moves_elements(groups: &FusionGroups, node: NodeId, map: NodeId) -> bool {
    let edges = groups.graph.edges[map].iter().filter(|edge| edge.producer.node == node);
    let n_points = groups.graph.numel(map);
    edges.into_iter().any(|edge| edge.indexed || !edge.access.is_identity(n_points))
}

/// The map that alone uses a node. A chain ends at the border of a node with `fuse: Never`.
fn only_map_user(groups: &FusionGroups, node: NodeId) -> Option<NodeId> {
    let [user] = groups.graph.users[node][..] else { return None };
    let nodes = &groups.graph.ir.nodes;
    let is_open = !groups.graph.root[node] && nodes[node].no_fuse == nodes[user].no_fuse;
    (is_open && groups.is_map(user)).then_some(user)
}
