//! Pipelines that were read.

use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};

use engine_core::diag::{Code, Diagnostic, Diagnostics, Look, Sources};
use engine_core::op::Registry;
use engine_core::pipeline::Pipeline;

/// A pipeline with the ops that it calls: those of the [`Engine`](crate::Engine) and its own functions.
#[derive(Clone)]
pub struct Program {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// The ops.
    pub registry: Registry,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("pipeline", &self.pipeline.name).finish_non_exhaustive()
    }
}

impl Deref for Program {
    type Target = Pipeline;
    fn deref(&self) -> &Pipeline {
        &self.pipeline
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut Pipeline {
        &mut self.pipeline
    }
}

/// The errors of a text, with codes that `docs/errors/` explains. They print as the command line prints them.
///
/// ```
/// use engine::Engine;
/// use engine::core::diag::Code;
///
/// let Err(faults) = Engine::new().read("sum.ron", r#"(nodes: {"y": "x + 1"})"#) else { panic!() };
/// assert_eq!(faults.codes(), [Code::E0101]);
/// assert!(faults.to_string().contains("sum.ron:1:16"));
/// ```
pub struct Faults {
    diagnostics: Vec<Diagnostic>,
    text: String,
}

impl Faults {
    pub(crate) fn of(diagnostics: &Diagnostics, sources: &Sources) -> Faults {
        let text = diagnostics.render(sources, Look::Plain);
        Faults { diagnostics: diagnostics.sorted().into_iter().cloned().collect(), text }
    }

    /// Errors and warnings in the order of their places.
    ///
    /// ```
    /// use engine::Engine;
    ///
    /// let faults = Engine::new().read("p.ron", r#"(nodes: {"y": "reul(1.0)"})"#).unwrap_err();
    /// let fault = &faults.diagnostics()[0];
    /// assert_eq!(fault.message, "there is no op `reul`");
    /// ```
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Their codes.
    ///
    /// ```
    /// use engine::Engine;
    ///
    /// let faults = Engine::new().read("p.ron", r#"(nodes: {"y": "reul(1.0)"}, seeds: 3)"#).unwrap_err();
    /// assert_eq!(faults.codes().iter().map(ToString::to_string).collect::<Vec<_>>(), ["E0105", "E0012"]);
    /// ```
    pub fn codes(&self) -> Vec<Code> {
        self.diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text of the errors, so that `unwrap` shows them.
impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Faults {}
