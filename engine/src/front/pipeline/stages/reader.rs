//! The parts of a stage: splits, nodes, parameters, files and numbers.

use super::super::declarations::read_path;
use super::super::dims::Dims;
use super::super::functions::Functions;
use super::super::names::Meaning;
use super::super::precision::read_precision;
use super::super::scope::Scope;
use crate::diag::{Code, Diagnostics, Span, Spanned, nearest};
use crate::front::fields::{report_unknown, suggestion};
use crate::front::{Ron, RonKind, entries};
use crate::ir::{InputKind, Symbol, Value};
use crate::op::Registry;
use crate::pipeline::{MixedPrecision, Mode, Pattern, Pipeline, SplitRef, Stage, StageIssue};
use std::collections::{HashMap, HashSet};

/// The largest count: steps, epochs, rows of a batch.
pub(super) const MANY: usize = 1 << 40;

/// Reads the parts of stages. A method reports a value that does not fit and returns none.
///
/// [`StageFields`](super::StageFields) passes the field's name in backticks as the argument `what` of a method.
pub struct StageReader<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) scope: &'a Scope,
    pub(super) dims: &'a Dims,
    pub(super) functions: &'a Functions,
    pub(super) registry: &'a Registry,
    /// The name of the stage that is being read.
    pub(super) stage: Symbol,
    /// Nodes that the stages read so far need.
    pub(super) roots: Vec<Value>,
    /// States that they write.
    pub(super) written: HashSet<Symbol>,
    pub(super) diags: &'a mut Diagnostics,
}

/// The end of a path that stands for all that lie below it.
const GROUP: &str = ".*";

/// A name in a report and the node behind it.
pub(super) type Named = (Symbol, Symbol);

