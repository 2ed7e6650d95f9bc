//! Stages, an open set of kinds: each is a form that reads its fields.

mod evaluate;
mod feeds;
mod fields;
mod form;
mod generate;
mod given;
mod gradients;
mod load;
mod optimizer;
mod predict;
mod reader;
mod repeat;
mod run;
mod save;
mod schedule;
mod search;
mod selection;
mod train;

pub use feeds::Feeds;
pub use fields::StageFields;
pub use form::StageForm;
pub use given::given_text;
pub use reader::StageReader;

use super::dims::Dims;
use super::functions::Functions;
use super::scope::Scope;
use crate::diag::{Code, Diagnostics};
use crate::front::fields::report_unknown;
use crate::front::{Ron, entries};
use crate::op::{Form, Registry};
use crate::pipeline::{Pipeline, Stage, StageIssue};
use crate::stage::expect_parts;
use std::collections::HashSet;

impl Form for StageForm {
    const SET: &'static str = "stage kind";

    fn name(&self) -> &str {
        self.keyword
    }

    fn builtin() -> &'static [Self] {
        &[
            train::TRAIN,
            evaluate::EVALUATE,
            predict::PREDICT,
            run::RUN,
            search::SEARCH,
            generate::GENERATE,
            save::SAVE,
            load::LOAD,
            repeat::REPEAT,
        ]
    }
}

/// Reads `stages: {…}` into a pipeline whose graph is complete, and reports parts of stages that cannot be.
pub(super) fn add(
    value: &Ron,
    pipeline: &mut Pipeline,
    context: (&Scope, &Dims, &Functions),
    registry: &Registry,
    diags: &mut Diagnostics,
) {
    pipeline.stages = read(value, pipeline, context, registry, diags);
    // Without errors, every declared stage is there.
    if diags.has_errors() {
        return;
    }
    if let Err(StageIssue { code, message, span, help }) = expect_parts(pipeline) {
        let diagnostic = diags.error(code, span.unwrap_or(value.span), message);
        help.into_iter().for_each(|help| _ = diagnostic.help(help));
    }
}

/// Reads `stages: {…}` of a pipeline whose graph is complete. Warns of nodes that no stage uses.
fn read(
    value: &Ron,
    pipeline: &Pipeline,
    (scope, dims, functions): (&Scope, &Dims, &Functions),
    registry: &Registry,
    diags: &mut Diagnostics,
) -> Vec<Stage> {
    let (stage, roots, written) = ("".into(), vec![], HashSet::new());
    let mut reader = StageReader { pipeline, scope, dims, functions, registry, stage, roots, written, diags };
    let mut stages = vec![];
    for (name, value) in entries(value, "`stages`", reader.diags).unwrap_or_default() {
        reader.stage = name.value.into();
        let kind = form_of(value, registry, reader.diags).and_then(|form| (form.read)(&mut reader, value));
        stages.extend(kind.map(|kind| Stage { name: name.value.into(), kind, span: Some(name.span) }));
    }
    if !stages.is_empty() && !reader.diags.has_errors() {
        reader.warn_of_unused();
        stages.iter().for_each(|stage| reader.rehearse(stage));
    }
    stages
}

/// The form that a stage names by its first word.
fn form_of<'r>(value: &Ron, registry: &'r Registry, diags: &mut Diagnostics) -> Option<&'r StageForm> {
    let known = || registry.forms::<StageForm>().map(|form| form.keyword).collect::<Vec<_>>();
    let Some(head) = value.head() else {
        if !value.is_error() {
            diags
                .error(Code::E0201, value.span, "a stage says what it does by its first word")
                .help(format!("known are `{}`", known().join("`, `")));
        }
        return None;
    };
    let form = registry.form(head.value);
    if form.is_none() {
        report_unknown(Code::E0201, head, "there is no stage", known(), diags);
    }
    form
}
