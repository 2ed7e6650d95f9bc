//! Graphs of pipelines as ONNX models.

use engine_core::diag::Diagnostic;
use engine_core::ir::Symbol;
use engine_core::op::Registry;
use engine_core::pipeline::{Mode, Pipeline};
use engine_core::stage::{StageIssue, inference};
use engine_onnx::{Stored, export};
use engine_runtime::tensor::HostTensor;
use indexmap::IndexMap;

use crate::Program;

/// Why a graph is no model.
pub(crate) enum Refused {
    /// The pipeline has no such graph.
    Stage(StageIssue),
    /// A part of the graph has no counterpart.
    Model(Diagnostic),
}

impl Program {
    /// An ONNX model of some nodes, with the values of parameters and state by name. Ops behave as in inference. `extents`
    /// gives numbers for named extents of inputs; the model has them fixed.
    ///
    /// # Errors
    /// If there is no such node, an extent is open, a value is missing, or a part has no counterpart in ONNX.
    pub fn export(
        &self,
        weights: &IndexMap<String, HostTensor>,
        outputs: &[Symbol],
        extents: &[(Symbol, usize)],
    ) -> Result<Vec<u8>, Diagnostic> {
        model((&self.pipeline, &self.registry), weights, outputs, extents).map_err(|refused| match refused {
            Refused::Model(diagnostic) => diagnostic,
            Refused::Stage(issue) => {
                let mut diagnostic = Diagnostic::error(issue.code, issue.message);
                issue.help.into_iter().for_each(|help| _ = diagnostic.help(help));
                diagnostic
            }
        })
    }
}

/// As [`Program::export`].
pub(crate) fn model(
    (pipeline, registry): (&Pipeline, &Registry),
    weights: &IndexMap<String, HostTensor>,
    outputs: &[Symbol],
    extents: &[(Symbol, usize)],
) -> Result<Vec<u8>, Refused> {
    let named: Vec<(Symbol, Symbol)> = outputs.iter().map(|node| (node.clone(), node.clone())).collect();
    let behaviour = (Mode::Eval, pipeline.precision);
    let graph = inference(pipeline, &named, extents, behaviour).map_err(Refused::Stage)?;
    let weight = |name: &str| {
        let value = weights.get(name)?;
        Some(Stored::new(value.dtype(), value.shape().to_vec(), value.bytes().to_vec().into()))
    };
    export(&graph, registry, &weight).map_err(Refused::Model)
}
