//! Scan kernels.

use super::work::Work;
use crate::fusion::domain::{Class, Domain};
use crate::ir::{Graph, Monoid, Value};

/// An inclusive prefix combine along the rows of a domain: operand 0 to operand 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanBody {
    /// How to combine.
    pub monoid: Monoid,
    /// Rows run along `row`.
    pub domain: Domain,
}

impl ScanBody {
    /// The scan of a value along an axis.
    pub fn new(graph: &Graph, value: Value, monoid: Monoid, axis: usize) -> ScanBody {
        ScanBody { monoid, domain: Domain::of_reduction(&graph.ty(value).extents(), &[axis]) }
    }
}

impl Work for ScanBody {
    fn kind(&self) -> &'static str {
        "scan"
    }

    fn lines(&self) -> Vec<String> {
        let Domain { outer, row, inner } = self.domain;
        vec![format!("scan {} over [{outer}, {row}, {inner}]", self.monoid.name())]
    }

    fn reads_whole(&self, _operand: usize) -> bool {
        true
    }

    fn more_flops(&self) -> usize {
        self.domain.points(Class::Element)
    }
}
