//! From expressions to typed nodes.
//!
//! Numbers without a type take that of the operands beside them; arithmetic among such numbers is done here, exactly
//! where they are integers. A number that stands alone is `f32` if it has a fraction, else `i32`.

mod calls;
mod pattern;
mod written;

use calls::{FunctionCall, named_by_setting};
pub(super) use written::{Around, Place, Written};

use super::constants::Constants;
use super::dims::Dims;
use super::function::{FunctionForm, Layer};
use super::literals::{default_dtype, fit, fold_binary, fold_unary, is_sound};
use super::names::{Meaning, Names};
use super::nodes::split_owner;
use super::op_names::{is_when, op_name, unary_op_name};
use super::settings;
use super::types::check_size;
use crate::diag::{Code, Diagnostics, Span, Spanned, nearest};
use crate::ir::{
    Attr, Attrs, Body, Builder, Call, DType, Literal, NodeId, NodeOp, Output, Symbol, Type, Value,
    broadcast_shapes,
};
use crate::op::{OpForm, Registry, TypeIssue, TypeRule};
use crate::text::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use std::collections::HashSet;
use std::sync::Arc;

/// Makes nodes of expressions. A method reports an error and returns `None`.
pub(super) struct Typing<'t, 'r> {
    pub(super) builder: &'t mut Builder<'r>,
    pub(super) names: &'t Names,
    pub(super) dims: &'t Dims,
    /// Functions that could not be defined, which has been reported.
    pub(super) faulty_ops: &'t HashSet<String>,
    pub(super) written: &'t mut Written,
    pub(super) around: Around<'t>,
    pub(super) diags: &'t mut Diagnostics,
}

/// The value of a sub-expression.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Value(Value),
    /// A number that takes its type from the other operands.
    Literal(Literal),
}

/// The name of the node that is made for an expression, and the result that bears it.
#[derive(Clone, Copy)]
struct Naming<'n> {
    name: &'n str,
    port: usize,
}

