//! Stages: what is done with the graph.

mod feeds;
mod optimizer;

use super::nodes::split_port;
use super::typing::Meaning;
use super::{Scope, read_path};
use crate::diag::{Code, Diagnostics, Span, Spanned, nearest};
use crate::ir::{DType, Symbol, Value};
use crate::op::Registry;
use crate::pipeline::{
    CheckpointDecl, Evaluation, LastBatch, LoadName, LoadStage, Pipeline, PredictStage, RunStage,
    SearchStage, SplitRef, Stage, StageKind, TrainStage,
};
use crate::source::fields::suggestion;
use crate::source::{Fields, Ron, RonKind, entries};
use feeds::Feeds;

/// The most of anything that is counted: steps, epochs, rows of a batch.
const MANY: usize = 1 << 40;

/// Reads `stages: {…}` of a pipeline whose graph is complete. Warns of what no stage uses.
pub(super) fn read(
    value: &Ron,
    pipeline: &Pipeline,
    scope: &Scope,
    registry: &Registry,
    diags: &mut Diagnostics,
) -> Vec<Stage> {
    let mut reader = Reader { pipeline, scope, registry, roots: vec![], diags };
    let mut stages = vec![];
    for (name, value) in entries(value, "`stages`", reader.diags).unwrap_or_default() {
        let kind = reader.stage(value);
        stages.extend(kind.map(|kind| Stage { name: name.value.into(), kind, span: Some(name.span) }));
    }
    if !stages.is_empty() && !reader.diags.has_errors() {
        reader.warn_of_unused();
        stages.iter().for_each(|stage| reader.rehearse(stage));
    }
    stages
}

struct Reader<'a> {
    pipeline: &'a Pipeline,
    scope: &'a Scope,
    registry: &'a Registry,
    /// What the stages read so far need.
    roots: Vec<Value>,
    diags: &'a mut Diagnostics,
}

/// A name in a report and the node behind it.
type Named = (Symbol, Symbol);

