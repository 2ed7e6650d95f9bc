//! Epilogues: maps of a matmul's result run inside the matmul (docs/decisions/004-matmul-epilogues.md).

use super::pass::{Example, FusionPass};
use crate::fusion::groups::{FusionGroups, Group, Kind};
use crate::fusion::legality::can_join_neighbour;
use crate::fusion::place::Place;
use crate::ir::NodeId;
use std::collections::BTreeSet;

/// The pass `epilogues`.
pub struct Epilogues;

impl FusionPass for Epilogues {
    fn name(&self) -> &'static str {
        "epilogues"
    }

    fn about(&self) -> &'static str {
        "Joins a matmul and the chain of maps behind it, where all uses of a value meet in a later map."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph epilogue {
                input x: f32[512, 300]
                input w: f32[300, 400]
                input b: f32[400]
                product: f32[512, 400] = .matmul(x, w, contracted=[[1, 0]])
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
    while let Some(next) = next_maps(groups, end) {
        let Some(joined) = join_all(groups, id, &next) else {
            let leaves_chain = |&map: &NodeId| {
                moves_elements(groups, end, map) || groups.graph.numel(map) != groups.graph.numel(end)
            };
            if next.len() > 1 || next.iter().any(leaves_chain) {
                break;
            }
            restore(groups, taken);
            groups.groups[id] = before;
            return;
        };
        taken.extend(joined);
        end = next.last().copied().unwrap_or(end);
    }
    groups.fuel -= (end != anchor) as usize;
    taken.iter().for_each(|&(from, _)| groups.order.merge(&[from, id], id));
}

/// Adds maps, in order, and returns their groups. None, and nothing is added, if one of them cannot join.
fn join_all(groups: &mut FusionGroups, id: usize, maps: &[NodeId]) -> Option<Vec<(usize, Group)>> {
    let before = groups.groups[id].clone();
    let mut taken = vec![];
    for &map in maps {
        let from = groups.group_of[map].unwrap_or(id);
        // Only these maps read the chain, so no third kernel stands between them.
        if !groups.groups[from].is_single() || can_join_neighbour(groups, id, from).is_err() {
            restore(groups, taken);
            groups.groups[id] = before;
            return None;
        }
        taken.push((from, groups.groups[from].clone()));
        groups.move_members(from, id, groups.groups[id].kind, |_| Place::Element);
    }
    Some(taken)
}

fn restore(groups: &mut FusionGroups, taken: Vec<(usize, Group)>) {
    taken.into_iter().for_each(|(from, group)| groups.replace(from, group));
}

/// Whether a map reads a node at points other than its own.
fn moves_elements(groups: &FusionGroups, node: NodeId, map: NodeId) -> bool {
    let edges = groups.graph.edges[map].iter().filter(|edge| edge.producer.node == node);
    let n_points = groups.graph.numel(map);
    edges.into_iter().any(|edge| edge.indexed || !edge.access.is_identity(n_points))
}

/// The most maps between a value and the map where all its uses meet.
const MOST_OF_DIAMOND: usize = 32;

/// The maps that alone use a node, up to the first where all uses meet: its only user, or the end of a diamond such as
/// `x * sigmoid(x)`. They do not cross the border of a node with `fuse: Never`.
fn next_maps(groups: &FusionGroups, node: NodeId) -> Option<Vec<NodeId>> {
    let (graph, nodes) = (&groups.graph, &groups.graph.ir.nodes);
    let users = |node: NodeId| (!graph.root[node]).then(|| graph.users[node].iter().copied());
    let is_open = |user: NodeId| groups.is_map(user) && nodes[user].no_fuse == nodes[node].no_fuse;
    let mut maps = vec![];
    let mut ahead: BTreeSet<NodeId> = users(node)?.collect();
    while maps.len() < MOST_OF_DIAMOND {
        // Operands come before their users, so the first one is not reached through another.
        let next = ahead.pop_first().filter(|&next| is_open(next))?;
        maps.push(next);
        if ahead.is_empty() {
            return Some(maps);
        }
        ahead.extend(users(next)?);
    }
    None
}
