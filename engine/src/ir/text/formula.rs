//! Reads scalar bodies from expressions.

use super::call::{dtype, foreign, literal};
use super::parse::Reader;
use super::piece::{Fault, Piece, at};
use crate::diag::Spanned;
use crate::ir::{Binary, Body, E, OpSet, Scalar, Symbol, Unary};
use crate::text::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use std::collections::HashMap;

impl<'t> Reader<'t> {
    /// `|a, b| a + b, a - b`
    pub(super) fn body(&self, piece: Piece<'t>) -> Result<Body, Fault> {
        let Some((params, results)) = piece.strip_prefix("|").and_then(|rest| rest.cut('|')) else {
            return piece.fault("expected `|a, b| …`");
        };
        let params: Vec<Symbol> =
            params.items().into_iter().map(|param| self.name(param)).collect::<Result<_, _>>()?;
        let results: Vec<Expr> =
            results.items().into_iter().map(|result| self.expr(result)).collect::<Result<_, _>>()?;
        let mut fault = None;
        let body = Body::new(params.len(), |values| {
            let named = params.iter().cloned().zip(values.iter().copied()).collect();
            let formula = Formula { ops: self.ops, params: named };
            let built = results.iter().map(|result| formula.build(result)).collect::<Result<Vec<E>, _>>();
            built.unwrap_or_else(|found| {
                fault = Some(found);
                vec![]
            })
        });
        fault.map_or(Ok(body), Err)
    }
}

/// Builds the steps of a scalar body from expressions.
struct Formula<'t> {
    ops: &'t dyn OpSet,
    params: HashMap<Symbol, E>,
}

impl Formula<'_> {
    fn build(&self, expr: &Expr) -> Result<E, Fault> {
        match &expr.kind {
            ExprKind::Name(name) => {
                let param = self.params.get(name.as_str()).copied();
                param.ok_or_else(|| at(expr.span, format!("the body has no parameter `{name}`")))
            }
            ExprKind::Unary(UnaryOp::Neg, operand) => self.apply(Scalar::Unary(Unary::Neg), &[operand]),
            ExprKind::Unary(UnaryOp::Not, operand) => self.apply(Scalar::Unary(Unary::Not), &[operand]),
            ExprKind::Binary { op, left, right } => match infix(op.value) {
                Some(binary) => self.apply(Scalar::Binary(binary), &[left, right]),
                None => Err(at(op.span, format!("`{}` is no scalar operator", op.value))),
            },
            ExprKind::Call { callee, args, named } => {
                let scalar = self.scalar(callee, named)?;
                let wanted = scalar.arity();
                if args.len() != wanted {
                    return Err(at(
                        callee.span,
                        format!("`{}` is given {} operands, not {wanted}", callee.value, args.len()),
                    ));
                }
                self.apply(scalar, &args.iter().collect::<Vec<_>>())
            }
            _ => literal(expr).map(E::lit),
        }
    }

    fn apply(&self, scalar: Scalar, operands: &[&Expr]) -> Result<E, Fault> {
        let operands: Vec<E> =
            operands.iter().map(|operand| self.build(operand)).collect::<Result<_, _>>()?;
        Ok(E::apply(scalar, &operands))
    }

    fn scalar(&self, callee: &Spanned<String>, named: &[(Spanned<String>, Expr)]) -> Result<Scalar, Fault> {
        let unknown = || at(callee.span, format!("there is no scalar primitive `{}`", callee.value));
        match (callee.as_str(), named) {
            ("cast", [(name, value)]) if **name == "dtype" => Ok(Scalar::Cast(dtype(value)?)),
            ("foreign", [(name, value)]) if **name == "key" => foreign(self.ops, value),
            (name, []) => Scalar::from_name(name).ok_or_else(unknown),
            (_, [(name, _), ..]) => Err(at(name.span, format!("there is no setting `{}` here", **name))),
        }
    }
}

fn infix(op: BinaryOp) -> Option<Binary> {
    Some(match op {
        BinaryOp::Add => Binary::Add,
        BinaryOp::Sub => Binary::Sub,
        BinaryOp::Mul => Binary::Mul,
        BinaryOp::Div => Binary::Div,
        BinaryOp::Rem => Binary::Rem,
        BinaryOp::Pow => Binary::Pow,
        BinaryOp::Lt => Binary::Lt,
        BinaryOp::Le => Binary::Le,
        BinaryOp::Gt => Binary::Gt,
        BinaryOp::Ge => Binary::Ge,
        BinaryOp::Eq => Binary::Eq,
        BinaryOp::Ne => Binary::Ne,
        BinaryOp::And => Binary::And,
        BinaryOp::Or => Binary::Or,
        BinaryOp::MatMul => return None,
    })
}
