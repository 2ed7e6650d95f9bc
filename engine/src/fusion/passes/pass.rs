//! The form of a fusion pass.

use crate::fusion::graph::FusionGraph;
use crate::fusion::groups::FusionGroups;
use crate::fusion::kernel::Kernel;
use crate::fusion::legality::{Refusal, can_join};
use crate::fusion::settings::Settings;

/// One fusion pass: it merges groups of nodes, or joins finished kernels.
pub trait FusionPass: Sync {
    /// Its name, which `--without` takes.
    fn name(&self) -> &'static str;

    /// Its effect, in one sentence.
    fn about(&self) -> &'static str;

    /// A graph that shows its effect: its test.
    fn example(&self) -> Example;

    /// Whether it may pay on the device.
    fn pays_on(&self, _settings: &Settings) -> bool {
        true
    }

    /// Merges groups where that is legal and pays.
    fn grow(&self, _groups: &mut FusionGroups) {}

    /// Joins kernels after all groups are built.
    fn join_kernels(&self, _graph: &FusionGraph, _settings: &Settings, kernels: Vec<Kernel>) -> Vec<Kernel> {
        kernels
    }
}

/// A graph with its kernels, one per line as `kind: reads -> writes`.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// The graph, as text.
    pub graph: &'static str,
    /// The kernels with all passes.
    pub with: &'static str,
    /// The kernels without the pass.
    pub without: &'static str,
}

/// Merges group `from` into group `to`, if that is legal and fuel is left.
pub fn join(groups: &mut FusionGroups, from: usize, to: usize) -> Result<(), Refusal> {
    if groups.groups[from].members.is_empty() || groups.groups[to].members.is_empty() {
        return Err("one of them is already merged");
    }
    if groups.fuel == 0 {
        return Err("there is no fuel left");
    }
    let joined = can_join(groups, from, to)?;
    groups.fuel -= 1;
    groups.merge(from, to, joined.kind, |node| joined.places[&node]);
    Ok(())
}
