//! The kernels of scatters.

use super::body::BodyBuilder;
use crate::fusion::access::Access;
use crate::fusion::domain::{Class, Domain};
use crate::fusion::graph::FusionGraph;
use crate::fusion::kernel::KernelBody;
use crate::fusion::kernel::operand::Operand;
use crate::fusion::kernel::scatter::ScatterBody;
use crate::fusion::shapes::{ScatterShape, index_view};
use crate::ir::{NodeId, Value};
use std::collections::HashSet;

/// The body and operands of a scatter that computes `inside`.
pub fn build(
    graph: &FusionGraph,
    inside: &HashSet<NodeId>,
    node: NodeId,
    in_order: bool,
) -> (KernelBody, Vec<Operand>) {
    let shape = ScatterShape::of(graph.ir, node);
    let ScatterShape { axis, batch, combine, operands: [base, indices, updates], extents } = shape;
    let [n_batch, n_before, n_indexed, n_indices, n_after] = extents;
    let domain = |rows: usize| Domain { outer: n_batch * n_before * rows, row: n_after, inner: 1 };

    let mut builder = BodyBuilder::new(graph, inside, None, domain(n_indices));
    let rank = graph.ir.ty(indices).rank();
    let rows = graph.ir.ty(updates).extents()[..axis + rank - batch].to_vec();
    let index = builder.row_value(indices, vec![(index_view(rank, axis, batch), rows)]);
    let update = builder.value(updates, vec![]);
    let (updates, operands) = builder.finish(vec![]);

    let mut builder = BodyBuilder::new(graph, inside, None, domain(n_indexed));
    builder.operands = operands;
    let value = builder.value(base, vec![]);
    let access = Access::strided(&[domain(n_indexed).points(Class::Element)], &[1]);
    let (base, operands) = builder.finish(vec![(Value::of(node), value, access, Class::Element)]);
    let result = operands.len() - 1;
    let body = ScatterBody { extents, combine, in_order, base, updates, index, update, result };
    (KernelBody::Scatter(Box::new(body)), operands)
}
