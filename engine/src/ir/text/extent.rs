//! Extents as expressions: `784`, `B`, `B * T`, `H / 2`.

use crate::diag::Span;
use crate::ir::Dim;
use crate::text::expr::{BinaryOp, Expr, ExprKind};

/// The extent that an expression of numbers, names, `+`, `-`, `*`, `/` and `**` stands for. `name` gives the extent of a
/// name. A quotient must be exact for all values of the names.
///
/// # Errors
/// The place of a part that is no extent, and the reason.
pub fn read_extent(expr: &Expr, name: &dyn Fn(&str) -> Option<Dim>) -> Result<Dim, (Span, String)> {
    let fault = |message: String| Err((expr.span, message));
    match &expr.kind {
        ExprKind::Int(n) => match usize::try_from(*n) {
            Ok(n) => Ok(Dim::Fixed(n)),
            Err(_) => fault(format!("an extent cannot be {n}")),
        },
        ExprKind::Name(path) => match name(path) {
            Some(dim) => Ok(dim),
            None => fault(format!("`{path}` is no extent")),
        },
        ExprKind::Binary { op, left, right } => {
            let (left, right) = (read_extent(left, name)?, read_extent(right, name)?);
            match combine(op.value, &left, &right) {
                Some(dim) => Ok(dim),
                None => fault(unknown(op.value, &left, &right)),
            }
        }
        _ => fault("an extent is a number, a name such as `B`, or arithmetic of them".to_owned()),
    }
}

fn combine(op: BinaryOp, left: &Dim, right: &Dim) -> Option<Dim> {
    match op {
        BinaryOp::Add => left.plus(right),
        BinaryOp::Sub => left.minus(right),
        BinaryOp::Mul => left.times(right),
        BinaryOp::Div => left.divided_by(right),
        BinaryOp::Rem => left.fixed()?.checked_rem(right.fixed()?).map(Dim::Fixed),
        BinaryOp::Pow => power(left, right.fixed()?),
        _ => None,
    }
}

fn power(base: &Dim, exponent: usize) -> Option<Dim> {
    const HIGHEST: usize = 64;
    (exponent <= HIGHEST).then(|| Dim::product(std::iter::repeat_n(base, exponent)))?
}

fn unknown(op: BinaryOp, left: &Dim, right: &Dim) -> String {
    match op {
        BinaryOp::Div => format!("the extent `{left}` cannot be divided by `{right}` without a remainder"),
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Pow => {
            format!("`{left} {op} {right}` is no extent: it is negative or too large")
        }
        BinaryOp::Rem => format!("`{left} % {right}` is known of two numbers, the second of them not 0"),
        _ => format!("`{op}` makes no extent"),
    }
}

/// The extent of an expression in which all names are open.
pub(super) fn open_extent(expr: &Expr) -> Result<Dim, (Span, String)> {
    read_extent(expr, &|name| Some(Dim::Named(name.into())))
}
