//! Calls of functions, written out where they stand: the graph of a pipeline holds ops alone.
//!
//! A node `a` of a function that node `y` calls becomes the node `y.a`. A call within an expression has a derived name,
//! so that its nodes are `y.1.a`. The path of names fixes the random stream of a node, and inspection finds it there.
//! Parameters of a layer have paths of the same kind, which all calls of the layer share.

use super::super::constants::Constants;
use super::super::function::{Function, FunctionForm, FunctionNode, Known, Layer, LayerDef};
use super::super::manner::Manner;
use super::super::names::{Meaning, Names};
use super::super::params::{declare, exists};
use super::super::settings;
use super::super::types::{EXTENT_HELP, resolve};
use super::loops::{N_TRIPS, Trips};
use super::pattern::bind_operand;
use super::reports::{check_declared, report_unknown_op};
use super::state::{FunctionCall, Naming, Operand, Typing};
use super::written::{Around, Called, Place, Written};
use crate::diag::{Code, Diagnostics, Span, Spanned};
use crate::ir::{Attrs, Body, Builder, InputKind, NodeOp, Symbol, Type, Value};
use crate::op::TypeIssue;
use crate::text::expr::Expr;
use std::collections::HashSet;
use std::sync::Arc;

/// How many nodes all calls of functions may stand for.
const MAX_NODES: usize = 1 << 21;

impl Typing<'_, '_> {
    /// The function or layer that a call names, with its settings; nothing for an op.
    pub(super) fn callee(
        &mut self,
        callee: &Spanned<String>,
        named: &[(Spanned<String>, Expr)],
    ) -> Option<Option<FunctionCall>> {
        if let Some(Meaning::Layer(layer)) = self.names.get(callee.as_str()) {
            return Some(self.layer_call(&layer.clone(), named));
        }
        let function = self.function(callee).or_else(|| {
            // A setting may name a function of the pipeline, which a library does not know.
            let name = self.named_by_setting(callee)?;
            self.builder.registry().form::<FunctionForm>(name).cloned()
        })?;
        Some(self.manner_of(named, &function.form.clone()).and_then(|(manner, given)| {
            let attrs = settings::read(&function.form, &given, callee.span, self.constants(), self.diags)?;
            Some(FunctionCall { function, attrs, manner, owner: None })
        }))
    }

    pub(super) fn layer_call(
        &mut self,
        layer: &Layer,
        named: &[(Spanned<String>, Expr)],
    ) -> Option<FunctionCall> {
        if let Some((name, _)) = named.first() {
            self.diags
                .error(Code::E0404, name.span, "a call of a layer has no settings")
                .help("settings are given where the layer is declared");
            return None;
        }
        let Layer { function, attrs, manner, owner } = layer;
        let (function, attrs, owner) = (function.clone(), attrs.clone(), Some(owner.clone()));
        Some(FunctionCall { function, attrs, manner: *manner, owner })
    }

    /// The function of that name.
    pub(super) fn function(&self, name: &str) -> Option<FunctionForm> {
        self.around.scope.form::<FunctionForm>(name).cloned()
    }

