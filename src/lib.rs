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

pub mod build;

pub mod cli;

pub mod devices;

mod export;
mod import;

mod layers;
mod pages;
mod program;

/// The examples of `docs/embedding.md`, which are tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/embedding.md")]
struct Embedding;

pub use engine_core as core;
pub use engine_runtime as runtime;

pub use engine_core::op::Plugin;
pub use engine_runtime::data::source::Source;
pub use import::{Facts, Model};
pub use program::{Faults, Program};

use std::sync::Arc;

use engine_attention::Attention;
use engine_core::compile::Options;
use engine_core::diag::Diagnostics;
use engine_core::front;
use engine_core::op::Registry;
use engine_index::Index;
use engine_linalg::Linalg;
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
use engine_vision::Vision;

/// The ops and data sources that pipelines can name. One engine reads any number of pipelines.
///
/// ```
/// use engine::Engine;
///
/// let engine = Engine::new();
/// for name in ["exp", "sin"] {
///     let text = format!(r#"(inputs: {{"x": "f32[B]"}}, nodes: {{"y": "{name}(x)"}})"#);
///     assert_eq!(engine.read(name, &text)?.graph.nodes.len(), 2);
/// }
/// # Ok::<(), engine::Faults>(())
/// ```
pub struct Engine {
    /// The ops.
    pub registry: Registry,
    /// The data sources.
    pub sources: Sources,
}

impl Engine {
    /// The built-in ops, layers and data sources.
    ///
    /// ```
    /// assert!(engine::Engine::new().registry.op("relu").is_some());
    /// ```
    pub fn new() -> Self {
        let with_plugins =
            plugins().iter().try_fold(Engine::bare(), |engine, plugin| engine.plugin_ref(&**plugin));
        let mut engine = with_plugins.unwrap_or_else(|faults| engine_core::bug!("built-in ops: {faults}"));
        layers::ALL.iter().for_each(|&text| front::add_sound_library(&mut engine.registry, text));
        engine
    }

    /// The built-in data sources without any op.
    ///
    /// ```
    /// assert_eq!(engine::Engine::bare().registry.ops().count(), 0);
    /// ```
    pub fn bare() -> Self {
        let mut sources = Sources::default();
        [engine_digits::register, engine_laws::register]
            .into_iter()
            .try_for_each(|register| register(&mut sources))
            .unwrap_or_else(|error| engine_core::bug!("built-in sources: {error}"));
        sources.add_builtin();
        Engine { registry: Registry::new(), sources }
    }

    /// Adds a family of ops.
    ///
    /// ```
    /// use engine::{Engine, Plugin};
    /// use engine::core::op::OpForm;
    ///
    /// struct Mine(&'static str);
    ///
    /// impl Plugin for Mine {
    ///     fn name(&self) -> &str {
    ///         "mine"
    ///     }
    ///
    ///     fn ops(&self) -> Vec<OpForm> {
    ///         vec![OpForm::unary(self.0, "Squares.", |dtype| dtype.is_float(), |x| x * x)]
    ///     }
    /// }
    ///
    /// assert!(Engine::new().plugin(Mine("my_square")).is_ok());
    /// let faults = Engine::new().plugin(Mine("relu")).err().ok_or("there is a relu")?;
    /// assert!(faults.to_string().starts_with("error[E0302]: the op `relu` is registered twice"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If one of its names is taken.
    pub fn plugin(self, plugin: impl Plugin) -> Result<Self, Faults> {
        self.plugin_ref(&plugin)
    }

    /// Adds the functions and layers that a text `(functions: {…})` defines. `name` is the name of the text in errors.
    ///
    /// ```
    /// use engine::Engine;
    ///
    /// let mine = r#"(functions: {"twice": (inputs: ["x"], output: "x + x", summary: "Doubles.")})"#;
    /// let engine = Engine::new().functions("mine.ron", mine)?;
    /// engine.read("y.ron", r#"(inputs: {"x": "f32[B]"}, nodes: {"y": "twice(x)"})"#)?;
    /// assert!(Engine::new().functions("mine.ron", "(functions: {}").is_err());
    /// # Ok::<(), engine::Faults>(())
    /// ```
    ///
    /// # Errors
    /// All errors of the text.
    pub fn functions(mut self, name: &str, text: &str) -> Result<Self, Faults> {
        let (mut files, mut diagnostics) = (engine_core::diag::Sources::new(), Diagnostics::new());
        front::add_library(&mut files, &mut self.registry, (name, text), &mut diagnostics);
        match diagnostics.has_errors() {
            true => Err(Faults::of(&diagnostics, &files)),
            false => Ok(self),
        }
    }

