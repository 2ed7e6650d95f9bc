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

/// A map, or a row kernel.
impl Work for FusedBody {
    /// A map may compute some of its values once per row; only a reduction makes a row kernel.
    fn kind(&self) -> &'static str {
        if self.has_reductions() { "row" } else { "map" }
    }

    fn lines(&self) -> Vec<String> {
        self.to_string().lines().map(String::from).collect()
    }

    fn bodies(&self) -> Vec<&FusedBody> {
        vec![self]
    }
}

impl FusedBody {
    /// Its text under a title, indented.
    pub fn titled(&self, title: &str) -> Vec<String> {
        let lines = self.lines().into_iter().map(|line| format!("  {line}"));
        [title.to_string()].into_iter().chain(lines).collect()
    }
}
