//! Definitions of functions: their order, their limits, and their registration.

use super::dims::Dims;
use super::function::{Function, FunctionForm, Input, Known};
use super::nodes::depth_first;
use super::typing::{Around, Place, Written, report_unknown_op};
use crate::diag::{Code, Diagnostics, Spanned};
use crate::front::fields::suggestion;
use crate::front::{Ron, entries};
use crate::ir::{Attrs, Builder, Graph, InputKind, Type, Value};
use crate::op::{Grad, GradCheck, InputSpec, Lower, OpForm, Registry, Role, Rounding, TypeIssue, TypeRule};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How many nodes a function may stand for once the functions that it calls are written out.
const MAX_SIZE: usize = 10_000;
/// How deep functions may call functions.
const MAX_DEPTH: usize = 16;

/// The functions of the files read so far.
#[derive(Default)]
pub(super) struct Functions {
    /// By name: how many nodes each stands for, and how deep it calls others.
    extents: HashMap<String, (usize, usize)>,
    /// Names of those that could not be defined, which has been reported.
    pub(super) faulty: HashSet<String>,
}

impl Functions {
    /// Reads `functions: {…}` and adds them to the registry.
    pub(super) fn define(
        &mut self,
        value: &Ron,
        dims: &Dims,
        registry: &mut Registry,
        diags: &mut Diagnostics,
    ) {
        let mut functions = vec![];
        for (name, value) in entries(value, "`functions`", diags).unwrap_or_default() {
            match Function::read(name, value, dims, registry, diags) {
                Some(function) => functions.push(Some(function)),
                None if !is_taken(registry, name.value) => _ = self.faulty.insert(name.value.to_owned()),
                None => (),
            }
        }
        for i in self.callees_first(&functions, diags) {
            let Some(function) = functions[i].take() else {
                continue;
            };
            match self.check(&function, registry, diags) {
                Some(extent) => {
                    self.extents.insert(function.name.value.clone(), extent);
                    register(function, registry);
                }
                None => _ = self.faulty.insert(function.name.value.clone()),
            }
        }
    }

    fn callees_first(&mut self, functions: &[Option<Function>], diags: &mut Diagnostics) -> Vec<usize> {
        let functions: Vec<&Function> = functions.iter().flatten().collect();
        let index: HashMap<&str, usize> =
            functions.iter().enumerate().map(|(i, function)| (function.name.as_str(), i)).collect();
        let called = |function: &&Function| -> Vec<usize> {
            function.callees().iter().filter_map(|callee| index.get(callee.value).copied()).collect()
        };
        let before: Vec<_> = functions.iter().map(called).collect();
        depth_first(&before, |circle| {
            let names: Vec<_> = circle.iter().map(|&i| functions[i].name.as_str()).collect();
            let message =
                format!("functions call each other in a circle: {} → {}", names.join(" → "), names[0]);
            diags
                .error(Code::E0402, functions[circle[0]].name.span, message)
                .help("a function is written out where it is called, which would not end");
            self.faulty.extend(names.iter().map(|name| name.to_string()));
        })
    }

    /// Checks names and limits, which need no types, and returns the function's extent.
    fn check(
        &self,
        function: &Function,
        registry: &Registry,
        diags: &mut Diagnostics,
    ) -> Option<(usize, usize)> {
        let mut sound = !self.faulty.contains(&function.name.value);
        for name in function.unknown_names() {
            sound = false;
            let help = suggestion(name.value, &function.known_names(), diags);
            let message = format!("nothing is called `{}` in this function", name.value);
            diags.error(Code::E0101, name.span, message).help(help);
        }
        let (mut size, mut depth) = (1, 1);
        for callee in function.callees() {
            let known = self.extents.get(callee.value);
            size += known.map_or(1, |(size, _)| *size);
            depth = depth.max(known.map_or(1, |(_, depth)| depth + 1));
            sound &= self.check_callee(&callee, registry, diags);
        }
        if size > MAX_SIZE || depth > MAX_DEPTH {
            let message =
                format!("`{}` stands for {size} nodes, {depth} functions deep", function.name.value);
            let help = format!("the limits are {MAX_SIZE} nodes and {MAX_DEPTH} functions");
            diags.error(Code::E0401, function.name.span, message).help(help);
            return None;
        }
        sound.then_some((size, depth))
    }

    fn check_callee(&self, callee: &Spanned<&str>, registry: &Registry, diags: &mut Diagnostics) -> bool {
        let is_known = is_taken(registry, callee.value);
        if !is_known && !self.faulty.contains(callee.value) {
            report_unknown_op(registry, callee, diags);
        }
        is_known
    }
}

