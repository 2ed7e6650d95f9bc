//! Stages: what is done with the graph.

mod feeds;
mod given;
mod gradients;
mod optimizer;
mod train;

use super::typing::Meaning;
use super::{Scope, read_path};
use crate::diag::{Code, Diagnostics, Spanned, nearest};
use crate::front::fields::suggestion;
use crate::front::{Fields, Ron, RonKind, entries};
use crate::ir::{DType, Symbol, Value};
use crate::op::Registry;
use crate::pipeline::{
    Evaluation, Given, LoadName, LoadStage, Mode, Pipeline, PredictStage, RunStage, SearchStage, SplitRef,
    Stage, StageKind,
};
use feeds::Feeds;
use given::read_given;
use std::collections::{HashMap, HashSet};

pub use given::given_text;

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
    let mut reader = Reader { pipeline, scope, registry, roots: vec![], written: HashSet::new(), diags };
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
    /// State that they write.
    written: HashSet<Symbol>,
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

    /// Reports what keeps a stage from being a graph, such as a loss without a gradient.
    fn rehearse(&mut self, stage: &Stage) {
        let Err(issue) = crate::stage::rehearse(self.pipeline, stage, self.registry) else { return };
        let Some(span) = issue.span.or(stage.span) else { return };
        let message = format!("stage `{}`: {}", stage.name, issue.message);
        let diagnostic = self.diags.error(issue.code, span, message);
        if let Some(help) = issue.help {
            diagnostic.help(help);
        }
    }

    fn evaluation(&mut self, value: &Ron) -> Option<Evaluation> {
        let mut fields = Fields::of(value, "an evaluation", self.diags)?;
        let data = fields.required("data").and_then(|v| self.split(v));
        let batch = fields.required("batch").and_then(|v| self.count(v, "`batch`"));
        let metrics = fields.required("metrics").and_then(|v| self.metrics(v));
        let mode = self.mode(&mut fields, Mode::Eval);
        fields.finish(self.diags);
        let evaluation = Evaluation { data: data?, batch: batch?, mode: mode?, metrics: metrics? };
        let used = evaluation.metrics.iter().map(|(_, node)| node);
        let feeds = Feeds { stage: value.span, split: Some(&evaluation.data), in_batches: true, dims: &[] };
        self.check_feeds(used, &feeds);
        Some(evaluation)
    }

    fn predict(&mut self, value: &Ron) -> Option<PredictStage> {
        let mut fields = Fields::of(value, "a `Predict` stage", self.diags)?;
        let batch = fields.required("batch").and_then(|v| self.count(v, "`batch`"));
        let outputs = fields.required("outputs").and_then(|v| self.outputs(v));
        let classes =
            fields.optional("classes").map_or(Some(vec![]), |v| self.classes(v, outputs.as_deref()));
        let mode = self.mode(&mut fields, Mode::Eval);
        fields.finish(self.diags);
        let (batch, mode, outputs) = (batch?, mode?, outputs?);
        let predict = PredictStage { batch, mode, outputs, classes: classes? };
        let used = predict.outputs.iter().map(|(_, node)| node);
        self.check_feeds(used, &Feeds { stage: value.span, split: None, in_batches: true, dims: &[] });
        Some(predict)
    }

    fn run(&mut self, value: &Ron) -> Option<RunStage> {
        let mut fields = Fields::of(value, "a `Run` stage", self.diags)?;
        let steps = fields.optional("steps").map_or(Some(1), |v| self.count(v, "`steps`"));
        let loss = fields.optional("loss").map(|v| self.loss(v));
        let outputs = fields.optional("outputs");
        let outputs = outputs.map_or(Some((vec![], vec![])), |v| self.run_outputs(v, loss.is_some()));
        let state = fields.optional("state").map_or(Some(vec![]), |v| self.state(v));
        let dims = fields.optional("dims").map_or(Some(vec![]), |v| self.dims(v));
        let inputs = fields.optional("inputs").map_or(Some(vec![]), |v| self.inputs(v));
        let mode = self.mode(&mut fields, Mode::Eval);
        fields.finish(self.diags);
        let (outputs, gradients) = outputs?;
        let (steps, mode, loss) = (steps?, mode?, flip(loss)?);
        let (state, dims, inputs) = (state?, dims?, inputs?);
        let run = RunStage { steps, mode, outputs, gradients, loss, state, dims, inputs };
        let used = run.outputs.iter().chain(&run.gradients).chain(&run.state).map(|(_, node)| node);
        let used = used.chain(&run.loss);
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
        let mode = self.mode(&mut fields, Mode::Eval);
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
        let search = SearchStage { data: data?, batch: batch?, mode: mode?, ids, distances, write };
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

    // ---- Parts of stages.

    fn split(&mut self, value: &Ron) -> Option<SplitRef> {
        let (data, split) = read_path(value, "digits.train", &self.pipeline.data, self.diags)?;
        Some(SplitRef { data, split })
    }

    /// `mode: Train`, `mode: Eval`, or what is usual for the stage.
    fn mode(&mut self, fields: &mut Fields, usual: Mode) -> Option<Mode> {
        let modes = [("Train", Mode::Train), ("Eval", Mode::Eval)];
        fields.optional("mode").map_or(Some(usual), |v| v.choice("`mode`", &modes, self.diags))
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

    /// A finite number of at least 0.
    fn not_negative(&mut self, value: &Ron, what: &str) -> Option<f64> {
        let number = value.number(what, self.diags)?;
        if !(number >= 0.0 && number.is_finite()) {
            let message = format!("{what} cannot be {number}");
            self.diags.error(Code::E0015, value.span, message).help("it is a finite number of at least 0");
            return None;
        }
        Some(number)
    }

    /// The value that a node's name stands for; `t.indices` is one of several results, `y.a` a node of the function that
    /// `y` calls.
    fn find(&self, path: &str) -> Option<Value> {
        match self.scope.names.get(path) {
            Some(Meaning::Value(value)) => Some(*value),
            Some(_) => None,
            None => self.pipeline.graph.find(path),
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
        let shown = crate::front::lex::shorten(word.value);
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
        self.named(value, "`metrics`", "", |reader, value| reader.scalar(value, "a metric"))
    }

    fn outputs(&mut self, value: &Ron) -> Option<Vec<Named>> {
        self.named(value, "`outputs`", "", Reader::node)
    }

    /// `{"accuracy": "acc"}`, or `["acc"]` for nodes under their own names, which `prefix` stands before.
    fn named(
        &mut self,
        value: &Ron,
        what: &str,
        prefix: &str,
        mut read: impl FnMut(&mut Self, &Ron) -> Option<Value>,
    ) -> Option<Vec<Named>> {
        if let RonKind::List(items) = &value.kind {
            let nodes: Vec<_> =
                items.iter().map(|item| read(self, item).map(|node| self.symbol(node))).collect();
            let named: Vec<Option<Named>> = nodes
                .into_iter()
                .map(|node| node.map(|node| (format!("{prefix}{node}").into(), node)))
                .collect();
            self.report_repeated(items, &named);
            return named.into_iter().collect();
        }
        let entries = entries(value, what, self.diags)?;
        let nodes: Vec<_> =
            entries.into_iter().map(|(name, value)| (name.value, read(self, value))).collect();
        nodes.into_iter().map(|(name, node)| node.map(|node| (name.into(), self.symbol(node)))).collect()
    }

    /// Reports items of a list that have one name.
    fn report_repeated(&mut self, items: &[Ron], named: &[Option<Named>]) {
        let mut first = HashMap::new();
        for (item, named) in items.iter().zip(named) {
            let Some((name, _)) = named else { continue };
            let earlier = *first.entry(name).or_insert(item.span);
            if earlier != item.span {
                self.diags
                    .error(Code::E0013, item.span, format!("`{name}` is given twice"))
                    .also(earlier, "first here")
                    .help(format!(
                        "leave one of them out, or write `{{\"…\": \"{name}\"}}` for another name"
                    ));
            }
        }
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
        self.written.insert(param.name.clone());
        Some((param.name.clone(), self.symbol(next)))
    }

    fn dims(&mut self, value: &Ron) -> Option<Vec<(Symbol, usize)>> {
        let entries = entries(value, "`dims`", self.diags)?;
        let dims = entries.into_iter().map(|(name, value)| {
            value.integer("an extent", 0..=MANY, self.diags).map(|extent| (name.value.into(), extent))
        });
        dims.collect()
    }

    /// `{"kind": "flowers.label"}`: outputs and the fields whose classes they tell.
    fn classes(&mut self, value: &Ron, outputs: Option<&[Named]>) -> Option<Vec<(Symbol, (Symbol, Symbol))>> {
        let entries = entries(value, "`classes`", self.diags)?;
        let read: Vec<_> = entries
            .into_iter()
            .map(|(output, field)| {
                let known: Vec<&str> = outputs?.iter().map(|(name, _)| &**name).collect();
                if !known.contains(&output.value) {
                    let help = suggestion(output.value, &known, self.diags);
                    let message = format!("there is no output `{}`", output.value);
                    self.diags.error(Code::E0101, output.span, message).help(help);
                    return None;
                }
                let field = read_path(field, "flowers.label", &self.pipeline.data, self.diags)?;
                Some((Symbol::from(output.value), field))
            })
            .collect();
        read.into_iter().collect()
    }

    /// `{"x": "values.npy", "y": [1, 2, 3]}`
    fn inputs(&mut self, value: &Ron) -> Option<Vec<(Symbol, Given)>> {
        let entries = entries(value, "`inputs`", self.diags)?;
        let known: Vec<&str> = self.pipeline.inputs.iter().map(|input| &*input.name).collect();
        let read: Vec<_> = entries
            .into_iter()
            .map(|(input, value)| {
                if !known.contains(&input.value) {
                    let help = suggestion(input.value, &known, self.diags);
                    let message = format!("there is no input `{}`", input.value);
                    self.diags.error(Code::E0101, input.span, message).help(help);
                    return None;
                }
                Some((Symbol::from(input.value), read_given(value, self.diags)?))
            })
            .collect();
        read.into_iter().collect()
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
                let (message, help) = match self.written.contains(name) {
                    true => (
                        format!("a stage writes `{name}`, and nothing reads it"),
                        "use it in a node, name it in `outputs`, or leave it out of `state`",
                    ),
                    false => (format!("no stage uses `{name}`"), "leave it out, or name it in a stage"),
                };
                self.diags.warning(Code::E0303, span, message).help(help);
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
