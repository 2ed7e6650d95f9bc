//! `Norms`: a stage kind that reports the 2-norms of nodes, such as parameters.

use engine::core::front::{StageForm, StageReader};
use engine::core::ir::Symbol;
use engine::core::pipeline::StageKind;
use engine::runtime::session::StageReport;
use engine::runtime::session::stages::{Runnable, StageRun, Stopped};
use std::time::Instant;

/// A `Norms` stage: names in the report, each with a node that needs no input.
#[derive(Clone, Debug, PartialEq)]
pub struct Norms {
    of: Vec<(Symbol, Symbol)>,
}

/// `Norms(["w", "b"])`
pub const NORMS: StageForm = StageForm {
    keyword: "Norms",
    summary: "Reports the 2-norms of nodes.",
    read: |reader, value| {
        let mut fields = reader.choice(value, "a `Norms` stage", &["of"])?;
        let of = fields.required("of", StageReader::outputs);
        fields.finish();
        Some(Norms { of: of? }.into())
    },
};

impl StageKind for Norms {
    fn keyword(&self) -> &'static str {
        NORMS.keyword
    }
}

impl Runnable for Norms {
    fn run(&self, run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        let start = Instant::now();
        let nodes: Vec<Symbol> = self.of.iter().map(|(_, node)| node.clone()).collect();
        let values = run.session.run(&nodes, &Default::default())?;
        let norm = |node: &Symbol| values[&**node].to_f64().iter().map(|x| x * x).sum::<f64>().sqrt();
        let metrics = self.of.iter().map(|(name, node)| (name.to_string(), norm(node))).collect();
        Ok(Some(StageReport { metrics, ..run.report("norms", start) }))
    }
}