    /// Writes a function out, and returns its results. The first bears the name, unless `naming` gives it to another.
    pub(super) fn write_call(
        &mut self,
        call: &FunctionCall,
        args: &[Spanned<Operand>],
        written: &[(Spanned<String>, Expr)],
        span: Span,
        naming: Option<Naming>,
    ) -> Option<Vec<Value>> {
        let form = call.function.form.clone();
        let dtype = self.dtype_of_literals(call, args, written, span)?;
        let inputs: Option<Vec<Value>> = args.iter().map(|arg| self.operand(arg, dtype)).collect();
        let mut inputs = inputs?;
        self.builder.set_span(Some(span));
        let (path, port) = match naming {
            Some(Naming { name, port }) => (Symbol::from(name), port),
            None => (self.builder.fresh_name(), 0),
        };
        let place = self.place_of(call, &path);
        let n_carried = form.outputs.len() - usize::from(call.manner.until.is_some());
        let Manner { repeat, over, until, .. } = call.manner;
        if (repeat.is_some() || over.is_some() || until.is_some()) && n_carried > inputs.len() {
            let message = format!("`{}` cannot be repeated: it has more results than operands", form.name);
            self.diags
                .error(Code::E0404, span, message)
                .help("each result becomes an operand of the next call");
            return None;
        }
        let first = self.builder.graph.nodes.len();
        let written = match (over, until) {
            (Some(axis), _) => self.write_over((call, axis), &place, inputs.clone(), span)?,
            (_, Some(until)) => self.write_loop(call, &place, inputs.clone(), (Trips::Until(until), span)),
            _ => self.write_copies(call, (&place, &path, port), &mut inputs, span),
        };
        let mut results = match written {
            Ok(results) => results,
            Err(issue) => {
                self.report_inside(call, issue, args, &inputs, span);
                return None;
            }
        };
        let mut outputs = form.outputs.clone();
        outputs.extend(until.map(|_| N_TRIPS.to_string()));
        if over.is_some() || until.is_some() {
            self.note_recomputed(call, &path, first);
            let names = self.result_names(&outputs, &path, port);
            let pairs = results.iter_mut().zip(&names);
            pairs.for_each(|(value, name)| *value = self.bear(*value, name, first));
        }
        let called = Called {
            function: form.name.clone(),
            repeat: call.manner.repeat,
            path: place.path,
            results: results.clone(),
            owner: place.owner,
            outputs,
        };
        self.written.calls.insert(path, called);
        Some(results)
    }

    /// The results of the last copy of a call.
    fn write_copies(
        &mut self,
        call: &FunctionCall,
        (place, path, port): (&Place, &Symbol, usize),
        inputs: &mut [Value],
        span: Span,
    ) -> Result<Vec<Value>, TypeIssue> {
        let outputs = &call.function.form.outputs;
        let copies: Vec<Place> = match call.manner.repeat {
            None => vec![place.clone()],
            Some(n) => (0..n).map(|i| place.copy(i)).collect(),
        };
        let mut results = vec![];
        for (i, copy) in copies.iter().enumerate() {
            let first = self.builder.graph.nodes.len();
            let is_last = i + 1 == copies.len();
            results = self.write_copy(call, copy, inputs, span)?;
            self.note_recomputed(call, &copy.path, first);
            let names = self.result_names(outputs, if is_last { path } else { &copy.path }, port);
            for (value, name) in results.iter_mut().zip(&names) {
                *value = self.bear(*value, name, first);
            }
            if !is_last {
                inputs[..outputs.len()].copy_from_slice(&results);
            }
        }
        Ok(results)
    }

    /// Where a call is written out. Nodes of the first call of a declared layer have paths below the layer's own.
    fn place_of(&mut self, call: &FunctionCall, path: &Symbol) -> Place {
        let Some(owner) = call.owner.clone() else { return self.around.place.inside(path) };
        let is_first = self.written.called.insert(owner.clone());
        Place { path: if is_first { owner.clone() } else { path.clone() }, owner }
    }

    /// The results of one copy.
    pub(super) fn write_copy(
        &mut self,
        call: &FunctionCall,
        place: &Place,
        inputs: &[Value],
        span: Span,
    ) -> Result<Vec<Value>, TypeIssue> {
        if self.builder.graph.nodes.len() > MAX_NODES {
            let issue = TypeIssue::new(format!("the pipeline stands for more than {MAX_NODES} nodes"));
            return Err(issue.help("call large functions less often"));
        }
        let (outer, mark) = (self.builder.scope(), self.builder.no_fuse());
        self.builder.set_scope(&place.path, Some(span));
        let Known { function, scope, .. } = &*call.function;
        let around = Around { scope, place };
        let results = function.write_out(self.builder, self.written, around, inputs, &call.attrs);
        self.builder.set_scope(&outer, Some(span));
        self.builder.set_no_fuse(mark);
        results
    }

