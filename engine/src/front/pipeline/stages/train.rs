//! Training stages.

use super::feeds::Feeds;
use super::fields::StageFields;
use super::form::StageForm;
use super::reader::{Named, StageReader};
use crate::diag::{Code, Span};
use crate::front::fields::report_unknown;
use crate::front::{Ron, RonKind};
use crate::ir::Symbol;
use crate::pipeline::{
    CheckpointDecl, EarlyStop, Goal, LastBatch, Mode, Monitor, TrainStage, evaluation_is_missing, monitored,
};
use std::path::{Component, Path};

pub(super) const TRAIN: StageForm = StageForm {
    keyword: "Train",
    summary: "Takes steps over shuffled batches.",
    read: |reader, value| Some(reader.train(value)?.into()),
};

impl StageReader<'_> {
    fn train(&mut self, value: &Ron) -> Option<TrainStage> {
        let mut fields = self.fields(value, "a `Train` stage")?;
        let data = fields.required("data", StageReader::split);
        let batch = fields.required("batch", StageReader::count);
        let accumulate = fields.or("accumulate", 1, StageReader::count);
        let epochs = fields.or("epochs", 1, StageReader::count);
        let max_steps = fields.optional("max_steps", StageReader::count);
        let loss = fields.required("loss", StageReader::loss);
        let metrics = fields.or("metrics", vec![], |reader, v, _| reader.train_metrics(v, loss.as_ref()));
        let optimizer = fields.optional("optimizer", StageReader::optimizer);
        let has_optimizer = optimizer != Some(None);
        let state = fields.or("state", vec![], |reader, v, what| reader.links(v, what, has_optimizer));
        let clip_norm = fields.optional("clip_norm", StageReader::positive);
        let clip_value = fields.optional("clip_value", StageReader::positive);
        fields.expect_one_clip();
        let accumulates = accumulate.is_some_and(|n| n > 1);
        let default = if accumulates { LastBatch::Drop } else { LastBatch::Short };
        let last_batch =
            fields.or("last_batch", default, |reader, v, what| reader.last_batch(v, what, accumulates));
        let mode = fields.or("mode", Mode::Train, StageReader::mode);
        let precision = fields.precision();
        let evaluate = fields.optional("evaluate", |reader, v, _| reader.evaluation_in(v, precision));
        let monitor = fields.optional("monitor", StageReader::monitor);
        let early_stop = fields.optional("early_stop", StageReader::early_stop);
        let mut best = None;
        let checkpoint = fields.optional("checkpoint", |reader, v, _| reader.checkpoint(v, &mut best));
        let by_metric = optimizer.iter().flatten().any(|it| it.metric_rates().next().is_some());
        let rate = fields.place("optimizer").filter(|_| by_metric);
        let judging = [rate, fields.place("monitor"), fields.place("early_stop"), best];
        fields.expect_evaluation(judging);
        fields.finish();
        if !has_optimizer {
            let span = value.head().map_or(value.span, |head| head.span);
            // Unreadable updates count as some.
            self.check_update(span, state.as_ref().is_none_or(|state| !state.is_empty()), accumulates);
        }
        let train = TrainStage {
            name: self.stage.clone(),
            data: data?,
            batch: batch?,
            accumulate: accumulate?,
            epochs: epochs?,
            max_steps: max_steps?,
            loss: loss?,
            mode: mode?,
            precision: precision?,
            metrics: metrics?,
            optimizer: optimizer?,
            state: state?,
            clip_norm: clip_norm?,
            clip_value: clip_value?,
            last_batch: last_batch?,
            evaluate: evaluate?,
            monitor: monitor?,
            early_stop: early_stop?,
            checkpoint: checkpoint?,
        };
        self.check_train(&train, value.span, judging.into_iter().flatten().next());
        Some(train)
    }

    /// Checks fields against each other. `judging` is the first field that depends on the best epoch.
    fn check_train(&mut self, train: &TrainStage, stage: Span, judging: Option<Span>) {
        let used = [&train.loss].into_iter().chain(train.metrics.iter().map(|(_, node)| node));
        let used = used.chain(train.state.iter().map(|(_, node)| node));
        self.check_feeds(used, &Feeds::batches(stage, Some(&train.data)));
        // A missing evaluation has been reported.
        if let (Some(span), Some(_), Err(issue)) = (judging, &train.evaluate, monitored(self.pipeline, train))
        {
            self.report_issue(issue, span);
        }
    }

    /// The fate of rows that fill no batch. Rows that fill no step of several batches are dropped.
    fn last_batch(&mut self, value: &Ron, what: &str, accumulates: bool) -> Option<LastBatch> {
        let policies = [("Drop", LastBatch::Drop), ("Short", LastBatch::Short)];
        let choice = value.choice(what, &policies, self.diags)?;
        if accumulates && choice == LastBatch::Short {
            let message = "with `accumulate`, rows that do not fill a whole step are dropped";
            self.error(Code::E0014, value.span, message, "write `last_batch: Drop`, or leave it out");
            return None;
        }
        Some(choice)
    }

    /// The metrics beside the loss, which is reported as `loss` anyway.
    fn train_metrics(&mut self, value: &Ron, loss: Option<&Symbol>) -> Option<Vec<Named>> {
        let mut metrics = self.metrics(value, "`metrics`")?;
        metrics.retain(|(name, node)| !(&**name == "loss" && loss == Some(node)));
        if loss.is_some() && metrics.iter().any(|(name, _)| &**name == "loss") {
            self.diags
                .error(
                    Code::E0302,
                    value.span,
                    "a metric is called `loss`, under which the stage reports its loss",
                )
                .help("give the metric another name: `{\"…\": \"loss\"}`");
        }
        Some(metrics)
    }

    /// Reports a stage without an optimizer that also has no updates of state, or that averages gradients.
    fn check_update(&mut self, span: Span, has_state: bool, accumulates: bool) {
        if !has_state {
            let message = "the stage says nothing about how parameters change";
            self.error(Code::E0206, span, message, "add `optimizer: Adam(lr: 1e-3)`");
        }
        if accumulates {
            let message = "`accumulate` needs an optimizer, which the gradients go to";
            let help = "add `optimizer: Adam(lr: 1e-3)`, or leave out `accumulate`";
            self.error(Code::E0206, span, message, help);
        }
    }

    // ---- The best epoch.

    /// `Min("mae")` or `Max("accuracy")`.
    fn monitor(&mut self, value: &Ron, what: &str) -> Option<Monitor> {
        let Some(head) = value.head() else {
            if !value.is_error() {
                let message = format!("{what} says which values of a metric are better");
                self.error(Code::E0014, value.span, message, "write `Min(\"mae\")` or `Max(\"accuracy\")`");
            }
            return None;
        };
        let goal = match head.value {
            "Min" => Goal::Min,
            "Max" => Goal::Max,
            _ => {
                let what = format!("{what} cannot be");
                report_unknown(Code::E0014, head, &what, ["Min", "Max"], self.diags);
                return None;
            }
        };
        let mut fields = self.choice(value, what, &["metric"])?;
        let metric = fields.required("metric", |reader, v, _| {
            v.word("the name of a metric", reader.diags).map(|word| Symbol::from(word.value))
        });
        fields.finish();
        Some(Monitor { metric: metric?, goal })
    }

    /// `3`, or `(patience: 3, min_delta: 1e-3, restore_best: true)`.
    fn early_stop(&mut self, value: &Ron, what: &str) -> Option<EarlyStop> {
        if let RonKind::Int(_) = value.kind {
            let patience = self.count(value, what)?;
            return Some(EarlyStop { patience, min_delta: 0.0, restore_best: false });
        }
        let mut fields = self.fields(value, what)?;
        let patience = fields.required("patience", StageReader::count);
        let min_delta = fields.or("min_delta", 0.0, StageReader::not_negative);
        let restore_best = fields.or("restore_best", false, StageReader::boolean);
        fields.finish();
        Some(EarlyStop { patience: patience?, min_delta: min_delta?, restore_best: restore_best? })
    }

    fn checkpoint(&mut self, value: &Ron, best_at: &mut Option<Span>) -> Option<CheckpointDecl> {
        let mut fields = self.fields(value, "a checkpoint")?;
        let path = fields.required("path", StageReader::file);
        let every = fields.or("every", 1, StageReader::count);
        let best = fields.optional("best", StageReader::file);
        let first = fields.place("path");
        *best_at = fields.place("best");
        fields.finish();
        if let (Some(path), Some(Some(best)), Some(first), Some(span)) = (&path, &best, first, *best_at)
            && is_one_file(path, best)
        {
            self.diags
                .error(Code::E0210, span, "the latest and the best state go to one file")
                .also(first, "this is the file of the latest")
                .help("choose another file for `best`");
        }
        Some(CheckpointDecl { path: path?, every: every?, best: best? })
    }
}

