//! The kernels of attentions.

use super::body::BodyBuilder;
use crate::fusion::attention::{Attention, canonical_axes};
use crate::fusion::domain::{Class, Domain};
use crate::fusion::graph::FusionGraph;
use crate::fusion::groups::FusionGroups;
use crate::fusion::kernel::KernelBody;
use crate::fusion::kernel::attention::{AttentionBody, Source};
use crate::fusion::kernel::operand::Operand;
use crate::fusion::place::Place;
use crate::fusion::shapes::{matmul_extents, matmul_spec};
use crate::ir::{NodeId, Value, View};
use std::collections::HashSet;

/// The body and operands of an attention kernel.
pub fn build(groups: &FusionGroups, attention: &Attention) -> (KernelBody, Vec<Operand>) {
    let graph = groups.graph;
    let Attention { scores, query_side, weights, output, end: last, ref members, ref duplicated, .. } =
        *attention;
    let inside: HashSet<NodeId> = members.keys().chain(duplicated).copied().collect();
    let (batch, m, width, n) = matmul_extents(graph.ir, output);
    let (_, _, _, k) = matmul_extents(graph.ir, scores);
    let domain = |rows: usize, row: usize| Domain { outer: batch * rows, row, inner: 1 };
    let mut operands = vec![];
    let mut source = |node: NodeId, side: usize, contracted_first: bool, domain: Domain| {
        source(graph, &inside, &mut operands, [node, side], contracted_first, domain)
    };
    let query = source(scores, query_side, false, domain(m, k));
    let key = source(scores, 1 - query_side, false, domain(n, k));
    let value = source(output, 1, true, domain(n, width));

    let mut rows = BodyBuilder::new(graph, &inside, Some(scores), domain(m, n));
    rows.operands = operands;
    let weight = rows.value(Value::of(weights), vec![]);
    let is_row =
        |(node, place): &(&NodeId, &Place)| **place == Place::Row && groups.is_written(**node, &inside);
    let written: Vec<NodeId> = members.iter().filter(is_row).map(|(node, _)| *node).collect();
    let row_stores = written.into_iter().map(|node| {
        let (reg, access) = rows.store(Value::of(node), Class::Row);
        (Value::of(node), reg, access, Class::Row)
    });
    let row_stores = row_stores.collect();
    let mut end = BodyBuilder::new(graph, &inside, Some(output), domain(m, width));
    end.operands = std::mem::take(&mut rows.operands);
    let (reg, access) = end.store(Value::of(last), Class::Element);
    rows.operands = std::mem::take(&mut end.operands);
    let (rows, operands) = rows.finish(row_stores);
    end.operands = operands;
    let (end, operands) = end.finish(vec![(Value::of(last), reg, access, Class::Element)]);
    let dtype = graph.ir.ty(Value::of(output)).dtype;
    let body = AttentionBody { batch, m, n, k, width, dtype, query, key, value, rows, weight, end };
    (KernelBody::Attention(Box::new(body)), operands)
}

/// An operand of a matmul, computed where it is read.
pub fn source(
    graph: &FusionGraph,
    inside: &HashSet<NodeId>,
    operands: &mut Vec<Operand>,
    [node, side]: [usize; 2],
    contracted_first: bool,
    domain: Domain,
) -> Source {
    let value = graph.ir.nodes[node].inputs[side];
    let extents = graph.ir.ty(value).extents();
    let perm = canonical_axes(matmul_spec(graph.ir, node), side, extents.len(), contracted_first);
    let shape: Vec<usize> = perm.iter().map(|&axis| extents[axis]).collect();
    let mut builder = BodyBuilder::new(graph, inside, None, domain);
    builder.operands = std::mem::take(operands);
    let value = builder.value(value, vec![(View::Permute { perm }, shape)]);
    let body;
    (body, *operands) = builder.finish(vec![]);
    Source { body, value }
}
