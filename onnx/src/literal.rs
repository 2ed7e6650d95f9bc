//! Numbers, lists and words as expressions.

use engine_core::ir::Dim;
use engine_core::text::expr::{Expr, ExprKind};

use crate::known::Number;
use crate::table::expression;

/// A number as an expression.
pub(crate) fn of_number(number: &Number) -> Expr {
    match number {
        Number::Bool(b) => expression(&b.to_string()),
        Number::Int(n) => expression(&n.to_string()),
        Number::Float(x) if x.is_nan() => expression("nan"),
        Number::Float(x) => expression(&format!("{x:?}")),
        Number::Dim(Dim::Named(name)) => expression(name),
        Number::Dim(dim) => expression(&dim.to_string()),
    }
}

/// The text of a list of numbers.
pub(crate) fn list(items: &[Number]) -> String {
    let items: Vec<String> = items.iter().map(|item| of_number(item).to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// A word of an attribute, in quotes if it is none.
pub(crate) fn of_word(text: &str) -> Expr {
    let has_meaning = ["none", "true", "false", "inf", "nan"].contains(&text);
    let is_word = !has_meaning
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let kind = if is_word { ExprKind::Name(text.to_owned()) } else { ExprKind::Str(text.to_owned()) };
    Expr::new(expression("x").span, kind)
}