    /// Keeps derived names distinct from the names of a repeated call's copies: `blocks.0`, `blocks.1`, ….
    pub(super) fn reserve_copies(&mut self, call: &Option<FunctionCall>, naming: Option<Naming>) {
        if let (
            Some(FunctionCall { manner: Manner { repeat: Some(n), .. }, .. }),
            Some(Naming { name, .. }),
        ) = (call, naming)
        {
            self.builder.reserve([Symbol::from(format!("{name}.{n}"))].into_iter());
        }
    }

    fn report_inside(
        &mut self,
        call: &FunctionCall,
        issue: TypeIssue,
        args: &[Spanned<Operand>],
        inputs: &[Value],
        span: Span,
    ) {
        let types: Vec<Type> = inputs.iter().map(|&value| self.builder.ty(value).clone()).collect();
        self.report(&call.function.form, issue, &types, args, span);
    }

    /// Names of the results: the name of the call for one of them, names of the call and the result for the others.
    pub(super) fn result_names(&mut self, outputs: &[String], path: &Symbol, port: usize) -> Vec<Symbol> {
        let derived = |result: &String| Symbol::from(format!("{path}.{result}"));
        let names: Vec<Symbol> = outputs.iter().map(derived).collect();
        let names = names.into_iter().enumerate().map(|(at, name)| match at == port {
            true => path.clone(),
            false if self.names.contains_key(&name) => self.builder.fresh_name(),
            false => name,
        });
        names.collect()
    }

    /// Gives a result of a function the name of the call. A value with a name of its own, such as an operand or a node
    /// of the function, keeps that name. Its copy gets the new one.
    pub(super) fn bear(&mut self, value: Value, name: &Symbol, first: usize) -> Value {
        let output = &mut self.builder.graph.nodes[value.node].outputs[value.port];
        if output.name == *name {
            return value;
        }
        let is_derived = output.name.rsplit('.').next().is_some_and(|last| last.parse::<usize>().is_ok());
        if is_derived && value.node >= first {
            output.name = name.clone();
            return value;
        }
        let (identity, ty) = (Arc::new(Body::new(1, |x| vec![x[0]])), output.ty.clone());
        self.builder.push_named(name.clone(), NodeOp::Map(identity), vec![value], ty)
    }

    /// The value of a parameter that calls of a layer have made: `w` of the layer at `owner`.
    pub(super) fn param_of(&mut self, owner: &str, param: &str, span: Span) -> Option<Value> {
        let path = format!("{owner}.{param}");
        let found = self.written.params.get(&*path).map(|(_, value)| *value);
        if found.is_none() {
            let start = format!("{owner}.");
            let known = self.written.params.keys().filter_map(|path| path.strip_prefix(&start));
            let known: Vec<String> = known.map(|param| format!("`{param}`")).collect();
            let error = self.diags.error(Code::E0101, span, format!("`{owner}` has no parameter `{param}`"));
            error.help(match known.is_empty() {
                true => "parameters of a layer exist once a node calls it".to_owned(),
                false => format!("its parameters are {}", known.join(", ")),
            });
        }
        found
    }

    /// A declared layer with the values of its settings.
    pub(crate) fn layer(&mut self, def: &LayerDef, owner: Symbol) -> Option<Meaning> {
        let Some(function) = self.function(&def.function) else {
            self.report_no_layer(&def.function);
            return None;
        };
        let (manner, given) = self.manner_of(&def.settings, &function.form)?;
        let attrs = settings::read(&function.form, &given, def.function.span, self.constants(), self.diags)?;
        Some(Meaning::Layer(Arc::new(Layer { function, attrs, manner, owner })))
    }

    fn report_no_layer(&mut self, name: &Spanned<String>) {
        if self.faulty_ops.contains(name.as_str()) {
            return;
        }
        let registry = self.builder.registry();
        if registry.op(name).is_some() {
            self.diags
                .error(Code::E0404, name.span, format!("the op `{}` owns no parameters", name.value))
                .help("a layer is a function with `params`; call the op in a node");
        } else {
            report_unknown_op(registry, &Spanned::new(name.span, name.as_str()), self.diags);
        }
    }
}

