//! Row folds: a row reduction takes the rows of a matmul as they are computed
//! (docs/decisions/005-row-reductions.md).

use super::pass::{Example, FusionPass};
use crate::fusion::groups::FusionGroups;
use crate::fusion::legality::{can_fold, row_reduction};
use crate::fusion::place::Place;

/// The pass `row-folds`.
pub struct RowFolds;

impl FusionPass for RowFolds {
    fn name(&self) -> &'static str {
        "row-folds"
    }

    fn about(&self) -> &'static str {
        "Joins a matmul of long rows and the reduction of rows, or of blocks of columns, that alone reads them. The product is \
         never stored."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph argmax {
                input x: f32[100, 32]
                input w: f32[32, 1000]
                y: f32[100, 1000] = .matmul(x, w, contracted=[[1, 0]])
                best: i32[100] = .argmax(y, axes=[1])
                output best = best
            }",
            with: "matmul: x w -> best",
            without: "matmul: x w -> y\nrow: y -> best",
        }
    }

    fn grow(&self, groups: &mut FusionGroups) {
        for node in 0..groups.group_of.len() {
            let Some(id) = groups.group_of[node] else { continue };
            let [edge] = &groups.graph.edges[node][..] else { continue };
            let Some(target) = groups.group_of[edge.producer.node] else { continue };
            let is_free = groups.fuel > 0 && groups.no_fuse(id) == groups.no_fuse(target);
            let consumer = if is_free { row_reduction(groups, target, node) } else { None };
            if consumer.is_some() && can_fold(groups, target, node).is_ok() {
                groups.fuel -= 1;
                groups.merge(id, target, groups.groups[target].kind, |_| Place::Fold);
            }
        }
    }
}
