//! Expressions whose values are known while the pipeline is read: numbers, words, extents.

use super::dims::{Dims, named_dim};
use super::literals::{fold_binary, fold_unary, is_sound};
use super::names::{Meaning, Names};
use super::op_names::is_when;

use crate::diag::Span;
use crate::ir::{Attr, Dim, Literal, read_extent};
use crate::text::expr::{BinaryOp, Expr, ExprKind};

/// The names that stand for constants.
#[derive(Clone, Copy)]
pub(super) struct Constants<'a> {
    pub(super) names: &'a Names,
    pub(super) dims: &'a Dims,
}

impl<'a> Constants<'a> {
    /// The setting of the function around that the expression names.
    pub(super) fn setting(self, value: &Expr) -> Option<&'a Attr> {
        match &value.kind {
            ExprKind::Name(name) => match self.names.get(name.as_str()) {
                Some(Meaning::Setting(attr)) => Some(attr),
                _ => None,
            },
            _ => None,
        }
    }

    /// A number or truth value.
    pub(super) fn literal(self, value: &Expr) -> Option<Literal> {
        match &value.kind {
            ExprKind::Bool(b) => Some(Literal::Bool(*b)),
            ExprKind::Int(n) => Some(Literal::Int(*n)),
            ExprKind::Float(x) => Some(Literal::Float(*x)),
            ExprKind::Unary(op, x) => fold_unary(*op, self.literal(x)?),
            ExprKind::Binary { op, left, right } if self.is_words(left, right) => {
                let is_equal = self.word(left)? == self.word(right)?;
                match op.value {
                    BinaryOp::Eq => Some(Literal::Bool(is_equal)),
                    BinaryOp::Ne => Some(Literal::Bool(!is_equal)),
                    _ => None,
                }
            }
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.literal(left)?, self.literal(right)?);
                fold_binary(op.value, left, right).filter(|folded| is_sound([left, right], *folded))
            }
            ExprKind::Name(name) => match self.names.get(name.as_str()) {
                Some(Meaning::Setting(Attr::Lit(literal))) => Some(*literal),
                Some(Meaning::Extent(dim)) => dim.fixed().map(|extent| Literal::Int(extent as i64)),
                Some(_) => None,
                None => self.dims.get(name).map(|&extent| Literal::Int(extent as i64)),
            },
            ExprKind::Call { callee, args, named } if is_when(callee, args.len(), named.len()) => {
                self.literal(self.chosen(args)?)
            }
            _ => None,
        }
    }

    /// A whole number.
    pub(super) fn int(self, value: &Expr) -> Option<i64> {
        match self.literal(value)? {
            Literal::Int(n) => Some(n),
            _ => None,
        }
    }

    /// A truth value.
    pub(super) fn truth(self, value: &Expr) -> Option<bool> {
        match self.literal(value)? {
            Literal::Bool(b) => Some(b),
            _ => None,
        }
    }

    /// A word, with or without quotes.
    pub(super) fn word(self, value: &Expr) -> Option<String> {
        match (&value.kind, self.setting(value)) {
            (_, Some(Attr::Str(word))) => Some(word.to_string()),
            (_, Some(_)) => None,
            (ExprKind::Str(word) | ExprKind::Name(word), None) => Some(word.clone()),
            _ => None,
        }
    }

    /// Whether both sides are strings, or settings that are.
    fn is_words(self, left: &Expr, right: &Expr) -> bool {
        [left, right].into_iter().all(|side| match (&side.kind, self.setting(side)) {
            (ExprKind::Str(_), _) => true,
            (_, setting) => matches!(setting, Some(Attr::Str(_))),
        })
    }

    /// An extent. Unknown names stay open.
    ///
    /// # Errors
    /// The place of a part that is no extent, and the reason.
    pub(super) fn extent(self, value: &Expr) -> Result<Dim, (Span, String)> {
        if let Some(n) = self.int(value) {
            return usize::try_from(n)
                .map(Dim::Fixed)
                .map_err(|_| (value.span, format!("an extent cannot be {n}")));
        }
        read_extent(value, &|name| match self.names.get(name) {
            Some(Meaning::Extent(dim)) => Some(dim.clone()),
            Some(Meaning::Setting(Attr::Lit(Literal::Int(n)))) => usize::try_from(*n).ok().map(Dim::Fixed),
            Some(Meaning::Setting(_)) => None,
            _ => Some(named_dim(name, self.dims)),
        })
    }

    /// The side of `when(condition, a, b)` that the condition chooses, if the condition is known.
    pub(super) fn chosen(self, args: &[Expr]) -> Option<&Expr> {
        let [condition, yes, no] = args else { return None };
        self.truth(condition).map(|truth| if truth { yes } else { no })
    }
}
