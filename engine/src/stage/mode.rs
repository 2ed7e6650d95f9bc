//! Whether ops behave as in training.

use crate::ir::{Attr, AttrKind, Graph, NodeOp};
use crate::pipeline::Mode;

/// Decides what calls have left open for the stage. From here on the mode is a constant, so that the simplifier drops
/// what has no effect in it.
pub(super) fn set_mode(graph: &mut Graph, mode: Mode) {
    for node in &mut graph.nodes {
        if let NodeOp::Call(call) = &mut node.op {
            for spec in call.op.attrs().iter().filter(|spec| spec.kind == AttrKind::Mode) {
                let attr = call.attrs.0.entry(spec.name.as_str().into()).or_insert(Attr::None);
                if *attr == Attr::None {
                    *attr = Attr::from(mode == Mode::Train);
                }
            }
        }
        node.regions.iter_mut().for_each(|region| set_mode(region, mode));
    }
}