impl Function {
    /// Adds the function's nodes under paths that begin with the path of the place: node `s` becomes `h.s` where `h` calls
    /// the function. Results have derived names, which the caller may replace.
    ///
    /// # Errors
    /// If an operand does not fit, or an expression within.
    pub(crate) fn write_out(
        &self,
        builder: &mut Builder,
        written: &mut Written,
        around: Around,
        inputs: &[Value],
        attrs: &Attrs,
    ) -> Result<Vec<Value>, TypeIssue> {
        let mut names = Names::new();
        for (input, &value) in self.inputs.iter().zip(inputs) {
            names.insert(input.name.clone(), Meaning::Value(value));
        }
        for spec in &self.settings {
            names.insert(spec.name.as_str().into(), Meaning::Setting(attrs.get(&spec.name).clone()));
        }
        for (at, (input, &value)) in self.inputs.iter().zip(inputs).enumerate() {
            if let Some(pattern) = &input.pattern {
                bind_operand((at, &input.name), pattern, builder.ty(value), &mut names, &self.dims)?;
            }
        }
        let mut diags = Diagnostics::new();
        let mut writer = Writer { function: self, builder, written, around, names, diags: &mut diags };
        writer.extents();
        writer.omitted(inputs.len())?;
        writer.params();
        writer.layers();
        self.nodes.iter().for_each(|node| writer.node(node));
        writer.updates();
        let results: Vec<Value> = self.outputs.iter().filter_map(|(_, expr)| writer.output(expr)).collect();
        if diags.has_errors() { Err(self.issue(&diags)) } else { Ok(results) }
    }

    fn issue(&self, diags: &Diagnostics) -> TypeIssue {
        let Some(first) = diags.sorted().into_iter().next() else {
            return TypeIssue::new(format!("`{}` cannot be written out", self.name.value));
        };
        let mut issue = TypeIssue::new(format!("in `{}`: {}", self.name.value, first.message));
        issue.help = first.help.clone();
        issue.inside = Some(Box::new(first.clone()));
        issue
    }
}

/// Writes one function out.
struct Writer<'w, 'r> {
    function: &'w Function,
    builder: &'w mut Builder<'r>,
    written: &'w mut Written,
    around: Around<'w>,
    names: Names,
    diags: &'w mut Diagnostics,
}

impl Writer<'_, '_> {
    fn typing<T>(&mut self, read: impl FnOnce(&mut Typing) -> T) -> T {
        let faulty = HashSet::new();
        read(&mut Typing {
            builder: &mut *self.builder,
            names: &self.names,
            dims: &self.function.dims,
            faulty_ops: &faulty,
            written: &mut *self.written,
            around: self.around,
            diags: &mut *self.diags,
        })
    }

    fn path(&self, name: &str) -> Symbol {
        format!("{}.{name}", self.around.place.path).into()
    }

    fn extents(&mut self) {
        for (name, expr) in &self.function.extents {
            let known = Constants { names: &self.names, dims: &self.function.dims };
            let meaning = match known.extent(expr) {
                Ok(extent) => Meaning::Extent(extent),
                Err((span, message)) => {
                    self.diags.error(Code::E0117, span, message).help(EXTENT_HELP);
                    Meaning::Faulty
                }
            };
            self.names.insert(name.as_str().into(), meaning);
        }
    }

    /// The values of operands that the call leaves out. Their patterns give names to extents, too.
    fn omitted(&mut self, n_given: usize) -> Result<(), TypeIssue> {
        for (at, input) in self.function.inputs.iter().enumerate().skip(n_given) {
            let Some(default) = &input.default else { continue };
            let value = self.defined(&input.name, default);
            if let (Some(value), Some(pattern)) = (value, &input.pattern) {
                let ty = self.builder.ty(value).clone();
                bind_operand((at, &input.name), pattern, &ty, &mut self.names, &self.function.dims)?;
            }
            self.names.insert(input.name.clone(), value.map_or(Meaning::Faulty, Meaning::Value));
        }
        Ok(())
    }

