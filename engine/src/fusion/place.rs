//! The place of a node in the domain of its kernel.

use super::domain::{Class, Domain};
use super::graph::{Edge, FusionGraph};
use crate::ir::{NodeId, NodeOp};

/// The place of a node in the domain of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At every point.
    Element,
    /// Once per row.
    Row,
    /// Beside a matmul: a sum of one of its operands.
    Side,
    /// Behind a matmul: a reduction of the rows of its result.
    Fold,
}

impl Place {
    /// The place of a node among the points and rows of a domain, if it has one.
    pub fn of(graph: &FusionGraph, node: NodeId, domain: Domain) -> Option<Place> {
        let n_points = graph.numel(node);
        match graph.op(node) {
            NodeOp::Scatter { .. } => None,
            op if op.is_whole() => None,
            NodeOp::Reduce { .. } => (reduced_domain(graph, node) == domain).then_some(Place::Row),
            _ if n_points == domain.points(Class::Element) => Some(Place::Element),
            _ if n_points == domain.points(Class::Row) => Some(Place::Row),
            _ => None,
        }
    }

    /// Whether a node at this place reads over `edge` only its own elements, or those of its row, of a producer at `from`.
    pub fn reads_own(
        self,
        graph: &FusionGraph,
        node: NodeId,
        edge: &Edge,
        from: Place,
        domain: Domain,
    ) -> bool {
        let is_reduce = matches!(graph.op(node), NodeOp::Reduce { .. });
        let reads_at = if is_reduce { Place::Element } else { self };
        let is_own = |class: Class| edge.access.is_identity(domain.points(class));
        match (from, reads_at) {
            _ if edge.indexed => false,
            (Place::Element, Place::Element) => is_own(Class::Element),
            (Place::Row, Place::Row) => is_own(Class::Row),
            (Place::Row, Place::Element) => edge.access.is_row_pattern(domain),
            _ => false,
        }
    }

    /// The place of the producer of an edge, if a node at this place reads only its own elements or those of its row.
    pub fn of_producer(
        self,
        graph: &FusionGraph,
        node: NodeId,
        edge: &Edge,
        domain: Domain,
    ) -> Option<Place> {
        [Place::Element, Place::Row].into_iter().find(|&from| self.reads_own(graph, node, edge, from, domain))
    }
}

/// The domain of a reduction.
pub fn reduced_domain(graph: &FusionGraph, node: NodeId) -> Domain {
    let NodeOp::Reduce { axes, .. } = graph.op(node) else {
        crate::bug!("`{}` reduces nothing", graph.ir.nodes[node].name())
    };
    Domain::of_reduction(&graph.ir.ty(graph.ir.nodes[node].inputs[0]).extents(), axes)
}
