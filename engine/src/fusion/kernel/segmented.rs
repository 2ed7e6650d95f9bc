//! Segmented maps.

use super::body::FusedBody;
use super::work::Work;
use crate::ir::Literal;

/// One body over a table of segments; the body's operand numbers are slots. Domain row is the longest segment.
/// Accesses of the body are identity (`Element`) or uniform.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentedBody {
    /// The program; `Load`/`Store` accesses are identities over the segment's own points.
    pub body: FusedBody,
    /// The table.
    pub segments: Vec<Segment>,
}

/// One tensor of a segmented map.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Kernel operand of each operand slot of the body.
    pub operands: Vec<usize>,
    /// Number of points.
    pub points: usize,
    /// Constants that replace the body's constants of the same order where segments differ.
    pub constants: Vec<Literal>,
}

impl Work for SegmentedBody {
    fn kind(&self) -> &'static str {
        "segmented map"
    }

    fn lines(&self) -> Vec<String> {
        let segment = |s: &Segment| format!("segment of {}: operands {:?}", s.points, s.operands);
        self.segments.iter().map(segment).chain(self.body.lines()).collect()
    }

    fn bodies(&self) -> Vec<&FusedBody> {
        vec![&self.body]
    }

    fn reads_whole(&self, _operand: usize) -> bool {
        true
    }
}
