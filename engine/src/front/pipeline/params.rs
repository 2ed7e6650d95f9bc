//! Parameters: their types and initialisers, once all extents are known.

use super::constants::Constants;
use super::function::ParamDef;
use super::nodes::read_expr;
use super::types::resolve;
use crate::diag::{Code, Diagnostics, Span};
use crate::front::fields::report_unknown;
use crate::front::{Fields, Ron, RonKind};
use crate::ir::{DType, InputKind, Literal, Symbol, Type};
use crate::pipeline::{Init, ParamDecl};
use crate::text::expr::{Expr, parse_expr};

/// The parameter that a definition stands for where its extents and numbers are known.
pub(super) fn declare(
    def: &ParamDef,
    name: Symbol,
    known: Constants,
    diags: &mut Diagnostics,
) -> Option<ParamDecl> {
    let ty = resolve(&def.ty, known, diags);
    let init = def.init.as_ref().map_or(Some(Init::Zeros), |v| read_init(v, known, diags));
    let (ty, init) = (ty?, init?);
    if let (Some(written), Some(value)) = (&def.init, beyond(&init, ty.dtype)) {
        let message = format!("`{value}` is no element of {}", ty.dtype);
        diags
            .error(Code::E0114, written.span, message)
            .help("write a number that the type has, or a wider type");
        return None;
    }
    let kind = if def.is_state { InputKind::State } else { InputKind::Param };
    check_param(kind, &ty, def.ty.span, &init, diags).then_some(ParamDecl {
        name,
        kind,
        ty,
        init,
        span: Some(def.name.span),
    })
}

/// A number of an initialiser that no element of the type holds. Integers are drawn by rounding.
fn beyond(init: &Init, dtype: DType) -> Option<Literal> {
    let numbers = match *init {
        Init::Constant(value) => vec![value],
        Init::Uniform { low, high } if dtype.is_float() => vec![Literal::Float(low), Literal::Float(high)],
        Init::Normal { mean, std } if dtype.is_float() => vec![Literal::Float(mean), Literal::Float(std)],
        _ => vec![],
    };
    numbers.into_iter().find(|number| number.element(dtype).is_none())
}

fn check_param(kind: InputKind, ty: &Type, span: Span, init: &Init, diags: &mut Diagnostics) -> bool {
    let open = ty.shape.iter().find(|dim| dim.fixed().is_none());
    let fault = match open {
        Some(dim) => Some((
            format!("the extent `{dim}` of a parameter is not known"),
            format!("write a number, or `dims: {{\"{dim}\": …}}`"),
        )),
        None if kind == InputKind::Param && !ty.dtype.is_float() => {
            Some((format!("{ty} cannot be trained"), "use a float type, or `state: true`".to_owned()))
        }
        None if matches!(init, Init::Xavier | Init::Kaiming) && ty.rank() < 2 => Some((
            format!("{ty} has no axis of inputs and axis of outputs, by which {init:?} scales"),
            "use `Zeros` or `Normal(mean: 0, std: …)`".to_owned(),
        )),
        None => None,
    };
    if let Some((message, help)) = &fault {
        diags.error(Code::E0204, span, message).help(help);
    }
    fault.is_none()
}

fn read_init(value: &Ron, known: Constants, diags: &mut Diagnostics) -> Option<Init> {
    let names = ["Zeros", "Ones", "Constant", "Uniform", "Normal", "Xavier", "Kaiming", "When"];
    let Some(head) = value.head() else {
        return number(value, "`init`", known, diags).map(Init::Constant);
    };
    if !names.contains(&head.value) {
        report_unknown(Code::E0014, head, "there is no initialiser", names, diags);
        return None;
    }
    if head.value == "When" {
        return read_init(chosen(value, known, diags)?, known, diags);
    }
    let order: &[&str] = match head.value {
        "Constant" => &["value"],
        "Uniform" => &["low", "high"],
        "Normal" => &["mean", "std"],
        _ => &[],
    };
    let mut fields = Fields::of_choice(value, "an initialiser", order, diags)?;
    let mut float = |name| {
        let value = fields.required(name)?;
        number(value, name, known, diags).map(|number| number.as_f64())
    };
    let init = match head.value {
        "Zeros" => Some(Init::Zeros),
        "Ones" => Some(Init::Constant(Literal::Int(1))),
        "Constant" => {
            let value = fields.required("value");
            value.and_then(|v| number(v, "value", known, diags)).map(Init::Constant)
        }
        "Uniform" => float("low").zip(float("high")).map(|(low, high)| Init::Uniform { low, high }),
        "Normal" => float("mean").zip(float("std")).map(|(mean, std)| Init::Normal { mean, std }),
        "Xavier" => Some(Init::Xavier),
        "Kaiming" => Some(Init::Kaiming),
        _ => None,
    };
    fields.finish(diags);
    init.filter(|init| check_init(init, value.span, diags))
}

/// The initialiser that the condition of `When("std > 0", Normal(0, "std"), Kaiming)` chooses.
fn chosen<'v>(value: &'v Ron, known: Constants, diags: &mut Diagnostics) -> Option<&'v Ron> {
    let mut fields = Fields::of_choice(value, "`When`", &["condition", "yes", "no"], diags)?;
    let condition = fields.required("condition").and_then(|v| read_expr(v, diags));
    let (yes, no) = (fields.required("yes"), fields.required("no"));
    fields.finish(diags);
    if truth(&condition?, "the condition", known, diags)? { yes } else { no }
}

/// A number, or in a string an expression of settings and extents: `"0.02 / layers"`.
fn number(value: &Ron, what: &str, known: Constants, diags: &mut Diagnostics) -> Option<Literal> {
    let RonKind::Str(text) = &value.kind else { return value.literal(what, diags) };
    let expr = parse_expr(text, diags)?;
    let number = known.literal(&expr);
    if number.is_none() {
        diags
            .error(Code::E0010, expr.span, format!("{what} is no finite number that is known here"))
            .help("write arithmetic of numbers, settings and extents");
    }
    number
}

/// Whether a parameter exists: the value of its condition.
pub(super) fn exists(def: &ParamDef, known: Constants, diags: &mut Diagnostics) -> Option<bool> {
    let Some(condition) = &def.when else { return Some(true) };
    truth(condition, "`when`", known, diags)
}

fn truth(condition: &Expr, what: &str, known: Constants, diags: &mut Diagnostics) -> Option<bool> {
    let truth = known.truth(condition);
    if truth.is_none() {
        diags
            .error(Code::E0010, condition.span, format!("{what} is no truth value that is known here"))
            .help("write a comparison of settings and extents, or a setting that is a truth value");
    }
    truth
}

/// Whether there are numbers of such a distribution.
fn check_init(init: &Init, span: Span, diags: &mut Diagnostics) -> bool {
    let (fault, help) = match *init {
        Init::Uniform { low, high } if !(low <= high && (high - low).is_finite()) => (
            format!("no numbers are uniform in {low}..{high}"),
            "the lower end comes first, and both are finite",
        ),
        Init::Normal { mean, std } if !(mean.is_finite() && std.is_finite() && std >= 0.0) => (
            format!("there is no normal distribution of mean {mean} and standard deviation {std}"),
            "both are finite, and the standard deviation is at least 0",
        ),
        _ => return true,
    };
    diags.error(Code::E0015, span, fault).help(help);
    false
}
