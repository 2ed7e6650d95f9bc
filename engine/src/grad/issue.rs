//! Values without a gradient.

use crate::diag::Span;
use crate::ir::{Node, Symbol};

/// Why there is no gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GradIssue {
    /// The node without a gradient.
    pub node: Symbol,
    /// The reason, stated by its op.
    pub why: String,
    /// The place of the node in the source, if it has one.
    pub span: Option<Span>,
}

impl GradIssue {
    pub(super) fn at(node: &Node, why: &str) -> GradIssue {
        GradIssue { node: node.name().clone(), why: why.to_string(), span: node.span }
    }
}
