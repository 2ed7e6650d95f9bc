//! Sums: reductions over rows of one shape whose results meet in one kernel become one kernel.

use super::pass::{Example, FusionPass, join};
use crate::fusion::domain::{Class, Domain};
use crate::fusion::groups::{FusionGroups, Kind};
use crate::fusion::settings::Settings;
use crate::ir::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// The pass `sums`.
pub struct Sums;

impl FusionPass for Sums {
    fn name(&self) -> &'static str {
        "sums"
    }

    fn about(&self) -> &'static str {
        "Joins short reductions over rows of one shape whose results meet in one kernel, such as the squares of gradients \
         in their norm, which saves launches."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph norm {
                input x: f32[512, 400]
                input y: f32[512, 400]
                a: f32[512] = .sum(x, axes=[1])
                b: f32[512] = .max(y, axes=[1])
                sum: f32[] = .sum(a, axes=[0])
                max: f32[] = .max(b, axes=[0])
                norm: f32[] = .add(sum, max)
                output norm = norm
            }",
            with: "row: x y -> a b\nrow: a b -> norm",
            without: "row: x -> a\nrow: y -> b\nrow: a b -> norm",
        }
    }

    fn pays_on(&self, settings: &Settings) -> bool {
        settings.device.kernels.joined_sums
    }

    fn grow(&self, groups: &mut FusionGroups) {
        // Readers first: what is joined meets in one kernel then.
        for node in (0..groups.group_of.len()).rev() {
            let Some(reader) = groups.group_of[node] else { continue };
            // Once a group, at its last node.
            if groups.groups[reader].nodes().last() != Some(node) {
                continue;
            }
            for together in short_rows_before(groups, reader).into_values() {
                let mut open: Option<usize> = None;
                for id in together {
                    let joined = open.is_some_and(|into| join(groups, id, into).is_ok());
                    open = if joined { open } else { Some(id) };
                }
            }
        }
    }
}

/// The groups of short rows that a group reads first, by their rows.
fn short_rows_before(groups: &FusionGroups, reader: usize) -> BTreeMap<[usize; 3], BTreeSet<usize>> {
    let mut found: BTreeMap<[usize; 3], BTreeSet<usize>> = BTreeMap::new();
    for node in groups.groups[reader].nodes() {
        for edge in &groups.graph.edges[node] {
            let Some(id) = groups.group_of[edge.producer.node] else { continue };
            if let Kind::Row(Domain { outer, row, inner }) = groups.groups[id].kind
                && is_short(groups, id)
                && is_read_by(groups, id, reader)
            {
                found.entry([outer, row, inner]).or_default().insert(id);
            }
        }
    }
    found
}

fn is_short(groups: &FusionGroups, id: usize) -> bool {
    let Kind::Row(domain) = groups.groups[id].kind else { return false };
    let [n_points, n_rows] = [Class::Element, Class::Row].map(|class| domain.points(class));
    groups.graph.cost.is_short(n_points) && 2 * n_rows <= n_points
}

/// Whether another group reads a group before all others do.
fn is_read_by(groups: &FusionGroups, id: usize, reader: usize) -> bool {
    let comes_later = |user: usize| match groups.group_of[user] {
        Some(other) => other == id || other == reader || groups.order.leads(reader, other),
        None => false,
    };
    let is_first = |node: NodeId| groups.graph.users[node].iter().all(|&user| comes_later(user));
    id != reader && groups.groups[id].nodes().all(|node| !groups.graph.root[node] && is_first(node))
}