/// Whether an op or a function has that name.
fn is_taken(registry: &Registry, name: &str) -> bool {
    registry.op(name).is_some() || registry.form::<FunctionForm>(name).is_some()
}

/// The functions that own parameters, as ops.
pub fn layers(registry: &Registry) -> Vec<Arc<OpForm>> {
    let forms = registry.forms::<FunctionForm>().map(|form| form.form.clone());
    forms.filter(|form| registry.op(&form.name).is_none()).collect()
}

/// Adds a function to the registry; also as an op, unless it owns parameters, which only a pipeline can hold.
fn register(function: Function, registry: &mut Registry) {
    let name = function.name.value.clone();
    let known = known(function, registry.clone());
    if !known.owns_params {
        registry.add((*known.form).clone());
    }
    registry.replace_form(FunctionForm::new(&name, || known));
}

/// Adds a function of a sound library to the registry, as [`register`] does. It is read when it is first asked for.
pub(super) fn register_later(name: Spanned<String>, value: Ron, registry: &mut Registry) {
    let (own_name, scope) = (name.value.clone(), registry.clone());
    let form = FunctionForm::new(&own_name, move || {
        let mut diags = Diagnostics::new();
        let named = Spanned::new(name.span, name.as_str());
        let read = Function::read(named, &value, &Dims::new(), &scope, &mut diags);
        let sound =
            read.filter(|function| Functions::default().check(function, &scope, &mut diags).is_some());
        let Some(function) = sound else { crate::bug!("the function `{}`: {diags:?}", name.value) };
        known(function, scope)
    });
    let as_op = form.clone();
    registry.add_later(&own_name, move || (!as_op.owns_params).then(|| as_op.form.clone()));
    registry.replace_form(form);
}

fn known(function: Function, scope: Registry) -> Known {
    let owns_params = function.owns_params(|callee| {
        let function = scope.form::<FunctionForm>(callee);
        function.is_some_and(|function| function.owns_params)
    });
    let (function, scope) = (Arc::new(function), Arc::new(scope));
    let form = Arc::new(op_form(&function, scope.clone()));
    Known { function, form, scope, owns_params }
}

/// A function as an op.
fn op_form(function: &Arc<Function>, scope: Arc<Registry>) -> OpForm {
    let input = |input: &Input| {
        let pattern = input.pattern.iter().map(|pattern| format!("`{pattern}`"));
        let default = input.default.iter().map(|default| format!("by default `{default}`"));
        let doc = pattern.chain(default).collect::<Vec<_>>().join(", ");
        match input.default {
            Some(_) => InputSpec::optional(&input.name, &doc),
            None => InputSpec::required(&input.name, &doc),
        }
    };
    let inferring = function.clone();
    let (expanding, expanding_scope) = (function.clone(), scope.clone());
    OpForm {
        name: function.name.value.clone(),
        family: if function.name.span.file.is_library() { "layer" } else { "function" }.into(),
        summary: function.summary.clone(),
        inputs: function.inputs.iter().map(input).collect(),
        outputs: function.outputs.iter().map(|(name, _)| name.clone()).collect(),
        attrs: function.settings.clone(),
        types: TypeRule::custom(move |types, attrs| infer(&inferring, types, attrs, &scope)),
        lower: Lower::expand(move |builder, call| {
            let (path, mut written) = (builder.scope(), Written::default());
            let place = Place { owner: path.clone(), path };
            let around = Around { scope: &expanding_scope, place: &place };
            expanding.write_out(builder, &mut written, around, call.inputs, call.attrs).unwrap_or_else(
                |issue| crate::bug!("`{}` has a type but no lowering: {issue:?}", expanding.name.value),
            )
        }),
        grad: Grad::Derive,
        check: GradCheck::None { why: "made of ops that are checked" },
        examples: vec![],
        role: Role::Function,
        rounding: Rounding::Never,
    }
}

/// Types of the results, found by writing the function out for operands of these types.
fn infer(function: &Function, types: &[Type], attrs: &Attrs, ops: &Registry) -> Result<Vec<Type>, TypeIssue> {
    let mut builder = Builder::new(Graph::default(), ops);
    let inputs = function.inputs.iter().zip(types);
    let inputs: Vec<Value> =
        inputs.map(|(input, ty)| builder.input(&input.name, InputKind::Data, ty.clone())).collect();
    let place = Place { path: "t".into(), owner: "t".into() };
    builder.set_scope(&place.path, None);
    let around = Around { scope: ops, place: &place };
    let results = function.write_out(&mut builder, &mut Written::default(), around, &inputs, attrs)?;
    Ok(results.into_iter().map(|value| builder.ty(value).clone()).collect())
}
