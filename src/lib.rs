//! A compute-graph engine: pipelines written as RON graphs become fused kernels for training and retrieval.
//!
//! This crate puts the parts together: the op families that come along, the data sources, and the command line. A
//! program with ops of its own adds them and keeps everything else:
//!
//! ```no_run
//! # struct MyOps;
//! # impl engine::Plugin for MyOps {
//! #     fn name(&self) -> &str { "mine" }
//! #     fn ops(&self) -> Vec<engine::core::op::OpForm> { vec![] }
//! # }
//! fn main() -> std::process::ExitCode {
//!     engine::cli::main_with(|engine| engine.plugin(MyOps))
//! }
//! ```

pub mod cli;

pub mod devices;

pub use engine_core as core;
pub use engine_runtime as runtime;

pub use engine_core::op::Plugin;
pub use engine_runtime::data::source::Source;

use engine_core::op::Registry;
use engine_math::Math;
use engine_optim::Optim;
use engine_reduce::Reduce;
use engine_runtime::data::source::{DataError, Sources};
use engine_tensor::Tensor;

/// What pipelines can name: ops and data sources.
pub struct Engine {
    /// The ops.
    pub registry: Registry,
    /// The data sources.
    pub sources: Sources,
}

impl Engine {
    /// All that comes along.
    pub fn new() -> Self {
        plugins().into_iter().fold(Engine::bare(), |engine, plugin| engine.plugin_ref(&*plugin))
    }

    /// The built-in data sources, and no op at all.
    pub fn bare() -> Self {
        Engine { registry: Registry::new(), sources: Sources::with_builtin() }
    }

    /// Adds a family of ops.
    ///
    /// # Panics
    /// If one of its ops is there already.
    pub fn plugin(self, plugin: impl Plugin) -> Self {
        self.plugin_ref(&plugin)
    }

    /// Adds a data source; fails if its name is taken.
    pub fn source(mut self, source: impl Source + 'static) -> Result<Self, DataError> {
        self.sources.register(source)?;
        Ok(self)
    }

    fn plugin_ref(mut self, plugin: &dyn Plugin) -> Self {
        self.registry.plugin(plugin);
        self
    }
}

impl Default for Engine {
    fn default() -> Self {
        Engine::new()
    }
}

/// The op families that come along, in the order of the reference.
fn plugins() -> Vec<Box<dyn Plugin>> {
    vec![Box::new(Math), Box::new(Tensor), Box::new(Reduce), Box::new(Optim)]
}
