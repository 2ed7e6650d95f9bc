//! The meaning of names.

use crate::ir::{Attr, Symbol, Value};
use indexmap::IndexMap;

/// The meaning of a name.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    /// A tensor; of a node with several results, the first.
    Value(Value),
    /// A setting of the function around.
    Setting(Attr),
    /// Something faulty, which has been reported.
    Faulty,
}

/// Names in scope, in order of definition.
pub(super) type Names = IndexMap<Symbol, Meaning>;
