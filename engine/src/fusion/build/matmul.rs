//! The kernels of matmuls.

use super::body::BodyBuilder;
use crate::fusion::access::Axis;
use crate::fusion::domain::Domain;
use crate::fusion::graph::FusionGraph;
use crate::fusion::groups::{FusionGroups, Group};
use crate::fusion::kernel::KernelBody;
use crate::fusion::kernel::matmul::{MatmulBody, MatrixOperand, SideSum, UnevenAxes};
use crate::fusion::kernel::operand::Operand;
use crate::fusion::kernel::row_fold::{RowConsumer, RowsBody};
use crate::fusion::legality::side_of;
use crate::fusion::place::Place;
use crate::fusion::shapes::{OperandAxes, matmul_extents, matmul_spec, operand_axes};
use crate::ir::{Graph, NodeId, Value};
use std::collections::HashSet;

/// The body and operands of a matmul kernel with its epilogue.
pub fn build(
    groups: &FusionGroups,
    group: &Group,
    inside: &HashSet<NodeId>,
    anchor: NodeId,
    domain: Domain,
) -> (KernelBody, Vec<Operand>) {
    let graph = groups.graph;
    let (batch, m, n, k) = matmul_extents(graph.ir, anchor);
    let mut builder = BodyBuilder::new(graph, inside, Some(anchor), domain);
    let [(lhs, of_lhs), (rhs, of_rhs)] = [0, 1].map(|side| matrix(graph, &mut builder, anchor, side));
    let uneven = [of_lhs, of_rhs].map(|axes| axes.map(Box::new));
    let nodes_at =
        |at: Place| group.members.iter().filter(move |member| member.1 == at).map(|member| member.0);
    let folded = nodes_at(Place::Fold).next();
    if let Some(node) = folded {
        builder.fold(graph.ir.nodes[node].inputs[0]);
    }
    let stores = builder.stores(groups, &group.members);
    let (epilogue, mut operands) = builder.finish(stores);
    let rows = folded.map(|node| Box::new(rows_body(graph.ir, node, [batch, m, n], &mut operands)));
    let mut side_sums = vec![];
    for node in nodes_at(Place::Side) {
        let side = side_of(graph, anchor, node);
        let side = side.unwrap_or_else(|| crate::bug!("a side sum of no operand"));
        side_sums.push(SideSum { side, operand: operands.len() });
        operands.push(Operand::write(graph.ir, Value::of(node)));
    }
    let dtype = graph.ir.ty(graph.ir.nodes[anchor].inputs[0]).dtype;
    let precision = matmul_spec(graph.ir, anchor).precision;
    let body = MatmulBody { batch, m, n, k, lhs, rhs, uneven, dtype, precision, epilogue, side_sums, rows };
    (KernelBody::Matmul(body), operands)
}

/// The row reduction of a matmul fold; its results become operands.
fn rows_body(graph: &Graph, node: NodeId, shape: [usize; 3], operands: &mut Vec<Operand>) -> RowsBody {
    let consumer = RowConsumer::behind(graph, node, shape[2])
        .unwrap_or_else(|| crate::bug!("{:?} folds no rows", graph.nodes[node].op));
    let first = operands.len();
    operands.extend(Operand::results(graph, node));
    RowsBody::new(consumer, (first..operands.len()).collect(), shape)
}

/// An operand in canonical form. Simplified matmuls have at most one axis of each role, or axes that run on from each
/// other. Other operands are uneven, and their axes come beside them.
fn matrix(
    graph: &FusionGraph,
    builder: &mut BodyBuilder,
    node: NodeId,
    side: usize,
) -> (MatrixOperand, Option<UnevenAxes>) {
    let value = graph.ir.nodes[node].inputs[side];
    let Some((buffer, window)) = graph.strided(value) else {
        let (buffer, offset, axes) = graph
            .uneven(node, side)
            .unwrap_or_else(|| crate::bug!("operand of `{}` is no matrix", graph.ir.nodes[node].name()));
        let matrix = MatrixOperand { operand: builder.read(buffer), offset, batch: 0, row: 0, col: 0 };
        return (matrix, Some(axes));
    };
    let level = &window.levels[0];
    let rank = graph.ir.ty(value).rank();
    let OperandAxes { batch, free, contracted } = operand_axes(matmul_spec(graph.ir, node), side, rank);
    let [batch, free, contracted] =
        [batch, free, contracted].map(|axes| joint_stride(axes.into_iter().map(|axis| level.axes[axis])));
    let (row, col) = if side == 0 { (free, contracted) } else { (contracted, free) };
    (MatrixOperand { operand: builder.read(buffer), offset: level.offset, batch, row, col }, None)
}

fn joint_stride(axes: impl Iterator<Item = Axis>) -> i64 {
    axes.filter(|axis| axis.extent != 1).last().map_or(0, |axis| axis.stride)
}
