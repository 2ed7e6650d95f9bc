//! The meaning of names.

use super::function::Layer;
use crate::ir::{Attr, Dim, Symbol, Value};
use indexmap::IndexMap;
use std::sync::Arc;

/// The meaning of a name.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    /// A tensor; of a node with several results, the first.
    Value(Value),
    /// A setting of the function around.
    Setting(Attr),
    /// An extent that the type of an operand gives.
    Extent(Dim),
    /// A function that owns parameters at a place of its own.
    Layer(Arc<Layer>),
    /// Something faulty, which has been reported.
    Faulty,
}

impl Meaning {
    /// The tensor, if it is one.
    pub(super) fn value(&self) -> Option<Value> {
        match self {
            Meaning::Value(value) => Some(*value),
            _ => None,
        }
    }
}

/// Names in scope, in order of definition.
pub(super) type Names = IndexMap<Symbol, Meaning>;
