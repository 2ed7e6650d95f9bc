//! Models of other tools as pipelines.

use std::path::Path;

use engine_core::diag::Diagnostic;
use engine_core::ir::Symbol;
use engine_core::op::Registry;
pub use engine_onnx::Facts;
use engine_onnx::{Imported, Param, import};
use engine_runtime::tensor::{HostTensor, TensorError};
use indexmap::IndexMap;

use crate::Engine;

/// A model that has become a pipeline.
pub struct Model {
    imported: Imported,
    /// Its parameters by name.
    pub weights: IndexMap<String, HostTensor>,
}

impl Model {
    /// The text of the pipeline. If `weights` names a file, a stage loads the parameters from there. `extents` has values
    /// of extents that the model leaves open; see [`Engine::import`].
    ///
    /// ```
    /// use engine::{Engine, Facts};
    /// use std::path::Path;
    ///
    /// let path = Path::new("tests/examples/onnx/mlp_dynamo.onnx");
    /// let imported = Engine::new().import(path, std::fs::read(path)?, &Facts::default());
    /// let text = imported.map_err(|fault| fault.message)?.text(Some("mlp.safetensors"), &[]);
    /// assert!(text.contains("Load(path: \"mlp.safetensors\")"), "{text}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn text(&self, weights: Option<&str>, extents: &[(Symbol, usize)]) -> String {
        self.imported.text(weights, extents)
    }

    /// The open extents that values of inputs settle: input, shape.
    ///
    /// ```
    /// use engine::{Engine, Facts};
    /// use std::path::Path;
    ///
    /// let path = Path::new("tests/examples/onnx/mlp_dynamo.onnx");
    /// let imported = Engine::new().import(path, std::fs::read(path)?, &Facts::default());
    /// let model = imported.map_err(|fault| fault.message)?;
    /// let input = model.inputs().next().ok_or("no input")?;
    /// let extents = model.extents([(input, &[3usize, 4][..])]);
    /// assert!(extents.iter().all(|(_, extent)| [3, 4].contains(extent)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn extents<'s>(
        &self,
        shapes: impl IntoIterator<Item = (&'s str, &'s [usize])>,
    ) -> Vec<(Symbol, usize)> {
        let mut found = vec![];
        for (input, shape) in shapes {
            let Some((_, ty)) = self.imported.inputs().iter().find(|(name, _)| name == input) else {
                continue;
            };
            let pairs = ty.shape.iter().zip(shape).filter(|_| ty.rank() == shape.len());
            found.extend(pairs.filter_map(|(dim, &n)| Some((dim.name()?.clone(), n))));
        }
        found
    }

    /// The names of the inputs.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.imported.inputs().iter().map(|(name, _)| name.as_str())
    }

    /// The names of the model's outputs, each with the name of its node.
    pub fn outputs(&self) -> &[(String, String)] {
        self.imported.outputs()
    }

    /// The number of nodes of the pipeline.
    pub fn n_nodes(&self) -> usize {
        self.imported.n_nodes()
    }
}

impl Engine {
    /// Reads the bytes of an ONNX model. `path` is its place: data in other files must lie in its folder.
    ///
    /// ```
    /// use engine::{Engine, Facts};
    /// use std::path::Path;
    ///
    /// let path = Path::new("tests/examples/onnx/mlp_dynamo.onnx");
    /// let engine = Engine::new();
    /// let model = engine.import(path, std::fs::read(path)?, &Facts::default()).map_err(|fault| fault.message)?;
    /// let program = engine.read("mlp.ron", &model.text(None, &[]))?;
    /// assert_eq!(program.pipeline.params.len(), model.weights.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the bytes are no sound model, or a part of it has no translation.
    pub fn import(&self, path: &Path, bytes: Vec<u8>, facts: &Facts) -> Result<Model, Diagnostic> {
        model(path, bytes, facts, &self.registry)
    }
}

/// As [`Engine::import`], with these ops.
pub(crate) fn model(
    path: &Path,
    bytes: Vec<u8>,
    facts: &Facts,
    registry: &Registry,
) -> Result<Model, Diagnostic> {
    let imported = import(bytes, path, facts, registry)?;
    let tensor = |Param { name, value }: &Param| {
        Ok((name.clone(), HostTensor::from_bytes(value.dtype, &value.dims, &value.bytes)?))
    };
    let weights = imported.params().iter().map(tensor).collect::<Result<_, TensorError>>();
    let weights = weights.unwrap_or_else(|error| engine_core::bug!("an imported tensor: {error}"));
    Ok(Model { imported, weights })
}
