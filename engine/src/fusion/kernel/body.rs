//! The body of a kernel: a straight-line program over the points of a domain.

use crate::fusion::access::Access;
use crate::fusion::domain::{Class, Domain};
use crate::ir::{DType, Literal, Monoid, NodeId, Requirement, Scalar};

/// Index of an instruction within its body; also names its result.
pub type Reg = usize;

/// One instruction of a body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FusedOp {
    /// Element `access(point) + Σ index·stride` of an operand. Indices are in range already.
    Load {
        /// Index into the kernel's operands.
        operand: usize,
        /// From the class's points to elements.
        access: Access,
        /// A computed (integer) index and its stride in elements, for gathers.
        index: Option<(Reg, i64)>,
    },
    /// A constant.
    Const(Literal),
    /// The integer `access(point)`: a coordinate, or an element's number.
    Coord(Access),
    /// Random bits: Philox4x32-10 at element `access(point)`.
    Random {
        /// The stream of the node.
        stream: u32,
        /// The current step (`Uniform`).
        step: Reg,
        /// The loop iteration (`Uniform`), 0 when absent.
        iteration: Option<Reg>,
        /// From points to the element number in the node's own shape.
        access: Access,
    },
    /// One scalar primitive. Operands of a lower class repeat.
    Scalar(Scalar, Vec<Reg>),
    /// An assertion. If `value` violates the requirement, it records the error of primitive node `site` and yields the
    /// fallback. Points outside a guard of `access` are not checked.
    Check {
        /// The checked register.
        value: Reg,
        /// The condition on it.
        requirement: Requirement,
        /// The node in the primitive graph.
        site: NodeId,
        /// From points to the element number in the node's own shape, for the error.
        access: Access,
    },
    /// Combines an `Element` register along the row into a `Row` result, in the accumulator type.
    Reduce {
        /// How to combine.
        monoid: Monoid,
        /// The combined register.
        value: Reg,
    },
    /// The accumulator of the matmul at this point; only in epilogues.
    Accumulator,
    /// The accumulator of the second matmul at this point; only in the gradient of attention.
    SecondAccumulator,
    /// Passes the value at each point to the row reduction of a matmul. Has no result.
    Fold {
        /// The passed register.
        value: Reg,
    },
    /// Writes to element `access(point) + index·stride` of an operand. Has no result.
    Store {
        /// Index into the kernel's operands.
        operand: usize,
        /// From the class's points to elements.
        access: Access,
        /// The stored register.
        value: Reg,
        /// A computed (integer) index and its stride in elements, for a row of a state that is written in place. It is
        /// `Uniform` and in range already.
        index: Option<(Reg, i64)>,
    },
}

/// An instruction with the type and class of its result (of its value, for a store).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FusedInst {
    /// The instruction.
    pub op: FusedOp,
    /// Element type of the result.
    pub dtype: DType,
    /// How often it is computed.
    pub class: Class,
}

impl FusedInst {
    /// The node that it checks, if it is an assertion.
    pub fn assertion(&self) -> Option<NodeId> {
        match self.op {
            FusedOp::Check { site, .. } => Some(site),
            _ => None,
        }
    }
}

/// A straight-line program over the points of a domain. An instruction comes after its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FusedBody {
    /// The points.
    pub domain: Domain,
    /// The instructions.
    pub insts: Vec<FusedInst>,
}

impl FusedBody {
    /// Whether it has an assertion, which may end the run.
    pub fn has_checks(&self) -> bool {
        self.assertions().next().is_some()
    }

    /// The nodes of its assertions.
    pub fn assertions(&self) -> impl Iterator<Item = NodeId> {
        self.insts.iter().filter_map(FusedInst::assertion)
    }

    /// The register that it passes to the row reduction of a matmul.
    pub fn folded(&self) -> Option<Reg> {
        self.insts.iter().find_map(|inst| match inst.op {
            FusedOp::Fold { value } => Some(value),
            _ => None,
        })
    }

    /// Whether it writes rows in place, whose number it computes.
    pub fn writes_rows(&self) -> bool {
        self.insts.iter().any(|inst| matches!(inst.op, FusedOp::Store { index: Some(_), .. }))
    }

    /// Whether it reduces rows.
    pub fn has_reductions(&self) -> bool {
        self.insts.iter().any(|inst| matches!(inst.op, FusedOp::Reduce { .. }))
    }
}
