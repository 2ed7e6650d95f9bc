//! The names of a pipeline.

use super::constants::Constants;
use super::declarations::Param;
use super::dims::Dims;
use super::function::LayerDef;
use super::names::{Meaning, Names};
use super::nodes::{NodeDef, check_name, report_twice, sort};
use super::types::resolve;
use super::typing::{Around, Place, Typing, Written, check_declared};
use crate::diag::{Code, Diagnostics, Span, Spanned};
use crate::ir::{Builder, Graph, InputKind, NodeOp, Symbol, Type, Value};
use crate::pipeline::InputDecl;
use std::collections::{HashMap, HashSet};

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

    pub(super) fn inputs(
        &mut self,
        builder: &mut Builder,
        inputs: &[(InputDecl, Option<Type>)],
        diags: &mut Diagnostics,
    ) {
        for (input, ty) in inputs {
            self.input(builder, (&input.name, input.span), InputKind::Data, ty.as_ref(), diags);
        }
    }

    pub(super) fn params(&mut self, builder: &mut Builder, params: &[Param], diags: &mut Diagnostics) {
        for (name, span, param) in params {
            let kind = param.as_ref().map_or(InputKind::Param, |param| param.kind);
            self.input(builder, (name, Some(*span)), kind, param.as_ref().map(|param| &param.ty), diags);
        }
    }

    fn input(
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

    /// Makes the nodes, in an order in which operands come first. Returns the parts that calls of functions leave behind.
    pub(super) fn nodes(
        &mut self,
        builder: &mut Builder,
        (layers, mut defs): (Vec<LayerDef>, Vec<NodeDef>),
        dims: &Dims,
        faulty_ops: &HashSet<String>,
        diags: &mut Diagnostics,
    ) -> Written {
        let (mut written, place) = (Written::default(), Place::default());
        let around = Around { scope: builder.registry(), place: &place };
        let taken = layers
            .iter()
            .filter(|def| self.take(&def.name.as_str().into(), Some(def.name.span), diags).is_some());
        let layers: Vec<&LayerDef> = taken.collect();
        defs.retain(|def| self.take(&def.name.as_str().into(), Some(def.name.span), diags).is_some());
        // Names that nodes derive for their parts keep clear of those that the file gives.
        builder.reserve(self.names.keys().cloned());
        let names: Vec<&str> = layers.iter().map(|def| def.name.as_str()).collect();
        let order = sort(&defs, &names, diags);
        for def in layers {
            let owner = Symbol::from(def.name.as_str());
            let (names, written) = (&self.names, &mut written);
            let mut typing = Typing { builder, names, dims, faulty_ops, written, around, diags };
            let layer = typing.layer(def, owner.clone());
            self.names.insert(owner, layer.unwrap_or(Meaning::Faulty));
        }
        for i in order {
            let NodeDef { name, expr: Some(expr), ty, no_fuse, full_precision } = &defs[i] else {
                continue;
            };
            builder.set_no_fuse(no_fuse.then(|| name.as_str().into()));
            let (names, written) = (&self.names, &mut written);
            let mut typing = Typing { builder, names, dims, faulty_ops, written, around, diags };
            let Some(value) = typing.define_in(name, expr, *full_precision) else { continue };
            if let Some(ty) = ty
                && let Some(declared) = resolve(ty, Constants { names: &self.names, dims }, diags)
            {
                check_declared(name, &Spanned::new(ty.span, declared), builder.ty(value), diags);
            }
            self.names.insert(name.as_str().into(), Meaning::Value(value));
        }
        builder.set_no_fuse(None);
        written
    }

    /// Lets stages name the parameters of layers, and the results of functions.
    pub(super) fn paths_of(&mut self, written: &Written) -> Vec<Symbol> {
        for (path, (_, value)) in &written.params {
            self.names.entry(path.clone()).or_insert(Meaning::Value(*value));
        }
        let mut paths = vec![];
        for (path, called) in &written.calls {
            if let ([first, _, ..], Some(value)) = (&called.outputs[..], called.results.first()) {
                let path = Symbol::from(format!("{path}.{first}"));
                self.names.entry(path.clone()).or_insert(Meaning::Value(*value));
                paths.push(path);
            }
        }
        paths.sort();
        paths
    }
}

/// Reports declared names that are also paths into functions.
pub(super) fn report_taken(graph: &Graph, places: &HashMap<Symbol, Span>, diags: &mut Diagnostics) {
    let mut first: HashMap<&Symbol, Option<Span>> = HashMap::new();
    for node in &graph.nodes {
        for output in &node.outputs {
            let Some(other) = first.insert(&output.name, node.span) else { continue };
            let Some(&place) = places.get(&output.name) else {
                crate::bug!("two nodes are called `{}`", output.name)
            };
            let inside = [other, node.span].into_iter().flatten().find(|span| *span != place);
            let error = diags.error(Code::E0302, place, format!("`{}` is defined twice", output.name));
            if let Some(inside) = inside {
                error.also(inside, "a call of this function defines it, too");
            }
            error.help("give one of them another name");
        }
    }
}
