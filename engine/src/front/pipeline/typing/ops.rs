//! Calls of ops: settings, types of numbers without one, results.

use super::super::literals::{default_dtype, fit};
use super::super::settings;
use super::super::types::check_size;
use super::reports::report_unknown_op;
use super::state::{FunctionCall, Naming, Operand, Typing};
use crate::diag::{Span, Spanned};
use crate::ir::{Attrs, Call, DType, Literal, NodeOp, Output, Symbol, Type, Value};
use crate::op::{OpForm, TypeIssue, TypeRule};
use crate::text::expr::{ALL_RESULTS, Expr, ExprKind};
use std::sync::Arc;

impl Typing<'_, '_> {
    pub(super) fn call(
        &mut self,
        callee: &Spanned<String>,
        args: &[Expr],
        named: &[(Spanned<String>, Expr)],
        span: Span,
        naming: Option<Naming>,
    ) -> Option<Vec<Value>> {
        if let Some(function) = self.callee(callee, named) {
            self.reserve_copies(&function, naming);
            let operands = self.operands(args);
            return self.write_call(&function?, &operands?, named, span, naming);
        }
        let name = self.named_by_setting(callee).unwrap_or(callee);
        let form = self.form(Spanned::new(callee.span, name));
        let operands = self.operands(args);
        let form = form?;
        let attrs = settings::read(&form, named, callee.span, self.constants(), self.diags);
        self.apply(form, &operands?, (attrs?, named), span, naming)
    }

