//! `Search` stages.

use super::feeds::Feeds;
use super::form::StageForm;
use super::reader::StageReader;
use crate::diag::Code;
use crate::front::Ron;
use crate::ir::{DType, Symbol};
use crate::pipeline::{Mode, SearchStage};

pub(super) const SEARCH: StageForm = StageForm {
    keyword: "Search",
    summary: "Finds the nearest rows of a base for each query, and measures them against the truth.",
    read: |reader, value| Some(reader.search(value)?.into()),
};

/// The files of `ids` and of `distances`.
type Files = (Option<String>, Option<String>);

impl StageReader<'_> {
    fn search(&mut self, value: &Ron) -> Option<SearchStage> {
        let mut fields = self.fields(value, "a `Search` stage")?;
        let data = fields.required("data", StageReader::data);
        let batch = fields.or("batch", 1024, StageReader::count);
        let ids =
            fields.required("ids", |reader, v, what| reader.found(v, what, |dtype| dtype == DType::I32));
        let distances =
            fields.optional("distances", |reader, v, what| reader.found(v, what, DType::is_float));
        let certified = fields
            .optional("certified", |reader, v, what| reader.of_query(v, what, |dtype| dtype == DType::Bool));
        let scanned = fields
            .optional("scanned", |reader, v, what| reader.of_query(v, what, |dtype| dtype == DType::I32));
        let write = fields.or("write", (None, None), StageReader::files);
        let mode = fields.or("mode", Mode::Eval, StageReader::mode);
        let precision = fields.precision();
        fields.finish();
        let (ids, distances, (ids_file, distances_file)) = (ids?, distances?, write?);
        let (certified, scanned) = (certified?, scanned?);
        if distances_file.is_some() && distances.is_none() {
            let message = "distances are written, but no node is named for them";
            self.error(
                Code::E0011,
                value.span,
                message,
                "add `distances: \"…\"`, or leave them out of `write`",
            );
            return None;
        }
        let nodes = [(Some(&ids), ids_file), (distances.as_ref(), distances_file)];
        let write = nodes.into_iter().filter_map(|(node, file)| Some((node?.clone(), file?))).collect();
        let (data, batch, mode, precision) = (data?, batch?, mode?, precision?);
        let search = SearchStage { data, batch, mode, precision, ids, distances, certified, scanned, write };
        let [_, queries] = search.splits();
        self.check_feeds(search.outputs(), &Feeds::batches(value.span, Some(&queries)));
        Some(search)
    }

    /// A node of the results of a search: one row for each query.
    fn found(&mut self, value: &Ron, what: &str, fits: fn(DType) -> bool) -> Option<Symbol> {
        let node = self.value(value)?;
        let ty = self.pipeline.graph.ty(node);
        let rest_is_known = ty.shape.iter().skip(1).all(|dim| dim.fixed().is_some());
        if ty.rank() != 2 || !fits(ty.dtype) || !rest_is_known {
            let kind = if what == "`ids`" { "i32" } else { "floats" };
            let message = format!("{what} are {kind} [queries, k], `{}` is {ty}", self.symbol(node));
            self.diags.error(Code::E0205, value.span, message).help("`nearest` and `topk` make such a pair");
            return None;
        }
        Some(self.symbol(node))
    }

    /// A node of one element for each query.
    fn of_query(&mut self, value: &Ron, what: &str, fits: fn(DType) -> bool) -> Option<Symbol> {
        let node = self.value(value)?;
        let ty = self.pipeline.graph.ty(node);
        if ty.rank() != 1 || !fits(ty.dtype) {
            let kind = if fits(DType::Bool) { "bool" } else { "i32" };
            let message = format!("{what} is {kind} [queries], `{}` is {ty}", self.symbol(node));
            let help = format!("`nearest` has such a result: `….{}`", what.trim_matches('`'));
            self.diags.error(Code::E0205, value.span, message).help(help);
            return None;
        }
        Some(self.symbol(node))
    }

    /// `(ids: "ids.ivecs", distances: "distances.fvecs")`
    fn files(&mut self, value: &Ron, what: &str) -> Option<Files> {
        let mut fields = self.fields(value, what)?;
        let ids = fields.optional("ids", StageReader::file);
        let distances = fields.optional("distances", StageReader::file);
        fields.finish();
        Some((ids?, distances?))
    }
}