impl StageReader<'_> {
    /// The pipeline, whose stages are not read yet.
    pub fn pipeline(&self) -> &Pipeline {
        self.pipeline
    }

    /// The ops and other forms.
    pub fn registry(&self) -> &Registry {
        self.registry
    }

    /// Reports an error with something to do.
    pub fn error(&mut self, code: Code, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.diags.error(code, span, message).help(help);
    }

    /// Reports why a stage has no graph, such as a loss without a gradient.
    pub(super) fn rehearse(&mut self, stage: &Stage) {
        let Err(issue) = stage.kind.rehearse(&stage.name, self.pipeline, self.registry) else { return };
        let Some(span) = issue.span.or(stage.span) else { return };
        let message = format!("stage `{}`: {}", stage.name, issue.message);
        let diagnostic = self.diags.error(issue.code, span, message);
        if let Some(help) = issue.help {
            diagnostic.help(help);
        }
    }

    pub(super) fn report_issue(&mut self, issue: StageIssue, span: Span) {
        let diagnostic = self.diags.error(issue.code, issue.span.unwrap_or(span), issue.message);
        if let Some(help) = issue.help {
            diagnostic.help(help);
        }
    }

    // ---- Data, files and numbers.

    /// A split of a data source of the pipeline: `digits.train`.
    pub fn split(&mut self, value: &Ron, _: &str) -> Option<SplitRef> {
        let (data, split) = read_path(value, "digits.train", &self.pipeline.data, self.diags)?;
        Some(SplitRef { data, split })
    }

    /// A data source of the pipeline.
    pub fn data(&mut self, value: &Ron, _: &str) -> Option<Symbol> {
        let word = value.word("a data source", self.diags)?;
        let known: Vec<&str> = self.pipeline.data.iter().map(|decl| &*decl.name).collect();
        if known.contains(&word.value) {
            return Some(word.value.into());
        }
        report_unknown(Code::E0202, word, "there is no data source", known, self.diags);
        None
    }

    /// A parameter of the pipeline.
    pub(super) fn param(&mut self, name: Spanned<&str>) -> Option<Symbol> {
        let known: Vec<&str> = self.pipeline.params.iter().map(|param| &*param.name).collect();
        if known.contains(&name.value) {
            return Some(name.value.into());
        }
        if self.is_complete() {
            report_unknown(Code::E0101, name, "there is no parameter", known, self.diags);
        }
        None
    }

    /// Whether everything that the pipeline declares is in its graph. A faulty node, or one that depends on it, may have
    /// parameters and extents that are missing.
    pub(super) fn is_complete(&self) -> bool {
        self.scope.names.values().all(|meaning| !matches!(meaning, Meaning::Faulty))
    }

    /// A pattern of names of parameters, whose variables stand in braces: `blocks.{i}.ln.g`.
    pub(super) fn pattern<'p>(&mut self, written: Spanned<&'p str>) -> Option<Pattern<'p>> {
        Pattern::read(written.value).or_else(|| self.no_match(written, "`{` and `}` enclose a name"))
    }

    /// Reports a pattern that fits no parameter.
    pub(super) fn no_match<T>(&mut self, written: Spanned<&str>, help: &str) -> Option<T> {
        let message = format!("no parameter fits `{}`", written.value);
        self.error(Code::E0101, written.span, message, help);
        None
    }

    /// The path of a file.
    pub fn file(&mut self, value: &Ron, _: &str) -> Option<String> {
        value.string("a path", self.diags).map(|path| path.to_string())
    }

    /// A text.
    pub fn text(&mut self, value: &Ron, what: &str) -> Option<String> {
        value.string(what, self.diags).map(|text| text.to_string())
    }

    /// A truth value.
    pub fn boolean(&mut self, value: &Ron, what: &str) -> Option<bool> {
        value.boolean(what, self.diags)
    }

    /// Whether ops behave as in training: `Train` or `Eval`.
    pub fn mode(&mut self, value: &Ron, what: &str) -> Option<Mode> {
        value.choice(what, &[("Train", Mode::Train), ("Eval", Mode::Eval)], self.diags)
    }

    /// The precision of a stage: `F32`, `Bf16` or `F16`.
    pub fn precision(&mut self, value: &Ron, what: &str) -> Option<MixedPrecision> {
        read_precision(value, what, self.diags)
    }

    /// A whole number of at least 1.
    pub fn count(&mut self, value: &Ron, what: &str) -> Option<usize> {
        value.integer(what, 1..=MANY, self.diags)
    }

    /// A number of more than 0.
    pub fn positive(&mut self, value: &Ron, what: &str) -> Option<f64> {
        let number = value.number(what, self.diags)?;
        if number.is_nan() || number <= 0.0 {
            let message = format!("{what} cannot be {number}");
            self.diags.error(Code::E0015, value.span, message).help("it must be more than 0");
            return None;
        }
        Some(number)
    }

    /// A finite number of at least 0.
    pub fn not_negative(&mut self, value: &Ron, what: &str) -> Option<f64> {
        let number = value.number(what, self.diags)?;
        if !(number >= 0.0 && number.is_finite()) {
            let message = format!("{what} cannot be {number}");
            self.diags.error(Code::E0015, value.span, message).help("it is a finite number of at least 0");
            return None;
        }
        Some(number)
    }

    // ---- Nodes.

    /// The value that a node's name stands for; `t.indices` is one of several results, `y.a` a node of the function that
    /// `y` calls.
    pub(super) fn find(&self, path: &str) -> Option<Value> {
        match self.scope.names.get(path) {
            Some(Meaning::Value(value)) => Some(*value),
            Some(_) => None,
            None => self.pipeline.graph.find(path).filter(|_| self.expression_of(path).is_none()),
        }
    }

    /// The node of which a name is a part without a name in the file, as in `h.1`. The calls of a repeated layer are
    /// numbered from 0, the parts of an expression from 1.
    fn expression_of<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (whole, number) = path.rsplit_once('.')?;
        let is_number = number.bytes().all(|digit| digit.is_ascii_digit());
        let graph = &self.pipeline.graph;
        let is_part = is_number && graph.find(path).is_some() && graph.find(&format!("{whole}.0")).is_none();
        is_part.then_some(whole)
    }

    pub(super) fn value(&mut self, value: &Ron) -> Option<Value> {
        let word = value.word("the name of a node", self.diags)?;
        self.value_at(word)
    }

    fn value_at(&mut self, word: Spanned<&str>) -> Option<Value> {
        let found = self.find(word.value);
        if found.is_none() && !matches!(self.scope.names.get(word.value), Some(Meaning::Faulty)) {
            self.unknown_node(&word);
        }
        self.roots.extend(found);
        found
    }

    /// The name of a node.
    pub fn node(&mut self, value: &Ron, _: &str) -> Option<Symbol> {
        self.value(value).map(|node| self.symbol(node))
    }

    fn unknown_node(&mut self, word: &Spanned<&str>) {
        let near = nearest(word.value, self.scope.names.keys().map(|name| &**name));
        let is_expression = !word.value.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
        let help = match (self.expression_of(word.value), near) {
            (Some(whole), _) => format!("it is a part of `{whole}`; give that part a name under `nodes`"),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) if is_expression => {
                "give the expression a name under `nodes`, and name it here".to_owned()
            }
            (None, None) => "a stage names nodes of the graph".to_owned(),
        };
        let shown = crate::text::lex::shorten(word.value);
        self.diags.error(Code::E0101, word.span, format!("no node is called `{shown}`")).help(help);
    }

    pub(super) fn symbol(&self, value: Value) -> Symbol {
        self.pipeline.graph.name_of(value).clone()
    }

    fn scalar(&mut self, value: &Ron, what: &str) -> Option<Value> {
        let node = self.value(value)?;
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

    /// A scalar node of floats.
    pub fn loss(&mut self, value: &Ron, _: &str) -> Option<Symbol> {
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

    /// Scalar nodes by the names that reports give them.
    pub fn metrics(&mut self, value: &Ron, what: &str) -> Option<Vec<Named>> {
        self.named(value, what, "", |reader, value| reader.scalar(value, "a metric"))
    }

    /// Nodes by the names that reports give them.
    pub fn outputs(&mut self, value: &Ron, what: &str) -> Option<Vec<Named>> {
        self.named(value, what, "", StageReader::value)
    }

    /// `{"accuracy": "acc"}`, or `["acc"]` for nodes under their own names, which `prefix` stands before.
    pub(super) fn named(
        &mut self,
        value: &Ron,
        what: &str,
        prefix: &str,
        mut read: impl FnMut(&mut Self, &Ron) -> Option<Value>,
    ) -> Option<Vec<Named>> {
        if let RonKind::List(items) = &value.kind {
            let mut name = |item| {
                let node = read(self, item)?;
                let node = self.symbol(node);
                Some((format!("{prefix}{node}").into(), node))
            };
            let named: Vec<Option<Named>> = items.iter().map(&mut name).collect();
            self.report_repeated(items, &named);
            return named.into_iter().collect();
        }
        self.each(value, what, |reader, name, value| {
            read(reader, value).map(|node| (name.value.into(), reader.symbol(node)))
        })
    }

    /// Reads every entry of a map, so that the faults of all are reported.
    pub(super) fn each<T>(
        &mut self,
        value: &Ron,
        what: &str,
        mut read: impl FnMut(&mut Self, Spanned<&str>, &Ron) -> Option<T>,
    ) -> Option<Vec<T>> {
        let entries = entries(value, what, self.diags)?;
        let read: Vec<_> = entries.into_iter().map(|(name, value)| read(self, name, value)).collect();
        read.into_iter().collect()
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

    /// Next values of parameters and states: `{"w1": "w1_next"}`.
    pub fn state(&mut self, value: &Ron, what: &str) -> Option<Vec<Named>> {
        self.links(value, what, false)
    }

    /// As [`StageReader::state`]; beside an optimizer, of states alone.
    pub(super) fn links(&mut self, value: &Ron, what: &str, beside_optimizer: bool) -> Option<Vec<Named>> {
        let links = self.each(value, what, |reader, name, value| {
            let next = value.word("the name of a node", reader.diags)?;
            let owners = name.value.strip_suffix(GROUP).zip(next.value.strip_suffix(GROUP));
            let pairs = match owners {
                Some((owner, next_owner)) => reader.members(name, owner, next_owner)?,
                None => vec![(name.value.to_owned(), next.value.to_owned())],
            };
            let links = pairs.iter().map(|(param, node)| {
                let (param, node) =
                    (Spanned::new(name.span, param.as_str()), Spanned::new(next.span, node.as_str()));
                reader.link(&param, node, beside_optimizer)
            });
            links.collect::<Vec<_>>().into_iter().collect::<Option<Vec<Named>>>()
        })?;
        Some(links.into_iter().flatten().collect())
    }

    /// The parameters below a path, each with the path of that name below another: `"memory.*": "built.*"`.
    fn members(&mut self, group: Spanned<&str>, owner: &str, other: &str) -> Option<Vec<(String, String)>> {
        if matches!(self.scope.names.get(other), Some(Meaning::Faulty)) {
            return None;
        }
        let params = self.pipeline.params.iter().filter_map(|param| {
            let member = param.name.strip_prefix(owner)?.strip_prefix('.')?;
            Some((param.name.to_string(), format!("{other}.{member}")))
        });
        let members: Vec<_> = params.collect();
        if members.is_empty() {
            let message = format!("no parameter lies below `{owner}`");
            self.error(
                Code::E0206,
                group.span,
                message,
                "`memory.*` stands for all parameters of a layer `memory`",
            );
            return None;
        }
        Some(members)
    }

    fn link(&mut self, name: &Spanned<&str>, node: Spanned<&str>, beside_optimizer: bool) -> Option<Named> {
        let Some(param) = self.pipeline.params.iter().find(|param| &*param.name == name.value) else {
            if !matches!(self.scope.names.get(name.value), Some(Meaning::Faulty)) {
                let known: Vec<&str> = self.pipeline.params.iter().map(|param| &*param.name).collect();
                let help = suggestion(name.value, &known, self.diags);
                let message = format!("`{}` is no parameter", name.value);
                self.diags.error(Code::E0206, name.span, message).help(help);
            }
            return None;
        };
        if beside_optimizer && param.kind == InputKind::Param {
            let message =
                format!("`{}` is no state, so it cannot be updated beside an optimizer", name.value);
            self.error(
                Code::E0206,
                name.span,
                message,
                "declare it with `state: true`, or leave it out of `state`",
            );
            return None;
        }
        let next = self.value_at(node)?;
        let ty = self.pipeline.graph.ty(next);
        if *ty != param.ty {
            let message = format!("`{}` is {}, its next value is {ty}", param.name, param.ty);
            self.diags.error(Code::E0206, node.span, message).help("state keeps its type");
            return None;
        }
        self.written.insert(param.name.clone());
        Some((param.name.clone(), self.symbol(next)))
    }

    /// Warns of nodes that no stage uses. A warning about the last node of a chain stands for the whole chain.
    pub(super) fn warn_of_unused(&mut self) {
        let live = self.pipeline.graph.reached(self.roots.iter().copied());
        let mut used = live;
        for node in &self.pipeline.graph.nodes {
            node.inputs.iter().for_each(|input| used[input.node] = true);
        }
        for (name, meaning) in &self.scope.names {
            if let (Meaning::Value(value), Some(&span)) = (meaning, self.scope.places.get(name))
                && !used[value.node]
                && !self.uses_a_result(name, &used)
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

    /// Whether a result of the function that a node calls is used.
    fn uses_a_result(&self, name: &Symbol, used: &[bool]) -> bool {
        let call = self.pipeline.calls.iter().find(|call| call.path == *name);
        let results = call.map_or(&[][..], |call| &call.results);
        results.iter().any(|result| self.pipeline.graph.find(result).is_some_and(|value| used[value.node]))
    }
}
