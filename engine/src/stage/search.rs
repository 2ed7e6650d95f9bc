//! `Search` stages: the extents of their graphs.

use super::declared::expect_data;
use super::{SplitShape, StageIssue};
use crate::ir::{Dim, Symbol};
use crate::pipeline::{Pipeline, SearchStage, StageKind};

/// A search is not rehearsed: its extents are those of its data.
impl StageKind for SearchStage {
    fn keyword(&self) -> &'static str {
        "Search"
    }

    fn expect_declared(&self, _: &str, pipeline: &Pipeline) -> Result<(), StageIssue> {
        expect_data(pipeline, &self.data)
    }
}

/// What the leading extents of the inputs of a search are bound to: `n_rows` queries at a time, `n_base` rows to search.
pub fn search_extents(
    pipeline: &Pipeline,
    queries: &SplitShape,
    n_base: usize,
    n_rows: usize,
) -> Vec<(Symbol, usize)> {
    let mut extents: Vec<(Symbol, usize)> = vec![];
    for decl in &pipeline.inputs {
        let Some((_, field)) = decl.from.as_ref().filter(|(data, _)| *data == queries.data) else { continue };
        let leading =
            pipeline.graph.find(&decl.name).and_then(|value| pipeline.graph.ty(value).shape.first());
        if let Some(Dim::Named(name)) = leading {
            let is_query = queries.fields.iter().any(|(known, _)| known == field);
            extents.push((name.clone(), if is_query { n_rows } else { n_base }));
        }
    }
    extents.sort();
    extents.dedup();
    extents
}
