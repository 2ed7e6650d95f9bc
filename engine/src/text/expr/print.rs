//! The text of an expression, with no parentheses but those that the grammar needs.

use super::tree::{BinaryOp, Expr, ExprKind, Further, TypePattern, UNARY, UnaryOp};
use std::fmt::{self, Display, Formatter};

/// The strength of names, numbers and calls, which never need parentheses.
const LEAF: u8 = 8;

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Name(name) => f.write_str(name),
            ExprKind::Int(n) => write!(f, "{n}"),
            ExprKind::Float(x) if x.is_nan() => f.write_str("nan"),
            ExprKind::Float(x) => write!(f, "{x:?}"),
            ExprKind::Bool(b) => write!(f, "{b}"),
            ExprKind::Str(text) => write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
            ExprKind::List(items) => write!(f, "[{}]", joined(items.iter())),
            ExprKind::Call { callee, args, named } => {
                let named = named.iter().map(|(name, value)| format!("{}={value}", name.value));
                let args: Vec<String> = args.iter().map(Expr::to_string).chain(named).collect();
                write!(f, "{}({})", callee.value, args.join(", "))
            }
            ExprKind::Unary(op, operand) => {
                f.write_str(match op {
                    UnaryOp::Neg => "-",
                    UnaryOp::Not => "!",
                })?;
                within(operand, UNARY + 1, f)
            }
            ExprKind::Binary { op, left, right } => {
                let strength = op.value.strength();
                // Powers group to the right, comparisons not at all, all others to the left.
                let (of_left, of_right) = match op.value {
                    BinaryOp::Pow => (strength + 1, strength),
                    _ if op.value.is_comparison() => (strength + 1, strength + 1),
                    _ => (strength, strength + 1),
                };
                within(left, of_left, f)?;
                write!(f, " {} ", op.value)?;
                within(right, of_right, f)
            }
            ExprKind::Port { base, port } => {
                within(base, LEAF, f)?;
                write!(f, ".{}", port.value)
            }
        }
    }
}

impl Display for TypePattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let further = |place: Further| (self.further == place).then(|| "...".to_string());
        let extents = self.dims.iter().map(Expr::to_string);
        let extents: Vec<String> =
            further(Further::First).into_iter().chain(extents).chain(further(Further::Last)).collect();
        let dtype = self.dtype.as_ref().map_or("", |dtype| dtype.as_str());
        write!(f, "{dtype}[{}]", extents.join(", "))
    }
}

fn within(expr: &Expr, weakest: u8, f: &mut Formatter<'_>) -> fmt::Result {
    if strength(expr) < weakest { write!(f, "({expr})") } else { write!(f, "{expr}") }
}

fn strength(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Binary { op, .. } => op.value.strength(),
        ExprKind::Unary(..) => UNARY,
        ExprKind::Int(n) if *n < 0 => UNARY,
        ExprKind::Float(x) if x.is_sign_negative() && !x.is_nan() => UNARY,
        _ => LEAF,
    }
}

fn joined<'e>(items: impl Iterator<Item = &'e Expr>) -> String {
    items.map(Expr::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::diag::{Diagnostics, Sources};
    use crate::text::Text;
    use crate::text::expr::{Expr, parse_expr};

    fn parse(text: &str) -> Expr {
        let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
        let file = sources.add("t", text);
        parse_expr(&Text::verbatim(file, 0, text), &mut diags).unwrap()
    }

    #[test]
    fn the_text_of_an_expression_reads_back() {
        for text in [
            "relu(x @ w + b)",
            "(a + b) * (c - d)",
            "a - b - c",
            "a - (b - c)",
            "a ** b ** c",
            "(a ** b) ** c",
            "(-a) ** 2",
            "-a ** 2",
            "!(a < b) | c & d",
            "(a < b) == c",
            "x / 255.0",
            "f(a, [1, -2], axis=-1, mode=\"row\", shape=[B, _])",
            "topk(x, k=3).indices",
            "f(x, t.*)",
            "x + -1e-5",
            "where(m, inf, -inf)",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
    }
}
