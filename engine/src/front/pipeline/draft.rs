//! A graph that grows by expressions, for readers of other formats.

use super::dims::Dims;
use super::names::{Meaning, Names};
use super::typing::{Around, Place, Typing, Written};
use crate::diag::{Diagnostic, Diagnostics, Sources};
use crate::ir::{Builder, Graph, InputKind, Symbol, Type};
use crate::op::Registry;
use crate::text::Text;
use crate::text::expr::parse_expr;
use std::collections::HashSet;

/// Expressions over named tensors, typed one by one as those of a pipeline are. Extents may have names.
pub struct Draft<'r> {
    sources: Sources,
    builder: Builder<'r>,
    registry: &'r Registry,
    names: Names,
    written: Written,
}

impl<'r> Draft<'r> {
    /// An empty graph whose expressions call these ops.
    pub fn new(registry: &'r Registry) -> Draft<'r> {
        let builder = Builder::new(Graph::new("draft"), registry);
        Draft { sources: Sources::new(), builder, registry, names: Names::new(), written: Written::default() }
    }

    /// A tensor that expressions may name.
    pub fn input(&mut self, name: &str, ty: Type) {
        let value = self.builder.input(name, InputKind::Data, ty);
        self.names.insert(name.into(), Meaning::Value(value));
    }

    /// Gives an expression a name, and returns the type of its value.
    ///
    /// # Errors
    /// The first error of the expression, without its place.
    pub fn node(&mut self, name: &str, expression: &str) -> Result<Type, Diagnostic> {
        let mut diags = Diagnostics::new();
        let file = self.sources.add(name, expression);
        let place = Place::default();
        let around = Around { scope: self.registry, place: &place };
        let (dims, faulty_ops) = (Dims::new(), HashSet::new());
        let value = parse_expr(&Text::verbatim(file, 0, expression), &mut diags).and_then(|expr| {
            let mut typing = Typing {
                builder: &mut self.builder,
                names: &self.names,
                dims: &dims,
                faulty_ops: &faulty_ops,
                written: &mut self.written,
                around,
                diags: &mut diags,
            };
            typing.define(name, &expr)
        });
        match (value, diags.sorted().first()) {
            (Some(value), None) => {
                self.names.insert(Symbol::from(name), Meaning::Value(value));
                Ok(self.builder.ty(value).clone())
            }
            (_, Some(first)) => Err(Diagnostic { labels: vec![], ..(*first).clone() }),
            (None, None) => crate::bug!("`{expression}` has no value and no error"),
        }
    }
}