impl StageFields<'_, '_> {
    /// Reports two ways of clipping gradients, of which each changes the result of the other.
    fn expect_one_clip(&mut self) {
        if let (Some(norm), Some(value)) = (self.place("clip_norm"), self.place("clip_value")) {
            let message = "gradients are clipped by value and by norm";
            let error = self.reader.diags.error(Code::E0206, value, message);
            error.also(norm, "the norm is given here").help("leave one of them out");
        }
    }

    /// Reports fields that need an evaluation, where the stage has none.
    fn expect_evaluation(&mut self, needing: [Option<Span>; 4]) {
        if self.place("evaluate").is_none() {
            for span in needing.into_iter().flatten() {
                self.reader.report_issue(evaluation_is_missing(), span);
            }
        }
    }
}

/// Whether two paths name one file by their spelling. Links are followed when the pipeline runs.
fn is_one_file(a: &str, b: &str) -> bool {
    plain(a) == plain(b)
}

/// A path without `.`, and without a folder that `..` leaves again.
fn plain(path: &str) -> Vec<Component<'_>> {
    let mut parts = vec![];
    for part in Path::new(path).components() {
        match (part, parts.last()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => _ = parts.pop(),
            _ => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::is_one_file;

    #[test]
    fn one_file_may_be_spelled_in_many_ways() {
        for other in ["a/b.ckpt", "./a/b.ckpt", "a/./b.ckpt", "a/c/../b.ckpt", "x/../a/b.ckpt"] {
            assert!(is_one_file("a/b.ckpt", other), "{other}");
        }
        for other in ["b.ckpt", "../a/b.ckpt", "a/../b.ckpt", "/a/b.ckpt", "a/b"] {
            assert!(!is_one_file("a/b.ckpt", other), "{other}");
        }
        assert!(!is_one_file("../b.ckpt", "../../b.ckpt"));
    }
}
