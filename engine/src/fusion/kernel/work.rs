//! The interface of kernel kinds.

use super::body::FusedBody;
use crate::ir::NodeId;

/// The work of a kernel of one kind. Each kind implements it in its own file.
pub trait Work {
    /// The name of the kind, for users.
    fn kind(&self) -> &'static str;

    /// The work as text. Operands are numbers.
    fn lines(&self) -> Vec<String>;

    /// The bodies, in the order in which they run.
    fn bodies(&self) -> Vec<&FusedBody> {
        vec![]
    }

    /// Assertions besides those of the bodies.
    fn more_assertions(&self) -> &[NodeId] {
        &[]
    }

    /// Whether it reads all elements of an operand. Otherwise, the loads of the bodies tell which.
    fn reads_whole(&self, _operand: usize) -> bool {
        false
    }

    /// Floating-point operations besides those of the bodies.
    fn more_flops(&self) -> usize {
        0
    }

    /// Bytes of the workspace that the plan places.
    fn workspace_bytes(&self) -> usize {
        0
    }
}