    pub(super) fn operands(&mut self, args: &[Expr]) -> Option<Vec<Spanned<Operand>>> {
        let mut operands = vec![];
        for arg in args {
            let values = match &arg.kind {
                ExprKind::Port { base, port } if **port == *ALL_RESULTS => self.group(base),
                _ => self.eval(arg, None).map(|operand| vec![operand]),
            };
            operands.push(values.map(|values| values.into_iter().map(|value| Spanned::new(arg.span, value))));
        }
        // All operands are typed before a faulty one ends the call, so that the errors of all are reported.
        Some(operands.into_iter().collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
    }

    pub(super) fn form(&mut self, name: Spanned<&str>) -> Option<Arc<OpForm>> {
        let form = self.builder.registry().op(name.value);
        if form.is_none() && !self.faulty_ops.contains(name.value) {
            report_unknown_op(self.builder.registry(), &name, self.diags);
        }
        form
    }

    /// Adds a call of an op, of these settings, which were written so.
    pub(super) fn apply(
        &mut self,
        form: Arc<OpForm>,
        args: &[Spanned<Operand>],
        (attrs, written): (Attrs, &[(Spanned<String>, Expr)]),
        span: Span,
        naming: Option<Naming>,
    ) -> Option<Vec<Value>> {
        let (dtype, types) = self.infer(&form, args, (&attrs, written), span)?;
        for ty in &types {
            check_size(ty, span, self.diags)?;
        }
        let inputs: Option<Vec<_>> = args.iter().map(|arg| self.operand(arg, dtype)).collect();
        self.builder.set_span(Some(span));
        let outputs = self.outputs(types, &form, naming);
        let n_outputs = outputs.len();
        let node = self.builder.push_node(NodeOp::Call(Call { op: form, attrs }), inputs?, outputs);
        Some((0..n_outputs).map(|port| Value { node, port }).collect())
    }

    /// The element type that numbers without one take among operands of a function. A function that is called for each
    /// position of a sequence does not fit the whole sequence, so its numbers take the type beside them.
    pub(super) fn dtype_of_literals(
        &mut self,
        call: &FunctionCall,
        args: &[Spanned<Operand>],
        written: &[(Spanned<String>, Expr)],
        span: Span,
    ) -> Option<DType> {
        let form = &call.function.form;
        let has_literals = args.iter().any(|arg| matches!(arg.value, Operand::Literal(_)));
        if has_literals && call.manner.over.is_none() || form.check_arity(args.len()).is_err() {
            return self.infer(form, args, (&call.attrs, written), span).map(|(dtype, _)| dtype);
        }
        self.candidates(form, args).first().copied()
    }

    /// The element type that numbers without one take, and the types of the results.
    pub(super) fn infer(
        &mut self,
        form: &OpForm,
        args: &[Spanned<Operand>],
        (attrs, written): (&Attrs, &[(Spanned<String>, Expr)]),
        span: Span,
    ) -> Option<(DType, Vec<Type>)> {
        let mut first_fault = None;
        for dtype in self.candidates(form, args) {
            let fault = match self.types_of(args, dtype) {
                Err((literal, why)) => Fault::Misfit(literal, why),
                Ok(types) => match form.infer(&types, attrs) {
                    Ok(results) => return Some((dtype, results)),
                    Err(issue) => Fault::Issue(issue, types),
                },
            };
            first_fault.get_or_insert(fault);
        }
        match first_fault? {
            Fault::Misfit(literal, why) => self.report_misfit(literal, why, args),
            Fault::Issue(issue, types) => {
                let setting =
                    written.iter().find(|(name, _)| issue.setting.as_deref() == Some(name.value.as_str()));
                let span = setting.map_or(span, |(_, value)| value.span);
                self.report(form, issue, &types, args, span);
            }
        }
        None
    }

    /// Element types to try for the numbers without one: those beside them, then their own.
    pub(super) fn candidates(&self, form: &OpForm, args: &[Spanned<Operand>]) -> Vec<DType> {
        let literals = args.iter().filter_map(|arg| match arg.value {
            Operand::Literal(literal) => Some(literal),
            Operand::Value(_) => None,
        });
        let own = default_dtype(literals);
        let mut dtypes: Vec<DType> = vec![];
        for arg in args {
            if let Operand::Value(value) = arg.value {
                let dtype = self.builder.dtype(value);
                if dtype != DType::Bool && !dtypes.contains(&dtype) {
                    dtypes.push(dtype);
                }
            }
        }
        if matches!(form.types, TypeRule::Broadcast { .. } | TypeRule::Compare) {
            dtypes.truncate(1);
        }
        if dtypes.is_empty() || matches!(form.types, TypeRule::Custom(_)) {
            dtypes.push(own);
        }
        dtypes
    }

    /// Types of the operands if numbers are of that element type; or the number that does not fit, and why.
    pub(super) fn types_of(
        &self,
        args: &[Spanned<Operand>],
        dtype: DType,
    ) -> Result<Vec<Type>, (Span, String)> {
        args.iter()
            .map(|arg| match arg.value {
                Operand::Value(value) => Ok(self.builder.ty(value).clone()),
                Operand::Literal(literal) => {
                    let dtype = literal_dtype(literal, dtype);
                    fit(literal, dtype).map(|_| Type::scalar(dtype)).map_err(|why| (arg.span, why))
                }
            })
            .collect()
    }

    pub(super) fn operand(&mut self, arg: &Spanned<Operand>, dtype: DType) -> Option<Value> {
        match arg.value {
            Operand::Value(value) => Some(value),
            Operand::Literal(literal) => {
                let dtype = literal_dtype(literal, dtype);
                Some(self.push_constant(fit(literal, dtype).ok()?, dtype, arg.span, None))
            }
        }
    }

    pub(super) fn outputs(&mut self, types: Vec<Type>, form: &OpForm, naming: Option<Naming>) -> Vec<Output> {
        let (name, named_port): (Symbol, usize) = match naming {
            Some(Naming { name, port }) => (name.into(), port),
            None => (self.builder.fresh_name(), 0),
        };
        let mut outputs = vec![];
        for (port, ty) in types.into_iter().enumerate() {
            let derived = form.outputs.get(port).map(|result| format!("{name}.{result}").into());
            let name = match derived {
                _ if port == named_port => name.clone(),
                Some(derived) if !self.names.contains_key(&derived) => derived,
                _ => self.builder.fresh_name(),
            };
            outputs.push(Output { name, ty });
        }
        outputs
    }
}

/// Why a candidate for the type of untyped numbers does not do.
enum Fault {
    Misfit(Span, String),
    Issue(TypeIssue, Vec<Type>),
}
/// Truth values keep their type beside operands of any type.
fn literal_dtype(literal: Literal, dtype: DType) -> DType {
    if matches!(literal, Literal::Bool(_)) { DType::Bool } else { dtype }
}
