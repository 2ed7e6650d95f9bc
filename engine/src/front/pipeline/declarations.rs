//! Declarations: extents, data, inputs, parameters.

use super::types::{Dims, read_type};
use crate::diag::{Code, Diagnostics, Span, Spanned};
use crate::front::fields::report_unknown;
use crate::front::{Fields, Ron, RonKind, entries};
use crate::ir::{Attr, DType, InputKind, Literal, Symbol, Type};
use crate::pipeline::{DataDecl, Init, InputDecl, ParamDecl};
use crate::text::lex::shorten;

/// `dims: {"H": 256}`
pub(super) fn read_dims(value: &Ron, diags: &mut Diagnostics) -> Dims {
    let mut dims = Dims::new();
    for (name, value) in entries(value, "`dims`", diags).unwrap_or_default() {
        let extent = value.integer("an extent", 0..=1 << 40, diags);
        dims.extend(extent.map(|extent| (name.value.to_owned(), extent)));
    }
    dims
}

/// `data: {"digits": (source: "mnist", …)}`
pub(super) fn read_data(value: &Ron, diags: &mut Diagnostics) -> Vec<DataDecl> {
    let mut data = vec![];
    for (name, value) in entries(value, "`data`", diags).unwrap_or_default() {
        let Some(all) = entries(value, "a data source", diags) else {
            continue;
        };
        let source = all.iter().find(|(field, _)| field.value == "source");
        if source.is_none() {
            diags
                .error(Code::E0011, value.span, "a data source needs the field `source`")
                .help("add `source: \"mnist\"`, or another source that the engine knows");
        }
        let source = source.and_then(|(_, v)| v.word("`source`", diags)).map(|word| word.value.to_owned());
        let options = all.iter().filter(|(field, _)| field.value != "source");
        let options = options.filter_map(|(field, value)| Some((field.value.into(), option(value, diags)?)));
        let options = options.collect();
        data.push(DataDecl {
            name: name.value.into(),
            source: source.unwrap_or_default(),
            options,
            span: Some(name.span),
        });
    }
    data
}

fn option(value: &Ron, diags: &mut Diagnostics) -> Option<Attr> {
    match &value.kind {
        RonKind::Bool(b) => Some(Attr::from(*b)),
        RonKind::Float(x) => Some(Attr::from(*x)),
        RonKind::Str(_) => value.string("an option", diags).map(|text| Attr::from(&*text.to_string())),
        _ => value.integer("an option", i64::MIN..=i64::MAX, diags).map(Attr::from),
    }
}

/// `inputs: {"image": (type: "u8[B, 784]", from: "digits.images")}`; a type alone is fed by the caller.
pub(super) fn read_inputs(
    value: &Ron,
    data: &[DataDecl],
    dims: &Dims,
    diags: &mut Diagnostics,
) -> Vec<(InputDecl, Option<Type>)> {
    let mut inputs = vec![];
    for (name, value) in entries(value, "`inputs`", diags).unwrap_or_default() {
        let (ty, from) = match &value.kind {
            RonKind::Str(_) => (read_type(value, dims, diags), None),
            _ => read_input(value, data, dims, diags),
        };
        inputs.push((InputDecl { name: name.value.into(), from, span: Some(name.span) }, ty));
    }
    inputs
}

type From = Option<(Symbol, Symbol)>;

fn read_input(value: &Ron, data: &[DataDecl], dims: &Dims, diags: &mut Diagnostics) -> (Option<Type>, From) {
    let Some(mut fields) = Fields::of(value, "an input", diags) else {
        return (None, None);
    };
    let ty = fields.required("type").and_then(|v| read_type(v, dims, diags));
    let from = fields.optional("from").and_then(|v| read_path(v, "digits.images", data, diags));
    fields.finish(diags);
    (ty, from)
}

