//! Attention: two matmuls and the rows between them become one kernel.

use super::pass::{Example, FusionPass};
use crate::fusion::attention::{self, Attention};
use crate::fusion::build::attention::build;
use crate::fusion::groups::{FusionGroups, Group, Kind};
use crate::fusion::kernel::KernelBody;
use crate::fusion::legality::fits_operands;
use crate::ir::NodeId;
use std::collections::BTreeSet;

/// The pass `attention`.
pub struct Attentions;

impl FusionPass for Attentions {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn about(&self) -> &'static str {
        "Joins a matmul, rows over its result and a matmul of their weights, so that neither scores nor weights are stored."
    }

    fn example(&self) -> Example {
        Example {
            graph: "graph attention {
                input q: f32[2, 300, 16]
                input k: f32[2, 300, 16]
                input v: f32[2, 300, 16]
                scores: f32[2, 300, 300] = .matmul(q, k, batch=[[0, 0]], contracted=[[2, 2]])
                e: f32[2, 300, 300] = .exp(scores)
                sum: f32[2, 300] = .sum(e, axes=[2])
                wide: f32[2, 300, 300] = .broadcast(sum, axes=[0, 1])
                weights: f32[2, 300, 300] = .div(e, wide)
                y: f32[2, 300, 16] = .matmul(weights, v, batch=[[0, 0]], contracted=[[2, 1]])
                output y = y
            }",
            with: "attention: q k v -> y",
            without: "matmul: q k -> e\nrow: e -> weights\nmatmul: weights v -> y",
        }
    }

    fn grow(&self, groups: &mut FusionGroups) {
        for node in 0..groups.group_of.len() {
            let Some(mut found) = attention::find(groups.graph, node, groups.settings) else { continue };
            let all: Vec<NodeId> = found.members.keys().copied().collect();
            // Reading through nodes with other users may take more tensors than reading them.
            if fits_operands(groups, &all, &found.duplicated).is_err() {
                found.duplicated.clear();
            }
            let fits = fits_operands(groups, &all, &found.duplicated).is_ok() && has_kernel(groups, &found);
            let Some(to) = groups.group_of[node].filter(|_| fits) else { continue };
            let parts: BTreeSet<usize> = all.iter().filter_map(|&node| groups.group_of[node]).collect();
            let parts: Vec<usize> = parts.into_iter().collect();
            if groups.fuel > 0 && groups.may_become_one(&parts) {
                groups.fuel -= 1;
                merge_all(groups, found, &parts, to);
            }
        }
    }
}

/// Whether the device has a kernel for it.
fn has_kernel(groups: &FusionGroups, found: &Attention) -> bool {
    if !found.is_shared && groups.settings.has_attention_to(found.n_keys(groups.graph)) {
        return true;
    }
    match build(groups, found) {
        (KernelBody::Attention(body), _) if found.is_shared => groups.settings.has_attention_of(&body),
        (KernelBody::Attention(body), _) => groups.settings.has_attention_in_parts(&body),
        _ => false,
    }
}

fn merge_all(groups: &mut FusionGroups, attention: Attention, parts: &[usize], to: usize) {
    groups.order.merge(parts, to);
    parts.iter().for_each(|&part| groups.groups[part].members.clear());
    let members = attention.members.iter().map(|(&node, &place)| (node, place)).collect();
    groups.replace(to, Group { kind: Kind::Attention(groups.attentions.len()), members });
    groups.must_store.extend(attention.must_store(groups.graph));
    groups.attentions.push(attention);
}
