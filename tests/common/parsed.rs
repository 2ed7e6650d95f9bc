//! Pipelines from text.

use engine::core::diag::{Diagnostics, Look, Sources};
use engine::core::front;
use engine::core::op::Registry;
use engine::core::pipeline::Pipeline;

/// The pipeline in a text. Its functions join the registry.
pub fn parsed(name: &str, text: String, registry: &mut Registry) -> Pipeline {
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let id = sources.add(name, &*text);
    let pipeline = front::load(&mut sources, id, registry, &[], &[], &mut diags);
    pipeline.unwrap_or_else(|| panic!("{}\n{text}", diags.render(&sources, Look::Plain)))
}
