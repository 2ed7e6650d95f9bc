//! Names in expressions: values, settings, extents, results and parameters of layers.

use super::super::names::Meaning;
use super::super::nodes::split_owner;
use super::state::{Naming, Operand, Typing};
use crate::diag::{Code, Span, Spanned, nearest};
use crate::ir::{Attr, Literal, NodeId, NodeOp, Value};
use crate::text::expr::{ALL_RESULTS, Expr, ExprKind};

impl Typing<'_, '_> {
    pub(super) fn named(&mut self, path: &str, span: Span) -> Option<Operand> {
        let Some((name, rest)) = split_owner(path, |path| self.names.contains_key(path)) else {
            return self.extent_or_step(path, span);
        };
        match &self.names[name] {
            Meaning::Faulty => None,
            Meaning::Value(value) if rest.is_empty() => Some(Operand::Value(*value)),
            Meaning::Value(value) => self.part(*value, rest, span).map(Operand::Value),
            Meaning::Setting(Attr::Lit(literal)) if rest.is_empty() => Some(Operand::Literal(*literal)),
            Meaning::Setting(_) => self.no_tensor(span, &format!("the setting `{path}`")),
            Meaning::Extent(_) if !rest.is_empty() => {
                self.no_tensor(span, &format!("`{rest}` of the extent `{name}`"))
            }
            Meaning::Extent(dim) => match dim.fixed() {
                Some(extent) => Some(Operand::Literal(Literal::Int(extent as i64))),
                None => self.open_extent(path, span),
            },
            Meaning::Layer(layer) if !rest.is_empty() => {
                self.param_of(&layer.owner, rest, span).map(Operand::Value)
            }
            Meaning::Layer(_) => {
                self.diags
                    .error(Code::E0404, span, format!("the layer `{path}` is no tensor"))
                    .help(format!("call it: `{path}(x)`, or name a parameter: `{path}.w`"));
                None
            }
        }
    }

    pub(super) fn open_extent(&mut self, name: &str, span: Span) -> Option<Operand> {
        self.diags
            .error(Code::E0117, span, format!("the extent `{name}` is not known before a stage binds it"))
            .help("extents that a stage binds may stand in shapes only");
        None
    }

    /// `when(condition, a, b)`: the side that the constant condition chooses. The other side is not read.
    pub(super) fn when(&mut self, args: &[Expr], naming: Option<Naming>) -> Option<Operand> {
        match self.constants().chosen(args) {
            Some(chosen) => self.eval(chosen, naming),
            None => {
                self.diags
                    .error(Code::E0104, args[0].span, "the condition of `when` is not known before a run")
                    .help("`where(condition, a, b)` takes tensors");
                None
            }
        }
    }

    pub(super) fn extent_or_step(&mut self, path: &str, span: Span) -> Option<Operand> {
        if let Some(&extent) = self.dims.get(path) {
            return Some(Operand::Literal(Literal::Int(extent as i64)));
        }
        if path == "step" {
            return Some(Operand::Value(self.builder.step()));
        }
        // A rate of a schedule knows no other name.
        let is_rate = self.names.len() == 1 && self.names.contains_key("step");
        let near = if self.diags.is_full() { None } else { nearest(path, self.names.keys().map(|k| &**k)) };
        let error = self.diags.error(Code::E0101, span, format!("nothing is called `{path}`"));
        match near {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None if is_rate => error.help("only `step` and the extents of `dims` are known here"),
            None => error.help("inputs, parameters and nodes have names, and so has `step`"),
        };
        None
    }

    /// A result of the node behind a value, or a parameter of the layer that it calls: `t.indices`, `embed.w`.
    pub(super) fn part(&mut self, value: Value, part: &str, span: Span) -> Option<Value> {
        let Some(called) = self.written.calls.get(self.builder.graph.name_of(value)).cloned() else {
            return self.port(value.node, part, span).map(|port| Value { port, ..value });
        };
        let is_param = self.written.params.contains_key(&*format!("{}.{part}", called.owner));
        if is_param {
            return self.param_of(&called.owner, part, span);
        }
        let what = self.builder.graph.name_of(value).to_string();
        let port = find_result(&called.outputs, part, called.results.len());
        self.known_result(port, &what, &called.outputs, part, span).map(|port| called.results[port])
    }

