//! Edges: a producer joins its consumer.

use super::pass::{Example, FusionPass, join};
use crate::fusion::groups::FusionGroups;
use crate::ir::NodeId;

/// The pass `edges`.
pub struct Edges;

impl FusionPass for Edges {
    fn name(&self) -> &'static str {
        "edges"
    }

    fn about(&self) -> &'static str {
        "Joins a producer and its consumer over the same points or rows, which saves the tensor between them."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph softmax {
                input x: f32[512, 1000]
                e: f32[512, 1000] = .exp(x)
                sum: f32[512] = .sum(e, axes=[1])
                log: f32[512] = .log(sum)
                output log = log
            }",
            with: "row: x -> log",
            without: "map: x -> e\nrow: e -> sum\nmap: sum -> log",
        }
    }

    fn grow(&self, groups: &mut FusionGroups) {
        for node in 0..groups.group_of.len() {
            for edge in 0..groups.graph.edges[node].len() {
                let producer = groups.graph.edges[node][edge].producer.node;
                let (Some(from), Some(to)) = (groups.group_of[producer], groups.group_of[node]) else {
                    continue;
                };
                if from != to && saves_bytes(groups, from, to) {
                    let _ = join(groups, from, to);
                }
            }
        }
    }
}

/// Whether a join saves bytes. Rows and maps always save the load of a tensor. A matmul has its epilogue by now, and
/// takes a map before it only if the map's result is no longer stored.
fn saves_bytes(groups: &FusionGroups, from: usize, to: usize) -> bool {
    let [producer, consumer] = [from, to].map(|id| &groups.groups[id]);
    let is_only_read_there = |node: NodeId| {
        let mut users = groups.graph.users[node].iter().map(|&user| groups.group_of[user]);
        !groups.graph.root[node] && users.all(|user| user == Some(to) || user == Some(from))
    };
    !producer.is_matmul() && (!consumer.is_matmul() || producer.nodes().all(is_only_read_there))
}
