//! Sessions without data files.

use engine::Engine;
use engine::core::compile::Options;
use engine::runtime::data::source::LoadContext;
use engine::runtime::device::Device;
use engine::runtime::session::Session;
use std::path::Path;
use std::sync::Arc;

/// A session of the pipeline in a text.
pub fn session(text: &str, device: Arc<dyn Device>, options: Options) -> Session {
    let engine = Engine::new();
    let pipeline = engine.read("test.ron", text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let data = LoadContext::offline_in(Path::new("no/such/folder"));
    engine.session(pipeline, device, &data, options, &mut |_| {}).unwrap()
}