    /// Makes the parameters, or finds those that an earlier call of the layer has made.
    fn params(&mut self) {
        for def in &self.function.params {
            let known = Constants { names: &self.names, dims: &self.function.dims };
            if exists(def, known, self.diags) == Some(false) {
                continue;
            }
            let path: Symbol = format!("{}.{}", self.around.place.owner, def.name.value).into();
            let Some(decl) = declare(def, path.clone(), known, self.diags) else {
                self.names.insert(def.name.as_str().into(), Meaning::Faulty);
                continue;
            };
            let value = match self.written.params.get(&path) {
                Some((earlier, value)) if earlier.ty == decl.ty => *value,
                Some((earlier, _)) => {
                    let message =
                        format!("`{path}` is {} in one call and {} in another", earlier.ty, decl.ty);
                    self.diags
                        .error(Code::E0404, def.name.span, message)
                        .help("calls of one layer share its parameters, so their operands have equal widths");
                    continue;
                }
                None => self.param(path.clone(), decl),
            };
            let value = self.written.updates.get(&path).copied().unwrap_or(value);
            self.names.insert(def.name.as_str().into(), Meaning::Value(value));
        }
    }

    fn param(&mut self, path: Symbol, decl: crate::pipeline::ParamDecl) -> Value {
        self.builder.set_span(decl.span);
        let mark = self.builder.no_fuse();
        self.builder.set_no_fuse(None);
        let value = self.builder.input(&path, decl.kind, decl.ty.clone());
        self.builder.set_no_fuse(mark);
        self.written.params.insert(path, (decl, value));
        value
    }

    fn layers(&mut self) {
        for def in &self.function.layers {
            let owner = format!("{}.{}", self.around.place.owner, def.name.value).into();
            let layer = self.typing(|typing| typing.layer(def, owner));
            self.names.insert(def.name.as_str().into(), layer.unwrap_or(Meaning::Faulty));
        }
    }

    fn node(&mut self, node: &FunctionNode) {
        let path = self.path(&node.name);
        let mark = self.builder.no_fuse();
        if node.no_fuse && mark.is_none() {
            self.builder.set_no_fuse(Some(path.clone()));
        }
        let first = self.builder.graph.nodes.len();
        let value = self.defined(&node.name, &node.expr);
        self.typing(|typing| typing.keep_precision(first, node.full_precision));
        if let (Some(value), Some(ty)) = (value, &node.ty) {
            let known = Constants { names: &self.names, dims: &self.function.dims };
            if let Some(declared) = resolve(ty, known, self.diags) {
                let declared = Spanned::new(ty.span, declared);
                check_declared(&node.name, &declared, self.builder.ty(value), self.diags);
            }
        }
        self.names.insert(node.name.clone(), value.map_or(Meaning::Faulty, Meaning::Value));
        self.builder.set_no_fuse(mark);
    }

    /// The value of an expression under a name of the function. The path of a result's name is that of the result.
    fn defined(&mut self, name: &str, expr: &Expr) -> Option<Value> {
        let path = self.path(name);
        let is_result = self.function.outputs.iter().any(|(result, _)| result == name);
        self.typing(|typing| match is_result {
            true => typing.value(&path, expr),
            false => typing.define(&path, expr),
        })
    }

    fn output(&mut self, expr: &Expr) -> Option<Value> {
        let path = self.around.place.path.clone();
        self.typing(|typing| typing.value(&path, expr))
    }

    /// States of the layer, with the values that they have after a step in training.
    fn updates(&mut self) {
        for (state, expr) in &self.function.updates {
            let path: Symbol = format!("{}.{}", self.around.place.owner, state.value).into();
            let is_state = |(decl, _): &(crate::pipeline::ParamDecl, Value)| decl.kind == InputKind::State;
            if !self.written.params.get(&path).is_some_and(is_state) {
                let message = format!("`{}` is no state of this layer", state.value);
                self.diags
                    .error(Code::E0404, state.span, message)
                    .help("declare it under `params` with `state: true`");
                continue;
            }
            let next = self.path(&format!("{}.next", state.value));
            if let Some(value) = self.typing(|typing| typing.define(&next, expr)) {
                self.written.updates.insert(path, value);
            }
        }
    }
}