impl<'t> Typing<'t, '_> {
    fn constants(&self) -> Constants<'t> {
        Constants { names: self.names, dims: self.dims }
    }

    /// Adds the nodes of an expression; its value is called `name`, and further nodes derive their names from it.
    pub(super) fn define(&mut self, name: &str, expr: &Expr) -> Option<Value> {
        self.builder.set_scope(name, Some(expr.span));
        let naming = Some(Naming { name, port: 0 });
        match self.eval(expr, naming)? {
            Operand::Literal(literal) => self.constant(literal, expr.span, naming),
            Operand::Value(value) if &**self.builder.graph.name_of(value) == name => Some(value),
            Operand::Value(value) => Some(self.copy(value, name)),
        }
    }

    /// Adds the nodes of an expression under names that derive from `scope`.
    pub(super) fn value(&mut self, scope: &str, expr: &Expr) -> Option<Value> {
        self.builder.set_scope(scope, Some(expr.span));
        match self.eval(expr, None)? {
            Operand::Literal(literal) => self.constant(literal, expr.span, None),
            Operand::Value(value) => Some(value),
        }
    }

    /// `naming` is for the node that is made, if one is.
    fn eval(&mut self, expr: &Expr, naming: Option<Naming>) -> Option<Operand> {
        match &expr.kind {
            ExprKind::Int(n) => Some(Operand::Literal(Literal::Int(*n))),
            ExprKind::Float(x) => Some(Operand::Literal(Literal::Float(*x))),
            ExprKind::Bool(b) => Some(Operand::Literal(Literal::Bool(*b))),
            ExprKind::Name(path) => self.named(path, expr.span),
            ExprKind::Str(_) => self.no_tensor(expr.span, "a string"),
            ExprKind::List(_) => self.no_tensor(expr.span, "a list"),
            ExprKind::Call { callee, args, named } if is_when(callee, args.len(), named.len()) => {
                self.when(args, naming)
            }
            ExprKind::Call { callee, args, named } => {
                let results = self.call(callee, args, named, expr.span, naming)?;
                Some(Operand::Value(results[naming.map_or(0, |naming| naming.port)]))
            }
            ExprKind::Unary(op, operand) => self.unary(*op, operand, expr.span, naming),
            ExprKind::Binary { op, left, right } => self.binary(op, [left, right], expr.span, naming),
            ExprKind::Port { base, port } => self.port_of_call(base, port, naming).map(Operand::Value),
        }
    }

    fn no_tensor(&mut self, span: Span, what: &str) -> Option<Operand> {
        self.diags
            .error(Code::E0104, span, format!("{what} is no tensor"))
            .help("settings of an op have names: `f(x, mode=\"row\")`");
        None
    }

    // ---- Names.

    fn named(&mut self, path: &str, span: Span) -> Option<Operand> {
        let Some((name, rest)) = split_owner(path, |path| self.names.contains_key(path)) else {
            return self.extent_or_step(path, span);
        };
        match &self.names[name] {
            Meaning::Faulty => None,
            Meaning::Value(value) if rest.is_empty() => Some(Operand::Value(*value)),
            Meaning::Value(value) => self.part(*value, rest, span).map(Operand::Value),
            Meaning::Setting(Attr::Lit(literal)) if rest.is_empty() => Some(Operand::Literal(*literal)),
            Meaning::Setting(_) => self.no_tensor(span, &format!("the setting `{path}`")),
            Meaning::Extent(dim) => match dim.fixed() {
                Some(extent) => Some(Operand::Literal(Literal::Int(extent as i64))),
                None => self.open_extent(path, span),
            },
            Meaning::Layer(layer) if !rest.is_empty() => {
                self.param_of(&layer.owner, rest, span).map(Operand::Value)
            }
            Meaning::Layer(_) => self.no_tensor(span, &format!("the layer `{path}`")),
        }
    }

    fn open_extent(&mut self, name: &str, span: Span) -> Option<Operand> {
        self.diags
            .error(Code::E0117, span, format!("the extent `{name}` is not known before a stage binds it"))
            .help("extents that a stage binds may stand in shapes only");
        None
    }

    /// `when(condition, a, b)`: the side that the constant condition chooses. The other side is not read.
    fn when(&mut self, args: &[Expr], naming: Option<Naming>) -> Option<Operand> {
        match self.constants().chosen(args) {
            Some(chosen) => self.eval(chosen, naming),
            None => {
                self.diags
                    .error(Code::E0104, args[0].span, "the condition of `when` is not known before a run")
                    .help("`select(condition, a, b)` takes tensors");
                None
            }
        }
    }

    fn extent_or_step(&mut self, path: &str, span: Span) -> Option<Operand> {
        if let Some(&extent) = self.dims.get(path) {
            return Some(Operand::Literal(Literal::Int(extent as i64)));
        }
        if path == "step" {
            return Some(Operand::Value(self.builder.step()));
        }
        let near = if self.diags.is_full() { None } else { nearest(path, self.names.keys().map(|k| &**k)) };
        let error = self.diags.error(Code::E0101, span, format!("nothing is called `{path}`"));
        match near {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.help("inputs, parameters and nodes have names, and so has `step`"),
        };
        None
    }

    /// A result of the node behind a value, or a parameter of the layer that it calls: `t.indices`, `embed.w`.
    fn part(&mut self, value: Value, part: &str, span: Span) -> Option<Value> {
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
    fn port(&mut self, node: NodeId, port: &str, span: Span) -> Option<usize> {
        let node = self.builder.graph.node(node);
        let (what, names) = match &node.op {
            NodeOp::Call(call) => (call.form().name.clone(), call.form().outputs.clone()),
            _ => (node.name().to_string(), vec![]),
        };
        let found = find_result(&names, port, node.outputs.len());
        self.known_result(found, &what, &names, port, span)
    }

    fn known_result(
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

    /// `topk(x, k=3).indices`: the name is for that result.
    fn port_of_call(&mut self, base: &Expr, port: &Spanned<String>, naming: Option<Naming>) -> Option<Value> {
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
    fn outputs_of(&self, callee: &str) -> Vec<String> {
        if let Some(Meaning::Layer(layer)) = self.names.get(callee) {
            return layer.function.form.outputs.clone();
        }
        let callee = named_by_setting(self.names, callee).unwrap_or(callee);
        let function = self.function(callee).map(|function| function.form);
        let form = function.or_else(|| self.builder.registry().op(callee));
        form.map_or(vec![], |form| form.outputs.clone())
    }

    // ---- Operators.

    fn unary(&mut self, op: UnaryOp, x: &Expr, span: Span, naming: Option<Naming>) -> Option<Operand> {
        let operand = self.eval(x, None)?;
        if let Operand::Literal(literal) = operand
            && let Some(folded) = fold_unary(op, literal)
        {
            return Some(Operand::Literal(folded));
        }
        let args = [Spanned::new(x.span, operand)];
        let form = self.form(Spanned::new(span, unary_op_name(op)))?;
        let results = self.apply(form, &args, (Attrs::default(), &[]), span, naming)?;
        Some(Operand::Value(results[naming.map_or(0, |naming| naming.port)]))
    }

    fn binary(
        &mut self,
        op: &Spanned<BinaryOp>,
        operands: [&Expr; 2],
        span: Span,
        naming: Option<Naming>,
    ) -> Option<Operand> {
        // Both sides are typed, so that the errors of both are reported.
        let [left, right] = operands.map(|operand| self.eval(operand, None));
        let (left, right) = (left?, right?);
        if let (Operand::Literal(l), Operand::Literal(r)) = (left, right)
            && let Some(folded) = fold_binary(op.value, l, r)
        {
            return self.sound([l, r], folded, span);
        }
        let args = [Spanned::new(operands[0].span, left), Spanned::new(operands[1].span, right)];
        let form = self.form(Spanned::new(op.span, op_name(op.value)))?;
        let results = self.apply(form, &args, (Attrs::default(), &[]), span, naming)?;
        Some(Operand::Value(results[naming.map_or(0, |naming| naming.port)]))
    }

    /// A number of two others; reported if it is infinite or none while they are finite.
    fn sound(&mut self, operands: [Literal; 2], folded: Literal, span: Span) -> Option<Operand> {
        if is_sound(operands, folded) {
            return Some(Operand::Literal(folded));
        }
        let message = match folded.as_f64().is_nan() {
            true => "this constant is not a number",
            false => "this constant is infinite",
        };
        self.diags.error(Code::E0015, span, message).help("write `inf` or `nan` if that is meant");
        None
    }

    // ---- Calls.

    fn call(
        &mut self,
        callee: &Spanned<String>,
        args: &[Expr],
        named: &[(Spanned<String>, Expr)],
        span: Span,
        naming: Option<Naming>,
    ) -> Option<Vec<Value>> {
        if let Some(function) = self.callee(callee, named) {
            self.reserve_copies(&function, naming);
            let operands = self.operands(args);
            return self.write_call(&function?, &operands?, named, span, naming);
        }
        let name = named_by_setting(self.names, callee).unwrap_or(callee);
        let form = self.form(Spanned::new(callee.span, name));
        let operands = self.operands(args);
        let form = form?;
        let attrs = settings::read(&form, named, callee.span, self.constants(), self.diags);
        self.apply(form, &operands?, (attrs?, named), span, naming)
    }

    fn operands(&mut self, args: &[Expr]) -> Option<Vec<Spanned<Operand>>> {
        let operands: Vec<_> = args.iter().map(|arg| (arg.span, self.eval(arg, None))).collect();
        operands.into_iter().map(|(span, operand)| Some(Spanned::new(span, operand?))).collect()
    }

    /// The function or layer that a call names, with its settings; nothing for an op.
    fn callee(
        &mut self,
        callee: &Spanned<String>,
        named: &[(Spanned<String>, Expr)],
    ) -> Option<Option<FunctionCall>> {
        if let Some(Meaning::Layer(layer)) = self.names.get(callee.as_str()) {
            return Some(self.layer_call(&layer.clone(), named));
        }
        let function = self.function(callee).or_else(|| {
            // A setting may name a function of the pipeline, which a library does not know.
            let name = named_by_setting(self.names, callee)?;
            self.builder.registry().form::<FunctionForm>(name).cloned()
        })?;
        Some(self.repeat_of(named).and_then(|(repeat, given)| {
            let attrs = settings::read(&function.form, &given, callee.span, self.constants(), self.diags)?;
            Some(FunctionCall { function, attrs, repeat, owner: None })
        }))
    }

    fn layer_call(&mut self, layer: &Layer, named: &[(Spanned<String>, Expr)]) -> Option<FunctionCall> {
        if let Some((name, _)) = named.first() {
            self.diags
                .error(Code::E0404, name.span, "a call of a layer has no settings")
                .help("settings are given where the layer is declared");
            return None;
        }
        let Layer { function, attrs, repeat, owner } = layer;
        let (function, attrs, owner) = (function.clone(), attrs.clone(), Some(owner.clone()));
        Some(FunctionCall { function, attrs, repeat: *repeat, owner })
    }

    /// The function of that name.
    fn function(&self, name: &str) -> Option<FunctionForm> {
        self.around.scope.form::<FunctionForm>(name).cloned()
    }

    fn form(&mut self, name: Spanned<&str>) -> Option<Arc<OpForm>> {
        let form = self.builder.registry().op(name.value);
        if form.is_none() && !self.faulty_ops.contains(name.value) {
            report_unknown_op(self.builder.registry(), &name, self.diags);
        }
        form
    }

    /// Adds a call of an op, of these settings, which were written so.
    fn apply(
        &mut self,
        form: Arc<OpForm>,
        args: &[Spanned<Operand>],
        (attrs, written): (Attrs, &[(Spanned<String>, Expr)]),
        span: Span,
        naming: Option<Naming>,
    ) -> Option<Vec<Value>> {
        let (dtype, types) = self.infer(&form, args, (&attrs, written), span)?;
        for ty in &types {
            check_size(ty, span, self.diags)?;
        }
        let inputs: Option<Vec<_>> = args.iter().map(|arg| self.operand(arg, dtype)).collect();
        self.builder.set_span(Some(span));
        let outputs = self.outputs(types, &form, naming);
        let n_outputs = outputs.len();
        let node = self.builder.push_node(NodeOp::Call(Call { op: form, attrs }), inputs?, outputs);
        Some((0..n_outputs).map(|port| Value { node, port }).collect())
    }

    /// The element type that numbers without one take among operands of a function.
    fn dtype_of_literals(
        &mut self,
        form: &OpForm,
        args: &[Spanned<Operand>],
        settings: (&Attrs, &[(Spanned<String>, Expr)]),
        span: Span,
    ) -> Option<DType> {
        let has_literals = args.iter().any(|arg| matches!(arg.value, Operand::Literal(_)));
        if has_literals || form.check_arity(args.len()).is_err() {
            return self.infer(form, args, settings, span).map(|(dtype, _)| dtype);
        }
        Some(DType::F32)
    }

    /// The element type that numbers without one take, and the types of the results.
    fn infer(
        &mut self,
        form: &OpForm,
        args: &[Spanned<Operand>],
        (attrs, written): (&Attrs, &[(Spanned<String>, Expr)]),
        span: Span,
    ) -> Option<(DType, Vec<Type>)> {
        let mut first_fault = None;
        for dtype in self.candidates(form, args) {
            let fault = match self.types_of(args, dtype) {
                Err((literal, why)) => Fault::Misfit(literal, why),
                Ok(types) => match form.infer(&types, attrs) {
                    Ok(results) => return Some((dtype, results)),
                    Err(issue) => Fault::Issue(issue, types),
                },
            };
            first_fault.get_or_insert(fault);
        }
        match first_fault? {
            Fault::Misfit(literal, why) => self.report_misfit(literal, why, args),
            Fault::Issue(issue, types) => {
                let setting =
                    written.iter().find(|(name, _)| issue.setting.as_deref() == Some(name.value.as_str()));
                let span = setting.map_or(span, |(_, value)| value.span);
                self.report(form, issue, &types, args, span);
            }
        }
        None
    }

    /// Element types to try for the numbers without one: those beside them, then their own.
    fn candidates(&self, form: &OpForm, args: &[Spanned<Operand>]) -> Vec<DType> {
        let literals = args.iter().filter_map(|arg| match arg.value {
            Operand::Literal(literal) => Some(literal),
            Operand::Value(_) => None,
        });
        let own = default_dtype(literals);
        let mut dtypes: Vec<DType> = vec![];
        for arg in args {
            if let Operand::Value(value) = arg.value {
                let dtype = self.builder.dtype(value);
                if dtype != DType::Bool && !dtypes.contains(&dtype) {
                    dtypes.push(dtype);
                }
            }
        }
        if matches!(form.types, TypeRule::Broadcast { .. } | TypeRule::Compare) {
            dtypes.truncate(1);
        }
        if dtypes.is_empty() || matches!(form.types, TypeRule::Custom(_)) {
            dtypes.push(own);
        }
        dtypes
    }

    /// Types of the operands if numbers are of that element type; or the number that does not fit, and why.
    fn types_of(&self, args: &[Spanned<Operand>], dtype: DType) -> Result<Vec<Type>, (Span, String)> {
        args.iter()
            .map(|arg| match arg.value {
                Operand::Value(value) => Ok(self.builder.ty(value).clone()),
                Operand::Literal(literal) => {
                    let dtype = literal_dtype(literal, dtype);
                    fit(literal, dtype).map(|_| Type::scalar(dtype)).map_err(|why| (arg.span, why))
                }
            })
            .collect()
    }

    fn operand(&mut self, arg: &Spanned<Operand>, dtype: DType) -> Option<Value> {
        match arg.value {
            Operand::Value(value) => Some(value),
            Operand::Literal(literal) => {
                let dtype = literal_dtype(literal, dtype);
                Some(self.push_constant(fit(literal, dtype).ok()?, dtype, arg.span, None))
            }
        }
    }

    // ---- Nodes.

    /// A number alone, as a scalar of the type that its spelling suggests.
    fn constant(&mut self, literal: Literal, span: Span, naming: Option<Naming>) -> Option<Value> {
        let dtype = default_dtype([literal]);
        match fit(literal, dtype) {
            Ok(literal) => Some(self.push_constant(literal, dtype, span, naming)),
            Err(why) => {
                self.report_misfit(span, why, &[]);
                None
            }
        }
    }

    fn push_constant(&mut self, literal: Literal, dtype: DType, span: Span, naming: Option<Naming>) -> Value {
        self.builder.set_span(Some(span));
        let name = naming.map_or_else(|| self.builder.fresh_name(), |naming| naming.name.into());
        self.builder.push_named(name, NodeOp::Const(literal), vec![], Type::scalar(dtype))
    }

    /// A value under one more name.
    fn copy(&mut self, value: Value, name: &str) -> Value {
        let identity = Arc::new(Body::new(1, |x| vec![x[0]]));
        let ty = self.builder.ty(value).clone();
        self.builder.push_named(name.into(), NodeOp::Map(identity), vec![value], ty)
    }

    fn outputs(&mut self, types: Vec<Type>, form: &OpForm, naming: Option<Naming>) -> Vec<Output> {
        let (name, named_port): (Symbol, usize) = match naming {
            Some(Naming { name, port }) => (name.into(), port),
            None => (self.builder.fresh_name(), 0),
        };
        let mut outputs = vec![];
        for (port, ty) in types.into_iter().enumerate() {
            let derived = form.outputs.get(port).map(|result| format!("{name}.{result}").into());
            let name = match derived {
                _ if port == named_port => name.clone(),
                Some(derived) if !self.names.contains_key(&derived) => derived,
                _ => self.builder.fresh_name(),
            };
            outputs.push(Output { name, ty });
        }
        outputs
    }

    // ---- Reports.

    fn report_misfit(&mut self, span: Span, why: String, args: &[Spanned<Operand>]) {
        let beside = args.iter().find_map(|arg| match arg.value {
            Operand::Value(value) => Some((arg.span, format!("this is {}", self.builder.ty(value)))),
            Operand::Literal(_) => None,
        });
        let error = self.diags.error(Code::E0114, span, why);
        if let Some((span, remark)) = beside {
            error.also(span, remark).help("convert the tensor first, for example with `cast(x, dtype=f32)`");
        }
    }

    fn report(
        &mut self,
        form: &OpForm,
        issue: TypeIssue,
        types: &[Type],
        args: &[Spanned<Operand>],
        span: Span,
    ) {
        let code = if issue.setting.is_some() { Code::E0114 } else { code_of(form, types) };
        let (main, remark) = match &issue.operand {
            Some((operand, remark)) if *operand < args.len() => (*operand, remark.clone()),
            _ => (usize::MAX, String::new()),
        };
        let error = self.diags.error(code, args.get(main).map_or(span, |arg| arg.span), issue.message);
        error.here(remark);
        // The types of many operands hide more than they tell, and those of too few or too many tell nothing.
        let others = args.iter().zip(types).enumerate().filter(|(i, _)| *i != main && code != Code::E0106);
        for (_, (arg, ty)) in others.take(3) {
            if matches!(arg.value, Operand::Value(_)) {
                error.also(arg.span, format!("this is {ty}"));
            }
        }
        if let Some((place, remark)) = issue.inside.map(|inside| *inside) {
            error.also(place, remark);
        }
        error.help = issue.help;
    }
}

/// Why a candidate for the type of untyped numbers does not do.
enum Fault {
    Misfit(Span, String),
    Issue(TypeIssue, Vec<Type>),
}

/// Truth values keep their type beside operands of any type.
fn literal_dtype(literal: Literal, dtype: DType) -> DType {
    if matches!(literal, Literal::Bool(_)) { DType::Bool } else { dtype }
}

/// The number of the result of that name or number.
fn find_result(names: &[String], port: &str, n_results: usize) -> Option<usize> {
    let found = names.iter().position(|name| name == port).or_else(|| port.parse().ok());
    found.filter(|&found| found < n_results)
}

/// Reports a declared type that is not the type of the node.
pub(super) fn check_declared(name: &str, declared: &Spanned<Type>, found: &Type, diags: &mut Diagnostics) {
    if declared.value != *found {
        let message = format!("`{name}` is {found}, not {}", declared.value);
        diags.error(Code::E0110, declared.span, message).help("correct the type or leave it out");
    }
}

pub(super) fn report_unknown_op(registry: &Registry, name: &Spanned<&str>, diags: &mut Diagnostics) {
    let ops = registry.ops().map(|op| op.name.as_str());
    let near = if diags.is_full() { None } else { nearest(name.value, ops) };
    let error = diags.error(Code::E0105, name.span, format!("there is no op `{}`", name.value));
    match near {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help("`engine ops` lists all ops"),
    };
}

fn code_of(form: &OpForm, types: &[Type]) -> Code {
    let needed = form.inputs.iter().filter(|input| !input.optional).count();
    let elementwise = matches!(form.types, TypeRule::Broadcast { .. } | TypeRule::Compare);
    if !(needed..=form.inputs.len()).contains(&types.len()) {
        Code::E0106
    } else if elementwise && types.windows(2).any(|pair| pair[0].dtype != pair[1].dtype) {
        Code::E0103
    } else if elementwise && broadcast_shapes(types).is_none() {
        Code::E0102
    } else {
        Code::E0104
    }
}