/// A data source of the pipeline and one of its fields or splits: `digits.images`.
pub(super) fn read_path(value: &Ron, example: &str, data: &[DataDecl], diags: &mut Diagnostics) -> From {
    let text = value.string("a part of a data source", diags)?;
    let Some((source, part)) = text.split_once('.') else {
        let message = format!("`{}` names no part of a data source", shorten(text));
        diags.error(Code::E0203, text.whole(), message).help(format!("it looks like `{example}`"));
        return None;
    };
    if !data.iter().any(|decl| &*decl.name == source) {
        let written = Spanned::new(text.span(0, source.len()), source);
        let known = data.iter().map(|decl| &*decl.name);
        report_unknown(Code::E0202, written, "there is no data source", known, diags);
        return None;
    }
    Some((source.into(), part.into()))
}

type Param = (Symbol, Span, Option<ParamDecl>);

/// `params: {"w1": (type: "f32[784, 256]", init: Kaiming)}`; a type alone starts at zero.
pub(super) fn read_params(value: &Ron, dims: &Dims, diags: &mut Diagnostics) -> Vec<Param> {
    let mut params = vec![];
    for (name, value) in entries(value, "`params`", diags).unwrap_or_default() {
        let param = match &value.kind {
            RonKind::Str(_) => {
                read_type(value, dims, diags).map(|ty| (InputKind::Param, ty, value.span, Init::Zeros))
            }
            _ => read_param(value, dims, diags),
        };
        let param = param.filter(|(kind, ty, span, init)| check_param(*kind, ty, *span, init, diags));
        let decl = |(kind, ty, _, init)| ParamDecl {
            name: name.value.into(),
            kind,
            ty,
            init,
            span: Some(name.span),
        };
        params.push((name.value.into(), name.span, param.map(decl)));
    }
    params
}

fn read_param(value: &Ron, dims: &Dims, diags: &mut Diagnostics) -> Option<(InputKind, Type, Span, Init)> {
    let mut fields = Fields::of(value, "a parameter", diags)?;
    let written = fields.required("type");
    let ty = written.and_then(|v| read_type(v, dims, diags));
    let state = fields.optional("state").and_then(|v| v.boolean("`state`", diags)).unwrap_or(false);
    let written_init = fields.optional("init");
    let init = written_init.map_or(Some(Init::Zeros), |v| read_init(v, diags));
    fields.finish(diags);
    if let (Some(init), Some(ty), Some(written)) = (&init, &ty, written_init)
        && let Some(value) = beyond(init, ty.dtype)
    {
        let message = format!("`{value}` is no element of {}", ty.dtype);
        diags
            .error(Code::E0114, written.span, message)
            .help("write a number that the type has, or a wider type");
        return None;
    }
    let kind = if state { InputKind::State } else { InputKind::Param };
    Some((kind, ty?, written?.span, init?))
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

fn read_init(value: &Ron, diags: &mut Diagnostics) -> Option<Init> {
    let names = ["Zeros", "Ones", "Constant", "Uniform", "Normal", "Xavier", "Kaiming"];
    let Some(head) = value.head() else {
        return value.literal("`init`", diags).map(Init::Constant);
    };
    let order: &[&str] = match head.value {
        "Constant" => &["value"],
        "Uniform" => &["low", "high"],
        "Normal" => &["mean", "std"],
        _ => &[],
    };
    let mut fields = Fields::of_choice(value, "an initialiser", order, diags)?;
    let mut number = |name| fields.required(name).and_then(|v| v.number(name, diags));
    let init = match head.value {
        "Zeros" => Some(Init::Zeros),
        "Ones" => Some(Init::Constant(Literal::Int(1))),
        "Constant" => fields.required("value").and_then(|v| v.literal("value", diags)).map(Init::Constant),
        "Uniform" => number("low").zip(number("high")).map(|(low, high)| Init::Uniform { low, high }),
        "Normal" => number("mean").zip(number("std")).map(|(mean, std)| Init::Normal { mean, std }),
        "Xavier" => Some(Init::Xavier),
        "Kaiming" => Some(Init::Kaiming),
        _ => {
            report_unknown(Code::E0014, head, "there is no initialiser", names, diags);
            return None;
        }
    };
    fields.finish(diags);
    init.filter(|init| check_init(init, value.span, diags))
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