    /// Adds a data source.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::runtime::data::source::{InMemory, Split};
    /// use engine::runtime::tensor::HostTensor;
    ///
    /// let rows = (0..8).map(|i| Ok([HostTensor::scalar(i as f32)]));
    /// let rows = rows.collect::<Result<Vec<_>, Box<dyn std::error::Error>>>()?;
    /// let ramp = InMemory::new("ramp").split("train", Split::from_rows(["x"], rows)?);
    /// let engine = Engine::new().source(ramp)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If its name is taken.
    pub fn source(mut self, source: impl Source + 'static) -> Result<Self, DataError> {
        self.sources.register(source)?;
        Ok(self)
    }

    /// Reads a pipeline. `name` is the name of the text in errors. Functions of the pipeline become ops of the program
    /// alone, so an engine reads any number of pipelines.
    ///
    /// ```
    /// use engine::Engine;
    ///
    /// let engine = Engine::new();
    /// let program = engine.read("half.ron", r#"(inputs: {"x": "f32[B]"}, nodes: {"y": "x / 2"})"#)?;
    /// assert_eq!(program.graph.nodes.len(), 3, "the input, the number and the quotient");
    /// let faults = engine.read("half.ron", r#"(inputs: {"x": "f32[B]"}, nodes: {"y": "z / 2"})"#).unwrap_err();
    /// assert_eq!(faults.diagnostics()[0].message, "nothing is called `z`");
    /// # Ok::<(), engine::Faults>(())
    /// ```
    ///
    /// # Errors
    /// All errors of the text.
    pub fn read(&self, name: &str, text: &str) -> Result<Program, Faults> {
        let mut files = engine_core::diag::Sources::new();
        let mut diagnostics = Diagnostics::new();
        let mut registry = self.registry.clone();
        let file = files.add(name, text);
        match front::load(&mut files, file, &mut registry, &[], &[], &mut diagnostics) {
            Some(pipeline) => Ok(Program { pipeline, registry }),
            None => Err(Faults::of(&diagnostics, &files)),
        }
    }

    /// A session of a program on a device, with its data loaded. It is compiled with these options, for the abilities
    /// and streams of the device.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::core::compile::Options;
    /// use engine::devices::{self, Choice};
    /// use engine::runtime::data::source::LoadContext;
    ///
    /// let engine = Engine::new();
    /// let text = r#"(nodes: {"y": "arange(stop=4) * 3"}, stages: {"go": Run(outputs: ["y"])})"#;
    /// let device = devices::open(Choice::Cpu, Some(1))?.device;
    /// let data = LoadContext::offline_in(".".as_ref());
    /// let program = engine.read("threes.ron", text)?;
    /// let mut session = engine.session(program, device, &data, Options::default(), &mut |_| {})?;
    /// let report = session.run_stages(None, &mut |_| {})?;
    /// assert_eq!(report.outputs["y"].values.to_f64(), [0.0, 3.0, 6.0, 9.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If data is unavailable or the device has no room for the parameters.
    pub fn session(
        &self,
        program: Program,
        device: Arc<dyn Device>,
        data: &LoadContext,
        options: Options,
        tell: &mut session::Subscriber<'_>,
    ) -> Result<Session, SessionError> {
        let pipeline = Arc::new(program.pipeline);
        let sets = session::load_data(&pipeline, &self.sources, data, tell)?;
        let options = Options { device: device.model(), ..options };
        let planner = CompilingPlanner::new(Arc::clone(&pipeline), program.registry, options);
        Session::new(pipeline, Arc::new(planner), device, sets)
    }

    fn plugin_ref(mut self, plugin: &dyn Plugin) -> Result<Self, Faults> {
        self.registry.plugin(plugin);
        let mut diagnostics = Diagnostics::new();
        self.registry.taken().for_each(|fault| _ = diagnostics.push(fault));
        match diagnostics.has_errors() {
            true => Err(Faults::of(&diagnostics, &engine_core::diag::Sources::new())),
            false => Ok(self),
        }
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
        Box::new(Linalg),
        Box::new(Norm),
        Box::new(Attention),
        Box::new(Sample),
        Box::new(Vision),
        Box::new(Optim),
    ]
}
