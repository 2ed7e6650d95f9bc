//! Siblings: groups over the same points that read a common tensor become one.

use super::pass::{Example, FusionPass, join};
use crate::fusion::domain::Class;
use crate::fusion::groups::{FusionGroups, Kind};
use std::collections::BTreeSet;

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
            let n_points = groups.graph.numel(value);
            let users = groups.graph.users[value].iter().filter_map(|&user| groups.group_of[user]);
            // A join changes no number of points.
            let users: BTreeSet<usize> = users.filter(|&user| visits(groups, user, n_points)).collect();
            let chains = groups.order.chains(&users);
            for &user in &users {
                let near = groups.order.near(&chains, user);
                let mut later = near.range(user + 1..).copied();
                let _ = later.find(|&other| join(groups, user, other).is_ok());
            }
        }
    }
}

/// Whether a group of maps or rows is over so many points.
fn visits(groups: &FusionGroups, id: usize, n_points: usize) -> bool {
    match groups.groups[id].kind {
        Kind::Map(n) => n == n_points,
        Kind::Row(domain) => domain.points(Class::Element) == n_points,
        _ => false,
    }
}