impl Reader<'_> {
    fn stage(&mut self, value: &Ron) -> Option<StageKind> {
        const KINDS: [&str; 7] = ["Train", "Evaluate", "Predict", "Run", "Search", "Save", "Load"];
        let Some(head) = value.head() else {
            if !value.is_error() {
                self.diags
                    .error(Code::E0201, value.span, "a stage says what it does by its first word")
                    .help(format!("known are `{}`", KINDS.join("`, `")));
            }
            return None;
        };
        match head.value {
            "Train" => self.train(value).map(|train| StageKind::Train(Box::new(train))),
            "Evaluate" => self.evaluation(value).map(StageKind::Evaluate),
            "Predict" => self.predict(value).map(StageKind::Predict),
            "Run" => self.run(value).map(StageKind::Run),
            "Search" => self.search(value).map(StageKind::Search),
            "Save" => self.path(value, "a `Save` stage").map(|path| StageKind::Save { path }),
            "Load" => self.load(value).map(StageKind::Load),
            other => {
                let help = suggestion(other, &KINDS, self.diags);
                self.diags.error(Code::E0201, head.span, format!("there is no stage `{other}`")).help(help);
                None
            }
        }
    }

    /// Reports what keeps a training stage from being a graph, such as a loss without a gradient.
    fn rehearse(&mut self, stage: &Stage) {
        let StageKind::Train(train) = &stage.kind else { return };
        let Err(issue) = crate::stage::rehearse(self.pipeline, train, self.registry) else { return };
        let Some(span) = issue.span.or(stage.span) else { return };
        let message = format!("stage `{}`: {}", stage.name, issue.message);
        let diagnostic = self.diags.error(issue.code, span, message);
        if let Some(help) = issue.help {
            diagnostic.help(help);
        }
    }

    fn train(&mut self, value: &Ron) -> Option<TrainStage> {
        let mut fields = Fields::of(value, "a `Train` stage", self.diags)?;
        let data = fields.required("data").and_then(|v| self.split(v));
        let batch = fields.required("batch").and_then(|v| self.count(v, "`batch`"));
        let accumulate = fields.optional("accumulate").map_or(Some(1), |v| self.count(v, "`accumulate`"));
        let epochs = fields.optional("epochs").map_or(Some(1), |v| self.count(v, "`epochs`"));
        let max_steps = fields.optional("max_steps").map(|v| self.count(v, "`max_steps`"));
        let loss = fields.required("loss").and_then(|v| self.loss(v));
        let metrics = fields.optional("metrics").map_or(Some(vec![]), |v| self.metrics(v));
        let optimizer = fields.optional("optimizer").map(|v| self.optimizer(v));
        let state = fields.optional("state").map_or(Some(vec![]), |v| self.state(v));
        let clip_norm = fields.optional("clip_norm").map(|v| self.positive(v, "`clip_norm`"));
        let policies = [("Drop", LastBatch::Drop), ("Short", LastBatch::Short)];
        let last_batch =
            fields.optional("last_batch").map(|v| (v.span, v.choice("`last_batch`", &policies, self.diags)));
        let last_batch = self.last_batch(accumulate, last_batch);
        let evaluate = fields.optional("evaluate").map(|v| (v.span, self.evaluation(v)));
        let early_stop = fields.optional("early_stop").map(|v| (v.span, self.count(v, "`early_stop`")));
        let checkpoint = fields.optional("checkpoint").map(|v| (v.span, self.checkpoint(v)));
        fields.finish(self.diags);

        let best = checkpoint.iter().any(|(_, c)| c.as_ref().is_some_and(|c| c.best.is_some()));
        let needs_evaluation = early_stop
            .iter()
            .map(|(span, _)| *span)
            .chain(checkpoint.iter().filter(|_| best).map(|(span, _)| *span));
        if evaluate.is_none() {
            needs_evaluation.for_each(|span| self.evaluation_is_missing(span));
        }
        if optimizer.is_none() == state.as_ref().is_some_and(Vec::is_empty) && state.is_some() {
            self.one_way_to_learn(value, optimizer.is_some());
        }
        if optimizer.is_none() && accumulate.is_some_and(|n| n > 1) {
            let span = value.head().map_or(value.span, |head| head.span);
            self.diags
                .error(Code::E0206, span, "`accumulate` needs an optimizer, which the gradients go to")
                .help("add `optimizer: Adam(lr: 1e-3)`, or leave out `accumulate`");
        }
        let train = TrainStage {
            data: data?,
            batch: batch?,
            accumulate: accumulate?,
            epochs: epochs?,
            max_steps: flip(max_steps)?,
            loss: loss?,
            metrics: metrics?,
            optimizer: flip(optimizer)?,
            state: state?,
            clip_norm: flip(clip_norm)?,
            last_batch: last_batch?,
            evaluate: flip(evaluate.map(|(_, evaluation)| evaluation))?,
            early_stop: flip(early_stop.map(|(_, epochs)| epochs))?,
            checkpoint: flip(checkpoint.map(|(_, checkpoint)| checkpoint))?,
        };
        let used = [&train.loss].into_iter().chain(train.metrics.iter().map(|(_, node)| node));
        let used = used.chain(train.state.iter().map(|(_, node)| node));
        let feeds = Feeds { stage: value.span, split: Some(&train.data), in_batches: true, dims: &[] };
        self.check_feeds(used, &feeds);
        Some(train)
    }

    /// What happens to rows that fill no batch; those that fill no step of several batches are dropped.
    fn last_batch(
        &mut self,
        accumulate: Option<usize>,
        given: Option<(Span, Option<LastBatch>)>,
    ) -> Option<LastBatch> {
        let accumulates = accumulate.is_some_and(|n| n > 1);
        match given {
            None if accumulates => Some(LastBatch::Drop),
            None => Some(LastBatch::Short),
            Some((span, Some(LastBatch::Short))) if accumulates => {
                self.diags
                    .error(
                        Code::E0014,
                        span,
                        "with `accumulate`, rows that do not fill a whole step are dropped",
                    )
                    .help("write `last_batch: Drop`, or leave it out");
                None
            }
            Some((_, choice)) => choice,
        }
    }

    fn evaluation_is_missing(&mut self, span: Span) {
        self.diags
            .error(Code::E0011, span, "this needs the field `evaluate`")
            .help("add `evaluate: Evaluate(data: …, batch: …, metrics: …)`: what is best is told by its first metric");
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

    fn evaluation(&mut self, value: &Ron) -> Option<Evaluation> {
        let mut fields = Fields::of(value, "an evaluation", self.diags)?;
        let data = fields.required("data").and_then(|v| self.split(v));
        let batch = fields.required("batch").and_then(|v| self.count(v, "`batch`"));
        let metrics = fields.required("metrics").and_then(|v| self.metrics(v));
        fields.finish(self.diags);
        let evaluation = Evaluation { data: data?, batch: batch?, metrics: metrics? };
        let used = evaluation.metrics.iter().map(|(_, node)| node);
        let feeds = Feeds { stage: value.span, split: Some(&evaluation.data), in_batches: true, dims: &[] };
        self.check_feeds(used, &feeds);
        Some(evaluation)
    }

    fn predict(&mut self, value: &Ron) -> Option<PredictStage> {
        let mut fields = Fields::of(value, "a `Predict` stage", self.diags)?;
        let batch = fields.required("batch").and_then(|v| self.count(v, "`batch`"));
        let outputs = fields.required("outputs").and_then(|v| self.outputs(v));
        fields.finish(self.diags);
        let predict = PredictStage { batch: batch?, outputs: outputs? };
        let used = predict.outputs.iter().map(|(_, node)| node);
        self.check_feeds(used, &Feeds { stage: value.span, split: None, in_batches: true, dims: &[] });
        Some(predict)
    }

    fn run(&mut self, value: &Ron) -> Option<RunStage> {
        let mut fields = Fields::of(value, "a `Run` stage", self.diags)?;
        let steps = fields.optional("steps").map_or(Some(1), |v| self.count(v, "`steps`"));
        let outputs = fields.optional("outputs").map_or(Some(vec![]), |v| self.outputs(v));
        let state = fields.optional("state").map_or(Some(vec![]), |v| self.state(v));
        let dims = fields.optional("dims").map_or(Some(vec![]), |v| self.dims(v));
        fields.finish(self.diags);
        let run = RunStage { steps: steps?, outputs: outputs?, state: state?, dims: dims? };
        let used = run.outputs.iter().chain(&run.state).map(|(_, node)| node);
        self.check_feeds(used, &Feeds { stage: value.span, split: None, in_batches: false, dims: &run.dims });
        Some(run)
    }

    fn search(&mut self, value: &Ron) -> Option<SearchStage> {
        let mut fields = Fields::of(value, "a `Search` stage", self.diags)?;
        let data = fields.required("data").and_then(|v| self.data(v));
        let batch = fields.optional("batch").map_or(Some(1024), |v| self.count(v, "`batch`"));
        let ids = fields.required("ids").and_then(|v| self.found(v, "`ids`", |dtype| dtype == DType::I32));
        let distances = fields.optional("distances").map(|v| self.found(v, "`distances`", DType::is_float));
        let write = fields.optional("write").map_or(Some(vec![]), |v| self.files(v));
        fields.finish(self.diags);
        let (ids, distances) = (ids?, flip(distances)?);
        let node_of = |(role, path): (String, String)| match (&*role, &distances) {
            ("ids", _) => Some((ids.clone(), path)),
            (_, Some(distances)) => Some((distances.clone(), path)),
            (_, None) => None,
        };
        let n_files = write.as_ref().map_or(0, Vec::len);
        let write: Vec<(Symbol, String)> = write?.into_iter().filter_map(node_of).collect();
        if write.len() < n_files {
            self.diags
                .error(Code::E0011, value.span, "distances are written, but no node is named for them")
                .help("add `distances: \"…\"`, or leave them out of `write`");
            return None;
        }
        let search = SearchStage { data: data?, batch: batch?, ids, distances, write };
        let split = SplitRef { data: search.data.clone(), split: "queries".into() };
        let feeds = Feeds { stage: value.span, split: Some(&split), in_batches: true, dims: &[] };
        self.check_feeds(search.outputs(), &feeds);
        Some(search)
    }

    /// A data source of the pipeline.
    fn data(&mut self, value: &Ron) -> Option<Symbol> {
        let word = value.word("a data source", self.diags)?;
        let known: Vec<&str> = self.pipeline.data.iter().map(|decl| &*decl.name).collect();
        if known.contains(&word.value) {
            return Some(word.value.into());
        }
        let help = suggestion(word.value, &known, self.diags);
        let message = format!("there is no data source `{}`", word.value);
        self.diags.error(Code::E0202, word.span, message).help(help);
        None
    }

    /// A node of the results of a search: one row for each query.
    fn found(&mut self, value: &Ron, what: &str, fits: fn(DType) -> bool) -> Option<Symbol> {
        let node = self.node(value)?;
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

    /// `(ids: "ids.ivecs", distances: "distances.fvecs")`
    fn files(&mut self, value: &Ron) -> Option<Vec<(String, String)>> {
        let mut fields = Fields::of(value, "`write`", self.diags)?;
        let files = ["ids", "distances"].map(|role| (role, fields.optional(role).map(|v| self.file(v))));
        fields.finish(self.diags);
        let given = files.into_iter().filter_map(|(role, file)| Some((role.to_string(), file?)));
        given.map(|(role, file)| Some((role, file?))).collect()
    }

    fn path(&mut self, value: &Ron, what: &str) -> Option<String> {
        let mut fields = Fields::of_choice(value, what, &["path"], self.diags)?;
        let path = fields.required("path").and_then(|v| self.file(v));
        fields.finish(self.diags);
        path
    }

    fn load(&mut self, value: &Ron) -> Option<LoadStage> {
        let mut fields = Fields::of_choice(value, "a `Load` stage", &["path", "names"], self.diags)?;
        let path = fields.required("path").and_then(|v| self.file(v));
        let names = fields.optional("names").map_or(Some(vec![]), |v| self.load_names(v));
        fields.finish(self.diags);
        Some(LoadStage { path: path?, names: names? })
    }

    /// `{"w": Transposed("fc.weight"), "b": "fc.bias"}`
    fn load_names(&mut self, value: &Ron) -> Option<Vec<LoadName>> {
        let written = entries(value, "`names`", self.diags)?;
        let read: Vec<Option<LoadName>> = written
            .into_iter()
            .map(|(param, tensor)| {
                let param = self.param(param);
                let is_transposed = tensor.head().is_some_and(|head| head.value == "Transposed");
                let tensor = match is_transposed {
                    true => {
                        let mut fields = Fields::of_choice(tensor, "`Transposed`", &["tensor"], self.diags)?;
                        let tensor = fields.required("tensor").and_then(|v| self.tensor(v));
                        fields.finish(self.diags);
                        tensor
                    }
                    false => self.tensor(tensor),
                };
                Some(LoadName { param: param?, tensor: tensor?, is_transposed })
            })
            .collect();
        read.into_iter().collect()
    }

    fn tensor(&mut self, value: &Ron) -> Option<String> {
        value.string("the name of a tensor", self.diags).map(|name| name.to_string())
    }

    /// A parameter of the pipeline.
    fn param(&mut self, name: Spanned<&str>) -> Option<Symbol> {
        let known: Vec<&str> = self.pipeline.params.iter().map(|param| &*param.name).collect();
        if known.contains(&name.value) {
            return Some(name.value.into());
        }
        let help = suggestion(name.value, &known, self.diags);
        let message = format!("there is no parameter `{}`", name.value);
        self.diags.error(Code::E0101, name.span, message).help(help);
        None
    }

    fn file(&mut self, value: &Ron) -> Option<String> {
        value.string("a path", self.diags).map(|path| path.to_string())
    }

    fn checkpoint(&mut self, value: &Ron) -> Option<CheckpointDecl> {
        let mut fields = Fields::of(value, "a checkpoint", self.diags)?;
        let path = fields.required("path").and_then(|v| self.file(v));
        let every = fields.optional("every").map_or(Some(1), |v| self.count(v, "`every`"));
        let best = fields.optional("best").map(|v| self.file(v));
        fields.finish(self.diags);
        Some(CheckpointDecl { path: path?, every: every?, best: flip(best)? })
    }

    // ---- Parts of stages.

    fn split(&mut self, value: &Ron) -> Option<SplitRef> {
        let (data, split) = read_path(value, "digits.train", &self.pipeline.data, self.diags)?;
        Some(SplitRef { data, split })
    }

    fn count(&mut self, value: &Ron, what: &str) -> Option<usize> {
        value.integer(what, 1..=MANY, self.diags)
    }

    fn positive(&mut self, value: &Ron, what: &str) -> Option<f64> {
        let number = value.number(what, self.diags)?;
        if number.is_nan() || number <= 0.0 {
            let message = format!("{what} cannot be {number}");
            self.diags.error(Code::E0015, value.span, message).help("it must be more than 0");
            return None;
        }
        Some(number)
    }

    /// The value that a node's name stands for, or `t.indices` for one of several results.
    fn find(&self, path: &str) -> Option<Value> {
        let (name, port) = split_port(path, |path| self.scope.names.contains_key(path));
        let Some(Meaning::Value(first)) = self.scope.names.get(name) else {
            return None;
        };
        let outputs = &self.pipeline.graph.nodes[first.node].outputs;
        match port {
            None => Some(*first),
            Some(_) => outputs.iter().position(|o| &*o.name == path).map(|port| Value { port, ..*first }),
        }
    }

    fn node(&mut self, value: &Ron) -> Option<Value> {
        let word = value.word("the name of a node", self.diags)?;
        let found = self.find(word.value);
        if found.is_none() && !matches!(self.scope.names.get(word.value), Some(Meaning::Faulty)) {
            self.unknown_node(&word);
        }
        self.roots.extend(found);
        found
    }

    fn unknown_node(&mut self, word: &Spanned<&str>) {
        let near = nearest(word.value, self.scope.names.keys().map(|name| &**name));
        let is_expression = !word.value.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if is_expression => "give the expression a name under `nodes`, and name it here".to_owned(),
            None => "a stage names nodes of the graph".to_owned(),
        };
        let shown = crate::source::lex::shorten(word.value);
        self.diags.error(Code::E0101, word.span, format!("no node is called `{shown}`")).help(help);
    }

    fn symbol(&self, value: Value) -> Symbol {
        self.pipeline.graph.name_of(value).clone()
    }

    fn scalar(&mut self, value: &Ron, what: &str) -> Option<Value> {
        let node = self.node(value)?;
        let ty = self.pipeline.graph.ty(node);
        if ty.rank() > 0 {
            let name = self.symbol(node);
            self.diags
                .error(Code::E0205, value.span, format!("{what} is one number, `{name}` is {ty}"))
                .help(format!("average it: `mean({name})`"));
            return None;
        }
        Some(node)
    }

    fn loss(&mut self, value: &Ron) -> Option<Symbol> {
        let node = self.scalar(value, "a loss")?;
        let ty = self.pipeline.graph.ty(node);
        if !ty.dtype.is_float() {
            self.diags
                .error(Code::E0205, value.span, format!("a loss is a float, this is {ty}"))
                .help("only floats have gradients");
            return None;
        }
        Some(self.symbol(node))
    }

    fn metrics(&mut self, value: &Ron) -> Option<Vec<Named>> {
        self.named(value, "`metrics`", |reader, value| reader.scalar(value, "a metric"))
    }

    fn outputs(&mut self, value: &Ron) -> Option<Vec<Named>> {
        self.named(value, "`outputs`", Reader::node)
    }

    /// `{"accuracy": "acc"}`, or `["acc"]` for nodes under their own names.
    fn named(
        &mut self,
        value: &Ron,
        what: &str,
        mut read: impl FnMut(&mut Self, &Ron) -> Option<Value>,
    ) -> Option<Vec<Named>> {
        if let RonKind::List(items) = &value.kind {
            let nodes: Vec<_> = items.iter().map(|item| read(self, item)).collect();
            return nodes
                .into_iter()
                .map(|node| node.map(|node| (self.symbol(node), self.symbol(node))))
                .collect();
        }
        let entries = entries(value, what, self.diags)?;
        let nodes: Vec<_> =
            entries.into_iter().map(|(name, value)| (name.value, read(self, value))).collect();
        nodes.into_iter().map(|(name, node)| node.map(|node| (name.into(), self.symbol(node)))).collect()
    }

    /// `{"w1": "w1_next"}`
    fn state(&mut self, value: &Ron) -> Option<Vec<Named>> {
        let entries = entries(value, "`state`", self.diags)?;
        let links: Vec<_> = entries.into_iter().map(|(name, value)| self.link(&name, value)).collect();
        links.into_iter().collect()
    }

    fn link(&mut self, name: &Spanned<&str>, value: &Ron) -> Option<Named> {
        let Some(param) = self.pipeline.params.iter().find(|param| &*param.name == name.value) else {
            if !matches!(self.scope.names.get(name.value), Some(Meaning::Faulty)) {
                let known: Vec<&str> = self.pipeline.params.iter().map(|param| &*param.name).collect();
                let help = suggestion(name.value, &known, self.diags);
                let message = format!("`{}` is no parameter", name.value);
                self.diags.error(Code::E0206, name.span, message).help(help);
            }
            return None;
        };
        let next = self.node(value)?;
        let ty = self.pipeline.graph.ty(next);
        if *ty != param.ty {
            let message = format!("`{}` is {}, its next value is {ty}", param.name, param.ty);
            self.diags.error(Code::E0206, value.span, message).help("state keeps its type");
            return None;
        }
        Some((param.name.clone(), self.symbol(next)))
    }

    fn dims(&mut self, value: &Ron) -> Option<Vec<(Symbol, usize)>> {
        let entries = entries(value, "`dims`", self.diags)?;
        let dims = entries.into_iter().map(|(name, value)| {
            value.integer("an extent", 0..=MANY, self.diags).map(|extent| (name.value.into(), extent))
        });
        dims.collect()
    }

    /// What only unused nodes use is unused too; saying so of the last ones is enough.
    fn warn_of_unused(&mut self) {
        let live = reached(self.pipeline, self.roots.clone());
        let mut used = live;
        for node in &self.pipeline.graph.nodes {
            node.inputs.iter().for_each(|input| used[input.node] = true);
        }
        for (name, meaning) in &self.scope.names {
            if let (Meaning::Value(value), Some(&span)) = (meaning, self.scope.places.get(name))
                && !used[value.node]
            {
                let message = format!("no stage uses `{name}`");
                self.diags.warning(Code::E0303, span, message).help("leave it out, or name it in a stage");
            }
        }
    }
}

/// Which nodes are behind these values.
fn reached(pipeline: &Pipeline, roots: Vec<Value>) -> Vec<bool> {
    let mut live = vec![false; pipeline.graph.nodes.len()];
    let mut open = roots;
    while let Some(value) = open.pop() {
        if !std::mem::replace(&mut live[value.node], true) {
            open.extend(&pipeline.graph.nodes[value.node].inputs);
        }
    }
    live
}

/// A value that was given must also have been readable.
fn flip<T>(given: Option<Option<T>>) -> Option<Option<T>> {
    match given {
        None => Some(None),
        Some(read) => read.map(Some),
    }
}
