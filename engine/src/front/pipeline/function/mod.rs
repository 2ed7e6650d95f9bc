//! Functions and layers as written in a file. A function that owns parameters is a layer.

mod params;
mod read;

pub(super) use params::{ParamDef, read_param_defs};

use super::dims::Dims;
use super::manner::Manner;
use super::nodes::{call_of, references, split_owner, walk};
use super::op_names::{is_when, op_name, unary_op_name};
use crate::diag::{Diagnostics, Spanned};
use crate::front::{Ron, entries};
use crate::ir::{Attrs, Symbol};
use crate::op::{AttrKind, AttrSpec, Form, OpForm, Registry};
use crate::text::expr::{Expr, ExprKind, TypeExpr, TypePattern};
use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

/// A function as written.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: Spanned<String>,
    pub(super) summary: String,
    pub(super) inputs: Vec<Input>,
    pub(super) settings: Vec<AttrSpec>,
    /// Extents that follow from those of the operands and from settings, in order.
    pub(super) extents: Vec<(Spanned<String>, Expr)>,
    pub(super) params: Vec<ParamDef>,
    pub(super) layers: Vec<LayerDef>,
    /// In an order in which operands come first.
    pub(super) nodes: Vec<FunctionNode>,
    /// States and the values that they have after a step in training.
    pub(super) updates: Vec<(Spanned<String>, Expr)>,
    /// Names and expressions of the results.
    pub(super) outputs: Vec<(String, Expr)>,
    /// Extents that the pipeline gives names.
    pub(super) dims: Dims,
}

/// An operand of a function.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: Symbol,
    pub(super) pattern: Option<TypePattern>,
    /// The value of an operand that may be left out.
    pub(super) default: Option<Expr>,
}

/// A node of a function.
#[derive(Debug)]
pub(super) struct FunctionNode {
    pub(super) name: Symbol,
    pub(super) expr: Expr,
    /// Its declared type.
    pub(super) ty: Option<TypeExpr>,
    pub(super) no_fuse: bool,
    pub(super) full_precision: bool,
}

/// A layer as declared: its name, and the function with its settings.
#[derive(Clone, Debug)]
pub(super) struct LayerDef {
    pub(super) name: Spanned<String>,
    pub(super) function: Spanned<String>,
    pub(super) settings: Vec<(Spanned<String>, Expr)>,
}

/// A layer with the values of its settings.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) function: FunctionForm,
    pub(super) attrs: Attrs,
    pub(super) manner: Manner,
    /// The path with which its parameters begin.
    pub(super) owner: Symbol,
}

/// A function that the registry knows. One of a sound library is read when it is first asked for.
#[derive(Clone)]
pub(super) struct FunctionForm {
    name: Symbol,
    known: Arc<LazyLock<Known, Box<dyn FnOnce() -> Known + Send + Sync>>>,
}

/// A function that has been read.
pub(super) struct Known {
    pub(super) function: Arc<Function>,
    /// The function as an op: operands, settings, results and type rule.
    pub(super) form: Arc<OpForm>,
    /// The ops and functions that it can call.
    pub(super) scope: Arc<Registry>,
    /// Whether it owns parameters, which only a pipeline can hold.
    pub(super) owns_params: bool,
}

impl FunctionForm {
    /// A function of that name, which `read` yields.
    pub(super) fn new(name: &str, read: impl FnOnce() -> Known + Send + Sync + 'static) -> FunctionForm {
        FunctionForm { name: name.into(), known: Arc::new(LazyLock::new(Box::new(read))) }
    }
}

impl Deref for FunctionForm {
    type Target = Known;

    fn deref(&self) -> &Known {
        &self.known
    }
}

impl std::fmt::Debug for FunctionForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Form for FunctionForm {
    const SET: &'static str = "function";

    fn name(&self) -> &str {
        &self.name
    }
}

