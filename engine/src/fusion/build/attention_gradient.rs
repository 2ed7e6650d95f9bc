//! The kernels of gradients of attention.

use super::attention::source;
use super::body::BodyBuilder;
use crate::fusion::attention_gradient::{AttentionGradient, Sum};
use crate::fusion::domain::{Class, Domain};
use crate::fusion::groups::FusionGroups;
use crate::fusion::kernel::KernelBody;
use crate::fusion::kernel::attention_gradient::{AttentionGradientBody, PointProduct, PointSum};
use crate::fusion::kernel::operand::Operand;
use crate::fusion::shapes::matmul_extents;
use crate::ir::{NodeId, Value};
use std::collections::HashSet;

/// The body and operands of a kernel of a gradient of attention.
pub fn build(groups: &FusionGroups, gradient: &AttentionGradient) -> (KernelBody, Vec<Operand>) {
    let graph = groups.graph;
    let AttentionGradient { products, sums, members } = gradient;
    let inside: HashSet<NodeId> = members.iter().copied().collect();
    let (batch, m, n, _) = matmul_extents(graph.ir, products[0]);
    let domain = |rows: usize, row: usize| Domain { outer: batch * rows, row, inner: 1 };
    let mut operands = vec![];
    let products_of_points = products.map(|node| {
        let (_, _, _, k) = matmul_extents(graph.ir, node);
        let mut side = |side: usize, rows: usize| {
            source(graph, &inside, &mut operands, [node, side], false, domain(rows, k))
        };
        PointProduct { k, rows: side(0, m), columns: side(1, n) }
    });
    let others = sums.iter().map(|(&sum, &Sum { over_keys, .. })| {
        let (_, _, width, _) = matmul_extents(graph.ir, sum);
        let rows = if over_keys { n } else { m };
        source(graph, &inside, &mut operands, [sum, 1], true, domain(rows, width))
    });
    let others: Vec<_> = others.collect();
    let mut points =
        BodyBuilder::new(graph, &inside, Some(products[0]), domain(m, n)).with_second_anchor(products[1]);
    points.operands = operands;
    let values: Vec<_> = sums.values().map(|sum| points.value(Value::of(sum.value), vec![])).collect();
    let (points, mut operands) = points.finish(vec![]);
    let mut point_sums = vec![];
    for ((&sum, &Sum { over_keys, end: last, .. }), (value, other)) in
        sums.iter().zip(values.into_iter().zip(others))
    {
        let (_, free, width, _) = matmul_extents(graph.ir, sum);
        let mut end = BodyBuilder::new(graph, &inside, Some(sum), domain(free, width));
        end.operands = std::mem::take(&mut operands);
        let (reg, access) = end.store(Value::of(last), Class::Element);
        let (end, all) = end.finish(vec![(Value::of(last), reg, access, Class::Element)]);
        operands = all;
        point_sums.push(PointSum { value, over_keys, width, other, end });
    }
    let dtype = graph.ir.ty(graph.ir.nodes[products[0]].inputs[0]).dtype;
    let products = products_of_points;
    let body = AttentionGradientBody { batch, m, n, dtype, products, points, sums: point_sums };
    (KernelBody::AttentionGradient(Box::new(body)), operands)
}
