//! A compute-graph engine: pipelines written as RON graphs become fused kernels for training and retrieval.
//!
//! This crate combines the parts: the built-in op families, the data sources, and the command line. A program with its
//! own ops adds them and keeps everything else:
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

mod layers;
mod pages;

pub use engine_core as core;
pub use engine_runtime as runtime;

pub use engine_core::op::Plugin;
pub use engine_runtime::data::source::Source;

use std::sync::Arc;

use engine_attention::Attention;
use engine_core::compile::Options;
use engine_core::diag::{Diagnostics, Look};
use engine_core::front;
use engine_core::op::Registry;
use engine_core::pipeline::Pipeline;
use engine_index::Index;
use engine_math::Math;
use engine_norm::Norm;
use engine_optim::Optim;
use engine_order::Order;
use engine_reduce::Reduce;
use engine_runtime::data::source::{DataError, LoadContext, Sources};
use engine_runtime::device::Device;
use engine_runtime::session::{self, CompilingPlanner, Session, SessionError};
use engine_sample::Sample;
use engine_tensor::Tensor;

/// The ops and data sources that pipelines can name.
pub struct Engine {
    /// The ops.
    pub registry: Registry,
    /// The data sources.
    pub sources: Sources,
}

impl Engine {
    /// The built-in ops, layers and data sources.
    pub fn new() -> Self {
        let engine = plugins().into_iter().fold(Engine::bare(), |engine, plugin| engine.plugin_ref(&*plugin));
        layers::ALL.iter().fold(engine, |engine, (name, text)| engine.functions(name, text))
    }

    /// The built-in data sources without any op.
    pub fn bare() -> Self {
        let mut sources = Sources::default();
        engine_digits::register(&mut sources)
            .unwrap_or_else(|error| engine_core::bug!("built-in sources: {error}"));
        sources.add_builtin();
        Engine { registry: Registry::new(), sources }
    }

    /// Adds a family of ops.
    ///
    /// # Panics
    /// If one of its ops exists already.
    pub fn plugin(self, plugin: impl Plugin) -> Self {
        self.plugin_ref(&plugin)
    }

    /// Adds the functions and layers that a text `(functions: {…})` defines. `name` is the name of the text in errors.
    ///
    /// # Panics
    /// If the text has an error. The message is the one that the command line would print.
    pub fn functions(mut self, name: &str, text: &str) -> Self {
        front::add_library(&mut self.registry, name, text).unwrap_or_else(|errors| panic!("{errors}"));
        self
    }

    /// Adds a data source. Fails if its name is taken.
    pub fn source(mut self, source: impl Source + 'static) -> Result<Self, DataError> {
        self.sources.register(source)?;
        Ok(self)
    }

    /// Reads a pipeline. `name` is the name of the text in errors. Functions of the pipeline become ops.
    ///
    /// # Errors
    /// All errors of the text, as the command line would print them.
    pub fn read(&mut self, name: &str, text: &str) -> Result<Pipeline, String> {
        let mut files = engine_core::diag::Sources::new();
        let mut diagnostics = Diagnostics::new();
        let file = files.add(name, text);
        front::load(&mut files, file, &mut self.registry, &[], &[], &mut diagnostics)
            .ok_or_else(|| diagnostics.render(&files, Look::Plain))
    }

    /// A session of a pipeline on a device, with its data loaded. It is compiled with these options, for the abilities
    /// and streams of the device.
    ///
    /// # Errors
    /// If data is unavailable or the device has no room for the parameters.
    pub fn session(
        self,
        pipeline: Pipeline,
        device: Arc<dyn Device>,
        data: &LoadContext,
        options: Options,
        tell: &mut session::Subscriber<'_>,
    ) -> Result<Session, SessionError> {
        let pipeline = Arc::new(pipeline);
        let sets = session::load_data(&pipeline, &self.sources, data, tell)?;
        let options = Options { device: device.model(), ..options };
        let planner = CompilingPlanner::new(Arc::clone(&pipeline), self.registry, options);
        Session::new(pipeline, Arc::new(planner), device, sets)
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

/// The built-in op families, in the order of the reference.
fn plugins() -> Vec<Box<dyn Plugin>> {
    vec![
        Box::new(Math),
        Box::new(Tensor),
        Box::new(Index),
        Box::new(Reduce),
        Box::new(Order),
        Box::new(Norm),
        Box::new(Attention),
        Box::new(Sample),
        Box::new(Optim),
    ]
}
