//! The state of typing, and the operands that it handles.

use super::super::constants::Constants;
use super::super::dims::Dims;
use super::super::function::FunctionForm;
use super::super::manner::Manner;
use super::super::names::{Meaning, Names};
use super::written::{Around, Written};
use crate::diag::Diagnostics;
use crate::ir::{Attr, Attrs, Builder, Literal, Symbol, Value};
use std::collections::HashSet;

/// Makes nodes of expressions. A method reports an error and returns `None`.
pub(crate) struct Typing<'t, 'r> {
    pub(crate) builder: &'t mut Builder<'r>,
    pub(crate) names: &'t Names,
    pub(crate) dims: &'t Dims,
    /// Functions that could not be defined, which has been reported.
    pub(crate) faulty_ops: &'t HashSet<String>,
    pub(crate) written: &'t mut Written,
    pub(crate) around: Around<'t>,
    pub(crate) diags: &'t mut Diagnostics,
}

/// The value of a sub-expression.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Value(Value),
    /// A number that takes its type from the other operands.
    Literal(Literal),
}

/// The name of the node that is made for an expression, and the result that bears it.
#[derive(Clone, Copy)]
pub(super) struct Naming<'n> {
    pub(super) name: &'n str,
    pub(super) port: usize,
}
/// A function, and how it is called.
pub(super) struct FunctionCall {
    pub(super) function: FunctionForm,
    pub(super) attrs: Attrs,
    pub(super) manner: Manner,
    /// The place of the parameters, if it is not that of the call.
    pub(super) owner: Option<Symbol>,
}

impl<'t> Typing<'t, '_> {
    pub(super) fn constants(&self) -> Constants<'t> {
        Constants { names: self.names, dims: self.dims }
    }

    /// The op or function that the setting `callee` names, if it is a setting.
    pub(super) fn named_by_setting(&self, callee: &str) -> Option<&'t str> {
        match self.names.get(callee) {
            Some(Meaning::Setting(Attr::Str(name))) => Some(name),
            _ => None,
        }
    }
}
