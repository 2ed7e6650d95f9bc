//! Reports of calls that do not fit.

use super::super::function::FunctionForm;
use super::state::{Operand, Typing};
use crate::diag::{Code, Diagnostics, Span, Spanned, nearest};
use crate::ir::{Type, broadcast_shapes};
use crate::op::{Form, OpForm, Registry, TypeIssue, TypeRule};

impl Typing<'_, '_> {
    pub(super) fn report_misfit(&mut self, span: Span, why: String, args: &[Spanned<Operand>]) {
        let beside = args.iter().find_map(|arg| match arg.value {
            Operand::Value(value) => Some((arg.span, format!("this is {}", self.builder.ty(value)))),
            Operand::Literal(_) => None,
        });
        let error = self.diags.error(Code::E0114, span, why);
        if let Some((span, remark)) = beside {
            error.also(span, remark).help("convert the tensor first, for example with `cast(x, dtype=f32)`");
        }
    }

    /// Reports a call that does not fit. A fault within the called function keeps its place, and names the call.
    pub(super) fn report(
        &mut self,
        form: &OpForm,
        issue: TypeIssue,
        types: &[Type],
        args: &[Spanned<Operand>],
        span: Span,
    ) {
        if let Some(fault) = issue.inside {
            let operands: Vec<String> = types.iter().map(Type::to_string).collect();
            let on = if operands.is_empty() { "" } else { " on " };
            let call = format!("in this call of `{}`{on}{}", form.name, operands.join(", "));
            self.diags.push(*fault).also(span, call);
            return;
        }
        let code = if issue.setting.is_some() { Code::E0114 } else { code_of(form, types) };
        let (main, remark) = match &issue.operand {
            Some((operand, remark)) if *operand < args.len() => (*operand, remark.clone()),
            _ => (usize::MAX, String::new()),
        };
        let error = self.diags.error(code, args.get(main).map_or(span, |arg| arg.span), issue.message);
        error.here(remark);
        // The types of many operands hide more than they tell, and those of too few or too many tell nothing.
        let others = args.iter().zip(types).enumerate().filter(|(i, _)| *i != main && code != Code::E0106);
        for (_, (arg, ty)) in others.take(3) {
            if matches!(arg.value, Operand::Value(_)) {
                error.also(arg.span, format!("this is {ty}"));
            }
        }
        error.help = by_name(form, args).or(issue.help);
    }
}

/// The names of settings whose numbers were written behind the operands.
fn by_name(form: &OpForm, args: &[Spanned<Operand>]) -> Option<String> {
    let further = args.get(form.inputs.len()..)?;
    let named = form.attrs.iter().zip(further).map(|(setting, arg)| match arg.value {
        Operand::Literal(literal) => Some(format!("{}={literal}", setting.name)),
        Operand::Value(_) => None,
    });
    let named = named.collect::<Option<Vec<String>>>().filter(|named| !named.is_empty())?;
    Some(format!("settings have names: `{}`", named.join(", ")))
}

/// Reports a declared type that is not the type of the node.
pub(crate) fn check_declared(name: &str, declared: &Spanned<Type>, found: &Type, diags: &mut Diagnostics) {
    if declared.value != *found {
        let message = format!("`{name}` is {found}, not {}", declared.value);
        diags.error(Code::E0110, declared.span, message).help("correct the type or leave it out");
    }
}

pub(crate) fn report_unknown_op(registry: &Registry, name: &Spanned<&str>, diags: &mut Diagnostics) {
    let functions = registry.forms::<FunctionForm>().map(Form::name);
    let ops = registry.ops().map(|op| op.name.as_str()).chain(functions);
    let near = if diags.is_full() { None } else { nearest(name.value, ops) };
    let error = diags.error(Code::E0105, name.span, format!("there is no op `{}`", name.value));
    match near {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help("`engine ops` lists all ops"),
    };
}
fn code_of(form: &OpForm, types: &[Type]) -> Code {
    let needed = form.inputs.iter().filter(|input| !input.optional).count();
    let elementwise = matches!(form.types, TypeRule::Broadcast { .. } | TypeRule::Compare);
    if !(needed..=form.inputs.len()).contains(&types.len()) {
        Code::E0106
    } else if elementwise && types.windows(2).any(|pair| pair[0].dtype != pair[1].dtype) {
        Code::E0103
    } else if elementwise && broadcast_shapes(types).is_none() {
        Code::E0102
    } else {
        Code::E0104
    }
}
