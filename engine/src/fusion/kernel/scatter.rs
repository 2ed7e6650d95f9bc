//! Scatter kernels.

use super::body::{FusedBody, FusedInst, FusedOp, Reg};
use super::work::Work;
use crate::fusion::domain::Class;
use crate::ir::Combine;

/// `out = base; out[…, idx, …] combine= updates` with shapes as in [`crate::ir::NodeOp::Scatter`]. The kernel loads or
/// computes base, indices and updates.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterBody {
    /// Extents: shared leading axes, free axes before the indexed one, the indexed axis, number of indices (per shared
    /// leading index), free axes after.
    pub extents: [usize; 5],
    /// How updates at equal indices combine.
    pub combine: Combine,
    /// Whether sums follow the order of the indices even on a device with a faster unordered way. `Set` always leaves the
    /// last update in that order.
    pub in_order: bool,
    /// Stores the result as it is before the first update (domain `outer = leading · before · indexed`, `row = after`).
    pub base: FusedBody,
    /// Computes indices and updates (domain `outer = leading · before · indices`, `row = after`); stores nothing.
    pub updates: FusedBody,
    /// The register of `updates` that holds an index, one for each row. All registers before it are of rows as well.
    pub index: Reg,
    /// The register of `updates` that holds an update.
    pub update: Reg,
    /// The kernel operand of the result.
    pub result: usize,
}

impl ScatterBody {
    /// The operand that the base is a plain copy of, if it is.
    pub fn copied_base(&self) -> Option<usize> {
        match &self.base.insts[..] {
            [FusedInst { op: FusedOp::Load { operand, access, index: None }, .. }, _] => {
                access.is_identity(self.base.domain.points(Class::Element)).then_some(*operand)
            }
            _ => None,
        }
    }
}

impl Work for ScatterBody {
    fn kind(&self) -> &'static str {
        "scatter"
    }

    fn lines(&self) -> Vec<String> {
        let order = if self.in_order { ", in order" } else { "" };
        let mut lines = vec![format!("{:?} over {:?}{order}", self.combine, self.extents)];
        lines.extend(self.base.titled("base"));
        lines.extend(self.updates.titled(&format!("update %{} at %{}", self.update, self.index)));
        lines
    }

    fn bodies(&self) -> Vec<&FusedBody> {
        vec![&self.base, &self.updates]
    }

    fn more_flops(&self) -> usize {
        self.updates.domain.points(Class::Element)
    }
}
