//! Training stages.

use super::feeds::Feeds;
use super::{Named, Reader, flip};
use crate::diag::{Code, Span};
use crate::front::fields::suggestion;
use crate::front::{Fields, Ron, RonKind};
use crate::ir::Symbol;
use crate::pipeline::{CheckpointDecl, EarlyStop, Evaluation, Goal, LastBatch, Mode, Monitor, TrainStage};
use crate::stage::{StageIssue, evaluation_is_missing, monitored};
use std::path::{Component, Path};

/// A field that was given: where, and what was read of it.
type Given<T> = Option<(Span, Option<T>)>;

/// The fields that have to do with the best epoch.
struct Judging {
    evaluate: Given<Evaluation>,
    monitor: Given<Monitor>,
    early_stop: Given<EarlyStop>,
    checkpoint: Option<Option<CheckpointDecl>>,
    /// Where `checkpoint` names a file for the best epoch.
    best: Option<Span>,
}

impl Reader<'_> {
    pub(super) fn train(&mut self, value: &Ron) -> Option<TrainStage> {
        let mut fields = Fields::of(value, "a `Train` stage", self.diags)?;
        let data = fields.required("data").and_then(|v| self.split(v));
        let batch = fields.required("batch").and_then(|v| self.count(v, "`batch`"));
        let accumulate = fields.optional("accumulate").map_or(Some(1), |v| self.count(v, "`accumulate`"));
        let epochs = fields.optional("epochs").map_or(Some(1), |v| self.count(v, "`epochs`"));
        let max_steps = fields.optional("max_steps").map(|v| self.count(v, "`max_steps`"));
        let loss = fields.required("loss").and_then(|v| self.loss(v));
        let metrics =
            fields.optional("metrics").map_or(Some(vec![]), |v| self.train_metrics(v, loss.as_ref()));
        let optimizer = fields.optional("optimizer").map(|v| self.optimizer(v));
        let state = fields.optional("state").map_or(Some(vec![]), |v| self.state(v));
        let clip_norm = fields.optional("clip_norm").map(|v| self.positive(v, "`clip_norm`"));
        let last_batch = self.last_batch(accumulate, &mut fields);
        let mode = self.mode(&mut fields, Mode::Train);
        let judging = self.judging(&mut fields);
        fields.finish(self.diags);

        if optimizer.is_none() == state.as_ref().is_some_and(Vec::is_empty) && state.is_some() {
            self.one_way_to_learn(value, optimizer.is_some());
        }
        if optimizer.is_none() && accumulate.is_some_and(|n| n > 1) {
            let span = value.head().map_or(value.span, |head| head.span);
            self.diags
                .error(Code::E0206, span, "`accumulate` needs an optimizer, which the gradients go to")
                .help("add `optimizer: Adam(lr: 1e-3)`, or leave out `accumulate`");
        }
        let place = judging.place();
        let train = TrainStage {
            data: data?,
            batch: batch?,
            accumulate: accumulate?,
            epochs: epochs?,
            max_steps: flip(max_steps)?,
            loss: loss?,
            mode: mode?,
            metrics: metrics?,
            optimizer: flip(optimizer)?,
            state: state?,
            clip_norm: flip(clip_norm)?,
            last_batch: last_batch?,
            evaluate: flip(judging.evaluate.map(|(_, evaluation)| evaluation))?,
            monitor: flip(judging.monitor.map(|(_, monitor)| monitor))?,
            early_stop: flip(judging.early_stop.map(|(_, early_stop)| early_stop))?,
            checkpoint: flip(judging.checkpoint)?,
        };
        self.check_train(&train, value.span, place);
        Some(train)
    }

    /// What shows of a stage as a whole; `judging` is where it says what depends on the best epoch.
    fn check_train(&mut self, train: &TrainStage, stage: Span, judging: Option<Span>) {
        let used = [&train.loss].into_iter().chain(train.metrics.iter().map(|(_, node)| node));
        let used = used.chain(train.state.iter().map(|(_, node)| node));
        self.check_feeds(used, &Feeds { stage, split: Some(&train.data), in_batches: true, dims: &[] });
        // Without an evaluation that has been reported.
        if let (Some(span), Some(_), Err(issue)) = (judging, &train.evaluate, monitored(self.pipeline, train))
        {
            self.report_issue(issue, span);
        }
    }

    fn report_issue(&mut self, issue: StageIssue, span: Span) {
        let diagnostic = self.diags.error(issue.code, issue.span.unwrap_or(span), issue.message);
        if let Some(help) = issue.help {
            diagnostic.help(help);
        }
    }

    /// What happens to rows that fill no batch; those that fill no step of several batches are dropped.
    fn last_batch(&mut self, accumulate: Option<usize>, fields: &mut Fields) -> Option<LastBatch> {
        let policies = [("Drop", LastBatch::Drop), ("Short", LastBatch::Short)];
        let accumulates = accumulate.is_some_and(|n| n > 1);
        let Some(value) = fields.optional("last_batch") else {
            return Some(if accumulates { LastBatch::Drop } else { LastBatch::Short });
        };
        let choice = value.choice("`last_batch`", &policies, self.diags)?;
        if accumulates && choice == LastBatch::Short {
            self.diags
                .error(
                    Code::E0014,
                    value.span,
                    "with `accumulate`, rows that do not fill a whole step are dropped",
                )
                .help("write `last_batch: Drop`, or leave it out");
            return None;
        }
        Some(choice)
    }

    /// The metrics beside the loss, which is reported as `loss` anyway.
    fn train_metrics(&mut self, value: &Ron, loss: Option<&Symbol>) -> Option<Vec<Named>> {
        let mut metrics = self.metrics(value)?;
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

    fn one_way_to_learn(&mut self, value: &Ron, both: bool) {
        let span = value.head().map_or(value.span, |head| head.span);
        let (message, help) = match both {
            true => ("the stage has an optimizer and updates of state", "leave one of them out"),
            false => {
                ("the stage says nothing about how parameters change", "add `optimizer: Adam(lr: 1e-3)`")
            }
        };
        self.diags.error(Code::E0206, span, message).help(help);
    }

    // ---- The best epoch.

    fn judging(&mut self, fields: &mut Fields) -> Judging {
        let evaluate = fields.optional("evaluate").map(|v| (v.span, self.evaluation(v)));
        let monitor = fields.optional("monitor").map(|v| (v.span, self.monitor(v)));
        let early_stop = fields.optional("early_stop").map(|v| (v.span, self.early_stop(v)));
        let mut best = None;
        let checkpoint = fields.optional("checkpoint").map(|v| self.checkpoint(v, &mut best));
        let judging = Judging { evaluate, monitor, early_stop, checkpoint, best };
        if judging.evaluate.is_none() {
            for span in judging.places() {
                self.report_issue(evaluation_is_missing(), span);
            }
        }
        judging
    }

    /// `Min("mae")` or `Max("accuracy")`.
    fn monitor(&mut self, value: &Ron) -> Option<Monitor> {
        let head = value.head();
        let goal = match head.as_ref().map(|head| head.value) {
            Some("Min") => Goal::Min,
            Some("Max") => Goal::Max,
            other => {
                if !value.is_error() {
                    let span = head.as_ref().map_or(value.span, |head| head.span);
                    let message = match other {
                        Some(word) => format!("`monitor` cannot be `{word}`"),
                        None => "`monitor` says which values of a metric are better".to_owned(),
                    };
                    let help = match other {
                        Some(word) => suggestion(word, &["Min", "Max"], self.diags),
                        None => "write `Min(\"mae\")` or `Max(\"accuracy\")`".to_owned(),
                    };
                    self.diags.error(Code::E0014, span, message).help(help);
                }
                return None;
            }
        };
        let mut fields = Fields::of_choice(value, "`monitor`", &["metric"], self.diags)?;
        let metric = fields
            .required("metric")
            .and_then(|v| v.word("the name of a metric", self.diags))
            .map(|word| word.value);
        fields.finish(self.diags);
        Some(Monitor { metric: metric?.into(), goal })
    }

    /// `3`, or `(patience: 3, min_delta: 1e-3, restore_best: true)`.
    fn early_stop(&mut self, value: &Ron) -> Option<EarlyStop> {
        if let RonKind::Int(_) = value.kind {
            let patience = self.count(value, "`early_stop`")?;
            return Some(EarlyStop { patience, min_delta: 0.0, restore_best: false });
        }
        let mut fields = Fields::of(value, "`early_stop`", self.diags)?;
        let patience = fields.required("patience").and_then(|v| self.count(v, "`patience`"));
        let min_delta =
            fields.optional("min_delta").map_or(Some(0.0), |v| self.not_negative(v, "`min_delta`"));
        let restore_best =
            fields.optional("restore_best").map_or(Some(false), |v| v.boolean("`restore_best`", self.diags));
        fields.finish(self.diags);
        Some(EarlyStop { patience: patience?, min_delta: min_delta?, restore_best: restore_best? })
    }

    fn checkpoint(&mut self, value: &Ron, best_at: &mut Option<Span>) -> Option<CheckpointDecl> {
        let mut fields = Fields::of(value, "a checkpoint", self.diags)?;
        let path = fields.required("path").and_then(|v| Some((v.span, self.file(v)?)));
        let every = fields.optional("every").map_or(Some(1), |v| self.count(v, "`every`"));
        let best = fields.optional("best").map(|v| (v.span, self.file(v)));
        fields.finish(self.diags);
        *best_at = best.as_ref().map(|(span, _)| *span);
        if let (Some((first, path)), Some((span, Some(best)))) = (&path, &best)
            && is_one_file(path, best)
        {
            self.diags
                .error(Code::E0210, *span, "the latest and the best state go to one file")
                .also(*first, "this is the file of the latest")
                .help("choose another file for `best`");
        }
        Some(CheckpointDecl { path: path?.1, every: every?, best: flip(best.map(|(_, best)| best))? })
    }
}

impl Judging {
    /// Where the stage says something that an evaluation is needed for.
    fn places(&self) -> Vec<Span> {
        let monitor = self.monitor.as_ref().map(|(span, _)| *span);
        let early_stop = self.early_stop.as_ref().map(|(span, _)| *span);
        [monitor, early_stop, self.best].into_iter().flatten().collect()
    }

    fn place(&self) -> Option<Span> {
        self.places().first().copied()
    }
}

/// Whether two paths name one file, as far as their spelling tells. Links are looked at when the pipeline runs.
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
