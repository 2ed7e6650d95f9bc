//! Shapes of matmuls, gathers and scatters in canonical form.

use crate::ir::{Combine, Graph, MatmulSpec, NodeId, NodeOp, Value, View};

/// Extents of a matmul in canonical form: `(batch, m, n, k)`.
pub fn matmul_extents(graph: &Graph, node: NodeId) -> (usize, usize, usize, usize) {
    let spec = matmul_spec(graph, node);
    let lhs = graph.ty(graph.nodes[node].inputs[0]).extents();
    let rhs = graph.ty(graph.nodes[node].inputs[1]).extents();
    let over =
        |axes: Vec<usize>, extents: &[usize]| axes.iter().map(|&axis| extents[axis]).product::<usize>();
    (
        over(spec.batch.iter().map(|p| p.0).collect(), &lhs),
        over(spec.lhs_free(lhs.len()), &lhs),
        over(spec.rhs_free(rhs.len()), &rhs),
        over(spec.contracted.iter().map(|p| p.0).collect(), &lhs),
    )
}

/// The axes of a matmul.
pub fn matmul_spec(graph: &Graph, node: NodeId) -> &MatmulSpec {
    match &graph.nodes[node].op {
        NodeOp::Matmul(spec) => spec,
        _ => crate::bug!("`{}` is no matmul", graph.nodes[node].name()),
    }
}

/// Axes of one operand of a matmul by role.
pub struct OperandAxes {
    /// Shared with the other operand and kept.
    pub batch: Vec<usize>,
    /// Of this operand alone.
    pub free: Vec<usize>,
    /// Summed over.
    pub contracted: Vec<usize>,
}

/// Axes of operand `side` of a matmul.
pub fn operand_axes(spec: &MatmulSpec, side: usize, rank: usize) -> OperandAxes {
    let pick = |pairs: &[(usize, usize)]| -> Vec<usize> {
        pairs.iter().map(|&(l, r)| if side == 0 { l } else { r }).collect()
    };
    let free = if side == 0 { spec.lhs_free(rank) } else { spec.rhs_free(rank) };
    OperandAxes { batch: pick(&spec.batch), free, contracted: pick(&spec.contracted) }
}

/// The broadcast that lays a gather's indices over its result.
pub fn gather_index_view(graph: &Graph, node: NodeId, axis: usize, batch: usize) -> View {
    index_view(graph.ty(graph.nodes[node].inputs[1]).rank(), axis, batch)
}

/// The broadcast of indices of a gather or scatter along `axis`, after `batch` shared axes.
pub fn index_view(rank: usize, axis: usize, batch: usize) -> View {
    View::Broadcast { axes: (0..batch).chain((batch..rank).map(|i| i - batch + axis)).collect() }
}

/// A scatter in canonical form.
pub struct ScatterShape {
    /// The indexed axis.
    pub axis: usize,
    /// Number of shared leading axes.
    pub batch: usize,
    /// How updates at equal indices combine.
    pub combine: Combine,
    /// The base, the indices and the updates.
    pub operands: [Value; 3],
    /// See [`crate::fusion::ScatterBody::extents`].
    pub extents: [usize; 5],
}

impl ScatterShape {
    /// The shape of a scatter node.
    pub fn of(graph: &Graph, node: NodeId) -> ScatterShape {
        let NodeOp::Scatter { axis, batch, combine } = graph.nodes[node].op else {
            crate::bug!("{:?} is no scatter", graph.nodes[node].op)
        };
        let [base, indices, updates] = graph.nodes[node].inputs[..] else {
            crate::bug!("a scatter has three operands")
        };
        let over = |axes: &[usize]| axes.iter().product::<usize>();
        let (shape, index_shape) = (graph.ty(base).extents(), graph.ty(indices).extents());
        let extents = [
            over(&shape[..batch]),
            over(&shape[batch..axis]),
            shape[axis],
            over(&index_shape[batch..]),
            over(&shape[axis + 1..]),
        ];
        ScatterShape { axis, batch, combine, operands: [base, indices, updates], extents }
    }

    /// Rows of updates.
    pub fn n_rows(&self) -> usize {
        let [n_batch, n_before, _, n_indices, _] = self.extents;
        n_batch * n_before * n_indices
    }
}
