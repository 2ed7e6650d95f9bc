//! Expressions: leaves, operators and nodes for them.

use super::super::literals::{default_dtype, fit, fold_binary, fold_unary, is_sound};
use super::super::op_names::{is_when, op_name, unary_op_name};
use super::state::{Naming, Operand, Typing};
use crate::diag::{Code, Span, Spanned};
use crate::ir::{Attrs, Body, DType, Literal, NodeId, NodeOp, Type, Value};
use crate::text::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use std::sync::Arc;

impl Typing<'_, '_> {
    /// Adds the nodes of an expression; its value is called `name`, and further nodes derive their names from it.
    pub(crate) fn define(&mut self, name: &str, expr: &Expr) -> Option<Value> {
        self.builder.set_scope(name, Some(expr.span));
        let naming = Some(Naming { name, port: 0 });
        match self.eval(expr, naming)? {
            Operand::Literal(literal) => self.constant(literal, expr.span, naming),
            Operand::Value(value) if &**self.builder.graph.name_of(value) == name => Some(value),
            Operand::Value(value) => Some(self.copy(value, name)),
        }
    }

    /// As [`Typing::define`]; with `full_precision`, the nodes are computed in `f32` in each precision.
    pub(crate) fn define_in(&mut self, name: &str, expr: &Expr, full_precision: bool) -> Option<Value> {
        let first = self.builder.graph.nodes.len();
        let value = self.define(name, expr);
        self.keep_precision(first, full_precision);
        value
    }

    /// Marks the nodes from `first` on.
    pub(super) fn keep_precision(&mut self, first: NodeId, full_precision: bool) {
        if full_precision {
            self.written.full_precision.push(first..self.builder.graph.nodes.len());
        }
    }

    /// Adds the nodes of an expression under names that derive from `scope`.
    pub(crate) fn value(&mut self, scope: &str, expr: &Expr) -> Option<Value> {
        self.builder.set_scope(scope, Some(expr.span));
        match self.eval(expr, None)? {
            Operand::Literal(literal) => self.constant(literal, expr.span, None),
            Operand::Value(value) => Some(value),
        }
    }

    /// `naming` is for the node that is made, if one is.
    pub(super) fn eval(&mut self, expr: &Expr, naming: Option<Naming>) -> Option<Operand> {
        match &expr.kind {
            ExprKind::Int(n) => Some(Operand::Literal(Literal::Int(*n))),
            ExprKind::Float(x) => Some(Operand::Literal(Literal::Float(*x))),
            ExprKind::Bool(b) => Some(Operand::Literal(Literal::Bool(*b))),
            ExprKind::Name(path) => self.named(path, expr.span),
            ExprKind::Str(_) => self.no_tensor(expr.span, "a string"),
            ExprKind::List(_) => self.no_tensor(expr.span, "a list"),
            ExprKind::Call { callee, args, named } if is_when(callee, args.len(), named.len()) => {
                self.when(args, naming)
            }
            ExprKind::Call { callee, args, named } => {
                let results = self.call(callee, args, named, expr.span, naming)?;
                Some(Operand::Value(results[naming.map_or(0, |naming| naming.port)]))
            }
            ExprKind::Unary(op, operand) => self.unary(*op, operand, expr.span, naming),
            ExprKind::Binary { op, left, right } => self.binary(op, [left, right], expr.span, naming),
            ExprKind::Port { base, port } => self.port_of_call(base, port, naming).map(Operand::Value),
        }
    }

    pub(super) fn no_tensor(&mut self, span: Span, what: &str) -> Option<Operand> {
        self.diags
            .error(Code::E0104, span, format!("{what} is no tensor"))
            .help("settings of an op have names: `f(x, mode=\"row\")`");
        None
    }
    // ---- Operators.

    pub(super) fn unary(
        &mut self,
        op: UnaryOp,
        x: &Expr,
        span: Span,
        naming: Option<Naming>,
    ) -> Option<Operand> {
        let operand = self.eval(x, None)?;
        if let Operand::Literal(literal) = operand
            && let Some(folded) = fold_unary(op, literal)
        {
            return Some(Operand::Literal(folded));
        }
        let args = [Spanned::new(x.span, operand)];
        let form = self.form(Spanned::new(span, unary_op_name(op)))?;
        let attrs = form.fill_attrs(Attrs::default());
        let results = self.apply(form, &args, (attrs, &[]), span, naming)?;
        Some(Operand::Value(results[naming.map_or(0, |naming| naming.port)]))
    }

    pub(super) fn binary(
        &mut self,
        op: &Spanned<BinaryOp>,
        operands: [&Expr; 2],
        span: Span,
        naming: Option<Naming>,
    ) -> Option<Operand> {
        // Both sides are typed, so that the errors of both are reported.
        let [left, right] = operands.map(|operand| self.eval(operand, None));
        let (left, right) = (left?, right?);
        if let (Operand::Literal(l), Operand::Literal(r)) = (left, right)
            && let Some(folded) = fold_binary(op.value, l, r)
        {
            return self.sound([l, r], folded, span);
        }
        let args = [Spanned::new(operands[0].span, left), Spanned::new(operands[1].span, right)];
        let form = self.form(Spanned::new(op.span, op_name(op.value)))?;
        let attrs = form.fill_attrs(Attrs::default());
        let results = self.apply(form, &args, (attrs, &[]), span, naming)?;
        Some(Operand::Value(results[naming.map_or(0, |naming| naming.port)]))
    }

    /// A number of two others; reported if it is infinite or none while they are finite.
    pub(super) fn sound(&mut self, operands: [Literal; 2], folded: Literal, span: Span) -> Option<Operand> {
        if is_sound(operands, folded) {
            return Some(Operand::Literal(folded));
        }
        let message = match folded.as_f64().is_nan() {
            true => "this constant is not a number",
            false => "this constant is infinite",
        };
        self.diags.error(Code::E0015, span, message).help("write `inf` or `nan` if that is meant");
        None
    }
    // ---- Nodes.

    /// A number alone, as a scalar of the type that its spelling suggests.
    pub(super) fn constant(&mut self, literal: Literal, span: Span, naming: Option<Naming>) -> Option<Value> {
        let dtype = default_dtype([literal]);
        match fit(literal, dtype) {
            Ok(literal) => Some(self.push_constant(literal, dtype, span, naming)),
            Err(why) => {
                self.report_misfit(span, why, &[]);
                None
            }
        }
    }

    pub(super) fn push_constant(
        &mut self,
        literal: Literal,
        dtype: DType,
        span: Span,
        naming: Option<Naming>,
    ) -> Value {
        self.builder.set_span(Some(span));
        let name = naming.map_or_else(|| self.builder.fresh_name(), |naming| naming.name.into());
        self.builder.push_named(name, NodeOp::Const(literal), vec![], Type::scalar(dtype))
    }

    /// A value under one more name.
    pub(super) fn copy(&mut self, value: Value, name: &str) -> Value {
        let identity = Arc::new(Body::new(1, |x| vec![x[0]]));
        let ty = self.builder.ty(value).clone();
        self.builder.push_named(name.into(), NodeOp::Map(identity), vec![value], ty)
    }
}
