//! Gradients of attention: two matmuls, maps over both and the matmuls of their results become one kernel.

use super::pass::{Example, FusionPass};
use crate::fusion::attention_gradient::{self, AttentionGradient};
use crate::fusion::build::attention_gradient::build;
use crate::fusion::groups::{FusionGroups, Group, Kind};
use crate::fusion::kernel::KernelBody;
use crate::fusion::legality::fits_operands;
use crate::fusion::place::Place;
use crate::ir::NodeId;
use std::collections::BTreeSet;

/// The pass `attention-gradient`.
pub struct AttentionGradients;

impl FusionPass for AttentionGradients {
    fn name(&self) -> &'static str {
        "attention-gradient"
    }

    fn about(&self) -> &'static str {
        "Joins two matmuls, maps over both and matmuls of their results, so that neither scores nor their gradients are \
         stored."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph gradient {
                input q: f32[2, 300, 16]
                input k: f32[2, 300, 16]
                input v: f32[2, 300, 16]
                input dy: f32[2, 300, 16]
                input lse: f32[2, 300]
                scores: f32[2, 300, 300] = .matmul(q, k, batch=[[0, 0]], contracted=[[2, 2]])
                wide: f32[2, 300, 300] = .broadcast(lse, axes=[0, 1])
                shifted: f32[2, 300, 300] = .sub(scores, wide)
                p: f32[2, 300, 300] = .exp(shifted)
                dp: f32[2, 300, 300] = .matmul(dy, v, batch=[[0, 0]], contracted=[[2, 2]])
                ds: f32[2, 300, 300] = .mul(p, dp)
                dq: f32[2, 300, 16] = .matmul(ds, k, batch=[[0, 0]], contracted=[[2, 1]])
                dk: f32[2, 300, 16] = .matmul(ds, q, batch=[[0, 0]], contracted=[[1, 1]])
                dv: f32[2, 300, 16] = .matmul(p, dy, batch=[[0, 0]], contracted=[[1, 1]])
                output dq = dq
                output dk = dk
                output dv = dv
            }",
            with: "attention gradient: q k dy v lse -> dq dk dv",
            without: "matmul: q k lse -> p\nmatmul: dy v p -> ds\nmatmul: ds k -> dq\nmatmul: ds q -> dk\n\
                      matmul: p dy -> dv",
        }
    }

    fn grow(&self, groups: &mut FusionGroups) {
        for node in 0..groups.group_of.len() {
            if groups.fuel == 0 || !is_free_matmul(groups, node) {
                continue;
            }
            let Some(found) = attention_gradient::find(groups.graph, node, groups.settings) else { continue };
            let members: Vec<NodeId> = found.members.iter().copied().collect();
            let fits =
                fits_operands(groups, &members, &BTreeSet::new()).is_ok() && has_kernel(groups, &found);
            let parts: BTreeSet<usize> = members.iter().filter_map(|&node| groups.group_of[node]).collect();
            let parts: Vec<usize> = parts.into_iter().collect();
            if fits && groups.may_become_one(&parts) {
                groups.fuel -= 1;
                merge_all(groups, found, &parts);
            }
        }
    }
}

/// Whether the device has a kernel for it.
fn has_kernel(groups: &FusionGroups, found: &AttentionGradient) -> bool {
    match build(groups, found) {
        (KernelBody::AttentionGradient(body), _) => groups.settings.has_attention_gradient_of(&body),
        _ => false,
    }
}

/// Whether a node is a matmul that no pass has joined to others.
fn is_free_matmul(groups: &FusionGroups, node: NodeId) -> bool {
    groups.group(node).is_some_and(|group| group.is_matmul() && group.is_single())
}

fn merge_all(groups: &mut FusionGroups, found: AttentionGradient, parts: &[usize]) {
    let Some(&to) = parts.first() else { return };
    groups.order.merge(parts, to);
    parts.iter().for_each(|&part| groups.groups[part].members.clear());
    let members = found.members.iter().map(|&node| (node, Place::Element)).collect();
    groups.replace(to, Group { kind: Kind::AttentionGradient(groups.gradients.len()), members });
    groups.gradients.push(found);
}
