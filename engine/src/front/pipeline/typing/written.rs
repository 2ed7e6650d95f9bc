//! The parts that calls of functions leave behind: parameters, updates of state, and paths.

use crate::ir::{Graph, NodeId, Symbol, Value};
use crate::op::Registry;
use crate::pipeline::{ParamDecl, WrittenCall};
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Where a function is written out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// The path of the call, with which paths of its nodes begin; empty for the pipeline.
    pub(crate) path: Symbol,
    /// The path with which its parameters begin. Several calls of one layer share it.
    pub(crate) owner: Symbol,
}

impl Place {
    /// The place of a call at a path inside, which has parameters of its own.
    pub(crate) fn inside(&self, path: &Symbol) -> Place {
        Place { path: path.clone(), owner: format!("{}{}", self.owner, &path[self.path.len()..]).into() }
    }

    /// The place of copy number i of a repeated call: `blocks.3`.
    pub(super) fn copy(&self, i: usize) -> Place {
        Place { path: format!("{}.{i}", self.path).into(), owner: format!("{}.{i}", self.owner).into() }
    }
}

/// The function around an expression, or the pipeline.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    /// The ops and functions that it can call.
    pub(crate) scope: &'a Registry,
    pub(crate) place: &'a Place,
}

/// A call of a function.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) function: String,
    pub(crate) repeat: Option<usize>,
    /// The path with which paths of its nodes begin.
    pub(crate) path: Symbol,
    /// Names of the results.
    pub(crate) outputs: Vec<String>,
    /// The path of its parameters.
    pub(crate) owner: Symbol,
    pub(crate) results: Vec<Value>,
}

/// Everything that calls have left behind in one graph.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Calls by their paths.
    pub(crate) calls: HashMap<Symbol, Called>,
    /// Paths of the declared layers that have been called.
    pub(crate) called: HashSet<Symbol>,
    /// Parameters of layers by their paths.
    pub(crate) params: IndexMap<Symbol, (ParamDecl, Value)>,
    /// The values that states of layers have after a step in training, by the paths of the states.
    pub(crate) updates: IndexMap<Symbol, Value>,
    /// Nodes that are computed in `f32` in each precision.
    pub(crate) full_precision: Vec<Range<NodeId>>,
    /// Names of such nodes in loops.
    pub(crate) full_in_loops: HashSet<Symbol>,
    /// Calls that the backward pass recomputes: their paths and their nodes.
    pub(crate) recomputed: Vec<(Symbol, Range<NodeId>)>,
}

impl Written {
    /// The calls in a graph, by their paths.
    pub(crate) fn calls_in(&self, graph: &Graph) -> Vec<WrittenCall> {
        let call = |called: &Called| WrittenCall {
            path: called.path.clone(),
            function: called.function.clone(),
            repeat: called.repeat,
            results: called.results.iter().map(|&value| graph.name_of(value).clone()).collect(),
        };
        let mut calls: Vec<WrittenCall> = self.calls.values().map(call).collect();
        calls.sort_by(|a, b| a.path.cmp(&b.path));
        calls
    }
}