impl Function {
    pub(super) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let nodes = self.nodes.iter().map(|node| &node.expr);
        let updates = self.updates.iter().map(|(_, expr)| expr);
        let defaults = self.inputs.iter().filter_map(|input| input.default.as_ref());
        nodes.chain(defaults).chain(updates).chain(self.outputs.iter().map(|(_, expr)| expr))
    }

    /// Names of ops and functions that it calls, with repetition.
    pub(super) fn callees(&self) -> Vec<Spanned<&str>> {
        let layers =
            self.layers.iter().map(|layer| Spanned::new(layer.function.span, layer.function.as_str()));
        let own: HashSet<&str> = self.layers.iter().map(|layer| layer.name.as_str()).collect();
        let words = self.settings.iter().filter(|spec| spec.kind == AttrKind::Str);
        let words: HashSet<&str> = words.map(|spec| spec.name.as_str()).collect();
        let called = self.expressions().flat_map(callees);
        let called = called.filter(|callee| !own.contains(callee.value) && !words.contains(callee.value));
        layers.chain(called).collect()
    }

    /// Whether it has parameters, its own or those of a function that it calls. `is_layer` says so of others.
    pub(super) fn owns_params(&self, is_layer: impl Fn(&str) -> bool) -> bool {
        !self.params.is_empty() || self.callees().iter().any(|callee| is_layer(callee.value))
    }

    pub(super) fn known_names(&self) -> Vec<&str> {
        let inputs = self.inputs.iter().map(|input| &*input.name);
        let extents = self.inputs.iter().filter_map(|input| input.pattern.as_ref());
        let extents = extents.flat_map(|pattern| &pattern.dims).flat_map(references).map(|name| name.value);
        let settings = self.settings.iter().map(|spec| spec.name.as_str());
        let extents = extents.chain(self.extents.iter().map(|(name, _)| name.as_str()));
        let params = self.params.iter().map(|param| param.name.as_str());
        let layers = self.layers.iter().map(|layer| layer.name.as_str());
        let nodes = self.nodes.iter().map(|node| &*node.name);
        inputs.chain(settings).chain(extents).chain(params).chain(layers).chain(nodes).collect()
    }

    pub(super) fn unknown_names(&self) -> Vec<Spanned<&str>> {
        let known: HashSet<&str> = self.known_names().into_iter().collect();
        let used = self.expressions().flat_map(references);
        let is_known = |path: &str| {
            split_owner(path, |path| known.contains(path)).is_some()
                || self.dims.contains_key(path)
                || path == "step"
        };
        used.filter(|name| !is_known(name.value)).collect()
    }
}

/// Names of the ops that an expression calls, also by operators.
fn callees(expr: &Expr) -> Vec<Spanned<&str>> {
    let mut names = vec![];
    walk(expr, &mut |part| match &part.kind {
        ExprKind::Call { callee, args, named } if !is_when(callee, args.len(), named.len()) => {
            names.push(Spanned::new(callee.span, callee.as_str()));
        }
        ExprKind::Binary { op, .. } => names.push(Spanned::new(op.span, op_name(op.value))),
        ExprKind::Unary(op, _) => names.push(Spanned::new(part.span, unary_op_name(*op))),
        _ => (),
    });
    names
}

/// `layers: {"embed": "Embedding(rows=256, width=64)"}`
pub(super) fn read_layers(value: &Ron, diags: &mut Diagnostics) -> Vec<LayerDef> {
    let mut layers = vec![];
    for (name, value) in entries(value, "`layers`", diags).unwrap_or_default() {
        let name = Spanned::new(name.span, name.value.to_owned());
        let named = super::nodes::check_name(&name, diags);
        let called = call_of(value, diags);
        if let (Some(()), Some((function, settings))) = (named, called) {
            layers.push(LayerDef { name, function, settings });
        }
    }
    layers
}

/// Names of declared layers.
pub(super) fn names_of(layers: &[LayerDef]) -> Vec<&str> {
    layers.iter().map(|layer| layer.name.as_str()).collect()
}
