//! Siblings: groups over the same points that read a common tensor become one. The tensor is loaded once then. Of few
//! points, only the launch is saved, so they may read different elements.

use super::pass::{Example, FusionPass, join};
use crate::fusion::domain::Class;
use crate::fusion::groups::{FusionGroups, Kind};
use crate::ir::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// The most points of kernels that take less time than their launch.
const FEW_POINTS: usize = 1 << 14;

/// The pass `siblings`.
pub struct Siblings;

impl FusionPass for Siblings {
    fn name(&self) -> &'static str {
        "siblings"
    }

    fn about(&self) -> &'static str {
        "Joins groups over the same points that read a common tensor, which is loaded once then."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph statistics {
                input x: f32[512, 400]
                max: f32[512] = .max(x, axes=[1])
                sum: f32[512] = .sum(x, axes=[1])
                output max = max
                output sum = sum
            }",
            with: "row: x -> max sum",
            without: "row: x -> max\nrow: x -> sum",
        }
    }

    fn grow(&self, groups: &mut FusionGroups) {
        for value in 0..groups.group_of.len() {
            // A join changes no number of points.
            for users in users_by_points(groups, value).into_values() {
                let chains = groups.order.chains(&users);
                for &user in &users {
                    let near = groups.order.near(&chains, user);
                    let mut later = near.range(user + 1..).copied();
                    let _ = later.find(|&other| join(groups, user, other).is_ok());
                }
            }
        }
    }
}

/// By number of points: the groups of maps or rows that read all of a tensor, and those of maps that read few elements of it.
fn users_by_points(groups: &FusionGroups, value: NodeId) -> BTreeMap<usize, BTreeSet<usize>> {
    let n_elements = groups.graph.numel(value);
    let mut users: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for user in groups.graph.users[value].iter().filter_map(|&user| groups.group_of[user]) {
        let is_part = |n: usize| n <= FEW_POINTS && n < n_elements && groups.is_of_maps(user);
        if let Some(n) = n_points(groups, user).filter(|&n| n == n_elements || is_part(n)) {
            users.entry(n).or_default().insert(user);
        }
    }
    users
}

/// The points of a group of maps or rows.
fn n_points(groups: &FusionGroups, id: usize) -> Option<usize> {
    match groups.groups[id].kind {
        Kind::Map(n) => Some(n),
        Kind::Row(domain) => Some(domain.points(Class::Element)),
        _ => None,
    }
}
