//! The names of a pipeline.

use super::functions::Functions;
use super::names::{Meaning, Names};
use super::nodes::{NodeDef, check_name, report_twice, sort};
use super::types::Dims;
use super::typing::Typing;
use crate::diag::{Code, Diagnostics, Span, Spanned};
use crate::ir::{Builder, Graph, InputKind, NodeOp, Symbol, Type, Value};
use std::collections::HashMap;

/// How many nodes all calls of functions may stand for.
const MAX_NODES: usize = 1 << 21;

/// The names of a pipeline, and their places.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) names: Names,
    pub(super) places: HashMap<Symbol, Span>,
}

impl Scope {
    /// Takes a name; reports it if it is taken.
    fn take(&mut self, name: &Symbol, span: Option<Span>, diags: &mut Diagnostics) -> Option<()> {
        let name = Spanned::new(span?, name.to_string());
        check_name(&name, diags)?;
        if let Some(&first) = self.places.get(name.as_str()) {
            report_twice(&name, first, diags);
            return None;
        }
        let symbol = Symbol::from(name.as_str());
        self.places.insert(symbol.clone(), name.span);
        self.names.insert(symbol, Meaning::Faulty);
        Some(())
    }

    /// Lets stages name the first of several results as they name the others: `t.values` is `t`. The paths of all.
    pub(super) fn first_results(&mut self, graph: &Graph) -> Vec<Symbol> {
        let mut paths = vec![];
        for (id, node) in graph.nodes.iter().enumerate() {
            if let NodeOp::Call(call) = &node.op
                && let [first, _, ..] = &call.form().outputs[..]
            {
                let path = Symbol::from(format!("{}.{first}", node.name()));
                self.names.entry(path.clone()).or_insert(Meaning::Value(Value::of(id)));
                paths.push(path);
            }
        }
        paths
    }

    /// The paths with the names of the values that they stand for.
    pub(super) fn names_at(&self, paths: Vec<Symbol>, graph: &Graph) -> Vec<(Symbol, Symbol)> {
        let name = |path: Symbol| match self.names.get(&path) {
            Some(Meaning::Value(value)) => Some((path, graph.name_of(*value).clone())),
            _ => None,
        };
        paths.into_iter().filter_map(name).collect()
    }

    /// Lets names stand for values at other places, by node and port.
    pub(super) fn move_values(&mut self, map: &[Vec<Value>]) {
        for meaning in self.names.values_mut() {
            if let Meaning::Value(value) = meaning {
                *value = map[value.node][value.port];
            }
        }
    }

    pub(super) fn input(
        &mut self,
        builder: &mut Builder,
        (name, span): (&Symbol, Option<Span>),
        kind: InputKind,
        ty: Option<&Type>,
        diags: &mut Diagnostics,
    ) {
        let taken = self.take(name, span, diags);
        if let (Some(()), Some(ty)) = (taken, ty) {
            builder.set_span(span);
            let value = builder.input(name, kind, ty.clone());
            self.names.insert(name.clone(), Meaning::Value(value));
        }
    }

    pub(super) fn nodes(
        &mut self,
        builder: &mut Builder,
        mut defs: Vec<NodeDef>,
        dims: &Dims,
        functions: &Functions,
        diags: &mut Diagnostics,
    ) {
        defs.retain(|def| self.take(&def.name.as_str().into(), Some(def.name.span), diags).is_some());
        // Names that nodes derive for their parts keep clear of those that the file gives.
        builder.reserve(self.names.keys().cloned());
        let mut size = 0usize;
        for i in sort(&defs, diags) {
            let NodeDef { name, expr: Some(expr), ty, no_fuse } = &defs[i] else {
                continue;
            };
            size = size.saturating_add(functions.size_of(expr));
            if size > MAX_NODES {
                let message = format!("the pipeline stands for more than {MAX_NODES} nodes");
                diags.error(Code::E0401, name.span, message).help("call large functions less often");
                return;
            }
            builder.set_no_fuse(no_fuse.then(|| name.as_str().into()));
            let mut typing =
                Typing { builder, names: &self.names, dims, faulty_ops: &functions.faulty, diags };
            let Some(value) = typing.define(name, expr) else {
                continue;
            };
            if let Some(declared) = ty {
                check_declared(name, declared, builder.ty(value), diags);
            }
            self.names.insert(name.as_str().into(), Meaning::Value(value));
        }
    }
}

fn check_declared(name: &Spanned<String>, declared: &Spanned<Type>, found: &Type, diags: &mut Diagnostics) {
    if declared.value != *found {
        let message = format!("`{}` is {found}, not {}", name.value, declared.value);
        diags.error(Code::E0110, declared.span, message).help("correct the type or leave it out");
    }
}