    /// The number of the result of a node that is called `port`.
    pub(super) fn port(&mut self, node: NodeId, port: &str, span: Span) -> Option<usize> {
        let node = self.builder.graph.node(node);
        let (what, names) = match &node.op {
            NodeOp::Call(call) => (call.form().name.clone(), call.form().outputs.clone()),
            _ => (node.name().to_string(), vec![]),
        };
        let found = find_result(&names, port, node.outputs.len());
        self.known_result(found, &what, &names, port, span)
    }

    pub(super) fn known_result(
        &mut self,
        found: Option<usize>,
        what: &str,
        names: &[String],
        port: &str,
        span: Span,
    ) -> Option<usize> {
        if found.is_none() {
            let message = format!("`{what}` has no result `{port}`");
            let known = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let help = if known.is_empty() {
                "it has one result".into()
            } else {
                format!("its results are {known}")
            };
            self.diags.error(Code::E0113, span, message).help(help);
        }
        found
    }

    /// `t.*`: all results of a node, all parameters of a layer, or all names below `t`, in the order of their definition.
    pub(super) fn group(&mut self, owner: &Expr) -> Option<Vec<Operand>> {
        if let ExprKind::Call { callee, args, named } = &owner.kind {
            let results = self.call(callee, args, named, owner.span, None)?;
            return Some(results.into_iter().map(Operand::Value).collect());
        }
        let ExprKind::Name(path) = &owner.kind else {
            return self.no_tensor(owner.span, "a group of an expression").map(|operand| vec![operand]);
        };
        let below = format!("{path}.");
        let values = match self.names.get(path.as_str()) {
            Some(Meaning::Faulty) => return None,
            Some(Meaning::Value(value)) => self.results_of(*value),
            Some(Meaning::Layer(layer)) => {
                let below = format!("{}.", layer.owner);
                let params = self.written.params.iter().filter(|(path, _)| path.starts_with(&below));
                params.map(|(_, (_, value))| *value).collect()
            }
            _ => {
                let members = self.names.iter().filter(|(name, _)| name.starts_with(&below));
                members.filter_map(|(_, meaning)| meaning.value()).collect()
            }
        };
        if values.is_empty() {
            self.diags.error(Code::E0101, owner.span, format!("`{path}.*` stands for nothing")).help(
                "it stands for all results of a node, or for all parameters of a layer that a node calls",
            );
            return None;
        }
        Some(values.into_iter().map(Operand::Value).collect())
    }

    /// All results of the node or of the call of a function behind a value.
    fn results_of(&self, value: Value) -> Vec<Value> {
        match self.written.calls.get(self.builder.graph.name_of(value)) {
            Some(called) => called.results.clone(),
            None => {
                let n_results = self.builder.graph.node(value.node).outputs.len();
                (0..n_results).map(|port| Value { port, ..value }).collect()
            }
        }
    }

    /// `topk(x, k=3).indices`: the name is for that result.
    pub(super) fn port_of_call(
        &mut self,
        base: &Expr,
        port: &Spanned<String>,
        naming: Option<Naming>,
    ) -> Option<Value> {
        if **port == *ALL_RESULTS {
            let message = "`.*` stands for several tensors";
            self.diags.error(Code::E0113, port.span, message).help("it is an operand of a call: `f(x, t.*)`");
            return None;
        }
        let ExprKind::Call { callee, args, named } = &base.kind else {
            self.diags
                .error(Code::E0113, port.span, format!("`.{}` asks for one of several results", port.value))
                .help("only calls of ops have several");
            return None;
        };
        let outputs = self.outputs_of(callee);
        let known = outputs.iter().position(|name| *name == port.value);
        let naming = naming.zip(known).map(|(naming, port)| Naming { port, ..naming });
        let results = self.call(callee, args, named, base.span, naming)?;
        let found = find_result(&outputs, port, results.len());
        self.known_result(found, callee, &outputs, port, port.span).map(|port| results[port])
    }

    /// Names of the results of an op, a function or a layer.
    pub(super) fn outputs_of(&self, callee: &str) -> Vec<String> {
        if let Some(Meaning::Layer(layer)) = self.names.get(callee) {
            return layer.function.form.outputs.clone();
        }
        let callee = self.named_by_setting(callee).unwrap_or(callee);
        let function = self.function(callee).map(|function| function.form.clone());
        let form = function.or_else(|| self.builder.registry().op(callee));
        form.map_or(vec![], |form| form.outputs.clone())
    }
}

/// The number of the result of that name or number.
fn find_result(names: &[String], port: &str, n_results: usize) -> Option<usize> {
    let found = names.iter().position(|name| name == port).or_else(|| port.parse().ok());
    found.filter(|&found| found < n_results)
}
