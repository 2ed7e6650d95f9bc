//! The node that made the first NaN or infinity.

use std::fmt;

use engine_core::diag::Span;

/// The origin of a NaN or an infinity.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// The step, counted from 0; within a step of several batches it counts those.
    pub step: u64,
    /// The node, one of the simplified graph; none if the interpreter makes no such number out of the same operands.
    pub node: Option<OriginNode>,
}

/// The node of an [`Origin`].
#[derive(Clone, Debug, PartialEq)]
pub struct OriginNode {
    /// The node with its type.
    pub name: String,
    /// Its operation, such as `log(x)`.
    pub formula: String,
    /// Where that is written.
    pub span: Option<Span>,
    /// The iterations of the loops around it, counted from 0, from the outermost loop on.
    pub trips: Vec<usize>,
    /// NaN, or an infinity.
    pub value: f64,
    /// The coordinates of the first such element.
    pub position: Vec<usize>,
    /// Its operands with their values.
    pub operands: Vec<String>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = self.step;
        match &self.node {
            Some(OriginNode { name, formula, trips, value, position, .. }) => {
                write!(f, "step {step}")?;
                trips.iter().try_for_each(|trip| write!(f, ", iteration {trip}"))?;
                write!(f, ": `{name} = {formula}` is the first to make {value}, at {position:?}")
            }
            None => write!(
                f,
                "step {step} left a number that is none, but the interpreter makes none of the same operands"
            ),
        }
    }
}
